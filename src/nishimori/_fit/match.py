"""The result of a search for temperatures: where each observable is matched, with standard errors and fit info."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import exp, sqrt

import numpy as np

from nishimori._fit.roots import Root
from nishimori._rows.rows import Rows
from nishimori._sums.census import Census, reason_of_uncertainty, warn_if_few, warn_of_zeros
from nishimori._sums.moments import GapSums, Measure, Moments, cluster_gaps
from nishimori._sums.observables import Confidence, Energy, Observable
from nishimori._sums.passes import together
from nishimori._support.arrays import HostArray
from nishimori._support.display import Display, Displayed, short_repr
from nishimori._support.formatting import number_text, percent
from nishimori._support.tables import Tabular
from nishimori._support.warnings import notice
from nishimori.errors import FewErrorsWarning, NishimoriError, NoTemperatureError

# With β = 1/T: the standard error of β over β is that of T over T. A fit is refused from the first share on, because β may then
# as well be zero, at which the scores say nothing; from the second on it is told that this is not far.
REFUSED, _DOUBTFUL = 1.0, 0.5


def refuse_uncertain(T: float, se: float | None, census: Census, *, by_loss: bool) -> NoTemperatureError | None:
    """Why a temperature is rejected: its standard error is as large as T. None if it is smaller, or not known."""
    if se is None or se < REFUSED * T:
        return None
    why, remedy = reason_of_uncertainty(census, by_loss=by_loss)
    size = f"T = {number_text(T, 3)} ± {number_text(se, 2)}"
    return NoTemperatureError(
        f"The data do not determine the temperature: in {size} the standard error is as large as T. {why}",
        remedy,
        end="uncertain",
    )


def _slope_at(beta: float, moments: Moments) -> float:
    """The slope in log β of the sum of the gaps, from its derivatives a short step away."""
    step = beta - moments.betas[0]
    slope, curvature, jerk, snap = (float(derivative[0]) for derivative in moments.derivatives)
    return beta * (slope + step * (curvature + step * (jerk / 2 + step * snap / 6)))


@dataclass(frozen=True, repr=False)
class FitInfo(Displayed):
    """How a temperature was found. ``print`` shows a table.

    Attributes
    ----------
    residual : float
        What is left of the gap at the temperature returned: mean confidence minus accuracy for expectation consistency (and
        for the method "adaptive", where it is not zero by design), mean expected logit minus mean logit of the true class for
        temperature scaling.
    n_passes : int
        How often all logits were read.
    n_samples : int
        How many samples had a positive weight.
    accuracy : float
        The weighted share of samples that count as right.
    n_zeros : int
        How many probabilities were exactly zero and were raised to the smallest normal number of their dtype.
    n_masked : int
        How many logits were -inf and so masked their class.
    kernel : str
        What computed the sums over classes: "numpy", "native", "triton" or "array_api"; of several, with commas between.
    temperature_se : float or None
        The standard error of the temperature, samples or clusters of them being independent; None where it is not known, as
        from a sketch of one cluster.
    is_measured : bool
        Whether the residual was measured at the temperature returned, or predicted from the last measurement, one short step
        away.
    """

    residual: float
    n_passes: int
    n_samples: int
    accuracy: float
    n_zeros: int
    n_masked: int
    kernel: str = ""
    is_measured: bool = True
    temperature_se: float | None = None

    @classmethod
    def from_census(
        cls, census: Census, *, residual: float, n_passes: int, is_measured: bool = True, temperature_se: float | None = None
    ) -> "FitInfo":
        """How a temperature was found, with counts of the data."""
        counts = (census.n_rows, census.accuracy, census.n_zeros, census.n_masked, ", ".join(sorted(census.kernels)))
        return cls(residual, n_passes, *counts, is_measured, temperature_se)

    def __repr__(self) -> str:
        numbers = {"residual": self.residual, "n_passes": self.n_passes, "n_samples": self.n_samples}
        return short_repr(self, **numbers, temperature_se=self.temperature_se, kernel=self.kernel)

    @property
    def _display(self) -> Display:
        how = "measured" if self.is_measured else "predicted from the last pass"
        error = "unknown" if self.temperature_se is None else number_text(self.temperature_se, 2)
        rows = [
            ("standard error of T", error),
            ("residual", f"{number_text(self.residual, 2)}, {how}"),
            ("passes", f"{self.n_passes:,}"),
            ("samples", f"{self.n_samples:,}"),
            ("accuracy", percent(self.accuracy)),
            ("probabilities that were zero", f"{self.n_zeros:,}"),
            ("masked logits", f"{self.n_masked:,}"),
            ("kernel", self.kernel or "unknown"),
        ]
        return Display("", (Tabular(("fit info", "value"), rows),))


@dataclass(frozen=True)
class Match:
    """Where each observable is matched, or why not, with statistics of the data.

    ``gaps`` are the sums of the observables that have a temperature, each where it was measured last; products of gaps are
    carried to the temperatures. ``has_squares`` says whether that is good enough: where one row decides it may not be.
    """

    observables: tuple[Observable, ...]
    roots: tuple[Root | NishimoriError, ...]
    census: Census
    n_passes: int
    gaps: GapSums | None
    has_squares: bool = True

    def solution(self, position: int) -> tuple[float, FitInfo]:
        """The temperature of one observable and how it was found; raises if there is none, and warns if it is uncertain."""
        root = self.roots[position]
        if isinstance(root, NishimoriError):
            raise root
        self.warn()
        return exp(-root.x), self.fit_info(position)

    def fit_info(self, position: int) -> FitInfo:
        """How the temperature of one observable was found, which must exist."""
        root = self.roots[position]
        assert isinstance(root, Root)
        error, n_passes = self.standard_error(position), self.n_passes
        return FitInfo.from_census(
            self.census, residual=root.residual, n_passes=n_passes, is_measured=root.is_measured, temperature_se=error
        )

    def standard_error(self, position: int) -> float | None:
        """The standard error of the temperature of one observable; None if it has none, or the sums for it were not made."""
        root, variance = self.roots[position], self.log_variance(position)
        return None if variance is None or not isinstance(root, Root) else exp(-root.x) * sqrt(variance)

    def log_variance(self, position: int) -> float | None:
        """The variance of log T for one observable; None if it has no standard error."""
        variance = self.covariance(position)
        return None if variance is None else float(variance[0, 0])

    def covariance(self, *positions: int) -> HostArray | None:
        """The covariance of the log T of some observables, or of all; None if one has none, or the sums were not made.

        A temperature is where the mean of a gap is zero, so its error is that of an estimating equation: the standard error of
        the mean gap over its slope. Nothing is assumed about how labels come about. Two temperatures of the same rows are
        correlated, because their gaps are. Everything is in log T, in which errors are closest to normal.
        """
        chosen = positions or range(len(self.roots))
        betas = [exp(root.x) for i in chosen if isinstance(root := self.roots[i], Root)]
        measured = [] if self.gaps is None else [item.observable for item in self.gaps.items]  # which need no hash
        if self.gaps is None or len(betas) < len(chosen) or any(self.observables[i] not in measured for i in chosen):
            return None
        places = [measured.index(self.observables[i]) for i in chosen]
        slopes = np.array([_slope_at(beta, self.gaps.items[i]) for i, beta in zip(places, betas, strict=True)])
        if not (np.abs(slopes) > 0).all():
            return None
        covariance: HostArray = self.gaps.square_products[np.ix_(places, places)] / np.outer(slopes, slopes)
        return covariance if np.isfinite(covariance).all() else None  # a sketch cannot always tell

    @property
    def _solved(self) -> list[tuple[int, Observable, Root]]:
        """The observables that have a temperature, with their positions."""
        both = zip(self.observables, self.roots, strict=True)
        return [(i, observable, root) for i, (observable, root) in enumerate(both) if isinstance(root, Root)]

    def without_uncertain(self) -> "Match":
        """The match without temperatures whose standard error is too large: the reason replaces each of them."""
        roots = list(self.roots)
        for i, observable, root in self._solved:
            by_loss = isinstance(observable, Energy)
            roots[i] = refuse_uncertain(exp(-root.x), self.standard_error(i), self.census, by_loss=by_loss) or root
        return replace(self, roots=tuple(roots))

    def at_roots(self, data: Rows) -> "Match":
        """The match with all sums measured exactly at the temperatures, in one more pass.

        Errors of clusters need this: a mean gap that is left a short step away adds up over the rows of a cluster. Errors of
        independent rows need it where one row decides: its gap is almost zero at the root, but not a short step away.
        """
        matched = [(observable, exp(root.x)) for _, observable, root in self._solved]
        if not matched:
            return self
        return replace(self, gaps=gaps_at(data, matched), n_passes=self.n_passes + 1, has_squares=True)

    def warn(self) -> None:
        """Warn if something makes the temperatures uncertain."""
        by_loss = {i: isinstance(observable, Energy) for i, observable, _ in self._solved}
        if by_loss and not warn_if_few(self.census):
            for i, observable, root in self._solved:
                T, se = exp(-root.x), self.standard_error(i)
                if se is not None and se >= _DOUBTFUL * T:
                    why, remedy = reason_of_uncertainty(self.census, by_loss=by_loss[i])
                    size = f"T = {number_text(T, 3)} ± {number_text(se, 2)}"
                    what = f"The temperature of {_name(observable)} is uncertain, {size}"
                    notice(f"{what}. {why} {remedy}", FewErrorsWarning)
        if any(by_loss.values()):
            warn_of_zeros(self.census.n_at_zeros, self.census.n_rows, "the temperature of temperature scaling", fits=True)


def _name(observable: Observable) -> str:
    """The name in sentences of the method that matches an observable."""
    names: dict[type, str] = {Confidence: "expectation consistency", Energy: "temperature scaling"}
    return names.get(type(observable), type(observable).__name__)


def gaps_at(data: Rows, wanted: Sequence[tuple[Observable, float]]) -> GapSums:
    """The sums of some observables, each at one β, with squares over independent units: rows or clusters."""
    measure = Measure(tuple((observable, (beta,)) for observable, beta in wanted))
    if data.has_clusters:
        gaps, sums = data.gather(together(measure, partial(cluster_gaps, wanted))).items
        return replace(gaps, square_products=sums @ sums.T)
    gaps = data.gather(measure)
    return gaps.with_counts() if data.counts else gaps
