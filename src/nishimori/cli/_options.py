"""Options that fit, apply and eval share, and what they say together."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from nishimori._files.tables.columns import Roles
from nishimori._methods.fitted_method import FittedMethod
from nishimori._rows.scores import Floor, Input
from nishimori._sums.reliability import Strategy
from nishimori.cli._help import DATA, FLAG, MEASURES, TABLES
from nishimori.errors import InputError

FIT_AGAIN = "fit again with --input probabilities"
"""What to do if scores look like probabilities and the calibration is one of logits."""

FITTED_TO_PROBABILITIES = "The calibration was fitted to probabilities. If these are logits, fit again to logits."
"""What to do if they are logits and the calibration is one of probabilities."""

Files = Annotated[
    list[Path],
    typer.Argument(
        help="Arrays (.npz .pt .safetensors; .npy: scores, labels), tables (.csv .tsv .jsonl .parquet .feather), folders, "
        "patterns.",
        show_default=False,
        metavar="FILES",
    ),
]
InputOption = Annotated[
    Input | None,
    typer.Option(
        help="logits (default) or probabilities; needed if all lie between 0 and 1.",
        show_default=False,
        metavar="KIND",
        rich_help_panel=DATA,
    ),
]
InputAsCalibratedOption = Annotated[
    Input | None,
    typer.Option(
        help="logits or probabilities; default as fitted.",
        show_default=False,
        metavar="KIND",
        rich_help_panel=DATA,
    ),
]
ScoresOption = Annotated[
    str | None,
    typer.Option(
        "--scores",
        help="Array of scores, or their one column.",
        show_default=False,
        metavar="NAME",
        rich_help_panel=DATA,
    ),
]
LabelsOption = Annotated[
    str | None,
    typer.Option(
        help="Array or column of labels; default as fitted.",
        show_default=False,
        metavar="NAME",
        rich_help_panel=DATA,
    ),
]
LabelsToFitOption = Annotated[
    str | None,
    typer.Option(
        help="Array or column of labels; labels by default.",
        show_default=False,
        metavar="NAME",
        rich_help_panel=DATA,
    ),
]
WeightsOption = Annotated[
    str | None,
    typer.Option(
        help="Array or column of sample weights.",
        show_default=False,
        metavar="NAME",
        rich_help_panel=DATA,
    ),
]
ClustersOption = Annotated[
    str | None,
    typer.Option(
        help="Array or column of what samples share, such as a document; changes standard errors, and T of adaptive.",
        show_default=False,
        metavar="NAME",
        rich_help_panel=DATA,
    ),
]
CountsOption = Annotated[
    bool,
    typer.Option(
        "--counts",
        help="Weights are numbers of independent samples.",
        metavar=FLAG,
        rich_help_panel=DATA,
    ),
]
GroupsOption = Annotated[
    str | None,
    typer.Option(
        help="Array or column of groups, such as sites.",
        show_default=False,
        metavar="NAME",
        rich_help_panel=DATA,
    ),
]
GroupsToFitOption = Annotated[
    str | None,
    typer.Option(
        help="Array or column of groups, such as sites; the method group fits one T for each.",
        show_default=False,
        metavar="NAME",
        rich_help_panel=DATA,
    ),
]
ClassesOption = Annotated[
    str | None,
    typer.Option(
        help="Labels of the columns, such as cat,dog,bird.",
        show_default=False,
        metavar="NAMES",
        rich_help_panel=DATA,
    ),
]


def _as_floor(text: str) -> float | str:
    """A number, auto, or none, which is the text of no floor; the option left out is None."""
    if text in ("auto", "none"):
        return text
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number.") from None


def floor_to_fit(option: Any) -> Floor:
    """The floor of what is fitted: auto where the option is left out."""
    return "auto" if option is None else None if option == "none" else option


FloorOption = Annotated[
    Any,
    typer.Option(
        help="Raise smaller probabilities to this.",
        show_default=False,
        metavar="P",
        parser=_as_floor,
        rich_help_panel=DATA,
    ),
]
FloorToFitOption = Annotated[
    Any,
    typer.Option(
        help="Raise smaller probabilities to this: a number, auto (default) or none.",
        show_default=False,
        metavar="P",
        parser=_as_floor,
        rich_help_panel=DATA,
    ),
]
FloorToSketchOption = Annotated[
    Any,
    typer.Option(
        help="Raise smaller probabilities to this: a number or none; needed with --input probabilities.",
        show_default=False,
        metavar="P",
        parser=_as_floor,
        rich_help_panel=DATA,
    ),
]
ColumnsOption = Annotated[
    str | None,
    typer.Option(
        help="Columns of scores, such as a,b or 'z_*'.",
        show_default=False,
        metavar="NAMES",
        rich_help_panel=TABLES,
    ),
]
IgnoreOption = Annotated[
    str | None,
    typer.Option(
        help="Columns that are not scores.",
        show_default=False,
        metavar="NAMES",
        rich_help_panel=TABLES,
    ),
]
IgnoreIndexOption = Annotated[
    int | None,
    typer.Option(
        help="Ignore samples with this label, such as -100.",
        show_default=False,
        metavar="LABEL",
        rich_help_panel=DATA,
    ),
]
DelimiterOption = Annotated[
    str | None,
    typer.Option(
        help="Field separator of .csv files, such as ';' or tab.",
        show_default=False,
        metavar="TEXT",
        rich_help_panel=TABLES,
    ),
]
DecimalOption = Annotated[
    Literal[".", ","],
    typer.Option(
        help="Decimal mark of .csv files: . (default) or ,",
        show_default=False,
        metavar="MARK",
        rich_help_panel=TABLES,
    ),
]
LevelOption = Annotated[
    float, typer.Option(help="Level of the intervals; 0.95 by default.", show_default=False, metavar="SHARE")
]
BinsOption = Annotated[
    int,
    typer.Option(help="Bins of the ECE; 15 by default.", show_default=False, metavar="NUMBER", rich_help_panel=MEASURES),
]
StrategyOption = Annotated[
    Strategy,
    typer.Option(
        help="uniform (default) or quantile bins.",
        show_default=False,
        metavar="KIND",
        rich_help_panel=MEASURES,
    ),
]


def roles_from(
    input: Input | None,
    scores: str | None,
    labels: str | None,
    weights: str | None,
    columns: str | None,
    ignore: str | None,
    text: tuple[str | None, str],
    classes: Any = None,
    calibrator: FittedMethod | None = None,
    clusters: str | None = None,
    groups: str | None = None,
    ids: str | None = None,
    ignore_index: int | None = None,
) -> Roles:
    """What options say about a file, and what the calibration says where no option does; ``text`` is delimiter and decimal."""
    if scores is not None and columns is not None:
        raise InputError("--scores names one column, and --columns several. Pass only one of them.")
    fitted = getattr(calibrator, "feature_names_in_", None)
    remembered = None if calibrator is None else calibrator.label_column_
    one = None if calibrator is None or calibrator.score_column_ is None else (calibrator.score_column_,)
    needed = None if groups else _remembered_groups(calibrator)
    return Roles(
        input=input or "logits",
        input_is_said=input is not None,
        labels=labels or remembered or "labels",
        weights=weights,
        clusters=clusters,
        groups=groups or needed,
        ids=ids,
        columns=scores if columns is None else tuple(split(columns)),
        ignore=() if ignore is None else tuple(split(ignore)),
        classes=classes,
        fitted=one if fitted is None else tuple(fitted.tolist()),
        n_classes=getattr(calibrator, "n_features_in_", None),
        calibrated=calibrator is not None,
        groups_remembered=needed is not None,
        ignore_index=ignore_index,
        delimiter=text[0],
        decimal=text[1],
    )


def _remembered_groups(calibrator: FittedMethod | None) -> str | None:
    """The array or column of groups that a calibration needs, by the name that it remembers."""
    if calibrator is None or not calibrator.map_.needs_groups:
        return None
    if calibrator.group_column_ is None:
        raise InputError("The calibration has a temperature per group. Name the array or column of groups with --groups.")
    return calibrator.group_column_


MetricsOption = Annotated[
    str | None,
    typer.Option(
        help="Measure these too, comma-separated: ks, ..., or module:Name of your own.",
        show_default=False,
        metavar="NAMES",
        rich_help_panel=MEASURES,
    ),
]


def split(text: str) -> list[str]:
    """The parts of a list with commas."""
    return [part.strip() for part in text.split(",")]
