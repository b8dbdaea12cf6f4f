"""Statements of Sections 3 and 5.1 on Bayesian estimation."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from nishimori_paper._artefact import Pieces, Scale
from nishimori_paper.artefacts._statements._statement import Group, Numbers, Statement
from nishimori_paper.theory import bayes_optimal, bayes_temperatures

# Teachers with a log-concave likelihood; only for these the equations are proven at temperatures other than T*.
_CONCAVE = ("logit", "probit", "affine")
_TEACHERS = (*_CONCAVE, "constant")
_ALPHAS = (1.0, 3.0, 10.0)


def _pieces(_: Scale) -> Mapping[str, Callable[[], Any]]:
    return {f"bayes {teacher}": partial(_bayes, teacher) for teacher in _TEACHERS}


def _bayes(teacher: str) -> list[dict[str, float]]:
    rows = []
    for alpha in _ALPHAS:
        best = bayes_optimal(teacher, alpha)
        row = {"confidence": best.confidence, "accuracy": best.accuracy, "ece": best.ece}
        if teacher in _CONCAVE:
            ts, ec = bayes_temperatures(teacher, alpha)
            nearby = min(bayes_optimal(teacher, alpha, temperature=T).error for T in (0.95, 1.05))
            row |= {"ts": ts, "ec": ec, "error_nearby": nearby - best.error}
        rows.append(row)
    return rows


def numbers(done: Pieces) -> Numbers:
    """The numbers that decide."""
    rows = [row for key, rows in done.items() if key.startswith("bayes ") for row in rows]
    concave = [row for row in rows if "ts" in row]
    return {
        "n": len(rows),
        "ece": max(row["ece"] for row in rows),
        "excess": max(abs(row["confidence"] - row["accuracy"]) for row in rows),
        "off": max(abs(row[name] - 1) for row in concave for name in ("ts", "ec")),
        "error_nearby": min(row["error_nearby"] for row in concave),
    }


STATEMENTS = (
    Statement(
        "no validation set needed",
        "3",
        "one would not even need a validation set since the expected test accuracy would be predicted by the uncertainties "
        "under the posterior",
        "with the right prior and likelihood, mean confidence and accuracy differ by less than 1e-9",
        "they differ by less than 1e-9 in all {n} cases (theory; four teachers, α = 1, 3 and 10)",
        lambda n: n["excess"] < 1e-9,
    ),
    Statement(
        "Bayes-optimal calibration",
        "5.1",
        "The Bayes-optimal predictor above is well calibrated",
        "at every level of confidence: the ECE, computed without bins, is below 1e-9",
        "ECE below 1e-9 in all {n} cases",
        lambda n: n["ece"] < 1e-9,
    ),
    Statement(
        "T* from the data",
        "5.1",
        "finding the T that minimizes the classification error, or equivalently the generalisation loss [...] would lead to "
        "T = T*",
        "T of least loss and T_EC are T* to 1e-8; 5 % away from T* the error is higher",
        "both are T* to 1e-8; 5 % away the error is higher by {error_nearby:.1e} or more",
        lambda n: n["off"] < 1e-8 and n["error_nearby"] > 0,
    ),
)

GROUP = Group(_pieces, numbers, STATEMENTS)
