"""Options that several commands share; those about the data come as one object, `DataOptions`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from nishimori._files.tables.columns import Roles
from nishimori._methods.fitted_method import FittedMethod
from nishimori._rows.scores import Floor, Input
from nishimori._sums.reliability import Strategy
from nishimori.cli._help import DATA, MEASURES, TABLES, OptionGroup, argument, flag, option
from nishimori.errors import InputError

FIT_AGAIN = "fit again with --input probabilities"
"""What to do if scores look like probabilities and the calibration is one of logits."""

FITTED_TO_PROBABILITIES = "The calibration was fitted to probabilities. If these are logits, fit again to logits."
"""What to do if they are logits and the calibration is one of probabilities."""

Files = Annotated[
    list[Path],
    argument(
        "Arrays (.npz .pt .safetensors; .npy: scores, labels), tables (.csv .tsv .jsonl .parquet .feather), folders, patterns.",
        "FILES",
    ),
]
DataSets = Annotated[
    list[Path],
    argument(
        "Validation data, and test data if there are any: a file each, as for fit, or a sketch. Of .npy files two each: "
        "scores, labels.",
        "FILES",
    ),
]
LevelOption = Annotated[float, option("Level of the intervals; 0.95 by default.", "SHARE")]
BinsOption = Annotated[int, option("Bins of the ECE; 15 by default.", "NUMBER", panel=MEASURES)]
StrategyOption = Annotated[Strategy, option("uniform (default) or quantile bins.", "KIND", panel=MEASURES)]
MetricsOption = Annotated[
    str | None,
    option("Measure these too, comma-separated: ks, ..., or module:Name of your own.", "NAMES", panel=MEASURES),
]


def split(text: str) -> list[str]:
    """The parts of a list with commas."""
    return [part.strip() for part in text.split(",")]


def _as_floor(text: str) -> float | str:
    """A number, auto, or none, which is the text of no floor; the option left out is None."""
    if text in ("auto", "none"):
        return text
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number.") from None


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """What the options of a command say about the rows of its files; the default of each is what leaving it out means.

    ``floor`` is a number, "auto", or "none", which is the text of no floor. The names of ``classes``, ``columns`` and
    ``ignore`` are lists.
    """

    input: Input | None = None
    floor: Any = None
    scores: str | None = None
    labels: str | None = None
    classes: Any = None
    weights: str | None = None
    ignore_index: int | None = None
    counts: bool = False
    clusters: str | None = None
    groups: str | None = None
    ids: str | None = None
    columns: Any = None
    ignore: Any = None
    delimiter: str | None = None
    decimal: str = "."

    @property
    def floor_to_fit(self) -> Floor:
        """The floor of what is fitted: auto where the option is left out."""
        return "auto" if self.floor is None else None if self.floor == "none" else self.floor

    def roles(self, calibrator: FittedMethod | None = None) -> Roles:
        """Which array or column is what: as the options say, and as the calibration says where they do not."""
        if self.scores is not None and self.columns is not None:
            raise InputError("--scores names one column, and --columns several. Pass only one of them.")
        fitted = getattr(calibrator, "feature_names_in_", None)
        remembered = None if calibrator is None else calibrator.label_column_
        one = None if calibrator is None or calibrator.score_column_ is None else (calibrator.score_column_,)
        needed = None if self.groups else _remembered_groups(calibrator)
        return Roles(
            input=self.input or "logits",
            labels=self.labels or remembered or "labels",
            weights=self.weights,
            clusters=self.clusters,
            groups=self.groups or needed,
            ids=self.ids,
            columns=self.scores if self.columns is None else tuple(self.columns),
            ignore=() if self.ignore is None else tuple(self.ignore),
            classes=self.classes,
            fitted=one if fitted is None else tuple(fitted.tolist()),
            n_classes=getattr(calibrator, "n_features_in_", None),
            calibrated=calibrator is not None,
            groups_remembered=needed is not None,
            ignore_index=self.ignore_index,
            delimiter=self.delimiter,
            decimal=self.decimal,
        )


def _remembered_groups(calibrator: FittedMethod | None) -> str | None:
    """The array or column of groups that a calibration needs, by the name that it remembers."""
    if calibrator is None or not calibrator.map_.needs_groups:
        return None
    if calibrator.group_column_ is None:
        raise InputError("The calibration has a temperature per group. Name the array or column of groups with --groups.")
    return calibrator.group_column_


def _input(help: str) -> Any:
    return Annotated[Input | None, option(help, "KIND", panel=DATA)]


def _floor(help: str) -> Any:
    return Annotated[Any, option(f"Raise smaller probabilities to this{help}.", "P", panel=DATA, parser=_as_floor)]


def _name(help: str, *names: str) -> Any:
    return Annotated[str | None, option(help, "NAME", *names, panel=DATA)]


def _names(help: str, panel: str) -> Any:
    return Annotated[Any, option(help, "NAMES", panel=panel, parser=split)]


_TO_FIT: dict[str, Any] = {
    "input": _input("logits (default) or probabilities; needed if all lie between 0 and 1."),
    "floor": _floor(": a number, auto (default) or none"),
    "scores": _name("Array of scores, or their one column."),
    "labels": _name("Array or column of labels; labels by default."),
    "classes": _names("Labels of the columns, such as cat,dog,bird.", DATA),
    "weights": _name("Array or column of sample weights."),
    "ignore_index": Annotated[int | None, option("Ignore samples with this label, such as -100.", "LABEL", panel=DATA)],
    "counts": Annotated[bool, flag("Weights are numbers of independent samples.", "--counts", panel=DATA)],
    "clusters": _name("Array or column of what samples share, such as a document; changes standard errors, and T of adaptive."),
    "groups": _name("Array or column of groups, such as sites; the method group fits one T for each."),
    "columns": _names("Columns of scores, such as a,b or 'z_*'.", TABLES),
    "ignore": _names("Columns that are not scores.", TABLES),
    "delimiter": Annotated[str | None, option("Field separator of .csv files, such as ';' or tab.", "TEXT", panel=TABLES)],
    "decimal": Annotated[Literal[".", ","], option("Decimal mark of .csv files: . (default) or ,", "MARK", panel=TABLES)],
}
_TO_MEASURE = _TO_FIT | {
    "input": _input("logits or probabilities; default as fitted."),
    "floor": _floor(""),
    "labels": _name("Array or column of labels; default as fitted."),
    "groups": _name("Array or column of groups, such as sites."),
}
_TO_SKETCH = _TO_FIT | {
    "floor": _floor(": a number or none; needed with --input probabilities"),
    "labels": _name("Name of the array or column of labels; labels by default.", "--labels", "-l"),
}


def _data_options(options: dict[str, Any], *names: str) -> OptionGroup:
    """Some of the options, in this order; all of them if none is named."""
    return OptionGroup(DataOptions, {name: options[name] for name in names or options})


DataToFit = Annotated[DataOptions, _data_options(_TO_FIT)]
DataToMeasure = Annotated[DataOptions, _data_options(_TO_MEASURE)]
DataToApply = Annotated[
    DataOptions,
    _data_options(_TO_MEASURE, "scores", "labels", "weights", "groups", "columns", "ignore", "delimiter", "decimal"),
]
DataToSketch = Annotated[
    DataOptions, _data_options(_TO_SKETCH, *(name for name in _TO_SKETCH if name not in ("counts", "groups")))
]
DataToReport = Annotated[
    DataOptions,
    _data_options(
        _TO_FIT,
        *("input", "floor", "scores", "labels", "weights", "ignore_index", "clusters", "groups", "counts"),
        *("columns", "ignore", "classes", "delimiter", "decimal"),
    ),
]
"""What each command takes; of `DataOptions` the others keep their defaults."""
