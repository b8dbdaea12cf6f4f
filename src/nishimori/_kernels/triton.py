"""Power sums of CUDA tensors in Triton: the logits stay where they are, and 46 numbers go to the host.

The kernels themselves are in `triton_kernels`; here are the functions that choose their sizes and launch them.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from nishimori._kernels.block import PowerSums, doublings
from nishimori._kernels.triton_kernels import block_sums_few, block_sums_many, fast_weights, power_sums_few, power_sums_many
from nishimori._support.arrays import Array, HostArray

_UNCHECKED = (torch.float32, torch.bfloat16, torch.float16)

_FEW_CLASSES = 32
_N_BLOCK_SUMS = 46
# The sums of more β than this do not fit into the registers.
_LONGEST_CHAIN = 6

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
    n = logits.shape[0]
    peak, top = logits.new_empty(n, dtype=torch.float64), logits.new_empty(n, dtype=torch.int64)
    sums = logits.new_empty((len(betas), order + 1, n), dtype=torch.float64)
    mode = "accurate" if logits.dtype == torch.float32 else "double"
    doubling = mode == "double" and logits.shape[1] > _FEW_CLASSES
    for chain in _chains(betas) if doubling else [[each] for each in enumerate(betas)]:
        found = logits.new_empty((len(chain), order + 1, n), dtype=torch.float64)
        constants = {"ORDER": order, "CHAIN": len(chain), "MODE": mode}
        _launch(power_sums_few, power_sums_many, logits, (peak, top, found, *_scale_and_rates(chain[0][1])), constants)
        sums[[i for i, _ in chain]] = found
    return PowerSums(peak, top, sums)


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
        single, double = (_sums_of_rows(*some, betas, exact=each) for each in (False, True))
        found = _sums_of_rows(logits, labels, weights, betas, exact=False)
        if _is_close(single, double, betas) and _many_decide(found):
            return found
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
    _launch(block_sums_few, block_sums_many, logits, (*arguments, bias, *scaled), constants)
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
        fast_weights[(2**9,)](x, weights, SIZE=2**10)
    return float((weights.double() / torch.exp2(x.double()) - 1).mean())


def _tuning(n: int, k: int) -> dict[str, int]:
    """How many rows a program takes, and with how many warps (of 32 threads); measured on an H200."""
    if k <= _FEW_CLASSES:
        return {"rows": 64, "num_warps": 1}
    return {"rows": min(32, max(1, -(-n // 8192))), "num_warps": 1 if k <= 1024 else 2 if k <= 4096 else 4}


def _n_programs(n: int, k: int) -> int:
    return -(-n // _tuning(n, k)["rows"])


def _launch(few: Any, many: Any, logits: Array, arguments: tuple[Any, ...], constants: dict[str, Any]) -> None:
    n, k = logits.shape
    if n == 0:
        return
    tuning = _tuning(n, k)
    rows, grid = tuning.pop("rows"), (_n_programs(n, k),)
    with torch.cuda.device_of(logits):  # type: ignore[no-untyped-call]
        if k <= _FEW_CLASSES:
            few[grid](logits, *arguments, n, logits.stride(0), k, ROWS=rows, **constants, **tuning)
            return
        is_chain = constants.get("CHAIN", 1) > 1
        vector = 2 if is_chain else 16 // logits.element_size()
        # A thread loads a vector at once where each row begins at a multiple of its size, which is 16 bytes except in chains.
        unit = vector if k % vector == 0 and logits.stride(0) % vector == 0 else 1
        lanes = 32 * tuning["num_warps"]
        tiles = 1 if is_chain else 2 if constants["MODE"] == "double" else 8  # as many as fit into the registers
        while tiles > 1 and tiles // 2 * lanes * vector >= k:
            tiles //= 2
        shape = {"UNIT": unit, "TILES": tiles, "LANES": lanes, "VECTOR": vector}
        many[grid](logits, *arguments, n, rows, logits.stride(0) // unit, k // unit, **shape, **constants, **tuning)
