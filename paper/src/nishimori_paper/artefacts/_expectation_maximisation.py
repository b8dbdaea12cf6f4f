"""Expectation maximisation, which the paper mentions in Sections 3 and 5.1: T from the training set alone."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from nishimori.plot._style import HUES
from nishimori_paper._artefact import Artefact, Finding, Pieces, Row, Scale, compared_mean
from nishimori_paper._style import TEACHER_COLORS
from nishimori_paper.theory import TEACHERS, Experiments, Teacher, bayes_optimal, expectation_maximisation, gamp, simulate_em
from nishimori_paper.theory._training_set import draw

_ALPHA = 5.0
_TEMPERATURES = (0.5, 1.0, 2.0)
_COLOURS = {name: TEACHER_COLORS[name] for name in ("logit", "probit")}


class Setting(NamedTuple):
    """The teacher that labels the samples, its temperature, and the assumed likelihood."""

    teacher: str
    temperature: float
    assumed: str

    @property
    def name(self) -> str:
        return f"{self.teacher} T* = {self.temperature:g}" + ("" if self.right else f", {self.assumed} assumed")

    @property
    def right(self) -> bool:
        """Whether the likelihood is the teacher's."""
        return self.assumed == self.teacher


RIGHT = [Setting(teacher, T, teacher) for teacher in _COLOURS for T in _TEMPERATURES]
RIGHT += [Setting(teacher, 1.0, teacher) for teacher in ("affine", "constant")]
WRONG = [Setting(teacher, 1.0, "logit") for teacher in ("affine", "constant")]


class ExpectationMaximisationArtefact(Artefact):
    """Expectation maximisation: the temperature of the likelihood from the training set alone."""

    name = "expectation-maximisation"
    where = "Sections 3 and 5.1"

    def pieces(self, scale: Scale) -> Mapping[str, Callable[[], Any]]:
        d, size = (60, 9) if scale.quick else (500, 25)
        work: dict[str, Callable[[], Any]] = {
            f"EM {setting.name}": partial(recovered, setting, scale) for setting in RIGHT + WRONG
        }
        return work | {f"free energy {teacher}": partial(_free_energy, teacher, d, size, scale.seed) for teacher in _COLOURS}

    def compared_pieces(self, scale: Scale) -> Sequence[str]:
        return [f"EM {setting.name}" for setting in RIGHT]

    def tables(self, done: Pieces) -> Mapping[str, Sequence[Row]]:
        rows = [row for key, row in done.items() if key.startswith("EM ")]
        curves = [row for key, content in done.items() if key.startswith("free") for row in content["curves"]]
        return {
            "temperatures": [{name: value for name, value in row.items() if name != "values"} for row in rows],
            "free-energy": curves,
        }

    def findings(self, done: Pieces) -> Sequence[Finding]:
        findings = []
        for setting in RIGHT:
            row = done[f"EM {setting.name}"]
            seeds = row["seeds"] - row["missing"]
            for name, paper in (("temperature_em", setting.temperature), ("excess", 0.0)):
                what = f"{setting.name}, d = {row['d']}: {name}"
                findings.append(compared_mean(what, row[name], row[f"{name}_error"], seeds, paper))
        return findings

    def draw(self, done: Pieces, pyplot: Any) -> Any:
        figure, (left, middle, right) = pyplot.subplots(1, 3, figsize=(13.5, 4.3), layout="constrained")
        self._draw_free_energy(done, left)
        self._draw_recovered(done, middle)
        self._draw_excess(done, right)
        return figure

    def _draw_free_energy(self, done: Pieces, ax: Any) -> None:
        for teacher, colour in _COLOURS.items():
            content = done[f"free energy {teacher}"]
            for source, style, width in (("data", "-", 1.5), ("limit", ":", 1.2)):
                rows = [row for row in content["curves"] if row["source"] == source]
                least = content["least"] if source == "data" else content["least_limit"]
                label = f"{teacher}, data, d = {content['d']}" if source == "data" else f"{teacher}, d → ∞"
                above = [content["n"] * (row["free_energy"] - least) for row in rows]
                ax.plot([row["T"] for row in rows], above, style, color=colour, linewidth=width, label=label)
            bar = {"xerr": content["standard_error"], "fmt": "o", "color": colour, "markersize": 5, "capsize": 3}
            ax.errorbar(content["temperature"], 0.0, **bar)
        ax.axvline(1.0, color="0.6", linestyle="--", linewidth=1)
        ax.set(xlabel="T assumed, T* = 1", ylabel="free energy of all samples\nabove its minimum, nats", xscale="log")
        ax.set_xticks([0.5, 0.7, 1.0, 1.4, 2.0], ["0.5", "0.7", "1", "1.4", "2"])
        ax.set_xticks([], minor=True)
        ax.set_title(f"one training set, α = {_ALPHA:g}", fontsize=11)
        ax.legend(fontsize=8)

    def _draw_recovered(self, done: Pieces, ax: Any) -> None:
        shown = [setting for setting in RIGHT if setting.teacher in _COLOURS]
        for at, setting in enumerate(shown):
            row, colour = done[f"EM {setting.name}"], _COLOURS[setting.teacher]
            ratios = np.array([value for value in row["values"] if value is not None]) / setting.temperature
            ax.plot(at + np.linspace(-0.28, 0.28, len(ratios)), ratios, ".", color=colour, markersize=4, alpha=0.35)
            mean, error = (row[name] / setting.temperature for name in ("temperature_em", "temperature_em_error"))
            label = setting.teacher if setting.temperature == _TEMPERATURES[0] else None
            ax.errorbar(at, mean, error, fmt="o", color=colour, markersize=6, capsize=4, label=label)
        ax.axhline(1.0, color="0.6", linestyle="--", linewidth=1)
        ax.set_xticks(range(len(shown)), [f"{setting.temperature:g}" for setting in shown])
        ax.set(xlabel="T*", ylabel="T found / T*")
        ax.set_title(f"right likelihood, d = {row['d']}, {row['seeds']} training sets", fontsize=11)
        ax.legend(fontsize=8)

    def _draw_excess(self, done: Pieces, ax: Any) -> None:
        shown = [setting for setting in RIGHT + WRONG if setting.temperature == 1.0]
        for at, setting in enumerate(shown):
            row = done[f"EM {setting.name}"]
            colour, marker = (HUES["black"], "o") if setting.right else (HUES["purple"], "D")
            bars = 100 * row["excess"], 100 * row["excess_error"]
            ax.errorbar(bars[0], at, xerr=bars[1], fmt=marker, color=colour, markersize=6, capsize=4)
        ax.axvline(0.0, color="0.6", linestyle="--", linewidth=1)
        labels = [setting.teacher if setting.right else f"{setting.teacher}\n({setting.assumed} assumed)" for setting in shown]
        ax.set_yticks(range(len(shown)), labels)
        ax.invert_yaxis()
        ax.set(xlabel="confidence − accuracy for new samples, points", ylabel="teacher, T* = 1")
        ax.set_title("calibration at the T found", fontsize=11)


def recovered(setting: Setting, scale: Scale) -> dict[str, Any]:
    """Means and standard errors over training sets, and the temperature of each of them."""
    d, seeds = (60, 6) if scale.quick else (500, 16)
    teacher = _teacher(setting.teacher, setting.temperature)
    # Other training sets in each setting, so that the deviations of two settings are independent.
    seed = len(RIGHT + WRONG) * scale.seed + (RIGHT + WRONG).index(setting)
    experiments = simulate_em(teacher, _ALPHA, d, assumed=setting.assumed, seeds=seeds, seed=seed, progress=False)
    return _row(setting, experiments)


def _row(setting: Setting, experiments: Experiments) -> dict[str, Any]:
    row: dict[str, Any] = {"teacher": setting.teacher, "temperature": setting.temperature, "assumed": setting.assumed}
    row |= {"alpha": _ALPHA, "d": experiments.settings["d"], "seeds": experiments.settings["seeds"]}
    for name in ("temperature_em", "temperature_ec", "free_energy", "error", "confidence", "loss", "excess"):
        row |= {name: experiments[name].mean, f"{name}_error": experiments[name].standard_error}
    values = experiments.values["temperature_em"]
    row |= {"spread": float(np.nanstd(values, ddof=1)), "predicted_spread": experiments["standard_error"].mean}
    row["missing"] = experiments["temperature_em"].missing
    return row | {"values": [None if np.isnan(value) else value for value in values.tolist()]}


def _free_energy(teacher: str, d: int, size: int, seed: int) -> dict[str, Any]:
    """The free energy of one training set and of the limit, at temperatures around T* = 1."""
    data = draw(_teacher(teacher, 1.0), _ALPHA, d, True, np.random.default_rng(seed))
    best = expectation_maximisation(data.x, data.y, teacher)
    curves = []
    for T in np.geomspace(0.5, 2.0, size).tolist():
        estimate = gamp(data.x, data.y, teacher, temperature=T)
        limit = bayes_optimal(teacher, _ALPHA, temperature=T)
        curves.append({"teacher": teacher, "source": "data", "T": T, "free_energy": estimate.free_energy})
        curves.append({"teacher": teacher, "source": "limit", "T": T, "free_energy": limit.free_energy})
    least = {"least": best.posterior.free_energy, "least_limit": bayes_optimal(teacher, _ALPHA).free_energy}
    curves.sort(key=lambda row: row["source"])
    chosen = {"temperature": best.temperature, "standard_error": best.standard_error}
    return {"d": d, "n": len(data.y), "curves": curves} | least | chosen


def _teacher(name: str, temperature: float) -> Teacher:
    return TEACHERS[name](temperature=temperature)
