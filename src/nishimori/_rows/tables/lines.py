"""Files of text lines: whole lines as bytes for readers of many at once, or one by one as text.

A reader that takes many lines at once gives back those that it cannot read, and they are read again one by one.
"""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, Any

from nishimori.errors import FormatError

# Bytes that are read at once, at least and at most: about a hundred thousand numbers. Each column of them takes a little time
# of its own, so there should also be about a thousand rows, each number of which takes about 8 bytes.
CHUNK, _LARGEST_CHUNK, _ROWS_IN_BYTES = 2**20, 2**24, 2**13
# Longer lines are refused before they fill the memory; 32,000 columns of numbers take about 600,000 bytes.
_LONGEST_LINE = 2**24


class LineFile:
    """The lines of an open file of text in UTF-8, in order; ``number`` is that of the last line that was read.

    Parameters
    ----------
    path : Path
        A file, which is compressed if its name ends in .gz.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.number = path, 0
        # The gzip module's own file has no type in common with a plain one.
        self._file: Any = gzip.open(path, "rb") if path.name.lower().endswith(".gz") else path.open("rb")  # noqa: SIM115
        self._given_back: IO[bytes] | None = None

    def read(self, n_numbers: int) -> bytes:
        """Many whole lines with about this many numbers each, or nothing at the end of the file; the caller counts them."""
        assert self._given_back is None, "these lines come first"
        with self._naming_damage():
            lines: bytes = self._file.read(max(CHUNK, min(_LARGEST_CHUNK, _ROWS_IN_BYTES * n_numbers)))
            return lines if lines.endswith(b"\n") else lines + self._file.readline(_LONGEST_LINE)

    def give_back(self, lines: bytes) -> None:
        """Let the lines that `read` gave be read again by iterating."""
        self._given_back = BytesIO(lines)

    @property
    def has_given_back(self) -> bool:
        """Whether lines that were given back have not been read again yet."""
        return self._given_back is not None

    def __iter__(self) -> Iterator[str]:
        """The lines one by one; anything that is not text is refused."""
        try:
            while line := self._line():
                self.number += 1
                if self.number == 1:
                    if line.startswith((b"\xff\xfe", b"\xfe\xff")):
                        raise FormatError(f"{self.path} is text in UTF-16. Save it again in UTF-8.")
                    line = line.removeprefix(b"\xef\xbb\xbf")
                if len(line) >= _LONGEST_LINE:
                    raise FormatError(f"{self._place}: longer than {_LONGEST_LINE} bytes, so this is not a table.")
                if b"\0" in line:
                    raise FormatError(f"{self._place}: a NUL byte, so this is not text. Check that the file is whole.")
                yield line.decode("utf-8")
        except UnicodeDecodeError:
            raise FormatError(f"{self._place}: not text in UTF-8. Save the file again in that encoding.") from None

    def _line(self) -> bytes:
        if self._given_back is not None:
            line = self._given_back.readline(_LONGEST_LINE)
            if self._given_back.tell() == self._given_back.getbuffer().nbytes:  # type: ignore[attr-defined]
                self._given_back = None
            if line.endswith(b"\n") or len(line) >= _LONGEST_LINE:
                return line
            assert self._given_back is None, "only the last line can be without an end"
            with self._naming_damage():
                return line + bytes(self._file.readline(_LONGEST_LINE - len(line)))
        with self._naming_damage():
            return bytes(self._file.readline(_LONGEST_LINE))

    @property
    def _place(self) -> str:
        return f"{self.path}, line {self.number}"

    @contextmanager
    def _naming_damage(self) -> Iterator[None]:
        try:
            yield
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise FormatError(f"{self.path} is not a whole gzip file: {error}. Compress it again.") from None

    def close(self) -> None:
        """Close the file."""
        self._file.close()
