"""Logits, labels and weights in the files people have: .npz, .npy, .csv, .parquet, .pt, .safetensors.

A file is a set of named arrays or columns. Which name is which is said by the caller, never inferred; a name that is not there
is answered with the names that are. Nothing is ever unpickled.
"""

import csv
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nishimori import _array
from nishimori._disk import new_file
from nishimori._labels import HostArray
from nishimori._optional import require
from nishimori.errors import FormatError, InputError

SUFFIXES = (".npz", ".npy", ".csv", ".parquet", ".pt", ".safetensors")


@dataclass(frozen=True)
class Names:
    """What things are called in a file, and the options that say so."""

    scores: str = "logits"
    labels: str = "labels"
    weights: str | None = None
    columns: tuple[str, ...] | None = None


@dataclass(frozen=True)
class LogitFile:
    """What a file held; ``columns`` names the classes where the file does."""

    scores: HostArray
    labels: HostArray | None
    weights: HostArray | None
    columns: list[str] | None = None


def read(paths: Sequence[Path], names: Names, *, labelled: bool) -> LogitFile:
    """Load one file, or a pair of .npy files with scores first and labels second."""
    if [path.suffix for path in paths] == [".npy", ".npy"] and labelled:
        return LogitFile(_load_npy(paths[0]), _load_npy(paths[1]), None)
    if len(paths) != 1:
        raise InputError("Pass one file, or two .npy files: scores first, labels second.")
    (path,) = paths
    if path.suffix == ".npy":
        if labelled:
            raise InputError(f"{path} holds scores but no labels. Pass two .npy files: scores first, labels second.")
        return LogitFile(_load_npy(path), None, None)
    if path.suffix in (".csv", ".parquet"):
        return _from_columns(path, names, labelled)
    return _from_arrays(path, names, labelled)


def _from_arrays(path: Path, names: Names, labelled: bool) -> LogitFile:
    arrays = _load_arrays(path)

    def named(name: str, option: str) -> Any:
        if name not in arrays:
            raise InputError(f"{path} has no array {name!r}, only {_listed(arrays)}. Name yours with --{option}.")
        return arrays[name]

    return LogitFile(
        scores=named(names.scores, "scores"),
        labels=named(names.labels, "labels") if labelled else None,
        weights=named(names.weights, "weights") if names.weights and labelled else None,
    )


def _load_arrays(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    if path.suffix == ".npz":
        try:
            # Opened here, because NumPy leaves a file that is no archive open.
            with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
        except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
            raise FormatError(f"{path} is not a readable .npz file: {error}. Save it again with numpy.savez.") from None
    if path.suffix == ".pt":
        torch = require("torch", extra="torch", for_=f"Reading {path.name}")
        try:
            content = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # torch raises many types, pickle's among them
            reason = str(error).splitlines()[0]
            raise FormatError(
                f"{path} is not a dictionary of tensors: {reason}. Save {{name: tensor}} with torch.save."
            ) from None
        if not isinstance(content, dict) or not all(isinstance(v, torch.Tensor) for v in content.values()):
            raise FormatError(f"{path} is not a dictionary of tensors. Save {{name: tensor}} with torch.save.")
        return content
    if path.suffix == ".safetensors":
        return _load_safetensors(path)
    raise InputError(f"{path} has an unknown ending. Known are {', '.join(SUFFIXES)}.")


def _load_safetensors(path: Path) -> dict[str, Any]:
    safetensors = require("safetensors", extra="safetensors", for_=f"Reading {path.name}")
    try:
        with safetensors.safe_open(path, framework="np") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    except safetensors.SafetensorError as error:
        raise FormatError(f"{path} is not a readable .safetensors file: {error}.") from None
    except TypeError:
        # NumPy has no bfloat16 of its own; torch has.
        require("torch", extra="torch", for_=f"Reading the bfloat16 of {path.name}")
        with safetensors.safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping


def _load_npy(path: Path) -> HostArray:
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    try:
        array: HostArray = np.load(path, allow_pickle=False, mmap_mode="r")
    except (ValueError, OSError, EOFError) as error:
        raise FormatError(f"{path} is not a readable .npy file: {error}. Save it again with numpy.save.") from None
    return array


def _from_columns(path: Path, names: Names, labelled: bool) -> LogitFile:
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    table = _Csv(path) if path.suffix == ".csv" else _Parquet(path)
    special = [name for name in (names.labels, names.weights) if name]
    if names.columns is not None:
        chosen = list(names.columns)
    elif names.scores in table.names:
        chosen = [names.scores]  # one column of lists
    else:
        chosen = [name for name in table.names if name not in special]
    for name, option in [*((c, "columns") for c in chosen), *(((names.labels, "labels"),) if labelled else ())]:
        if name not in table.names:
            raise InputError(f"{path} has no column {name!r}, only {_listed(table.names)}. Name yours with --{option}.")
    if names.weights and labelled and names.weights not in table.names:
        raise InputError(f"{path} has no column {names.weights!r}, only {_listed(table.names)}. Name yours with --weights.")
    scores = table.numbers(chosen)
    return LogitFile(
        scores=scores[:, 0] if scores.ndim == 2 and scores.shape[1] == 1 else scores,
        labels=table.values(names.labels) if labelled else None,
        weights=table.numbers([names.weights])[:, 0] if names.weights and labelled else None,
        columns=chosen if len(chosen) > 1 else None,
    )


class _Csv:
    """A text table whose first line names the columns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open(newline="", encoding="utf-8") as file:
                self.names = next(csv.reader(file), [])
        except UnicodeDecodeError:
            raise FormatError(f"{path} is not a text file in UTF-8.") from None
        if len(set(self.names)) != len(self.names) or not self.names:
            raise FormatError(f"{path} must start with a line of distinct column names, got {_listed(self.names)}.")

    def _load(self, columns: list[str], dtype: Any) -> HostArray:
        index = [self.names.index(name) for name in columns]
        try:
            return np.loadtxt(
                self.path,
                dtype,
                delimiter=",",
                skiprows=1,
                usecols=index,
                ndmin=2,
                quotechar='"',
                comments=None,
                encoding="utf-8",
            )
        except ValueError as error:
            raise FormatError(f"{self.path} is not a table of numbers: {error}.") from None

    def numbers(self, columns: list[str]) -> HostArray:
        return self._load(columns, np.float64)

    def values(self, column: str) -> HostArray:
        text = self._load([column], np.str_)[:, 0]
        try:
            return text.astype(np.float64)
        except ValueError:
            return text


class _Parquet:
    """A columnar table; scores are a column a class, or one column of lists."""

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
        return np.stack(arrays, axis=1)

    def values(self, column: str) -> HostArray:
        values: HostArray = self._table.column(column).to_numpy()
        return values


def write(path: Path, probabilities: Any, columns: Sequence[Any] | None, *, overwrite: bool) -> None:
    """Store probabilities under that name, or a column a class where the format has columns."""
    if path.suffix not in SUFFIXES:
        raise InputError(f"{path} has an unknown ending. Known are {', '.join(SUFFIXES)}.")
    host = np.ascontiguousarray(_array.on_host(probabilities))
    headers = [str(c) for c in columns] if columns is not None else [str(k) for k in range(host.shape[1])]
    with new_file(path, overwrite=overwrite) as temporary:
        match path.suffix:
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
            case ".pt":
                torch = require("torch", extra="torch", for_=f"Writing {path.name}")
                torch.save({"probabilities": torch.from_numpy(host)}, temporary)
            case ".safetensors":
                safetensors = require("safetensors.numpy", extra="safetensors", for_=f"Writing {path.name}")
                safetensors.save_file({"probabilities": host}, temporary)


def _write_csv(path: Path, table: HostArray, headers: list[str]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(headers)
        writer.writerows(table.tolist())


def _listed(names: Any) -> str:
    """Up to twelve names, in words."""
    shown = [repr(name) for name in names]
    return (", ".join(shown[:12]) + (f" and {len(shown) - 12} more" if len(shown) > 12 else "")) or "nothing"
