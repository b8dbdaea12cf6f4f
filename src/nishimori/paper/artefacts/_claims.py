"""Sentences of the paper that can be true or false, each tested: first those on real data, then those on the theory."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import ceil, log10
from typing import Any

import numpy as np

from nishimori.paper._artefact import Artefact, Finding, Pieces, Row, Scale, compared
from nishimori.paper._printed import printed
from nishimori.paper.artefacts import _real_claims
from nishimori.paper.artefacts._figure_density import FigureDensity, solution, solved
from nishimori.paper.artefacts._figure_ece import PENALTIES, FigureEce
from nishimori.paper.artefacts._figure_temperatures import TEACHERS
from nishimori.theory import Logit, bayes_optimal, bayes_temperatures, optimal_penalty, state_evolution

_MISSPECIFIED = ("affine", "constant")
_CONCAVE = ("logit", "probit", "affine")
_ALPHAS = (1.0, 3.0, 10.0)


class Claims(Artefact):
    """The paper's claims, one by one: what it says, our number, and whether the claim holds."""

    name = "claims"
    where = "Sections 1, 3, 4, 5 and 6, appendices A and C"

    def networks(self) -> Sequence[str]:
        return _real_claims.networks()

    def pieces(self, scale: Scale) -> Mapping[str, Callable[[], Any]]:
        bayes = {f"bayes {teacher}": partial(_bayes, teacher) for teacher in (*_CONCAVE, "constant")}
        return {
            **_real_claims.pieces(scale),
            **FigureEce().pieces(scale),
            **bayes,
            "colder and hotter teachers": _other_teachers,
            "solution": solution,
            "density": _density,
        }

    def tables(self, done: Pieces) -> Mapping[str, Sequence[Row]]:
        columns = ("what", "ours", "paper")
        rows = [{name: getattr(each, name) for name in columns} | {"holds": each.agrees} for each in self.findings(done)]
        return {"claims": rows}

    def findings(self, done: Pieces) -> Sequence[Finding]:
        curves = _Curves(done)
        return [
            *_real_claims.findings(done),
            *_on_bayes(done),
            *_on_erm(done),
            *_on_temperatures(curves),
            *_on_ece(curves),
            *_on_penalties(curves),
            *_on_density(done),
        ]

    def draw(self, done: Pieces, pyplot: Any) -> Any:
        findings = self.findings(done)
        figure, ax = pyplot.subplots(figsize=(10.5, 0.3 * len(findings) + 0.8), layout="constrained")
        ax.set(xlim=(0, 1), ylim=(len(findings) - 0.5, -1.5))
        ax.axis("off")
        for x, header in ((0.0, "claim"), (0.49, "paper"), (0.64, "ours"), (0.94, "holds")):
            ax.text(x, -1, header, weight="bold", fontsize=9, va="center")
        for y, each in enumerate(findings):
            colour = "#1b7837" if each.agrees else "#b2182b"
            for x, text in ((0.0, each.what), (0.49, _short(each.paper)), (0.64, _short(each.ours))):
                ax.text(x, y, text, fontsize=8, va="center")
            ax.text(0.94, y, "yes" if each.agrees else "no", fontsize=8, va="center", color=colour, weight="bold")
        return figure


class _Curves:
    """Columns of the table behind the ECE figure, by teacher and penalty."""

    def __init__(self, done: Pieces) -> None:
        self._done = done

    def __call__(self, teacher: str, kind: str, column: str) -> Any:
        return np.array([row[column] for row in self._done[f"{teacher}, {kind}"]])

    def lead(self, teacher: str, kind: str, metric: str = "ece") -> Any:
        """How much lower EC is than TS, at each α."""
        return self(teacher, kind, f"{metric}_ts") - self(teacher, kind, f"{metric}_ec")

    def difference(self, teacher: str, kind: str = "1e-4") -> Any:
        """Relative difference of the two temperatures, at each α."""
        ts = self(teacher, kind, "temperature_ts")
        return np.abs(ts - self(teacher, kind, "temperature_ec")) / ts


def _on_bayes(done: Pieces) -> Iterator[Finding]:
    rows = [row for key, rows in done.items() if key.startswith("bayes") for row in rows]
    excess = max(abs(row["excess"]) for row in rows)
    yield Finding("5.1: the Bayes-optimal estimator's mean confidence is its accuracy", _up_to(excess), "equal", excess < 1e-9)
    temperatures = [row[name] for row in rows for name in ("ts", "ec") if name in row]
    off = max(abs(T - 1) for T in temperatures)
    yield Finding("5.1: least loss and EC both choose T* for the likelihood", _up_to(off), "T = T*", off < 1e-8)
    worse = min(row["error_nearby"] - row["error"] for row in rows if "error_nearby" in row)
    yield Finding("5.1: T* also has the least classification error", f"{worse:.1e} more, 5 % off T*", "least", worse > 0)


def _on_erm(done: Pieces) -> Iterator[Finding]:
    rows = done["colder and hotter teachers"]
    nearest = min(abs(row[name] / row["teacher"] - 1) for row in rows for name in ("ts", "ec"))
    what = "5.1: in ERM neither TS nor EC finds T*, well specified, T* = 0.5 and 2, at λ_loss"
    yield Finding(what, f"off by {nearest:.0%} or more", "off", nearest > 0.01)


def _on_temperatures(curves: _Curves) -> Iterator[Finding]:
    nearest = min(float(np.abs(curves("logit", "1e-4", f"temperature_{name}") - 1).min()) for name in ("ts", "ec"))
    yield Finding("5.1: in ERM neither TS nor EC finds T*, at λ = 1e-4", f"off by {nearest:.2g} or more", "off", nearest > 0.01)
    spread = [
        float(np.min(curves.difference(b) / curves.difference(a))) for a, b in (("logit", "affine"), ("affine", "constant"))
    ]
    ratios = " and ".join(f"{each:.3g}" for each in spread)
    yield Finding(
        "5.3: δT grows from logit to affine to constant, at every α",
        f"by factors of at least {ratios}",
        "grows",
        min(spread) > 1,
    )
    constant = curves.difference("constant")
    least = float(np.diff(constant).min())
    yield Finding("5.3: δT of the constant teacher never falls with α", f"least step {least:.2g}", "never falls", least >= 0)
    claimed = printed()["claims"]["temperature_difference_constant"]
    yield compared("5.3: δT of the constant teacher at α = 20, around", float(constant[-1]), claimed, 0.05)
    points, theory = (printed()["figure-temperatures"][kind]["affine"]["value"] for kind in ("simulation", "theory"))
    same = sum(a == b for a, b in zip(points, theory, strict=True))
    yield Finding(
        "Figure: the points of the affine teacher are simulations",
        f"{same} of {len(theory)} are the curve",
        "simulations",
        same == 0,
    )
    hot = state_evolution("logit", 20.0, 1e-4).confidence(1e9)
    yield Finding("3: mean confidence falls to zero as T grows", f"{hot:.3g} at T = 1e9", "0", hot < 0.01)


def _on_ece(curves: _Curves) -> Iterator[Finding]:
    settings = [(teacher, kind) for teacher in TEACHERS for kind in PENALTIES]
    least = 100 * min(float(curves.lead(*each).min()) for each in settings)
    yield Finding("5.3: EC has the lower ECE in all settings", f"by {least:.2g} points or more", "lower", least > 0)
    logit = 100 * float(np.mean([curves.lead("logit", kind) for kind in PENALTIES]))
    claimed = printed()["claims"]["ece_difference_logit"]
    yield compared("5.3: lead of EC in ECE for the logit teacher, points, around", logit, claimed, 0.005)
    ratio = min(
        float((curves.lead(teacher, kind) / curves.lead("logit", kind)).min())
        for teacher in _MISSPECIFIED
        for kind in PENALTIES
    )
    yield Finding("5.3: the lead is larger for the other teachers", f"by a factor of at least {ratio:.3g}", "larger", ratio > 1)
    leads = np.concatenate([curves.lead(*each, "brier") for each in settings])
    lost = int((leads < 0).sum())
    yield Finding(
        "1: EC consistently outperforms TS in different metrics",
        f"TS lower in Brier in {lost} of {len(leads)}, by up to {-leads.min():.0e}",
        "in all",
        lost == 0,
    )
    cold = min(float(curves("logit", "1e-4", f"temperature_{name}").min()) for name in ("ts", "ec"))
    yield Finding("5.2: logistic regression is overconfident if well specified", f"T of at least {cold:.3g}", "T > 1", cold > 1)
    apart = 100 * max(float(np.abs(curves.lead("logit", kind)).max()) for kind in PENALTIES)
    yield Finding(
        "6: EC and TS perform the same if well specified", f"ECE differs by {apart:.2g} points at most", "same", apart < 0.01
    )


def _on_penalties(curves: _Curves) -> Iterator[Finding]:
    for name, kind in (("error", "λ_error"), ("ece", "λ_error"), ("ece", "λ_loss")):
        gains = [float((curves(teacher, "1e-4", name) - curves(teacher, kind, name)).min()) for teacher in TEACHERS]
        what = f"5.2: {kind} instead of 1e-4 lowers the {'ECE' if name == 'ece' else name}"
        yield Finding(what, f"by {100 * min(gains):.2g} points or more", "lower", min(gains) > 0)
    ratios = {
        teacher: float(np.abs(np.log(curves(teacher, "λ_error", "penalty") / curves(teacher, "λ_loss", "penalty"))).mean())
        for teacher in TEACHERS
    }
    text = ", ".join(f"{value:.2f}" for value in ratios.values())
    larger = min(ratios[teacher] for teacher in _MISSPECIFIED) > ratios["logit"]
    yield Finding("5.2: λ_error and λ_loss differ more if misspecified", f"mean |log ratio| {text}", "more", larger)


def _on_density(done: Pieces) -> Iterator[Finding]:
    found = done["density"]
    least, level = found["least_delta"], found["least_delta_at"]
    yield Finding("5.3: overconfident at every level, affine", f"Δ = {least:.2g} at {level:.2f}", "Δ ≥ 0", least >= 0)
    before, ts, ec = (100 * row["ece"] for row in done["solution"])
    text = f"ECE {before:.2f}, {ts:.2f}, {ec:.2f} %"
    yield Finding("5.3: TS and then EC bring it closer to the diagonal", text, "closer", before > ts > ec)
    for each in FigureDensity().findings(done):
        yield replace(each, what=f"Caption: {each.what}")
    yield Finding(
        "Proposition: the integral over z > 0 is the ECE", f"{found['half']:.3g} of it", "all of it", found["half"] > 0.99
    )


def _bayes(teacher: str) -> list[dict[str, float]]:
    rows = []
    for alpha in _ALPHAS:
        best = bayes_optimal(teacher, alpha)
        row = {"excess": best.confidence - best.accuracy, "error": best.error}
        if teacher in _CONCAVE:
            ts, ec = bayes_temperatures(teacher, alpha)
            nearby = min(bayes_optimal(teacher, alpha, temperature=T).error for T in (0.95, 1.05))
            row |= {"ts": ts, "ec": ec, "error_nearby": nearby}
        rows.append(row)
    return rows


def _other_teachers() -> list[dict[str, float]]:
    """Temperatures at λ_loss for T* = 0.5 and 2.

    At λ_loss the loss is minimal near T = 1 whatever T* is, so a teacher with T* = 1 would prove nothing.
    """
    rows = []
    for T in (0.5, 2.0):
        teacher = Logit(temperature=T)
        for alpha in _ALPHAS:
            found = state_evolution(teacher, alpha, optimal_penalty(teacher, alpha, minimise="loss"))
            rows.append({"teacher": T, "alpha": alpha, "ts": found.temperature_ts, "ec": found.temperature_ec})
    return rows


def _density() -> dict[str, Any]:
    result = solved()
    # The paper's integral on a uniform grid, independent of the quadrature in `ece`.
    z = np.linspace(0.0, 10 * result.q**0.5, 200_001)[1:]
    weight = np.exp(-(z**2) / (2 * result.q)) / np.sqrt(2 * np.pi * result.q)
    level = 1 / (1 + np.exp(-z))
    inside = level < 1
    half = float((np.abs(result.delta(level[inside])) * weight[inside]).sum() * (z[1] - z[0]))
    levels = np.linspace(0.5, 1 - 1e-9, 10_001)
    delta = result.delta(levels)
    return {
        "least_delta": float(delta.min()),
        "least_delta_at": float(levels[delta.argmin()]),
        "half": half / result.ece(),
    }


def _up_to(value: float) -> str:
    """The next power of ten, which rounding on another machine does not change."""
    return f"within 1e{ceil(log10(max(value, 1e-15))):d}"


def _short(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"
