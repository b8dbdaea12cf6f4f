"""The native kernel adds up over rows what a sketch keeps, as the definitions say."""

import itertools

import numpy as np
import pytest
from host_kernels import WITH_NATIVE
from node_cases import GRIDS, N_BINS, SCALE, check_random_rows, check_sums

from nishimori._kernels import native

pytestmark = WITH_NATIVE


@pytest.fixture(autouse=True, params=native.library().variants)
def variant(request, monkeypatch):
    """Every claim holds for every set of instructions that this processor has."""
    monkeypatch.setenv("NISHIMORI_NATIVE_VARIANT", request.param)
    return request.param


def node_sums(z, labels, weights, grid=GRIDS[0]):
    return native.node_sums(z, labels, weights, grid.betas, grid.beyond, N_BINS, SCALE)


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_sums_are_those_of_the_definitions(first):
    for seed in range(first, first + 10):
        check_random_rows(seed)


@pytest.mark.parametrize("n_classes", [2, 3, 64, 65, 700])
def test_equal_logits_have_equal_probabilities_in_the_bin_below_an_edge(n_classes):
    z, labels = np.zeros((30, n_classes)), np.arange(30) % n_classes
    found = node_sums(z, labels, np.ones(30))
    check_sums(found, z, labels, np.ones(30), GRIDS[0])
    expected = np.zeros(N_BINS)
    expected[-(-N_BINS // n_classes) - 1] = 30  # for three classes 1/3, which is the upper edge of the fifth bin
    np.testing.assert_array_equal(found.bins[:, :, 0], [expected] * len(found.bins))


def test_a_confidence_on_an_edge_is_in_the_bin_below_it():
    z = np.array([[0.0, 0.0, -2e4, -2e4], [0.0, -2e4, -2e4, -2e4], [0.0, 0.0, 0.0, 0.0]])  # 1/2, 1 and 1/4 at every node
    grid = GRIDS[0]
    found = native.node_sums(z, np.zeros(3, int), np.ones(3), grid.betas, grid.beyond, 4, 4.0)
    np.testing.assert_array_equal(found.bins[:, :, 0], [[1, 1, 0, 1]] * len(grid.betas))


def test_tiny_doubts_keep_their_digits():
    z, labels = np.array([[0.0, -600.0], [0.0, -20.0], [0.0, -30.0]]), np.zeros(3, int)
    check_sums(node_sums(z, labels, np.ones(3)), z, labels, np.ones(3), GRIDS[0])


def test_huge_logits_and_weights_are_summed_without_overflow():
    z = np.array([[1e70, -1e70, 0.0], [1e30, 1e30 - 1e15, 3.0], [1e-80, 0.0, -1e-80]])
    labels, weights = np.array([1, 1, 2]), np.array([1e50, 1e-50, 1.0])
    found = node_sums(z, labels, weights)
    assert all(np.isfinite(each).all() for each in found.arrays())
    check_sums(found, z, labels, weights, GRIDS[0])


@pytest.mark.parametrize("n_classes", [10, 300])
def test_any_layout_and_number_of_threads_give_the_same_digits(n_classes, monkeypatch):
    monkeypatch.setattr(native, "_BLOCK", 2**13)
    z = (3 * np.random.default_rng(0).normal(size=(2**15 // n_classes + 7, n_classes))).astype(np.float32)
    labels, weights = np.arange(len(z)) % n_classes, np.arange(len(z)) % 5.0
    expected = None
    for n_threads, given in itertools.product(("1", "2", "16"), (z, np.asfortranarray(z))):
        monkeypatch.setenv("NISHIMORI_THREADS", n_threads)
        found = node_sums(given, labels, weights)
        expected = expected or found
        for each, same in zip(found.arrays(), expected.arrays(), strict=True):
            np.testing.assert_array_equal(each, same)
