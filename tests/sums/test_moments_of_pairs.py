"""The sums of a pair of observables, against each observable on its own and against differences."""

import numpy as np
import pytest
import reference
from host_kernels import EVERY
from measured_moments import measure, pair_sums

from nishimori._kernels.sums import N_SUMS
from nishimori._rows.batch import Batch
from nishimori._sums.moments import Measure
from nishimori._sums.observables import Confidence, Energy, TopN

LOGITS, LABELS = reference.drawn(700, 6)
WEIGHTS = np.random.default_rng(1).exponential(size=700)


@pytest.fixture(params=EVERY)
def _kernel(request, monkeypatch):
    monkeypatch.setenv("NISHIMORI_KERNEL", request.param)


def gaps(logits, labels, beta):
    """Both gaps of each row, from the definition."""
    p = reference.softmax(logits, 1 / beta)
    z = logits - logits.max(axis=1, keepdims=True)
    rows = np.arange(len(z))
    return p.max(axis=1) - reference.right(logits, labels), (p * z).sum(axis=1) - z[rows, labels]


def by_hand(ec, ts):
    """The sums, with derivatives from differences of the definition."""
    h, sums, slopes, snaps = 1e-3, [], [], []
    for i, beta in enumerate((ec, ts)):
        at = {j: gaps(LOGITS, LABELS, beta + j * h)[i] for j in (-2, -1, 0, 1, 2)}
        slope = (8 * (at[1] - at[-1]) - (at[2] - at[-2])) / (12 * h)
        curvature = (16 * (at[1] + at[-1]) - (at[2] + at[-2]) - 30 * at[0]) / (12 * h**2)
        jerk = (at[2] - at[-2] - 2 * (at[1] - at[-1])) / (2 * h**3)
        far = {j: gaps(LOGITS, LABELS, beta * (1 + j * 0.02))[i] for j in range(-3, 4)}
        differences = 12 * (far[2] + far[-2]) - 39 * (far[1] + far[-1]) + 56 * far[0] - (far[3] + far[-3])
        snaps.append(differences / (6 * (0.02 * beta) ** 4))
        size = abs(at[0])
        if i:
            z = LOGITS - LOGITS.max(axis=1, keepdims=True)
            size = -(at[0] + 2 * z[np.arange(700), LABELS])
        sums += [WEIGHTS @ each for each in (at[0], size, slope, curvature, jerk)] + [WEIGHTS**2 @ slope**2]
        slopes.append(slope)
    e, t = gaps(LOGITS, LABELS, ec)[0], gaps(LOGITS, LABELS, ts)[1]
    for w in (WEIGHTS, WEIGHTS**2):
        sums += [w @ e**2, w @ t**2, w @ (e * t)]
    z = LOGITS - LOGITS.max(axis=1, keepdims=True)
    right = reference.right(LOGITS, LABELS)
    sums += [WEIGHTS.sum(), (WEIGHTS**2).sum(), WEIGHTS @ right, WEIGHTS @ z[np.arange(700), LABELS]]
    of_e, of_t = slopes
    sums += [WEIGHTS @ each for each in (of_e**2, of_t**2)]
    for w in (WEIGHTS, WEIGHTS**2):
        sums += [w @ each for each in (of_e * of_t, e * of_e, t * of_t, e * of_t, t * of_e)]
    return [*sums, *(WEIGHTS @ each for each in snaps)]


@pytest.mark.usefixtures("_kernel")
@pytest.mark.parametrize(("ec", "ts"), [(0.4, 0.7), (0.5, 0.5), (2.0, 0.1)])
def test_the_sums_are_those_of_the_definition(ec, ts):
    batch = Batch(LOGITS, LABELS, WEIGHTS)
    found, wanted = pair_sums(batch, ec, ts), by_hand(ec, ts)
    assert len(found) == len(wanted) == N_SUMS
    np.testing.assert_allclose(found, wanted, rtol=3e-4, atol=1e-6)
    exact = [0, 1, 6, 7, *range(12, 22)]  # no differences
    np.testing.assert_allclose(np.array(found)[exact], np.array(wanted)[exact], rtol=1e-11, atol=1e-10)


@pytest.mark.usefixtures("_kernel")
def test_a_pair_gives_the_moments_of_each_observable_alone():
    batch = Batch(LOGITS, LABELS, WEIGHTS)
    wanted = {Confidence(): 0.4, Energy(): 0.7}
    together = Measure(tuple((observable, (beta,)) for observable, beta in wanted.items()))(batch)
    for observable, found in zip(wanted, together.items, strict=True):
        alone = measure(batch, observable, [wanted[observable], 1.0]).at(slice(1))  # two β take the general way
        for name in ("weight", "observed", "excess", "size", "slope", "curvature", "jerk", "snap"):
            np.testing.assert_allclose(getattr(found, name), getattr(alone, name), rtol=1e-9, atol=1e-9, err_msg=name)


def test_products_of_other_observables_are_those_of_their_gaps():
    batch = Batch(LOGITS, LABELS, WEIGHTS)
    found = Measure(((TopN(2), (0.4,)), (Energy(), (0.7, 1.0))))(batch)
    p = np.sort(reference.softmax(LOGITS, 1 / 0.4), axis=1)[:, -2:].sum(axis=1) - reference.right(LOGITS, LABELS, 2)
    values = np.array([p, gaps(LOGITS, LABELS, 0.7)[1]])
    np.testing.assert_allclose(found.products, values * WEIGHTS @ values.T, rtol=1e-11)
    np.testing.assert_allclose(found.square_products, values * WEIGHTS**2 @ values.T, rtol=1e-11)
    assert found.squares == pytest.approx((WEIGHTS**2).sum())


def test_sums_of_parts_add_to_the_sums_of_the_whole():
    whole = Measure(((Confidence(), (0.4,)), (Energy(), (0.7,))))
    parts = [whole(Batch(LOGITS[r], LABELS[r], WEIGHTS[r])) for r in (slice(100), slice(100, 101), slice(101, None))]
    added, once = parts[0] + parts[1] + parts[2], whole(Batch(LOGITS, LABELS, WEIGHTS))
    for name in ("products", "square_products", "squares", "slope_products"):
        np.testing.assert_allclose(getattr(added, name), getattr(once, name), rtol=1e-12)
    np.testing.assert_allclose(added.items[1].jerk, once.items[1].jerk, rtol=1e-11)


@pytest.mark.usefixtures("_kernel")
@pytest.mark.parametrize("observables", [(Confidence(), Energy()), (Energy(), Confidence()), (Energy(),), (TopN(2), Energy())])
def test_products_are_carried_to_other_betas_by_the_slopes_of_the_rows(observables):
    batch = Batch(LOGITS, LABELS, WEIGHTS)
    near = [0.4, 0.7][: len(observables)]
    sums = Measure(tuple((each, (beta,)) for each, beta in zip(observables, near, strict=True)))(batch)
    for step in (1e-3, -1e-3):
        there = Measure(tuple((each, (beta + step,)) for each, beta in zip(observables, near, strict=True)))(batch)
        carried, shares = sums.extrapolate_to([beta + step for beta in near])
        for name in ("products", "square_products"):
            np.testing.assert_allclose(getattr(carried, name), getattr(there, name), rtol=6e-5)
            assert (abs(getattr(sums, name) / getattr(there, name) - 1) > 2e-4).any()  # as they were they are not right
        assert (shares > 0).all()
        assert (shares < 2e-5).all()
