"""Scores, labels and weights in the files people have: arrays (.npz, .npy, .pt, .safetensors) and tables (.csv, .parquet, ...).

A file is a set of named arrays or columns. The caller says which name is which; a missing name gives an error that lists the
names in the file. No code in a file is run.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np

from nishimori import _tables
from nishimori._array import HostArray
from nishimori._disk import existing_file
from nishimori._progress import Report, silent
from nishimori._tables import Block, Table, is_table, listed, open_table
from nishimori._tables._columns import by_values
from nishimori.cli import _arrays
from nishimori.cli._arrays import ArrayFile, open_arrays
from nishimori.cli._selection import Names, Selection, label_remedy, selected, undecided
from nishimori.errors import FormatError, InputError

SUFFIXES = (*_arrays.SUFFIXES, *_tables.ENDINGS)

_ROW = re.compile(r"in row (\d+)(?:, column (\d+))?")


@dataclass(frozen=True)
class LogitFile:
    """The contents of a file.

    Attributes
    ----------
    scores, labels, weights : arrays
        What was asked for.
    columns : list of str or None
        The names of the columns of scores, where there is one per class.
    column : str or None
        The name of the one column, or of the array, that holds all scores, where it is not the usual one.
    lines : integer array or None
        The line of each row, in files that have lines.
    """

    scores: HostArray
    labels: HostArray
    weights: HostArray | None = None
    columns: list[str] | None = None
    column: str | None = None
    lines: HostArray | None = None


def known_ending(path: Path) -> None:
    """Refuse a name whose ending says nothing."""
    if not path.name.lower().endswith(SUFFIXES):
        raise InputError(f"{path} has an unknown ending. Use one of {', '.join(SUFFIXES)}.")


def refuse_folder(output: Path, example: str) -> None:
    """Refuse a folder in place of the file to write; ``example`` is the name of such a file."""
    if output.is_dir():
        raise InputError(f"{output} is a folder. Choose the name of a file, such as {output / example}.")


def check_inputs(paths: Sequence[Path]) -> None:
    """Refuse files that are not there or of an unknown kind; commands check this before they look at their output."""
    for path in paths:
        existing_file(path)
        known_ending(path)


def read(paths: Sequence[Path], names: Names, report: Report = silent) -> LogitFile:
    """Scores and labels of one file, or of a pair of .npy files with scores first and labels second.

    ``report`` is told how many rows of a table have been read.
    """
    check_inputs(paths)
    if {path.suffix.lower() for path in paths} == {".npy"}:
        return _from_npy(paths, names)
    if len(paths) != 1:
        raise InputError("Pass one file, or two .npy files: scores first, labels second.")
    (path,) = paths
    if is_table(path):
        with open_table(path, delimiter=names.delimiter, decimal=names.decimal) as table:
            return _from_table(table, names, report)
    with open_arrays(path) as file:
        check_array_options(path, names)
        scores = flat(file.array(array_name(file, "scores", names)).whole())
        labels = file.labels(array_name(file, "labels", names)).whole()
        weights = file.array(array_name(file, "weights", names)).whole() if names.weights else None
    return LogitFile(scores, labels, weights, column=names.scores)


def _from_npy(paths: Sequence[Path], names: Names) -> LogitFile:
    check_array_options(paths[0], names)
    if names.weights or names.scores:
        raise InputError(
            "--weights and --scores must be left out for .npy files, which hold one unnamed array. Use .npz for weights."
        )
    if len(paths) != 2:
        raise InputError(f"Pass two .npy files: scores first, labels second, got {len(paths)}.")
    with open_arrays(paths[0]) as scores, open_arrays(paths[1]) as labels:
        return LogitFile(flat(scores.array("").whole()), labels.labels("").whole())


def check_array_options(path: Path, names: Names) -> None:
    """Refuse options of tables for files of arrays."""
    given: dict[str, Any] = {"--columns": names.columns, "--ignore": names.ignore, "--delimiter": names.delimiter}
    for option, value in (given | {"--decimal": names.decimal != "."}).items():
        if value:
            named = option == "--columns" and path.suffix.lower() != ".npy"
            remedy = "Name the array with --scores." if named else "Leave it out."
            raise InputError(f"{option} is for tables such as .csv, and {path} has arrays. {remedy}")


def array_name(file: ArrayFile, option: str, names: Names) -> str:
    """The name of an array that is there; ``option`` is scores, labels or weights."""
    if file.names == [""]:
        return ""  # a .npy file
    wanted = {"scores": names.array, "labels": names.labels, "weights": names.weights}[option]
    if option == "scores" and names.scores is None and names.fitted is not None and len(names.fitted) == 1:
        wanted = next((name for name in names.fitted if name in file.names), wanted)
    assert wanted is not None
    if wanted in file.names:
        return wanted
    remedy = label_remedy(file.names) if option == "labels" else f"Name yours with --{option}."
    if option == "scores" and "probabilities" in file.names:
        remedy = "Name yours with --scores, or pass --input probabilities."
        if names.calibrated:
            remedy = "The calibration was fitted to logits: pass a file of logits, or fit again with --input probabilities."
    raise InputError(f"{file.path} has no array {wanted!r}, only {listed(file.names)}. {remedy}")


def _from_table(table: Table, names: Names, report: Report) -> LogitFile:
    chosen = selected(table, names, labelled=True)
    if names.weights and table.is_list(names.weights):
        raise InputError(
            f"{table.path} has lists in column {names.weights!r}, and a weight is one number. Pass another --weights."
        )
    place = {name: index for index, name in enumerate(table.names)}
    columns = [place[name] for name in chosen.scores]
    parts: list[tuple[HostArray, list[Any], HostArray | None, HostArray | None]] = []
    for block in table.blocks():
        scores = _numbers(block, columns, chosen, table, names)
        weights = block.numbers([place[names.weights]])[:, 0] if names.weights else None
        kept = np.ones(block.n_rows, dtype=bool)
        if weights is not None:
            assert names.weights is not None
            block.refuse_missing(weights[:, None], [place[names.weights]], "weight")
            kept = weights != 0
        block.refuse_missing(np.where(kept[:, None], scores, 0), columns, "score")
        labels = _labels(block, place[names.labels], kept)
        if parts and scores.shape[1] != parts[0][0].shape[1]:
            raise FormatError(f"{block.where(0)}: lists of {scores.shape[1]} numbers after lists of {parts[0][0].shape[1]}.")
        parts.append((scores, labels, weights, block.lines))
        report("Reading", block.first_row + block.n_rows, table.n_rows)
    scores, weights = np.concatenate([part[0] for part in parts]), _joined([part[2] for part in parts])
    truth = _as_array([label for part in parts for label in part[1]])
    if chosen.by_values:
        counted = slice(None) if weights is None else weights != 0
        if not by_values(scores[counted], truth[counted]):
            raise undecided(table, chosen.scores, names, labelled=True)
    return LogitFile(
        scores=flat(scores),
        labels=truth,
        weights=weights,
        columns=chosen.scores if len(columns) > 1 else None,
        column=None if len(columns) > 1 else chosen.scores[0],
        lines=_joined([part[3] for part in parts]),
    )


def flat(scores: HostArray) -> HostArray:
    """Scores (n, 1) as (n,): one number per row stands for two classes."""
    return scores[:, 0] if scores.shape[1:] == (1,) else scores


def _numbers(block: Block, columns: Sequence[int], chosen: Selection, table: Table, names: Names) -> HostArray:
    try:
        return block.numbers(columns)
    except FormatError:
        if chosen.by_values and not block.first_row:  # a column of text: it was never meant
            raise undecided(table, chosen.scores, names, labelled=True) from None
        raise


def _labels(block: Block, index: int, kept: HostArray) -> list[Any]:
    """The labels of a block, None in rows of weight zero; refuses one that is missing or that cannot be one."""
    labels = [label if keep else None for label, keep in zip(block.values(index), kept, strict=True)]
    for row in np.flatnonzero(kept).tolist():
        label = labels[row]
        if label is None or label == "" or (isinstance(label, float) and isnan(label)):
            raise FormatError(f"{block.where(row, index)}: a label is missing. Fill it in, or drop the row.")
        if isinstance(label, list | dict | bytes):
            raise FormatError(f"{block.where(row, index)}: a label must be text or a number, got {label!r:.60}.")
    return labels


def _as_array(labels: list[Any]) -> HostArray:
    """Numbers as an array of numbers, and anything else as it is."""
    if {type(label) for label in labels} <= {int, float}:
        return np.array(labels)
    kept = np.empty(len(labels), dtype=object)  # NumPy would turn numbers beside text into text
    kept[:] = labels
    return kept


def _joined(parts: Sequence[HostArray | None]) -> HostArray | None:
    present = [part for part in parts if part is not None]
    return np.concatenate(present) if present else None


@contextmanager
def located(
    lines: HostArray | None, columns: Sequence[str] | None, first_row: int = 0, labels: str | None = None
) -> Iterator[None]:
    """Name lines and columns of the file in errors about rows of its array; without lines, say how rows are counted.

    ``labels`` is the name of the column or array of labels, which errors about them then begin with.
    """
    try:
        yield
    except InputError as error:

        def place(found: re.Match[str]) -> str:
            row, column = int(found[1]), None if found[2] is None else int(found[2])
            if lines is not None and not 0 <= row - first_row < len(lines):
                return found[0]  # part of a value that the message quotes
            if lines is None and columns is None and column is not None:
                return f"in row {row}, column {column} (counted from 0)"
            where = f"in row {row} (counted from 0)" if lines is None else f"in line {lines[row - first_row]}"
            if column is None:
                return where
            return f"{where}, column {column if columns is None else repr(columns[column])}"

        text = _ROW.sub(place, str(error))
        if labels is not None and text.startswith("`labels` must"):
            text = text.replace("`labels`", f"The labels in {labels!r} (option --labels)", 1)
        raise InputError(text) from None
