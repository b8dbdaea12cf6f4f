"""``nishimori theory``: the metrics of logistic regression in high dimension, from the shell."""

from typing import Annotated

import typer

from nishimori.cli._app import app_of
from nishimori.cli._help import JsonOption, epilog
from nishimori.cli._terminal import print_json, print_table, print_text
from nishimori.errors import InputError


def theory(
    teacher: Annotated[str, typer.Argument(help="logit, affine, constant or probit.", show_default=False, metavar="TEACHER")],
    alpha: Annotated[float, typer.Option(help="Training samples per dimension.", show_default=False, metavar="NUMBER")],
    penalty: Annotated[
        str,
        typer.Option(
            help="λ of the penalty λ/2 |w|², or error or loss for the λ at which that is lowest.",
            show_default=False,
            metavar="NUMBER",
        ),
    ],
    temperature: Annotated[float, typer.Option(help="T* of the teacher.", metavar="NUMBER")] = 1.0,
    rho: Annotated[float, typer.Option(help="ρ = |w*|²/d of the teacher.", metavar="NUMBER")] = 1.0,
    as_json: JsonOption = False,
) -> None:
    """Print what calibration does to a model with an exact solution.

    The model is logistic regression on αd samples of a teacher, with d → ∞, before and after EC and TS.
    """
    # NumPy and SciPy take a while to import, and the list of commands needs neither.
    from nishimori._evaluation.metrics.table import default_metrics, in_tables  # noqa: PLC0415
    from nishimori_paper.theory import TEACHERS, optimal_penalty, state_evolution  # noqa: PLC0415

    if teacher not in TEACHERS:
        raise InputError("teacher", f"be one of {', '.join(TEACHERS)}", got=repr(teacher))
    who = TEACHERS[teacher](temperature, rho)
    if penalty in ("error", "loss"):
        level = optimal_penalty(who, alpha, minimise="error" if penalty == "error" else "loss")
    else:
        level = _number(penalty)
    result = state_evolution(who, alpha, level)
    rows = {"before": 1.0, "after EC": result.temperature_ec, "after TS": result.temperature_ts}
    metrics = {name: result.metrics(T) for name, T in rows.items()}
    names = ["temperature", *(metric.name for metric in in_tables(default_metrics()))]
    table = {name: {key: values[key] for key in names if key in values} for name, values in metrics.items()}
    if as_json:
        settings = {"teacher": teacher, "temperature": temperature, "rho": rho, "alpha": alpha, "penalty": level}
        solution = {"m": result.m, "q": result.q, "v": result.v, "steps": result.steps, "residual": result.residual}
        print_json(settings | solution | {name.replace(" ", "_"): row for name, row in table.items()})
    else:
        who_is = f"{teacher} teacher, T* = {temperature:g}, ρ = {rho:g}, α = {alpha:g}, λ = {level:.6g}"
        print_text(f"{who_is}: m = {result.m:.6g}, q = {result.q:.6g}")
        print_table(table)


app = app_of(
    theory,
    name="theory",
    epilog=epilog(
        "nishimori theory affine --alpha 20 --penalty 1e-4",
        "nishimori theory logit --alpha 5 --penalty error --json",
    ),
)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError("--penalty", "be a number, error or loss", got=repr(text)) from None
