"""Estimate how a fit varies between validation sets, by resampling one validation set.

The temperatures of all resamples that match an observable are found together, from a few passes. Every other calibrator is
fitted again to each resample.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import asinh, ceil, inf, log, nan, pi
from typing import Any, Unpack, cast

import numpy as np
from numpy.polynomial import chebyshev
from sklearn.base import clone

from nishimori._calibrators.calibrator import Calibrator
from nishimori._calibrators.methods import calibrator, new_calibrator, set_common
from nishimori._calibrators.one_temperature import OneTemperature
from nishimori._fit.floors import MAY_BE_AUTO, choose_floor
from nishimori._fit.search import find_roots
from nishimori._kernels.kernel import row_sums
from nishimori._methods.fitted_method import fit_checked
from nishimori._rows.array_rows import ArrayRows
from nishimori._rows.batch import Batch
from nishimori._rows.entry import open_rows
from nishimori._rows.options import NO_GROUPS, RowOptions, takes_rows
from nishimori._rows.question import question
from nishimori._rows.rows import Rows, is_rows
from nishimori._sums.observables import Observable, TopN
from nishimori._sums.predictions import Predictions
from nishimori._sums.resampling import ResampledRows, on_host, resampled_sums
from nishimori._support.arrays import HostArray
from nishimori._support.display import PRINTED_ROWS, Display, Displayed, plural, short_repr
from nishimori._support.formatting import interval_text, value_with_error
from nishimori._support.intervals import Interval
from nishimori._support.numbers import between, whole
from nishimori._support.tables import Tabular
from nishimori._support.warnings import collect_notices
from nishimori.errors import InputError, NoRowsError, NotConvergedError, NoTemperatureError

# The gap of a resample is a polynomial in log β through the Chebyshev points of a panel. The gap of a row is analytic up to an
# imaginary part of π/2, which says how many points give this relative precision.
_PRECISION = 1e-8

# The first panel reaches this many standard errors to each side: of a million normal draws, none lies beyond.
_REACH = 5.0
_NARROWEST, _WIDEST = 1e-3, 0.5

# Further panels are twice as wide as those before, up to a factor of 50 in T. A resample whose T is 1e17 times as low or as
# high as that of the validation set has, as good as, none.
_LARGEST_STEP = 4.0
_FARTHEST = 40.0

# A gap at one of the ends that is smaller than this part of its terms is rounding.
_ROUNDING = 64 * float(np.finfo(float).eps)


@dataclass(frozen=True, eq=False, repr=False)
class Bootstrap(Displayed):
    """Fits to many resamples of a validation set. ``print`` shows a table.

    Each sample is in a resample as often as a draw from Poisson's distribution with mean 1 says, independently of all others.
    The usual bootstrap draws as many samples as there are. The number of copies of one sample has the same distribution there,
    if samples are many, and only the total is fixed, on which a temperature does not depend. Independent numbers can be drawn
    for one block of rows after the other, so that data that do not fit in memory are read once for all resamples.

    Attributes
    ----------
    parameters : dict of float or array
        What was fitted to the validation set itself: "temperature" where that is all there is, else `parameters_` of the
        calibrator or, if it has none, the parameters of its map.
    draws : dict of array
        The same for each resample that has them, along the first dimension.
    n_without : int
        How many resamples have no solution, such as those without a wrong answer.
    """

    parameters: dict[str, Any]
    draws: dict[str, HostArray]
    n_without: int

    @property
    def temperature(self) -> float | None:
        """The temperature of the validation set itself; None if more than one temperature was fitted."""
        return self.parameters["temperature"] if self.parameters.keys() == {"temperature"} else None

    @property
    def temperatures(self) -> HostArray | None:
        """The temperatures of the resamples that have one; None if more than one temperature was fitted."""
        return None if self.temperature is None else self.draws["temperature"]

    @property
    def errors(self) -> dict[str, Any]:
        """The standard error of each parameter: its standard deviation over the resamples.

        That of a temperature is T times the standard deviation of log T.
        """
        if self.temperature is None:
            return {name: self._spread(draws) for name, draws in self.draws.items()}
        return {"temperature": self.temperature * self._spread(np.log(self.draws["temperature"]))}

    @staticmethod
    def _spread(draws: HostArray) -> Any:
        if len(draws) < 2:
            return np.full(draws.shape[1:], inf)[()]
        spread = draws.std(axis=0, ddof=1)
        return spread if spread.ndim else float(spread)

    @property
    def se(self) -> float | None:
        """The standard error of T; None if more than one temperature was fitted (see `errors`)."""
        return None if self.temperature is None else float(self.errors["temperature"])

    def interval(self, level: float = 0.95, parameter: str = "temperature") -> Interval:
        """The percentile interval: as many resamples lie below it as above it.

        Parameters
        ----------
        level : float
            The share of the resamples inside, between 0 and 1.
        parameter : str
            The name of a parameter, where more than a temperature was fitted. The ends of the interval of an array are arrays.
        """
        level = between("level", level, 0, 1)
        if parameter not in self.draws:
            raise InputError("parameter", f"be one of {', '.join(self.draws)}", got=repr(parameter))
        draws = self.draws[parameter]
        if not len(draws):
            raise InputError("`interval` needs a resample that has a temperature, got none. Use a larger validation set.")
        low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0).tolist()
        return Interval(low, high) if draws.ndim == 1 else Interval(np.array(low), np.array(high))  # type: ignore[arg-type]

    @property
    def n_draws(self) -> int:
        """How many resamples have a solution."""
        return len(next(iter(self.draws.values())))

    def __repr__(self) -> str:
        parameters = None if self.temperature is not None else tuple(self.parameters)
        numbers = {"temperature": self.temperature, "se": self.se, "parameters": parameters}
        return short_repr(self, **numbers, n_draws=self.n_draws, n_without=self.n_without or None)

    @property
    def _display(self) -> Display:
        rows = [row for name in self.parameters for row in self._rows(name)]
        without = (f"{plural(self.n_without, 'further resample')} had no solution.",) if self.n_without else ()
        table = Tabular(("parameter", "value", "95 % interval"), rows)
        return Display(plural(self.n_draws, "resample"), (table,), without, n_printed=PRINTED_ROWS)

    def _rows(self, name: str) -> list[tuple[str, str, str]]:
        """A row of the table for each number of a parameter."""
        values, errors = (np.asarray(by_name[name], dtype=float) for by_name in (self.parameters, self.errors))
        low, high = map(np.asarray, self.interval(parameter=name)) if self.n_draws else (errors * nan, errors * nan)
        rows = []
        for place in np.ndindex(values.shape):
            error = float(errors[place])
            shown = "T" if name == "temperature" else name + (f"[{', '.join(map(str, place))}]" if place else "")
            interval = interval_text(float(low[place]), float(high[place]), error) if self.n_draws else ""
            rows.append((shown, value_with_error(float(values[place]), error), interval))
        return rows


@takes_rows(refuses={"groups": NO_GROUPS, "counts": "resamples are drawn from independent samples"}, **MAY_BE_AUTO)
def bootstrap(
    logits: Any,
    labels: Any = None,
    *,
    method: str | Observable | Calibrator = "ec",
    top_n: int = 1,
    n_draws: int = 1000,
    seed: int = 0,
    n_jobs: int | None = None,
    **options: Unpack[RowOptions],
) -> Bootstrap:
    """Fit to random resamples of a validation set, to get standard errors and intervals.

    The standard error that a fit gives needs no resamples and is as good from a thousand samples on. Resamples also show the
    shape of the distribution, and how often a set of this size has no temperature at all.

    Parameters
    ----------
    logits, labels
        As for `temperatures`. Where there are clusters, these are resampled with all of their samples.
    method : str, Observable or Calibrator
        The name of a method, an observable of your own, or a calibrator. The temperatures of methods that match one observable,
        such as "ec" and "ts", are found for all resamples together. Every other calibrator is fitted ``n_draws`` times,
        which is why the default is "ec" and not "adaptive". A calibrator's own ``input``, ``classes`` and ``floor`` hold where
        they are not passed here.
    top_n : int
        With "ec", which for claims means "intercept": how many of the largest classes count as right.
    n_draws : int
        How many resamples; at least 10, and 500 or more for intervals.
    seed : int
        Random seed. The same seed gives the same digits for every ``n_jobs``.
    n_jobs : int, optional
        How many threads; by default one per core, and one where a calibrator is fitted again to data that are not in memory.
    **options
        What is said about the data, see `rows`: ``sample_weight``, ``clusters``, ``input``, ``classes``, ``floor``,
        ``ignore_index``, ``shift_labels``, ``class_axis``, ``member_axis``. ``floor="auto"`` chooses the floor once, from all
        samples.

    Returns
    -------
    Bootstrap
        With `temperatures`, `se` and `interval(level)`; for several parameters with `draws`, `errors` and
        `interval(level, name)`.

    Examples
    --------
    >>> import numpy as np
    >>> import nishimori
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(2000, 5))
    >>> labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)  # drawn at T = 2
    >>> resamples = nishimori.bootstrap(logits, labels, method="ts")
    >>> print(f"{resamples.se:.2f} {nishimori.temperatures(logits, labels).ts_se:.2f}")
    0.05 0.05
    """
    n_draws, seed = whole("n_draws", n_draws, 10), whole("seed", seed, 0)
    n_jobs = None if n_jobs is None else whole("n_jobs", n_jobs, 1)
    if top_n != 1 and method != "ec":
        raise InputError("top_n", f"be 1 for the method {method!r}: only 'ec' has it")
    chosen: Observable | Calibrator
    if method == "ec" and top_n == 1 and getattr(logits, "is_claims", False):
        method = "intercept"
    if isinstance(method, Observable):
        chosen = method
    else:
        chosen = calibrator("ec", top_n=top_n) if top_n != 1 else new_calibrator(method, "method")
    if isinstance(chosen, Calibrator) and not is_rows(logits):
        options = _with_meaning(options, chosen)
    options.setdefault("floor", "auto")
    data = open_rows(logits, labels, choose_floor=choose_floor, **options)
    if data.counts:
        raise InputError("logits", "not be rows with weights that are counts: resamples are drawn from independent samples")
    return _resample(data, chosen, n_draws, seed, n_jobs)


@question("has no rows to resample")
def _resample(data: Rows, chosen: Observable | Calibrator, n_draws: int, seed: int, n_jobs: int | None) -> Bootstrap:
    """Fit to resamples: all temperatures that match an observable at once, other calibrators one by one."""
    observable = (chosen._observable(data.n_classes) or chosen) if isinstance(chosen, OneTemperature) else chosen
    if not isinstance(observable, Observable):
        return _refit(data, observable, n_draws, seed, n_jobs)
    matched = find_roots(data, observable, right=observable if isinstance(observable, TopN) else None)
    temperature, fit_info = matched.solution(0)
    reach = min(max(_REACH * (fit_info.temperature_se or 0.0) / temperature, _NARROWEST), _WIDEST)

    def sums_of(draws: HostArray, betas: tuple[float, ...], ends: bool) -> HostArray:
        return resampled_sums(data, partial(_gaps_of_rows, observable, betas, ends), draws, seed=seed, n_jobs=n_jobs)

    roots = _resampled_roots(sums_of, n_draws, -log(temperature), reach)
    draws = {"temperature": np.exp(-roots[np.isfinite(roots)])}
    return Bootstrap({"temperature": temperature}, draws, int((~np.isfinite(roots)).sum()))


def _with_meaning(options: RowOptions, chosen: Calibrator) -> RowOptions:
    """The options, completed with what the calibrator says about the scores."""
    own = {name: value for name, value in chosen.get_params(deep=False).items() if name in ("input", "classes", "floor")}
    passed = {name: value for name, value in options.items() if value is not None or name == "floor"}
    floor = own.get("floor", "auto")
    if "floor" in passed and floor not in (None, "auto", passed["floor"]):
        raise InputError("floor", "be passed once", got=f"{passed['floor']!r}, and {floor!r} of `method`")
    return cast("RowOptions", {**own, **passed})


def _refit(data: Rows, chosen: Calibrator, n_draws: int, seed: int, n_jobs: int | None) -> Bootstrap:
    """A calibrator fitted to the rows, and to each resample; counts the resamples without a fit."""
    chosen = set_common(clone(chosen), floor=None)  # which the rows have, so that no resample chooses another
    fitted = fit_checked(clone(chosen), data)

    def of_draw(draw: int) -> dict[str, HostArray] | None:
        with collect_notices():  # a warning per resample would be many
            try:
                return _parameters(fit_checked(clone(chosen), ResampledRows(data, draw, seed)))
            except (NoTemperatureError, NotConvergedError, NoRowsError):
                return None

    # Batches of a loader or a database may not move to another thread.
    n_threads = n_jobs or ((os.cpu_count() or 1) if isinstance(data, ArrayRows) else 1)
    with ThreadPoolExecutor(n_threads) as pool:
        fits = list((pool.map if n_threads > 1 else map)(of_draw, range(n_draws)))
    own, kept = _parameters(fitted), [fit for fit in fits if fit is not None]
    for fit in kept:
        if {name: value.shape for name, value in fit.items()} != {name: value.shape for name, value in own.items()}:
            raise InputError("method", "have the same number of parameters in each resample", got=f"{chosen.method_name!r}")
    draws = {name: np.array([fit[name] for fit in kept]).reshape(len(kept), *value.shape) for name, value in own.items()}
    parameters = {name: value if value.ndim else float(value) for name, value in own.items()}
    return Bootstrap(parameters, draws, n_draws - len(kept))


def _parameters(fitted: Any) -> dict[str, HostArray]:
    """The fitted numbers of a calibrator, by name."""
    parameters = getattr(fitted, "parameters_", None) or fitted.map_.parameters
    fitted_numbers = {}
    for name, value in parameters.items():
        try:
            numbers = np.asarray(value)
        except ValueError:  # lists of different lengths
            continue
        if numbers.dtype.kind in "iuf":
            fitted_numbers[name] = numbers.astype(np.float64)
    if not fitted_numbers:
        raise InputError("method", "have a map whose parameters are numbers", got=f"{fitted.method_name!r}")
    return fitted_numbers


def _resampled_roots(
    sums_of: Callable[[HostArray, tuple[float, ...], bool], HostArray], n_draws: int, middle: float, reach: float
) -> HostArray:
    """The log β at which each resample is matched, found panel by panel; NaN if there is none.

    Most are within ``reach`` of ``middle``. ``sums_of`` gives the sums of `_gaps_of_rows` over some resamples.
    """
    log_betas, everyone = np.full(n_draws, np.nan), np.arange(n_draws)
    low, high, width = middle - reach, middle + reach, 2 * reach
    sums = sums_of(everyone, _betas(low, high), True)
    ends, sizes, gaps = sums[:, :2], sums[:, 2:4], sums[:, 4:]
    exists = (ends[:, 0] < -_ROUNDING * sizes[:, 0]) & (ends[:, 1] > _ROUNDING * sizes[:, 1])
    inside = exists & (gaps[:, 0] < 0) & (gaps[:, -1] >= 0)
    log_betas[inside] = _zeros(gaps[inside], low, high)
    colder, hotter = everyone[exists & (gaps[:, -1] < 0)], everyone[exists & (gaps[:, 0] >= 0)]
    while len(colder) + len(hotter) and high < middle + _FARTHEST:
        # One more panel at each side, from one pass; those resamples are left whose root lies still further out.
        sums = sums_of(np.concatenate([hotter, colder]), _betas(low - width, low) + _betas(high, high + width), False)
        half = sums.shape[1] // 2
        below, above = sums[: len(hotter), :half], sums[len(hotter) :, half:]
        inside, outside = below[:, 0] < 0, above[:, -1] < 0
        log_betas[hotter[inside]] = _zeros(below[inside], low - width, low)
        log_betas[colder[~outside]] = _zeros(above[~outside], high, high + width)
        hotter, colder = hotter[~inside], colder[outside]
        low, high, width = low - width, high + width, min(2 * width, _LARGEST_STEP)
    return log_betas


def _gaps_of_rows(observable: Observable, betas: tuple[float, ...], ends: bool, batch: Batch) -> HostArray:
    """The gap of each row at some β; with ``ends``, first those at β = 0 and β = ∞ and the scale of their rounding errors."""
    rows = observable._on(batch)

    def predictions_at(chosen: tuple[float, ...]) -> list[Predictions]:
        sums = row_sums(batch, chosen, rows.powers) if chosen and not rows.uses_tables else None
        return [Predictions(batch, beta, sums) for beta in chosen]

    inner, outer = predictions_at(betas), predictions_at((0.0, inf) if ends else ())
    observed = rows.observed(inner[0])
    columns = [rows.value(predictions, observed) for predictions in outer]
    columns += [batch.xp.abs(column) + batch.xp.abs(observed) for column in columns]
    columns += [rows.value(predictions, observed) for predictions in inner]
    return on_host(columns, batch.weights)


def _betas(low: float, high: float) -> tuple[float, ...]:
    """β at the Chebyshev points of a panel of log β, both ends included."""
    middle, reach = (low + high) / 2, (high - low) / 2
    number = ceil(-log(_PRECISION) / asinh(pi / 2 / reach))
    return tuple(np.exp(middle + reach * chebyshev.chebpts2(number)).tolist())


def _zeros(gaps: HostArray, low: float, high: float) -> HostArray:
    """The zeros of polynomials through values at the points of a panel, by simultaneous bisection."""
    number = gaps.shape[1]
    coefficients = np.linalg.solve(chebyshev.chebvander(chebyshev.chebpts2(number), number - 1), gaps.T)
    left, right = np.full(len(gaps), -1.0), np.ones(len(gaps))
    for _ in range(50):
        middle = (left + right) / 2
        negative = chebyshev.chebval(middle, coefficients, tensor=False) < 0
        left, right = np.where(negative, middle, left), np.where(negative, right, middle)
    return (low + high) / 2 + (high - low) / 2 * (left + right) / 2
