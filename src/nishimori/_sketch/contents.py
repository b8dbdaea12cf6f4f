"""What a sketch keeps of its rows: sums at each node of its grid, and nothing else.

At both ends (β = 0 and β = ∞) and at each node, for each observable: the gap, its rounding, slope and curvature, and
products of gaps with weights w and w². At each node: products of the gaps of two observables of which one is at this node and
the other at a node nearby, metrics with their slopes, and sums per bin of confidence. Where rows belong to clusters, the square
of the sum of a cluster takes the place of the squares of its rows, which are not independent.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import combinations, combinations_with_replacement

import numpy as np

from nishimori._kernels.sums import FARTHEST, NodeSums
from nishimori._rows.rows import Sum
from nishimori._sums.census import Census
from nishimori._support.arrays import HostArray

N_BINS = 15
"""Bins of confidence at each node, of equal width."""

ENDS = 2
"""Arrays begin with rows for both ends, β = ∞ and β = 0; rows for the nodes follow."""

OFFSETS = (*range(-FARTHEST, 0), *range(1, FARTHEST + 1))
"""Offsets in nodes, second observable minus first, for which products of gaps are kept."""


_COUNTED = tuple(field.name for field in fields(Census) if field.name != "kernels")
"""The counts of a census, in the order of files."""


@dataclass(frozen=True)
class Contents(Sum):
    """Sums of some rows; ``+`` pools two sets of rows.

    Attributes
    ----------
    counts : (12,)
        The fields of a `Census`, and the number of logits, which says how many classes there are.
    weights : (3,)
        Σw, Σw² and the number of clusters; without clusters each row is one.
    observed : (observables,)
        Σw·O at the true class, counted from the top class.
    moments : (observables, 4, ends and nodes)
        Σw times gap, size, slope and curvature. At the ends only gap and size are right, which is what they are for.
    products : (pairs of observables, 2, ends and nodes)
        Σw·g·h and Σw²·g·h of the gaps g and h.
    crossed : (pairs of different observables, 2, offsets, nodes)
        The same with g at a node and h at the one that is offset nodes higher; 0 where there is none. NaN if not kept,
        as in files of formats 1 and 2.
    curves : (3, 2, nodes)
        Σw times confidence, Brier score and negative log-likelihood, and the derivatives of these in β.
    bins : (5, nodes, bins)
        Σw, Σw·confidence, Σw·correct, Σw² and Σw²(confidence - correct)².
    """

    counts: HostArray
    weights: HostArray
    observed: HostArray
    moments: HostArray
    products: HostArray
    crossed: HostArray
    curves: HostArray
    bins: HostArray

    @classmethod
    def empty(cls, n_observables: int, n_nodes: int) -> "Contents":
        """The sums of no rows."""
        return cls(*(np.zeros(shape) for shape in cls.shapes(n_observables, n_nodes).values()))

    @classmethod
    def shapes(cls, n_observables: int, n_nodes: int) -> dict[str, tuple[int, ...]]:
        """The shape of each array."""
        return {
            "counts": (len(_COUNTED) + 1,),
            "weights": (3,),
            "observed": (n_observables,),
            "moments": (n_observables, 4, n_nodes + 2),
            "products": (len(pairs(n_observables)), 2, n_nodes + 2),
            "crossed": (len(different_pairs(n_observables)), 2, len(OFFSETS), n_nodes),
            "curves": (3, 2, n_nodes),
            "bins": (5, n_nodes, N_BINS),
        }

    @classmethod
    def from_node_sums(cls, sums: NodeSums, which: Sequence[int], betas: Sequence[float], n_classes: int) -> "Contents":
        """The contents of rows without masks; ``which`` are the observables: 0 is the confidence and 1 the logit."""
        n_rows, n_right, *answers, drops = sums.counts.tolist()
        right, wrong, right_squares, wrong_squares = answers
        of_wrong, of_right, slope, bend, first, second, third, *products = sums.gaps.T
        confidence, log_partition, brier, half_slope = sums.metrics.T
        weight, squares, chosen = right + wrong, right_squares + wrong_squares, list(which)
        moments = [
            [of_wrong - of_right, of_wrong + of_right, -slope, bend],
            [first - drops, -first - drops, second, third],
        ]
        curves = [
            [confidence, -slope[1:-1]],
            [brier, 2 * half_slope],
            [log_partition - np.array(betas) * drops, first[1:-1] - drops],
        ]
        of_pairs = dict(zip(pairs(2), np.stack([products[:3], products[3:]], axis=1), strict=True))
        crossed = sums.crossed.transpose(1, 2, 0)
        in_order = {(0, 1): crossed, (1, 0): _exchange(crossed)}
        shape = cls.shapes(len(which), len(betas))["crossed"]
        return cls(
            counts=np.array([n_rows, n_right, 0, 0, 0, 0, *answers, weight / n_classes, n_rows * n_classes]),
            weights=np.array([weight, squares, n_rows]),
            observed=np.array([-wrong, drops])[chosen],
            moments=np.array(moments)[chosen],
            products=np.array([of_pairs[min(which[i], which[j]), max(which[i], which[j])] for i, j in pairs(len(which))]),
            crossed=np.array([in_order[which[i], which[j]] for i, j in different_pairs(len(which))]).reshape(shape),
            curves=np.array(curves),
            bins=sums.bins.transpose(2, 0, 1).copy(),
        )

    def __add__(self, other: "Contents") -> "Contents":
        with np.errstate(invalid="ignore"):  # infinite losses of masked true classes
            return super().__add__(other)

    @property
    def n_rows(self) -> int:
        return int(self.counts[0])

    @property
    def n_classes(self) -> int:
        """The number of logits per row."""
        return round(float(self.counts[-1] / self.counts[0]))

    @property
    def census(self) -> Census:
        named = zip(_COUNTED, self.counts[:-1].tolist(), strict=True)
        counted = {name: round(value) if name.startswith("n_") else value for name, value in named}
        return Census(**counted, kernels=frozenset({"sketch"}))


def pairs(n_observables: int) -> list[tuple[int, int]]:
    """The pairs of observables with stored products of gaps, in order."""
    return list(combinations_with_replacement(range(n_observables), 2))


def different_pairs(n_observables: int) -> list[tuple[int, int]]:
    """The pairs of two different observables, in order."""
    return list(combinations(range(n_observables), 2))


def counts_of(census: Census, n_classes: int) -> HostArray:
    """The counts of some rows as one array."""
    return np.array([*(getattr(census, name) for name in _COUNTED), census.n_rows * n_classes], dtype=float)


def _exchange(crossed: HostArray) -> HostArray:
    """Products (2, offsets, nodes) of gaps at different nodes with the second observable first."""
    shifted = [np.roll(crossed[:, OFFSETS.index(-offset)], -offset, axis=-1) for offset in OFFSETS]
    return np.stack(shifted, axis=1)
