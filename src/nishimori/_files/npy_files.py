"""Scores in a .npy file, read a few megabytes at a time.

The file is read and not mapped: a file that shrinks while it is mapped ends the process, and reads of several megabytes keep
the disk busier than page faults do.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import RawIOBase
from pathlib import Path

import numpy as np

from nishimori._files.arrays.numpy_files import header_of, memory_map
from nishimori._rows.stored_rows import Sliced
from nishimori._support.arrays import HostArray, rows_between
from nishimori.errors import FormatError

Rows = Callable[[int, int], HostArray]


class NpyFile(Sliced):
    """The array in a .npy file."""

    def __init__(self, path: Path) -> None:
        self.path, self._header = path, header_of(path)
        self.shape, self.dtype = self._header.shape, self._header.dtype
        if 0 in self.shape:
            raise FormatError(f"{path} has nothing in it, its shape is {self.shape}. Save it again with its rows.")
        self._was = _state(os.stat(path))

    @contextmanager
    def open(self) -> Iterator[Rows]:
        """A context manager that reads rows of the file, which must not have changed since it was first opened."""
        with self.path.open("rb", buffering=0) as file:
            if _state(os.fstat(file.fileno())) != self._was:
                raise FormatError(f"{self.path} has changed since it was first read. Start again when it is complete.")
            if self._header.fortran_order:  # the rows are spread over the file
                rows = memory_map(self.path, self._header)
                yield lambda start, stop: np.ascontiguousarray(rows_between(rows, start, stop))
            else:
                yield lambda start, stop: self._read(file, start, stop)

    def _read(self, file: RawIOBase, start: int, stop: int) -> HostArray:
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
