"""From the sums that a kernel gives at every node to what a sketch holds."""

from collections.abc import Sequence

import numpy as np

from nishimori._kernels.node_sums import NodeSums
from nishimori._sums.census import Census
from nishimori._sums.sketch.contents import Contents, counts_of, different_pairs, pairs
from nishimori._sums.sketch.grid import Grid


def contents_of(sums: NodeSums, kept: Sequence[int], grid: Grid, n_classes: int) -> Contents:
    """The contents that rows without masks have; ``kept`` are the observables: 0 is the confidence, 1 the logit."""
    n_rows, n_right, right, wrong, right_squares, wrong_squares, drops = sums.counts.tolist()
    of_wrong, of_right, slope, bend, first, second, third, *products = sums.gaps.T
    confidence, log_partition, brier, half_slope = sums.metrics.T
    weight = right + wrong
    moments = [
        [of_wrong - of_right, of_wrong + of_right, -slope, bend],
        [first - drops, -first - drops, second, third],
    ]
    known = pairs(2)
    with_weights = np.stack([products[: len(known)], products[len(known) :]], axis=1)
    chosen = [known.index((kept[i], kept[j])) for i, j in pairs(len(kept))]
    curves = [
        [confidence, -slope[1:-1]],
        [brier, 2 * half_slope],
        [log_partition - np.array(grid.betas) * drops, first[1:-1] - drops],
    ]
    census = Census(
        n_rows=int(n_rows),
        n_right=int(n_right),
        n_zeros=0,
        n_masked=0,
        n_at_masks=0,
        n_at_zeros=0,
        right=right,
        wrong=wrong,
        right_squares=right_squares,
        wrong_squares=wrong_squares,
        chance=weight / n_classes,
        kernels=frozenset(),
    )
    return Contents(
        counts=counts_of(census, n_classes),
        weights=np.array([weight, right_squares + wrong_squares, n_rows]),
        observed=np.array([-wrong, drops])[list(kept)],
        moments=np.array(moments)[list(kept)],
        products=with_weights[chosen],
        crossed=sums.crossed.transpose(1, 2, 0)[None][: len(different_pairs(len(kept)))].copy(),
        curves=np.array(curves),
        bins=sums.bins.transpose(2, 0, 1).copy(),
    )
