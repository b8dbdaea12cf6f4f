"""Rows of text with numbers as Python writes them, in C where it was compiled, and there twenty times as fast."""

from collections.abc import Sequence
from ctypes import Structure, byref, c_char, c_char_p, c_int64, c_void_p
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from nishimori._kernels import native
from nishimori._support.arrays import HostArray

_SMALLEST_POWER, _LARGEST_POWER = -292, 324

# As many bytes as a number can take.
_LONGEST = 25


class _PlaceInC(Structure):
    _fields_ = [("before", c_char_p), ("n_before", c_int64), ("data", c_void_p), ("stride", c_int64), ("offsets", c_void_p)]


@dataclass(frozen=True)
class Place:
    """What stands in one place of every row: ``before`` it, and its numbers or its texts."""

    before: bytes
    numbers: HostArray | None = None
    texts: Sequence[bytes] = ()


@cache
def _function() -> Any:
    """The function in C, or None where it was not compiled."""
    if not native.is_available():
        return None
    function = native.library().functions.nishimori_write_rows
    function.argtypes = (c_int64, c_int64, c_void_p, c_char_p, c_int64, c_char, c_void_p, c_void_p)
    function.restype = c_int64
    return function


@cache
def _powers() -> HostArray:
    """The first 128 bits of powers of ten, rounded up, as two numbers of 64 bits each."""
    powers = []
    for power in range(_SMALLEST_POWER, _LARGEST_POWER + 1):
        above, below = (10**power, 1) if power >= 0 else (1, 10**-power)
        shift = 128 - above.bit_length() + below.bit_length()
        bits = -((-above << shift) // below) if shift >= 0 else -(-above // (below << -shift))
        while bits >= 2**128:  # one bit too many, which is divided again so that it is rounded once
            shift -= 1
            bits = -((-above << shift) // below) if shift >= 0 else -(-above // (below << -shift))
        powers.append((bits >> 64, bits & (2**64 - 1)))
    return np.array(powers, dtype=np.uint64)


def rows_of_text(n_rows: int, places: Sequence[Place], end: bytes, decimal: str = ".") -> bytes | memoryview:
    """Rows of numbers and texts, as UTF-8; numbers have as many digits as Python writes.

    Parameters
    ----------
    n_rows : int
        How many rows there are.
    places : sequence of Place
        What stands in each row, in order. Numbers are finite.
    end : bytes
        The end of each row.
    decimal : {".", ","}
        The decimal mark of numbers.
    """
    function = _function()
    if function is None:
        return _in_python(places, end, decimal)
    in_c = (_PlaceInC * len(places))()
    kept: list[Any] = []  # what the pointers point to
    size = n_rows * (len(end) + sum(len(place.before) for place in places))
    for place, place_in_c in zip(places, in_c, strict=True):
        place_in_c.before, place_in_c.n_before = place.before, len(place.before)
        if place.numbers is not None:
            numbers = np.asarray(place.numbers, np.float64)
            place_in_c.data, place_in_c.stride = numbers.ctypes.data, numbers.strides[0]
            size += n_rows * _LONGEST
            kept.append(numbers)
        else:
            offsets = np.zeros(n_rows + 1, np.int64)
            np.cumsum([len(text) for text in place.texts], out=offsets[1:])
            data = b"".join(place.texts)
            place_in_c.data, place_in_c.offsets = np.frombuffer(data or b" ", np.uint8).ctypes.data, offsets.ctypes.data
            size += len(data)
            kept += [data, offsets]
    out = np.empty(size + _LONGEST, np.uint8)
    about = (end, len(end), decimal.encode(), _powers().ctypes.data)
    length = function(n_rows, len(places), byref(in_c), *about, out.ctypes.data)
    return out[:length].data


def _in_python(places: Sequence[Place], end: bytes, decimal: str) -> bytes:
    columns = [
        [place.before + text for text in place.texts]
        if place.numbers is None
        else [place.before + repr(number).replace(".", decimal).encode() for number in np.asarray(place.numbers).tolist()]
        for place in places
    ]
    return b"".join(b"".join(row) + end for row in zip(*columns, strict=True))
