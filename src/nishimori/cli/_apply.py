"""``nishimori apply``: from scores to calibrated probabilities, a block of rows at a time."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

import numpy as np

from nishimori._files.arrays.files import open_arrays
from nishimori._files.arrays.new_arrays import new_arrays
from nishimori._files.arrays.stored_array import StoredArray
from nishimori._files.file_rows import SUFFIXES, flat, refuse_other_classes, row_values, with_line
from nishimori._files.lm_eval import is_samples
from nishimori._files.selection import array_name, refuse_table_options, select_columns
from nishimori._files.tables.block import Block, Table
from nishimori._files.tables.columns import Roles
from nishimori._files.tables.files import is_table, is_text, open_table
from nishimori._files.tables.lines import STANDARD_INPUT, standard_input
from nishimori._files.tables.new_table import new_table
from nishimori._methods.fitted_method import FittedMethod, refuse_members
from nishimori._rows.batch import Groups
from nishimori._rows.pieces import ahead
from nishimori._rows.scores import scores, warn_of_probabilities
from nishimori._support.arrays import HostArray, like
from nishimori._support.formatting import join_names
from nishimori._support.json import as_python
from nishimori._support.progress import Report, show_progress
from nishimori.cli import _files
from nishimori.cli._calibration import calibrator_in
from nishimori.cli._help import ForceOption, JsonOption, argument, epilog, option
from nishimori.cli._options import DataToApply, PrevalenceOption
from nishimori.cli._terminal import collect_warnings, note, print_json
from nishimori.errors import FormatError, InputError

# Numbers in a block of an array: 2**18 take 2 MB, and a handful of copies while the softmax is computed.
_NUMBERS = 2**18

# How standard input and output are typed.
_STANDARD = Path("-")


CalibrationArgument = Annotated[Path, argument("The calibration file that fit wrote.", "CALIBRATION")]
FilesArgument = Annotated[
    list[Path],
    argument(
        "Scores to calibrate, as for fit; labels are not used. Several tables are read one after the other, and - is "
        "standard input (.csv or .jsonl).",
        "FILES",
    ),
]
OutputOption = Annotated[
    Path,
    option(
        "Where to write the probabilities of all files, in the format of its ending; - is standard output, in the format "
        "of the input.",
        "FILE",
        "--output",
        "-o",
    ),
]

EPILOG = epilog(
    "nishimori apply calibration.json test.npz -o probabilities.npz",
    "nishimori apply calibration.json new.csv -o new-calibrated.csv",
    "nishimori apply calibration.json new.csv -o rare.csv --prevalence 0.01",
    "nishimori apply calibration.json part-*.parquet -o all.parquet",
    "nishimori apply calibration.json - -o - < new.csv > new-calibrated.csv",
)


def apply(
    calibration: CalibrationArgument,
    files: FilesArgument,
    output: OutputOption,
    prevalence: PrevalenceOption = None,
    *,
    data: DataToApply,
    as_json: JsonOption = False,
    force: ForceOption = False,
) -> None:
    """Turn scores into calibrated probabilities.

    The other columns of a table are kept.
    """
    files = [STANDARD_INPUT] if files == [_STANDARD] else _files.find_files(files)
    file = files[0]
    calibrator = calibrator_in(calibration, prevalence)
    refuse_members(calibrator, "files")
    if data.groups is not None and not calibrator.map_.needs_groups:
        raise InputError("groups", "be left out: the calibration treats all groups alike")
    _check_files(files, output)
    to_standard = output == _STANDARD
    if to_standard:
        output = _as_input(file, as_json=as_json)
    else:
        _check_output(output, files, overwrite=force)
    if (data.delimiter is not None or data.decimal != ".") and not (is_text(file) or file.is_dir() or is_text(output)):
        raise InputError("--delimiter and --decimal are for .csv and .tsv files. Leave them out.")
    roles = replace(data, input=calibrator.input_, classes=calibrator.classes).roles(calibrator)
    roles = replace(roles, unused=("labels", "weights"), more=tuple(files[1:]))
    with collect_warnings() as warned, _open_scores(file, roles) as opened, show_progress(None) as report:
        plan = _plan(calibrator, opened, roles)
        standard_input().begin_last_reading()
        results = _probabilities(calibrator, opened, report)
        if is_table(output):
            n_samples = _to_table(output, results, plan, roles, overwrite=force, to_standard=to_standard)
        else:
            n_samples = _to_arrays(output, results, (opened.count(report), len(plan.classes)), overwrite=force)
    if as_json:
        print_json(
            {
                "file": str(output),
                "calibration": str(calibration),
                "n_samples": n_samples,
                "n_classes": len(plan.classes),
                "temperature": calibrator.temperature_,
                "prevalence": None if prevalence is None else as_python(calibrator.class_prior_),
                "columns_kept": plan.kept if is_table(output) else [],
                "probability_columns": plan.classes if is_table(output) else None,
                "warnings": warned,
            }
        )
    if plan.kept and not is_table(output):
        note(f"{output.name} holds arrays, so the other columns are not kept: {join_names(plan.kept)}")
    if not to_standard:
        note(f"Wrote {output}")


def _check_files(files: Sequence[Path], output: Path) -> None:
    """Refuse files that cannot be read, or cannot be read together."""
    if files == [STANDARD_INPUT]:
        if output != _STANDARD and not is_table(output):
            raise InputError(f"{output} would hold arrays, whose length must be known first. Write a table, or pass a file.")
        return
    if _STANDARD in files:
        raise InputError("Standard input, which is -, must be the only file.")
    _files.check_inputs(files)
    arrays = [path for path in files if not (is_table(path) or path.is_dir())]
    if arrays and len(files) > 1:
        raise InputError(f"{arrays[0]} is a file of arrays. Pass it alone, or several tables.")


def _as_input(file: Path, *, as_json: bool) -> Path:
    """A name for standard output whose ending is that of the input."""
    if as_json:
        raise InputError("--json and -o - would both write to standard output. Leave one of them out.")
    if file == STANDARD_INPUT:
        return Path("standard output.csv" if is_text(file) else "standard output.jsonl")
    name = file.name.lower().removesuffix(".gz")
    if not name.endswith((".csv", ".tsv", ".jsonl")):
        what = f"Standard output is text, in the format of the input, but {file} is not text"
        raise InputError(f"{what}. Name a file with --output.")
    return Path(f"standard output{Path(name).suffix}")


def _check_output(output: Path, files: Sequence[Path], *, overwrite: bool) -> None:
    if any(path.is_dir() and output.resolve().is_relative_to(path.resolve()) for path in files):
        raise InputError(f"{output} would be in the folder of the scores. Choose another folder.")
    _files.check_output(output, SUFFIXES, f"probabilities{files[0].suffix.lower()}", overwrite=overwrite, read=files)


class _ScoreBlock(NamedTuple):
    """Scores of some rows, the block of a table that they come from, and their groups if needed."""

    scores: HostArray
    block: Block | None = None
    groups: Groups | None = None


@dataclass(frozen=True)
class _Data:
    """Scores that are read in blocks; ``table`` and ``columns`` (the places of its scores) if they come from a table."""

    blocks: Callable[[], Iterator[_ScoreBlock]]
    n_rows: int | None
    first: HostArray
    table: Table | None = None
    columns: Sequence[int] = ()

    @property
    def names(self) -> list[str] | None:
        """The names of the columns of scores, where there is one per class."""
        return None if self.table is None or len(self.columns) == 1 else [self.table.names[index] for index in self.columns]

    def count(self, report: Report) -> int:
        """How many rows there are; counting requires reading some files."""
        if self.n_rows is not None:
            return self.n_rows
        n_rows = 0
        for rows in self.blocks():
            n_rows += len(rows.scores)
            report("Counting", n_rows, None)
        return n_rows


@contextmanager
def _open_scores(path: Path, roles: Roles) -> Iterator[_Data]:
    """The scores of a file."""
    if not (is_table(path) or path.is_dir()):
        yield _arrays_in(path, replace(roles, delimiter=None, decimal="."))  # which are for the output
        return
    if is_samples(path):
        remedy = "Read it in Python with nishimori.integrations.lm_eval.read, and pass its logits to predict_proba."
        raise InputError(f"{path} holds samples of lm-evaluation-harness, to which no columns can be added. {remedy}")
    text = {"delimiter": roles.delimiter, "decimal": roles.decimal} if is_text(path) or path.is_dir() else {}
    with open_table(path, more=roles.more, **text) as table:  # type: ignore[arg-type]
        chosen = select_columns(table, roles)
        place = {name: index for index, name in enumerate(table.names)}
        columns, groups = [place[name] for name in chosen.scores], place[roles.groups] if roles.groups else None
        first = next(_rows_of(table.blocks(columns), columns, groups)).scores
        yield _Data(lambda: _rows_of(ahead(table.blocks(columns)), columns, groups), table.n_rows, first, table, columns)


def _arrays_in(path: Path, roles: Roles) -> _Data:
    """The scores of a file of arrays."""
    refuse_table_options(path, roles)
    file = open_arrays(path)
    array = file.array(array_name(file, "scores", roles)).table()
    n_rows = max(1, _NUMBERS // max(1, int(np.prod(array.shape[1:]))))
    groups = None
    try:
        if roles.groups:
            groups = Groups.from_names(file.labels(array_name(file, "groups", roles)).whole(), array.shape[0])
    except InputError as error:
        raise with_line(error, None, None) from None
    return _Data(lambda: _array_rows(array, n_rows, groups), array.shape[0], flat(next(array.blocks(1))))


def _array_rows(array: StoredArray, n_rows: int, groups: Groups | None) -> Iterator[_ScoreBlock]:
    done = 0
    for block in array.blocks(n_rows):
        yield _ScoreBlock(flat(block), groups=None if groups is None else groups.at_rows(slice(done, done + len(block))))
        done += len(block)


def _rows_of(blocks: Iterator[Block], columns: Sequence[int], groups: int | None) -> Iterator[_ScoreBlock]:
    width = None
    for block in blocks:
        rows = block.numbers(columns)
        block.refuse_missing(rows, columns, "score")
        width = rows.shape[1] if width is None else width
        if rows.shape[1] != width:
            raise FormatError(f"{block.where(0)}: a list of {rows.shape[1]} numbers after lists of {width}.")
        codes_of: dict[Any, int] = {}  # values may be of several types
        named = () if groups is None else row_values(block, groups, "group")
        codes = [codes_of.setdefault(name, len(codes_of)) for name in named]
        yield _ScoreBlock(flat(rows), block, None if groups is None else Groups(np.array(codes), tuple(codes_of)))


@dataclass(frozen=True)
class _ApplyPlan:
    """The columns of the output: each has a name, and the place of a kept column, or None and the place of a class."""

    classes: list[str]
    columns: list[tuple[str, int | None, int]]

    @property
    def kept(self) -> list[str]:
        return [name for name, index, _ in self.columns if index is not None]


def _plan(calibrator: FittedMethod, data: _Data, roles: Roles) -> _ApplyPlan:
    """Probabilities take the place of the scores, and all other columns stay where they are."""
    refuse_other_classes(roles, data.first.shape, data.names)
    n_classes = scores(data.first, input=calibrator.input_, name="scores").n_classes
    classes = data.names or [str(k) for k in range(n_classes)]
    if calibrator.classes is not None:
        classes = [str(label) for label in calibrator.classes_.tolist()]
    if calibrator._of_claims_ and data.table is not None:  # the calibrated confidence takes the place of the other
        (place,) = data.columns
        names = data.table.names
        return _ApplyPlan(
            [names[place]], [(name, None, 1) if index == place else (name, index, 0) for index, name in enumerate(names)]
        )
    if data.table is None:
        return _ApplyPlan(classes, [(name, None, k) for k, name in enumerate(classes)])
    order = {index: k for k, index in enumerate(data.columns)}
    columns: list[tuple[str, int | None, int]] = []
    for index, name in enumerate(data.table.names):
        if index not in order:
            columns.append((name, index, 0))
        else:  # one column of lists or scores becomes several
            columns += [(classes[k], None, k) for k in ([order[index]] if len(order) > 1 else range(n_classes))]
    plan = _ApplyPlan(classes, columns)
    both = set(plan.kept) & set(classes)
    if both:
        raise InputError(
            f"{data.table.path} has a column {min(both)!r} that is not a score, but a probability would get the same name. "
            "Rename the column."
        )
    return plan


Results = Iterator[tuple[HostArray, Block | None]]


def _probabilities(calibrator: FittedMethod, data: _Data, report: Report) -> Results:
    """Calibrate the scores block by block."""
    done, named = 0, _files.GroupNames(calibrator.map_)
    name = "confidence" if calibrator._of_claims_ else "scores"
    for values, block, groups in data.blocks():
        lines = None if block is None else block.lines
        try:
            meaning: dict[str, Any] = {"input": calibrator.input_, "floor": calibrator.floor_}
            checked = scores(values, **meaning, name=name, remedy=_files.remedy_for_others_than(calibrator))
            if done == 0:
                warn_of_probabilities(checked, _files.FIT_AGAIN)
            calibrated = like(calibrator.map_.probabilities(checked.logits(done), named.spell_as_map(groups)), checked.array)
        except InputError as error:
            raise with_line(error, lines, data.names, done) from None
        yield calibrated, block
        done += len(values)
        report("Applying", done, data.n_rows)
    named.warn_of_others()


def _to_table(output: Path, results: Results, plan: _ApplyPlan, roles: Roles, *, overwrite: bool, to_standard: bool) -> int:
    """Write a table; return the number of its rows."""
    n_rows, text = 0, {"delimiter": roles.delimiter, "decimal": roles.decimal}
    to = sys.stdout.buffer if to_standard else None
    with new_table(output, [name for name, _, _ in plan.columns], overwrite=overwrite, to=to, **text) as table:  # type: ignore[arg-type]
        for probabilities, block in results:
            columns = [(cast("Block", block).column(i) if i is not None else probabilities[:, k]) for _, i, k in plan.columns]
            table.write(columns)
            n_rows += len(probabilities)
    return n_rows


def _to_arrays(output: Path, results: Results, shape: tuple[int, int], *, overwrite: bool) -> int:
    """Write an array; return the number of its rows."""
    block, _ = next(results)
    # Only NumPy's own files can hold more than double precision.
    kind = block.dtype if block.dtype.itemsize <= 8 or output.suffix.lower() in (".npy", ".npz") else np.dtype(np.float64)
    with new_arrays(output, shape, kind, overwrite=overwrite) as array:
        array.write(block)
        for more, _ in results:
            array.write(more)
    return shape[0]
