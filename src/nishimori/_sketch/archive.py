"""Sketches as bytes, in memory or on disk: a .npz archive with the sums and a header that describes them."""

import json
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, get_args

import numpy as np

from nishimori._rows.scores import Input
from nishimori._sketch.contents import Contents
from nishimori._sketch.grid import Grid
from nishimori._sketch.parts import Parts
from nishimori._sketch.validity import ImpossibleSumsError
from nishimori._support.arrays import HostArray
from nishimori._support.json import NUMBER, TEXT, JsonError, Kind, Maybe, check_shape, list_of, one_of, parse_json, whole
from nishimori.errors import FormatError

FORMAT = "nishimori-sketch"
_PARTS, _FORGOTTEN = "parts", "n_forgotten_parts"
VERSION = 4
"""The latest format. The first one has four nodes per octave, the first two no crossed products of gaps, and the first three no
ids of parts."""

_WITH_CROSSED = 3

# A sketch takes 36 kB, and at most 1.6 MB more for ids of parts; a hundred observables would take 28 MB.
_LARGEST = 2**26

_LIST = Kind("a list", lambda value: isinstance(value, list))
_HEADER = {
    "observables": list_of(TEXT, 1),
    "grid": list_of(whole(-9999, 9999), 2, 3),  # whose limits `Grid` checks; without nodes per octave in the first format
    "input": one_of(*get_args(Input)),
    "classes": (_LIST, None),
    "floor": (NUMBER, None),
    "score_range": Maybe((_LIST, None), None),  # of numbers, which `ScoreRange` checks; not in older files
}


def pack(about: Mapping[str, Any], state: Mapping[str, HostArray], parts: Parts) -> bytes:
    """The archive of some sums."""
    header = json.dumps({"format": FORMAT, "version": VERSION, **about, _FORGOTTEN: parts.n_forgotten})
    archive = BytesIO()
    np.savez(archive, **{FORMAT: np.array(header), _PARTS: parts.array}, **state)  # type: ignore[arg-type]
    return archive.getvalue()


def is_sketch_file(path: Path) -> bool:
    """Whether a file is marked as a sketch."""
    if path.suffix.lower() != ".npz" or not path.is_file():
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return f"{FORMAT}.npy" in archive.namelist()
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        return False  # whoever reads the file says why


def read(content: Path | BytesIO, name: str) -> tuple[dict[str, Any], dict[str, HostArray], Parts | None]:
    """Header, sums and parts of an archive; the first three formats have no ids of parts."""
    with zipfile.ZipFile(content) as members:
        n_bytes = sum(member.file_size for member in members.infolist())
        if f"{FORMAT}.npy" not in members.namelist():
            raise FormatError(f"{name} is not a sketch.")
    if n_bytes > _LARGEST:
        raise FormatError(f"{name} is not a sketch: it has {n_bytes:,} bytes, but a sketch has a few million at most.")
    with np.load(content, allow_pickle=False) as file:
        arrays = {key: file[key] for key in file.files}
    header = parse_json(str(arrays.pop(FORMAT)[()]))
    check_shape(header["version"], whole(1), "version")
    if header["version"] > VERSION:
        raise FormatError(
            f"{name} was written by a newer version of nishimori (format {header['version']}, and this one reads up to "
            f"{VERSION}). Update nishimori."
        )
    header = check_shape(header, _HEADER)
    header["grid"] = Grid(*header["grid"])
    if not header["grid"].is_possible:
        raise ValueError("grid")
    parts = Parts.from_array(arrays.pop(_PARTS), header[_FORGOTTEN]) if _PARTS in arrays else None
    if header["version"] < _WITH_CROSSED:
        shape = Contents.shapes(len(header["observables"]), len(header["grid"].betas))["crossed"]
        arrays["crossed"] = np.full(int(np.prod(shape)), np.nan)
    return header, arrays, parts


@contextmanager
def report_damage(name: str, remedy: str) -> Iterator[None]:
    """A context manager that raises the same error for damage of any kind."""
    try:
        yield
    except (FormatError, FileNotFoundError, IsADirectoryError, PermissionError):
        raise
    except (JsonError, ImpossibleSumsError) as error:
        raise FormatError(f"{name} is a damaged sketch: {error}. {remedy}") from None
    except Exception:  # NumPy, zipfile and zlib each have their own
        raise FormatError(f"{name} is damaged, or not a sketch. {remedy}") from None
