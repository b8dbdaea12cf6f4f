"""Both temperatures agree with root finding on their definitions, to 1e-8, wherever they exist."""

import subprocess
import sys
import weakref
from dataclasses import FrozenInstanceError
from math import log, sqrt

import numpy as np
import pytest
import reference
from optional import jnp, ml_dtypes, torch

from nishimori import ExpectationConsistency, TemperatureScaling, temperatures
from nishimori._fit.temperatures import temperatures_of
from nishimori._rows.entry import open_rows
from nishimori.errors import InputError, NotConvergedError

CLOSE = 1e-8


def sample(n, k, temperature, seed=0):
    """Logits of which about half are right at this temperature, whatever the number of classes."""
    # At this ratio of scale to temperature the largest of k Gaussian logits carries about half of the probability.
    return reference.drawn(n, k, temperature, scale=1.2 * temperature * sqrt(2 * log(k)), seed=seed)


def assert_both_agree(logits, labels, near, weights=None, stored=None):
    """Both temperatures of ``logits``, against the definitions on ``stored``, the same values for NumPy."""
    stored = np.asarray(logits) if stored is None else stored
    bracket = {"low": near / 300, "high": near * 300}
    found = temperatures(logits, labels, sample_weight=weights)
    assert found.ec == pytest.approx(reference.ec_temperature(stored, labels, weights, **bracket), rel=CLOSE)
    assert found.ts == pytest.approx(reference.ts_temperature(stored, labels, weights, **bracket), rel=CLOSE)
    assert ExpectationConsistency().fit(logits, labels, weights).temperature_ == pytest.approx(found.ec, rel=CLOSE)
    assert TemperatureScaling().fit(logits, labels, weights).temperature_ == pytest.approx(found.ts, rel=CLOSE)


@pytest.mark.parametrize("k", [2, 3, 10, 100])
@pytest.mark.parametrize("temperature", [0.001, 0.05, 0.5, 2, 30, 1000])
def test_both_agree_with_their_definitions_at_any_scale(temperature, k):
    assert_both_agree(*sample(2000, k, temperature), near=temperature)


@pytest.mark.parametrize(("temperature", "n", "k"), [(2, 200, 1000), (0.001, 24, 32_000), (1000, 24, 32_000)])
def test_both_agree_with_their_definitions_for_many_classes(temperature, n, k):
    assert_both_agree(*sample(n, k, temperature), near=temperature)


@pytest.mark.parametrize("temperature", [0.001, 2, 1000])
@pytest.mark.parametrize(("k", "top_n"), [(3, 2), (10, 1), (10, 2), (10, 5), (10, 9), (1000, 5)])
def test_top_n_agrees_with_its_definition(k, top_n, temperature):
    logits, labels = sample(1500 if k < 100 else 150, k, temperature)
    expected = reference.ec_temperature(logits, labels, top_n=top_n, low=temperature / 300, high=temperature * 300)
    assert ExpectationConsistency(top_n=top_n).fit(logits, labels).temperature_ == pytest.approx(expected, rel=CLOSE)


STORED_AS = {
    "numpy float32": lambda z: z.astype(np.float32),
    "numpy float16": lambda z: z.astype(np.float16),
    "numpy bfloat16": lambda z: z.astype(ml_dtypes.bfloat16),
    "torch float64": torch.from_numpy,
    "torch float32": lambda z: torch.from_numpy(z).float(),
    "torch float16": lambda z: torch.from_numpy(z).half(),
    "torch bfloat16": lambda z: torch.from_numpy(z).bfloat16(),
    "jax float32": lambda z: jnp.asarray(z, jnp.float32),
    "jax float16": lambda z: jnp.asarray(z, jnp.float16),
    "jax bfloat16": lambda z: jnp.asarray(z, jnp.bfloat16),
}


@pytest.mark.parametrize("temperature", [0.001, 2, 1000])
@pytest.mark.parametrize("store", STORED_AS.values(), ids=STORED_AS)
def test_every_precision_agrees_with_the_definition_on_its_stored_values(store, temperature):
    logits, labels = sample(1500, 10, temperature)
    kept = store(logits)
    stored = kept.double().numpy() if isinstance(kept, torch.Tensor) else np.asarray(kept).astype(np.float64)
    assert_both_agree(kept, labels, near=temperature, stored=stored)


def test_float32_gives_the_temperature_of_float64_to_four_digits():
    logits, labels = sample(5000, 10, 5.0)
    single, double = temperatures(logits.astype(np.float32), labels), temperatures(logits, labels)
    assert (single.ec, single.ts) == pytest.approx((double.ec, double.ts), rel=1e-4)


@pytest.mark.parametrize("temperature", [0.001, 2, 1000])
def test_a_constant_of_1e4_on_each_row_keeps_the_agreement(temperature):
    logits, labels = sample(1500, 10, temperature)
    shift = np.random.default_rng(1).choice([-1e4, 1e4], size=(1500, 1))
    assert_both_agree(logits + shift, labels, near=temperature)


def test_adding_1000_to_all_logits_changes_neither_temperature():
    logits, labels = sample(1500, 10, 2.0)
    moved, still = temperatures(logits + 1000, labels, input="logits"), temperatures(logits, labels)
    assert (moved.ec, moved.ts) == pytest.approx((still.ec, still.ts), rel=CLOSE)


@pytest.mark.parametrize("floor", [-1e4, -1e9, float(np.finfo(np.float32).min)])
@pytest.mark.parametrize(("n", "k"), [(60, 3), (500, 10), (3000, 10)])
def test_classes_pushed_far_down_instead_of_masked_keep_the_agreement(n, k, floor):
    logits, labels = sample(n, k, 2.0)
    floored = np.hstack([logits, np.full((n, 2), floor)])
    assert_both_agree(floored, labels, near=2.0)
    assert temperatures(floored, labels).n_passes <= 20


@pytest.mark.parametrize("n", [400, 20_000])
def test_any_weights_agree_with_the_weighted_definitions(n):
    logits, labels = sample(n, 10, 2.0)
    assert_both_agree(logits, labels, near=2.0, weights=np.random.default_rng(1).exponential(size=n))


@pytest.mark.parametrize("top_n", [1, 3])
def test_a_whole_weight_is_as_many_copies_and_zero_is_none(top_n):
    logits, labels = sample(2000, 10, 2.0)
    weights = np.random.default_rng(1).integers(0, 4, size=2000)
    copies = np.repeat(np.arange(2000), weights)
    for calibrator in (ExpectationConsistency(top_n=top_n), TemperatureScaling()):
        weighed = calibrator.fit(logits, labels, weights).temperature_
        assert weighed == pytest.approx(calibrator.fit(logits[copies], labels[copies]).temperature_, rel=CLOSE)


@pytest.mark.parametrize("seed", range(4))
def test_weights_on_a_few_of_very_many_rows_find_the_temperature_of_those_few(seed):
    logits, labels = sample(20_000, 10, 2.0)
    few = np.random.default_rng(seed).choice(20_000, 12, replace=False)
    weights = np.zeros(20_000)
    weights[few] = 1
    few_alone = temperatures(logits[few], labels[few])
    found = temperatures(logits, labels, sample_weight=weights)
    assert (found.ec, found.ts) == pytest.approx((few_alone.ec, few_alone.ts), rel=CLOSE)
    assert found.n_samples == 12


def test_a_row_of_weight_zero_may_hold_what_would_be_refused_otherwise():
    logits, labels = sample(200, 4, 2.0)
    masked_label = np.where(np.eye(4)[labels[0]] == 1, -np.inf, 0.0)
    padded, padded_labels = np.vstack([masked_label, logits]), np.append(labels[0], labels)
    found = TemperatureScaling().fit(padded, padded_labels, np.append(0, np.ones(200)))
    assert found.temperature_ == pytest.approx(TemperatureScaling().fit(logits, labels).temperature_, rel=CLOSE)


def test_data_with_a_period_does_not_mislead_the_search():
    logits, labels = sample(4096, 10, 2.0)
    logits[::16] *= 100  # a start from every sixteenth row would be a hundred times off
    assert_both_agree(logits, labels, near=2.0)


@pytest.mark.parametrize("top_n", [1, 3])
def test_masked_classes_agree_with_the_definition(top_n):
    logits, labels = sample(1500, 10, 2.0)
    masked = np.random.default_rng(1).random(logits.shape) < 0.6
    masked[np.arange(1500), labels] = False
    logits[masked] = -np.inf
    assert_both_agree(logits, labels, near=2.0)
    expected = reference.ec_temperature(logits, labels, top_n=top_n)
    assert ExpectationConsistency(top_n=top_n).fit(logits, labels).temperature_ == pytest.approx(expected, rel=CLOSE)


@pytest.mark.parametrize("top_n", [1, 2])
def test_expectation_consistency_counts_a_label_at_a_masked_class_as_a_miss(top_n):
    logits, labels = sample(500, 4, 2.0)
    logits[:40] = -np.inf
    logits[np.arange(40), (labels[:40] + 1) % 4] = 0.0  # one live class, so a masked one can be second
    fitted = ExpectationConsistency(top_n=top_n).fit(logits, labels)
    assert fitted.temperature_ == pytest.approx(reference.ec_temperature(logits, labels, top_n=top_n), rel=CLOSE)
    assert fitted.fit_info_.accuracy == pytest.approx(reference.right(logits, labels, top_n).mean())
    assert not reference.right(logits, labels, top_n)[:40].any()


@pytest.mark.parametrize("top_n", [1, 2])
def test_rounded_logits_full_of_ties_agree_with_the_definition(top_n):
    logits, labels = sample(1500, 5, 2.0)
    logits = np.round(logits)
    assert (np.sort(logits, axis=1)[:, -1] == np.sort(logits, axis=1)[:, -2]).sum() > 50
    assert_both_agree(logits, labels, near=2.0)
    expected = reference.ec_temperature(logits, labels, top_n=top_n)
    assert ExpectationConsistency(top_n=top_n).fit(logits, labels).temperature_ == pytest.approx(expected, rel=CLOSE)


@pytest.mark.parametrize("n", [2, 20])
def test_a_handful_of_samples_agrees_with_the_definition(n):
    logits, labels = sample(n, 10, 2.0)
    assert_both_agree(logits, labels, near=2.0)


def test_classes_that_never_occur_are_no_obstacle():
    logits, labels = sample(1500, 10, 2.0)
    kept = labels < 4
    assert_both_agree(logits[kept], labels[kept], near=2.0)


def test_both_at_once_reads_the_data_less_often_than_one_after_the_other():
    logits, labels = sample(3000, 10, 2.0)
    found = temperatures(logits, labels)
    ec, ts = (c.fit(logits, labels) for c in (ExpectationConsistency(), TemperatureScaling()))
    assert max(ec.n_passes_, ts.n_passes_) <= found.n_passes < ec.n_passes_ + ts.n_passes_


def test_the_result_of_both_is_frozen_and_knows_the_weighted_accuracy():
    logits, labels = sample(500, 10, 2.0)
    weights = np.arange(500)
    found = temperatures(logits, labels, sample_weight=weights)
    assert found.accuracy == pytest.approx(np.average(reference.right(logits, labels), weights=weights), rel=1e-12)
    assert found.n_samples == 499
    assert (found.why_no_ec, found.why_no_ts) == (None, None)
    with pytest.raises(FrozenInstanceError):
        found.ec = 1.0


def test_both_temperatures_never_need_scikit_learn():
    program = (
        "import sys; sys.modules['sklearn'] = None; import numpy as np, nishimori; rng = np.random.default_rng(0);"
        "z = rng.normal(size=(200, 3)); y = (z + rng.gumbel(size=z.shape)).argmax(axis=1);"
        "found = nishimori.temperatures(z, y); assert found.ec > 0 and found.ts > 0"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)


@pytest.mark.parametrize("mask", [-1e9, float(np.finfo(np.float32).min)])
@pytest.mark.parametrize("share", [0.5, 0.95])
def test_soft_masks_that_leave_most_rows_one_class_change_nothing(mask, share):
    rng = np.random.default_rng(0)
    for seed in range(20):
        logits, labels = reference.drawn(400, 4, seed=seed)
        masked = (rng.random(400) < share)[:, None] & (np.arange(4) != labels[:, None])
        soft = temperatures(np.where(masked, mask, logits), labels)
        hard = temperatures(np.where(masked, -np.inf, logits), labels)
        assert (soft.ec, soft.ts) == pytest.approx((hard.ec, hard.ts), rel=1e-8)


def test_both_errors_are_kept_and_do_not_keep_the_data():
    logits, labels = reference.drawn(400, 4)
    logits[0, labels[0]] = -np.inf  # temperature scaling refuses this, expectation consistency does not
    there = weakref.ref(logits)
    found = temperatures(logits, labels)
    assert found.ec_error is None
    assert type(found.ts_error) is InputError
    copy = logits.copy()
    del logits
    assert there() is None
    with pytest.raises(InputError) as alone:
        TemperatureScaling().fit(copy, labels)
    assert str(alone.value) == found.why_no_ts.replace("`labels`", "`y`") == str(found.ts_error).replace("`labels`", "`y`")


def test_an_error_that_a_search_raises_does_not_keep_the_data_either(monkeypatch):
    monkeypatch.setattr("nishimori._fit.roots.LIMIT", 1)
    logits, labels = reference.drawn(100, 4)
    there = weakref.ref(logits)
    found = temperatures_of(open_rows(logits, labels), starts={"ec": 100.0, "ts": 100.0})
    assert type(found.ec_error) is type(found.ts_error) is NotConvergedError
    del logits
    assert there() is None


def rounded(rng):
    return np.round(6 * rng.normal(size=(5000, 64))) / 2


def repeated(rng):
    return (3 * rng.normal(size=(300, 30)))[np.arange(20_000) % 300]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("make", [rounded, repeated])
def test_float32_logits_whose_rounding_errors_do_not_average_out_keep_the_agreement(make, seed):
    rng = np.random.default_rng(seed)
    logits = make(rng)
    labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    found = temperatures(logits.astype(np.float32), labels)
    stored = logits.astype(np.float32).astype(np.float64)
    assert found.ec == pytest.approx(reference.ec_temperature(stored, labels, low=1, high=4), rel=CLOSE)
    assert found.ts == pytest.approx(reference.ts_temperature(stored, labels, low=1, high=4), rel=CLOSE)


@pytest.mark.parametrize("seed", range(3))
def test_a_sample_far_from_the_answer_does_not_cost_digits(seed):
    # With such weights a few rows decide, and a sample misses them.
    logits, labels = reference.drawn(2000, 64, seed=seed)
    weights = 10 ** np.random.default_rng(seed).uniform(-6, 3, size=2000)
    found = temperatures(logits.astype(np.float32), labels, sample_weight=weights)
    stored = logits.astype(np.float32).astype(np.float64)
    assert found.ts == pytest.approx(reference.ts_temperature(stored, labels, weights, low=0.3, high=10), rel=CLOSE)


def test_labels_at_random_are_said_to_be_no_better_than_chance_in_float32_too():
    rng = np.random.default_rng(3)
    logits = 3 * rng.normal(size=(20_000, 10)).astype(np.float32)
    labels = (logits / 300 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    found = temperatures(logits, labels)
    assert found.ec is None
    assert found.end == "hot"
    assert found.n_passes < 20


def test_a_heavy_row_that_no_sample_has_does_not_cost_digits():
    rng = np.random.default_rng(0)
    logits = np.zeros((70_000, 32))
    logits[np.arange(70_000), rng.integers(32, size=70_000)] = rng.integers(5, 9, size=70_000)
    labels = (logits / 1.3 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    weights = np.ones(70_000)
    logits[123], labels[123], weights[123] = -8, 0, 6e4
    logits[123, :2] = 0, -1
    found = temperatures(logits, labels, sample_weight=weights)
    assert found.ec == pytest.approx(reference.ec_temperature(logits, labels, weights, low=0.5, high=5), rel=CLOSE)
