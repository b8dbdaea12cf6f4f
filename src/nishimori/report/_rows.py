"""The rows of the tables on the page as plain dictionaries: methods, predicted classes, groups, errors."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nishimori._calibrators.groups import GroupConsistency
from nishimori._evaluation.comparison import Comparison
from nishimori._evaluation.group_gaps import GroupGaps
from nishimori.report._confusions import Confusions
from nishimori.report._mistakes import Mistakes
from nishimori.report._verdict import TITLES


def method_rows(found: Comparison) -> list[dict[str, Any]]:
    """Each method with all its numbers, intervals and differences from the model as it is."""
    rows = []
    for each in found:
        numbers = each.numbers(found.level)
        for name, difference in each.differences.items():
            low, high = (None, None) if difference.se is None else difference.interval(found.level)
            numbers |= {f"{name}_difference_low": low, f"{name}_difference_high": high}
        card = each.scorecard
        numbers |= {"ece_corrected": None} if card is None else card.corrected
        numbers |= {"gap": None, "gap_se": None} if card is None else {"gap": card.gap, "gap_se": card.gap_se}
        numbers |= {"worst_class": _worst(each.by_class), "worst_group": _worst(each.by_group)}
        rows.append({"title": TITLES.get(each.method, each.method), **numbers})
    return rows


def _worst(gaps: GroupGaps | None) -> dict[str, Any] | None:
    """The class or group with the largest gap, of those with significant gaps if there are any, and how many these are."""
    if gaps is None:
        return None
    one = gaps.worst_first[0]
    names = ("n", "confidence", "accuracy", "gap", "se")
    found = {"name": str(one.name), **{name: getattr(one, name) for name in names}, "off": one.is_off}
    return found | {"n_off": len(gaps.off), "n_all": len(gaps)}


def group_table(gaps: Mapping[str, GroupGaps | None], fitted: GroupConsistency | None) -> dict[str, Any]:
    """One row per group, the worst of the model as it is first.

    ``gaps`` are those of the model as it is ("before"), after one temperature ("one") and after one per group ("several").
    """
    known = {name: found for name, found in gaps.items() if found is not None}
    before = known["before"]
    temperatures = {} if fitted is None else _temperatures(fitted)
    rows = []
    for each in before.worst_first:
        row: dict[str, Any] = {"name": str(each.name), "n": each.n, "accuracy": each.accuracy}
        for name, found in known.items():
            own = found[each.name]
            row[name] = {"confidence": own.confidence, "gap": own.gap, "se": own.se, "p_value": own.p_value, "off": own.is_off}
        row["temperature"], row["temperature_se"] = temperatures.get(each.name, (None, None))
        rows.append(row)
    return {"rows": rows, **{name: _mean_gap(found) for name, found in known.items()}}


def _mean_gap(found: GroupGaps) -> dict[str, Any]:
    low, high = found.interval()
    return {
        "mean_abs_gap": found.mean_abs_gap,
        "mean_abs_gap_corrected": found.mean_abs_gap_corrected,
        "low": low,
        "high": high,
        "n_off": len(found.off),
        "n": len(found),
    }


def _temperatures(fitted: GroupConsistency) -> dict[Any, tuple[float, float | None]]:
    """T and its error by the name of the group."""
    names = fitted.groups_ if isinstance(fitted.groups_, tuple) else fitted.groups_.tolist()
    values, errors = fitted.temperatures_.tolist(), fitted.temperatures_se_
    known: list[float | None] = [None] * len(values) if errors is None else errors.tolist()
    return dict(zip(names, zip(values, known, strict=True), strict=True))


def mistake_rows(found: Mistakes, names: Sequence[Any], ids: Sequence[Any] | None) -> list[dict[str, Any]]:
    """The most confident errors; ``names`` are the labels of the classes."""
    rows = []
    columns = zip(found.places.T.tolist(), found.numbers.T.tolist(), strict=True)
    for (row, predicted, label), (_, confidence, true, after) in columns:
        rows.append(
            {
                "row": row,
                "id": None if ids is None else str(ids[row]),
                "predicted": str(names[predicted]),
                "label": str(names[label]),
                "confidence": confidence,
                "confidence_after": after,
                "true_probability": true,
            }
        )
    return rows


def confusion_rows(found: Confusions, names: Sequence[Any], most: int) -> list[dict[str, Any]]:
    """The pairs of true and predicted class with the most errors, by weight; ``names`` are the labels of the classes."""
    counts, weight, confidence = found.sums
    rows = []
    for place in np.argsort(-weight, kind="stable")[:most].tolist():
        label, predicted = divmod(int(found.pairs[place]), len(names))
        rows.append(
            {
                "label": str(names[label]),
                "predicted": str(names[predicted]),
                "n": round(float(counts[place])),
                "share": float(weight[place] / weight.sum()),
                "confidence": min(float(confidence[place] / weight[place]), 1.0),
            }
        )
    return rows
