"""Files of text lines: whole lines as bytes for readers of many at once, or one by one as text.

A reader that takes many lines at once gives back those that it cannot read, and they are read again one by one.
"""

import gzip
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from io import BufferedReader, BytesIO, RawIOBase
from pathlib import Path
from typing import IO, Any

from nishimori._files.tables.block import Block
from nishimori.errors import FormatError

# Bytes that are read at once, at least and at most: about a hundred thousand numbers. Each column of them takes a little time
# of its own, so there should also be about a thousand rows, each number of which takes about 8 bytes.
CHUNK, _LARGEST_CHUNK, _ROWS_IN_BYTES = 2**20, 2**24, 2**13
# Longer lines are refused before they fill the memory; 32,000 columns of numbers take about 600,000 bytes.
_LONGEST_LINE = 2**24


STANDARD_INPUT = Path("standard input")
"""What standard input is called in place of a file."""


class StandardInput:
    """Standard input, which is read from the start by every pass until the last one has begun.

    So the columns can be chosen by its first rows, and all other rows are never in memory together.
    """

    def __init__(self) -> None:
        self._is_last, self._kept = False, b""

    @property
    def is_json(self) -> bool:
        """Whether it begins as JSON objects do, and not as the names of columns."""
        if not self._kept:
            self._kept = sys.stdin.buffer.readline(_LONGEST_LINE)
        return self._kept.startswith(b"{")

    def begin_last_reading(self) -> None:
        """Keep nothing of what is read from now on."""
        self._is_last = True

    def open(self) -> IO[bytes]:
        """A reading from the start."""
        return BufferedReader(_Reading(self))

    def read_into(self, buffer: memoryview, position: int) -> int:
        """Copy the bytes from a position on; how many there were."""
        if position < len(self._kept):
            content = self._kept[position : position + len(buffer)]
        else:
            self._kept = b"" if self._is_last else self._kept
            content = sys.stdin.buffer.read1(len(buffer))  # type: ignore[union-attr]
            self._kept += b"" if self._is_last else content
        buffer[: len(content)] = content
        return len(content)


class _Reading(RawIOBase):
    def __init__(self, source: StandardInput) -> None:
        self._source, self._position = source, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        n_read = self._source.read_into(memoryview(buffer).cast("B"), self._position)
        self._position += n_read
        return n_read


@cache
def standard_input() -> StandardInput:
    """The one standard input of this process."""
    return StandardInput()


def _open(path: Path) -> Any:
    """A file of bytes; the gzip module's own file has no type in common with a plain one."""
    if path == STANDARD_INPUT:
        return standard_input().open()
    return gzip.open(path, "rb") if path.name.lower().endswith(".gz") else path.open("rb")


class LineFile:
    """The lines of an open file of text in UTF-8, in order; ``number`` is that of the last line that was read.

    Parameters
    ----------
    path : Path
        A file, which is compressed if its name ends in .gz, or `STANDARD_INPUT`.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.number = path, 0
        self._file = _open(path)
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


def read_blocks(
    file: LineFile,
    n_numbers: int,
    parse: Callable[[bytes, int, int], Block | None] | None,
    read: Callable[[LineFile, int], Iterator[Block]],
) -> Iterator[Block]:
    """All blocks of a file whose lines have about ``n_numbers`` numbers.

    ``parse`` makes a block of many lines, given the number of the first line and of the first row, or returns None. Then those
    lines, and without ``parse`` all of them, are read one by one: by ``read``, given the number of the first row.
    """
    first = 0
    while True:
        if parse is not None and (lines := file.read(n_numbers)):
            if (parsed := parse(lines, file.number + 1, first)) is not None:
                file.number += parsed.n_rows
                yield parsed
                first += parsed.n_rows
                continue
            file.give_back(lines)
        before = first
        for block in read(file, first):
            yield block
            first += block.n_rows
        if first == before:
            return
