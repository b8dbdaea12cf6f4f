"""What a batch asks of its kernel; answers are values, and nothing is written into the batch.

`row_sums` gives sums over the classes of each row, which `Predictions` are made of, and `block_sums` those over rows too, where
the kernel of the batch can do that. Both also return what the kernel had to find on its way, such as which answers are right,
so that a pass need not look for it again.

`node_sums` gives all that a sketch keeps of rows, where the kernel can do that.
"""

from collections.abc import Sequence

from nishimori._kernels.block import BlockSums, PowerSums
from nishimori._kernels.kernel import LEAST_SINGLE, Kernel, computes_in_c, kernel_for
from nishimori._kernels.node_sums import NodeSums
from nishimori._rows.batch import Batch
from nishimori._support.arrays import Array


def kernel_of(batch: Batch) -> Kernel:
    """The kernel for the rows of a batch."""
    return kernel_for(batch.logits)


def row_sums(batch: Batch, betas: Sequence[float], order: int, top_n: int = 1, *, exact: bool = True) -> PowerSums:
    """Σ d^j exp(βd) over the classes outside the ``top_n`` largest, for j from 0 to ``order``.

    With ``exact`` they are computed in float64, else in the precision of the logits. Those of `stored` logits always are.
    """
    listed = sums_over_columns(batch, betas, order, top_n, exact=exact)
    if batch.has_all_classes:
        return listed
    return listed._replace(sums=listed.sums + batch.other_sums(listed.peak, betas, order))


def sums_over_columns(batch: Batch, betas: Sequence[float], order: int, top_n: int = 1, *, exact: bool = True) -> PowerSums:
    """The `row_sums` over the classes that have a column of their own, and no others."""
    kernel = kernel_of(batch)
    if batch.stored is not None and top_n == 1 and kernel.takes_half(batch.stored):
        logits = batch.stored
    else:
        logits = batch.double if _in_double(betas, exact) else batch.logits
    return kernel.power_sums(logits, betas, order, top_n)


def reads_stored(batch: Batch) -> bool:
    """Whether sums come from logits of half precision as they are stored: in float64, and for every β."""
    return batch.stored is not None and kernel_of(batch).takes_half(batch.stored)


def block_sums(batch: Batch, beta_ec: float, beta_ts: float, *, exact: bool) -> BlockSums | None:
    """The sums of a pair of observables, where the kernel can do without a number per row; see `pair_sums`."""
    if not is_plain(batch):
        return None
    exact = _in_double((beta_ec, beta_ts), exact)
    return kernel_of(batch).block_sums(as_stored(batch), batch.labels, batch.weights, beta_ec, beta_ts, exact=exact)


def takes_unchecked(batch: Batch) -> bool:
    """Whether `block_sums` reads all of these rows at once, and notices what a check would refuse."""
    return kernel_of(batch).takes_unchecked(batch.logits)


def as_stored(batch: Batch) -> Array:
    """The logits that sums are computed from."""
    return batch.stored if reads_stored(batch) else batch.logits


def is_plain(batch: Batch) -> bool:
    """Whether logits and labels say all: the order of classes is that of the logits, and each class has a column."""
    return batch.given is None and batch.predicted is None and batch.has_all_classes


def _in_double(betas: Sequence[float], exact: bool) -> bool:
    return exact or not all(LEAST_SINGLE < beta < 1 / LEAST_SINGLE for beta in betas)


def gives_node_sums(batch: Batch) -> bool:
    """Whether `node_sums` can read these rows, if no logit and no label has to be checked first."""
    kernel = kernel_of(batch)
    if kernel.node_sums is None or not is_plain(batch):
        return False
    # On the host, half precision is counted; see `half`.
    return kernel.name == "triton" or (computes_in_c(batch.logits) and not reads_stored(batch))


def node_sums(batch: Batch, nodes: Sequence[float], beyond: Sequence[float], n_bins: int, bin_scale: float) -> NodeSums | None:
    """What a sketch keeps of rows, where the kernel can do without a number per row and node.

    None if it cannot, or if it has found a number that has to be masked or checked. Rows of weight zero may hold anything.
    """
    own = kernel_of(batch).node_sums
    if own is None or not gives_node_sums(batch) or batch.masked:
        return None
    return own(as_stored(batch), batch.labels, batch.weights, nodes, beyond, n_bins, bin_scale)
