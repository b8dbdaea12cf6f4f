"""The affine map of least penalised cross-entropy, with strengths that are given or chosen by marginal likelihood.

The loss is convex, so there is one minimum. With few parameters every pass over the data gives loss, gradient and the whole
curvature, and damped Newton steps reach the minimum in a few passes. With more of them the curvature takes far longer to sum
than the gradient: L-BFGS then takes many steps in the units of one curvature. That is the whole one up to `MOST_EXACT`
parameters, and an approximate one for a larger matrix. Between searches the strengths follow from the departures that were
found.

Where something is not penalised there may be no minimum: if some direction separates a class perfectly, the loss falls along it
for ever, more and more slowly, and its curvature vanishes. At a minimum it does not: where one row is on the wrong side, others
are uncertain enough to balance it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from nishimori._fit.affine.curvature import Cholesky, Directions, Kronecker
from nishimori._fit.affine.parameters import Parameters
from nishimori._fit.affine.step_memory import StepMemory
from nishimori._fit.affine.strengths import Evidence, usual_strengths
from nishimori._fit.affine.sums import AffinePoint, Curve, Factor, FactorSums, Loss
from nishimori._rows.batch import Batch
from nishimori._rows.rows import Rows, Sum
from nishimori._support.arrays import HostArray
from nishimori.errors import DegenerateDataError, NotConvergedError, setting

T = TypeVar("T", bound=Sum)

MOST_EXACT = 1000
"""A matrix with this many factors and biases is searched with its exact curvature; larger ones with an approximate one."""

# The search for the minimum ends where the next step would lower the loss by less than this, a log-likelihood of all rows.
_ENOUGH = 1e-9

# Strengths have settled when they change by less than this; the loss hardly depends on them.
_SETTLED = 0.02
_MOST_ROUNDS, _MOST_ROUNDS_OF_LARGE = 25, 10

# Newton's method needs a handful of passes; more mean that there is no minimum.
_MOST_STEPS = 60

# Up to this many factors and biases, the curvature takes about as long to sum as the gradient: ten classes for a matrix.
_FEW_PARAMETERS = 110

# The curvature is measured again where logits have changed by more than this since, as a root mean square. Below it, strengths
# change by about a thousandth, where they have settled at two hundredths.
_FAR = 0.03

# Penalties of this share of the curvature are large beside its rounding in float32, about 1e-6.
_LARGE_PENALTY = 1e-3

# Where the data are separated, parameters go on by such steps while the loss hardly falls.
_SHORT = 0.05

# Where no penalty holds parameters, a curvature along some direction below that of this many samples with equal probabilities
# is suspicious: a search that ends beside perfectly separated samples has left a thousandth of it. Steps then tell. On the way
# to infinity each is as long as the one before; near a minimum, which may be far away, each is far shorter.
_VANISHING, _AS_LONG, _FAR_SHORTER = 1e-6, 0.1, 0.01

# Without penalties, logits change by at most so much in the first step, as a root mean square, and in each further step by so
# many times as much: the curvature may be nearly zero here, and not where the step would lead.
_LONGEST, _LONGER = 10.0, 4.0

# A minimum without penalties is found to all digits: last steps are taken while each promises far less than the one before.
_MOST_LAST_STEPS = 5

# Along a direction without effect the loss has a slope only if rounding hides its effect. In units of the root of the weight.
_HIDDEN = 1e-9

# This many classes are named in a message.
_MOST_NAMED = 5

# L-BFGS reads the data at most so often.
_MOST_PASSES = 400

# L-BFGS with the whole curvature goes on in float64 where the next step would lower the loss by less than this, and ends there
# while strengths still change.
_ROUGHLY_ENOUGH = 2e-6

# With an approximate one it ends where all derivatives are smaller than this, in units of a standard deviation of the posterior
# distribution: while strengths still change, and at last.
_ROUGHLY_NEAR, _NEAR = 3e-3, 1e-3

# A step along which the slope has fallen by less than this is continued (Wolfe's condition).
_LESS_STEEP = 0.9

# The relative rounding of a loss from numbers in float32.
_SINGLE = 1e-7


@dataclass(frozen=True)
class Minimum:
    """Where the penalised loss is least, and how it was found.

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
    ``names`` are the labels of the classes, and ``remedy`` is what to use where there is no minimum, for messages.
    """

    data: Rows
    parameters: Parameters
    temperature: float
    unit: float
    fixed_strengths: HostArray | None
    names: HostArray | None = None
    own_remedy: str = ""
    n_passes: int = field(default=0, init=False)

    @property
    def _remedy(self) -> str:
        """What to use where the data can be separated perfectly."""
        return self.own_remedy or setting("penalty", "auto")

    @property
    def is_exact(self) -> bool:
        return not self.parameters.is_matrix or self.parameters.size - 1 <= MOST_EXACT

    def minimum(self) -> Minimum:
        """The minimum, at the strengths that were given or at those that fit best."""
        method = self._method()
        theta = self.parameters.start()
        if self.fixed_strengths is not None:
            self._refuse_empty_classes(theta, self.fixed_strengths)
            theta, residual = method.least(theta, self.fixed_strengths, final=True)
            return Minimum(theta, self.fixed_strengths, None, residual, self.n_passes, method.equal)
        usual = usual_strengths(self.parameters, *method.curvatures(theta))
        strengths = usual
        for _ in range(_MOST_ROUNDS if self.is_exact else _MOST_ROUNDS_OF_LARGE):
            theta, _ = method.least(theta, strengths, final=False)
            evidence = Evidence.from_variances(self.parameters, theta, method.variances(theta, strengths), strengths)
            before, strengths = strengths, evidence.strengths(usual)
            if np.abs(np.log(strengths / before)).max() < _SETTLED:
                break
        theta, residual = method.least(theta, strengths, final=True)
        return Minimum(theta, strengths, evidence.determined, residual, self.n_passes)

    def _method(self) -> "_Newton | _LBFGS":
        """Newton's method where it is fast, or where there may be no minimum and parameters are few; otherwise L-BFGS."""
        is_free = self.fixed_strengths is not None and not self.fixed_strengths.all()
        if self.is_exact and (is_free or self.parameters.size - 1 <= _FEW_PARAMETERS):
            return _Newton(self)
        return _LBFGS(self, _ExactCurvature(self) if self.is_exact else _KroneckerCurvature(self))

    def _refuse_empty_classes(self, theta: HostArray, strengths: HostArray) -> None:
        """Raise if a class has no samples and nothing keeps its bias from going to minus infinity."""
        if not self.parameters.has_bias or strengths[-1] > 0:
            return
        empty = np.flatnonzero(self.read(Loss(self.point(theta))).frequencies == 0)
        if len(empty):
            which = f"{self._names_of_classes(empty)} {'has' if len(empty) == 1 else 'have'}"
            raise DegenerateDataError(
                "The `penalty` of the biases",
                f"be positive where a class has no samples: {which} none",
                remedy=f"Use {setting('penalty', 'auto')}, or more data.",
            )

    def not_found(self) -> NotConvergedError:
        """The error where the search did not end."""
        return NotConvergedError(
            f"The search did not converge in {self.n_passes} passes: the loss still falls, as it does where data can be "
            f"separated perfectly. Use {self._remedy}, or more data."
        )

    def separated(self) -> NotConvergedError:
        """The error where some parameters give every label more than half of the probability."""
        return NotConvergedError(
            f"No finite parameters fit best: after {self.n_passes} passes, all samples are separated perfectly, and larger "
            f"parameters always fit better. Use {self._remedy}, or more data."
        )

    def separation_error(self, effects: HostArray, frequencies: HostArray) -> NotConvergedError:
        """The error where parameters grow without limit, by the squared effect on each class and the weight of its samples."""
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

    def point(self, theta: HostArray) -> AffinePoint:
        """The affine map of these parameters."""
        return self.parameters.point(theta, self.temperature)

    def read(self, pass_: Callable[[Batch], T]) -> T:
        """The sums of a pass over the data."""
        self.n_passes += 1
        return self.data.gather(pass_)


class _Newton:
    """Newton steps with the exact curvature. The last pass is kept: strengths change without a new one."""

    def __init__(self, search: AffineSearch) -> None:
        self.search = search
        self.at: HostArray | None = None
        self.equal: HostArray | None = None

    def _measure(self, theta: HostArray) -> None:
        search = self.search
        sums = search.read(Curve(search.point(theta)))
        self.at, self.frequencies = theta, sums.first.frequencies
        self.loss = search.unit * sums.first.loss
        self.gradient = search.unit * search.parameters.gradient(sums.first)
        self.hessian = search.unit * search.parameters.hessian(sums.hessian)
        self.by_bias = search.unit * np.diag(sums.hessian)[-search.parameters.n_classes :]
        self.information = self.by_bias.mean()

    @property
    def weight(self) -> float:
        """The weight of all rows, in the units of the search."""
        return float(self.frequencies.sum() * self.search.unit)

    def curvatures(self, theta: HostArray) -> tuple[HostArray, float]:
        """The mean second derivative of each block, and that by a bias, also where there are none."""
        self._measure(theta)
        seconds = np.diag(self.hessian)
        return np.array([seconds[places].mean() for places in self.search.parameters.members]), float(self.information)

    def variances(self, theta: HostArray, strengths: HostArray) -> HostArray:
        """The posterior variance of each parameter at a minimum that was just found."""
        assert self.at is theta
        return _factorise(self.hessian, self.search.parameters.precisions(strengths)).inverse_diagonal()

    def least(self, theta: HostArray, strengths: HostArray, *, final: bool) -> tuple[HostArray, float]:
        """The minimum, and the largest derivative there."""
        precisions = self.search.parameters.precisions(strengths)
        if self.at is not theta:
            self._measure(theta)
        if not (precisions[1:] > 0).all():
            return self._least_of_free(theta, precisions)
        enough = _ENOUGH if final else 1e-3 * _SETTLED
        for _ in range(_MOST_STEPS):
            gradient = self.gradient + precisions * theta
            step = _factorise(self.hessian, precisions).solve(gradient)
            gain = gradient @ step
            if gain <= enough:
                return theta, float(np.abs(gradient).max() / self.weight)
            theta = self._lower(theta, step, precisions, gain)
        raise self.search.not_found()

    def _least_of_free(self, theta: HostArray, precisions: HostArray) -> tuple[HostArray, float]:
        """The minimum where some parameters are not penalised: some changes have no effect, and there may be none."""
        directions, longest, before = self._directions(precisions), _LONGEST, 0.0
        for _ in range(_MOST_STEPS):
            step, gain, length, values, axes = self._step(theta, precisions, directions)
            vanishing = values * self.weight < _VANISHING
            if gain <= _ENOUGH and vanishing.any() and length > _AS_LONG * before:
                raise self._separation_error(axes[:, vanishing])
            if gain <= _ENOUGH and (not vanishing.any() or length < _FAR_SHORTER * before):
                exact = self._exact(theta, precisions, directions, (step, gain))
                self._refuse_certain_classes()
                return exact
            share = min(1.0, longest / length)
            theta = self._lower(theta, share * step, precisions, share * gain)
            longest, before = _LONGER * longest, length
        raise self.search.not_found()

    def _directions(self, precisions: HostArray) -> Directions:
        search = self.search
        sums = search.read(Curve(search.point(np.zeros(search.parameters.size))))
        self.equal = sums.hessian
        return Directions.from_curvature(search.unit * search.parameters.hessian(sums.hessian) + np.diag(precisions))

    def _step(
        self, theta: HostArray, precisions: HostArray, directions: Directions
    ) -> tuple[HostArray, float, float, HostArray, HostArray]:
        """Newton's step, what it promises, the root mean square by which it changes logits, and the curvatures by direction."""
        gradient = self.gradient + precisions * theta
        if np.abs(directions.without_effect.T @ gradient).max(initial=0.0) > _HIDDEN * np.sqrt(self.weight):
            raise _curvature_error()
        values, axes = directions.compare(self.hessian + np.diag(precisions))
        along = axes.T @ gradient
        slopes = along / np.maximum(values, np.finfo(float).eps)
        length = float(np.sqrt(slopes @ slopes / self.weight))
        return directions.shortest(axes @ slopes), float(along @ slopes), length, values, axes

    def _exact(
        self, theta: HostArray, precisions: HostArray, directions: Directions, first: tuple[HostArray, float]
    ) -> tuple[HostArray, float]:
        """The minimum to all digits, from a point so near that each step doubles their number."""
        step, gain = first
        residual = self._residual(theta, precisions)
        for _ in range(_MOST_LAST_STEPS):
            there = theta - step
            self._measure(there)
            step, left, *_ = self._step(there, precisions, directions)
            if left > gain / 4:  # rounding is all that is left
                break
            theta, gain, residual = there, left, self._residual(there, precisions)
        return theta, residual

    def _refuse_certain_classes(self) -> None:
        """Refuse a minimum at which it is certain of each row whether it is of some class, as only separated classes are.

        Where inputs hardly differ, rounding can hide from the curvature that parameters still grow; probabilities tell.
        """
        certain = self.by_bias < _VANISHING  # Σ p(1 - p) over rows
        if self.search.parameters.has_bias and certain.any():
            raise self.search.separation_error(certain.astype(float), self.frequencies)

    def _residual(self, theta: HostArray, precisions: HostArray) -> float:
        return float(np.abs(self.gradient + precisions * theta).max() / self.weight)

    def _separation_error(self, axes: HostArray) -> NotConvergedError:
        """The error that names the classes along whose directions the loss falls for ever."""
        assert self.equal is not None
        effects = sum(self.search.parameters.effects(axis, self.equal) for axis in axes.T)
        return self.search.separation_error(np.asarray(effects), self.frequencies)

    def _lower(self, theta: HostArray, step: HostArray, precisions: HostArray, gain: float) -> HostArray:
        """A point along the step where the loss is lower by a fair share of what was promised."""
        loss, share = self.loss + precisions @ theta**2 / 2, 1.0
        while share > 2.0**-30:
            there = theta - share * step
            self._measure(there)
            if self.loss + precisions @ there**2 / 2 <= loss - 1e-4 * share * gain + 1e-13 * abs(loss):
                return there
            share /= 2
        raise self.search.not_found()


class _ExactCurvature:
    """The whole curvature, in float32 where penalties are large beside its rounding."""

    rough_readings = 30
    """How often the data are read at most in one search while strengths still change."""

    def __init__(self, search: AffineSearch) -> None:
        self.search = search
        self.hessian: HostArray = np.zeros(0)
        self.at: HostArray | None = None
        self.penalised: HostArray | None = None

    def _measure(self, theta: HostArray, *, single: bool) -> None:
        search = self.search
        sums = search.read(Curve(search.point(theta), single=single))
        self.weight = float(sums.first.frequencies.sum() * search.unit)
        self.by_bias = float(search.unit * np.diag(sums.hessian)[-search.parameters.n_classes :].mean())
        hessian = search.unit * search.parameters.hessian(sums.hessian)
        self.hessian = hessian.astype(np.float32) if single else hessian
        self.at, self.penalised = theta, None

    def _is_far(self, theta: HostArray) -> bool:
        """Whether logits differ so much from those where the curvature was measured that it has to be measured again."""
        if self.at is None:
            return True
        change = (theta - self.at).astype(self.hessian.dtype)
        return bool(change @ (self.hessian @ change) > _FAR**2 * self.weight)

    def means(self, theta: HostArray) -> tuple[HostArray, float]:
        """The mean second derivative of each block, and that by a bias, also where there are none."""
        self._measure(theta, single=True)
        seconds = np.diag(self.hessian)
        return np.array([seconds[places].mean() for places in self.search.parameters.members], dtype=float), self.by_bias

    def penalise(self, theta: HostArray, strengths: HostArray) -> None:
        """Be the curvature at a point with these penalties."""
        precisions = self.search.parameters.precisions(strengths)
        if self._is_far(theta):
            self._measure(theta, single=True)
        self.hides_penalties = bool((precisions[1:] < _LARGE_PENALTY * np.diag(self.hessian)[1:]).any())
        if self.hides_penalties and self.hessian.dtype == np.float32:
            self._measure(theta, single=False)
        if self.penalised is None or (self.penalised != strengths).any():
            self.factor, self.penalised = _factorise(self.hessian, precisions), strengths

    def variances(self) -> HostArray:
        """The posterior variance of each parameter."""
        return self.factor.inverse_diagonal()

    def solve(self, gradient: HostArray) -> HostArray:
        """The change of the parameters whose product with the curvature is a gradient."""
        return self.factor.solve(gradient).astype(gradient.dtype, copy=False)

    def is_near(self, slope: "_Slope", *, final: bool) -> bool:
        """Whether the next step would hardly lower the loss."""
        enough = _ENOUGH if final and not slope.single else _ROUGHLY_ENOUGH
        return bool(slope.gradient @ self.factor.solve(slope.gradient) <= enough)


class _KroneckerCurvature:
    """The curvature of a large matrix, taken for a Kronecker product."""

    hides_penalties = False
    rough_readings = 8
    """How often the data are read at most in one search while strengths still change."""

    def __init__(self, search: AffineSearch) -> None:
        self.search = search
        self.at: HostArray | None = None
        self.factored: FactorSums | None = None
        self.factors: Kronecker

    def _measure(self, theta: HostArray) -> FactorSums:
        if self.at is not theta:
            self.sums = self.search.read(Factor(self.search.point(theta), single=True)) * self.search.unit
            self.at = theta
        return self.sums

    def means(self, theta: HostArray) -> tuple[HostArray, float]:
        """The mean second derivative of each block, and that by a bias."""
        n, sums = self.search.parameters.n_classes, self._measure(theta)
        seconds = np.diag(sums.diagonal)
        by_bias = float(seconds[n:].mean())
        return np.array([seconds[:n].mean(), sums.off_diagonal / (n * (n - 1)), by_bias]), by_bias

    def penalise(self, theta: HostArray, strengths: HostArray) -> None:
        """Be the curvature at a point with these penalties."""
        sums = self._measure(theta)
        is_known = self.factored is sums  # at other strengths, for the evidence
        self.factors = self.factors.near(strengths) if is_known else Kronecker(self.search.parameters, sums, strengths)
        self.factored = sums

    def variances(self) -> HostArray:
        """The approximate posterior variance of each parameter."""
        return self.factors.variances

    def solve(self, gradient: HostArray) -> HostArray:
        """The change of the parameters whose product with the curvature is a gradient."""
        return self.factors.solve(gradient)

    def is_near(self, slope: "_Slope", *, final: bool) -> bool:
        """Whether all derivatives are small, in units of a standard deviation of the posterior distribution."""
        by_unit = self.factors.gradient(slope.gradient.astype(np.float32))
        return bool(np.abs(by_unit).max() <= (_NEAR if final else _ROUGHLY_NEAR))


class _LBFGS:
    """L-BFGS in the units of a curvature that is measured once per search. It goes in float32; float64 has the last word.

    Penalties that rounding in float32 would hide are left to Newton's method.
    """

    equal = None

    def __init__(self, search: AffineSearch, curvature: _ExactCurvature | _KroneckerCurvature) -> None:
        self.search = search
        self.curvature = curvature
        self.newton = _Newton(search)
        self.slope: _Slope | None = None
        self.memory = StepMemory(np.zeros(search.parameters.size))

    def curvatures(self, theta: HostArray) -> tuple[HostArray, float]:
        """The mean second derivative of each block, and that by a bias, also where there are none."""
        return self.curvature.means(theta)

    def variances(self, theta: HostArray, strengths: HostArray) -> HostArray:
        """The posterior variance of each parameter at a minimum."""
        self.curvature.penalise(theta, strengths)
        return self.curvature.variances()

    def least(self, theta: HostArray, strengths: HostArray, *, final: bool) -> tuple[HostArray, float]:
        """The minimum, or while strengths still change a point near it, and the largest derivative there."""
        search, curvature = self.search, self.curvature
        precisions = search.parameters.precisions(strengths)
        curvature.penalise(theta, strengths)
        if curvature.hides_penalties:
            return self.newton.least(theta, strengths, final=final)
        self.memory.set_penalties(precisions)
        last = search.n_passes + (_MOST_PASSES if final else curvature.rough_readings)
        slope = self._measure(theta, precisions, single=True)
        while True:
            if slope.separates and not strengths.any():
                raise search.separated()
            is_near = curvature.is_near(slope, final=final)
            there = None if is_near else self._along(slope, self.memory.step_from(slope.gradient, curvature.solve), last)
            if there is not None:
                self.memory.add(there.theta - slope.theta, there.gradient - slope.gradient)
                slope = there
            elif not final:
                return slope.theta, 0.0
            elif slope.single:
                slope = self._measure(slope.theta, precisions, single=False)
            elif is_near:
                return slope.theta, self._residual(slope, strengths)
            else:
                raise search.not_found()

    def _measure(self, theta: HostArray, precisions: HostArray, *, single: bool) -> "_Slope":
        """The penalised loss and its gradient; those that were read last are not read again."""
        search, slope = self.search, self.slope
        if slope is None or slope.theta is not theta or slope.single != single:
            sums = search.read(Loss(search.point(theta), single=single))
            weight = float(sums.frequencies.sum() * search.unit)
            gradient, separates = search.unit * search.parameters.gradient(sums), sums.n_doubtful == 0
            slope = _Slope(theta, search.unit * sums.loss, gradient, weight, single, separates)
            self.slope = slope
        return replace(slope, loss=slope.loss + precisions @ theta**2 / 2, gradient=slope.gradient + precisions * theta)

    def _along(self, start: "_Slope", step: HostArray, last: int) -> "_Slope | None":
        """A point along a step where the slope is less steep and the loss not higher, or None if none was found."""
        steepest, share, low, high = float(start.gradient @ step), 1.0, 0.0, np.inf
        rounding = (_SINGLE if start.single else 1e-13) * abs(start.loss)
        while self.search.n_passes < last and share > 2.0**-30 and steepest < 0:
            there = self._measure(start.theta + share * step, self.memory.precisions, single=start.single)
            slope = float(there.gradient @ step)
            is_lower = there.loss <= start.loss + rounding
            if is_lower and abs(slope) <= _LESS_STEEP * -steepest:
                return there
            low, high = (share, high) if is_lower and slope < 0 else (low, share)
            share = 4 * share if high == np.inf else (low + high) / 2
        return None

    def _residual(self, slope: "_Slope", strengths: HostArray) -> float:
        """The largest derivative that is left, per unit of weight; raises where the next step would still be long."""
        if not strengths.all():
            self.curvature.penalise(slope.theta, strengths)
            if np.abs(self.curvature.solve(slope.gradient)).max() > _SHORT:
                raise self.search.not_found()
        return float(np.abs(slope.gradient).max() / slope.weight)


@dataclass(frozen=True, eq=False)
class _Slope:
    """The loss and its gradient at one point, with penalties or without, from numbers in float32 or float64.

    ``separates`` says whether each label has more than half of the probability. Larger parameters then lower every loss.
    """

    theta: HostArray
    loss: float
    gradient: HostArray
    weight: float
    single: bool
    separates: bool


def _factorise(hessian: HostArray, precisions: HostArray) -> Cholesky:
    """The Cholesky factor of the curvature with its penalties, which are all positive."""
    factor = Cholesky.from_matrix(hessian, precisions)
    if factor is None:
        raise _curvature_error()
    return factor


def _curvature_error() -> NotConvergedError:
    return NotConvergedError(
        "The search did not converge: the logits differ so much, or so little, between samples that float64 cannot "
        "hold the curvature of the loss, as those of naive Bayes classifiers may. Use a method with temperatures only, "
        f"such as 'ec' or 'group', or pass probabilities with {setting('input', 'probabilities')} and a {setting('floor')}."
    )
