"""The calibrators of the paper's related work on the networks of its tables, compared with TS and EC."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

import nishimori
from nishimori import metrics
from nishimori.data import Labelled, Network
from nishimori.errors import NotConvergedError
from nishimori.plot._style import COLORS, HUES, MARKERS
from nishimori_paper._artefact import Artefact, Finding, Pieces, Row, Scale
from nishimori_paper._measured import network
from nishimori_paper._names import NetworkName
from nishimori_paper.artefacts._rows import networks_of_tables, trained_networks
from nishimori_paper.methods import ClassBasedTemperature, LeastECE

# Title, and how it is made. Guo et al. (2017) have no penalty in vector and matrix scaling; nishimori has one by default.
METHODS: Mapping[str, tuple[str, Callable[[], Any]]] = {
    "none": ("uncalibrated", partial(nishimori.calibrator, "none")),
    "ts": ("TS", nishimori.TemperatureScaling),
    "ec": ("EC", nishimori.ExpectationConsistency),
    "least-ece": ("T of least validation ECE", LeastECE),
    "class-based": ("class-based TS", ClassBasedTemperature),
    "vector": ("vector scaling, no penalty", partial(nishimori.VectorScaling, penalty=None)),
    "matrix": ("matrix scaling, no penalty", partial(nishimori.calibrators.MatrixScaling, penalty=None)),
    "vector-penalty": ("vector scaling, penalised", nishimori.VectorScaling),
    "matrix-penalty": ("matrix scaling, penalised", nishimori.calibrators.MatrixScaling),
}
_LOOKS = {
    "ec": (COLORS["ec"], MARKERS["ec"]),
    "least-ece": (HUES["purple"], "v"),
    "class-based": (HUES["green"], "P"),
    "vector": (HUES["sky"], "D"),
    "matrix": (HUES["indigo"], "X"),
}
_COLUMNS = ("nll", "ece", "error")
_FEW = 10


class TableBaselines(Artefact):
    """Test loss and ECE of the calibrators that the paper names as related work, beside TS and EC."""

    name = "table-baselines"
    where = "Sections 1 and 3, related work; not a table of the paper"

    def networks(self) -> Sequence[str]:
        return trained_networks()

    def pieces(self, scale: Scale) -> Mapping[str, Callable[[], Any]]:
        return {name: partial(baseline_scores, name, scale) for name in networks_of_tables()}

    def tables(self, done: Pieces) -> Mapping[str, Sequence[Row]]:
        rows = []
        for name, content in done.items():
            parsed = NetworkName.parse(name)
            for method, numbers in content.items():
                row: dict[str, Any] = {"network": parsed.title, "weights": parsed.whose, "method": METHODS[method][0]}
                rows.append(row | (numbers or dict.fromkeys(("temperature", *_COLUMNS, "nll_change", "nll_change_se"))))
        return {"table": rows}

    def findings(self, done: Pieces) -> Sequence[Finding]:
        """Whether vector and matrix scaling are worse than TS, as the paper quotes; it prints no numbers."""
        findings = []
        for method in ("vector", "matrix"):
            for n_classes in (10, 100):
                count = worse(done, method, n_classes)
                text = f"higher loss on {count['higher']} and no optimum on {count['none']} of {count['of']} networks"
                what = f"{METHODS[method][0]}, {n_classes} classes"
                findings.append(Finding(what, text, "worse than TS", count["higher"] + count["none"] > count["of"] / 2))
        return findings

    def draw(self, done: Pieces, pyplot: Any) -> Any:
        figure, axes = pyplot.subplots(1, 2, figsize=(12, 5.2), sharey=True, layout="constrained")
        names = list(done)
        for ax, (key, unit, label) in zip(
            axes, (("nll", 1, "test loss minus that of TS"), ("ece", 100, "test ECE minus that of TS, points")), strict=True
        ):
            ax.axvline(0, color=COLORS["ts"], linewidth=1.2, label="TS")
            for i, (method, (color, marker)) in enumerate(_LOOKS.items()):
                points = [
                    (unit * (content[method][key] - content["ts"][key]), y + 0.13 * (i - 2))
                    for y, content in enumerate(done.values())
                    if content[method] is not None
                ]
                ax.plot(*zip(*points, strict=True), marker, color=color, markersize=6, label=METHODS[method][0])
            ax.set(xlabel=label)
            ax.grid(axis="x", alpha=0.3)
        axes[0].set_yticks(range(len(names)), [NetworkName.parse(name).label for name in names])
        axes[0].set(ylabel="network")
        axes[0].invert_yaxis()
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False, fontsize=9)
        return figure


def baseline_scores(name: str, scale: Scale) -> dict[str, Any]:
    """The scores of each method on a network's test images; None for a method without an optimum, or left out."""
    return _of_bundled(name, scale) if scale.networks is None else _scores(network(name, scale), quick=scale.quick)


@cache
def _of_bundled(name: str, scale: Scale) -> dict[str, Any]:
    """The scores of a bundled network. Cached, because the statements use the same numbers."""
    return _scores(network(name, scale), quick=scale.quick)


def _scores(loaded: Network, *, quick: bool) -> dict[str, Any]:
    # Class-based TS tries a hundred temperatures for each class, several times; a quick run leaves it out for many classes.
    slow = quick and loaded.validation.logits.shape[1] > _FEW
    fitted = {
        method: None if slow and method == "class-based" else _fitted(make(), loaded.validation)
        for method, (_, make) in METHODS.items()
    }
    labels, rows = np.asarray(loaded.test.labels), np.arange(len(loaded.test.labels))
    log_ps = {
        method: calibrator.predict_log_proba(np.asarray(loaded.test.logits, dtype=np.float64))
        for method, calibrator in fitted.items()
        if calibrator is not None
    }
    loss_of_ts = -log_ps["ts"][rows, labels]
    result: dict[str, Any] = dict.fromkeys(METHODS)
    for method, log_p in log_ps.items():
        loss = -log_p[rows, labels]
        change = loss - loss_of_ts
        result[method] = {
            "temperature": getattr(fitted[method], "temperature_", None),
            "nll": float(loss.mean()),
            "ece": metrics.ece(log_p, labels, strategy="quantile"),
            "error": metrics.error(log_p, labels),
            "nll_change": float(change.mean()),
            "nll_change_se": float(change.std() / len(change) ** 0.5),
        }
    return result


def _fitted(calibrator: Any, validation: Labelled) -> Any:
    try:
        return calibrator.fit(validation.logits, validation.labels)
    except NotConvergedError:
        return None


def worse(done: Pieces, method: str, n_classes: int) -> dict[str, int]:
    """On how many networks of this many classes a method has a higher test loss than TS, or no optimum at all."""
    contents = [content for name, content in done.items() if _n_classes(name) == n_classes]
    losses = [content[method]["nll_change"] for content in contents if content[method] is not None]
    return {"of": len(contents), "higher": sum(loss > 0 for loss in losses), "none": len(contents) - len(losses)}


def _n_classes(name: str) -> int:
    return 100 if NetworkName.parse(name).dataset == "cifar100" else 10
