"""The figure of the joint density of the true and the predicted probability."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from nishimori_paper._artefact import Artefact, Finding, Pieces, Row, Scale, compared
from nishimori_paper._printed import printed
from nishimori_paper.theory import StateEvolution, state_evolution

_PANELS = ("uncalibrated", "after TS", "after EC")


class FigureDensity(Artefact):
    """Joint density of f* and f_erm at α = 20, λ = 1e-4: uncalibrated, after TS, after EC."""

    name = "figure-density"
    where = "Section 5.3, density figure and its caption"

    def pieces(self, scale: Scale) -> Mapping[str, Callable[[], Any]]:
        size = 30 if scale.quick else 100
        return {"solution": solution, "density": lambda: _densities(size)}

    def compared_pieces(self, scale: Scale) -> Sequence[str]:
        return ["solution"]

    def tables(self, done: Pieces) -> Mapping[str, Sequence[Row]]:
        density, curves = [], []
        for panel, content in done["density"].items():
            levels = content["levels"]
            for i, f_star in enumerate(levels):
                for j, f_erm in enumerate(levels):
                    density.append({"panel": panel, "f_star": f_star, "f_erm": f_erm, "density": content["density"][i][j]})
            for j, f_erm in enumerate(levels):
                row = {"panel": panel, "f_erm": f_erm, "conditional_mean": content["conditional_mean"][j]}
                curves.append(row | {f"atom_at_{value}": content["atoms"][value][j] for value in content["atoms"]})
        return {"summary": done["solution"], "conditional-mean": curves, "density": density}

    def findings(self, done: Pieces) -> Sequence[Finding]:
        rows, paper = done["solution"], printed()["figure-density"]
        findings = [
            compared("T_TS", rows[1]["temperature"], paper["temperature_ts"], 0.005),
            compared("T_EC", rows[2]["temperature"], paper["temperature_ec"], 0.005),
        ]
        # The tolerance is one unit of the last digit, since printed numbers may be rounded or truncated.
        findings += [
            compared(
                f"ECE {row['panel']}, %",
                100 * row["ece"],
                theirs,
                0.1,
                paper_method=100 * row["ece"] / 2,
                explanation="the integral over half the line",
            )
            for row, theirs in zip(rows, paper["ece"], strict=True)
        ]
        return findings

    def draw(self, done: Pieces, pyplot: Any) -> Any:
        figure, axes = pyplot.subplots(1, 3, figsize=(14, 4.8), sharey=True, layout="constrained")
        every = done["density"].values()
        top = max(np.quantile(content["density"], 0.98) for content in every)
        highest = max(max(values) for content in every for values in content["atoms"].values())
        for ax, row in zip(axes, done["solution"], strict=True):
            content = done["density"][row["panel"]]
            image = _draw_density(ax, content, top)
            strip = _draw_atoms(ax, content["atoms"], highest)
            ax.set(
                xlabel=r"$f_{erm}$",
                xlim=(0, 1),
                ylim=(-0.08, 1.08),
                title=f"{row['panel']}: T = {row['temperature']:.2f}, ECE = {100 * row['ece']:.2f} %",
            )
        axes[0].set_ylabel("f*", fontsize=12)
        axes[0].legend(fontsize=8, loc="upper left", bbox_to_anchor=(0.0, 0.93), facecolor="0.3", labelcolor="white")
        figure.colorbar(image, ax=axes, label="density of (f*, $f_{erm}$), brightest 2 % cut off", fraction=0.03, extend="max")
        label = "strips: density of $f_{erm}$ where f* is exactly 0 or 1"
        figure.colorbar(strip, ax=axes, label=label, fraction=0.03, pad=0.02)
        return figure


def _draw_density(ax: Any, content: Mapping[str, Any], top: float) -> Any:
    levels = np.array(content["levels"])
    half = (levels[1] - levels[0]) / 2
    extent = (levels[0] - half, levels[-1] + half, levels[0] - half, levels[-1] + half)
    look = {"origin": "lower", "vmin": 0, "vmax": top, "cmap": "viridis", "aspect": "auto"}
    image = ax.imshow(content["density"], extent=extent, **look)
    ax.plot(levels, content["conditional_mean"], "--", color="white", linewidth=1.5, label="E[f* | f_erm]")
    ax.plot([0, 1], [0, 1], color="white", linewidth=0.8, label="diagonal")
    return image


def _draw_atoms(ax: Any, atoms: Mapping[str, Sequence[float]], highest: float) -> Any:
    """Samples with f* exactly 0 or 1 have no density in f*: strips outside [0, 1] show their density in f_erm.

    The densities of all panels reach from 0 to ``highest`` and their tails matter, so that the colours follow the square root.
    """
    for value, values in atoms.items():
        at = float(value)
        low = -0.07 if at == 0 else 1.02
        look = {"origin": "lower", "norm": _root(highest), "cmap": "magma", "aspect": "auto"}
        strip = ax.imshow(np.array([values]), extent=(0, 1, low, low + 0.05), **look)
        ax.text(0.5, low + 0.025, f"f* = {at:g} exactly", color="white", fontsize=9, ha="center", va="center")
    return strip


def _root(highest: float) -> Any:
    from matplotlib import colors  # noqa: PLC0415 - only pictures need it

    return colors.PowerNorm(0.5, vmin=0, vmax=highest)


def solved() -> StateEvolution:
    """The classifier that the figure is about."""
    paper = printed()["figure-density"]
    return state_evolution(paper["teacher"], paper["alpha"], paper["penalty"])


def _temperatures(result: StateEvolution) -> dict[str, float]:
    return dict(zip(_PANELS, (1.0, result.temperature_ts, result.temperature_ec), strict=True))


def solution() -> list[dict[str, Any]]:
    """The numbers of the caption, one row per panel."""
    result = solved()
    return [
        {
            "panel": panel,
            "temperature": T,
            "ece": result.ece(T),
            "ece_half_line": result.ece(T) / 2,
            "confidence": result.confidence(T),
            "accuracy": result.accuracy,
            "loss": result.loss(T),
            "brier": result.brier(T),
        }
        for panel, T in _temperatures(result).items()
    ]


def _densities(size: int) -> dict[str, Any]:
    result = solved()
    levels = (np.arange(size) + 0.5) / size
    return {
        panel: {
            "levels": levels.tolist(),
            "density": result.density(levels[:, None], levels[None, :], T).tolist(),
            "atoms": {f"{atom.f_star:g}": atom.density.tolist() for atom in result.atoms(levels, T)},
            "conditional_mean": result.conditional_mean(levels, T).tolist(),
        }
        for panel, T in _temperatures(result).items()
    }
