"""The compiled loops of the Numba kernel.

The sums of a row are Σ_k d_k^j exp(β d_k) with d_k = z_k - max(z). Every loop works on a small buffer in the first-level cache
and is written such that the compiler turns it into vector instructions. With many classes the lanes of a vector are columns of
one row; with few classes a block of rows is transposed and the lanes are rows.
"""

from typing import Any

import numpy as np

from nishimori._kernels.numba_exp import REORDER, compiled_function, exp2, larger, vector_loops

# Number of columns whose float32 sums are added before they go into a float64 sum. Also where the compiler uses no vectors, one
# float32 accumulator then takes at most 128 numbers; with 512, sums had errors of 4e-7 on processors without AVX-512.
_CHUNK = 128

# Up to this many bytes per row (128 classes in float32) the lanes of a vector are rows, and this is the number of rows that are
# transposed at a time: nine lines of the cache, because columns at distances of a power of two would all compete for the same
# few places in it.
_FEW = 512
LANES = 144

NONE = -1
"""The top class of a row that does not count."""

# Number of classes that are added in float32 before they go into a float64 sum.
_GROUP = 25

# --- loops over buffers ----------------------------------------------------------------------------------------------------
# Loops take whole arrays and offsets: each slice would count references, which takes as long as a hundred additions. Offsets
# are unsigned, because Numba would check a signed sum for negative indices, and this prevents vectors.


@compiled_function()
def weigh(d: Any, n: Any, terms: Any, c: Any, y: Any, w: Any) -> None:
    """The scaled differences ``y`` and weights ``w`` of ``d``."""
    vector_loops()
    scale, high, low, smallest = terms[c, 0], terms[c, 1], terms[c, 2], terms[c, 3]
    for i in range(n):
        x = larger(d[i] * scale, smallest)
        y[i] = x
        w[i] = exp2(x, high, low)


@compiled_function()
def square(w: Any, n: Any) -> None:
    """Weights at twice the β. Squares that would be subnormal, and therefore slow, become 0."""
    vector_loops()
    for i in range(n):
        x = w[i]
        w[i] = x * x if x > 2.0**-510 else 0.0


@compiled_function(fastmath=REORDER)
def sum_columns(y: Any, w: Any, n: Any, result: Any) -> None:
    """Σ y^j w for j = 0 ... 4, and to 6 if ``result`` is that long."""
    vector_loops()
    a0 = a1 = a2 = a3 = a4 = a5 = a6 = y[0] - y[0]
    for i in range(n):
        y2 = y[i] * y[i]
        w2 = w[i] * y2
        a0 += w[i]
        a1 += w[i] * y[i]
        a2 += w2
        a3 += w2 * y[i]
        a4 += w2 * y2
    result[0], result[1], result[2], result[3], result[4] = a0, a1, a2, a3, a4
    if result.size > 5:
        for i in range(n):
            y2 = y[i] * y[i]
            w4 = w[i] * y2 * y2
            a5 += w4 * y[i]
            a6 += w4 * y2
        result[5], result[6] = a5, a6


@compiled_function(fastmath=REORDER)
def _weigh_and_sum_columns(d: Any, n: Any, terms: Any, c: Any, result: Any) -> None:
    """All seven sums in one loop, which the fit spends its time in when there are many classes."""
    vector_loops()
    scale, high, low, smallest = terms[c, 0], terms[c, 1], terms[c, 2], terms[c, 3]
    a0 = a1 = a2 = a3 = a4 = a5 = a6 = scale - scale
    for i in range(n):
        y = larger(d[i] * scale, smallest)
        w = exp2(y, high, low)
        y2 = y * y
        w2 = w * y2
        w4 = w2 * y2
        a0 += w
        a1 += w * y
        a2 += w2
        a3 += w2 * y
        a4 += w4
        a5 += w4 * y
        a6 += w4 * y2
    result[0], result[1], result[2], result[3], result[4], result[5], result[6] = a0, a1, a2, a3, a4, a5, a6


# The lanes of several powers are in one array, at constant distances: of separate arrays the compiler would have to prove that
# they do not overlap.


@compiled_function(fastmath=REORDER)
def _sum_lanes(y: Any, w: Any, first: Any, last: Any, result: Any) -> None:
    """Σ y^j w of some classes in each lane, for j = 0 ... 4, and to 6 if ``result`` is that long."""
    vector_loops()
    n = LANES
    result[:] = 0
    for k in range(first, last):
        for i in range(n):
            x, v = y[k * n + i], w[k * n + i]
            x2 = x * x
            v2 = v * x2
            result[i] += v
            result[n + i] += v * x
            result[2 * n + i] += v2
            result[3 * n + i] += v2 * x
            result[4 * n + i] += v2 * x2
    if result.size > 5 * n:
        for k in range(first, last):
            for i in range(n):
                x = y[k * n + i]
                x2 = x * x
                v4 = w[k * n + i] * x2 * x2
                result[5 * n + i] += v4 * x
                result[6 * n + i] += v4 * x2


@compiled_function(fastmath=REORDER)
def _weigh_and_sum_lanes(d: Any, first: Any, last: Any, terms: Any, c: Any, result: Any) -> None:
    """The first five sums in one loop, which the fit spends its time in when there are few classes."""
    vector_loops()
    n = LANES
    scale, high, low, smallest = terms[c, 0], terms[c, 1], terms[c, 2], terms[c, 3]
    result[:] = 0
    for k in range(first, last):
        for i in range(n):
            y = larger(d[k * n + i] * scale, smallest)
            w = exp2(y, high, low)
            y2 = y * y
            w2 = w * y2
            result[i] += w
            result[n + i] += w * y
            result[2 * n + i] += w2
            result[3 * n + i] += w2 * y
            result[4 * n + i] += w2 * y2


# --- many classes: lanes are columns ---------------------------------------------------------------------------------------


# A logit is unusual if it is NaN or infinite, or larger in size than the `limit`. Times zero, the former are NaN; the compiler
# must not know that it is zero, or it would leave out the product.


@compiled_function(fastmath=REORDER)
def _first_maximum(z: Any, i: Any, zero: Any, limit: Any) -> Any:
    """The maximum of row ``i``, its first column, and whether some logit is unusual. It brings the row into the cache."""
    vector_loops()
    n_classes = z.shape[1]
    largest, begin = z[i, 0], 0
    lowest, zeros = -largest, zero
    for start in range(0, n_classes, _CHUNK):
        offset = np.uint64(start)
        here = z[i, offset]
        for k in range(min(_CHUNK, n_classes - start)):
            new = z[i, offset + np.uint64(k)]
            here = larger(here, new)
            lowest = larger(lowest, -new)
            zeros += new * zero
        if here > largest:
            largest, begin = here, start
    offset = np.uint64(begin)
    place = np.int32(_CHUNK)
    for k in range(min(_CHUNK, n_classes - begin)):
        place = min(place, np.int32(k) if z[i, offset + np.uint64(k)] == largest else np.int32(_CHUNK))
    return largest, begin + place, not (zeros == 0 and max(largest, lowest) <= limit)


@compiled_function()
def _subtract(z: Any, i: Any, start: Any, largest: Any, top: Any, d: Any) -> Any:
    """Fill ``d`` with one chunk of the differences, without the top class; return its length, padded to whole vectors."""
    vector_loops()
    offset = np.uint64(start)
    n = min(_CHUNK, z.shape[1] - start)
    for k in range(n):
        d[k] = z[i, offset + np.uint64(k)] - largest
    padded = (n + 15) // 16 * 16
    for k in range(n, padded):
        d[k] = -np.inf
    if start <= top < start + padded:
        d[top - start] = -np.inf
    return padded


@compiled_function()
def _by_columns(z: Any, begin: Any, n_rows: Any, weights: Any, plan: Any, scratch: Any, top: Any, sums: Any, at: Any) -> Any:
    vector_loops()
    terms, chains, places, factors, zero, limit = plan
    is_unusual = False
    d, y, w, parts, _, _ = scratch
    n_betas, n_powers, _ = sums.shape
    for i in range(n_rows):
        for b in range(n_betas):
            for j in range(n_powers):
                sums[b, j, at + i] = 0.0
        if weights.size > 0 and weights[begin + i] == 0.0:  # this row may hold anything
            top[at + i] = NONE
            continue
        largest, top[at + i], unusual = _first_maximum(z, begin + i, zero, limit)
        is_unusual |= unusual
        for start in range(0, z.shape[1], _CHUNK):
            n = _subtract(z, begin + i, start, d.dtype.type(largest), top[at + i], d)
            for c in range(chains.size - 1):
                single = chains[c] + 1 == chains[c + 1] and n_powers > 5
                if not single:
                    weigh(d, n, terms, c, y, w)
                for b in range(chains[c], chains[c + 1]):
                    if b > chains[c]:
                        square(w, n)
                    if single:
                        _weigh_and_sum_columns(d, n, terms, c, parts)
                    else:
                        sum_columns(y, w, n, parts)
                    for j in range(n_powers):
                        sums[places[b], j, at + i] += parts[j] * factors[b, j]
    return is_unusual


# --- few classes: lanes are rows -------------------------------------------------------------------------------------------


@compiled_function(fastmath=REORDER)
def _is_unusual(z: Any, begin: Any, n_rows: Any, zero: Any, limit: Any) -> Any:
    """Whether some logit of these rows is unusual. It brings them into the cache."""
    vector_loops()
    flat, offset = z.reshape(-1), np.uint64(begin * z.shape[1])
    zeros = largest = lowest = zero
    for i in range(n_rows * z.shape[1]):
        x = flat[offset + np.uint64(i)]
        largest, lowest = larger(largest, x), larger(lowest, -x)
        zeros += x * zero
    return not (zeros == 0 and max(largest, lowest) <= limit)


@compiled_function()
def _transpose(z: Any, begin: Any, n_rows: Any, columns: Any) -> None:
    """Rows as columns. The last lanes repeat the first if there are too few rows."""
    vector_loops()
    flat = z.reshape(-1)
    n_classes = np.uint64(z.shape[1])
    for k in range(z.shape[1]):
        offset, column = np.uint64(begin * z.shape[1] + k), np.uint64(k * LANES)
        for i in range(n_rows):
            columns[column + np.uint64(i)] = flat[offset + np.uint64(i) * n_classes]
        for i in range(n_rows, LANES):
            columns[column + np.uint64(i)] = columns[column]


@compiled_function()
def _subtract_lanes(columns: Any, n_classes: Any, largest: Any, place: Any) -> None:
    """The maximum of each lane and its first class; subtract it and leave this class out."""
    vector_loops()
    for i in range(LANES):
        largest[i], place[i] = columns[i], 0
    for k in range(1, n_classes):
        for i in range(LANES):
            new, old, old_place = columns[k * LANES + i], largest[i], place[i]
            largest[i] = new if new > old else old
            place[i] = np.int32(k) if new > old else old_place
    for k in range(n_classes):
        for i in range(LANES):
            columns[k * LANES + i] -= largest[i]
    for i in range(LANES):
        columns[place[i] * LANES + i] = -np.inf


@compiled_function()
def _add_lanes(parts: Any, factors: Any, b: Any, n: Any, sums: Any, place: Any, at: Any) -> None:
    """Undo the scale and add the lanes that are rows."""
    vector_loops()
    for j in range(sums.shape[1]):
        factor = factors[b, j]
        for i in range(n):
            sums[place, j, np.uint64(at) + np.uint64(i)] += parts[j * LANES + i] * factor


@compiled_function()
def _by_rows(z: Any, begin: Any, n_rows: Any, weights: Any, plan: Any, scratch: Any, top: Any, sums: Any, at: Any) -> Any:
    vector_loops()
    terms, chains, places, factors, zero, limit = plan
    d, y, w, parts, largest, place = scratch
    n_classes, n_powers = z.shape[1], sums.shape[1]
    is_unusual = _is_unusual(z, begin, n_rows, zero, limit)
    _transpose(z, begin, n_rows, d)
    _subtract_lanes(d, n_classes, largest, place)
    for i in range(n_rows):
        top[at + i] = place[i]
    for c in range(chains.size - 1):
        single = chains[c] + 1 == chains[c + 1] and n_powers <= 5
        if not single:
            weigh(d, n_classes * LANES, terms, c, y, w)
        for b in range(chains[c], chains[c + 1]):
            if b > chains[c]:
                square(w, n_classes * LANES)
            sums[places[b], :, at : at + n_rows] = 0.0
            for first in range(0, n_classes, _GROUP):
                last = min(first + _GROUP, n_classes)
                if single:
                    _weigh_and_sum_lanes(d, first, last, terms, c, parts)
                else:
                    _sum_lanes(y, w, first, last, parts)
                _add_lanes(parts, factors, b, n_rows, sums, places[b], at)
    if weights.size > 0:
        for i in range(n_rows):
            if weights[begin + i] == 0.0:
                top[at + i] = NONE
                sums[:, :, at + i] = 0.0
    return is_unusual


# --- both layouts ----------------------------------------------------------------------------------------------------------


@compiled_function()
def are_few(n_classes: Any, terms: Any) -> Any:
    return n_classes * terms.itemsize <= _FEW


@compiled_function()
def aligned(size: Any, dtype: Any) -> Any:
    """An empty array that starts with a line of the cache; vectors across two lines take twice as long."""
    bytes_ = np.empty(8 * size + 64, np.uint8)
    start = -bytes_.ctypes.data % 64
    return bytes_[start : start + 8 * size].view(dtype)[:size]


@compiled_function()
def scratch_for(n_classes: Any, n_powers: Any, terms: Any) -> Any:
    """Buffers for differences, weights and sums."""
    dtype = terms.dtype
    few = are_few(n_classes, terms)
    size = n_classes * LANES if few else _CHUNK
    d, y, w = aligned(size, dtype), aligned(size, dtype), aligned(size, dtype)
    parts = aligned((5 if n_powers <= 5 else 7) * (LANES if few else 1), dtype)
    return d, y, w, parts, aligned(LANES, dtype), aligned(LANES, np.int32)


@compiled_function()
def fill_block(z: Any, begin: Any, n_rows: Any, weights: Any, plan: Any, scratch: Any, top: Any, sums: Any, at: Any) -> Any:
    """Fill ``top`` and ``sums`` (betas, powers, n) from ``at`` on with what at most `LANES` rows from ``begin`` on give.

    ``weights`` are those of all rows, or empty. Rows of weight zero have sums of zero, and their top class is `NONE`. Return
    whether some logit is NaN, infinite, or too large; with few classes those in rows of weight zero count too.
    """
    if are_few(z.shape[1], plan[0]):
        return _by_rows(z, begin, n_rows, weights, plan, scratch, top, sums, at)
    return _by_columns(z, begin, n_rows, weights, plan, scratch, top, sums, at)


@compiled_function()
def fill(z: Any, plan: Any, top: Any, sums: Any) -> None:
    """Fill ``top`` (n,) and ``sums`` (betas, powers, n)."""
    scratch, weights = scratch_for(z.shape[1], sums.shape[1], plan[0]), np.empty(0)
    for start in range(0, z.shape[0], LANES):
        fill_block(z, start, min(LANES, z.shape[0] - start), weights, plan, scratch, top, sums, start)
