"""Find the affine map with the lowest penalised cross-entropy; strengths are passed, or chosen by marginal likelihood.

The loss is convex, so there is one minimum. Where everything is penalised, SciPy's L-BFGS finds it, in units in which the
curvature is about one in all directions: they follow from the whole curvature up to `MOST_EXACT` parameters, and from an
approximate one for a larger matrix. Between searches the strengths follow from the departures that were found.

Where something is not penalised there may be no minimum: if some direction separates a class perfectly, the loss falls along it
for ever, more and more slowly, and its curvature vanishes. At a minimum it does not: where one row is on the wrong side, others
are uncertain enough to balance it. Newton's method finds a minimum to all digits, and goes on for ever where there is none.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np

from nishimori._fit.affine.curvature import Directions, Units, curvature_error
from nishimori._fit.affine.parameters import Parameters, fitting_strengths, usual_strengths
from nishimori._fit.affine.sums import CurvedSums, LossSums, measure_curve, measure_loss, measure_seconds
from nishimori._fit.newton import Equations, Solution, solve
from nishimori._rows.rows import Rows, Sum
from nishimori._support.arrays import HostArray
from nishimori.errors import DegenerateDataError, NotConvergedError, setting

T = TypeVar("T", bound=Sum)

MOST_EXACT = 1000
"""The search uses the exact curvature up to this many factors and biases, and an approximation beyond."""

# L-BFGS ends where all derivatives are this small, in units of a standard deviation of the posterior distribution: while
# strengths still change, at last with the whole curvature, and at last with an approximate one.
_ROUGHLY_NEAR, _NEAR, _NEAR_OF_LARGE = 1e-2, 3e-6, 1e-3

# Rounding of the loss ends L-BFGS where derivatives are this small, in units of the root of the loss. Logits that are computed
# again for each pass, and change by rounding, end it earlier: up to a hundredth of a standard deviation, that is a minimum.
_ROUNDING = 1e-6

# It reads the data at most so often: while strengths still change, and at last. It remembers so many steps.
_MOST_ROUGH_PASSES, _MOST_PASSES, _STEPS = 8, 400, 20

# Strengths have settled when they change by less than this; the loss hardly depends on them. With an approximate curvature
# they may go on by small steps: of 1,000 classes and 10,000 samples, 25 rounds took 128 passes in place of 64, and the penalty
# off the diagonal was 1.8 times as large.
_SETTLED = 0.02
_MOST_ROUNDS, _MOST_ROUNDS_OF_LARGE = 25, 10

# The curvature is measured again where logits have changed by more than this since, as a root mean square. Below it, strengths
# change by at most a hundredth, where they have settled at two hundredths.
_FAR = 0.1

# Penalties of this share of the curvature are large beside its rounding in float32, about 1e-6. Curvatures in float64 would
# take twice as long: the fit of 20 classes six times as long as scikit-learn's temperature, in place of three to five times.
_LARGE_PENALTY = 1e-3

# Where no minimum was found, classes are separated along directions with a curvature below that of this many samples with equal
# probabilities. At a minimum, a class of which all rows are certain up to this is separated, too.
_VANISHING = 1e-6

# Along a direction without effect the loss has a slope only if rounding hides its effect. In units of the root of the weight.
_HIDDEN = 1e-9

# Where a large matrix without penalties is separated, its parameters go on by such steps while the loss hardly falls.
_SHORT = 0.05

# This many classes are named in a message.
_MOST_NAMED = 5


@dataclass(frozen=True)
class Minimum:
    """The minimum of the penalised loss, and how it was found.

    Attributes
    ----------
    theta : array
        The parameters.
    strengths : array
        Of each block of parameters.
    determined : array or None
        How many parameters of each block the data determine; None if the strengths were given.
    residual : float
        The largest derivative that is left, per unit of weight.
    n_passes : int
        How often the data were read.
    equal : array or None
        The second derivatives by all factors and biases where all classes are equally probable, if they were needed.
    """

    theta: HostArray
    strengths: HostArray
    determined: HostArray | None
    residual: float
    n_passes: int
    equal: HostArray | None = None


@dataclass
class AffineSearch:
    """A search in one data set; it counts its passes.

    ``unit`` multiplies all weights, so that they sum to the number of independent rows; ``fixed_strengths`` may be None.
    ``names`` are the labels of the classes, and ``own_remedy`` is what to use where there is no minimum, for messages.
    """

    data: Rows
    parameters: Parameters
    temperature: float
    unit: float
    fixed_strengths: HostArray | None
    names: HostArray | None = None
    own_remedy: str = ""
    n_passes: int = field(default=0, init=False)
    _last: dict[Any, tuple[HostArray, bool, Any]] = field(default_factory=dict, init=False)
    """The last point of each pass, whether it used float32, and its sums."""

    @property
    def _remedy(self) -> str:
        """What to use if the data can be separated perfectly."""
        return self.own_remedy or setting("penalty", "auto")

    @property
    def is_exact(self) -> bool:
        return not self.parameters.is_matrix or self.parameters.size - 1 <= MOST_EXACT

    def minimum(self) -> Minimum:
        """The minimum, at the passed strengths or at the best ones."""
        theta, strengths, determined = self.parameters.start(), self.fixed_strengths, None
        if strengths is not None:
            self._refuse_empty_classes(theta, strengths)
            if self.is_exact and not strengths.all():
                return self._minimum_of_free(strengths)
            curvature = self._curvature(theta, strengths)
            theta = self._least(theta, strengths, curvature, rough=True)
        else:
            if self.is_exact:
                seconds = self._measure(measure_curve, theta, single=True).seconds
            else:
                seconds = self._measure(measure_seconds, theta, single=True)[1:]
            strengths = usual = usual_strengths(self.parameters, self.unit * seconds)
            curvature = self._curvature(theta, strengths)
            for _ in range(_MOST_ROUNDS if self.is_exact else _MOST_ROUNDS_OF_LARGE):
                theta = self._least(theta, strengths, curvature, rough=True)
                curvature = self._curvature(theta, strengths)
                before = strengths
                strengths, determined = fitting_strengths(self.parameters, theta, curvature.variances, before, usual)
                if np.abs(np.log(strengths / before)).max() < _SETTLED:
                    break
        theta = self._least(theta, strengths, curvature, rough=False)
        last = self._measure(measure_loss, theta)
        _, gradient = self._penalised(theta, last, strengths)
        if not strengths.all():  # the next step of a large matrix that is not penalised must be short
            curvature = self._curvature(theta, strengths)
            if np.abs(curvature.step(curvature.gradient(gradient))).max() > _SHORT:
                raise self.not_found()
        residual = float(np.abs(gradient).max() / (self.unit * last.frequencies.sum()))
        return Minimum(theta, strengths, determined, residual, self.n_passes)

    def _curvature(self, theta: HostArray, strengths: HostArray) -> Units:
        """The curvature with these penalties, at a point or close enough to it."""
        precisions = self.parameters.precisions(strengths)
        if not self.is_exact:
            return Units.of_diagonal(self.unit * self._measure(measure_seconds, theta, single=True), precisions)
        if measure_curve not in self._last or self._is_far(theta):
            self._measure(measure_curve, theta, single=True)
        _, single, sums = self._last[measure_curve]
        hessian = self._hessian(sums)
        if single and (precisions[1:] < _LARGE_PENALTY * np.diag(hessian)[1:]).any():
            hessian = self._hessian(self._measure(measure_curve, theta, single=False))
        return Units.of_matrix(hessian, precisions)

    def _is_far(self, theta: HostArray) -> bool:
        """Whether logits have changed so much since the last curvature that it must be measured again."""
        at, _, sums = self._last[measure_curve]
        change = theta - at
        return bool(change @ self._hessian(sums) @ change > _FAR**2 * self.unit * sums.frequencies.sum())

    def _hessian(self, sums: CurvedSums) -> HostArray:
        return self.unit * self.parameters.hessian(sums.hessian)

    def _measure(self, pass_: Callable[..., T], theta: HostArray, *, single: bool = False) -> T:
        """The sums of a pass at a point; the latest sums are reused."""
        if pass_ not in self._last or self._last[pass_][1] != single or not np.array_equal(self._last[pass_][0], theta):
            self.n_passes += 1
            point = self.parameters.point(theta, self.temperature)
            self._last[pass_] = theta, single, self.data.gather(partial(pass_, point, single=single))
        return self._last[pass_][2]

    def _penalised(self, theta: HostArray, sums: LossSums, strengths: HostArray) -> tuple[float, HostArray]:
        """The loss with its penalties, and its gradient, from the sums at a point."""
        precisions = self.parameters.precisions(strengths)
        loss = self.unit * sums.loss + float(precisions @ theta**2) / 2
        return loss, self.unit * self.parameters.gradient(sums) + precisions * theta

    def _least(self, start: HostArray, strengths: HostArray, curvature: Units, *, rough: bool) -> HostArray:
        """The minimum by L-BFGS in the units of a curvature nearby; with ``rough`` a point near it, from sums in float32."""
        from scipy.optimize import minimize  # noqa: PLC0415 - slow to import

        def loss(z: HostArray, unit: float) -> tuple[float, HostArray]:
            theta = start + curvature.step(unit * z)
            sums = self._measure(measure_loss, theta, single=rough)
            if sums.n_doubtful == 0 and not strengths.any():  # all labels have more than half of the probability
                raise NotConvergedError(
                    f"No finite parameters fit best: after {self.n_passes} passes, all samples are separated perfectly, and "
                    f"larger parameters always fit better. Use {self._remedy}, or more data."
                )
            value, gradient = self._penalised(theta, sums, strengths)
            return value, unit * curvature.gradient(gradient)

        zeros = np.zeros(len(start))
        unit = float(np.linalg.norm(loss(zeros, 1.0)[1])) or 1.0  # SciPy's first step has the length 1
        near, most = (
            (_ROUGHLY_NEAR, _MOST_ROUGH_PASSES) if rough else (_NEAR if self.is_exact else _NEAR_OF_LARGE, _MOST_PASSES)
        )
        options = {"gtol": near * unit, "ftol": 0.0, "maxfun": most, "maxcor": _STEPS, "maxls": 5}
        lowest = minimize(loss, zeros, (unit,), jac=True, method="L-BFGS-B", options=options)
        if not rough and np.abs(lowest.jac).max() > (_ROUGHLY_NEAR + _ROUNDING * np.sqrt(abs(lowest.fun))) * unit:
            raise self.not_found()
        return start + curvature.step(unit * lowest.x)

    def _minimum_of_free(self, strengths: HostArray) -> Minimum:
        """The minimum by Newton's method, if some parameters are not penalised; raises if there is none."""
        start, penalties = self.parameters.start(), np.diag(self.parameters.precisions(strengths))
        equal = self._measure(measure_curve, np.zeros(len(start)))
        weight = self.unit * float(equal.frequencies.sum())
        directions = Directions.from_curvature(self._hessian(equal) + penalties)
        basis = directions.shortest(directions.basis)
        units, noise = np.full(basis.shape[1], np.sqrt(weight)), np.zeros(basis.shape[1])

        def equations(x: HostArray) -> Equations:
            theta = start + basis @ x
            sums = self._measure(measure_curve, theta)
            loss, gradient = self._penalised(theta, sums, strengths)
            return Equations(basis.T @ gradient, basis.T @ (self._hessian(sums) + penalties) @ basis, units, noise, loss)

        try:
            solution: Solution | None = solve(equations, np.zeros(basis.shape[1]))
        except NotConvergedError:
            solution = None
        theta = self._last[measure_curve][0] if solution is None else start + basis @ solution.x
        sums = self._measure(measure_curve, theta)
        _, gradient = self._penalised(theta, sums, strengths)
        if np.abs(directions.without_effect.T @ gradient).max(initial=0.0) > _HIDDEN * np.sqrt(weight):
            raise curvature_error()
        if solution is None:
            values, axes = directions.compare(self._hessian(sums) + penalties)
            vanishing = axes[:, values * weight < _VANISHING].T
            if not len(vanishing):
                raise self.not_found()
            effects = np.sum([self.parameters.effects(axis, equal.hessian) for axis in vanishing], axis=0)
            raise self.separation_error(effects, sums.frequencies)
        certain = self.unit * sums.seconds[-self.parameters.n_classes :] < _VANISHING
        if self.parameters.has_bias and certain.any():
            raise self.separation_error(certain.astype(float), sums.frequencies)
        return Minimum(theta, strengths, None, float(np.abs(gradient).max() / weight), self.n_passes, equal.hessian)

    def _refuse_empty_classes(self, theta: HostArray, strengths: HostArray) -> None:
        """Raise if a class has no samples and nothing keeps its bias from going to minus infinity."""
        if not self.parameters.has_bias or strengths[-1] > 0:
            return
        empty = np.flatnonzero(self._measure(measure_loss, theta).frequencies == 0)
        if len(empty):
            which = f"{self._names_of_classes(empty)} {'has' if len(empty) == 1 else 'have'}"
            raise DegenerateDataError(
                "The `penalty` of the biases",
                f"be positive where a class has no samples: {which} none",
                remedy=f"Use {setting('penalty', 'auto')}, or more data.",
            )

    def not_found(self) -> NotConvergedError:
        """The error if the search did not converge."""
        return NotConvergedError(
            f"The search did not converge in {self.n_passes} passes: the loss still falls, as it does where data can be "
            f"separated perfectly. Use {self._remedy}, or more data."
        )

    def separation_error(self, effects: HostArray, frequencies: HostArray) -> NotConvergedError:
        """The error if parameters grow without limit; names classes by squared effect and weight of samples."""
        places = np.flatnonzero(effects >= effects.max() / 2)
        places = places[np.argsort(frequencies[places], kind="stable")][:_MOST_NAMED]
        weights, several = ", ".join(f"{frequencies[place]:.4g}" for place in places), len(places) > 1
        return NotConvergedError(
            f"No finite parameters fit best: {self._names_of_classes(places)}, with {'weights' if several else 'a weight'} of "
            f"{weights} out of {frequencies.sum():.4g}, can be separated from the other samples perfectly, so that parameters "
            f"grow without limit. Use {self._remedy}, or more samples of {'these classes' if several else 'this class'}."
        )

    def _names_of_classes(self, places: HostArray) -> str:
        names = [repr(name) for name in (places if self.names is None else self.names[places]).tolist()]
        return f"class{'es' if len(names) > 1 else ''} {', '.join(names)}"
