"""The search for temperatures of groups: the equations of the random-effects model, solved a second time with SciPy."""

import numpy as np
import pytest
import reference
import reference_groups
from scipy.stats import chi2

from nishimori import GroupConsistency
from nishimori.errors import InputWarning, NotConvergedError

RNG = np.random.default_rng(5)
N_GROUPS = 6
GROUPS = np.repeat(np.arange(N_GROUPS), [400, 300, 200, 120, 80, 60])
LOGITS = 3 * RNG.normal(size=(len(GROUPS), 5))
TRUE_LOGS = 0.7 * RNG.normal(size=N_GROUPS)
LABELS = (LOGITS / np.exp(TRUE_LOGS)[GROUPS, None] + RNG.gumbel(size=LOGITS.shape)).argmax(axis=1)
WEIGHTS = RNG.integers(0, 3, len(GROUPS)).astype(float)
CLUSTERS = RNG.integers(0, 60, len(GROUPS))


def fitted(method, **options):
    return GroupConsistency(by="groups", method=method).fit(
        LOGITS, LABELS, options.pop("weights", None), groups=GROUPS, **options
    )


@pytest.mark.parametrize("method", ["ec", "ts"])
@pytest.mark.parametrize("how", ["plain", "weights", "counts", "clusters"])
def test_temperatures_solve_the_equations_of_the_model(method, how):
    options = {} if how == "plain" else {"weights": WEIGHTS}
    options |= {"counts": True} if how == "counts" else {"clusters": CLUSTERS} if how == "clusters" else {}
    found = fitted(method, **options)
    common, temperatures, estimated, used = reference_groups.fitted(LOGITS, LABELS, GROUPS, N_GROUPS, method, **options)
    assert found.common_temperature_ == pytest.approx(common, rel=1e-7)
    assert [found.spread_**2, found.used_spread_**2] == pytest.approx([estimated, used], rel=1e-6)
    assert used > 0.01
    np.testing.assert_allclose(found.temperatures_, temperatures, rtol=1e-7)


@pytest.mark.parametrize("method", ["ec", "ts"])
def test_the_pooled_condition_holds_again(method):
    found = fitted(method, weights=WEIGHTS)
    gaps = reference_groups.row_gaps(LOGITS, LABELS, found.temperatures_[GROUPS], method)
    assert np.average(gaps, weights=WEIGHTS) == pytest.approx(0, abs=1e-9)
    assert found.residual_ == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("method", ["ec", "ts"])
def test_standard_errors_are_those_of_what_is_kept_and_of_what_is_missed(method):
    found = fitted(method)
    gap, slope, variance = reference_groups.sums(LOGITS, LABELS, GROUPS, N_GROUPS, found.common_temperature_, method)
    possible = reference_groups.variance_at(gap / slope, variance / slope**2, chi2.ppf(0.16, N_GROUPS - 1))
    possible = np.minimum(possible, (np.abs(gap / slope) + np.sqrt(variance) / slope) ** 2)
    _, slope, variance = reference_groups.sums(LOGITS, LABELS, GROUPS, N_GROUPS, found.temperatures_, method)
    own, used = variance / slope**2, found.used_spread_**2
    gaps = reference_groups.row_gaps(LOGITS, LABELS, found.common_temperature_, method)
    one = np.zeros(len(GROUPS), dtype=int)
    _, total, _ = reference_groups.sums(LOGITS, LABELS, one, 1, found.common_temperature_, method)
    common = (gaps**2).sum() / total[0] ** 2
    expected = (own * (used / (used + own)) ** 2) + (own / (used + own)) ** 2 * (possible + common)
    np.testing.assert_allclose(found.temperatures_se_ / found.temperatures_, np.sqrt(expected), rtol=1e-5)


def test_intervals_contain_the_temperatures_that_labels_were_drawn_with():
    distances = []
    for seed in range(25):
        rng = np.random.default_rng(seed)
        groups, logs = rng.integers(8, size=1600), 0.4 * rng.normal(size=8)
        logits = 3 * rng.normal(size=(1600, 5))
        labels = (logits / np.exp(logs)[groups, None] + rng.gumbel(size=logits.shape)).argmax(axis=1)
        found = GroupConsistency(by="groups").fit(logits, labels, groups=groups)
        distances.append((np.log(found.temperatures_) - logs) / (found.temperatures_se_ / found.temperatures_))
    assert np.mean(np.abs(distances) < 1.96) == pytest.approx(0.95, abs=0.06)
    assert np.std(distances) == pytest.approx(1, abs=0.25)


def test_a_small_group_does_not_change_the_errors_of_large_ones():
    logits, labels = reference.drawn(3000, 5)
    groups = np.arange(3000) % 3
    alone = GroupConsistency(by="groups").fit(logits, labels, groups=groups)
    right = np.flatnonzero(logits.argmax(axis=1) == labels)
    groups[right[:2]] = 9  # two samples, whose own temperature is very uncertain
    found = GroupConsistency(by="groups").fit(logits, labels, groups=groups)
    assert alone.used_spread_ == found.used_spread_ == 0
    assert (found.temperatures_se_[:3] < 4 * alone.temperatures_se_).all()
    assert found.temperatures_se_[3] > 4 * alone.temperatures_se_.max()


def test_predictions_stay_in_float32_where_every_answer_of_a_class_is_wrong():
    logits, labels = reference.drawn(3000, 4)
    rows = labels != 2
    found = GroupConsistency().fit(logits[rows], labels[rows])
    assert found.temperatures_[2] > 100
    probabilities = found.predict_proba(logits.astype(np.float32))
    assert probabilities.dtype == np.float32
    np.testing.assert_array_equal(probabilities.argmax(axis=1), logits.argmax(axis=1))


def test_a_group_without_errors_gets_a_finite_temperature_below_the_common_one():
    rows = (GROUPS < 5) | (LOGITS.argmax(axis=1) == LABELS)
    found = GroupConsistency(by="groups").fit(LOGITS[rows], LABELS[rows], groups=GROUPS[rows])
    assert (LOGITS[rows].argmax(axis=1) == LABELS[rows])[GROUPS[rows] == 5].all()
    assert 0.1 < found.temperatures_[5] < found.common_temperature_
    assert found.open_groups_ == ()


def test_groups_that_differ_by_noise_have_the_common_temperature():
    logits, labels = reference.drawn(3000, 5)
    found = GroupConsistency(by="groups").fit(logits, labels, groups=np.arange(3000) % 6)
    assert found.used_spread_ == 0
    np.testing.assert_array_equal(found.temperatures_, np.full(6, found.common_temperature_))
    assert (found.temperatures_se_ > 0).all()


def test_the_loss_of_other_rows_is_lower_than_with_one_temperature():
    rng = np.random.default_rng(9)
    groups = rng.integers(N_GROUPS, size=20_000)
    logits = 3 * rng.normal(size=(20_000, 5))
    labels = (logits / np.exp(TRUE_LOGS)[groups, None] + rng.gumbel(size=logits.shape)).argmax(axis=1)
    found = fitted("ec")
    losses = [reference.nll(logits, labels, T) for T in (found.common_temperature_, found.temperatures_[groups][:, None])]
    assert losses[1] < losses[0] - 0.01


def test_a_search_that_takes_too_long_is_an_error(monkeypatch):
    monkeypatch.setattr("nishimori._fit.groups._MOST_PASSES", 2)
    with pytest.raises(
        NotConvergedError, match=r"^The search for the temperatures of groups did not converge in 2 passes\. Leave"
    ):
        fitted("ec")


@pytest.mark.parametrize("method", ["ec", "ts"])
def test_a_heavy_group_that_stays_at_the_common_temperature_does_not_slow_the_search_down(method):
    logits, groups, weights = np.vstack([LOGITS, [[9.0, 0, 0, 0, 0]]]), np.append(GROUPS, 9), np.ones(len(GROUPS) + 1)
    labels, weights[-1] = np.append(LABELS, 1), 60.0
    with pytest.warns(InputWarning, match="^The group 9 has fewer than two samples"):
        found = GroupConsistency(by="groups", method=method).fit(logits, labels, weights, groups=groups)
    assert found.n_passes_ < 20
    temperatures = found.temperatures_[np.searchsorted(found.groups_, groups)]
    gaps = reference_groups.row_gaps(logits, labels, temperatures, method)
    assert np.average(gaps, weights=weights) == pytest.approx(0, abs=1e-8)
    assert found.temperatures_[-1] == found.common_temperature_
    assert found.used_spread_ > 0


def test_a_group_that_is_right_wherever_its_logits_differ_has_a_finite_error():
    # Class 0 is predicted for scores of at most 0. Only ties are wrong, so its own temperature would be 0.
    scores = np.repeat([-4, -2, -1, 0, 1, 2, 3, 5], [8, 4, 17, 28, 11, 7, 6, 19])
    wrong = np.repeat([0, 0, 0, 5, 11, 4, 2, 0], [8, 4, 17, 28, 11, 7, 6, 19])
    place = np.concatenate([np.arange(n) for n in (8, 4, 17, 28, 11, 7, 6, 19)])
    labels = np.where(place < wrong, scores <= 0, scores > 0).astype(int)
    found = GroupConsistency().fit(scores.astype(float), labels)
    assert found.temperatures_[0] < 1e-3
    assert np.isfinite(found.temperatures_se_).all()
