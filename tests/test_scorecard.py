from dataclasses import FrozenInstanceError, dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

import nishimori
import reference
from nishimori import InputError, evaluate, metrics
from nishimori._maps import Map, Temperature
from nishimori._scorecard import scorecards
from nishimori._sources import source

LOGITS, LABELS = reference.drawn(700, 4)
WEIGHTS = np.random.default_rng(1).exponential(size=700)
NAMES = np.array(["ant", "bee", "cat", "dog"])


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["no weights", "weights"])
@pytest.mark.parametrize("temperature", [None, 0.4, 2.5])
def test_every_number_is_its_definition(temperature, weights):
    T = temperature or 1.0
    card = evaluate(LOGITS, LABELS, temperature=temperature, sample_weight=weights)
    p, right = reference.softmax(LOGITS, T), reference.right(LOGITS, LABELS)
    assert card.n_samples == 700
    assert card.temperature == T
    assert card.accuracy == pytest.approx(np.average(right, weights=weights), rel=1e-12)
    assert card.error == pytest.approx(1 - np.average(right, weights=weights), rel=1e-12)
    assert card.confidence == pytest.approx(np.average(p.max(axis=1), weights=weights), rel=1e-12)
    assert card.brier == pytest.approx(reference.brier(LOGITS, LABELS, T, weights), rel=1e-12)
    assert card.nll == pytest.approx(reference.nll(LOGITS, LABELS, T, weights), rel=1e-12)
    expected = reference.ece(p.max(axis=1), right, np.linspace(0, 1, 16), weights)
    assert card.ece == pytest.approx(expected, rel=1e-12)
    assert card.reliability.error() == card.ece
    assert card.reliability.weight.sum() == pytest.approx(700 if weights is None else weights.sum())


def test_quantile_bins_are_those_of_the_definition():
    p = reference.softmax(LOGITS, 1.5).max(axis=1)
    expected = reference.ece(p, reference.right(LOGITS, LABELS), reference.quantile_edges(p, 10))
    assert evaluate(LOGITS, LABELS, temperature=1.5, n_bins=10, strategy="quantile").ece == pytest.approx(expected, rel=1e-12)


def test_probabilities_are_claims_as_they_stand():
    p = reference.softmax(LOGITS)
    card = evaluate(p, LABELS, input="probabilities")
    assert card.ece == metrics.ece(p, LABELS, input="probabilities")
    assert card.nll == pytest.approx(reference.nll(LOGITS, LABELS), rel=1e-12)


def test_a_calibrator_brings_its_map_input_and_classes():
    p = reference.softmax(LOGITS)
    fitted = nishimori.ExpectationConsistency(input="probabilities", classes=NAMES).fit(p, NAMES[LABELS])
    card = evaluate(p, NAMES[LABELS], calibrator=fitted)
    assert card.temperature == fitted.temperature_
    assert card.confidence == pytest.approx(card.accuracy, abs=1e-9)
    assert card.nll == pytest.approx(reference.nll(LOGITS, LABELS, fitted.temperature_), rel=1e-9)
    again = evaluate(p, NAMES[LABELS], calibrator=fitted, input="probabilities", classes=list(NAMES))
    assert (again.nll, again.ece) == (card.nll, card.ece)


FITTED = nishimori.TemperatureScaling(classes=NAMES).fit(pd.DataFrame(LOGITS, columns=NAMES), NAMES[LABELS])
REFUSED = {
    "both": ({"temperature": 2.0, "calibrator": FITTED}, "`temperature` must be left out where `calibrator` is given"),
    "input": ({"calibrator": FITTED, "input": "probabilities"}, "`input` must be 'logits', which the calibrator was fitted to"),
    "unknown input": ({"input": "scores"}, "`input` must be 'logits' or 'probabilities', got 'scores'"),
    "empty input": ({"input": ""}, "`input` must be 'logits' or 'probabilities', got ''"),
    "classes": ({"calibrator": FITTED, "classes": NAMES[::-1]}, "`classes` must be those of the calibrator"),
    "unfitted": (
        {"calibrator": nishimori.TemperatureScaling()},
        r"`calibrator` must be a fitted calibrator, got .* `fit` first",
    ),
    "a number": ({"calibrator": 2.0}, r"`calibrator` must be a fitted calibrator, got 2\.0\. Pass `temperature=2\.0`"),
    "a path": ({"calibrator": "c.json"}, r"`calibrator` must be .* got 'c\.json'\. Pass `nishimori\.load\(path\)` of a file"),
    "temperature": ({"temperature": 0}, "`temperature` must be a finite positive number, got 0"),
    "bins": ({"n_bins": 0}, "`n_bins` must be a whole number from 1 to 100000, got 0"),
    "strategy": ({"strategy": "equal"}, "`strategy` must be 'uniform' or 'quantile', got 'equal'"),
}


@pytest.mark.parametrize(("given", "message"), REFUSED.values(), ids=REFUSED)
def test_arguments_that_contradict_each_other_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        evaluate(LOGITS, LABELS, **given)


def test_classes_may_be_the_column_numbers_that_a_calibrator_has_by_default():
    fitted = nishimori.TemperatureScaling().fit(LOGITS, LABELS)
    card = evaluate(LOGITS, LABELS, calibrator=fitted, classes=[0, 1, 2, 3])
    assert card.temperature == fitted.temperature_
    with pytest.raises(InputError, match=r"`classes` must be those of the calibrator, which has none, got \[0, 1, 2, 3\]"):
        evaluate(LOGITS, LABELS, calibrator=nishimori.from_temperature(2.0), classes=[0, 1, 2, 3])


def test_classes_in_another_order_than_the_columns_are_refused():
    table = pd.DataFrame(LOGITS, columns=NAMES)
    for given in ({"classes": NAMES[::-1]}, {"calibrator": nishimori.from_temperature(2.0, classes=NAMES[::-1])}):
        with pytest.raises(InputError, match="`classes` must be in the order of the columns"):
            evaluate(table, NAMES[LABELS], **given)


def test_errors_speak_of_logits():
    for wrong in (LOGITS[:, :3], LOGITS[:, 0]):
        with pytest.raises(InputError, match=r"^`?logits`? "):
            evaluate(wrong, LABELS, calibrator=nishimori.from_temperature(2.0, classes=[0, 1, 2, 3]))


def test_permuted_columns_are_refused():
    table = pd.DataFrame(LOGITS, columns=NAMES)
    assert evaluate(table, NAMES[LABELS], calibrator=FITTED).temperature == FITTED.temperature_
    with pytest.raises(InputError, match="would assign probabilities to the wrong classes"):
        evaluate(table[NAMES[::-1]], NAMES[LABELS], calibrator=FITTED)


@dataclass(frozen=True)
class Bias(Map):
    """A map that is no temperature: adds one number to the first class."""

    bias: float
    kind: ClassVar[str] = "bias"

    def apply(self, logits, groups=None):
        return logits + self.bias * (np.arange(logits.shape[1]) == 0)

    @property
    def parameters(self):
        return {"bias": self.bias}


def test_a_map_without_a_temperature_is_measured_after_it_was_applied():
    fixed = nishimori.FixedMap(Bias(1.5)).fit(LOGITS, LABELS)
    card, moved = evaluate(LOGITS, LABELS, calibrator=fixed), LOGITS + np.array([1.5, 0, 0, 0])
    assert card.temperature is None
    assert card.accuracy == pytest.approx(reference.right(moved, LABELS).mean())
    assert card.nll == pytest.approx(reference.nll(moved, LABELS), rel=1e-12)
    assert card.brier == pytest.approx(reference.brier(moved, LABELS), rel=1e-12)
    np.testing.assert_allclose(fixed.predict_proba(LOGITS), reference.softmax(moved), rtol=1e-12)
    np.testing.assert_allclose(fixed.predict_log_proba(LOGITS), np.log(reference.softmax(moved)), rtol=1e-10)
    np.testing.assert_array_equal(fixed.predict(LOGITS), moved.argmax(axis=1))
    np.testing.assert_array_equal(fixed.transform(LOGITS), moved)


@dataclass(frozen=True)
class Affine(Map):
    """A map that has a temperature among other parameters."""

    temperature: float
    bias: float
    kind: ClassVar[str] = "affine"

    def apply(self, logits, groups=None):
        return logits / self.temperature + self.bias * (np.arange(logits.shape[1]) == 0)

    @property
    def parameters(self):
        return {"temperature": self.temperature, "bias": self.bias}


def test_a_map_that_does_more_than_divide_is_not_taken_for_a_temperature(tmp_path):
    fixed, moved = nishimori.FixedMap(Affine(2.0, 3.0)).fit(LOGITS, LABELS), LOGITS / 2 + np.array([3.0, 0, 0, 0])
    card = evaluate(LOGITS, LABELS, calibrator=fixed)
    assert (card.temperature, fixed.temperature_) == (None, None)
    assert card.nll == pytest.approx(reference.nll(moved, LABELS), rel=1e-12)
    np.testing.assert_array_equal(fixed.predict(LOGITS), moved.argmax(axis=1))
    with pytest.raises(InputError, match=r"A map of the kind 'affine' cannot be saved, only temperature\."):
        fixed.save(tmp_path / "c.json")
    assert not list(tmp_path.iterdir())


def test_masked_classes_stay_masked_after_a_map():
    logits = LOGITS.copy()
    logits[np.arange(700), (LABELS + 1) % 4] = -np.inf
    moved = logits + np.array([1.5, 0, 0, 0])
    card = evaluate(logits, LABELS, calibrator=nishimori.FixedMap(Bias(1.5)).fit(logits, LABELS))
    assert card.brier == pytest.approx(reference.brier(moved, LABELS), rel=1e-12)
    assert card.nll == pytest.approx(reference.nll(moved, LABELS), rel=1e-12)


def test_what_is_no_map_is_refused():
    with pytest.raises(InputError, match=r"^`map` must be a Map, got 3\.$"):
        nishimori.FixedMap(3).fit(LOGITS, LABELS)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_maps_measured_together_are_those_measured_alone(strategy, monkeypatch):
    monkeypatch.setattr("nishimori._scorecard._CLAIMS_AT_ONCE", 1500)  # two maps at a time
    maps = [Temperature(0.5), Bias(1.0), Temperature(2.0), Temperature(1.0), Bias(-1.0)]
    together = scorecards(source(LOGITS, LABELS), maps, strategy=strategy)
    for map_, card in zip(maps, together, strict=True):
        (alone,) = scorecards(source(LOGITS, LABELS), [map_], strategy=strategy)
        expected = (getattr(map_, "temperature", None), alone.ece, alone.nll, alone.brier)
        assert (card.temperature, card.ece, card.nll, card.brier) == expected


def test_a_scorecard_does_not_change():
    with pytest.raises(FrozenInstanceError):
        evaluate(LOGITS, LABELS).ece = 0.0
