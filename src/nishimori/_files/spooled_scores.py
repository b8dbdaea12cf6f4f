"""Keep scores that take long to parse: in memory if they are few, else in a temporary file of numbers.

The file has no name, so that the system removes it however the program ends. It is in the folder for temporary files, which the
environment variable ``TMPDIR`` names.
"""

import shutil
import tempfile
import weakref
from threading import Lock

import numpy as np

from nishimori._rows.stored_rows import Sliced
from nishimori._support.arrays import HostArray

# Bytes of scores that are kept in memory.
KEPT = 2**28

# A temporary file takes at most this part of the space that is left on its disk.
_PART = 0.5


class SpooledScores(Sliced):
    """Scores that are written block by block and then read repeatedly; ``like`` is an example block, which is not written."""

    def __init__(self, like: HostArray) -> None:
        self.shape, self.dtype = (0, *like.shape[1:]), like.dtype
        self._file = tempfile.SpooledTemporaryFile(KEPT)  # noqa: SIM115 - closed with the last use of the scores
        weakref.finalize(self, self._file.close)
        self._lock = Lock()  # threads share the position in the file
        self._most = 0.0  # bytes on the disk

    def write(self, block: HostArray) -> bool:
        """Append rows; False if they fit neither in memory nor on disk, or do not match the rows before."""
        if block.shape[1:] != self.shape[1:] or not np.can_cast(block.dtype, self.dtype):
            return False
        rows, n_bytes = np.ascontiguousarray(block, self.dtype), self._file.tell()
        try:
            if n_bytes <= KEPT < n_bytes + rows.nbytes:  # from now on it is on the disk
                self._most = _PART * shutil.disk_usage(tempfile.gettempdir()).free
            if n_bytes + rows.nbytes > max(KEPT, self._most):
                return False
            self._file.write(rows.data)
            self._file.flush()
        except OSError:
            return False
        self.shape = (self.shape[0] + len(rows), *self.shape[1:])
        return True

    def rows(self, start: int, stop: int) -> HostArray:
        """Read rows of the file; the pages of a map would count as memory of the process."""
        rows: HostArray = np.empty((stop - start, *self.shape[1:]), self.dtype)
        with self._lock:
            self._file.seek(start * (rows.nbytes // max(1, len(rows))))
            n_read = self._file.readinto(rows.reshape(-1).view(np.uint8).data)
        assert n_read == rows.nbytes, "no other program has the file, and blocks are far below the 2 GB that are read at once"
        return rows
