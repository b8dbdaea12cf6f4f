"""Rows of files: arrays (.npz .npy .pt .safetensors) and tables (.csv .tsv .jsonl .parquet .feather), one or several.

A file is a set of named arrays or columns; `Roles` says which name is which. Labels, weights, clusters and groups are read when
the file is opened, scores whenever they are needed, in blocks. Parsing takes long, so the scores of tables are kept in memory,
or in a temporary file of numbers. Errors about rows name the file, and its lines and columns where it has them.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from math import isnan, prod
from pathlib import Path
from typing import Any

import numpy as np

from nishimori._files.arrays.files import SUFFIXES as ARRAYS
from nishimori._files.arrays.files import ArrayFile, open_arrays
from nishimori._files.arrays.numpy_files import npy_array
from nishimori._files.arrays.stored_array import StoredArray
from nishimori._files.lm_eval import is_samples, read_samples
from nishimori._files.selection import (
    Selection,
    array_name,
    labels_and_weights,
    refuse_table_options,
    select_columns,
    undecided_error,
    without_groups,
)
from nishimori._files.spooled_scores import SpooledScores
from nishimori._files.tables.block import Block, Table
from nishimori._files.tables.columns import Roles, by_values, classes_of_columns, refuse_doubtful_numbers
from nishimori._files.tables.files import ENDINGS, is_table, open_table, tables_in
from nishimori._rows.array_rows import ReadOptions
from nishimori._rows.column_names import class_parts, refuse_permuted
from nishimori._rows.entry import Passed, load_array
from nishimori._rows.labels import class_labels, group_names, spell_as_classes
from nishimori._rows.pieces import ahead
from nishimori._rows.scores import check_input, move_classes_last
from nishimori._rows.stored_rows import Mapped, Stored, StoredRows
from nishimori._support.arrays import HostArray
from nishimori._support.disk import existing_file
from nishimori._support.formatting import join_names
from nishimori._support.numbers import is_whole, whole
from nishimori._support.progress import Report, show_progress
from nishimori.errors import A_NAME, FormatError, InputError, setting

SUFFIXES = (*ARRAYS, *ENDINGS)

# Labels and weights of a table are in memory, some 30 bytes per row. In Parquet files, real scores have less than a row per
# byte, and two random columns of three different values 1.8. Far more is a bomb, if there are also many rows and the caller
# does not say otherwise.
_ROWS_PER_BYTE, _HARMLESS_ROWS = 20, 10**7


def check_path(path: Path) -> None:
    """Refuse a file that is missing or of an unknown kind; a folder of tables passes."""
    if path.is_dir():
        tables_in(path)
        return
    if not existing_file(path).name.lower().endswith(SUFFIXES):
        raise InputError(f"{path} has an unknown ending. Use one of {', '.join(SUFFIXES)}.")


@dataclass(frozen=True)
class FileContents:
    """What is known about an open file.

    Attributes
    ----------
    path : Path
        The file, or the folder.
    scores : Stored
        The scores, which are read in blocks.
    labels, weights, clusters, groups, ids : arrays
        What was asked for.
    label_column : str or None
        The name of the labels, where they have one.
    columns : list of str or None
        The names of the columns of scores, where there is one per class.
    column : str or None
        The name of the one column, or of the array, that holds all scores, where it is not the usual one.
    lines : integer array or None
        The line of each row, in files that have lines.
    files : sequence of (int, path)
        The first row of each file, where there are several.
    """

    path: Path
    scores: Stored
    labels: Any
    weights: Any = None
    clusters: Any = None
    groups: Any = None
    ids: HostArray | None = None
    label_column: str | None = None
    columns: list[str] | None = None
    column: str | None = None
    lines: HostArray | None = None
    files: Sequence[tuple[int, Path]] = ()


class FileRows(StoredRows):
    """The rows of a file; errors say where in the file the fault is."""

    def __init__(self, contents: FileContents, meaning: ReadOptions, *, progress: bool | None = None) -> None:
        self.contents, self.meaning = contents, meaning
        self.column_names, self.ids = contents.columns, contents.ids
        classes = meaning.classes  # of which a table may say itself what they are called
        self.class_names = None if classes is None else [str(label) for label in class_labels(classes).tolist()]
        parts = {"clusters": contents.clusters, "groups": contents.groups}
        try:
            super().__init__(contents.scores, contents.labels, contents.weights, meaning, **parts, progress=progress)
        except InputError as error:
            raise self.place(error) from None

    def place(self, error: InputError, piece: Any = None) -> InputError:  # noqa: ARG002 - rows count through all pieces
        """Add the file to the error, with its lines and column names in place of row and column numbers."""
        file, argument, path, first = self.contents, self.meaning.names[1], self.contents.path, 0
        if error.argument == argument and file.label_column is not None:
            error = error.changed(argument=f"The labels in {file.label_column!r} ({setting(argument, A_NAME)})")
        if isinstance(error.row, int) and file.files:
            first, path = [entry for entry in file.files if entry[0] <= error.row][-1]
            error = error.changed(row=error.row - first)
        lines = None if file.lines is None else file.lines[first:]
        several = len(file.files) > 1 and not isinstance(error.row, int) and not path.is_dir()
        where = f"{path} and {len(file.files) - 1} more" if several else str(path)
        return with_line(error, lines, file.columns).changed(where=where)


def with_line(error: InputError, lines: HostArray | None, columns: Sequence[str] | None, first_row: int = 0) -> InputError:
    """Add the line of a row to its error, or say how rows are counted; add the column's name, if it has one.

    ``lines`` are those of the rows from ``first_row`` on.
    """
    if not isinstance(error.row, int):
        return error
    column = ""
    if error.column is not None:
        column = f", column {error.column if columns is None else repr(columns[error.column])}"
    if lines is not None:
        place = f"line {lines[error.row - first_row]}{column}"
    elif columns is None:
        place = f"row {error.row}{column} (counted from 0)"
    else:
        place = f"row {error.row} (counted from 0){column}"
    return error.changed(place=place)


def open_path(passed: Passed) -> FileRows:
    """Open the file at a path; labels, weights, clusters and groups are names in it, or further .npy files for a .npy file."""
    path, meaning, labels = Path(passed.logits), passed.meaning, passed.labels
    check_path(path)
    check_input(meaning.input, meaning.floor)
    roles = dict(passed.of_file)
    for name in ("columns", "ignore"):
        if not isinstance(roles.get(name), str | None):
            roles[name] = _column_names(name, roles[name])
    roles |= {"input": meaning.input, "classes": meaning.classes, "ignore_index": meaning.labelling.ignore_index}
    if roles.get("max_rows") is not None:
        roles["max_rows"] = whole("max_rows", roles["max_rows"], 1)
    roles["label_argument"] = meaning.names[1]
    parts = {"weights": passed.sample_weight, "clusters": passed.clusters, "groups": passed.groups}
    if path.suffix.lower() == ".npy" and not path.is_dir():
        return open_npy(path, labels, Roles(**roles), meaning, progress=passed.progress, **parts)
    for role, value in {"labels": labels, **parts}.items():
        if value is not None and not isinstance(value, str):
            argument = {"labels": meaning.names[1], "weights": "sample_weight"}.get(role, role)
            raise InputError(argument, f"be the name of an array or column of {path}", got=f"a {type(value).__name__}")
    return open_file(path, Roles(labels=labels or "labels", **parts, **roles), meaning, progress=passed.progress)


def _column_names(argument: str, names: Any) -> tuple[str, ...]:
    """The names in a list, a tuple, an array or the columns of a data frame."""
    listed = list(names) if isinstance(names, Iterable) else [names]
    wrong = [f"{name!r:.60}" for name in listed if not isinstance(name, str)]
    if wrong or (argument == "columns" and not listed):
        raise InputError(argument, "be the name of a column, or a list of names", got=wrong[0] if wrong else "an empty list")
    return tuple(map(str, listed))


def open_file(path: Path, roles: Roles, meaning: ReadOptions, *, progress: bool | None = None) -> FileRows:
    """The rows of a file of arrays, of a table, or of several files of one kind."""
    with show_progress(progress) as report:
        if is_table(path) or path.is_dir():
            if meaning.class_axis != -1:
                raise InputError("class_axis", "be left out for tables, which have a column per class", got=meaning.class_axis)
            contents = _from_samples(path, roles) if is_samples(path) else _from_table(path, roles, report)
        else:
            contents = _from_arrays(path, roles, meaning.class_axis)
    meaning = replace(meaning, class_axis=-1)
    refuse_other_classes(roles, contents.scores.shape, contents.columns)
    if contents.columns is not None:
        for names in (contents.columns, class_parts(contents.columns)):
            refuse_permuted(names, meaning.classes)
        if meaning.classes is None and not roles.calibrated:
            refuse_doubtful_numbers(_counted_labels(contents.labels, meaning), contents.columns)
    return FileRows(*_spell_labels(contents, meaning), progress=progress)


def open_npy(
    path: Path, labels: Any, roles: Roles, meaning: ReadOptions, *, progress: bool | None = None, **parts: Any
) -> FileRows:
    """The rows of a .npy file of scores; labels and ``parts`` (weights, clusters, groups) are arrays or other .npy files."""
    refuse_table_options(path, roles)
    if roles.groups_remembered:
        raise without_groups(path)
    for role, value in ({"scores": roles.columns, "ids": roles.ids} | parts).items():
        if isinstance(value, str) and not value.lower().endswith(".npy"):
            must = f"be left out for .npy files, which hold one unnamed array, got {value!r}"
            remedy = "Use .npz for weights, clusters, groups and ids."
            raise InputError(f"{setting(roles.argument(role), A_NAME)} must {must}. {remedy}")
    scores = npy_scores(path) if meaning.class_axis == -1 else _scores_in(open_arrays(path), "", meaning.class_axis)
    meaning = replace(meaning, class_axis=-1)
    contents = FileContents(path, scores, load_array(labels), **{role: load_array(values) for role, values in parts.items()})
    if contents.labels is not labels:  # of another file
        scores = _flat_scores(scores)
        flattened = replace(contents, scores=scores, labels=_flat_labels(contents.labels, scores))
        contents, meaning = _spell_labels(flattened, meaning)
    refuse_other_classes(roles, scores.shape, None)
    return FileRows(contents, meaning, progress=progress)


def npy_scores(path: Path) -> StoredArray:
    """The scores in a .npy file of any dtype, which is checked like the dtype of an array in memory."""
    return npy_array(path).filled()


def load_npy(path: Path) -> HostArray:
    """Load labels, weights, clusters or groups from a .npy file."""
    stored = npy_array(path).filled()
    return (stored.labels() if stored.dtype.kind in "US" else stored).whole()


def refuse_other_classes(roles: Roles, shape: Sequence[int], columns: Sequence[str] | None) -> None:
    """Refuse scores whose number of classes differs from the calibration's."""
    n_classes = 2 if len(shape) == 1 else shape[-1]
    if roles.n_classes is None or roles.n_classes == n_classes:
        return
    has = "one score per row, which stands for 2 classes" if len(shape) == 1 else f"{n_classes} columns of scores"
    remedy = f". {move_classes_last('logits', shape, roles.n_classes) or 'Pass scores of the same model.'}"
    if columns is not None:
        remedy = f": {join_names(columns)}. Name the right ones with {setting('columns')}."
    raise InputError(f"The calibration has {roles.n_classes} classes, but the file has {has}{remedy}")


def _counted_labels(labels: HostArray, meaning: ReadOptions) -> list[Any]:
    """The labels without the ignored one."""
    ignored = str(meaning.labelling.ignore_index)
    return [label for label in labels.tolist() if str(label) != ignored]


def _spell_labels(contents: FileContents, meaning: ReadOptions) -> tuple[FileContents, ReadOptions]:
    """Spell labels like classes, because they are compared as text: 3.0 in a file is the class "3"."""
    labels, classes, ignored = contents.labels, meaning.classes, meaning.labelling.ignore_index
    if classes is None and contents.columns is not None:
        classes = classes_of_columns(_counted_labels(labels, meaning), contents.columns)
        meaning = replace(meaning, classes=classes)
    if classes is not None:
        classes = [str(label) for label in class_labels(classes).tolist()]
        meaning = replace(meaning, classes=classes)
    return replace(contents, labels=spell_as_classes(labels, classes, ignored)), meaning


class ChainedScores(Stored):
    """The scores of several files, one after the other."""

    def __init__(self, parts: Sequence[Stored]) -> None:
        self._parts = parts
        self.shape = (sum(part.shape[0] for part in parts), *parts[0].shape[1:])
        self.dtype = np.result_type(*(part.dtype for part in parts))

    def blocks(self) -> Generator[HostArray, None, None]:
        """The blocks of each file."""
        for part in self._parts:
            yield from part.blocks()


def _scores_in(file: ArrayFile, name: str, class_axis: int) -> StoredArray:
    """The scores with that name."""
    array = file.array(name)
    return _flat_scores(array if class_axis == -1 else _with_classes_last(array, class_axis))


def _flat_scores(array: StoredArray) -> StoredArray:
    """Scores in which a single column is one score per row."""
    return replace(array, shape=array.shape[:1]) if array.shape[1:] == (1,) else array


def _with_classes_last(array: StoredArray, class_axis: Any) -> StoredArray:
    """An array with its classes moved to the end; classes in the first dimension would require reading the whole array."""
    shape, n_dimensions = array.shape, len(array.shape)
    if not is_whole(class_axis) or not -n_dimensions <= class_axis < n_dimensions or class_axis % n_dimensions == 0:
        must = f"be the number of a dimension of the scores after the first, which have the shape {shape}"
        raise InputError("class_axis", must, got=repr(class_axis))
    axis = class_axis % n_dimensions
    moved = (*shape[:axis], *shape[axis + 1 :], shape[axis])
    before, after = prod(shape[1:-1]), prod(moved[1:-1])  # rows of one image

    def rows(start: int, stop: int) -> HostArray:
        images = array.rows(start // after * before, stop // after * before).reshape(-1, *shape[1:])
        return np.moveaxis(images, axis, -1).reshape(-1, moved[-1])

    return replace(array, shape=moved, read=rows, together=after)


def _from_arrays(path: Path, roles: Roles, class_axis: int) -> FileContents:
    """The arrays of all files, one after the other."""
    parts = [_arrays_of(file, roles, class_axis) for file in (path, *roles.more)]
    if len(parts) == 1:
        return parts[0]
    files: list[tuple[int, Path]] = []
    n_rows = 0
    for part in parts:
        if part.scores.shape[1:] != parts[0].scores.shape[1:]:
            shapes = [("any", *other.scores.shape[1:]) for other in (parts[0], part)]
            raise FormatError(f"{part.path} must have scores of the same shape as {path}, {shapes[0]}, got {shapes[1]}.")
        if part.scores.n_rows != len(part.labels):
            raise FormatError(f"{part.path} has {len(part.labels)} labels for {part.scores.n_rows} rows of scores.")
        files.append((n_rows, part.path))
        n_rows += part.scores.n_rows
    joined = {
        name: _join([getattr(part, name) for part in parts]) for name in ("labels", "weights", "clusters", "groups", "ids")
    }
    return replace(parts[0], scores=ChainedScores([part.scores for part in parts]), files=files, **joined)


def _arrays_of(path: Path, roles: Roles, class_axis: int) -> FileContents:
    if is_table(path):
        raise FormatError(f"{path} is a table, unlike the files before it. Pass files of one kind.")
    file = open_arrays(path)
    refuse_table_options(path, roles)
    name = array_name(file, "scores", roles)
    scores = _scores_in(file, name, class_axis)
    labels = _flat_labels(file.labels(array_name(file, "labels", roles)).whole(), scores)
    weights = file.array(array_name(file, "weights", roles)).whole() if roles.find("weights") else None
    others: dict[str, Any] = {
        role: file.labels(array_name(file, role, roles)).whole() if roles.find(role) else None
        for role in ("clusters", "groups", "ids")
    }
    column = None if roles.columns is None and name == roles.input else name
    return FileContents(path, scores, labels, weights, **others, label_column=roles.labels, column=column)


def _flat_labels(labels: HostArray, scores: Stored) -> HostArray:
    """Flatten labels with the leading dimensions of the scores; other labels are refused later."""
    return labels.reshape(-1) if labels.shape == scores.shape[:-1] else labels


class TableScores(Stored):
    """The scores of a table, which is opened for each pass."""

    def __init__(
        self, reopen: Callable[[], Table], names: Sequence[str], columns: Sequence[int], shape: tuple[int, ...], dtype: Any
    ) -> None:
        self.shape, self.dtype = shape, dtype
        self._reopen, self._names, self._columns = reopen, names, columns

    def blocks(self) -> Generator[HostArray, None, None]:
        """The scores of each block."""
        with self._reopen() as table:
            if table.names != self._names:
                raise FormatError(f"{table.path} has changed since it was first read. Start again when it is complete.")
            for block in table.blocks(self._columns):
                yield flat(block.numbers(self._columns))


def _from_table(path: Path, roles: Roles, report: Report) -> FileContents:
    """One pass, which checks each block, and keeps the scores."""

    def open_again() -> Table:
        return open_table(path, more=roles.more, delimiter=roles.delimiter, decimal=roles.decimal)

    with open_again() as table:
        chosen = select_columns(table, roles)
        place = {name: index for index, name in enumerate(table.names)}
        columns = [place[name] for name in chosen.scores]
        numberings: dict[str, dict[Any, int]] = {role: {} for role in ("clusters", "groups", "ids") if roles.find(role)}
        kept: SpooledScores | None = None
        has_room = True
        parts: list[tuple[HostArray | None, ...]] = []
        files: list[tuple[int, Path]] = []
        n_rows, n_bytes = 0, 0
        shape, extremes, texts = None, None, dict[str, str]()
        for block in ahead(table.blocks(columns)):
            scores = _numbers(block, columns, chosen, table, roles)
            labels, weights, counted = labels_and_weights(block, place, roles)
            block.refuse_missing(np.where(counted[:, None], scores, 0), columns, "score")
            for row in range(block.n_rows) if weights is None else np.flatnonzero(weights).tolist():
                _refuse_value(labels[row], block, row, place[roles.labels], "label")
            if shape is not None and scores.shape[1:] != shape:
                raise FormatError(f"{block.where(0)}: lists of {scores.shape[1]} numbers after lists of {shape[0]}.")
            shape = scores.shape[1:]
            if chosen.by_values and counted.any():
                extremes = witnesses(scores[counted] if extremes is None else np.concatenate([extremes, scores[counted]]))
            # Equal texts are one object, which takes a fraction of the memory.
            labels[:] = [texts.setdefault(label, label) if isinstance(label, str) else label for label in labels.tolist()]
            codes = []
            for role, numbers in numberings.items():  # equal values have the same number in all blocks
                values = row_values(block, place[roles.by_role[role]], role.removesuffix("s"))
                codes.append(np.array([numbers.setdefault(value, len(numbers)) for value in values]))
            parts.append((_numbers_or_objects(labels), weights, counted, block.lines, *codes))
            if not files or files[-1][1] != block.path:
                files.append((n_rows, block.path))
                n_bytes += block.path.stat().st_size
            n_rows += block.n_rows
            claimed, most = max(n_rows, table.n_rows or 0), max(_HARMLESS_ROWS, _ROWS_PER_BYTE * n_bytes)
            if claimed > (roles.max_rows or most):
                raise FormatError(_too_many_rows(block.path, roles.max_rows, claimed))
            if has_room:
                kept = kept or SpooledScores(flat(scores))
                has_room = kept.write(flat(scores))
                kept = kept if has_room else None
            report("Reading", n_rows, table.n_rows)
        assert shape is not None, "a table without rows is refused"
        truth, weight, counts, lines, *numbered = map(_join, zip(*parts, strict=True))
        assert truth is not None
        # Text labels prove what columns are if each column is one of them: no other column is left over.
        proven = not chosen.by_values or (roles.classes is None and set(truth[counts].tolist()) == set(chosen.scores))
        if not proven and (extremes is None or not by_values(extremes, truth[counts])):
            raise undecided_error(table, chosen.scores, roles)
        whole = (n_rows,) if shape == (1,) else (n_rows, *shape)
        again = TableScores(open_again, table.names, columns, whole, scores.dtype)
    several = len(columns) > 1
    return FileContents(
        path,
        kept or again,
        truth,
        weight,
        **{
            # Clusters need no names.
            role: codes if role == "clusters" else np.array(group_names(list(numberings[role])))[codes]
            for role, codes in zip(numberings, numbered, strict=True)
        },
        label_column=roles.labels,
        columns=chosen.scores if several else None,
        column=None if several else chosen.scores[0],
        lines=lines,
        files=files,
    )


def _from_samples(path: Path, roles: Roles) -> FileContents:
    """Sample files of lm-evaluation-harness, which need no options."""
    for role in ("weights", "clusters", "groups", "ids", "columns", "ignore", "classes", "delimiter"):
        if getattr(roles, role):
            name = setting(roles.argument(role), A_NAME)
            remedy = "In Python, nishimori.integrations.lm_eval.read gives logits and labels, to which you can add others."
            raise InputError(f"{name} must be left out for {path}, which holds samples of lm-evaluation-harness. {remedy}")
    if roles.labels != "labels" or roles.input != "logits":
        which = setting(roles.label_argument, A_NAME) if roles.labels != "labels" else setting("input")
        must = f"be left out for {path}, which holds samples of lm-evaluation-harness: log-likelihoods and targets"
        raise InputError(f"{which} must {must}.")
    parts = {file: read_samples(file) for file in (path, *roles.more)}
    width = max(roles.n_classes or 0, *(part.samples.logits.shape[1] for part in parts.values()))
    padded = [
        np.pad(part.samples.logits, ((0, 0), (0, width - part.samples.logits.shape[1])), constant_values=-np.inf)
        for part in parts.values()
    ]
    starts = np.cumsum([0, *map(len, padded)]).tolist()
    return FileContents(
        path,
        Mapped(np.concatenate(padded)),
        np.concatenate([part.samples.labels for part in parts.values()]),
        lines=np.concatenate([part.lines for part in parts.values()]),
        files=list(zip(starts, parts, strict=False)),
    )


def _too_many_rows(path: Path, most: int | None, claimed: int) -> str:
    if most is not None:
        return f"{path} has more than {most} rows. If that is right, raise {setting('max_rows', A_NAME)}."
    return (
        f"{path} has more than {_ROWS_PER_BYTE} rows for each of its bytes, more than real scores do. If it is right, pass "
        f"{setting('max_rows', 2 * claimed)}, or write each different row once, with the number of such rows as its weight."
    )


def _numbers(block: Block, columns: Sequence[int], chosen: Selection, table: Table, roles: Roles) -> HostArray:
    try:
        return block.numbers(columns)
    except FormatError:
        if chosen.by_values and not block.first_row:  # a column of text: it was never meant
            raise undecided_error(table, chosen.scores, roles) from None
        raise


def row_values(block: Block, index: int, what: str) -> list[Any]:
    """The cluster or the group of each row of a block; refuses missing and impossible ones."""
    values = block.values(index)
    for row, value in enumerate(values):
        _refuse_value(value, block, row, index, what)
    return values


def _refuse_value(value: Any, block: Block, row: int, index: int, what: str) -> None:
    if value is None or value == "" or (isinstance(value, float) and isnan(value)):
        raise FormatError(f"{block.where(row, index)}: a {what} is missing. Fill it in, or drop the row.")
    if isinstance(value, list | dict | bytes):
        raise FormatError(f"{block.where(row, index)}: a {what} must be text or a number, got {value!r:.60}.")


def witnesses(rows: HostArray) -> HostArray:
    """Three rows that are constant, or whole-numbered, in the same columns as ``rows``."""
    finite = np.where(np.isfinite(rows), rows, 0)
    other, broken = (marks.argmax(axis=0)[None] for marks in (finite != finite[0], finite != np.floor(finite)))
    return np.concatenate([finite[:1], np.take_along_axis(finite, np.concatenate([other, broken]), axis=0)])


def flat(scores: HostArray) -> HostArray:
    """Scores (n, 1) as (n,): one number per row stands for two classes."""
    return scores[:, 0] if scores.shape[1:] == (1,) else scores


def _numbers_or_objects(labels: HostArray) -> HostArray:
    """Numbers as an array of numbers; anything else stays as it is."""
    values = labels.tolist()
    return np.array(values) if {type(label) for label in values} <= {int, float} else labels


def _join(parts: Sequence[Any]) -> Any:
    """The parts of all blocks together; None where there are none."""
    return None if parts[0] is None else np.concatenate(parts)
