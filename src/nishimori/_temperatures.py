"""The answers: the temperature at which the model's mean of an observable equals the labels', or why there is none.

Expectation consistency and temperature scaling are one search with two observables. Whether it can succeed is known before
it starts: the gap grows with β, so there is a root exactly if it is negative at β = 0 and positive at β = ∞, and one pass
measures both. The search then starts at the answer of a small random sample of the rows.
"""

import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import exp, inf
from typing import Any

from nishimori._inputs import Batches, batches
from nishimori._moments import Answers, Moments, count, gather, log_scale, measure, together, watched_by
from nishimori._observables import Confidence, Energy, Observable, TopN
from nishimori._roots import Point, Root, increasing_root
from nishimori._scores import Input
from nishimori.errors import FewErrorsWarning, InputError, NishimoriError, NotConvergedError, NoTemperatureError

# A sixteenth of the rows costs less than one full pass to solve and lands within a few standard errors of the answer,
# from where three passes reach ten digits. Fewer than 16 sampled rows are too few to start from.
_SAMPLE_SHARE = 16
_SAMPLE_LEAST = 16

# The sample is a copy, so it is kept small however large the data are: 32 MiB of float64.
_SAMPLE_ELEMENTS = 2**22

_FEW = 10


@dataclass(frozen=True)
class Receipt:
    """How a temperature was found.

    Attributes
    ----------
    residual : float
        What is left of the gap at the temperature returned: mean confidence minus accuracy for expectation consistency, mean
        expected logit minus mean logit of the true class for temperature scaling.
    converged : bool
        Whether the search met its tolerance. It raises if not, so a fitted calibrator says True here.
    n_passes : int
        How often all logits were read, after the reading that checked them.
    n_samples : int
        How many samples had a positive weight.
    accuracy : float
        The weighted share of samples that count as right.
    n_zeros : int
        How many probabilities were exactly zero and were raised to the smallest normal number of their dtype.
    n_masked : int
        How many logits were -inf and so masked their class.
    """

    residual: float
    converged: bool
    n_passes: int
    n_samples: int
    accuracy: float
    n_zeros: int
    n_masked: int


@dataclass(frozen=True)
class Match:
    """Where each observable is matched, or why not, and what the data looked like on the way."""

    roots: dict[Observable, Root | NishimoriError]
    answers: Answers
    n_passes: int


def match(data: Batches, *observables: Observable, right: TopN) -> Match:
    """Search for the temperatures of several observables at once; ``right`` says which answers count as such."""
    limits = gather(
        data,
        together(
            partial(count, observable=right),
            *(partial(measure, observable=each, betas=[0.0, inf]) for each in observables),
        ),
    )
    answers, *ends = limits.items
    roots: dict[Observable, Root | NishimoriError] = {}
    for each, moments in zip(observables, ends, strict=True):
        if reason := _refusal(each, moments, answers, data.label_name):
            roots[each] = reason
    wanted = [each for each in observables if each not in roots]
    starts = _starts_from_sample(data, wanted, right)
    n_passes = 1
    if len(starts) < len(wanted):
        start = -gather(data, log_scale) / float(data.weights.sum())
        starts = dict.fromkeys(wanted, start) | starts
        n_passes += 1
    found, searched = _search(data, starts)
    return Match(roots | found, answers, n_passes + searched)


def _starts_from_sample(data: Batches, observables: Sequence[Observable], right: TopN) -> dict[Observable, float]:
    """The answers of a sample, as far as it has any."""
    size = min(data.n_samples // _SAMPLE_SHARE, max(_SAMPLE_LEAST, _SAMPLE_ELEMENTS // data.n_classes))
    if not observables or size < _SAMPLE_LEAST:
        return {}
    sample = data.sample(size)
    if not sample.weights.any():
        return {}
    with watched_by(lambda _: None):  # too short to show
        roots = match(sample, *observables, right=right).roots
    return {each: root.x for each, root in roots.items() if isinstance(root, Root)}


def _search(data: Batches, starts: dict[Observable, float]) -> tuple[dict[Observable, Root | NishimoriError], int]:
    """Run one search an observable, all fed by the same passes."""
    searches = {each: increasing_root(start) for each, start in starts.items()}
    wanted = {each: next(search) for each, search in searches.items()}
    found: dict[Observable, Root | NishimoriError] = {}
    n_passes = 0
    while wanted:
        sums = gather(data, together(*(partial(measure, observable=o, betas=[exp(x)]) for o, x in wanted.items())))
        n_passes += 1
        for each, moments in zip(tuple(wanted), sums.items, strict=True):
            try:
                wanted[each] = searches[each].send(_in_log_beta(moments, exp(wanted[each])))
            except StopIteration as end:
                found[each] = end.value
                del wanted[each]
            except NotConvergedError as error:
                found[each] = error
                del wanted[each]
    return found, n_passes


def _in_log_beta(moments: Moments, beta: float) -> Point:
    slope, curvature = (float(sums[0]) / moments.weight for sums in (moments.slope, moments.curvature))
    return Point(
        value=float(moments.gap[0]),
        slope=beta * slope,
        curvature=beta * slope + beta**2 * curvature,
        noise=float(moments.noise[0]),
    )


def _refusal(observable: Observable, moments: Moments, answers: Answers, label_name: str) -> NishimoriError | None:
    """Why the gap does not change sign, or None if it does."""
    if moments.observed == -inf:
        return InputError(
            f"`{label_name}` must not name a masked class for temperature scaling, got {answers.n_at_masks} samples whose true "
            "class has logit -inf: their loss is infinite at every T. Unmask the class, drop those samples, or use "
            "ExpectationConsistency, which counts them as misses."
        )
    hot, cold = moments.gap
    if hot < -moments.noise[0] and cold > moments.noise[1]:
        return None
    observed = moments.observed / moments.weight
    at_hot, at_cold = moments.expected / moments.weight
    if at_cold - at_hot <= moments.noise.sum():
        end, why = (
            "flat",
            "no temperature changes anything, because each sample's unmasked logits are all equal or too few to choose from. "
            "Check the model's output.",
        )
    elif cold <= moments.noise[1]:
        end, why = "cold", observable.cold(answers.n_samples, observed, at_cold)
    else:
        end, why = "hot", observable.hot(answers.n_samples, observed, at_hot)
    return NoTemperatureError(f"No temperature fits: {why}", end=end)


def fit_one(data: Batches, observable: Observable, right: TopN) -> tuple[float, Receipt]:
    """The temperature of one observable and its receipt; raises if there is none."""
    matched = match(data, observable, right=right)
    root = matched.roots[observable]
    if isinstance(root, NishimoriError):
        raise root
    warn_if_few(matched.answers)
    return exp(-root.x), Receipt(
        residual=root.residual,
        converged=root.converged,
        n_passes=matched.n_passes,
        n_samples=matched.answers.n_samples,
        accuracy=matched.answers.accuracy,
        n_zeros=data.scores.n_zeros,
        n_masked=data.scores.n_masked,
    )


def warn_if_few(answers: Answers) -> None:
    """Warn when a handful of samples decides the temperature."""
    n_wrong = answers.n_samples - answers.n_right
    few, what = min((n_wrong, "wrong"), (answers.n_right, "right"))
    if few < _FEW:
        warnings.warn(
            f"Only {few} of {answers.n_samples} validation samples are answered {what}, so the temperature is uncertain; "
            f"use a validation set with at least {_FEW} wrong and {_FEW} right answers.",
            FewErrorsWarning,
            stacklevel=_levels_to_the_caller(),
        )


def _levels_to_the_caller() -> int:
    """How many calls up the code is that is neither ours nor scikit-learn's, so that a warning names its line."""
    levels, frame = 0, sys._getframe()  # what `warnings` itself uses
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("nishimori", "sklearn"):
        levels, frame = levels + 1, frame.f_back
    return levels


@dataclass(frozen=True)
class Temperatures:
    """Both temperatures of a validation set.

    Attributes
    ----------
    ec : float or None
        The temperature of expectation consistency: mean confidence equals accuracy. None if there is none.
    ts : float or None
        The temperature of temperature scaling: the mean cross-entropy is least. None if there is none.
    accuracy : float
        The weighted share of samples whose largest logit is at the true class.
    n_passes : int
        How often all logits were read, for both together.
    n_samples : int
        How many samples had a positive weight.
    why_no_ec, why_no_ts : str or None
        Why the temperature does not exist, where it does not.
    end : str or None
        Where `ec` would be, if it does not exist: "cold", "hot" or "flat", as in `NoTemperatureError`.
    """

    ec: float | None
    ts: float | None
    accuracy: float
    n_passes: int
    n_samples: int
    why_no_ec: str | None = None
    why_no_ts: str | None = None
    end: str | None = None


def temperatures(logits: Any, labels: Any, *, sample_weight: Any = None, input: Input = "logits") -> Temperatures:
    """Both temperatures of a validation set, expectation consistency and temperature scaling, from shared passes.

    Parameters
    ----------
    logits : array of shape (n_samples, n_classes), or (n_samples,)
        Scores before the softmax, in any array library; a flat array z means the binary logits (0, z).
    labels : integer array of shape (n_samples,)
        The column of each sample's true class.
    sample_weight : array of shape (n_samples,), optional
        A weight of w counts a sample as w copies.
    input : {"logits", "probabilities"}
        What ``logits`` holds. Probabilities are calibrated through their logarithms.

    Returns
    -------
    Temperatures
        With `ec`, `ts`, `accuracy` and `n_passes`. If one of the two does not exist it is None and the result says why.

    Raises
    ------
    NoTemperatureError
        If neither exists.

    Examples
    --------
    >>> import numpy as np
    >>> import nishimori
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(2000, 5))
    >>> labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)  # drawn at T = 2
    >>> found = nishimori.temperatures(logits, labels)
    >>> print(f"{found.ec:.2f} {found.ts:.2f} {found.accuracy:.3f}")
    1.99 1.98 0.570
    """
    found = temperatures_of(batches(logits, labels, sample_weight, input=input))
    if found.ec is None and found.ts is None:
        raise NoTemperatureError(
            f"Expectation consistency: {found.why_no_ec} Temperature scaling: {found.why_no_ts}", end=found.end or "flat"
        )
    return found


def temperatures_of(data: Batches, *, warn: bool = True) -> Temperatures:
    """Both temperatures of checked data, or neither; ``warn`` if few samples decide."""
    confidence, energy = Confidence(), Energy()
    matched = match(data, confidence, energy, right=confidence)
    values: dict[Observable, float | None] = {}
    reasons: dict[Observable, str | None] = {}
    for each, root in matched.roots.items():
        values[each] = exp(-root.x) if isinstance(root, Root) else None
        reasons[each] = None if isinstance(root, Root) else str(root)
    if warn and (values[confidence] is not None or values[energy] is not None):
        warn_if_few(matched.answers)
    return Temperatures(
        ec=values[confidence],
        ts=values[energy],
        accuracy=matched.answers.accuracy,
        n_passes=matched.n_passes,
        n_samples=matched.answers.n_samples,
        why_no_ec=reasons[confidence],
        why_no_ts=reasons[energy],
        end=getattr(matched.roots[confidence], "end", None),
    )
