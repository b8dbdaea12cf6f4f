"""Statements of Sections 1, 5 and 6 on logistic regression in high dimension."""

from collections.abc import Callable, Mapping
from math import sqrt
from typing import Any

import numpy as np
from scipy.special import expit

from nishimori._support.arrays import HostArray
from nishimori_paper._artefact import Pieces, Scale
from nishimori_paper._printed import printed
from nishimori_paper.artefacts._figure_density import solution, solved
from nishimori_paper.artefacts._figure_ece import PENALTIES, FigureEce
from nishimori_paper.artefacts._figure_temperatures import TEACHERS
from nishimori_paper.artefacts._statements._statement import Group, Numbers, Statement
from nishimori_paper.theory import optimal_penalty, state_evolution

_MISSPECIFIED = ("affine", "constant")
_METHODS = ("ts", "ec")
_ALPHAS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
# Brier scores that differ by less are tied: the equations are solved to about this.
_TIE = 1e-8


def _pieces(scale: Scale) -> Mapping[str, Callable[[], Any]]:
    return {
        **FigureEce().pieces(scale),
        "well specified at λ_loss": _well_specified,
        "solution": solution,
        "density": _density,
    }


def _well_specified() -> list[dict[str, float]]:
    """Both temperatures of the logit teacher with κ = T* = 1 at λ_loss, and √q/T, which does not depend on the scale of ŵ."""
    rows = []
    for alpha in _ALPHAS:
        theory = state_evolution("logit", alpha, optimal_penalty("logit", alpha, minimise="loss"))
        ts, ec = theory.temperature_ts, theory.temperature_ec
        rows.append({"alpha": alpha, "ts": ts, "ec": ec, "scale_ts": sqrt(theory.q) / ts, "scale_ec": sqrt(theory.q) / ec})
    return rows


def _density() -> dict[str, Any]:
    result = solved()
    # The paper's integral on a uniform grid, independent of the quadrature in `ece`.
    z = np.linspace(0.0, 10 * result.q**0.5, 200_001)[1:]
    weight = np.exp(-(z**2) / (2 * result.q)) / np.sqrt(2 * np.pi * result.q)
    half = float((np.abs(result.delta(expit(z))) * weight).sum() * (z[1] - z[0]))
    levels = np.linspace(0.5, 1 - 1e-9, 10_001)
    delta = result.delta(levels)
    return {
        "least_delta": float(delta.min()),
        "least_delta_at": float(levels[delta.argmin()]),
        "overconfident_below": float(levels[delta < 0].min()),
        "half": half / result.ece(),
    }


class _Curves:
    """Columns of the table behind the ECE figure, by teacher and penalty."""

    def __init__(self, done: Pieces) -> None:
        self._done = done

    def __call__(self, teacher: str, kind: str, column: str) -> HostArray:
        return np.array([row[column] for row in self._done[f"{teacher}, {kind}"]])

    def lead(self, teacher: str, kind: str, metric: str = "ece") -> HostArray:
        """How much lower the metric is after EC than after TS, at each α."""
        lead: HostArray = self(teacher, kind, f"{metric}_ts") - self(teacher, kind, f"{metric}_ec")
        return lead

    def difference(self, teacher: str) -> HostArray:
        """Relative difference of the two temperatures at λ = 1e-4, at each α."""
        ts, ec = (self(teacher, "1e-4", f"temperature_{method}") for method in _METHODS)
        difference: HostArray = np.abs(ts - ec) / ts
        return difference


def numbers(done: Pieces) -> Numbers:
    """The numbers that decide."""
    curves = _Curves(done)
    return {**_temperatures(done, curves), **_ece(curves), **_penalties(curves), **_caption(done)}


def _temperatures(done: Pieces, curves: _Curves) -> dict[str, Any]:
    rows, figure = done["well specified at λ_loss"], printed()["figure-temperatures"]
    constant = curves.difference("constant")
    scales = [row[f"scale_{method}"] for row in rows for method in _METHODS]
    well = np.concatenate([curves("logit", "1e-4", f"temperature_{method}") for method in _METHODS])
    return {
        "nearest_loss": min(abs(row[method] - 1) for row in rows for method in _METHODS),
        "nearest_small": float(np.abs(well - 1).min()),
        "ts_low": min(row["ts"] for row in rows),
        "ts_high": max(row["ts"] for row in rows),
        "scale_low": min(scales),
        "scale_high": max(scales),
        "coldest": float(well.min()),
        "affine_over_logit": float((curves.difference("affine") / curves.difference("logit")).min()),
        "constant_over_affine": float((constant / curves.difference("affine")).min()),
        "least_step": float(np.diff(constant).min()),
        "difference_first": float(constant[0]),
        "difference_last": float(constant[-1]),
        "difference_claimed": printed()["statements"]["temperature_difference_constant"],
        **{
            f"n_same_{teacher}": sum(
                a == b for a, b in zip(figure["simulation"][teacher]["value"], figure["theory"][teacher]["value"], strict=True)
            )
            for teacher in TEACHERS
        },
        "n_points": len(figure["alpha"]),
    }


def _ece(curves: _Curves) -> dict[str, Any]:
    settings = [(teacher, kind) for teacher in TEACHERS for kind in PENALTIES]
    logit = np.concatenate([curves.lead("logit", kind) for kind in PENALTIES])
    brier = np.concatenate([curves.lead(*setting, "brier") for setting in settings])
    return {
        "least_lead": 100 * min(float(curves.lead(*setting).min()) for setting in settings),
        "logit_lead": 100 * float(logit.mean()),
        "logit_lead_most": 100 * float(logit.max()),
        "logit_lead_claimed": printed()["statements"]["ece_difference_logit"],
        "lead_ratio": min(
            float((curves.lead(teacher, kind) / curves.lead("logit", kind)).min())
            for teacher in _MISSPECIFIED
            for kind in PENALTIES
        ),
        "brier_tied": float((np.abs(brier) < _TIE).mean()),
        "brier_lost": float((brier <= -_TIE).mean()),
        **{f"brier_lost_{teacher}": float((_brier(curves, teacher) <= -_TIE).mean()) for teacher in TEACHERS},
        **{f"brier_won_{teacher}": float((_brier(curves, teacher) >= _TIE).mean()) for teacher in TEACHERS},
        "brier_logit_most": float(np.abs(_brier(curves, "logit")).max()),
        "brier_worst": -float(brier.min()),
    }


def _brier(curves: _Curves, teacher: str) -> HostArray:
    """How much lower the Brier score is after EC than after TS, at all penalties and α."""
    leads: HostArray = np.concatenate([curves.lead(teacher, kind, "brier") for kind in PENALTIES])
    return leads


def _penalties(curves: _Curves) -> dict[str, float]:
    def gain(kind: str, column: str) -> float:
        return 100 * min(float((curves(teacher, "1e-4", column) - curves(teacher, kind, column)).min()) for teacher in TEACHERS)

    ratios = {
        teacher: float(np.abs(np.log(curves(teacher, "λ_error", "penalty") / curves(teacher, "λ_loss", "penalty"))).mean())
        for teacher in TEACHERS
    }
    return {
        "error_gain": gain("λ_error", "error"),
        "ece_gain": min(gain("λ_error", "ece"), gain("λ_loss", "ece")),
        "ratio_logit": ratios["logit"],
        "ratio_others": min(ratios[teacher] for teacher in _MISSPECIFIED),
    }


def _caption(done: Pieces) -> dict[str, Any]:
    paper, (before, ts, ec) = printed()["figure-density"], done["solution"]
    claimed = dict(zip(("claimed", "claimed_ts", "claimed_ec"), paper["ece"], strict=True))
    true = {"ece": 100 * before["ece"], "ece_ts": 100 * ts["ece"], "ece_ec": 100 * ec["ece"]}
    return {
        **done["density"],
        **claimed,
        **true,
        "temperature_ts": ts["temperature"],
        "temperature_ec": ec["temperature"],
        "temperature_ts_claimed": paper["temperature_ts"],
        "temperature_ec_claimed": paper["temperature_ec"],
    }


STATEMENTS = (
    Statement(
        "EC against TS in several metrics",
        "1",
        "in this setting EC consistently outperforms temperature scaling in different uncertainty metrics",
        "EC has the lower ECE and the lower Brier score for every teacher, α and penalty",
        "ECE, the metric that Section 5 shows: lower everywhere. Brier score: TS is lower in {brier_lost_constant:.0%} of the "
        "cases of the constant teacher, by up to {brier_worst:.5f}, and EC in {brier_won_affine:.0%} of those of the affine "
        "one. For logit they are tied: {brier_logit_most:.0e} apart at most, and less than 1e-8 in {brier_tied:.0%} of the "
        "cases of all three",
        lambda n: n["least_lead"] > 0 and n["brier_lost"] == 0,
    ),
    Statement(
        "ERM and T*",
        "5.1",
        "even in the well-specified setting, neither TS nor EC will recover the correct temperature T*",
        "both temperatures of the logit teacher with T* = 1 differ from 1 by more than 0.01, at λ = 1e-4 and at λ_loss",
        "at λ = 1e-4 by {nearest_small:.2f} or more; at λ_loss T_TS is {ts_low:.5f} to {ts_high:.5f} (α = 1 to 50), because "
        "that penalty itself makes the loss minimal near T = 1",
        lambda n: n["nearest_small"] > 0.01 and n["nearest_loss"] > 0.01,
        "in a form that does not depend on the scale of the weights: their length √q over T would have to equal κ = 1, and is "
        "{scale_low:.2f} to {scale_high:.2f} for α = 1 to 50",
        lambda n: n["scale_high"] < 0.99,
    ),
    Statement(
        "overconfidence if well specified",
        "5.2",
        "even in the well-specified case [...], non-regularized logistic regression [...] overconfident",
        "for the logit teacher at λ = 1e-4 both temperatures are above 1, at every α from 1 to 20",
        "T of at least {coldest:.2f}",
        lambda n: n["coldest"] > 1,
    ),
    Statement(
        "regularisation helps",
        "5.2",
        "appropriately regularizing the risk not only improves the prediction accuracy but also the calibration and ECE",
        "at every α and for every teacher, λ_error has a lower error than λ = 1e-4, and λ_error and λ_loss a lower ECE",
        "error lower by {error_gain:.1g} points or more, ECE by {ece_gain:.1f} points or more",
        lambda n: n["error_gain"] > 0 and n["ece_gain"] > 0,
    ),
    Statement(
        "two ways to choose the penalty",
        "5.2",
        "cross-validating on the loss function yields different results from cross-validation on the misclassification error, "
        "with a larger difference arising in the case of misspecified models",
        "the mean of |log(λ_error/λ_loss)| over α is larger for the affine and the constant teacher than for logit",
        "{ratio_logit:.2f} for logit, at least {ratio_others:.2f} for the others",
        lambda n: n["ratio_others"] > n["ratio_logit"],
    ),
    Statement(
        "integral of the ECE",
        "5.2, proposition",
        "ECE(m, q) = ∫_0^∞ dz |Δ_σ(z)(m, q)| N(z | 0, q)",
        "the integral is E|Δ|, the ECE of Section 2, to 1 % (affine teacher, α = 20, λ = 1e-4)",
        "it is {half:.3f} of it: the integral must cover the whole line, as in Appendix B. The ECEs of the density figure are "
        "{ece:.2f}, {ece_ts:.2f} and {ece_ec:.2f} %",
        lambda n: abs(n["half"] - 1) < 0.01,
        paper_data="the caption of the density figure prints {claimed}, {claimed_ts} and {claimed_ec} %: about half",
    ),
    Statement(
        "difference grows with misspecification",
        "5.3, figure",
        "when σ* differs more from σ, EC and TS yield different results",
        "at every α, |T_TS − T_EC| / T_TS is larger for the affine teacher than for logit, and for constant than for affine",
        "by factors of at least {affine_over_logit:.1f} and {constant_over_affine:.2f}",
        lambda n: min(n["affine_over_logit"], n["constant_over_affine"]) > 1,
    ),
    Statement(
        "points of that figure",
        "5.3, figure",
        "Points are simulations done at d = 200",
        "no point of the paper's coordinates equals the curve in all digits",
        "equal in {n_same_logit} of {n_points} for logit, {n_same_affine} for affine and {n_same_constant} for constant",
        lambda n: n["n_same_logit"] == n["n_same_affine"] == n["n_same_constant"] == 0,
        "for the logit and the constant teacher",
        lambda n: n["n_same_logit"] == n["n_same_constant"] == 0,
    ),
    Statement(
        "temperature difference of the constant teacher",
        "5.3",
        "δT is a non-decreasing function of the sampling ratio α, and is around 30 % at α = 20",
        "it rises at every step, and is within 0.05 of 0.3 at α = 20",
        "it rises at every step, from {difference_first:.1%} at α = 1 to {difference_last:.1%} at α = 20",
        lambda n: n["least_step"] >= 0 and abs(n["difference_last"] - n["difference_claimed"]) <= 0.05,
    ),
    Statement(
        "EC has the lower ECE",
        "5.3",
        "expectation consistency yields a lower ECE than Temperature scaling in all the settings considered",
        "for three teachers, three penalties and every α from 1 to 20",
        "lower by {least_lead:.1g} points or more",
        lambda n: n["least_lead"] > 0,
    ),
    Statement(
        "EC and TS if well specified",
        "5.3 and 6",
        "the effect is small in the well-specified case [...]: the ECE of Temperature scaling is higher by around 0.01%",
        "on average over α and penalties higher by 0.005 to 0.015 points",
        "by {logit_lead:.4f} points on average, {logit_lead_most:.4f} at most; half as much in integrals over half the line, "
        "as in the proposition",
        lambda n: abs(n["logit_lead"] - n["logit_lead_claimed"]) <= 0.005,
    ),
    Statement(
        "EC against TS if misspecified",
        "5.3 and 6",
        "this difference increases in the misspecified setting",
        "the lead of EC in ECE is larger for the affine and the constant teacher than for logit, at every α and penalty",
        "by a factor of at least {lead_ratio:.1f}",
        lambda n: n["lead_ratio"] > 1,
    ),
    Statement(
        "overconfident at every level",
        "5.3",
        "the ERM estimator is consistently overconfident, i.e ∀ ℓ ≥ 1/2, Δ_ℓ ≥ 0",
        "Δ is not below −1e-9 at any level from 1/2 to 1 (affine teacher, α = 20, λ = 1e-4)",
        "Δ = {least_delta:.4f} at a level of {least_delta_at:.2f}, because the affine teacher is certain of some labels",
        lambda n: n["least_delta"] >= -1e-9,
        "up to a level of {overconfident_below:.3f}",
        lambda n: n["overconfident_below"] > 0.9,
    ),
    Statement(
        "closer to the diagonal",
        "5.3",
        "after TS and EC, the conditional mean gets closer to the diagonal",
        "E|Δ| falls from uncalibrated to TS and to EC, in the case of the density figure",
        "{ece:.2f}, {ece_ts:.2f}, {ece_ec:.2f} %",
        lambda n: n["ece"] > n["ece_ts"] > n["ece_ec"],
    ),
    Statement(
        "temperatures of the density figure",
        "5.3, caption",
        "We have T_TS = 1.24, T_EC = 1.35",
        "equal to the printed digits for the affine teacher, which the caption does not name",
        "{temperature_ts:.3f} and {temperature_ec:.3f}",
        lambda n: (
            round(n["temperature_ts"], 2) == n["temperature_ts_claimed"]
            and round(n["temperature_ec"], 2) == n["temperature_ec_claimed"]
        ),
    ),
)

GROUP = Group(_pieces, numbers, STATEMENTS)
