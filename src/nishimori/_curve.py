"""How loss, confidence and calibration error depend on the temperature: the paper's first figure as numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nishimori._inputs import batches
from nishimori._labels import HostArray
from nishimori._reliability import Strategy, reliability_of
from nishimori._scores import Input
from nishimori._temperatures import Temperatures, temperatures
from nishimori.errors import InputError
from nishimori.metrics import inverse, mean, nll_rows


@dataclass(frozen=True)
class TemperatureCurve:
    """One entry per temperature, and the two temperatures that the methods choose.

    Attributes
    ----------
    temperature, loss, confidence, ece : array
        The grid, and at each of its points mean cross-entropy, mean confidence and expected calibration error.
    accuracy : float
        What confidence is to equal.
    chosen : Temperatures
        With `ec` and `ts`.
    """

    temperature: HostArray
    loss: HostArray
    confidence: HostArray
    ece: HostArray
    accuracy: float
    chosen: Temperatures


def temperature_curve(
    logits: Any,
    labels: Any,
    *,
    grid: Sequence[float] | HostArray | None = None,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    sample_weight: Any = None,
    input: Input = "logits",
) -> TemperatureCurve:
    """Loss, mean confidence, accuracy and calibration error against the temperature.

    Parameters
    ----------
    logits, labels, sample_weight, input
        As for `temperatures`.
    grid : sequence of float, optional
        The temperatures to evaluate; by default 61 from a quarter of the smaller chosen one to four times the larger.
    n_bins, strategy
        As for `metrics.ece`.

    Examples
    --------
    >>> import numpy as np
    >>> import nishimori
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(2000, 5))
    >>> labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    >>> curve = nishimori.temperature_curve(logits, labels, grid=[1.0, 2.0, 4.0])
    >>> curve.confidence.round(2)
    array([0.75, 0.57, 0.4 ])
    """
    data = batches(logits, labels, sample_weight, input=input)
    chosen = temperatures(logits, labels, sample_weight=sample_weight, input=input)
    if grid is None:
        ends = [t for t in (chosen.ec, chosen.ts) if t is not None]
        grid = np.geomspace(min(ends) / 4, max(ends) * 4, 61)
    points = np.asarray(grid, dtype=np.float64)
    if points.ndim != 1 or len(points) == 0:
        raise InputError(f"`grid` must be a flat list of temperatures, got shape {points.shape}.")
    betas = [inverse(t) for t in points]
    curves = [reliability_of(data, beta=beta, n_bins=n_bins, strategy=strategy, of="top") for beta in betas]
    return TemperatureCurve(
        temperature=points,
        loss=np.array([mean(data, beta, nll_rows) for beta in betas]),
        confidence=np.array([float(c.weight @ c.confidence / c.weight.sum()) for c in curves]),
        ece=np.array([curve.error() for curve in curves]),
        accuracy=chosen.accuracy,
        chosen=chosen,
    )
