"""A curve per class from its probability to a calibrated one: isotonic regression and histogram binning."""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from nishimori._calibrators.calibrator import Calibrator, fit_rows
from nishimori._calibrators.parameters import NOT_IN_FILE, Layout, flat_entries, read_errors, too_many
from nishimori._methods.fitted_method import label_name
from nishimori._methods.table import Traits
from nishimori._rows.labels import Classes, class_labels
from nishimori._rows.rows import Rows
from nishimori._sums.class_claims import (
    ClassWeights,
    claims_by_class,
    cluster_squares,
    curve_columns,
    quantile_edges,
    sum_by_class,
    tally_classes,
)
from nishimori._sums.outcomes import Levels
from nishimori._sums.passes import together
from nishimori._sums.reliability import Bins, Strategy, check_bins, uniform_edges
from nishimori._support.arrays import HostArray
from nishimori._support.formatting import join_names
from nishimori._support.numbers import between
from nishimori._support.warnings import notice
from nishimori.errors import DegenerateDataError, InputError, InputWarning
from nishimori.maps.class_curves import ClassCurves

# More added samples than any data set has: a typing error.
_MOST_ADDED = 1e9


def check_samples(samples: ClassWeights, classes: Classes, *, label_name: str) -> None:
    """Refuse samples of a single class, and tell of classes without samples and of samples that look alike."""
    labels = class_labels(classes, len(samples.weights))
    present = labels[samples.weights > 0].tolist()
    if len(present) == 1:
        raise DegenerateDataError(
            label_name,
            "hold samples of at least two classes",
            got=f"only one class, {present[0]!r}",
            remedy="A curve would say that every sample is of this class. Add samples of the others.",
        )
    if empty := labels[samples.weights == 0].tolist():
        which = f"class {empty[0]!r}: its curve is"
        if len(empty) > 1:
            which = f"{len(empty)} of {len(labels)} classes ({join_names(empty)}): their curves are"
        notice(
            f"There are no samples of {which} close to zero wherever there are other samples. Add samples of all classes.",
            InputWarning,
        )
    if samples.n_saturated > samples.n_rows / 2:
        notice(
            f"{samples.n_saturated:,} of {samples.n_rows:,} samples have logits so far apart that their probability rounds to "
            "1, and a curve cannot tell them apart. Divide the logits by a temperature first, as `TemperatureScaling` does, or "
            "use another method, such as 'platt' for two classes.",
            InputWarning,
        )


_NO_SE = (
    "Isotonic regression chooses the steps of its curves from the data, so that their errors are not those of fixed "
    "parameters. Resample the validation set to see how much the curves vary."
)


@dataclass(kw_only=True, eq=False, repr=False)
class Isotonic(Calibrator):
    """Replace the probability of each class by an increasing function of it, found by isotonic regression.

    Among all increasing functions of the probability of a class, the fit takes the one with the least squared error. Two
    classes have one curve, that of the second class. More classes have one curve each, fitted to that class against all others;
    the results are divided by their sum. Predictions may change, and the mean confidence is not the accuracy in general. With
    few samples per class it overfits.

    Curves that are fitted without a prior reach 0 and 1, where a single wrong sample makes the log-likelihood infinite. So
    the fit adds a sample at the lowest and at the highest probability of each class, of which one half belongs to the class.

    Parameters
    ----------
    prior : float
        How many samples are added at each end. With 0, the curves are those of ``CalibratedClassifierCV(method="isotonic")``
        of scikit-learn, if that is given the same probabilities.
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
    curves_ : list of tuple (knots, values)
        Probabilities of the class before and after, for each curve; between them the curve is linear, outside it is constant.
    parameters_se_ : None
        Isotonic regression has no standard errors.
    why_no_se_ : str
        Why not.
    map_ : ClassCurves
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
        From `fit`, if all samples belong to one class.

    See Also
    --------
    HistogramBinning : the same with bins, from sums over samples.
    TemperatureScaling : one number, which needs fewer samples.

    Notes
    -----
    Curves are functions of probabilities, the softmax of the logits. For two classes, any increasing function of the
    probability would give the same curve at the samples of the fit, but not between them, because interpolation is linear in
    the probability. For more classes the curves themselves differ.

    An added sample has the weight 1 if weights are ``counts``, and Σw²/Σw by default, which is w if all weights are w.
    ``clusters`` do not change the curves.

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
    takes_claims: ClassVar[bool] = True
    prior: float = 1.0

    fit = fit_rows

    def _fit_rows(self, X: Any, data: Rows) -> Self:
        """Choose the curves from ``data``, which are the rows of ``X``."""
        prior = between("prior", self.prior, 0, _MOST_ADDED)
        samples = data.gather(sum_by_class)
        check_samples(samples, self.classes, label_name=label_name(X))
        added = prior * samples.one_sample(counts=data.counts)
        curves, n_passes = [], 1
        for some in claims_by_class(data, samples.n_rows):
            n_passes += 1
            curves += [_curve(levels, added) for levels in some.levels()]
        knots, values = zip(*curves, strict=True)
        return self.learn(X, data, ClassCurves(knots, values, "linear"), samples.n_rows, n_passes=n_passes)

    def _show(self) -> None:
        assert isinstance(self.map_, ClassCurves)
        self.curves_ = list(zip(self.map_.knots, self.map_.values, strict=True))
        self.parameters_se_, self.why_no_se_ = None, _NO_SE


def _curve(levels: Levels, added: float) -> tuple[HostArray, HostArray]:
    """The knots and values of one class, with samples of weight ``added`` at each end, half of which belong to the class."""
    if not len(levels.claimed):  # masked in all rows, and in all rows that keep the mask
        return np.zeros(1), np.zeros(1)
    weight, true = levels.weight.copy(), levels.true.copy()
    for end in (0, -1):
        weight[end] += added
        true[end] += added / 2
    values, _ = Levels(levels.claimed, weight, true).isotonic()
    changes = np.diff(values) != 0
    corners = np.append(True, changes) | np.append(changes, True)  # the first and the last level of each step
    return levels.claimed[corners], values[corners]


# Sums per class and bin that are in memory at most: 128 MiB each.
_MOST_BINS = 2**24

# The part of an added sample that is decided by a coin instead of by the model. Without it, classes that the model excludes
# keep nearly no probability, and a single sample of them costs a large loss: with 200 samples and bins of equal width, the mean
# NLL of the bundled networks was 1.02 without it and 0.86 with it. Larger parts are worse for bins of equal weight.
_COIN = 0.1


@dataclass(kw_only=True, eq=False, repr=False)
class HistogramBinning(Calibrator):
    """Replace the probability of each class by the frequency of the class among the samples of the same bin.

    The probability of a class falls into one of ``n_bins`` bins, and becomes the share of the validation samples in that bin
    which belong to the class. Two classes have one set of bins, for the probability of the second class. More classes have
    one set each; the results are divided by their sum. Predictions may change, and classes in the same bin can swap places.

    Each bin starts with ``prior`` samples whose outcome is mostly what the model says: nine tenths of the mean probability in
    the bin, or of its middle if it is empty, and one tenth of 1/2. So a frequency is never 0 or 1, where a single wrong sample
    would make the log-likelihood infinite, and an empty bin gets a value.

    Parameters
    ----------
    n_bins : int
        The number of bins per class.
    strategy : {"uniform", "quantile"}
        Bins of equal width, or of equal weight of validation samples. A probability on an edge counts in the bin below it.
    prior : float
        How many samples each bin starts with. With 0, the values are plain frequencies, and the middle of an empty bin.
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
    edges_ : array of shape (n_curves, n_bins + 1)
        The edges of the bins. There is one curve for two classes, else one per class.
    frequencies_ : array of shape (n_curves, n_bins)
        The value of each bin, before the division by the sum over classes.
    parameters_se_ : dict with the key "frequencies", or None
        Their standard errors, in the same shape; NaN for an empty bin without a prior.
    why_no_se_ : str or None
        Why they are not known.
    map_ : ClassCurves
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
        From `fit`, if all samples belong to one class.

    See Also
    --------
    Isotonic : increasing curves, which need no number of bins.
    TemperatureScaling : one number, which needs fewer samples.

    Notes
    -----
    An added sample has the weight 1 if weights are ``counts``, and Σw²/Σw by default, which is w if all weights are w.
    ``clusters`` and ``counts`` of `fit` change the standard errors.

    Bins of equal width are sums over samples, so that data larger than memory can be used. Bins of equal weight need the
    quantiles of the probabilities first: the fit then keeps one number per sample and curve, up to 256 MB at a time,
    and sorts them. At its peak it took 66 bytes per sample for two classes, and 139 for ten.

    Examples
    --------
    >>> import numpy as np
    >>> from nishimori import HistogramBinning
    >>> rng = np.random.default_rng(0)
    >>> scores = 4 * rng.normal(size=2000)
    >>> labels = (scores / 2 + rng.logistic(size=2000) > 0).astype(int)  # drawn at T = 2
    >>> fitted = HistogramBinning(n_bins=4).fit(scores, labels)
    >>> for value, error in zip(fitted.frequencies_[0], fitted.parameters_se_["frequencies"][0]):
    ...     print(f"{value:.2f} ± {error:.2f}")
    0.15 ± 0.01
    0.45 ± 0.03
    0.52 ± 0.04
    0.83 ± 0.01
    """

    traits: ClassVar[Traits | None] = Traits(keeps_predictions=False, streams=True, from_sketch=False, error_bars=True)
    takes_claims: ClassVar[bool] = True
    n_bins: int = 15
    strategy: Strategy = "uniform"
    prior: float = 1.0

    fit = fit_rows

    def _fit_rows(self, X: Any, data: Rows) -> Self:
        """Choose the value of each bin from ``data``, which are the rows of ``X``."""
        prior = between("prior", self.prior, 0, _MOST_ADDED)
        check_bins(self.n_bins, self.strategy)
        n_curves = len(curve_columns(data.n_classes))
        if n_curves * self.n_bins > _MOST_BINS:
            raise InputError(
                "n_bins", f"be at most {_MOST_BINS // n_curves:,} for {n_curves:,} classes", got=f"{self.n_bins:,}"
            )
        samples, bins, n_passes = self._sums(data)
        check_samples(samples, self.classes, label_name=label_name(X))
        unit = samples.one_sample(counts=data.counts)
        values = _frequencies(bins, prior * unit)
        errors = _errors(data, bins, values, (prior * unit, unit))
        # A file holds errors if they are not too many. JSON has no NaN; -1 stands for the error of an empty bin.
        finite = {"frequencies": np.nan_to_num(errors, nan=-1)}
        estimates = None if too_many(values.size) else flat_entries(finite, "_se")
        map_ = ClassCurves(tuple(bins.edges), tuple(values), "constant")
        self.learn(X, data, map_, samples.n_rows, estimates=estimates, n_passes=n_passes + data.has_clusters)
        self.parameters_se_, self.why_no_se_ = {"frequencies": errors}, None
        return self

    def _sums(self, data: Rows) -> tuple[ClassWeights, Bins, int]:
        """Sums per class and per bin, and how many passes they took: one for bins of equal width."""
        if self.strategy == "uniform":
            edges = np.repeat(uniform_edges(self.n_bins), len(curve_columns(data.n_classes)), axis=0)
            samples, bins = data.gather(together(sum_by_class, partial(tally_classes, edges))).items
            return samples, bins, 1
        samples = data.gather(sum_by_class)
        edges, n_passes = quantile_edges(data, self.n_bins, samples.n_rows)
        return samples, data.gather(partial(tally_classes, edges)), 2 + n_passes

    def _show(self) -> None:
        assert isinstance(self.map_, ClassCurves)
        self.edges_, self.frequencies_ = np.stack(self.map_.knots), np.stack(self.map_.values)
        layout = Layout((("frequencies", self.frequencies_.shape),))
        errors, self.why_no_se_ = read_errors(self._estimates_ or {}, layout, NOT_IN_FILE)
        self.parameters_se_ = errors and {name: np.where(values < 0, np.nan, values) for name, values in errors.items()}


def _frequencies(bins: Bins, added: float) -> HostArray:
    """The value of each bin, if samples of weight ``added`` are there already."""
    middle = (bins.edges[:, 1:] + bins.edges[:, :-1]) / 2
    expected = np.divide(bins.confidence, bins.weight, out=middle, where=bins.weight > 0)
    if added == 0:
        return np.divide(bins.correct, bins.weight, out=expected, where=bins.weight > 0)
    expected = (1 - _COIN) * expected + _COIN / 2
    return (bins.correct + added * expected) / (bins.weight + added)


def _errors(data: Rows, bins: Bins, values: HostArray, added: tuple[float, float]) -> HostArray:
    """The standard error of each value; ``added`` are the weight of what was added, and that of one sample.

    Outcomes in a bin have the variance v(1 - v), also those that were added. Clusters show their variance themselves.
    """
    weight, unit = added
    spread = values * (1 - values)
    if data.has_clusters:
        variance = cluster_squares(data, bins.edges, values)
    else:
        variance = spread * (bins.weight if data.counts else bins.squares)
    with np.errstate(invalid="ignore"):  # an empty bin to which nothing was added
        errors: HostArray = np.sqrt(variance + spread * weight * unit) / (bins.weight + weight)
    return errors
