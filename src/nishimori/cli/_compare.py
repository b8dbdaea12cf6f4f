"""``nishimori compare``: several methods on the same data, with errors, differences and verdicts."""

from typing import Annotated

import nishimori
from nishimori._rows.scores import check_input, is_auto
from nishimori._support.progress import show_progress
from nishimori.cli._files import data_set, data_sets
from nishimori.cli._help import OUTPUT, JsonOption, MarkdownOption, epilog, flag, form_of, option
from nishimori.cli._options import BinsOption, Data, DataSets, LevelOption, MetricsOption, StrategyOption, method_names
from nishimori.cli._terminal import collect_warnings, print_result

MethodsOption = Annotated[
    str | None,
    option(
        "Names of methods, comma-separated, or package.module:Name; none is the uncalibrated model. By default the "
        "methods that report tries.",
        "NAMES",
    ),
]
LatexOption = Annotated[bool, flag("Print the table as LaTeX.", "--latex", panel=OUTPUT)]

EPILOG = epilog(
    "nishimori compare val.npz test.npz",
    "nishimori compare val.npz test.npz --methods none,ts,ec,bias --markdown",
)


def compare(
    files: DataSets,
    methods: MethodsOption = None,
    metrics: MetricsOption = None,
    level: LevelOption = 0.95,
    n_bins: BinsOption = 15,
    strategy: StrategyOption = "uniform",
    *,
    data: Data,
    as_json: JsonOption = False,
    markdown: MarkdownOption = False,
    latex: LatexOption = False,
) -> None:
    """Fit several methods, measure them, and say what the numbers mean.

    Methods are fitted to validation data and measured on test data, or on the same data where there are no others.
    """
    form = form_of(json=as_json, markdown=markdown, latex=latex)
    check_input(data.meaning, data.floor_to_fit, fits=True)
    with collect_warnings() as warned, show_progress(None):
        sets = [data_set(paths, data) for paths in data_sets(files)]
        comparison = nishimori.compare(
            sets[0],
            test_logits=sets[1] if len(sets) > 1 else None,
            methods=None if methods is None else method_names(methods),
            classes=sets[-1].class_names if data.classes is None else data.classes,
            metrics=metrics,
            floor="auto" if is_auto(data.floor_to_fit) else None,  # the data know a number
            level=level,
            n_bins=n_bins,
            strategy=strategy,
        )
    about = {"warnings": warned, "library_version": nishimori.__version__}
    print_result(comparison, form, about, comparison.tables.values(), comparison.verdicts)
