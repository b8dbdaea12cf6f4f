"""``nishimori compare``: several methods on the same data, with errors, differences and verdicts."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import nishimori
from nishimori._comparison import Comparison
from nishimori._inputs import Batch
from nishimori._labels import refuse_permuted, spelled_as
from nishimori._progress import Report, shown, silent
from nishimori._reliability import Strategy
from nishimori._scores import Input, check_input
from nishimori._sketch import Sketch
from nishimori._sources import Reported, Source, source
from nishimori._sources._source import T
from nishimori.cli import _files
from nishimori.cli._files import LogitFile, Names
from nishimori.cli._options import (
    ClassesOption,
    ClustersOption,
    ColumnsOption,
    CountsOption,
    DecimalOption,
    DelimiterOption,
    FloorOption,
    IgnoreOption,
    LabelsToFitOption,
    ScoresOption,
    WeightsOption,
    names_from,
    split,
)
from nishimori.cli._sketch_file import about_sketches, opened_sketch
from nishimori.cli._terminal import JsonOption, heard, note_columns, print_json, print_lines, print_tabular, print_text
from nishimori.errors import InputError

DataSets = Annotated[
    list[Path],
    typer.Argument(
        help="Validation data, and test data if there are any: a file each, as for fit, or a sketch. Of .npy files two each: "
        "scores, labels.",
        show_default=False,
    ),
]


def compare(
    files: DataSets,
    methods: Annotated[str, typer.Option(help="Names of methods, comma-separated; none is the model as it is.")] = (
        "none,ts,ec,auto"
    ),
    level: Annotated[float, typer.Option(help="Level of intervals and, as 1 - level, of tests.")] = 0.95,
    target: Annotated[float, typer.Option(help="Relative precision of T that further samples should bring.")] = 0.02,
    input: Annotated[Input, typer.Option(help="What the scores are; nothing is guessed.")] = "logits",
    floor: FloorOption = None,
    scores_name: ScoresOption = None,
    labels: LabelsToFitOption = None,
    weights: WeightsOption = None,
    clusters: ClustersOption = None,
    counts: CountsOption = False,
    columns: ColumnsOption = None,
    ignore: IgnoreOption = None,
    classes: ClassesOption = None,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = ".",
    n_bins: Annotated[int, typer.Option(help="Bins of the ECE.")] = 15,
    strategy: Annotated[Strategy, typer.Option(help="Bins of equal width, or of equal weight as in the paper.")] = "uniform",
    as_json: JsonOption = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the result as Markdown.")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="Print the table as LaTeX.")] = False,
) -> None:
    """Fit several methods to validation data, measure them on test data, and say what the numbers mean."""
    if as_json + markdown + latex > 1:
        raise typer.BadParameter("choose one of --json, --markdown and --latex.")
    check_input(input, floor)
    known = None if classes is None else split(classes)
    said = (input != "logits", floor, scores_name, labels, weights, clusters, columns, ignore, classes, delimiter)
    names = names_from(input, scores_name, labels, weights, columns, ignore, (delimiter, decimal), known, clusters=clusters)
    with heard() as told, shown(None) as report:
        sets = [_opened(each, names, (input, known, floor), (*said, decimal != "."), report) for each in _data_sets(files)]
        with about_sketches():
            found = nishimori.compare(
                sets[0],
                X_test=sets[1] if len(sets) > 1 else None,
                methods=split(methods),
                counts=counts,
                level=level,
                target=target,
                n_bins=n_bins,
                strategy=strategy,
            )
    _show(found, told, "json" if as_json else "markdown" if markdown else "latex" if latex else "text")


def _show(found: Comparison, told: list[str], form: Literal["json", "markdown", "latex", "text"]) -> None:
    if form == "json":
        print_json(found.to_dict() | {"warnings": told, "library_version": nishimori.__version__})
    elif form != "text":
        print_lines(found.to_markdown() if form == "markdown" else found.to_latex())
    else:
        for table in (found.table, found.difference_table):
            if table is not None:
                print_tabular(table)
        for verdict in found.verdicts:
            print_text(verdict)


def _data_sets(files: Sequence[Path]) -> list[list[Path]]:
    """The files of the validation data and, if there are any, of the test data."""
    _files.check_inputs(files, folders=True)
    in_pairs = {path.suffix.lower() for path in files if not path.is_dir()} == {".npy"}
    size = 2 if in_pairs else 1
    if len(files) not in (size, 2 * size):
        each = "two .npy files each (scores, labels)" if in_pairs else "one file each"
        number = "1 file" if len(files) == 1 else f"{len(files)} files"
        raise InputError(f"Pass validation data, or validation and test data, {each}, got {number}.")
    return [list(files[start : start + size]) for start in range(0, len(files), size)]


class _Located(Reported):
    """The rows of a data set whose errors name the file, its lines and its columns."""

    def __init__(self, inner: Source, data: LogitFile, path: Path, labels: str | None, report: Report) -> None:
        super().__init__(inner, f"Reading {path.name}", report)
        self._file, self._path, self._labels = data, path, labels

    def gather(self, pass_: Callable[[Batch], T], report: Report = silent) -> T:
        """The sum of ``pass_`` over all rows."""
        try:
            with _files.located(self._file.lines, self._file.columns, labels=self._labels, files=self._file.files):
                return super().gather(pass_, report)
        except InputError as error:
            raise InputError(f"{self._path}: {error}") from None


def _opened(
    files: list[Path],
    names: Names,
    meaning: tuple[Input, list[str] | None, float | None],
    said: tuple[Any, ...],
    report: Report,
) -> Source | Sketch:
    """One data set: the rows of a file, or a sketch."""
    if (sums := opened_sketch(files, *said)) is not None:
        return sums
    kind, known, floor = meaning
    data = _files.read(files, names, report)
    refuse_permuted(data.columns, known)
    note_columns(data.columns)
    column = None if len(files) == 2 else names.labels
    options: dict[str, Any] = {"input": kind, "classes": known, "floor": floor, "names": ("scores", "labels")}
    try:
        with _files.located(data.lines, data.columns, labels=column, files=data.files):
            rows = source(data.scores, spelled_as(data.labels, known), data.weights, clusters=data.clusters, **options)
    except InputError as error:
        raise InputError(f"{files[0]}: {error}") from None
    return _Located(rows, data, files[0], column, report)
