"""Confidence minus accuracy of each group, with error bars."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nishimori._evaluation.group_gaps import GroupGap, GroupGaps
from nishimori._support.arrays import HostArray
from nishimori._support.intervals import normal_quantile
from nishimori.errors import InputError
from nishimori.plot._style import axes_for, by_name, looks, note_below

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# More groups than this have no room for their names: then only the farthest ones are named, this many at each end.
_NAMED, _FARTHEST = 30, 4
# How far the rows of several results lie apart, as a share of the distance between groups, if all groups are named.
_APART = 0.44


def group_gaps(gaps: GroupGaps | Mapping[str, GroupGaps], *, ax: "Axes | None" = None) -> "Axes":
    """Confidence minus accuracy of each group, in points, with 95 % intervals: before and after, say.

    Groups are in the order of their gaps in the first result, the most overconfident one on top. A filled marker is a group
    that is significant.

    Parameters
    ----------
    gaps : GroupGaps or dict
        From `nishimori.group_gaps`, or several of them by name. "before", "after", "EC" and "TS" look the same in all pictures
        of nishimori.
    ax : matplotlib axes, optional
        Where to draw; new axes by default.

    Returns
    -------
    matplotlib axes
        ``ax``, or the new axes.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import nishimori
    >>> network = nishimori.data.load("cifar10/resnet20")
    >>> figure, ax = plt.subplots()
    >>> gaps = nishimori.group_gaps(network.test.logits, network.test.labels)
    >>> ax = nishimori.plot.group_gaps({"before": gaps}, ax=ax)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['before: mean gap 7.3 points, 7.3 without noise']
    >>> plt.close(figure)
    """
    results = _checked(gaps)
    first = next(iter(results.values()))
    names = [group.name for group in sorted(first.groups, key=lambda group: group.gap)]
    names += [group.name for other in results.values() for group in other.groups if group.name not in set(names)]
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    are_named = len(places) <= _NAMED
    ax = axes_for("group_gaps", (5.2, 1.6 + (0.26 * len(places) if are_named else 4.4)), ax)
    shifts = np.linspace(_APART / 2, -_APART / 2, len(results)) if are_named and len(results) > 1 else np.zeros(len(results))
    look_of = looks(ax, list(results))
    for (name, result), shift in zip(results.items(), shifts, strict=True):
        _draw(ax, result, places, name, look_of[name], float(shift), thin=not are_named)
    ax.axvline(0, color="0.3", linewidth=0.7, zorder=0)
    _name_groups(ax, list(places), first.by, are_named=are_named)
    ax.set(xlabel="confidence − accuracy, points", ylim=(-0.7, len(places) - 0.3))
    ax.legend(loc="lower right", bbox_to_anchor=(1, 1), frameon=False, fontsize="small", borderaxespad=0.2)
    note_below(ax, ["bars: 95 % intervals; filled: significant"])
    return ax


def _checked(gaps: Any) -> dict[str | None, GroupGaps]:
    """The results to draw; one without a name has the name None."""
    results: dict[str | None, Any] = by_name(gaps, "gaps")
    for result in results.values():
        if not isinstance(result, GroupGaps):
            remedy = "Pass `nishimori.group_gaps(logits, labels)`."
            raise InputError("gaps", "be a GroupGaps, or several by name", got=type(result).__name__, remedy=remedy)
    if len({result.by for result in results.values()}) > 1:
        raise InputError("gaps", "hold results of the same `by`", got="'prediction' and 'groups'")
    return results


def _draw(
    ax: "Axes",
    result: GroupGaps,
    places: Mapping[Any, int],
    name: str | None,
    look: tuple[Any, str],
    shift: float,
    *,
    thin: bool,
) -> None:
    """The groups of one result."""
    color, marker = look
    rows: Sequence[GroupGap] = result.groups
    at = np.array([places[row.name] for row in rows]) + shift
    gaps: HostArray = 100 * np.array([row.gap for row in rows])
    reach = 100 * normal_quantile(0.95) * np.array([row.se for row in rows])
    off = np.array([row.is_off for row in rows])
    ax.hlines(at, gaps - reach, gaps + reach, color=color, linewidth=0.8 if thin else 1.4, alpha=0.45 if thin else 0.7)
    size = 12 if thin else 30
    for chosen, filled in ((off, True), (~off, False)):
        face = color if filled else ax.get_facecolor()
        ax.scatter(gaps[chosen], at[chosen], s=size, marker=marker, color=color, facecolors=[face], zorder=3)
    mean = f"mean gap {100 * result.mean_abs_gap:.1f} points, {100 * result.mean_abs_gap_corrected:.1f} without noise"
    ax.plot([], [], marker, color=color, label=mean if name is None else f"{name}: {mean}")


def _name_groups(ax: "Axes", names: Sequence[Any], by: str, *, are_named: bool) -> None:
    """Write the names of all groups, or of the farthest ones."""
    what = "predicted class" if by == "prediction" else "group"
    if are_named:
        ax.set_yticks(range(len(names)), [str(name) for name in names])
        ax.set_ylabel(what)
        return
    ax.set_yticks([])
    ax.set_ylabel(f"{len(names)} {what}{'es' if by == 'prediction' else 's'}, by gap")
    text: Any = {"transform": ax.transAxes, "fontsize": "small", "color": "0.25"}
    highest, lowest = ", ".join(map(str, names[: -_FARTHEST - 1 : -1])), ", ".join(map(str, names[:_FARTHEST]))
    ax.text(0.02, 0.98, f"most overconfident:\n{highest}", va="top", **text)
    ax.text(0.98, 0.02, f"most underconfident:\n{lowest}", va="bottom", ha="right", **text)
