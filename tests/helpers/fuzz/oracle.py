"""Whether the command behaved: it reads a mutated file in this process, and what it did is judged.

A command that fails says so in one line, exits with code 1 and leaves nothing behind; one that succeeds has written a whole and
valid result. `judge` returns a list of faults, empty where all is well.
"""

import csv
import json
import math
import os
import re
import socket
import sys
import traceback
import unicodedata
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from fuzz.cases import Case
from fuzz.samples import COLUMNS, LOGITS, Sample, Special, scores_for_calibrations

from fuzz import strict_tables

_PRECIOUS = b"what was here before"
_TEXT = ("csv", "tsv", "csv.gz", "jsonl")
_APPLY_OPTIONS = ("scores", "labels", "weights", "columns")
_FOREIGN_COLUMNS = {"id", "split", "remark", "weight"}  # never scores, unless --columns names them


@dataclass(frozen=True)
class Ended:
    """How a command ended: exit code, both streams as text, and the exception that escaped, if any."""

    code: object
    out: str
    err: str
    escaped: str | None = None


def run(words: list[str]) -> Ended:
    """Run the command in this process with real files as its streams, so that what compiled code prints is seen too."""
    from nishimori import cli

    kept = [os.dup(1), os.dup(2)]
    names = [".stdout", ".stderr"]
    for number, name in enumerate(names, 1):
        file = os.open(Path("..") / name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, number)
        os.close(file)
    former = sys.stdout, sys.stderr, sys.argv, warnings.showwarning
    sys.stdout, sys.stderr = (open(number, "w", encoding="utf-8", closefd=False) for number in (1, 2))  # noqa: SIM115
    sys.argv = ["nishimori", *words]
    code, escaped = 0, None
    try:
        cli.main()
    except SystemExit as end:
        code = end.code or 0
    except BaseException as error:
        code, escaped = 1, _described(error)
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        sys.stdout, sys.stderr, sys.argv, warnings.showwarning = former
        for number, descriptor in enumerate(kept, 1):
            os.dup2(descriptor, number)
            os.close(descriptor)
    out, err = ((Path("..") / name).read_bytes().decode("utf-8", "backslashreplace") for name in names)
    return Ended(code, out, err, escaped)


def _described(error: BaseException) -> str:
    """The type of an exception and the line of the package that it passed through last."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "nishimori" in frame.filename]
    where = f" in {Path(frames[-1].filename).name}:{frames[-1].name}" if frames else ""
    return f"{type(error).__name__}{where}"


def place(files: dict[str, bytes | Special]) -> None:
    """Put files into the working folder, which is empty."""
    for name, content in files.items():
        path = Path(name)
        if isinstance(content, bytes):
            path.write_bytes(content)
            continue
        match content.kind:
            case "pipe":
                os.mkfifo(path)
            case "folder":
                path.mkdir()
            case "loop":
                path.symlink_to(path.name)
            case "dangling":
                path.symlink_to("nothing-here")
            case "locked":
                path.write_bytes(b"secret")
                path.chmod(0)
            case "socket":
                with socket.socket(socket.AF_UNIX) as end:
                    end.bind(name)
            case "zeros" | "null" | "terminal":
                path.symlink_to({"zeros": "/dev/zero", "null": "/dev/null", "terminal": "/dev/tty"}[content.kind])


def words_of(case: Case, output: str) -> list[str]:
    """The command line of a case."""
    sample, force = case.sample, ["--force"] if case.overwrite else []
    if case.ending == "json":
        if case.command == "apply":
            return ["apply", "mutated.json", "valid.npz", "-o", output, *force]
        return [
            "eval",
            "valid.npz",
            "--calibration",
            "mutated.json",
            "--json",
            "--labels",
            sample.options.get("labels", "labels"),
        ]
    known = _APPLY_OPTIONS if case.command == "apply" else (*_APPLY_OPTIONS, "input", "classes")
    options = [word for name in known if name in sample.options for word in (f"--{name}", sample.options[name])]
    files = list(sample.files)
    match case.command:
        case "fit":
            return ["fit", *files, "-o", output, "--method", "ec", "--json", *force, *options]
        case "eval":
            return ["eval", *files, "--calibration", "valid.json", "--json", *options]
    return ["apply", "valid.json", files[0], "-o", output, *force, *options]


def beside(case: Case, calibration: bytes) -> dict[str, bytes]:
    """The valid file that the command of a case reads besides the mutated one."""
    return {"valid.npz": scores_for_calibrations()} if case.ending == "json" else {"valid.json": calibration}


def calibrations(pool: list[Sample]) -> dict[str, bytes]:
    """The calibration that the command itself writes for each valid sample that it can read; needs an empty working folder."""
    found = {}
    for sample in pool:
        place(sample.files)
        options = [word for name, value in sample.options.items() for word in (f"--{name}", value)]
        if run(["fit", *sample.files, "-o", "valid.json", *options]).code == 0:
            found[sample.name] = Path("valid.json").read_bytes()
        _clear()
    return found


def _clear() -> None:
    for path in Path().iterdir():
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


def judge(case: Case, calibration: bytes) -> list[str]:
    """Run the case in the working folder, which is emptied first, and return its faults."""
    _clear()
    output = "out.json" if case.command == "fit" else f"out.{case.output}"
    writes = case.command != "eval"
    place(case.sample.files | beside(case, calibration))
    if writes and case.overwrite:
        Path(output).write_bytes(_PRECIOUS)
    before = set(os.listdir())
    ended = run(words_of(case, output))
    faults = manners(ended)
    if ended.code != 0:
        left = set(os.listdir()) - before
        faults += [f"left {name!r} behind" for name in sorted(left)]
        if writes and case.overwrite and Path(output).read_bytes() != _PRECIOUS:
            faults.append("changed the existing output although it failed")
        if case.mutation == "unchanged" and not case.sample.optional:
            faults.append(f"refused a valid file: {ended.err.strip().splitlines()[-1:]}")
        return faults
    faults += [f"left {name!r} behind" for name in sorted(set(os.listdir()) - before - {output})]
    used = list(case.sample.files.values())[: 1 if case.command == "apply" else None]
    if case.mutation == "bomb" or any(isinstance(each, Special) for each in used):
        faults.append("accepted what must be refused")
    try:
        return faults + _results(case, ended, Path(output))
    except Exception as error:
        return [*faults, f"the result cannot be read: {type(error).__name__}: {str(error)[:100]}"]


def manners(ended: Ended) -> list[str]:
    """What a person sees: one line of error, no traceback, no raw control characters, a documented code."""
    faults = []
    text = ended.out + ended.err
    if ended.escaped:
        faults.append(f"traceback: {ended.escaped}")
    elif "Traceback" in text or "panicked" in text:
        faults.append("traceback printed")
    if re.search(
        r"unexpected (\w+ )?\w*(error|exception)\b|this is a bug|report (it|this)|internal error", text, re.IGNORECASE
    ):
        faults.append(f"called a bug: {ended.err[:100]}")
    if ended.code not in (0, 1, 2):
        faults.append(f"exit code {ended.code!r}")
    control = {c for c in text if unicodedata.category(c) == "Cc" and c != "\n"}
    if control:
        faults.append(f"raw control characters {sorted(control)}")
    if re.search(r"\b\w+Warning: ", ended.err):
        faults.append("a warning of Python or a library as it is")
    if ended.code == 1 and not ended.escaped:
        lines = ended.err.splitlines()
        errors = [line for line in lines if line.startswith("error:")]
        if len(errors) != 1 or lines[-1] != errors[0]:
            faults.append(f"{len(errors)} lines of error, {len(lines)} lines in all")
        elif re.search(r"\bmemory\b|allocate", errors[0], re.IGNORECASE):
            faults.append("took more than 1 GB")
        elif len(errors[0]) > 20_000:
            faults.append("an error of more than 20,000 characters")
    return faults


def _results(case: Case, ended: Ended, output: Path) -> list[str]:
    """What a command that succeeded must have printed and written."""
    match case.command:
        case "fit":
            return _fitted(case, json.loads(ended.out), json.loads(output.read_text(encoding="utf-8")))
        case "eval":
            return _measured(json.loads(ended.out))
    probabilities = _probabilities(output)
    if probabilities is None:
        return []
    if not (np.isfinite(probabilities).all() and (probabilities >= 0).all()):
        return ["probabilities that are negative or not finite"]
    # Scores of 16 bits give probabilities of that precision, and a mutated header can make any scores such.
    if not np.allclose(probabilities.astype(float).sum(axis=1), 1, atol=1e-5 if case.ending in _TEXT else 2e-2):
        return ["probabilities that do not sum to 1"]
    return applied(case, probabilities) if case.ending == "json" else []


def _measured(printed: dict) -> list[str]:
    """Rows of metrics before and after calibration, which must be possible."""
    rows = {name: printed[name] for name in ("before", "after")}
    bounded = [(name, key) for name, row in rows.items() for key in ("error", "ece", "confidence") if not 0 <= row[key] <= 1]
    return [f"impossible {key} {name} calibration" for name, key in bounded]


def _probabilities(output: Path) -> np.ndarray | None:
    """The probabilities in a file; None where its columns cannot be told from those that were only kept."""
    if output.suffix == ".npy":
        return np.load(output, allow_pickle=False)
    if output.suffix == ".npz":
        with np.load(output, allow_pickle=False) as archive:
            return archive["probabilities"]
    with output.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert all(len(row) == len(header) for row in rows), "rows of different lengths"
    for names in (list(COLUMNS), ["cat", "dog", "fish"], ["0", "1", "2"]):
        if all(header.count(name) == 1 for name in names):
            places = sorted(header.index(name) for name in names)  # a mutated calibration may name the classes in another order
            return np.array([[float(row[place]) for place in places] for row in rows])
    return None


def applied(case: Case, probabilities: np.ndarray) -> list[str]:
    """A mutated calibration that was accepted must do what it says to logits."""
    content = case.sample.files["mutated.json"]
    document = json.loads(content)
    told = document if document["format_version"] == 1 else document["map"]["parameters"]
    kind = "temperature" if document["format_version"] == 1 else document["map"]["kind"]
    T = told.get("temperature")
    if kind != "temperature":
        return []
    if isinstance(T, bool) or not isinstance(T, int | float) or not (math.isfinite(T) and T > 0):
        return [f"accepted the temperature {str(T)[:40]}"]
    if document["input"] != "logits":
        return []
    powers = (LOGITS - LOGITS.max(axis=1, keepdims=True)) / T
    expected = np.exp(powers) / np.exp(powers).sum(axis=1, keepdims=True)
    return [] if np.allclose(probabilities, expected, atol=1e-9) else [f"probabilities are not those of T = {T}"]


def _fitted(case: Case, printed: dict, document: dict) -> list[str]:
    """The temperature is finite, written as printed, and that of the numbers in the file."""
    T = printed["temperature"]
    if not (isinstance(T, float) and math.isfinite(T) and T > 0):
        return [f"fitted the temperature {T!r}"]
    where = document.get("map", {}).get("parameters", document)
    if where["temperature"] != T:
        return ["printed another temperature than it wrote"]
    if case.ending not in _TEXT:
        return []
    (content,) = case.sample.files.values()
    options = case.sample.options
    provenance = document.get("provenance", document)
    used = provenance["columns"]
    if used is None:
        return []  # one column of scores has no name in the calibration
    if "columns" not in options and _FOREIGN_COLUMNS & set(used):
        return [f"counted the column {sorted(_FOREIGN_COLUMNS & set(used))[0]!r} as a class"]
    return second_reading(case.ending, content, options, used, T)


def second_reading(ending: str, content: bytes, options: dict[str, str], used: list[str], T: float) -> list[str]:
    """Compare with the temperature of what the strict reader finds in the same file."""
    import nishimori

    classes = options["classes"].split(",") if "classes" in options else None
    try:
        scores, labels, weights = strict_tables.table(
            ending,
            content,
            scores=used,
            labels=options.get("labels", "labels"),
            weights=options.get("weights"),
            classes=classes,
        )
    except strict_tables.StrictError as error:
        return [f"accepted what a strict reader refuses: {str(error)[:80]}"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            calibrator = nishimori.ExpectationConsistency(input=options.get("input", "logits"))
            expected = calibrator.fit(scores, labels, weights).temperature_
        except ValueError as error:
            return [f"fitted what Python refuses: {str(error)[:80]}"]
    return [] if math.isclose(T, expected, rel_tol=1e-9) else [f"T = {T}, but the numbers in the file give {expected}"]
