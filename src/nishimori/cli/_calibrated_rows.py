"""The rows of a file with labels, to be measured with or without a calibration, whose options must agree with it."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nishimori._rows.entry import open_rows
from nishimori._rows.labels import refuse_permuted, spelled_as
from nishimori._rows.rows import Reported, Rows
from nishimori._rows.scores import Input, check_input, is_auto
from nishimori._rows.tables.block import listed
from nishimori._support.arrays import HostArray
from nishimori._support.progress import shown
from nishimori.cli import _files
from nishimori.cli._files import Names
from nishimori.cli._group_names import GroupNames
from nishimori.cli._options import FIT_AGAIN, check_n_classes
from nishimori.cli._terminal import note_columns
from nishimori.errors import InputError

if TYPE_CHECKING:
    from nishimori import Calibrator  # which imports scikit-learn

Meant = tuple[Input, float | None, list[str] | None]
"""What the scores are, the least probability, and the label of each column."""


@dataclass(frozen=True)
class CalibratedRows:
    """The rows, the columns that are their scores, and the name of the labels, where there are names."""

    data: Rows
    columns: list[str] | None
    label_column: str | None


@contextmanager
def opened_rows(
    files: Sequence[Path], names: Names, meaning: Meant, calibrator: "Calibrator | None", *, counts: bool
) -> Iterator[CalibratedRows]:
    """The rows of files; errors in the block name lines and columns, and a bar shows how much was read."""
    kind, floor, known = meaning
    with shown(None) as report:
        data = _files.read(files, names, report)
    if calibrator is not None:
        check_n_classes(calibrator, data.like_scores, data.columns)
    refuse_permuted(data.columns, known)
    note_columns(data.columns)
    truth = spelled_as(data.labels, known)
    column = None if len(files) == 2 else names.labels
    with shown(None) as report, _files.located(data.lines, data.columns, labels=column, files=data.files):
        _refuse_other_labels(truth, data.weights, None if calibrator is None or calibrator.classes is None else known)
        given: dict[str, Any] = {"input": kind, "classes": known, "floor": floor, "names": ("scores", "labels")}
        given |= {"clusters": data.clusters, "groups": data.groups, "counts": counts}
        remedy = "" if calibrator is None else FIT_AGAIN
        rows = open_rows(data.scores, truth, data.weights, probability_remedy=remedy, **given)
        if calibrator is not None:
            rows.groups = GroupNames(calibrator.map_).spelled(rows.groups)
        yield CalibratedRows(Reported(rows, "Measuring", report), data.columns, column)


def refuse_swapped(command: str, files: Sequence[Path], calibration: Path | None) -> None:
    """Say so if the calibration and the file of scores are in each other's place."""
    if calibration is None or not calibration.name.lower().endswith(_files.SUFFIXES):
        return
    if [path.suffix.lower() for path in files] == [".json"]:
        example = f"{command} {shlex.quote(str(calibration))} --calibration {shlex.quote(str(files[0]))}"
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
            "labels",
            f"be among the classes of the calibration, {listed(classes)}",
            got=f"{listed(other)}, first",
            row=rows[0],
            remedy="Name the right column with --labels, drop these samples, or fit again.",
        )


def agreed(
    calibrator: "Calibrator | None", input: Input | None, floor: float | None, classes: list[str] | None
) -> tuple[Input, float | None, list[str] | None]:
    """What the scores are, by the options and by the calibration; they must not contradict each other."""
    if is_auto(floor):
        raise InputError(
            "--floor must be a number where nothing is fitted, got auto: it would be tuned on the labels that it scores. Pass "
            "it to nishimori fit and that file with --calibration, whose floor is then used, or pass a number."
        )
    if calibrator is None:
        check_input(input or "logits", floor)
        return input or "logits", floor, classes
    if input is not None and input != calibrator.input:
        raise InputError(f"--input must be {calibrator.input}, which the calibration was fitted to, got {input}.")
    if floor is not None and floor != calibrator.floor_:
        raise InputError(f"--floor must be that of the calibration, which is {calibrator.floor_ or 'none'}, got {floor:g}.")
    if calibrator.classes is None:
        return calibrator.input, calibrator.floor_, classes
    known = [str(label) for label in calibrator.classes_.tolist()]
    if classes is not None and classes != known:
        raise InputError(
            f"--classes must be those of the calibration in its order, {listed(known)}, got {listed(classes)}. Leave it out."
        )
    return calibrator.input, calibrator.floor_, known
