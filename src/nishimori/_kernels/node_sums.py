"""What a kernel gives for a sketch: sums over rows at every β of a grid, without a number per row."""

from dataclasses import dataclass

import numpy as np

from nishimori._support.arrays import HostArray

FARTHEST = 4
"""By how many nodes two gaps are apart at most, where their products are summed."""


@dataclass(frozen=True)
class NodeSums:
    """Sums of some rows; ``+`` pools two sets of rows.

    With the confidence c of a row, its correctness r, the mean drop m, the drop d of the true class, and the gaps g = c - r and
    h = m - d:

    Attributes
    ----------
    counts : (7,)
        How many rows and right answers; Σw and Σw² of right and of wrong answers (Σw·r, Σw(1-r), Σw²·r, Σw²(1-r)); Σw·d.
    gaps : (ends and nodes, 13)
        In increasing order of β, from 0 to ∞. Σw·c of wrong answers and Σw(1-c) of right ones; minus the slope of Σw·c, and its
        curvature; Σw·m, its slope and curvature; Σw·g², Σw·g·h, Σw·h², and the same with w². Slopes are in β.
    metrics : (nodes, 4)
        Σw·c, Σw·log Z with Z counted from the top class, Brier score, and half of its slope.
    crossed : (nodes, 2, 8)
        Σw·g·h and Σw²·g·h with h some nodes higher: -4 to -1 and 1 to 4; 0 where there is none.
    bins : (nodes, bins, 5)
        Σw, Σw·c, Σw·r, Σw² and Σw²·g².
    """

    counts: HostArray
    gaps: HostArray
    metrics: HostArray
    crossed: HostArray
    bins: HostArray

    @classmethod
    def zeros(cls, n_nodes: int, n_bins: int) -> "NodeSums":
        """The sums of no rows."""
        shapes = (7,), (n_nodes + 2, 13), (n_nodes, 4), (n_nodes, 2, 2 * FARTHEST), (n_nodes, n_bins, 5)
        return cls(*map(np.zeros, shapes))

    def __add__(self, other: "NodeSums") -> "NodeSums":
        return NodeSums(*(mine + theirs for mine, theirs in zip(self.arrays(), other.arrays(), strict=True)))

    def arrays(self) -> tuple[HostArray, ...]:
        """The arrays in the order of their names."""
        return self.counts, self.gaps, self.metrics, self.crossed, self.bins
