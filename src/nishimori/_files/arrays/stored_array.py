"""An array in a file, read in blocks of rows.

Only its shape and dtype are known before it is read. Each pass starts at the file again, so arrays larger than the memory
can be read as often as needed.
"""

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nishimori._support.arrays import HostArray
from nishimori.errors import FormatError, NishimoriError

# A row is read as a whole, so this bounds the memory of a block of one row; it leaves room for eight million classes.
_LONGEST_ROW = 1 << 26
# Number of dimensions of a table; arrays with more are not one row per sample.
_TABLE = 2
_LAST_CHARACTER, _SURROGATES = 0x10FFFF, (0xD800, 0xDFFF)


@dataclass(frozen=True)
class StoredArray:
    """An array in a file; `array` or `labels` of its file has checked that its dtype can be used.

    Attributes
    ----------
    where : str
        Names the array and its file in error messages.
    shape : tuple of int
        Its shape, which agrees with the number of bytes in the file.
    dtype : numpy.dtype
        The dtype of the blocks.
    blocks : callable
        Called with a number of rows, it reads the array from the start and yields consecutive blocks of that many rows; the
        last one may be shorter.
    """

    where: str
    shape: tuple[int, ...]
    dtype: "np.dtype[Any]"
    blocks: Callable[[int], Iterator[HostArray]] = field(repr=False)

    def whole(self) -> HostArray:
        """All rows."""
        (only,) = self.blocks(self.shape[0] if self.shape else 1)
        return only

    def numbers(self) -> "StoredArray":
        """The array, if it holds numbers; the byte order of blocks is the machine's."""
        if self.dtype.kind not in "fiub":
            raise FormatError(f"{self.where} must hold numbers, got dtype {_name(self.dtype)}. Convert it to float32 first.")
        return replace(self._readable(), dtype=self.dtype.newbyteorder("="), blocks=self._converted_blocks(_native))

    def labels(self) -> "StoredArray":
        """The array, if it holds numbers or text; encoded text (dtype S) is decoded from UTF-8."""
        if self.dtype.kind not in "US":
            return self.numbers()
        return replace(self._readable(), dtype=np.dtype(np.str_), blocks=self._converted_blocks(self._text))

    def table(self) -> "StoredArray":
        """The array, if it has one or two dimensions."""
        if len(self.shape) > _TABLE:
            raise FormatError(
                f"{self.where} must have one row per sample, got an array of shape {_brief(self.shape)}. Reshape it, or load "
                "it in Python and pass the array, of any shape before the classes."
            )
        return self

    def _readable(self) -> "StoredArray":
        """The array, if it has rows and a size that can be read."""
        if not self.shape:
            raise FormatError(f"{self.where} must have one row per sample, got an array of shape ().")
        if 0 in self.shape or not self.dtype.itemsize:
            raise FormatError(f"{self.where} has nothing in it, its shape is {self.shape}. Save it again with its rows.")
        if row_bytes(self.shape, self.dtype) > _LONGEST_ROW:
            raise FormatError(
                f"{self.where} has rows of {row_bytes(self.shape, self.dtype)} bytes. It must have one row per sample: "
                "transpose it first."
            )
        return self

    def _converted_blocks(self, convert: Callable[[HostArray], HostArray]) -> Callable[[int], Iterator[HostArray]]:
        return lambda n_rows: map(convert, self.blocks(n_rows))

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


def row_bytes(shape: tuple[int, ...], dtype: "np.dtype[Any]") -> int:
    """The number of bytes in one row."""
    n = dtype.itemsize
    for length in shape[1:]:
        n *= length
    return n


def blocks_from_slices(n_rows: int, part: Callable[[int, int], HostArray]) -> Callable[[int], Iterator[HostArray]]:
    """`blocks` of an array whose rows from ``start`` to ``stop`` are ``part(start, stop)``."""

    def blocks(length: int) -> Iterator[HostArray]:
        for start in range(0, n_rows, length):
            yield part(start, min(n_rows, start + length))

    return blocks


def _native(block: HostArray) -> HostArray:
    """The block in the byte order of the machine. Any byte other than 0 is True."""
    if block.dtype.kind == "b":
        truth: HostArray = np.ascontiguousarray(block).view(np.uint8) != 0
        return truth
    return block.astype(block.dtype.newbyteorder("="), copy=False)


def _name(dtype: "np.dtype[Any]") -> str:
    return "with fields" if dtype.names else str(dtype)[:40]


def _brief(shape: tuple[int, ...]) -> str:
    return str(shape) if len(shape) < 10 else f"of {len(shape)} dimensions"
