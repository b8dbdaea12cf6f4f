"""Tests of calibration: whether labels may have been drawn from the probabilities of the model."""

from dataclasses import dataclass
from math import copysign, inf
from typing import Any, Literal, Unpack, get_args

from nishimori._evaluation.calibrated import CALIBRATORS_WORD, chosen, open_calibrated
from nishimori._evaluation.deviation import BrierExcess, ConfidenceGap, RowScore, deviation
from nishimori._evaluation.p_value import verdict
from nishimori._evaluation.redrawn_ece import Answer, RedrawnECE
from nishimori._evaluation.scorecard import edges_for
from nishimori._rows.options import RowOptions, takes_rows
from nishimori._rows.rows import Rows, clusters_in, counts_in
from nishimori._sums.reliability import Strategy, check_bins
from nishimori._support.intervals import two_sided
from nishimori._support.numbers import whole
from nishimori.errors import InputError
from nishimori.maps.map import Map
from nishimori.maps.temperature import temperature_of

Method = Literal["mean", "spiegelhalter", "ece"]

_SCORES: dict[str, RowScore] = {"mean": ConfidenceGap(), "spiegelhalter": BrierExcess()}

_MOST_DRAWS = 1_000_000

# An ECE of redrawn labels that is smaller by this relative amount counts as equal: sums of the same numbers round differently.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class CalibrationTest:
    """Whether labels may have been drawn from the probabilities of the model.

    Attributes
    ----------
    method : {"mean", "spiegelhalter", "ece"}
        What was measured.
    value : float
        "mean": mean confidence minus accuracy. "spiegelhalter": mean Brier score minus its mean if labels are drawn from the
        model. "ece": the expected calibration error.
    expected, se : float
        Mean and standard deviation of `value` if labels are drawn from the model.
    statistic : float
        `value` minus `expected`, over `se`.
    p_value : float
        The probability of a `value` at least as far from `expected`; for "ece", of one at least as large.
    temperature : float or None
        What the logits were divided by; None for a map that does more than that.
    n_samples : int
        How many samples had a positive weight.
    n_draws : int or None
        How often labels were redrawn; None for methods that do not need it.
    """

    method: Method
    value: float
    expected: float
    se: float
    statistic: float
    p_value: float
    temperature: float | None
    n_samples: int
    n_draws: int | None = None

    @property
    def verdict(self) -> str:
        """The result as a sentence, at the level of 95 %."""
        return self.sentence()

    def sentence(self, level: float = 0.95) -> str:
        """The result as a sentence.

        Parameters
        ----------
        level : float
            The level of confidence, between 0 and 1: "rejected" means a p-value below 1 − ``level``.
        """
        side = "above" if self.value >= 0 else "below"
        sentence = {
            "mean": f"mean confidence is {abs(self.value):.2g} {side} accuracy",
            "spiegelhalter": f"the Brier score is {abs(self.value):.2g} {side} the one that the model expects",
            "ece": f"the ECE is {self.value:.2g}, and {self.expected:.2g} on average if labels are drawn from the model",
        }[self.method]
        return f"{verdict('Calibration', self.p_value, level)}: {sentence}."

    def __str__(self) -> str:
        return self.verdict


@takes_rows(words=CALIBRATORS_WORD)
def calibration_test(
    logits: Any,
    labels: Any = None,
    *,
    method: Method = "spiegelhalter",
    temperature: float | None = None,
    calibrator: Any = None,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    n_draws: int = 1000,
    seed: int = 0,
    **options: Unpack[RowOptions],
) -> CalibrationTest:
    """Test whether labels may have been drawn from the probabilities of the model, at a temperature or after a calibrator.

    Use samples that T was not fitted to: after EC on the same samples, "mean" has a p-value of 1, and "spiegelhalter" almost
    never rejects.

    Parameters
    ----------
    logits, labels, temperature, calibrator
        As for `evaluate`; clusters and counts are not for "ece".
    method : {"mean", "spiegelhalter", "ece"}
        "mean": mean confidence equals accuracy. "spiegelhalter": the Brier score of all classes has the mean that the model
        expects. "ece": the expected calibration error is not larger than that of labels redrawn from the model.
    n_bins, strategy
        Bins of "ece", as for `metrics.ece`.
    n_draws, seed : int
        How often "ece" redraws the labels, and the random seed.
    **options
        What is said about the data: see `rows`.

    Returns
    -------
    CalibrationTest
        With `value`, `p_value`, and the result in words: `verdict`, or `sentence(level)`.

    Examples
    --------
    >>> import numpy as np
    >>> import nishimori
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(2000, 5))
    >>> labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)  # drawn at T = 2
    >>> print(nishimori.calibration_test(logits, labels, method="ece"))
    Calibration is rejected (p = 0.001): the ECE is 0.18, and 0.022 on average if labels are drawn from the model.
    """
    if not isinstance(method, str) or method not in get_args(Method):
        raise InputError(f"`method` must be 'mean', 'spiegelhalter' or 'ece', got {method!r}.")
    data, (used,) = open_calibrated({"calibrator": chosen(temperature, calibrator)}, logits, labels, options)
    counts = counts_in(data, options)
    if method == "ece":
        _refuse_dependence(data, counts)
        return _by_redrawing(data, used, n_bins, strategy, n_draws, seed)
    return _by_deviation(data, used, method, counts=counts)


def _by_deviation(data: Rows, used: Map, method: Method, *, counts: bool) -> CalibrationTest:
    found, census = deviation(data, _SCORES[method], used, counts=counts)
    return CalibrationTest(
        method=method,
        value=found.mean,
        expected=0.0,
        se=found.se,
        statistic=found.statistic,
        p_value=two_sided(found.statistic),
        temperature=temperature_of(used),
        n_samples=census.n_rows,
    )


def _refuse_dependence(data: Rows, counts: bool) -> None:
    if clusters_in(data) is not None:
        raise InputError("`clusters` must be left out for 'ece', which redraws each label by itself. Use 'spiegelhalter'.")
    if counts:
        raise InputError("`counts` must be False for 'ece', which redraws each label once. Repeat the samples instead.")


def _distance(difference: float, error: float) -> float:
    """In standard errors; infinite where the model is certain, and wrong."""
    if error > 0:
        return difference / error
    return copysign(inf, difference) if difference else 0.0


def _by_redrawing(data: Rows, used: Map, n_bins: int, strategy: Strategy, n_draws: int, seed: int) -> CalibrationTest:
    check_bins(n_bins, strategy)
    number, seed = whole("n_draws", n_draws, 1, _MOST_DRAWS), whole("seed", seed, 0)
    (edges,) = edges_for(data, (used,), n_bins, strategy)
    answers = RedrawnECE(data.gather(Answer(edges, used)), n_bins)
    ece, drawn = answers.observed, answers.drawn(number, seed)
    expected, se = float(drawn.mean()), float(drawn.std())
    reached = int((drawn >= ece * (1 - _ROUNDING)).sum())
    return CalibrationTest(
        method="ece",
        value=ece,
        expected=expected,
        se=se,
        statistic=_distance(ece - expected, se),
        p_value=(1 + reached) / (1 + number),
        temperature=temperature_of(used),
        n_samples=len(answers.index),
        n_draws=number,
    )
