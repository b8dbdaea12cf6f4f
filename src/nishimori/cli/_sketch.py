"""``nishimori sketch`` and ``nishimori merge``: from files of rows to small files of sums."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np

import nishimori
from nishimori import Sketch
from nishimori._rows.labels import class_labels
from nishimori._rows.scores import check_input, is_auto
from nishimori._support.progress import begin_step, show_progress
from nishimori.cli import _files
from nishimori.cli._files import SCORES, SKETCH, refuse_other
from nishimori.cli._help import DATA, ForceOption, JsonOption, argument, epilog, flag, option
from nishimori.cli._options import DataOptions, DataToSketch, Files, split
from nishimori.cli._terminal import collect_warnings, note, print_json, print_text
from nishimori.errors import InputError, MergeError

OutputOption = Annotated[Path, option("Where to write the sketch, a .npz file.", "FILE", "--output", "-o")]
AllowRepeatedOption = Annotated[
    bool,
    flag("Add a part even if it is already there: different samples may have the same sums.", "--allow-repeated", panel=DATA),
]


def _limits(text: str) -> tuple[float, ...] | str:
    """Comma-separated numbers; other text stays as it is, so that the sketch refuses it."""
    try:
        return tuple(map(float, split(text)))
    except ValueError:
        return text


TemperaturesOption = Annotated[
    Any,
    option(
        "Lowest and highest temperature that a fit can find, such as 0.01,100.", "LOW,HIGH", shows="1/22,22", parser=_limits
    ),
]

EPILOG = epilog(
    "nishimori sketch monday.parquet -o monday.npz",
    "nishimori sketch tuesday/ more.csv --labels label -o tuesday.npz",
)
MERGE_EPILOG = epilog(
    "nishimori merge monday.npz tuesday.npz -o both.npz",
    "nishimori fit both.npz -o calibration.json",
)


def sketch(
    files: Files,
    output: OutputOption,
    temperatures: TemperaturesOption = None,
    *,
    data: DataToSketch,
    as_json: JsonOption = False,
    force: ForceOption = False,
) -> None:
    """Sum up rows in a small file, which fit, eval and gate read."""
    floor = data.floor_to_fit
    check_input(data.input, floor, fits=True)
    if is_auto(floor) and data.input == "probabilities":
        raise InputError(
            "floor",
            "be a number or none for a sketch of probabilities",
            got="auto: sums are made once, for one floor",
            remedy="Choose it on some of the rows: nishimori fit --input probabilities shows the floor that it has chosen.",
        )
    limits = {} if temperatures is None else {"temperatures": temperatures}
    sums = Sketch(input=data.meaning, classes=data.classes, floor=floor, **limits)
    files = _files.find_files(files)
    _files.check_inputs(files)
    _files.check_output(output, (".npz",), "sketch.npz", overwrite=force, read=files)
    with collect_warnings() as warned, show_progress(None):
        for group in _groups(files):
            begin_step(f"Reading {group[0].name}")
            _add(sums, group, data)
            sums._end_part()  # each file is one, so that its own sketch is noticed later
        sums.check_range("scores", remedy="")
    sums.save(output, overwrite=force)
    _show(sums, output, warned, as_json=as_json)


def merge(
    files: Annotated[list[Path], argument("The sketches to add.", "FILES")],
    output: OutputOption,
    allow_repeated: AllowRepeatedOption = False,
    as_json: JsonOption = False,
    force: ForceOption = False,
) -> None:
    """Add sketches: the result is the sketch of all their rows.

    A file whose samples are in already, such as a copy of another one, is refused.
    """
    _files.check_output(output, (".npz",), "sketch.npz", overwrite=force)
    total: Sketch | None = None
    for path in files:
        refuse_other(path, SKETCH, SKETCH)
        more = Sketch.load(path)
        try:
            total = more if total is None else total.merge(more, allow_repeated=allow_repeated)
        except MergeError as error:
            raise MergeError(f"{path} cannot be merged with the files before it. {error}") from None
    assert total is not None, "there is at least one file"
    total.save(output, overwrite=force)
    _show(total, output, [], as_json=as_json)


def _groups(files: Sequence[Path]) -> list[list[Path]]:
    """The files of each data set: a pair of .npy files, or one file alone."""
    for path in files:
        refuse_other(path, SCORES, SCORES)
    if any(path.suffix.lower() == ".npy" for path in files):
        return [list(files)]
    return [[path] for path in files]


def _add(sums: Sketch, files: Sequence[Path], data: DataOptions) -> None:
    """Add the rows of a file; errors name it."""
    rows = _files.open_files(files, replace(data, floor=sums.floor), notes_columns=False, guard="defer")
    try:
        if rows.clusters is not None:  # all rows of a cluster are summed together, wherever they are
            labels = rows.labels if sums.classes is None else class_labels(sums.classes)[rows.labels]
            sums.update(np.asarray(rows.stored), labels, rows.weights, rows.clusters.codes)
            return
        sums.update(rows)
    except InputError as error:
        argument = "scores" if error.argument == "logits" else error.argument
        raise (error if error.where else rows.place(error.changed(argument=argument))) from None


def _show(sums: Sketch, output: Path, warned: list[str], *, as_json: bool) -> None:
    low, high = sums.temperatures
    if as_json:
        print_json(
            {
                "n_samples": sums.n_samples,
                "n_parts": sums.n_parts,
                "n_classes": sums.n_classes if sums.n_samples else None,
                "temperatures": [low, high],
                "input": sums.input,
                "floor": sums.floor,
                "classes": sums.classes,
                "file": str(output),
                "library_version": nishimori.__version__,
                "warnings": warned,
            }
        )
    else:
        print_text(f"{sums.n_samples} samples, T from {low:.3g} to {high:.3g}")
    note(f"Wrote {output}")
