"""One temperature and one bias per class: the smallest step beyond one temperature."""

from dataclasses import dataclass
from math import exp
from typing import Any, ClassVar, Self

import numpy as np

from nishimori._calibrators.calibrator import Calibrator, fit_rows
from nishimori._calibrators.parameters import Layout, flat_entries, read_errors, too_many
from nishimori._fit.biases import Biases, BiasPoint, BiasSearch, standard_errors
from nishimori._fit.match import Match
from nishimori._fit.search import find_roots
from nishimori._kernels.kernel import Method
from nishimori._methods.fitted_method import label_name
from nishimori._methods.table import Traits
from nishimori._rows.labels import class_labels
from nishimori._rows.rows import Rows
from nishimori._sums.class_claims import sum_by_class
from nishimori._sums.observables import Confidence, Energy
from nishimori._support.arrays import HostArray
from nishimori._support.formatting import join_names
from nishimori._support.numbers import one_of
from nishimori._support.warnings import notice
from nishimori.errors import DegenerateDataError, InputError, InputWarning, NishimoriError, NotConvergedError, setting
from nishimori.maps.affine import Affine, refuse_masks

# The sums have a table of this many rows and columns: 800 MB.
_MOST_CLASSES = 10_000

# Where the observable of each condition is in a search for temperatures.
_POSITIONS = {"ec": 0, "ts": 1}


_FREQUENCIES = "The biases are the smoothed frequencies of the classes, because the scores say nothing about them."


@dataclass(kw_only=True, eq=False, repr=False)
class BiasCorrected(Calibrator):
    """Divide logits by one temperature and add one bias per class.

    The biases make the mean probability of each class equal to its frequency in the validation data. The temperature makes
    mean confidence equal to accuracy, or the cross-entropy lowest. Where a network favours some classes, as many do that were
    trained at a constant learning rate, this lowers the loss and the error, and each predicted class is calibrated better than
    with one temperature. Predictions change, unless ``preserve_accuracy``.

    By default the biases are shrunk towards zero: they are taken as random numbers of one common variance, the least one that
    the data leave possible at a confidence of 95 %, and each moves as far as its own error bar allows. The mean probability of
    a class then lies between that of one temperature and its frequency. Where the data cannot tell the biases from zero, they
    are zero, and what remains is one temperature. ``clusters`` and ``counts`` of `fit` change the standard errors, and how much
    the biases are shrunk.

    Parameters
    ----------
    method : {"ec", "ts"}
        What fixes the temperature: mean confidence equal to accuracy, or least cross-entropy. The confidence is the largest
        calibrated probability.
    shrink : bool
        Whether to shrink the biases.
    preserve_accuracy : bool
        Whether samples whose prediction would change get one temperature instead, that of ``method``, and no biases. Mean
        confidence then differs from accuracy by what these samples change.
    input : "logits", "probabilities" or None
        What ``X`` holds: by default logits, such as log-probabilities. Numbers that all lie between 0 and 1 are refused until
        you say what they are; a `Rows` object says it.
    classes : sequence, optional
        The label of each column, in order. By default labels are the column numbers 0, 1, ...
    floor : float, "auto" or None
        Smaller probabilities are raised to this, with ``input="probabilities"``. "auto" takes the largest floor whose
        cross-validated log-loss, summed over samples, is within 0.5 of the lowest; `floor_` tells it. None raises only exact
        zeros, to the smallest positive normal number.

    Attributes
    ----------
    inverse_temperature_ : float
        By which logits are multiplied. Without shrinking it may be negative: where samples of a class have lower logits of that
        class than other samples.
    biases_ : array of shape (n_classes,)
        What is then added to each class; their sum is zero.
    spread_ : float or None
        The standard deviation of the biases that shrinking assumes, found from the data; 0 if all biases are zero, None
        without shrinking.
    condition_ : {"ec", "ts"}
        The condition that holds: ``method``, or "ts" if "ec" has no solution, of which an `InputWarning` tells.
    parameters_se_ : dict of float or array, or None
        The standard errors of ``inverse_temperature`` and ``biases``, without shrinking and for at most 1,000 parameters.
    why_no_se_ : str or None
        Why there are none.
    residual_ : float
        What is left of the largest gap in the equations.
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
    NoTemperatureError
        From `fit`, if there is no temperature of ``method`` without biases, which the search starts from.
    DegenerateDataError
        From `fit`, if a class has no samples and ``shrink`` is False: its bias would be infinite.
    NotConvergedError
        From `fit`, if a class can be separated perfectly and ``shrink`` is False: no finite biases fit best.

    See Also
    --------
    ExpectationConsistency, TemperatureScaling : one temperature, which never changes a prediction.

    Examples
    --------
    >>> import numpy as np
    >>> from nishimori import BiasCorrected
    >>> rng = np.random.default_rng(1)
    >>> logits = 3 * rng.normal(size=(4000, 3))
    >>> labels = (logits / 2 + [1, 0, -1] + rng.gumbel(size=logits.shape)).argmax(axis=1)
    >>> calibrator = BiasCorrected().fit(logits, labels)
    >>> print(round(1 / calibrator.inverse_temperature_, 2), calibrator.biases_.round(2))
    1.96 [ 1.05  0.01 -1.06]
    >>> p = calibrator.predict_proba(logits)
    >>> bool(np.isclose(p.max(axis=1).mean(), (p.argmax(axis=1) == labels).mean()))
    True
    """

    traits: ClassVar[Traits | None] = Traits(keeps_predictions=False, streams=True, from_sketch=False, error_bars=False)
    method: str = "ec"
    shrink: bool = True
    preserve_accuracy: bool = False

    fit = fit_rows

    def _fit_rows(self, X: Any, data: Rows) -> Self:
        """Choose temperature and biases from ``data``, which are the rows of ``X``."""
        one_of("method", self.method, Method)
        if data.n_classes > _MOST_CLASSES:
            raise InputError("X", f"have at most {_MOST_CLASSES:,} classes for the method 'bias'", got=f"{data.n_classes:,}")
        matched = find_roots(data, Confidence(), Energy(), label_name=label_name(X))
        refuse_masks(matched.census.n_masked > 0)
        matched.warn()
        search = BiasSearch(data)
        try:
            biases = self._fit_biases(search, matched)
        except NotConvergedError as error:
            if not self.shrink:
                raise
            raise NotConvergedError(
                "The search for one temperature and one bias per class did not converge. The usual cause is that there are few "
                "validation samples, and some biases would separate right from wrong answers perfectly. Use more validation "
                "samples, or one temperature, as with 'ec' or 'ts'."
            ) from error
        self._warn(biases)
        errors, n_errors = None, 0
        if not self.shrink and not too_many(1 + data.n_classes):
            errors, n_errors = standard_errors(data, biases), 1
        fallback = _temperature(matched, self.method) if self.preserve_accuracy else None
        map_ = Affine(np.array(biases.point.beta), np.array(biases.point.biases), fallback)
        estimates = {"spread": biases.spread} if self.shrink else {}
        estimates["by_confidence"] = float(biases.by_confidence)
        if errors is not None:
            estimates |= flat_entries({"inverse_temperature": errors[0], "biases": errors[1]}, "_se")
        n_passes = matched.n_passes + search.n_passes + n_errors
        return self.learn(X, data, map_, matched.census.n_rows, biases.residual, estimates=estimates, n_passes=n_passes)

    def _fit_frequencies(self, X: Any, data: Rows) -> Self:
        """Choose biases alone, for scores that say nothing: every sample gets the frequencies of the classes.

        They are smoothed by Laplace's rule, (n + 1)/(N + K) for n of N samples and K classes, so that none is zero.
        """
        samples = data.gather(sum_by_class)
        numbers = samples.weights / samples.one_sample(counts=data.counts)
        logs = np.log((numbers + 1) / (numbers.sum() + len(numbers)))
        map_ = Affine(np.array(0.0), logs - logs.mean())
        return self.learn(X, data, map_, samples.n_rows, estimates={"by_confidence": 0.0}, n_passes=1)

    def _fit_biases(self, search: BiasSearch, matched: Match) -> Biases:
        """The temperature and the biases of the classes, from sums at several points."""
        n_classes = search.data.n_classes
        if all(isinstance(root, NishimoriError) for root in matched.roots):
            _temperature(matched, self.method)  # raises
        start = BiasPoint(1 / _temperature(matched, "ts"), (0.0,) * n_classes)
        sums = search.sums(start)
        if self.shrink:
            start = search.choose_spread(start)
            if search.spread == 0:  # noise explains all biases
                point = BiasPoint(1 / _temperature(matched.without_uncertain(), self.method), (0.0,) * n_classes)
                residual = abs(matched.fit_info(_POSITIONS[self.method]).residual)
                return Biases(point, 0.0, residual, self.method == "ec", None, sums)
        elif empty := self._names_of_classes(sums.observed == 0):
            raise DegenerateDataError(
                "y",
                f"have samples of every class with {setting('shrink', False)}",
                got=f"none of {empty}: the bias of a class that never occurs would be infinite",
                remedy=f"Use {setting('shrink', True)}, or leave the class out of {setting('X')}.",
            )
        if self.shrink:
            biases = search.biases_of(search.solve(start))
        else:
            biases = search.least_loss(start, class_labels(self.classes, n_classes))
        return search.by_confidence(biases) if self.method == "ec" else biases

    def _warn(self, biases: Biases) -> None:
        """Warn of what the user may not expect."""
        if biases.problem is not None:
            notice(
                f"Mean confidence could not be made equal to accuracy: {biases.problem}. The temperature is that of least "
                "cross-entropy instead, the condition of `method='ts'`.",
                InputWarning,
            )
        if empty := self._names_of_classes(biases.sums.observed == 0):
            notice(
                f"There are no samples of {empty}. How far the bias of such a class lies below zero follows only from how much "
                "the biases of other classes differ. Add samples of all classes.",
                InputWarning,
            )

    def _names_of_classes(self, chosen: HostArray) -> str:
        """The labels of some classes in words; empty if there are none."""
        labels = class_labels(self.classes, len(chosen))[chosen].tolist()
        return f"{'classes' if len(labels) > 1 else 'class'} {join_names(labels)}" if labels else ""

    def _show(self) -> None:
        assert isinstance(self.map_, Affine)
        self.inverse_temperature_, self.biases_ = float(self.map_.scale), self.map_.bias
        estimates = self._estimates_ or {}
        self.spread_ = estimates.get("spread")
        self.condition_ = "ec" if estimates.get("by_confidence") else "ts"
        layout = Layout((("inverse_temperature", ()), ("biases", self.biases_.shape)))
        reason = None if self.inverse_temperature_ else _FREQUENCIES
        if self.shrink:
            reason = (
                "The biases are shrunk towards zero, so that the standard errors of the equations do not apply. Fit with "
                f"{setting('shrink', False)} to have standard errors."
            )
        self.parameters_se_, self.why_no_se_ = read_errors(estimates, layout, reason)

    @property
    def matches_confidence(self) -> bool:
        return self.condition_ == "ec" and not self.preserve_accuracy


def _temperature(matched: Match, method: str) -> float:
    """The temperature of one method without biases; raises if there is none."""
    root = matched.roots[_POSITIONS[method]]
    if isinstance(root, NishimoriError):
        raise root
    return exp(-root.x)
