"""``nishimori eval``: a table of metrics before and after calibration, and their picture."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

import nishimori
from nishimori._evaluation.calibrated import check_groups, warn_of_same_rows
from nishimori._evaluation.differences import MOST_BINS, compare_maps
from nishimori._evaluation.group_gaps import GroupGaps
from nishimori._evaluation.metrics.metric import Difference, Metric
from nishimori._evaluation.metrics.table import asked_metrics
from nishimori._evaluation.scorecard import Scorecard, scorecards, warn_of_one_temperature
from nishimori._files.tables.columns import Roles
from nishimori._methods.fitted_method import FittedMethod, check_n_classes
from nishimori._rows.rows import Reported, Rows
from nishimori._sketch.sketch import Sketch
from nishimori._sums.groups import By
from nishimori._sums.reliability import Reliability, Strategy
from nishimori._support.disk import check_target, new_file
from nishimori._support.intervals import normal_quantile
from nishimori._support.optional import require
from nishimori._support.progress import show_progress
from nishimori.cli import _files
from nishimori.cli._calibration import Meant, agree_on_scores, calibrator_in, refuse_swapped
from nishimori.cli._group_table import group_gaps_of, print_group_gaps
from nishimori.cli._help import MEASURES, OUTPUT, ForceOption, JsonOption, epilog
from nishimori.cli._modules import metric_names
from nishimori.cli._options import (
    BinsOption,
    ClassesOption,
    ClustersOption,
    ColumnsOption,
    CountsOption,
    DecimalOption,
    DelimiterOption,
    Files,
    FloorOption,
    GroupsOption,
    IgnoreIndexOption,
    IgnoreOption,
    InputAsCalibratedOption,
    LabelsOption,
    LevelOption,
    MetricsOption,
    ScoresOption,
    StrategyOption,
    WeightsOption,
    roles_from,
    split,
)
from nishimori.cli._terminal import (
    as_row,
    collect_warnings,
    note,
    print_json,
    print_table,
    print_text,
)
from nishimori.errors import InputError
from nishimori.maps.floored import Floored
from nishimori.maps.map import Map
from nishimori.maps.temperature import Temperature

_PICTURES = (".png", ".pdf", ".svg")


CalibrationOption = Annotated[
    Path | None,
    typer.Option(help="The calibration file that fit wrote; adds a row after calibration.", show_default=False, metavar="FILE"),
]
ByOption = Annotated[
    By | None,
    typer.Option(
        help="Also print how far confidence is from accuracy for each predicted class (prediction), or for each of --groups "
        "(groups), which is the default where those are named.",
        show_default=False,
        metavar="KIND",
        rich_help_panel=MEASURES,
    ),
]
PlotOption = Annotated[
    Path | None,
    typer.Option(
        help="Draw a reliability diagram to this .png, .pdf or .svg file.",
        show_default=False,
        metavar="FILE",
        rich_help_panel=OUTPUT,
    ),
]

EPILOG = epilog(
    "nishimori eval test.npz",
    "nishimori eval test.npz --calibration calibration.json --plot after.png",
    "nishimori eval test.csv --labels label --ignore id --by prediction",
)


def evaluate(
    files: Files,
    calibration: CalibrationOption = None,
    level: LevelOption = 0.95,
    by: ByOption = None,
    metrics: MetricsOption = None,
    n_bins: BinsOption = 15,
    strategy: StrategyOption = "uniform",
    input: InputAsCalibratedOption = None,
    floor: FloorOption = None,
    scores_name: ScoresOption = None,
    labels: LabelsOption = None,
    classes: ClassesOption = None,
    weights: WeightsOption = None,
    ignore_index: IgnoreIndexOption = None,
    counts: CountsOption = False,
    clusters: ClustersOption = None,
    groups: GroupsOption = None,
    columns: ColumnsOption = None,
    ignore: IgnoreOption = None,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = ".",
    plot: PlotOption = None,
    as_json: JsonOption = False,
    force: ForceOption = False,
) -> None:
    """Measure error, confidence, ECE and losses, with standard errors.

    With a calibration: before and after it, and what it changed.
    """
    files = _files.find_files(files)
    refuse_swapped("eval", files, calibration)
    normal_quantile(level)  # which checks it
    shown_by: By | None = "groups" if by is None and groups else by
    measured = asked_metrics(None if metrics is None else metric_names(metrics))
    wanted = _EvalRequest(files, calibration, measured, n_bins, strategy, level, counts, shown_by, plot, as_json, force)
    said = (input, floor, scores_name, labels, weights, clusters, groups, by, counts, columns, ignore, classes, delimiter)
    if (sums := _files.open_sketch(files, *said, ignore_index is not None, decimal != ".")) is not None:
        _evaluate_sketch(sums, wanted)
        return
    _files.check_inputs(files)
    calibrator = None if calibration is None else calibrator_in(calibration)
    meaning = agree_on_scores(calibrator, input, floor, None if classes is None else split(classes))
    _check_plot(plot, overwrite=force)
    about = (columns, ignore, (delimiter, decimal), meaning[2], calibrator)
    roles = roles_from(
        meaning[0], scores_name, labels, weights, *about, clusters=clusters, groups=groups, ignore_index=ignore_index
    )
    if by == "groups" and roles.groups is None:
        raise typer.BadParameter("name the groups with --groups.", param_hint="--by groups")
    _evaluate_rows(roles, meaning, calibrator, wanted)


@dataclass(frozen=True)
class _EvalRequest:
    """What to measure, and what to do with the result."""

    files: Sequence[Path]
    calibration: Path | None
    metrics: tuple[Metric, ...]
    n_bins: int
    strategy: Strategy
    level: float
    counts: bool
    by: By | None
    plot: Path | None
    as_json: bool
    force: bool

    @property
    def about(self) -> dict[str, Any]:
        """What was asked for, as --json shows it."""
        paths = {"calibration": _text(self.calibration), "plot": _text(self.plot), "files": [str(path) for path in self.files]}
        return {"n_bins": self.n_bins, "strategy": self.strategy, "level": self.level, "by": self.by, **paths}


def _evaluate_rows(roles: Roles, meaning: Meant, calibrator: FittedMethod | None, wanted: _EvalRequest) -> None:
    """Read the rows, measure them, and show what was found."""
    kind, floor, known = meaning
    with collect_warnings() as told, show_progress(None) as report:
        # The floor of a calibration is a part of it: the model as it is has none.
        own_floor = floor if calibrator is None else None
        rows = _files.open_files(wanted.files, roles, floor=own_floor, counts=wanted.counts, calibrator=calibrator)
        known = rows.class_names if known is None else known
        if calibrator is not None:
            warn_of_same_rows(rows, {"The calibration": calibrator})
        results = _measure(Reported(rows, "Measuring", report), calibrator, known, wanted)
        if "after" in results.cards:
            warn_of_one_temperature({"calibration": results.cards["after"]})
    about: dict[str, Any] = {"input": kind or "logits", "floor": floor, "classes": known, "columns": rows.contents.columns}
    about |= {"label_column": rows.contents.label_column, "group_column": roles.groups, "warnings": told}
    about["data_digest"] = rows.digest
    _show(results, about, wanted)


@dataclass(frozen=True)
class _Results:
    """What was measured: a card before and perhaps one after calibration, and what these differ by."""

    cards: dict[str, Scorecard]
    differences: dict[str, Difference] | None = None
    temperature_se: float | None = None
    by_group: Mapping[str, GroupGaps] = field(default_factory=dict)

    def rows(self) -> dict[str, dict[str, float | None]]:
        """Rows of the table."""
        rows = {name: as_row(card) for name, card in self.cards.items()}
        if "after" in rows and self.temperature_se is not None:
            rows["after"]["temperature_se"] = self.temperature_se
        if self.differences is not None:
            named = {name: (each.value, each.se) for name, each in self.differences.items()}
            rows["change"] = {f"{name}{end}": pair[i] for name, pair in named.items() for i, end in enumerate(("", "_se"))}
        return rows


def _show(results: _Results, about: dict[str, Any], wanted: _EvalRequest) -> None:
    """Draw the picture, if one is wanted, and print all numbers."""
    cards, level = results.cards, wanted.level
    if wanted.plot is not None:
        _draw(results, wanted.plot, overwrite=wanted.force)
    if wanted.as_json:
        about = {"n_samples": cards["before"].n_samples, **wanted.about, **about, "library_version": nishimori.__version__}
        told: dict[str, Any] = {name: _told(card, level) for name, card in cards.items()}
        if "after" in told:
            told["after"]["temperature_se"] = results.temperature_se
            told["change"] = _told_change(results.differences, level)
        for name, found in results.by_group.items():
            told[name]["by_group"] = found.to_dict()
        print_json(told | about)
    else:
        if caveat := cards["before"].caveat:
            print_text(caveat)
        print_table(results.rows(), wanted.metrics)
        print_text(_about_ece(cards, level))
        if results.by_group:
            print_text("")
            print_group_gaps(results.by_group)
    if wanted.plot is not None:
        note(f"Wrote {wanted.plot}")


def _evaluate_sketch(sums: Sketch, wanted: _EvalRequest) -> None:
    """Evaluate from the sums that the command sketch has written."""
    calibrator = None if wanted.calibration is None else calibrator_in(wanted.calibration)
    agree_on_scores(calibrator, sums.input, sums.floor, None if sums.classes is None else [str(each) for each in sums.classes])
    _check_plot(wanted.plot, overwrite=wanted.force)
    maps = _maps(calibrator, None)  # a sketch has the floor
    with collect_warnings() as told:
        if calibrator is not None:
            check_n_classes(calibrator, sums, "sketch")
            warn_of_same_rows(sums, {"The calibration": calibrator})
        how: dict[str, Any] = {"n_bins": wanted.n_bins, "strategy": wanted.strategy, "metrics": wanted.metrics}
        found = scorecards(sums, list(maps.values()), **how)
    results = _Results(dict(zip(maps, found, strict=True)), None, getattr(calibrator, "temperature_se_", None))
    about: dict[str, Any] = {"input": sums.input, "floor": sums.floor, "classes": sums.classes}
    about |= dict.fromkeys(("columns", "label_column", "group_column")) | {"data_digest": sums.digest}
    _show(results, about | {"warnings": told}, wanted)


def _maps(calibrator: FittedMethod | None, floor: float | None) -> dict[str, Map]:
    """What is done to scores, by the names of the rows of the table; ``floor`` is raised to before the second."""
    found: dict[str, Map] = {"before": Temperature(1.0)}
    if calibrator is not None:
        found["after"] = calibrator.map_ if floor is None else Floored(calibrator.map_, floor)
    return found


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _measure(rows: Rows, calibrator: FittedMethod | None, classes: Sequence[str] | None, wanted: _EvalRequest) -> _Results:
    """All cards, and what the second differs from the first by, from the same readings; groups take others."""
    floor = getattr(calibrator, "floor_", None)
    maps, counts = _maps(calibrator, floor), wanted.counts
    chosen = list(maps.values())
    check_groups(rows, chosen)
    options: dict[str, Any] = {"n_bins": wanted.n_bins, "strategy": wanted.strategy, "counts": counts}
    options["metrics"] = wanted.metrics
    differences = None
    if len(chosen) == 1 or wanted.n_bins > MOST_BINS:
        cards = scorecards(rows, chosen, **options)
    else:
        cards, (differences,) = compare_maps(rows, chosen, **options, zero=floor)
    by_group = {}
    if wanted.by is not None:
        by_group = group_gaps_of(rows, maps, wanted.by, classes, wanted.level, counts=counts)
    error = getattr(calibrator, "temperature_se_", None)
    return _Results(dict(zip(maps, cards, strict=True)), differences, error, by_group)


def _told(card: Scorecard, level: float) -> dict[str, Any]:
    """Everything about a scorecard, for machines."""
    curve: Reliability = card.reliability
    bins = ("confidence", "accuracy", "weight", "count", "lower", "upper")
    others = (name for name, each in card.estimates.items() if not each.metric.in_tables)
    numbers = {f"{name}{end}": getattr(card, f"{name}{end}") for name in others for end in ("", "_se")}
    numbers |= card.corrected
    intervals = {name: None if each.se is None else list(each.interval(level)) for name, each in card.estimates.items()}
    curves = {name: getattr(curve, name).tolist() for name in bins}
    return {**as_row(card), **numbers, "intervals": intervals, "reliability": curves}


def _told_change(differences: dict[str, Difference] | None, level: float) -> dict[str, Any] | None:
    """What the second card differs from the first by, for machines; None if that was not measured."""
    if differences is None:
        return None
    told = {name: {"value": each.value, "se": each.se, "p_value": each.p_value} for name, each in differences.items()}
    limits = {name: None if each.se is None else list(each.interval(level)) for name, each in differences.items()}
    return {name: {**each, "interval": limits[name]} for name, each in told.items()}


def _about_ece(cards: Mapping[str, Scorecard], level: float) -> str:
    """What the ECE is without its bias, in a sentence."""
    parts = []
    for name, card in cards.items():
        if (corrected := card.ece_corrected) is not None:
            low, high = card.interval("ece", level)
            parts.append(f"{name} {100 * corrected:.2f} % ({100 * low:.2f} to {100 * high:.2f} %)")
    return f"Bias-corrected ECE, {100 * level:g} % interval: {', '.join(parts)}" if parts else ""


def _check_plot(path: Path | None, *, overwrite: bool) -> None:
    """Refuse a picture that cannot be drawn or written, before the work is done; None is no picture."""
    if path is None:
        return
    if path.suffix.lower() not in _PICTURES:
        raise InputError("plot", f"be a file that ends in {', '.join(_PICTURES)}", got=path)
    _files.refuse_folder(path, "reliability.png")
    check_target(path, overwrite=overwrite)
    require("matplotlib", extra="plot", for_="--plot")


def _draw(results: _Results, path: Path, *, overwrite: bool) -> None:
    """The reliability diagram and, where groups were asked for, a second panel with their gaps."""
    panels = 2 if results.by_group else 1
    figure = require("matplotlib.figure", extra="plot", for_="--plot").Figure(figsize=(4.8 * panels, 5.4), layout="constrained")
    nishimori.plot.reliability_diagram(dict(results.cards), ax=figure.add_subplot(1, panels, 1))
    if results.by_group:
        nishimori.plot.group_gaps(dict(results.by_group), ax=figure.add_subplot(1, panels, 2))
    with new_file(path, overwrite=overwrite) as temporary:
        figure.savefig(temporary, format=path.suffix.lower().removeprefix("."), dpi=150)
