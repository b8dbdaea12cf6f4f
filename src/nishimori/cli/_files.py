"""The files passed to commands: find out what they are, check them before any work, and open them as options say."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from glob import glob
from pathlib import Path
from typing import Any, cast

import numpy as np
import typer

from nishimori._evaluation.calibrated import warn_of_same_rows
from nishimori._files.file_rows import SUFFIXES, FileRows, check_path
from nishimori._files.tables.columns import is_pattern
from nishimori._methods.fitted_method import FittedMethod
from nishimori._methods.record import FORMAT, MULTILABEL_FORMAT
from nishimori._rows.array_rows import Guard
from nishimori._rows.batch import Groups
from nishimori._rows.claims import NAMES, Claims, remedy_for_others
from nishimori._rows.entry import open_rows
from nishimori._rows.labels import NotAClassError, group_text
from nishimori._rows.scores import PERCENTAGES
from nishimori._sketch.archive import is_sketch_file
from nishimori._sketch.sketch import Sketch
from nishimori._sums.groups import By
from nishimori._support.disk import check_target
from nishimori._support.display import plural
from nishimori._support.formatting import enumeration, join_names
from nishimori._support.json import JsonError, read_json
from nishimori.cli._options import DataOptions
from nishimori.cli._terminal import note_columns
from nishimori.errors import FormatError, InputError
from nishimori.maps.map import Map
from nishimori.maps.temperature import GroupTemperatures

# Roles that `open_rows` has arguments for.
_OF_ROWS = ("input", "labels", "weights", "clusters", "groups", "classes", "ignore_index", "label_argument")

CALIBRATION = "a calibration"
MULTILABEL = "a multilabel calibration"
SKETCH = "a sketch"
REPORT = "a report"
SCORES = "a file of scores"
UNKNOWN = "JSON that nishimori did not write"
UNREADABLE = "JSON that cannot be read"

# What the JSON of a command has, by which it is told from that of others; the first that fits.
_RESULTS: dict[str, set[str]] = {
    "the result of gate": {"passed", "verdict", "checks"},
    "the result of eval": {"before", "n_bins"},
    "the result of compare": {"methods", "verdicts", "n_validation"},
    "the result of diff": {"changes", "different"},
    "the result of fit": {"method", "map", "file"},
    "the result of apply": {"calibration", "probability_columns"},
    "the result of sketch": {"temperatures", "n_samples", "file"},
    "the result of methods": {"methods", "library_version"},
}

_MEANT = {
    CALIBRATION: "Pass it with --calibration, or to nishimori apply; nishimori show lists its contents.",
    MULTILABEL: "Use it in Python: nishimori.load.",
    SKETCH: "fit, eval, gate, compare, report, diff and merge read it in place of scores.",
    REPORT: "nishimori show and nishimori diff read it.",
}


FIT_AGAIN = "fit again with --input probabilities"
"""What to do if scores look like probabilities and the calibration is one of logits."""

FITTED_TO_PROBABILITIES = "The calibration was fitted to probabilities. If these are logits, fit again to logits."
"""What to do if they are logits and the calibration is one of probabilities."""


def remedy_for_others_than(calibrator: FittedMethod) -> str:
    """What to do if scores are not the probabilities that a calibration was fitted to."""
    return PERCENTAGES if calibrator._of_claims_ else FITTED_TO_PROBABILITIES


def check_output(
    output: Path, endings: Sequence[str], example: str, *, overwrite: bool, argument: str = "path", read: Sequence[Path] = ()
) -> None:
    """Refuse an output file that cannot be written, or that is also ``read``, before any work; ``example`` suggests a name."""
    if output.is_dir():
        raise InputError(f"{output} is a folder. Choose the name of a file, such as {output / example}.")
    if (output.is_file() or not output.exists()) and not output.name.lower().endswith(tuple(endings)):
        raise InputError(argument, f"be a file that ends in {enumeration(endings, 'or')}", got=output)
    if output.is_file() and any(source.exists() and output.samefile(source) for source in read):
        raise InputError(f"{output} is also an input file. Choose another name.")
    check_target(output, overwrite=overwrite)


def find_files(paths: Sequence[Path]) -> list[Path]:
    """The files and folders that names and patterns such as ``part-*.csv`` stand for; matches of a pattern are sorted."""
    matches: list[Path] = []
    for path in paths:
        if not path.exists() and is_pattern(str(path)):
            matched = sorted(map(Path, glob(str(path), recursive=True)))
            if not matched:
                raise FileNotFoundError(f"No file matches {path}.")
            matches += matched
        else:
            matches.append(path)
    places: set[tuple[int, int]] = set()  # a lookup per file, of which a pattern may have thousands
    for path in matches:
        if not path.exists():
            continue
        at = path.stat()
        if (at.st_dev, at.st_ino) in places:
            raise InputError(f"{path} is named twice, so its rows would count twice. Name each file once.")
        places.add((at.st_dev, at.st_ino))
    return matches


def check_inputs(paths: Sequence[Path]) -> None:
    """Refuse files that are missing or of an unknown kind; commands check this before they check their output."""
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
        raise InputError(f"Pass validation data, or validation and test data, {needed}, got {plural(len(files), 'file')}.")
    return [list(files[start : start + size]) for start in range(0, len(files), size)]


def _are_npy(files: Sequence[Path]) -> bool:
    return {path.suffix.lower() for path in files if not path.is_dir()} == {".npy"}


def open_sketch(files: Sequence[Path], data: DataOptions, by: Any = None) -> Sketch | None:
    """The sketch, if it is the only file; refuses options that describe rows. None if all files hold rows."""
    if len(files) != 1 or not is_sketch_file(files[0]):
        if any(is_sketch_file(path) for path in files):
            raise InputError("Pass one sketch. To use several, merge them first: nishimori merge a.npz b.npz -o all.npz.")
        check_inputs(files)
        return None
    if data != DataOptions() or by is not None:
        raise InputError(
            f"{files[0]} is a sketch, which already describes its rows. Leave out options that describe rows, such as --input "
            "and --classes, or pass them to nishimori sketch."
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
    by: By | None = None,
) -> FileRows:
    """The rows of files or folders of one kind, or of a pair of .npy files with scores first and labels second.

    A floor of auto is left to those who fit. ``calibrator`` is what the rows are to be measured with, and ``by`` by what.
    ``unused`` are roles of columns, see `Roles`, and ``guard`` is as for `ReadOptions`.
    """
    in_pair = _are_npy(files)
    if any(path.suffix.lower() == ".npy" for path in files) and not (in_pair and len(files) == 2):
        raise InputError("Pass two .npy files: scores first, labels second, and no others.")
    roles = replace(data.roles(calibrator), unused=unused, more=() if in_pair else tuple(files[1:]))
    if by == "groups" and roles.groups is None:
        raise typer.BadParameter("name the groups with --groups.", param_hint="--by groups")
    labels = files[1] if in_pair else roles.labels
    options: dict[str, Any] = {name: getattr(roles, name) for name in ("clusters", "groups", "classes", "ignore_index")}
    of_claims = data.confidence is not None or (calibrator is not None and calibrator._of_claims_)
    options |= {"input": data.meaning, "counts": data.counts, "names": ("scores", "labels"), "guard": guard}
    if of_claims:
        options |= {"names": NAMES, "probability_remedy": remedy_for_others()}
    options["floor"] = None if data.floor in ("auto", "none") else data.floor
    options["of_file"] = {name: role for name, role in vars(roles).items() if name not in _OF_ROWS}
    if calibrator is not None:
        takes_logits = calibrator.input_ == "logits"
        options |= {"guard": "warn", "probability_remedy": FIT_AGAIN if takes_logits else remedy_for_others_than(calibrator)}
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
        warn_of_same_rows(rows, {"The calibration": calibrator})
    if notes_columns:
        note_columns(rows.contents.columns)
    return cast("FileRows", ClaimsInFile(rows, are_scores=data.input == "scores")) if of_claims else rows


class ClaimsInFile(Claims):
    """The rows of a file as claims."""

    @property
    def contents(self) -> Any:
        """The contents of the file."""
        return cast("FileRows", self.inside).contents


class GroupNames:
    """Groups of several blocks of rows, as a map spells them; remembers the groups that the map does not know.

    7 of a Parquet file and the text 7 of a .csv file are one group.
    """

    def __init__(self, map_: Map) -> None:
        self._map = map_ if isinstance(map_, GroupTemperatures) else None
        self._spelling = {} if self._map is None else {group_text(name): name for name in self._map.groups}
        self._seen: dict[Any, None] = {}

    def spell_as_map(self, groups: Groups | None) -> Groups | None:
        """Give groups the map's names for them; other groups keep their names."""
        if groups is None or self._map is None:
            return groups
        names = tuple(self._spelling.get(group_text(name), name) for name in groups.names)
        self._seen |= dict.fromkeys(names)
        return Groups(groups.codes, names)

    def warn_of_others(self) -> None:
        """Warn once about all groups without their own temperature."""
        if self._map is not None and self._seen:
            self._map.warn_of_others(Groups(np.arange(len(self._seen)), tuple(self._seen)))


# What a file is, by its content, for errors about files in wrong places


def kind_of(path: Path) -> str | None:
    """The kind of a file, in words that follow "is"; None if it is not known, as for a missing file."""
    if not path.is_file():
        return None
    name = path.name.lower()
    if is_sketch_file(path):
        return SKETCH
    if name.endswith(".json"):
        try:
            return kind_of_content(read_json(path))
        except (JsonError, OSError):
            return UNREADABLE
    return SCORES if name.endswith(SUFFIXES) else None


def json_in(path: Path) -> Any:
    """The content of a JSON file."""
    try:
        return read_json(path)
    except JsonError as error:
        raise FormatError(f"{path} cannot be read: {error}.") from None


def kind_of_content(content: Any) -> str:
    """The kind of a JSON file, from its content."""
    if not isinstance(content, Mapping):
        return UNKNOWN
    if content.get("format") in (FORMAT, MULTILABEL_FORMAT):
        return CALIBRATION if content["format"] == FORMAT else MULTILABEL
    if {"format", "verdict", "slider", "methods"} <= set(content):
        return REPORT
    results = (name for name, keys in _RESULTS.items() if keys <= set(content))
    return next(results, UNKNOWN)


def refuse_other(path: Path, wanted: str, *kinds: str) -> None:
    """Refuse a file if its kind is known and is not one of these; ``wanted`` follows "not" in the message."""
    kind = kind_of(path)
    if kind is not None and kind not in kinds:
        raise InputError(f"{path} is {kind}, not {wanted}. {_MEANT.get(kind, '')}".rstrip())
