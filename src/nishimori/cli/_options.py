"""Declare and read the options that several commands share; options about data form one object, `DataOptions`."""

import re
import sys
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from nishimori._files.tables.columns import Roles
from nishimori._methods.fitted_method import FittedMethod
from nishimori._rows.claims import ClaimInput
from nishimori._rows.scores import Floor, Input
from nishimori._sums.reliability import Strategy
from nishimori.cli._help import DATA, MEASURES, TABLES, OptionGroup, argument, flag, option
from nishimori.errors import InputError

Files = Annotated[
    list[Path],
    argument(
        "Arrays (.npz .pt .safetensors; .npy: scores, labels), tables (.csv .tsv .jsonl .parquet .feather), folders of tables, "
        "quoted patterns.",
        "FILES",
    ),
]
DataSets = Annotated[
    list[Path],
    argument(
        "Validation data, then test data if there are any: one file each, as for fit, or a sketch; two .npy files each: "
        "scores, labels.",
        "FILES",
    ),
]
LevelOption = Annotated[float, option("Level of intervals and, as 1 - level, of tests; 0.95 by default.", "SHARE")]
CalibrationOption = Annotated[Path | None, option("The calibration file that fit wrote.", "FILE")]
BinsOption = Annotated[int, option("Bins of the ECE; 15 by default.", "NUMBER", panel=MEASURES)]
StrategyOption = Annotated[Strategy, option("uniform (default) or quantile bins.", "KIND", panel=MEASURES)]


def shares_in(text: str) -> float | dict[str, float]:
    """One share, or a share for each class by label; labels are checked where the classes are known."""
    names, shares = zip(
        *((name.strip(), share) for name, _, share in (part.rpartition("=") for part in split(text))), strict=True
    )
    try:
        numbers = [float(share) for share in shares]
    except ValueError:
        numbers = []
    if numbers and names == ("",):
        return numbers[0]
    if not numbers or "" in names or len(set(names)) < len(names):
        raise typer.BadParameter(f"{text!r} is neither a number such as 0.01 nor a list such as cat=0.2,dog=0.8.")
    return dict(zip(names, numbers, strict=True))


def split(text: str) -> list[str]:
    """The parts of a list with commas."""
    return [part.strip() for part in text.split(",")]


PrevalenceOption = Annotated[
    Any,
    option(
        "Class shares in use, if they differ from those in the fit: 0.01 for the second of two, or cat=0.2,dog=0.8.",
        "SHARES",
        parser=shares_in,
    ),
]


def _as_floor(text: str) -> float | str:
    """A number, auto, or none (the text for no floor); None if the option is left out."""
    if text in ("auto", "none"):
        return text
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number.") from None


def _name(help: str, *names: str) -> Any:
    """Declare the name of an array or a column."""
    return option(help, "NAME", *names, panel=DATA)


def add_cwd_to_path() -> None:
    """Let modules in the current folder be found, but never instead of an installed one."""
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)


def import_modules(names: list[str]) -> None:
    """Import modules that register methods, maps or metrics."""
    add_cwd_to_path()
    for name in names:
        try:
            import_module(name)
        except Exception as error:  # whatever the module does when it is imported
            raise InputError(f"--import must name a module, got {name}: {type(error).__name__}: {error}.") from None


def method_names(text: str) -> list[str]:
    """The methods in a comma-separated list; the current folder is searched, too, for names written as module:Name."""
    names = search_cwd(split(text))
    for name in names:
        check_method(name, "--methods")
    return names


def check_method(name: str, option: str) -> Any:
    """The observable or class of a method; an unknown one is wrong usage, with a hint how to register others."""
    from nishimori._calibrators.methods import target_of  # noqa: PLC0415 - scikit-learn

    try:
        return target_of(name)
    except InputError as error:
        how = "" if ":" in name else " Name a module that registers others before the command: nishimori --import MODULE."
        raise typer.BadParameter(f"{error}{how}", param_hint=option) from None


def metric_names(text: str) -> list[str]:
    """The metrics in a comma-separated list, likewise; commas inside brackets do not count, as in top_n_accuracy(top_n=3)."""
    return search_cwd([part.strip() for part in re.split(r",(?![^()]*\))", text)])


def search_cwd(names: list[str]) -> list[str]:
    """The names; the current folder is searched, too, for names written as module:Name."""
    if any(":" in name for name in names):
        add_cwd_to_path()
    return names


MetricsOption = Annotated[
    Any,
    option(
        "Measure these too, comma-separated: ks, ..., or module:Name of your own.",
        "NAMES",
        panel=MEASURES,
        parser=metric_names,
    ),
]


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """The options of a command about the rows of its files; each default is the value if the option is left out.

    Fields that are declared as options are options of the commands, of which each takes some.

    ``floor`` is a number, "auto", or "none", which is the text of no floor. The names of ``classes``, ``columns`` and
    ``ignore`` are lists.
    """

    input: Annotated[
        ClaimInput | None,
        option("logits (default), probabilities or scores.", "KIND", panel=DATA),
    ] = None
    confidence: Annotated[str | None, _name("Array or column of confidences: rows are claims.")] = None
    right: Annotated[str | None, _name("Whether each is right; right by default.")] = None
    floor: Annotated[
        Any,
        option("Least probability: a number, auto or none.", "P", panel=DATA, parser=_as_floor),
    ] = None
    scores: Annotated[str | None, _name("Array of scores, or their one column.")] = None
    labels: Annotated[str | None, _name("Array or column of labels; labels by default.", "--labels", "-l")] = None
    classes: Annotated[Any, option("Labels of the columns, such as cat,dog,bird.", "NAMES", panel=DATA, parser=split)] = None
    weights: Annotated[str | None, _name("Array or column of sample weights.")] = None
    ignore_index: Annotated[int | None, option("Ignore samples with this label, such as -100.", "LABEL", panel=DATA)] = None
    counts: Annotated[bool, flag("Weights are numbers of independent samples.", "--counts", panel=DATA)] = False
    clusters: Annotated[
        str | None,
        _name("Array or column of clusters of samples."),
    ] = None
    groups: Annotated[str | None, _name("Array or column of groups, such as sites.")] = None
    ids: str | None = None
    columns: Annotated[Any, option("Columns of scores, such as a,b or 'z_*'.", "NAMES", panel=TABLES, parser=split)] = None
    ignore: Annotated[Any, option("Columns that are not scores.", "NAMES", panel=TABLES, parser=split)] = None
    delimiter: Annotated[str | None, option("Field separator of .csv files, as ; or tab.", "TEXT", panel=TABLES)] = None
    decimal: Annotated[Literal[".", ","], option("Decimal mark of .csv files: . (default) or ,", "MARK", panel=TABLES)] = "."
    max_rows: Annotated[int | None, option("Most rows that a table may have.", "NUMBER", panel=TABLES)] = None

    @property
    def meaning(self) -> Input | None:
        """What the scores are: confidences are probabilities unless another option says what they are."""
        if self.input == "scores":
            if self.confidence is None:
                raise InputError("input", "be logits or probabilities, except for claims", got="scores")
            return "logits"
        return "probabilities" if self.input is None and self.confidence is not None else self.input

    @property
    def floor_to_fit(self) -> Floor:
        """The floor of what is fitted: auto where the option is left out."""
        return "auto" if self.floor is None else None if self.floor == "none" else self.floor

    def _of_claims(self) -> "DataOptions":
        """The same options for rows of two classes; refuses options that claims do not have."""
        if self.confidence is None:
            raise InputError("right", "come with --confidence", got=repr(self.right), remedy="Name the column of confidences.")
        for name in ("scores", "labels", "classes", "columns"):
            if getattr(self, name) is not None:
                raise InputError(name, "be left out of claims", remedy="Name their columns with --confidence and --right.")
        return replace(self, scores=self.confidence, labels=self.right or "right", confidence=None, right=None)

    def roles(self, calibrator: FittedMethod | None = None) -> Roles:
        """The role of each array or column, from the options or else from the calibration."""
        if self.scores is not None and self.columns is not None:
            raise InputError("--scores names one column, and --columns several. Pass only one of them.")
        if self.confidence is not None or self.right is not None:
            return self._of_claims().roles(calibrator)
        fitted = getattr(calibrator, "feature_names_in_", None)
        remembered = None if calibrator is None else calibrator.label_column_
        one = None if calibrator is None or calibrator.score_column_ is None else (calibrator.score_column_,)
        needed = None if self.groups else _remembered_groups(calibrator)
        return Roles(
            input="probabilities" if self.input == "probabilities" else "logits",
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
            max_rows=self.max_rows,
        )


def _remembered_groups(calibrator: FittedMethod | None) -> str | None:
    """The array or column of groups that a calibration needs, by the name stored in it."""
    if calibrator is None or not calibrator.map_.needs_groups:
        return None
    if calibrator.group_column_ is None:
        raise InputError("The calibration has a temperature per group. Name the array or column of groups with --groups.")
    return calibrator.group_column_


def _options(*without: str) -> OptionGroup:
    """The options of `DataOptions` without some, which keep their defaults."""
    own = {name: kind for name, kind in DataOptions.__annotations__.items() if hasattr(kind, "__metadata__")}
    return OptionGroup(DataOptions, {name: kind for name, kind in own.items() if name not in without})


Data = Annotated[DataOptions, _options()]
DataToApply = Annotated[
    DataOptions, _options("input", "right", "floor", "classes", "ignore_index", "counts", "clusters", "max_rows")
]
DataToThreshold = Annotated[DataOptions, _options("weights", "counts")]
DataToSketch = Annotated[DataOptions, _options("counts", "groups", "confidence", "right")]
"""The options that commands take."""
