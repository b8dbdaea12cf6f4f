"""Calibrators of binary scores: the kinds of data that they take, what is saved, and what they refuse."""

import json
import pickle
import warnings

import numpy as np
import pytest
import reference
from binary_scores import FEATURES, LABELS, SCORES, THREE, N, drawn
from optional import pd, torch
from scipy.special import expit
from sklearn.base import clone

import nishimori
from nishimori import Beta, Platt
from nishimori.calibrators import Quadratic
from nishimori.errors import InputError, InputWarning, NotConvergedError


@pytest.mark.parametrize(("factor", "shift"), [(1e-6, 0), (1e6, 0), (1.0, 1e4), (1e3, -1e6), (1.0, 1e6)])
@pytest.mark.parametrize("kind", [Platt, Quadratic])
def test_neither_the_unit_nor_the_zero_of_the_scores_matters(kind, factor, shift):
    expected = kind().fit(SCORES, LABELS)
    fitted = kind(input="logits").fit(factor * SCORES + shift, LABELS)
    np.testing.assert_allclose(fitted.predict_proba(factor * SCORES + shift), expected.predict_proba(SCORES), atol=2e-5)


@THREE
def test_logits_probabilities_and_flat_scores_are_the_same(kind):
    flat = kind().fit(SCORES, LABELS)
    p = expit(SCORES)
    both = np.column_stack([np.full(N, 3.0), SCORES + 3.0])
    for X, options in ((both, {}), (p, of_p := {"input": "probabilities", "floor": None}), (np.column_stack([1 - p, p]), of_p)):
        fitted = kind(**options).fit(X, LABELS)
        assert fitted.parameters_ == pytest.approx(flat.parameters_, rel=1e-7)
        np.testing.assert_allclose(fitted.predict_proba(X), flat.predict_proba(SCORES), atol=1e-9)


@THREE
def test_probabilities_of_zero_are_raised_to_the_floor(kind):
    p = np.where(SCORES < -2, 0.0, np.where(SCORES > 3.5, 1.0, expit(SCORES)))
    fitted = kind(input="probabilities", floor=0.01).fit(p, LABELS)
    raised = np.log(np.maximum(p, 0.01)) - np.log(np.maximum(1 - p, 0.01))
    assert fitted.parameters_ == pytest.approx(kind().fit(raised, LABELS).parameters_, rel=1e-7)
    with pytest.warns(InputWarning, match=r"^The true class has probability 0 in \d+ of 600 samples, so the fit depends on"):
        kind(input="probabilities", floor=None).fit(p, LABELS)


@THREE
def test_files_tensors_and_other_libraries_give_the_same(kind, tmp_path):
    expected = kind().fit(SCORES, LABELS).parameters_
    logits = np.column_stack([np.zeros(N), SCORES])
    np.save(tmp_path / "logits.npy", logits)
    assert kind().fit(nishimori.rows(tmp_path / "logits.npy", LABELS)).parameters_ == pytest.approx(expected, rel=1e-9)
    tensors = torch.tensor(SCORES), torch.tensor(LABELS)
    fitted = kind().fit(*tensors)
    assert fitted.parameters_ == pytest.approx(expected, rel=1e-9)
    assert isinstance(fitted.predict_proba(tensors[0]), torch.Tensor)
    strict = pytest.importorskip("array_api_strict")
    assert kind().fit(strict.asarray(logits), strict.asarray(LABELS)).parameters_ == pytest.approx(expected, rel=1e-9)
    single = kind().fit(SCORES.astype(np.float32), LABELS)
    assert single.parameters_ == pytest.approx(expected, rel=1e-4)
    assert single.predict_proba(SCORES.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("options", [{"smooth_labels": False}, {}], ids=["plain", "smoothed"])
@pytest.mark.parametrize("scores", [SCORES, 2 - np.abs(SCORES)], ids=["usual", "bent"])
@THREE
def test_passes_are_counted(kind, scores, options):
    readings = 0
    logits = np.column_stack([np.zeros(N), scores])

    def batches():
        nonlocal readings
        readings += 1
        yield from ((logits[i : i + 200], LABELS[i : i + 200]) for i in (0, 200, 400))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        fitted = kind(**options).fit(nishimori.rows(batches))
        expected = kind(**options).fit(scores, LABELS)
    assert fitted.n_passes_ == readings - 1  # the first batch is looked at before, for the number of classes
    assert fitted.parameters_ == pytest.approx(expected.parameters_, rel=1e-7, abs=1e-9)


@THREE
def test_rows_of_weight_zero_may_hold_anything(kind):
    scores, labels = np.append(SCORES, np.nan), np.append(LABELS, 7)
    fitted = kind().fit(scores, labels, np.append(np.ones(N), 0.0))
    assert fitted.parameters_ == pytest.approx(kind().fit(SCORES, LABELS).parameters_, rel=1e-9)


@THREE
def test_string_classes_are_predicted(kind):
    fitted = kind(classes=["no", "yes"]).fit(SCORES, np.where(LABELS == 1, "yes", "no"))
    assert set(fitted.predict([-5.0, 2.5])) == {"no", "yes"}


VERSIONS = {"platt": 3, "quadratic": 4, "beta": 4, "beta am": 4, "beta ab": 4}


@pytest.mark.parametrize("smooth_labels", [False, True])
@pytest.mark.parametrize("name", FEATURES)
def test_a_saved_calibrator_is_the_same_again(name, smooth_labels, tmp_path):
    calibrator, _ = FEATURES[name]
    fitted = clone(calibrator).set_params(smooth_labels=smooth_labels).fit(SCORES, LABELS)
    fitted.save(tmp_path / "map.json")
    assert json.loads((tmp_path / "map.json").read_text(encoding="utf-8"))["format_version"] == VERSIONS[name]
    for again in (nishimori.load(tmp_path / "map.json"), pickle.loads(pickle.dumps(fitted))):
        assert type(again) is type(calibrator)
        assert again.get_params() == fitted.get_params()
        np.testing.assert_array_equal(again.predict_proba(SCORES), fitted.predict_proba(SCORES))
        for attribute in ("parameters_", "parameters_se_", "why_no_se_", "residual_", "n_samples_"):
            assert getattr(again, attribute) == getattr(fitted, attribute)


def test_a_file_without_errors_says_so(tmp_path):
    Quadratic(smooth_labels=False).fit(SCORES, LABELS).save(tmp_path / "map.json")
    record = json.loads((tmp_path / "map.json").read_text(encoding="utf-8"))
    record["provenance"]["estimates"] = None
    (tmp_path / "map.json").write_text(json.dumps(record), encoding="utf-8")
    loaded = nishimori.load(tmp_path / "map.json")
    assert loaded.parameters_se_ is None
    assert loaded.why_no_se_.startswith("The file from which the calibrator was loaded holds no standard errors.")


@THREE
def test_it_is_evaluated_and_compared(kind):
    fitted = kind().fit(SCORES, LABELS)
    new, labels = drawn(500, seed=9)
    mapped = np.column_stack([np.zeros(500), fitted.transform(new)])
    card = nishimori.evaluate(new, labels, calibrator=fitted)
    assert card.nll == pytest.approx(reference.nll(mapped, labels), rel=1e-9)
    one = nishimori.TemperatureScaling().fit(SCORES, LABELS)
    with pytest.warns(InputWarning, match="one temperature cannot correct that"):
        found = nishimori.compare(SCORES, LABELS, new, labels, methods=("ts", fitted.method_name))
    assert f"{fitted.method_name}" in str(found)
    assert card.nll < nishimori.evaluate(new, labels, temperature=one.temperature_).nll


@THREE
def test_traits_say_what_it_does(kind):
    traits = kind.traits
    assert (traits.keeps_predictions, traits.streams, traits.from_sketch, traits.error_bars) == (False, True, False, False)
    assert traits.n_classes == "two"
    assert (kind().fit(SCORES, LABELS).predict(SCORES) != (SCORES > 0)).any()


@THREE
def test_scikit_learn_may_copy_cut_and_mix_the_data(kind):
    logits = np.column_stack([np.zeros(N), SCORES])
    fitted = kind().fit(logits, LABELS)
    parameters, attributes = fitted.get_params(), dict(vars(fitted))
    order = np.random.default_rng(0).permutation(N)
    for output in ("predict", "predict_proba", "predict_log_proba", "transform"):
        whole = getattr(fitted, output)(logits)
        np.testing.assert_allclose(getattr(fitted, output)(np.asfortranarray(logits)[order]), whole[order], rtol=1e-12)
        one_by_one = np.concatenate([getattr(fitted, output)(row[None, :]) for row in logits[:20]])
        np.testing.assert_allclose(one_by_one, whole[:20], rtol=1e-12)
    assert all(vars(fitted)[name] is value for name, value in attributes.items())
    assert clone(fitted).get_params() == parameters
    assert kind().fit(logits, LABELS).fit(logits, LABELS).parameters_ == fitted.parameters_
    weights = np.arange(N) % 4
    expected = kind().fit(logits, LABELS, sample_weight=weights).parameters_
    for given in (pd.Series(weights), weights.tolist(), weights.astype(np.float32)):
        assert kind().fit(pd.DataFrame(logits), LABELS, sample_weight=given).parameters_ == expected


MASKED = np.column_stack([np.zeros(N), SCORES])
MASKED[3, 0] = -np.inf
CONSTANT = np.full(N, 1.3)
REFUSED = {
    "three classes": (
        lambda kind: kind().fit(*reference.drawn(60, 3)),
        "`X` must have two classes for the method '{method}', got 3. Only binary classification is supported. Use 'vector' or "
        "'matrix', which "
        "work for any number of classes.",
    ),
    "one class": (
        lambda kind: kind(classes=["no", "yes"]).fit(SCORES, np.full(N, "yes")),
        "`y` must have samples of both classes, got only class 'yes'. Use more validation samples.",
    ),
    "the other class": (
        lambda kind: kind().fit(nishimori.rows([(MASKED[4:], 0 * LABELS[4:])])),
        "`labels` must have samples of both classes, got only class 0. Use more validation samples.",
    ),
    "constant": (
        lambda kind: kind().fit(CONSTANT, LABELS),
        "`X` must have different scores, got the same log-odds 1.3 for all 600 samples: no function of them tells the classes "
        "apart. Check that `X` holds the scores of the model.",
    ),
    "masks": (
        lambda kind: kind().fit(MASKED, LABELS),
        "`X` must not have masked classes (-inf) where numbers are added to classes. Use a method with temperatures only, such "
        "as 'ec' or 'group'.",
    ),
    "infinite scores": (
        lambda kind: kind().fit(np.where(SCORES > 2, np.inf, SCORES), LABELS),
        "`X` must not contain NaN or +inf, got inf in row {row}. Drop those rows or find where the model produced them; -inf "
        "is allowed and masks a class.",
    ),
    "sketch": (
        lambda kind: kind().fit(nishimori.Sketch().update(SCORES, LABELS)),
        "A Sketch keeps sums, and has no rows to read. Pass logits and labels instead.",
    ),
    "counted clusters": (
        lambda kind: kind().fit(SCORES, LABELS, clusters=np.arange(N) // 2, counts=True),
        "`counts` must be False where `clusters` is given: copies of a sample belong to its cluster.",
    ),
    "smooth_labels": (
        lambda kind: kind(smooth_labels="yes").fit(SCORES, LABELS),
        "`smooth_labels` must be True or False, got 'yes'.",
    ),
    "another number of classes": (
        lambda kind: kind().fit(SCORES, LABELS).predict_proba(np.zeros((2, 3))),
        "X has 3 features, but {name} is expecting 2 features as input. Pass scores of the same model.",
    ),
    "groups": (
        lambda kind: kind().fit(SCORES, LABELS).predict_proba(SCORES, groups=LABELS),
        "`groups` must be left out: this calibrator treats all groups alike.",
    ),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
@THREE
def test_what_cannot_work_is_refused(kind, call, message):
    with pytest.raises(InputError) as error:
        call(kind)
    assert str(error.value) == message.format(name=kind.__name__, method=kind().method_name, row=int(np.argmax(SCORES > 2)))


def test_an_unknown_variant_is_refused():
    with pytest.raises(InputError) as error:
        Beta(variant="abc").fit(SCORES, LABELS)
    assert str(error.value) == "`variant` must be 'abm', 'am' or 'ab', got 'abc'."


def test_too_few_different_scores_do_not_determine_three_parameters():
    with pytest.raises(NotConvergedError) as error:
        Quadratic().fit(np.where(np.arange(40) % 2, 1.0, -1.0), np.arange(40) % 3 == 0)
    assert str(error.value) == (
        "The parameters of Quadratic are not determined. The usual causes are that there are too few different scores, or that "
        "rounding hides the differences between them. Use more validation samples, scores of a larger "
        "size, or a method with fewer parameters, such as 'platt' or 'ts'."
    )


@pytest.mark.parametrize("smooth_labels", [True, False])
def test_scores_that_rounding_makes_equal_are_not_said_to_have_the_wrong_order(smooth_labels):
    with pytest.raises(NotConvergedError, match="of Beta"):  # and no warning, which would be an error
        Beta(smooth_labels=smooth_labels).fit(1e-18 * SCORES, LABELS)
