import math

import numpy as np
import pytest
import reference

from nishimori._kernels.array_api import boltzmann
from nishimori._rows.entry import open_rows
from nishimori._sums.predictions import Predictions, derivatives

INF = math.inf


def predictions(logits, beta, labels=None):
    (batch,) = open_rows(logits, np.zeros(len(logits), dtype=int) if labels is None else labels)
    return Predictions(batch, beta)


def averages(logits, beta):
    """⟨d⟩ to ⟨d⁵⟩ of the drop d = z - max(z), then its cumulants from the second to the fifth, the masked classes left out."""
    for row in np.asarray(logits, dtype=float):
        z = row[row > -INF]
        p = reference.softmax(z[None], 1 / beta)[0]
        drop = z - z.max()
        second, third, fourth, fifth = (p @ (drop - p @ drop) ** j for j in range(2, 6))
        yield *(p @ drop**j for j in range(1, 6)), second, third, fourth - 3 * second**2, fifth - 10 * second * third


@pytest.fixture(params=["plain", "masked"])
def logits(request):
    z, _ = reference.drawn(60, 6)
    if request.param == "masked":
        z[np.random.default_rng(0).random(z.shape) < 0.4] = -INF
        z[:, 2] = np.maximum(z[:, 2], -3)  # each row keeps a class
    return z


@pytest.mark.parametrize("beta", [1e-6, 0.1, 1.0, 20.0])
def test_probabilities_are_the_softmax(logits, beta):
    p = reference.softmax(logits, 1 / beta)
    found = predictions(logits, beta)
    np.testing.assert_allclose(found.class_probabilities, p, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(found.top_probability, p.max(axis=1), rtol=1e-12)


@pytest.mark.parametrize("beta", [1e-6, 0.1, 1.0, 20.0])
def test_moments_are_those_of_the_drop(logits, beta):
    expected = np.transpose(list(averages(logits, beta)))
    found = predictions(logits, beta)
    np.testing.assert_allclose(found.moments, expected[:5], rtol=1e-12, atol=1e-15)
    # The derivatives of the mean are the cumulants.
    np.testing.assert_allclose(derivatives(found.moments, found.moments), expected[5:], rtol=1e-8, atol=1e-8)


def test_at_beta_0_each_row_is_uniform_over_its_unmasked_classes():
    z = [[5.0, -INF, 1.0, -1.0], [0.0, 0.0, 7.0, 300.0], [2.0, -INF, -INF, -INF]]
    found = predictions(z, 0.0)
    np.testing.assert_allclose(found.class_probabilities, [[1 / 3, 0, 1 / 3, 1 / 3], [0.25] * 4, [1, 0, 0, 0]], rtol=1e-15)
    np.testing.assert_allclose(found.top_probability, [1 / 3, 1 / 4, 1], rtol=1e-15)
    np.testing.assert_allclose(found.moments[0], [(5 + 1 - 1) / 3 - 5, 307 / 4 - 300, 0], rtol=1e-15)


def test_at_infinite_beta_each_row_is_at_its_maximum_with_ties_shared():
    z = [[5.0, -INF, 1.0, -1.0], [0.0, 0.0, -7.0, 0.0], [2.0, 2.0, -INF, -INF]]
    found = predictions(z, INF)
    np.testing.assert_allclose(
        found.class_probabilities, [[1, 0, 0, 0], [1 / 3, 1 / 3, 0, 1 / 3], [0.5, 0.5, 0, 0]], rtol=1e-15
    )
    np.testing.assert_array_equal(found.moments, 0)


def test_the_limits_are_approached():
    z, _ = reference.drawn(40, 5)
    np.testing.assert_allclose(predictions(z, 1e-12).class_probabilities, predictions(z, 0.0).class_probabilities, atol=1e-10)
    np.testing.assert_allclose(predictions(z, 1e6).class_probabilities, predictions(z, INF).class_probabilities, atol=1e-10)


@pytest.mark.parametrize("beta", [0.0, 0.7, INF])
def test_a_masked_class_changes_nothing_for_the_others(beta):
    z, _ = reference.drawn(40, 5)
    masked = np.insert(z, 2, -INF, axis=1)
    np.testing.assert_array_equal(predictions(masked, beta).class_probabilities[:, 2], 0)
    for name in ("rest", "top_probability", "moments"):
        with_mask, without = (getattr(predictions(each, beta), name) for each in (masked, z))
        np.testing.assert_allclose(with_mask, without, rtol=1e-14, atol=1e-15)


def test_a_masked_class_stays_masked_beside_a_batch_that_has_none():
    found = predictions([[1.0, 0.0], [-INF, 0.0]], 1.0)
    np.testing.assert_allclose(found.top_probability, [1 / (1 + math.exp(-1)), 1], rtol=1e-15)


@pytest.mark.parametrize("shift", [-1e99, -1e4, 1e4, 1e99])
def test_no_constant_overflows(shift):
    found = predictions([[shift, shift], [shift, -shift]], 1.0)
    np.testing.assert_array_equal(found.top_probability, [0.5, 1.0])


def test_boltzmann_weights_are_1_at_the_top():
    drops = np.array([[0.0, -1.0, -1e-300]])
    np.testing.assert_allclose(boltzmann(drops, 2.0, np), [[1, math.exp(-2), 1]], rtol=1e-15)
    np.testing.assert_array_equal(boltzmann(drops, INF, np), [[1, 0, 0]])
    np.testing.assert_array_equal(boltzmann(drops, 0.0, np), [[1, 1, 1]])
