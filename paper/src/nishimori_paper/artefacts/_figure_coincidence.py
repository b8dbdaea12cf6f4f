"""Why EC and TS nearly agree on real networks: the paper's open question, answered by the shape of Δ at each margin."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import log, sqrt
from typing import Any

import numpy as np
from scipy.special import expit

from nishimori import data
from nishimori.data import Network
from nishimori.plot._style import COLORS, HUES
from nishimori_paper._artefact import Artefact, Finding, Pieces, Row, Scale, compared
from nishimori_paper._measured import network
from nishimori_paper._names import NetworkName
from nishimori_paper._printed import printed
from nishimori_paper._style import TEACHER_COLORS
from nishimori_paper.artefacts._coincidence import Distances, decomposition, limit, profile, root_mean_square, roots
from nishimori_paper.artefacts._rows import networks_of_tables
from nishimori_paper.theory import Teacher, state_evolution

_DRAWN = ("cifar10/resnet20-authors", "svhn/resnet20-authors", "cifar100/vgg19")
_SHARES = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1)
_KINDS = ("clean", "noisy")
_ALPHAS = (5.0, 20.0)
_PENALTY = 1e-4
_COLOURS = {name: TEACHER_COLORS[name] for name in ("logit", "affine", "constant")} | {"logit, 10 % random": HUES["green"]}
_STYLES = {"logit": "-", "affine": "-.", "constant": "--", "logit, 10 % random": ":"}


@dataclass(frozen=True)
class RandomLabels(Teacher):
    """The logit teacher, with a share of its labels replaced by random ones."""

    share: float = 0.1

    def probability(self, z: Any) -> Any:
        return self.share / 2 + (1 - self.share) * expit(z)


# With T* = 0.2 the labels are as certain as those of the real networks, before some are made random.
_TEACHERS: Mapping[str, Teacher | str] = {
    **{name: name for name in ("logit", "affine", "constant")},
    "logit, 10 % random": RandomLabels(temperature=0.2),
}


class FigureCoincidence(Artefact):
    """The gap between confidence and accuracy at each margin, and the difference of T_TS and T_EC that follows."""

    name = "figure-coincidence"
    where = "Section 6, open question; Section 4"

    def networks(self) -> Sequence[str]:
        return [name for name in data.names() if not NetworkName.parse(name).authors]

    def pieces(self, scale: Scale) -> Mapping[str, Callable[[], Any]]:
        names = networks_of_tables() if scale.quick else data.names()
        work: dict[str, Callable[[], Any]] = {name: partial(gaps_of_network, name, scale) for name in names}
        for teacher in _TEACHERS:
            for alpha in _ALPHAS:
                work[f"theory {teacher}, α = {alpha:g}"] = partial(_theory, teacher, alpha)
        return work

    def compared_pieces(self, scale: Scale) -> Sequence[str]:
        return list(networks_of_tables())

    def tables(self, done: Pieces) -> Mapping[str, Sequence[Row]]:
        networks, theory = _networks(done), _limits(done)
        differences = [
            {"network": name, "labels": kind, **_numbers(content[kind])}
            for name, content in networks.items()
            for kind in _KINDS
        ]
        bins = [
            {"network": name, "labels": kind, "calibration": when, **row}
            for name, content in networks.items()
            for kind in _KINDS
            for when, key in (("none", "profile_before"), ("EC", "profile"))
            for row in content[kind][key]
        ]
        shares = [
            {"network": name, "random_labels": share, "difference": difference}
            for name, content in networks.items()
            for share, difference in zip(_SHARES, content["shares"], strict=True)
        ]
        limits = [{"setting": name, **_numbers(content)} for name, content in theory.items()]
        curves = [{"setting": name, **row} for name, content in theory.items() for row in content["profile"]]
        return {"differences": differences, "bins": bins, "shares": shares, "theory": limits, "theory-curves": curves}

    def findings(self, done: Pieces) -> Sequence[Finding]:
        """Differences log T_TS/T_EC, compared with the paper's tables, which use other networks or images."""
        findings = []
        for name in networks_of_tables():
            parsed = NetworkName.parse(name)
            for kind, table in (("clean", "table-real"), ("noisy", "table-corrupted")):
                ours = done[name][kind]
                _, ts, ec, *_ = printed()[table]["rows"][str(parsed.our_version)]
                # The paper's temperatures have an error of their own, that of its smaller validation set, and are rounded.
                spread = 3 * ours["difference_se"] * sqrt(1 + done[name]["n_test"] / done[name]["n_validation"])
                tolerance = spread + 0.005 / ts + 0.005 / ec
                what = f"{parsed.label}, {kind} labels: log T_TS / T_EC"
                findings.append(compared(what, ours["difference"], log(ts / ec), tolerance))
        return findings

    def draw(self, done: Pieces, pyplot: Any) -> Any:
        figure, axes = pyplot.subplots(2, 3, figsize=(13.5, 8), layout="constrained")
        for ax in axes[0][1:]:
            ax.sharey(axes[0][0])
        for ax, name in zip(axes[0], _DRAWN, strict=True):
            _draw_profile(ax, name, done[name])
        axes[0][0].set(ylabel="confidence − accuracy, points", ylim=(-16, 45))
        axes[0][0].legend(fontsize=8, loc="upper right")
        _draw_theory(axes[1][0], done)
        _draw_prediction(axes[1][1], done)
        _draw_shares(axes[1][2], done)
        return figure


def gaps_of_network(name: str, scale: Scale) -> dict[str, Any]:
    """A network's test images, with clean labels and with the noise of Appendix C averaged over all draws."""
    return _of_bundled(name, scale) if scale.networks is None else _gaps(network(name, scale))


@cache
def _of_bundled(name: str, scale: Scale) -> dict[str, Any]:
    """The gaps of a bundled network. Cached, because the statements use the same numbers."""
    return _gaps(network(name, scale))


def _gaps(loaded: Network) -> dict[str, Any]:
    logits, labels = loaded.test.logits, np.asarray(loaded.test.labels)
    noisy = (labels < logits.shape[1] // 10).astype(np.float64)
    result: dict[str, Any] = {"n_test": len(labels), "n_validation": len(loaded.validation.labels)}
    for kind, noise in zip(_KINDS, (0.0, noisy), strict=True):
        distances = Distances.from_logits(logits, labels, noise)
        content: dict[str, Any] = decomposition(distances)
        content["profile_before"] = profile(distances, 0.0)
        content["profile"] = profile(distances, -log(content["temperature_ec"]))
        content["rms_before"] = root_mean_square(content["profile_before"])
        content["rms_after"] = root_mean_square(content["profile"])
        result[kind] = content
    return result | {"shares": _shares(logits, labels)}


def _shares(logits: Any, labels: Any) -> list[float]:
    """The difference log T_TS/T_EC for each share of random labels in all classes."""
    answers = [roots(Distances.from_logits(logits, labels, _SHARES[0]))]
    for share in _SHARES[1:]:
        answers.append(roots(Distances.from_logits(logits, labels, share), near=answers[-1]))
    return [answer.ec - answer.ts for answer in answers]


def _theory(teacher: str, alpha: float) -> dict[str, Any]:
    return limit(state_evolution(_TEACHERS[teacher], alpha, _PENALTY))


def _networks(done: Pieces) -> dict[str, Any]:
    return {name: content for name, content in done.items() if not name.startswith("theory ")}


def _limits(done: Pieces) -> dict[str, Any]:
    return {name.removeprefix("theory "): content for name, content in done.items() if name.startswith("theory ")}


def _numbers(content: Mapping[str, Any]) -> dict[str, float]:
    return {name: value for name, value in content.items() if not name.startswith("profile")}


def _draw_profile(ax: Any, name: str, content: Mapping[str, Any]) -> None:
    shown = (
        ("clean", "profile_before", "^", COLORS["before"], COLORS["before"], "uncalibrated"),
        ("clean", "profile", "o", COLORS["ec"], COLORS["ec"], "EC"),
        ("noisy", "profile", "D", COLORS["ec"], "white", "EC, labels of a tenth of the classes random"),
    )
    for kind, key, marker, colour, face, label in shown:
        rows = content[kind][key]
        x, y, bar = ([row[column] for row in rows] for column in ("margin", "gap", "gap_se"))
        line = "--" if kind == "noisy" else "-"
        marks = {"marker": marker, "color": colour, "mfc": face, "markersize": 4.5, "linewidth": 1, "linestyle": line}
        ax.errorbar(x, [100 * value for value in y], [100 * value for value in bar], label=label, **marks)
    ax.axhline(0.0, color="0.6", linewidth=1, zorder=0)
    ax.set(xlabel="margin D/T", xlim=(0, 14))
    ax.set_title(NetworkName.parse(name).label, fontsize=11)


def _draw_theory(ax: Any, done: Pieces) -> None:
    for teacher, colour in _COLOURS.items():
        content = done[f"theory {teacher}, α = {_ALPHAS[-1]:g}"]
        x, y = ([row[column] for row in content["profile"]] for column in ("margin", "gap"))
        difference = content["difference"]
        label = rf"{teacher}: $\log T_{{TS}}/T_{{EC}}$ = {difference:+.3f}"
        ax.plot(x, [100 * value for value in y], _STYLES[teacher], color=colour, label=label)
    ax.axhline(0.0, color="0.6", linewidth=1, zorder=0)
    ax.set(xlabel="margin |logit|/T", ylabel="confidence − accuracy after EC, points", xlim=(0, 14), ylim=(-19, 17))
    ax.set_title(f"theory, α = {_ALPHAS[-1]:g}, λ = 1e-4", fontsize=11)
    ax.legend(fontsize=8, loc="upper right")


def _draw_prediction(ax: Any, done: Pieces) -> None:
    marks = {"clean": ("o", HUES["indigo"], "clean labels"), "noisy": ("D", HUES["purple"], "a tenth of the classes random")}
    for kind, (marker, colour, label) in marks.items():
        rows = [content[kind] for content in _networks(done).values()]
        x, y, bar = ([row[name] for row in rows] for name in ("first_order", "difference", "difference_se"))
        ax.errorbar(x, y, bar, fmt=marker, color=colour, markersize=4.5, linewidth=1, label=f"{len(rows)} networks, {label}")
    rows = list(_limits(done).values())
    x, y = ([row[name] for row in rows] for name in ("first_order", "difference"))
    ax.plot(x, y, "x", color="black", label="theory")
    ends = [-0.26, 0.32]
    ax.plot(ends, ends, color="0.6", linewidth=1, zorder=0)
    ax.set(xlabel=r"first-order formula, from the gap at $T_{EC}$", ylabel=r"$\log T_{TS}/T_{EC}$")
    ax.set_title("difference of the temperatures", fontsize=11)
    ax.legend(fontsize=8, loc="upper left")


def _draw_shares(ax: Any, done: Pieces) -> None:
    colours = {"svhn": HUES["sky"], "cifar10": HUES["indigo"], "cifar100": HUES["green"]}
    named = set()
    for name, content in _networks(done).items():
        parsed = NetworkName.parse(name)
        label = None if parsed.dataset in named else parsed.title.split()[0]
        named.add(parsed.dataset)
        shares = [100 * share for share in _SHARES]
        ax.plot(shares, content["shares"], ".-", color=colours[parsed.dataset], linewidth=1, markersize=4, label=label)
    ax.axhline(0.0, color="0.6", linewidth=1, zorder=0)
    ax.set(xlabel="share of random labels, %", ylabel=r"$\log T_{TS}/T_{EC}$")
    ax.set_title("one line per network", fontsize=11)
    ax.legend(fontsize=8)
