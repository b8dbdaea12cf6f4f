"""Read untrusted JSON: every fault is a one-line error, found with little time and memory.

What a file must hold is a table, a `Shape`, which `check_shape` compares with what it holds.
"""

import json
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from math import inf, isfinite
from pathlib import Path
from typing import Any

from nishimori._support.disk import existing_file

# A million class names take 20 MB.
_LARGEST = 2**26

# More than any number of ours, and small enough to be multiplied and printed.
_LARGEST_NUMBER = 1e300

# Numbers that float64 tells apart have 17 digits; thousands of digits take long to read and to print.
_MOST_DIGITS = 30

# No file of ours has more than six levels.
_DEEPEST = 50
_DEEP = "it is nested too deeply"


class JsonError(Exception):
    """Why a text is not usable JSON; callers add what was expected, and what to do."""


def read_json(path: Path) -> Any:
    """The content of a file; its structure must still be checked."""
    size = existing_file(path).stat().st_size
    if size > _LARGEST:
        raise JsonError(f"it has {size:,} bytes, more than the {_LARGEST:,} that are read")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise JsonError("it is not text in UTF-8") from None
    return parse_json(text)


def parse_json(text: str) -> Any:
    """The content of a text."""
    try:
        content = json.loads(text, object_pairs_hook=_distinct, parse_int=_whole)
        _refuse_deep(content)
        json.dumps(content, ensure_ascii=False).encode()  # half of a surrogate pair is valid JSON, but not text
    except RecursionError:
        raise JsonError(_DEEP) from None
    except UnicodeEncodeError:
        raise JsonError("it holds half of a surrogate pair, which is not text") from None
    except json.JSONDecodeError as error:
        raise JsonError(f"it is not JSON ({error.msg}: line {error.lineno} column {error.colno})") from None
    return content


def _refuse_deep(content: Any) -> None:
    """Refuse nesting that is too deep for recursive functions."""
    level = [content]
    for _ in range(_DEEPEST):
        inside = (part.values() if isinstance(part, dict) else part for part in level if isinstance(part, dict | list))
        level = [child for children in inside for child in children]
        if not level:
            return
    raise JsonError(_DEEP)


def _whole(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise JsonError(f"it has a number of {len(text)} digits")
    return int(text)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in content if names.count(name) > 1)
        raise JsonError(f"the key {twice!r:.40} appears more than once")
    return content


# What a value must be, in tables


def shape_error(place: str, wanted: str, value: Any) -> JsonError:
    """The error for a wrong value; ``place`` says where it is, such as ``slider.places[1].temperature``."""
    return JsonError(f"{place} must be {wanted}, got {brief(value)}")


@dataclass(frozen=True)
class Kind:
    """A requirement on a value, in words and as a test; ``entries`` is the shape of all entries of a list."""

    wanted: str
    is_right: Callable[[Any], bool]
    entries: Any = None


_MISSING: Any = object()


@dataclass(frozen=True)
class Maybe:
    """The shape of a value with an optional key; ``default`` replaces a missing value, which otherwise stays missing."""

    shape: Any
    default: Any = _MISSING


Shape = Any
"""A `Kind`; a dictionary of shapes by key; a tuple of a shape and None, where the value may be None; or a function of the value
that returns its shape."""


def check_shape(value: Any, shape: Shape, place: str = "", depth: int = 0) -> Any:
    """Refuse a value of another shape; return it with defaults for missing keys.

    Keys that a dictionary has besides may hold any JSON.
    """
    if depth > _DEEPEST:
        raise JsonError(f"{place[:40]}... is nested too deeply")
    if callable(shape):
        shape = shape(value)
    if isinstance(shape, tuple):
        return None if value is None else check_shape(value, shape[0], place, depth)
    if isinstance(shape, Kind):
        if not shape.is_right(value):
            raise shape_error(place, shape.wanted, value)
        if shape.entries is None:
            return value
        return [check_shape(entry, shape.entries, f"{place}[{number}]", depth + 1) for number, entry in enumerate(value)]
    optional = {name: inner for name, inner in shape.items() if isinstance(inner, Maybe)}
    needed = [name for name in shape if name not in optional]
    if not (isinstance(value, dict) and all(isinstance(name, str) for name in value)):
        keys = f"the keys {', '.join(needed)}" if needed else "texts as keys"
        raise shape_error(place or "it", f"a dictionary with {keys}", value)
    inside = f"{place}." if place else ""
    if missing := [name for name in needed if name not in value]:
        raise JsonError(f"{inside}{missing[0]} is missing")
    shapes = shape | {name: inner.shape for name, inner in optional.items()}
    checked = {
        name: check_shape(entry, shapes.get(name, any_shape), f"{inside}{name}", depth + 1) for name, entry in value.items()
    }
    defaults = {name: inner.default for name, inner in optional.items() if name not in value}
    return checked | {name: default for name, default in defaults.items() if default is not _MISSING}


def any_shape(value: Any) -> Shape:
    """The shape of any JSON whose numbers are finite."""
    if isinstance(value, dict):
        return {}
    return list_of(any_shape) if isinstance(value, list) else _PLAIN


def brief(value: Any) -> str:
    """The beginning of a value as Python writes it."""
    try:
        return reprlib.repr(value)
    except ValueError:  # a whole number of thousands of digits
        return f"a value of the type {type(value).__name__}"


def is_number(value: Any) -> bool:
    """Whether it is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST_NUMBER


ANYTHING = Kind("any JSON", lambda _: True)
TEXT = Kind("text", lambda value: isinstance(value, str))
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
NUMBER = Kind("a finite number", is_number)
POSITIVE = Kind("a positive finite number", lambda value: is_number(value) and value > 0)


_PLAIN = Kind(
    "a finite number, text, None, a list or a dictionary",
    lambda value: value is None or isinstance(value, str | bool) or is_number(value),
)


def whole(least: int, most: float = inf) -> Kind:
    """A whole number within limits."""
    limits = f"of at least {least}" if most == inf else f"from {least} to {most:g}"
    return Kind(f"a whole number {limits}", lambda n: is_number(n) and isinstance(n, int) and least <= n <= most)


def between(low: float, high: float) -> Kind:
    """A number within limits."""
    return Kind(f"a number from {low:g} to {high:g}", lambda value: is_number(value) and low <= value <= high)


def one_of(*values: str) -> Kind:
    """One of some texts."""
    return Kind(f"one of {', '.join(map(repr, values))}", lambda value: isinstance(value, str) and value in values)


def list_of(shape: Shape, least: int = 0, most: float = inf) -> Kind:
    """A list of values of one shape, and perhaps of some length."""
    lengths = {(0, inf): "a list", (1, inf): "a list that is not empty"}
    wanted = lengths.get((least, most), f"a list of {least}{'' if least == most else f' to {most:g}'} values")
    return Kind(wanted, lambda value: isinstance(value, list) and least <= len(value) <= most, shape)


def same(names: str, shape: Shape) -> dict[str, Shape]:
    """One shape for several keys."""
    return dict.fromkeys(names.split(), shape)


# What results become in JSON


def as_python(value: Any) -> Any:
    """NumPy's numbers and arrays, and tuples, as Python's numbers and lists; everything else as it is."""
    if isinstance(value, tuple):
        return [as_python(entry) for entry in value]
    return value.tolist() if hasattr(value, "tolist") else value


def to_plain(value: Any) -> Any:
    """Turn a value into JSON: dictionaries with texts as keys, lists, texts, and None for numbers that are not finite.

    Halves of surrogate pairs, which the names of files may hold and no file of text can, are escaped.
    """
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    value = as_python(value)
    if isinstance(value, Mapping):
        return {str(name): to_plain(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [to_plain(entry) for entry in value]
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    return None if isinstance(value, float) and not isfinite(value) else value
