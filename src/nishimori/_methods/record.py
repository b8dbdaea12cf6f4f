"""A calibration on disk: one small JSON object that any language can read.

Version 2 holds what is done to logits (``map``: its kind and parameters), what the input must be, and where the map comes from
(``provenance``). Using the map needs nothing else, so a file of a method that this installation does not have still works.
Versions 3 to 6 are the same with further kinds of maps. A file is written in the first version that has its map, so that
earlier releases read it if they can. Version 1 had one temperature at the top level; it is still read.
"""

import json
import os
import re
import reprlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, get_args

import nishimori._support.json as shapes
from nishimori._rows.column_names import refuse_permuted
from nishimori._rows.scores import Input, check_input
from nishimori._support.disk import new_file
from nishimori._support.escape import printable
from nishimori._support.json import JsonError, Maybe, check_shape, read_json, shape_error
from nishimori.errors import FormatError, InputError
from nishimori.maps.around import Shifted, Tempered, layers
from nishimori.maps.kinds import described, find_kind, from_parameters
from nishimori.maps.map import Map

FORMAT = "nishimori-calibration"
VERSION = 6

MULTILABEL_FORMAT = "nishimori-multilabel"
"""The format name in files of `MultilabelCalibrator`."""

_REMEDY = "Fit and save again."


def is_multilabel(content: Any) -> bool:
    """Whether the content of a file describes a `MultilabelCalibrator`."""
    return isinstance(content, dict) and content.get("format") == MULTILABEL_FORMAT


# A hundred times the largest vocabulary; a calibrator lists its classes, so this bounds what a small file can ask for.
_MOST_CLASSES = 2**24


@dataclass(frozen=True)
class Provenance:
    """The origin of a map."""

    method: str
    params: dict[str, Any] = field(default_factory=dict)
    classes: list[Any] | None = None
    columns: list[str] | None = None
    label_column: str | None = None
    score_column: str | None = None
    group_column: str | None = None
    n_classes: int | None = None
    n_samples: int | None = None
    residual: float | None = None
    temperature_se: float | None = None
    estimates: dict[str, float] | None = None  # further numbers of the fit, which the method itself understands
    is_flat: bool | None = None  # whether the scores were one number per sample; None in files that do not say
    data_digest: str | None = None  # which rows it was fitted to, see `_rows.fingerprint`; None in files that do not say
    class_prior: list[float] | None = None  # the share of each class among these rows; None in files that do not say
    class_off: dict[str, float] | None = None  # a class whose mean probability is off its share: place, mean and share
    of_claims: bool | None = None  # whether it was fitted to claims; None in files that do not say
    members: dict[str, int] | None = None  # how many members were averaged, in which dimension; None in files that do not say
    library_version: str = ""


def _is_plain(value: object) -> bool:
    """Whether JSON preserves the value: a number, text, None, or a list of these."""
    return (
        value is None or isinstance(value, str | int | float | bool) or (isinstance(value, list) and all(map(_is_plain, value)))
    )


def different(what: str, *kinds: type, number: int | None) -> shapes.Kind:
    """The shape of a list of distinct values of some types, which may have a million entries."""

    def is_right(value: Any) -> bool:
        is_list = isinstance(value, list) and len(value) == number and all(isinstance(entry, kinds) for entry in value)
        return is_list and len(set(value)) == len(value)

    return shapes.Kind(f"a list of {number} different {what}", is_right)


def _is_one(shares: list[float]) -> bool:
    return abs(sum(shares) - 1) < 1e-6


def _dictionary(what: str, is_right: Any) -> shapes.Kind:
    return shapes.Kind(f"a dictionary of {what}", lambda value: isinstance(value, dict) and all(map(is_right, value.values())))


METHOD = shapes.Kind("the name of a method", lambda value: isinstance(value, str) and value != "")

DESCRIBED_MAP = shapes.same("kind parameters", shapes.ANYTHING)
"""The shape of a map as a file describes it, which `map_in` checks."""

_SHARES = shapes.Kind(
    "a list of numbers from 0 to 1 whose sum is 1",
    lambda value: (
        isinstance(value, list) and all(map(shapes.is_number, value)) and min(value, default=-1) >= 0 and _is_one(value)
    ),
)

_AXIS = shapes.Kind("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool))

# What may be missing is not in the first files of version 2.
_PROVENANCE: shapes.Shape = {
    "method": METHOD,
    "params": _dictionary("numbers, text and lists of them", _is_plain),
    **shapes.same("classes columns", shapes.ANYTHING),  # which `_check_names` checks
    **shapes.same("label_column score_column group_column data_digest", Maybe((shapes.TEXT, None), None)),
    "n_classes": (shapes.whole(2, _MOST_CLASSES), None),
    "n_samples": (shapes.whole(1), None),
    "residual": (shapes.NUMBER, None),
    "temperature_se": Maybe((shapes.POSITIVE, None), None),
    "estimates": Maybe((_dictionary("finite numbers", shapes.is_number), None), None),
    "is_flat": Maybe((shapes.FLAG, None), None),
    "of_claims": Maybe((shapes.FLAG, None), None),
    "class_prior": Maybe((_SHARES, None), None),
    "class_off": Maybe(({"place": shapes.whole(0), "mean": shapes.NUMBER, "share": shapes.NUMBER}, None), None),
    "members": Maybe(({"size": shapes.whole(1), "axis": _AXIS}, None), None),
    "library_version": shapes.TEXT,
}
_FIELDS: shapes.Shape = {
    "map": DESCRIBED_MAP,
    "input": shapes.one_of(*get_args(Input)),
    "floor": Maybe(shapes.ANYTHING, None),  # which `checked_floor` checks
    "provenance": _PROVENANCE,
}


@dataclass(frozen=True)
class Record:
    """Everything that is needed to restore a calibrator."""

    map: Map
    input: Input
    provenance: Provenance
    floor: float | None = None

    def write(self, path: str | os.PathLike[str], *, overwrite: bool) -> None:
        """Store as JSON; never a partial file."""
        classes, params = self.provenance.classes, self.provenance.params
        if classes is not None and not all(isinstance(c, str | int | float | bool) and _is_text(str(c)) for c in classes):
            raise InputError(
                "classes", "be text or numbers to be saved as JSON", remedy="Rename them, or pickle the calibrator."
            )
        if not all(map(_is_plain, params.values())):
            raise InputError(
                f"The parameters of {self.provenance.method!r} must be numbers, text or lists of them to be saved as JSON, got "
                f"{params!r}. Register an observable that has its parameters already, or pickle the calibrator."
            )
        content = {
            "format": FORMAT,
            "format_version": max(map_.format_version for map_ in layers(self.map)),
            "map": described(self.map, self.provenance.n_classes),
            "input": self.input,
            "floor": self.floor,
            "provenance": asdict(self.provenance),
        }
        with new_file(path, overwrite=overwrite) as temporary:
            temporary.write_text(as_text(content), encoding="utf-8")

    @property
    def common_parameters(self) -> dict[str, Any]:
        """The parameters that all methods have; a user's own method need not have a floor."""
        input_ = None if self.input == "logits" else self.input  # which is also what a new fit takes scores for
        common: dict[str, Any] = {"input": input_, "classes": self.provenance.classes}
        return common if self.floor is None else common | {"floor": self.floor}

    @property
    def parameters(self) -> dict[str, Any]:
        """All parameters of the method."""
        return self.provenance.params | self.common_parameters

    def parameters_error(self, path: str | os.PathLike[str]) -> FormatError:
        """The error for parameters that the method cannot have been fitted with."""
        fault = shape_error("provenance.params", f"parameters of {self.provenance.method!r}", self.provenance.params)
        return FormatError(f"{os.fspath(path)} is damaged: {fault}. {_REMEDY}")

    @classmethod
    def from_content(cls, content: Any, path: Path) -> "Record":
        """The record that the content of a file describes; raises `FormatError` with a remedy."""
        if is_multilabel(content):
            raise FormatError(f"{path} is a multilabel calibration. Use it in Python: `nishimori.load({str(path)!r})`.")
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise FormatError(f'{path} is not a calibration file: it has no "format": "{FORMAT}". {_REMEDY}')
        with report_damage(path):
            version = check_version(content, path, VERSION)
            checked = check_shape(_from_version_1(content) if version == 1 else content, _FIELDS)
            origin = checked["provenance"]
            _check_names(origin)
            used = map_in(checked["map"], path, "map")
            if used.n_classes not in (None, origin["n_classes"]):
                raise shape_error("provenance.n_classes", f"{used.n_classes}, like the map", origin["n_classes"])
            _check_shares(origin)
            origin["method"] = present_name(origin["method"])
            provenance = Provenance(**{field_.name: origin[field_.name] for field_ in fields(Provenance)})
            return cls(used, checked["input"], provenance, checked_floor(checked))


def _check_shares(origin: dict[str, Any]) -> None:
    """Refuse frequencies for another number of classes, or for a missing class; drop them if there is no number of classes."""
    n_classes, prior, off = origin["n_classes"], origin["class_prior"], origin["class_off"]
    if n_classes is None:
        origin |= {"class_prior": None, "class_off": None}
        return
    if prior is not None and len(prior) != n_classes:
        raise shape_error("provenance.class_prior", f"a list of {n_classes} numbers", prior)
    if off is not None and off["place"] >= n_classes:
        raise shape_error("provenance.class_off.place", f"below the number of classes, {n_classes}", off["place"])


def _check_names(origin: dict[str, Any]) -> None:
    """Refuse classes or columns that do not match the number of classes, or that have different orders."""
    n_classes, classes, columns = origin["n_classes"], origin["classes"], origin["columns"]
    check_shape(classes, (different("texts or numbers", str, int, float, number=n_classes), None), "provenance.classes")
    check_shape(columns, (different("texts", str, number=n_classes), None), "provenance.columns")
    if origin["is_flat"] and n_classes != 2:
        raise shape_error("provenance.is_flat", "false where there are not two classes", value=True)
    try:
        refuse_permuted(columns, classes)
    except InputError:
        raise shape_error("provenance.columns", "in the order of the classes", columns) from None


_EARLIER_NAMES = {"auto": "adaptive", "ensemble": "mixture"}
"""The current names of methods, by their names in files of earlier versions."""


def present_name(method: Any) -> Any:
    """The current name of a method in a file, also inside NAME+ec."""
    if not isinstance(method, str):
        return method
    name, finished, rest = method.partition("+")
    return _EARLIER_NAMES.get(name, name) + finished + rest


def check_version(content: dict[str, Any], path: Path, latest: int) -> int:
    """The format version of a file; refuses one newer than ``latest``."""
    version: int = check_shape(content.get("format_version"), shapes.whole(1), "format_version")
    if version > latest:
        writer = content.get("provenance", content)
        writer = str(writer.get("library_version", "?"))[:20] if isinstance(writer, dict) else "?"
        raise FormatError(
            f"{path} has format version {reprlib.repr(version)}, written by nishimori {writer}; this one reads up to {latest}. "
            "Run `pip install --upgrade nishimori`."
        )
    return version


def content_of(path: Path) -> Any:
    """The content of a JSON file; refuses any other file."""
    try:
        return read_json(path)
    except JsonError as error:
        raise FormatError(f"{path} is not a calibration file: {error}. {_REMEDY}") from None


@contextmanager
def report_damage(path: Path) -> Iterator[None]:
    """A context manager that adds the file and a remedy to errors about its content."""
    try:
        yield
    except JsonError as error:
        raise FormatError(f"{path} is damaged: {error}. {_REMEDY}") from None


def map_in(described: dict[str, Any], path: Path, place: str) -> Map:
    """The map that a field of a file describes; refuses an unknown kind, with a remedy."""
    named_here = _innermost(described)
    kind = named_here["kind"]
    if isinstance(kind, str) and find_kind(kind) is None:
        named = named_here.get("class")
        by = f" (it is the class {printable(named)[:80]})" if isinstance(named, str) else ""
        raise FormatError(
            f"{path} holds a map of the kind {reprlib.repr(kind)}{by}, which is not registered here. Import the module that "
            "calls `nishimori.register` for it, and load the file again. In the shell, pass --import MODULE before the "
            "command."
        )
    try:
        return from_parameters(described["kind"], described["parameters"])
    except InputError:
        raise shape_error(place, "a map with valid parameters", described) from None


def _innermost(described: dict[str, Any]) -> dict[str, Any]:
    """The description of the innermost map in a file."""
    while described["kind"] in (Tempered.kind, Shifted.kind) and isinstance(described["parameters"], dict):
        inner = described["parameters"].get("inner")
        if not isinstance(inner, dict) or not {"kind", "parameters"} <= set(inner):
            break
        described = inner
    return described


def as_text(content: dict[str, Any]) -> str:
    """JSON with each list of numbers, such as a row of a matrix, on one line."""
    text = json.dumps(content, indent=2, ensure_ascii=False)
    # A name in quotes cannot contain the end of a line, so that only lists are found.
    return re.sub(r"\[\n([-+.,eE\d\s]+)\n\s*\]", lambda match: f"[{' '.join(match[1].split())}]", text) + "\n"


def _from_version_1(content: dict[str, Any]) -> dict[str, Any]:
    """Move the fields of version 1 to their places in version 2."""
    names = ("method", "classes", "columns", "n_classes", "n_samples", "library_version")
    origin = {"method": shapes.one_of("ec", "ts", "fixed"), "n_classes": _PROVENANCE["n_classes"], "top_n": shapes.whole(1)}
    check_shape(content, shapes.same("temperature input classes columns n_samples library_version", shapes.ANYTHING) | origin)
    top_n, n_classes = content["top_n"], content["n_classes"]
    if n_classes is not None and top_n >= n_classes:
        raise shape_error("top_n", f"below the number of classes, {n_classes}", top_n)
    params = {"top_n": top_n} if content["method"] == "ec" else {}
    return {
        "map": {"kind": "temperature", "parameters": {"temperature": content["temperature"]}},
        "input": content["input"],
        "provenance": {name: content[name] for name in names} | {"params": params, "residual": None},
    }


def checked_floor(content: dict[str, Any]) -> float | None:
    """The lowest probability in the content of a file."""
    floor = content["floor"]
    try:
        check_input(content["input"], floor)
    except InputError as error:
        raise shape_error("floor", f"a floor of {content['input']}", floor) from error
    return None if floor is None else float(floor)


def _is_text(value: str) -> bool:
    """Whether the text can be written; half of a surrogate pair cannot."""
    return not any("\ud800" <= character <= "\udfff" for character in value)
