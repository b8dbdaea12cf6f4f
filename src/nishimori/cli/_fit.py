"""``nishimori fit``: from validation scores and labels to a calibration."""

import json
from collections.abc import Sequence
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer

import nishimori
from nishimori._evaluation.scorecard import warn_of_second_class
from nishimori._methods import table
from nishimori._methods.fitted_method import (
    BareCalibrator,
    FittedMethod,
    fit_checked,
    name_columns,
    own_parameters,
)
from nishimori._rows.rows import Rows, with_counts
from nishimori._rows.scores import check_input, is_auto
from nishimori._support.progress import show_progress
from nishimori.cli import _files
from nishimori.cli._calibration import description, verdict
from nishimori.cli._help import ForceOption, JsonOption, epilog, flag, option
from nishimori.cli._options import Data, Files, check_method, search_cwd
from nishimori.cli._terminal import collect_warnings, note, print_json, print_text
from nishimori.errors import InputError


def _methods(incomplete: str) -> list[str]:
    """The methods whose names begin with what was typed, for the completion of the shell."""
    return [name for name in table.names() if name.startswith(incomplete)]


MethodOption = Annotated[
    str | None,
    option(
        "adaptive (default; best for claims), another of nishimori methods, or package.module:Name.",
        "NAME",
        autocompletion=_methods,
    ),
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
    method = method or ("best" if data.confidence else "adaptive" if top_n == 1 else "ec")
    typed = _typed_parameters(method, top_n, preserve_accuracy, param or (), data.groups)
    sums = _files.open_sketch(files, replace(data, counts=False))
    if sums is None:
        check_input(data.meaning, data.floor_to_fit, fits=True)
        calibrator = _calibrator(method, typed, input=data.meaning, classes=data.classes, floor=data.floor_to_fit)
    else:
        calibrator = _calibrator(method, typed, input=sums.input, classes=sums.classes, floor=sums.floor)
    if data.groups is not None and "groups" not in signature(calibrator.fit).parameters:
        raise typer.BadParameter(f"the method {method} does not use groups. Pass --method group.", param_hint="--groups")
    _files.check_output(output, (".json",), "calibration.json", overwrite=force)
    with collect_warnings() as warned, show_progress(None):
        if sums is None:
            rows = _files.open_files(files, data)
            _learn(calibrator, rows)
            contents = rows.contents
            name_columns(calibrator, contents.columns, contents.label_column, contents.column, data.groups)
        else:
            _learn(calibrator, with_counts(sums) if data.counts else sums)
        if (off := calibrator._second_class_off()) is not None:
            warn_of_second_class("calibration", *off)
    calibrator.save(output, overwrite=force)
    _show(calibrator, top_n, output, warned, as_json=as_json)


def _learn(calibrator: FittedMethod, data: Rows) -> None:
    """Fit the calibrator; a user's own method may lack a standard error."""
    if data.counts and not isinstance(calibrator, BareCalibrator) and "counts" not in signature(calibrator.fit).parameters:
        raise typer.BadParameter(f"the method {calibrator.method_name} has no standard error.", param_hint="--counts")
    fit_checked(calibrator, data)


def _typed_parameters(
    method: str, top_n: int, preserve_accuracy: bool, assignments: Sequence[str], groups: str | None
) -> list[tuple[str, Any, str]]:
    """The method's parameters that options set, each with name, value and option; assignments look like ``shrink=false``."""
    typed: list[tuple[str, Any, str]] = [] if top_n == 1 else [("top_n", top_n, "--top-n")]
    typed += [("by", "groups", "--groups")] if groups is not None and table.unfinished(method) == "group" else []
    typed += [("preserve_accuracy", True, "--preserve-accuracy")] if preserve_accuracy else []
    for assignment in assignments:
        name, sign, text = assignment.partition("=")
        if not sign:
            raise typer.BadParameter(f"must be NAME=VALUE, such as shrink=false, got {assignment!r}.", param_hint="--param")
        typed.append((name, _value(text), "--param"))
    return typed


def _calibrator(method: str, typed: Sequence[tuple[str, Any, str]], **common: Any) -> FittedMethod:
    """The requested calibrator, without scikit-learn if possible; an unknown method is wrong usage."""
    if (bare := table.find_bare(method)) is not None:
        return BareCalibrator(bare(**_accepted(method, typed, own_parameters(bare))), **common)
    search_cwd([method])
    try:
        taken = own_parameters(check_method(method, "--method"))
        return nishimori.calibrator(method, **common, **_accepted(method, typed, taken))
    except InputError as error:
        raise typer.BadParameter(str(error), param_hint="--method") from None


def _accepted(method: str, typed: Sequence[tuple[str, Any, str]], taken: Sequence[str]) -> dict[str, Any]:
    """The parameters by name; an unknown or repeated parameter is wrong usage."""
    own: dict[str, Any] = {}
    for name, value, hint in typed:
        if name not in taken:
            has = f"only {', '.join(taken)}" if taken else "it has none"
            raise typer.BadParameter(f"the method {method} has no parameter {name!r}, {has}.", param_hint=hint)
        if name in own:
            raise typer.BadParameter(f"{name} is passed twice, or set by another option.", param_hint=hint)
        own[name] = value
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
            print_text(f"Floor: {calibrator.floor_:g}, chosen by the log-loss on held-out samples")
    note(f"Wrote {output}")
