"""``nishimori fit``, ``apply`` and ``eval``: from files of scores to a calibration, to probabilities, to a table."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

import nishimori
from nishimori._array import like, on_host
from nishimori._disk import check_target
from nishimori._labels import refuse_permuted, spelled_as
from nishimori._maps import Temperature
from nishimori._progress import shown
from nishimori._reliability import Strategy
from nishimori._scorecard import scorecards
from nishimori._scores import Input, scores
from nishimori._sources import Reported, source
from nishimori.cli import _files
from nishimori.cli._files import LogitFile, Names
from nishimori.cli._terminal import ForceOption, JsonOption, as_row, note, print_json, print_table, print_text
from nishimori.errors import InputError

if TYPE_CHECKING:
    from nishimori import Calibrator  # which imports scikit-learn, and most commands need none

# Rows that apply takes at a time, so that the progress bar moves.
_ROWS = 2**16

Files = Annotated[
    list[Path],
    typer.Argument(
        help="One .npz, .csv, .parquet, .pt or .safetensors file, or two .npy files: scores, labels.", show_default=False
    ),
]
InputOption = Annotated[Input, typer.Option(help="What the scores are; nothing is guessed.")]
ScoresOption = Annotated[
    str | None,
    typer.Option("--scores", help="Name of the array of scores; logits or probabilities by default.", show_default=False),
]
LabelsOption = Annotated[str, typer.Option(help="Name of the array or column of labels.")]
WeightsOption = Annotated[
    str | None, typer.Option(help="Name of the array or column of sample weights, if any.", show_default=False)
]
ColumnsOption = Annotated[
    str | None,
    typer.Option(help="Columns of a table that hold the scores, comma-separated; by default all except labels and weights."),
]
ClassesOption = Annotated[
    str | None, typer.Option(help="Label of each column in order, comma-separated, where labels are not 0, 1, ...")
]
MethodOption = Annotated[
    str,
    typer.Option(
        help="ec: mean confidence = accuracy. ts: least cross-entropy. Or an installed method, or package.module:Name."
    ),
]


def fit(
    files: Files,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the calibration, a .json file.")],
    method: MethodOption = "ec",
    top_n: Annotated[int, typer.Option(help="With ec: match the mean top-N probability to the top-N accuracy.")] = 1,
    input: InputOption = "logits",
    scores_name: ScoresOption = None,
    labels: LabelsOption = "labels",
    weights: WeightsOption = None,
    columns: ColumnsOption = None,
    classes: ClassesOption = None,
    as_json: JsonOption = False,
    force: ForceOption = False,
) -> None:
    """Choose a temperature from validation scores and labels and write it to a file."""
    known = _split(classes)
    calibrator = _calibrator(method, top_n, {"input": input, "classes": known})
    if output.suffix in _files.SUFFIXES:
        raise InputError(f"{output} would hold a calibration, which is JSON. Choose a name that ends in .json.")
    check_target(output, overwrite=force)
    data = _files.read(files, _names(input, scores_name, labels, weights, columns), labelled=True)
    refuse_permuted(data.columns, known)
    truth = spelled_as(on_host(data.labels), known)
    rows = source(data.scores, truth, data.weights, input=input, classes=known, names=("scores", "labels"))
    _mention(data, input)
    with shown(None) as report:
        calibrator.fit(Reported(rows, "Fitting", report))
    if data.columns is not None:
        calibrator.name_columns(data.columns)
    calibrator.save(output, overwrite=force)
    _show_fit(calibrator, method, top_n, output, as_json=as_json)


def _calibrator(method: str, top_n: int, params: dict[str, Any]) -> "Calibrator":
    """The calibrator that the options ask for; an unknown method is wrong usage."""
    if top_n != 1 and method != "ec":
        raise typer.BadParameter("only --method ec has it.", param_hint="--top-n")
    if ":" in method:
        sys.path.append(str(Path.cwd()))  # a module beside the data, but never instead of an installed one
    try:
        return nishimori.calibrator(method, **params, **({} if top_n == 1 else {"top_n": top_n}))
    except InputError as error:
        raise typer.BadParameter(str(error), param_hint="--method") from None


def _show_fit(calibrator: Any, method: str, top_n: int, output: Path, *, as_json: bool) -> None:
    receipt, temperature = getattr(calibrator, "receipt_", None), calibrator.temperature_
    told = ("accuracy", "n_samples", "n_passes", "residual", "n_zeros", "n_masked")
    if as_json:
        numbers = {name: getattr(receipt, name, None) for name in told} | {"n_samples": calibrator.n_samples_}
        print_json({"method": calibrator.method, "temperature": temperature, "top_n": top_n, **numbers, "file": str(output)})
    elif temperature is None:
        print_text(f"{calibrator.map_}  ({method}, {calibrator.n_samples_} samples)")
    else:
        kind = "over" if temperature > 1 else "under"
        print_text(f"T = {temperature:.6g}  ({method}, {calibrator.n_samples_} samples: the model is {kind}confident)")
    note(f"Wrote {output}")


def apply(
    calibration: Annotated[Path, typer.Argument(help="The calibration file that fit wrote.", show_default=False)],
    file: Annotated[Path, typer.Argument(help="Scores to calibrate; labels in the file are not used.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write probabilities, in the format of its ending.")],
    scores_name: ScoresOption = None,
    labels: LabelsOption = "labels",
    weights: WeightsOption = None,
    columns: ColumnsOption = None,
    as_json: JsonOption = False,
    force: ForceOption = False,
) -> None:
    """Turn scores into calibrated probabilities."""
    check_target(output, overwrite=force)
    if calibration.suffix in _files.SUFFIXES:
        raise InputError(
            f"{calibration} is not a calibration. Pass the calibration first, then the file: apply c.json test.npz."
        )
    _files.ending(output)  # known before the work is done
    calibrator = nishimori.load(calibration)
    names = _names(calibrator.input, scores_name, labels, weights, columns, calibrated=True)
    data = _files.read([file], names, labelled=False)
    _check_columns(calibrator, data)
    probabilities = _probabilities(calibrator, data)
    headers = data.columns if calibrator.classes is None else calibrator.classes_.tolist()
    _files.write(output, probabilities, headers, overwrite=force)
    if as_json:
        n_samples, n_classes = probabilities.shape
        temperature = calibrator.temperature_
        print_json({"file": str(output), "n_samples": n_samples, "n_classes": n_classes, "temperature": temperature})
    note(f"Wrote {output}")


def _probabilities(calibrator: "Calibrator", data: LogitFile) -> Any:
    """Calibrated, block by block, so that a bar can be shown."""
    parts, n_rows = [], len(data.scores)
    with shown(None) as report:
        for start in range(0, n_rows, _ROWS):
            block = scores(data.scores[start : start + _ROWS], input=calibrator.input, name="scores")
            parts.append(on_host(like(calibrator.map_.probabilities(block.logits(start)), block.array)))
            report("Applying", min(start + _ROWS, n_rows), n_rows)
    return np.concatenate(parts)


def evaluate(
    files: Files,
    calibration: Annotated[
        Path | None, typer.Option(help="The calibration file that fit wrote; adds a row after calibration.", show_default=False)
    ] = None,
    input: Annotated[
        Input | None,
        typer.Option(help="What the scores are; by default as calibrated, else logits.", show_default=False),
    ] = None,
    scores_name: ScoresOption = None,
    labels: LabelsOption = "labels",
    weights: WeightsOption = None,
    columns: ColumnsOption = None,
    classes: ClassesOption = None,
    n_bins: Annotated[int, typer.Option(help="Bins of the ECE.")] = 15,
    strategy: Annotated[Strategy, typer.Option(help="Bins of equal width, or of equal weight as in the paper.")] = "uniform",
    as_json: JsonOption = False,
) -> None:
    """Measure error, confidence, ECE, Brier score and loss, before and after calibration."""
    calibrator = None if calibration is None else nishimori.load(calibration)
    if calibrator is not None and input is not None and input != calibrator.input:
        raise InputError(f"`--input` must be {calibrator.input}, which the calibration was fitted to, got {input}.")
    kind = calibrator.input if calibrator is not None else input or "logits"
    names = _names(kind, scores_name, labels, weights, columns, calibrated=calibrator is not None)
    data = _files.read(files, names, labelled=True)
    known: Any = _split(classes)
    if calibrator is not None:
        _check_columns(calibrator, data)
        known = calibrator.classes if known is None else known
    refuse_permuted(data.columns, known)
    texts = None if known is None else [str(label) for label in known]
    maps = {"before": Temperature(1.0)} | ({} if calibrator is None else {"after": calibrator.map_})
    truth = spelled_as(on_host(data.labels), known)
    rows = source(data.scores, truth, data.weights, input=kind, classes=texts, names=("scores", "labels"))
    with shown(None) as report:
        measured = Reported(rows, "Measuring", report)
        cards = scorecards(measured, list(maps.values()), n_bins=n_bins, strategy=strategy)
    table = {name: as_row(card) for name, card in zip(maps, cards, strict=True)}
    if as_json:
        print_json(table)
    else:
        print_table(table)


def _names(
    input: Input, scores: str | None, labels: str, weights: str | None, columns: str | None, *, calibrated: bool = False
) -> Names:
    split = _split(columns)
    return Names(scores or input, labels, weights, None if split is None else tuple(split), calibrated)


def _split(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",")]


def _mention(data: LogitFile, input: Input) -> None:
    """Say what would go unnoticed: which columns count, and logits that could be probabilities."""
    if data.columns is not None:
        note(f"Scores are the {len(data.columns)} columns {data.columns[0]} to {data.columns[-1]}")
    values = on_host(data.scores[:1000])
    plain = input == "logits" and values.ndim == 2 and values.dtype.kind == "f"
    if plain and (values >= 0).all() and np.allclose(values.sum(axis=1), 1, atol=1e-3):
        note("Each row of logits sums to 1. If they are probabilities, pass --input probabilities")


def _check_columns(calibrator: "Calibrator", data: LogitFile) -> None:
    """Refuse a file whose columns are not those of the calibration, in its order."""
    found = scores(data.scores, input=calibrator.input, name="scores").n_classes
    names = getattr(calibrator, "feature_names_in_", None)
    if names is not None and data.columns is not None and names.tolist() != data.columns:
        raise InputError(
            f"The calibration was fitted to the columns {', '.join(names.tolist())}, "
            f"but the file has {', '.join(data.columns)}. Name the right ones in the right order with --columns."
        )
    n_classes = getattr(calibrator, "n_features_in_", None)
    if n_classes not in (None, found):
        has = "one score per row, which stands for 2" if data.scores.ndim == 1 else f"{found} columns of scores"
        remedy = ". Pass scores of the same model."
        if data.columns is not None:
            remedy = f": {', '.join(data.columns)}. Name the right ones with --columns, and labels with --labels."
        raise InputError(f"The calibration has {n_classes} classes, but the file has {has}{remedy}")
