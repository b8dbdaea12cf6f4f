"""Explain the difference between the EC and TS temperatures by the gap between confidence and accuracy at each margin.

Write d_k ≥ 0 for the distance of logit k below the largest one, p_k for the probabilities at β = 1/T, and

- Δ = p_top − [label is the top class], the gap of a sample;
- D = the mean of d_k over the other classes, weighted by p_k: the sample's *margin*, which is |logit| for two classes.

EC is E[Δ] = 0. TS is E[d_label − Σ p_k d_k] = 0, which is exactly E[DΔ] + E[[wrong] (d_label − D)] = 0. So the two conditions
differ by the covariance of margin and gap, and by a rest that asks how far away the right class is when the answer is wrong.
docs/why_ec_and_ts_agree.md derives this.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from nishimori._support.arrays import HostArray
from nishimori.errors import NotConvergedError
from nishimori_paper.theory import LinearScore

_BINS = 15

# Newton's method doubles the digits per step, so the error of the last one is far below this.
_PRECISION = 1e-7
_LIMIT = 60

# Half the step in log β of a central difference.
_STEP = 1e-3


class Sums(NamedTuple):
    """Per sample, at one β: margin βD, gap Δ, TS gap β(d_label − ⟨d⟩), rest of TS, and the slopes of both gaps in log β."""

    margin: HostArray
    gap: HostArray
    ts_gap: HostArray
    rest: HostArray
    slope: HostArray
    ts_slope: HostArray


@dataclass(frozen=True)
class Distances:
    """Distances of the logits below the largest one, and the labels, some of which may be random.

    Attributes
    ----------
    others : array of shape (n, k − 1)
        Distances of all classes except the top one.
    wrong, label : arrays of shape (n,)
        Probability that the answer is wrong, and mean distance of the label; averages if the label is random.
    """

    others: HostArray
    wrong: HostArray
    label: HostArray

    @classmethod
    def from_logits(cls, logits: Any, labels: Any, noise: HostArray | float = 0.0) -> "Distances":
        """Distances of a network; ``noise`` is the probability that a sample's label is replaced by one of all K at random."""
        z = np.asarray(logits, dtype=np.float64)
        n, k = z.shape
        rows, top = np.arange(n), z.argmax(axis=1)
        distance = z[rows, top][:, None] - z
        share = np.broadcast_to(np.asarray(noise, dtype=np.float64), n)
        wrong = (1 - share) * (np.asarray(labels) != top) + share * (1 - 1 / k)
        label = (1 - share) * distance[rows, np.asarray(labels)] + share * distance.mean(axis=1)
        others = distance[np.arange(k) != top[:, None]].reshape(n, k - 1)
        return cls(others, wrong, label)

    def at(self, log_beta: float) -> Sums:
        """The sums of every sample at β."""
        u = exp(log_beta) * self.others
        nearest = u.min(axis=1, keepdims=True)
        # Relative to the nearest other class, so that the weights do not all underflow.
        relative = np.exp(nearest - u)
        total = relative.sum(axis=1)
        margin = (relative * u).sum(axis=1) / total
        below = total * np.exp(-nearest[:, 0])
        other = below / (1 + below)
        square = other * (relative * u * u).sum(axis=1) / total
        label = exp(log_beta) * self.label
        return Sums(
            margin=margin,
            gap=self.wrong - other,
            ts_gap=label - other * margin,
            rest=label - self.wrong * margin,
            slope=(1 - other) * other * margin,
            ts_slope=square - (other * margin) ** 2,
        )


class Roots(NamedTuple):
    """The log β of EC and the log β of TS."""

    ec: float
    ts: float


# Most networks are overconfident: T is above 1.
_START = Roots(-0.5, -0.5)


def roots(data: Distances, near: Roots = _START) -> Roots:
    """Both roots by Newton's method, from values nearby; both gaps increase with β."""
    return Roots(_root(data, "gap", "slope", near.ec), _root(data, "ts_gap", "ts_slope", near.ts))


def _root(data: Distances, gap: str, slope: str, x: float) -> float:
    for _ in range(_LIMIT):
        sums = data.at(x)
        step = -float(getattr(sums, gap).mean() / getattr(sums, slope).mean())
        x += min(max(step, -1.0), 1.0)
        if abs(step) < _PRECISION:
            return x
    raise NotConvergedError(f"The temperature was not found in {_LIMIT} steps; the last one changed log T by {step:.1e}.")


def decomposition(data: Distances) -> dict[str, float]:
    """The difference log T_TS/T_EC, its first-order formula and the parts of this formula, each with its standard error.

    ``covariance`` is Cov(βD, Δ)/H and ``wrong_classes`` the rest of TS over H, both at T_EC; H is the slope of the TS gap.
    Their sum is ``first_order``.
    """
    ec, ts = roots(data)
    at_ec, at_ts = data.at(ec), data.at(ts)
    n = len(at_ec.gap)
    # How much each sample moves log β of EC, times n, and the same for TS.
    moves, moves_ts = -at_ec.gap / at_ec.slope.mean(), -at_ts.ts_gap / at_ts.ts_slope.mean()
    result = {"temperature_ts": exp(-ts), "temperature_ec": exp(-ec), "difference": ec - ts}
    result["difference_se"] = float(np.std(moves - moves_ts)) / sqrt(n)
    before, after = (_parts(data.at(ec + step)) for step in (-_STEP, _STEP))
    parts = _parts(at_ec)
    heat = float(at_ec.ts_slope.mean())
    single = {
        "covariance": (at_ec.margin - at_ec.margin.mean()) * at_ec.gap / heat,
        "wrong_classes": at_ec.rest / heat,
    }
    single["first_order"] = single["covariance"] + single["wrong_classes"]
    for name, value in parts.items():
        drift = (after[name] - before[name]) / (2 * _STEP)
        influence = single[name] - value * at_ec.ts_slope / heat + drift * moves
        result |= {name: value, f"{name}_se": float(np.std(influence)) / sqrt(n)}
    result |= {"heat": heat, "margin_mean": float(at_ec.margin.mean()), "margin_sd": float(np.std(at_ec.margin))}
    return result


def _parts(sums: Sums) -> dict[str, float]:
    heat = float(sums.ts_slope.mean())
    covariance = float(np.mean((sums.margin - sums.margin.mean()) * sums.gap)) / heat
    rest = float(sums.rest.mean()) / heat
    return {"covariance": covariance, "wrong_classes": rest, "first_order": covariance + rest}


def profile(data: Distances, log_beta: float) -> list[dict[str, float]]:
    """Mean gap Δ and its standard error in bins of equal numbers of samples, by margin."""
    sums = data.at(log_beta)
    rows = []
    for part in np.array_split(np.argsort(sums.margin, kind="stable"), _BINS):
        error = float(np.std(sums.gap[part], ddof=1)) / sqrt(len(part))
        rows.append({"margin": float(sums.margin[part].mean()), "gap": float(sums.gap[part].mean()), "gap_se": error})
    return rows


def root_mean_square(rows: Sequence[dict[str, float]]) -> float:
    """Root mean square of the gap over bins, minus the part expected from sampling noise."""
    return sqrt(max(0.0, float(np.mean([row["gap"] ** 2 - row["gap_se"] ** 2 for row in rows]))))


def limit(score: LinearScore) -> dict[str, Any]:
    """The same decomposition for a classifier of the theory: two classes, so there is no rest, and no sampling error."""
    s, weight, wrong = score.line
    T = score.temperature_ec
    margin = sqrt(score.q) / T * s
    gap = wrong - expit(-margin)
    heat = float(weight @ (margin**2 * expit(margin) * expit(-margin)))
    rows = [{"margin": float(margin[i]), "gap": float(gap[i])} for i in np.searchsorted(s, np.linspace(0.02, 4.0, 60))]
    uncalibrated = wrong - expit(-sqrt(score.q) * s)
    return {
        "temperature_ts": score.temperature_ts,
        "temperature_ec": T,
        "difference": log(score.temperature_ts / T),
        "first_order": float(weight @ (margin * gap)) / heat,
        "heat": heat,
        "margin_mean": float(weight @ margin),
        "margin_sd": sqrt(float(weight @ margin**2) - float(weight @ margin) ** 2),
        "rms_before": sqrt(float(weight @ uncalibrated**2)),
        "rms_after": sqrt(float(weight @ gap**2)),
        "profile": rows,
    }
