"""The functions of `_fit` for top-k log-probabilities: bounds on temperatures, and a number if these are close enough.

`_top_k.unlisted_mass` proves the bounds. The root of expectation consistency lies between those of two completions, each found
by the usual search. That of temperature scaling lies between the roots of the largest and of the smallest mean energy.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import exp, inf, sqrt

from nishimori._fit.match import Match, refuse_uncertain
from nishimori._fit.roots import TOLERANCE, Root
from nishimori._fit.search import TemperatureSolution, find_roots, find_temperature
from nishimori._fit.temperatures import Temperatures, temperatures_of
from nishimori._kernels.kernel import sums_over_columns
from nishimori._rows.batch import Batch
from nishimori._sums.moments import Measure
from nishimori._sums.observables import BUILT_IN, Confidence, Energy, Observable, TopN
from nishimori._sums.passes import Mean, Sums
from nishimori._support.intervals import Interval
from nishimori._top_k.rows import TopKRows
from nishimori._top_k.top_k import ListedBatch
from nishimori.errors import InputError, NishimoriError

# Temperatures beyond exp(±30) times the one of the even tail count as 0 or infinite.
_FARTHEST = 30.0

# A search ends within 1e-9 of the root in log T; bounds are twice that wider.
_OUTWARD = 2e-9

# The first step in log T on the way to a bound; each is twice as long as the one before.
_STRIDE = 0.05


@find_temperature.register(TopKRows)
def _(
    data: TopKRows,
    observable: Observable,
    *,
    label_name: str = "labels",  # noqa: ARG001 - the rows know it
) -> TemperatureSolution:
    """Find the temperature of one observable; raises unless the listed classes determine it."""
    if not isinstance(observable, Confidence | TopN | Energy):
        raise InputError(
            "X",
            f"hold all logits for {type(observable).__name__}",
            got="top-k log-probabilities",
            remedy="Use the method 'ec' or 'ts'.",
        )
    matched = BoundedMatch(data, observable)
    (temperature,) = matched.temperatures
    if temperature.error is not None:
        raise temperature.error
    assert temperature.value is not None
    matched.warn()
    gaps = data.even.gather(Measure(((observable, (1 / temperature.value,)),)))
    info = replace(
        matched.even.fit_info(0),
        residual=float(gaps.items[0].gap[0]),  # that of the even completion, at the middle of the bounds
        n_passes=matched.n_passes + 1,
        is_measured=True,
        temperature_se=temperature.se,
    )
    return TemperatureSolution(temperature.value, info, temperature.bounds)


@temperatures_of.register(TopKRows)
def _(
    data: TopKRows,
    *,
    warn: bool = True,
    starts: Mapping[str, float] | None = None,  # noqa: ARG001 - bounds are searched from the even tail
) -> Temperatures:
    """Both temperatures with their bounds, or neither."""
    matched = BoundedMatch(data, *BUILT_IN.values())
    if warn:
        matched.warn()
    ec, ts = matched.temperatures
    return Temperatures(
        ec=ec.value,
        ts=ts.value,
        accuracy=matched.even.census.accuracy,
        n_passes=matched.n_passes,
        n_samples=matched.even.census.n_rows,
        ec_error=ec.error,
        ts_error=ts.error,
        ec_se=ec.se,
        ts_se=ts.se,
        ec_bounds=ec.bounds,
        ts_bounds=ts.bounds,
        n_clusters=data.n_clusters,
    )


@dataclass(frozen=True)
class BoundedTemperature:
    """What top-k log-probabilities show about the temperature of one observable.

    ``bounds`` are the temperatures that the classes that are not listed leave possible; None if there is none. ``se`` is the
    standard error of the temperature: the larger of those of both completions, or the smaller one where the bounds are not
    closer to each other than that. ``value`` is the middle of the bounds, where they are closer to each other than the standard
    error, and ``error`` says why there is none.
    """

    bounds: Interval | None
    se: float | None
    error: NishimoriError | None
    value: float | None = None


class BoundedMatch:
    """The search for both temperatures of top-k log-probabilities, in both completions."""

    def __init__(self, data: TopKRows, *observables: Observable) -> None:
        self.data = data
        self.observables = observables
        self._measurable = tuple(
            observable for observable in observables if not isinstance(observable, Energy) or not data.n_unknown
        )
        right = next((observable for observable in observables if isinstance(observable, TopN)), None)
        if right is not None and right.n > data.n_listed:
            raise InputError("top_n", f"be at most the number of listed classes per sample, {data.n_listed}", got=right.n)
        searched = self._measurable or (Confidence(),)  # which counts the rows
        name = data.labels_name
        self.even: Match = find_roots(data.even, *searched, right=right, label_name=name)
        self.concentrated: Match = find_roots(data.concentrated, *searched, right=right, label_name=name)
        self.n_passes: int = self.even.n_passes + self.concentrated.n_passes

    @property
    def temperatures(self) -> tuple[BoundedTemperature, ...]:
        """What is known about each observable."""
        return tuple(self._bounded_temperature(observable) for observable in self.observables)

    def warn(self) -> None:
        """Warn if the temperatures are uncertain."""
        self.even.warn()
        self.data.warn_of_rounding()

    def _bounded_temperature(self, observable: Observable) -> BoundedTemperature:
        if observable not in self._measurable:
            unknown = InputError(
                "label_log_probabilities",
                "be given for temperature scaling where a true class is not listed, as in "
                f"{self.data.n_unknown} of {self.data.n_rows} samples",
                remedy="Pass it to TopK, or use the method 'ec'.",
            )
            return BoundedTemperature(None, None, unknown)
        position = self._measurable.index(observable)
        root = self.even.roots[position]
        is_energy = isinstance(observable, Energy)
        if isinstance(root, NishimoriError):
            coldest = self._coldest() if is_energy and getattr(root, "end", None) != "cold" else inf
            if coldest == inf:  # then no tail has a temperature
                return BoundedTemperature(None, None, root)
            bounds = Interval(coldest, inf)
            return BoundedTemperature(bounds, None, self._too_wide(bounds, None))
        bounds = _between(root, self.concentrated, position)
        if is_energy:  # the temperatures at which the largest, and the smallest, mean energy equals that of the true classes
            low = _root_from(root.x, lambda x: self._energy_gap(x, 1), -_STRIDE)
            high = _root_from(root.x, lambda x: self._energy_gap(x, 0), _STRIDE)
            bounds = Interval(exp(-high), exp(-low))
        bounds = self._widen(bounds, root)
        errors = [error for one in (self.even, self.concentrated) if (error := one.standard_error(position)) is not None]
        # Where the two are far from each other, the error of the hotter one may exceed any width.
        is_close = bool(errors) and bounds.high - bounds.low < min(errors)
        se = max(errors) if is_close else min(errors, default=None)
        if not is_close:
            return BoundedTemperature(bounds, se, self._too_wide(bounds, se))
        middle = (bounds.low + bounds.high) / 2
        denied = refuse_uncertain(middle, se, self.even.census, by_loss=is_energy)
        return BoundedTemperature(bounds, se, denied, middle if denied is None else None)

    def _widen(self, bounds: Interval, root: Root) -> Interval:
        """The bounds, widened by the rounding of both ends and of the log-probabilities."""
        beta, slope = exp(root.x), root.point.slope
        # The mean logarithm changes with its own rounding, and with the weights by as much as it spreads.
        spread = 1 + sqrt(beta * slope)
        part = _OUTWARD + 4 * self.data.rounding * max(beta, spread) / slope
        return Interval(bounds.low * max(0.0, 1 - part), bounds.high * (1 + part))

    def _coldest(self) -> float:
        """The temperature at which the smallest mean energy equals that of the true classes; infinite if there is none.

        The even tail has no temperature where its mean energy is too large even at β = 0. Uneven tails can have a far smaller
        one there: the energy of their least probable classes has no lower bound.
        """
        stride = _STRIDE if self._energy_gap(0.0, 0) < 0 else -_STRIDE
        return exp(-_root_from(0.0, lambda x: self._energy_gap(x, 0), stride))

    def _energy_gap(self, x: float, which: int) -> float:
        """The smallest or the largest mean energy minus the mean energy of the true classes, at log β = ``x``."""
        return float(self.data.even.gather(partial(energy_gaps, beta=exp(x))).items[which].value)

    def _too_wide(self, bounds: Interval, se: float | None) -> InputError:
        error = "not known" if se is None else f"{se:.3g}"
        return InputError(
            "log_probabilities",
            (
                f"list more classes: those that are not listed leave every temperature from {bounds.low:.4g} to "
                f"{bounds.high:.4g} possible, which is not narrower than its standard error, {error}"
            ),
            remedy=f"Ask the model for more log-probabilities per sample than {self.data.lists.k}, or use the bounds, "
            "which `nishimori.temperatures` returns.",
        )


def energy_gaps(batch: Batch, beta: float) -> Sums:
    """The smallest and the largest mean energy at ``beta``, minus the mean energy of the true classes."""
    assert isinstance(batch, ListedBatch)
    sums = sums_over_columns(batch, (beta,), 1)
    rest, slopes = sums.at(beta)
    bounds = batch.tails.energies(beta, 1 + rest, slopes, sums.peak)
    return Sums(tuple(Mean(batch.total(energy - batch.label_drops), batch.weight) for energy in bounds))


def _between(even: Root, concentrated: Match, position: int) -> Interval:
    """The range between the temperatures of both completions; unbounded if the second has none."""
    at_even, other = exp(-even.x), concentrated.roots[position]
    if isinstance(other, Root):
        ends = sorted((at_even, exp(-other.x)))
        return Interval(*ends)
    return Interval(0.0, at_even) if at_even < 1 else Interval(at_even, inf)


def _root_from(start: float, function: Callable[[float], float], stride: float) -> float:
    """The root of an increasing function on one side of ``start``, which the sign of ``stride`` gives; infinite if far away."""
    from scipy.optimize import brentq  # noqa: PLC0415 - few fits need it

    x, value = start, function(start)
    while value * stride < 0:
        if abs(x - start) > _FARTHEST:
            return inf if stride > 0 else -inf
        nearer, x = x, x + stride
        value = function(x)
        if value * stride >= 0:
            return float(brentq(function, min(nearer, x), max(nearer, x), xtol=TOLERANCE))
        stride *= 2
    return start
