"""Sketches on disk: a .npz file with the sums and a header that says what they are sums of."""

import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nishimori._array import HostArray
from nishimori._disk import existing_file, new_file
from nishimori._json import JsonError, parsed
from nishimori._scores import Input
from nishimori._sketch._contents import Contents
from nishimori.errors import FormatError, InputError

FORMAT = "nishimori-sketch"
VERSION = 1

# A sketch takes 31 kB; a hundred observables would take 4 MB.
_LARGEST = 2**26
_REMEDY = "Make it again with `Sketch.save`, or in the shell with `nishimori sketch`."


@dataclass(frozen=True)
class About:
    """What the sums of a file are sums of."""

    observables: list[str]
    grid: tuple[int, int]
    input: Input
    classes: list[Any] | None
    floor: float | None


def write(path: str | os.PathLike[str], about: Mapping[str, Any], state: Mapping[str, HostArray], *, overwrite: bool) -> None:
    """Write a new file."""
    if Path(path).suffix.lower() != ".npz":
        raise InputError(f"`path` must end in .npz, got {os.fspath(path)!r}.")
    header = json.dumps({"format": FORMAT, "version": VERSION, **about})
    with new_file(path, overwrite=overwrite) as temporary:
        np.savez(temporary, **{FORMAT: np.array(header)}, **state)  # type: ignore[arg-type]


def is_sketch_file(path: Path) -> bool:
    """Whether a file says that it is a sketch."""
    if path.suffix.lower() != ".npz" or not path.is_file():
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return f"{FORMAT}.npy" in archive.namelist()
    except (OSError, zipfile.BadZipFile, ValueError):
        return False  # whoever reads the file says why


def read(path: str | os.PathLike[str]) -> tuple[About, dict[str, HostArray]]:
    """Header and arrays of a file."""
    source = existing_file(path)
    with checked(path):
        with zipfile.ZipFile(source) as archive:
            n_bytes = sum(member.file_size for member in archive.infolist())
            if f"{FORMAT}.npy" not in archive.namelist():
                raise FormatError(f"{path} is not a sketch.")
        if n_bytes > _LARGEST:
            raise FormatError(f"{path} is not a sketch: it has {n_bytes:,} bytes, and a sketch has less than a million.")
        with np.load(source, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = parsed(str(arrays.pop(FORMAT)[()]))
        if header["version"] > VERSION:
            raise FormatError(
                f"{path} was written by a newer version of nishimori (format {header['version']}, and this one reads up to "
                f"{VERSION}). Update nishimori."
            )
        about = About(**{name: header[name] for name in About.__annotations__})
        first, last = about.grid
        if not (type(first) is int and type(last) is int and -200 < first < last < 200):
            raise ValueError("grid")
        names = about.observables
        if not (names and isinstance(names, list) and all(isinstance(name, str) for name in names)):
            raise ValueError("observables")
        return about, arrays


def refuse_impossible(contents: Contents) -> None:
    """Refuse counts that no rows have."""
    if not np.isfinite(contents.counts).all() or (contents.counts < 0).any() or (contents.n_rows and contents.n_classes < 2):
        raise ValueError("counts")


@contextmanager
def checked(path: str | os.PathLike[str]) -> Iterator[None]:
    """One error for damage of any kind."""
    try:
        yield
    except (FormatError, FileNotFoundError, IsADirectoryError, PermissionError):
        raise
    except JsonError as error:
        raise FormatError(f"{path} is a damaged sketch: {error}. {_REMEDY}") from None
    except Exception:  # NumPy, zipfile and zlib each have their own
        raise FormatError(f"{path} is damaged, or not a sketch. {_REMEDY}") from None
