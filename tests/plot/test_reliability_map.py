"""The map of gaps: every colour is the gap of its region, and dots are where it is significant."""

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
import reference
from matplotlib import pyplot as plt

from nishimori import plot
from nishimori.errors import InputError

N, K, H, W = 40, 4, 8, 10
RNG = np.random.default_rng(1)
LOGITS = 3 * RNG.normal(size=(N, K, H, W))
LABELS = (LOGITS / np.linspace(1, 3, W) + RNG.gumbel(size=LOGITS.shape)).argmax(axis=1)


@pytest.fixture
def ax():
    figure, axes = plt.subplots()
    yield axes
    plt.close(figure)


def gaps(side, T=1.0, labels=LABELS):
    """Confidence minus accuracy of each square, in points, and its standard error by image."""
    z = np.moveaxis(LOGITS, 1, -1)
    miss = reference.softmax(z.reshape(-1, K), T).max(axis=1).reshape(N, H, W) - (z.argmax(axis=-1) == labels)
    shape = -(-H // side), -(-W // side)
    mean, error = np.empty(shape), np.empty(shape)
    for i in range(shape[0]):
        for j in range(shape[1]):
            square = miss[:, side * i : side * (i + 1), side * j : side * (j + 1)]
            mean[i, j], sums = square.mean(), square.sum(axis=(1, 2))
            error[i, j] = np.sqrt(np.square(sums).sum()) / square.size
    return 100 * mean, 100 * error


@pytest.mark.parametrize(("cells", "side"), [(10, 1), (5, 2), (4, 3), (1, 10)])
def test_a_colour_is_the_gap_of_its_square(ax, cells, side):
    assert plot.reliability_map(LOGITS, LABELS, cells=cells, class_axis=1, ax=ax) is ax
    np.testing.assert_allclose(ax.images[0].get_array(), gaps(side)[0], atol=1e-9)
    assert ax.get_xlim() == (-0.5, W - 0.5)
    assert ax.get_ylim() == (H - 0.5, -0.5)


def test_classes_may_be_last_and_a_temperature_divides(ax):
    plot.reliability_map(np.moveaxis(LOGITS, 1, -1), LABELS, cells=5, temperature=2.0, ax=ax)
    np.testing.assert_allclose(ax.images[0].get_array(), gaps(2, 2.0)[0], atol=1e-9)


def test_dots_are_on_squares_that_are_clearly_off_and_not_on_those_that_are_not(ax):
    plot.reliability_map(LOGITS, LABELS, cells=5, class_axis=1, ax=ax)
    mean, error = gaps(2)
    dots = {(int(y // 2), int(x // 2)) for x, y in ax.collections[0].get_offsets()}
    z = abs(mean / error)
    assert {tuple(each) for each in np.argwhere(z > 5).tolist()} <= dots
    assert not dots & {tuple(each) for each in np.argwhere(z < 1.96).tolist()}
    assert 0 < len(dots) < mean.size


def test_a_region_without_labels_has_no_gap(ax):
    labels = LABELS.copy()
    labels[:, :2, :2] = 255
    plot.reliability_map(LOGITS, labels, cells=5, class_axis=1, ignore_index=255, ax=ax)
    found = ax.images[0].get_array()
    assert found.mask.sum() == 1
    assert found.mask[0, 0]


def test_colours_are_even_around_zero_and_reach_the_limit(ax):
    plot.reliability_map(LOGITS, LABELS, class_axis=1, limit=30, ax=ax)
    assert ax.images[0].get_clim() == (-30, 30)
    figure, other = plt.subplots()
    plot.reliability_map(LOGITS, LABELS, cells=5, class_axis=1, ax=other)
    assert other.images[0].get_clim()[1] == pytest.approx(abs(gaps(2)[0]).max())
    assert other.images[0].get_clim()[0] == -other.images[0].get_clim()[1]
    low, middle, high = (other.images[0].cmap(each) for each in (0.0, 0.5, 1.0))
    assert low[2] > low[0]  # blue where confidence is too low
    assert high[0] > high[2]
    assert min(middle) > 0.98
    plt.close(figure)


REFUSED = {
    "tokens": (
        lambda: plot.reliability_map(LOGITS[0], LABELS[0]),
        "`labels` must have shape (n, height, width), got shape (8, 10).",
    ),
    "a file": (lambda: plot.reliability_map("x.npz", "labels"), "`labels` must have shape (n, height, width), got str."),
    "groups": (
        lambda: plot.reliability_map(LOGITS, LABELS, class_axis=1, groups=LABELS),
        "`groups` must be left out of `reliability_map`: its groups are the regions of the image.",
    ),
    "no cell": (lambda: plot.reliability_map(LOGITS, LABELS, cells=0), "`cells` must be a whole number from 1 to 256, got 0."),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_a_map_is_refused(call, message):
    with pytest.raises(InputError) as error:
        call()
    assert str(error.value) == message
