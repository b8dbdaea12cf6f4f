"""How a temperature varies from one validation set to the next, by resampling the one there is."""

from dataclasses import dataclass
from math import asinh, ceil, inf, log, pi
from typing import Any, Unpack

import numpy as np
from numpy.polynomial import chebyshev

from nishimori._calibrators.methods import calibrator
from nishimori._calibrators.one_temperature import OneTemperature
from nishimori._fit.search import match
from nishimori._kernels.row_sums import row_sums
from nishimori._rows.batch import Batch
from nishimori._rows.entry import open_rows
from nishimori._rows.options import NO_GROUPS, RowOptions, takes_rows
from nishimori._rows.rows import Rows, counts_in
from nishimori._sums.gibbs import Gibbs
from nishimori._sums.observables import Observable, RowView, TopN
from nishimori._sums.resampling import on_host, resampled_sums
from nishimori._sums.sketch.sketch import Sketch
from nishimori._support.arrays import HostArray
from nishimori._support.intervals import Interval
from nishimori._support.numbers import between, whole
from nishimori.errors import InputError

# The gap of a resample is a polynomial in log β through the Chebyshev points of a panel. The gap of a row is analytic up to an
# imaginary part of π/2, which says how many points give this relative precision.
_PRECISION = 1e-8

# The first panel reaches so many standard errors to each side: of a million normal draws, none lies beyond.
_REACH = 5.0
_NARROWEST, _WIDEST = 1e-3, 0.5

# Further panels are twice as wide as those before, up to a factor of 50 in T. A resample whose T is 1e17 times as low or as
# high as that of the validation set has, as good as, none.
_LARGEST_STEP = 4.0
_FARTHEST = 40.0

# A gap at one of the ends that is smaller than this part of its terms is rounding.
_ROUNDING = 64 * float(np.finfo(float).eps)


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """The temperatures of many resamples of a validation set.

    Each sample is in a resample as often as a draw from Poisson's distribution with mean 1 says, independently of all others.
    The usual bootstrap draws as many samples as there are. The number of copies of one sample has the same distribution there,
    if samples are many, and only the total is fixed, on which a temperature does not depend. Independent numbers can be drawn
    for one block of rows after the other, so that data that do not fit in memory are read once for all resamples.

    Attributes
    ----------
    temperature : float
        That of the validation set itself.
    temperatures : array
        Those of the resamples that have one.
    n_without : int
        How many resamples have no temperature, such as those without a wrong answer.
    """

    temperature: float
    temperatures: HostArray
    n_without: int

    @property
    def se(self) -> float:
        """The standard error of T: T times the standard deviation of log T over the resamples."""
        return self.temperature * float(np.log(self.temperatures).std(ddof=1)) if len(self.temperatures) > 1 else inf

    def interval(self, level: float = 0.95) -> Interval:
        """The percentile interval: as many resamples lie below it as above it.

        Parameters
        ----------
        level : float
            The share of the resamples inside, between 0 and 1.
        """
        level = between("level", level, 0, 1)
        if not len(self.temperatures):
            raise InputError("`interval` needs a resample that has a temperature, got none. Use a larger validation set.")
        low, high = np.quantile(self.temperatures, [(1 - level) / 2, (1 + level) / 2]).tolist()
        return Interval(low, high)

    def __repr__(self) -> str:
        without = f", {self.n_without} without a temperature" if self.n_without else ""
        found = f"T = {self.temperature:.4g} ± {self.se:.2g}"
        if len(self.temperatures):
            found += ", 95 % from {:.4g} to {:.4g}".format(*self.interval())
        return f"<Bootstrap: {found}; {len(self.temperatures)} resamples{without}>"


@takes_rows(refuses={"groups": NO_GROUPS, "counts": "resamples are drawn from independent samples"})
def bootstrap(
    logits: Any,
    labels: Any = None,
    *,
    method: str | Observable = "ec",
    top_n: int = 1,
    n_draws: int = 1000,
    seed: int = 0,
    n_jobs: int | None = None,
    **options: Unpack[RowOptions],
) -> Bootstrap:
    """The temperatures of random resamples of a validation set, from which a standard error and an interval follow.

    The standard error that a fit gives needs no resamples and is as good from a thousand samples on. Resamples also show the
    shape of the distribution, and how often a set of this size has no temperature at all.

    Parameters
    ----------
    logits, labels
        As for `temperatures`. Where there are clusters, these are resampled with all of their samples.
    method : str or Observable
        The name of a method that matches one observable, such as "ec" or "ts", or an observable of your own.
    top_n : int
        With "ec": how many of the largest classes count as right.
    n_draws : int
        How many resamples; at least 10, and 500 or more for intervals.
    seed : int
        Random seed. The same seed gives the same digits for every ``n_jobs``.
    n_jobs : int, optional
        How many threads; by default one per core.
    **options
        What is said about the data: see `rows`.

    Returns
    -------
    Bootstrap
        With `temperatures`, `se` and `interval(level)`.

    Examples
    --------
    >>> import numpy as np
    >>> import nishimori
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(2000, 5))
    >>> labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)  # drawn at T = 2
    >>> found = nishimori.bootstrap(logits, labels, method="ts")
    >>> print(f"{found.se:.2f} {nishimori.temperatures(logits, labels).ts_se:.2f}")
    0.05 0.05
    """
    n_draws, seed = whole("n_draws", n_draws, 10), whole("seed", seed, 0)
    n_jobs = None if n_jobs is None else whole("n_jobs", n_jobs, 1)
    data = open_rows(logits, labels, **options)
    if counts_in(data):
        raise InputError("logits", "not be rows whose weights are counts: resamples are drawn from independent samples")
    return _run_bootstrap(data, _observable(method, top_n, data), n_draws, seed, n_jobs)


def _run_bootstrap(data: Rows, observable: Observable, n_draws: int, seed: int, n_jobs: int | None) -> Bootstrap:
    """The temperature of the rows, and those of resamples, which are looked for near it."""
    matched = match(data, observable, right=observable if isinstance(observable, TopN) else None)
    temperature, receipt = matched.solution(0)
    reach = min(max(_REACH * (receipt.temperature_se or 0.0) / temperature, _NARROWEST), _WIDEST)
    found = _ResampledSearch(data, observable, n_draws, seed, n_jobs).roots(-log(temperature), reach)
    return Bootstrap(temperature, np.exp(-found[np.isfinite(found)]), int((~np.isfinite(found)).sum()))


def _observable(method: str | Observable, top_n: int, data: Rows) -> Observable:
    """What is matched in the rows; a sketch has none."""
    if isinstance(data, Sketch):
        raise InputError("`bootstrap` needs rows, and a sketch keeps only sums. Use the standard error of a fit to the sketch.")
    if top_n != 1 and method != "ec":
        raise InputError("top_n", f"be 1 for the method {method!r}: only 'ec' has it")
    if isinstance(method, Observable):
        return method
    made = calibrator(method, **({} if top_n == 1 else {"top_n": top_n}))
    if not isinstance(made, OneTemperature):
        raise InputError("method", "be one that matches an observable, such as 'ec' or 'ts'", got=repr(method))
    return made.observable_for(data.n_classes)


class _ResampledSearch:
    """The log β at which each resample is matched, panel by panel."""

    def __init__(self, data: Rows, observable: Observable, n_draws: int, seed: int, n_jobs: int | None) -> None:
        self.data, self.observable = data, observable
        self.n_draws, self.seed, self.n_jobs = n_draws, seed, n_jobs
        self.found = np.full(n_draws, np.nan)

    def roots(self, middle: float, reach: float) -> HostArray:
        """One per resample, NaN if there is none; most lie within ``reach`` of ``middle``."""
        everyone = np.arange(self.n_draws)
        sums = self._sums(everyone, [_points(middle - reach, middle + reach)], ends=True)
        ends, sizes, gaps = sums[:, :2], sums[:, 2:4], sums[:, 4:]
        exists = (ends[:, 0] < -_ROUNDING * sizes[:, 0]) & (ends[:, 1] > _ROUNDING * sizes[:, 1])
        inside = exists & (gaps[:, 0] < 0) & (gaps[:, -1] >= 0)
        self.found[inside] = _zeros(gaps[inside], middle - reach, middle + reach)
        colder = everyone[exists & (gaps[:, -1] < 0)]
        hotter = everyone[exists & (gaps[:, 0] >= 0)]
        low, high, width = middle - reach, middle + reach, 2 * reach
        while len(colder) + len(hotter) and high < middle + _FARTHEST:
            hotter, colder = self._beyond(hotter, colder, low, high, width)
            low, high, width = low - width, high + width, min(2 * width, _LARGEST_STEP)
        return self.found

    def _beyond(self, hotter: HostArray, colder: HostArray, low: float, high: float, width: float) -> tuple[HostArray, ...]:
        """Look in one more panel at each side, from one reading; those resamples are left whose root lies still further out."""
        pending = np.concatenate([hotter, colder])
        sums = self._sums(pending, [_points(low - width, low), _points(high, high + width)], ends=False)
        half = sums.shape[1] // 2
        below, above = sums[: len(hotter), :half], sums[len(hotter) :, half:]
        inside, outside = below[:, 0] < 0, above[:, -1] < 0
        self.found[hotter[inside]] = _zeros(below[inside], low - width, low)
        self.found[colder[~outside]] = _zeros(above[~outside], high, high + width)
        return hotter[~inside], colder[outside]

    def _sums(self, draws: HostArray, panels: list[HostArray], *, ends: bool) -> HostArray:
        betas = np.exp(np.concatenate(panels)).tolist()
        columns = _Gaps(self.observable, tuple(betas), ends)
        return resampled_sums(self.data, columns, draws, seed=self.seed, n_jobs=self.n_jobs)


@dataclass(frozen=True)
class _Gaps:
    """The gap of each row at some β; with ``ends``, first those at β = 0 and β = ∞ and what their rounding is relative to."""

    observable: Observable
    betas: tuple[float, ...]
    ends: bool

    def __call__(self, batch: Batch) -> HostArray:
        rows = self.observable._on(batch)
        inner, ends = (self._distributions(batch, rows, betas) for betas in (self.betas, (0.0, inf) if self.ends else ()))
        observed = rows.observed(inner[0])
        found = [rows.value(gibbs, observed) for gibbs in ends]
        found += [batch.xp.abs(each) + batch.xp.abs(observed) for each in found]
        found += [rows.value(gibbs, observed) for gibbs in inner]
        return on_host(found, batch.weights)

    @staticmethod
    def _distributions(batch: Batch, rows: RowView, betas: tuple[float, ...]) -> list[Gibbs]:
        known = row_sums(batch, betas, rows.powers) if betas and not rows.uses_tables else None
        return [Gibbs(batch, beta, known) for beta in betas]


def _points(low: float, high: float) -> HostArray:
    """The Chebyshev points of a panel, both ends included."""
    middle, reach = (low + high) / 2, (high - low) / 2
    number = ceil(-log(_PRECISION) / asinh(pi / 2 / reach))
    points: HostArray = middle + reach * chebyshev.chebpts2(number)
    return points


def _zeros(gaps: HostArray, low: float, high: float) -> HostArray:
    """Where polynomials through values at the points of a panel are zero, by bisection of all at once."""
    number = gaps.shape[1]
    coefficients = np.linalg.solve(chebyshev.chebvander(chebyshev.chebpts2(number), number - 1), gaps.T)
    left, right = np.full(len(gaps), -1.0), np.ones(len(gaps))
    for _ in range(50):
        middle = (left + right) / 2
        negative = chebyshev.chebval(middle, coefficients, tensor=False) < 0
        left, right = np.where(negative, middle, left), np.where(negative, right, middle)
    return (low + high) / 2 + (high - low) / 2 * (left + right) / 2
