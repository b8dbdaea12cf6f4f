"""The calibration that rows are measured with: whether the options agree with it, and how it spells groups."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nishimori._evaluation.calibrated import warn_of_same_rows
from nishimori._files.file_rows import SUFFIXES
from nishimori._methods import table
from nishimori._methods.fitted_method import BareCalibrator, FittedMethod, check_n_classes
from nishimori._methods.record import Record, content_of
from nishimori._rows.batch import Groups
from nishimori._rows.column_names import join_names
from nishimori._rows.labels import group_text
from nishimori._rows.scores import check_input, is_auto
from nishimori._sketch.sketch import Sketch
from nishimori.cli._file_kinds import CALIBRATION, MULTILABEL, SCORES, UNKNOWN, UNREADABLE, kind_of, refuse_other
from nishimori.cli._options import DataOptions
from nishimori.errors import InputError
from nishimori.maps.group_temperatures import GroupTemperatures
from nishimori.maps.map import Map


def calibrator_in(path: Path) -> FittedMethod:
    """The calibrator of a file; that of a multilabel model is refused, because files of scores have one label per row."""
    refuse_other(path, CALIBRATION, CALIBRATION, MULTILABEL, UNREADABLE, UNKNOWN)
    record = Record.from_content(content_of(path), path)
    method = table.find_bare(record.provenance.method)
    if method is not None:
        return BareCalibrator.from_record(method, record, path)
    from nishimori._calibrators.methods import restore_calibrator  # noqa: PLC0415 - scikit-learn

    return restore_calibrator(record, path)


def refuse_swapped(command: str, files: Sequence[Path], calibration: Path | None) -> None:
    """Say so if the calibration and the file of scores are in each other's place."""
    if calibration is None or not calibration.name.lower().endswith(SUFFIXES):
        return
    if [path.suffix.lower() for path in files] == [".json"]:
        example = f"{command} {shlex.quote(str(calibration))} --calibration {shlex.quote(str(files[0]))}"
        kind = kind_of(calibration) or SCORES
        raise InputError(f"{calibration} is {kind}, not a calibration. Pass the file of scores first: {example}.")


def agree_with(calibrator: FittedMethod | None, data: DataOptions) -> DataOptions:
    """What options and calibration together say about scores: the input, the floor and the classes; they must not differ."""
    floor = None if data.floor == "none" else data.floor
    if is_auto(floor):
        raise InputError(
            "floor",
            "be a number where nothing is fitted",
            got="auto: it would be tuned on the labels that it scores",
            remedy="Pass it to nishimori fit and that file with --calibration, whose floor is then used, or pass a number.",
        )
    if calibrator is None:
        check_input(data.input, floor)
        return replace(data, floor=floor)
    if data.input is not None and data.input != calibrator.input_:
        fitted_to = f"be {calibrator.input_}, which the calibration was fitted to"
        raise InputError("input", fitted_to, got=data.input, remedy="Leave it out.")
    if floor is not None and floor != calibrator.floor_:
        fitted_floor = f"be that of the calibration, which is {calibrator.floor_ or 'none'}"
        raise InputError("floor", fitted_floor, got=f"{floor:g}", remedy="Leave it out.")
    kind = calibrator.input_ if data.input is not None or calibrator.input_ == "probabilities" else None
    if calibrator.classes is None:
        return replace(data, input=kind, floor=calibrator.floor_)
    classes = [str(label) for label in calibrator.classes_.tolist()]
    if data.classes is not None and data.classes != classes:
        raise InputError(
            "classes",
            f"be those of the calibration in its order, {join_names(classes)}",
            got=join_names(data.classes),
            remedy="Leave it out.",
        )
    return replace(data, input=kind, floor=calibrator.floor_, classes=classes)


def agree_with_sketch(calibrator: FittedMethod | None, sums: Sketch) -> None:
    """Refuse a calibration of other scores, classes or columns than those of a sketch, and warn if it was fitted to them."""
    classes = None if sums.classes is None else [str(label) for label in sums.classes]
    agree_with(calibrator, DataOptions(input=sums.input, floor=sums.floor, classes=classes))
    if calibrator is not None:
        check_n_classes(calibrator, sums, "sketch")
        warn_of_same_rows(sums, {"The calibration": calibrator})


class GroupNames:
    """Groups of several blocks of rows, as a map spells them; remembers those that the map does not know.

    7 of a Parquet file and the text 7 of a .csv file are one group.
    """

    def __init__(self, map_: Map) -> None:
        self._map = map_ if isinstance(map_, GroupTemperatures) else None
        self._spelling = {} if self._map is None else {group_text(name): name for name in self._map.groups}
        self._seen: dict[Any, None] = {}

    def spell_as_map(self, groups: Groups | None) -> Groups | None:
        """Give groups the names that the map has for them; others keep theirs."""
        if groups is None or self._map is None:
            return groups
        names = tuple(self._spelling.get(group_text(name), name) for name in groups.names)
        self._seen |= dict.fromkeys(names)
        return Groups(groups.codes, names)

    def warn_of_others(self) -> None:
        """Say once which of all these groups have no temperature of their own."""
        if self._map is not None and self._seen:
            self._map.warn_of_others(Groups(np.arange(len(self._seen)), tuple(self._seen)))
