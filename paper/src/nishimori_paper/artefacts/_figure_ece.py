"""The figure of the ECE of logistic regression at three penalties."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from nishimori.plot._style import COLORS, HUES
from nishimori_paper._artefact import Artefact, Finding, Pieces, Row, Scale
from nishimori_paper.artefacts._figure_temperatures import TEACHERS
from nishimori_paper.theory import optimal_penalty, separability, state_evolution

PENALTIES = ("1e-4", "λ_error", "λ_loss")
_LABELS = {"1e-4": "λ = 1e-4", "λ_error": r"$\lambda_{error}$", "λ_loss": r"$\lambda_{loss}$"}
# Colour, style and marker of a penalty. Where curves coincide, their markers alternate.
_LOOKS = {"1e-4": (HUES["black"], "-", "o"), "λ_error": (HUES["sky"], "--", "s"), "λ_loss": (HUES["purple"], ":", "^")}
_STYLES = {"ece": ("uncalibrated", "before", "-"), "ece_ts": ("TS", "ts", "--"), "ece_ec": ("EC", "ec", "-")}


class FigureEce(Artefact):
    """ECE uncalibrated, after TS and after EC, at λ = 1e-4, λ_error and λ_loss, for three teachers."""

    name = "figure-ece"
    where = "Section 5.3, figure on the ECE; its coordinates are not in the source of the paper"

    def pieces(self, scale: Scale) -> Mapping[str, Callable[[], Any]]:
        alphas = tuple(np.linspace(1.0, 20.0, 8 if scale.quick else 40).tolist())
        return {f"{teacher}, {kind}": partial(_curve, teacher, kind, alphas) for teacher in TEACHERS for kind in PENALTIES}

    def tables(self, done: Pieces) -> Mapping[str, Sequence[Row]]:
        thresholds = {teacher: separability(teacher) for teacher in TEACHERS}
        return {"ece": [row | {"separability": thresholds[row["teacher"]]} for curve in done.values() for row in curve]}

    def findings(self, done: Pieces) -> Sequence[Finding]:
        findings = []
        for key, curve in done.items():
            least = min(curve, key=lambda row: row["ece_ts"] - row["ece_ec"])
            lead = 100 * (least["ece_ts"] - least["ece_ec"])
            what = f"{key}: least lead of EC over TS in ECE, % (at α = {least['alpha']:.3g})"
            findings.append(Finding(what, lead, "above 0", lead > 0))
        return findings

    def draw(self, done: Pieces, pyplot: Any) -> Any:
        figure, axes = pyplot.subplots(4, 3, figsize=(12, 12), sharex=True, layout="constrained")
        for column, teacher in zip(axes.T, TEACHERS, strict=True):
            for ax, kind in zip(column, PENALTIES, strict=False):
                _draw_ece(ax, done[f"{teacher}, {kind}"])
                ax.sharey(axes[0, 0])
                ax.set(title=f"{teacher} teacher, {_LABELS[kind]}")
            for i, kind in enumerate(PENALTIES):
                _draw_lead(column[-1], done[f"{teacher}, {kind}"], kind, first=i)
            column[-1].sharey(axes[-1, 0])
            column[-1].set(xlabel="α = n/d", title=f"{teacher} teacher", xticks=range(0, 21, 4))
            for ax in column:
                ax.axvline(separability(teacher), color="0.4", linewidth=1, linestyle=(0, (1, 2)), label="separability")
                ax.set(yscale="log")
                ax.grid(alpha=0.3)
        for row, label in zip(axes, [*("ECE, %",) * 3, "ECE after TS - after EC, points"], strict=True):
            row[0].set_ylabel(label)
            row[0].yaxis.set_major_formatter("{x:g}")
        for ax, place in ((axes[0, 0], "center right"), (axes[-1, 0], "upper right")):
            ax.legend(fontsize=8, loc=place)
        return figure


def _draw_ece(ax: Any, curve: Sequence[Row]) -> None:
    for column, (label, method, style) in _STYLES.items():
        y = [100 * row[column] for row in curve]
        # At λ_loss the uncalibrated curve lies under that of TS: it is thicker, so that it can be seen.
        look = {"color": COLORS[method], "linewidth": 3 if column == "ece" else 1.7}
        ax.plot([row["alpha"] for row in curve], y, style, label=label, **look)


def _draw_lead(ax: Any, curve: Sequence[Row], kind: str, *, first: int) -> None:
    """How much lower the ECE is after EC; the markers begin at the point number ``first``, different for each penalty."""
    colour, style, marker = _LOOKS[kind]
    y = [100 * (row["ece_ts"] - row["ece_ec"]) for row in curve]
    look = {"color": colour, "linestyle": style, "marker": marker, "markersize": 4.5, "markevery": (first, len(PENALTIES))}
    ax.plot([row["alpha"] for row in curve], y, linewidth=1.5, label=_LABELS[kind], **look)


@cache
def _curve(teacher: str, kind: str, alphas: tuple[float, ...]) -> list[dict[str, Any]]:
    """One row per α. Cached, because the statements use the same curves."""
    rows, last = [], None
    for alpha in alphas:
        penalty = 1e-4
        if kind != "1e-4":
            penalty = optimal_penalty(teacher, alpha, minimise="error" if kind == "λ_error" else "loss")
        last = state_evolution(teacher, alpha, penalty, start=last)
        ts, ec = last.temperature_ts, last.temperature_ec
        rows.append(
            {
                "teacher": teacher,
                "penalty_is": kind,
                "alpha": alpha,
                "penalty": penalty,
                "error": last.error,
                "temperature_ts": ts,
                "temperature_ec": ec,
                "ece": last.ece(),
                "ece_ts": last.ece(ts),
                "ece_ec": last.ece(ec),
                "brier": last.brier(),
                "brier_ts": last.brier(ts),
                "brier_ec": last.brier(ec),
            }
        )
    return rows
