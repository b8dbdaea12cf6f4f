"""The figure of accuracy, temperatures and ECE against the size of the training set."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from nishimori.plot._style import COLORS, MARKERS
from nishimori_paper._artefact import Artefact, Finding, Pieces, Row, Scale, compared
from nishimori_paper._measured import mean_and_spread, measured, network
from nishimori_paper._names import resnet20_on
from nishimori_paper._printed import printed
from nishimori_paper._spreads import further_trainings

_PANELS = (("accuracy", "test accuracy"), ("temperature", "T"), ("ece", "test ECE, %"))
_COMPARED = ("accuracy", "temperature_ts", "temperature_ec", "ece_ts", "ece_ec")
# The share of images for which there are further trainings: that of Table 1.
_REPEATED = "0.9"


class FigureTrainSize(Artefact):
    """Accuracy, temperatures and ECE of ResNet20 on CIFAR-10 against the share of images it was trained on."""

    name = "figure-train-size"
    where = "Section 4, figure on the size of the training set"

    def networks(self) -> Sequence[str]:
        return [str(resnet20_on(fraction)) for fraction in printed()["figure-train-size"]["fraction"]]

    def pieces(self, scale: Scale) -> Mapping[str, Callable[[], Any]]:
        return {f"{fraction:g}": partial(_piece, fraction, scale) for fraction in printed()["figure-train-size"]["fraction"]}

    def tables(self, done: Pieces) -> Mapping[str, Sequence[Row]]:
        rows = []
        for fraction, content in done.items():
            row: dict[str, Any] = {"fraction": float(fraction), "n_train": content["n_train"]}
            for key in ("accuracy", "error", "temperature_ts", "temperature_ec", "ece", "ece_ts", "ece_ec"):
                bar = "error" if key == "accuracy" else key
                row[key] = 1 - content["clean"]["error"] if key == "accuracy" else content["clean"][key]
                row[f"{key}_se"] = content["clean error bars"][bar]
            rows.append(row)
        return {"train-size": rows}

    def findings(self, done: Pieces) -> Sequence[Finding]:
        """At 0.9, the mean and the spread of several trainings; at other sizes, one training each, with the spread at 0.9."""
        paper, rows = printed()["figure-train-size"], self.tables(done)["train-size"]
        mean, spread = _repeated(done)
        findings = []
        for key in _COMPARED:
            for fraction, row, theirs in zip(done, rows, paper[key], strict=True):
                again = fraction == _REPEATED
                # The difference of two single trainings varies by √2 times as much as one of them.
                tolerance = 2 * spread[key] if again else 2 * math.sqrt(2) * spread[key]
                what = f"fraction {fraction}{', mean of trainings' if again else ''}: {key.replace('_', ' ')}"
                findings.append(compared(what, mean[key] if again else row[key], theirs, tolerance))
        return findings

    def draw(self, done: Pieces, pyplot: Any) -> Any:
        figure, axes = pyplot.subplots(1, 3, figsize=(13, 4.0), layout="constrained")
        rows, paper = self.tables(done)["train-size"], printed()["figure-train-size"]
        for ax, (quantity, label) in zip(axes, _PANELS, strict=True):
            looks = {"": (COLORS["accuracy"], "D")} | {
                f"_{method}": (COLORS[method], MARKERS[method]) for method in ("ts", "ec")
            }
            for suffix, look in looks.items():
                if f"{quantity}{suffix}" in paper:
                    _draw_curve(ax, rows, paper, f"{quantity}{suffix}", look)
            ax.set(xlabel="training images / 50,000", ylabel=label)
            ax.grid(alpha=0.3)
            ax.legend(fontsize=8)
        axes[2].set_ylim(0, None)
        return figure


def _repeated(done: Pieces) -> tuple[dict[str, float], dict[str, float]]:
    """Mean and standard deviation over all trainings on nine tenths of the images."""
    further = further_trainings(str(resnet20_on(float(_REPEATED))), "clean", "clean")
    first = {key: done[_REPEATED]["clean"][key] for key in further[0]}
    return mean_and_spread([{**row, "accuracy": 1 - row["error"]} for row in (first, *further)])


def _draw_curve(ax: Any, rows: Sequence[Row], paper: Mapping[str, Any], key: str, look: tuple[str, str]) -> None:
    colour, marker = look
    name = f"{key[-2:].upper()} " if key.endswith(("_ts", "_ec")) else ""
    unit = 100 if key.startswith("ece") else 1
    x, y, bars = ([row[column] for row in rows] for column in ("fraction", key, f"{key}_se"))
    y, bars, theirs = ([unit * value for value in values] for values in (y, bars, paper[key]))
    ax.errorbar(x, y, yerr=bars, color=colour, marker=marker, markersize=4, linewidth=1.2, label=f"{name}here")
    ax.plot(x, theirs, "x:", color=colour, linewidth=0.8, label=f"{name}paper")


def _piece(fraction: float, scale: Scale) -> dict[str, Any]:
    loaded = network(str(resnet20_on(fraction)), scale)
    clean_only = replace(loaded, augmented=None)
    return {
        "n_train": loaded.provenance["n_train"],
        **measured(clean_only, resamples=5 if scale.quick else 50, seed=scale.seed),
    }
