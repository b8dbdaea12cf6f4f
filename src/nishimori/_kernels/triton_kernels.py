"""The Triton kernels that read logits: from the weight of a class to the sums of a row, and of all rows for `block_sums`.

With d = z - peak in a row, peak being its largest logit, they work with x = scale·d and weights 2^(rate·x) = exp(βd).

There are two ways to divide the work. With few classes, a thread takes whole rows. With many classes, the threads of a program
share a row: they read it once for its peak and once for its sums (the second time mostly from a cache), and then go to the
program's next row. A float32 sum has at most 64 terms; what adds up such sums is float64. No sum depends on the order in which
programs run, so that the same data give the same digits.

Power sums in float64 at several β, each twice the one before, come from one pass: their weights are squares.

MODE is how weights are computed: "fast" (the processor's own exp2 in float32), "accurate" (float32 whose errors have no mean),
or "double" (float64).
"""
# Functions for Triton cannot have Python's types, and their tuples grow with `+` only.
# mypy: ignore-errors
# ruff: noqa: RUF005

from __future__ import annotations

import inspect
from typing import Any

try:
    import triton
    import triton.language as tl
except ImportError:  # the functions can then be imported, as the tools do that read docstrings, but not called
    triton = tl = None


def _jit(function: Any) -> Any:
    if triton is None:
        return function
    # Triton would otherwise compile once more for sizes that are multiples of 16.
    sizes = {"n", "rows", "stride", "n_classes", "n_units"} & set(inspect.signature(function).parameters)
    return triton.jit(function, do_not_specialize=sorted(sizes))


# Weights of classes, and tuples of their sums.


@_jit
def _weight(x, rate, low, lowest, MODE: tl.constexpr):
    """2^((rate + low)·x)."""
    # One `return` at the end: Triton compiles what follows another one, and wants the same type of both.
    if MODE == "double":
        weight = tl.exp2(x * (tl.cast(rate, tl.float64) + tl.cast(low, tl.float64)))
    elif MODE == "fast":
        weight = tl.exp2(x * rate)  # adding low·x would change nothing: it is less than half of the product's last digit
    else:
        weight = _accurate_weight(x, rate, low, lowest)
    return weight


@_jit
def _accurate_weight(x, rate, low, lowest):
    """2^((rate + low)·x) with a mean relative error below 1e-10; 0 where x is not above ``lowest``."""
    # Adding 1.5·2^23 rounds to a whole number, which is then in the last bits of the sum.
    shifted = tl.fma(x, rate, 12582912.0)
    whole = shifted - 12582912.0
    # The multiplication and the subtraction are rounded once, together.
    f = tl.fma(x, low, tl.fma(x, rate, -whole))
    # 2^f for f from -1/2 to 1/2: the polynomial with float32 coefficients that has the least relative error, 3e-9.
    p = tl.fma(f, 0.0001533076720079407, 0.0013390971580520272)
    p = tl.fma(f, p, 0.009618496522307396)
    p = tl.fma(f, p, 0.05550359562039375)
    p = tl.fma(f, p, 0.24022647738456726)
    p = tl.fma(f, p, 0.6931471824645996)
    p = tl.fma(f, p, 1.0)
    # The whole number is added to the exponent.
    bits = p.to(tl.int32, bitcast=True) + (shifted.to(tl.int32, bitcast=True) << 23)
    return tl.where(x > lowest, bits.to(tl.float32, bitcast=True), 0.0)


@_jit
def _exp2_double(y):
    """2^y in float64 to 3e-16 for y from -1022 to 1022, in half the time of the processor's library."""
    # Adding 1.5·2^52 rounds to a whole number, which is then in the last bits of the sum.
    shifted = y + 6755399441055744.0
    f = y - (shifted - 6755399441055744.0)
    # The polynomial through 2^f at the Chebyshev nodes from -1/2 to 1/2. Triton would round plain numbers to float32.
    p = tl.full([], 7.072585949269223e-09, tl.float64)
    p = tl.fma(f, p, tl.full([], 1.0208690299958306e-07, tl.float64))
    p = tl.fma(f, p, tl.full([], 1.321544258792169e-06, tl.float64))
    p = tl.fma(f, p, tl.full([], 1.5252657260200837e-05, tl.float64))
    p = tl.fma(f, p, tl.full([], 0.0001540353044173605, tl.float64))
    p = tl.fma(f, p, tl.full([], 0.0013333558230164974, tl.float64))
    p = tl.fma(f, p, tl.full([], 0.009618129107606888, tl.float64))
    p = tl.fma(f, p, tl.full([], 0.05550410866444772, tl.float64))
    p = tl.fma(f, p, tl.full([], 0.24022650695910097, tl.float64))
    p = tl.fma(f, p, tl.full([], 0.69314718055995, tl.float64))
    p = tl.fma(f, p, tl.full([], 1.0, tl.float64))
    # The whole number is added to the exponent.
    return (p.to(tl.int64, bitcast=True) + (shifted.to(tl.int64, bitcast=True) << 52)).to(tl.float64, bitcast=True)


@_jit
def fast_weights(x, weights, SIZE: tl.constexpr):
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    tl.store(weights + at, _weight(tl.load(x + at), 1.0, 0.0, 0.0, "fast"))


@_jit
def _below_peak(z, peak, scale):
    """Give x = scale·(z - peak), but -1e38, which has no weight, for largest and masked logits; and 1 for each of both."""
    scale = tl.cast(scale, z.dtype)
    x = tl.fma(z, scale, -peak * scale)
    below = x < 0
    largest, masked = tl.where(below, 0.0, 1.0), tl.where(x == -float("inf"), 1.0, 0.0)
    return tl.where(below, tl.maximum(x, -1e38), -1e38), largest, masked


@_jit
def _powers(x, rates, ORDERS: tl.constexpr, MODE: tl.constexpr):
    """(w, w·x, w·x², ...) for the weight w at the first rate, then for the weight at the next."""
    powers = ()
    for i in tl.static_range(len(ORDERS)):
        rate, low, lowest = rates[i]
        power = _weight(x, rate, low, lowest, MODE)
        powers = powers + (power,)
        for _ in tl.static_range(ORDERS[i]):
            power = power * x
            powers = powers + (power,)
    return powers


@_jit
def _zeros(N: tl.constexpr, LANES: tl.constexpr, DTYPE: tl.constexpr):
    zeros = ()
    for _ in tl.static_range(N):
        zeros = zeros + (tl.zeros([LANES], DTYPE),)
    return zeros


@_jit
def _add(left, right):
    total = ()
    for i in tl.static_range(len(left)):
        total = total + (left[i] + right[i],)
    return total


@_jit
def _sum(values, AXIS: tl.constexpr):
    sums = ()
    for i in tl.static_range(len(values)):
        sums = sums + (tl.sum(values[i], AXIS),)
    return sums


@_jit
def _select(where, new, old):
    selected = ()
    for i in tl.static_range(len(old)):
        selected = selected + (tl.where(where, new[i], old[i]),)
    return selected


@_jit
def _larger(left, right):
    """The larger of two numbers, or NaN if one of them is: the peak then tells that a row is bad."""
    return tl.maximum(left, right, propagate_nan=tl.PropagateNan.ALL)


# Sums of rows: with few classes one row per lane, with many classes one row in all lanes.


@_jit
def _sums_few(
    rows, present, n_classes, scale, rates,
    ORDERS: tl.constexpr, N_SUMS: tl.constexpr, MODE: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Peak, top class, numbers of largest and of masked logits, and power sums of each row."""
    dtype: tl.constexpr = tl.float64 if MODE == "double" else tl.float32
    peak, top = tl.full([ROWS], -float("inf"), dtype), tl.zeros([ROWS], tl.int32)
    for k in range(n_classes):
        z = tl.load(rows + k, mask=present, other=0.0).to(dtype)
        top = tl.where(z > peak, k, top)
        peak = _larger(peak, z)
    tied, masked = tl.zeros([ROWS], tl.float32), tl.zeros([ROWS], tl.float32)
    sums = _zeros(N_SUMS, ROWS, dtype)
    for k in range(n_classes):  # from the cache
        z = tl.load(rows + k, mask=present, other=0.0).to(dtype)
        x, is_largest, is_masked = _below_peak(z, peak, scale)
        tied += is_largest
        masked += is_masked
        sums = _add(sums, _powers(x, rates, ORDERS, MODE))
    return peak, top, tied, masked, sums


@_jit
def _columns(first, UNIT: tl.constexpr, TILES: tl.constexpr, LANES: tl.constexpr, VECTOR: tl.constexpr):
    """The next columns of a row, in tiles of shape (LANES, VECTOR), and the unit of each: what a thread loads at once."""
    columns = ()
    lane, place = tl.arange(0, LANES)[:, None], tl.arange(0, VECTOR)[None, :]
    for i in tl.static_range(TILES):
        if UNIT == VECTOR:
            unit = first + i * LANES + lane
            columns = columns + ((unit, unit * VECTOR + place),)
        else:  # each column is a unit, and neighbours are in neighbouring lanes
            column = first + (i * VECTOR + place) * LANES + lane
            columns = columns + ((column, column),)
    return columns


@_jit
def _tiles(row, columns, n_units, DTYPE: tl.constexpr):
    """The logits there, and -inf behind the last class."""
    tiles = ()
    for i in tl.static_range(len(columns)):
        unit, column = columns[i]
        tiles = tiles + (tl.load(row + column, mask=unit < n_units, other=-float("inf")).to(DTYPE),)
    return tiles


@_jit
def _sums_many(
    row, n_units, scale, rates, ORDERS: tl.constexpr, N_SUMS: tl.constexpr, MODE: tl.constexpr,
    UNIT: tl.constexpr, TILES: tl.constexpr, LANES: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    """Peak, numbers of largest and of masked logits, and power sums of one row."""
    dtype: tl.constexpr = tl.float64 if MODE == "double" else tl.float32
    step: tl.constexpr = TILES * LANES * VECTOR // UNIT
    highest = tl.full([LANES, VECTOR], -float("inf"), dtype)
    for first in range(0, n_units, step):
        z = _tiles(row, _columns(first, UNIT, TILES, LANES, VECTOR), n_units, dtype)
        for i in tl.static_range(TILES):
            highest = _larger(highest, z[i])
    peak = tl.reduce(tl.reduce(highest, 1, _larger), 0, _larger)
    tied, masked = tl.zeros([LANES, VECTOR], tl.float32), tl.zeros([LANES, VECTOR], tl.float32)
    sums = _zeros(N_SUMS, LANES, tl.float64)
    for first in range(0, n_units, step):
        z = _tiles(row, _columns(first, UNIT, TILES, LANES, VECTOR), n_units, dtype)
        part = _zeros(N_SUMS, LANES, dtype)
        for i in tl.static_range(TILES):
            x, is_largest, is_masked = _below_peak(z[i], peak, scale)
            tied += is_largest
            masked += is_masked
            part = _add(part, _sum(_powers(x, rates, ORDERS, MODE), 1))
        sums = _add(sums, part)
    n_behind = (tl.cdiv(n_units, step) * step - n_units) * UNIT
    return peak, tl.sum(tl.sum(tied, 1), 0), tl.sum(tl.sum(masked, 1), 0) - n_behind, _sum(sums, 0)


@_jit
def _top_many(row, n_units, peak, UNIT: tl.constexpr, TILES: tl.constexpr, LANES: tl.constexpr, VECTOR: tl.constexpr):
    """The column of the first largest logit of one row."""
    lowest = tl.zeros([LANES, VECTOR], tl.int32) + n_units * UNIT
    for first in range(0, n_units, TILES * LANES * VECTOR // UNIT):
        columns = _columns(first, UNIT, TILES, LANES, VECTOR)
        z = _tiles(row, columns, n_units, peak.dtype)
        for i in tl.static_range(TILES):
            lowest = tl.minimum(lowest, tl.where(z[i] == peak, columns[i][1], n_units * UNIT))
    return tl.min(tl.min(lowest, 1), 0)


@_jit
def _rows_many(
    logits, n, rows, stride, n_units, scale, rates, ORDERS: tl.constexpr, N_SUMS: tl.constexpr, MODE: tl.constexpr,
    UNIT: tl.constexpr, TILES: tl.constexpr, LANES: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    """Numbers of the rows of this program, whether they are there, and what is known of each: lane i has those of row i.

    What comes after the sums is then done for all rows together. The top class is 0 where only one logit is the largest: the
    logit at the label then tells whether it is that one.
    """
    dtype: tl.constexpr = tl.float64 if MODE == "double" else tl.float32
    first = tl.program_id(0).to(tl.int64) * rows
    count = tl.minimum(n - first, rows).to(tl.int32)
    lane = tl.arange(0, 32)
    peaks, tops, ties = tl.zeros([32], dtype), tl.zeros([32], tl.int32), tl.full([32], 1.0, tl.float32)
    masks, powers = tl.zeros([32], tl.float32), _zeros(N_SUMS, 32, tl.float64)
    for i in range(count):
        row = logits + (first + i) * stride * UNIT
        peak, tied, masked, sums = _sums_many(row, n_units, scale, rates, ORDERS, N_SUMS, MODE, UNIT, TILES, LANES, VECTOR)
        if tied > 1:
            tops = tl.where(lane == i, _top_many(row, n_units, peak, UNIT, TILES, LANES, VECTOR), tops)
        peaks, ties, masks = _select(lane == i, (peak, tied, masked), (peaks, ties, masks))
        powers = _select(lane == i, sums, powers)
    return first + lane, lane < count, peaks, tops, ties, masks, powers


# The kernels of `power_sums` in float32.


@_jit
def _store_powers(sums, n, powers, tied, scale, present, ORDER: tl.constexpr):
    unit, size = tl.full([], 1.0, tl.float64), tl.cast(n, tl.int64)
    # All but one of the largest logits count, with d = 0 and weight 1.
    tl.store(sums, powers[0].to(tl.float64) + (tied.to(tl.float64) - 1), mask=present)
    for j in tl.static_range(1, ORDER + 1):
        unit = unit / scale
        tl.store(sums + size * j, powers[j].to(tl.float64) * unit, mask=present)


@_jit
def power_sums_few(
    logits, peaks, tops, sums, scale, rate, low, lowest, n, stride, n_classes,
    ORDER: tl.constexpr, MODE: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    present = row < n
    peak, top, tied, _, powers = _sums_few(
        logits + row * stride, present, n_classes, scale, ((rate, low, lowest),), (ORDER,), ORDER + 1, MODE, ROWS
    )
    tl.store(peaks + row, peak.to(tl.float64), mask=present)
    tl.store(tops + row, top.to(tl.int64), mask=present)
    _store_powers(sums + row, n, powers, tied, scale, present, ORDER)


@_jit
def power_sums_many(
    logits, peaks, tops, sums, scale, rate, low, lowest, n, rows, stride, n_units, ORDER: tl.constexpr,
    MODE: tl.constexpr, UNIT: tl.constexpr, TILES: tl.constexpr, LANES: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0).to(tl.int64) * rows
    for row in range(first, tl.minimum(first + rows, n)):
        start, rates = logits + row * stride * UNIT, ((rate, low, lowest),)
        peak, tied, _, powers = _sums_many(start, n_units, scale, rates, (ORDER,), ORDER + 1, MODE, UNIT, TILES, LANES, VECTOR)
        tl.store(peaks + row, peak.to(tl.float64))
        tl.store(tops + row, _top_many(start, n_units, peak, UNIT, TILES, LANES, VECTOR).to(tl.int64))
        _store_powers(sums + row, n, powers, tied, scale, True, ORDER)


# The kernels of power sums in float64: first what is at the top of each row, then a pass for each chain of β.


@_jit
def _store_tops(peaks, tops, counts, n, row, present, peak, top, tied, masked, total):
    tl.store(peaks + row, peak.to(tl.float64), mask=present)
    tl.store(tops + row, top.to(tl.int64), mask=present)
    tl.store(counts + row, tied.to(tl.float64), mask=present)
    tl.store(counts + n + row, masked.to(tl.float64), mask=present)
    tl.store(counts + 2 * n + row, total, mask=present)


@_jit
def row_tops_few(logits, peaks, tops, counts, n, stride, n_classes, ROWS: tl.constexpr):
    """Store peak, top class, and numbers of largest and of masked logits and the sum of all logits of each row."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    present, start = row < n, logits + row * stride
    peak, top = tl.full([ROWS], -float("inf"), tl.float64), tl.zeros([ROWS], tl.int32)
    tied, masked, total = tl.zeros([ROWS], tl.int32), tl.zeros([ROWS], tl.int32), tl.zeros([ROWS], tl.float64)
    for k in range(n_classes):
        z = tl.load(start + k, mask=present, other=0.0).to(tl.float64)
        tied = tl.where(z > peak, 1, tied + (z == peak).to(tl.int32))
        top = tl.where(z > peak, k, top)
        peak = _larger(peak, z)
        masked += (z == -float("inf")).to(tl.int32)
        total += z
    _store_tops(peaks, tops, counts, tl.cast(n, tl.int64), row, present, peak, top, tied, masked, total)


@_jit
def row_tops_many(
    logits, peaks, tops, counts, n, rows, stride, n_units,
    UNIT: tl.constexpr, TILES: tl.constexpr, LANES: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    """The same with one row after the other; each lane keeps what is at the top of its own columns."""
    dtype: tl.constexpr = tl.float64 if logits.dtype.element_ty == tl.float64 else tl.float32
    first_row = tl.program_id(0).to(tl.int64) * rows
    for row in range(first_row, tl.minimum(first_row + rows, n)):
        peak, top = tl.full([LANES, VECTOR], -float("inf"), dtype), tl.zeros([LANES, VECTOR], tl.int32)
        tied, masked = tl.zeros([LANES, VECTOR], tl.int32), tl.zeros([LANES, VECTOR], tl.int32)
        total = tl.zeros([LANES], tl.float64)
        for first in range(0, n_units, TILES * LANES * VECTOR // UNIT):
            columns = _columns(first, UNIT, TILES, LANES, VECTOR)
            tiles = _tiles(logits + row * stride * UNIT, columns, n_units, dtype)
            for i in tl.static_range(TILES):
                z = tiles[i]
                unit, column = columns[i]
                inside = unit < n_units
                tied = tl.where(z > peak, 1, tied + (z == peak).to(tl.int32))
                top = tl.where(z > peak, column, top)
                peak = _larger(peak, z)
                masked += (inside & (z == -float("inf"))).to(tl.int32)
                total += tl.sum(tl.where(inside, z, 0.0).to(tl.float64), 1)
        highest = tl.reduce(tl.reduce(peak, 1, _larger), 0, _larger)
        top = tl.min(tl.min(tl.where(peak == highest, top, n_units * UNIT), 1), 0)
        tied = tl.sum(tl.sum(tl.where(peak == highest, tied, 0), 1), 0)
        masked, size = tl.sum(tl.sum(masked, 1), 0), tl.cast(n, tl.int64)
        _store_tops(peaks, tops, counts, size, row, True, highest, top, tied, masked, tl.sum(total, 0))


@_jit
def _drops_in_double(z, peak, scale, rate):
    """Give x = scale·(z - peak) in float64, which of them have a weight, and the highest of these.

    Largest, masked and very low logits have none. Their x is that of a weight of 2^-1021, the least that `_exp2_double` gives.
    """
    lowest = -1021 / rate
    below = (z - peak) * tl.cast(scale, z.dtype)  # in the precision of the logits, which is enough to tell them apart
    live = (z < peak) & (below > lowest)
    wide = tl.cast(scale, tl.float64)
    x = tl.fma(z.to(tl.float64), wide, -peak.to(tl.float64) * wide)
    return tl.where(live, x, tl.cast(lowest, tl.float64)), live, tl.max(tl.max(tl.where(live, below, lowest), 1), 0)


@_jit
def _add_chain(sums, z, peak, least, scale, rate, low, ORDER: tl.constexpr, CHAIN: tl.constexpr):
    """Add sums over columns of (w, w·x, w·x², ...) for the weights w = 2^((rate + low)·x), then for their squares, and so on.

    A chain ends where all weights are below 2^least.
    """
    x, live, highest = _drops_in_double(z, peak, scale, rate)
    weight = tl.where(live, _exp2_double(x * (tl.cast(rate, tl.float64) + tl.cast(low, tl.float64))), 0.0)
    power, powers, total = x, (), ()
    for _ in tl.static_range(ORDER):
        powers = powers + (power,)
        power = power * x
    for c in tl.static_range(CHAIN):
        part = ()
        for j in tl.static_range(ORDER + 1):
            part = part + (sums[c * (ORDER + 1) + j],)
        if highest * rate * 2**c > least:
            if c > 0:
                weight = weight * weight
            added = (tl.sum(weight, 1),)
            for j in tl.static_range(ORDER):
                added = added + (tl.sum(weight * powers[j], 1),)
            part = _add(part, added)
        total = total + part
    return total


@_jit
def _store_chain(sums, places, n, powers, tied, scale, present, ORDER: tl.constexpr, CHAIN: tl.constexpr):
    for c in tl.static_range(CHAIN):
        part = ()
        for j in tl.static_range(ORDER + 1):
            part = part + (powers[c * (ORDER + 1) + j],)
        start = sums + tl.load(places + c).to(tl.int64) * n * (ORDER + 1)
        _store_powers(start, n, part, tied, scale, present, ORDER)


@_jit
def _one_tile(row, first, n_units, UNIT: tl.constexpr, LANES: tl.constexpr, VECTOR: tl.constexpr):
    """The next columns of a row as they are stored."""
    unit, column = _columns(first, UNIT, 1, LANES, VECTOR)[0]
    return tl.load(row + column, mask=unit < n_units, other=-float("inf"))


@_jit
def chain_sums_few(
    logits, peaks, counts, sums, places, least, scale, rate, low, n, stride, n_classes,
    ORDER: tl.constexpr, CHAIN: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    dtype: tl.constexpr = tl.float64 if logits.dtype.element_ty == tl.float64 else tl.float32
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    present = row < n
    peak = tl.load(peaks + row, mask=present, other=0.0).to(dtype)
    total = _zeros((ORDER + 1) * CHAIN, ROWS, tl.float64)
    for k in range(n_classes):
        z = tl.load(logits + row * stride + k, mask=present, other=0.0).to(dtype)
        total = _add_chain(total, z[:, None], peak[:, None], least, scale, rate, low, ORDER, CHAIN)
    tied = tl.load(counts + row, mask=present, other=1.0)
    _store_chain(sums + row, places, n, total, tied, scale, present, ORDER, CHAIN)


@_jit
def chain_sums_many(
    logits, peaks, counts, sums, places, least, scale, rate, low, n, rows, stride, n_units,
    ORDER: tl.constexpr, CHAIN: tl.constexpr,
    UNIT: tl.constexpr, TILES: tl.constexpr, LANES: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    tl.static_assert(TILES == 1)
    dtype: tl.constexpr = tl.float64 if logits.dtype.element_ty == tl.float64 else tl.float32
    step: tl.constexpr = LANES * VECTOR // UNIT
    first_row = tl.program_id(0).to(tl.int64) * rows
    for row in range(first_row, tl.minimum(first_row + rows, n)):
        peak, start = tl.load(peaks + row).to(dtype), logits + row * stride * UNIT
        total = _zeros((ORDER + 1) * CHAIN, LANES, tl.float64)
        tile = _one_tile(start, 0, n_units, UNIT, LANES, VECTOR)
        for first in range(0, n_units, step):
            z = tile.to(dtype)
            # There are too few threads to wait for memory in turns, so the next tile is on its way before this one is summed.
            tile = _one_tile(start, first + step, n_units, UNIT, LANES, VECTOR)
            total = _add_chain(total, z, peak, least, scale, rate, low, ORDER, CHAIN)
        _store_chain(sums + row, places, n, _sum(total, 0), tl.load(counts + row), scale, True, ORDER, CHAIN)


# The kernels of `block_sums`: powers up to 4 for expectation consistency, then up to 5 for temperature scaling.


@_jit
def block_sums_few(
    logits, labels, weights, partial, bias, scale, ec_rate, ec_low, ec_lowest, ts_rate, ts_low, ts_lowest,
    n, stride, n_classes, WEIGHTED: tl.constexpr, MODE: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    rates = ((ec_rate, ec_low, ec_lowest), (ts_rate, ts_low, ts_lowest))
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    start = logits + row * stride
    peak, top, tied, masked, powers = _sums_few(start, row < n, n_classes, scale, rates, (4, 5), 11, MODE, ROWS)
    label, weight, is_class = _labels(labels, weights, row, row < n, n_classes, WEIGHTED)
    at_label = tl.load(start + label, mask=weight != 0, other=0.0).to(tl.float64)
    counts = (n_classes, tied, masked, is_class)
    _store_block_sums(partial, peak, counts, powers, bias, scale, at_label, top == label, weight)


@_jit
def block_sums_many(
    logits, labels, weights, partial, bias, scale, ec_rate, ec_low, ec_lowest, ts_rate, ts_low, ts_lowest,
    n, rows, stride, n_units, WEIGHTED: tl.constexpr, MODE: tl.constexpr,
    UNIT: tl.constexpr, TILES: tl.constexpr, LANES: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    rates = ((ec_rate, ec_low, ec_lowest), (ts_rate, ts_low, ts_lowest))
    row, present, peak, top, tied, masked, powers = _rows_many(
        logits, n, rows, stride, n_units, scale, rates, (4, 5), 11, MODE, UNIT, TILES, LANES, VECTOR
    )
    label, weight, is_class = _labels(labels, weights, row, present, n_units * UNIT, WEIGHTED)
    at_label = tl.load(logits + row * stride * UNIT + label, mask=weight != 0, other=0.0).to(peak.dtype)
    right = (at_label == peak) & ((tied == 1) | (top == label))
    counts = (n_units * UNIT, tied, masked, is_class)
    _store_block_sums(partial, peak, counts, powers, bias, scale, at_label.to(tl.float64), right, weight)


@_jit
def _labels(labels, weights, row, present, n_classes, WEIGHTED: tl.constexpr):
    """Label and weight of each row, and whether the label is a class. Labels are 0 where they are none or do not count."""
    weight = present.to(tl.float64)
    if WEIGHTED:
        weight = tl.load(weights + row, mask=present, other=0.0).to(tl.float64)
    label = tl.load(labels + row, mask=weight != 0, other=0)
    is_class = (label >= 0) & (label < n_classes)
    return tl.where(is_class, label, 0), weight, is_class


@_jit
def _moments(powers, FIRST: tl.constexpr, LAST: tl.constexpr, extra, bias, scale):
    """1/Z and the averages of d, d², ... of each row, with Z = 1 + the sum of the weights of all but the top class."""
    unit = 1 / (1 + tl.cast(bias, tl.float64))
    doubt = powers[FIRST].to(tl.float64) * unit + extra
    confidence = 1 / (1 + doubt)
    moments = (confidence, doubt * confidence)
    for j in tl.static_range(FIRST + 1, LAST + 1):
        unit = unit / scale
        moments = moments + (powers[j].to(tl.float64) * unit * confidence,)
    return moments


@_jit
def _store_block_sums(partial, peak, counts, powers, bias, scale, at_label, right, w):
    """The sums over the rows of this program, one row per lane; the formulas are those of `N_SUMS`."""
    n_classes, tied, masked, is_class = counts
    # Rows of weight zero were not checked. NaN gets no weight, but their peak may be infinite, and 0 times that is NaN.
    there = w != 0
    extra = tied.to(tl.float64) - 1
    d = tl.where(there, at_label - peak.to(tl.float64), 0.0)
    right = right & there
    # Each derivative follows from those before it; see `derivatives` in _sums/predictions.py.
    confidence, doubt, m1, m2, m3, m4 = _moments(powers, 0, 4, extra, bias, scale)
    ec = tl.where(right, -doubt, confidence)
    ec_slope = -confidence * m1
    ec_curvature = -confidence * m2 - 2 * ec_slope * m1
    ec_jerk = -confidence * m3 - 3 * (ec_slope * m2 + ec_curvature * m1)
    ec_snap = -confidence * m4 - 4 * (ec_slope * m3 + ec_jerk * m1) - 6 * ec_curvature * m2
    confidence, doubt, m1, m2, m3, m4, m5 = _moments(powers, 5, 10, extra, bias, scale)
    ts = m1 - d
    ts_slope = m2 - m1 * m1
    ts_curvature = m3 - m1 * m2 - 2 * ts_slope * m1
    ts_jerk = m4 - m1 * m3 - 3 * (ts_slope * m2 + ts_curvature * m1)
    ts_snap = m5 - m1 * m4 - 4 * (ts_slope * m3 + ts_jerk * m1) - 6 * ts_curvature * m2
    v, hit, one = w * w, right.to(tl.float64), there.to(tl.float64)
    live = n_classes - masked.to(tl.float64)
    good = (tl.abs(peak) < float("inf")) & is_class
    terms = (
        w * ec, w * tl.abs(ec), w * ec_slope, w * ec_curvature, w * ec_jerk, v * ec_slope * ec_slope,
        w * ts, w * (tl.abs(m1) + tl.abs(d)), w * ts_slope, w * ts_curvature, w * ts_jerk, v * ts_slope * ts_slope,
        w * ec * ec, w * ts * ts, w * ec * ts, v * ec * ec, v * ts * ts, v * ec * ts,
        w, v, w * hit, w * d,
        w * ec_slope * ec_slope, w * ts_slope * ts_slope, w * ec_slope * ts_slope,
        w * ec * ec_slope, w * ts * ts_slope, w * ec * ts_slope, w * ts * ec_slope,
        v * ec_slope * ts_slope, v * ec * ec_slope, v * ts * ts_slope, v * ec * ts_slope, v * ts * ec_slope,
        w * ec_snap, w * ts_snap,
        w * hit, w * (1 - hit), v * hit, v * (1 - hit), hit, (d == -float("inf")).to(tl.float64),
        one, one * masked.to(tl.float64), w / tl.maximum(live, 1.0), (there & ~good).to(tl.float64),
    )  # fmt: skip
    for i in tl.static_range(len(terms)):
        tl.store(partial + i * tl.num_programs(0) + tl.program_id(0), tl.sum(terms[i], 0))


# The kernels of `score_sums`: what scores are made of, row by row. `triton_sums` adds up the scores.


@_jit
def _store_scores(scored, answers, n, row, present, peak, tied, powers, at_label, right, is_class):
    size = tl.cast(n, tl.int64)
    for i in tl.static_range(2):
        tl.store(scored + size * i + row, powers[i].to(tl.float64) + (tied.to(tl.float64) - 1), mask=present)
    tl.store(scored + size * 2 + row, at_label.to(tl.float64) - peak.to(tl.float64), mask=present)
    good = (tl.abs(peak) < float("inf")) & is_class
    tl.store(answers + row, tl.where(good, right.to(tl.int8), -1).to(tl.int8), mask=present)


@_jit
def score_rows_few(
    logits, labels, scored, answers, scale, rate, low, lowest, rate2, low2, lowest2, n, stride, n_classes,
    MODE: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Store the sums of the weights of all but the top class, of their squares, the drop of the true class, and 1 if it is top.

    That is -1 for rows that a check would refuse.
    """
    rates = ((rate, low, lowest), (rate2, low2, lowest2))
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    start, present = logits + row * stride, row < n
    peak, top, tied, _, powers = _sums_few(start, present, n_classes, scale, rates, (0, 0), 2, MODE, ROWS)
    label, _, is_class = _labels(labels, labels, row, present, n_classes, False)
    at_label = tl.load(start + label, mask=present, other=0.0)
    _store_scores(scored, answers, n, row, present, peak, tied, powers, at_label, top == label, is_class)


@_jit
def score_rows_many(
    logits, labels, scored, answers, scale, rate, low, lowest, rate2, low2, lowest2, n, rows, stride, n_units,
    MODE: tl.constexpr, UNIT: tl.constexpr, TILES: tl.constexpr, LANES: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    """The same with one row after the other."""
    rates = ((rate, low, lowest), (rate2, low2, lowest2))
    row, present, peak, top, tied, _, powers = _rows_many(
        logits, n, rows, stride, n_units, scale, rates, (0, 0), 2, MODE, UNIT, TILES, LANES, VECTOR
    )
    label, _, is_class = _labels(labels, labels, row, present, n_units * UNIT, False)
    at_label = tl.load(logits + row * stride * UNIT + label, mask=present, other=0.0).to(peak.dtype)
    right = (at_label == peak) & ((tied == 1) | (top == label))
    _store_scores(scored, answers, n, row, present, peak, tied, powers, at_label, right, is_class)
