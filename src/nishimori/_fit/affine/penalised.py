"""The affine map of least penalised cross-entropy, with strengths that are given or chosen by marginal likelihood.

The loss is convex, so there is one minimum. Up to `MOST_EXACT` parameters every reading of the data gives loss, gradient and
the whole curvature, and damped Newton steps reach the minimum in a few readings. A larger matrix is searched by L-BFGS, in the
units of an approximate curvature. Between searches the strengths follow from the departures that were found.

Where something is not penalised there may be no minimum: if some direction separates a class perfectly, the loss falls along it
for ever, more and more slowly, and its curvature vanishes. At a minimum it does not: where one row is on the wrong side, others
are uncertain enough to balance it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.optimize import minimize

from nishimori._fit.affine.directions import Directions
from nishimori._fit.affine.kronecker import Kronecker
from nishimori._fit.affine.parameters import Parameters
from nishimori._fit.affine.strengths import Evidence, usual_strengths
from nishimori._fit.affine.sums import AffinePoint, Curve, Factor, Loss, LossSums
from nishimori._rows.batch import Batch
from nishimori._rows.rows import Rows, Sum
from nishimori._support.arrays import HostArray
from nishimori.errors import InputError, NotConvergedError, setting

T = TypeVar("T", bound=Sum)

MOST_EXACT = 1000
"""A matrix with so many factors and biases is searched with its exact curvature; larger ones with an approximate one."""

# The search for the minimum ends where the next step would lower the loss by less than this, a log-likelihood of all rows.
_ENOUGH = 1e-9

# Strengths have settled when they change by less than this; the loss hardly depends on them.
_SETTLED = 0.02
_MOST_ROUNDS, _MOST_ROUNDS_OF_LARGE = 25, 10

# Newton's method needs a handful of readings; more mean that there is no minimum.
_MOST_STEPS = 60

# Where the data are separated, parameters go on by such steps while the loss hardly falls.
_SHORT = 0.05

# Where no penalty holds parameters, a curvature along some direction below that of so many samples with equal probabilities is
# suspicious: a search that ends beside perfectly separated samples has left a thousandth of it. Steps then tell. On the way to
# infinity each is as long as the one before; near a minimum, which may be far away, each is far shorter.
_VANISHING, _AS_LONG, _FAR_SHORTER = 1e-6, 0.1, 0.01

# Without penalties, logits change by at most so much in the first step, as a root mean square, and in each further step by so
# many times as much: the curvature may be nearly zero here, and not where the step would lead.
_LONGEST, _LONGER = 10.0, 4.0

# A minimum without penalties is found to all digits: last steps are taken while each promises far less than the one before.
_MOST_LAST_STEPS = 5

# Along a direction without effect the loss has a slope only if rounding hides its effect. In units of the root of the weight.
_HIDDEN = 1e-9

# So many classes are named in a message.
_MOST_NAMED = 5

# L-BFGS: readings of one search while strengths still change, and in all.
_ROUGH_READINGS, _MOST_READINGS = 6, 400


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
    n_readings : int
        How often the data were read.
    equal : array or None
        The second derivatives by all factors and biases where all classes are equally probable, if they were needed.
    """

    theta: HostArray
    strengths: HostArray
    determined: HostArray | None
    residual: float
    n_readings: int
    equal: HostArray | None = None


@dataclass
class AffineSearch:
    """A search in one data set; it counts its readings.

    ``unit`` multiplies all weights, so that they sum to the number of independent rows; ``given`` are the strengths, or None.
    ``names`` are the labels of the classes, and ``remedy`` is what to use where there is no minimum, for messages.
    """

    data: Rows
    parameters: Parameters
    temperature: float
    unit: float
    given: HostArray | None
    names: HostArray | None = None
    own_remedy: str = ""
    n_readings: int = field(default=0, init=False)

    @property
    def _remedy(self) -> str:
        """What to use where the data can be separated perfectly."""
        return self.own_remedy or setting("penalty", "auto")

    @property
    def is_exact(self) -> bool:
        return not self.parameters.is_matrix or self.parameters.size - 1 <= MOST_EXACT

    def minimum(self) -> Minimum:
        """The minimum, at the strengths that were given or at those that fit best."""
        method = _Newton(self) if self.is_exact else _LBFGS(self)
        theta = self.parameters.start()
        if self.given is not None:
            self._refuse_empty_classes(theta, self.given)
            theta, residual = method.least(theta, self.given, final=True)
            return Minimum(theta, self.given, None, residual, self.n_readings, method.equal)
        usual = usual_strengths(self.parameters, *method.curvatures(theta))
        strengths = usual
        for _ in range(_MOST_ROUNDS if self.is_exact else _MOST_ROUNDS_OF_LARGE):
            theta, _ = method.least(theta, strengths, final=False)
            evidence = Evidence.of(self.parameters, theta, method.variances(theta, strengths), strengths)
            before, strengths = strengths, evidence.strengths(usual)
            if np.abs(np.log(strengths / before)).max() < _SETTLED:
                break
        theta, residual = method.least(theta, strengths, final=True)
        return Minimum(theta, strengths, evidence.determined, residual, self.n_readings)

    def _refuse_empty_classes(self, theta: HostArray, strengths: HostArray) -> None:
        """Raise if a class has no samples and nothing keeps its bias from going to minus infinity."""
        if not self.parameters.has_bias or strengths[-1] > 0:
            return
        empty = np.flatnonzero(self.read(Loss(self.point(theta))).frequencies == 0)
        if len(empty):
            which = f"{self._names_of_classes(empty)} {'has' if len(empty) == 1 else 'have'}"
            raise InputError(
                "The `penalty` of the biases",
                f"be positive where a class has no samples: {which} none",
                remedy=f"Use {setting('penalty', 'auto')}, or more data.",
            )

    def not_found(self) -> NotConvergedError:
        """The error where the search did not end."""
        return NotConvergedError(
            f"The search did not converge in {self.n_readings} readings: the loss still falls, as it does where data can be "
            f"separated perfectly. Use {self._remedy}, or more data."
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
        names = [repr(each) for each in (places if self.names is None else self.names[places]).tolist()]
        return f"class{'es' if len(names) > 1 else ''} {', '.join(names)}"

    def point(self, theta: HostArray) -> AffinePoint:
        """The affine map of these parameters."""
        return self.parameters.point(theta, self.temperature)

    def read(self, pass_: Callable[[Batch], T]) -> T:
        """The sums of a pass over the data."""
        self.n_readings += 1
        return self.data.gather(pass_)


class _Newton:
    """Newton steps with the exact curvature. The last reading is kept: strengths change without a new one."""

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
        precisions = self.search.parameters.precisions(strengths)
        return np.diag(_solve(self.hessian, precisions, np.eye(len(precisions))))

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
            step = _solve(self.hessian, precisions, gradient)
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
                found = self._exact(theta, precisions, directions, (step, gain))
                self._refuse_certain_classes()
                return found
            share = min(1.0, longest / length)
            theta = self._lower(theta, share * step, precisions, share * gain)
            longest, before = _LONGER * longest, length
        raise self.search.not_found()

    def _directions(self, precisions: HostArray) -> Directions:
        search = self.search
        sums = search.read(Curve(search.point(np.zeros(search.parameters.size))))
        self.equal = sums.hessian
        return Directions.of(search.unit * search.parameters.hessian(sums.hessian) + np.diag(precisions))

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


class _LBFGS:
    """L-BFGS in the units of an approximate curvature, which is measured once per search."""

    equal = None

    def __init__(self, search: AffineSearch) -> None:
        self.search = search
        self.at: HostArray | None = None

    def _factors(self, theta: HostArray, strengths: HostArray) -> Kronecker:
        search = self.search
        if self.at is not theta:
            self.sums = search.read(Factor(search.point(theta))) * search.unit
            self.at = theta
        return Kronecker(search.parameters, self.sums, strengths)

    def curvatures(self, theta: HostArray) -> tuple[HostArray, float]:
        """The mean second derivative of each block, and that by a bias."""
        n = self.search.parameters.n_classes
        self._factors(theta, np.ones(3))
        seconds = np.diag(self.sums.diagonal)
        by_bias = float(seconds[n:].mean())
        return np.array([seconds[:n].mean(), self.sums.off_diagonal / (n * (n - 1)), by_bias]), by_bias

    def variances(self, theta: HostArray, strengths: HostArray) -> HostArray:
        """The approximate posterior variance of each parameter."""
        return self._factors(theta, strengths).variances

    def least(self, theta: HostArray, strengths: HostArray, *, final: bool) -> tuple[HostArray, float]:
        """The minimum, or while strengths still change a point near it, and the largest derivative there."""
        search, factors = self.search, self._factors(theta, strengths)
        precisions = search.parameters.precisions(strengths)

        def measure(z: HostArray) -> tuple[float, HostArray]:
            there = theta + factors.step(z)
            sums = search.read(Loss(search.point(there)))
            gradient = search.unit * search.parameters.gradient(sums) + precisions * there
            return search.unit * sums.loss + precisions @ there**2 / 2, factors.gradient(gradient)

        readings = _MOST_READINGS if final else _ROUGH_READINGS
        # Derivatives are in units of a standard deviation of the posterior distribution.
        options = {"maxcor": 20, "maxfun": readings, "maxiter": readings, "gtol": 1e-3 if final else 1e-2, "ftol": 0.0}
        found = minimize(measure, np.zeros(search.parameters.size), jac=True, method="L-BFGS-B", options=options)
        if final and not found.success:
            raise self.search.not_found()
        there = theta + factors.step(found.x)
        return there, self._residual(there, strengths) if final else 0.0

    def _residual(self, theta: HostArray, strengths: HostArray) -> float:
        """The largest derivative that is left, per unit of weight; raises where the next step would still be long."""
        search = self.search
        sums: LossSums = search.read(Loss(search.point(theta)))
        gradient = search.unit * search.parameters.gradient(sums) + search.parameters.precisions(strengths) * theta
        if not strengths.all():
            factors = self._factors(theta, strengths)
            if np.abs(factors.step(factors.gradient(gradient))).max() > _SHORT:
                raise self.search.not_found()
        return float(np.abs(gradient).max() / sums.frequencies.sum() / search.unit)


def _solve(hessian: HostArray, precisions: HostArray, right: HostArray) -> HostArray:
    """The solution of the linear equations whose matrix is the curvature with its penalties, which are all positive."""
    try:
        found: HostArray = cho_solve(cho_factor(hessian + np.diag(precisions)), right)
    except LinAlgError:
        raise _curvature_error() from None
    return found


def _curvature_error() -> NotConvergedError:
    return NotConvergedError(
        "The search did not converge: the logits differ so much, or so little, between samples that float64 cannot "
        "hold the curvature of the loss, as those of naive Bayes classifiers may. Use a method with temperatures only, "
        f"such as 'ec' or 'group', or pass probabilities with {setting('input', 'probabilities')} and a {setting('floor')}."
    )
