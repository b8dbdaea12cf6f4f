"""Logits that are computed again: rounding passes, and logits that change are refused by every method with the reason."""

import re

import bundled
import numpy as np
import pytest
import reference
from optional import torch

import nishimori
from nishimori._rows.array_rows import ReadOptions
from nishimori._rows.stream_rows import StreamRows
from nishimori.errors import InputError

LOGITS, LABELS = reference.drawn(900, 5)
TWO = LOGITS[:, :2]
BINARY = (np.random.default_rng(3).random(900) * (1 + np.exp((TWO[:, 0] - TWO[:, 1]) / 2)) < 1).astype(int)

REFUSAL = (
    r"^`{}` must give the same logits in every pass over the data, got logits that change from one pass to the next while rows "
    r"and labels stay the same\. Likely causes are random "
    r"augmentation, dropout, sampling, or a generator that is not started again with the same seed\. {}"
)
ONCE = re.escape(
    "Use fixed transforms and put networks in eval mode; or compute the logits once, as `nishimori.torch.collect(model, "
    "loader)` does, and pass these arrays."
)


def changing(change, logits=LOGITS, labels=LABELS, step=200):
    """A function of batches whose logits are ``change(logits, rng)``, with other random numbers in each pass."""
    rng = np.random.default_rng(0)

    def batches():
        for start in range(0, len(logits), step):
            rows = slice(start, start + step)
            yield change(logits[rows], rng), labels[rows]

    return batches


def by_half_a_logit(logits, rng):
    return logits + 0.5 * rng.standard_normal(logits.shape)


def in_bfloat16(logits, rng):
    """As a GPU computes twice: another rounding each time, of half the spacing."""
    noisy = logits * (1 + 2.0**-9 * rng.uniform(-1, 1, logits.shape))
    return torch.from_numpy(noisy).to(torch.bfloat16)


def forms(n_classes):
    drawn = np.random.default_rng(0).standard_normal((n_classes, 8))
    return drawn - drawn.mean(axis=0)


def fingerprint(batches, **meaning):
    """What one pass has found of the logits of some batches."""
    data = StreamRows(batches, ReadOptions(**meaning))
    for _ in data:
        pass
    return data._first_totals.logits


def shares(logits, others):
    """How much the sums of the forms change, as a part of their scale: the formula in plain NumPy."""
    r = forms(logits.shape[1])
    first = logits @ r
    return np.sqrt(np.mean(((others @ r).sum(axis=0) - first.sum(axis=0)) ** 2) / np.mean((first**2).sum(axis=0)))


@pytest.mark.parametrize("name", [name for name in nishimori.methods() if name not in {"none", "histogram"}])  # read once
def test_every_method_refuses_logits_that_change_and_says_why(name):
    logits, labels = (TWO, BINARY) if name in {"platt", "beta", "quadratic", "intercept"} else (LOGITS, LABELS)
    with pytest.raises(InputError, match=REFUSAL.format("X", ONCE)):
        nishimori.calibrator(name).fit(changing(by_half_a_logit, logits, labels))


@pytest.mark.parametrize("use", [nishimori.temperatures, nishimori.temperature_curve, nishimori.bootstrap])
def test_every_function_that_reads_twice_refuses_them(use):
    with pytest.raises(InputError, match=REFUSAL.format("logits", ONCE)):
        use(changing(by_half_a_logit))


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_dropout_is_refused(rate):
    weights = np.random.default_rng(1).standard_normal((5, 5)) + 3 * np.eye(5)

    def dropped(features, rng):
        return (features * (rng.random(features.shape) > rate) / (1 - rate)) @ weights

    with pytest.raises(InputError, match="must give the same logits in every pass"):
        nishimori.temperatures(changing(dropped))


@pytest.mark.parametrize("n_rows", [20, 100, 900])
def test_rounding_to_bfloat16_passes_at_every_number_of_rows(n_rows):
    found = nishimori.temperatures(changing(in_bfloat16, LOGITS[:n_rows], LABELS[:n_rows]))
    assert found.ts == pytest.approx(reference.ts_temperature(LOGITS[:n_rows], LABELS[:n_rows]), rel=5e-3)


@pytest.mark.parametrize("network", ["cifar10/densenet121", "cifar10/resnet20", "cifar100/repvgg-a2"])
def test_on_logits_of_networks_rounding_and_a_change_of_half_a_logit_are_told_apart_at_every_number_of_rows(network):
    logits = bundled.network(network).test.logits
    rng = np.random.default_rng(4)
    for n_rows in (100, 1000, len(logits)):
        some = logits[rng.choice(len(logits), n_rows, replace=False)].astype(np.float64)
        labels = np.zeros(n_rows, dtype=int)
        rounded = in_bfloat16(some, rng)
        first = fingerprint([(rounded, labels)])
        assert first.agrees(fingerprint([(in_bfloat16(some, rng), labels)]))
        assert not first.agrees(fingerprint([(by_half_a_logit(some, rng), labels)]))


def test_log_probabilities_in_bfloat16_pass_though_their_rounding_grows_with_their_distance_from_zero():
    probabilities = np.log(reference.softmax(LOGITS)) - 30
    assert shares(probabilities, in_bfloat16(probabilities, np.random.default_rng(0)).double().numpy()) > 7e-3
    nishimori.temperatures(changing(in_bfloat16, probabilities))


def test_single_precision_far_from_zero_passes():
    shifted = LOGITS + 1e6

    def rounded(logits, rng):
        return (logits * (1 + 2.0**-24 * rng.uniform(-1, 1, logits.shape))).astype(np.float32)

    assert shares(LOGITS, rounded(shifted, np.random.default_rng(0)) - 1e6) > 1e-3
    nishimori.temperatures(changing(rounded, shifted), input="logits")
    nishimori.temperatures(changing(rounded, 10 * shifted), input="logits")


@pytest.mark.parametrize("step", [900, 200, 7])
@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_the_fingerprint_is_that_of_the_formula_in_any_batches(kind, step):
    found = fingerprint([(kind(LOGITS[i : i + step]), LABELS[i : i + step]) for i in range(0, 900, step)])
    expected = LOGITS @ forms(5)
    np.testing.assert_allclose(found.sums, expected.sum(axis=0), rtol=1e-12)
    assert found.squares == pytest.approx(np.mean((expected**2).sum(axis=0)), rel=1e-12)


def test_constants_per_row_masks_and_rows_of_weight_zero_do_not_count():
    rng = np.random.default_rng(0)
    masked = LOGITS.copy()
    masked[rng.random(masked.shape) < 0.2] = -np.inf
    masked[np.arange(900), LABELS] = 1.0
    peaks = masked.max(axis=1, keepdims=True)
    expected = (np.where(np.isinf(masked), 0, masked - peaks) @ forms(5)).sum(axis=0)
    constants = 100 * rng.standard_normal((900, 1))
    for mask in (-np.inf, -1e9, -1e30, float(np.finfo(np.float32).min)):
        given = np.where(np.isinf(masked), mask, masked + constants)
        nothing = (np.full((2, 5), np.nan), [0, 0], [0.0, 0.0])
        found = fingerprint([(given, LABELS, np.ones(900)), nothing])
        np.testing.assert_allclose(found.sums, expected, rtol=1e-9)


@pytest.mark.parametrize("mask", [-np.inf, -1e4, -65504, np.finfo(np.float32).min], ids=str)
def test_a_change_is_seen_beside_masks_of_any_size_and_the_same_masks_pass(mask):
    def masked(change):
        def batch(logits, rng):
            given = change(logits, rng).astype(np.float32)
            given[:, 4] = mask
            return given

        return changing(batch, labels=LABELS % 4)

    nishimori.temperatures(masked(lambda logits, _: logits))
    with pytest.raises(InputError, match="must give the same logits in every pass"):
        nishimori.temperatures(masked(by_half_a_logit))


@pytest.mark.parametrize("scale", [1e-30, 1e4, 1e30, 1e60])
def test_logits_of_any_size_pass_in_any_order(scale):
    rng, logits = np.random.default_rng(0), scale * LOGITS

    def shuffled():
        order = rng.permutation(900)
        return [(logits[some], LABELS[some]) for some in np.split(order, 9)]

    found = nishimori.temperatures(shuffled)
    assert found.ec / scale == pytest.approx(reference.ec_temperature(LOGITS, LABELS), rel=1e-6)


def test_rows_without_differences_between_classes_pass():
    first = fingerprint([(np.full((900, 5), 3.7), LABELS)])
    assert first.agrees(fingerprint([(np.full((7, 5), 3.7), LABELS[:7]), (np.full((893, 5), 3.7), LABELS[7:])]))


def test_nan_in_a_later_pass_is_refused():
    passes = []

    def batches():
        passes.append(1)
        yield (LOGITS if len(passes) < 3 else np.full_like(LOGITS, np.nan)), LABELS

    with pytest.raises(InputError, match="must give the same logits in every pass"):
        nishimori.temperatures(batches)


def test_binary_scores_and_probabilities_are_compared_too():
    scores = TWO[:, 1] - TWO[:, 0]
    with pytest.raises(InputError, match="must give the same logits in every pass"):
        nishimori.temperatures(changing(by_half_a_logit, scores, BINARY))

    def softmax(logits, rng):
        return reference.softmax(by_half_a_logit(logits, rng))

    with pytest.raises(InputError, match="must give the same logits in every pass"):
        nishimori.temperatures(changing(softmax), input="probabilities")


def test_a_search_that_ends_on_logits_that_change_by_rounding_ends_beside_the_minimum():
    def rounded(logits, rng):
        return logits * (1 + 1e-6 * rng.standard_normal(logits.shape))

    clean = nishimori.calibrator("vector").fit(LOGITS, LABELS).predict_proba(LOGITS)
    found = nishimori.calibrator("vector").fit(changing(rounded)).predict_proba(LOGITS)
    np.testing.assert_allclose(found, clean, atol=1e-4)


def test_stored_logits_have_no_fingerprint(tmp_path):
    np.save(tmp_path / "logits.npy", LOGITS)
    data = nishimori.rows(tmp_path / "logits.npy", LABELS)
    nishimori.evaluate(data)
    assert not data._first_totals.logits.sums.any()
