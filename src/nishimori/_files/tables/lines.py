"""Text files, read many whole lines at a time."""

import gzip
import sys
import zlib
from collections.abc import Iterator
from functools import cache
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import Any

from nishimori.errors import FormatError

# Bytes that are read at once, at least and at most: about a hundred thousand numbers. Each column of them takes a little time
# of its own, so there should also be about a thousand rows, each number of which takes about 8 bytes.
_SMALLEST_CHUNK, LARGEST_CHUNK, _ROWS_IN_BYTES = 2**20, 2**24, 2**13
# Longer lines are refused before they fill the memory; 32,000 columns of numbers take about 600,000 bytes.
_LONGEST_LINE = 2**24


STANDARD_INPUT = Path("standard input")
"""The name of standard input in place of a file."""


class StandardInput(RawIOBase):
    """Standard input, which every pass reads from the start until the last pass has begun.

    So the columns can be chosen by its first rows, and all other rows are never in memory together.
    """

    def __init__(self) -> None:
        self._is_last, self._kept, self._position = False, b"", 0

    @property
    def is_json(self) -> bool:
        """Whether it begins like a JSON object, and not like column names."""
        self._kept = self._kept or sys.stdin.buffer.readline(_LONGEST_LINE)
        return self._kept.startswith(b"{")

    def begin_last_reading(self) -> None:
        """Stop keeping what is read."""
        self._is_last = True

    def open(self) -> BufferedReader:
        """Start reading from the beginning."""
        self._position = 0
        return BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self._kept[self._position : self._position + len(buffer)]
        if not content:
            content = sys.stdin.buffer.read1(len(buffer))  # type: ignore[union-attr]
            self._kept = b"" if self._is_last else self._kept + content
        self._position += len(content)
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        """Stay open after a pass, for the next one."""


@cache
def standard_input() -> StandardInput:
    """The one standard input of this process."""
    return StandardInput()


def _open(path: Path) -> Any:
    """A file of bytes, plain or compressed by gzip, which share no type."""
    if path == STANDARD_INPUT:
        return standard_input().open()
    return gzip.open(path, "rb") if path.name.lower().endswith(".gz") else path.open("rb")


class LineFile:
    """The lines of an open file of text in UTF-8, in order; ``n_read`` is how many were read.

    Parameters
    ----------
    path : Path
        A file, which is compressed if its name ends in .gz, or `STANDARD_INPUT`.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.n_read = path, 0
        self._file = _open(path)

    def read(self, n_numbers: int) -> bytes:
        """Many whole lines with about this many numbers each, or nothing at the end of the file."""
        return self._read(min(LARGEST_CHUNK, max(_SMALLEST_CHUNK, _ROWS_IN_BYTES * n_numbers)))

    def __iter__(self) -> Iterator[str]:
        """The lines one by one."""
        while line := self._read(1):
            yield line.decode()

    def _read(self, size: int) -> bytes:
        """That many bytes, and the rest of their last line; refuses anything that is not text, and names its line."""
        try:
            content: bytes = self._file.read(size)
            if content and not content.endswith(b"\n"):
                content += self._file.readline(_LONGEST_LINE)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise FormatError(f"{self.path} is not a complete gzip file: {error}. Compress it again.") from None
        if not self.n_read:
            if content.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise FormatError(f"{self.path} is text in UTF-16. Save it again in UTF-8.")
            content = content.removeprefix(b"\xef\xbb\xbf")
        last = content.rfind(b"\n", 0, -1) + 1  # where the last line begins
        if len(content) - last >= _LONGEST_LINE:
            raise self._refusal(content, last, f"longer than {_LONGEST_LINE} bytes, so this is not a table")
        if (place := content.find(b"\0")) >= 0:
            raise self._refusal(content, place, "a NUL byte, so this is not text. Check that the file is complete")
        try:
            content.isascii() or content.decode()
        except UnicodeDecodeError as error:
            raise self._refusal(content, error.start, "not text in UTF-8. Save the file again in that encoding") from None
        self.n_read += content.count(b"\n") + (content != b"" and not content.endswith(b"\n"))
        return content

    def _refusal(self, content: bytes, place: int, reason: str) -> FormatError:
        line = self.n_read + content.count(b"\n", 0, place) + 1
        return FormatError(f"{self.path}, line {line}: {reason}.")

    def close(self) -> None:
        """Close the file."""
        self._file.close()
