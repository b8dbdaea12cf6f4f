"""`compare` and the report try the same methods by default, and recommend the same, never what raises the loss."""

import warnings

import numpy as np
import pytest
import reference

import nishimori
from nishimori._evaluation.compared_methods import ONE_TEMPERATURE, fit_usual
from nishimori.errors import FewErrorsWarning, InputWarning


def random_data(seed):
    """Validation and test data of one of several kinds of models: `(logits, labels)` twice, and the options of both."""
    rng = np.random.default_rng(seed)
    kind, K, n = seed % 4, int(rng.integers(2, 6)), int(rng.integers(150, 400))
    scale, bias = rng.uniform(1, 5), rng.normal(size=K) * (kind == 1)
    logits = scale * rng.normal(size=(2 * n, K))
    T = rng.choice([0.6, 1.0, 1.0, 2.0])
    labels = (logits / T + bias + rng.gumbel(size=logits.shape)).argmax(axis=1)
    if kind == 3:  # votes of a forest of 20 trees: probabilities with zeros, also at true classes
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        p = np.array([rng.multinomial(20, each / each.sum()) for each in p]) / 20
        return (p[:n], labels[:n]), (p[n:], labels[n:]), {"input": "probabilities"}
    return (logits[:n], labels[:n]), (logits[n:], labels[n:]), {"input": "logits"}


@pytest.mark.parametrize("start", range(0, 64, 8))
def test_compare_and_report_recommend_the_same_and_nothing_that_raises_the_loss(start):
    recommended = 0
    for seed in range(start, start + 8):
        validation, test, options = random_data(seed)
        if seed % 3 == 0 and options["input"] == "probabilities":
            options["floor"] = "auto"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)
            warnings.simplefilter("ignore", FewErrorsWarning)
            found = nishimori.compare(*validation, *test, **options)
            page = nishimori.Report(*validation, *test, **options).to_dict()
        assert {each.method for each in found} == {each["method"] for each in page["methods"]}
        advised, shown = found.recommendation, page["recommendation"]
        assert list(advised.sentences) == shown["sentences"]
        assert advised.action == shown["action"]
        none = found["none"].scorecard.nll
        for name in ("simplest", "best"):
            its = getattr(advised, name)
            assert (None if its is None else its.method) == (shown[name] or {}).get("method")
            if its is not None:
                assert found[its.method].scorecard.nll <= none, (seed, name)
                recommended += 1
    assert recommended


def test_a_temperature_whose_loss_is_above_that_of_no_calibration_is_not_recommended_even_if_not_significantly():
    # The model is calibrated, so that a fitted T is off by its noise alone.
    seen = 0
    for seed in range(12):
        logits, labels = reference.drawn(600, 3, temperature=1.0, seed=seed)
        found = nishimori.compare(logits[:200], labels[:200], logits[200:], labels[200:], methods=("none", "ts"))
        p = [np.exp(logits[200:] / T) for T in (1.0, found["ts"].temperature)]
        before, after = (-np.log(each / each.sum(1, keepdims=True))[np.arange(400), labels[200:]].mean() for each in p)
        assert (found.recommendation.simplest is not None) == (after <= before)
        assert (found.recommendation.best is not None) <= (after <= before)
        seen += after > before
    assert seen


def test_sentences_that_compare_say_among_which_methods():
    (logits, labels), (test_logits, test_labels), _ = random_data(1)
    found = nishimori.compare(logits, labels, test_logits, test_labels, methods=("ec", "none", "vector"))
    assert sum(", the best of none, ec and vector: " in each for each in found.verdicts) == 1
    calm = reference.drawn(1500, 4, temperature=1.0)
    found = nishimori.compare(calm[0][:700], calm[1][:700], calm[0][700:], calm[1][700:], methods=("ts", "none", "ec"))
    text = " ".join(found.verdicts)
    assert "one of ec and ts has a significantly lower NLL than no calibration" in text


def test_two_classes_have_platt_and_beta_and_more_classes_have_biases():
    two, three = (
        {each.method for each in nishimori.compare(*reference.drawn(600, k, temperature=2.0), *reference.drawn(600, k, seed=5))}
        for k in (2, 3)
    )
    assert two == {*ONE_TEMPERATURE, "class temperatures", "platt", "beta", "vector"}
    assert three == {*ONE_TEMPERATURE, "class temperatures", "bias", "vector"}


def test_methods_that_would_take_long_are_left_out_and_named():
    class Large(np.ndarray):
        pass

    rows = nishimori.rows(*reference.drawn(300, 3))
    meaning = {"input": "logits", "classes": None, "floor": None}
    assert not fit_usual(rows, None, meaning)[1]

    class ManyRows(type(rows)):
        n_rows = 10**9

    rows.__class__ = ManyRows
    _, left_out = fit_usual(rows, None, meaning)
    assert set(left_out) == {"class temperatures", "bias", "vector"}
    assert all(" s, more than 5 s; name it to try it" in why for why in left_out.values())


def test_a_usual_method_that_the_data_do_not_determine_is_named_in_the_result():
    logits, labels = reference.drawn(400, 3)
    logits[3, (labels[3] + 1) % 3] = -np.inf  # a mask, which affine maps refuse
    found = nishimori.compare(logits, labels, logits[::-1], labels[::-1])
    assert set(found.left_out) == {"bias", "vector"}
    assert any(each.startswith("vector was not compared: ") for each in found.verdicts)
    page = nishimori.Report(logits, labels, logits[::-1], labels[::-1]).to_dict()
    assert {"The method bias", "The method vector"} <= {each["what"] for each in page["absent"]}
