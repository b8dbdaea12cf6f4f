"""Arguments as options: what messages of the library call the Python arguments that they name, in the words of the shell."""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nishimori.errors import A_NAME, NAMES, in_python

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


def option_text(options: Callable[[], set[str]], name: str, *value: Any) -> str:
    """An argument as an option, with a value if there is one; as in Python if the command does not have it in ``options``."""
    if name in _IN_FILES and not value:
        return _IN_FILES[name]
    typed = options()
    if name in _PARAMETERS and "--param" in typed:
        return f"--param {name}" if not value else f"--param {name}={_json(value[0])}"
    option = _NAMES.get(name, f"--{name.replace('_', '-')}")
    if name == "columns" and value and (value[0] is A_NAME or isinstance(value[0], str)):
        option = "--scores"  # the option for one name
    if option not in typed | _ELSEWHERE:
        return in_python(name, *value)
    return option if not value or value[0] is True or value[0] is A_NAME else _option_with_value(option, value[0])


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
