"""NumPy's files (.npy, .npz), read in blocks and without trust in what their headers say.

A header gives a shape and a dtype. The array must have exactly the number of bytes that follow from them, which is checked
before anything is read or allocated. Members of an archive are streamed, compressed ones too. Pickled objects are never loaded.
"""

import io
import os
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from nishimori._files.arrays.stored_array import StoredArray, blocks_from_slices, damage, row_bytes
from nishimori._rows.stored_rows import Sliced
from nishimori._support.arrays import HostArray, rows_between
from nishimori._support.disk import existing_file
from nishimori.errors import FormatError

# NumPy writes headers of at most 10,000 characters, and reads longer ones only on request.
_LONGEST_HEADER = 1 << 14
_CHUNK = 1 << 20
# The directory of an archive is read as a whole; one of this size has at least 30,000 members.
_LARGEST_DIRECTORY = 1 << 22
# Real logits are compressed to a half, one-hot labels to a hundredth. Far more is a bomb, if it is also large.
_RATIO, _HARMLESS = 200, 1 << 28
# Rows of an array in Fortran order are spread over all of it, so a member of an archive is read as a whole.
_LARGEST_TRANSPOSED = 1 << 26
_ENCRYPTED = 1
_READABLE = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


@dataclass(frozen=True)
class Header:
    """What the header of an array says, and how many bytes the header takes."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: "np.dtype[Any]"
    length: int


def header(stream: IO[bytes], size: int, where: str) -> Header:
    """The header at the start of ``stream``, if it agrees with the ``size`` of all that is there."""
    start = io.BytesIO(stream.read(_LONGEST_HEADER))
    with damage(f"{where} is not a plain NumPy array, or is damaged. Save it again with NumPy."), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about headers of Python 2 and old names of dtypes
        read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[npy.read_magic(start)]
        shape, fortran_order, dtype = read(start)
    if dtype.hasobject:
        raise FormatError(
            f"{where} holds pickled Python objects, which are never loaded. Save scores as an array of numbers. "
            "Save labels as numbers or text, as with labels.astype('U')."
        )
    expected, n_bytes = prod(shape) * dtype.itemsize, size - start.tell()
    if any(length < 0 for length in shape) or expected != n_bytes:
        raise FormatError(
            f"{where} is truncated or damaged: its header describes {_number(expected)} bytes, and there are {n_bytes}. "
            "Save it again with NumPy."
        )
    return Header(shape, bool(fortran_order) and len(shape) > 1, dtype, start.tell())


def header_of(path: Path) -> Header:
    """The header of a .npy file."""
    with existing_file(path).open("rb") as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        if not size:
            raise FormatError(f"{path} is empty. Save it again with numpy.save.")
        if file.peek(4).startswith(b"PK\x03\x04"):
            raise FormatError(f"{path} is an archive of arrays. Rename it to {path.with_suffix('.npz').name}.")
        return header(file, size, str(path))


def memory_map(path: Path, about: Header) -> HostArray:
    """A memory map of a .npy file."""
    order = "F" if about.fortran_order else "C"
    return np.asarray(np.memmap(path, about.dtype, "r", about.length, about.shape or (1,), order))  # type: ignore[call-overload]


def array_file(path: Path) -> StoredArray:
    """The array in a .npy file, which is memory-mapped."""
    about = header_of(path)
    if 0 in about.shape or not about.dtype.itemsize:  # nothing can be mapped
        return StoredArray(str(path), about.shape, about.dtype, lambda _: iter(()))
    rows = memory_map(path, about)
    return StoredArray(str(path), about.shape, about.dtype, blocks_from_slices(len(rows), lambda start, stop: rows[start:stop]))


class NpyFile(Sliced):
    """Scores in a .npy file, read a few megabytes at a time.

    The file is read and not mapped: a file that shrinks while it is mapped ends the process, and reads of several megabytes
    keep the disk busier than page faults do.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._header = path, header_of(path)
        self.shape, self.dtype = self._header.shape, self._header.dtype
        if 0 in self.shape:
            raise FormatError(f"{path} has nothing in it, its shape is {self.shape}. Save it again with its rows.")
        self._was = _state(os.stat(path))

    @contextmanager
    def open(self) -> Iterator[Callable[[int, int], HostArray]]:
        """A context manager that reads rows of the file, which must not have changed since it was first opened."""
        with self.path.open("rb", buffering=0) as file:
            if _state(os.fstat(file.fileno())) != self._was:
                raise FormatError(f"{self.path} has changed since it was first read. Start again when it is complete.")
            if self._header.fortran_order:  # the rows are spread over the file
                rows = memory_map(self.path, self._header)
                yield lambda start, stop: np.ascontiguousarray(rows_between(rows, start, stop))
            else:
                yield lambda start, stop: self._read(file, start, stop)

    def _read(self, file: io.RawIOBase, start: int, stop: int) -> HostArray:
        rows = np.empty((stop - start, *(self.shape[-1:] if len(self.shape) > 1 else ())), self.dtype)
        wanted = memoryview(rows.reshape(-1).view(np.uint8).data)
        file.seek(self._header.length + start * (rows.nbytes // len(rows)))
        while wanted.nbytes:
            n_read = file.readinto(wanted)
            if not n_read:
                raise FormatError(f"{self.path} became shorter while it was read. Start again when it is complete.")
            wanted = wanted[n_read:]
        return rows


def _state(about: os.stat_result) -> tuple[int, int]:
    return about.st_size, about.st_mtime_ns


class NpzArchive:
    """The arrays in a .npz file by name; a context manager. ``remedy`` ends the messages about damage."""

    def __init__(self, path: Path, remedy: str = "Save it again with numpy.savez.") -> None:
        self.path, self._remedy = existing_file(path), remedy
        self._file = _Bounded(io.FileIO(path))
        try:
            if not self._file.seek(0, io.SEEK_END):
                raise FormatError(f"{path} is empty. {remedy}")
            with self._damage(str(path)):
                self._zip = zipfile.ZipFile(self._file)
            self._members = {member.filename.removesuffix(".npy"): member for member in self._zip.infolist()}
            if len(self._members) < len(self._zip.infolist()):
                raise FormatError(f"{path} has two arrays of the same name. {remedy}")
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> "NpzArchive":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._zip.close()
        self._file.close()

    @property
    def names(self) -> list[str]:
        """The names of its members, without ``.npy``."""
        return list(self._members)

    @property
    def records(self) -> list[zipfile.ZipInfo]:
        """What the directory of the archive says about its members."""
        return list(self._members.values())

    def array(self, name: str) -> StoredArray:
        """The array with that name."""
        member, where = self._members[name], f"{name!r} in {self.path}"
        if member.flag_bits & _ENCRYPTED:
            raise FormatError(f"{where} is encrypted. {self._remedy}")
        if member.compress_type not in _READABLE:
            raise FormatError(f"{where} is compressed in a way that NumPy does not use. {self._remedy}")
        with self._damage(where), self._zip.open(member) as stream:
            about = header(stream, member.file_size, where)
        n_bytes = member.file_size - about.length
        if n_bytes > max(_HARMLESS, _RATIO * member.compress_size):
            raise FormatError(
                f"{where} would grow from {member.compress_size} to {n_bytes} bytes, more than real arrays do. {self._remedy}"
            )
        if about.fortran_order and n_bytes > _LARGEST_TRANSPOSED:
            raise FormatError(
                f"{where} is stored column by column (in Fortran order), so its rows cannot be read one after another. "
                "Save numpy.ascontiguousarray of it."
            )
        return StoredArray(where, about.shape, about.dtype, lambda n_rows: self._parts(member, about, where, n_rows))

    def _parts(self, member: zipfile.ZipInfo, about: Header, where: str, n_rows: int) -> Iterator[HostArray]:
        shape = about.shape or (1,)
        if about.fortran_order:
            shape, n_rows, wanted = shape[::-1], shape[-1], n_rows
        with self._damage(where), self._zip.open(member) as stream:
            stream.read(about.length)
            for start in range(0, shape[0], n_rows):
                rows = (min(n_rows, shape[0] - start), *shape[1:])
                block = np.frombuffer(_exactly(stream, rows[0] * row_bytes(rows, about.dtype)), about.dtype).reshape(rows)
                if not about.fortran_order:
                    yield block
                    continue
                turned = np.ascontiguousarray(block.T)
                yield from blocks_from_slices(len(turned), lambda first, last: turned[first:last])(wanted)  # noqa: B023 - used at once

    def _damage(self, where: str) -> AbstractContextManager[None]:
        return damage(f"{where} is damaged, or not an archive of arrays. {self._remedy}")


class _Bounded(io.BufferedReader):
    """A file that is read in pieces of limited size, because zipfile reads as much at once as a header says."""

    def read(self, size: int | None = -1, /) -> bytes:
        rest = max(0, os.fstat(self.fileno()).st_size - self.tell())
        size = rest if size is None or size < 0 else min(size, rest)
        if size > _LARGEST_DIRECTORY:
            raise FormatError(f"{self.name} has too many members. Save only the arrays that are needed.")
        return super().read(size)


def _exactly(stream: IO[bytes], n_bytes: int) -> bytearray:
    # Grows with what is there and not with what was announced.
    content = bytearray()
    while len(content) < n_bytes:
        chunk = stream.read(min(_CHUNK, n_bytes - len(content)))
        if not chunk:
            raise EOFError
        content += chunk
    return content


def _number(n: int) -> str:
    return str(n) if abs(n) < 10**18 else "more than 10^18"
