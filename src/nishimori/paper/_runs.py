"""Running an artefact: piece by piece into one JSON file, which a later run takes up where this one stopped."""

import csv
import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import nishimori
from nishimori._disk import check_target, new_file
from nishimori._optional import require
from nishimori.errors import FormatError, InputError
from nishimori.paper._artefact import Artefact, Finding, Pieces, Row, Scale

Report = Callable[[str, float], None]


@dataclass(frozen=True)
class Outcome:
    """What a run found, and the files it wrote."""

    findings: Sequence[Finding]
    files: Sequence[Path]


class Store:
    """Pieces done so far, in a file that is whole at any time."""

    def __init__(self, path: Path | None, artefact: Artefact, scale: Scale, *, overwrite: bool = False) -> None:
        self.path = path
        self.header = {"artefact": artefact.name, "version": nishimori.__version__, "settings": asdict(scale)}
        self.pieces: dict[str, Any] = {}
        self.complete = False
        if path is not None and path.exists() and not overwrite:
            self._resume(path)

    def add(self, key: str, value: Any) -> None:
        """Keep a piece, on disk at once."""
        self.pieces[key] = json.loads(json.dumps(value))  # as it will be read
        self._write({"complete": False, "pieces": self.pieces})

    def finish(self, content: dict[str, Any]) -> None:
        """Write the results; the pieces stay, for `check`."""
        self._write({"complete": True, **content, "pieces": self.pieces})

    def _write(self, content: dict[str, Any]) -> None:
        if self.path is not None:
            with new_file(self.path, overwrite=True) as temporary:
                temporary.write_text(
                    json.dumps({**self.header, **content}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
                )

    def _resume(self, path: Path) -> None:
        content = _read(path)
        found = {key: content.get(key) for key in self.header}
        if found != self.header:
            raise FileExistsError(
                f"{path} holds another run ({_brief(found)}), not this one ({_brief(self.header)}). "
                "Ask for the same, choose another folder with -o, or run with overwrite=True (--force in the shell)."
            )
        self.pieces = content.get("pieces", {})
        self.complete = bool(content.get("complete"))


def run(
    artefact: Artefact,
    folder: str | os.PathLike[str],
    *,
    scale: Scale,
    overwrite: bool = False,
    report: Report = lambda _, __: None,
) -> Outcome:
    """Compute an artefact and write its picture (PNG, SVG), its tables (CSV) and everything (JSON) to ``folder``."""
    pyplot = require("matplotlib.pyplot", extra="paper", for_="Drawing the paper's figures")
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise InputError(f"{target} is a file, and the results need a folder. Choose another name with -o.")
    path = target / f"{artefact.name}.json"
    store = Store(path, artefact, scale, overwrite=overwrite)
    if store.complete:
        check_target(path, overwrite=overwrite)
    overwrite = overwrite or bool(store.pieces)  # what an interrupted run of the same left is ours to replace
    pictures = [target / f"{artefact.name}.{ending}" for ending in ("png", "svg")]
    target.mkdir(parents=True, exist_ok=True)
    for picture in pictures:
        check_target(picture, overwrite=overwrite)
    compute(artefact, store, artefact.pieces(scale), report)
    tables = artefact.tables(store.pieces)
    findings = artefact.findings(store.pieces)
    sheets = {_sheet(artefact, name, len(tables)): rows for name, rows in tables.items()}
    for name, rows in sheets.items():
        _write_csv(target / name, rows, overwrite=overwrite)
    figure = artefact.draw(store.pieces, pyplot)
    try:
        for picture in pictures:
            with new_file(picture, overwrite=overwrite) as temporary:
                figure.savefig(temporary, dpi=150)
    finally:
        pyplot.close(figure)
    store.finish({"findings": [asdict(each) | {"verdict": each.verdict} for each in findings]})
    return Outcome(findings, [*pictures, *(target / name for name in sheets), path])


def check(
    artefact: Artefact, folder: str | os.PathLike[str] | None, *, scale: Scale, report: Report = lambda _, __: None
) -> Sequence[Finding]:
    """Compare an artefact with the paper, with what a run left in ``folder`` or, without one, computed now."""
    path = None if folder is None else Path(folder) / f"{artefact.name}.json"
    if path is not None and not path.exists():
        raise FileNotFoundError(
            f"There is no {path}. Run `nishimori paper run {artefact.name} -o {folder}` first, or leave -o out."
        )
    kept = Store(path, artefact, scale)
    store = Store(None, artefact, scale)  # what is computed here is not written there
    store.pieces = kept.pieces
    pieces = artefact.pieces(scale)
    compute(artefact, store, {key: pieces[key] for key in artefact.compared_pieces(scale)}, report)
    return artefact.findings(store.pieces)


def compute(artefact: Artefact, store: Store, pieces: dict[str, Callable[[], Any]] | Any, report: Report) -> Pieces:
    """Do the pieces that are not done yet."""
    for i, (key, work) in enumerate(pieces.items()):
        report(f"{artefact.name}: {key}", i / len(pieces))
        if key not in store.pieces:
            store.add(key, work())
    return store.pieces


def _sheet(artefact: Artefact, table: str, n_tables: int) -> str:
    return f"{artefact.name}.csv" if n_tables == 1 else f"{artefact.name}-{table}.csv"


def _write_csv(path: Path, rows: Iterable[Row], *, overwrite: bool) -> None:
    rows = list(rows)
    with new_file(path, overwrite=overwrite) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise FormatError(f"{path} is damaged: {error}. Remove it, or replace it with overwrite=True (--force).") from None
    if not isinstance(content, dict):
        raise FormatError(f"{path} is no result of `nishimori paper run`. Remove it, or choose another folder with -o.")
    return content


def _brief(header: dict[str, Any]) -> str:
    settings = ", ".join(f"{key} = {value}" for key, value in (header.get("settings") or {}).items())
    return f"{header.get('artefact')}, version {header.get('version')}, {settings}"
