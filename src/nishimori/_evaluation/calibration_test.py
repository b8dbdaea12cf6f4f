"""Whether labels may have been drawn from the probabilities of the model: one question, five statistics.

"confidence", "energy" and "spiegelhalter" are means of one number per sample, whose expectation is zero if labels are drawn
from the model. Their standard error is that of drawn labels too, √Σw²c(1 − c)/Σw for confidence c, which does not depend on the
labels. That from the sample, √Σw²(c − right)²/Σw, rejects too often if wrong answers are few: for "energy" in 13 % of cases
instead of 5 % for 8 wrong answers of 100 (bench/results/calibration_tests.md). "ece" redraws labels, because an ECE is not zero
on average. Nothing is fitted for these four, so they exist where no temperature fits.

"temperatures" asks whether any temperature calibrates the model: the conditions of EC and TS must then hold at the same T.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import copysign, exp, inf, sqrt
from typing import Any, Literal, Unpack, get_args

import numpy as np

from nishimori._evaluation.calibrated import CALIBRATORS_WORD, calibrator_or_map, open_calibrated
from nishimori._evaluation.calibration_statistics import (
    Answer,
    BrierExcess,
    ConfidenceGap,
    EnergyGap,
    RedrawnECE,
    RowScore,
    SeFrom,
    deviation,
)
from nishimori._evaluation.scorecard import edges_for
from nishimori._fit.match import Match, gaps_at
from nishimori._fit.roots import Root
from nishimori._fit.search import match
from nishimori._rows.entry import open_rows
from nishimori._rows.options import RowOptions, takes_rows
from nishimori._rows.question import question
from nishimori._rows.rows import Rows
from nishimori._sums.moments import GapSums
from nishimori._sums.observables import BUILT_IN, Observable
from nishimori._sums.reliability import Strategy, check_bins
from nishimori._support.arrays import HostArray
from nishimori._support.display import Display, Displayed, plural, short_repr
from nishimori._support.formatting import format_p_value, number_text, p_value_text, value_with_error
from nishimori._support.intervals import two_sided
from nishimori._support.numbers import between, whole
from nishimori._support.tables import Tabular
from nishimori.errors import InputError, NishimoriError, NoTemperatureError
from nishimori.maps.map import Map
from nishimori.maps.temperature import temperature_of

Statistic = Literal["confidence", "energy", "spiegelhalter", "ece", "temperatures"]

_SCORES: dict[str, RowScore] = {"confidence": ConfidenceGap(), "energy": EnergyGap(), "spiegelhalter": BrierExcess()}

_SENTENCES = {
    "confidence": "mean confidence is {size:.2g} {side} accuracy",
    "energy": "the mean expected logit is {size:.2g} {side} the mean logit of the true class",
    "spiegelhalter": "the Brier score is {size:.2g} {side} the one that the model expects",
    "ece": "the ECE is {size:.2g}, and {expected:.2g} on average if labels are drawn from the model",
}

_TITLES = {
    "confidence": "confidence − accuracy",
    "energy": "energy gap",
    "spiegelhalter": "Brier score − expected",
    "ece": "ECE",
    "temperatures": "log(T of EC / T of TS)",
}

_LONG_NAMES = {"ec": "Expectation consistency", "ts": "Temperature scaling"}

_MOST_DRAWS = 1_000_000

# An ECE of redrawn labels that is smaller by this relative amount counts as equal: sums of the same numbers round differently.
_ROUNDING = 1e-9

# If the variance of log(ec / ts) is a smaller part of the variances of both, it is rounding: the conditions are the same.
_SAME = 1e-12


@dataclass(frozen=True, repr=False)
class CalibrationTest(Displayed):
    """Whether labels may have been drawn from the probabilities of the model. ``print`` shows a table and a sentence.

    Attributes
    ----------
    statistic : {"confidence", "energy", "spiegelhalter", "ece", "temperatures"}
        What was measured.
    value : float
        "confidence": mean confidence minus accuracy. "energy": mean expected logit minus mean logit of the true class. Both are
        positive where the model is overconfident. "spiegelhalter": mean Brier score minus its mean if labels are drawn from the
        model. "ece": the expected calibration error. "temperatures": log(ec / ts).
    expected : float
        The mean of `value` if the hypothesis is true: 0, but for "ece".
    se : float
        The standard error of `value`; for "temperatures" 0 if EC and TS are the same condition on these data.
    se_from : {"model", "sample"}
        Whether that is the error if labels are drawn from the model, or follows from the sample: for "temperatures", with
        clusters, and from a sketch. With clusters it is the spread around the mean. A sketch of clusters, or of samples with
        different weights that are not counts, has only the spread around zero, which is larger if T is wrong.
    z : float
        `value` minus `expected`, over `se`.
    p_value : float
        The probability of a `value` at least as far from `expected`; for "ece", of one at least as large.
    temperature : float or None
        What the logits were divided by; None for a map that does more than that, and for "temperatures".
    n_samples : int
        How many samples had a positive weight.
    n_draws : int or None
        How often "ece" has redrawn the labels; None for the others.
    ec, ts : float or None
        Both temperatures, of "temperatures"; None for the others.
    j : float or None
        Hansen's J of both conditions at one temperature with efficient weights, of "temperatures": close to the square of `z`,
        and from chi-squared with one degree of freedom if both temperatures are equal. None for the others.
    """

    statistic: Statistic
    value: float
    expected: float
    se: float
    se_from: SeFrom
    z: float
    p_value: float
    temperature: float | None
    n_samples: int
    n_draws: int | None = None
    ec: float | None = None
    ts: float | None = None
    j: float | None = None

    @property
    def log_ratio(self) -> float | None:
        """log(ec / ts), which is the `value` of "temperatures"; None for the others."""
        return self.value if self.statistic == "temperatures" else None

    @property
    def verdict(self) -> str:
        """The result as a sentence, at a confidence level of 95 %."""
        return self.sentence()

    def sentence(self, level: float = 0.95) -> str:
        """The result as a sentence.

        Parameters
        ----------
        level : float
            The level of confidence, between 0 and 1: "rejected" means a p-value below 1 − ``level``.
        """
        if self.statistic == "temperatures":
            return self._sentence_about_temperatures(level)
        hypothesis = "Calibration" if self.temperature is None else f"T = {self.temperature:.4g}"
        side = "above" if self.value >= 0 else "below"
        found = _SENTENCES[self.statistic].format(size=abs(self.value), side=side, expected=self.expected)
        source = " (standard error from the sample)" if self.se_from == "sample" else ""
        rejected = "rejected" if is_rejected(self.p_value, level) else "not rejected"
        return f"{hypothesis} is {rejected} ({format_p_value(self.p_value)}): {found}{source}."

    def _sentence_about_temperatures(self, level: float) -> str:
        rejected = is_rejected(self.p_value, level)
        if not self.se:
            return "EC and TS are the same condition on these data, so there is nothing to test."
        says = "one temperature does not describe this model" if rejected else "one temperature is not rejected"
        return f"EC and TS differ by {abs(self.z):.1f} standard errors ({format_p_value(self.p_value)}): {says}."

    def __repr__(self) -> str:
        numbers = {"value": self.value, "se": self.se, "z": self.z, "p_value": self.p_value}
        return short_repr(self, statistic=self.statistic, **numbers, n_samples=self.n_samples)

    @property
    def _display(self) -> Display:
        numbers = (value_with_error(self.value, self.se), number_text(self.expected, 3), number_text(self.z, 3))
        row = (_TITLES[self.statistic], *numbers, p_value_text(self.p_value))
        table = Tabular(("statistic", "value", "expected", "z", "p-value"), [row])
        return Display(f"Calibration test, {plural(self.n_samples, 'sample')}", (table,), (self.verdict,))


@takes_rows(words=CALIBRATORS_WORD)
def calibration_test(
    logits: Any,
    labels: Any = None,
    *,
    statistic: Statistic = "spiegelhalter",
    temperature: float | None = None,
    calibrator: Any = None,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    n_draws: int = 1000,
    seed: int = 0,
    **options: Unpack[RowOptions],
) -> CalibrationTest:
    """Test whether labels may have been drawn from the probabilities of the model, at a temperature or after a calibrator.

    Use samples that T was not fitted to: after EC on the same samples, "confidence" has a p-value of 1, and "spiegelhalter"
    almost never rejects.

    Parameters
    ----------
    logits : array, path, batches, `Sketch` or `Rows`
        Scores before the softmax, of shape (n_samples, n_classes): an array of NumPy, PyTorch, JAX, CuPy or Dask. A flat array
        z means the binary logits (0, z); with more dimensions, such as (sequences, tokens, vocabulary), each position before
        the classes is a sample. Or the path of a file, a loader of batches ``(logits, labels)``, or what `rows` returns.
        A sketch is for "confidence" and "energy", at a temperature of its grid, such as 1, and for "temperatures".
    labels : array of shape (n_samples,), or as ``logits`` before the classes
        The true class of each sample: its column, or one of ``classes``. For a file, the name of its array or column. Left out
        where ``logits`` brings them.
    statistic : {"confidence", "energy", "spiegelhalter", "ece", "temperatures"}
        "confidence": mean confidence equals accuracy. "energy": the mean expected logit equals the mean logit of the true
        class; it needs a temperature. These are the conditions of EC and of TS. "spiegelhalter": the Brier score of all classes
        has the mean that the model expects. "ece": the expected calibration error is not larger than that of labels redrawn
        from the model. "temperatures": EC and TS choose the same temperature. If labels are drawn from the softmax of logits
        over some T, both are estimates of it; if they differ significantly, no temperature makes the model calibrated.
    temperature : float, optional
        Divide the logits by this first. By default T = 1, which asks whether the model needs calibration. Not for
        "temperatures".
    calibrator : calibrator, optional
        A fitted calibrator to apply first, instead of a temperature. Not for "temperatures".
    n_bins : int
        Number of bins of "ece".
    strategy : {"uniform", "quantile"}
        Bins of equal width, or of equal weight.
    n_draws, seed : int
        How often "ece" redraws the labels, and the random seed.
    **options
        What is said about the data, see `rows`: ``sample_weight``, ``counts``, ``clusters``, ``groups``, ``input``,
        ``classes``, ``floor``, ``ignore_index``, ``shift_labels``, ``class_axis``.

    Returns
    -------
    CalibrationTest
        With `value`, `se`, `z`, `p_value`, and the result in words: `verdict`, or `sentence(level)`.

    Raises
    ------
    NoTemperatureError
        If EC or TS has no temperature, for "temperatures". The other statistics need none.

    Examples
    --------
    >>> import numpy as np
    >>> import nishimori
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(2000, 5))
    >>> labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)  # drawn at T = 2
    >>> print(nishimori.calibration_test(logits, labels, statistic="confidence"))
    Calibration test, 2,000 samples
    <BLANKLINE>
    statistic              value            expected  z     p-value
    ---------------------  ---------------  --------  ----  -------
    confidence − accuracy  0.1780 ± 0.0088  0         20.3  < 0.001
    <BLANKLINE>
    T = 1 is rejected (p < 0.001): mean confidence is 0.18 above accuracy.
    ± is one standard error.
    >>> nishimori.calibration_test(logits, labels, statistic="ece").verdict
    'T = 1 is rejected (p < 0.001): the ECE is 0.18, and 0.022 on average if labels are drawn from the model.'
    >>> nishimori.calibration_test(logits, labels, temperature=2.0).p_value > 0.05
    True
    >>> nishimori.calibration_test(logits, labels, statistic="temperatures").verdict
    'EC and TS differ by 0.3 standard errors (p = 0.76): one temperature is not rejected.'
    >>> labels[:300] = rng.integers(5, size=300)  # label noise
    >>> nishimori.calibration_test(logits, labels, statistic="temperatures").verdict
    'EC and TS differ by 3.6 standard errors (p < 0.001): one temperature does not describe this model.'
    """
    if not isinstance(statistic, str) or statistic not in get_args(Statistic):
        raise InputError("statistic", f"be one of {', '.join(map(repr, get_args(Statistic)))}", got=repr(statistic))
    if statistic in ("energy", "temperatures") and options.get("groups") is not None:
        raise InputError("groups", f"be left out for {statistic!r}, which treats all groups alike")
    if statistic == "temperatures":
        _refuse_given(temperature=temperature, calibrator=calibrator)
        data = open_rows(logits, labels, **options)
        counts = data.counts or bool(options.get("counts"))
        matched = match(data, *BUILT_IN.values(), counts=counts)
        matched.warn()
        return temperatures_test(data, matched, counts=counts)
    data, (used,) = open_calibrated({"calibrator": calibrator_or_map(temperature, calibrator)}, logits, labels, options)
    counts = data.counts or bool(options.get("counts"))
    if statistic == "ece":
        _refuse_dependence(data, counts)
        return _by_redrawing(data, used, n_bins, strategy, n_draws, seed)
    return _by_deviation(data, used, statistic, counts=counts)


def is_rejected(p: float, level: float) -> bool:
    """Say whether a p-value is below one minus a level of confidence, which is checked."""
    return p < 1 - between("level", level, 0, 1)


# "confidence", "energy" and "spiegelhalter": the mean of one number per sample


def _by_deviation(data: Rows, used: Map, statistic: Statistic, *, counts: bool) -> CalibrationTest:
    temperature = temperature_of(used)
    if statistic == "energy" and temperature is None:
        raise InputError(
            "calibrator",
            "divide logits by one temperature for 'energy'",
            got="one that does more",
            remedy="Use 'confidence' or 'spiegelhalter'.",
        )
    found, census = deviation(data, _SCORES[statistic], used, counts=counts)
    if statistic == "energy" and census.n_at_masks:
        raise InputError(
            "labels",
            "not name a masked class for 'energy'",
            got=f"{census.n_at_masks} samples whose true class has logit -inf: no label is drawn there",
            remedy="Unmask the class, drop those samples, or use 'confidence', which counts them as misses.",
        )
    return CalibrationTest(
        statistic=statistic,
        value=found.mean,
        expected=0.0,
        se=found.se,
        se_from=found.se_from,
        z=found.statistic,
        p_value=two_sided(found.statistic),
        temperature=temperature,
        n_samples=census.n_rows,
    )


# "ece": labels that are redrawn from the model


def _refuse_dependence(data: Rows, counts: bool) -> None:
    if data.clusters is not None:
        raise InputError("clusters", "be left out for 'ece', which redraws each label by itself", remedy="Use 'spiegelhalter'.")
    if counts:
        raise InputError("counts", "be False for 'ece', which redraws each label once", remedy="Repeat the samples instead.")


@question("has no labels to redraw")
def _by_redrawing(data: Rows, used: Map, n_bins: int, strategy: Strategy, n_draws: int, seed: int) -> CalibrationTest:
    check_bins(n_bins, strategy)
    number, seed = whole("n_draws", n_draws, 1, _MOST_DRAWS), whole("seed", seed, 0)
    (edges,) = edges_for(data, (used,), n_bins, strategy)
    answers = RedrawnECE(data.gather(Answer(edges, used)), n_bins)
    ece, drawn = answers.observed, answers.draw_eces(number, seed)
    expected, se = float(drawn.mean()), float(drawn.std())
    reached = int((drawn >= ece * (1 - _ROUNDING)).sum())
    return CalibrationTest(
        statistic="ece",
        value=ece,
        expected=expected,
        se=se,
        se_from="model",
        z=_distance(ece - expected, se),
        p_value=(1 + reached) / (1 + number),
        temperature=temperature_of(used),
        n_samples=len(answers.index),
        n_draws=number,
    )


def _distance(difference: float, error: float) -> float:
    """The difference in standard errors; infinite where the model is certain, and wrong."""
    if error > 0:
        return difference / error
    return copysign(inf, difference) if difference else 0.0


# "temperatures": two conditions for one number


def _refuse_given(**arguments: Any) -> None:
    for name, value in arguments.items():
        if value is not None:
            raise InputError(name, "be left out for 'temperatures', which compares the temperatures of EC and TS")


def temperatures_test(data: Rows, matched: Match, *, counts: bool) -> CalibrationTest:
    """Test whether EC and TS choose the same temperature, from a search for both in ``data``."""
    for name, root in zip(BUILT_IN, matched.roots, strict=True):
        if isinstance(root, NoTemperatureError):
            raise NoTemperatureError(f"Both temperatures must exist to be compared. {_LONG_NAMES[name]}: {root}", end=root.end)
        if isinstance(root, NishimoriError):
            raise root
    # Both conditions are summed at T of temperature scaling.
    return _from_gaps(matched, gaps_at_temperature(data, matched.observables, -_logs(matched)[1], counts=counts))


@question("has no sums of both conditions")
def gaps_at_temperature(data: Rows, observables: Sequence[Observable], log_beta: float, *, counts: bool) -> GapSums:
    """Sum both conditions at one temperature, in one more pass.

    Each condition at its own temperature, as a fit has them, makes the test reject too often for few wrong answers: for 100
    samples of svhn/resnet20 in 8.0 % instead of 5 % of cases with labels that are drawn from softmax(z/T), and in 9.2 % with
    real labels that are reweighted so that both temperatures are equal (bench/results/temperature_test.md).
    """
    return gaps_at(data, [(each, exp(log_beta)) for each in observables], counts=counts)


def _logs(matched: Match) -> list[float]:
    """The logarithms of both temperatures, which exist."""
    return [-root.x for root in matched.roots if isinstance(root, Root)]


def _from_gaps(matched: Match, gaps: GapSums) -> CalibrationTest:
    """The test from the sums of both conditions at one temperature, with J.

    With two conditions and one parameter, J is the square of the one combination of gaps that does not move with T, over its
    variance.
    """
    slopes = np.array([each.slope[0] * each.betas[0] for each in gaps.items])
    still = np.array([slopes[1], -slopes[0]])
    total, variance = still @ [each.excess[0] for each in gaps.items], still @ gaps.square_products @ still
    j = float(total**2 / variance) if variance > 0 else 0.0
    return _from_covariance(matched, gaps.square_products / np.outer(slopes, slopes), j)


def _from_covariance(matched: Match, covariance: HostArray, j: float) -> CalibrationTest:
    """The test from both temperatures and the covariance of their logarithms."""
    log_ec, log_ts = _logs(matched)
    both = float(covariance[0, 0] + covariance[1, 1])
    variance = both - 2 * float(covariance[0, 1])
    se = sqrt(variance) if variance > _SAME * both else 0.0
    z = (log_ec - log_ts) / se if se else 0.0
    return CalibrationTest(
        statistic="temperatures",
        value=log_ec - log_ts,
        expected=0.0,
        se=se,
        se_from="sample",
        z=z,
        p_value=two_sided(z),
        temperature=None,
        n_samples=matched.census.n_rows,
        ec=exp(log_ec),
        ts=exp(log_ts),
        j=j if se else 0.0,
    )
