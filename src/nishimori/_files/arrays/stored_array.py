"""An array in a file; any range of rows can be read.

Only its shape and dtype are known before it is read, so arrays larger than the memory can be read as often as needed.
"""

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from nishimori._rows.stored_rows import Sliced
from nishimori._support.arrays import HostArray
from nishimori.errors import FormatError, NishimoriError

# Rows that are read together are in memory together; this leaves room for eight million classes.
_LONGEST_ROW = 1 << 26
FLOAT8 = "Convert it to float32 first."
"""What to do about a dtype that NumPy lacks."""

_LAST_CHARACTER, _SURROGATES = 0x10FFFF, (0xD800, 0xDFFF)

Part = Callable[[int, int], HostArray]


@dataclass(frozen=True, eq=False)
class StoredArray(Sliced):
    """An array in a file; `array` or `labels` of its file has checked that its dtype can be used.

    Attributes
    ----------
    where : str
        Names the array and its file in error messages.
    shape : tuple of int
        Its shape, which agrees with the number of bytes in the file.
    dtype : numpy.dtype
        The dtype of its rows.
    read : callable
        Reads the rows from the first number to the one before the second. Each position before the last dimension is a row.
    together : int
        How many rows can only be read together: both numbers are multiples of it.
    """

    where: str
    shape: tuple[int, ...]
    dtype: "np.dtype[Any]"
    read: Part = field(repr=False)
    together: int = 1

    def rows(self, start: int, stop: int) -> HostArray:
        """Some rows, in one or two dimensions."""
        return self.read(start, stop).reshape(-1, *self.shape[1:][-1:])

    def whole(self) -> HostArray:
        """All rows, in the shape of the array."""
        return self.rows(0, self.n_rows).reshape(self.shape)

    def numbers(self) -> "StoredArray":
        """The array, if it holds numbers; its rows have the machine's byte order."""
        if self.dtype.kind not in "fiub":
            name = "with fields" if self.dtype.names else str(self.dtype)[:40]
            raise FormatError(f"{self.where} must hold numbers, got dtype {name}. Convert it to float32 first.")
        return self._converted(self.dtype.newbyteorder("="), _native)

    def labels(self) -> "StoredArray":
        """The array, if it holds numbers or text; encoded text (dtype S) is decoded from UTF-8."""
        return self._converted(np.dtype(np.str_), self._text) if self.dtype.kind in "US" else self.numbers()

    def table(self) -> "StoredArray":
        """The array, if it has one or two dimensions."""
        if len(self.shape) > 2:
            raise FormatError(
                f"{self.where} must have one row per sample, got an array of shape {self.shape}. Reshape it, or load "
                "it in Python and pass the array, of any shape before the classes."
            )
        return self

    def filled(self) -> "StoredArray":
        """The array, if it has rows."""
        if not self.shape:
            raise FormatError(f"{self.where} must have one row per sample, got an array of shape ().")
        if 0 in self.shape or not self.dtype.itemsize:
            raise FormatError(f"{self.where} is empty: its shape is {self.shape}. Save it again with its rows.")
        return self

    def _converted(self, dtype: "np.dtype[Any]", convert: Callable[[HostArray], HostArray]) -> "StoredArray":
        """The array with converted rows, if it has rows, and the rows that are read together are not too large."""
        self.filled()
        n_bytes = self.together * prod(self.shape[1:][-1:]) * self.dtype.itemsize
        if n_bytes > _LONGEST_ROW:
            raise FormatError(f"{self.where} has rows of {n_bytes} bytes. It must have one row per sample: transpose it first.")
        return replace(self, dtype=dtype, read=lambda start, stop: convert(self.read(start, stop)))

    def _text(self, block: HostArray) -> HostArray:
        try:
            if block.dtype.kind == "S":
                return np.char.decode(block, "utf-8")
            block = np.ascontiguousarray(_native(block))
            # NumPy does not check characters when it reads them, and Python fails later on those that do not exist.
            code = block.view(np.uint32)
            if ((code > _LAST_CHARACTER) | ((code >= _SURROGATES[0]) & (code <= _SURROGATES[1]))).any():
                raise UnicodeError
        except UnicodeError:
            raise FormatError(f"{self.where} has labels that are not text. Save them again as text in UTF-8.") from None
        return block


@contextmanager
def damage(message: str) -> Iterator[None]:
    """Raise a `FormatError` with that message in place of the many errors that readers raise for damaged files."""
    try:
        yield
    except (NishimoriError, GeneratorExit):
        raise
    except OSError as error:
        if error.errno not in (None, errno.EINVAL):  # EINVAL is what a seek to a nonsensical position raises
            raise
        raise FormatError(message) from None
    except Exception:  # NumPy, PyTorch, zipfile, zlib, struct and pickletools each have their own
        raise FormatError(message) from None


def _native(block: HostArray) -> HostArray:
    """The block in the byte order of the machine. Any byte other than 0 is True."""
    if block.dtype.kind == "b":
        truth: HostArray = np.ascontiguousarray(block).view(np.uint8) != 0
        return truth
    return block.astype(block.dtype.newbyteorder("="), copy=False)
