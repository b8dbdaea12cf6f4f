"""Valid data always have a calibrator: where a method has no solution, labels are smoothed, and a warning says so."""

import json

import numpy as np
import pytest
import reference

import nishimori
from nishimori import (
    BiasCorrected,
    ExpectationConsistency,
    GroupConsistency,
    Isotonic,
    Platt,
    TemperatureScaling,
    TopK,
    VectorScaling,
    calibrator,
)
from nishimori._calibrators.rescue import fit_always
from nishimori._methods.table import BUILT_IN
from nishimori.errors import DegenerateDataError, InputError, InputWarning, NoTemperatureError

LOGITS, LABELS = reference.drawn(60, 3)
RIGHT = LOGITS.argmax(axis=1)
SMOOTH = TemperatureScaling(smooth_labels=True)
LEAST = "at which the cross-entropy is lowest with labels smoothed as by J. Platt."


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_method_with_a_solution_is_fitted_as_ever(name):
    two = nishimori.methods()[name].traits.n_classes == "two"
    data = (LOGITS[:, :2], (LABELS == 1).astype(int)) if two else (LOGITS, LABELS)
    plain, always = calibrator(name).fit(*data), calibrator(name)
    assert fit_always(always, *data) is always
    np.testing.assert_array_equal(always.predict_proba(data[0]), plain.predict_proba(data[0]))


# How scores and labels leave methods without a solution.
SCORES = LOGITS[:, 0] + 3
ONE_CLASS = "`y` must have samples of both classes, got only class 1."
CURVES = "`y` must hold samples of at least two classes, got only one class, 1."
CONSTANT = (
    "`X` must have different scores, got the same log-odds 2 for all 60 samples: no function of them tells the classes apart."
)
ALL_RIGHT = (
    "No temperature fits: the true class has the largest logit in all 60 samples, so the loss falls all the way to T = 0."
)
WITHOUT_SOLUTION = {
    "ts, all right": (TemperatureScaling(), (LOGITS, RIGHT), ALL_RIGHT),
    "vector, all right": (VectorScaling(), (LOGITS, RIGHT), ALL_RIGHT),
    "platt, one class": (Platt(), (SCORES, np.ones(60, dtype=int)), ONE_CLASS),
    "isotonic, one class": (Isotonic(), (SCORES, np.ones(60, dtype=int)), CURVES),
    "histogram, one class": (nishimori.HistogramBinning(), (SCORES, np.ones(60, dtype=int)), CURVES),
    "platt, the same score": (Platt(), (np.full(60, 2.0), np.arange(60) % 4 > 0), CONSTANT),
    "beta, the same score": (nishimori.Beta(), (np.full(60, 2.0), np.arange(60) % 4 > 0), CONSTANT),
    "quadratic, the same score": (nishimori.calibrators.Quadratic(), (np.full(60, 2.0), np.arange(60) % 4 > 0), CONSTANT),
    "bias, an empty class": (
        BiasCorrected(shrink=False),
        (LOGITS, LABELS % 2),
        "`y` must have samples of every class with `shrink=False`, got none of class 2: the bias of a class that never occurs "
        "would be infinite.",
    ),
    "vector, an empty class": (
        VectorScaling(penalty=None),
        (LOGITS, LABELS % 2),
        "The `penalty` of the biases must be positive where a class has no samples: class 2 has none.",
    ),
}


@pytest.mark.parametrize(("method", "data", "why"), WITHOUT_SOLUTION.values(), ids=WITHOUT_SOLUTION)
def test_a_method_without_a_solution_is_replaced_by_temperature_scaling_with_smoothed_labels(method, data, why):
    with pytest.raises((NoTemperatureError, DegenerateDataError)):
        method.fit(*data)
    with pytest.warns(InputWarning) as warned:
        found = fit_always(method, *data, where="fold 2 of 5")
    expected = TemperatureScaling(smooth_labels=True).fit(*data)
    assert type(found) is TemperatureScaling
    assert (found.smooth_labels, found.temperature_) == (True, expected.temperature_)
    (message,) = [str(each.message) for each in warned if "has no solution" in str(each.message)]
    assert message == (
        f"The method {method.method_name!r} has no solution in fold 2 of 5. {why} The logits are divided by T = "
        f"{expected.temperature_:.4g} instead, {LEAST}"
    )


@pytest.mark.parametrize("top_n", [1, 2])
def test_expectation_consistency_stays_what_it_is(top_n):
    labels = np.where(RIGHT == 0, LOGITS.argsort(axis=1)[:, -top_n], RIGHT)
    with pytest.warns(
        InputWarning, match=r"^The method 'ec' has no solution\. .* at which mean confidence is \(right \+ ½\)/\(n"
    ) as warned:
        found = fit_always(ExpectationConsistency(top_n=top_n), LOGITS, labels)
    assert len(warned) == 1
    assert isinstance(found, ExpectationConsistency)
    p = np.sort(found.predict_proba(LOGITS), axis=1)[:, -top_n:].sum(axis=1)
    assert p.mean() == pytest.approx(60.5 / 61, rel=1e-9)


def test_equal_largest_logits_leave_temperature_scaling_to_expectation_consistency():
    ties = np.tile([0.5, 0.5, -0.5], (20, 1))
    with pytest.warns(InputWarning, match=LEAST):
        found = fit_always(ExpectationConsistency(), ties, np.zeros(20, dtype=int))
    assert isinstance(found, TemperatureScaling)


def test_scores_worse_than_chance_give_equal_probabilities_and_one_warning_says_so():
    with pytest.warns(InputWarning) as warned:
        found = fit_always(calibrator("adaptive"), LOGITS, LOGITS.argmin(axis=1))
    assert [str(each.message) for each in warned] == [
        "The method 'adaptive' has no solution. No temperature fits: accuracy 0 is not above chance (0.3333), and mean "
        "confidence stays above chance at every T. The scores say nothing about the classes, because the answers are not "
        "better than chance even with smoothed labels, or all logits of each row are equal: all classes get the same "
        "probability."
    ]
    np.testing.assert_allclose(found.predict_proba(LOGITS), 1 / 3, rtol=1e-6)


def test_weights_counts_labels_and_the_floor_are_those_of_the_method():
    names, weights = np.array(["ant", "bee", "cat"]), 1.0 + np.arange(60) % 3
    p = np.where(reference.softmax(LOGITS) < 0.05, 0.0, reference.softmax(LOGITS))
    p /= p.sum(axis=1, keepdims=True)
    common = {"input": "probabilities", "classes": names, "floor": 0.01}
    with pytest.warns(InputWarning, match="'vector' has no solution"):
        found = fit_always(VectorScaling(**common), p, names[RIGHT], weights, counts=True, clusters=None)
    alone = TemperatureScaling(smooth_labels=True, **common).fit(p, names[RIGHT], weights, counts=True)
    assert (found.temperature_, found.floor_, list(found.classes_)) == (alone.temperature_, 0.01, list(names))


def test_groups_are_forgotten_where_all_of_them_are_treated_alike():
    groups = np.where(np.arange(60) % 2, "old", "new")
    with pytest.warns(InputWarning, match="'group' has no solution"):
        found = fit_always(GroupConsistency(by="groups"), LOGITS, RIGHT, groups=groups)
    assert found.temperature_ == SMOOTH.fit(LOGITS, RIGHT).temperature_


def test_a_file_says_that_labels_were_smoothed(tmp_path):
    with pytest.warns(InputWarning):
        fit_always(Platt(), SCORES, np.ones(60, dtype=int)).save(tmp_path / "c.json")
    origin = json.loads((tmp_path / "c.json").read_text())["provenance"]
    assert (origin["method"], origin["params"], origin["estimates"]) == ("ts", {"smooth_labels": True}, {"uniform": 0.0})
    assert nishimori.load(tmp_path / "c.json").smooth_labels


NAN = np.where(np.arange(60)[:, None] == 7, np.nan, LOGITS)
MASKED = np.where(np.arange(3) == 0, -np.inf, LOGITS)
NOT_VALID = {
    "a number that is none": (TemperatureScaling(), (NAN, LABELS)),
    "too few labels": (TemperatureScaling(), (LOGITS, LABELS[:-1])),
    "unknown labels": (TemperatureScaling(), (LOGITS, LABELS + 1)),
    "negative weights": (TemperatureScaling(), (LOGITS, LABELS, -np.ones(60))),
    "no weight": (TemperatureScaling(), (LOGITS, LABELS, np.zeros(60))),
    "three classes": (Platt(), (LOGITS, LABELS)),
    "a wrong parameter": (ExpectationConsistency(top_n=3), (LOGITS, RIGHT)),
    "masked true classes": (TemperatureScaling(), (MASKED, LABELS)),
}


@pytest.mark.parametrize(("method", "data"), NOT_VALID.values(), ids=NOT_VALID)
def test_data_that_are_not_valid_stay_an_error(method, data):
    with pytest.raises(InputError) as alone:
        method.fit(*data)
    with pytest.raises(InputError) as raised:
        fit_always(method, *data)
    assert str(raised.value) == str(alone.value)


def test_data_without_all_logits_keep_the_error_of_the_method():
    sketch = nishimori.Sketch().update(LOGITS, RIGHT)
    order = np.argsort(-LOGITS, axis=1)[:, :2]
    log_p = np.log(reference.softmax(LOGITS))
    top = TopK(order, np.take_along_axis(log_p, order, axis=1), vocabulary_size=3)
    for data in ((sketch,), (top, RIGHT)):
        with pytest.raises(NoTemperatureError, match="all 60 samples are classified correctly"):
            fit_always(ExpectationConsistency(), *data)
