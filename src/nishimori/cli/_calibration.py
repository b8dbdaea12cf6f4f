"""Open a calibration for a command, check options against it, and describe it in words."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nishimori._evaluation.calibrated import warn_of_same_rows
from nishimori._methods import table
from nishimori._methods.fitted_method import BareCalibrator, FittedMethod, check_n_classes, refuse_members
from nishimori._methods.record import Record, content_of
from nishimori._rows.scores import check_input, is_auto
from nishimori._sketch.sketch import Sketch
from nishimori._support.formatting import join_names, number_text, value_with_error
from nishimori._support.json import brief
from nishimori.cli._files import CALIBRATION, MULTILABEL, UNKNOWN, UNREADABLE, refuse_other
from nishimori.cli._options import DataOptions
from nishimori.errors import InputError
from nishimori.maps.class_curves import ClassCurves

# So many numbers of one name are shown one by one, and of more the range.
_LISTED = 12


def calibrator_to_measure(path: Path | None, prevalence: Any) -> FittedMethod | None:
    """The calibrator in the file of --calibration, if there is one; --prevalence needs it."""
    if path is not None:
        return calibrator_in(path, prevalence)
    if prevalence is not None:
        must = "be passed together with --calibration: only a calibration knows the class shares in its own data"
        raise InputError("prevalence", must)
    return None


def calibrator_in(path: Path, prevalence: Any = None) -> FittedMethod:
    """The calibrator in a file, adjusted to these class frequencies if any are passed.

    That of a multilabel model is refused, because files of scores have one label per row.
    """
    refuse_other(path, CALIBRATION, CALIBRATION, MULTILABEL, UNREADABLE, UNKNOWN)
    record = Record.from_content(content_of(path), path)
    method = table.find_bare(record.provenance.method)
    if method is not None and prevalence is None:
        return BareCalibrator.from_record(method, record, path)
    from nishimori._calibrators.methods import restore_calibrator  # noqa: PLC0415 - scikit-learn

    calibrator = restore_calibrator(record, path)
    if prevalence is None:
        return calibrator
    try:
        return calibrator.with_prevalence(prevalence)
    except InputError as error:
        raise error.changed(argument="prevalence") if error.argument == "new" else error from None


def agree_with(calibrator: FittedMethod | None, data: DataOptions) -> DataOptions:
    """The input, floor and classes of scores, from options and calibration, which must agree."""
    floor = None if data.floor == "none" else data.floor
    if is_auto(floor):
        raise InputError(
            "floor",
            "be a number where nothing is fitted",
            got="auto: it would be tuned on the labels that it scores",
            remedy="Pass auto to nishimori fit, and the file that it writes with --calibration, or pass a number.",
        )
    if calibrator is None:
        check_input(data.meaning, floor)
        return replace(data, floor=floor)
    refuse_members(calibrator, "files")
    classes = data.classes if calibrator.classes is None else [str(label) for label in calibrator.classes_.tolist()]
    fitted = {"input": calibrator.input_, "floor": calibrator.floor_, "classes": classes}
    for name, typed in (("input", None if data.input is None else data.meaning), ("floor", floor), ("classes", data.classes)):
        if typed is not None and typed != fitted[name]:
            own, other = (join_names(value) if isinstance(value, list) else value for value in (fitted[name], typed))
            raise InputError(name, f"be {own or 'none'}, as in the calibration", got=other, remedy="Leave it out.")
    kind = calibrator.input_ if data.input is not None or calibrator.input_ == "probabilities" else None
    holds = data.input if data.input == "scores" else kind
    return replace(data, input=holds, floor=calibrator.floor_, classes=None if data.confidence else classes)


def agree_with_sketch(calibrator: FittedMethod | None, sums: Sketch) -> None:
    """Refuse a calibration whose scores, classes or columns differ from the sketch's; warn if it was fitted to them."""
    classes = None if sums.classes is None else [str(label) for label in sums.classes]
    agree_with(calibrator, DataOptions(input=sums.input, floor=sums.floor, classes=classes))
    if calibrator is not None:
        check_n_classes(calibrator, sums, "sketch")
        warn_of_same_rows(sums, {"The calibration": calibrator})


# What it does, in a few lines for people


def description(calibrator: FittedMethod, *, tables: bool = True) -> list[str]:
    """Sentences about what was fitted, the first with its most important numbers; ``tables`` adds the losses of a choice."""
    lines = _of_map(calibrator, tables=tables)
    if (selection := getattr(calibrator, "selection_", None)) is not None:
        lines += [f"Chosen: {selection.chosen}", *(["", *selection.to_text().splitlines()] if tables else [])]
    return lines


def _of_map(calibrator: FittedMethod, *, tables: bool) -> list[str]:
    """Sentences about the map of a calibrator."""
    if (finished := getattr(calibrator, "ec_temperature_", None)) is not None:
        T = value_with_error(finished, getattr(calibrator, "ec_temperature_se_", None))
        last = f"Then T = {T}, at which mean confidence equals accuracy on held-out samples  ({calibrator.method_name})"
        first: FittedMethod = getattr(calibrator, "calibrator_")  # noqa: B009 - methods of all kinds
        return [*description(first, tables=tables), last]
    members = "" if calibrator.members_ is None else f" of {calibrator.members_.size} members"
    about = f"{calibrator.method_name}, {calibrator.n_samples_} samples{members}"
    if calibrator.temperature_ is not None:
        T = value_with_error(calibrator.temperature_, getattr(calibrator, "temperature_se_", None))
        judgement = verdict(calibrator)
        says = "nothing was fitted" if judgement is None else f"the model is {judgement}"
        return [f"T = {T}  ({about}: {says})"]
    if isinstance(calibrator.map_, ClassCurves):
        return [f"{_of_curves(calibrator.map_)}  ({about})"]
    errors = getattr(calibrator, "parameters_se_", None) or {}
    parameters = getattr(calibrator, "parameters_", None) or calibrator.map_.parameters
    shown = (f"{name} {_value_text(value, errors.get(name))}" for name, value in parameters.items() if value is not None)
    return [f"{', '.join(shown)}  ({about})", *filter(None, [getattr(calibrator, "about_floor_", "")])]


def verdict(calibrator: FittedMethod) -> str | None:
    """Whether the model is overconfident or underconfident; None if no single temperature shows it."""
    temperature = calibrator.temperature_
    if temperature is None or calibrator.method_name == "none":
        return None
    return "overconfident" if temperature > 1 else "underconfident"


def _of_curves(map_: ClassCurves) -> str:
    """The number of curves, the number of their pieces, and their values."""
    values, sizes = np.concatenate(map_.values), sorted({len(curve) for curve in map_.values})
    curves = "one curve" if len(map_.values) == 1 else f"{len(map_.values)} curves"
    number = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    pieces = "knots" if map_.interpolation == "linear" else "bins"
    return f"{curves} of {number} {pieces}, with values from {values.min():.3g} to {values.max():.3g}"


def _value_text(value: Any, error: Any) -> str:
    """A parameter with its standard error; for several numbers, all of them or their range."""
    if isinstance(value, int | float):
        return value_with_error(value, error)
    if isinstance(value, str | Mapping):
        return brief(value)
    entries = np.concatenate([np.ravel(entry) for entry in value])  # lists inside may have several lengths
    if entries.dtype.kind not in "fiu":
        return f"({join_names(entries.tolist())})"
    if len(entries) == len(value) <= _LISTED:
        return f"({', '.join(number_text(entry, 3) for entry in entries)})"
    return f"from {number_text(entries.min(), 3)} to {number_text(entries.max(), 3)}"
