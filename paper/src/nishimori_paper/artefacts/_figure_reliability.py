"""The reliability diagrams of the appendix."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from nishimori_paper._artefact import Artefact, Finding, Pieces, Row, Scale
from nishimori_paper._measured import network, scores
from nishimori_paper._names import NetworkName
from nishimori_paper.artefacts._reliability_panel import draw_reliability, reliability_rows

_NETWORKS = ("svhn/resnet20", "cifar10/resnet56")


class FigureReliability(Artefact):
    """Reliability of ResNet20 on SVHN and of ResNet56 on CIFAR-10, before and after TS and EC."""

    name = "figure-reliability"
    where = "Appendix A, reliability diagrams; their coordinates are not in the source of the paper"

    def networks(self) -> Sequence[str]:
        return _NETWORKS

    def pieces(self, scale: Scale) -> Mapping[str, Callable[[], Any]]:
        names = [version for name in _NETWORKS for version in (str(NetworkName.parse(name).authors_version), name)]
        return {name: partial(_piece, name, scale) for name in names}

    def tables(self, done: Pieces) -> Mapping[str, Sequence[Row]]:
        rows = []
        for name, content in done.items():
            parsed = NetworkName.parse(name)
            rows += [{"network": parsed.title, "weights": parsed.whose, **row} for row in content["bins"]]
        return {"bins": rows}

    def findings(self, done: Pieces) -> Sequence[Finding]:
        findings = []
        for name, content in done.items():
            who = NetworkName.parse(name).label
            before = [row for row in content["bins"] if row["when"] == "before"]
            over = sum(row["samples"] for row in before if row["confidence"] > row["accuracy"])
            share = over / sum(row["samples"] for row in before)
            text = f"overconfident in bins of {share:.0%} of the samples"
            findings.append(Finding(f"{who} before calibration", text, "overconfident", share > 0.5))
            ece = content["scores"]
            text = f"ECE {100 * ece['ece']:.2f}, {100 * ece['ece_ts']:.2f}, {100 * ece['ece_ec']:.2f} %"
            better = ece["ece"] > max(ece["ece_ts"], ece["ece_ec"])
            findings.append(Finding(f"{who} by TS and EC", text, "improved", better))
        return findings

    def draw(self, done: Pieces, pyplot: Any) -> Any:
        figure, axes = pyplot.subplots(2, 2, figsize=(10.5, 7.6), sharex=True, sharey=True, layout="constrained")
        for ax, (name, content) in zip(axes.flat, done.items(), strict=True):
            draw_reliability(ax, content["bins"])
            ax.set_title(NetworkName.parse(name).label, fontsize=11)
            ax.label_outer()
        low = min(row["confidence"] for content in done.values() for row in content["bins"])
        axes.flat[0].set_xlim(left=0.85 * low)
        return figure


def _piece(name: str, scale: Scale) -> dict[str, Any]:
    loaded = network(name, scale)
    chosen = scores(loaded.validation, loaded.test)
    return {"scores": chosen, "bins": reliability_rows(loaded.test, chosen)}
