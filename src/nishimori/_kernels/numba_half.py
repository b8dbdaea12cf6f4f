"""The compiled loops for rows in half precision: sums over the values that occur in a row; see `nishimori._kernels.half`.

Logits come as numbers of 16 bits, and ``values`` says what each of them stands for. So the loops are the same for bfloat16 and
float16, and are compiled once.
"""

from typing import Any

import numpy as np

from nishimori._kernels.numba_exp import compiled_function, vector_loops
from nishimori._kernels.numba_fits import add_rows, store_cumulants
from nishimori._kernels.numba_loops import LANES, aligned, square, sum_columns, weigh

_N_VALUES = 2**16

# Values that are looked at together: most of such runs do not occur in a row.
_RUN = 64


@compiled_function()
def _count(z: Any, i: Any, counts: Any) -> None:
    """Add how often each number of 16 bits occurs in row ``i``."""
    row = z[i]
    for k in range(row.size):
        counts[row[np.uint64(k)]] += np.uint32(1)


@compiled_function()
def _occurs(counts: Any, start: Any) -> Any:
    """Whether some number of a run occurs."""
    vector_loops()
    some = np.uint32(0)
    for j in range(_RUN):
        some |= counts[np.uint64(start) + np.uint64(j)]
    return some != 0


@compiled_function()
def _present(counts: Any, values: Any, limit: Any, found: Any, numbers: Any) -> Any:
    """The values that occur and how often, -inf left out, and set the counts to zero.

    Return how many values there are, which of them is the largest, its bits, and whether some value is unusual.
    """
    n, at, bits, is_unusual = 0, 0, 0, False
    for start in range(0, _N_VALUES, _RUN):
        if not _occurs(counts, start):
            continue
        for j in range(start, start + _RUN):
            number = counts[j]
            if number == 0:
                continue
            counts[j] = 0
            value = values[j]
            is_unusual |= not abs(value) <= limit
            if value == -np.inf:
                continue
            found[n], numbers[n] = value, number
            if value > found[at]:
                at = n
            if at == n:
                bits = j
            n += 1
    return n, at, bits, is_unusual


@compiled_function()
def _has_bits(z: Any, i: Any, start: Any, n: Any, bits: Any) -> Any:
    """Whether some of ``n`` columns of row ``i`` have these bits."""
    vector_loops()
    offset, wanted, some = np.uint64(start), np.uint16(bits), np.uint16(0)
    for k in range(n):
        some |= np.uint16(1) if z[i, offset + np.uint64(k)] == wanted else np.uint16(0)
    return some != 0


@compiled_function()
def _column_of(z: Any, i: Any, bits: Any) -> Any:
    """The first column of row ``i`` with these bits, or the number of columns."""
    n_classes, step = z.shape[1], 1024
    for start in range(0, n_classes, step):
        n = min(step, n_classes - start)
        if _has_bits(z, i, start, n, bits):
            for k in range(start, start + n):
                if z[i, k] == bits:
                    return k
    return n_classes


@compiled_function()
def _first_column(z: Any, i: Any, values: Any, bits: Any) -> Any:
    """The first column of the largest value, whose bits are given. Zero has two patterns."""
    if values[bits] != 0.0:
        return _column_of(z, i, bits)
    return min(_column_of(z, i, 0), _column_of(z, i, _N_VALUES // 2))


@compiled_function()
def _subtract_and_leave_out(found: Any, numbers: Any, n: Any, at: Any) -> Any:
    """Turn values into differences from the largest and leave out one class of it. Return how many more there are."""
    peak, ties = found[at], 0.0
    numbers[at] -= 1.0
    for j in range(n):
        found[j] -= peak
        ties += numbers[j] if found[j] == 0.0 else 0.0
    return ties


@compiled_function()
def _times(w: Any, numbers: Any, n: Any, product: Any) -> None:
    vector_loops()
    for j in range(n):
        product[j] = w[j] * numbers[j]


@compiled_function()
def _fill_row(d: Any, numbers: Any, n: Any, ties: Any, plan: Any, scratch: Any, sums: Any, at: Any) -> None:
    """The sums of one row at all β; those of β = 0 and ∞ are in the last two parts of the plan."""
    terms, chains, places, factors, _, _, at_zero, at_infinity = plan
    y, w, product, parts = scratch
    n_powers = sums.shape[1]
    for c in range(chains.size - 1):
        weigh(d, n, terms, c, y, w)
        for b in range(chains[c], chains[c + 1]):
            if b > chains[c]:
                square(w, n)
            _times(w, numbers, n, product)
            sum_columns(y, product, n, parts)
            for j in range(n_powers):
                sums[places[b], j, at] = parts[j] * factors[b, j]
    for place in at_zero:
        sum_columns(d, numbers, n, parts)
        for j in range(n_powers):
            sums[place, j, at] = parts[j]
    for place in at_infinity:
        sums[place, :, at] = 0.0
        sums[place, 0, at] = ties


@compiled_function()
def _scratch(n_powers: Any) -> Any:
    """Buffers for counts, for values and how often they occur, and for weights and sums."""
    counts = np.zeros(_N_VALUES, np.uint32)
    found, numbers = aligned(_N_VALUES, np.float64), aligned(_N_VALUES, np.float64)
    y, w, product = aligned(_N_VALUES, np.float64), aligned(_N_VALUES, np.float64), aligned(_N_VALUES, np.float64)
    return counts, found, numbers, (y, w, product, np.empty(5 if n_powers <= 5 else 7))


@compiled_function()
def fill_half(z: Any, values: Any, plan: Any, peak: Any, top: Any, sums: Any) -> None:
    """Fill ``peak`` and ``top`` (n,) and ``sums`` (betas, powers, n)."""
    counts, found, numbers, scratch = _scratch(sums.shape[1])
    for i in range(z.shape[0]):
        _count(z, i, counts)
        n, at, bits, _ = _present(counts, values, plan[5], found, numbers)
        peak[i], top[i] = values[bits], _first_column(z, i, values, bits)
        ties = _subtract_and_leave_out(found, numbers, n, at)
        _fill_row(found, numbers, n, ties, plan, scratch, sums, i)


@compiled_function()
def _fill_lanes(
    z: Any, values: Any, labels: Any, weights: Any, begin: Any, n_rows: Any, plan: Any, scratch: Any, sums: Any, rows: Any
) -> Any:
    """The sums of at most `LANES` rows, and what their labels say: whether the top class is true, and the label's d."""
    counts, found, numbers, buffers = scratch
    right, label_d = rows
    is_unusual = False
    for lane in range(n_rows):
        i = begin + lane
        right[lane], label_d[lane] = False, 0.0
        if weights[i] == 0.0:  # this row may hold anything
            sums[:, :, lane] = 0.0
            continue
        _count(z, i, counts)
        n, at, bits, unusual = _present(counts, values, plan[5], found, numbers)
        is_unusual |= unusual
        if n == 0:
            continue
        label_d[lane] = values[z[i, labels[i]]] - values[bits]
        ties = _subtract_and_leave_out(found, numbers, n, at)
        if label_d[lane] == 0.0:
            right[lane] = ties == 0.0 or labels[i] == _first_column(z, i, values, bits)
        _fill_row(found, numbers, n, ties, plan, buffers, sums, lane)
    return is_unusual


@compiled_function()
def fill_half_total(z: Any, values: Any, labels: Any, weights: Any, plan: Any, total: Any) -> Any:
    """As `fill_total` of rows in half precision."""
    n_betas = plan[1].size - 1
    sums, right, label_d = np.empty((n_betas, 5, LANES)), np.empty(LANES), np.empty(LANES)
    scratch, is_unusual = _scratch(5), False
    for start in range(0, z.shape[0], LANES):
        n = min(LANES, z.shape[0] - start)
        is_unusual |= _fill_lanes(z, values, labels, weights, start, n, plan, scratch, sums, (right, label_d))
        add_rows(sums[0], sums[n_betas - 1], right, label_d, weights[start : start + n], total)
    return is_unusual


@compiled_function()
def fill_half_expansion(z: Any, values: Any, labels: Any, weights: Any, plan: Any, columns: Any) -> Any:
    """As `fill_expansion` of rows in half precision."""
    rest, cumulants, drops, right = columns
    sums, scratch, is_unusual = np.empty((1, 7, LANES)), _scratch(7), False
    for start in range(0, z.shape[0], LANES):
        n = min(LANES, z.shape[0] - start)
        rows = right[start : start + n], drops[start : start + n]
        is_unusual |= _fill_lanes(z, values, labels, weights, start, n, plan, scratch, sums, rows)
        store_cumulants(sums[0], n, rest, cumulants, start)
    return is_unusual
