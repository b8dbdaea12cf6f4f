"""Which groups are off: confidence against accuracy for each predicted class or group, before and after calibration."""

from collections.abc import Mapping, Sequence

from nishimori._evaluation.group_gaps import GroupGap, GroupGaps, gaps_after, names_of_groups
from nishimori._rows.rows import Rows
from nishimori._sums.groups import By
from nishimori._support.formatting import points_with_error
from nishimori._support.tables import Tabular
from nishimori.cli._terminal import print_tabular, print_text
from nishimori.maps.map import Map

# So many groups are shown, those that are furthest off; machines get all.
_SHOWN = 20


def group_gaps_of(
    rows: Rows, maps: Mapping[str, Map], by: By, classes: Sequence[str] | None, level: float, *, counts: bool
) -> dict[str, GroupGaps]:
    """The gaps of all groups after each map; predicted classes have the names of ``classes``."""
    names = names_of_groups(rows, by, classes)
    return dict(zip(maps, gaps_after(rows, list(maps.values()), by, names, level, counts=counts), strict=True))


def print_group_gaps(found: Mapping[str, GroupGaps]) -> None:
    """The groups that are furthest off, and how far all are off on average."""
    *_, last = found.values()
    table = group_table(found)
    print_tabular(Tabular(table.headers, table.rows[:_SHOWN]))
    if (more := len(table.rows) - _SHOWN) > 0:
        print_text(f"{more} more are not shown; --json prints all.")
    means = ", ".join(f"{when} {100 * each.mean_abs_gap:.2f} ({_corrected_gap(each)})" for when, each in found.items())
    what = "predicted classes" if last.by == "prediction" else "groups"
    print_text(f"Confidence minus accuracy in points; * marks significant gaps. Mean absolute gap over {what}: {means}")


def group_table(found: Mapping[str, GroupGaps]) -> Tabular:
    """All groups, those first that are furthest off at last; sizes and accuracies once if predictions stay the same."""
    *_, last = found.values()
    by_name = {when: {each.name: each for each in gaps} for when, gaps in found.items()}
    names = list(dict.fromkeys(each.name for gaps in (last, *found.values()) for each in gaps.worst_first))
    is_same = len({tuple((each.name, each.n, each.accuracy) for each in gaps) for gaps in found.values()}) == 1
    sized = list(by_name)[:1] if is_same else list(by_name)
    headers = ["class" if last.by == "prediction" else "group"]
    for when in sized:
        headers += ["n", "accuracy"] if is_same else [f"n {when}", f"accuracy {when}"]
    headers += ["gap"] if len(found) == 1 else [f"gap {when}" for when in by_name]
    rows = []
    for name in names:
        sizes = [cell for when in sized for cell in _size(by_name[when].get(name))]
        rows.append([str(name), *sizes, *(_gap(each.get(name)) for each in by_name.values())])
    return Tabular(headers, rows)


def _corrected_gap(found: GroupGaps) -> str:
    return f"{100 * found.mean_abs_gap_corrected:.2f} bias-corrected"


def _size(group: GroupGap | None) -> tuple[str, str]:
    return ("0", "") if group is None else (f"{group.n}", f"{100 * group.accuracy:.1f} %")


def _gap(group: GroupGap | None) -> str:
    if group is None:
        return ""
    return f"{points_with_error(group.gap, group.se)}{' *' if group.is_off else ''}"
