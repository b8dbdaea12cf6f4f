"""The pictures of all artefacts: labelled axes, and one colour for each method."""

import json

import pytest
from matplotlib import pyplot
from matplotlib.colors import to_hex

import nishimori_paper as paper
from nishimori.plot._style import COLORS

METHODS = {"before": "before", "uncalibrated": "before", "TS": "ts", "EC": "ec"}
# Entries of a legend in this grey explain line styles, in a picture whose colours stand for something else than methods.
GREY = to_hex("0.4")


@pytest.fixture(
    scope="module", params=[name for name in paper.names() if paper.artefact(name).has_picture]
)  # to draw one takes longer than to look at it
def picture(request, computed):
    stored = json.loads((computed(request.param) / f"{request.param}.json").read_text(encoding="utf-8"))
    figure = paper.artefact(request.param).draw(stored["pieces"], pyplot)
    yield figure
    pyplot.close(figure)


def named_places(axis):
    """Whether the places on an axis have names, which say what it is."""
    return all(any(map(str.isalpha, each.get_text())) for each in axis.get_ticklabels())


def test_every_axis_of_every_artefact_is_labelled(picture):
    """Panels that share an axis need its label once; a picture of text has no axes."""
    for ax in picture.axes:
        if ax.get_label() == "<colorbar>":
            assert ax.get_xlabel() or ax.get_ylabel()
        elif ax.axison:
            assert any(each.get_xlabel() for each in ax.get_shared_x_axes().get_siblings(ax)), ax.get_title()
            assert named_places(ax.yaxis) or any(each.get_ylabel() for each in ax.get_shared_y_axes().get_siblings(ax)), (
                ax.get_title()
            )


def test_a_method_has_its_colour_in_every_artefact(picture):
    for what, color in named(picture):
        if what in METHODS and color != GREY:
            assert color == COLORS[METHODS[what]].lower(), what


def named(picture):
    """The first word and the colour of each entry of each legend."""
    entries = [(handle, handle.get_label()) for legend in picture.legends for handle in legend.legend_handles]
    for ax in picture.axes:
        entries += zip(*ax.get_legend_handles_labels(), strict=True)
    for handle, label in entries:
        first = handle[0] if isinstance(handle, tuple) else handle
        if not hasattr(first, "get_color"):
            continue  # an area, which stands for no method
        yield label.replace(":", " ").replace(",", " ").split()[0], to_hex(first.get_color())
