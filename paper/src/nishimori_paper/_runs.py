"""Runs of an artefact: each finished piece goes into one JSON file, from which an interrupted run continues."""

import csv
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import nishimori
from nishimori._support.disk import check_folder, check_target, new_file
from nishimori._support.json import JsonError, read_json
from nishimori._support.progress import Report, silent
from nishimori.errors import FormatError, InputError, setting
from nishimori_paper._artefact import Artefact, Finding, Pieces, Row, Scale

# What a run's file must have. The pieces are checked by the artefact that made them, when it uses them.
_SCHEMA = {"artefact": str, "version": str, "settings": dict, "complete": bool, "pieces": dict}
_SCALAR = str | int | float | None


@dataclass(frozen=True)
class Outcome:
    """The findings of a run, the files it wrote, and whether it did any work (``fresh``) or found everything done."""

    findings: Sequence[Finding]
    files: Sequence[Path]
    fresh: bool


class Store:
    """The pieces done so far, in a JSON file that is complete and readable at any time."""

    def __init__(self, path: Path, artefact: Artefact, scale: Scale) -> None:
        self.path = path
        # Not the path of the trained networks: they are in the same folder, which may be moved or renamed.
        settings = asdict(scale) | {"networks": "trained" if scale.networks else None}
        self.header = {"artefact": artefact.name, "version": nishimori.__version__, "settings": settings}
        self.pieces: dict[str, Any] = {}
        self.complete = False

    def resume(self) -> None:
        """Load the pieces of an earlier run with the same settings."""
        if not self.path.exists():
            return
        check_target(self.path, overwrite=True)  # reading a device would not end
        content = read(self.path)
        header = {key: content.get(key) for key in self.header}
        if header != self.header:
            raise FileExistsError(
                f"{self.path} holds another run ({_brief(header)}), not this one ({_brief(self.header)}). "
                f"Repeat that run, pass another {setting('folder')}, or pass {setting('overwrite', True)} to replace it."
            )
        self.pieces, self.complete = content["pieces"], content["complete"]

    def add(self, key: str, value: Any) -> None:
        """Keep a piece and write it to disk at once."""
        self.pieces[key] = value
        self._write({"complete": False, "pieces": self.pieces})

    def finish(self, findings: Sequence[Finding]) -> None:
        """Write the findings; the pieces stay in the file for `check`."""
        rows = [_row(finding) for finding in findings]
        self._write({"complete": True, "findings": rows, "pieces": self.pieces})

    def _write(self, content: dict[str, Any]) -> None:
        with new_file(self.path, overwrite=True) as temporary:
            text = json.dumps({**self.header, **content}, indent=1, ensure_ascii=False)
            temporary.write_text(text + "\n", encoding="utf-8")


def run(
    artefact: Artefact,
    folder: str | os.PathLike[str],
    *,
    scale: Scale,
    overwrite: bool = False,
    report: Report = silent,
) -> Outcome:
    """Compute an artefact and write its picture (PNG, SVG), its tables (CSV) and all results (JSON) to ``folder``."""
    from matplotlib import pyplot  # noqa: PLC0415 - half a second, which `check` does not need

    target = Path(folder)
    check_folder(target, for_="the results need")
    store = Store(_path(artefact, target), artefact, scale)
    if not overwrite:
        store.resume()
    pictures = [target / f"{artefact.name}.{ending}" for ending in ("png", "svg") if artefact.has_picture]
    target.mkdir(parents=True, exist_ok=True)
    if not store.pieces:
        for path in (store.path, *pictures, *target.glob(f"{artefact.name}.csv"), *target.glob(f"{artefact.name}-*.csv")):
            check_target(path, overwrite=overwrite)
    pieces = artefact.pieces(scale)
    store.pieces = {key: store.pieces[key] for key in pieces if key in store.pieces}
    for key, value in _done(artefact, store.pieces, pieces, report):
        store.add(key, value)
    with _of(store.path):
        findings = _findings(artefact, store.pieces)
        sheets = _sheets(artefact, artefact.tables(store.pieces), target)
    files = [*pictures, *sheets, store.path]
    fresh = not (store.complete and all(path.exists() for path in files))
    if fresh:
        report(f"{artefact.name}: drawing", len(pieces), len(pieces))
        # Files of an earlier run with the same settings may be replaced; other files were refused above.
        for path, rows in sheets.items():
            _write_csv(path, rows)
        if artefact.has_picture:
            with _of(store.path):
                figure = artefact.draw(store.pieces, pyplot)
            _draw(figure, pictures, pyplot)
        store.finish(findings)
    return Outcome(findings, files, fresh)


def check(
    artefact: Artefact, folder: str | os.PathLike[str] | None, *, scale: Scale, report: Report = silent
) -> Sequence[Finding]:
    """Compare an artefact with the paper: the results of a finished run in ``folder`` or, without it, results computed now."""
    if folder is not None:
        path = _path(artefact, Path(folder))
        pieces = _finished(artefact, path)
        with _of(path):
            return _findings(artefact, pieces)
    work = artefact.pieces(scale)
    compared = {key: work[key] for key in artefact.compared_pieces(scale)}
    return artefact.findings(dict(_done(artefact, {}, compared, report)))


def read(path: Path) -> dict[str, Any]:
    """The content of a run's file, finished or not."""
    try:
        content: dict[str, Any] = read_json(path)
    except JsonError as error:
        raise FormatError(
            f"{path} is damaged: {error}. Remove it, or pass {setting('overwrite', True)} to replace it."
        ) from None
    if not isinstance(content, dict) or not all(isinstance(content.get(key), kind) for key, kind in _SCHEMA.items()):
        raise FormatError(f"{path} is not a result of `nishimori_paper.run`. Remove it, or pass another {setting('folder')}.")
    if not all(isinstance(value, _SCALAR) for value in content["settings"].values()):
        raise FormatError(f"{path} is not a result of `nishimori_paper.run`. Remove it, or pass another {setting('folder')}.")
    return content


@contextmanager
def _of(path: Path) -> Iterator[None]:
    """Report unreadable or unusable content of ``path`` as damage since it was written."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:  # pieces may have any shape, and each artefact fails in its own way on others
        brief = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise FormatError(
            f"{path} is damaged: {brief}. Remove it, or pass {setting('overwrite', True)} to replace it."
        ) from error


def _findings(artefact: Artefact, pieces: Pieces) -> Sequence[Finding]:
    """The findings, if they compare numbers or words."""
    findings = artefact.findings(pieces)
    for finding in findings:
        for value in (finding.ours, finding.paper_method):
            if not isinstance(value, int | float | str | None):
                raise TypeError(f"{finding.what} is of type {type(value).__name__}")
    return findings


def _path(artefact: Artefact, folder: Path) -> Path:
    return folder / f"{artefact.name}.json"


def _finished(artefact: Artefact, path: Path) -> Pieces:
    if not path.is_file():
        raise FileNotFoundError(
            f"There is no {path}. Run {artefact.name} with this {setting('folder')} first, or "
            f"leave out {setting('folder')} to compute it now."
        )
    content = read(path)
    if not content["complete"]:
        raise InputError(f"The run in {path} is not finished. Repeat it with the same arguments, and it continues.")
    if content.get("version") != nishimori.__version__:
        raise InputError(
            f"{path} was written by version {content['version']:.40}, and this is version {nishimori.__version__}. "
            f"Run {artefact.name} again with {setting('overwrite', True)}."
        )
    pieces: Pieces = content["pieces"]
    return pieces


def _done(
    artefact: Artefact, there: Pieces, pieces: Mapping[str, Callable[[], Any]], report: Report
) -> Iterator[tuple[str, Any]]:
    """Compute the pieces that are not in ``there`` one by one."""
    missing = {key: work for key, work in pieces.items() if key not in there}
    n_stored = len(pieces) - len(missing)
    # Pieces of an earlier run count as done from the start: they tell nothing about how long the others take.
    for i, (key, work) in enumerate(missing.items(), start=n_stored):
        report(f"{artefact.name}: {key}", i, len(pieces))
        yield key, _plain(work())


def _plain(value: Any) -> Any:
    """The value after a round trip through JSON."""
    return json.loads(json.dumps(value))


def _sheets(artefact: Artefact, tables: Mapping[str, Sequence[Row]], folder: Path) -> dict[Path, Sequence[Row]]:
    single = len(tables) == 1
    return {
        folder / (f"{artefact.name}.csv" if single else f"{artefact.name}-{name}.csv"): rows for name, rows in tables.items()
    }


def _draw(figure: Any, pictures: Sequence[Path], pyplot: Any) -> None:
    try:
        for picture in pictures:
            with new_file(picture, overwrite=True) as temporary:
                figure.savefig(temporary, dpi=150)
    finally:
        pyplot.close(figure)


def _write_csv(path: Path, rows: Sequence[Row]) -> None:
    with new_file(path, overwrite=True) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _row(finding: Finding) -> dict[str, Any]:
    """A finding as JSON; the last two keys are the former names of `paper_method` and `explanation`, kept until 0.3."""
    old = {"in_their_way": finding.paper_method, "because": finding.explanation}
    row = asdict(finding) | {"verdict": finding.verdict} | old
    return {key: value for key, value in row.items() if key != "statement" or value is not None}


def _brief(header: dict[str, Any]) -> str:
    settings = ", ".join(f"{key} = {value}" for key, value in (header.get("settings") or {}).items())[:200]
    return f"{header['artefact']:.40}, version {header['version']:.40}, {settings}"
