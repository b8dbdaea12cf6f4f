"""Sums over each group of rows, whose groups have a β of their own, where a kernel makes them without a number per row.

Only the C kernel does, in float64. For all else `nishimori._sums.groups` scales the logits of each row.
"""

from typing import Literal

from nishimori._kernels import native
from nishimori._kernels.scores import is_read_in_c
from nishimori._rows.batch import Batch
from nishimori._support.arrays import HostArray

Method = Literal["ec", "ts"]
"""Whose gap is summed: that of expectation consistency, or of temperature scaling."""


def sums_groups(batch: Batch, betas: HostArray) -> bool:
    """Whether `group_totals` takes these rows, which need not be checked, at these β."""
    return is_read_in_c(batch.logits, float(betas.min()), float(betas.max()))


def group_totals(batch: Batch, codes: HostArray | None, betas: HostArray, method: Method, *, counts: bool) -> HostArray | None:
    """Six sums of each group, (6, groups), of rows that may have weight zero; None if there is something to check or to mask.

    They are the number of rows, Σw, Σw·gap, Σw·slope, Σu·variance and Σu·gap², as `nishimori._sums.groups.GroupSums` has them.
    Without ``codes``, the group of a row is its top class.
    """
    found, is_unusual = native.group_sums(batch.logits, batch.labels, batch.weights, codes, betas, method, counts=counts)
    return None if is_unusual else found.T
