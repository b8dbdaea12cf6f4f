"""``nishimori report``: one page that tells the whole story of a model's calibration."""

import hashlib
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, cast

import nishimori
from nishimori._files.file_rows import FileRows
from nishimori._rows.scores import check_input, is_auto
from nishimori._sketch.archive import is_sketch_file
from nishimori._sketch.sketch import Sketch
from nishimori._support.optional import require
from nishimori._support.progress import begin_step, show_progress
from nishimori.cli import _files
from nishimori.cli._files import data_set, data_sets
from nishimori.cli._gate import BoundOption, typed_bounds
from nishimori.cli._help import MEASURES, OUTPUT, ForceOption, JsonOption, MarkdownOption, epilog, form_of, option
from nishimori.cli._options import BinsOption, Data, DataOptions, DataSets, LevelOption, MetricsOption, method_names
from nishimori.cli._terminal import collect_warnings, note, print_result

# Arguments of `nishimori.rows` whose names are not those of the options.
_IN_PYTHON = {"weights": "sample_weight", "scores": "columns"}

_ENDINGS = (".html", ".htm", ".md", ".json")

PageOption = Annotated[
    Path | None,
    option(
        "The file to write: .html, .md or .json. By default report.html, or none with --json or --markdown.",
        "FILE",
        "--output",
        "-o",
        panel=OUTPUT,
    ),
]
TitleOption = Annotated[
    str | None,
    option("Title of the page, such as the name of the model; by default the name of the last file.", "TEXT", panel=OUTPUT),
]
IdsOption = Annotated[
    str | None,
    option(
        "Name of the array or column with a name for each sample, which is shown with the most confident errors.",
        "NAME",
        panel=MEASURES,
    ),
]
MethodsOption = Annotated[
    str | None,
    option("Further methods for the tables, comma-separated: names, or package.module:Name.", "NAMES", panel=MEASURES),
]

EPILOG = epilog(
    "nishimori report val.npz test.npz -o report.html",
    "nishimori report val.npz test.npz --bound ece=0.02 --title ResNet-20",
    "nishimori report val.npz --markdown",
)


def report(
    files: DataSets,
    output: PageOption = None,
    title: TitleOption = None,
    ids: IdsOption = None,
    methods: MethodsOption = None,
    metrics: MetricsOption = None,
    bound: BoundOption = None,
    level: LevelOption = 0.95,
    *,
    data: Data,
    n_bins: BinsOption = 15,
    as_json: JsonOption = False,
    markdown: MarkdownOption = False,
    force: ForceOption = False,
) -> None:
    """Write one HTML page about the calibration of a model.

    It has a verdict in words, the temperatures, a slider over T, the classes that are off, and the errors.
    """
    form = form_of(json=as_json, markdown=markdown)
    check_input(data.meaning, data.floor_to_fit, fits=True)
    target = Path("report.html") if output is None and form == "text" else output
    sets = data_sets(files)
    if target is not None:  # before the work is done
        _files.check_output(target, _ENDINGS, "report.html", overwrite=force)
        if target.suffix.lower() in (".html", ".htm"):
            require("vl_convert", extra="report", for_="The page")
            require("jinja2", extra="report", for_="The page")
    options: dict[str, Any] = {
        "title": title or sets[-1][0].name,
        "level": level,
        "n_bins": n_bins,
        "methods": () if methods is None else method_names(methods),
        "metrics": metrics,
        "bounds": typed_bounds(bound) if bound else None,
        "floor": "auto" if is_auto(data.floor_to_fit) else None,  # the data know a number
    }
    with show_progress(None):
        page = _make_report(sets, replace(data, ids=ids), options)
        if target is not None:
            begin_step(f"Writing {target}")
            page.save(target, overwrite=force)
    print_result(page, form, {}, lines=page.verdict.splitlines())
    if target is not None:
        note(f"Wrote {target}")


def _make_report(sets: Sequence[list[Path]], data: DataOptions, options: dict[str, Any]) -> "nishimori.Report":
    """The report, with the files and the command that it comes from."""
    with collect_warnings() as warned:
        # Mistakes are listed of the last data only, so that other data need no names of samples.
        opened = [data_set(paths, data, unused=("ids",)) for paths in sets[:-1]]
        opened.append(last := data_set(sets[-1], data))
        options["classes"] = last.class_names if data.classes is None else data.classes
        options["test_logits"] = last if len(opened) > 1 else None
        measured = nishimori.Report(opened[0], ids=last.ids, **options)
    from nishimori.report._report import code_of  # noqa: PLC0415 - with which scikit-learn comes

    about = measured.to_dict()
    about["provenance"] |= {"files": _hashes(sets), "command": shlex.join(["nishimori", *sys.argv[1:]])}
    names = ("val", "test")[: len(sets)]
    opening = (f"{name} = {_opening_call(paths, rows, data)}" for name, paths, rows in zip(names, sets, opened, strict=False))
    floor = ", floor=None" if data.floor == "none" and data.input == "probabilities" else ""
    of_claims = data.confidence is not None
    code = code_of(about["recommended"], names[0], names[-1], *opening, options=floor, of_claims=of_claims)
    return nishimori.Report.from_dict(about | {"code": code, "warnings": warned})


def _hashes(sets: Sequence[Sequence[Path]]) -> list[dict[str, Any]]:
    """Name, size and SHA-256 of each file, so that a reader can tell which data a page is about."""
    rows = []
    for role, paths in zip(("validation", "test"), sets, strict=False):
        for path in paths:
            parts = sorted(part for part in path.iterdir() if part.is_file()) if path.is_dir() else [path]
            for part in parts:
                with part.open("rb") as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
                rows.append({"role": role, "name": part.name, "bytes": part.stat().st_size, "sha256": digest})
    return rows


# Options that are passed in another way.
_NOT_OPTIONS = ("labels", "ids", "confidence", "right")


def _opening_call(files: Sequence[Path], rows: FileRows | Sketch, data: DataOptions) -> str:
    """The call that opens a data set, with what the options say about it."""
    if is_sketch_file(files[0]):
        return f"nishimori.Sketch.load({str(files[0])!r})"
    defaults = vars(DataOptions())
    typed = {name: value for name, value in vars(data).items() if value != defaults[name]}
    labels = str(files[1]) if len(files) == 2 else typed.get("labels", "labels")
    columns = cast("FileRows", rows).contents.columns
    if data.ids is not None and columns is not None:  # or the names of samples would be scores
        typed["columns"] = list(columns)
    opens = "rows"
    if data.confidence is not None:
        opens, labels, typed["columns"] = "claims", data.right or "right", data.confidence
    options = {_IN_PYTHON.get(name, name): value for name, value in typed.items() if name not in _NOT_OPTIONS}
    if isinstance(data.floor, str):  # which is a choice of the fit
        del options["floor"]
    return f"nishimori.{opens}({', '.join([repr(str(files[0])), repr(labels), *(f'{k}={v!r}' for k, v in options.items())])})"
