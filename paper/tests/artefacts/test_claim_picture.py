"""The picture of the claims: every text is inside its column and its row, and a verdict is a word in its own colour."""

import pytest
from matplotlib import pyplot
from matplotlib.colors import to_hex

from nishimori.plot._style import HUES
from nishimori_paper import Claim
from nishimori_paper.artefacts._claims._picture import draw_claims

LONG = "a statement of some length that fills more than one line of its column, and then some more of it"
COLOURS = {
    "holds": HUES["green"],
    "holds with a condition": HUES["blue"],
    "slip of the pen": HUES["purple"],
    "contradicted": HUES["vermilion"],
    "cannot be judged here": to_hex("0.4"),
}


@pytest.fixture
def figure():
    claims = [Claim("n", "5.3, figure", LONG, LONG, LONG, verdict, LONG, LONG, "our data") for verdict in COLOURS]
    figure = draw_claims(claims, pyplot)
    yield figure
    pyplot.close(figure)


def test_no_two_texts_overlap(figure):
    renderer = figure.canvas.get_renderer()
    boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in figure.axes[0].texts]
    assert len(boxes) >= len(COLOURS) * 5
    for i, (one, box) in enumerate(boxes):
        assert box.x0 >= 0, one
        assert box.y0 >= 0, one
        assert box.x1 <= figure.bbox.x1, one
        assert box.y1 <= figure.bbox.y1, one
        for other, another in boxes[:i]:
            assert not box.overlaps(another), (one, other)


def test_each_verdict_is_a_word_in_its_colour_and_nothing_else_is_coloured(figure):
    found = {text.get_text(): to_hex(text.get_color()) for text in figure.axes[0].texts}
    expected = {verdict.upper(): to_hex(colour) for verdict, colour in COLOURS.items()}
    assert {text: colour for text, colour in found.items() if colour != "#000000"} == expected


def test_the_condition_and_the_paper_s_data_are_shown(figure):
    shown = " ".join(" ".join(text.get_text() for text in figure.axes[0].texts).split())
    assert shown.count("Paper's data: a statement") == len(COLOURS)
    assert shown.count("True only of our data") == len(COLOURS)
