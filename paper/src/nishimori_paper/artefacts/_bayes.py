"""Bayesian estimation: theory and message passing, which the paper describes in Section 5.1."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from nishimori_paper._artefact import Artefact, Finding, Pieces, Row, Scale, compared, compared_mean
from nishimori_paper._style import TEACHER_COLORS
from nishimori_paper.theory import bayes_optimal, bayes_temperatures, simulate_bayes

_TEACHERS = {name: TEACHER_COLORS[name] for name in ("logit", "probit", "affine")}
_STYLES = {"logit": "-", "probit": "--", "affine": "-."}
_ALPHAS = (1.0, 3.0, 10.0)
_DRAWN = 3.0


class Bayes(Artefact):
    """Bayesian estimation with an assumed temperature T: confidence = accuracy and minimal loss at T = T*."""

    name = "bayes"
    where = "Section 5.1"

    def pieces(self, scale: Scale) -> Mapping[str, Callable[[], Any]]:
        d, seeds = (40, 3) if scale.quick else (500, 20)
        work: dict[str, Callable[[], Any]] = {}
        for teacher in _TEACHERS:
            for alpha in _ALPHAS:
                work[f"theory {teacher} α = {alpha:g}"] = partial(_theory, teacher, alpha)
                work[f"GAMP {teacher} α = {alpha:g}"] = partial(_gamp, teacher, alpha, d, seeds, scale.seed)
            work[f"curve {teacher}"] = partial(_curve, teacher, _DRAWN, 11 if scale.quick else 41)
        for alpha in _ALPHAS:
            work[f"theory constant α = {alpha:g}"] = partial(_optimum, "constant", alpha)
        return work

    def compared_pieces(self, scale: Scale) -> Sequence[str]:
        return [key for key in self.pieces(scale) if not key.startswith("curve")]

    def tables(self, done: Pieces) -> Mapping[str, Sequence[Row]]:
        columns = list(done[f"theory logit α = {_ALPHAS[0]:g}"])
        theory = [{name: row.get(name, "") for name in columns} for key, row in done.items() if key.startswith("theory")]
        curves = [row for key, rows in done.items() if key.startswith("curve") for row in rows]
        return {"theory": theory, "gamp": [row for key, row in done.items() if key.startswith("GAMP")], "curves": curves}

    def findings(self, done: Pieces) -> Sequence[Finding]:
        findings = []
        for key, row in done.items():
            if key.startswith("theory"):
                findings.append(compared(f"{key}: confidence - accuracy at T*", row["excess"], 0.0, 1e-9))
                for name in ("ts", "ec"):
                    if f"temperature_{name}" in row:
                        what = f"{key}: T_{name.upper()} / T*"
                        findings.append(compared(what, row[f"temperature_{name}"], 1.0, 1e-8))
            if key.startswith("GAMP"):
                for name, theirs in (("excess", 0.0), ("temperature_ts", 1.0), ("temperature_ec", 1.0)):
                    what = f"{key}, d = {row['d']}: {name}"
                    findings.append(compared_mean(what, row[name], row[f"{name}_error"], row["seeds"], theirs))
        return findings

    def draw(self, done: Pieces, pyplot: Any) -> Any:
        figure, (left, middle, right) = pyplot.subplots(1, 3, figsize=(13, 4), layout="constrained")
        for teacher, colour in _TEACHERS.items():
            rows = done[f"curve {teacher}"]
            T = [row["T"] for row in rows]
            best = done[f"theory {teacher} α = {_DRAWN:g}"]["loss"]
            style = _STYLES[teacher]
            left.plot(T, [row["confidence"] - row["accuracy"] for row in rows], style, color=colour, label=teacher)
            middle.plot(T, [row["loss"] - best for row in rows], style, color=colour)
        for ax, label in ((left, "confidence - accuracy"), (middle, "loss above its minimum, nats")):
            ax.axvline(1.0, color="0.6", linestyle=":", linewidth=1)
            ax.axhline(0.0, color="0.6", linestyle=":", linewidth=1)
            ax.set(xlabel="T assumed, T* = 1", ylabel=label, xscale="log", title=f"theory, α = {_DRAWN:g}")
            ax.set_xticks([0.5, 0.7, 1.0, 1.4, 2.0], ["0.5", "0.7", "1", "1.4", "2"], minor=False)
            ax.set_xticks([], minor=True)
        left.legend(fontsize=8)
        self._draw_gamp(done, right)
        return figure

    def _draw_gamp(self, done: Pieces, ax: Any) -> None:
        """Both temperatures found on data: the teachers side by side at each α."""
        for place, teacher in enumerate(_TEACHERS):
            for at, alpha in enumerate(_ALPHAS):
                row = done[f"GAMP {teacher} α = {alpha:g}"]
                for name, shift, face in (("temperature_ec", -0.05, None), ("temperature_ts", 0.05, "white")):
                    colour = _TEACHERS[teacher]
                    marker = {"fmt": "o", "color": colour, "markerfacecolor": face or colour, "markersize": 5}
                    ax.errorbar(at + 0.25 * (place - 1) + shift, row[name], row[f"{name}_error"], **marker)
        ax.axhline(1.0, color="0.6", linestyle=":", linewidth=1)
        ax.set_xticks(range(len(_ALPHAS)), [f"{alpha:g}" for alpha in _ALPHAS])
        ax.plot([], [], "o", color="0.4", label=r"$T_{EC}$")
        ax.plot([], [], "o", color="0.4", markerfacecolor="white", label=r"$T_{TS}$")
        ax.set(
            xlabel="α; colours as on the left",
            ylabel="T found, T* = 1, ± standard error",
            title=f"GAMP, d = {row['d']}, {row['seeds']} seeds",
        )
        ax.legend(fontsize=8, loc="lower left")


def _optimum(teacher: str, alpha: float) -> dict[str, Any]:
    best = bayes_optimal(teacher, alpha)
    return {
        "teacher": teacher,
        "alpha": alpha,
        "q_bo": best.q,
        "error": best.error,
        "confidence": best.confidence,
        "excess": best.confidence - best.accuracy,
        "loss": best.loss,
    }


def _theory(teacher: str, alpha: float) -> dict[str, Any]:
    ts, ec = bayes_temperatures(teacher, alpha)
    return _optimum(teacher, alpha) | {"temperature_ts": ts, "temperature_ec": ec}


def _gamp(teacher: str, alpha: float, d: int, seeds: int, seed: int) -> dict[str, Any]:
    simulation = simulate_bayes(teacher, alpha, d, seeds=seeds, seed=seed, progress=False)
    row: dict[str, Any] = {"teacher": teacher, "alpha": alpha, "d": d, "seeds": seeds}
    for name in ("q", "error", "confidence", "excess", "loss", "temperature_ts", "temperature_ec"):
        estimate = simulation[name]
        row |= {name: estimate.mean, f"{name}_error": estimate.standard_error}
    return row | {"without_temperature": max(simulation.missing.values(), default=0)}


def _curve(teacher: str, alpha: float, size: int) -> list[dict[str, Any]]:
    rows = []
    for T in np.geomspace(0.5, 2.0, size).tolist():
        theory = bayes_optimal(teacher, alpha, temperature=T)
        rows.append(
            {
                "teacher": teacher,
                "alpha": alpha,
                "T": T,
                "confidence": theory.confidence,
                "accuracy": theory.accuracy,
                "loss": theory.loss,
            }
        )
    return rows
