"""Top-k log-probabilities: bounds on temperatures, and what they say about the rest of the probability."""

from itertools import pairwise

import bundled
import numpy as np
import pytest
import reference
from optional import mpmath
from scipy.special import log_softmax
from top_k_cases import concentrated, drawn, even, listed

import nishimori
from nishimori._top_k.unlisted_mass import Tails

BETAS = (0.05, 0.3, 0.5, 0.7, 0.95, 1.0, 1.05, 1.3, 2.0, 5.0)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("temperature", [0.6, 1.0, 2.0])
def test_bounds_contain_the_temperatures_of_all_logits_and_narrow_as_more_classes_are_listed(seed, temperature):
    log_p, labels = drawn(seed, temperature=temperature)
    ec, ts = reference.ec_temperature(log_p, labels), reference.ts_temperature(log_p, labels)
    widths = []
    for k in (2, 5, 10, 20, 29):
        found = nishimori.temperatures(listed(log_p, k, labels), labels)
        assert found.ec_bounds.low - 1e-8 <= ec <= found.ec_bounds.high + 1e-8
        assert found.ts_bounds.low - 1e-8 <= ts <= found.ts_bounds.high + 1e-8
        widths.append(found.ec_bounds.high - found.ec_bounds.low)
    assert all(after <= before + 1e-9 for before, after in pairwise(widths))
    assert widths[-1] < 1e-8  # one class is left, and its probability is known


def test_bounds_contain_the_temperature_of_a_real_network():
    part = bundled.network("cifar100/vgg19").validation
    log_p = log_softmax(np.asarray(part.logits, dtype=float)[:1500], axis=1)
    labels = np.asarray(part.labels)[:1500]
    exact = reference.ec_temperature(log_p, labels)
    for k in (3, 10, 50):
        low, high = nishimori.temperatures(listed(log_p, k), labels).ec_bounds
        assert low <= exact <= high


@pytest.mark.parametrize("temperature", [0.7, 1.6])
def test_both_bounds_of_expectation_consistency_are_reached_by_a_possible_tail(temperature):
    log_p, labels = drawn(5, temperature=temperature)
    labels = np.where(labels == np.argsort(-log_p, axis=1)[:, 0], labels, np.argsort(-log_p, axis=1)[:, 1])
    reached = sorted(reference.ec_temperature(make(log_p, 4), labels) for make in (even, concentrated))
    found = nishimori.temperatures(listed(log_p, 4), labels)
    np.testing.assert_allclose(found.ec_bounds, reached, rtol=1e-8)


def test_a_known_true_class_outside_the_list_leaves_a_smaller_tail():
    log_p, labels = drawn(5)
    full = log_p.copy()
    for row, label, order in zip(full, labels, np.argsort(-log_p, axis=1), strict=True):
        others = [each for each in order[4:] if each != label]
        row[others] = np.log(np.exp(row[others]).mean())
    found = nishimori.temperatures(listed(log_p, 4, labels), labels)
    assert found.ec_bounds.low == pytest.approx(reference.ec_temperature(full, labels), rel=1e-8)


def test_of_equal_probabilities_the_first_class_is_the_prediction():
    p = np.log([[0.4, 0.4, 0.1]] * 20)
    given = nishimori.TopK([[7, 3, 5]] * 20, p, 10)
    assert nishimori.evaluate(given, [3] * 12 + [7] * 8).accuracy == pytest.approx(0.6)


def test_no_random_tail_has_an_energy_outside_the_bounds():
    rng = np.random.default_rng(0)
    for _ in range(40):
        n_listed, others = int(rng.integers(1, 6)), int(rng.integers(1, 25))
        p = np.sort(rng.dirichlet(np.full(n_listed + others, 10 ** rng.uniform(-1, 1))))[::-1] + 1e-12
        known, tail = p[:n_listed], p[n_listed:]
        tails = [tail]
        for n in range(1, others + 1):  # tails of two probabilities: 0 and another one, or the largest and another one
            left = tail.sum() - n * known[-1]
            tails += [np.full(n, tail.sum() / n)] if tail.sum() / n <= known[-1] else []
            tails += [np.r_[np.full(n, known[-1]), np.full(others - n, left / (others - n))]] if n < others and left > 0 else []
        for beta in BETAS:
            low, high = energies(known, tail.sum(), others, beta)
            for each in tails:
                full = np.r_[known, each]
                energy = np.average(np.log(full), weights=full**beta)
                assert low - 1e-9 <= energy <= high + 1e-9


@pytest.mark.parametrize("beta", BETAS[1:])
def test_the_energy_bounds_are_nearly_reached_where_many_classes_are_not_listed(beta):
    known, mass, others = np.array([0.3, 0.1, 0.001]), 0.599, 2000
    reached = []
    for n in range(1, others + 1):
        left = mass - n * known[-1]
        candidates = [np.full(n, mass / n)] if mass / n <= known[-1] else []
        candidates += (
            [np.r_[np.full(n, known[-1]), np.full(others - n, left / (others - n))]] if n < others and left > 0 else []
        )
        for each in candidates:
            full = np.r_[known, each]
            reached.append(np.average(np.log(full), weights=full**beta))
    np.testing.assert_allclose(energies(known, mass, others, beta), (min(reached), max(reached)), atol=1e-3)


def energies(known, mass, others, beta):
    """The bounds on the mean log-probability of one row."""
    drops = np.log(known / known[0])
    tails = Tails(np.array([float(others)]), np.array([mass]), np.log(known[-1:]), np.zeros(1))
    sums = np.exp(beta * drops).sum(keepdims=True), (drops * np.exp(beta * drops)).sum(keepdims=True)
    return [float(each[0]) + np.log(known[0]) for each in tails.energies(beta, *sums, np.log(known[:1]))]


def test_the_temperature_is_the_middle_of_the_bounds_and_its_error_that_of_a_completion():
    log_p, labels = drawn(1, n=1500, scale=4.0)
    fitted = nishimori.ExpectationConsistency().fit(listed(log_p, 12), labels)
    low, high = fitted.temperature_bounds_
    assert fitted.temperature_ == pytest.approx((low + high) / 2, rel=1e-12)
    errors = []
    for make in (even, concentrated):
        full = make(log_p, 12)
        temperature = reference.ec_temperature(full, np.where(top(log_p) == labels, labels, second(log_p)))
        p = reference.softmax(full, temperature).max(axis=1)
        step = 1e-5
        slope = np.diff([reference.softmax(full, temperature + sign * step).max(axis=1).sum() for sign in (-1, 1)])[0]
        errors.append(np.sqrt(((p - (top(log_p) == labels)) ** 2).sum()) / abs(slope / (2 * step)))
    assert fitted.temperature_se_ == pytest.approx(max(errors), rel=1e-5)
    assert high - low < fitted.temperature_se_
    wide = fitted.confidence_interval()
    assert wide.low == pytest.approx(low / np.exp(1.959964 * fitted.temperature_se_ / low), rel=1e-6)
    assert wide.high == pytest.approx(high * np.exp(1.959964 * fitted.temperature_se_ / high), rel=1e-6)


def top(log_p):
    return log_p.argmax(axis=1)


def second(log_p):
    return np.argsort(-log_p, axis=1)[:, 1]


def test_a_fit_to_all_logits_forgets_the_bounds_of_an_earlier_one():
    log_p, labels = drawn(1, n=1500, scale=4.0)
    calibrator = nishimori.ExpectationConsistency().fit(listed(log_p, 12), labels)
    assert calibrator.fit(log_p, labels).temperature_bounds_ is None


def test_bounds_wider_than_the_standard_error_give_no_temperature_but_an_error_with_the_bounds():
    log_p, labels = drawn(2, n=1500)
    given = listed(log_p, 3, labels)
    found = nishimori.temperatures(given, labels)
    assert (found.ec, found.ts) == (None, None)
    low, high = found.ec_bounds
    message = (
        f"`log_probabilities` must list more classes: those that are not listed leave every temperature from {low:.4g} to "
        f"{high:.4g} possible, which is not narrower than its standard error, {found.ec_se:.3g}. Ask the model for more "
        "log-probabilities per sample than 3, or use the bounds, which `nishimori.temperatures` returns."
    )
    assert found.why_no_ec == message
    with pytest.raises(nishimori.errors.InputError) as error:
        nishimori.ExpectationConsistency().fit(given, labels)
    assert str(error.value) == message


def test_a_large_error_of_one_completion_does_not_make_wide_bounds_a_temperature():
    log_p, labels = drawn(0, n=300, scale=1.5, n_classes=300)
    found = nishimori.temperatures(listed(log_p, 10), labels)
    exact = reference.ec_temperature(log_p, labels)
    assert found.ec_bounds.low <= exact <= found.ec_bounds.high
    width = found.ec_bounds.high - found.ec_bounds.low
    hot = nishimori.temperatures(concentrated(log_p, 10), np.where(labels == top(log_p), labels, second(log_p)))
    assert hot.ec_se > width > found.ec_se
    assert found.ec is None


def test_temperature_scaling_is_refused_where_a_true_class_is_not_listed():
    log_p, labels = drawn(3)
    given = listed(log_p, 25)
    n_outside = int((~(given._indices == labels[:, None]).any(axis=1)).sum())
    assert n_outside
    with pytest.raises(
        nishimori.errors.InputError, match=f"where a true class is not listed, as in {n_outside} of 400 samples"
    ):
        nishimori.TemperatureScaling().fit(given, labels)
    assert nishimori.temperatures(given, labels).ts_bounds is None


def test_every_tail_may_be_as_hot_as_it_likes_where_one_class_is_listed():
    log_p, labels = drawn(4)
    found = nishimori.temperatures(listed(log_p, 1), labels)
    assert found.ec_bounds.high == np.inf
    assert found.ec_bounds.low == pytest.approx(reference.ec_temperature(even(log_p, 1), labels), rel=1e-8)


@pytest.mark.parametrize("k", [3, 20])
def test_temperature_scaling_may_be_possible_where_the_even_tail_has_no_temperature(k):
    rng = np.random.default_rng(0)
    logits = 3 * rng.normal(size=(400, 100))
    logits[:, 50:] = -60
    labels = (logits / 10 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    log_p = log_softmax(logits, axis=1)
    given = listed(log_p, k, labels)
    found = nishimori.temperatures(given, labels)
    assert found.ts_bounds.low <= reference.ts_temperature(log_p, labels) <= found.ts_bounds.high == np.inf
    with pytest.raises(nishimori.errors.InputError, match=f"must list more classes: .* to inf possible.* per sample than {k}"):
        nishimori.TemperatureScaling().fit(given, labels)


@pytest.mark.parametrize("beta", [1e-12, 1e-3, 0.01])
def test_the_smallest_energy_at_a_high_temperature_is_that_of_very_improbable_classes(beta):
    known, mass, others = np.array([0.5, 0.2]), 0.3, 8
    logs, numbers = np.log(np.r_[known, known[-1]]), np.r_[1.0, 1.0, 1.5]  # the mass is in 1.5 classes as large as the last

    def energy(log_p):  # of the other 6.5 classes
        everything = np.r_[logs, log_p]
        return np.average(everything, weights=np.r_[numbers, others - 1.5] * np.exp(beta * everything))

    least = min(energy(log_p) for log_p in -np.geomspace(0.01, 100, 4000) / beta)
    assert energies(known, mass, others, beta)[0] == pytest.approx(least, rel=1e-4)


def test_the_only_class_that_is_not_listed_has_what_is_left():
    log_p, labels = drawn(8, n_classes=6)
    found = nishimori.temperatures(listed(log_p, 5), labels)
    assert found.ts == pytest.approx(reference.ts_temperature(log_p, labels), rel=1e-6)
    loss = -log_p[np.arange(len(labels)), labels].mean()
    assert nishimori.evaluate(listed(log_p, 5), labels).nll == pytest.approx(loss, rel=1e-9)


def test_rows_that_list_nothing_have_probabilities_of_zero():
    given = nishimori.TopK([[0, 1], [0, 1]], [[-np.inf] * 2, np.log([0.5, 0.3]).tolist()], 5)
    low, high = given.probabilities()
    np.testing.assert_allclose(low, [[0, 0], [0.5, 0.3]])
    np.testing.assert_allclose(high, [[0, 0], [0.5, 0.3]])


def test_all_answers_right_leave_no_temperature():
    log_p, _ = drawn(4)
    given = listed(log_p, 5)
    with pytest.raises(nishimori.errors.NoTemperatureError, match="all 400 samples are classified correctly"):
        nishimori.temperatures(given, log_p.argmax(axis=1))


def test_top_n_consistency_has_bounds_too():
    log_p, labels = drawn(6, n=1500, scale=4.0)
    exact = reference.ec_temperature(log_p, labels, top_n=3)
    low, high = nishimori.ExpectationConsistency(top_n=3).fit(listed(log_p, 15), labels).temperature_bounds_
    assert low <= exact <= high
    with pytest.raises(
        nishimori.errors.InputError, match="`top_n` must be at most the number of listed classes per sample, 15, got 16"
    ):
        nishimori.ExpectationConsistency(top_n=16).fit(listed(log_p, 15), labels)


def test_tokens_to_ignore_weights_and_order_do_not_change_the_bounds():
    log_p, labels = drawn(7, n=600)
    rng = np.random.default_rng(0)
    plain = nishimori.temperatures(listed(log_p, 8), labels)
    indices = np.argsort(-log_p, axis=1)[:, :8]
    shuffled = rng.permuted(indices, axis=1)
    logs = np.take_along_axis(log_p, shuffled, axis=1)
    padded_logs, padded = np.full((40, 20, 8), np.nan), np.full((40, 20, 8), -1)
    padded_logs[:, :15], padded[:, :15] = logs.reshape(40, 15, 8), shuffled.reshape(40, 15, 8)
    padded_labels = np.full((40, 20), -100)
    padded_labels[:, :15] = labels.reshape(40, 15)
    given = nishimori.TopK(padded, padded_logs, 30)
    found = nishimori.temperatures(given, padded_labels, ignore_index=-100, clusters=np.arange(40))
    np.testing.assert_allclose(found.ec_bounds, plain.ec_bounds, rtol=1e-9)
    assert found.n_samples == 600
    assert found.ec_se != pytest.approx(plain.ec_se, rel=1e-3)  # that of documents
    doubled = nishimori.temperatures(listed(np.r_[log_p, log_p], 8), np.r_[labels, labels])
    weighted = nishimori.temperatures(listed(log_p, 8), labels, sample_weight=np.full(600, 2.0), counts=True)
    np.testing.assert_allclose(weighted.ec_bounds, doubled.ec_bounds, rtol=1e-9)
    assert weighted.ec_se == pytest.approx(doubled.ec_se, rel=1e-6)


def test_rows_may_list_fewer_classes():
    log_p, labels = drawn(8)
    indices = np.argsort(-log_p, axis=1)[:, :6]
    logs = np.take_along_axis(log_p, indices, axis=1)
    logs[::2, 4:] = -np.inf
    indices[::2, 4:] = -1
    exact = reference.ec_temperature(log_p, labels)
    bounds = nishimori.temperatures(nishimori.TopK(indices, logs, 30), labels).ec_bounds
    four, six = (nishimori.temperatures(listed(log_p, k), labels).ec_bounds for k in (4, 6))
    assert four.low < bounds.low < six.low <= exact <= six.high < bounds.high < four.high


def test_metrics_at_the_temperature_of_the_model_are_exact():
    log_p, labels = drawn(9)
    card, full = nishimori.evaluate(listed(log_p, 5), labels), nishimori.evaluate(log_p, labels)
    for name in ("accuracy", "confidence", "ece", "ece_se", "gap_se"):
        assert getattr(card, name) == pytest.approx(getattr(full, name), rel=1e-12)
    assert np.isnan([card.brier, card.nll]).all()
    assert not {"brier", "nll"} & set(card.to_dict())
    with pytest.raises(
        nishimori.errors.InputError, match=r"standard error of brier, which is not known: the probabilities of unlisted classes"
    ):
        card.interval("brier")
    with pytest.raises(
        nishimori.errors.InputError, match=r"the true class is not known in \d+ of 400 samples. Pass `label_log_prob"
    ):
        card.interval("nll")
    with_labels = nishimori.evaluate(listed(log_p, 5, labels), labels)
    assert with_labels.nll == pytest.approx(-log_p[np.arange(400), labels].mean(), rel=1e-12)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
def test_probabilities_at_a_temperature_are_bounded_by_those_of_both_completions(temperature):
    log_p, _ = drawn(10, n=50)
    given = listed(log_p, 4)
    found = [
        np.take_along_axis(reference.softmax(make(log_p, 4), temperature), given._indices, axis=1)
        for make in (even, concentrated)
    ]
    low, high = given.probabilities(temperature)
    np.testing.assert_allclose(low, np.minimum(*found), rtol=1e-9)
    np.testing.assert_allclose(high, np.maximum(*found), rtol=1e-9)
    true = np.take_along_axis(reference.softmax(log_p, temperature), given._indices, axis=1)
    assert ((low <= true * (1 + 1e-12)) & (true <= high * (1 + 1e-12))).all()
    if temperature == 1:
        np.testing.assert_allclose(low, high, rtol=1e-9)


def exact_probabilities(row, columns, T):
    """Those of some classes at a temperature, from all logits, with 60 digits."""
    with mpmath.workdps(60):
        weights = [mpmath.exp(mpmath.mpf(float(z)) / T) for z in row]
        total = mpmath.fsum(weights)
        return [weights[i] / total for i in columns]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("T", [0.3, 1.0, 2.0, 5.0])
def test_probabilities_lie_inside_their_bounds_where_the_rest_is_below_rounding(T, dtype):
    """One minus the listed probabilities is then only rounding, and yet the other classes count at a high temperature."""
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(12, 400)) - np.linspace(20, 60, 12)[:, None]
    logits[:, :3] = 2 * rng.normal(size=(12, 3))
    logits[0] = np.log(0.5 / 399)
    logits[0, 0] = np.log(0.5)
    log_p = log_softmax(logits, axis=1).astype(dtype)
    tokens = np.argsort(-log_p, axis=1)[:, :5]
    low, high = nishimori.TopK(tokens, np.take_along_axis(log_p, tokens, axis=1), 400).probabilities(T)
    for row, columns, lowest, highest in zip(logits, tokens, low, high, strict=True):
        for p, a, b in zip(exact_probabilities(row, columns, T), lowest, highest, strict=True):
            assert a <= p <= b


@pytest.mark.parametrize("T", [0.6, 2.5])
def test_the_bounds_of_temperatures_contain_the_truth_where_the_rest_is_below_rounding(T):
    rng = np.random.default_rng(1)
    logits = np.concatenate([3 * rng.normal(size=(800, 4)), rng.normal(size=(800, 396)) - 38], axis=1)
    labels = (logits / T + rng.gumbel(size=logits.shape)).argmax(axis=1)
    log_p = log_softmax(logits, axis=1)
    found = nishimori.temperatures(listed(log_p, 6, labels), labels)
    exact = nishimori.temperatures(logits, labels)
    assert found.ec_bounds.low <= exact.ec <= found.ec_bounds.high
    assert found.ts_bounds.low <= exact.ts <= found.ts_bounds.high
