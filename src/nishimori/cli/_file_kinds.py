"""What a file is, by its content: one of the kinds that nishimori writes, or scores; for errors about files in wrong places."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from nishimori._evaluation.checks import Verdict
from nishimori._evaluation.gate import SUITE, TABLE_HEADERS
from nishimori._files.file_rows import SUFFIXES
from nishimori._methods.record import FORMAT, MULTILABEL_FORMAT
from nishimori._sketch.archive import is_sketch_file
from nishimori._support.json import FLAG, TEXT, JsonError, Shape, any_shape, check_shape, list_of, one_of, read_json
from nishimori._support.tables import Tabular
from nishimori.errors import InputError

CALIBRATION = "a calibration"
MULTILABEL = "a multilabel calibration"
SKETCH = "a sketch"
REPORT = "a report"
SCORES = "a file of scores"
GATE = "the result of gate"
UNKNOWN = "JSON that nishimori did not write"
UNREADABLE = "JSON that cannot be read"

# What the JSON of a command has, by which it is told from that of others; the first that fits.
_RESULTS: dict[str, set[str]] = {
    GATE: {"passed", "verdict", "checks"},
    "the result of eval": {"before", "n_bins"},
    "the result of compare": {"methods", "verdicts", "n_validation"},
    "the result of diff": {"changes", "different"},
    "the result of fit": {"method", "map", "file"},
    "the result of apply": {"calibration", "probability_columns"},
    "the result of sketch": {"temperatures", "n_samples", "file"},
    "the result of methods": {"methods", "library_version"},
}

# How pages begin that the report writes.
_HTML_PAGE = '<p class="kicker">Calibration report</p>'
_PAGES = {".html": _HTML_PAGE, ".htm": _HTML_PAGE, ".md": "# Calibration report"}

_MEANT = {
    CALIBRATION: "Pass it with --calibration, or to nishimori apply; nishimori show says what it holds.",
    MULTILABEL: "Use it in Python: nishimori.load.",
    SKETCH: "fit, eval, gate, compare, report, diff and merge read it in place of scores.",
    REPORT: "nishimori show and nishimori diff read it.",
    SCORES: "",
}


def kind_of(path: Path) -> str | None:
    """What a file is, in words that follow "is"; None if that is not known, as of a file that does not exist."""
    if not path.is_file():
        return None
    name = path.name.lower()
    if is_sketch_file(path):
        return SKETCH
    if name.endswith(".json"):
        try:
            return kind_of_content(read_json(path))
        except (JsonError, OSError):
            return UNREADABLE
    if (mark := _PAGES.get(path.suffix.lower())) is not None:
        with path.open("rb") as file:
            is_page = mark.encode() in file.read(2**16)
        return f"{REPORT} as a page" if is_page else None
    return SCORES if name.endswith(SUFFIXES) else None


def kind_of_content(content: Any) -> str:
    """What the content of a file of JSON is."""
    if not isinstance(content, Mapping):
        return UNKNOWN
    if content.get("format") in (FORMAT, MULTILABEL_FORMAT):
        return CALIBRATION if content["format"] == FORMAT else MULTILABEL
    if {"format", "verdict", "slider", "methods"} <= set(content):
        return REPORT
    results = (name for name, keys in _RESULTS.items() if keys <= set(content))
    return next(results, UNKNOWN)


def is_gate_result(path: Path, form: str) -> bool:
    """Whether a file is what the gate writes in this form, "json", "markdown" or "junit", and nothing else."""
    if form == "json":
        try:
            check_shape(read_json(path), _gate_shape)
        except (JsonError, OSError):
            return False
        return True
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError):
        return False
    if form == "junit":  # where other suites were added, they would be lost
        return text.count("<testsuite ") == text.count(f'<testsuite name="{SUITE}"') == 1
    lines = text.splitlines()
    is_table = all(line.startswith("|") for line in lines)
    return is_table and lines[:1] == Tabular(TABLE_HEADERS, []).markdown().splitlines()[:1]


def _gate_shape(content: Any) -> Shape:
    """What the command gate writes as JSON: checks, or the error that kept them from being made."""
    common = {"passed": FLAG, "library_version": TEXT, "files": list_of(any_shape)}
    if isinstance(content, Mapping) and content.get("verdict") == "error":
        return common | {"message": TEXT, "checks": list_of(any_shape, 0, 0)}
    verdict = one_of(*get_args(Verdict))
    return common | {"verdict": verdict, "checks": list_of({"verdict": verdict}, 1)}


def refuse_other(path: Path, wanted: str, *kinds: str) -> None:
    """Refuse a file that is known to be of another kind than these, and say what it is; ``wanted`` follows "not"."""
    kind = kind_of(path)
    if kind is not None and kind not in kinds:
        raise InputError(f"{path} is {kind}, not {wanted}. {_MEANT.get(kind, '')}".rstrip())
