"""``nishimori fit``: from validation scores and labels to a calibration."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer

import nishimori
from nishimori._methods import table
from nishimori._methods.fitted_method import (
    BareCalibrator,
    FittedMethod,
    fit_checked,
    name_columns,
    own_parameters,
)
from nishimori._rows.rows import Rows, with_counts
from nishimori._rows.scores import Floor, Input, check_input, is_auto
from nishimori._support.progress import show_progress
from nishimori.cli import _files
from nishimori.cli._calibration import description, verdict
from nishimori.cli._help import ForceOption, JsonOption, epilog, flag, option
from nishimori.cli._options import Data, DataOptions, Files, add_cwd_to_path, check_method
from nishimori.cli._terminal import collect_warnings, note, print_json, print_text
from nishimori.errors import InputError


def _methods(incomplete: str) -> list[str]:
    """The methods whose names begin with what was typed, for the completion of the shell."""
    return [name for name in table.names() if name.startswith(incomplete)]


MethodOption = Annotated[
    str | None,
    option("adaptive (default), another of nishimori methods, or package.module:Name.", "NAME", autocompletion=_methods),
]
PreserveOption = Annotated[
    bool, flag("Change no prediction (bias, vector, matrix, classwise, dirichlet).", "--preserve-accuracy")
]
ParamOption = Annotated[
    list[str] | None,
    option("A parameter of the method, such as shrink=false, as in JSON; repeatable.", "NAME=VALUE", "--param"),
]
TopNOption = Annotated[int, option("Match top-N probability and accuracy (ec only).", "N")]
OutputOption = Annotated[Path, option("The .json file to write.", "FILE", "--output", "-o")]

EPILOG = epilog(
    "nishimori fit val.npz -o calibration.json",
    "nishimori fit val.csv --labels label --ignore id --method ec -o ec.json",
    "nishimori fit val.parquet --method group --groups site -o sites.json",
)

# False as text would be true.
_IN_PYTHON = {"True": "true", "False": "false", "None": "null"}

# What methods keep besides a temperature, for machines.
_FITTED = (
    *("ec", "ts", "weight"),
    *("groups", "temperatures", "temperatures_se", "common_temperature", "spread", "used_spread", "open_groups"),
    *("condition", "penalties", "determined", "parameters_se", "why_no_se", "ec_temperature", "ec_temperature_se"),
)


def fit(
    files: Files,
    output: OutputOption,
    method: MethodOption = None,
    top_n: TopNOption = 1,
    preserve_accuracy: PreserveOption = False,
    param: ParamOption = None,
    *,
    data: Data,
    as_json: JsonOption = False,
    force: ForceOption = False,
) -> None:
    """Fit a calibration to validation scores and labels.

    It is written to a file for apply, eval and gate.
    """
    files = _files.find_files(files)
    request = _FitRequest(method or ("adaptive" if top_n == 1 else "ec"), top_n, preserve_accuracy, param or (), data.groups)
    sums = _files.open_sketch(files, replace(data, counts=False))
    if sums is None:
        check_input(data.input, data.floor_to_fit, fits=True)
        calibrator = request.calibrator(data.input, data.classes, data.floor_to_fit)
        _files.check_inputs(files)
    else:
        calibrator = request.calibrator(sums.input, sums.classes, sums.floor)
    _files.check_output(output, (".json",), "calibration.json", overwrite=force)
    with collect_warnings() as warned:
        if sums is None:
            _fit_to_rows(calibrator, files, data)
        else:
            _learn(calibrator, with_counts(sums) if data.counts else sums)
    calibrator.save(output, overwrite=force)
    _show(calibrator, top_n, output, warned, as_json=as_json)


def _fit_to_rows(calibrator: FittedMethod, files: Sequence[Path], data: DataOptions) -> None:
    """Fit to the rows of files, and let the calibrator remember the names of their columns."""
    with show_progress(None):
        rows = _files.open_files(files, data)
        _learn(calibrator, rows)
    contents = rows.contents
    name_columns(calibrator, contents.columns, contents.label_column, contents.column, data.groups)


def _learn(calibrator: FittedMethod, data: Rows) -> None:
    """Fit; not every method of a user's own has a standard error."""
    if data.counts and not isinstance(calibrator, BareCalibrator) and "counts" not in signature(calibrator.fit).parameters:
        raise typer.BadParameter(f"the method {calibrator.method_name} has no standard error.", param_hint="--counts")
    fit_checked(calibrator, data)


@dataclass(frozen=True)
class _FitRequest:
    """What the options say about the method; ``params`` are texts such as ``shrink=false``."""

    method: str
    top_n: int
    preserve_accuracy: bool
    params: Sequence[str]
    groups: str | None

    def calibrator(self, input: Input | None, classes: Any, floor: Floor) -> FittedMethod:
        """The calibrator that was asked for; an unknown method or parameter is wrong usage."""
        if self.top_n != 1 and self.method != "ec":
            raise typer.BadParameter("only --method ec has it.", param_hint="--top-n")
        if ":" in self.method:
            add_cwd_to_path()
        common: dict[str, Any] = {"input": input, "classes": classes, "floor": floor}
        calibrator = self._create(common)
        if self.groups is not None and "groups" not in signature(calibrator.fit).parameters:
            raise typer.BadParameter(
                f"the method {self.method} makes no use of groups. Pass --method group.", param_hint="--groups"
            )
        return calibrator

    def _create(self, common: dict[str, Any]) -> FittedMethod:
        """The method, without scikit-learn if it can do without."""
        if (method := table.find_bare(self.method)) is not None:
            return BareCalibrator(method(**self._own(own_parameters(method))), **common)
        try:
            taken = own_parameters(check_method(self.method, "--method"))
            return nishimori.calibrator(self.method, **common, **self._own(taken))
        except InputError as error:
            raise typer.BadParameter(str(error), param_hint="--method") from None

    def _own(self, taken: Sequence[str]) -> dict[str, Any]:
        """The parameters of the method, of which only those in ``taken`` exist."""
        own: dict[str, Any] = {} if self.top_n == 1 else {"top_n": self.top_n}
        own |= {"by": "groups"} if self.groups is not None and table.unfinished(self.method) == "group" else {}
        if self.preserve_accuracy:
            if "preserve_accuracy" not in taken:
                raise typer.BadParameter(f"the method {self.method} does not have it.", param_hint="--preserve-accuracy")
            own["preserve_accuracy"] = True
        for assignment in self.params:
            name, sign, text = assignment.partition("=")
            if not sign:
                raise typer.BadParameter(f"must be NAME=VALUE, such as shrink=false, got {assignment!r}.", param_hint="--param")
            if name not in taken:
                has = f"only {', '.join(taken)}" if taken else "it has none"
                raise typer.BadParameter(f"the method {self.method} has no parameter {name!r}, {has}.", param_hint="--param")
            if name in own:
                raise typer.BadParameter(f"{name} is given twice, or follows from another option.", param_hint="--param")
            own[name] = _value(text)
        return own


def _value(text: str) -> Any:
    """A number, true, false, null or a list as JSON writes them, or True, False or None; anything else is text."""
    try:
        return json.loads(_IN_PYTHON.get(text, text))
    except ValueError:
        return text


def _show(calibrator: Any, top_n: int, output: Path, warned: list[str], *, as_json: bool) -> None:
    if as_json:
        fit_info, columns = getattr(calibrator, "fit_info_", None), getattr(calibrator, "feature_names_in_", None)
        numbers = ("accuracy", "n_passes", "residual", "n_zeros", "n_masked")
        print_json(
            {
                "method": calibrator.method_name,
                "params": calibrator.method_params(),
                "temperature": calibrator.temperature_,
                "temperature_se": getattr(calibrator, "temperature_se_", None),
                **{name: getattr(calibrator, f"{name}_") for name in _FITTED if hasattr(calibrator, f"{name}_")},
                **({"selection": calibrator.selection_.to_dict()} if hasattr(calibrator, "selection_") else {}),
                "map": {"kind": calibrator.map_.kind, "parameters": dict(calibrator.map_.parameters)},
                "verdict": verdict(calibrator),
                "top_n": top_n,
                "n_samples": calibrator.n_samples_,
                "data_digest": calibrator.data_digest_,
                "n_classes": len(calibrator.classes_),
                **{name: getattr(fit_info, name, getattr(calibrator, f"{name}_", None)) for name in numbers},
                "input": calibrator.input_,
                "floor": calibrator.floor_,
                "classes": None if calibrator.classes is None else list(calibrator.classes),
                "columns": None if columns is None else columns.tolist(),
                "label_column": calibrator.label_column_,
                "score_column": calibrator.score_column_,
                "group_column": calibrator.group_column_,
                "file": str(output),
                "library_version": nishimori.__version__,
                "warnings": warned,
            }
        )
    else:
        for line in description(calibrator):
            print_text(line)
        if is_auto(calibrator.floor) and calibrator.floor_ is not None:
            print_text(f"Floor: {calibrator.floor_:g}, chosen by the log-loss of samples that were held out")
    note(f"Wrote {output}")
