"""Scores, labels and weights in the files people have: arrays (.npz, .npy, .pt, .safetensors) and tables (.csv, .parquet, ...).

A file is a set of named arrays or columns. The caller says which name is which; a missing name gives an error that lists the
names in the file. No code in a file is run. Labels and weights are read at once, scores whenever they are needed, in blocks.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from nishimori._rows.array_files import files as array_files
from nishimori._rows.array_files.files import ArrayFile, open_arrays
from nishimori._rows.npy_files import NpyFile
from nishimori._rows.parquet_folder import parquet_files
from nishimori._rows.pieces import rows_per_piece
from nishimori._rows.stored_rows import KeptScores, Stored
from nishimori._rows.table_rows import KEPT, flat, place_in_table
from nishimori._rows.tables.block import listed
from nishimori._rows.tables.files import ENDINGS, is_table
from nishimori._support.arrays import HostArray
from nishimori._support.disk import existing_file
from nishimori._support.progress import Report, silent
from nishimori.cli._labelled_table import LabelledTable
from nishimori.cli._selection import Names, can_be_labels, is_ignored, propose, remedy_for
from nishimori.errors import InputError

__all__ = [
    "SUFFIXES",
    "LogitFile",
    "Names",
    "array_name",
    "calibrator_in",
    "check_array_options",
    "check_inputs",
    "flat",
    "known_ending",
    "located",
    "read",
    "refuse_folder",
]

SUFFIXES = (*array_files.SUFFIXES, *ENDINGS)

_WITH_GROUPS = "Pass a file of scores and groups, such as .npz."
# Rows that say whether an array can be what an option would make of it.
_LOOKED_AT = 100


def calibrator_in(path: Path) -> Any:
    """The calibrator of a file; that of a multilabel model is refused, because files of scores have one label per row."""
    from nishimori._calibrators.methods import load  # noqa: PLC0415 - scikit-learn

    return load(path)


@dataclass(frozen=True)
class LogitFile:
    """The contents of a file.

    Attributes
    ----------
    scores : Stored
        The scores, which are read in blocks.
    labels, weights, clusters, groups, ids : arrays
        What was asked for.
    columns : list of str or None
        The names of the columns of scores, where there is one per class.
    column : str or None
        The name of the one column, or of the array, that holds all scores, where it is not the usual one.
    lines : integer array or None
        The line of each row, in files that have lines.
    files : sequence of (int, path)
        The first row of each file of a folder.
    """

    scores: Stored
    labels: HostArray
    weights: HostArray | None = None
    clusters: HostArray | None = None
    groups: HostArray | None = None
    ids: HostArray | None = None
    columns: list[str] | None = None
    column: str | None = None
    lines: HostArray | None = None
    files: Sequence[tuple[int, Path]] = ()

    @property
    def like_scores(self) -> HostArray:
        """One row of the shape and dtype of the scores."""
        return np.empty((1, *self.scores.shape[1:]), self.scores.dtype)


def known_ending(path: Path) -> None:
    """Refuse a name whose ending says nothing."""
    if not path.name.lower().endswith(SUFFIXES):
        raise InputError(f"{path} has an unknown ending. Use one of {', '.join(SUFFIXES)}.")


def refuse_folder(output: Path, example: str) -> None:
    """Refuse a folder in place of the file to write; ``example`` is the name of such a file."""
    if output.is_dir():
        raise InputError(f"{output} is a folder. Choose the name of a file, such as {output / example}.")


def check_inputs(paths: Sequence[Path], *, folders: bool = False) -> None:
    """Refuse files that are not there or of an unknown kind; commands check this before they look at their output.

    With ``folders``, a folder of Parquet files passes.
    """
    for path in paths:
        if folders and path.is_dir() and parquet_files(path):
            continue
        existing_file(path)
        known_ending(path)


def read(paths: Sequence[Path], names: Names, report: Report = silent) -> LogitFile:
    """Scores and labels of one file or folder, or of a pair of .npy files with scores first and labels second.

    Rows with the label to ignore get weight zero. ``report`` is told how many rows of a table have been read.
    """
    found = _read(paths, names, report)
    return found if names.ignore_index is None else _without(found, names.ignore_index)


def _without(data: LogitFile, label: int) -> LogitFile:
    """The same, in which rows with a label weigh nothing; labels may be numbers or text."""
    ignored = is_ignored(data.labels, label)
    if ignored.all():
        raise InputError(f"--ignore-index must leave some samples, but all labels are {label}.")
    weights = np.ones(ignored.shape) if data.weights is None else data.weights
    if weights.shape != ignored.shape:
        return data  # refused later, with its shape
    return replace(data, weights=np.where(ignored, 0.0, weights))


def _read(paths: Sequence[Path], names: Names, report: Report) -> LogitFile:
    check_inputs(paths, folders=True)
    if {path.suffix.lower() for path in paths if not path.is_dir()} == {".npy"}:
        return _from_npy(paths, names)
    if len(paths) != 1:
        raise InputError("Pass one file, or two .npy files: scores first, labels second.")
    (path,) = paths
    if is_table(path) or path.is_dir():
        return _from_table(path, names, report)
    with open_arrays(path) as file:
        check_array_options(path, names)
        scores = ArrayScores(path, array_name(file, "scores", names), file)
        labels = file.labels(array_name(file, "labels", names)).whole()
        weights = file.array(array_name(file, "weights", names)).whole() if names.find("weights") else None
        clusters, groups, ids = (_part(file, role, names) for role in ("clusters", "groups", "ids"))
        kept = _kept(scores.rows(file)) if path.suffix.lower() == ".npz" else None  # which takes long to unpack
    return LogitFile(kept or scores, labels, weights, clusters, groups, ids, column=names.scores)


def _part(file: ArrayFile, role: str, names: Names) -> HostArray | None:
    """The clusters, groups or names of all rows, if they are to be read."""
    return file.labels(array_name(file, role, names)).whole() if names.find(role) else None


def _from_npy(paths: Sequence[Path], names: Names) -> LogitFile:
    check_array_options(paths[0], names)
    if names.groups_remembered:
        raise InputError(f"{paths[0]} holds scores only, and the calibration has a temperature per group. {_WITH_GROUPS}")
    if names.scores or any(names.find(role) for role in ("weights", "clusters", "groups", "ids")):
        raise InputError(
            "--weights, --clusters, --groups, --ids and --scores must be left out for .npy files, which hold one unnamed "
            "array. Use .npz for weights, clusters, groups and ids."
        )
    if len(paths) != 2:
        raise InputError(f"Pass two .npy files: scores first, labels second, got {len(paths)}.")
    with open_arrays(paths[0]) as file, open_arrays(paths[1]) as labels:
        scores: Stored = ArrayScores(paths[0], "", file)
        if len(scores.shape) == 2 and scores.dtype.kind == "f":
            scores = NpyFile(paths[0])  # which can also give a sample
        return LogitFile(scores, labels.labels("").whole())


class ArrayScores(Stored):
    """An array in a file, which is opened for each reading."""

    def __init__(self, path: Path, name: str, file: ArrayFile) -> None:
        self.path, self.name = path, name
        stored = file.array(name)
        self.shape = stored.shape[:1] if stored.shape[1:] == (1,) else stored.shape
        self.dtype = stored.dtype

    def blocks(self) -> Generator[HostArray, None, None]:
        """Several blocks of the computation at a time."""
        with open_arrays(self.path) as file:
            yield from self.rows(file)

    def rows(self, file: ArrayFile) -> Iterator[HostArray]:
        """The same of a file that is open."""
        return map(flat, file.array(self.name).blocks(rows_per_piece(2 if len(self.shape) == 1 else self.shape[1])))


def _kept(blocks: Iterator[HostArray]) -> KeptScores | None:
    """All blocks, or None if they are too large to keep."""
    kept, n_bytes = [], 0
    for block in blocks:
        kept.append(block)
        n_bytes += block.nbytes
        if n_bytes > KEPT:
            return None
    return KeptScores(kept)


def check_array_options(path: Path, names: Names) -> None:
    """Refuse options of tables for files of arrays."""
    given: dict[str, Any] = {"--columns": names.columns, "--ignore": names.ignore, "--delimiter": names.delimiter}
    for option, value in (given | {"--decimal": names.decimal != "."}).items():
        if value:
            named = option == "--columns" and path.suffix.lower() != ".npy"
            remedy = "Name the array with --scores." if named else "Leave it out."
            raise InputError(f"{option} is for tables such as .csv, and {path} has arrays. {remedy}")


def array_name(file: ArrayFile, option: str, names: Names) -> str:
    """The name of an array that is there; ``option`` is scores, labels, weights, clusters, groups or ids."""
    if file.names == [""]:  # a .npy file
        if option == "groups":
            raise InputError(f"{file.path} holds scores only, and the calibration has a temperature per group. {_WITH_GROUPS}")
        return ""
    wanted = names.array if option == "scores" else names.find(option)
    if option == "scores" and names.scores is None and names.fitted is not None and len(names.fitted) == 1:
        wanted = next((name for name in names.fitted if name in file.names), wanted)
    assert wanted is not None
    if wanted in file.names:
        return wanted
    remedy = remedy_for(option, names, file.names, partial(_labels_are_read, file))
    if option == "scores" and (options := propose(names, partial(_probabilities_are_read, file), input="probabilities")):
        remedy = f"Name yours with --scores, or pass {options}."
        if names.calibrated:
            remedy = f"The calibration was fitted to logits: pass a file of logits, or fit again with {options}."
    raise InputError(f"{file.path} has no array {wanted!r}, only {listed(file.names)}. {remedy}")


def _labels_are_read(file: ArrayFile, names: Names) -> bool:
    """Whether an array that options name can be the labels of the scores."""
    scores, labels = file.array(array_name(file, "scores", names)), file.labels(names.labels)
    if names.labels in [name for role, name in names.by_role.items() if role != "labels"]:
        return False
    fits = labels.shape in (scores.shape, scores.shape[:-1])  # one score per row, or one per class
    return fits and can_be_labels(next(labels.blocks(_LOOKED_AT)).ravel().tolist(), names.classes)


def _probabilities_are_read(file: ArrayFile, names: Names) -> bool:
    """Whether the array that has the usual name holds probabilities."""
    if names.scores is not None or names.input not in file.names:
        return False
    rows = next(file.array(names.input).blocks(_LOOKED_AT))
    binary = rows.ndim == 1 or rows.shape[1:] == (1,)
    return bool(((rows >= 0) & (rows <= 1)).all() and (binary or np.allclose(rows.sum(axis=-1, dtype=float), 1, atol=1e-3)))


def _from_table(path: Path, names: Names, report: Report) -> LogitFile:
    table = LabelledTable(path, names, report)
    several = len(table.columns) > 1
    return LogitFile(
        scores=table.scores,
        labels=table.labels,
        weights=table.weights,
        clusters=table.clusters,
        groups=table.groups,
        ids=table.ids,
        columns=table.columns if several else None,
        column=None if several else table.columns[0],
        lines=table.lines,
        files=table.files if path.is_dir() else (),
    )


@contextmanager
def located(
    lines: HostArray | None,
    columns: Sequence[str] | None,
    first_row: int = 0,
    labels: str | None = None,
    files: Sequence[tuple[int, Path]] = (),
) -> Iterator[None]:
    """Name lines and columns of the file in errors about rows of its array; without lines, say how rows are counted.

    ``labels`` is the name of the column or array of labels, which errors about them then begin with. ``files`` are the first
    row and the path of each file, where there are several.
    """
    try:
        yield
    except InputError as error:
        if labels is not None and error.argument in ("labels", "y"):
            error = error.changed(argument=f"The labels in {labels!r} (option --labels)")
        if lines is None and isinstance(error.row, int):
            raise error.changed(place=_place(error.row, error.column, columns, files)) from None
        raise place_in_table(error, lines, columns, first_row) from None


def _place(row: int, column: int | None, columns: Sequence[str] | None, files: Sequence[tuple[int, Path]]) -> str:
    """A row of a file without lines, in its own file if there are several, and how it is counted."""
    before = [(first, path) for first, path in files if first <= row]
    named = f"row {row - before[-1][0]} of {before[-1][1]}" if before else f"row {row}"
    if columns is None or column is None:
        return f"{named}{'' if column is None else f', column {column}'} (counted from 0)"
    return f"{named} (counted from 0), column {columns[column]!r}"
