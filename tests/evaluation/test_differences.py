"""What two calibrations of the same rows differ by."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import reference
from small_calibrators import Bias

import nishimori
from nishimori import compare
from nishimori._evaluation.differences import measure_maps
from nishimori.errors import InputError
from nishimori.maps import Temperature

LOGITS, LABELS = reference.drawn(800, 4)
WEIGHTS = np.random.default_rng(1).exponential(size=800)
CLUSTERS = np.random.default_rng(2).integers(80, size=800)
NAMES = ("error", "confidence", "ece", "brier", "nll")
UNITS = {
    "rows": {},
    "weights": {"weights": WEIGHTS},
    "counts": {"weights": WEIGHTS, "counts": True},
    "clusters": {"weights": WEIGHTS, "clusters": CLUSTERS},
}


def paired(logits, labels, *temperatures, n_bins=15, strategy="uniform", counts=False, **options):
    """The scorecards at two temperatures, and what the second one differs by from the first."""
    maps = {name: Temperature(float(T)) for name, T in zip(("first", "second"), temperatures, strict=True)}
    data = nishimori.rows(logits, labels, counts=counts, **options)
    found = measure_maps(data, maps, n_bins=n_bins, strategy=strategy)
    return SimpleNamespace(**found.cards, **found.differences("first", "second"))


def changes(logits, labels, first, second, **options):
    """What `compare` says that the second calibration differs by from the first."""
    found = compare(logits, labels, methods={"first": first, "second": second}, **options)
    return SimpleNamespace(
        first=found["first"].scorecard, second=found["second"].scorecard, **found["second"].differences, all=found
    )


def arguments(units):
    return {"sample_weight" if name == "weights" else name: each for name, each in units.items()}


@pytest.mark.parametrize("units", UNITS.values(), ids=UNITS)
def test_a_difference_has_the_error_of_differences_row_by_row(units):
    found = paired(LOGITS, LABELS, 1.0, 1.6, **arguments(units))
    before, after = reference.scores(LOGITS, LABELS), reference.scores(LOGITS, LABELS, 1.6)
    for name in ("confidence", "brier", "nll"):
        rows, difference = after[name] - before[name], getattr(found, name)
        assert difference.value == pytest.approx(np.average(rows, weights=units.get("weights")))
        assert difference.se == pytest.approx(reference.error_of_mean(rows, **units)), name
        assert difference.interval(0.9).high == pytest.approx(difference.value + 1.6448536 * difference.se)
    assert found.first.nll == pytest.approx(nishimori.evaluate(LOGITS, LABELS, **arguments(units)).nll, rel=1e-12)
    assert found.second.ece == nishimori.evaluate(LOGITS, LABELS, temperature=1.6, **arguments(units)).ece
    assert found.ece.value == pytest.approx(found.second.ece - found.first.ece)


@pytest.mark.parametrize("units", UNITS.values(), ids=UNITS)
def test_the_gaps_of_both_vary_together_as_rows_or_clusters_do(units):
    ece = paired(LOGITS, LABELS, 0.5, 1.6, n_bins=5, **arguments(units)).ece.ece
    weights, right = units.get("weights", np.ones(800)), reference.right(LOGITS, LABELS)
    deviations = []
    for T in (0.5, 1.6):
        claimed = reference.softmax(LOGITS, T).max(axis=1)
        misses = (claimed - right)[:, None] * (np.minimum((5 * claimed).astype(int), 4)[:, None] == np.arange(5))
        deviations.append(weights[:, None] * (misses - np.average(misses, axis=0, weights=weights)) / weights.sum())
    if "clusters" in units:
        deviations = [np.stack([each[c == CLUSTERS].sum(axis=0) for c in np.unique(CLUSTERS)]) for each in deviations]
    scale = 1 / weights[:, None] if "counts" in units else 1.0
    np.testing.assert_allclose(ece.shared, (deviations[0] * scale).T @ deviations[1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ece.second.covariance, (deviations[1] * scale).T @ deviations[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("units", UNITS.values(), ids=UNITS)
def test_the_difference_of_gaps_has_the_error_of_differences_row_by_row(units):
    options = arguments(units)
    data = nishimori.rows(LOGITS, LABELS, counts=options.pop("counts", False), **options)
    found = measure_maps(data, {"first": Temperature(1.6), "second": Bias(1.5)})
    moved = LOGITS + np.array([1.5, 0, 0, 0])
    before = reference.softmax(LOGITS, 1.6).max(axis=1) - reference.right(LOGITS, LABELS)
    rows = reference.softmax(moved).max(axis=1) - reference.right(moved, LABELS) - before
    difference = found.differences("first", "second")["gap"]
    assert difference.value == pytest.approx(np.average(rows, weights=units.get("weights")))
    assert difference.se == pytest.approx(reference.error_of_mean(rows, **units))


def test_a_p_value_is_that_of_a_normal_error():
    from scipy.stats import norm

    difference = paired(LOGITS, LABELS, 1.9, 2.0).nll
    assert difference.p_value == pytest.approx(2 * norm.sf(abs(difference.value) / difference.se))
    low, high = difference.interval(1 - difference.p_value)
    assert min(abs(low), abs(high)) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("units", UNITS.values(), ids=UNITS)
@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_equal_calibrations_differ_by_exactly_nothing(units, strategy):
    found = changes(LOGITS, LABELS, 1.7, nishimori.from_temperature(1.7), strategy=strategy, **arguments(units))
    for name in NAMES:
        difference = getattr(found, name)
        assert (difference.value, difference.se, difference.p_value, *difference.interval()) == (0, 0, 1, 0, 0), name


def test_a_temperature_does_not_change_the_error_but_a_map_may():
    assert (paired(LOGITS, LABELS, 1.0, 3.0).error.value, paired(LOGITS, LABELS, 1.0, 3.0).error.se) == (0, 0)
    fixed, moved = nishimori.calibrators.FixedMap(Bias(4.0)).fit(LOGITS, LABELS), LOGITS + np.array([4.0, 0, 0, 0])
    found = changes(LOGITS, LABELS, 1.0, fixed).error
    rows = reference.scores(moved, LABELS)["error"] - reference.scores(LOGITS, LABELS)["error"]
    assert (found.value, found.se) == pytest.approx((rows.mean(), reference.error_of_mean(rows)))
    assert found.value > 0


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_rows_in_pieces_differ_by_what_the_array_does(strategy):
    cuts = [0, 1, 300, 310, 800]
    pieces = [(LOGITS[a:b], LABELS[a:b], WEIGHTS[a:b]) for a, b in itertools.pairwise(cuts)]
    whole = paired(LOGITS, LABELS, 1.0, 1.6, sample_weight=WEIGHTS, strategy=strategy)
    parts = paired(lambda: iter(pieces), None, 1.0, 1.6, strategy=strategy)
    for name in NAMES:
        one, other = getattr(whole, name), getattr(parts, name)
        assert (other.value, other.se) == pytest.approx((one.value, one.se), rel=1e-6), name
        assert other.interval() == pytest.approx(one.interval(), rel=1e-6), name


def test_each_row_as_a_cluster_of_its_own_changes_nothing():
    plain, alone = (paired(LOGITS, LABELS, 1.0, 1.6, clusters=each) for each in (None, np.arange(800)[::-1]))
    for name in ("confidence", "brier", "nll"):
        assert getattr(alone, name).se == pytest.approx(getattr(plain, name).se, rel=1e-9)
    assert alone.ece.se == pytest.approx(plain.ece.se, rel=1e-6)
    assert alone.ece.interval() == pytest.approx(plain.ece.interval(), abs=1e-4)


@pytest.mark.parametrize(
    ("first", "second", "strategy"), [(0.7, 1.9, "uniform"), (1.9, 2.1, "quantile"), (1.6, 2.5, "uniform")]
)
def test_intervals_cover_the_difference_of_eces_and_its_error_is_its_spread(first, second, strategy):
    rng, inside, values, errors, rejected = np.random.default_rng(0), 0, [], [], 0
    logits = 3 * rng.normal(size=(20_000, 4))
    accuracy = reference.softmax(logits, 2.0)[np.arange(20_000), logits.argmax(axis=1)]
    claimed = [reference.softmax(logits, T).max(axis=1) for T in (first, second)]
    for _ in range(60):
        rows = rng.integers(20_000, size=500)
        labels = (logits[rows] / 2 + rng.gumbel(size=(500, 4))).argmax(axis=1)
        found = paired(logits[rows], labels, first, second, n_bins=8, strategy=strategy)
        true = 0.0
        for sign, card, c in zip((-1, 1), (found.first, found.second), claimed, strict=True):
            edges = np.arange(1, 8) / 8 if strategy == "uniform" else card.reliability.upper[:-1] * (1 + 1e-12)
            true += sign * np.abs(np.bincount(np.searchsorted(edges, c), c - accuracy)).sum() / 20_000
        low, high = found.ece.interval()
        inside += low <= true <= high
        values.append(found.ece.value - true)
        errors.append(found.ece.se)
        rejected += found.ece.p_value < 0.05
    assert inside >= 54  # of 60; 57 on average if 95 % cover
    assert 0.65 < np.mean(errors) / np.std(values) < 1.5
    assert (rejected > 54) if first == 0.7 else (rejected < 10)


def test_fitted_calibrators_are_measured_as_they_are_and_bring_their_meaning():
    p = reference.softmax(LOGITS)
    names = np.array(["ant", "bee", "cat", "dog"])
    options = {"input": "probabilities", "classes": names, "floor": None}
    ec = nishimori.ExpectationConsistency(**options).fit(p[:400], names[LABELS[:400]])
    ts = nishimori.TemperatureScaling(**options).fit(p[:400], names[LABELS[:400]])
    found = changes(p[400:], names[LABELS[400:]], ec, ts)
    assert (found.first.temperature, found.second.temperature) == (ec.temperature_, ts.temperature_)
    plain = paired(LOGITS[400:], LABELS[400:], ec.temperature_, ts.temperature_)
    assert found.nll.value == pytest.approx(plain.nll.value, abs=1e-9)
    assert found.nll.se == pytest.approx(plain.nll.se, rel=1e-9)
    assert not any("flatters" in sentence for sentence in found.all.verdicts)
    assert any("flatters" in sentence for sentence in changes(LOGITS, LABELS, 1.0, "ec").all.verdicts)
    other = nishimori.from_temperature(2.0)
    with pytest.raises(InputError, match="calibrators with the same `input` as the data, 'probabilities', got"):
        changes(p, names[LABELS], ec, other)
    with pytest.raises(InputError, match="`methods` must hold calibrators with the same `classes` as the data"):
        changes(p, names[LABELS], ec, ts, classes=names[::-1])
    with pytest.raises(InputError, match="`logits` must have 4 classes, as the calibrator has, got 3"):
        changes(LOGITS[:, :3], LABELS % 3, nishimori.ExpectationConsistency().fit(LOGITS, LABELS), 1.0)


def test_the_reason_why_nothing_is_refitted_is_that_it_is_fitted():
    half = nishimori.ExpectationConsistency().fit(LOGITS[:400], LABELS[:400])
    found = compare(LOGITS, LABELS, methods={"half": half, "whole": nishimori.ExpectationConsistency(), "T": 1.5})
    temperatures = [each.temperature for each in found]
    whole = nishimori.temperatures(LOGITS, LABELS).ec
    assert temperatures == [half.temperature_, pytest.approx(whole, rel=1e-9), 1.5]
    assert half.temperature_ != pytest.approx(whole, rel=1e-3)
    assert [each.method for each in compare(LOGITS, LABELS, methods=("none", 1.5))] == ["none", "T=1.5"]


def test_what_is_not_known_is_said():
    masked = LOGITS.copy()
    masked[0, LABELS[0]] = -np.inf
    found = paired(masked, LABELS, 1.0, 2.0)
    assert np.isnan(found.nll.value)
    assert (found.nll.se, found.nll.p_value) == (None, None)
    assert found.brier.se > 0
    alone = paired(LOGITS[:1], LABELS[:1], 1.0, 2.0)
    assert (alone.ece.se, alone.brier.se) == (None, None)
    for difference in (found.nll, alone.ece):
        with pytest.raises(InputError, match="`interval` needs the standard error of the difference, which is not known"):
            difference.interval()


REFUSED = {
    "true": ((True, 1.0), {}, "The method must be one of ec, ts, .*, got True"),
    "zero": ((1.0, 0), {}, "`T` must be a finite positive number, got 0"),
    "bins": ((1.0, 2.0), {"n_bins": 1001}, r"^`n_bins` must be at most 1000 for differences, got 1001\.$"),
    "strategy": ((1.0, 2.0), {"strategy": "equal"}, "`strategy` must be 'uniform' or 'quantile', got 'equal'"),
}


@pytest.mark.parametrize(("maps", "given", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_compared_is_refused(maps, given, message):
    with pytest.raises(InputError, match=message):
        changes(LOGITS, LABELS, *maps, **given)


def test_a_sketch_has_scorecards_and_a_reason_in_place_of_differences():
    maps = {"first": Temperature(1.0), "second": Temperature(2.0)}
    sketch = nishimori.Sketch().update(LOGITS, LABELS)
    found, exact = (measure_maps(data, maps) for data in (sketch, nishimori.rows(LOGITS, LABELS)))
    assert found.cards["second"].error == exact.cards["second"].error
    assert found.differences("first", "second") == {}
    assert found.difference("first", "second", "nll") is None
    assert exact.difference("first", "second", "nll").se > 0
    assert found.caveat == "A sketch does not give standard errors of the NLL, the Brier score, or differences between methods."


def test_levels_nest_and_the_p_value_is_where_an_interval_reaches_zero():
    difference = paired(LOGITS, LABELS, 1.3, 1.7).ece
    narrow, usual, wide, all_ = (difference.interval(level) for level in (0.5, 0.95, 0.999, 1))
    assert all_ == (-1, 1)
    assert wide.low < usual.low < narrow.low < narrow.high < usual.high < wide.high
    assert 1e-6 < difference.p_value < 0.9
    edge = difference.interval(1 - difference.p_value)
    assert min(abs(edge.low), abs(edge.high)) == pytest.approx(0, abs=0.002)
