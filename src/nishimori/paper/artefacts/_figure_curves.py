"""The first figure: loss, confidence and ECE against temperature, and reliability diagrams."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from nishimori._curve import temperature_curve
from nishimori.data import Labelled
from nishimori.paper._artefact import Artefact, Finding, Pieces, Row, Scale, compared
from nishimori.paper._measured import network, scores_by_kind, validations
from nishimori.paper._names import NetworkName
from nishimori.paper._printed import printed
from nishimori.paper.artefacts._reliability_panel import draw_reliability, reliability_rows
from nishimori.paper.artefacts._rows import OTHER_TRAINING
from nishimori.plot._palette import COLORS, MARKERS

# The paper's figure shows DenseNet121, whose weights we do not have; the ResNet20 is the authors' own network.
_NETWORKS = ("cifar10/densenet121", "cifar10/resnet20-authors")


class FigureCurves(Artefact):
    """Validation loss and confidence, and test ECE, against T; reliability before and after."""

    name = "figure-curves"
    where = "Section 3, first figure"

    def networks(self) -> Sequence[str]:
        return _NETWORKS[:1]

    def pieces(self, scale: Scale) -> Mapping[str, Callable[[], Any]]:
        return {name: partial(_piece, name, scale) for name in _NETWORKS}

    def tables(self, done: Pieces) -> Mapping[str, Sequence[Row]]:
        titles = {name: NetworkName.parse(name).title for name in done}
        curves = [{"network": titles[name], **row} for name in done for row in done[name]["curves"]]
        bins = [{"network": titles[name], **row} for name in done for row in done[name]["reliability"]]
        return {"curves": curves, "reliability": bins}

    def findings(self, done: Pieces) -> Sequence[Finding]:
        """Our DenseNet121 against the paper's, which was trained separately, so the numbers may differ."""
        dense, paper = done["cifar10/densenet121"], printed()["figure-curves"]
        ours, theirs = (100 * each["accuracy"] for each in (dense, paper))
        found = [compared("validation accuracy, %", ours, theirs, OTHER_TRAINING["error"])]
        for method in ("ts", "ec"):
            for quantity, label, unit in (("temperature", "T", 1), ("ece", "ECE, %, after", 100)):
                ours, theirs = (unit * each[f"{quantity}_{method}"] for each in (dense["augmented"], paper))
                what = f"{label} {method.upper()}, augmented validation"
                found.append(compared(what, ours, theirs, OTHER_TRAINING[quantity]))
        found.append(compared("T of the least ECE", dense["least_ece"][0], paper["least_ece_temperature"], 0.3))
        return found

    def draw(self, done: Pieces, pyplot: Any) -> Any:
        paper = printed()["figure-curves"]
        figure, axes = pyplot.subplots(len(done), 3, figsize=(13.5, 4.3 * len(done)), layout="constrained")
        for row, (name, content) in zip(axes, done.items(), strict=True):
            _draw_loss(row[0], content)
            marks = [(each.upper(), paper[f"temperature_{each}"], paper[f"ece_{each}"]) for each in ("ts", "ec")]
            _draw_ece(row[1], content, marks if name == _NETWORKS[0] else [])
            draw_reliability(row[2], content["reliability"])
            label = NetworkName.parse(name).label
            for ax, images in zip(row, ("validation", "test", "test"), strict=True):
                ax.set_title(f"{label}: {images}", fontsize=11)
        return figure


def _piece(name: str, scale: Scale) -> dict[str, Any]:
    found = network(name, scale)
    grid = np.unique(np.concatenate([np.linspace(0.1, 3.5, 18 if scale.quick else 69), [1.0]])).tolist()
    validation = temperature_curve(found.validation.logits, found.validation.labels, grid=grid)
    columns = {"temperature": grid, "loss": validation.loss.tolist(), "confidence": validation.confidence.tolist()}
    columns["ece"] = _ece(found.test, grid)
    chosen = scores_by_kind(validations(found), found.test)
    return {
        "accuracy": validation.accuracy,
        **chosen,
        "least_ece": _least_ece(found.test) if name == _NETWORKS[0] else None,
        "curves": [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)],
        "reliability": reliability_rows(found.test, chosen["clean"]),
    }


def _ece(test: Labelled, grid: list[float]) -> list[float]:
    ece: list[float] = temperature_curve(test.logits, test.labels, grid=grid, strategy="quantile").ece.tolist()
    return ece


def _least_ece(test: Labelled) -> tuple[float, float]:
    """The temperature with the smallest ECE, to 0.01, and that ECE."""
    grid = (np.arange(100, 400) / 100).tolist()
    ece, temperature = min(zip(_ece(test, grid), grid, strict=True))
    return temperature, ece


def _draw_loss(ax: Any, content: Mapping[str, Any]) -> None:
    curves, chosen = content["curves"], content["clean"]
    T = [row["temperature"] for row in curves]
    ax.plot(T, [row["loss"] for row in curves], "--", color=COLORS["loss"], label="loss, nats")
    ax.plot(T, [row["confidence"] for row in curves], color=COLORS["confidence"], label="mean confidence")
    accuracy = content["accuracy"]
    ax.axhline(accuracy, color=COLORS["accuracy"], linestyle=":", linewidth=1.2, label=f"accuracy {accuracy:.3f}")
    loss = float(np.interp(chosen["temperature_ts"], T, [row["loss"] for row in curves]))
    for method, y in (("ts", loss), ("ec", accuracy)):
        at = chosen[f"temperature_{method}"]
        ax.plot(at, y, MARKERS[method], color=COLORS[method], label=f"{method.upper()}: T = {at:.2f}")
    ax.set(xlabel="T", ylabel="loss, confidence, accuracy", ylim=(0, 1.5))
    ax.grid(alpha=0.3)
    ax.legend(fontsize=8)


def _draw_ece(ax: Any, content: Mapping[str, Any], paper: Sequence[tuple[str, float, float]]) -> None:
    curves = content["curves"]
    T, ece = ([row[key] for row in curves] for key in ("temperature", "ece"))
    ax.plot(T, [100 * each for each in ece], color=COLORS["ece"])
    for kind, face in (("clean", None), ("augmented", "white")):
        if kind in content:
            for method in ("ts", "ec"):
                marker, colour = MARKERS[method], COLORS[method]
                at, value = content[kind][f"temperature_{method}"], 100 * content[kind][f"ece_{method}"]
                label = f"{method.upper()}, {kind} validation: {value:.2f} %"
                ax.plot(at, value, marker, color=colour, mfc=face or colour, label=label)
    for method, at, value in paper:
        ax.plot(
            at,
            100 * value,
            "x",
            color=COLORS[method.lower()],
            label=f"{method}, paper's network: {100 * value:.2f} %",
        )
    ax.set(xlabel="T", ylabel="ECE, %", ylim=(0, 1.6 * max(100 * each for each in ece)))
    ax.grid(alpha=0.3)
    ax.legend(fontsize=8, loc="upper center")
