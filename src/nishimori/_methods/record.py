"""A calibration on disk: one small JSON object that any language can read.

Version 2 holds what is done to logits (``map``: its kind and parameters), what the input must be, and where the map comes from
(``provenance``). Using the map needs nothing else, so a file of a method that this installation does not have still works.
Versions 3 to 5 are the same with further kinds of maps. A file is written in the first version that has its map, so that
earlier releases read it if they can. Version 1 had one temperature at the top level; it is still read.
"""

import json
import os
import re
import reprlib
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, get_args

from nishimori._rows.column_names import refuse_permuted
from nishimori._rows.scores import Input, check_input
from nishimori._support.disk import new_file
from nishimori._support.escape import printable
from nishimori._support.json import JsonError, read_json
from nishimori.errors import FormatError, InputError
from nishimori.maps.around import Tempered
from nishimori.maps.kinds import described, find_kind, from_parameters
from nishimori.maps.map import Map

FORMAT = "nishimori-calibration"
VERSION = 5

MULTILABEL_FORMAT = "nishimori-multilabel"
"""What files of `MultilabelCalibrator` have in its place."""

_REMEDY = "Fit and save again."


def is_multilabel(content: Any) -> bool:
    """Whether the content of a file is that of a `MultilabelCalibrator`."""
    return isinstance(content, dict) and content.get("format") == MULTILABEL_FORMAT


# What the first files of version 2 do not have.
_ADDED = ("label_column", "score_column", "group_column", "temperature_se", "estimates", "is_flat", "data_digest")

# A hundred times the largest vocabulary; a calibrator lists its classes, so this bounds what a small file can ask for.
_MOST_CLASSES = 2**24


@dataclass(frozen=True)
class Provenance:
    """Where a map comes from."""

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
    library_version: str = ""

    def faults(self) -> list[str]:
        """The names of the fields that cannot be right."""
        is_right = {
            "method": isinstance(self.method, str) and bool(self.method),
            "params": isinstance(self.params, dict) and all(map(_is_plain, self.params.values())),
            "n_classes": self.n_classes is None or (is_count(self.n_classes, 2) and self.n_classes <= _MOST_CLASSES),
            "n_samples": self.n_samples is None or is_count(self.n_samples, 1),
            "residual": self.residual is None or type(self.residual) in (int, float),
            "temperature_se": self.temperature_se is None or (are_numbers([self.temperature_se]) and self.temperature_se > 0),
            "estimates": self.estimates is None or (isinstance(self.estimates, dict) and are_numbers(self.estimates.values())),
            "classes": are_distinct(self.classes, (str, int, float), self.n_classes),
            "columns": are_distinct(self.columns, (str,), self.n_classes),
            "label_column": isinstance(self.label_column, str | None),
            "score_column": isinstance(self.score_column, str | None),
            "group_column": isinstance(self.group_column, str | None),
            "is_flat": self.is_flat is None or (type(self.is_flat) is bool and (not self.is_flat or self.n_classes == 2)),
            "data_digest": isinstance(self.data_digest, str | None),
            "library_version": isinstance(self.library_version, str),
        }
        faults = [name for name, right in is_right.items() if not right]
        try:
            refuse_permuted(None if faults else self.columns, self.classes)
        except InputError:
            return ["columns"]
        return faults


@dataclass(frozen=True)
class Record:
    """What a calibrator needs to be itself again."""

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
            "format_version": self.map.format_version,
            "map": described(self.map, self.provenance.n_classes),
            "input": self.input,
            "floor": self.floor,
            "provenance": asdict(self.provenance),
        }
        with new_file(path, overwrite=overwrite) as temporary:
            temporary.write_text(as_text(content), encoding="utf-8")

    @property
    def common_parameters(self) -> dict[str, Any]:
        """The parameters that methods of every kind have; a method of the user's own need not have a floor."""
        input_ = None if self.input == "logits" else self.input  # which is also what a new fit takes scores for
        common: dict[str, Any] = {"input": input_, "classes": self.provenance.classes}
        return common if self.floor is None else common | {"floor": self.floor}

    @property
    def parameters(self) -> dict[str, Any]:
        """All parameters that the method was made with."""
        return self.provenance.params | self.common_parameters

    def parameters_error(self, path: str | os.PathLike[str]) -> FormatError:
        """The error that the method cannot have been fitted with these parameters."""
        return FormatError(f"{os.fspath(path)} is damaged: params is {self.provenance.params!r}. {_REMEDY}")

    @classmethod
    def from_content(cls, content: Any, path: Path) -> "Record":
        """What the content of a file describes; raises `FormatError` with what to do."""
        if is_multilabel(content):
            raise FormatError(f"{path} is a multilabel calibration. Use it in Python: `nishimori.load({str(path)!r})`.")
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise FormatError(f'{path} is not a calibration file: it has no "format": "{FORMAT}". {_REMEDY}')
        version = check_version(content, path, VERSION)
        return cls._from_fields(_from_version_1(content, path) if version == 1 else content, path)

    @classmethod
    def _from_fields(cls, content: dict[str, Any], path: Path) -> "Record":
        """The record from the fields of versions 2 to 5."""
        refuse_missing(("map", "input", "provenance"), content, path)
        names = [field_.name for field_ in fields(Provenance)]
        required = [name for name in names if name not in _ADDED]
        origin: dict[str, Any] = dict.fromkeys(names) | part_of(content, "provenance", required, path)
        used = map_in(part_of(content, "map", ("kind", "parameters"), path), path, "map")
        origin["method"] = present_name(origin["method"])
        provenance = Provenance(**{name: origin[name] for name in names})
        for name in provenance.faults():
            raise damage_error(path, name, origin[name])
        if used.n_classes is not None and used.n_classes != provenance.n_classes:
            raise damage_error(path, "n_classes", provenance.n_classes)
        input_, floor = input_and_floor(content, path)
        return cls(used, input_, provenance, floor)


_EARLIER_NAMES = {"auto": "adaptive", "ensemble": "mixture"}
"""What methods are called now, by the names that files of earlier versions have for them."""


def present_name(method: Any) -> Any:
    """What a method in a file, or one that NAME+ec finishes, is called now."""
    if not isinstance(method, str):
        return method
    name, finished, rest = method.partition("+")
    return _EARLIER_NAMES.get(name, name) + finished + rest


def check_version(content: dict[str, Any], path: Path, latest: int) -> int:
    """The version of the format of a file; refuses a newer one than the ``latest`` that can be read."""
    version: Any = content.get("format_version")
    if not is_count(version, 1):
        raise damage_error(path, "format_version", version)
    if version > latest:
        writer = content.get("provenance", content)
        writer = str(writer.get("library_version", "?"))[:20] if isinstance(writer, dict) else "?"
        raise FormatError(
            f"{path} has format version {reprlib.repr(version)}, written by nishimori {writer}; this one reads up to {latest}. "
            "Run `pip install --upgrade nishimori`."
        )
    return int(version)


def content_of(path: Path) -> Any:
    """What a file of JSON holds; refuses a file of anything else."""
    try:
        return read_json(path)
    except JsonError as error:
        raise FormatError(f"{path} is not a calibration file: {error}. {_REMEDY}") from None


def map_in(described: dict[str, Any], path: Path, field_name: str) -> Map:
    """The map that a field of a file describes; one of a kind that is not known here is refused with what to do."""
    parameters = described["parameters"]
    inner = parameters.get("inner") if described["kind"] == Tempered.kind and isinstance(parameters, dict) else None
    named_here = inner if isinstance(inner, dict) and "kind" in inner else described
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
        raise damage_error(path, field_name, described) from None


def as_text(content: dict[str, Any]) -> str:
    """JSON in which a list of numbers, such as a row of a matrix, takes one line."""
    text = json.dumps(content, indent=2, ensure_ascii=False)
    # A name in quotes cannot contain the end of a line, so that only lists are found.
    return re.sub(r"\[\n([-+.,eE\d\s]+)\n\s*\]", lambda match: f"[{' '.join(match[1].split())}]", text) + "\n"


def _from_version_1(content: dict[str, Any], path: Path) -> dict[str, Any]:
    """The fields of version 1 where version 2 has them."""
    same = ("method", "classes", "columns", "n_classes", "n_samples", "library_version")
    refuse_missing(("temperature", "top_n", "input", *same), content, path)
    method, top_n, n_classes = content["method"], content["top_n"], content["n_classes"]
    if method not in ("ec", "ts", "fixed"):
        raise damage_error(path, "method", method)
    if not is_count(top_n, 1) or (is_count(n_classes, 2) and top_n >= n_classes):
        raise damage_error(path, "top_n", top_n)
    params = {"top_n": top_n} if method == "ec" else {}
    return {
        "map": {"kind": "temperature", "parameters": {"temperature": content["temperature"]}},
        "input": content["input"],
        "provenance": {name: content[name] for name in same} | {"params": params, "residual": None},
    }


def are_numbers(values: Iterable[Any]) -> bool:
    """Whether these are finite numbers."""
    return all(type(value) in (int, float) and abs(value) < 1e300 for value in values)


def part_of(content: dict[str, Any], name: str, required: Collection[str], path: Path) -> dict[str, Any]:
    """A field of a file that holds fields itself; refuses one without those that are ``required``."""
    part = content[name]
    if not isinstance(part, dict):
        raise damage_error(path, name, part)
    refuse_missing(required, part, path)
    return part


def input_and_floor(content: dict[str, Any], path: Path) -> tuple[Input, float | None]:
    """What a file says of the scores."""
    input_, floor = content["input"], content.get("floor")
    if input_ not in get_args(Input):
        raise damage_error(path, "input", input_)
    try:
        check_input(input_, floor)
    except InputError:
        raise damage_error(path, "floor", floor) from None
    return input_, None if floor is None else float(floor)


def refuse_missing(names: Collection[str], content: dict[str, Any], path: Path) -> None:
    """Refuse a file without these fields."""
    missing = [name for name in names if name not in content]
    if missing:
        raise FormatError(f"{path} is damaged: {', '.join(missing)} missing. {_REMEDY}")


def damage_error(path: Path, name: str, value: Any) -> FormatError:
    """The error that a field of a file cannot be right."""
    return FormatError(f"{path} is damaged: {name} is {reprlib.repr(value)}. {_REMEDY}")


def _is_plain(value: object) -> bool:
    """Whether JSON gives it back as it was: a number, text, nothing, or a list of these."""
    return (
        value is None or isinstance(value, str | int | float | bool) or (isinstance(value, list) and all(map(_is_plain, value)))
    )


def _is_text(value: str) -> bool:
    """Whether it can be written; half of a surrogate pair cannot."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


def is_count(value: object, least: int) -> bool:
    """Whether this is a whole number, at least this one."""
    return type(value) is int and value >= least


def are_distinct(value: object, kinds: tuple[type, ...], number: object) -> bool:
    """Whether this is None, or a list of this many different values of those kinds."""
    if value is None:
        return True
    return isinstance(value, list) and all(isinstance(v, kinds) for v in value) and len(value) == number == len(set(value))
