"""Downloads of published files: each is fetched once, resumed after an interruption, and checked against its checksum."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from nishimori._support.progress import Report, silent
from nishimori.errors import FormatError, setting

_TIMEOUT = 60  # seconds without receiving a byte
_CHUNK = 1 << 18
# Several times the largest file below. A server that sends more must not fill the disk.
_LARGEST = 1 << 30
_MOST_DIGITS = 16


@dataclass(frozen=True)
class PublicFile:
    """A file that is published at ``url``."""

    url: str
    md5: str

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]


def cache_folder() -> Path:
    """Where downloads are kept: ``$NISHIMORI_CACHE``, or ``nishimori`` in ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    if chosen := os.environ.get("NISHIMORI_CACHE"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "nishimori"


def verified(path: Path, file: PublicFile) -> Path:
    """``path``, if its content is exactly that of the published ``file``."""
    checksum = _md5(path)
    if checksum != file.md5:
        raise FormatError(
            f"{path} is truncated, damaged, or not the published file: its MD5 checksum must be {file.md5}, "
            f"got {checksum} for {path.stat().st_size} bytes. Remove it and download {file.url} again."
        )
    return path


def fetch(files: Sequence[PublicFile], folder: Path, *, report: Report = silent) -> Sequence[Path]:
    """The paths of ``files`` in ``folder``; missing files are downloaded.

    A download is kept in ``<name>.part`` until it is complete and its checksum is right. After an interruption the next call
    requests only the rest.

    Parameters
    ----------
    files : sequence of PublicFile
        What to download.
    folder : path
        Where to; it is created if needed.
    report : callable
        Called with what is being downloaded, the bytes received, and the total (None if the server does not say).
    """
    folder.mkdir(parents=True, exist_ok=True)
    missing = [file for file in files if not (folder / file.name).exists()]
    for i, file in enumerate(missing):
        urls = " and ".join(original.url for original in missing[i:])
        advice = f"Or download {urls} by other means to {folder}, or pass a folder with the images as {setting('data')}."
        part = folder / f"{file.name}.part"
        _receive(file, part, advice, report)
        _accept(file, part, advice)
    return [folder / file.name for file in files]


def _receive(file: PublicFile, part: Path, advice: str, report: Report) -> None:
    """Append the bytes that ``part`` lacks."""
    offset = part.stat().st_size if part.exists() else 0
    answer = _answer(file, offset, advice)
    if answer is None:
        return
    part.touch()
    with answer, part.open("r+b") as stream:
        done = stream.seek(offset if answer.status == HTTPStatus.PARTIAL_CONTENT else 0)
        total = _total(answer, done)
        report(f"downloading {file.name}", done, total)
        while chunk := _next(answer, file, advice):
            # Written at its own offset, not appended: two processes that download the same file then write the same bytes.
            done += stream.write(chunk)
            report(f"downloading {file.name}", done, total)
            if done > _LARGEST:
                stream.truncate(0)
                raise ConnectionError(f"{file.url} sends more than the published file. Try again later. {advice}")
        if total is not None and done < total:
            raise ConnectionError(f"{file.url} stopped after {done} of {total} bytes. Try again to get the rest. {advice}")
        stream.truncate()


def _total(answer: Any, done: int) -> int | None:
    """The number of bytes when the download is complete; None if the server does not give a valid number."""
    length = answer.headers.get("Content-Length", "").strip()
    return done + int(length) if length.isascii() and length.isdecimal() and len(length) < _MOST_DIGITS else None


def _answer(file: PublicFile, offset: int, advice: str) -> Any:
    """The server's answer to a request for the bytes after ``offset``; None if there are none."""
    headers = {"User-Agent": "nishimori"} | ({"Range": f"bytes={offset}-"} if offset else {})
    try:
        return urlopen(Request(file.url, headers=headers), timeout=_TIMEOUT)  # noqa: S310 - the addresses are ours
    except HTTPError as error:
        error.close()
        if offset and error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return None
        raise ConnectionError(f"{file.url} answers {error.code} {_brief(error.reason)}. Try again later. {advice}") from None
    except (OSError, HTTPException, ValueError) as error:  # ValueError: it redirects to an address that is none
        brief = _brief(getattr(error, "reason", error))
        raise ConnectionError(
            f"{file.url} cannot be reached: {brief}. Connect to the Internet and try again. {advice}"
        ) from None


def _next(answer: Any, file: PublicFile, advice: str) -> bytes:
    try:
        chunk: bytes = answer.read(_CHUNK)
    except (OSError, HTTPException, ValueError) as error:
        raise ConnectionError(f"{file.url} stopped: {_brief(error)}. Try again to get the rest. {advice}") from None
    return chunk


def _brief(text: object) -> str:
    """A server's message for the terminal: short, and without control characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(text)[:200])


def _accept(file: PublicFile, part: Path, advice: str) -> None:
    """Give the finished download its name, if it is the published file."""
    target = part.with_name(file.name)
    if target.exists():
        part.unlink(missing_ok=True)  # another process finished first
        return
    checksum = _md5(part)
    if checksum != file.md5:
        part.unlink()
        raise FormatError(
            f"{file.url} did not send the published file: its MD5 checksum must be {file.md5}, got {checksum}. "
            f"It was removed. Try again. {advice}"
        )
    os.replace(part, target)


def _md5(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
