"""A metric with its standard error and interval."""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Any, Unpack

import numpy as np

from nishimori._evaluation.scorecard import METRICS, Scorecard, scorecards
from nishimori._rows.batch import Batch
from nishimori._rows.entry import open_rows
from nishimori._rows.options import NO_GROUPS, RowOptions, takes_rows
from nishimori._rows.rows import Rows, counts_in
from nishimori._sums.gibbs import Gibbs
from nishimori._sums.observables import TopN
from nishimori._sums.passes import Mean, Sums
from nishimori._sums.reliability import Strategy
from nishimori._sums.spread import spread
from nishimori._support.intervals import Interval, interval_of_share, number_behind
from nishimori._support.numbers import temperature as checked_temperature
from nishimori._support.numbers import whole
from nishimori.errors import InputError
from nishimori.maps.temperature import Temperature

_TOP_N = "top_n_accuracy"


@dataclass(frozen=True)
class Estimate:
    """A metric, how sure it is, and the range that the data leave possible.

    Attributes
    ----------
    value : float
        The metric as its function returns it.
    se : float or None
        Its standard error; None where it is not known, and the interval then is None too.
    interval : Interval or None
        A named tuple (low, high), at the level that was asked for.
    corrected : float or None
        For `ece` the value without the bias of small bins; None for others, which have none.
    """

    value: float
    se: float | None
    interval: Interval | None
    corrected: float | None = None


@takes_rows(refuses={"groups": NO_GROUPS})
def estimate(
    metric: str | Callable[..., Any],
    logits: Any,
    labels: Any = None,
    *,
    level: float = 0.95,
    top_n: int | None = None,
    n_bins: int | None = None,
    strategy: Strategy | None = None,
    temperature: float = 1.0,
    **options: Unpack[RowOptions],
) -> Estimate:
    """A metric with its standard error and interval.

    Parameters
    ----------
    metric : str or function
        "error", "accuracy", "confidence", "nll", "brier", "ece" (of the top class, with the norm "l1") or "top_n_accuracy"; or
        the function of `nishimori.metrics` itself.
    logits, labels, temperature
        As for every metric of this module.
    level : float
        How often such an interval contains the metric of infinitely many samples, between 0 and 1.
    top_n, n_bins, strategy
        The first for `top_n_accuracy` only, the others for `ece` only, as there.
    **options
        What is said about the data: see `rows`.

    Returns
    -------
    Estimate
        With `value`, `se` and `interval`, and for the ECE `corrected`.

    Examples
    --------
    >>> import numpy as np
    >>> from nishimori import metrics
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(2000, 5))
    >>> labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)  # drawn at T = 2
    >>> found = metrics.estimate(metrics.nll, logits, labels)
    >>> print(f"{found.value:.2f} ± {found.se:.2f}, {found.interval.low:.2f} to {found.interval.high:.2f}")
    1.27 ± 0.03, 1.20 to 1.34
    """
    name, map_ = _name_of(metric), Temperature(checked_temperature(temperature))
    _refuse_other_keywords(name, {_TOP_N: {"top_n": top_n}, "ece": {"n_bins": n_bins, "strategy": strategy}})
    data = open_rows(logits, labels, **options)
    if name == _TOP_N:
        return _of_top_n(data, top_n, level, counts=counts_in(data, options))
    bins = 15 if n_bins is None else n_bins
    cards = scorecards(data, [map_], n_bins=bins, strategy=strategy or "uniform", counts=counts_in(data, options))
    return _of_card(cards[0], name, level)


def _of_card(card: Scorecard, name: str, level: float) -> Estimate:
    """The estimate of one metric of a scorecard."""
    se = getattr(card, f"{name}_se")
    interval = None if se is None else card.interval(name, level)
    return Estimate(getattr(card, name), se, interval, card.ece_corrected if name == "ece" else None)


def _name_of(metric: Any) -> str:
    """The name of a metric, which may be its function."""
    known = (*METRICS, _TOP_N)
    name = metric
    if callable(metric) and getattr(metric, "__module__", None) == "nishimori.metrics":
        name = getattr(metric, "__name__", None)
    if not isinstance(name, str) or name not in known:
        raise InputError(
            "metric",
            f"be one of {', '.join(map(repr, known))}, or one of these functions",
            got=f"{metric!r:.60}",
            remedy="Other metrics have no standard error here.",
        )
    return name


def _refuse_other_keywords(name: str, keywords: dict[str, dict[str, Any]]) -> None:
    for owner, given in keywords.items():
        for keyword, value in given.items():
            if owner != name and value is not None:
                raise InputError(keyword, f"be left out for {name!r}", got=f"{value!r}: it is a keyword of {owner!r}")


@dataclass(frozen=True)
class _MissedTopN:
    """The pass that counts which true classes are not among the N largest."""

    n: int
    counts: bool

    def __call__(self, batch: Batch) -> Sums:
        missed = -TopN(self.n).observed(Gibbs(batch, 1.0))  # the same at every β
        mean = Mean(batch.total(missed), batch.weight)
        return Sums((mean, spread(batch, [missed], counts=self.counts), batch.n_rows))


def _of_top_n(data: Rows, top_n: int | None, level: float, *, counts: bool) -> Estimate:
    n = whole("top_n", top_n, 1, data.n_classes, which_is="the number of classes")
    missed, found, n_rows = data.gather(_MissedTopN(n, counts)).items
    value, squares = max(1 - missed.value, 0.0), found.squares / missed.weight**2
    if n_rows == 1:
        return Estimate(value, None, None)
    (variance,) = (found.around(np.array([missed.value])) / missed.weight**2).tolist()
    return Estimate(value, sqrt(variance), interval_of_share(value, number_behind(value, variance, squares), level))
