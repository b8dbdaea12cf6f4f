"""The picture of the gaps of groups: every gap and interval is where the numbers are."""

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
import reference
from matplotlib import pyplot as plt

from nishimori import group_gaps, plot
from nishimori.errors import InputError

LOGITS, LABELS = reference.drawn(900, 4, temperature=1.6)
BEFORE, AFTER = group_gaps(LOGITS, LABELS), group_gaps(LOGITS, LABELS, temperature=1.6)


@pytest.fixture
def ax():
    figure, axes = plt.subplots()
    yield axes
    plt.close(figure)


def points(ax):
    return np.concatenate([each.get_offsets() for each in ax.collections if hasattr(each, "get_sizes")])


def test_markers_and_bars_are_at_the_gaps_in_points(ax):
    assert plot.group_gaps(BEFORE, ax=ax) is ax
    ordered = sorted(BEFORE, key=lambda each: each.gap)
    assert [text.get_text() for text in ax.get_yticklabels()] == [str(each.name) for each in ordered]
    found = points(ax)
    np.testing.assert_allclose(np.sort(found[:, 0]), [100 * each.gap for each in ordered])
    np.testing.assert_allclose(found[np.argsort(found[:, 0]), 1], np.arange(4))
    bars = {
        float(line[0, 1]): line[:, 0]
        for each in ax.collections
        if hasattr(each, "get_segments")
        for line in each.get_segments()
    }
    for place, each in enumerate(ordered):
        np.testing.assert_allclose(bars[place], 100 * (each.gap + np.array([-1, 1]) * 1.959964 * each.se), rtol=1e-6)


def test_results_have_their_names_colours_and_mean_gaps(ax):
    plot.group_gaps({"before": BEFORE, "after": AFTER}, ax=ax)
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts[0].startswith(f"before: mean gap {100 * BEFORE.mean_abs_gap:.1f} points, ")
    assert texts[1].startswith(f"after: mean gap {100 * AFTER.mean_abs_gap:.1f} points, ")
    assert [line.get_color() for line in ax.get_lines()[:2]] == ["#949494", "#117733"]


def test_groups_that_are_off_are_filled(ax):
    logits = np.where((LOGITS.argmax(axis=1) == 2)[:, None], 6 * LOGITS, LOGITS / 1.6)
    found = group_gaps(logits, LABELS)
    plot.group_gaps(found, ax=ax)
    filled, hollow = (each for each in ax.collections if hasattr(each, "get_sizes"))
    np.testing.assert_allclose(filled.get_offsets()[:, 0], [100 * found[2].gap])
    assert len(hollow.get_offsets()) == 3
    np.testing.assert_allclose(hollow.get_facecolors()[0], matplotlib.colors.to_rgba(ax.get_facecolor()))


def test_of_many_groups_the_farthest_are_named(ax):
    logits, labels = reference.drawn(3000, 40, temperature=1.0)
    found = group_gaps(logits, labels)
    plot.group_gaps({"one": found}, ax=ax)
    ordered = [str(each.name) for each in sorted(found, key=lambda each: each.gap)]
    texts = [text.get_text() for text in ax.texts]
    assert f"most overconfident:\n{', '.join(ordered[:-5:-1])}" in texts
    assert f"most underconfident:\n{', '.join(ordered[:4])}" in texts
    assert not ax.get_yticklabels()


def test_a_result_with_other_groups_is_drawn_with_them(ax):
    few = group_gaps(LOGITS[:, :3], np.minimum(LABELS, 2))
    plot.group_gaps({"few": few, "all": BEFORE}, ax=ax)
    assert {text.get_text() for text in ax.get_yticklabels()} == {"0", "1", "2", "3"}


def test_other_things_are_refused():
    with pytest.raises(
        InputError, match=r"^`gaps` must be a GroupGaps, or several by name, got list\. Pass `nishimori\.group_gaps"
    ):
        plot.group_gaps([BEFORE])
    with pytest.raises(InputError, match=r"^`gaps` must hold at least one result, got an empty dict\.$"):
        plot.group_gaps({})
    named = group_gaps(LOGITS, LABELS, by="groups", groups=np.arange(900) % 3)
    with pytest.raises(InputError, match=r"^`gaps` must hold results of the same `by`, got 'prediction' and 'groups'\.$"):
        plot.group_gaps({"one": BEFORE, "two": named})
