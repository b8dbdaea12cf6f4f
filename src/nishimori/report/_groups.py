"""The tables of predicted classes and of groups: their gaps before and after calibration, and their own temperatures."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nishimori._calibrators.groups import GroupConsistency
from nishimori._evaluation.comparison import Comparison
from nishimori._evaluation.group_gaps import GroupGaps
from nishimori._rows.batch import Batch
from nishimori._rows.rows import Rows
from nishimori._support import arrays
from nishimori._support.arrays import HostArray


def class_table(comparison: Comparison, one: str, fitted: GroupConsistency | None) -> dict[str, Any]:
    """The table of predicted classes; ``one`` is the method to use, ``fitted`` has a temperature for each class."""
    gaps = {row.method: row.by_class for row in comparison}
    return _table(gaps["none"], gaps[one], gaps.get("class temperatures"), fitted)


def group_table(data: Rows, comparison: Comparison, one: str, fitted: GroupConsistency | None) -> dict[str, Any] | None:
    """The table of groups; None if the data name no groups."""
    if data.groups is None:
        return None
    gaps = {row.method: row.by_group for row in comparison}
    table = _table(gaps["none"], gaps[one], gaps.get("group temperatures"), fitted)
    return {**table, "of_one_class": groups_of_one_class(data)}


def _table(
    before: GroupGaps | None, one: GroupGaps | None, several: GroupGaps | None, fitted: GroupConsistency | None
) -> dict[str, Any]:
    """One row per group, the worst of the model as it is first: as it is, after one method, and with one T per group."""
    assert before is not None, "which the model as it is has"
    shown = {"before": before, "one": one, "several": several}
    measured = {name: gaps for name, gaps in shown.items() if gaps is not None}
    temperatures = {} if fitted is None else _temperatures(fitted)
    rows = []
    for group in before.worst_first:
        row: dict[str, Any] = {"name": str(group.name), "n": group.n, "accuracy": group.accuracy}
        for name, gaps in measured.items():
            own = gaps[group.name]
            row[name] = {"confidence": own.confidence, "gap": own.gap, "se": own.se, "p_value": own.p_value, "off": own.is_off}
        row["temperature"], row["temperature_se"] = temperatures.get(group.name, (None, None))
        rows.append(row)
    return {"rows": rows, **{name: _mean_gap(gaps) for name, gaps in measured.items()}}


def _mean_gap(gaps: GroupGaps) -> dict[str, Any]:
    low, high = gaps.interval()
    return {
        "mean_abs_gap": gaps.mean_abs_gap,
        "mean_abs_gap_corrected": gaps.mean_abs_gap_corrected,
        "low": low,
        "high": high,
        "n_off": len(gaps.off),
        "n": len(gaps),
    }


def _temperatures(fitted: GroupConsistency) -> Mapping[Any, tuple[float, float | None]]:
    """T and its error by the name of the group."""
    names = fitted.groups_ if isinstance(fitted.groups_, tuple) else fitted.groups_.tolist()
    values, errors = fitted.temperatures_.tolist(), fitted.temperatures_se_
    listed: list[float | None] = [None] * len(values) if errors is None else errors.tolist()
    return dict(zip(names, zip(values, listed, strict=True), strict=True))


def worst_group(gaps: GroupGaps | None) -> dict[str, Any] | None:
    """The class or group with the largest gap, of those with significant gaps if there are any, and how many these are."""
    if gaps is None:
        return None
    worst = gaps.worst_first[0]
    names = ("n", "confidence", "accuracy", "gap", "se")
    row = {"name": str(worst.name), **{name: getattr(worst, name) for name in names}, "off": worst.is_off}
    return row | {"n_off": len(gaps.off), "n_all": len(gaps)}


# Which groups have samples of one true class only: what their table says may not hold for other samples of the group


@dataclass(frozen=True)
class LabelRange:
    """The smallest and the largest label of each group; those of further rows add."""

    low: HostArray
    high: HostArray

    def __add__(self, other: "LabelRange") -> "LabelRange":
        return LabelRange(np.minimum(self.low, other.low), np.maximum(self.high, other.high))


@dataclass(frozen=True)
class FindLabels:
    """The pass that finds the least and the largest label of each group; labels are below ``n_classes``."""

    n_groups: int
    n_classes: int

    def __call__(self, batch: Batch) -> LabelRange:
        assert batch.groups is not None
        labels = arrays.on_host(batch.labels)
        low, high = np.full(self.n_groups, self.n_classes), np.full(self.n_groups, -1)
        np.minimum.at(low, batch.groups.codes, labels)
        np.maximum.at(high, batch.groups.codes, labels)
        return LabelRange(low, high)


def groups_of_one_class(data: Rows) -> list[str]:
    """The names of the groups that have one true class only, of data whose groups are named."""
    groups = data.groups
    assert groups is not None
    labels = data.gather(FindLabels(len(groups.names), data.n_classes))
    return [str(groups.names[place]) for place in np.flatnonzero(labels.low == labels.high)]
