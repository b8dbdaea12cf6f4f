"""NumPy's files (.npy, .npz), read a few rows at a time, without trusting their headers.

A header gives a shape and a dtype. The array must have exactly the number of bytes that follow from them, which is checked
before anything is read or allocated. Rows are read from where they are; a compressed member of an archive is unpacked in memory
as a whole, if it fits there. Pickled objects are never loaded.
"""

import io
import os
import re
import shutil
import struct
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from math import prod
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np
from numpy.lib import format as npy

from nishimori._files.arrays.stored_array import Part, StoredArray, damage
from nishimori._support.arrays import HostArray, merge_leading, rows_between
from nishimori._support.disk import existing_file
from nishimori.errors import FormatError

# NumPy writes headers of at most 10,000 characters, and reads longer ones only on request.
_LONGEST_HEADER = 1 << 14
_CHUNK = 1 << 18
# The directory of an archive is read as a whole; one of this size has at least 30,000 members.
_LARGEST_DIRECTORY = 1 << 22
# No content is compressed further by deflate; what is stored is not compressed at all.
_MOST = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: 1032}
_AGAIN = "Save it again with numpy.savez."


class Header(NamedTuple):
    """The content of an array's header, and its length in bytes."""

    shape: tuple[int, ...]
    order: Literal["C", "F"]
    dtype: "np.dtype[Any]"
    length: int


def npy_array(path: Path) -> StoredArray:
    """The array in a .npy file."""
    with existing_file(path).open("rb") as file:
        was = _state(path)
        if not was[0]:
            raise FormatError(f"{path} is empty. Save it again with numpy.save.")
        if file.peek(4).startswith(b"PK\x03\x04"):
            raise FormatError(f"{path} is an archive of arrays. Rename it to {path.with_suffix('.npz').name}.")
        about = _header(file, was[0], str(path))
    return StoredArray(str(path), about.shape, about.dtype, _rows_of_file(path, about.length, about, was))


def npz_arrays(path: Path) -> dict[str, Callable[[], StoredArray]]:
    """Functions that open each array of a .npz file, by name."""
    if not path.stat().st_size:
        raise FormatError(f"{path} is empty. {_AGAIN}")
    with damage(f"{path} is damaged, or not an archive of arrays. {_AGAIN}"):
        members = directory(path)
    arrays: dict[str, Callable[[], StoredArray]]
    arrays = {member.filename.removesuffix(".npy"): partial(_member, path, member) for member in members}
    if len(arrays) < len(members):
        raise FormatError(f"{path} has two arrays of the same name. {_AGAIN}")
    if any(name.endswith("/data.pkl") for name in arrays):
        raise FormatError(f"{path} is a file of PyTorch. Rename it to {path.with_suffix('.pt').name}.")
    return arrays


def directory(path: Path) -> list[zipfile.ZipInfo]:
    """What the directory of an archive says about its members."""
    with _archive(path) as archive:
        return archive.infolist()


def content_offset(path: Path, member: zipfile.ZipInfo) -> int:
    """The offset of a member's content, which follows the member's own header."""
    with path.open("rb") as file:
        file.seek(member.header_offset)
        of_name, of_extra = struct.unpack("<HH", file.read(30)[26:])
    return int(member.header_offset + 30 + of_name + of_extra)


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    with _Bounded(path) as file, zipfile.ZipFile(file) as archive:
        yield archive


class _Bounded(io.FileIO):
    """A file that is read in pieces of limited size, because zipfile reads as much at once as a header says."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _LARGEST_DIRECTORY:
            raise FormatError(f"{self.name} has too many members. Save only the arrays that are needed.")
        return super().read(-1 if size is None else size) or b""


def _header(stream: IO[bytes], size: int, where: str) -> Header:
    """The header at the start of ``stream``, if it agrees with the total ``size``."""
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
        described = expected if abs(expected) < 10**18 else "more than 10^18"
        sizes = f"its header describes {described} bytes, but there are {n_bytes}"
        raise FormatError(f"{where} is truncated or damaged: {sizes}. Save it again with NumPy.")
    return Header(shape, "F" if fortran_order else "C", dtype, start.tell())


def _member(path: Path, member: zipfile.ZipInfo) -> StoredArray:
    """The array in a member of a .npz file."""
    where = f"{member.filename.removesuffix('.npy')!r} in {path}"
    damaged = f"{where} is damaged, or not an archive of arrays. {_AGAIN}"
    if member.compress_type not in _MOST:
        raise FormatError(f"{where} uses a compression method that NumPy does not use. {_AGAIN}")
    was = _state(path)
    with damage(damaged), _archive(path) as archive, archive.open(member) as stream:
        about = _header(stream, member.file_size, where)
    if member.file_size > _MOST[member.compress_type] * member.compress_size:
        sizes = f"{member.compress_size} to {member.file_size - about.length} bytes"
        raise FormatError(f"{where} would grow from {sizes}, more than real arrays do. {_AGAIN}")
    too_large = FormatError(
        f"{where} is compressed, and its {member.file_size} bytes do not fit in memory. Convert it to .npy, which is read "
        "a few rows at a time."
    )

    @cache
    def open_rows() -> Part:
        if member.compress_type == zipfile.ZIP_STORED:
            # The checksum is compared once, at 1.5 GB/s. Rows are then read from where they are, some of them for a sample.
            with damage(damaged), Path(os.devnull).open("wb") as nowhere:
                _unpack(path, member, nowhere)
                return _rows_of_file(path, content_offset(path, member) + about.length, about, was)
        if member.file_size > _free_memory():
            raise too_large
        with damage(damaged):
            unpacked = io.BytesIO()
            try:
                _unpack(path, member, unpacked)
            except MemoryError:  # a limit of its own, such as that of a shell
                raise too_large from None
            array = np.frombuffer(unpacked.getbuffer(), about.dtype, offset=about.length)
            return _rows_of(array.reshape(about.shape or (1,), order=about.order))

    def rows(start: int, stop: int) -> HostArray:
        return open_rows()(start, stop)

    return StoredArray(where, about.shape, about.dtype, rows)


def _free_memory() -> int:
    """How many bytes of memory are available, as far as the system says."""
    with suppress(OSError, TypeError):
        return 1024 * int(re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())[1])  # type: ignore[index]
    return sys.maxsize


def _unpack(path: Path, member: zipfile.ZipInfo, target: IO[bytes]) -> None:
    """Copy a member; zipfile compares its checksum at the end."""
    with _archive(path) as archive, archive.open(member) as stream:
        shutil.copyfileobj(stream, target, _CHUNK)


def _rows_of_file(path: Path, offset: int, about: Header, was: tuple[int, int]) -> Part:
    """A function that reads rows of a file, which must not change.

    The file is read and not mapped: a file that shrinks while it is mapped ends the process, and reads of several megabytes
    keep the disk busier than page faults do.
    """
    if about.order == "F" and len(about.shape) > 1:  # the rows are spread over the file
        return _rows_of(np.asarray(np.memmap(path, about.dtype, "r", offset, about.shape, "F")))
    columns = about.shape[1:][-1:]

    def rows(start: int, stop: int) -> HostArray:
        count, first = (stop - start) * prod(columns), start * prod(columns)
        values = np.fromfile(path, about.dtype, count, offset=offset + first * about.dtype.itemsize)
        if len(values) < count or _state(path) != was:
            raise FormatError(f"{path} has changed since it was first read. Start again when it is complete.")
        return values.reshape(-1, *columns)

    return rows


def _rows_of(array: HostArray) -> Part:
    """A function that copies rows of an array."""
    table = merge_leading(array) if array.ndim > 2 else array
    return lambda start, stop: np.array(rows_between(table, start, stop), order="C")


def _state(path: Path) -> tuple[int, int]:
    about = path.stat()
    return about.st_size, about.st_mtime_ns
