"""One shift of the log-odds of claims, or of the second of two classes, that makes them right on average."""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from nishimori._calibrators.calibrator import Calibrator, fit_rows
from nishimori._fit.logistic import LogisticSearch, Regression, overview
from nishimori._methods.fitted_method import label_name
from nishimori._methods.table import Traits
from nishimori._rows.batch import Batch
from nishimori._rows.labels import two_classes
from nishimori._rows.rows import Rows
from nishimori._support.arrays import HostArray
from nishimori._support.formatting import number_text
from nishimori._support.warnings import notice
from nishimori.errors import DegenerateDataError, InputError, InputWarning, NishimoriError, setting
from nishimori.maps.affine import Affine


@dataclass(kw_only=True, eq=False, repr=False)
class Intercept(Calibrator):
    """Add one number to all log-odds: expectation consistency for claims.

    The shift b is the one at which the mean of σ(s + b), for log-odds s, equals the share of claims that came true. That is also the
    intercept of greatest likelihood of a logistic regression with s as its offset, which medicine calls calibration in the large.
    There is one such b, and order is kept. Of two classes, it shifts the log-odds of the second.

    Claims of exactly 0 or 1 have no log-odds: they count as ``floor`` and one minus it. If there are any, a warning says what b would
    be without them.

    Parameters
    ----------
    input, classes, floor
        As for `ExpectationConsistency`. For ``input="probabilities"``, s is ln p − ln(1 − p).

    Attributes
    ----------
    parameters_ : dict of float
        "intercept".
    parameters_se_ : dict of float
        Its standard error, √Σ(y − p)² / Σp(1 − p); of clusters the same sums over clusters.
    residual_ : float
        What is left of the mean gap.
    map_, classes_, n_features_in_, feature_names_in_, n_samples_, n_passes_
        As for `ExpectationConsistency`. The map is an `Affine`.

    Raises
    ------
    DegenerateDataError
        From `fit`, unless the share that came true lies between the share of claims that are exactly 1 and one minus the share of those
        that are exactly 0. With the default floor there are none.

    See Also
    --------
    Platt : a slope, too.
    nishimori.claims : answers with one confidence each.

    Examples
    --------
    >>> import nishimori
    >>> stated = [0.9, 0.8, 0.95, 0.9, 0.6, 0.7, 0.9, 0.8]
    >>> right = [1, 0, 1, 1, 0, 1, 0, 1]
    >>> fitted = nishimori.calibrator("intercept").fit(nishimori.claims(stated, right))
    >>> print(f"{fitted.parameters_['intercept']:.2f} ± {fitted.parameters_se_['intercept']:.2f}")
    -0.96 ± 0.64
    >>> fitted.predict_proba(nishimori.claims([0.9, 0.6])).round(2)
    array([0.77, 0.36])
    """

    traits: ClassVar[Traits | None] = Traits(
        keeps_predictions=False, streams=True, from_sketch=False, error_bars=True, n_classes="two"
    )
    takes_claims: ClassVar[bool] = True

    fit = fit_rows

    def _classes_in(self, y: Any) -> list[Any] | None:
        """Two texts, or -1 and 1, in the order of scikit-learn, where a score is that of the second; None for other labels."""
        return two_classes(y)

    def _fit_rows(self, X: Any, data: Rows) -> Self:
        """Choose the shift from ``data`` of two classes, which are the rows of ``X``."""
        if data.n_classes != 2:
            remedy = "Only binary classification is supported. Use 'bias', which works for any number of classes."
            raise InputError("X", f"have two classes for the method {self.method_name!r}", got=data.n_classes, remedy=remedy)
        seen = data.gather(partial(overview, ()))
        share = float(seen.classes.weights[1] / seen.classes.weights.sum())
        raw = data if data.floor is None else data.with_floor(None)
        zeros, ones = (0.0, 0.0) if raw is None else (raw.gather(exact_weights) / seen.classes.weights.sum()).tolist()
        if not (share > (ones if data.floor is None else 0) and share < 1 - (zeros if data.floor is None else 0)):
            self._refuse(share, zeros, ones, label_name(X))
        search = LogisticSearch(data, seen)
        regression = Regression.from_overview((), seen, has_constant=True, smoothing=(0.0, 0.0), has_offset=True)
        coefficients = search.least_loss(regression)
        (b,), (error,) = coefficients.values.tolist(), search.standard_errors(coefficients).tolist()
        if data.floor is not None and raw is not None and zeros + ones > 0:
            self._show_effect(raw, b, data.floor, zeros + ones)
        map_ = Affine(np.array(1.0), np.array([-b / 2, b / 2]))
        estimates = {"intercept_se": error}
        n_passes = 2 + search.n_passes
        return self.learn(X, data, map_, seen.classes.n_rows, coefficients.residual, estimates=estimates, n_passes=n_passes)

    def _refuse(self, share: float, zeros: float, ones: float, name: str) -> None:
        """Raise if no shift makes the mean equal to the share that came true."""
        if share in (0.0, 1.0):
            got, remedy = f"only {'right' if share else 'wrong'} ones", "Use more validation samples."
            raise DegenerateDataError(name, "have samples that are right and samples that are wrong", got=got, remedy=remedy)
        which, exact = ("1", ones) if share <= ones else ("0", zeros)
        raise DegenerateDataError(
            "X",
            f"be exactly {which} less often than that for an intercept to exist",
            got=f"{100 * exact:.3g} % of them, where {100 * share:.3g} % are right: no shift moves these",
            remedy=f"Pass {setting('floor', 'auto')}, which raises exact zeros and lowers exact ones.",
        )

    def _show_effect(self, raw: Rows, b: float, floor: float, exact: float) -> None:
        """Say what claims of exactly 0 or 1 do to the result, which the floor decides."""
        try:
            without = f"it would be {number_text(Intercept(floor=None)._fit_rows(raw, raw).parameters_['intercept'], 3)}"
        except NishimoriError:
            without = "there would be none"
        notice(
            f"{100 * exact:.3g} % of the claims are exactly 0 or 1, and count as {floor:.3g} and 1 − {floor:.3g}: the intercept is "
            f"{number_text(b, 3)}. If they were left as they are, {without}.",
            InputWarning,
        )

    def _show(self) -> None:
        assert isinstance(self.map_, Affine)
        self.parameters_ = {"intercept": float(self.map_.bias[1] - self.map_.bias[0])}
        error = (self._estimates_ or {}).get("intercept_se")
        self.parameters_se_ = None if error is None else {"intercept": error}
        self.why_no_se_ = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def exact_weights(batch: Batch) -> HostArray:
    """The pass that sums the weight of rows whose probability was passed as exactly 0, and as exactly 1."""
    if batch.probabilities is None:
        return np.zeros(2)
    return batch.totals([batch.xp.astype(batch.probabilities[:, column] == 0, batch.double.dtype) for column in (1, 0)])
