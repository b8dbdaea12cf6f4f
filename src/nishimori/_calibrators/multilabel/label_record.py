"""A multilabel calibration on disk: one JSON object with a map of two classes for each label."""

import json
import os
from collections.abc import Callable
from math import isnan, nan
from pathlib import Path
from typing import Any, get_args

import numpy as np

import nishimori
from nishimori._calibrators.fixed import FIXED
from nishimori._calibrators.methods import calibrator, new_calibrator
from nishimori._calibrators.multilabel.label_maps import LabelFit, Sharing
from nishimori._calibrators.multilabel.targets import check_missing, checked_names
from nishimori._methods import table
from nishimori._methods.record import (
    MULTILABEL_FORMAT,
    are_distinct,
    are_numbers,
    as_text,
    check_version,
    damage_error,
    input_and_floor,
    is_count,
    map_in,
    part_of,
    present_name,
    refuse_missing,
)
from nishimori._support.disk import new_file
from nishimori._support.json import as_python
from nishimori.errors import FormatError, InputError
from nishimori.maps.kinds import described
from nishimori.maps.map import Map

VERSION = 1

Names = tuple[Any, ...]

_FIELDS = ("labels", "maps", "input", "floor", "missing", "provenance")

# What a file keeps of a fit besides its maps, by the names of the fields of `LabelFit`.
_OF_FIT = ("temperatures_se", "temperature", "temperature_se", "spread", "used_spread", "open_labels")


def write_labels(calibrator: Any, path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Store a fitted `MultilabelCalibrator` as JSON; never a partial file."""
    method, missing = new_calibrator(calibrator.calibrator, "calibrator"), check_missing(calibrator.missing)
    names = getattr(calibrator, "feature_names_in_", None)
    content = {
        "format": MULTILABEL_FORMAT,
        "format_version": VERSION,
        "labels": calibrator.classes_.tolist(),
        "maps": [described(map_, 2) for map_ in calibrator.maps_],
        "input": calibrator.input_,
        "floor": calibrator.floor_,
        "missing": "nan" if missing is not None and isnan(missing) else missing,
        "provenance": {
            "method": method.method_name,
            "params": method.method_params(),
            "parameters": calibrator.parameters,
            "columns": None if names is None else names.tolist(),
            "n_samples": calibrator.n_samples_,
            **{name: as_python(getattr(calibrator, f"{name}_")) for name in _OF_FIT},
            "library_version": nishimori.__version__,
        },
    }
    try:
        text = as_text(content)
        text.encode()
    except (TypeError, UnicodeEncodeError):
        raise InputError(
            "The names of the labels and the parameters of the method",
            "be text and numbers to be saved as JSON",
            remedy="Rename them, or pickle the calibrator.",
        ) from None
    with new_file(path, overwrite=overwrite) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read_labels(content: dict[str, Any], path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters of the calibrator that the content of a file describes, and what it has learned."""
    check_version(content, path, VERSION)
    refuse_missing(_FIELDS, content, path)
    provenance = part_of(content, "provenance", _PROVENANCE, path)
    names = _names(content, path)
    for name, is_right in _PROVENANCE.items():
        if not is_right(provenance[name], names):
            raise damage_error(path, name, provenance[name])
    input_, floor = input_and_floor(content, path)
    try:
        missing = check_missing(nan if content["missing"] == "nan" else content["missing"])
    except InputError:
        raise damage_error(path, "missing", content["missing"]) from None
    errors = provenance["temperatures_se"]
    fit = LabelFit(
        maps=_maps(content["maps"], len(names), path),
        **{name: provenance[name] for name in _OF_FIT}
        | {"temperatures_se": None if errors is None else np.array(errors, dtype=float)}
        | {"open_labels": tuple(provenance["open_labels"])},
    )
    parameters = {
        "calibrator": _calibrator(present_name(provenance["method"]), provenance["params"], path),
        "parameters": provenance["parameters"],
        "labels": list(names),
        "missing": missing,
        "input": None if input_ == "logits" else input_,
        "floor": floor,
    }
    learned = {"names": names, "input": input_, "floor": floor}
    return parameters, {"fit": fit, **learned, "columns": provenance["columns"], "n_samples": provenance["n_samples"]}


def _calibrator(name: str, params: dict[str, Any], path: Path) -> Any:
    """The method of a file, for fits in future; one that is not known here cannot be fitted again."""
    if table.unfinished(name) not in table.names():
        return FIXED
    try:
        method = calibrator(name, **params)
        method._check_n_classes(2)
    except (InputError, TypeError, ValueError):
        raise FormatError(f"{path} is damaged: params is {params!r:.60}. Fit and save again.") from None
    return name if method.get_params() == calibrator(name).get_params() else method


def _names(content: dict[str, Any], path: Path) -> tuple[Any, ...]:
    try:
        names = checked_names(content["labels"])
    except (InputError, TypeError):  # a list is neither text nor a number, and has no hash
        names = None
    if not names:
        raise damage_error(path, "labels", content["labels"])
    return names


def _maps(described: Any, number: int, path: Path) -> tuple[Map, ...]:
    """One map of two classes per label; equal descriptions are one map."""
    if not isinstance(described, list) or len(described) != number:
        raise damage_error(path, "maps", described)
    by_text: dict[str, Map] = {}
    maps = []
    for description in described:
        if not isinstance(description, dict) or set(description) - {"class"} != {"kind", "parameters"}:
            raise damage_error(path, "maps", description)
        text = json.dumps(description, sort_keys=True)
        if text not in by_text:
            by_text[text] = map_in(description, path, "maps")
            if by_text[text].needs_groups or by_text[text].n_classes not in (None, 2):
                raise damage_error(path, "maps", description)
        maps.append(by_text[text])
    return tuple(maps)


def _is_size(value: Any, _: Names = ()) -> bool:
    """Whether it is nothing, or a finite number that is not negative."""
    return value is None or (are_numbers([value]) and value >= 0)


# The fields of the provenance, and whether a value of one can be right where labels have these names.
_PROVENANCE: dict[str, Callable[[Any, Names], bool]] = {
    "method": lambda value, _: isinstance(value, str) and bool(value),
    "params": lambda value, _: isinstance(value, dict),
    "parameters": lambda value, _: isinstance(value, str) and value in get_args(Sharing),
    "columns": lambda value, names: are_distinct(value, (str,), len(names)),
    "n_samples": lambda value, _: is_count(value, 1),
    "temperatures_se": lambda value, names: (
        value is None or (isinstance(value, list) and len(value) == len(names) and are_numbers(value) and min(value) >= 0)
    ),
    "temperature": lambda value, _: _is_size(value) and value != 0,
    "temperature_se": _is_size,
    "spread": _is_size,
    "used_spread": _is_size,
    "open_labels": lambda value, names: isinstance(value, list) and all(label in names for label in value),
    "library_version": lambda value, _: isinstance(value, str),
}
