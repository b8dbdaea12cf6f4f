"""Expectation consistency that adapts: close to temperature scaling where few samples cannot tell the two apart."""

from typing import ClassVar

from sklearn.utils.validation import check_is_fitted

from nishimori._calibrators.calibrator import Calibrator
from nishimori._methods.adaptive import AdaptiveMethod
from nishimori._methods.table import Traits
from nishimori._support.intervals import Interval
from nishimori.errors import InputError


class AdaptiveConsistency(AdaptiveMethod, Calibrator):
    """Divide logits by a temperature between those of EC and TS: that of EC, as far as the data can tell the two apart.

    T of temperature scaling (TS) varies less from one small validation set to another; T of expectation consistency (EC) makes
    mean confidence equal to accuracy. With δ = log T_EC − log T_TS and its variance, both from the same sums,
    log T = log T_TS + w·δ, where w = δ²/(δ² + Var(δ)). If δ is well within its own noise, T is nearly that of TS. The more
    samples there are, the closer T is to that of EC.

    A weight of w counts a sample w times as much, but it stays one sample. T depends on how many there are, so two equal
    samples are not the same as one of weight 2. Pass ``counts=True`` to `fit` if weights are numbers of independent samples.

    Parameters
    ----------
    input, classes, floor
        As for `ExpectationConsistency`.

    Attributes
    ----------
    temperature_ : float
        T, by which logits are divided before the softmax. Above 1 it makes the model less sure.
    temperature_se_ : float
        The standard error of T: T times the standard deviation of log T, if T_EC and T_TS are drawn from their joint normal
        distribution and δ is shrunk in each draw.
    ec_, ts_ : float or None
        Both temperatures; None if one does not exist. Then the other is used as it is, with an `InputWarning` that says why.
    weight_ : float
        The share w of δ that was kept, from 0 (T is that of TS) to 1 (T is that of EC).
    fit_info_ : FitInfo
        How the temperature was found. Its ``residual`` is mean confidence minus accuracy at T, predicted from T_EC: it is not
        zero, because T is not T_EC. If T_EC does not exist, it is the residual of temperature scaling.
    map_, classes_, n_features_in_, feature_names_in_, n_samples_, n_passes_
        As for `ExpectationConsistency`.

    Raises
    ------
    NoTemperatureError
        From `fit`, if neither temperature exists. If all samples are classified correctly, neither does.

    See Also
    --------
    ExpectationConsistency : the same without shrinking, and with ``top_n``.

    Examples
    --------
    >>> import numpy as np
    >>> from nishimori import AdaptiveConsistency
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(1000, 5))
    >>> truth = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)  # drawn at T = 2
    >>> labels = np.where(rng.random(1000) < 0.1, rng.integers(5, size=1000), truth)  # a tenth of them replaced
    >>> few = AdaptiveConsistency().fit(logits[:100], labels[:100])
    >>> print(f"EC {few.ec_:.2f}, TS {few.ts_:.2f}, share {few.weight_:.2f}: T = {few.temperature_:.2f}")
    EC 2.47, TS 3.31, share 0.85: T = 2.58
    >>> many = AdaptiveConsistency().fit(logits, labels)
    >>> print(f"EC {many.ec_:.2f}, TS {many.ts_:.2f}, share {many.weight_:.2f}: T = {many.temperature_:.2f}")
    EC 2.34, TS 2.61, share 0.88: T = 2.37
    >>> low, high = many.confidence_interval()
    >>> print(f"{low:.2f} to {high:.2f}")
    2.12 to 2.66
    """

    traits: ClassVar[Traits | None] = Traits(keeps_predictions=True, streams=True, from_sketch=True, error_bars=True)

    def confidence_interval(self, level: float = 0.95) -> Interval:
        """The temperatures of EC that the validation data leave possible, at this level of confidence.

        T_EC and T_TS are drawn from their joint normal distribution, δ is shrunk in each draw, and the interval holds the
        middle of the temperatures. It is computed by an integral instead of random draws, and is therefore the same each time.
        At low levels it is widened where it would not contain T itself.

        Parameters
        ----------
        level : float
            How often such an interval contains T_EC of infinitely many samples, between 0 and 1.

        Returns
        -------
        Interval
            A named tuple (low, high).

        Raises
        ------
        InputError
            If the standard errors are not known, as from a file whose estimates were removed.
        """
        check_is_fitted(self, "map_")
        if self._adapted_ is None or self.temperature_se_ is None:
            raise InputError(
                "`confidence_interval` needs the standard errors of T_EC and T_TS, which this calibrator does not have. Fit it "
                "to the logits themselves."
            )
        return self._adapted_.interval(level)
