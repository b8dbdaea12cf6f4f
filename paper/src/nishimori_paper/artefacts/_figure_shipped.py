"""Shipped models in one picture: calibration errors, and the difference between EC and TS."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from textwrap import fill
from typing import Any

from nishimori import data
from nishimori.plot._style import COLORS, HUES, MARKERS
from nishimori_paper._artefact import Artefact, Finding, Pieces, Row, Scale
from nishimori_paper._measured import network
from nishimori_paper._names import NetworkName
from nishimori_paper.artefacts._coincidence import Distances, decomposition
from nishimori_paper.artefacts._rows import networks_of_tables
from nishimori_paper.artefacts._shipped_measures import larger_error, measured
from nishimori_paper.artefacts._table_shipped import models

_NETWORKS = "image networks"
_SHOWN = (("none", "before", "as shipped"), ("ts", "ts", "after TS"), ("ec", "ec", "after EC"))


class FigureShipped(Artefact):
    """Calibration errors of classifiers that people install, and log T_TS/T_EC of these and of image networks."""

    name = "figure-shipped"
    where = "not in the paper: models from PyPI, labelled data from Debian"

    def networks(self) -> Sequence[str]:
        return [name for name in data.names() if not NetworkName.parse(name).authors]

    def pieces(self, scale: Scale) -> Mapping[str, Callable[[], Any]]:
        work: dict[str, Callable[[], Any]] = {name: partial(measured, name, "final", scale.quick) for name in models()}
        return work | {_NETWORKS: partial(network_differences, scale)}

    def tables(self, done: Pieces) -> Mapping[str, Sequence[Row]]:
        rows = [
            {
                "model": name,
                **{key: content["difference"][key] for key in ("difference", "difference_se_document", "difference_se_class")},
            }
            for name, content in done.items()
            if name != _NETWORKS
        ]
        return {"models": rows, "networks": done[_NETWORKS]}

    def findings(self, done: Pieces) -> Sequence[Finding]:
        """How many models exceed all image networks."""
        largest = max(abs(network["difference"]) for network in done[_NETWORKS])
        exceeds = [abs(content["difference"]["difference"]) > largest for name, content in done.items() if name != _NETWORKS]
        text = f"|log T_TS/T_EC| beyond all {len(done[_NETWORKS])} image networks for {sum(exceeds)} of {len(exceeds)} models"
        return [Finding("EC and TS on shipped models", text, "nearly agree on networks", not any(exceeds))]

    def draw(self, done: Pieces, pyplot: Any) -> Any:
        names = [name for name in done if name != _NETWORKS]
        names.sort(key=lambda name: -done[name]["methods"]["none"]["ece"])
        figure, (left, right) = pyplot.subplots(
            1, 2, figsize=(12.6, 1.9 + 0.62 * len(names)), layout="constrained", gridspec_kw={"width_ratios": (1.15, 1)}
        )
        for y, name in enumerate(names):
            methods = done[name]["methods"]
            values = [100 * methods[method]["ece"] for method, _, _ in _SHOWN]
            left.plot([min(values), max(values)], [y, y], color="0.85", linewidth=5, zorder=1, solid_capstyle="round")
            for (method, look, label), value in zip(_SHOWN, values, strict=True):
                error = 100 * (methods[method]["ece_se"] or 0)
                left.errorbar(
                    value,
                    y,
                    xerr=error,
                    fmt=MARKERS[look],
                    color=COLORS[look],
                    markersize=10,
                    capsize=3,
                    zorder=2,
                    label=None if y else label,
                )
        left.set(xlabel="calibration error (ECE) on documents that were not fitted to, %", ylim=(len(names) - 0.4, -0.6))
        left.set_xlim(left=0)
        left.set_yticks(range(len(names)), [_label(done[name]) for name in names])
        left.grid(axis="x", alpha=0.3)
        left.legend(frameon=False, loc="lower right", fontsize=10)
        left.set_title("One number mends most of it", fontsize=11, loc="left")
        _draw_differences(right, done, names)
        return figure


def _draw_differences(ax: Any, done: Pieces, names: Sequence[str]) -> None:
    networks = done[_NETWORKS]
    ax.axvline(0, color="0.6", linewidth=1)
    ax.plot([network["difference"] for network in networks], [-1.0] * len(networks), "|", color=HUES["black"], markersize=16)
    for y, name in enumerate(names):
        number = done[name]["difference"]
        error = larger_error(number)
        ax.errorbar(number["difference"], y, xerr=2 * error, fmt="D", color=HUES["purple"], markersize=9, capsize=3)
        ax.annotate(
            f"{number['difference'] / error:+.1f} SE",
            (number["difference"], y),
            xytext=(0, 9),
            textcoords="offset points",
            ha="center",
            fontsize=9,
        )
    ax.set(xlabel="log T_TS / T_EC, with two standard errors", ylim=(len(names) - 0.4, -1.6))
    ax.set_yticks(
        [-1, *range(len(names))],
        [f"{len(networks)} networks\n(SVHN, CIFAR)", *(fill(done[name]["title"].partition(",")[0], 24) for name in names)],
    )
    ax.grid(axis="x", alpha=0.3)
    ax.set_title("How far apart EC and TS are", fontsize=11, loc="left")


def _label(content: Mapping[str, Any]) -> str:
    before = content["methods"]["none"]
    words = f"right {before['accuracy']:.0%}, confidence {before['confidence']:.0%}".replace("%", " %")
    return f"{fill(content['title'].replace(',', ':', 1), 34)}\n{words}"


def network_differences(scale: Scale) -> list[dict[str, Any]]:
    """Values of log T_TS/T_EC on the test images of the bundled networks."""
    names = networks_of_tables()[:2] if scale.quick else data.names()
    findings = []
    for name in names:
        test = network(name, scale).test
        numbers = decomposition(Distances.from_logits(test.logits, test.labels))
        findings.append({"network": name, "difference": numbers["difference"], "difference_se": numbers["difference_se"]})
    return findings
