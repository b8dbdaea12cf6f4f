"""Options that fit, apply and eval share, and what they say together."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from nishimori._array import HostArray
from nishimori._scores import Input, scores
from nishimori._tables import listed
from nishimori.cli._selection import Names
from nishimori.errors import InputError

if TYPE_CHECKING:
    from nishimori import Calibrator  # which imports scikit-learn, and most commands need none

FIT_AGAIN = "fit again with --input probabilities"
"""What to do if scores look like probabilities and the calibration is one of logits."""

Files = Annotated[
    list[Path],
    typer.Argument(
        help="One file of arrays (.npz .pt .safetensors) or a table (.csv .tsv .jsonl .parquet .feather), a folder of "
        "Parquet files, or two .npy files: scores, labels.",
        show_default=False,
    ),
]
ScoresOption = Annotated[
    str | None,
    typer.Option(
        "--scores",
        help="Name of the array or of the one column of scores; logits or probabilities by default.",
        show_default=False,
    ),
]
LabelsOption = Annotated[
    str | None,
    typer.Option(
        help="Name of the array or column of labels; by default that of the calibration, else labels.", show_default=False
    ),
]
LabelsToFitOption = Annotated[
    str | None, typer.Option(help="Name of the array or column of labels; labels by default.", show_default=False)
]
WeightsOption = Annotated[
    str | None, typer.Option(help="Name of the array or column of sample weights, if any.", show_default=False)
]
ClustersOption = Annotated[
    str | None,
    typer.Option(
        help="Name of the array or column that says which samples belong together, such as documents; for standard errors, and "
        "for T of auto.",
        show_default=False,
    ),
]
CountsOption = Annotated[
    bool, typer.Option("--counts", help="A weight of w stands for w independent samples, in standard errors and in T of auto.")
]
ColumnsOption = Annotated[
    str | None,
    typer.Option(
        help="Columns of a table that hold the scores: names or patterns such as 'z_*', comma-separated.", show_default=False
    ),
]
IgnoreOption = Annotated[
    str | None,
    typer.Option(help="Columns of a table that do not hold scores: names or patterns, comma-separated.", show_default=False),
]
ClassesOption = Annotated[
    str | None,
    typer.Option(help="Label of each column in order, comma-separated, where labels are not 0, 1, ...", show_default=False),
]
DelimiterOption = Annotated[
    str | None,
    typer.Option(help="What separates the fields of a .csv file, such as ';' or tab; a comma by default.", show_default=False),
]
DecimalOption = Annotated[Literal[".", ","], typer.Option(help="Decimal mark of the numbers in a .csv or .tsv file.")]
FloorOption = Annotated[
    float | None,
    typer.Option(
        help="With --input probabilities: raise smaller probabilities to this; by default only exact zeros are raised.",
        show_default=False,
    ),
]


def names_from(
    input: Input,
    scores: str | None,
    labels: str | None,
    weights: str | None,
    columns: str | None,
    ignore: str | None,
    text: tuple[str | None, str],
    classes: Any = None,
    calibrator: "Calibrator | None" = None,
    clusters: str | None = None,
) -> Names:
    """What options say about a file, and what the calibration says where no option does; ``text`` is delimiter and decimal."""
    fitted = getattr(calibrator, "feature_names_in_", None)
    remembered = None if calibrator is None else calibrator.label_column_
    one = None if calibrator is None or calibrator.score_column_ is None else (calibrator.score_column_,)
    return Names(
        input=input,
        scores=scores,
        labels=labels or remembered or "labels",
        weights=weights,
        clusters=clusters,
        columns=None if columns is None else tuple(split(columns)),
        ignore=() if ignore is None else tuple(split(ignore)),
        classes=classes,
        fitted=one if fitted is None else tuple(fitted.tolist()),
        calibrated=calibrator is not None,
        delimiter=text[0],
        decimal=text[1],
    )


def split(text: str) -> list[str]:
    """The parts of a list with commas."""
    return [part.strip() for part in text.split(",")]


def check_n_classes(calibrator: "Calibrator", values: HostArray, columns: list[str] | None) -> None:
    """Refuse scores with another number of classes than the calibration."""
    found = scores(values, input=calibrator.input, name="scores").n_classes
    n_classes = getattr(calibrator, "n_features_in_", None)
    if n_classes in (None, found):
        return
    has = "one score per row, which stands for 2" if values.ndim == 1 else f"{found} columns of scores"
    remedy = ". Pass scores of the same model."
    if columns is not None:
        remedy = f": {listed(columns)}. Name the right ones with --columns."
    raise InputError(f"The calibration has {n_classes} classes, but the file has {has}{remedy}")
