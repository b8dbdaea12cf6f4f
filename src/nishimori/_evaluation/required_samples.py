"""Estimate how many validation samples a temperature needs, from a fit to fewer samples."""

from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any

from nishimori._fit.adaptive import Adapted
from nishimori._fit.temperatures import Temperatures
from nishimori._kernels.kernel import Method
from nishimori._support.display import Display, Displayed, short_repr
from nishimori._support.intervals import normal_quantile
from nishimori._support.numbers import between, one_of
from nishimori._support.tables import Tabular
from nishimori.errors import InputError

# So that a number of samples that is exact up to rounding is not raised by one.
_ROUNDING = 1e-9


@dataclass(frozen=True, repr=False)
class RequiredSamples(Displayed):
    """The number of validation samples for a target relative error of T. ``print`` shows a table and a sentence.

    Attributes
    ----------
    n : int
        The number of samples in all.
    more : int
        How many to add to those of the pilot; 0 if it has enough.
    target : float
        The relative error of T that is asked for.
    level : float or None
        What the target is: the half-width of the interval at this level, or one standard error if None.
    reached : float
        The relative error of the pilot, of the same kind.
    n_pilot : int
        How many samples the pilot has.
    method : str
        The method whose temperature is meant, such as "ec" or "ts".
    """

    n: int
    more: int
    target: float
    level: float | None
    reached: float
    n_pilot: int
    method: str

    @property
    def verdict(self) -> str:
        """The result as a sentence."""
        kind = "one standard error" if self.level is None else f"interval at {100 * self.level:.4g} %"
        T = f"T of {self.method}"
        if self.more:
            samples = "sample" if self.more == 1 else "samples"
            return f"{self.more:,} more validation {samples} would bring {T} within {100 * self.target:.2g} % ({kind})."
        return f"{self.n_pilot:,} validation samples are enough: {T} is within {100 * self.reached:.2g} % ({kind})."

    def __repr__(self) -> str:
        return short_repr(self, n=self.n, more=self.more, target=self.target, level=self.level, method=self.method)

    @property
    def _display(self) -> Display:
        kind = "standard error" if self.level is None else f"{100 * self.level:.4g} % half-width"
        rows = [
            ("pilot", f"{self.n_pilot:,}", f"{100 * self.reached:.2g} %"),
            ("target", f"{self.n:,}", f"{100 * self.target:.2g} %"),
        ]
        return Display("", (Tabular(("", "samples", f"relative {kind} of T"), rows),), (self.verdict,))


def required_samples(target: float, pilot: Any, *, level: float | None = None, method: str | None = None) -> RequiredSamples:
    """Estimate how many validation samples bring a temperature within a relative error, from a fit to fewer samples.

    The standard error of log T falls as one over the square root of the number of samples, if further samples are like those
    of the pilot: of the same model and data, with weights and clusters of the same kind. The error of `AdaptiveConsistency`
    does not fall so, and its T approaches that of expectation consistency; with such a pilot the answer is that for T of "ec".

    Parameters
    ----------
    target : float
        The relative error of T, from 1e-6 to 0.5: 0.02 means 2 %.
    pilot : calibrator or Temperatures
        A calibrator that was fitted to validation samples, or the result of `temperatures`.
    level : float, optional
        Read ``target`` as the half-width of the interval at this level, such as 0.95; by default as one standard error, which
        the error of T exceeds in about one of three cases.
    method : {"ec", "ts"}, optional
        Which of both temperatures, where ``pilot`` has two; by default "ec".

    Returns
    -------
    RequiredSamples
        With `n`, `more` and a sentence, `verdict`.

    See Also
    --------
    nishimori_paper.theory.plan : the same before any sample, for logistic regression on a teacher.

    Examples
    --------
    >>> import numpy as np
    >>> import nishimori
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(500, 5))
    >>> labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)  # drawn at T = 2
    >>> pilot = nishimori.ExpectationConsistency().fit(logits, labels)
    >>> print(nishimori.required_samples(0.02, pilot))
            samples  relative standard error of T
    ------  -------  ----------------------------
    pilot   500      7.5 %
    target  7,071    2 %
    <BLANKLINE>
    6,571 more validation samples would bring T of ec within 2 % (one standard
      error).
    """
    target = between("target", target, 1e-6, 0.5)
    quantile = 1.0 if level is None else normal_quantile(between("level", level, 1e-6, 1 - 1e-6))
    n_pilot, own, error = _of_temperatures(pilot, method) if isinstance(pilot, Temperatures) else _of_calibrator(pilot, method)
    if error is None:
        raise InputError("pilot", "have a temperature with a standard error", got="none, as from a fixed temperature")
    reached = quantile * error
    n = max(1, ceil(n_pilot * (reached / target) ** 2 * (1 - _ROUNDING)))
    return RequiredSamples(n, max(0, n - n_pilot), target, level, reached, n_pilot, own)


def _of_temperatures(pilot: Temperatures, method: str | None) -> tuple[int, str, float | None]:
    """The number of samples, the chosen method, and the standard error of its log T."""
    name = "ec" if method is None else one_of("method", method, Method)
    T, error = (pilot.ec, pilot.ec_se) if name == "ec" else (pilot.ts, pilot.ts_se)
    if T is None:
        raise InputError("pilot", f"have the temperature of {name!r}", got="none", remedy=getattr(pilot, f"why_no_{name}"))
    return pilot.n_samples, name, None if error is None else error / T


def _of_calibrator(pilot: Any, method: str | None) -> tuple[int, str, float | None]:
    """The number of samples, the method of a calibrator, and the standard error of its log T."""
    if method is not None:
        raise InputError("method", "be left out where `pilot` is a calibrator: it has its own method")
    T, n_samples = getattr(pilot, "temperature_", None), getattr(pilot, "n_samples_", None)
    if T is None or not n_samples:
        must = "be a calibrator that was fitted to samples, or the result of `temperatures`"
        raise InputError("pilot", must, got=repr(pilot))
    if pilot.method != "adaptive":
        error = getattr(pilot, "temperature_se_", None)
        return n_samples, pilot.method, None if error is None else error / T
    # Its T is between two temperatures, and approaches that of expectation consistency. A file may be without them.
    adapted = Adapted.from_estimates(pilot._estimates_ or {})
    if adapted is not None and adapted.log_ec is None:
        raise InputError("pilot", "have the temperature of 'ec'", got="none", remedy="Fit it to more samples.")
    variance = None if adapted is None else adapted.ec_variance
    return n_samples, "ec", None if variance is None else sqrt(variance)
