"""The memory of L-BFGS: the last steps of a search, and how much the gradient changed along each.

Between them they know the curvature along the steps that were taken; an approximate curvature is used for all other directions.
A penalty that changes, changes the gradient along a known step by a known amount, so that the memory of one search serves the
next (J. Nocedal and S. Wright, Numerical Optimization, Springer 2006, section 7.2).
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from nishimori._support.arrays import HostArray

# More steps than these hardly make a search shorter, and each takes eight bytes per parameter.
_MOST = 20

# Rounding decides about a curvature that is this small beside the lengths of the step and of the change of the gradient.
_STRAIGHT = 1e-6


@dataclass
class StepMemory:
    """The last steps and changes, as float32: they only say where to look next."""

    precisions: HostArray
    steps: list[HostArray] = field(default_factory=list)
    changes: list[HostArray] = field(default_factory=list)

    def set_penalties(self, precisions: HostArray) -> None:
        """Count with other penalties from now on."""
        difference = (precisions - self.precisions).astype(np.float32)
        if difference.any():
            for place, step in enumerate(self.steps):  # one after the other, so that little is in memory twice
                self.changes[place] += difference * step
        self.precisions = precisions

    def add(self, step: HostArray, change: HostArray) -> None:
        """Keep a step, and forget the oldest if there are too many."""
        if not step @ change > _STRAIGHT * np.linalg.norm(step) * np.linalg.norm(change):
            return
        self.steps.append(step.astype(np.float32))
        self.changes.append(change.astype(np.float32))
        del self.steps[:-_MOST], self.changes[:-_MOST]

    def step_from(self, gradient: HostArray, solve: Callable[[HostArray], HostArray]) -> HostArray:
        """The next step; ``solve`` divides a gradient by the approximate curvature."""
        left, shares = gradient.astype(np.float32), []
        pairs = [(step, change, float(step @ change)) for step, change in zip(self.steps, self.changes, strict=True)]
        for step, change, curvature in reversed(pairs):
            shares.append(float(step @ left) / curvature)
            left -= np.float32(shares[-1]) * change
        ascent = solve(left)
        for (step, change, curvature), share in zip(pairs, reversed(shares), strict=True):
            ascent += np.float32(share - float(change @ ascent) / curvature) * step
        return -ascent.astype(np.float64)
