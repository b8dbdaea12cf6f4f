"""Isotonic regression: the best increasing curve from the probability of each class to a calibrated one."""

from typing import Any, ClassVar, Self

import numpy as np

from nishimori._calibrators.calibrator import Calibrator
from nishimori._calibrators.class_samples import check_samples, checked_prior
from nishimori._methods.fitted_method import label_name
from nishimori._methods.record import Record
from nishimori._methods.table import Traits
from nishimori._rows.labels import Classes
from nishimori._rows.rows import refuse_counted_clusters
from nishimori._rows.scores import Floor, Input
from nishimori._sums.class_claims import claims_by_class, sum_by_class
from nishimori._sums.outcomes import Levels
from nishimori._support.arrays import HostArray
from nishimori.maps.class_curves import ClassCurves

_NO_SE = (
    "Isotonic regression chooses the steps of its curves from the data, so that their errors are not those of fixed "
    "parameters. Resample the validation set to see how much the curves vary."
)


class Isotonic(Calibrator):
    """Replace the probability of each class by an increasing function of it, found by isotonic regression.

    Among all increasing functions of the probability of a class, the fit takes the one with the least squared error. Two
    classes have one curve, that of the second class. More classes have one curve each, fitted to that class against all others;
    the results are divided by their sum. Predictions may change, and the mean confidence is not the accuracy in general. With
    few samples per class it overfits: see the page about binning.

    Curves that are fitted without a prior reach 0 and 1, where a single wrong sample makes the log-likelihood infinite. So
    the fit adds a sample at the lowest and at the highest probability of each class, of which one half belongs to the class.

    Parameters
    ----------
    prior : float
        How many samples are added at each end. With 0, the curves are those of ``CalibratedClassifierCV(method="isotonic")``
        of scikit-learn, if that is given the same probabilities.
    input, classes, floor
        As for `ExpectationConsistency`.

    Attributes
    ----------
    curves_ : list of tuple (knots, values)
        Probabilities of the class before and after, for each curve; between them the curve is linear, outside it is constant.
    parameters_se_ : None
        Isotonic regression has no standard errors.
    why_no_se_ : str
        Why not.
    map_, classes_, n_features_in_, feature_names_in_, n_samples_, n_passes_
        As for `ExpectationConsistency`.

    See Also
    --------
    HistogramBinning : the same with bins, from sums over samples.
    TemperatureScaling : one number, which needs fewer samples.

    Notes
    -----
    Curves are functions of probabilities, the softmax of the logits. For two classes, any increasing function of the
    probability would give the same curve at the samples of the fit, but not between them, because interpolation is linear in
    the probability. For more classes the curves themselves differ.

    The fit keeps one number per sample and curve, and not sums: for up to 256 MB of them at a time, it reads the data once.
    Sorting and regression, one curve after the other, need more: at its peak the fit took 80 bytes per sample for two classes,
    and 170 for ten.

    Examples
    --------
    >>> import numpy as np
    >>> from nishimori import Isotonic
    >>> rng = np.random.default_rng(0)
    >>> scores = 4 * rng.normal(size=10_000)
    >>> labels = (scores / 2 + rng.logistic(size=10_000) > 0).astype(int)  # drawn at T = 2
    >>> Isotonic().fit(scores, labels).predict_proba([-2.0, 2.0])[:, 1].round(1)
    array([0.3, 0.7])
    """

    traits: ClassVar[Traits | None] = Traits(keeps_predictions=False, streams=False, from_sketch=False, error_bars=False)
    n_passes_: int
    curves_: list[tuple[HostArray, HostArray]]
    parameters_se_: None
    why_no_se_: str

    def __init__(
        self, *, prior: float = 1.0, input: Input | None = None, classes: Classes = None, floor: Floor = "auto"
    ) -> None:
        self.prior = prior
        self.input: Input | None = input
        self.classes = classes
        self.floor: Floor = floor

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        clusters: Any = None,
        counts: bool = False,
        ignore_index: int | None = None,
    ) -> Self:
        """Choose the curves from validation logits ``X`` and labels ``y``.

        Arguments are as for `ExpectationConsistency`. ``counts`` says what the weight of an added sample is: 1, or by default
        Σw²/Σw, which is w if all weights are w. ``clusters`` do not change the curves.

        Raises
        ------
        DegenerateDataError
            If all samples belong to one class.
        """
        prior = checked_prior(self.prior)
        data, counts = self._rows_to_fit(X, y, sample_weight, clusters, counts, ignore_index=ignore_index)
        refuse_counted_clusters(data, counts=counts)
        samples = data.gather(sum_by_class)
        check_samples(samples, self.classes, label_name=label_name(X))
        added = prior * samples.one_sample(counts=counts)
        curves, n_passes = [], 1
        for some in claims_by_class(data, samples.n_rows):
            n_passes += 1
            curves += [_curve(levels, added) for levels in some.levels()]
        knots, values = zip(*curves, strict=True)
        self.learn(X, data, ClassCurves(knots, values, "linear"), samples.n_rows)
        self.n_passes_ = n_passes
        return self._show()

    def _restore(self, record: Record) -> Self:
        """Restore from ``record``, ready to use."""
        return super()._restore(record)._show()

    def _show(self) -> Self:
        """Show the curves of the map as attributes."""
        assert isinstance(self.map_, ClassCurves)
        self.curves_ = list(zip(self.map_.knots, self.map_.values, strict=True))
        self.parameters_se_, self.why_no_se_ = None, _NO_SE
        return self


def _curve(levels: Levels, added: float) -> tuple[HostArray, HostArray]:
    """The knots and values of one class, with samples of weight ``added`` at each end, half of which belong to the class."""
    if not len(levels.claimed):  # masked in all rows, and in all rows that keep the mask
        return np.zeros(1), np.zeros(1)
    weight, true = levels.weight.copy(), levels.true.copy()
    for end in (0, -1):
        weight[end] += added
        true[end] += added / 2
    steps = Levels(levels.claimed, weight, true).isotonic()
    return levels.claimed[steps.corners], np.repeat(steps.values, np.minimum(steps.sizes, 2))
