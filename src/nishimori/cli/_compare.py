"""``nishimori compare``: several methods on the same data, with errors, differences and verdicts."""

from typing import Annotated, Literal

import typer

import nishimori
from nishimori._evaluation.comparison import Comparison
from nishimori._rows.scores import check_input, is_auto
from nishimori._support.progress import show_progress
from nishimori.cli._files import DataSets, data_set, data_sets
from nishimori.cli._help import FLAG, OUTPUT, JsonOption, MarkdownOption, epilog
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
    StrategyOption,
    WeightsOption,
    floor_to_fit,
    roles_from,
    split,
)
from nishimori.cli._terminal import (
    collect_warnings,
    print_json,
    print_lines,
    print_tabular,
    print_text,
)

MethodsOption = Annotated[
    str | None,
    typer.Option(
        help=(
            "Names of methods, comma-separated, or package.module:Name; none is the model as it is. By default those that "
            "report tries."
        ),
        show_default=False,
        metavar="NAMES",
    ),
]
LatexOption = Annotated[bool, typer.Option("--latex", help="Print the table as LaTeX.", metavar=FLAG, rich_help_panel=OUTPUT)]
TestLevelOption = Annotated[float, typer.Option(help="Level of intervals and, as 1 - level, of tests.", metavar="SHARE")]

EPILOG = epilog(
    "nishimori compare val.npz test.npz",
    "nishimori compare val.npz test.npz --methods none,ts,ec,bias --markdown",
)


def compare(
    files: DataSets,
    methods: MethodsOption = None,
    metrics: MetricsOption = None,
    level: TestLevelOption = 0.95,
    n_bins: BinsOption = 15,
    strategy: StrategyOption = "uniform",
    input: InputOption = None,
    floor: FloorToFitOption = None,
    scores_name: ScoresOption = None,
    labels: LabelsToFitOption = None,
    classes: ClassesOption = None,
    weights: WeightsOption = None,
    ignore_index: IgnoreIndexOption = None,
    counts: CountsOption = False,
    clusters: ClustersOption = None,
    groups: GroupsToFitOption = None,
    columns: ColumnsOption = None,
    ignore: IgnoreOption = None,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = ".",
    as_json: JsonOption = False,
    markdown: MarkdownOption = False,
    latex: LatexOption = False,
) -> None:
    """Fit several methods, measure them, and say what the numbers mean.

    Methods are fitted to validation data and measured on test data, or on the same data where there are no others.
    """
    if as_json + markdown + latex > 1:
        raise typer.BadParameter("choose one of --json, --markdown and --latex.")
    used = floor_to_fit(floor)
    check_input(input, used, fits=True)
    known = None if classes is None else split(classes)
    said = (input, floor, scores_name, labels, weights, clusters, groups, columns, ignore, classes, delimiter)
    about = (columns, ignore, (delimiter, decimal), known)
    roles = roles_from(input, scores_name, labels, weights, *about, clusters=clusters, groups=groups, ignore_index=ignore_index)
    also = (ignore_index is not None, decimal != ".", counts)
    with collect_warnings() as told, show_progress(None):
        sets = [data_set(each, roles, (*said, *also), floor=used, counts=counts) for each in data_sets(files)]
        if known is None:
            known = sets[-1].class_names
        found = nishimori.compare(
            sets[0],
            test_logits=sets[1] if len(sets) > 1 else None,
            methods=None if methods is None else method_names(methods),
            classes=known,
            metrics=None if metrics is None else metric_names(metrics),
            floor="auto" if is_auto(used) else None,  # the data know a number
            level=level,
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
        for table in found.tables.values():
            print_tabular(table)
        for verdict in found.verdicts:
            print_text(verdict)
