"""The picture of the study of scikit-learn's classifiers: what each method does to the NLL of each kind of classifier."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.colors import LinearSegmentedColormap

from calibrators_tabular_tables import Divisions, against_none
from nishimori.plot._style import COLORS, HUES

LARGEST = 80.0  # percent at which colours end
# Better is green and worse is vermilion, as "after" and a warning in other pictures; both get darker away from white.
SCALE = LinearSegmentedColormap.from_list("change", [COLORS["after"], "white", HUES["vermilion"]])


def picture(rows: Sequence[Any], path: Path) -> None:
    """Methods against classifiers, with more than two classes on the left and with two on the right."""
    matplotlib.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415 - after the choice of the backend

    kinds = [Divisions([row for row in rows if (row.n_classes == 2) is two]) for two in (False, True)]
    kinds = [kind for kind in kinds if kind.pairs]
    height = 2.2 + 0.36 * max(len(kind.contestants) for kind in kinds)
    figure, axes = pyplot.subplots(1, len(kinds), figsize=(12, height), layout="constrained", squeeze=False)
    for ax, divisions in zip(axes[0], kinds, strict=True):
        models = list(dict.fromkeys(model for _, model in divisions.pairs))
        methods = [method for method in divisions.contestants if method != "none"]
        values = np.array([[against_none(divisions, method, model) for model in models] for method in methods])
        order = np.argsort([against_none(divisions, method) for method in methods])
        draw(ax, values[order], [methods[i] for i in order], models)
        data = ", ".join(dict.fromkeys(name for name, _ in divisions.pairs))
        is_two = divisions.rows[0].n_classes == 2
        ax.set_title(f"{'two classes' if is_two else 'three and ten classes'}: {data}", fontsize=11)
    figure.suptitle("Change of the NLL by calibration, in percent (best method on top; green is better)", fontsize=12)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def draw(ax: Any, values: np.ndarray, methods: Sequence[str], models: Sequence[str]) -> None:
    """One table of coloured numbers."""
    ax.imshow(np.clip(values, -LARGEST, LARGEST), cmap=SCALE, vmin=-LARGEST, vmax=LARGEST, aspect="auto")
    for i, line in enumerate(values):
        for j, value in enumerate(line):
            text = signed(value, 0) if value < 1000 else "> 1000"
            ax.text(j, i, text, ha="center", va="center", color="white" if value < -0.75 * LARGEST else "black", fontsize=10)
    ax.set_xticks(range(len(models)), models, fontsize=10)
    ax.set_yticks(range(len(methods)), methods, fontsize=10)
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.set_xticks(np.arange(len(models) + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(len(methods) + 1) - 0.5, minor=True)
    ax.grid(which="minor", color="white", linewidth=2)
    ax.tick_params(which="minor", length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)


def signed(value: float, digits: int) -> str:
    """With a minus sign that is as wide as a plus sign; zero without a sign."""
    text = f"{value:+.{digits}f}".replace("-", "−")
    return f"{0:.{digits}f}" if float(text[1:]) == 0 else text
