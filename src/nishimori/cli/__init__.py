"""The ``nishimori`` command: fit, apply, eval, demo, theory, paper."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer

import nishimori
from nishimori._array import on_host
from nishimori._disk import check_folder, check_target
from nishimori._inputs import Batches, batches, inverse
from nishimori._labels import refuse_permuted
from nishimori._moments import average
from nishimori._observables import Confidence
from nishimori._reliability import Strategy, reliability_of
from nishimori._scores import Input
from nishimori.cli import _demo
from nishimori.cli import _files as _logit_files
from nishimori.cli import _paper as _paper_commands
from nishimori.cli import _theory as _theory_command
from nishimori.cli._files import LogitFile, Names
from nishimori.cli._terminal import JsonOption, note, one_line_errors, print_json, print_table, print_text, progress
from nishimori.errors import InputError

# Rows that apply takes at a time, for the sake of the progress bar.
_ROWS = 2**16

app = typer.Typer(
    help="Make classifiers honest about their confidence: fit a temperature, apply it, and see the difference.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


app.add_typer(_paper_commands.app, name="paper")
app.command()(_theory_command.theory)

Method = Literal["ec", "ts"]

Files = Annotated[
    list[Path],
    typer.Argument(
        help="One .npz, .csv, .parquet, .pt or .safetensors file, or two .npy files: scores, labels.", show_default=False
    ),
]
InputOption = Annotated[Input, typer.Option(help="What the scores are; nothing is guessed.")]
ScoresOption = Annotated[
    str | None, typer.Option(help="Name of the array of scores; the value of --input by default.", show_default=False)
]
LabelsOption = Annotated[str, typer.Option(help="Name of the array or column of labels.")]
WeightsOption = Annotated[
    str | None, typer.Option(help="Name of the array or column of sample weights, if any.", show_default=False)
]
ColumnsOption = Annotated[
    str | None,
    typer.Option(help="Columns of a .csv or .parquet file that hold the scores, comma-separated; all others by default."),
]
ClassesOption = Annotated[
    str | None, typer.Option(help="Label of each column in order, comma-separated, where labels are not 0, 1, ...")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace existing files.")]


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    if version:
        print_text(nishimori.__version__)
        raise typer.Exit


@app.command()
def fit(
    files: Files,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the calibration, a .json file.")],
    method: Annotated[Method, typer.Option(help="ec: mean confidence = accuracy. ts: least cross-entropy.")] = "ec",
    top_n: Annotated[int, typer.Option(help="With ec: match the mean top-N probability to the top-N accuracy.")] = 1,
    input: InputOption = "logits",
    scores: ScoresOption = None,
    labels: LabelsOption = "labels",
    weights: WeightsOption = None,
    columns: ColumnsOption = None,
    classes: ClassesOption = None,
    as_json: JsonOption = False,
    force: ForceOption = False,
) -> None:
    """Choose a temperature from validation scores and labels and write it to a file."""
    if top_n != 1 and method == "ts":
        raise typer.BadParameter("belongs to --method ec", param_hint="--top-n")
    if output.suffix in _logit_files.SUFFIXES:
        raise InputError(f"{output} would hold a calibration, which is JSON. Choose a name that ends in .json.")
    check_target(output, overwrite=force)
    data = _logit_files.read(files, _names(input, scores, labels, weights, columns), labelled=True)
    known = _split(classes)
    refuse_permuted(data.columns, known)
    _mention(data, input)
    truth = _truth(data.labels, known)
    calibrator = (
        nishimori.TemperatureScaling(input=input, classes=known)
        if method == "ts"
        else nishimori.ExpectationConsistency(top_n=top_n, input=input, classes=known)
    )
    with progress("Fitting"):
        calibrator.fit(data.scores, truth, data.weights)
    if data.columns is not None:
        calibrator.name_columns(data.columns)
    calibrator.save(output, overwrite=force)
    receipt = calibrator.receipt_
    result = {
        "method": method,
        "temperature": calibrator.temperature_,
        "top_n": top_n,
        "accuracy": receipt.accuracy,
        "n_samples": receipt.n_samples,
        "n_passes": receipt.n_passes,
        "residual": receipt.residual,
        "n_zeros": receipt.n_zeros,
        "n_masked": receipt.n_masked,
        "file": str(output),
    }
    if as_json:
        print_json(result)
    else:
        kind = "over" if calibrator.temperature_ > 1 else "under"
        print_text(f"T = {calibrator.temperature_:.6g}  ({method}, {receipt.n_samples} samples: the model is {kind}confident)")
    note(f"Wrote {output}")


@app.command()
def apply(
    calibration: Annotated[Path, typer.Argument(help="What fit wrote.", show_default=False)],
    file: Annotated[Path, typer.Argument(help="Scores to calibrate; labels in the file are not used.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write probabilities, in the format of its ending.")],
    scores: ScoresOption = None,
    labels: LabelsOption = "labels",
    weights: WeightsOption = None,
    columns: ColumnsOption = None,
    as_json: JsonOption = False,
    force: ForceOption = False,
) -> None:
    """Turn scores into calibrated probabilities."""
    check_target(output, overwrite=force)
    if calibration.suffix in _logit_files.SUFFIXES:
        raise InputError(f"{calibration} is no calibration. Pass the calibration first, then the file: apply c.json test.npz.")
    _logit_files.ending(output)  # known before the work is done
    calibrator = nishimori.load(calibration)
    data = _logit_files.read([file], _names(calibrator.input, scores, labels, weights, columns), labelled=False)
    _check_columns(calibrator, data)
    parts = []
    with progress("Applying") as report:
        for start in range(0, len(data.scores), _ROWS):
            parts.append(on_host(calibrator.predict_proba(data.scores[start : start + _ROWS])))
            report(min(start + _ROWS, len(data.scores)) / len(data.scores))
    probabilities = np.concatenate(parts)
    headers = data.columns if calibrator.classes is None else calibrator.classes_.tolist()
    _logit_files.write(output, probabilities, headers, overwrite=force)
    if as_json:
        n_samples, n_classes = probabilities.shape
        print_json(
            {"file": str(output), "n_samples": n_samples, "n_classes": n_classes, "temperature": calibrator.temperature_}
        )
    note(f"Wrote {output}")


@app.command("eval")
def evaluate(
    files: Files,
    calibration: Annotated[
        Path | None, typer.Option(help="What fit wrote; adds a row after calibration.", show_default=False)
    ] = None,
    input: Annotated[
        Input | None, typer.Option(help="What the scores are; the calibration's, or logits.", show_default=False)
    ] = None,
    scores: ScoresOption = None,
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
    data = _logit_files.read(files, _names(kind, scores, labels, weights, columns), labelled=True)
    known: Any = _split(classes)
    if calibrator is not None:
        _check_columns(calibrator, data)
        known = calibrator.classes if known is None else known
    texts = None if known is None else [str(label) for label in known]
    rows = {"before": 1.0} | ({} if calibrator is None else {"after": calibrator.temperature_})
    with progress("Measuring"):
        checked = batches(data.scores, _truth(data.labels, known), data.weights, input=kind, classes=texts)
        table = {name: _measures(checked, temperature, n_bins, strategy) for name, temperature in rows.items()}
    if as_json:
        print_json(table)
    else:
        print_table(table)


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the logits and the picture.")] = Path(
        "nishimori-demo"
    ),
    network: Annotated[
        str, typer.Option(help="A bundled network, such as cifar100/vgg19; a name that does not exist lists them all.")
    ] = "cifar10/resnet20",
    as_json: JsonOption = False,
    force: ForceOption = False,
) -> None:
    """Calibrate a real network whose logits come with nishimori, and show what that does."""
    check_folder(output, for_="the demo needs")
    validation, test, picture = output / "val.npz", output / "test.npz", output / "demo.png"
    with progress("Calibrating"):
        result = _demo.run(network)
    output.mkdir(parents=True, exist_ok=True)
    for path in (validation, test, picture):
        check_target(path, overwrite=force)
    note(_demo.description(result.network))
    rows = {"before": 1.0, "after EC": result.found.ec, "after TS": result.found.ts}
    checked = batches(result.network.test.logits, result.network.test.labels)
    table = {name: _measures(checked, T, 15, "uniform") for name, T in rows.items() if T is not None}
    if as_json:
        print_json(table)
    else:
        print_table(table, f"{len(result.network.test.labels):,} test images; T from {result.found.n_samples:,} others")
    _demo.save(result.network.validation, validation, overwrite=force)
    _demo.save(result.network.test, test, overwrite=force)
    note(f"Wrote {validation} and {test}")
    try:
        _demo.draw(result, picture, overwrite=force)
    except ModuleNotFoundError as missing:
        note(str(missing))
    else:
        note(f"Wrote {picture}")


def main() -> None:
    """Run the command; an error that is the user's to mend is one line and exit code 1."""
    with one_line_errors():
        app()


def _names(input: Input, scores: str | None, labels: str, weights: str | None, columns: str | None) -> Names:
    split = _split(columns)
    return Names(scores or input, labels, weights, None if split is None else tuple(split))


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


def _check_columns(calibrator: Any, data: LogitFile) -> None:
    """Refuse a file whose columns are not those of the calibration, in its order."""
    names = getattr(calibrator, "feature_names_in_", None)
    if names is not None and data.columns is not None and names.tolist() != data.columns:
        raise InputError(
            f"The calibration was fitted to the columns {', '.join(names.tolist())}, "
            f"but the file has {', '.join(data.columns)}. Name the right ones in the right order with --columns."
        )
    n_classes = getattr(calibrator, "n_features_in_", None)
    if data.columns is not None and n_classes not in (None, len(data.columns)):
        raise InputError(
            f"The calibration has {n_classes} classes, but the file has {len(data.columns)} columns of scores: "
            f"{', '.join(data.columns)}. Name the right ones with --columns, and labels with --labels."
        )
    calibrator.name_columns(None)  # checked; the plain arrays that follow have no names to compare


def _truth(labels: Any, classes: Sequence[Any] | None) -> Any:
    """Labels as numbers, or spelled as ``classes`` are where there are any: 3.0 in a file is the class 3 of the shell."""
    values = on_host(labels)
    if values.ndim != 1:
        return labels  # refused with its shape
    if classes is None:
        try:
            return values.astype(np.float64) if values.dtype.kind == "U" else values
        except ValueError:
            return values
    known = {str(label) for label in classes}
    return [_spelled(value, known) for value in values.tolist()]


def _spelled(value: Any, known: set[str]) -> str:
    text = str(value)
    try:
        whole = text if text in known else str(int(float(text)))
    except (ValueError, OverflowError):
        return text
    return whole if whole in known else text


def _measures(data: Batches, temperature: float, n_bins: int, strategy: Strategy) -> dict[str, float]:
    """The row of the table at one temperature: the metrics of that name, of data checked once."""
    beta = inverse(temperature)
    mean = partial(average, data, beta=beta)
    return {
        "temperature": temperature,
        "error": mean(lambda gibbs: -Confidence().observed(gibbs.batch)),
        "confidence": mean(lambda gibbs: gibbs.top),
        "ece": reliability_of(data, beta=beta, n_bins=n_bins, strategy=strategy, of="top").error(),
        "brier": mean(lambda gibbs: gibbs.brier),
        "nll": mean(lambda gibbs: gibbs.nll),
    }
