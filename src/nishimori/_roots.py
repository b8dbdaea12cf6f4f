"""The root of an increasing function, with a receipt.

The search is a generator: it yields where it wants the function, receives a `Point`, and returns a `Root`. So several
searches can share each reading of the data; `drive` runs them side by side.
"""

from collections.abc import Callable, Generator, Hashable, Mapping
from dataclasses import dataclass
from math import copysign, exp, inf, isfinite
from typing import TypeVar

from nishimori.errors import NishimoriError, NotConvergedError

# The step is an estimate of the distance left. At 1e-10 in log β the temperature is right to ten digits, two more than
# promised, and the last evaluation is at the answer itself.
TOLERANCE = 1e-10

# Steps triple the digits once the root is near, bisection and doubling strides get there from anywhere.
LIMIT = 100

# exp(x) is a β, and beyond this its square overflows float64.
_FARTHEST = 340.0


@dataclass(frozen=True)
class Point:
    """What the search needs to know about the function at a point."""

    value: float
    slope: float
    curvature: float
    noise: float

    @property
    def step(self) -> float:
        """How far the root seems to be: Halley's step, or Newton's where the curvature misleads."""
        if self.slope <= 0:
            return copysign(inf, -self.value)
        newton = -self.value / self.slope
        bend = 1 + 0.5 * newton * self.curvature / self.slope
        return newton / bend if 0.5 < bend < 2 else newton


@dataclass(frozen=True)
class Root:
    """Where the search ended, and the function there."""

    x: float
    point: Point
    passes: int

    @property
    def residual(self) -> float:
        """The function's value at the root."""
        return self.point.value


def increasing_root(start: float) -> Generator[float, Point, Root]:
    """Halley's method inside a bracket, for a function known to change sign."""
    low, high = -inf, inf
    x, stride = start, 1.0
    for passes in range(1, LIMIT + 1):
        point = yield x
        step = point.step
        if abs(point.value) <= point.noise or abs(step) <= TOLERANCE:
            return Root(x, point, passes)
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
                return Root(x, point, passes)
            x = middle
    raise NotConvergedError(
        f"The search did not converge in {LIMIT} passes: residual {point.value:.3g} at T = {exp(-x):.6g}. "
        "Check the scale of the logits."
    )


def root_of(function: Callable[[float], Point], start: float) -> Root:
    """The root of one increasing function."""
    found = drive({None: increasing_root(start)}, lambda wanted: {None: function(wanted[None])})[None]
    if isinstance(found, NishimoriError):
        raise found
    return found


Search = Generator[float, Point, Root]
K = TypeVar("K", bound=Hashable)


def drive(
    searches: Mapping[K, Search], evaluate: Callable[[Mapping[K, float]], Mapping[K, Point | NishimoriError]]
) -> dict[K, Root | NishimoriError]:
    """Run searches side by side; ``evaluate`` answers all that are still going on at once.

    A search ends with its root, with the error that it raised, or with the one that ``evaluate`` gave for it.
    """
    wanted = {key: next(search) for key, search in searches.items()}
    found: dict[K, Root | NishimoriError] = {}
    while wanted:
        points = evaluate(wanted)
        for key in tuple(wanted):
            point = points[key]
            if isinstance(point, NishimoriError):
                found[key] = point
                del wanted[key]
                continue
            try:
                wanted[key] = searches[key].send(point)
            except StopIteration as end:
                found[key] = end.value
            except NishimoriError as error:
                found[key] = error.with_traceback(None)  # which would keep the data alive
            if key in found:
                del wanted[key]
    return found
