"""A temperature for each group of rows, shrunk towards the common one; the more so, the less data a group has.

It is a random-effects model. At the common temperature each group has a gap between confidence and accuracy (or the gap of
temperature scaling), which is worth one Newton step: an estimate of how far the log T of the group lies from the common one,
with a variance. The spread of the true distances follows from these (`random_effects`). Each group then solves its own
equation with a penalty for its distance,

    slope / variance · gap(θ) = θ / spread²,  θ = log T of the group - common log T,

whose left side falls as θ grows, so that there is exactly one solution, also for a group without a single error. All distances
are finally shifted by the same amount, such that the gap of all rows together is zero again. All groups advance in the same
passes.
"""

from dataclasses import dataclass
from math import copysign, inf, log, sqrt

import numpy as np

from nishimori._fit.match import REFUSED
from nishimori._fit.random_effects import variance_between, variance_limit
from nishimori._rows.rows import Rows
from nishimori._sums.groups import Grouping, GroupSums, MeasureGroups
from nishimori._sums.observables import Confidence, Energy
from nishimori._support.arrays import HostArray
from nishimori.errors import NotConvergedError

# Expectation consistency shrinks with the lower limit of the 95 % interval of the spread. With the estimate itself, some fits
# to 500 samples had a higher test loss than one temperature has; with the limit, none had (`bench/studies/groups.py`).
# Temperature scaling, which lowers the loss by itself, needs no such care, and is best with the estimate.
_LEVEL = 0.975

# How far groups differ is uncertain, and so is what shrinking misses: standard errors use a limit that is about one standard
# error above the estimate. Then 90 to 100 % of all intervals of 95 % contain the temperature of a generated group.
_ERROR_LEVEL = 0.16

# After a step of this size, in log T, the error of a Newton step is of the size of its square.
_SMALL_STEP = 1e-5

# So small a shift of all log T is left.
_LEAST_SHIFT = 1e-9

_MOST_PASSES = 60

# The largest distance in log T that a search tries, and the longest step of the shift. No T is far enough for a group in which
# every answer is wrong; at a factor of 1,100 its confidence is that of chance, and float32 still tells its classes apart.
_FARTHEST, _LONGEST_SHIFT = 7.0, 1.0

# A group whose gap at the common temperature is this many times its standard error rejects that temperature.
_REJECTED = 2.0

# A group whose log T has a larger standard error by itself than this, a factor of 20,000 in T, says nothing.
_LARGEST_ERROR = 10.0


@dataclass(frozen=True)
class GroupMatch:
    """The temperatures of groups, and how they were found.

    Attributes
    ----------
    common : float
        The temperature of all rows together.
    logs, log_errors : array of shape (groups,)
        The log T of each group, and their standard errors.
    spread : float
        The standard deviation of log T between groups, as estimated.
    used_spread : float
        The one that temperatures are shrunk with.
    is_open : array of bool
        Which groups have the common temperature, because the data say nothing about them, or because the standard error of
        their own one is as large as itself and their samples do not reject the common one.
    residual : float
        The mean gap of all rows at these temperatures.
    n_passes : int
        How often the rows were read, after the common temperature was known.
    """

    common: float
    logs: HostArray
    log_errors: HostArray
    spread: float
    used_spread: float
    is_open: HostArray
    residual: float
    n_passes: int

    @property
    def temperatures(self) -> HostArray:
        return np.exp(self.logs)

    @property
    def errors(self) -> HostArray:
        """The standard errors of the temperatures."""
        return self.temperatures * self.log_errors


def match_groups(
    data: Rows,
    grouping: Grouping,
    observable: Confidence | Energy,
    common: float,
    common_se: float | None,
) -> GroupMatch:
    """The temperature of each group, when the common temperature is known."""
    search = _GroupSearch(data, grouping, observable, -log(common))
    first = search.read(np.zeros(grouping.number))
    is_open = (first.n_units < 2) | ~(_LARGEST_ERROR**2 * first.slope**2 > first.variance)
    slope = first.slope[~is_open]
    steps, variances = first.gap[~is_open] / slope, first.variance[~is_open] / slope**2
    spread, used, possible = _spreads(steps, variances, observable)
    # How large the squared distance of each log T may be: as all groups say, or the group itself if that is less.
    near = np.full(grouping.number, possible)
    near[~is_open] = np.minimum((np.abs(steps) + np.sqrt(variances)) ** 2, possible)
    distances, last = np.zeros(grouping.number), first
    common_error = 0.0 if common_se is None else common_se / common
    if used > 0:
        distances = search.solve(first, is_open, used)
        distances, last = search.recentre(distances, is_open)
    errors = _log_errors(last, is_open, near, used, common_error)
    # A group that rejects the common temperature is better off with an uncertain one: if all answers are wrong, T is infinite.
    denied = ~is_open & (distances != 0) & (errors >= REFUSED) & (first.gap**2 <= _REJECTED**2 * first.variance)
    if denied.any():
        is_open = is_open | denied
        distances, last = (distances, first) if is_open.all() else search.recentre(distances, is_open)
        errors = _log_errors(last, is_open, near, used, common_error)
    return GroupMatch(
        common=common,
        logs=np.where(is_open, log(common), log(common) + distances),
        log_errors=errors,
        spread=sqrt(spread),
        used_spread=sqrt(used),
        is_open=is_open,
        residual=float(last.gap.sum() / last.weight.sum()),
        n_passes=search.n_passes,
    )


def _spreads(steps: HostArray, variances: HostArray, observable: Confidence | Energy) -> tuple[float, float, float]:
    """Variances of log T between groups: the estimate, the value for shrinkage, and a plausible upper value."""
    estimated = variance_between(steps, variances)
    used = estimated if isinstance(observable, Energy) else variance_limit(steps, variances, _LEVEL)
    return estimated, used, max(estimated, variance_limit(steps, variances, _ERROR_LEVEL))


def _log_errors(sums: GroupSums, is_open: HostArray, possible: HostArray, used: float, common_error: float) -> HostArray:
    """The standard error of each log T: from the group's own equation, and from the common temperature.

    A share s = used/(used + v) of what the group says by itself, with variance v, is kept. The rest of its true distance, whose
    square may be ``possible``, is missed, and the common log T has an error of its own.
    """
    own, squares = np.full(len(is_open), np.inf), sums.slope**2
    determined = ~is_open & (squares > 0)  # the square of a tiny slope is zero, as of a group at the end of its temperatures
    own[determined] = sums.variance[determined] / squares[determined]
    kept = used / (used + own)
    missed = (1 - kept) ** 2 * (possible + common_error**2)
    return np.sqrt(np.where(kept > 0, kept**2 * np.where(determined, own, 0.0), 0.0) + missed)


@dataclass
class _GroupSearch:
    """A search in one data set, from the common log β."""

    data: Rows
    grouping: Grouping
    observable: Confidence | Energy
    log_beta: float
    n_passes: int = 0

    def read(self, distances: HostArray) -> GroupSums:
        """The sums at these distances of log T from the common one."""
        if self.n_passes == _MOST_PASSES:
            raise NotConvergedError(
                f"The search for the temperatures of groups did not converge in {_MOST_PASSES} passes. Leave out groups "
                "with very few samples, or use one temperature."
            )
        self.n_passes += 1
        betas = np.exp(self.log_beta - distances)
        return self.data.gather(MeasureGroups(self.grouping, self.observable, betas, self.data.counts, self.data.has_clusters))

    def solve(self, sums: GroupSums, is_open: HostArray, spread: float) -> HostArray:
        """The distances at which the penalised equation of each group holds; ``sums`` are at the common temperature."""
        scale = np.divide(sums.slope, sums.variance, out=np.zeros_like(sums.slope), where=~is_open)
        at, low, high = (np.full(len(is_open), start) for start in (0.0, -_FARTHEST, _FARTHEST))
        while True:
            # Temperature scaling in units of the common β, in which its gap falls as T grows, too.
            unit = np.exp(at) if isinstance(self.observable, Energy) else 1.0
            value = scale * unit * sums.gap - at / spread
            fall = scale * unit * sums.slope + 1 / spread
            low, high = np.where(value > 0, at, low), np.where(value < 0, at, high)
            step = value / fall
            new = at + step
            # A step within rounding may end on the bound that the point itself has set.
            outside = ((new <= low) | (new >= high)) & (np.abs(step) > _LEAST_SHIFT)
            new = np.where(outside, (low + high) / 2, new)
            size = float(np.abs(new - at).max())
            at = new
            if size <= _SMALL_STEP:
                return at
            sums = self.read(at)

    def recentre(self, distances: HostArray, is_open: HostArray) -> tuple[HostArray, GroupSums]:
        """The distances shifted by the same amount, such that the gap of all rows is zero, and the sums there.

        Groups that the data say nothing about stay at the common temperature.
        """
        shift, low, high = 0.0, -inf, inf
        while True:
            moved = distances + shift
            sums = self.read(np.where(is_open, 0.0, moved))
            gap, fall = float(sums.gap.sum()), float(sums.slope[~is_open].sum())
            if isinstance(self.observable, Energy):  # whose gap is in units of the β of each group, which changes too
                fall = max(fall + float(sums.gap[~is_open].sum()), fall / 2)
            low, high = (shift, high) if gap > 0 else (low, shift)
            step = max(-_LONGEST_SHIFT, min(gap / fall, _LONGEST_SHIFT)) if fall > 0 else copysign(_LONGEST_SHIFT, gap)
            if abs(step) <= _LEAST_SHIFT:
                return moved, sums
            shift = shift + step if low < shift + step < high else (low + high) / 2
