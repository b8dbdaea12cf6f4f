"""The figure of the relative difference between the two temperatures."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from nishimori_paper._artefact import Artefact, Finding, Pieces, Row, Scale, compared
from nishimori_paper._printed import printed
from nishimori_paper._style import TEACHER_COLORS
from nishimori_paper.theory import TEACHERS as ALL_TEACHERS
from nishimori_paper.theory import Estimate, Overlaps, plain_iterations, separability, simulate, sweep

TEACHERS = ("logit", "affine", "constant")
_COLOURS = {name: TEACHER_COLORS[name] for name in ("logit", "affine", "constant")}
_MARKERS = {"logit": "o", "affine": "s", "constant": "^"}

# The printed curves have a numerical noise of about 1e-5, as a minimiser of a flat loss leaves it.
_TOLERANCE = 2e-5

# This many plain iterations reproduce every printed point, also where the iteration has not converged yet.
_ITERATIONS = 100


class FigureTemperatures(Artefact):
    """Relative difference |T_TS - T_EC| / T_TS against α for three teachers, in theory and simulation."""

    name = "figure-temperatures"
    where = "Section 5.3, figure on the relative difference"

    def pieces(self, scale: Scale) -> Mapping[str, Callable[[], Any]]:
        work: dict[str, Callable[[], Any]] = {}
        for teacher in TEACHERS:
            work[_theory(teacher)] = partial(_converged, teacher)
            work[_iterations(teacher)] = partial(_stopped_early, teacher)
        d, seeds, step = (60, 3, 8) if scale.quick else (200, 20, 1)
        for teacher in TEACHERS:
            for alpha in _paper()["alpha"][::step]:
                work[f"simulation {teacher} α = {alpha:.4g}"] = partial(_simulated, teacher, alpha, d, seeds, scale.seed)
        return work

    def compared_pieces(self, scale: Scale) -> Sequence[str]:
        return [name(teacher) for teacher in TEACHERS for name in (_theory, _iterations)]

    def tables(self, done: Pieces) -> Mapping[str, Sequence[Row]]:
        theory = [
            {
                "teacher": teacher,
                "alpha": alpha,
                "temperature_ts": ts,
                "temperature_ec": ec,
                "difference": _relative(ts, ec),
                "paper": theirs,
                "paper_residual": theirs - _relative(ts, ec),
                "paper_simulation": points,
                "after_100_iterations": _relative(*early),
            }
            for teacher in TEACHERS
            for alpha, (ts, ec), early, theirs, points in zip(
                _paper()["alpha"],
                done[_theory(teacher)],
                done[_iterations(teacher)],
                _paper()["theory"][teacher]["value"],
                _paper()["simulation"][teacher]["value"],
                strict=True,
            )
        ]
        limits = {(row["teacher"], row["alpha"]): row["difference"] for row in theory}
        simulation = [done[key] for key in done if key.startswith("simulation ")]
        return {"theory": theory, "simulation": [_with_residual(row, limits) for row in simulation]}

    def findings(self, done: Pieces) -> Sequence[Finding]:
        return [
            compared(
                f"{row['teacher']}, α = {row['alpha']:.4g}",
                row["difference"],
                row["paper"],
                _TOLERANCE,
                paper_method=row["after_100_iterations"],
                explanation=f"{_ITERATIONS} plain iterations of the equations",
            )
            for row in self.tables(done)["theory"]
        ]

    def draw(self, done: Pieces, pyplot: Any) -> Any:
        figure, axes = pyplot.subplot_mosaic(
            [["curves", "simulation"], ["curves", "paper"]],
            figsize=(13, 5.4),
            width_ratios=(6, 5),
            sharex=True,
            layout="constrained",
        )
        tables = self.tables(done)
        for teacher in TEACHERS:
            rows, points = ([row for row in tables[name] if row["teacher"] == teacher] for name in ("theory", "simulation"))
            _draw_curve(axes["curves"], rows, points, teacher)
            _draw_residuals(axes["simulation"], points, "residual", teacher)
            _draw_residuals(axes["paper"], rows, "paper_residual", teacher)
        # Room for the legend below the points.
        highest = 1.5 * max(abs(row["residual"]) for row in tables["simulation"])
        axes["simulation"].set_ylim(-highest, highest)
        self._label(axes, tables["simulation"][0])
        return figure

    def _label(self, axes: Mapping[str, Any], size: Row) -> None:
        curves, simulation, paper = (axes[name] for name in ("curves", "simulation", "paper"))
        label = f"simulation, d = {size['d']}, {size['seeds']} seeds"
        curves.plot([], [], "o", markerfacecolor="none", color="0.4", label=label)
        curves.plot([], [], "x", markersize=3, markeredgewidth=0.8, color="0.45", label="curve as printed in the paper")
        curves.plot([], [], ":", linewidth=0.8, color="0.4", label="separability")
        curves.set(xlabel="α = n/d", ylabel=r"$|T_{TS} - T_{EC}|\,/\,T_{TS}$", yscale="log", title="λ = 1e-4")
        curves.set_xticks(range(0, 21, 4))
        curves.legend(fontsize=8, ncols=2, loc="center right", bbox_to_anchor=(1.0, 0.4))
        simulation.axhspan(-2, 2, color="0.92", zorder=0, label="two standard errors")
        simulation.set(ylabel="simulation - theory,\nstandard errors")
        simulation.legend(fontsize=8, loc="lower right")
        paper.axhspan(-_TOLERANCE, _TOLERANCE, color="0.92", zorder=0, label=f"±{_TOLERANCE:g}: numerical noise of the paper")
        paper.set(xlabel="α = n/d", ylabel="paper's curve - theory")
        paper.set_yscale("symlog", linthresh=_TOLERANCE)
        paper.legend(fontsize=8, loc="upper right")
        for ax in axes.values():
            ax.grid(alpha=0.3)


def _with_residual(row: Row, limits: Mapping[tuple[str, float], float]) -> Row:
    """A row of the simulations with the theory's value and the difference from it in standard errors."""
    limit = limits[row["teacher"], row["alpha"]]
    return {**row, "theory": limit, "residual": (row["difference"] - limit) / row["standard_error"]}


def _draw_curve(ax: Any, rows: Sequence[Row], points: Sequence[Row], teacher: str) -> None:
    colour, alpha = _COLOURS[teacher], [row["alpha"] for row in rows]
    ax.plot(alpha, [row["difference"] for row in rows], color=colour, label=f"{teacher} teacher")
    ax.plot(alpha, [row["paper"] for row in rows], "x", color="0.45", markersize=3, markeredgewidth=0.8, zorder=3)
    columns = ([row[key] for row in points] for key in ("alpha", "difference", "standard_error"))
    ax.errorbar(*columns, fmt=_MARKERS[teacher], markersize=4, markerfacecolor="none", color=colour)
    ax.axvline(separability(teacher), color=colour, linewidth=0.8, linestyle=":")


def _draw_residuals(ax: Any, rows: Sequence[Row], key: str, teacher: str) -> None:
    """Differences from the theory, with the separability of the teacher."""
    look = {"color": _COLOURS[teacher], "markersize": 4, "markerfacecolor": "none"}
    ax.plot([row["alpha"] for row in rows], [row[key] for row in rows], _MARKERS[teacher], **look)
    ax.axhline(0, color="0.4", linewidth=0.8)
    ax.axvline(separability(teacher), color=_COLOURS[teacher], linewidth=0.8, linestyle=":")


def _paper() -> Any:
    return printed()["figure-temperatures"]


def _theory(teacher: str) -> str:
    return f"theory {teacher}"


def _iterations(teacher: str) -> str:
    return f"{_ITERATIONS} iterations {teacher}"


def _relative(ts: float, ec: float) -> float:
    return abs(ts - ec) / ts


def _converged(teacher: str) -> list[tuple[float, float]]:
    results = sweep(teacher, _paper()["alpha"], _paper()["penalty"])
    return [(result.temperature_ts, result.temperature_ec) for result in results]


def _stopped_early(teacher: str) -> list[tuple[float, float]]:
    findings = []
    for alpha in _paper()["alpha"]:
        m, q, _ = plain_iterations(teacher, alpha, _paper()["penalty"], _ITERATIONS)
        score = Overlaps(ALL_TEACHERS[teacher](), m, q)
        findings.append((score.temperature_ts, score.temperature_ec))
    return findings


def _simulated(teacher: str, alpha: float, d: int, seeds: int, seed: int) -> dict[str, Any]:
    """Temperatures for infinitely many validation samples, so that only the finite dimension differs from the theory."""
    simulation = simulate(
        teacher, alpha, _paper()["penalty"], d, seeds=seeds, seed=seed, n_val=1000, n_test=1000, progress=False
    )
    ts, ec = simulation.values["temperature_ts"], simulation.values["temperature_ec"]
    difference = Estimate.from_values(np.abs(ts - ec) / ts)
    return {
        "teacher": teacher,
        "alpha": alpha,
        "d": d,
        "seeds": seeds,
        "without_temperature": difference.missing,
        "difference": difference.mean,
        "standard_error": difference.standard_error,
    }
