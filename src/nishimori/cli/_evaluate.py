"""``nishimori eval``: a table of metrics before and after calibration, and their picture."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import nishimori
from nishimori._array import HostArray
from nishimori._disk import check_target, new_file
from nishimori._labels import refuse_permuted, spelled_as
from nishimori._maps import Map, Temperature
from nishimori._optional import require
from nishimori._progress import shown
from nishimori._reliability import Reliability, Strategy
from nishimori._scorecard import Scorecard, scorecards
from nishimori._scores import SAY_PROBABILITIES, Input, check_input
from nishimori._sketch import Sketch
from nishimori._sources import Reported, source
from nishimori._tables import listed
from nishimori.cli import _files
from nishimori.cli._options import (
    FIT_AGAIN,
    ClassesOption,
    ColumnsOption,
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
from nishimori.cli._terminal import ForceOption, JsonOption, as_row, heard, note, note_columns, print_json, print_table
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
    as_json: JsonOption = False,
    force: ForceOption = False,
) -> None:
    """Measure error, confidence, ECE, Brier score and loss, before and after calibration."""
    _refuse_swapped(files, calibration)
    said = (input, floor, scores_name, labels, weights, columns, ignore, classes, delimiter, decimal != ".")
    if (sums := opened_sketch(files, *said)) is not None:
        _evaluate_sketch(sums, files, calibration, (n_bins, strategy), plot, as_json=as_json, force=force)
        return
    _files.check_inputs(files, folders=True)
    calibrator = None if calibration is None else nishimori.load(calibration)
    kind, floor, known = _agreed(calibrator, input, floor, None if classes is None else split(classes))
    _check_plot(plot, overwrite=force)
    names = names_from(kind, scores_name, labels, weights, columns, ignore, (delimiter, decimal), known, calibrator)
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
        rows = source(data.scores, truth, data.weights, probability_remedy=remedy, **given)
        cards = _cards(Reported(rows, "Measuring", report), maps, n_bins, strategy)
    about: dict[str, Any] = {"n_bins": n_bins, "strategy": strategy, "input": kind, "floor": floor, "classes": known}
    about |= {"columns": data.columns, "label_column": column, "calibration": _text(calibration), "files": files}
    _show(cards, about | {"warnings": told}, plot, as_json=as_json, force=force)


def _show(cards: dict[str, Scorecard], about: dict[str, Any], plot: Path | None, *, as_json: bool, force: bool) -> None:
    """Draw the picture, if one is wanted, and print all numbers."""
    if plot is not None:
        _draw(cards, plot, overwrite=force)
    if as_json:
        about = {"n_samples": cards["before"].n_samples, **about, "plot": _text(plot), "library_version": nishimori.__version__}
        about["files"] = [str(path) for path in about["files"]]
        print_json({name: _told(card) for name, card in cards.items()} | about)
    else:
        print_table({name: as_row(card) for name, card in cards.items()})
    if plot is not None:
        note(f"Wrote {plot}")


def _evaluate_sketch(
    sums: Sketch,
    files: Sequence[Path],
    calibration: Path | None,
    bins: tuple[int, Strategy],
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
        found = scorecards(sums, list(maps.values()), n_bins=bins[0], strategy=bins[1])
    about: dict[str, Any] = {"n_bins": bins[0], "strategy": bins[1], "input": sums.input, "floor": sums.floor}
    about |= {"classes": sums.classes, "columns": None, "label_column": None, "calibration": _text(calibration)}
    cards = dict(zip(maps, found, strict=True))
    _show(cards, about | {"files": files, "warnings": told}, plot, as_json=as_json, force=force)


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


def _cards(rows: Reported, maps: Mapping[str, Map], n_bins: int, strategy: Strategy) -> dict[str, Scorecard]:
    return dict(zip(maps, scorecards(rows, list(maps.values()), n_bins=n_bins, strategy=strategy), strict=True))


def _told(card: Scorecard) -> dict[str, Any]:
    """Everything about a scorecard, for machines."""
    curve: Reliability = card.reliability
    bins = ("confidence", "accuracy", "weight", "count", "lower", "upper")
    return {**as_row(card), "accuracy": card.accuracy, "reliability": {name: getattr(curve, name).tolist() for name in bins}}


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
