"""Sums of the cross-entropy of an affine map: derivatives are those of the plain formula, and parts add."""

from functools import partial

import numpy as np
import pytest
import reference

from nishimori._fit.affine.parameters import Parameters
from nishimori._fit.affine.sums import AffinePoint, measure_curve, measure_loss, measure_seconds, row_gradients
from nishimori._rows.entry import open_rows
from nishimori.errors import InputError

N_CLASSES = 4
RNG = np.random.default_rng(3)
LOGITS = 3 * RNG.normal(size=(60, N_CLASSES))
LABELS = RNG.integers(N_CLASSES, size=60)
WEIGHTS = RNG.uniform(0.5, 2, size=60)
DATA = open_rows(LOGITS, LABELS, WEIGHTS)
SHAPES = pytest.mark.parametrize("shape", [(N_CLASSES,), (N_CLASSES, N_CLASSES)], ids=["vector", "matrix"])


def somewhere(shape):
    rng = np.random.default_rng(5)
    return AffinePoint(1.7, rng.normal(size=shape), rng.normal(size=N_CLASSES))


def moved(point, flat):
    """The point with other factors and biases."""
    return AffinePoint(point.temperature, flat[: point.scale.size].reshape(point.scale.shape), flat[point.scale.size :])


def loss_of(point):
    """The weighted cross-entropy from the plain formula."""
    x = (LOGITS - LOGITS.mean(axis=1, keepdims=True)) / point.temperature
    u = (x @ point.scale.T if point.is_matrix else x * point.scale) + point.bias
    return 60 * reference.nll(u, LABELS, weights=WEIGHTS) * WEIGHTS.mean()


def gradient_of(point):
    sums = DATA.gather(partial(measure_loss, point))
    return np.concatenate([sums.by_scale.ravel(), sums.by_bias])


def differences(function, point):
    """Central differences of a function of the point by all factors and biases."""
    flat = np.concatenate([point.scale.ravel(), point.bias])
    steps = 1e-5 * np.eye(len(flat))
    return np.array([(function(moved(point, flat + h)) - function(moved(point, flat - h))) / 2e-5 for h in steps])


@SHAPES
def test_the_loss_is_the_cross_entropy(shape):
    point = somewhere(shape)
    assert DATA.gather(partial(measure_loss, point)).loss == pytest.approx(loss_of(point), rel=1e-12)


@SHAPES
@pytest.mark.parametrize("single", [False, True])
def test_rows_are_doubtful_whose_label_has_no_more_than_half_of_the_probability(shape, single):
    point = somewhere(shape)
    x = (LOGITS - LOGITS.mean(axis=1, keepdims=True)) / point.temperature
    p = reference.softmax((x @ point.scale.T if point.is_matrix else x * point.scale) + point.bias)
    expected = np.count_nonzero(p[np.arange(60), LABELS] <= 0.5)
    assert 0 < expected < 60
    assert DATA.gather(partial(measure_loss, point, single=single)).n_doubtful == expected


@SHAPES
def test_the_gradient_is_the_derivative_of_the_loss(shape):
    point = somewhere(shape)
    np.testing.assert_allclose(gradient_of(point), differences(loss_of, point), atol=1e-6)


@SHAPES
def test_the_curvature_is_the_derivative_of_the_gradient(shape):
    point = somewhere(shape)
    np.testing.assert_allclose(DATA.gather(partial(measure_curve, point)).hessian, differences(gradient_of, point), atol=1e-5)


@SHAPES
def test_gradients_of_rows_sum_to_the_gradient(shape):
    point = somewhere(shape)
    rows = row_gradients(point, next(iter(DATA)))
    np.testing.assert_allclose(WEIGHTS @ rows, gradient_of(point), rtol=1e-10)


def test_parts_of_the_rows_add_up_to_the_whole():
    point = somewhere((N_CLASSES, N_CLASSES))
    parts = [open_rows(LOGITS[rows], LABELS[rows], WEIGHTS[rows]) for rows in (slice(25), slice(25, None))]
    for pass_ in (partial(measure_curve, point), partial(measure_seconds, point)):
        whole, added = (flat_sums(sums) for sums in (DATA.gather(pass_), parts[0].gather(pass_) + parts[1].gather(pass_)))
        np.testing.assert_allclose(added, whole, rtol=1e-12)


def test_small_pieces_change_nothing(monkeypatch):
    point = somewhere((N_CLASSES, N_CLASSES))
    whole = DATA.gather(partial(measure_curve, point)).hessian
    monkeypatch.setattr("nishimori._fit.affine.sums._LARGEST_TABLE", 7 * N_CLASSES * (N_CLASSES + 1))
    np.testing.assert_allclose(DATA.gather(partial(measure_curve, point)).hessian, whole, rtol=1e-12, atol=1e-12)


def test_second_derivatives_are_the_diagonal_of_the_curvature():
    point = somewhere((N_CLASSES, N_CLASSES))
    seconds, exact = DATA.gather(partial(measure_seconds, point)), DATA.gather(partial(measure_curve, point)).hessian
    np.testing.assert_allclose(seconds, np.diag(Parameters(N_CLASSES, is_matrix=True).hessian(exact)), rtol=1e-9)


@SHAPES
def test_sums_in_float32_are_those_in_float64_up_to_rounding(shape):
    point = somewhere(shape)
    for pass_ in (measure_loss, measure_curve, measure_seconds) if len(shape) == 2 else (measure_loss, measure_curve):
        quick, exact = (flat_sums(DATA.gather(partial(pass_, point, single=single))) for single in (True, False))
        np.testing.assert_allclose(quick, exact, rtol=1e-5, atol=1e-4)
        assert (quick != exact).any()


def flat_sums(sums):
    """All numbers of some sums in one array."""
    if isinstance(sums, np.ndarray):
        return sums
    return np.concatenate([np.ravel(each) for name, each in vars(sums).items() if name != "n_doubtful"])  # which has no unit


def test_weights_that_float32_cannot_hold_are_no_reason_for_other_sums():
    point, huge = somewhere((N_CLASSES, N_CLASSES)), 1e50
    heavy = open_rows(LOGITS, LABELS, WEIGHTS * huge)
    for pass_ in (measure_loss, measure_curve, measure_seconds):
        quick, exact = heavy.gather(partial(pass_, point, single=True)), DATA.gather(partial(pass_, point))
        np.testing.assert_allclose(flat_sums(quick) / huge, flat_sums(exact), rtol=1e-5, atol=1e-4)


def test_logits_far_from_zero_lose_no_digits_in_float32():
    point = somewhere((N_CLASSES, N_CLASSES))
    moved_up = open_rows(LOGITS + 1e7, LABELS, WEIGHTS, input="logits")
    quick = moved_up.gather(partial(measure_loss, point, single=True))
    np.testing.assert_allclose(flat_sums(quick), flat_sums(DATA.gather(partial(measure_loss, point))), rtol=1e-5, atol=1e-4)


def test_logits_that_no_exponential_holds_have_the_loss_of_the_formula():
    point = AffinePoint(1.7, 1e4 * np.eye(N_CLASSES), np.zeros(N_CLASSES))
    x = 1e4 * (LOGITS - LOGITS.mean(axis=1, keepdims=True)) / 1.7
    expected = WEIGHTS @ (x.max(axis=1) - x[np.arange(60), LABELS])  # no class but the largest counts
    for single, digits in ((False, 1e-12), (True, 1e-5)):
        assert DATA.gather(partial(measure_loss, point, single=single)).loss == pytest.approx(expected, rel=digits)


def test_masked_classes_are_refused():
    logits = LOGITS.copy()
    logits[7, 2] = -np.inf
    with pytest.raises(InputError, match="masked"):
        open_rows(logits, np.where(LABELS == 2, 1, LABELS)).gather(partial(measure_loss, somewhere((N_CLASSES,))))
