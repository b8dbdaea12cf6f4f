"""All scores on a grid of temperatures, from one reading: what the slider of the page shows.

The grid has factors of 2^(1/12), so that every temperature has one in the grid of twice its value. Power sums at β and at 2β
give the Brier score, and the kernels get those at 2β by squaring. So the whole grid costs as much as twelve temperatures.
"""

from collections.abc import Sequence
from math import ceil, floor, log2

from nishimori._evaluation.metrics.table import default_metrics, suited_metrics
from nishimori._evaluation.scorecard import Scorecard, card_of, scorecards
from nishimori._evaluation.scores import MeasureScores, MetricPlan
from nishimori._rows.rows import Rows
from nishimori._sums.reliability import uniform_edges
from nishimori._sums.sketch.grid import Grid
from nishimori._sums.sketch.sketch import Sketch
from nishimori.maps.temperature import Temperature

# Temperatures from T to 2T, the finest first; a coarser grid is taken if the range is wide, or the data are large.
_PER_OCTAVE = (12, 8, 6, 4, 2, 1)

# Temperatures of a grid at most: a slider that is 600 pixels wide has no more places that a hand can find.
_MOST = 100

# From this many logits on the grid is coarser: 6 temperatures from T to 2T.
_LARGE = 2**24

# How far the grid reaches below the lowest temperature of interest and above the highest.
_REACH = 4.0


def grid_of(chosen: Sequence[float], n_logits: int) -> list[float]:
    """Temperatures around those of interest, T = 1 among them: 2^(j/12) for whole numbers j, or fewer per octave."""
    low, high = log2(min([1.0, *chosen]) / _REACH), log2(max([1.0, *chosen]) * _REACH)
    for per_octave in _PER_OCTAVE[2 if n_logits >= _LARGE else 0 :]:
        first, last = floor(per_octave * low), ceil(per_octave * high)
        if last - first < _MOST:
            break
    return [2.0 ** (j // per_octave) * 2.0 ** (j % per_octave / per_octave) for j in range(first, last + 1)]


def scores_over_t(data: Rows, chosen: Sequence[float], *, n_bins: int, counts: bool) -> list[Scorecard]:
    """A scorecard for each temperature of a grid; for a sketch those of its own grid, at which all its sums are exact."""
    if isinstance(data, Sketch):
        low, high = min([1.0, *chosen]) / _REACH, max([1.0, *chosen]) * _REACH
        nodes = [1 / beta for beta in reversed(Grid.over(data.temperatures).betas) if low <= 1 / beta <= high]
        return scorecards(data, [Temperature(each) for each in nodes], n_bins=n_bins)
    temperatures = grid_of(chosen, (data.n_rows or 0) * data.n_classes)
    maps, plan = tuple(Temperature(each) for each in temperatures), MetricPlan(suited_metrics(default_metrics(), data))
    sums = data.gather(MeasureScores(maps, (uniform_edges(n_bins),) * len(maps), plan, counts)).items
    return [card_of(each, temperature, plan) for each, temperature in zip(sums, temperatures, strict=True)]
