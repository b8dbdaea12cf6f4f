"""A reliability diagram before and after TS and EC, in bins of equal mass."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nishimori._maps import Temperature
from nishimori._reliability import Reliability
from nishimori._scorecard import scorecards
from nishimori._sources import source
from nishimori.data import Labelled
from nishimori.plot import reliability_diagram

_BINS = 15


def reliability_rows(test: Labelled, chosen: Mapping[str, float]) -> list[dict[str, Any]]:
    """Confidence and accuracy of every bin at T = 1, T_TS and T_EC."""
    rows = []
    temperatures = {"before": 1.0, "TS": chosen["temperature_ts"], "EC": chosen["temperature_ec"]}
    maps = [Temperature(T) for T in temperatures.values()]
    cards = scorecards(source(test.logits, test.labels), maps, n_bins=_BINS, strategy="quantile")
    for when, card in zip(temperatures, cards, strict=True):
        curve = card.reliability
        for confidence, accuracy, weight in zip(curve.confidence, curve.accuracy, curve.weight, strict=True):
            numbers = {"confidence": float(confidence), "accuracy": float(accuracy), "samples": int(weight)}
            rows.append({"when": when, "temperature": card.temperature, "ece": card.ece, **numbers})
    return rows


def draw_reliability(ax: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    """Accuracy against confidence; bins below the diagonal are overconfident."""
    curves = {when: _curve([row for row in rows if row["when"] == when]) for when in ("before", "TS", "EC")}
    reliability_diagram(curves, ax=ax, histogram=False)
    low = min(min(row["confidence"], row["accuracy"]) for row in rows)
    margin = 0.04 * (1 - low)
    limits = (low - margin, 1 + margin)
    ax.set(xlim=limits, ylim=limits, aspect="equal")
    ax.grid(alpha=0.3)
    ax.legend(fontsize=8, loc="upper left")


def _curve(bins: Sequence[Mapping[str, Any]]) -> Reliability:
    """The curve that the rows were made of, without the edges of its bins, which only the histogram needs."""
    confidence, accuracy, weight = (np.array([row[key] for row in bins]) for key in ("confidence", "accuracy", "samples"))
    edges, group = confidence, np.zeros(len(bins), dtype=int)
    return Reliability(confidence, accuracy, weight, edges, edges, group, weight, n_bins=_BINS, strategy="quantile")
