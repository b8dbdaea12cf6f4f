"""Scores that take long to parse: kept in memory while they are few, and else in a temporary file of numbers.

The file has no name, so that the system removes it however the program ends. It is in the folder for temporary files, which the
environment variable ``TMPDIR`` names.
"""

import os
import shutil
import tempfile
import weakref
from collections.abc import Generator
from contextlib import suppress

import numpy as np

from nishimori._rows.array_rows import spread
from nishimori._rows.stored_rows import Sliced, Stored
from nishimori._support.arrays import HostArray

# Bytes of scores that are kept in memory.
KEPT = 2**28

# A temporary file takes at most this part of the space that is left on its disk.
_PART = 0.5


class ScoreKeeper:
    """Blocks of scores, which are added one by one and then read as often as needed."""

    def __init__(self) -> None:
        self._is_full = False  # there was no room, so nothing is kept
        self._blocks: list[HostArray] = []
        self._n_bytes = 0
        self._spool: SpooledScores | None = None

    def add(self, block: HostArray) -> None:
        """Keep a block of scores, (rows, classes) or (rows,)."""
        if self._is_full:
            return
        self._blocks.append(block)
        self._n_bytes += block.nbytes
        if self._n_bytes <= KEPT:
            return
        if self._spool is None:
            with suppress(OSError):  # no folder for temporary files
                self._spool = SpooledScores(block)
        if self._spool is None or not all(map(self._spool.write, self._blocks)):
            self._is_full, self._spool = True, None
        self._blocks.clear()

    def stored(self) -> Stored | None:
        """All scores, or None where there was no room."""
        return self._spool or (KeptScores(self._blocks) if self._blocks else None)


class KeptScores(Stored):
    """Scores that were read and fit in memory; the list of blocks that they were read in is emptied."""

    def __init__(self, blocks: list[HostArray]) -> None:
        end = sum(map(len, blocks))
        self.shape, self.dtype = (end, *blocks[0].shape[1:]), np.result_type(*blocks)
        self._array: HostArray = np.empty(self.shape, self.dtype)
        while blocks:  # each block goes as its copy comes, so that little is in memory twice
            block = blocks.pop()
            self._array[end - len(block) : end] = block
            end -= len(block)

    def blocks(self) -> Generator[HostArray, None, None]:
        """All rows at once."""
        yield self._array

    def random_rows(self, size: int) -> tuple[HostArray, HostArray] | None:
        """The numbers of about ``size`` random rows, and these rows."""
        index = spread(len(self._array), size)
        return index, self._array[index]


class SpooledScores(Sliced):
    """Scores in a temporary file without a name; ``like`` is a block of them, which is not written."""

    def __init__(self, like: HostArray) -> None:
        self.shape, self.dtype = (0, *like.shape[1:]), like.dtype
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the last use of the scores
        weakref.finalize(self, self._file.close)
        self._room = _PART * shutil.disk_usage(tempfile.gettempdir()).free

    def write(self, block: HostArray) -> bool:
        """Append rows; False if they do not fit on the disk, or do not go with those before."""
        if block.shape[1:] != self.shape[1:] or not np.can_cast(block.dtype, self.dtype):
            return False
        rows = np.ascontiguousarray(block, self.dtype)
        self._room -= rows.nbytes
        if self._room < 0:
            return False
        try:
            self._file.write(rows.data)
            self._file.flush()
        except OSError:
            return False
        self.shape = (self.shape[0] + len(rows), *self.shape[1:])
        return True

    def rows(self, start: int, stop: int) -> HostArray:
        """Read rows of the file. Pages of a map would count as memory of the process, and threads share a position."""
        rows: HostArray = np.empty((stop - start, *self.shape[1:]), self.dtype)
        content = memoryview(rows.reshape(-1).view(np.uint8).data)
        n_read = os.preadv(self._file.fileno(), [content], start * (rows.nbytes // max(1, len(rows))))
        assert n_read == rows.nbytes, "no other program has the file, and blocks are far below the 2 GB that are read at once"
        return rows
