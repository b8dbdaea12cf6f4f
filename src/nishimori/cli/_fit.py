"""``nishimori fit``: from validation scores and labels to a calibration."""

import sys
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import nishimori
from nishimori._disk import check_target
from nishimori._labels import refuse_permuted, spelled_as
from nishimori._progress import shown
from nishimori._scores import Input, check_input
from nishimori._sketch import Sketch
from nishimori._sources import Reported, source
from nishimori._tabular import measured
from nishimori.cli import _files
from nishimori.cli._options import (
    ClassesOption,
    ClustersOption,
    ColumnsOption,
    CountsOption,
    DecimalOption,
    DelimiterOption,
    Files,
    FloorOption,
    IgnoreOption,
    LabelsToFitOption,
    ScoresOption,
    WeightsOption,
    names_from,
    split,
)
from nishimori.cli._sketch_file import about_sketches, opened_sketch
from nishimori.cli._terminal import ForceOption, JsonOption, heard, note, note_columns, print_json, print_text
from nishimori.errors import InputError

if TYPE_CHECKING:
    from nishimori import Calibrator  # which imports scikit-learn

MethodOption = Annotated[
    str | None,
    typer.Option(
        help="auto, the default: between ts and ec, and closer to ec the better the samples tell them apart. ec, the default "
        "with --top-n: mean confidence = accuracy. ts: lowest cross-entropy. none: T = 1. Or an installed method, or "
        "package.module:Name.",
        show_default=False,
    ),
]


def fit(
    files: Files,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the calibration, a .json file.")],
    method: MethodOption = None,
    top_n: Annotated[int, typer.Option(help="Only ec has it: match the mean top-N probability to the top-N accuracy.")] = 1,
    input: Annotated[Input, typer.Option(help="What the scores are; nothing is guessed.")] = "logits",
    floor: FloorOption = None,
    scores_name: ScoresOption = None,
    labels: LabelsToFitOption = None,
    weights: WeightsOption = None,
    clusters: ClustersOption = None,
    counts: CountsOption = False,
    columns: ColumnsOption = None,
    ignore: IgnoreOption = None,
    classes: ClassesOption = None,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = ".",
    as_json: JsonOption = False,
    force: ForceOption = False,
) -> None:
    """Choose a temperature from validation scores and labels and write it to a file."""
    known = None if classes is None else split(classes)
    method = method or ("auto" if top_n == 1 else "ec")
    said = (input != "logits", floor, scores_name, labels, weights, clusters, columns, ignore, classes, delimiter)
    if (sums := opened_sketch(files, *said, decimal != ".")) is not None:
        _fit_to_sketch(sums, output, method, top_n, counts=counts, as_json=as_json, force=force)
        return
    check_input(input, floor)
    calibrator = _calibrator(method, top_n, input, known, floor)
    _files.check_inputs(files, folders=True)
    _check_output(output, overwrite=force)
    names = names_from(input, scores_name, labels, weights, columns, ignore, (delimiter, decimal), known, clusters=clusters)
    with shown(None) as report:
        data = _files.read(files, names, report)
    refuse_permuted(data.columns, known)
    note_columns(data.columns)
    truth = spelled_as(data.labels, known)
    column = None if len(files) == 2 else names.labels
    with heard() as told, shown(None) as report, _files.located(data.lines, data.columns, labels=column, files=data.files):
        meaning: dict[str, Any] = {"input": input, "classes": known, "floor": floor, "names": ("scores", "labels")}
        rows = source(data.scores, truth, data.weights, clusters=data.clusters, **meaning)
        _learn(calibrator, Reported(rows, "Fitting", report), counts=counts)
    calibrator.name_columns(data.columns, column, data.column)
    calibrator.save(output, overwrite=force)
    _show(calibrator, top_n, output, told, as_json=as_json)


def _learn(calibrator: "Calibrator", data: Any, *, counts: bool) -> None:
    """Fit; not every method has a standard error."""
    if counts and "counts" not in signature(calibrator.fit).parameters:
        raise typer.BadParameter(f"the method {calibrator.method} has no standard error.", param_hint="--counts")
    calibrator.fit(data, **({"counts": True} if counts else {}))


def _fit_to_sketch(sums: Sketch, output: Path, method: str, top_n: int, *, counts: bool, as_json: bool, force: bool) -> None:
    """The same from the sums that the command sketch has written."""
    calibrator = _calibrator(method, top_n, sums.input, sums.classes, sums.floor)
    _check_output(output, overwrite=force)
    with heard() as told, about_sketches():
        _learn(calibrator, sums, counts=counts)
    calibrator.save(output, overwrite=force)
    _show(calibrator, top_n, output, told, as_json=as_json)


def _check_output(output: Path, *, overwrite: bool) -> None:
    """Refuse a name that does not end in .json, and one that cannot be written."""
    _files.refuse_folder(output, "calibration.json")
    if output.suffix.lower() != ".json" and (output.is_file() or not output.exists()):
        raise InputError(f"{output} would hold a calibration, which is JSON. Choose a name that ends in .json.")
    check_target(output, overwrite=overwrite)


def _calibrator(method: str, top_n: int, input: Input, classes: list[str] | None, floor: float | None) -> "Calibrator":
    """The calibrator that the options ask for; an unknown method is wrong usage."""
    if top_n != 1 and method != "ec":
        raise typer.BadParameter("only --method ec has it.", param_hint="--top-n")
    if ":" in method:
        sys.path.append(str(Path.cwd()))  # a module beside the data, but never instead of an installed one
    given = {"top_n": (top_n, 1), "floor": (floor, None)}
    chosen: dict[str, Any] = {name: value for name, (value, default) in given.items() if value != default}
    try:
        return nishimori.calibrator(method, input=input, classes=classes, **chosen)
    except InputError as error:
        raise typer.BadParameter(str(error), param_hint="--method") from None


def _show(calibrator: Any, top_n: int, output: Path, told: list[str], *, as_json: bool) -> None:
    receipt, temperature = getattr(calibrator, "receipt_", None), calibrator.temperature_
    method, n_samples, error = calibrator.method, calibrator.n_samples_, getattr(calibrator, "temperature_se_", None)
    verdict = None if temperature is None or method == "none" else f"{'over' if temperature > 1 else 'under'}confident"
    if as_json:
        columns = getattr(calibrator, "feature_names_in_", None)
        numbers = ("accuracy", "n_passes", "residual", "n_zeros", "n_masked")
        print_json(
            {
                "method": method,
                "temperature": temperature,
                "temperature_se": error,
                **{name: getattr(calibrator, f"{name}_") for name in ("ec", "ts", "weight") if hasattr(calibrator, f"{name}_")},
                "map": {"kind": calibrator.map_.kind, "parameters": dict(calibrator.map_.parameters)},
                "verdict": verdict,
                "top_n": top_n,
                "n_samples": n_samples,
                "n_classes": len(calibrator.classes_),
                **{name: getattr(receipt, name, None) for name in numbers},
                "input": calibrator.input,
                "floor": calibrator.floor,
                "classes": None if calibrator.classes is None else list(calibrator.classes),
                "columns": None if columns is None else columns.tolist(),
                "label_column": calibrator.label_column_,
                "score_column": calibrator.score_column_,
                "file": str(output),
                "library_version": nishimori.__version__,
                "warnings": told,
            }
        )
    elif temperature is None:
        print_text(f"{calibrator.map_}  ({method}, {n_samples} samples)")
    else:
        found = "nothing was fitted" if verdict is None else f"the model is {verdict}"
        print_text(f"T = {measured(temperature, error)}  ({method}, {n_samples} samples: {found})")
    note(f"Wrote {output}")
