"""Rows in an array of any library, which is in memory or on a device."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from nishimori import _array
from nishimori._array import HostArray
from nishimori._inputs import Batch
from nishimori._kernels import kernel_for
from nishimori._scores import Scores
from nishimori._sources._source import Source

# A kernel that needs no number per row is given more rows at a time, to hide the cost of calls.
_FUSED_ROWS = 2**16


class ArraySource(Source):
    """Rows in an array of any library. The first reading checks the values of each block; later ones do not.

    Where these are part of other rows, errors count from ``first_row``, and the kernel is chosen for ``n_rows_in_all``.
    """

    def __init__(
        self,
        scores: Scores,
        labels: HostArray,
        weights: HostArray,
        first_row: int = 0,
        n_rows_in_all: int | None = None,
    ) -> None:
        self.scores = replace(scores, array=_array.shared_with_numpy(scores.array))
        self.kernel = kernel_for(self.scores.array, (n_rows_in_all or scores.n_samples) * scores.n_classes)
        self.labels = labels
        self.weights = weights
        self._first_row = first_row
        self._masked: dict[int, bool | None] = {}  # by the first row of a block that was checked

    @property
    def n_classes(self) -> int:
        return self.scores.n_classes

    @property
    def n_rows(self) -> int:
        return self.scores.n_samples

    def __iter__(self) -> Iterator[Batch]:
        """Blocks of a size that suits the device, so that beyond the caller's array only one of them is in memory."""
        for rows in self._blocks():
            labels, weights, kept = self.labels[rows], self.weights[rows], None
            if not weights.all():  # a weight of zero is zero copies: the row is not there
                (kept,) = np.nonzero(weights)
                if not len(kept):
                    continue
                labels, weights = labels[kept], weights[kept]
            values = self.scores.stored(rows, kept)
            if rows.start not in self._masked:
                first = self._first_row + rows.start
                numbers = range(first, self._first_row + rows.stop) if kept is None else first + kept
                self._masked[rows.start] = self.scores.check(values, numbers)
            logits, given = self.scores.as_logits(values)
            true, heavy = _array.beside(labels, logits), _array.beside(weights, logits)
            yield Batch(logits, true, heavy, given, self._masked[rows.start], self.scores.rounding, self.kernel)

    def _blocks(self) -> Iterator[slice]:
        return self.scores.blocks(_FUSED_ROWS if self.kernel.fused is not None else None)

    def trust(self, masked: bool | None) -> None:
        """Do not check values, because an earlier reading did; ``masked`` says whether blocks have masks (None: look)."""
        self._masked = dict.fromkeys((rows.start for rows in self._blocks()), masked)

    def sample(self, size: int) -> "ArraySource | None":
        """A random ``size`` of the rows, the same ones each time; None if all their weights are zero."""
        # One at random out of each n/size rows: every n-th would alias with periodic data, and drawing them all from all rows
        # would take longer than to compute with them.
        index = ((np.arange(size) + np.random.default_rng(0).random(size)) * (self.n_rows / size)).astype(np.int64)
        if not self.weights[index].any():
            return None
        return ArraySource(self.scores.sample(index), self.labels[index], self.weights[index])
