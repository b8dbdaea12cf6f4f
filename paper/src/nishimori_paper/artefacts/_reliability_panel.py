"""Reliability before and after TS and EC, in bins of equal mass: confidence minus accuracy against confidence.

Bins of equal mass crowd at a confidence of 1, where a diagram of accuracy against confidence shows one heap of markers. So
the confidence has a logit axis here, and the distance from the diagonal is the height.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nishimori._evaluation.scorecard import scorecards
from nishimori._rows.entry import open_rows
from nishimori.data import Labelled
from nishimori.maps.temperature import Temperature
from nishimori.plot._reliability_diagram import wilson_interval
from nishimori.plot._style import COLORS, MARKERS

_BINS = 15
_CURVES = {"before": "before", "TS": "ts", "EC": "ec"}
# Confidences closer to 1 than this are drawn as one bin: they differ from 1 by less than any accuracy can.
_SURE = 1e-5
_TICKS = (0.4, 0.6, 0.8, 0.9, 0.97, 0.99, 0.999, 0.9999, 0.99999)


def reliability_rows(test: Labelled, chosen: Mapping[str, float]) -> list[dict[str, Any]]:
    """Confidence and accuracy of every bin at T = 1, T_TS and T_EC, with the 95 % interval of the accuracy."""
    rows = []
    temperatures = {"before": 1.0, "TS": chosen["temperature_ts"], "EC": chosen["temperature_ec"]}
    maps = [Temperature(T) for T in temperatures.values()]
    cards = scorecards(open_rows(test.logits, test.labels), maps, n_bins=_BINS, strategy="quantile")
    for when, card in zip(temperatures, cards, strict=True):
        curve = card.reliability
        ends = wilson_interval(curve.accuracy, curve.count)
        for confidence, accuracy, weight, low, high in zip(curve.confidence, curve.accuracy, curve.weight, *ends, strict=True):
            numbers = {"confidence": float(confidence), "accuracy": float(accuracy), "samples": int(weight)}
            numbers |= {"accuracy_low": float(low), "accuracy_high": float(high)}
            rows.append({"when": when, "temperature": card.temperature, "ece": card.ece, **numbers})
    return rows


def draw_reliability(ax: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    """Confidence minus accuracy of each bin, in points, with 95 % intervals; bins above zero are overconfident."""
    for when, name in _CURVES.items():
        bins = [row for row in rows if row["when"] == when]
        confidence, accuracy, count = _joined(bins)
        low, high = wilson_interval(accuracy, count)
        gap = 100 * (confidence - accuracy)
        bars = 100 * np.stack([high - accuracy, accuracy - low])
        look = {"color": COLORS[name], "marker": MARKERS[name], "markersize": 4.5, "linewidth": 1, "elinewidth": 1.2}
        ax.errorbar(confidence, gap, bars, label=f"{when}: ECE {100 * bins[0]['ece']:.2f} %", **look)
    ax.axhline(0, color="0.3", linestyle=(0, (4, 4)), linewidth=0.9, zorder=0)
    ax.set(xscale="logit", xlabel="confidence, %", ylabel="confidence − accuracy, points")
    low = min(row["confidence"] for row in rows)
    ax.set_xlim(0.85 * low, 1 - _SURE / 6)
    shown = [tick for tick in _TICKS if tick > 0.85 * low]
    ax.set_xticks(shown, [f"{100 * tick:g}" for tick in shown])
    ax.set_xticks([], minor=True)
    ax.grid(alpha=0.3)
    ax.legend(fontsize=8, loc="upper right")


def _joined(bins: Sequence[Mapping[str, Any]]) -> tuple[Any, Any, Any]:
    """Confidence, accuracy and samples of each bin; bins with a confidence of almost 1 are joined into one."""
    confidence, accuracy, samples = (np.array([row[key] for row in bins]) for key in ("confidence", "accuracy", "samples"))
    sure = confidence > 1 - _SURE
    if sure.sum() > 1:
        last = [np.average(values[sure], weights=samples[sure]) for values in (confidence, accuracy)]
        confidence, accuracy = np.append(confidence[~sure], last[0]), np.append(accuracy[~sure], last[1])
        samples = np.append(samples[~sure], samples[sure].sum())
    return np.minimum(confidence, 1 - _SURE / 3), accuracy, samples
