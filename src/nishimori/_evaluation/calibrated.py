"""Apply calibrators to data to measure: their maps, and the options that they imply for the scores."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from nishimori._methods.fitted_method import check_members
from nishimori._rows.array_rows import Guard
from nishimori._rows.entry import kind_of, open_rows
from nishimori._rows.labels import class_labels
from nishimori._rows.options import RowOptions
from nishimori._rows.rows import Rows, is_rows
from nishimori._rows.scores import FIT_AGAIN, FITTED_TO_PROBABILITIES, refuse_auto
from nishimori._support.numbers import temperature as checked_temperature
from nishimori._support.warnings import notice
from nishimori.errors import InputError, SameRowsWarning, setting
from nishimori.maps.map import Map
from nishimori.maps.temperature import Temperature, checked_groups, temperature_of

CALIBRATORS_WORD = {
    "input": "What ``logits`` holds: by default what the calibrator was fitted to, else logits.",
    "classes": "The label of each column in order: by default the calibrator's, else 0, 1, ...",
    "floor": "Smaller probabilities are raised to this: by default to the calibrator's, else only exact zeros are raised.",
}
"""What the row options mean if a calibrator can supply them."""


def open_calibrated(logits: Any, labels: Any, options: RowOptions, *, temperature: Any, calibrator: Any) -> tuple[Rows, Map]:
    """The user's data as rows, and the map of a temperature or of a fitted calibrator.

    T = 1 if neither is given. What the options leave open about the scores, the calibrator says.
    """
    refuse_auto(options.get("floor"))
    if calibrator is None:
        calibrator = Temperature(1.0 if temperature is None else checked_temperature(temperature))
    elif temperature is not None:
        raise InputError("temperature", f"be left out: {setting('calibrator')} already determines it")
    is_map = isinstance(calibrator, Map)
    map_ = calibrator if is_map else _map_of(calibrator)
    data = open_rows(logits, labels, **options) if is_map else _open_for(calibrator, logits, labels, options)
    refuse_scores(data, [map_])
    check_groups(data, [map_])
    return data, map_


def _open_for(used: Any, logits: Any, labels: Any, options: RowOptions) -> Rows:
    """The user's data as rows, with scores of the kind that a calibrator was fitted to."""
    is_array = kind_of(logits, labels) == "array" and options.get("member_axis") is None
    _refuse_contradictions(used, options)
    if is_array:  # whose columns can be looked at before it is opened
        used._check_columns(logits, "logits")
    guard: Guard = "refuse"
    if not is_rows(logits):  # which bring their own: the calibrator's are those of the scores to predict from
        kind = used.input_
        if options.get("input") is None and kind == "logits":
            kind, guard = None, "warn"
        options = options | {"input": kind, "classes": used.classes, "floor": used.floor_}
    remedy = FIT_AGAIN if guard == "warn" else FITTED_TO_PROBABILITIES
    data = open_rows(logits, labels, guard=guard, probability_remedy=remedy, **options)
    if is_rows(logits) and data.input == "probabilities" and data.floor is None and used.floor_ is not None:
        data = data.with_floor(used.floor_) or data  # as `predict_proba` does
    check_members(used, data.members, "logits")
    warn_of_same_rows(data, {"`calibrator`": used})
    if not is_array:
        used._check_columns(data, "logits")
    return data


def warn_of_same_rows(data: Any, fitted: Mapping[str, Any]) -> list[str]:
    """Warn, as soon as it is known, if a calibrator was fitted to ``data``, which flatters it.

    ``fitted`` holds calibrators by their names, perhaps some without a digest. What was said is in the list that is returned.
    """
    digests = {name: getattr(calibrator, "data_digest_", None) for name, calibrator in fitted.items()}
    warned: list[str] = []

    def compare_digest(digest: str) -> None:
        if same := [name for name, own in digests.items() if own == digest]:
            verb = "was" if len(same) == 1 else "were"
            _warn_first(warned, f"{' and '.join(same)} {verb} fitted to the rows that are measured here")

    if any(own is not None for own in digests.values()):
        data.on_digest(compare_digest)
    return warned


def warn_of_equal_data(fitted: Any, measured: Any) -> list[str]:
    """Warn, as soon as it is known, if validation and test data are the same rows; returns the warning."""
    warned: list[str] = []
    digests: list[str] = []

    def compare_digest(digest: str) -> None:
        if digest in digests:
            _warn_first(warned, "The test data are the same rows as the validation data")
        digests.append(digest)

    for data in (fitted, measured):
        data.on_digest(compare_digest)
    return warned


def _warn_first(warned: list[str], what: str) -> None:
    """Warn, and keep the warning."""
    warned.append(f"{what}, which flatters every metric. Measure on rows that were not used in a fit.")
    notice(warned[-1], SameRowsWarning)


def check_groups(data: Rows, maps: Sequence[Map], argument: str = "groups") -> None:
    """Refuse data without the groups that a map needs (passed as ``argument``); report groups that it does not know."""
    for map_ in [map_ for map_ in maps if map_.needs_groups]:
        if data.groups is None:
            raise InputError(argument, "name the group of each sample: the calibrator has a temperature for each group")
        checked_groups(map_, data.groups, len(data.groups.codes))


def refuse_scores(data: Rows, maps: Sequence[Map]) -> None:
    """Refuse claims that are scores, unless a calibrator turns them into probabilities."""
    if data.are_scores and any(temperature_of(map_) is not None for map_ in maps):
        remedy = "Fit 'platt', 'isotonic' or 'best' to other rows, and pass it as `calibrator`."
        raise InputError("Claims", "be probabilities to be measured as they are", got="scores", remedy=remedy)


def _map_of(calibrator: Any) -> Map:
    """The map of a fitted calibrator."""
    fitted = getattr(calibrator, "map_", None)
    if not isinstance(fitted, Map):
        remedy = "Call its `fit` first."
        if hasattr(calibrator, "maps_"):
            remedy = "For a MultilabelCalibrator use `nishimori.multilabel.evaluate_multilabel`."
        elif isinstance(calibrator, int | float):
            remedy = f"Pass `temperature={calibrator!r}`."
        elif isinstance(calibrator, str | os.PathLike):
            remedy = "Pass `nishimori.load(path)` of a file, or `nishimori.calibrator(name)` after its `fit`."
        raise InputError("calibrator", "be a fitted calibrator", got=repr(calibrator), remedy=remedy)
    return fitted


def _refuse_contradictions(calibrator: Any, options: RowOptions) -> None:
    """Refuse arguments that differ from what the calibrator was fitted with."""
    classes, fitted = options.get("classes"), getattr(calibrator, "classes_", None)
    passed = {"input": options.get("input"), "floor": options.get("floor")}
    passed |= {"classes": None if classes is None else class_labels(classes).tolist()}
    own = {"input": calibrator.input_, "floor": calibrator.floor_, "classes": None if fitted is None else fitted.tolist()}
    for name, value in passed.items():
        if value is not None and value != own[name]:
            raise InputError(name, f"be that of the calibrator, {own[name]!r}", got=repr(value))
