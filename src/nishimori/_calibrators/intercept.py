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
from nishimori.errors import DegenerateDataError, InputError, NishimoriError, setting
from nishimori.maps.affine import Affine


@dataclass(kw_only=True, eq=False, repr=False)
class Intercept(Calibrator):
    """Add one number to all log-odds: expectation consistency for claims.

    The shift b is the one at which the mean of σ(s + b), for log-odds s, equals the share of claims that came true. That is
    also the intercept of greatest likelihood of a logistic regression with s as its offset, which medicine calls calibration in
    the large. There is one such b, and order is kept. Of two classes, it shifts the log-odds of the second.

    Claims of exactly 0 or 1 have no log-odds: they count as ``floor`` and one minus it. If there are any, ``about_floor_`` says
    what b would be without a floor.

    Parameters
    ----------
    input : "logits", "probabilities" or None
        What ``X`` holds: by default logits, which are the log-odds s. For probabilities, s is ln p − ln(1 − p). Numbers that
        all lie between 0 and 1 are refused until you say what they are; a `Rows` object says it.
    classes : sequence, optional
        The label of each column, in order. By default labels are the column numbers 0, 1, ...
    floor : float, "auto" or None
        Smaller probabilities are raised to this, with ``input="probabilities"``. "auto" takes the largest floor whose
        cross-validated log-loss, summed over samples, is within 0.5 of the lowest; `floor_` tells it. None raises only exact
        zeros, to the smallest positive normal number.

    Attributes
    ----------
    parameters_ : dict of float
        "intercept".
    parameters_se_ : dict of float
        Its standard error, √Σ(y − p)² / Σp(1 − p); of clusters the same sums over clusters.
    about_floor_ : str
        How many claims are exactly 0 or 1, and what the intercept would be if they were left as they are; empty if there are
        none.
    residual_ : float
        What is left of the mean gap.
    map_ : Affine
        What is done to logits.
    floor_ : float or None
        The floor that is used: the one that was passed, or that "auto" chose. It is saved with the calibration.
    classes_ : array
        The label of each column.
    n_features_in_ : int
        The number of classes.
    feature_names_in_ : array of str
        The names of the columns, if ``X`` had any. Other or permuted names are then refused.
    n_samples_ : int
        How many samples had a positive weight.
    n_passes_ : int
        How often all logits were read.

    Raises
    ------
    DegenerateDataError
        From `fit`, unless the share that came true lies between the share of claims that are exactly 1 and one minus the share
        of those that are exactly 0. With the default floor there are none.

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
    -1.12 ± 0.78
    >>> fitted.predict_proba(nishimori.claims([0.9, 0.6])).round(2)
    array([0.75, 0.33])
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
        estimates = {"intercept_se": error}
        if data.floor is not None and raw is not None and zeros + ones > 0:
            estimates |= {"exact": zeros + ones} | self._without_floor(raw)
        map_ = Affine(np.array(1.0), np.array([-b / 2, b / 2]))
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

    def _without_floor(self, raw: Rows) -> dict[str, float]:
        """The shift if claims of exactly 0 or 1 are left as they are, where there is one."""
        try:
            return {"without_floor": Intercept(floor=None)._fit_rows(raw, raw).parameters_["intercept"]}
        except NishimoriError:
            return {}

    def _show(self) -> None:
        assert isinstance(self.map_, Affine)
        self.parameters_ = {"intercept": float(self.map_.bias[1] - self.map_.bias[0])}
        estimates = self._estimates_ or {}
        error = estimates.get("intercept_se")
        self.about_floor_ = ""
        if (exact := estimates.get("exact")) is not None and self.floor_ is not None:
            without = estimates.get("without_floor")
            other = "there would be none" if without is None else f"it would be {number_text(without, 3)}"
            self.about_floor_ = (
                f"{100 * exact:.3g} % of the claims are exactly 0 or 1, and count as {self.floor_:.3g} and "
                f"1 − {self.floor_:.3g}. If they were left as they are, {other}."
            )
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
