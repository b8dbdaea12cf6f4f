"""``nishimori report``: one page that tells the whole story of a model's calibration."""

import hashlib
import shlex
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

import nishimori
from nishimori._files.tables.columns import Roles
from nishimori._rows.scores import check_input, is_auto
from nishimori._support.disk import check_target
from nishimori._support.optional import require
from nishimori._support.progress import begin_step, show_progress
from nishimori.cli import _files
from nishimori.cli._files import DataSets, data_set, data_sets
from nishimori.cli._gate import BoundOption, typed_bounds
from nishimori.cli._help import FLAG, MEASURES, OUTPUT, ForceOption, JsonOption, epilog
from nishimori.cli._modules import method_names, metric_names
from nishimori.cli._options import (
    BinsOption,
    ClassesOption,
    ClustersOption,
    ColumnsOption,
    CountsOption,
    DecimalOption,
    DelimiterOption,
    FloorToFitOption,
    GroupsToFitOption,
    IgnoreIndexOption,
    IgnoreOption,
    InputOption,
    LabelsToFitOption,
    MetricsOption,
    ScoresOption,
    WeightsOption,
    floor_to_fit,
    roles_from,
    split,
)
from nishimori.cli._python_lines import python_lines
from nishimori.cli._terminal import collect_warnings, note, print_json, print_lines, print_text
from nishimori.errors import InputError

# Bytes of files that take a second to read and measure.
_LARGE = 2**25

_ENDINGS = (".html", ".htm", ".md", ".json")

PageOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="The file to write: .html, .md or .json. By default report.html, or none with --json or --markdown.",
        show_default=False,
        metavar="FILE",
        rich_help_panel=OUTPUT,
    ),
]
TitleOption = Annotated[
    str | None,
    typer.Option(
        help="What the page is about, such as the name of the model; by default the name of the last file.",
        show_default=False,
        metavar="TEXT",
        rich_help_panel=OUTPUT,
    ),
]
IdsOption = Annotated[
    str | None,
    typer.Option(
        help="Name of the array or column with a name for each sample, which is shown with the most confident errors.",
        show_default=False,
        metavar="NAME",
        rich_help_panel=MEASURES,
    ),
]
MethodsOption = Annotated[
    str | None,
    typer.Option(
        help="Further methods for the tables, comma-separated: names, or package.module:Name.",
        show_default=False,
        metavar="NAMES",
        rich_help_panel=MEASURES,
    ),
]
LevelOption = Annotated[float, typer.Option(help="Level of all intervals.", metavar="SHARE", rich_help_panel=MEASURES)]
MarkdownOption = Annotated[
    bool, typer.Option("--markdown", help="Print the report as Markdown.", metavar=FLAG, rich_help_panel=OUTPUT)
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
    input: InputOption = None,
    floor: FloorToFitOption = None,
    scores_name: ScoresOption = None,
    labels: LabelsToFitOption = None,
    weights: WeightsOption = None,
    ignore_index: IgnoreIndexOption = None,
    clusters: ClustersOption = None,
    groups: GroupsToFitOption = None,
    counts: CountsOption = False,
    columns: ColumnsOption = None,
    ignore: IgnoreOption = None,
    classes: ClassesOption = None,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = ".",
    n_bins: BinsOption = 15,
    as_json: JsonOption = False,
    markdown: MarkdownOption = False,
    force: ForceOption = False,
) -> None:
    """Write one HTML page about the calibration of a model.

    It has a verdict in words, the temperatures, a slider over T, the classes that are off, and the errors.
    """
    if as_json and markdown:
        raise typer.BadParameter("choose one of --json and --markdown.")
    used = floor_to_fit(floor)
    check_input(input, used, fits=True)
    target = Path("report.html") if output is None and not (as_json or markdown) else output
    sets, known = data_sets(files), None if classes is None else split(classes)
    _check_output(target, overwrite=force)
    said = (input, floor, scores_name, labels, weights, clusters, groups, ids, columns, ignore, classes, delimiter)
    about = (columns, ignore, (delimiter, decimal), known)
    roles = roles_from(
        input,
        scores_name,
        labels,
        weights,
        *about,
        clusters=clusters,
        groups=groups,
        ids=ids,
        ignore_index=ignore_index,
    )
    also = (ignore_index is not None, decimal != ".", counts)
    options: dict[str, Any] = {"classes": known, "level": level, "n_bins": n_bins}
    options["methods"] = () if methods is None else method_names(methods)
    options["metrics"] = None if metrics is None else metric_names(metrics)
    options["bounds"] = typed_bounds(bound) if bound else None
    options["floor"] = "auto" if is_auto(used) else None  # the data know a number
    with _preparing(target, files), show_progress(None):
        about_rows = {"floor": used, "counts": counts}
        found = _made(sets, roles, (*said, *also), about_rows, {"title": title or sets[-1][0].name, **options})
        if target is not None:
            begin_step(f"Writing {target}")
            found.save(target, overwrite=force)
    _show(found, target, as_json=as_json, as_markdown=markdown)


def _made(
    sets: Sequence[list[Path]], roles: Roles, said: Sequence[Any], about_rows: dict[str, Any], options: dict[str, Any]
) -> "nishimori.Report":
    """The report, with the files and the command that it comes from."""
    with collect_warnings() as warned:
        # Mistakes are listed of the last data only, so that other data need no names of samples.
        others = replace(roles, unused=("ids",))
        data = [data_set(each, others, said, **about_rows) for each in sets[:-1]]
        data.append(last := data_set(sets[-1], roles, said, **about_rows))
        _refuse_other_classes(data, sets)
        names = last.ids
        if options["classes"] is None:
            options["classes"] = last.class_names
        found = nishimori.Report(data[0], test_logits=data[1] if len(data) > 1 else None, ids=names, **options)
    from nishimori.report._report import method_of_code  # noqa: PLC0415 - with which scikit-learn comes

    about = found.to_dict()
    about["provenance"] |= {"files": _hashes(sets), "command": _command()}
    code = python_lines(sets, roles, method_of_code(about["recommended"]), **about_rows)
    return nishimori.Report.from_dict(about | {"code": code, "warnings": warned})


def _refuse_other_classes(data: Sequence[Any], sets: Sequence[list[Path]]) -> None:
    """Refuse test data with another number of classes, by the names of the files."""
    first, last = data[0].n_classes, data[-1].n_classes
    if last != first:
        raise InputError(f"The file {sets[-1][0]}", f"have {first} classes, as {sets[0][0]} has", got=last)


def _preparing(target: Path | None, files: Sequence[Path]) -> AbstractContextManager[None]:
    """Start what draws the page while large files are read; for small ones another process would take longer."""
    is_page = target is not None and target.suffix.lower() in (".html", ".htm")
    large = sum(path.stat().st_size for path in files if path.is_file()) > _LARGE
    if not (is_page and large):
        return nullcontext()
    from nishimori.report._vega import start_meanwhile  # noqa: PLC0415 - with which scikit-learn comes

    return start_meanwhile()


def _show(found: "nishimori.Report", target: Path | None, *, as_json: bool, as_markdown: bool) -> None:
    if as_json:
        print_json(found.to_dict())
    elif as_markdown:
        print_lines(found.to_markdown())
    else:
        for line in found.verdict.splitlines():
            print_text(line)
    if target is not None:
        note(f"Wrote {target}")


def _check_output(target: Path | None, *, overwrite: bool) -> None:
    """Refuse a file that cannot be written, before the work is done; None is no file."""
    if target is None:
        return
    if target.suffix.lower() not in _ENDINGS:
        raise InputError("path", "be a file that ends in .html, .md or .json", got=target)
    _files.refuse_folder(target, "report.html")
    check_target(target, overwrite=overwrite)
    if target.suffix.lower() in (".html", ".htm"):
        require("vl_convert", extra="report", for_="The page")
        require("jinja2", extra="report", for_="The page")


def _hashes(sets: Sequence[Sequence[Path]]) -> list[dict[str, Any]]:
    """Name, size and SHA-256 of each file, so that a reader can tell which data a page is about."""
    rows = []
    for role, paths in zip(("validation", "test"), sets, strict=False):
        for path in paths:
            parts = sorted(each for each in path.iterdir() if each.is_file()) if path.is_dir() else [path]
            for part in parts:
                with part.open("rb") as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
                rows.append({"role": role, "name": part.name, "bytes": part.stat().st_size, "sha256": digest})
    return rows


def _command() -> str:
    """The line that was typed."""
    return shlex.join(["nishimori", *sys.argv[1:]])
