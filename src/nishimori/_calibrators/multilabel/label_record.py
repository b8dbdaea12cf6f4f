"""A multilabel calibration on disk: one JSON object with a map of two classes for each label."""

import json
import os
import reprlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, isnan, nan
from pathlib import Path
from typing import Any, get_args

import numpy as np

import nishimori
from nishimori._calibrators.fixed import FIXED
from nishimori._calibrators.methods import calibrator
from nishimori._calibrators.multilabel.label_maps import LabelFit, Sharing, binary_method
from nishimori._calibrators.multilabel.targets import check_missing, checked_names
from nishimori._methods import table
from nishimori._methods.record import MULTILABEL_FORMAT, as_text, damage_error, map_in, present_name, refuse_missing
from nishimori._rows.scores import Input, check_input
from nishimori._support.disk import new_file
from nishimori.errors import FormatError, InputError
from nishimori.maps.kinds import described
from nishimori.maps.map import Map

VERSION = 1

Names = tuple[Any, ...]

_FIELDS = ("labels", "maps", "input", "floor", "missing", "provenance")


@dataclass(frozen=True)
class LabelRecord:
    """What a multilabel calibrator needs to be itself again; ``calibrator`` is the method that is fitted, or its name."""

    fit: LabelFit
    names: tuple[Any, ...]
    input: Input
    floor: float | None
    missing: float | None
    calibrator: Any
    parameters: Sharing
    columns: Sequence[str] | None
    n_samples: int

    def write(self, path: str | os.PathLike[str], *, overwrite: bool) -> None:
        """Store as JSON; never a partial file."""
        content = self._content()
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

    def _content(self) -> dict[str, Any]:
        method = binary_method(self.calibrator)
        return {
            "format": MULTILABEL_FORMAT,
            "format_version": VERSION,
            "labels": list(self.names),
            "maps": [described(map_, 2) for map_ in self.fit.maps],
            "input": self.input,
            "floor": self.floor,
            "missing": "nan" if self.missing is not None and isnan(self.missing) else self.missing,
            "provenance": {
                "method": method.method_name,
                "params": method.method_params(),
                "parameters": self.parameters,
                "columns": None if self.columns is None else list(self.columns),
                "n_samples": self.n_samples,
                "temperatures_se": None if self.fit.errors is None else self.fit.errors.tolist(),
                "temperature": self.fit.common,
                "temperature_se": self.fit.common_se,
                "spread": self.fit.spread,
                "used_spread": self.fit.used_spread,
                "open_labels": list(self.fit.open_labels),
                "library_version": nishimori.__version__,
            },
        }

    @classmethod
    def from_content(cls, content: Any, path: Path) -> "LabelRecord | None":
        """What the content of a file describes; None if it is not of this format."""
        if not isinstance(content, dict) or content.get("format") != MULTILABEL_FORMAT:
            return None
        version = content.get("format_version")
        if type(version) is not int or version < 1:
            raise damage_error(path, "format_version", version)
        if version > VERSION:
            raise FormatError(
                f"{path} has multilabel format version {reprlib.repr(version)}; this nishimori reads up to {VERSION}. "
                "Run `pip install --upgrade nishimori`."
            )
        refuse_missing(_FIELDS, content, path)
        provenance = content["provenance"]
        if not isinstance(provenance, dict):
            raise damage_error(path, "provenance", provenance)
        refuse_missing(tuple(_PROVENANCE), provenance, path)
        return cls._from_fields(content, provenance, path)

    @classmethod
    def _from_fields(cls, content: dict[str, Any], provenance: dict[str, Any], path: Path) -> "LabelRecord":
        names = _names(content, path)
        for name, is_right in _PROVENANCE.items():
            if not is_right(provenance[name], names):
                raise damage_error(path, name, provenance[name])
        if content["input"] not in get_args(Input):
            raise damage_error(path, "input", content["input"])
        for name, check in (("floor", lambda value: check_input(content["input"], value)), ("missing", _as_missing)):
            try:
                check(content[name])
            except InputError:
                raise damage_error(path, name, content[name]) from None
        floor, errors = content["floor"], provenance["temperatures_se"]
        fit = LabelFit(
            maps=_maps(content["maps"], len(names), path),
            errors=None if errors is None else np.array(errors, dtype=float),
            common=provenance["temperature"],
            common_se=provenance["temperature_se"],
            spread=provenance["spread"],
            used_spread=provenance["used_spread"],
            open_labels=tuple(provenance["open_labels"]),
        )
        return cls(
            fit=fit,
            names=names,
            input=content["input"],
            floor=None if floor is None else float(floor),
            missing=_as_missing(content["missing"]),
            calibrator=_calibrator(present_name(provenance["method"]), provenance["params"], path),
            parameters=provenance["parameters"],
            columns=provenance["columns"],
            n_samples=provenance["n_samples"],
        )


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


def _as_missing(value: Any) -> float | None:
    return check_missing(nan if value == "nan" else value)


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


def _is_list_of(values: Any, kinds: Any, number: int | None = None) -> bool:
    """Whether this is a list of such values, and of this many."""
    return isinstance(values, list) and all(isinstance(value, kinds) for value in values) and number in (None, len(values))


def _is_number(value: Any) -> bool:
    """Whether it is a finite number that is not negative."""
    return type(value) in (int, float) and 0 <= value < inf


def _is_number_or_none(value: Any, _: Names = ()) -> bool:
    return value is None or _is_number(value)


# The fields of the provenance, and whether a value of one can be right where labels have these names.
_PROVENANCE: dict[str, Callable[[Any, Names], bool]] = {
    "method": lambda value, _: isinstance(value, str) and bool(value),
    "params": lambda value, _: isinstance(value, dict),
    "parameters": lambda value, _: isinstance(value, str) and value in get_args(Sharing),
    "columns": lambda value, names: value is None or (_is_list_of(value, str, len(names)) and len(set(value)) == len(names)),
    "n_samples": lambda value, _: type(value) is int and value >= 1,
    "temperatures_se": lambda value, names: (
        value is None or (_is_list_of(value, int | float, len(names)) and all(map(_is_number, value)))
    ),
    "temperature": lambda value, _: value is None or (_is_number(value) and value > 0),
    "temperature_se": _is_number_or_none,
    "spread": _is_number_or_none,
    "used_spread": _is_number_or_none,
    "open_labels": lambda value, names: _is_list_of(value, str | int | float) and all(label in names for label in value),
    "library_version": lambda value, _: isinstance(value, str),
}
