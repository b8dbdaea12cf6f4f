"""Compute how loss, confidence and calibration error depend on the temperature: the paper's first figure as numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log2
from typing import Any, Unpack

import numpy as np

from nishimori._evaluation.scorecard import Scorecard, scorecards
from nishimori._fit.temperatures import Temperatures, temperatures_of
from nishimori._rows.entry import open_rows
from nishimori._rows.options import ONE_NUMBER, RowOptions, takes_rows
from nishimori._rows.question import question
from nishimori._rows.rows import Rows
from nishimori._sums.reliability import Strategy
from nishimori._support.arrays import HostArray
from nishimori._support.display import Display, Displayed, short_repr
from nishimori._support.formatting import number_text, percent
from nishimori._support.numbers import temperature as checked_temperature
from nishimori._support.tables import Tabular
from nishimori._support.warnings import collect_notices
from nishimori.errors import InputError
from nishimori.maps.temperature import Temperature

# This many temperatures of the grid are printed.
_PRINTED = 13

# Temperatures from T to 2T, the finest first; a coarser grid is taken if the range is wide, or the data are large.
_PER_OCTAVE = (12, 8, 6, 4, 2, 1)

# Temperatures of a grid at most: a slider that is 600 pixels wide has no more places that a hand can find.
_MOST = 100

# From this many logits on the grid is coarser: 6 temperatures from T to 2T.
_LARGE = 2**24

# How far the grid reaches below the lowest temperature of interest and above the highest.
REACH = 4.0


@dataclass(frozen=True, repr=False)
class TemperatureCurve(Displayed):
    """One entry per temperature, and the two temperatures that the methods choose. ``print`` shows some of them.

    Attributes
    ----------
    temperature, loss, confidence, ece : array
        The grid, and at each of its points mean cross-entropy, mean confidence and expected calibration error.
    accuracy : float
        What confidence has to equal.
    chosen : Temperatures
        With `ec` and `ts`.
    """

    temperature: HostArray
    loss: HostArray
    confidence: HostArray
    ece: HostArray
    accuracy: float
    chosen: Temperatures

    def __repr__(self) -> str:
        ends = tuple(float(end) for end in (self.temperature.min(), self.temperature.max()))
        return short_repr(self, n_temperatures=len(self.temperature), temperatures=ends, ec=self.chosen.ec, ts=self.chosen.ts)

    @property
    def _display(self) -> Display:
        chosen = np.unique(np.linspace(0, len(self.temperature) - 1, _PRINTED).round().astype(int))
        numbers = np.column_stack([self.temperature, self.loss, self.confidence, self.ece])[chosen].tolist()
        rows = [(number_text(T), number_text(loss), percent(confidence), percent(ece)) for T, loss, confidence, ece in numbers]
        left = len(self.temperature) - len(chosen)
        temperatures = [
            f"{name} {number_text(T)}" for name, T in (("EC", self.chosen.ec), ("TS", self.chosen.ts)) if T is not None
        ]
        notes = [f"Chosen temperatures: {', '.join(temperatures)}. Accuracy {percent(self.accuracy)}."]
        notes += [f"{left} of {len(self.temperature)} temperatures are not shown."] if left else []
        return Display("", (Tabular(("T", "NLL", "confidence", "ECE"), rows),), tuple(notes))


@takes_rows(refuses=ONE_NUMBER)
def temperature_curve(
    logits: Any,
    labels: Any = None,
    *,
    grid: Sequence[float] | HostArray | None = None,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    **options: Unpack[RowOptions],
) -> TemperatureCurve:
    """Loss, mean confidence, accuracy and calibration error against the temperature.

    Parameters
    ----------
    logits, labels
        As for `temperatures`.
    grid : sequence of float, optional
        The temperatures to evaluate; by default 61 from a quarter of the smaller chosen one to four times the larger
        (around 1 if there is neither).
    n_bins, strategy
        As for `metrics.ece`.
    **options
        What is said about the data, see `rows`: ``sample_weight``, ``input``, ``classes``, ``floor``, ``ignore_index``,
        ``shift_labels``, ``class_axis``, ``member_axis``.

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
    data = open_rows(logits, labels, **options)
    chosen = temperatures_of(data)
    if grid is None:
        ends = [t for t in (chosen.ec, chosen.ts) if t is not None] or [1.0]
        grid = np.geomspace(min(ends) / 4, max(ends) * 4, 61)
    if np.ndim(grid) != 1 or not len(grid):
        raise InputError("grid", "be a flat list of temperatures", got=f"shape {np.shape(grid)}")
    temperatures = [checked_temperature(t, "grid") for t in grid]
    cards = scorecards(data, [Temperature(t) for t in temperatures], n_bins=n_bins, strategy=strategy)
    return TemperatureCurve(
        temperature=np.array(temperatures),
        loss=np.array([card.nll for card in cards]),
        confidence=np.array([card.confidence for card in cards]),
        ece=np.array([card.ece for card in cards]),
        accuracy=chosen.accuracy,
        chosen=chosen,
    )


# All metrics around temperatures of interest, such as for a slider


@question("has no rows to measure")
def cards_around(data: Rows, chosen: Sequence[float], *, n_bins: int) -> list[Scorecard]:
    """Measure scorecards on a grid around the temperatures of interest, from one reading.

    The grid has factors of 2^(1/12), so that every temperature has one in the grid of twice its value. Power sums at β and at
    2β give the Brier score, and the kernels get those at 2β by squaring. So the whole grid costs as much as twelve
    temperatures.
    """
    maps = [Temperature(T) for T in _grid_around(chosen, (data.n_rows or 0) * data.n_classes)]
    with collect_notices():  # what is to be said of the data was said where the temperatures of interest were measured
        return scorecards(data, maps, n_bins=n_bins)


def _grid_around(chosen: Sequence[float], n_logits: int) -> list[float]:
    """A grid around the temperatures of interest, with T = 1: 2^(j/12) for whole numbers j, or fewer per octave."""
    low, high = log2(min([1.0, *chosen]) / REACH), log2(max([1.0, *chosen]) * REACH)
    for per_octave in _PER_OCTAVE[2 if n_logits >= _LARGE else 0 :]:
        first, last = floor(per_octave * low), ceil(per_octave * high)
        if last - first < _MOST:
            break
    return [2.0 ** (j // per_octave) * 2.0 ** (j % per_octave / per_octave) for j in range(first, last + 1)]
