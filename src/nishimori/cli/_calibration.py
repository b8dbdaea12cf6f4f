"""The calibration that rows are measured with: whether the options agree with it, and how it spells groups."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nishimori._evaluation.calibrated import warn_of_same_rows
from nishimori._files.file_rows import SUFFIXES
from nishimori._methods import table
from nishimori._methods.fitted_method import BareCalibrator, FittedMethod, check_n_classes
from nishimori._methods.record import Record, content_of
from nishimori._rows.column_names import join_names
from nishimori._rows.scores import check_input, is_auto
from nishimori._sketch.sketch import Sketch
from nishimori.cli._file_kinds import CALIBRATION, MULTILABEL, SCORES, UNKNOWN, UNREADABLE, kind_of, refuse_other
from nishimori.cli._files import DataOptions
from nishimori.errors import InputError


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
