"""Sums of CUDA tensors in Triton: the logits stay where they are, and a few numbers go to the host.

The kernels themselves are in `triton_kernels` and `triton_sums`; here are the functions that choose their sizes and launch
them.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch

from nishimori._kernels import triton_kernels, triton_sums
from nishimori._kernels.sums import FARTHEST, NodeSums, PowerSums, doublings
from nishimori._support.arrays import Array, HostArray

_UNCHECKED = (torch.float32, torch.bfloat16, torch.float16)

_FEW_CLASSES = 32
_N_BLOCK_SUMS = 46
# The sums of more β than this do not fit into the registers.
_LONGEST_CHAIN = 11

# Weights below this power of two are below all normal numbers, and those below the other one are nothing beside the top class.
_LEAST_WEIGHT, _LEAST_IN_SKETCH = -1020.0, -64.0

# A confidence that is so near to an edge, relative to its own size, that float32 may put it on the wrong side.
_NEAR_EDGE = 2e-6

# Rows that a program adds up, one per thread, and bins whose sums it makes at a time. One warp need not wait for others.
_ROWS_AT_ONCE, _BINS_AT_ONCE = 32, 16

# What is in memory at a time: rows with their scores, of 60 bytes each for 15 bins, and power sums at the nodes of a sketch.
_ROWS_OF_SCORES, _SUMS_OF_SKETCH = 2**21, 2**25

# Logits of rows near an edge that are copied. To read all rows again in float64 takes no memory.
_MOST_COPIED = 2**26

# From this many weights on, the rounding errors of the processor's exp2 average out.
_MANY_WEIGHTS = 2**18

# Sums of fewer weights are computed in float64 if they have to be exact, in hardly more time. Of others, some rows tell whether
# float32 is enough: fewer if they have many classes, whose errors average out in each row.
_FEW_WEIGHTS = 2**22
_TELLING, _TELLING_LEAST, _TELLING_WEIGHTS = 1024, 32, 2**20

# An error of a temperature that is small compared with 1e-8, which is promised.
_ENOUGH = 5e-9

# Float32 rounds the weight of a class by about this relative amount. Errors of different rows are independent.
_SINGLE = 2.0**-24

# Where the gap, its derivatives, and the sum of the squares of weight times slope are among the sums.
_EC_SUMS, _TS_SUMS = (0, 2, 3, 4, 34), (6, 8, 9, 10, 35)
_EC_SPREAD, _TS_SPREAD = 5, 11


def takes_unchecked(logits: Array) -> bool:
    """Whether `block_sums` can read these logits as they are, and counts what a check would refuse."""
    return logits.ndim == 2 and logits.dtype in _UNCHECKED and logits.stride(1) == 1


def takes_half(logits: Array) -> bool:
    """Whether `power_sums` can read these logits of half precision as they are."""
    return logits.ndim == 2 and logits.dtype in (torch.bfloat16, torch.float16) and logits.stride(1) == 1


def power_sums(logits: Array, betas: Sequence[float], order: int) -> PowerSums:
    """Σ d^j exp(βd) over the classes other than the top class of each row, for each β and for j from 0 to ``order``.

    Those of float32 logits are computed in float32, all others in float64.
    """
    logits = _with_rows(logits)
    if logits.dtype == torch.float32:
        return _power_sums(logits, betas, order, "accurate")
    tops = _row_tops(logits)
    sums = logits.new_empty((len(betas), order + 1, logits.shape[0]), dtype=torch.float64)
    ends = [i for i, beta in enumerate(betas) if not 0 < beta < math.inf]
    usual = [i for i in range(len(betas)) if i not in ends]
    _fill_chains(logits, tops, [betas[i] for i in usual], usual, _LEAST_WEIGHT, sums)
    if ends:
        sums[ends] = _power_sums(logits, [betas[i] for i in ends], order, "double").sums
    return PowerSums(tops.peak, tops.top, sums)


def _power_sums(logits: Array, betas: Sequence[float], order: int, mode: str) -> PowerSums:
    """Power sums with one pass for each β."""
    n = logits.shape[0]
    peak, top = logits.new_empty(n, dtype=torch.float64), logits.new_empty(n, dtype=torch.int64)
    sums = logits.new_empty((len(betas), order + 1, n), dtype=torch.float64)
    kernels, constants = (triton_kernels.power_sums_few, triton_kernels.power_sums_many), {"ORDER": order, "MODE": mode}
    for of_beta, beta in zip(sums, betas, strict=True):
        _launch(kernels, logits, (peak, top, of_beta, *_scale_and_rates(beta)), constants, tiles=_tiles(mode))
    return PowerSums(peak, top, sums)


class _RowTops(NamedTuple):
    """The top of each row: the largest logit, its first column, and how often it occurs.

    Also how many logits are -inf, and the sum of all.
    """

    peak: Array
    top: Array
    counts: Array

    @property
    def ties(self) -> Array:
        return self.counts[0]

    @property
    def masked(self) -> Array:
        return self.counts[1]

    @property
    def total(self) -> Array:
        return self.counts[2]


def _row_tops(logits: Array) -> _RowTops:
    n = logits.shape[0]
    tops = _RowTops(
        logits.new_empty(n, dtype=torch.float64),
        logits.new_empty(n, dtype=torch.int64),
        logits.new_empty((3, n), dtype=torch.float64),
    )
    _launch((triton_kernels.row_tops_few, triton_kernels.row_tops_many), logits, tuple(tops), {}, tiles=2)
    return tops


def _fill_chains(
    logits: Array, tops: _RowTops, betas: Sequence[float], places: Sequence[int], least: float, sums: Array
) -> None:
    """Fill in ``sums`` (places, powers, n) at some β, in float64 and with one pass for each chain of them.

    Weights below 2^least may be left out.
    """
    kernels = triton_kernels.chain_sums_few, triton_kernels.chain_sums_many
    for chain in _chains(betas):
        where = torch.as_tensor([places[i] for i, _ in chain], dtype=torch.int32, device=logits.device)
        arguments = (tops.peak, tops.counts, sums, where, least, *_scale_and_rates(chain[0][1])[:3])
        _launch(kernels, logits, arguments, {"ORDER": sums.shape[1] - 1, "CHAIN": len(chain)}, tiles=1)


def _chains(betas: Sequence[float]) -> list[list[tuple[int, float]]]:
    """The positions and values of ``betas`` in chains of which each β is twice the one before, none of them too long."""
    chains = []
    for chain in doublings(betas):
        size = -(-len(chain) // -(-len(chain) // _LONGEST_CHAIN))
        chains += [chain[start : start + size] for start in range(0, len(chain), size)]
    return chains


def block_sums(
    logits: Array, labels: Array, weights: Array | None, beta_ec: float, beta_ts: float, *, exact: bool = False
) -> HostArray:
    """The sums that expectation consistency needs at one β and temperature scaling at another, and what was counted.

    Those that have to be ``exact`` are computed in float32 if that has the same gaps as float64 in some of the rows, else in
    float64, which takes several times as long. Rows of weight zero are in none of them, and may hold anything;
    weights of None are ones. Each call of a kernel is one transfer to the host.
    """
    logits, betas = _with_rows(logits), (beta_ec, beta_ts)
    if not exact:
        return _sums_of_rows(logits, labels, weights, betas, exact=False)
    step = logits.shape[0] // min(_TELLING, max(_TELLING_LEAST, _TELLING_WEIGHTS // logits.shape[1]))
    if logits.dtype != torch.float64 and logits.numel() > _FEW_WEIGHTS and step > 1:
        some = (logits[::step], labels[::step], None if weights is None else weights[::step])
        single, double = (_sums_of_rows(*some, betas, exact=precise) for precise in (False, True))
        sums = _sums_of_rows(logits, labels, weights, betas, exact=False)
        if _is_close(single, double, betas) and _many_decide(sums):
            return sums
    return _sums_of_rows(logits, labels, weights, betas, exact=True)


def _is_close(single: HostArray, double: HostArray, betas: tuple[float, float]) -> bool:
    """Whether the mean gaps in float32 and float64 differ by less than would move a temperature."""
    return all(
        abs(single[gap] - double[gap]) <= _ENOUGH * beta * abs(double[slope])
        for beta, (gap, slope, *_) in zip(betas, (_EC_SUMS, _TS_SUMS), strict=True)
    )


def _many_decide(sums: HostArray) -> bool:
    """Whether as many rows decide about each temperature as it takes for errors of float32 to average out."""
    return all(
        _SINGLE * math.sqrt(sums[spread]) <= _ENOUGH * abs(sums[slope])
        for spread, slope in ((_EC_SPREAD, _EC_SUMS[1]), (_TS_SPREAD, _TS_SUMS[1]))
    )


def _sums_of_rows(logits: Array, labels: Array, weights: Array | None, betas: tuple[float, float], *, exact: bool) -> HostArray:
    """The sums in float64 if they are ``exact``, else in float32."""
    beta_ec, beta_ts = betas
    mode = _mode(logits, exact)
    scaled = _scale_and_rates(beta_ec, beta_ts)
    # One column per program: no two programs write to the same place.
    partial = logits.new_empty((_N_BLOCK_SUMS, _n_programs(*logits.shape)), dtype=torch.float64)
    arguments = (labels.contiguous(), labels if weights is None else weights.contiguous(), partial)
    bias = _bias(logits.device) if mode == "fast" else 0.0
    constants = {"WEIGHTED": weights is not None, "MODE": mode}
    kernels = triton_kernels.block_sums_few, triton_kernels.block_sums_many
    _launch(kernels, logits, (*arguments, bias, *scaled), constants, tiles=_tiles(mode))
    total: HostArray = partial.sum(dim=1).cpu().numpy()
    if mode == "fast":
        scale, ec_rate, ts_rate = scaled[0], scaled[1], scaled[4]
        _shift(total, _EC_SUMS, beta_ec - ec_rate * math.log(2) * scale)
        _shift(total, _TS_SUMS, beta_ts - ts_rate * math.log(2) * scale)
    return total


def _mode(logits: Array, exact: bool) -> str:
    """How weights are computed; see `triton_kernels`."""
    if exact or logits.dtype == torch.float64:
        return "double"
    n, k = logits.shape
    return "fast" if k > _FEW_CLASSES and n * k >= _MANY_WEIGHTS else "accurate"


def _with_rows(logits: Array) -> Array:
    """``logits`` with the classes of a row next to each other."""
    return logits if logits.stride(1) == 1 else logits.contiguous()


def _scale_and_rates(*betas: float) -> tuple[float, ...]:
    """The scale of d, and for each β its rate in two float32 parts and the x above which weights are float32 numbers.

    The scale is a power of two near the largest β, so that no power of x = scale·d overflows.
    """
    largest = max((beta for beta in betas if math.isfinite(beta)), default=0.0)
    scale = 2.0 ** min(max(math.frexp(largest)[1], -100), 100) if largest > 0 else 1.0
    numbers = [scale]
    for beta in betas:
        rate = beta / math.log(2) / scale
        high = float(np.float32(rate))
        low = rate - high if math.isfinite(rate) else 0.0
        # At β = 0 the rate is not quite 0, so that classes without weight, whose x is -1e38, still have weight 0.
        numbers += [max(high, 1e-34), low, max(-126 / high, -0.9e38) if high > 0 else -0.9e38]
    return tuple(numbers)


def _shift(total: HostArray, places: tuple[int, ...], step: float) -> None:
    """Move the sum of gaps and those of its derivatives by a small step in β, each with the next derivative.

    Fast weights have a rate rounded to float32, of which T would show 6e-8.
    """
    for place, derivative in pairwise(places):
        total[place] += step * total[derivative]


@lru_cache(maxsize=64)
def _bias(device: torch.device) -> float:
    """The mean relative error of the fast weights of a device: -5e-8 on an H200, of which T would show 2e-8."""
    x = -(torch.arange(2**19, device=device) + 0.5) / 2**16
    weights = torch.empty_like(x)
    with torch.cuda.device_of(x):  # type: ignore[no-untyped-call]
        triton_kernels.fast_weights[(2**9,)](x, weights, SIZE=2**10)
    return float((weights.double() / torch.exp2(x.double()) - 1).mean())


def _tuning(n: int, k: int, *, chains: bool = False) -> dict[str, int]:
    """How many rows a program takes, and with how many warps (of 32 threads); measured on an H200.

    Sums of ``chains`` fill the registers of a thread, which then has one row, or columns of one row.
    """
    if k <= _FEW_CLASSES:
        return {"rows": 32 if chains else 64, "num_warps": 1}
    if chains:
        return {"rows": min(32, max(1, n // 2**16)), "num_warps": 1}
    return {"rows": min(32, max(1, -(-n // 8192))), "num_warps": 1 if k <= 1024 else 2 if k <= 4096 else 4}


def _n_programs(n: int, k: int) -> int:
    return -(-n // _tuning(n, k)["rows"])


def _tiles(mode: str) -> int:
    """How many tiles of a row fit into the registers."""
    return 2 if mode == "double" else 8


def _launch(
    kernels: tuple[Any, Any], logits: Array, arguments: tuple[Any, ...], constants: dict[str, Any], *, tiles: int = 8
) -> None:
    """Run the first kernel on rows of few classes, the second on others, whose programs read ``tiles`` at once."""
    n, k = logits.shape
    if n == 0:
        return
    tuning, (few, many) = _tuning(n, k, chains="CHAIN" in constants), kernels
    rows = tuning.pop("rows")
    grid = (-(-n // rows),)
    with torch.cuda.device_of(logits):  # type: ignore[no-untyped-call]
        if k <= _FEW_CLASSES:
            few[grid](logits, *arguments, n, logits.stride(0), k, ROWS=rows, **constants, **tuning)
            return
        vector = 16 // logits.element_size()
        # A thread loads 16 bytes at once where each row begins at a multiple of that.
        unit = vector if k % vector == 0 and logits.stride(0) % vector == 0 else 1
        lanes = 32 * tuning["num_warps"]
        while tiles > 1 and tiles // 2 * lanes * vector >= k:
            tiles //= 2
        shape = {"UNIT": unit, "TILES": tiles, "LANES": lanes, "VECTOR": vector}
        many[grid](logits, *arguments, n, rows, logits.stride(0) // unit, k // unit, **shape, **constants, **tuning)


# --- scores ------------------------------------------------------------------------------------------------------------------


def score_sums(
    logits: Array, labels: Array, weights: Array | None, beta: float, inner: HostArray, *, counts: bool
) -> tuple[HostArray, HostArray, bool]:
    """The sums of native_scores.h over all rows and per bin, and whether something has to be checked.

    Weights of classes are float32, which gives confidences to 1e-7. Rows whose confidence is so near to an edge between bins
    that this matters are read again in float64.
    """
    parts = []
    for start in range(0, max(logits.shape[0], 1), _ROWS_OF_SCORES):
        rows = slice(start, start + _ROWS_OF_SCORES)
        heavy = None if weights is None else weights[rows].contiguous()
        parts.append(_score_parts(_with_rows(logits[rows]), labels[rows].contiguous(), heavy, beta, inner, counts=counts))
    total = _join_scores(torch.stack(parts, dim=1)).cpu().numpy()
    return total[3:17], total[17:].reshape(len(inner) + 1, -1), bool(total[1] > 0)


def _score_parts(logits: Array, labels: Array, weights: Array | None, beta: float, inner: HostArray, *, counts: bool) -> Array:
    """The sums of some rows, as the kernel stores them."""
    scored, answers = _score_rows(logits, labels, beta, _mode(logits, exact=False))
    total, near = _sum_scores(scored, answers, weights, beta, inner, counts=counts)
    n_near = int(total[2])
    if not n_near or logits.dtype == torch.float64:
        return total
    if n_near > len(near) // 8 or n_near * logits.shape[1] > _MOST_COPIED:  # as where all rows are the same
        scored, answers = _score_rows(logits, labels, beta, "double")
    else:
        (rows,) = torch.nonzero(near, as_tuple=True)
        scored[:, rows], _ = _score_rows(logits[rows], labels[rows], beta, "double")
    return _sum_scores(scored, answers, weights, beta, inner, counts=counts)[0]


def _score_rows(logits: Array, labels: Array, beta: float, mode: str) -> tuple[Array, Array]:
    """Of each row the weight of all classes but the top one, their squares, and the drop of the true class; and its answer.

    That is 1 if it is right, 0 if it is wrong, and -1 if a check would refuse the row.
    """
    mode = "double" if logits.dtype == torch.float64 else mode
    scored = logits.new_empty((3, logits.shape[0]), dtype=torch.float64)
    answers = logits.new_empty(logits.shape[0], dtype=torch.int8)
    kernels = triton_kernels.score_rows_few, triton_kernels.score_rows_many
    arguments = (labels, scored, answers, *_scale_and_rates(beta, 2 * beta))
    _launch(kernels, logits, arguments, {"MODE": mode}, tiles=_tiles(mode))
    return scored, answers


def _sum_scores(
    scored: Array, answers: Array, weights: Array | None, beta: float, inner: HostArray, *, counts: bool
) -> tuple[Array, Array]:
    """Numbers of rows, of bad ones and of those near an edge, the sums of scores and those of bins; and which rows are near."""
    n, n_bins = len(answers), len(inner) + 1
    n_edges = 2 ** max(len(inner) - 1, 0).bit_length()
    edges = np.concatenate([inner, np.full(n_edges - len(inner), np.inf)])
    constants = torch.as_tensor([beta, _NEAR_EDGE, *edges], dtype=torch.float64, device=scored.device)
    n_programs = -(-n // _ROWS_AT_ONCE)
    partial = scored.new_empty((17 + 7 * n_bins, n_programs))
    near = torch.empty_like(answers)
    arguments = (scored, answers, answers if weights is None else weights, near, constants, partial, n, n_bins)
    shape = {"EDGES": n_edges, "BINS": _BINS_AT_ONCE, "ROWS": _ROWS_AT_ONCE}
    with torch.cuda.device_of(scored):  # type: ignore[no-untyped-call]
        triton_sums.score_sums[(n_programs,)](*arguments, COUNTS=counts, WEIGHTED=weights is not None, **shape, num_warps=1)
    return _join_scores(partial), near


def _join_scores(parts: Array) -> Array:
    """The sums of all parts (sums, parts), of which each has squares around its own means."""
    total, units, means = parts.sum(dim=1), parts[4], parts[9:13]
    mean = (units * means).sum(dim=1) / torch.where(total[4] > 0, total[4], 1.0)
    total[9:13] = mean
    total[13:17] += (units * (means - mean[:, None]) ** 2).sum(dim=1)
    return total


# --- sketches ----------------------------------------------------------------------------------------------------------------


def node_sums(
    logits: Array,
    labels: Array,
    weights: Array | None,
    nodes: Sequence[float],
    beyond: Sequence[float],
    n_bins: int,
    bin_scale: float,
) -> NodeSums | None:
    """The sums of a sketch, in float64; None if values must be checked or masked.

    ``beyond`` are twice the nodes of the last octave. A confidence c is in the bin ceil(c·``bin_scale``) - 1. Rows of weight
    zero may hold anything.
    """
    total = NodeSums.zeros(len(nodes), n_bins)
    step = max(1, _SUMS_OF_SKETCH // (4 * (len(nodes) + len(beyond))))
    for start in range(0, logits.shape[0], step):
        rows = slice(start, start + step)
        some = None if weights is None else weights[rows].contiguous()
        of_block = _node_sums_of(_with_rows(logits[rows]), labels[rows], some, nodes, beyond, n_bins, bin_scale)
        if of_block is None:
            return None
        total = total + of_block
    return total


def _node_sums_of(
    logits: Array,
    labels: Array,
    weights: Array | None,
    nodes: Sequence[float],
    beyond: Sequence[float],
    n_bins: int,
    bin_scale: float,
) -> NodeSums | None:
    n, k = logits.shape
    tops, labels = _row_tops(logits), labels.long()
    w = torch.ones_like(tops.peak) if weights is None else weights
    there, is_class = w != 0, (labels >= 0) & (labels < k)
    bad = there & ~(torch.isfinite(tops.peak) & is_class & (tops.masked == 0))
    if bool(bad.any()):
        return None
    columns = torch.where(is_class, labels, 0)
    drops = torch.where(there, logits.gather(1, columns[:, None])[:, 0].double() - tops.peak, 0.0)
    right = there & (tops.top == labels)
    counted = torch.stack([there, right, w * right, w * ~right, w**2 * right, w**2 * ~right, w * drops]).sum(dim=1)
    # At 0, at the nodes, at infinity, and beyond the nodes.
    betas = (0.0, *nodes, math.inf, *beyond)
    ends = (0, len(nodes) + 1)
    places = [i for i in range(len(betas)) if i not in ends]
    sums = logits.new_empty((len(betas), 4, n), dtype=torch.float64)
    sums[list(ends)] = 0.0
    sums[ends[0], 0], sums[ends[0], 1] = k - 1, tops.total - k * tops.peak
    sums[ends[1], 0] = tops.ties - 1
    _fill_chains(logits, tops, (*nodes, *beyond), places, _LEAST_IN_SKETCH, sums)
    doubled = [i if i in ends else betas.index(2 * betas[i]) for i in range(len(nodes) + 2)]
    judged = [0.0 if i in ends else beta for i, beta in enumerate(betas[: len(doubled)])]
    constants = torch.as_tensor([bin_scale, *judged], dtype=torch.float64, device=logits.device)
    twice = torch.as_tensor(doubled, dtype=torch.int32, device=logits.device)
    n_programs = -(-n // _ROWS_AT_ONCE)
    partial = sums.new_empty((len(doubled), 17 + 4 * FARTHEST + 5 * n_bins, n_programs))
    arguments = (sums, drops, right.to(torch.int8), w, constants, twice, partial, n, len(nodes), n_bins)
    shape = {"BINS": _BINS_AT_ONCE, "FARTHEST": FARTHEST, "ROWS": _ROWS_AT_ONCE}
    with torch.cuda.device_of(logits):  # type: ignore[no-untyped-call]
        triton_sums.node_sums[(n_programs, len(doubled))](*arguments, WEIGHTED=weights is not None, **shape, num_warps=1)
    total = partial.sum(dim=2).cpu().numpy()
    gaps, metrics, crossed, bins = np.split(total, np.cumsum([13, 4, 4 * FARTHEST]), axis=1)
    return NodeSums(
        counts=counted.cpu().numpy(),
        gaps=gaps,
        metrics=metrics[1:-1],
        crossed=crossed[1:-1].reshape(len(nodes), 2, 2 * FARTHEST),
        bins=bins[1:-1].reshape(len(nodes), n_bins, 5),
    )
