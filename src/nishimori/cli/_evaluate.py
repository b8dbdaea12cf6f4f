"""``nishimori eval``: a table of metrics before and after calibration, and their picture."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import nishimori
from nishimori._array import HostArray
from nishimori._disk import check_target, new_file
from nishimori._inference import normal_quantile
from nishimori._labels import refuse_permuted, spelled_as
from nishimori._maps import Map, Temperature
from nishimori._optional import require
from nishimori._paired import MOST_BINS, Difference, compared
from nishimori._progress import shown
from nishimori._reliability import Reliability, Strategy
from nishimori._scorecard import METRICS, Scorecard, scorecards
from nishimori._scores import SAY_PROBABILITIES, Input, check_input
from nishimori._sketch import Sketch
from nishimori._sources import Reported, source
from nishimori._tables import listed
from nishimori.cli import _files
from nishimori.cli._options import (
    FIT_AGAIN,
    ClassesOption,
    ClustersOption,
    ColumnsOption,
    CountsOption,
    DecimalOption,
    DelimiterOption,
    Files,
    FloorOption,
    IgnoreOption,
    LabelsOption,
    ScoresOption,
    WeightsOption,
    check_n_classes,
    names_from,
    split,
)
from nishimori.cli._sketch_file import about_sketches, opened_sketch
from nishimori.cli._terminal import (
    ForceOption,
    JsonOption,
    as_row,
    heard,
    note,
    note_columns,
    print_json,
    print_table,
    print_text,
)
from nishimori.errors import InputError

if TYPE_CHECKING:
    from nishimori import Calibrator  # which imports scikit-learn

_PICTURES = (".png", ".pdf", ".svg")


def evaluate(
    files: Files,
    calibration: Annotated[
        Path | None, typer.Option(help="The calibration file that fit wrote; adds a row after calibration.", show_default=False)
    ] = None,
    input: Annotated[
        Input | None,
        typer.Option(help="What the scores are; by default as calibrated, else logits.", show_default=False),
    ] = None,
    floor: FloorOption = None,
    scores_name: ScoresOption = None,
    labels: LabelsOption = None,
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
    plot: Annotated[
        Path | None, typer.Option(help="Draw a reliability diagram to this .png, .pdf or .svg file.", show_default=False)
    ] = None,
    level: Annotated[float, typer.Option(help="Level of the intervals, between 0 and 1.")] = 0.95,
    as_json: JsonOption = False,
    force: ForceOption = False,
) -> None:
    """Measure error, confidence, ECE, Brier score and loss with standard errors, before and after calibration."""
    _refuse_swapped(files, calibration)
    normal_quantile(level)  # which checks it
    said = (input, floor, scores_name, labels, weights, clusters, counts, columns, ignore, classes, delimiter)
    if (sums := opened_sketch(files, *said, decimal != ".")) is not None:
        _evaluate_sketch(sums, files, calibration, (n_bins, strategy, level), plot, as_json=as_json, force=force)
        return
    _files.check_inputs(files, folders=True)
    calibrator = None if calibration is None else nishimori.load(calibration)
    kind, floor, known = _agreed(calibrator, input, floor, None if classes is None else split(classes))
    _check_plot(plot, overwrite=force)
    names = names_from(kind, scores_name, labels, weights, columns, ignore, (delimiter, decimal), known, calibrator, clusters)
    with shown(None) as report:
        data = _files.read(files, names, report)
    if calibrator is not None:
        check_n_classes(calibrator, data.like_scores, data.columns)
    refuse_permuted(data.columns, known)
    note_columns(data.columns)
    maps = {"before": Temperature(1.0)} | ({} if calibrator is None else {"after": calibrator.map_})
    truth = spelled_as(data.labels, known)
    column = None if len(files) == 2 else names.labels
    with heard() as told, shown(None) as report, _files.located(data.lines, data.columns, labels=column, files=data.files):
        _refuse_other_labels(truth, data.weights, None if calibrator is None or calibrator.classes is None else known)
        given: dict[str, Any] = {"input": kind, "classes": known, "floor": floor, "names": ("scores", "labels")}
        remedy = SAY_PROBABILITIES if calibrator is None else FIT_AGAIN
        rows = source(data.scores, truth, data.weights, clusters=data.clusters, probability_remedy=remedy, **given)
        results = _measured(Reported(rows, "Measuring", report), maps, n_bins, strategy, counts=counts)
    about: dict[str, Any] = {"n_bins": n_bins, "strategy": strategy, "input": kind, "floor": floor, "classes": known}
    about |= {"columns": data.columns, "label_column": column, "calibration": _text(calibration), "files": files}
    results = replace(results, temperature_se=getattr(calibrator, "temperature_se_", None))
    _show(results, about | {"level": level, "warnings": told}, plot, as_json=as_json, force=force)


@dataclass(frozen=True)
class _Results:
    """What was measured: a card before and perhaps one after calibration, and what these differ by."""

    cards: dict[str, Scorecard]
    differences: dict[str, Difference] | None = None
    temperature_se: float | None = None

    def rows(self) -> dict[str, dict[str, float | None]]:
        """Rows of the table."""
        rows = {name: as_row(card) for name, card in self.cards.items()}
        if "after" in rows and self.temperature_se is not None:
            rows["after"]["temperature_se"] = self.temperature_se
        if self.differences is not None:
            named = {name: (each.value, each.se) for name, each in self.differences.items()}
            rows["change"] = {f"{name}{end}": pair[i] for name, pair in named.items() for i, end in enumerate(("", "_se"))}
        return rows


def _show(results: _Results, about: dict[str, Any], plot: Path | None, *, as_json: bool, force: bool) -> None:
    """Draw the picture, if one is wanted, and print all numbers."""
    cards, level = results.cards, about["level"]
    if plot is not None:
        _draw(cards, plot, overwrite=force)
    if as_json:
        about = {"n_samples": cards["before"].n_samples, **about, "plot": _text(plot), "library_version": nishimori.__version__}
        about["files"] = [str(path) for path in about["files"]]
        told: dict[str, Any] = {name: _told(card, level) for name, card in cards.items()}
        if "after" in told:
            told["after"]["temperature_se"] = results.temperature_se
            told["change"] = _told_change(results.differences, level)
        print_json(told | about)
    else:
        print_table(results.rows())
        print_text(_about_ece(cards, level))
    if plot is not None:
        note(f"Wrote {plot}")


def _evaluate_sketch(
    sums: Sketch,
    files: Sequence[Path],
    calibration: Path | None,
    options: tuple[int, Strategy, float],
    plot: Path | None,
    *,
    as_json: bool,
    force: bool,
) -> None:
    """The same from the sums that the command sketch has written."""
    calibrator = None if calibration is None else nishimori.load(calibration)
    _agreed(calibrator, sums.input, sums.floor, None if sums.classes is None else [str(each) for each in sums.classes])
    _check_plot(plot, overwrite=force)
    maps = {"before": Temperature(1.0)} | ({} if calibrator is None else {"after": calibrator.map_})
    with heard() as told, about_sketches():
        if calibrator is not None:
            calibrator.check_columns(sums, "sketch")
        found = scorecards(sums, list(maps.values()), n_bins=options[0], strategy=options[1])
    about: dict[str, Any] = {"n_bins": options[0], "strategy": options[1], "input": sums.input, "floor": sums.floor}
    about |= {"classes": sums.classes, "columns": None, "label_column": None, "calibration": _text(calibration)}
    results = _Results(dict(zip(maps, found, strict=True)), None, getattr(calibrator, "temperature_se_", None))
    _show(results, about | {"files": files, "level": options[2], "warnings": told}, plot, as_json=as_json, force=force)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _refuse_swapped(files: Sequence[Path], calibration: Path | None) -> None:
    """Say so if the calibration and the file of scores are in each other's place."""
    if calibration is None or not calibration.name.lower().endswith(_files.SUFFIXES):
        return
    if [path.suffix.lower() for path in files] == [".json"]:
        example = f"eval {shlex.quote(str(calibration))} --calibration {shlex.quote(str(files[0]))}"
        raise InputError(f"{calibration} is not a calibration. Pass the file of scores first: {example}.")


def _refuse_other_labels(labels: Any, weights: HostArray | None, classes: Sequence[str] | None) -> None:
    """Refuse labels that are not the classes of the calibration, if it has any; other shapes are refused later."""
    if classes is None or not isinstance(labels, list) or (weights is not None and weights.shape != (len(labels),)):
        return
    known = set(classes)
    rows = [row for row, label in enumerate(labels) if label not in known and (weights is None or weights[row] != 0)]
    if rows:
        other = list(dict.fromkeys(labels[row] for row in rows))
        raise InputError(
            f"`labels` must be among the classes of the calibration, {listed(classes)}, got {listed(other)}, first in row "
            f"{rows[0]}. Name the right column with --labels, drop these samples, or fit again."
        )


def _agreed(
    calibrator: "Calibrator | None", input: Input | None, floor: float | None, classes: list[str] | None
) -> tuple[Input, float | None, list[str] | None]:
    """What the scores are, by the options and by the calibration; they must not contradict each other."""
    if calibrator is None:
        check_input(input or "logits", floor)
        return input or "logits", floor, classes
    if input is not None and input != calibrator.input:
        raise InputError(f"--input must be {calibrator.input}, which the calibration was fitted to, got {input}.")
    if floor is not None and floor != calibrator.floor:
        raise InputError(f"--floor must be that of the calibration, which is {calibrator.floor or 'none'}, got {floor:g}.")
    if calibrator.classes is None:
        return calibrator.input, calibrator.floor, classes
    known = [str(label) for label in calibrator.classes_.tolist()]
    if classes is not None and classes != known:
        raise InputError(
            f"--classes must be those of the calibration in its order, {listed(known)}, got {listed(classes)}. Leave it out."
        )
    return calibrator.input, calibrator.floor, known


def _measured(rows: Reported, maps: Mapping[str, Map], n_bins: int, strategy: Strategy, *, counts: bool) -> _Results:
    """All cards, and what the second differs from the first by, from the same readings."""
    chosen = list(maps.values())
    options: dict[str, Any] = {"n_bins": n_bins, "strategy": strategy, "counts": counts}
    if len(chosen) == 1 or n_bins > MOST_BINS:
        return _Results(dict(zip(maps, scorecards(rows, chosen, **options), strict=True)))
    cards, (differences,) = compared(rows, chosen, **options)
    return _Results(dict(zip(maps, cards, strict=True)), differences)


def _told(card: Scorecard, level: float) -> dict[str, Any]:
    """Everything about a scorecard, for machines."""
    curve: Reliability = card.reliability
    bins = ("confidence", "accuracy", "weight", "count", "lower", "upper")
    numbers = {"accuracy": card.accuracy, "accuracy_se": card.accuracy_se, "ece_corrected": card.ece_corrected}
    intervals = {name: None if name in card.why_no_se else list(card.interval(name, level)) for name in METRICS}
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
    return f"ECE without the bias of small bins, and its {100 * level:g} % interval: {', '.join(parts)}" if parts else ""


def _check_plot(path: Path | None, *, overwrite: bool) -> None:
    """Refuse a picture that cannot be drawn or written, before the work is done; None is no picture."""
    if path is None:
        return
    if path.suffix.lower() not in _PICTURES:
        raise InputError(f"--plot must be a file that ends in {', '.join(_PICTURES)}, got {path}.")
    _files.refuse_folder(path, "reliability.png")
    check_target(path, overwrite=overwrite)
    require("matplotlib", extra="plot", for_="--plot")


def _draw(cards: Mapping[str, Scorecard], path: Path, *, overwrite: bool) -> None:
    figure = require("matplotlib.figure", extra="plot", for_="--plot").Figure(figsize=(4.8, 5.4), layout="constrained")
    nishimori.plot.reliability_diagram(dict(cards), ax=figure.add_subplot())
    with new_file(path, overwrite=overwrite) as temporary:
        figure.savefig(temporary, format=path.suffix.lower().removeprefix("."), dpi=150)
