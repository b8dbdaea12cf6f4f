"""The statement of Section 5.1 on expectation maximisation: T from the training set, without a validation set."""

from collections.abc import Callable, Mapping
from functools import partial
from math import exp
from typing import Any

from scipy.optimize import brentq

from nishimori_paper._artefact import Pieces, Scale
from nishimori_paper.artefacts._expectation_maximisation import RIGHT, recovered
from nishimori_paper.artefacts._statements._chance import any_beyond, in_words
from nishimori_paper.artefacts._statements._statement import Group, Numbers, Statement
from nishimori_paper.theory import bayes_optimal

_TEACHERS = ("logit", "probit", "affine")
_ALPHAS = (1.0, 3.0, 10.0)
# On data: probit, whose samples are the cheapest, at every temperature.
_SETTINGS = [setting for setting in RIGHT if setting.teacher == "probit"]


# Standard errors that the mean T may be away from T*.
_DEVIATIONS = 4.0


def _pieces(scale: Scale) -> Mapping[str, Callable[[], Any]]:
    work: dict[str, Callable[[], Any]] = {f"evidence {teacher}": partial(_most_evidence, teacher) for teacher in _TEACHERS}
    return work | {f"EM {setting.name}": partial(recovered, setting, scale) for setting in _SETTINGS}


def _most_evidence(teacher: str) -> list[float]:
    """T of the largest evidence in the limit, for T* = 1: where a weight's mean square is the same in posterior and prior."""

    def excess(log_T: float, alpha: float) -> float:
        theory = bayes_optimal(teacher, alpha, temperature=exp(log_T))
        return theory.q + theory.v - 1

    # The bracket is not centred on T*, so that the search does not start at the answer.
    return [exp(brentq(excess, -0.3, 0.5, args=(alpha,), xtol=1e-11)) for alpha in _ALPHAS]


def numbers(done: Pieces) -> Numbers:
    """The numbers that decide."""
    evidence = [T for key, temperatures in done.items() if key.startswith("evidence ") for T in temperatures]
    rows = [row for key, row in done.items() if key.startswith("EM ")]
    ratios = [row["temperature_em"] / row["temperature"] for row in rows]
    deviations = [abs(row["temperature_em"] - row["temperature"]) / row["temperature_em_error"] for row in rows]
    return {
        "n": len(evidence),
        "off": max(abs(T - 1) for T in evidence),
        "n_data": len(rows),
        "ratio": sum(ratios) / len(ratios),
        "deviation": max(deviations),
        "fails": in_words(any_beyond(_DEVIATIONS, [1.0] * len(rows))),
    }


STATEMENTS = (
    Statement(
        "expectation maximisation",
        "5.1",
        "equivalently this would correspond to expectation maximization [...] This estimation of the temperature would lead to "
        "T = T*",
        "without a validation set: in the limit the evidence has its maximum at T* to 1e-8, and on data the mean T is within "
        "four standard errors of T*",
        "T* to 1e-8 in all {n} cases of the limit; on data (probit teacher, T* = 0.5, 1 and 2) T/T* is {ratio:.2f} on average",
        lambda n: n["off"] < 1e-8 and n["deviation"] < _DEVIATIONS,
        chance="the second part fails with probability {fails} if the mean T is T* on each of {n_data} sets of data",
    ),
)

GROUP = Group(_pieces, numbers, STATEMENTS)
