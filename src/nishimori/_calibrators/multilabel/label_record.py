"""A multilabel calibration on disk: one JSON object with a map of two classes for each label."""

import json
import os
from math import isnan, nan
from pathlib import Path
from typing import Any, get_args

import numpy as np

import nishimori
import nishimori._support.json as shapes
from nishimori._calibrators.fixed import FIXED
from nishimori._calibrators.methods import calibrator, new_calibrator
from nishimori._calibrators.multilabel.label_maps import LabelFit, Sharing
from nishimori._calibrators.multilabel.targets import check_missing, checked_names
from nishimori._methods import table
from nishimori._methods.record import (
    DESCRIBED_MAP,
    METHOD,
    MULTILABEL_FORMAT,
    as_text,
    check_version,
    checked_floor,
    different,
    map_in,
    present_name,
    report_damage,
)
from nishimori._rows.scores import Input
from nishimori._support.disk import new_file
from nishimori._support.json import as_python, check_shape, shape_error
from nishimori.errors import InputError
from nishimori.maps.kinds import described
from nishimori.maps.map import Map

VERSION = 1

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
    with report_damage(path):
        check_version(content, path, VERSION)
        names = _names(content.get("labels"))
        checked = check_shape(content, _fields(names))
        origin, floor = checked["provenance"], checked_floor(checked)
        maps = _maps(checked["maps"], path)
        try:
            missing = check_missing(nan if checked["missing"] == "nan" else checked["missing"])
        except InputError:
            raise shape_error("missing", "a mark of unknown labels", checked["missing"]) from None
        method = _calibrator(present_name(origin["method"]), origin["params"])
    errors = origin["temperatures_se"]
    fit = LabelFit(
        maps=maps,
        **{name: origin[name] for name in _OF_FIT}
        | {"temperatures_se": None if errors is None else np.array(errors, dtype=float)}
        | {"open_labels": tuple(origin["open_labels"])},
    )
    parameters = {
        "calibrator": method,
        "parameters": origin["parameters"],
        "labels": list(names),
        "missing": missing,
        "input": None if checked["input"] == "logits" else checked["input"],
        "floor": floor,
    }
    learned = {"names": names, "input": checked["input"], "floor": floor}
    return parameters, {"fit": fit, **learned, "columns": origin["columns"], "n_samples": origin["n_samples"]}


def _calibrator(name: str, params: dict[str, Any]) -> Any:
    """The method of a file, for fits in future; one that is not known here cannot be fitted again."""
    if table.unfinished(name) not in table.names():
        return FIXED
    try:
        method = calibrator(name, **params)
        method._check_n_classes(2)
    except (InputError, TypeError, ValueError):
        raise shape_error("provenance.params", f"parameters of {name!r}", params) from None
    return name if method.get_params() == calibrator(name).get_params() else method


def _names(labels: Any) -> tuple[Any, ...]:
    try:
        names = checked_names(labels)
    except (InputError, TypeError):  # a list is neither text nor a number, and has no hash
        names = None
    if not names:
        raise shape_error("labels", "a list of different texts or numbers", labels)
    return names


def _maps(described: list[dict[str, Any]], path: Path) -> tuple[Map, ...]:
    """One map of two classes per label; equal descriptions are one map."""
    by_text: dict[str, Map] = {}
    maps = []
    for description in described:
        text = json.dumps(description, sort_keys=True)
        if text not in by_text:
            by_text[text] = map_in(description, path, "maps")
            if by_text[text].needs_groups or by_text[text].n_classes not in (None, 2):
                raise shape_error("maps", "maps of two classes", description)
        maps.append(by_text[text])
    return tuple(maps)


_SIZE = shapes.Kind("a finite number of at least 0", lambda value: shapes.is_number(value) and value >= 0)


def _fields(names: tuple[Any, ...]) -> shapes.Shape:
    """What a file holds about labels of these names."""
    number = len(names)
    provenance = {
        "method": METHOD,
        "params": {},
        "parameters": shapes.one_of(*get_args(Sharing)),
        "columns": (different("texts", str, number=number), None),
        "n_samples": shapes.whole(1),
        "temperatures_se": (shapes.list_of(_SIZE, number, number), None),
        "temperature": (shapes.POSITIVE, None),
        **shapes.same("temperature_se spread used_spread", (_SIZE, None)),
        "open_labels": shapes.list_of(shapes.Kind("a label", lambda value: value in names)),
        "library_version": shapes.TEXT,
    }
    return {
        "maps": shapes.list_of(DESCRIBED_MAP, number, number),
        "input": shapes.one_of(*get_args(Input)),
        **shapes.same("floor missing", shapes.ANYTHING),  # which have checks of their own
        "provenance": provenance,
    }
