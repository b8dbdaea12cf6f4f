"""Arguments as options: what messages of the library call the Python arguments that they name, in the words of the shell."""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nishimori.errors import A_NAME, ABSENT, NAMES, in_python

# Options whose names are not those of their arguments; a value is added to those that take one.
_NAMES = {
    "bounds": "--bound",
    "calibrator": "--calibration",
    "y": "--labels",
    "folder": "-o",
    "overwrite": "--force",
    "path": "-o",
    "sample_weight": "--weights",
    "test_groups": "--groups",
}

# Arguments of calibrators, which one option passes on.
_PARAMETERS = {"penalty", "shrink", "smooth_labels"}

# What is in files, and no option.
_IN_FILES = {"X": "the file", "y": "the labels", "scores": "the scores", "labels": "the labels"}

# Of another command, `sketch`, which made the file.
_ELSEWHERE = {"--temperatures"}


def typed_options(options: Callable[[], set[str]], values: Mapping[str, object]) -> str:
    """Arguments as options, as they are typed together; see `option_text`."""
    return " ".join(option_text(options, name, value) for name, value in values.items())


def option_text(options: Callable[[], set[str]], name: str, value: Any = ABSENT) -> str:
    """An argument as an option, with a value if there is one; as in Python if the command does not have it in ``options``."""
    if name in _IN_FILES and value is ABSENT:
        return _IN_FILES[name]
    typed = options()
    if name in _PARAMETERS and "--param" in typed:
        return f"--param {name}" if value is ABSENT else f"--param {name}={_json(value)}"
    option = _NAMES.get(name, f"--{name.replace('_', '-')}")
    if name == "columns" and (value is A_NAME or isinstance(value, str)):
        option = "--scores"  # the option for one name
    if option not in typed | _ELSEWHERE:
        return in_python({name: value})
    return option if value is ABSENT or value is True or value is A_NAME else _option_with_value(option, value)


def _option_with_value(option: str, value: Any) -> str:
    """An option with its value as it is typed."""
    if isinstance(value, Mapping):
        return " ".join(f"{option} {name}={entry}" for name, entry in value.items())
    if option in ("--delimiter", "--decimal"):
        return f"{option} tab" if value == "\t" else f"{option} '{value}'"
    if value is NAMES:
        return f"{option} NAME,NAME"
    if not isinstance(value, Sequence) or isinstance(value, str):
        return f"{option} {shlex.quote(str(value))}"
    names = [f"{entry:g}" if isinstance(entry, float) else str(entry) for entry in value]
    if any("," in name or name != " ".join(name.split()) for name in names):  # which would be read as other names
        return f"{option} with new names: a comma separates names, so rename the columns"
    return f"{option} {shlex.quote(','.join(names))}"


def _json(value: Any) -> str:
    """A value of --param, which is JSON or text."""
    return value if isinstance(value, str) else json.dumps(value)
