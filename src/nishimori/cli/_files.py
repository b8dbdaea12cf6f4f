"""Logits, labels and weights in the files people have: .npz, .npy, .csv, .parquet, .pt, .safetensors.

A file is a set of named arrays or columns. The caller says which name is which; a missing name gives an error that lists the
names in the file. No code in a file is run: arrays are read without pickled objects, and .pt files with ``weights_only=True``.
"""

import csv
import warnings
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nishimori import _array
from nishimori._array import HostArray
from nishimori._disk import existing_file, new_file
from nishimori._optional import require
from nishimori.errors import FormatError, InputError

SUFFIXES = (".npz", ".npy", ".csv", ".parquet", ".pt", ".pth", ".safetensors")


@dataclass(frozen=True)
class Names:
    """The names of scores, labels and weights in a file; ``calibrated`` if a calibration says what the scores must be."""

    scores: str = "logits"
    labels: str = "labels"
    weights: str | None = None
    columns: tuple[str, ...] | None = None
    calibrated: bool = False


@dataclass(frozen=True)
class LogitFile:
    """The contents of a file; ``columns`` are the names of its columns of scores, if it has any."""

    scores: HostArray
    labels: HostArray | None
    weights: HostArray | None
    columns: list[str] | None = None


def read(paths: Sequence[Path], names: Names, *, labelled: bool) -> LogitFile:
    """Load one file, or a pair of .npy files with scores first and labels second."""
    if {ending(existing_file(path)) for path in paths} == {".npy"}:
        return _from_npy(paths, names, labelled)
    if len(paths) != 1:
        raise InputError("Pass one file, or two .npy files: scores first, labels second.")
    (path,) = paths
    if ending(path) in (".csv", ".parquet"):
        return _from_columns(path, names, labelled)
    return _from_arrays(path, names, labelled)


def ending(path: Path) -> str:
    """The ending of a file's name in lower case; refuses unknown ones."""
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"{path} has an unknown ending. Use one of {', '.join(SUFFIXES)}.")
    return path.suffix.lower()


def _from_npy(paths: Sequence[Path], names: Names, labelled: bool) -> LogitFile:
    if names.weights or names.columns:
        raise InputError(
            "--weights and --columns must be left out for .npy files, which hold one unnamed array. Use .npz for weights."
        )
    if len(paths) != 1 + labelled:
        wanted = "two .npy files: scores first, labels second" if labelled else "one .npy file of scores"
        raise InputError(f"Pass {wanted}, got {len(paths)}.")
    scores, *labels = (_load_npy(path) for path in paths)
    return LogitFile(scores, labels[0] if labels else None, None)


def _from_arrays(path: Path, names: Names, labelled: bool) -> LogitFile:
    if names.columns:
        raise InputError(f"--columns names columns of a .csv or .parquet file, and {path} has arrays. Use --scores.")
    wanted = {"scores": names.scores}
    if labelled:
        wanted |= {"labels": names.labels} | ({"weights": names.weights} if names.weights else {})
    present, arrays = _load_arrays(path, list(wanted.values()))
    for option, name in wanted.items():
        if name not in arrays:
            raise InputError(f"{path} has no array {name!r}, only {_listed(present)}. {_remedy(option, names, present)}")
    return LogitFile(arrays[names.scores], *(arrays[wanted[o]] if o in wanted else None for o in ("labels", "weights")))


def _remedy(option: str, names: Names, present: list[str]) -> str:
    """What to do if an array is not there."""
    if option != "scores" or "probabilities" not in present:
        return f"Name yours with --{option}."
    if names.calibrated:
        return "The calibration was fitted to logits: pass a file of logits, or fit again with --input probabilities."
    return "Name yours with --scores, or pass --input probabilities."


def _load_arrays(path: Path, wanted: list[str]) -> tuple[list[str], dict[str, Any]]:
    """The names of all arrays of a file, and the wanted arrays; the others are not read."""
    if ending(path) == ".npz":
        try:
            # Opened here, because NumPy does not close a file that is not an archive.
            with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                return archive.files, {name: archive[name] for name in wanted if name in archive.files}
        except (AttributeError, ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile):
            raise FormatError(f"{path} is not an archive of plain arrays. Save it again with numpy.savez.") from None
    if ending(path) in (".pt", ".pth"):
        return _load_pt(path, wanted)
    return _load_safetensors(path, wanted)


def _load_pt(path: Path, wanted: list[str]) -> tuple[list[str], dict[str, Any]]:
    torch = require("torch", extra="torch", for_=f"Reading {path.name}")
    remedy = "Save {name: tensor} with torch.save."
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # torch raises many types, pickle's among them
        raise FormatError(f"{path} is not a dictionary of tensors, and nothing else is loaded. {remedy}") from None
    if not isinstance(content, dict):
        raise FormatError(f"{path} must hold a dictionary of tensors, got a {type(content).__name__}. {remedy}")
    found = {name: content[name] for name in wanted if name in content}
    for name, value in found.items():
        if not isinstance(value, torch.Tensor):
            raise FormatError(f"{name!r} in {path} must be a tensor, got a {type(value).__name__}. {remedy}")
    return [str(name) for name in content], found


def _load_safetensors(path: Path, wanted: list[str]) -> tuple[list[str], dict[str, Any]]:
    safetensors = require("safetensors", extra="safetensors", for_=f"Reading {path.name}")

    def load(framework: str) -> tuple[list[str], dict[str, Any]]:
        with safetensors.safe_open(path, framework=framework) as file:
            present = list(file.keys())
            return present, {name: file.get_tensor(name) for name in wanted if name in present}

    try:
        return load("np")
    except safetensors.SafetensorError as error:
        raise FormatError(f"{path} is not a readable .safetensors file: {error}.") from None
    except TypeError:
        # NumPy has no bfloat16; PyTorch has.
        require("torch", extra="torch", for_=f"Reading the bfloat16 of {path.name}")
        return load("pt")


def _load_npy(path: Path) -> HostArray:
    try:
        array: HostArray = np.load(path, allow_pickle=False, mmap_mode="r")
    except (ValueError, EOFError):
        raise FormatError(f"{path} is not a plain array. Save it again with numpy.save.") from None
    return array


def _from_columns(path: Path, names: Names, labelled: bool) -> LogitFile:
    table = _Csv(path) if ending(path) == ".csv" else _Parquet(path)
    special = [name for name in (names.labels, names.weights) if name]
    if names.columns is not None:
        chosen = list(names.columns)
    elif names.scores in table.names and ending(path) == ".parquet":
        chosen = [names.scores]  # one column of lists
    else:
        chosen = [name for name in table.names if name not in special]
        unnamed = [name for name in chosen if not name or name.startswith(("Unnamed: ", "__index_level_"))]
        if unnamed:
            raise InputError(
                f"{path} has a column {unnamed[0]!r}, which looks like row numbers. Name the columns of scores with --columns."
            )
    wanted = [(name, "columns") for name in chosen]
    if labelled:
        wanted += [(names.labels, "labels")] + ([(names.weights, "weights")] if names.weights else [])
    for name, option in wanted:
        if name not in table.names:
            raise InputError(f"{path} has no column {name!r}, only {_listed(table.names)}. Name yours with --{option}.")
    scores = table.numbers(chosen)
    return LogitFile(
        scores=scores[:, 0] if scores.ndim == 2 and scores.shape[1] == 1 else scores,
        labels=table.values(names.labels) if labelled else None,
        weights=table.numbers([names.weights])[:, 0] if names.weights and labelled else None,
        columns=chosen if len(chosen) > 1 else None,
    )


class _Csv:
    """A text file whose first line names the columns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open(newline="", encoding="utf-8-sig") as file:
                self.names = [name.strip() for name in next(csv.reader(file, skipinitialspace=True), [])]
        except UnicodeDecodeError:
            raise FormatError(f"{path} must be text in UTF-8. Save it again in that encoding.") from None
        if len(set(self.names)) != len(self.names) or not self.names:
            raise FormatError(f"{path} must start with a line of distinct column names, got {_listed(self.names)}.")

    def _load(self, columns: list[str], dtype: Any) -> HostArray:
        index = [self.names.index(name) for name in columns]
        options: dict[str, Any] = {"delimiter": ",", "quotechar": '"', "comments": None, "encoding": "utf-8-sig"}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # about blank lines at the end
                return np.loadtxt(self.path, dtype, skiprows=1, usecols=index, ndmin=2, **options)
        except ValueError as error:
            raise FormatError(f"{self.path} is not a table of numbers in {_listed(columns)}: {error}.") from None

    def numbers(self, columns: list[str]) -> HostArray:
        return self._load(columns, np.float64)

    def values(self, column: str) -> HostArray:
        return np.char.strip(self._load([column], np.str_)[:, 0])  # as written: 007 may be a class


class _Parquet:
    """A Parquet file; scores are one column per class, or one column of lists."""

    def __init__(self, path: Path) -> None:
        self.path = path
        parquet = require("pyarrow.parquet", extra="parquet", for_=f"Reading {path.name}")
        try:
            self._table = parquet.read_table(path)
        except (OSError, ValueError) as error:
            raise FormatError(f"{path} is not a readable .parquet file: {error}.") from None
        self.names: list[str] = self._table.column_names

    def numbers(self, columns: list[str]) -> HostArray:
        arrays = [self._table.column(name).to_numpy() for name in columns]
        if len(arrays) == 1 and arrays[0].dtype == object:
            try:
                return np.stack(list(arrays[0]))
            except (TypeError, ValueError):
                raise FormatError(f"{self.path} has lists of different lengths in column {columns[0]!r}.") from None
        for name, array in zip(columns, arrays, strict=True):
            if array.dtype.kind not in "fiub":
                raise FormatError(f"{self.path} has no numbers in column {name!r}. Name the columns of scores with --columns.")
        return np.stack(arrays, axis=1)

    def values(self, column: str) -> HostArray:
        values: HostArray = self._table.column(column).to_numpy()
        return values


def write(path: Path, probabilities: Any, columns: Sequence[Any] | None, *, overwrite: bool) -> None:
    """Store probabilities as an array called ``probabilities``, or as one column per class where the format has columns."""
    kind = ending(path)
    host = np.ascontiguousarray(_array.on_host(probabilities))
    headers = [str(c) for c in columns] if columns is not None else [str(k) for k in range(host.shape[1])]
    with new_file(path, overwrite=overwrite) as temporary:
        match kind:
            case ".npz":
                np.savez(temporary, probabilities=host)
            case ".npy":
                np.save(temporary, host)
            case ".csv":
                _write_csv(temporary, host, headers)
            case ".parquet":
                pyarrow = require("pyarrow", extra="parquet", for_=f"Writing {path.name}")
                parquet = require("pyarrow.parquet", extra="parquet", for_=f"Writing {path.name}")
                parquet.write_table(pyarrow.table(dict(zip(headers, host.T, strict=True))), temporary)
            case ".pt" | ".pth":
                torch = require("torch", extra="torch", for_=f"Writing {path.name}")
                torch.save({"probabilities": torch.from_numpy(host)}, temporary)
            case ".safetensors":
                safetensors = require("safetensors.numpy", extra="safetensors", for_=f"Writing {path.name}")
                safetensors.save_file({"probabilities": host}, temporary)


def _write_csv(path: Path, table: HostArray, headers: list[str]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(headers)
        for start in range(0, len(table), 10_000):  # Python's numbers take ten times the memory
            writer.writerows(table[start : start + 10_000].tolist())


def _listed(names: Any) -> str:
    """Up to twelve names, as text."""
    shown = [repr(name) for name in names]
    return (", ".join(shown[:12]) + (f" and {len(shown) - 12} more" if len(shown) > 12 else "")) or "nothing"
