"""Shipped models: how well all methods calibrate them."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from nishimori.plot._style import COLORS, HUES, MARKERS
from nishimori_paper import shipped
from nishimori_paper._artefact import Artefact, Finding, Pieces, Row, Scale
from nishimori_paper.artefacts._shipped_measures import MASKED, METHODS, larger_error, measured, transferred

_COLUMNS = (
    "temperature",
    "accuracy",
    "ece",
    "ece_se",
    "ece_se_class",
    "ece_corrected",
    "nll",
    "nll_se",
    "nll_se_class",
    "class_gap",
)
_LOOKS = {
    "none": (COLORS["before"], MARKERS["before"]),
    "ts": (COLORS["ts"], MARKERS["ts"]),
    "ec": (COLORS["ec"], MARKERS["ec"]),
    "classwise": (HUES["purple"], "v"),
    "bias": (HUES["green"], "P"),
    "vector+ec": (HUES["indigo"], "D"),
}


def models() -> list[str]:
    """Names of the models, in the order of the files; a file NAME-manuals is the same model on other text."""
    return [name for name in shipped.names() if not name.endswith("-manuals")]


class TableShipped(Artefact):
    """ECE and loss of classifiers that people install, as shipped and after calibration on other documents."""

    name = "table-shipped"
    where = "not in the paper: models from PyPI, labelled data from Debian"

    def pieces(self, scale: Scale) -> Mapping[str, Callable[[], Any]]:
        work: dict[str, Callable[[], Any]] = {name: partial(measured, name, "final", scale.quick) for name in models()}
        manuals = [name for name in shipped.names() if name.endswith("-manuals")]
        if not scale.quick:
            work |= {name: partial(transferred, name.removesuffix("-manuals"), name, "final") for name in manuals}
        return work

    def tables(self, done: Pieces) -> Mapping[str, Sequence[Row]]:
        kinds = (("methods", METHODS), ("masked", MASKED))
        rows, temperatures, mechanisms = [], [], []
        for name, content in done.items():
            for kind, titles in kinds:
                for method, scores in content.get(kind, {}).items():
                    numbers = dict.fromkeys(_COLUMNS) if scores is None else {column: scores[column] for column in _COLUMNS}
                    rows.append({"model": name, "method": titles[method], **numbers})
            difference = {key: value for key, value in content["difference"].items() if key != "profile"}
            temperatures.append({"model": name, **difference})
            mechanisms += [
                {"model": name, "change": change, **numbers}
                for change, numbers in content.get("mechanisms", {}).items()
                if numbers
            ]
        return {"scores": rows, "temperatures": temperatures, "mechanisms": mechanisms}

    def findings(self, done: Pieces) -> Sequence[Finding]:
        """On which models EC and TS differ by more than three standard errors; on networks they nearly agree."""
        findings = []
        for name, content in done.items():
            number = content["difference"]
            ratio = number["difference"] / larger_error(number)
            text = f"log T_TS/T_EC = {number['difference']:+.3f}, {ratio:+.1f} standard errors"
            findings.append(Finding(f"{name}: EC and TS", text, "nearly agree on networks", abs(ratio) < 3))
        return findings

    def draw(self, done: Pieces, pyplot: Any) -> Any:
        figure, axes = pyplot.subplots(1, 2, figsize=(12, 1.6 + 0.62 * len(done)), sharey=True, layout="constrained")
        names = [name for name in done if "methods" in done[name]]
        for ax, key, unit, label in ((axes[0], "ece", 100, "test ECE, %"), (axes[1], "nll", 1, "test loss (NLL)")):
            for method, (color, marker) in _LOOKS.items():
                points = [
                    (unit * done[name]["methods"][method][key], y)
                    for y, name in enumerate(names)
                    if done[name]["methods"].get(method) is not None
                ]
                if points:
                    ax.plot(*zip(*points, strict=True), marker, color=color, markersize=8, label=METHODS[method])
            ax.set(xlabel=label)
            ax.grid(axis="x", alpha=0.3)
        axes[1].set_xscale("log")
        axes[0].set_yticks(range(len(names)), [done[name]["title"] for name in names])
        axes[0].set(ylabel="model", ylim=(len(names) - 0.5, -0.5))
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False, fontsize=9)
        return figure
