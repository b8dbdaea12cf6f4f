"""The figure of the ECE of logistic regression at three penalties."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from nishimori.paper._artefact import Artefact, Finding, Pieces, Row, Scale
from nishimori.paper.artefacts._figure_temperatures import TEACHERS
from nishimori.plot._palette import HUES
from nishimori.theory import optimal_penalty, state_evolution

PENALTIES = ("1e-4", "λ_error", "λ_loss")
_COLOURS = {"1e-4": HUES["black"], "λ_error": HUES["sky"], "λ_loss": HUES["purple"]}
# After calibration the curves nearly coincide; the thin ones are drawn over the thick one.
_WIDTHS = {"1e-4": 1.2, "λ_error": 2.6, "λ_loss": 1.2}
_STYLES = {"ece": ("uncalibrated", ":"), "ece_ts": ("after TS", "--"), "ece_ec": ("after EC", "-")}


class FigureEce(Artefact):
    """ECE uncalibrated, after TS and after EC, at λ = 1e-4, λ_error and λ_loss, for three teachers."""

    name = "figure-ece"
    where = "Section 5.3, figure on the ECE; its coordinates are not in the source of the paper"

    def pieces(self, scale: Scale) -> Mapping[str, Callable[[], Any]]:
        alphas = tuple(np.linspace(1.0, 20.0, 8 if scale.quick else 40).tolist())
        return {f"{teacher}, {kind}": partial(_curve, teacher, kind, alphas) for teacher in TEACHERS for kind in PENALTIES}

    def tables(self, done: Pieces) -> Mapping[str, Sequence[Row]]:
        return {"ece": [row for curve in done.values() for row in curve]}

    def findings(self, done: Pieces) -> Sequence[Finding]:
        found = []
        for key, curve in done.items():
            least = min(curve, key=lambda row: row["ece_ts"] - row["ece_ec"])
            lead = 100 * (least["ece_ts"] - least["ece_ec"])
            what = f"{key}: least lead of EC over TS in ECE, % (at α = {least['alpha']:.3g})"
            found.append(Finding(what, lead, "above 0", lead > 0))
        return found

    def draw(self, done: Pieces, pyplot: Any) -> Any:
        figure, axes = pyplot.subplots(
            2, 3, figsize=(12, 6.4), sharex=True, sharey="row", height_ratios=(3, 2), layout="constrained"
        )
        for (top, bottom), teacher in zip(axes.T, TEACHERS, strict=True):
            for kind in PENALTIES:
                curve = done[f"{teacher}, {kind}"]
                alpha = [row["alpha"] for row in curve]
                look = {"color": _COLOURS[kind], "linewidth": _WIDTHS[kind]}
                for column, (_, style) in _STYLES.items():
                    top.plot(alpha, [100 * row[column] for row in curve], style, **look)
                bottom.plot(alpha, [100 * (row["ece_ts"] - row["ece_ec"]) for row in curve], **look)
            top.set(yscale="log", title=f"{teacher} teacher")
            bottom.set(yscale="log", xlabel="α = n/d")
            for ax in (top, bottom):
                ax.grid(alpha=0.3)
        axes[0, 0].set_ylabel("ECE, %")
        axes[1, 0].set_ylabel("ECE after TS - after EC, points")
        for kind, label in zip(PENALTIES, ("λ = 1e-4", r"$\lambda_{error}$", r"$\lambda_{loss}$"), strict=True):
            axes[0, 2].plot([], [], color=_COLOURS[kind], label=label)
        for label, style in _STYLES.values():
            axes[0, 2].plot([], [], style, color="0.4", label=label)
        axes[0, 2].legend(fontsize=8, ncols=2, loc="lower right")
        return figure


@cache
def _curve(teacher: str, kind: str, alphas: tuple[float, ...]) -> list[dict[str, Any]]:
    """One row per α. Cached, because the claims use the same curves."""
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
