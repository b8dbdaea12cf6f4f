"""How the options are declared that several commands share; those about the data come as one object, `DataOptions`."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from nishimori._rows.scores import Input
from nishimori._sums.reliability import Strategy
from nishimori.cli._files import DataOptions
from nishimori.cli._help import DATA, MEASURES, TABLES, OptionGroup, argument, flag, option

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
    "max_rows": Annotated[int | None, option("Most rows that a table may have.", "NUMBER", panel=TABLES)],
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
