"""``nishimori eval``: a table of metrics before and after calibration, and their picture."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import nishimori
from nishimori._evaluation.calibrated import check_groups, refuse_scores
from nishimori._evaluation.differences import MOST_BINS, measure_maps
from nishimori._evaluation.group_gaps import GroupGaps, gaps_after, names_of_groups
from nishimori._evaluation.metrics.metric import Difference, Estimate, Metric
from nishimori._evaluation.metrics.table import asked_metrics
from nishimori._evaluation.scorecard import Scorecard, scorecards, warn_of_one_temperature
from nishimori._files.file_rows import FileRows
from nishimori._methods.fitted_method import FittedMethod
from nishimori._rows.rows import Rows
from nishimori._sketch.sketch import Sketch
from nishimori._sums.groups import By
from nishimori._sums.reliability import Reliability
from nishimori._support.disk import new_file
from nishimori._support.display import PRINTED_ROWS
from nishimori._support.intervals import normal_quantile
from nishimori._support.json import as_python
from nishimori._support.optional import require
from nishimori._support.progress import show_progress
from nishimori._support.tables import Tabular
from nishimori.cli import _files
from nishimori.cli._calibration import agree_with, agree_with_sketch, calibrator_to_measure
from nishimori.cli._help import MEASURES, OUTPUT, ForceOption, JsonOption, epilog, option
from nishimori.cli._options import (
    BinsOption,
    CalibrationOption,
    Data,
    DataOptions,
    Files,
    LevelOption,
    MetricsOption,
    PrevalenceOption,
    StrategyOption,
)
from nishimori.cli._terminal import (
    as_row,
    collect_warnings,
    note,
    print_json,
    print_table,
    print_tabular,
    print_text,
)
from nishimori.maps.around import Floored
from nishimori.maps.map import Map
from nishimori.maps.temperature import Temperature

_PICTURES = (".png", ".pdf", ".svg")


ByOption = Annotated[
    By | None,
    option(
        "Also print how far confidence is from accuracy for each predicted class (prediction), or for each of --groups "
        "(groups, the default if --groups is passed).",
        "KIND",
        panel=MEASURES,
    ),
]
PlotOption = Annotated[Path | None, option("Draw a reliability diagram to this .png, .pdf or .svg file.", "FILE", panel=OUTPUT)]

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
    prevalence: PrevalenceOption = None,
    *,
    data: Data,
    plot: PlotOption = None,
    as_json: JsonOption = False,
    force: ForceOption = False,
) -> None:
    """Measure error, confidence, ECE and losses, with standard errors.

    With a calibration: before and after it, and what it changed.
    """
    files = _files.find_files(files)
    normal_quantile(level)  # which checks it
    shown_by: By | None = "groups" if by is None and data.groups else by
    measures: dict[str, Any] = {"metrics": asked_metrics(metrics), "n_bins": n_bins, "strategy": strategy}
    sums = _files.open_sketch(files, data, by)
    calibrator = calibrator_to_measure(calibration, prevalence)
    if plot is not None:  # before the work is done
        _files.check_output(plot, _PICTURES, "reliability.png", overwrite=force, argument="plot")
        require("matplotlib", extra="plot", for_="--plot")
    with collect_warnings() as warned, show_progress(None):
        if sums is None:
            rows, about = _open_rows(files, agree_with(calibrator, data), calibrator, shown_by)
            results = _measure(rows, calibrator, about["classes"], shown_by, level, measures)
            about["data_digest"] = rows.digest
            if calibrator is not None:
                warn_of_one_temperature({"calibration": results.cards["after"]})
        else:
            agree_with_sketch(calibrator, sums)
            about = {"input": sums.input, "floor": sums.floor, "classes": sums.classes, "data_digest": sums.digest}
            about |= dict.fromkeys(("columns", "label_column", "group_column"))
            results = _measure_sketch(sums, calibrator, measures)
    if plot is not None:
        _draw(results, plot, overwrite=force)
    if as_json:
        paths = {name: None if path is None else str(path) for name, path in (("calibration", calibration), ("plot", plot))}
        typed: dict[str, Any] = {"n_bins": n_bins, "strategy": strategy, "level": level, "by": shown_by, **paths}
        typed["prevalence"] = None if prevalence is None else as_python(calibrator.class_prior_)  # type: ignore[union-attr]
        typed["files"] = [str(path) for path in files]
        about = {"n_samples": results.first.n_samples, **typed, **about, "warnings": warned}
        print_json(results.content(level) | about | {"library_version": nishimori.__version__})
    else:
        _print(results, [estimate.metric for estimate in results.first.estimates.values()], level)
    if plot is not None:
        note(f"Wrote {plot}")


def _open_rows(
    files: Sequence[Path], data: DataOptions, calibrator: FittedMethod | None, by: By | None
) -> tuple[FileRows, dict[str, Any]]:
    """Open the rows of the files, and print which columns hold scores."""
    # The floor of a calibration is a part of it: the model as it is has none.
    rows = _files.open_files(files, data if calibrator is None else replace(data, floor=None), calibrator, by=by)
    classes = rows.class_names if data.classes is None else data.classes
    about = {"input": data.meaning or "logits", "floor": data.floor, "classes": classes, "columns": rows.contents.columns}
    return rows, about | {"label_column": rows.contents.label_column, "group_column": data.roles(calibrator).groups}


@dataclass(frozen=True)
class _Results:
    """The measurements: a scorecard before calibration, perhaps one after it, and their differences."""

    cards: dict[str, Scorecard]
    differences: dict[str, Difference] | None = None
    temperature_se: float | None = None
    by_group: Mapping[str, GroupGaps] = field(default_factory=dict)
    zero: float | None = None
    """What a probability of 0 counts as in the NLL before calibration, if that is known."""

    @property
    def first(self) -> Scorecard:
        """The card before calibration, where there is one."""
        return next(iter(self.cards.values()))

    def rows(self) -> dict[str, dict[str, float | None]]:
        """Rows of the table."""
        rows = {name: as_row(card) for name, card in self.cards.items()}
        if "after" in rows and self.temperature_se is not None:
            rows["after"]["temperature_se"] = self.temperature_se
        if self.differences is not None:
            named = {name: (difference.value, difference.se) for name, difference in self.differences.items()}
            rows["change"] = {f"{name}{end}": pair[i] for name, pair in named.items() for i, end in enumerate(("", "_se"))}
        return rows

    def content(self, level: float) -> dict[str, Any]:
        """All numbers, for machines."""
        content: dict[str, Any] = {name: _card_content(card, level) for name, card in self.cards.items()}
        if "after" in content:
            content["after"]["temperature_se"] = self.temperature_se
            content["change"] = _change_content(self.differences, level)
        for name, gaps in self.by_group.items():
            content[name]["by_group"] = gaps.to_dict()
        return content


def _print(results: _Results, metrics: Sequence[Metric], level: float) -> None:
    """Print the table for people, with its notes."""
    if caveat := results.first.caveat:
        print_text(caveat)
    print_table(results.rows(), metrics)
    print_text(_about_ece(results.cards, level))
    if results.zero is not None:
        print_text(f"NLL before calibration: no floor, but a true class of probability 0 counts as {results.zero:g}.")
    _print_group_gaps(results.by_group)


def _measure(
    data: Rows,
    calibrator: FittedMethod | None,
    classes: Sequence[str] | None,
    by: By | None,
    level: float,
    measures: dict[str, Any],
) -> _Results:
    """All cards, and the second minus the first, from the same passes; groups take further passes."""
    floor = getattr(calibrator, "floor_", None)
    maps = _maps(calibrator, floor)
    if data.are_scores and calibrator is not None:
        del maps["before"]  # scores are no probabilities before
    chosen = list(maps.values())
    refuse_scores(data, chosen)
    check_groups(data, chosen)
    differences, zero = None, None
    if len(chosen) == 1 or measures["n_bins"] > MOST_BINS:
        cards = scorecards(data, chosen, **measures)
    else:
        measured = measure_maps(data, maps, pairs=[("before", "after")], **measures, zero=floor)
        cards, differences, zero = list(measured.cards.values()), measured.differences("before", "after"), floor
    by_group = {}
    if by is not None:
        gaps = gaps_after(data, chosen, by, names_of_groups(data, by, classes), level)
        by_group = dict(zip(maps, gaps, strict=True))
    error = getattr(calibrator, "temperature_se_", None)
    return _Results(dict(zip(maps, cards, strict=True)), differences, error, by_group, zero)


def _measure_sketch(sums: Sketch, calibrator: FittedMethod | None, measures: dict[str, Any]) -> _Results:
    """All cards; a sketch already has the floor of its rows."""
    maps = _maps(calibrator, None)
    cards = scorecards(sums, list(maps.values()), **measures)
    return _Results(dict(zip(maps, cards, strict=True)), None, getattr(calibrator, "temperature_se_", None), {})


def _maps(calibrator: FittedMethod | None, floor: float | None) -> dict[str, Map]:
    """The model before and after calibration."""
    maps: dict[str, Map] = {"before": Temperature(1.0)}
    if calibrator is not None:
        maps["after"] = calibrator.map_ if floor is None else Floored(calibrator.map_, floor)
    return maps


def _card_content(card: Scorecard, level: float) -> dict[str, Any]:
    """Everything about a scorecard, for machines."""
    curve: Reliability = card.reliability
    bins = ("confidence", "accuracy", "weight", "count", "lower", "upper")
    others = (name for name, estimate in card.estimates.items() if not estimate.metric.in_tables)
    numbers = {f"{name}{end}": getattr(card, f"{name}{end}") for name in others for end in ("", "_se")}
    numbers |= card.corrected
    intervals = {name: _limits(estimate, level) for name, estimate in card.estimates.items()}
    curves = {name: getattr(curve, name).tolist() for name in bins}
    return {**as_row(card), **numbers, "intervals": intervals, "reliability": curves}


def _change_content(differences: dict[str, Difference] | None, level: float) -> dict[str, Any] | None:
    """The second card minus the first, for machines; None if that was not measured."""
    if differences is None:
        return None
    return {
        name: {key: getattr(difference, key) for key in ("value", "se", "p_value")} | {"interval": _limits(difference, level)}
        for name, difference in differences.items()
    }


def _limits(number: Estimate | Difference, level: float) -> list[float] | None:
    return None if number.se is None else list(number.interval(level))


def _about_ece(cards: Mapping[str, Scorecard], level: float) -> str:
    """The bias-corrected ECE in a sentence."""
    parts = []
    for name, card in cards.items():
        if (corrected := card.ece_corrected) is not None:
            low, high = card.interval("ece", level)
            parts.append(f"{name} {100 * corrected:.2f} % ({100 * low:.2f} to {100 * high:.2f} %)")
    return f"Bias-corrected ECE, {100 * level:g} % interval: {', '.join(parts)}" if parts else ""


def _draw(results: _Results, path: Path, *, overwrite: bool) -> None:
    """Draw the reliability diagram and, if groups were requested, a second panel with their gaps."""
    panels = 2 if results.by_group else 1
    figure = require("matplotlib.figure", extra="plot", for_="--plot").Figure(figsize=(4.8 * panels, 5.4), layout="constrained")
    nishimori.plot.reliability_diagram(dict(results.cards), ax=figure.add_subplot(1, panels, 1))
    if results.by_group:
        nishimori.plot.group_gaps(dict(results.by_group), ax=figure.add_subplot(1, panels, 2))
    with new_file(path, overwrite=overwrite) as temporary:
        figure.savefig(temporary, format=path.suffix.lower().removeprefix("."), dpi=150)


def _print_group_gaps(gaps_by_time: Mapping[str, GroupGaps]) -> None:
    """Print the groups with the largest gaps before and after calibration, and the mean absolute gap."""
    for when, gaps in gaps_by_time.items():
        print_text("")
        print_text(f"Gaps {when} calibration, the worst first:")
        table = gaps.table
        print_tabular(Tabular(table.headers, table.rows[:PRINTED_ROWS]))
        if (more := len(table.rows) - PRINTED_ROWS) > 0:
            print_text(f"{more} more are not shown; --json prints all.")
        print_text(gaps.summary)
