"""Teachers, which label the data: P(y = +1 | x) = σ*(w*·x / T*), with |w*|² = ρd.

A teacher has a probability σ*, a temperature T* and a norm ρ. The theory needs only averages of σ* over a Gaussian. A teacher
may define them in closed form; otherwise they are computed by quadrature.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from math import ceil, inf, sqrt
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import expit, logit, ndtr, ndtri

from nishimori._support.numbers import positive
from nishimori.errors import InputError
from nishimori_paper.theory._quadrature import REACH, Array, composite, expected_excess, normal, slope_at_zero, subdivide

# With more panels per unit a quadrature would take seconds. This is enough for a σ* as steep as a logistic function of 100z.
_MOST_PANELS = 64.0


class Averages(NamedTuple):
    """Mean of σ* over a Gaussian, with its first and second derivative in the Gaussian's mean."""

    value: Array
    slope: Array
    curvature: Array


class Atom(NamedTuple):
    """An interval of arguments, from ``low`` to ``high``, on which σ* has the constant ``value``."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Teacher(ABC):
    """Base class of all teachers. A subclass must define `probability`; the rest is optional.

    Parameters
    ----------
    temperature : float
        T*: the larger it is, the noisier are the labels.
    rho : float
        ρ = |w*|²/d. The labels depend only on √ρ/T*; the overlap m of a trained classifier is proportional to √ρ.

    Notes
    -----
    `probability` takes and returns arrays. It must be symmetric, σ*(−z) = 1 − σ*(z), and have a positive mean slope. A subclass
    may set

    - ``breaks``: arguments at which σ* jumps or has a kink, so that quadratures are split there;
    - ``atoms``: intervals on which σ* is constant, so that `density` leaves them out;
    - ``log_concave = True`` if log σ* is concave; Bayesian inference at a wrong temperature requires it;

    and override `averages`, `inverse` and `derivative` with closed forms. Make it a frozen dataclass, as all teachers are. Pass
    its own parameters by name, because T* and ρ come first.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from scipy.special import expit
    >>> from nishimori_paper.theory import Teacher, state_evolution
    >>> @dataclass(frozen=True)
    ... class Noisy(Teacher):
    ...     flipped: float = 0.1
    ...
    ...     def probability(self, z):
    ...         return self.flipped + (1 - 2 * self.flipped) * expit(z)
    >>> round(state_evolution(Noisy(flipped=0.2), alpha=2.0, penalty=0.1).error, 4)
    0.4703
    """

    temperature: float = 1.0
    rho: float = 1.0

    breaks: ClassVar[tuple[float, ...]] = ()
    atoms: ClassVar[tuple[Atom, ...]] = ()
    log_concave: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name in ("temperature", "rho"):
            object.__setattr__(self, name, positive(name, getattr(self, name)))  # the dataclass is frozen
        self._check_probability()

    def _check_probability(self) -> None:
        z = np.array([0.3, 1.0, 1.7, 4.0])
        name = f"The `probability` of {type(self).__name__}"
        try:
            above, below = (np.asarray(self.probability(field), dtype=np.float64) for field in (z, -z))
        except (TypeError, ValueError) as error:
            must = "take an array and return one, as NumPy's functions do"
            raise InputError(name, must, got=f"the error: {error}") from error
        if above.shape != z.shape or not ((above >= 0) & (above <= 1) & (below >= 0) & (below <= 1)).all():
            raise InputError(name, "return a number from 0 to 1 for each z", got=f"{above} at {z} and {below} at {-z}")
        if not np.allclose(above + below, 1.0, atol=1e-9):
            raise InputError(name, "be symmetric, σ*(-z) = 1 - σ*(z)", got=f"{above} at {z} and {below} at {-z}")

    @property
    def signal(self) -> float:
        """κ = √ρ/T*, so that P(y = +1) = σ*(κg) with a standard normal g."""
        return sqrt(self.rho) / self.temperature

    @abstractmethod
    def probability(self, z: Array) -> Array:
        """σ*(z), the probability of the label +1, for an array of z = w*·x / T*."""

    def averages(self, mean: Array, variance: float) -> Averages:
        """E σ*(mean + √variance ξ) over a standard normal ξ, with two derivatives in ``mean``."""
        return self._quadrature(np.asarray(mean, dtype=np.float64), sqrt(variance), self._panels)

    def _quadrature(self, mean: Array, width: float, panels: float) -> Averages:
        """`averages` with ``panels`` panels per unit of σ*'s argument, but at least one per two standard deviations."""
        mean = mean[..., None]
        cuts = np.clip((np.sort(np.array(self.breaks, dtype=np.float64)) - mean) / width, -REACH, REACH)
        outer = np.full_like(mean, REACH)
        edges = subdivide(np.concatenate([-outer, cuts, outer], axis=-1), ceil(REACH * max(1.0, 2 * panels * width)))
        xi, weight = composite(edges)
        weight = weight * normal(xi) * self.probability(mean + width * xi)
        return Averages(weight.sum(-1), (weight * xi).sum(-1) / width, (weight * (xi * xi - 1)).sum(-1) / width**2)

    @cached_property
    def _panels(self) -> float:
        """Panels per unit that σ* needs: doubled until averages over a wide and a narrow Gaussian no longer change."""
        mean = np.linspace(-4.0, 4.0, 33)
        panels = 0.5
        coarse = [self._quadrature(mean, width, panels).value for width in (0.1, 1.0)]
        while panels <= _MOST_PANELS:
            fine = [self._quadrature(mean, width, 2 * panels).value for width in (0.1, 1.0)]
            if np.abs(np.subtract(fine, coarse)).max() < 1e-13:
                return panels
            panels, coarse = 2 * panels, fine
        raise InputError(
            f"The `probability` of {type(self).__name__} changes too abruptly for quadrature. If it has jumps or kinks, set "
            "`breaks` to their positions. If it is very steep, override `averages`, or use a lower `temperature` instead."
        )

    def inverse(self, p: Array) -> Array:
        """The argument at which σ* is ``p``, by bisection."""
        p = np.asarray(p, dtype=np.float64)
        low, high = np.full(p.shape, -1.0), np.full(p.shape, 1.0)
        for _ in range(60):  # up to ±1e18
            low = np.where(self.probability(low) > p, 2 * low, low)
            high = np.where(self.probability(high) < p, 2 * high, high)
        for _ in range(120):
            middle = (low + high) / 2
            above = self.probability(middle) > p
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        return np.asarray((low + high) / 2)

    def derivative(self, z: Array) -> Array:
        """dσ*/dz, by differences of fourth order."""
        slope: Array = slope_at_zero(lambda h: self.probability(z + h))
        return slope


@dataclass(frozen=True)
class Logit(Teacher):
    """σ*(z) = 1/(1 + e^-z): the model that logistic regression assumes."""

    log_concave: ClassVar[bool] = True

    def probability(self, z: Array) -> Array:
        return np.asarray(expit(z))

    def averages(self, mean: Array, variance: float) -> Averages:
        mean = np.asarray(mean, dtype=np.float64)[..., None]
        width = sqrt(variance)
        # The nearest pole of σ(mean + width ξ) is π/width away from the real line, that of the logistic density π. So the
        # trapezoid rules have an error of e^-39 with these steps.
        if width < 6:
            step = min(0.25, 0.5 / width)
            xi = step * np.arange(-ceil((REACH + width) / step), ceil((REACH + width) / step) + 1)
            weight = step * normal(xi)
            p = expit(mean + width * xi)
            slope = p * (1 - p)
            return Averages(p @ weight, slope @ weight, (slope * (1 - 2 * p)) @ weight)
        # y = sign(z + noise) with logistic noise: integrate over the Gaussian in closed form, and over the noise numerically.
        noise = 0.5 * np.arange(-90, 91)
        weight = 0.5 * expit(noise) * expit(-noise)
        x = (mean + noise) / width
        density = normal(x) / width
        return Averages(ndtr(x) @ weight, density @ weight, (-x * density / width) @ weight)

    def inverse(self, p: Array) -> Array:
        return np.asarray(logit(p))

    def derivative(self, z: Array) -> Array:
        return np.asarray(expit(z) * expit(-z))


@dataclass(frozen=True)
class Affine(Teacher):
    """σ*(z) = (1 + z)/2 for |z| < 1, and 0 or 1 outside."""

    breaks: ClassVar[tuple[float, ...]] = (-1.0, 1.0)
    atoms: ClassVar[tuple[Atom, ...]] = (Atom(0.0, -inf, -1.0), Atom(1.0, 1.0, inf))
    log_concave: ClassVar[bool] = True

    def probability(self, z: Array) -> Array:
        return np.clip((1 + np.asarray(z, dtype=np.float64)) / 2, 0.0, 1.0)

    def averages(self, mean: Array, variance: float) -> Averages:
        mean = np.asarray(mean, dtype=np.float64)
        width = sqrt(variance)
        above, below = (mean + 1) / width, (mean - 1) / width
        return Averages(
            width / 2 * (expected_excess(above) - expected_excess(below)),
            (ndtr(above) - ndtr(below)) / 2,
            (normal(above) - normal(below)) / (2 * width),
        )

    def inverse(self, p: Array) -> Array:
        return np.asarray(2 * np.asarray(p, dtype=np.float64) - 1)

    def derivative(self, z: Array) -> Array:
        return np.where(np.abs(z) < 1, 0.5, 0.0)


@dataclass(frozen=True)
class Constant(Teacher):
    """σ*(z) = 1/2 for |z| < 1, and 0 or 1 outside: samples near the boundary have random labels."""

    breaks: ClassVar[tuple[float, ...]] = (-1.0, 1.0)
    atoms: ClassVar[tuple[Atom, ...]] = (Atom(0.0, -inf, -1.0), Atom(0.5, -1.0, 1.0), Atom(1.0, 1.0, inf))

    def probability(self, z: Array) -> Array:
        z = np.asarray(z, dtype=np.float64)
        return np.where(z > 1, 1.0, np.where(z < -1, 0.0, 0.5))

    def averages(self, mean: Array, variance: float) -> Averages:
        mean = np.asarray(mean, dtype=np.float64)
        width = sqrt(variance)
        above, below = (mean + 1) / width, (mean - 1) / width
        at_above, at_below = normal(above), normal(below)
        return Averages(
            (ndtr(above) + ndtr(below)) / 2,
            (at_above + at_below) / (2 * width),
            -(above * at_above + below * at_below) / (2 * variance),
        )


@dataclass(frozen=True)
class Probit(Teacher):
    """σ*(z) = Φ(z), the normal distribution function."""

    log_concave: ClassVar[bool] = True

    def probability(self, z: Array) -> Array:
        return np.asarray(ndtr(z))

    def averages(self, mean: Array, variance: float) -> Averages:
        spread = sqrt(1 + variance)
        x = np.asarray(mean, dtype=np.float64) / spread
        density = normal(x) / spread
        return Averages(np.asarray(ndtr(x)), density, -x * density / spread)

    def inverse(self, p: Array) -> Array:
        return np.asarray(ndtri(p))

    def derivative(self, z: Array) -> Array:
        return normal(z)


TEACHERS: dict[str, type[Teacher]] = {"logit": Logit, "affine": Affine, "constant": Constant, "probit": Probit}


def as_teacher(teacher: Teacher | str) -> Teacher:
    """``teacher`` itself, or the teacher of that name with T* = ρ = 1."""
    if isinstance(teacher, Teacher):
        return teacher
    if isinstance(teacher, str) and teacher in TEACHERS:
        return TEACHERS[teacher]()
    raise InputError(
        "teacher",
        f"be one of {', '.join(TEACHERS)}, or an instance of a subclass of nishimori_paper.theory.Teacher",
        got=repr(teacher),
    )


def mean_slope(teacher: Teacher) -> float:
    """E dσ*/dg for the normalised score g of a new sample; a teacher is refused if it is not positive."""
    slope = teacher.signal * float(teacher.averages(np.zeros(1), teacher.signal**2).slope[0])
    if slope <= 1e-12:
        raise InputError(
            f"The `probability` of {type(teacher).__name__}",
            "have a positive mean slope, or there is nothing to learn",
            got=f"{slope:.2g} at temperature = {teacher.temperature:g} and rho = {teacher.rho:g}",
        )
    return slope


def averages_given_score(teacher: Teacher, s: Array, r: float, rest: float) -> Averages:
    """Averages of σ* given a classifier's normalised score s, of correlation r with the teacher's; ``rest`` is 1 − r²."""
    signal = teacher.signal
    return teacher.averages(signal * r * s, signal**2 * rest)
