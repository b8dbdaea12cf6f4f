"""A temperature between TS and EC: it moves toward EC as the data distinguish the two.

T_TS varies less from one validation set to another, and T_EC is where mean confidence equals accuracy. Their difference in
log T, δ, has a variance that is known from the same sums. If δ is far outside its own noise, nearly all of it is kept; if it is
well within its noise, nearly none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, inf, log, sqrt
from typing import NamedTuple

import numpy as np

from nishimori._fit.match import Match, refuse_uncertain
from nishimori._fit.roots import Root
from nishimori._fit.search import match
from nishimori._rows.question import question
from nishimori._rows.rows import Rows
from nishimori._sums.observables import Confidence, Energy
from nishimori._support.arrays import HostArray
from nishimori._support.intervals import Interval, interval_in_ratio
from nishimori._support.numbers import between
from nishimori._support.warnings import notice
from nishimori.errors import InputError, InputWarning, NishimoriError

# Draws of δ are replaced by a grid over this many standard deviations on either side: the rest of the normal distribution is
# below the precision of a float. A sum over an equidistant grid is very precise for functions as smooth as these.
_REACH, _NODES = 8.5, 801

# What a file has of `Adapted`.
_ESTIMATES = ("log_ec", "log_ts", "ec_variance", "ts_variance", "covariance")

# exp of more is infinite.
_LARGEST_LOG = 700.0

# A log T is right to the first number, and looked for this far beside the centres at least, where nothing is spread.
_ROUNDING, _LEAST_REACH = 1e-15, 1e-12


def kept_share(delta: HostArray, variance: float) -> HostArray:
    """The share of each difference that is kept, δ²/(δ² + Var): one half at one standard deviation, near 1 for large ones.

    T_TS is nearly efficient, so it hardly varies together with δ (Hausman 1978). Then log T_TS + w·δ has the least mean squared
    error about log T_EC with w = δ₀²/(δ₀² + Var), and δ₀², which is unknown, is replaced by δ². docs/adaptive.md derives it.
    """
    square = np.square(delta)
    total = square + variance
    return np.divide(square, total, out=np.zeros_like(square), where=total > 0)


@question("has no rows to match")
def match_both(data: Rows, *, label_name: str = "labels") -> Match:
    """The match of EC and TS, with sums at exactly both temperatures.

    T depends on these sums, and not only its standard error. A short step away they would be right to a percent, which depends
    on the kernel and on where the search started; T is promised to eight digits.
    """
    matched = match(data, Confidence(), Energy(), label_name=label_name)
    if data.has_clusters:
        return matched  # whose sums are at the temperatures already
    return matched.at_roots(data)


class Draws(NamedTuple):
    """The distribution of log T over draws: normal around each of the centres, with one spread."""

    weights: HostArray
    centres: HostArray
    spread: float

    def below(self, value: float) -> float:
        """The share of draws below a value."""
        from scipy.special import ndtr  # noqa: PLC0415 - a fit without an interval does without SciPy

        return float(self.weights @ ndtr((value - self.centres) / self.spread))

    def quantile(self, share: float) -> float:
        """The value below which a given share of the draws lies."""
        from scipy.optimize import brentq  # noqa: PLC0415 - slow to import

        far = (_REACH + 1) * self.spread + _LEAST_REACH
        ends = float(self.centres.min()) - far, float(self.centres.max()) + far
        return brentq(lambda value: self.below(value) - share, *ends, xtol=_ROUNDING)


@dataclass(frozen=True)
class Adapted:
    """Both temperatures of a validation set, and the adaptive temperature between them.

    Attributes
    ----------
    log_ec, log_ts : float or None
        Logarithms of the temperatures; None if one does not exist, and then the other is used as it is.
    ec_variance, ts_variance, covariance : float or None
        Those of the logarithms; None where they are not known.
    log_saved : float or None
        The logarithm of the temperature of a file that was written when another share was kept; None where the share decides.
    """

    log_ec: float | None
    log_ts: float | None
    ec_variance: float | None = None
    ts_variance: float | None = None
    covariance: float | None = None
    log_saved: float | None = None

    @classmethod
    def from_match(cls, matched: Match) -> "Adapted":
        """EC, TS and the temperature between them, from `match_both`; warns if only one exists, raises if none does."""
        ec, ts = matched.roots
        log_ec, log_ts = (-root.x if isinstance(root, Root) else None for root in (ec, ts))
        matched.warn()
        if isinstance(ec, Root) and isinstance(ts, Root):
            C = matched.covariance()
            if C is None:
                raise InputError(
                    "The method 'adaptive' needs both standard errors, which are not known here, for example in a "
                    "sketch of one cluster. Fit 'ec' or 'ts', or fit 'adaptive' to samples of more clusters."
                )
            adapted = cls(log_ec, log_ts, float(C[0, 0]), float(C[1, 1]), float(C[0, 1]))
            if denied := refuse_uncertain(adapted.temperature, adapted.temperature_se, matched.census, by_loss=True):
                raise denied
            return adapted
        if isinstance(ec, NishimoriError) and isinstance(ts, NishimoriError):
            raise ec  # the temperature of EC is the target
        _warn_of_one(ec, ts)
        return cls(log_ec, log_ts, matched.log_variance(0), matched.log_variance(1))

    @property
    def delta_variance(self) -> float | None:
        """The variance of log T_EC − log T_TS; not below zero, whatever rounding does; None if it is not known."""
        if self.ec_variance is None or self.ts_variance is None or self.covariance is None:
            return None
        return max(0.0, self.ec_variance + self.ts_variance - 2 * self.covariance)

    @property
    def weight(self) -> float:
        """The share of log T_EC − log T_TS that is kept: 0 is temperature scaling, 1 expectation consistency."""
        if self.log_ec is None or self.log_ts is None:
            return 0.0 if self.log_ec is None else 1.0
        delta = self.log_ec - self.log_ts
        if self.log_saved is not None and delta != 0:
            return (self.log_saved - self.log_ts) / delta
        assert self.delta_variance is not None
        return float(kept_share(np.asarray(delta), self.delta_variance))

    @property
    def log_temperature(self) -> float:
        """The logarithm of the temperature between both."""
        if self.log_saved is not None:
            return self.log_saved
        if self.log_ec is None or self.log_ts is None:
            only = self.log_ts if self.log_ec is None else self.log_ec
            assert only is not None
            return only
        return self.log_ts + self.weight * (self.log_ec - self.log_ts)

    @property
    def temperature(self) -> float:
        return exp(self.log_temperature)

    @property
    def temperature_se(self) -> float | None:
        """T times the standard deviation of log T over draws; None if it is not known."""
        variance = self.ts_variance if self.log_ec is None else self.ec_variance
        if self.draws is not None:
            weights, centres, spread = self.draws
            variance = float(weights @ (centres - weights @ centres) ** 2) + spread**2
        return None if variance is None else self.temperature * sqrt(variance)

    def interval(self, level: float) -> Interval:
        """Quantiles of T over draws of both temperatures, widened to contain T if a low level would miss it."""
        level = between("level", level, 0, 1)
        error = self.temperature_se
        assert error is not None, "the caller knows whether there is an error"
        if self.draws is None or self.draws.spread == 0:
            return interval_in_ratio(self.temperature, error, level)
        if level == 1:
            return Interval(0.0, inf)
        low, high = (self.draws.quantile(0.5 * (1 + sign * level)) for sign in (-1, 1))
        largest = exp(high) if high < _LARGEST_LOG else inf
        return Interval(min(exp(min(low, _LARGEST_LOG)), self.temperature), max(largest, self.temperature))

    @cached_property
    def draws(self) -> Draws | None:
        """The distribution of log T if both logarithms are drawn from their joint normal distribution.

        A draw of δ gives the share that is kept; given δ, log T_TS is normal. So an integral over δ replaces random draws, and
        the answer is the same each time. None if there is only one temperature.
        """
        variance = self.delta_variance
        if self.log_ec is None or self.log_ts is None or variance is None:
            return None
        assert self.ts_variance is not None
        assert self.covariance is not None
        steps = np.linspace(-_REACH, _REACH, _NODES)
        weights = np.exp(-0.5 * steps**2)
        offsets = steps * sqrt(variance)
        delta = self.log_ec - self.log_ts + offsets
        follow = (self.covariance - self.ts_variance) / variance if variance > 0 else 0.0
        rest = max(0.0, self.ts_variance - follow**2 * variance)
        centres = self.log_ts + follow * offsets + kept_share(delta, variance) * delta
        # Steps narrower than the grid could not be told apart from their neighbours.
        width = max(sqrt(rest), float(np.ptp(centres)) / _NODES)
        return Draws(weights / weights.sum(), centres, width)

    def estimates(self) -> dict[str, float]:
        """What a file stores besides its temperature, so that intervals can be computed again."""
        values = {name: getattr(self, name) for name in _ESTIMATES}
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def from_estimates(cls, values: Mapping[str, float], temperature: float | None = None) -> "Adapted | None":
        """EC, TS and the temperature between them, from a file; None if it lacks the `estimates`.

        ``temperature`` is that of the file, which stays what it is: files that were written when another share was kept have
        another one than would follow from their estimates today.
        """
        estimates = {name: values.get(name) for name in _ESTIMATES}
        logs = [value for value in (estimates["log_ec"], estimates["log_ts"]) if value is not None]
        is_whole = len(logs) == 1 or (len(logs) == 2 and None not in estimates.values())
        are_logs = all(abs(value) < _LARGEST_LOG for value in logs)
        are_variances = all((estimates[name] or 0) >= 0 for name in ("ec_variance", "ts_variance"))
        if not (is_whole and are_logs and are_variances):
            return None
        adapted = cls(**estimates)
        if temperature is None or temperature == adapted.temperature:
            return adapted
        return replace(adapted, log_saved=log(temperature))


def _warn_of_one(ec: Root | NishimoriError, ts: Root | NishimoriError) -> None:
    """Warn that one of the two temperatures does not exist, and why."""
    missing, used, why = ("EC", "TS", ec) if isinstance(ec, NishimoriError) else ("TS", "EC", ts)
    notice(f"The temperature of {used} is used as it is, because {missing} has none. {why}", InputWarning)
