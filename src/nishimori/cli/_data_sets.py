"""Validation and test data of the commands that take both: rows of files, read in blocks, or sketches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from nishimori._rows.batch import Batch
from nishimori._rows.entry import open_rows
from nishimori._rows.labels import refuse_permuted, spelled_as
from nishimori._rows.rows import Reported, Rows, T
from nishimori._rows.scores import Floor, Input, is_auto
from nishimori._rows.stored_rows import KeptScores, Stored
from nishimori._sums.sketch.sketch import Sketch
from nishimori._support.arrays import HostArray
from nishimori._support.progress import Report, silent
from nishimori.cli import _files
from nishimori.cli._files import LogitFile, Names
from nishimori.cli._sketch_file import opened_sketch
from nishimori.cli._terminal import note_columns
from nishimori.errors import InputError

DataSets = Annotated[
    list[Path],
    typer.Argument(
        help="Validation data, and test data if there are any: a file each, as for fit, or a sketch. Of .npy files two each: "
        "scores, labels.",
        show_default=False,
        metavar="FILES",
    ),
]


def data_sets(files: Sequence[Path]) -> list[list[Path]]:
    """The files of the validation data and, if there are any, of the test data."""
    _files.check_inputs(files, folders=True)
    in_pairs = {path.suffix.lower() for path in files if not path.is_dir()} == {".npy"}
    size = 2 if in_pairs else 1
    if len(files) not in (size, 2 * size):
        each = "two .npy files each (scores, labels)" if in_pairs else "one file each"
        number = "1 file" if len(files) == 1 else f"{len(files)} files"
        raise InputError(f"Pass validation data, or validation and test data, {each}, got {number}.")
    return [list(files[start : start + size]) for start in range(0, len(files), size)]


@dataclass(frozen=True)
class Told:
    """What options say about the rows: names in the file, kind of scores, classes, floor.

    ``said`` is true where an option was given that a sketch does not take.
    """

    names: Names
    input: Input
    classes: list[str] | None
    floor: Floor
    said: tuple[Any, ...]
    counts: bool = False


class Located(Reported):
    """The rows of a data set whose errors name the file, its lines and its columns."""

    def __init__(self, inner: Rows, data: LogitFile, path: Path, labels: str | None, report: Report) -> None:
        super().__init__(inner, f"Reading {path.name}", report)
        self._file, self._path, self._labels = data, path, labels

    @property
    def weights(self) -> HostArray | None:
        """The weight of each row, zeros included."""
        return getattr(self._inner, "weights", None)

    @property
    def ids(self) -> HostArray | None:
        """The name of each row, where the options say what it is."""
        return self._file.ids

    def gather(self, pass_: Callable[[Batch], T], report: Report = silent) -> T:
        """The sum of ``pass_`` over all rows."""
        try:
            with _files.located(self._file.lines, self._file.columns, labels=self._labels, files=self._file.files):
                return super().gather(pass_, report)
        except InputError as error:
            raise error.changed(where=str(self._path)) from None


def opened(files: list[Path], told: Told, report: Report) -> Rows | Sketch:
    """One data set: the rows of a file, or a sketch."""
    if (sums := opened_sketch(files, *told.said)) is not None:
        return sums
    names, known = told.names, told.classes
    data = _files.read(files, names, report)
    refuse_permuted(data.columns, known)
    note_columns(data.columns)
    column = None if len(files) == 2 else names.labels
    floor = None if is_auto(told.floor) else told.floor  # then it is chosen where methods are fitted
    options: dict[str, Any] = {"input": told.input, "classes": known, "floor": floor, "names": ("scores", "labels")}
    try:
        with _files.located(data.lines, data.columns, labels=column, files=data.files):
            options |= {"clusters": data.clusters, "groups": data.groups, "counts": told.counts}
            rows = open_rows(_in_memory(data.scores), spelled_as(data.labels, known), data.weights, **options)
    except InputError as error:
        raise error.changed(where=str(files[0])) from None
    return Located(rows, data, files[0], column, report)


def _in_memory(scores: Stored) -> Any:
    """Scores that were kept in memory as one array, which is read twice as fast as blocks; others as they are."""
    return np.concatenate(list(scores.blocks())) if isinstance(scores, KeptScores) else scores
