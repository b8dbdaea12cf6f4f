"""``nishimori show``: what a file is, and what it holds."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import nishimori
from nishimori._files.arrays.files import open_arrays
from nishimori._files.tables.files import is_table, open_table
from nishimori._fit.temperatures import temperatures
from nishimori._methods.record import Record, content_of
from nishimori._sketch.sketch import Sketch
from nishimori._support.disk import existing_file
from nishimori._support.formatting import value_with_error
from nishimori.cli._calibration import calibrator_in, description
from nishimori.cli._files import CALIBRATION, MULTILABEL, REPORT, SCORES, SKETCH, UNREADABLE, json_in, kind_of
from nishimori.cli._help import JsonOption, argument, epilog
from nishimori.cli._terminal import print_json, print_text
from nishimori.errors import InputError

FileArgument = Annotated[
    Path,
    argument("A calibration, a sketch, a report (.json), the output of a command with --json, or a file of scores.", "FILE"),
]

EPILOG = epilog("nishimori show calibration.json", "nishimori show monday.npz --json")

# Longer lists, such as those of classes, are cut.
_LISTED = 12


def show(file: FileArgument, as_json: JsonOption = False) -> None:
    """Say what a file is, and what it holds.

    That is the method, T and its standard error, samples, classes, versions and dates, as far as the file has them.
    """
    existing_file(file)
    kind = kind_of(file)
    if kind is None:
        raise InputError(f"{file} is not a file that nishimori reads.")
    readers: dict[str, Callable[[Path], dict[str, Any]]] = {
        CALIBRATION: _calibration,
        MULTILABEL: _multilabel,
        SKETCH: _sketch,
        REPORT: _report,
        SCORES: _scores,
        UNREADABLE: json_in,  # which says why
    }
    at = file.stat()
    about = {"file": str(file), "kind": kind.removeprefix("a ").removeprefix("the ")}
    read = _result if kind.startswith("the result of") else readers.get(kind)
    holds = {} if read is None else read(file)
    dated = {"modified": datetime.fromtimestamp(at.st_mtime, UTC).strftime("%Y-%m-%d %H:%M UTC"), "bytes": at.st_size}
    content = about | holds | dated
    if as_json:
        print_json(content)
        return
    shown = {name: _text(value) for name, value in _for_people(content).items()}
    width = max(map(len, shown)) + 2
    for name, text in shown.items():
        if text:
            print_text(f"{name.replace('_', ' '):<{width}}{text}")


def _for_people(content: Mapping[str, Any]) -> dict[str, Any]:
    """The same with errors beside their values."""
    shown = {}
    for name, value in content.items():
        if name.endswith("_se") and name.removesuffix("_se") in content:
            continue
        error = content.get(f"{name}_se")
        has_error = isinstance(value, float) and isinstance(error, float)
        shown[name] = value_with_error(value, error) if has_error else value
    return shown


def _text(value: Any) -> str:
    """A value in one line; nothing where it is not known."""
    if value is None or value in ([], {}):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
    if isinstance(value, Mapping):
        texts_by_name = {name: _text(entry) for name, entry in _for_people(value).items()}
        return ", ".join(f"{name} {text}" for name, text in texts_by_name.items() if text)
    if not isinstance(value, list):
        return str(value)
    texts = [_text(entry) for entry in value]
    return ", ".join(texts) if len(texts) <= _LISTED else f"{', '.join(texts[: _LISTED - 2])}, ..., {texts[-1]} ({len(texts)})"


def _calibration(path: Path) -> dict[str, Any]:
    content = content_of(path)
    record, calibrator = Record.from_content(content, path), calibrator_in(path)
    provenance = vars(record.provenance)
    return {
        "format_version": content["format_version"],
        "method": provenance["method"],
        "parameters": provenance["params"],
        "temperature": calibrator.temperature_,
        "temperature_se": provenance["temperature_se"],
        "map": record.map.kind,
        "what_it_does": " ".join(line.strip() for line in description(calibrator, tables=False)),
        **{name: provenance[name] for name in ("n_samples", "n_classes", "classes")},
        "input": record.input,
        "floor": record.floor,
        **{name: provenance[name] for name in ("columns", "label_column", "score_column", "group_column", "library_version")},
    }


def _multilabel(path: Path) -> dict[str, Any]:
    calibrator: Any = nishimori.load(path)  # which checks it
    content = content_of(path)
    provenance = content["provenance"]
    return {
        "format_version": content["format_version"],
        "method": provenance["method"],
        "parameters": provenance["params"],
        **{name: provenance[name] for name in ("temperature", "temperature_se", "n_samples")},
        "n_labels": len(calibrator.classes_),
        **{name: content[name] for name in ("labels", "input", "floor")},
        "library_version": provenance["library_version"],
    }


def _sketch(path: Path) -> dict[str, Any]:
    sums = Sketch.load(path)
    about: dict[str, Any] = {"input": sums.input, "floor": sums.floor}
    classes = None if sums.classes is None else list(sums.classes)
    if not sums.n_samples:
        return {"n_samples": 0, **about, "classes": classes}
    matched = temperatures(sums)
    return {
        **{name: getattr(sums, name) for name in ("n_samples", "n_parts", "n_forgotten_parts", "n_clusters", "n_classes")},
        "n_forgotten_parts": sums.n_forgotten_parts or None,
        "classes": classes,
        "accuracy": matched.accuracy,
        "temperature_ec": matched.ec,
        "temperature_ec_se": matched.ec_se,
        "temperature_ts": matched.ts,
        "temperature_ts_se": matched.ts_se,
        "temperatures": list(sums.temperatures),
        **about,
    }


def _report(path: Path) -> dict[str, Any]:
    results = nishimori.Report.from_dict(json_in(path)).to_dict()
    rows = {row["method"]: row for row in results["methods"]}
    after = rows.get(results["recommended"], {})
    about, provenance = results["data"], results["provenance"]
    return {
        "title": results["title"],
        "verdict": results["verdict"]["headline"],
        "summary": results["verdict"]["summary"],
        "method": results["recommended"],
        **{name: after.get(name) for name in ("temperature", "temperature_se")},
        "n_samples": about["n_measured"],
        **{name: about[name] for name in ("n_validation", "n_classes")},
        "files": [source["name"] for source in provenance["files"]],
        **{name: provenance[name] for name in ("made_on", "library_version")},
    }


def _result(path: Path) -> dict[str, Any]:
    """What a command has printed with --json, without its tables."""
    shown: dict[str, Any] = {}
    for name, value in json_in(path).items():
        if isinstance(value, dict):
            shown[name] = {key: entry for key, entry in value.items() if not isinstance(entry, dict | list)}
        elif not (isinstance(value, list) and any(isinstance(entry, dict) for entry in value)):
            shown["written_to" if name == "file" else name] = value
    return shown


def _scores(path: Path) -> dict[str, Any]:
    """The names of what a file of scores or probabilities holds; it is not read further."""
    if is_table(path):
        with open_table(path) as table:
            return {"columns": list(table.names), "n_rows": table.n_rows}
    arrays = open_arrays(path)
    return {"arrays": {name or "its only array": _shape(arrays.labels(name)) for name in arrays.names}}


def _shape(array: Any) -> str:
    return f"{' × '.join(f'{size:,}' for size in array.shape)} {array.dtype}"
