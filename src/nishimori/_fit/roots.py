"""Find the root of an increasing function, and record the search.

The search is a generator: it yields where it wants the function, receives a `Point`, and returns a `Root`. So several
searches can share each pass over the data; `drive` runs them side by side.
"""

from collections.abc import Callable, Generator, Hashable, Mapping
from dataclasses import dataclass
from math import cbrt, copysign, exp, inf, isfinite, sqrt
from typing import TypeVar

from nishimori.errors import NishimoriError, NotConvergedError

# The step is an estimate of the distance left. At 1e-10 in log β the temperature is right to ten digits, two more than
# promised, and the last evaluation is at the answer itself.
TOLERANCE = 1e-10

# The derivatives at a point say nothing about what lies farther away.
_NEAR = 0.5

# Steps triple the digits once the root is near, bisection and doubling strides get there from anywhere.
LIMIT = 100

# exp(x) is a β, and beyond this its square overflows float64.
_FARTHEST = 340.0


@dataclass(frozen=True)
class Point:
    """The function at a point: its value, four derivatives, and the size of rounding errors."""

    value: float
    slope: float
    curvature: float
    noise: float
    jerk: float = 0.0
    snap: float = 0.0

    @property
    def step(self) -> float:
        """The estimated step to the root: Halley's, or Newton's if the curvature is misleading."""
        if self.slope <= 0:
            return copysign(inf, -self.value)
        newton = -self.value / self.slope
        bend = 1 + 0.5 * newton * self.curvature / self.slope
        return newton / bend if 0.5 < bend < 2 else newton

    def last_step(self, precision: float) -> float | None:
        """The step to the root, accurate to ``precision``, or None if the root is too far away."""
        step = self.step
        if not abs(step) <= _NEAR:
            return None
        for _ in range(3):  # Newton's method for the polynomial that the derivatives give
            slope = self.slope_after(step)
            if not slope > 0:
                return None
            step -= self.after(step) / slope
        return step if self.remainder(step) <= precision else None

    def after(self, step: float) -> float:
        """The value that this point predicts a step away."""
        return self.value + step * (self.slope + step * (self.curvature / 2 + step * (self.jerk / 6 + step * self.snap / 24)))

    def slope_after(self, step: float) -> float:
        """The slope that this point predicts a step away."""
        return self.slope + step * (self.curvature + step * (self.jerk / 2 + step * self.snap / 6))

    def bend(self, step: float) -> float:
        """The relative change of the slope over a step."""
        # The scale on which the function bends follows from the derivatives that are known. That the last of them happens to
        # change little does not mean that the next one does.
        curvature, jerk, snap = (abs(derivative / self.slope) for derivative in (self.curvature, self.jerk, self.snap))
        return max(1.0, curvature, sqrt(jerk), cbrt(snap)) * abs(step)

    def remainder(self, step: float) -> float:
        """Six times the expected effect of the fifth derivative, f⁽⁵⁾·step⁵/5!."""
        return abs(step) * self.bend(step) ** 4 / 20


@dataclass(frozen=True)
class Root:
    """The end of the search, and the last point at which the function was evaluated.

    ``residual`` is the function's value at the root: measured there, or predicted from a point nearby.
    """

    x: float
    point: Point
    passes: int
    residual: float
    is_measured: bool


def increasing_root(start: float, *, precision: float = 0.0) -> Generator[float, Point, Root]:
    """Halley's method inside a bracket, for a function that changes sign.

    The last evaluation is at the root itself. With ``precision`` it may be a step away, if the derivatives there give the root
    to this distance.
    """
    low, high = -inf, inf
    x, stride = start, 1.0
    for passes in range(1, LIMIT + 1):
        point = yield x
        step = point.step
        if abs(point.value) <= point.noise or abs(step) <= TOLERANCE:
            return Root(x, point, passes, point.value, is_measured=True)
        if precision and (last := point.last_step(precision)) is not None:
            return Root(x + last, point, passes, point.slope * point.remainder(last), is_measured=False)
        low, high = (x, high) if point.value < 0 else (low, x)
        if not (isfinite(low) and isfinite(high)):
            # Where the function is flat a step leaps too far; walk in doubling strides until the root is bracketed.
            if abs(step) > stride:
                step = copysign(stride, step)
                stride *= 2
            x = max(-_FARTHEST, min(x + step, _FARTHEST))
        elif low < x + step < high:
            x += step
        else:
            middle = low + (high - low) / 2
            if middle in (low, high):  # neighbouring numbers: there is nothing in between
                return Root(x, point, passes, point.value, is_measured=True)
            x = middle
    raise NotConvergedError(
        f"The search did not converge in {LIMIT} passes: residual {point.value:.3g} at T = {exp(-x):.6g}. "
        "Check the scale of the logits."
    )


RootSearch = Generator[float, Point, Root]
K = TypeVar("K", bound=Hashable)


Roots = dict[K, Root | NishimoriError]


def drive(
    searches: Mapping[K, RootSearch], evaluate: Callable[[Mapping[K, float], Roots[K]], Mapping[K, Point | NishimoriError]]
) -> Roots[K]:
    """Run searches together; ``evaluate`` serves all open ones at once, and receives the roots found so far.

    A search ends with its root, with the error that it raised, or with the one that ``evaluate`` gave for it.
    """
    wanted = {key: next(search) for key, search in searches.items()}
    roots: Roots[K] = {}
    while wanted:
        points = evaluate(wanted, roots)
        for key in tuple(wanted):
            point = points[key]
            if isinstance(point, NishimoriError):
                roots[key] = point
                del wanted[key]
                continue
            try:
                wanted[key] = searches[key].send(point)
            except StopIteration as end:
                roots[key] = end.value
            except NishimoriError as error:
                roots[key] = error.with_traceback(None)  # which would keep the data alive
            if key in roots:
                del wanted[key]
    return roots
