"""Running an artefact: piece by piece into one JSON file, which a later run takes up where this one stopped."""

import csv
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import nishimori
from nishimori._disk import check_folder, check_target, new_file
from nishimori._optional import require
from nishimori._progress import Report, silent
from nishimori.errors import FormatError, InputError
from nishimori.paper._artefact import Artefact, Finding, Pieces, Row, Scale


@dataclass(frozen=True)
class Outcome:
    """What a run found, the files it left, and whether it computed anything or found them there."""

    findings: Sequence[Finding]
    files: Sequence[Path]
    fresh: bool


class Store:
    """Pieces done so far, in a file that is whole at any time."""

    def __init__(self, path: Path, artefact: Artefact, scale: Scale) -> None:
        self.path = path
        # Trained networks lie in the same folder, whatever it is called today.
        settings = asdict(scale) | {"networks": "trained" if scale.networks else None}
        self.header = {"artefact": artefact.name, "version": nishimori.__version__, "settings": settings}
        self.pieces: dict[str, Any] = {}
        self.complete = False

    def resume(self) -> None:
        """Take up what an earlier run of the same left."""
        if not self.path.exists():
            return
        content = read(self.path)
        found = {key: content.get(key) for key in self.header}
        if found != self.header:
            raise FileExistsError(
                f"{self.path} holds another run ({_brief(found)}), not this one ({_brief(self.header)}). "
                "Ask for the same, choose another folder with -o, or replace it with overwrite=True (--force in the shell)."
            )
        self.pieces, self.complete = content["pieces"], content["complete"]

    def add(self, key: str, value: Any) -> None:
        """Keep a piece, on disk at once."""
        self.pieces[key] = value
        self._write({"complete": False, "pieces": self.pieces})

    def finish(self, findings: Sequence[Finding]) -> None:
        """Write the findings; the pieces stay, for `check`."""
        rows = [asdict(each) | {"verdict": each.verdict} for each in findings]
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
    """Compute an artefact and write its picture (PNG, SVG), its tables (CSV) and everything (JSON) to ``folder``."""
    pyplot = require("matplotlib.pyplot", extra="paper", for_="Drawing the paper's figures")
    target = Path(folder)
    check_folder(target, for_="the results need")
    store = Store(_path(artefact, target), artefact, scale)
    if not overwrite:
        store.resume()
    pictures = [target / f"{artefact.name}.{ending}" for ending in ("png", "svg")]
    target.mkdir(parents=True, exist_ok=True)
    if not store.pieces:
        for path in (store.path, *pictures, *target.glob(f"{artefact.name}.csv"), *target.glob(f"{artefact.name}-*.csv")):
            check_target(path, overwrite=overwrite)
    pieces = artefact.pieces(scale)
    store.pieces = {key: store.pieces[key] for key in pieces if key in store.pieces}
    for key, value in _done(artefact, store.pieces, pieces, report):
        store.add(key, value)
    with _of(store.path):
        findings = artefact.findings(store.pieces)
        sheets = _sheets(artefact, artefact.tables(store.pieces), target)
    files = [*pictures, *sheets, store.path]
    fresh = not (store.complete and all(path.exists() for path in files))
    if fresh:
        # What an earlier run of the same left is ours to replace; anything else was refused above.
        for path, rows in sheets.items():
            _write_csv(path, rows)
        _draw(artefact, store.pieces, pictures, pyplot)
        store.finish(findings)
    return Outcome(findings, files, fresh)


def check(
    artefact: Artefact, folder: str | os.PathLike[str] | None, *, scale: Scale, report: Report = silent
) -> Sequence[Finding]:
    """Compare an artefact with the paper, with what a run left in ``folder`` or, without one, computed now."""
    if folder is not None:
        path = _path(artefact, Path(folder))
        pieces = _finished(artefact, path)
        with _of(path):
            return artefact.findings(pieces)
    work = artefact.pieces(scale)
    compared = {key: work[key] for key in artefact.compared_pieces(scale)}
    return artefact.findings(dict(_done(artefact, {}, compared, report)))


def read(path: Path) -> dict[str, Any]:
    """What a run left, complete or not."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise FormatError(f"{path} is damaged: {error}. Remove it, or replace it with overwrite=True (--force).") from None
    parts = (content.get("pieces"), content.get("settings")) if isinstance(content, dict) else (None,)
    if not all(isinstance(part, dict) for part in parts) or "complete" not in content:
        raise FormatError(f"{path} is no result of `nishimori paper run`. Remove it, or choose another folder with -o.")
    return content


@contextmanager
def _of(path: Path) -> Iterator[None]:
    """Pieces that do not have the shape they were written in have been changed since."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise FormatError(f"{path} is damaged: {error!r}. Remove it, or replace it with overwrite=True (--force).") from error


def _path(artefact: Artefact, folder: Path) -> Path:
    return folder / f"{artefact.name}.json"


def _finished(artefact: Artefact, path: Path) -> Pieces:
    again = f"`nishimori paper run {artefact.name} -o {path.parent}`"
    if not path.is_file():
        raise FileNotFoundError(f"There is no {path}. Run {again} first, or leave -o out to compute now.")
    content = read(path)
    if not content["complete"]:
        raise InputError(f"The run in {path} is not finished. Repeat {again}, with the same options, and it goes on.")
    if content.get("version") != nishimori.__version__:
        raise InputError(
            f"{path} is of version {content.get('version')}, and this is {nishimori.__version__}. Repeat {again} --force."
        )
    pieces: Pieces = content["pieces"]
    return pieces


def _done(
    artefact: Artefact, there: Pieces, pieces: Mapping[str, Callable[[], Any]], report: Report
) -> Iterator[tuple[str, Any]]:
    """Each piece that is not there yet, as it is finished."""
    for i, (key, work) in enumerate(pieces.items()):
        report(f"{artefact.name}: {key}", i, len(pieces))
        if key not in there:
            yield key, _plain(work())


def _plain(value: Any) -> Any:
    """As it will be when it is read again."""
    return json.loads(json.dumps(value))


def _sheets(artefact: Artefact, tables: Mapping[str, Sequence[Row]], folder: Path) -> dict[Path, Sequence[Row]]:
    single = len(tables) == 1
    return {
        folder / (f"{artefact.name}.csv" if single else f"{artefact.name}-{name}.csv"): rows for name, rows in tables.items()
    }


def _draw(artefact: Artefact, pieces: Pieces, pictures: Sequence[Path], pyplot: Any) -> None:
    figure = artefact.draw(pieces, pyplot)
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


def _brief(header: dict[str, Any]) -> str:
    settings = ", ".join(f"{key} = {value}" for key, value in (header.get("settings") or {}).items())
    return f"{header.get('artefact')}, version {header.get('version')}, {settings}"
