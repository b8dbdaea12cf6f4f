"""Beta calibration: one slope for low and one for high probabilities."""

from collections.abc import Mapping
from math import log
from typing import Literal, get_args

from nishimori._calibrators.binary import BinaryCalibrator
from nishimori._fit.logistic import Coefficients, LogisticSearch, Overview, Regression
from nishimori._rows.labels import Classes
from nishimori._rows.scores import Floor, Input
from nishimori._support.warnings import notice
from nishimori.errors import InputError, InputWarning, NotConvergedError, setting
from nishimori.maps.log_odds import LogOdds

Variant = Literal["abm", "am", "ab"]


class Beta(BinaryCalibrator):
    """Beta calibration: the calibrated log-odds are a·ln p − b·ln(1 − p) + c, with a ≥ 0 and b ≥ 0.

    Here p is the probability that the scores give to the second class, 1/(1 + exp(−s)) for log-odds s. The parameters have the
    least cross-entropy (M. Kull, T. Silva Filho and P. Flach, AISTATS 2017). Far below p = 1/2 the calibrated log-odds grow
    with s as a·s, far above as b·s. They never decrease: a coefficient that would be negative is zero, and the others are
    fitted again. Predictions may change.

    Parameters
    ----------
    variant : {"abm", "am", "ab"}
        All three parameters; one slope a = b, which is Platt scaling with a slope that is not negative; or no shift of the
        middle: p = 1/2 stays 1/2, and c = (a − b)·ln 2.
    smooth_labels, input, classes, floor
        As for `Platt`.

    Attributes
    ----------
    parameters_ : dict of float
        "a", "b" and "c"; without "b" for "am", and without "c" for "ab".
    parameters_se_ : dict of float, or None
        Their standard errors, with ``smooth_labels=False``; 0 for a coefficient that is fixed at zero.
    why_no_se_, residual_
        As for `Platt`.
    map_, classes_, n_features_in_, feature_names_in_, n_samples_, n_passes_
        As for `ExpectationConsistency`. The map is a `LogOdds`.

    See Also
    --------
    Platt : the same with one slope.

    Examples
    --------
    >>> import numpy as np
    >>> from nishimori import Beta
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=4000)
    >>> labels = 2 * np.log(p) - 0.5 * np.log(1 - p) + 1 + rng.logistic(size=4000) > 0
    >>> fitted = Beta(smooth_labels=False, input="probabilities", floor=None).fit(p, labels)
    >>> for name, value in fitted.parameters_.items():
    ...     print(f"{name} {value:.2f} ± {fitted.parameters_se_[name]:.2f}")
    a 1.87 ± 0.15
    b 0.63 ± 0.11
    c 0.76 ± 0.20
    """

    def __init__(
        self,
        *,
        variant: Variant = "abm",
        smooth_labels: bool = True,
        input: Input | None = None,
        classes: Classes = None,
        floor: Floor = "auto",
    ) -> None:
        self.variant = variant
        super().__init__(smooth_labels=smooth_labels, input=input, classes=classes, floor=floor)

    @property
    def _terms(self) -> dict[str, str]:
        if self.variant not in get_args(Variant):
            raise InputError("variant", "be 'abm', 'am' or 'ab'", got=repr(self.variant))
        return {
            "abm": {"a": "ln p", "b": "-ln(1-p)", "c": "1"},
            "am": {"a": "s", "c": "1"},
            "ab": {"a": "ln 2p", "b": "-ln 2(1-p)"},
        }[self.variant]

    def _map_for(self, parameters: Mapping[str, float]) -> LogOdds:
        a = parameters["a"]
        b = parameters.get("b", a)
        return LogOdds(a, b, parameters.get("c", (a - b) * log(2)))

    def _separates(self, seen: Overview) -> bool:
        """Whether an increasing map separates the classes perfectly: only such maps can be used."""
        if self.variant == "ab":
            return seen.negative.largest <= 0 <= seen.positive.least
        return seen.negative.largest <= seen.positive.least

    def _fit_coefficients(self, search: LogisticSearch, regression: Regression) -> Coefficients:
        """The coefficients of least loss among those that are not negative; as the loss is convex, some of them are zero."""
        first, *others = ((0, 1), (0,), (1,)) if len(regression.terms) == 2 else ((0,),)
        error, is_turned = None, search.seen.positive.largest <= search.seen.negative.least
        for candidates in ([first], others):
            allowed = []
            for places in candidates:
                try:
                    found = search.least_loss(regression.with_terms(places))
                except NotConvergedError as caught:  # as where a map that decreases separates the classes
                    error = caught
                    continue
                if (found.slopes >= 0).all():
                    allowed.append(found)
                else:
                    is_turned = True
            if allowed:
                return allowed[0] if len(allowed) == 1 else min(allowed, key=search.loss)
        if error and not is_turned:
            raise error
        notice(
            "The second class is not more likely where its score is larger, so that the calibrated probability does not depend "
            f"on the score. Check that {setting('classes')} or the columns of {setting('X')} have the order of the labels.",
            InputWarning,
        )
        return search.least_loss(regression.with_terms(()))
