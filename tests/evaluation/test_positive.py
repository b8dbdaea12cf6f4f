"""Two classes: mean p(1) minus prevalence, and the ECE of the positive class, against plain NumPy."""

import warnings

import numpy as np
import pytest

import nishimori
from nishimori.errors import InputError, InputWarning
from nishimori.testing import assert_calibrated


def drawn(n=3000, seed=0, shift=-2.0):
    """A flat logit, and labels that are rarer than it says by ``shift`` in log-odds."""
    rng = np.random.default_rng(seed)
    z = 2 * rng.normal(size=n)
    return z, (rng.random(n) < 1 / (1 + np.exp(-z - shift))).astype(int)


def reference(z, labels, temperature, weights, clusters=None):
    """The positive gap with its standard error, and the ECE in 15 bins."""
    p = 1 / (1 + np.exp(-z / temperature))
    share = weights / weights.sum()
    gap = share @ (p - labels)
    deviations = np.bincount(np.arange(len(z)) if clusters is None else clusters, share * (p - labels - gap))
    variance = max(deviations @ deviations, (share**2 * p * (1 - p)).sum())
    place = np.clip(np.ceil(15 * p).astype(int) - 1, 0, 14)
    ece = sum(abs((share * (p - labels))[place == b].sum()) for b in range(15))
    return gap, np.sqrt(variance), ece


@pytest.mark.parametrize("temperature", [0.6, 1.0, 2.5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("further", [[], ["ks"]], ids=["kernel", "rows"])
def test_both_are_what_numpy_gives(temperature, dtype, flat, weighted, further):
    z, labels = drawn()
    z = z.astype(dtype)
    weights = np.random.default_rng(1).random(len(z)) if weighted else np.ones(len(z))
    logits = z if flat else np.stack([np.zeros_like(z), z], axis=1)
    options = {"sample_weight": weights} if weighted else {}
    card = nishimori.evaluate(logits, labels, temperature=temperature, metrics=further, **options)
    gap, error, ece = reference(z.astype(float), labels, temperature, weights)
    np.testing.assert_allclose([card.positive_gap, card.positive_gap_se, card.positive_ece], [gap, error, ece], rtol=1e-9)
    low, high = card.interval("positive_gap")
    np.testing.assert_allclose([low, high], [gap - 1.959964 * error, gap + 1.959964 * error], rtol=1e-6)
    assert 0 < card.positive_ece_se < 0.1
    measured = [nishimori.metrics.positive_gap, nishimori.metrics.positive_ece]
    values = [each(logits, labels, temperature=temperature, **options) for each in measured]
    np.testing.assert_allclose(values, [gap, ece], rtol=1e-9)


def test_clusters_and_probabilities_give_the_same_values():
    z, labels = drawn()
    p = 1 / (1 + np.exp(-z))
    gap, _, ece = reference(z, labels, 1.0, np.ones(len(z)))
    clustered = nishimori.evaluate(z, labels, clusters=np.arange(len(z)) // 3)
    stated = nishimori.evaluate(p, labels, input="probabilities")
    for card in (clustered, stated):
        np.testing.assert_allclose([card.positive_gap, card.positive_ece], [gap, ece], rtol=1e-9)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("event", [True, False], ids=["some true", "none true"])
def test_the_error_of_clusters_is_not_less_than_that_of_a_calibrated_model(weighted, size, event):
    z = 0.5 * np.random.default_rng(0).normal(size=200) - 4.5
    labels = np.zeros(200, dtype=int)
    labels[:4] = event
    weights = np.random.default_rng(1).random(200) if weighted else np.ones(200)
    clusters = np.arange(200) // size
    card = nishimori.evaluate(z, labels, sample_weight=weights, clusters=clusters)
    gap, error, _ = reference(z, labels, 1.0, weights, clusters)
    np.testing.assert_allclose([card.positive_gap, card.positive_gap_se], [gap, error], rtol=1e-9)
    np.testing.assert_allclose(card.gap_se, error, rtol=1e-9)  # all are predicted to be of class 0
    assert card.positive_gap_se > 0.0075
    if size == 1:
        alone = nishimori.evaluate(z, labels, sample_weight=weights)
        np.testing.assert_allclose(
            [card.positive_gap_se, card.gap_se, card.ece_se, *card.interval("ece")],
            [alone.positive_gap_se, alone.gap_se, alone.ece_se, *alone.interval("ece")],
            rtol=1e-9,
        )


def test_a_calibrated_model_of_rare_positives_in_clusters_brings_no_warning():
    rng = np.random.default_rng(0)
    said, calibrated = 0, nishimori.calibrator("none").fit(*drawn())
    for _ in range(200):
        z = rng.normal(size=200) * 0.5 - 5
        labels = (rng.random(200) < 1 / (1 + np.exp(-z))).astype(int)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            nishimori.evaluate(z, labels, calibrator=calibrated, clusters=np.arange(200) // 2)
        said += any(WARNING in str(each.message) for each in caught)
    assert said <= 3  # one in a thousand is expected


def test_they_are_in_tables_and_files_of_two_classes_and_in_no_others():
    z, labels = drawn()
    two = nishimori.evaluate(z, labels)
    assert "positive gap in points" in str(two)
    assert "bias-corrected positive ECE" in str(two)
    assert {"positive_gap", "positive_gap_se", "positive_ece", "positive_ece_corrected"} <= set(two.to_dict())
    logits = np.random.default_rng(0).normal(size=(500, 3))
    three = nishimori.evaluate(logits, logits.argmax(axis=1))
    assert "positive" not in str(three)
    assert not any("positive" in name for name in three.to_dict())
    assert "positive_gap" in nishimori.diff(two, nishimori.evaluate(*drawn(seed=1))).to_json()


def test_paired_differences_are_those_of_the_rows():
    z, labels = drawn()
    found = nishimori.compare(z, labels, methods=(1.0, 2.0))
    change = found["T=2"].differences["positive_gap"]
    d = 1 / (1 + np.exp(-z / 2)) - 1 / (1 + np.exp(-z))
    np.testing.assert_allclose([change.value, change.se], [d.mean(), d.std() / np.sqrt(len(d))], rtol=1e-9)
    assert found["T=2"].differences["positive_ece"].se is not None


def test_a_gate_bounds_both_and_refuses_them_for_other_numbers_of_classes():
    found = nishimori.gate(*drawn(), bounds={"positive_gap": 0.02, "positive_ece": 0.02})
    assert [each.verdict for each in found.checks] == ["fail", "fail"]
    right = nishimori.gate(*drawn(20000, shift=0.0), bounds={"positive_gap": 0.02, "positive_ece": 0.03})
    assert right.verdict == "pass"
    logits = np.random.default_rng(0).normal(size=(500, 3))
    with pytest.raises(InputError, match="positive_gap"):
        nishimori.gate(logits, logits.argmax(axis=1), bounds={"positive_gap": 0.02})
    with pytest.raises(InputError, match="2 classes"):
        nishimori.metrics.positive_ece(logits, logits.argmax(axis=1))


def test_few_positives_prove_nothing_to_a_gate():
    rng = np.random.default_rng(0)
    z = rng.normal(size=2000) - 7
    labels = np.zeros(2000, dtype=int)
    labels[:3] = 1
    assert nishimori.gate(z, labels, bounds={"positive_gap": 0.002}).verdict == "inconclusive"


def test_a_gate_proves_no_more_of_the_ece_of_few_positives_than_of_their_gap():
    z = np.random.default_rng(0).normal(size=2000) - 2
    found = nishimori.gate(z, (np.arange(2000) < 6).astype(int), bounds={"positive_gap": 0.1, "positive_ece": 0.1})
    assert found["positive_ece"].low <= found["positive_gap"].low
    assert found["positive_ece"].high >= found["positive_gap"].high


def rare(seed):
    """About 5.5 % positives, and the scores of a logistic regression with balanced classes."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(12000, 6))
    labels = (rng.random(12000) < 1 / (1 + np.exp(5.2 - 2 * x[:, 0] - x[:, 1]))).astype(int)
    model = linear_model.LogisticRegression(class_weight="balanced").fit(x[:4000], labels[:4000])
    z = model.decision_function(x)
    return (z[4000:8000], labels[4000:8000]), (z[8000:], labels[8000:])


OFF = "one temperature cannot correct that."
WARNING = f"{OFF} Use the method best or platt"


def test_one_temperature_that_leaves_the_positive_class_off_is_a_warning_that_names_what_helps():
    validation, test = rare(0)
    assert 0.03 < test[1].mean() < 0.08
    fitted = nishimori.calibrator("adaptive").fit(*validation)
    with pytest.warns(InputWarning, match=WARNING):
        card = nishimori.evaluate(*test, calibrator=fitted)
    assert abs(card.gap) < 3 * card.gap_se
    assert card.positive_gap > 0.05
    for better in ("platt", "best"):
        after = nishimori.evaluate(*test, calibrator=nishimori.calibrator(better).fit(*validation))
        assert abs(after.positive_gap) < 0.02
        assert after.nll < card.nll


def test_compare_and_reports_warn_of_it_as_well():
    validation, test = rare(0)
    with pytest.warns(InputWarning, match=WARNING):
        found = nishimori.compare(*validation, *test)
    assert found.recommendation.choice in ("platt", "beta", "vector")
    assert any(each.endswith(OFF) for each in found.verdicts)  # what helps is recommended already
    with pytest.warns(InputWarning, match=WARNING):
        report = nishimori.Report(*validation, *test)
    assert any(each.endswith(OFF) for each in report.to_dict()["verdict"]["sentences"])
    with pytest.warns(InputWarning, match=WARNING):
        found = nishimori.compare(*validation, *test, methods=("none", "adaptive"))
    assert any(WARNING in each for each in found.verdicts)


def test_a_gate_warns_of_it_unless_a_bound_is_on_the_second_class():
    """What ``ece`` and ``gap`` of the predicted class let pass, ``positive_gap`` does not."""
    validation, test = rare(0)
    mean = nishimori.TemperatureScaling().fit(*validation).predict_proba(test[0])[:, 1].mean()
    about = f"the mean probability of the second class is {100 * mean:.3g} %, but its share of the samples is "
    about += f"{100 * test[1].mean():.3g} %: {WARNING}"
    fitted = nishimori.TemperatureScaling().fit(*validation)
    bounds = {"ece": 0.06, "gap": 0.06}
    with pytest.warns(InputWarning, match=f"^After `calibrator` {about}"):
        assert nishimori.gate(*test, calibrator=fitted, bounds=bounds).verdict == "pass"
    with pytest.warns(InputWarning, match=f"^After `calibrator` {about}") as warned:
        assert_calibrated(*test, calibrator=fitted, bounds=bounds)
    assert warned[0].filename == __file__
    with pytest.warns(InputWarning, match=f"^After T = {fitted.temperature_:.4g} {about}"):
        nishimori.gate(*test, temperature=fitted.temperature_, bounds=bounds)
    with pytest.warns(InputWarning, match="^After T = 1 the mean"):
        nishimori.gate(*test, bounds=bounds)
    assert nishimori.gate(*test, calibrator=fitted, bounds=bounds | {"positive_gap": 0.02}).verdict == "fail"
    platt = nishimori.calibrator("platt").fit(*validation)
    assert nishimori.gate(*test, calibrator=platt, bounds=bounds | {"gap": 0.02}).verdict == "pass"


def test_a_calibrated_model_of_two_classes_brings_no_warning():
    (z, labels), (z_test, labels_test) = drawn(4000, 0, 0.0), drawn(4000, 1, 0.0)
    fitted = nishimori.calibrator("adaptive").fit(z, labels)
    nishimori.evaluate(z_test, labels_test, calibrator=fitted)
    nishimori.gate(z_test, labels_test, calibrator=fitted, bounds={"ece": 0.5})
    nishimori.compare(z, labels, z_test, labels_test)


def test_what_was_named_and_cannot_be_measured_is_refused():
    z, labels = drawn()
    sketch = nishimori.Sketch().update(z, labels)
    logits = np.random.default_rng(0).normal(size=(500, 3))
    named = ["positive_gap", "positive_ece", nishimori.metrics.positive_gap]
    for each in named:
        assert "positive_gap" in nishimori.evaluate(z, labels, metrics=[each]).to_dict()
        for measure in (nishimori.evaluate, nishimori.compare):
            with pytest.raises(
                InputError, match=r"metric positive_(gap|ece) must be left out unless there are 2 classes, got 3"
            ):
                measure(logits, logits.argmax(axis=1), metrics=[each])
            with pytest.raises(
                InputError, match=r"must be metrics that a Sketch supports, got 'positive_(gap|ece)'. Pass logits and labels"
            ):
                measure(sketch, metrics=[each])
    with pytest.raises(InputError, match="must be metrics that a Sketch supports, got 'positive_gap'"):
        nishimori.gate(sketch, bounds={"positive_gap": 0.1})
    assert "positive_gap" not in nishimori.evaluate(sketch, metrics=["ece"]).to_dict()
