"""How precisely validation samples fix the two temperatures of a network, and how its confidence depends on T.

A temperature solves mean g(β) = 0, with g the gap of one sample. For many samples the error of log T is the mean of g divided
by the slope of that mean in log β, so all variances follow from the gaps at the solution.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from nishimori import metrics
from nishimori._calibrators.one_temperature import ExpectationConsistency, TemperatureScaling
from nishimori._support.arrays import HostArray
from nishimori.data import Labelled
from nishimori_paper._artefact import Pieces, Scale
from nishimori_paper._measured import network
from nishimori_paper._names import resnet20_on
from nishimori_paper._printed import printed
from nishimori_paper.artefacts._rows import networks_of_tables

# From cold to hot: mean confidence must fall from each to the next.
GRID = (1e-6, 0.1, 0.3, 1.0, 3.0, 10.0, 1e6)
_PREFIX = "precision "


def measured_networks() -> list[str]:
    """The networks of the tables, and the networks that were trained on fewer images."""
    fractions = [str(resnet20_on(fraction)) for fraction in printed()["figure-train-size"]["fraction"]]
    return list(dict.fromkeys([*networks_of_tables(), *fractions]))


def precision_pieces(scale: Scale) -> Mapping[str, Callable[[], Any]]:
    """One piece per network."""
    return {f"{_PREFIX}{name}": partial(_piece, name, scale) for name in measured_networks()}


def precisions(done: Pieces) -> dict[str, Any]:
    """The finished pieces by network."""
    return {key.removeprefix(_PREFIX): value for key, value in done.items() if key.startswith(_PREFIX)}


def _piece(name: str, scale: Scale) -> dict[str, Any]:
    validation = network(name, scale).validation
    ec, ts = (kind().fit(validation.logits, validation.labels) for kind in (ExpectationConsistency, TemperatureScaling))
    return {
        "n_passes_ec": ec.n_passes_,
        "n_passes_ts": ts.n_passes_,
        "confidence": [metrics.confidence(validation.logits, validation.labels, temperature=T) for T in GRID],
        "accuracy": metrics.accuracy(validation.logits, validation.labels),
        "n_classes": validation.logits.shape[1],
        **spreads(validation, ec.temperature_, ts.temperature_),
    }


def spreads(sample: Labelled, ec: float, ts: float) -> dict[str, float]:
    """Variance of log T per sample for both methods, and the relative difference of the two T.

    With the standard errors of this difference and of the logarithm of the ratio of the variances.
    """
    errors_ec, errors_ts = _errors_ec(sample, ec), _errors_ts(sample, ts)
    return {
        "variance_ec": float(np.mean(errors_ec**2)),
        "variance_ts": float(np.mean(errors_ts**2)),
        "ratio_error": _ratio_error(errors_ec**2, errors_ts**2),
        "difference": abs(ts - ec) / ts,
        "difference_error": ec / ts * float(np.std(errors_ec - errors_ts)) / len(sample.labels) ** 0.5,
    }


def _ratio_error(one: HostArray, other: HostArray) -> float:
    """The standard error of the logarithm of a ratio of two means over the same samples."""
    return float(np.std(one / one.mean() - other / other.mean()) / len(one) ** 0.5)


def _errors_ec(sample: Labelled, temperature: float) -> HostArray:
    """The contribution of each sample to the error of log T_EC: confidence minus correctness, over the mean slope."""
    below, p, mean = _averages(sample, temperature)
    confidence = p.max(axis=1)
    right = below[np.arange(len(below)), sample.labels] == 0
    errors: HostArray = (confidence - right) / np.mean(-confidence * mean / temperature)
    return errors


def _errors_ts(sample: Labelled, temperature: float) -> HostArray:
    """The contribution of each sample to the error of log T_TS: mean logit minus label's logit, over the mean slope."""
    below, p, mean = _averages(sample, temperature)
    variance = (p * (below - mean[:, None]) ** 2).sum(axis=1)
    errors: HostArray = (mean - below[np.arange(len(below)), sample.labels]) / np.mean(variance / temperature)
    return errors


def _averages(sample: Labelled, temperature: float) -> tuple[HostArray, HostArray, HostArray]:
    """Logits relative to the largest of their row, probabilities, and the mean logit under these probabilities."""
    logits = np.asarray(sample.logits, dtype=np.float64)
    below = logits - logits.max(axis=1, keepdims=True)
    p = np.exp(below / temperature)
    p /= p.sum(axis=1, keepdims=True)
    return below, p, (p * below).sum(axis=1)
