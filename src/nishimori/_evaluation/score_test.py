"""Whether the labels are compatible with a given temperature: a test without a fit, which exists where no temperature fits.

The standard error of the gap is that of labels drawn from the model, √Σw²c(1 − c)/Σw for confidence c, which does not depend on
the labels. That from the sample, √Σw²(c − right)²/Σw, rejects too often if wrong answers are few: for temperature scaling in
13 % of cases instead of 5 % for 8 wrong answers of 100 (bench/results/calibration_tests.md).
"""

from dataclasses import dataclass
from typing import Any, Literal, Unpack, get_args

from nishimori._evaluation.deviation import ConfidenceGap, Deviation, EnergyGap, RowScore, deviation
from nishimori._evaluation.p_value import verdict
from nishimori._rows.entry import open_rows
from nishimori._rows.options import NO_GROUPS, RowOptions, takes_rows
from nishimori._rows.rows import Rows, clusters_in, counts_in, counts_of_clusters
from nishimori._sums.observables import BUILT_IN, Observable
from nishimori._sums.sketch.sketch import Sketch
from nishimori._support.intervals import two_sided
from nishimori._support.numbers import temperature as checked_temperature
from nishimori.errors import InputError
from nishimori.maps.temperature import Temperature

Method = Literal["ec", "ts"]

_SCORES: dict[str, RowScore] = {"ec": ConfidenceGap(), "ts": EnergyGap()}
_SENTENCES = {
    "ec": "mean confidence is {size:.2g} {side} accuracy",
    "ts": "the mean expected logit is {size:.2g} {side} the mean logit of the true class",
}


@dataclass(frozen=True)
class ScoreTest:
    """Whether the labels are compatible with one temperature.

    Attributes
    ----------
    temperature : float
        The temperature that was tested.
    method : {"ec", "ts"}
        Which gap was measured.
    gap : float
        Mean confidence minus accuracy ("ec"), or mean expected logit minus mean logit of the true class ("ts"): positive where
        the model is overconfident.
    se : float
        The standard error of the gap.
    se_from : {"model", "sample"}
        Whether that is the error if labels are drawn from the model, or follows from the spread of gaps in the sample around
        their mean: with clusters, and from a sketch. A sketch of clusters, or of samples with different weights that are not
        counts, has only the spread around zero, which is larger if T is wrong.
    statistic, p_value : float
        The gap over its standard error, and the probability of one at least as large, of either sign.
    n_samples : int
        How many samples had a positive weight.
    """

    temperature: float
    method: Method
    gap: float
    se: float
    se_from: Literal["model", "sample"]
    statistic: float
    p_value: float
    n_samples: int

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
        side = "above" if self.gap >= 0 else "below"
        sentence = _SENTENCES[self.method].format(size=abs(self.gap), side=side)
        source = " (standard error from the sample)" if self.se_from == "sample" else ""
        return f"{verdict(f'T = {self.temperature:.4g}', self.p_value, level)}: {sentence}{source}."

    def __str__(self) -> str:
        return self.verdict


@takes_rows(refuses={"groups": NO_GROUPS})
def score_test(
    logits: Any,
    labels: Any = None,
    *,
    temperature: float = 1.0,
    method: Method = "ec",
    **options: Unpack[RowOptions],
) -> ScoreTest:
    """Test whether labels may have been drawn from the softmax of logits over a given temperature.

    The statistic is the gap that a fit makes zero, over its standard error. Nothing is fitted, so the test exists where no
    temperature does: all answers right, say, or accuracy below chance.

    Parameters
    ----------
    logits, labels
        As for `temperatures`.
    temperature : float
        The temperature to test; 1 asks whether the model needs calibration. For a sketch, one of its grid, such as 1.
    method : {"ec", "ts"}
        Which gap: confidence minus accuracy, or expected logit minus logit of the true class.
    **options
        What is said about the data: see `rows`.

    Returns
    -------
    ScoreTest
        With `statistic`, `p_value`, `gap`, `se`, and the result in words: `verdict`, or `sentence(level)`.

    Examples
    --------
    >>> import numpy as np
    >>> import nishimori
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(2000, 5))
    >>> labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)  # drawn at T = 2
    >>> print(nishimori.score_test(logits, labels))
    T = 1 is rejected (p = 6e-92): mean confidence is 0.18 above accuracy.
    >>> nishimori.score_test(logits, labels, temperature=2.0).p_value > 0.05
    True
    """
    used = checked_temperature(temperature)
    if not isinstance(method, str) or method not in get_args(Method):
        raise InputError(f"`method` must be 'ec' or 'ts', got {method!r}.")
    data = open_rows(logits, labels, **options)
    return _tested(data, method, used, counts=counts_in(data, options))


def _tested(data: Rows, method: Method, temperature: float, *, counts: bool) -> ScoreTest:
    if isinstance(data, Sketch):
        found, census = _in_sketch(data, BUILT_IN[method], temperature, counts=counts), data.census
    else:
        found, census = deviation(data, _SCORES[method], Temperature(temperature), counts=counts)
    if method == "ts" and census.n_at_masks:
        raise InputError(
            f"`labels` must not name a masked class for `method` 'ts', got {census.n_at_masks} samples whose true class has "
            "logit -inf: no label is drawn there. Unmask the class, drop those samples, or use 'ec', which counts them as "
            "misses."
        )
    in_clusters = clusters_in(data) is not None
    return ScoreTest(
        temperature=temperature,
        method=method,
        gap=found.mean,
        se=found.se,
        se_from="sample" if in_clusters or isinstance(data, Sketch) else "model",
        statistic=found.statistic,
        p_value=two_sided(found.statistic),
        n_samples=census.n_rows,
    )


def _in_sketch(data: Sketch, observable: Observable, temperature: float, *, counts: bool) -> Deviation:
    """The same from sums that were made before, which have the spread of gaps and not the variance under the model."""
    if data.n_clusters == 1:
        raise InputError(
            "The sketch must hold at least two clusters for `score_test`, got one: there is no spread between them."
        )
    if counts and data.n_clusters is not None:
        raise counts_of_clusters()
    total, squares = data.gap_at(observable, temperature, counts=counts)
    return Deviation(total, squares, data.census.weight)
