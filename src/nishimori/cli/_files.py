"""The files that commands are given: checked before any work is done, and opened by the library."""

from collections.abc import Sequence
from dataclasses import replace
from glob import glob
from pathlib import Path
from typing import Any, cast

from nishimori._files.file_rows import SUFFIXES, FileRows, check_path
from nishimori._files.tables.columns import is_pattern
from nishimori._methods.fitted_method import FittedMethod
from nishimori._rows.array_rows import Guard
from nishimori._rows.column_names import join_names
from nishimori._rows.entry import open_rows
from nishimori._rows.labels import NotAClassError
from nishimori._sketch.archive import is_sketch_file
from nishimori._sketch.sketch import Sketch
from nishimori.cli._calibration import GroupNames
from nishimori.cli._file_kinds import SCORES, refuse_other
from nishimori.cli._options import FIT_AGAIN, FITTED_TO_PROBABILITIES, DataOptions
from nishimori.cli._terminal import note_columns
from nishimori.errors import InputError

# What `open_rows` has arguments for, and what it takes besides.
_OF_ROWS = ("clusters", "groups", "classes", "ignore_index")
_OF_FILE = ("columns", "ignore", "delimiter", "decimal", "ids", "more", "unused")
_OF_CALIBRATION = ("fitted", "n_classes", "calibrated", "groups_remembered")


def refuse_folder(output: Path, example: str) -> None:
    """Refuse a folder in place of the file to write; ``example`` is the name of such a file."""
    if output.is_dir():
        raise InputError(f"{output} is a folder. Choose the name of a file, such as {output / example}.")


def find_files(paths: Sequence[Path]) -> list[Path]:
    """The files and folders that names and patterns such as ``part-*.csv`` stand for, those of a pattern by name."""
    matches: list[Path] = []
    for path in paths:
        if is_pattern(str(path)) and not path.exists():
            matched = sorted(map(Path, glob(str(path), recursive=True)))
            if not matched:
                raise FileNotFoundError(f"There is no file that matches {path}.")
            matches += matched
        else:
            matches.append(path)
    places: set[tuple[int, int]] = set()  # a lookup per file, of which a pattern may have thousands
    for path in matches:
        if not path.exists():
            continue
        at = path.stat()
        if (at.st_dev, at.st_ino) in places:
            raise InputError(f"{path} is named twice, and its rows would count twice. Name each file once.")
        places.add((at.st_dev, at.st_ino))
    return matches


def check_inputs(paths: Sequence[Path]) -> None:
    """Refuse files that are not there or of an unknown kind; commands check this before they look at their output."""
    for path in paths:
        if not path.name.lower().endswith(SUFFIXES):
            refuse_other(path, SCORES, SCORES)
        check_path(path)


def data_sets(files: Sequence[Path]) -> list[list[Path]]:
    """The files of the validation data and, if there are any, of the test data."""
    check_inputs(files)
    in_pairs = _are_npy(files)
    size = 2 if in_pairs else 1
    if len(files) not in (size, 2 * size):
        needed = "two .npy files each (scores, labels)" if in_pairs else "one file each"
        number = "1 file" if len(files) == 1 else f"{len(files)} files"
        raise InputError(f"Pass validation data, or validation and test data, {needed}, got {number}.")
    return [list(files[start : start + size]) for start in range(0, len(files), size)]


def _are_npy(files: Sequence[Path]) -> bool:
    return {path.suffix.lower() for path in files if not path.is_dir()} == {".npy"}


def open_sketch(files: Sequence[Path], data: DataOptions, by: Any = None) -> Sketch | None:
    """The sketch that is the only file, or None if it is not one; it takes no options that say what rows are."""
    if len(files) != 1 or not is_sketch_file(files[0]):
        if any(is_sketch_file(path) for path in files):
            raise InputError("Pass one sketch. To use several, merge them first: nishimori merge a.npz b.npz -o all.npz.")
        return None
    if data != DataOptions() or by is not None:
        raise InputError(
            f"{files[0]} is a sketch, which knows what its rows are. Leave out the options that say so, such as --input and "
            "--classes, or pass them to nishimori sketch."
        )
    return Sketch.load(files[0])


def data_set(files: Sequence[Path], data: DataOptions, *, unused: tuple[str, ...] = ()) -> FileRows | Sketch:
    """One data set: the rows of a file, or a sketch."""
    if (sums := open_sketch(files, data)) is not None:
        return sums
    return open_files(files, data, unused=unused)


def open_files(
    files: Sequence[Path],
    data: DataOptions,
    calibrator: FittedMethod | None = None,
    *,
    unused: tuple[str, ...] = (),
    notes_columns: bool = True,
    guard: Guard = "refuse",
) -> FileRows:
    """The rows of files or folders of one kind, or of a pair of .npy files with scores first and labels second.

    A floor of auto is left to those who fit. ``calibrator`` is what the rows are to be measured with. ``unused`` are roles of
    columns, see `Roles`, and ``guard`` is as for `ReadOptions`.
    """
    if _are_npy(files) and len(files) != 2:
        raise InputError(f"Pass two .npy files: scores first, labels second, got {len(files)}.")
    if not _are_npy(files) and any(path.suffix.lower() == ".npy" for path in files):
        raise InputError("Pass two .npy files: scores first, labels second, and no others.")
    roles = replace(data.roles(calibrator), unused=unused, more=() if _are_npy(files) else tuple(files[1:]))
    labels = files[1] if _are_npy(files) else roles.labels
    options: dict[str, Any] = {name: getattr(roles, name) for name in _OF_ROWS}
    options |= {"input": data.input, "counts": data.counts, "names": ("scores", "labels"), "guard": guard}
    options["floor"] = None if data.floor in ("auto", "none") else data.floor
    options["of_file"] = {name: getattr(roles, name) for name in (*_OF_FILE, *_OF_CALIBRATION)}
    if calibrator is not None:
        takes_logits = calibrator.input_ == "logits"
        options |= {"guard": "warn", "probability_remedy": FIT_AGAIN if takes_logits else FITTED_TO_PROBABILITIES}
    try:
        rows = cast("FileRows", open_rows(files[0], labels, roles.weights, **options))
    except NotAClassError as error:
        if calibrator is None or calibrator.classes is None:
            raise
        raise error.changed(
            must=f"be among the classes of the calibration, {join_names(roles.classes or ())}",
            remedy="Name the right column with --labels, drop these samples, or fit again.",
        ) from None
    if calibrator is not None:
        rows.groups = GroupNames(calibrator.map_).spell_as_map(rows.groups)
    if notes_columns:
        note_columns(rows.contents.columns)
    return rows
