"""Pictures of the two tables: four panels, error bars on all of our numbers, and the paired difference of TS and EC."""

import json

import numpy as np
import pytest
from matplotlib import pyplot

import nishimori_paper as paper
from nishimori_paper._printed import printed

BARS = {"table-real": "error bars", "table-corrupted": "error bars of images"}


@pytest.fixture(params=list(BARS))
def drawn(request, computed):
    """A table's name, its pieces, and the panels of its picture."""
    stored = json.loads((computed(request.param) / f"{request.param}.json").read_text(encoding="utf-8"))["pieces"]
    figure = paper.artefact(request.param).draw(stored, pyplot)
    yield request.param, stored, figure.axes
    pyplot.close(figure)


def marked(ax):
    """Places and half lengths of the bars of a panel, by the height at which they lie."""
    found = {}
    for container in ax.containers:
        points, _, (bars,) = container
        (x,), (y,) = points.get_data()
        ((left, _), (right, _)) = bars.get_segments()[0]
        found[round(float(y), 2)] = (float(x), float(right - left) / 2)
    return found


def test_each_of_our_numbers_has_an_error_bar(drawn):
    _, stored, axes = drawn
    augmented = sum("augmented" in content for content in stored.values())
    n = len(stored)
    # Temperatures, ECE (also before calibration), the paired difference, and the change of the Brier score.
    assert [len(ax.containers) for ax in axes] == [
        2 * (n + augmented),
        3 * n + 2 * augmented,
        n + augmented,
        2 * (n + augmented),
    ]
    for ax in axes:
        assert all(bar > 0 for _, bar in marked(ax).values())


def test_the_paired_panel_shows_the_difference_of_the_eces_and_its_bar(drawn):
    name, stored, axes = drawn
    found = marked(axes[2])
    for y, content in enumerate(stored.values()):
        expected = 100 * (content["clean"]["ece_ts"] - content["clean"]["ece_ec"])
        at, bar = found[y]
        assert at == pytest.approx(expected)
        assert bar == pytest.approx(100 * content[f"clean {BARS[name]}"]["ece_difference"])


def test_crosses_of_the_paired_panel_are_differences_in_the_papers_table(drawn):
    name, stored, axes = drawn
    crosses = [line.get_xdata()[0] for line in axes[2].lines if line.get_marker() == "x"]
    rows = [printed()[name]["rows"][each.removesuffix("-authors")] for each in stored]
    np.testing.assert_allclose(crosses, [row[4] - row[5] for row in rows])


def test_images_add_to_the_spread_that_label_noise_alone_gives(computed):
    stored = json.loads((computed("table-corrupted") / "table-corrupted.json").read_text(encoding="utf-8"))["pieces"]
    noise, images = (
        np.array([content[f"clean {bars}"]["error"] for content in stored.values()])
        for bars in ("error bars", BARS["table-corrupted"])
    )
    # Sampling of images: sqrt(e (1 - e) / n) of the test set, several times the spread of the noise.
    assert np.median(images / noise) > 2
    expected = [
        np.sqrt(content["clean"]["error"] * (1 - content["clean"]["error"]) / size(name)) for name, content in stored.items()
    ]
    assert np.median(images / expected) == pytest.approx(1, abs=0.5)  # four draws


def size(name):
    """Number of test images."""
    return {"svhn": 26032, "cifar10": 10_000, "cifar100": 5000}[name.partition("/")[0]]
