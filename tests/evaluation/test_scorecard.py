import itertools
from dataclasses import FrozenInstanceError, dataclass
from typing import ClassVar

import numpy as np
import pytest
import reference
from optional import pd
from small_calibrators import Bias

import nishimori
from nishimori import evaluate, metrics
from nishimori._evaluation.scorecard import scorecards
from nishimori._rows.entry import open_rows
from nishimori.errors import InputError, InputWarning
from nishimori.maps.map import Map
from nishimori.maps.temperature import Temperature

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


def test_probabilities_after_a_calibrator_that_was_fitted_to_logits_are_measured_with_a_warning():
    fitted = nishimori.ExpectationConsistency().fit(LOGITS, LABELS)
    with pytest.warns(InputWarning, match="input='probabilities'"):
        evaluate(reference.softmax(LOGITS), LABELS, calibrator=fitted)


def test_a_calibrator_brings_its_map_input_and_classes():
    p = reference.softmax(LOGITS)
    fitted = nishimori.ExpectationConsistency(input="probabilities", classes=NAMES, floor=None).fit(p, NAMES[LABELS])
    card = evaluate(p, NAMES[LABELS], calibrator=fitted)
    assert card.temperature == fitted.temperature_
    assert card.confidence == pytest.approx(card.accuracy, abs=1e-9)
    assert card.nll == pytest.approx(reference.nll(LOGITS, LABELS, fitted.temperature_), rel=1e-9)
    again = evaluate(p, NAMES[LABELS], calibrator=fitted, input="probabilities", classes=list(NAMES))
    assert (again.nll, again.ece) == (card.nll, card.ece)


FITTED = nishimori.TemperatureScaling(classes=NAMES).fit(pd.DataFrame(LOGITS, columns=NAMES), NAMES[LABELS])
REFUSED = {
    "both": ({"temperature": 2.0, "calibrator": FITTED}, "`temperature` must be left out: `calibrator` already"),
    "input": (
        {"calibrator": FITTED, "input": "probabilities"},
        "`input` must be that of the calibrator, 'logits', got 'probabilities'",
    ),
    "unknown input": ({"input": "scores"}, "`input` must be 'logits' or 'probabilities', got 'scores'"),
    "empty input": ({"input": ""}, "`input` must be 'logits' or 'probabilities', got ''"),
    "classes": ({"calibrator": FITTED, "classes": NAMES[::-1]}, "`classes` must be that of the calibrator"),
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
    with pytest.raises(InputError, match=r"`classes` must be that of the calibrator, None, got \[0, 1, 2, 3\]"):
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


def test_a_map_without_a_temperature_is_measured_after_it_was_applied():
    fixed = nishimori.calibrators.FixedMap(Bias(1.5)).fit(LOGITS, LABELS)
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
    fixed, moved = nishimori.calibrators.FixedMap(Affine(2.0, 3.0)).fit(LOGITS, LABELS), LOGITS / 2 + np.array([3.0, 0, 0, 0])
    card = evaluate(LOGITS, LABELS, calibrator=fixed)
    assert (card.temperature, fixed.temperature_) == (None, None)
    assert card.nll == pytest.approx(reference.nll(moved, LABELS), rel=1e-12)
    np.testing.assert_array_equal(fixed.predict(LOGITS), moved.argmax(axis=1))
    with pytest.raises(InputError, match=r"A map of the class Affine cannot be saved, because its class is not registered"):
        fixed.save(tmp_path / "c.json")
    assert not list(tmp_path.iterdir())


def test_masked_classes_stay_masked_after_a_map():
    logits = LOGITS.copy()
    logits[np.arange(700), (LABELS + 1) % 4] = -np.inf
    moved = logits + np.array([1.5, 0, 0, 0])
    card = evaluate(logits, LABELS, calibrator=nishimori.calibrators.FixedMap(Bias(1.5)).fit(logits, LABELS))
    assert card.brier == pytest.approx(reference.brier(moved, LABELS), rel=1e-12)
    assert card.nll == pytest.approx(reference.nll(moved, LABELS), rel=1e-12)


@pytest.mark.parametrize("input", ["logits", "probabilities"])
def test_confidence_and_bins_after_a_temperature_per_class_are_those_of_the_softmax(input):
    temperatures = np.array([0.5, 1.0, 2.0, 3.0])
    given = LOGITS if input == "logits" else reference.softmax(LOGITS)
    calibrator = nishimori.calibrators.FixedMap(nishimori.maps.ClassTemperatures(temperatures), input=input).fit(given, LABELS)
    card = evaluate(given, LABELS, calibrator=calibrator)
    p = reference.softmax(LOGITS / temperatures[LOGITS.argmax(axis=1)][:, None])
    right = reference.right(LOGITS, LABELS)
    assert card.confidence == pytest.approx(p.max(axis=1).mean())
    assert card.ece == pytest.approx(reference.ece(p.max(axis=1), right, np.linspace(0, 1, 16)))
    assert card.accuracy == pytest.approx(right.mean())


def test_what_is_no_map_is_refused():
    with pytest.raises(InputError, match=r"^`map` must be a Map, got 3\.$"):
        nishimori.calibrators.FixedMap(3).fit(LOGITS, LABELS)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_maps_measured_together_are_those_measured_alone(strategy, monkeypatch):
    monkeypatch.setattr("nishimori._evaluation.scorecard._CLAIMS_AT_ONCE", 1500)  # two maps at a time
    maps = [Temperature(0.5), Bias(1.0), Temperature(2.0), Temperature(1.0), Bias(-1.0)]
    together = scorecards(open_rows(LOGITS, LABELS), maps, strategy=strategy)
    for map_, card in zip(maps, together, strict=True):
        (alone,) = scorecards(open_rows(LOGITS, LABELS), [map_], strategy=strategy)
        assert card.temperature == getattr(map_, "temperature", None)
        assert (card.ece, card.nll, card.brier) == pytest.approx((alone.ece, alone.nll, alone.brier), rel=1e-12)


def test_a_scorecard_does_not_change():
    with pytest.raises(FrozenInstanceError):
        evaluate(LOGITS, LABELS).ece = 0.0


CLUSTERS = np.random.default_rng(2).integers(60, size=700)
UNITS = {
    "rows": {},
    "weights": {"weights": WEIGHTS},
    "counts": {"weights": WEIGHTS, "counts": True},
    "clusters": {"weights": WEIGHTS, "clusters": CLUSTERS},
}


def measured_with(units, data=(LOGITS, LABELS), **more):
    return evaluate(*data, **{"sample_weight" if name == "weights" else name: each for name, each in units.items()}, **more)


@pytest.mark.parametrize("units", UNITS.values(), ids=UNITS)
def test_standard_errors_are_those_of_weighted_means(units):
    card = measured_with(units, temperature=1.5)
    for name, scores in reference.scores(LOGITS, LABELS, 1.5).items():
        assert getattr(card, f"{name}_se") == pytest.approx(reference.error_of_mean(scores, **units), rel=1e-9), name


@pytest.mark.parametrize("units", UNITS.values(), ids=UNITS)
def test_the_error_of_a_clear_ece_is_that_of_its_linear_form(units):
    card = measured_with(units, temperature=0.3, n_bins=3)  # so overconfident that the sign of each gap is clear
    claimed, right = reference.softmax(LOGITS, 0.3).max(axis=1), reference.right(LOGITS, LABELS)
    place = np.minimum((claimed * 3).astype(int), 2)
    weights = units.get("weights", np.ones(700))
    signs = np.sign(np.bincount(place, weights * (claimed - right), 3))
    expected = reference.error_of_mean(signs[place] * (claimed - right), **units)
    assert card.ece_se == pytest.approx(expected, rel=0.01)
    assert card.ece_corrected == pytest.approx(card.ece, rel=0.01)


def test_each_row_as_a_cluster_of_its_own_changes_nothing():
    plain, alone = evaluate(LOGITS, LABELS), evaluate(LOGITS, LABELS, clusters=np.arange(700)[::-1])
    for name in ("error_se", "confidence_se", "brier_se", "nll_se", "ece_se", "ece_corrected"):
        assert getattr(alone, name) == pytest.approx(getattr(plain, name), rel=1e-9), name


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_rows_in_pieces_have_the_errors_of_the_array(strategy):
    cuts = [0, 1, 300, 310, 700]
    pieces = [(LOGITS[a:b], LABELS[a:b], WEIGHTS[a:b]) for a, b in itertools.pairwise(cuts)]
    whole = evaluate(LOGITS, LABELS, sample_weight=WEIGHTS, strategy=strategy)
    parts = evaluate(lambda: iter(pieces), strategy=strategy)
    for name in ("error_se", "confidence_se", "brier_se", "nll_se", "ece_se", "ece_corrected"):
        assert getattr(parts, name) == pytest.approx(getattr(whole, name), rel=1e-9), name


def test_counts_are_copies_and_other_weights_have_no_scale():
    counts = np.random.default_rng(3).integers(1, 4, size=700)
    copies = evaluate(np.repeat(LOGITS, counts, axis=0), np.repeat(LABELS, counts))
    weighted = evaluate(LOGITS, LABELS, sample_weight=counts, counts=True)
    heavy = evaluate(LOGITS, LABELS, sample_weight=np.full(700, 7.0))
    plain = evaluate(LOGITS, LABELS)
    for name in ("error_se", "nll_se", "ece_se", "ece_corrected"):
        assert getattr(weighted, name) == pytest.approx(getattr(copies, name), rel=1e-9), name
        assert getattr(heavy, name) == pytest.approx(getattr(plain, name), rel=1e-9), name
    assert weighted.interval("ece") == pytest.approx(copies.interval("ece"), rel=1e-9)


def test_a_large_loss_keeps_the_digits_of_its_error():
    logits = np.tile([0.0, -1e9], (400, 1)) + np.random.default_rng(0).normal(size=(400, 2))
    card = evaluate(logits, np.ones(400, dtype=int))  # each loss is 1e9 and varies by about 1
    assert card.nll_se == pytest.approx(reference.error_of_mean(logits[:, 0] - logits[:, 1]), rel=1e-6)


def test_a_share_has_the_interval_of_wilson():
    card = evaluate(LOGITS, LABELS)
    p, z = card.error, 1.6448536269514722
    # The share q at which p is z standard errors of q away: (p - q)² = z²q(1 - q)/n.
    roots = np.roots([1 + z**2 / 700, -(2 * p + z**2 / 700), p**2])
    assert card.interval("error", 0.9) == pytest.approx(sorted(roots))
    assert card.interval("accuracy", 0.9) == pytest.approx(sorted(1 - roots))
    right = evaluate(LOGITS, LOGITS.argmax(axis=1))
    assert (right.error, right.error_se) == (0, 0)
    assert right.interval("error") == pytest.approx((0, 1.959964**2 / (700 + 1.959964**2)))


def test_intervals_lie_around_the_number_and_grow_with_their_level():
    card = evaluate(LOGITS, LABELS)
    for name in ("confidence", "brier"):
        low, high = card.interval(name, 0.9)
        assert high - getattr(card, name) == pytest.approx(1.6448536 * getattr(card, f"{name}_se"))
        assert low + high == pytest.approx(2 * getattr(card, name))
    low, high = card.interval("nll", 0.9)
    assert low * high == pytest.approx(card.nll**2)
    assert np.log(high / card.nll) == pytest.approx(1.6448536 * card.nll_se / card.nll)
    for name in ("error", "accuracy", "confidence", "ece", "brier", "nll"):
        narrow, usual, all_ = card.interval(name, 0.5), card.interval(name), card.interval(name, 1)
        assert all_.low <= usual.low <= narrow.low <= getattr(card, name) <= narrow.high <= usual.high <= all_.high
    assert [card.interval(name, 1) for name in ("error", "confidence", "ece", "brier", "nll")] == [
        (0, 1),
        (0, 1),
        (0, 1),
        (0, 2),
        (0, np.inf),
    ]
    assert evaluate(LOGITS, LABELS, temperature=50).interval("confidence", 0.99999).high <= 1


def test_a_sketch_has_the_errors_that_its_sums_give():
    whole = evaluate(LOGITS, LABELS, sample_weight=WEIGHTS, temperature=2**0.5)
    sketch = nishimori.Sketch().update(LOGITS, LABELS, WEIGHTS)
    card = evaluate(sketch, temperature=2**0.5)
    assert card.error_se == pytest.approx(whole.error_se, rel=1e-9)
    assert card.accuracy_se == card.error_se
    assert card.ece_se == pytest.approx(whole.ece_se, rel=0.1)  # sums per bin are interpolated
    assert card.interval("ece") == pytest.approx(whole.interval("ece"), abs=0.02)
    cold, whole = evaluate(sketch, temperature=0.25), evaluate(LOGITS, LABELS, sample_weight=WEIGHTS, temperature=0.25)
    assert cold.ece == pytest.approx(whole.ece, rel=1e-9)  # at a node
    assert cold.ece_se == pytest.approx(whole.ece_se, rel=0.05)  # products of gaps and squared weights are not kept
    assert (card.confidence_se, card.brier_se, card.nll_se) == (None, None, None)
    for name in ("confidence", "brier", "nll"):
        with pytest.raises(InputError, match=f"the standard error of {name}, which is not known: a sketch does not keep"):
            card.interval(name)
    clustered = evaluate(nishimori.Sketch().update(LOGITS, LABELS, clusters=CLUSTERS))
    assert clustered.error_se is None
    assert clustered.ece_se > 0
    with pytest.raises(InputError, match="which is not known: a sketch does not keep it per cluster"):
        clustered.interval("accuracy")
    with pytest.raises(InputError, match="`counts` must be False for a sketch"):
        evaluate(sketch, counts=True)


def test_a_sketch_of_one_cluster_says_why_it_has_no_errors():
    card = evaluate(nishimori.Sketch().update(LOGITS, LABELS, clusters=np.zeros(len(LABELS))))
    assert (card.error_se, card.accuracy_se, card.ece_se, card.ece_corrected) == (None, None, None, None)
    for name in ("error", "accuracy", "ece"):
        with pytest.raises(
            InputError, match=f"error of {name}, which is not known: the sketch holds one cluster, but standard"
        ):
            card.interval(name)
    assert set(card.why_no_se) == {"error", "accuracy", "confidence", "gap", "ece", "brier", "nll"}


def test_what_has_no_error_says_why():
    masked = LOGITS.copy()
    masked[0, LABELS[0]] = -np.inf
    card = evaluate(masked, LABELS)
    assert (card.nll, card.nll_se) == (np.inf, None)
    assert card.brier_se > 0
    with pytest.raises(
        InputError, match=r"^`interval` needs the standard error of nll, which is not known: the loss is infinite"
    ):
        card.interval("nll")
    one = evaluate(LOGITS[:1], LABELS[:1])
    assert (one.error_se, one.nll_se, one.ece_se, one.ece_corrected) == (None, None, None, None)
    with pytest.raises(InputError, match=r"standard error of ece, which is not known: there is only one sample\.$"):
        one.interval("ece")
    names = r"`name` must be one of 'error', 'accuracy', 'confidence', 'gap', 'ece', 'nll', 'brier', got "
    for wrong in ("T", None):
        with pytest.raises(InputError, match=f"^{names}{wrong!r}"):
            card.interval(wrong)
    for level in (-0.1, 95, "high"):
        for name in ("ece", "error", "nll"):
            with pytest.raises(InputError, match="`level` must lie between 0 and 1"):
                evaluate(LOGITS, LABELS).interval(name, level)


def test_too_many_sums_of_clusters_are_refused(monkeypatch):
    monkeypatch.setattr("nishimori._sums.spread.MOST_CLUSTER_SUMS", 600)
    assert evaluate(LOGITS, LABELS, clusters=CLUSTERS, n_bins=10).ece_se > 0
    with pytest.raises(InputError, match=r"^`clusters` must be at most 54 where there are 11 bins, got 60\. Join small"):
        evaluate(LOGITS, LABELS, clusters=CLUSTERS, n_bins=11)


def test_errors_of_tensors_and_of_a_map_are_those_of_the_arrays():
    import torch

    units = {"weights": WEIGHTS, "clusters": CLUSTERS}
    tensors = (torch.from_numpy(LOGITS), torch.from_numpy(LABELS))
    assert measured_with(units, tensors).brier_se == pytest.approx(measured_with(units).brier_se, rel=1e-12)
    moved = LOGITS + np.array([1.5, 0, 0, 0])
    fixed = nishimori.calibrators.FixedMap(Bias(1.5)).fit(LOGITS, LABELS)
    card = measured_with(units, calibrator=fixed)
    assert card.brier_se == pytest.approx(reference.error_of_mean(reference.scores(moved, LABELS)["brier"], **units), rel=1e-9)


@dataclass(frozen=True)
class DoubtToThePower(nishimori.Metric):
    """A mean that depends on a parameter."""

    name = "doubt"

    a: float = 1.0

    def of_rows(self, predictions):
        return (1 - predictions.confidence) ** self.a


class MeanDoubt(nishimori.Metric):
    """A metric of all outcomes."""

    name = "mean_doubt"

    def of_outcomes(self, confidence, correct, weights):
        return 1 - float(np.average(confidence, weights=weights))


class MeanSquare(MeanDoubt):
    """Another metric of all outcomes."""

    name = "mean_square"

    def of_outcomes(self, confidence, correct, weights):
        return float(np.average(confidence**2, weights=weights))


def test_metrics_with_other_parameters_have_sums_of_their_own():
    card = evaluate(LOGITS, LABELS, metrics=[DoubtToThePower(), DoubtToThePower(2.0)])
    doubt = 1 - reference.softmax(LOGITS).max(axis=1)
    assert card["doubt"].value == pytest.approx(doubt.mean())
    assert card["doubt(a=2.0)"].value == pytest.approx((doubt**2).mean())


def test_metrics_of_all_outcomes_are_measured_side_by_side():
    card, p = evaluate(LOGITS, LABELS, metrics=[MeanDoubt(), MeanSquare()]), reference.softmax(LOGITS).max(axis=1)
    assert card["mean_doubt"].value == pytest.approx(1 - p.mean())
    assert card["mean_square"].value == pytest.approx((p**2).mean())
