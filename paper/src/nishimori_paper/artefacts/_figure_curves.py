"""The first figure: loss, confidence and ECE against temperature, and reliability diagrams."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import sqrt
from typing import Any

import numpy as np

from nishimori._evaluation.curve import temperature_curve
from nishimori.data import Labelled
from nishimori.plot._style import COLORS, MARKERS
from nishimori_paper._artefact import Artefact, Finding, Pieces, Row, Scale, compared
from nishimori_paper._measured import mean_and_spread, network, scores_by_kind, validations
from nishimori_paper._names import NetworkName
from nishimori_paper._printed import printed
from nishimori_paper._spreads import further_trainings
from nishimori_paper.artefacts._reliability_panel import draw_reliability, reliability_rows

# The paper's figure shows DenseNet121, whose weights we do not have; the ResNet20 is the authors' own network.
_NETWORKS = ("cifar10/densenet121", "cifar10/resnet20-authors")
# The face of the paper's markers.
_PALE = "0.85"
# Section 4: 5,000 validation images of CIFAR-10.
_VALIDATION = 5000


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
        return {"curves": curves, "paper": paper_curves(), "reliability": bins}

    def findings(self, done: Pieces) -> Sequence[Finding]:
        """Our DenseNet121 against the paper's, which was trained separately; and the paper's figure against its own table."""
        dense, paper = done["cifar10/densenet121"], printed()["figure-curves"]
        further = further_trainings("cifar10/densenet121", "clean", "augmented")
        _, spread = mean_and_spread([{column: dense["augmented"][column] for column in further[0]}, *further])
        findings = []
        for method in ("ts", "ec"):
            for quantity, label, unit in (("temperature", "T", 1), ("ece", "ECE, %, after", 100)):
                ours, theirs = (unit * row[f"{quantity}_{method}"] for row in (dense["augmented"], paper))
                what = f"{label} {method.upper()}, augmented validation"
                # Times √2, because two single trainings are compared.
                findings.append(compared(what, ours, theirs, 2 * sqrt(2) * unit * spread[f"{quantity}_{method}"]))
        findings.append(compared("T of the least ECE", dense["least_ece"][0], paper["least_ece_temperature"], 0.3))
        return [*findings, *_on_the_paper_alone()]

    def draw(self, done: Pieces, pyplot: Any) -> Any:
        figure, axes = pyplot.subplots(len(done), 3, figsize=(14, 5 * len(done)), layout="constrained")
        for row, (name, content) in zip(axes, done.items(), strict=True):
            paper = paper_curves() if name == _NETWORKS[0] else []
            _draw_loss(row[0], content, paper)
            _draw_ece(row[1], content, paper)
            draw_reliability(row[2], content["reliability"])
            label = NetworkName.parse(name).label
            for ax, images in zip(row, ("validation", "test", "test"), strict=True):
                ax.set_title(f"{label}: {images}", fontsize=11)
        return figure


def paper_curves() -> list[dict[str, float]]:
    """The paper's own curves, one row per temperature."""
    columns = {key: values for key, values in printed()["figure-curves"]["curve"].items() if key != "origin"}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def error_at_zero(curves: Sequence[Mapping[str, float]]) -> float:
    """The error of the network behind a curve of the ECE: the limit at T = 0, where every confidence is 1.

    The curve is smooth there; a parabola through its first five points gives the limit.
    """
    T, ece = ([row[key] for row in curves[:5]] for key in ("temperature", "ece"))
    return float(np.polynomial.Polynomial.fit(T, ece, 2)(0.0))


def _on_the_paper_alone() -> list[Finding]:
    """What the figure's coordinates show about its network and its validation images."""
    paper = printed()["figure-curves"]
    error, table_error = 100 * error_at_zero(paper_curves()), printed()["table-real"]["rows"]["cifar10/densenet121"][0]
    what = "test error of the paper's network, from its ECE as T → 0, against Table 1, %"
    findings = [compared(what, error, table_error, 0.1)]
    # Both accuracies are shares of at most 10,000 images, so that their difference has a standard error below 0.6 points.
    excess = 100 * paper["accuracy"] - (100 - error)
    what = "accuracy of the paper's network on validation minus on test, points"
    findings.append(compared(what, excess, 0.0, 1.2, explanation="validation images that were used for training"))
    right = paper["accuracy"] * _VALIDATION
    what = f"correct answers among the {_VALIDATION:,} validation images of the text"
    return [*findings, Finding(what, f"{right:.1f}", "a whole number", abs(right - round(right)) < 1e-6)]


def _piece(name: str, scale: Scale) -> dict[str, Any]:
    loaded = network(name, scale)
    grid = np.unique(np.concatenate([np.linspace(0.1, 3.5, 18 if scale.quick else 69), [1.0]])).tolist()
    validation = temperature_curve(loaded.validation.logits, loaded.validation.labels, grid=grid)
    columns = {"temperature": grid, "loss": validation.loss.tolist(), "confidence": validation.confidence.tolist()}
    columns["ece"] = _ece(loaded.test, grid)
    chosen = scores_by_kind(validations(loaded), loaded.test)
    return {
        "accuracy": validation.accuracy,
        **chosen,
        "least_ece": _least_ece(loaded.test) if name == _NETWORKS[0] else None,
        "curves": [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)],
        "reliability": reliability_rows(loaded.test, chosen["clean"]),
    }


def _ece(test: Labelled, grid: list[float]) -> list[float]:
    ece: list[float] = temperature_curve(test.logits, test.labels, grid=grid, strategy="quantile").ece.tolist()
    return ece


def _least_ece(test: Labelled) -> tuple[float, float]:
    """The temperature with the smallest ECE, to 0.01, and that ECE."""
    grid = (np.arange(100, 400) / 100).tolist()
    ece, temperature = min(zip(_ece(test, grid), grid, strict=True))
    return temperature, ece


def _draw_loss(ax: Any, content: Mapping[str, Any], paper: Sequence[Mapping[str, float]]) -> None:
    curves, chosen = content["curves"], content["clean"]
    T = [row["temperature"] for row in curves]
    accuracy = content["accuracy"]
    for key, style, label in (("loss", "--", "loss, nats"), ("confidence", "-", "mean confidence")):
        ax.plot(T, [row[key] for row in curves], style, color=COLORS[key], label=label)
        _draw_paper(ax, paper, key, f"{label}, paper's network")
    ax.axhline(accuracy, color=COLORS["accuracy"], linestyle=":", linewidth=1.2, label=f"accuracy {accuracy:.3f}")
    loss = float(np.interp(chosen["temperature_ts"], T, [row["loss"] for row in curves]))
    for method, y in (("ts", loss), ("ec", accuracy)):
        at = chosen[f"temperature_{method}"]
        ax.plot(at, y, MARKERS[method], color=COLORS[method], label=f"{method.upper()}: T = {at:.2f}", zorder=4)
    if paper:
        theirs = printed()["figure-curves"]
        for method, key in (("ts", "loss"), ("ec", "confidence")):
            at = theirs[f"temperature_{method}"]
            y = float(np.interp(at, [row["temperature"] for row in paper], [row[key] for row in paper]))
            label = f"{method.upper()}, paper's network: T = {at:.2f}"
            ax.plot(at, y, MARKERS[method], color=COLORS[method], mfc=_PALE, label=label, zorder=4)
    ax.set(xlabel="T", ylabel="loss, confidence, accuracy", ylim=(0, 1.5))
    _finish(ax)


def _draw_ece(ax: Any, content: Mapping[str, Any], paper: Sequence[Mapping[str, float]]) -> None:
    curves = content["curves"]
    T, ece = ([row[key] for row in curves] for key in ("temperature", "ece"))
    ax.plot(T, [100 * value for value in ece], color=COLORS["ece"], label="ECE")
    _draw_paper(ax, paper, "ece", "ECE, paper's network", unit=100)
    marks = {"clean": (None, "clean validation"), "augmented": ("white", "augmented validation")}
    chosen = {kind: content[kind] for kind in marks if kind in content}
    if paper:
        chosen["paper"], marks["paper"] = printed()["figure-curves"], (_PALE, "paper's network")
    for kind, temperatures in chosen.items():
        for method in ("ts", "ec"):
            at, value = temperatures[f"temperature_{method}"], 100 * temperatures[f"ece_{method}"]
            face, label = marks[kind]
            look = {"color": COLORS[method], "mfc": face or COLORS[method], "zorder": 4}
            ax.plot(at, value, MARKERS[method], label=f"{method.upper()}, {label}: {value:.2f} %", **look)
    ax.set(xlabel="T", ylabel="ECE, %", ylim=(0, None))
    _finish(ax)


def _finish(ax: Any) -> None:
    """A grid, and the legend below the axes, where it covers no curve."""
    ax.grid(alpha=0.3)
    ax.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2, frameon=False)


def _draw_paper(ax: Any, paper: Sequence[Mapping[str, float]], key: str, label: str, unit: float = 1) -> None:
    """The paper's curve as printed: small crosses, joined by a thin line."""
    if paper:
        look = {"color": COLORS[key], "marker": "x", "markersize": 3.5, "linewidth": 0.6, "alpha": 0.9}
        ax.plot([row["temperature"] for row in paper], [unit * row[key] for row in paper], label=label, **look)
