"""Histogram binning: the frequency of each class among the samples whose probability falls into the same bin."""

from typing import Any, ClassVar, Self

import numpy as np

from nishimori._calibrators.calibrator import Calibrator
from nishimori._calibrators.class_samples import check_samples, checked_prior
from nishimori._calibrators.parameters import MOST_WITH_ERRORS, NOT_IN_FILE, Layout, flat_entries, read_errors
from nishimori._methods.record import Record
from nishimori._methods.traits import Traits
from nishimori._rows.labels import Classes
from nishimori._rows.rows import Rows, refuse_counted_clusters
from nishimori._rows.scores import Floor, Input
from nishimori._sums.class_claims import (
    ClassWeights,
    TallyClasses,
    cluster_squares,
    curve_columns,
    quantile_edges,
    sum_by_class,
)
from nishimori._sums.passes import together
from nishimori._sums.reliability import Bins, Strategy, check_bins, uniform_edges
from nishimori._support.arrays import HostArray
from nishimori.errors import InputError
from nishimori.maps.class_curves import ClassCurves

# Sums per class and bin that are in memory at most: 128 MiB each.
_MOST_BINS = 2**24

# The part of an added sample that is decided by a coin instead of by the model. Without it, classes that the model excludes
# keep nearly no probability, and a single sample of them costs a large loss: with 200 samples and bins of equal width, the mean
# NLL of the bundled networks was 1.02 without it and 0.86 with it. Larger parts are worse for bins of equal weight.
_COIN = 0.1


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
    input, classes, floor
        As for `ExpectationConsistency`.

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
    map_, classes_, n_features_in_, feature_names_in_, n_samples_, n_passes_
        As for `ExpectationConsistency`.

    See Also
    --------
    Isotonic : increasing curves, which need no number of bins.
    TemperatureScaling : one number, which needs fewer samples.

    Notes
    -----
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
    n_passes_: int
    edges_: HostArray
    frequencies_: HostArray
    parameters_se_: dict[str, HostArray] | None
    why_no_se_: str | None

    def __init__(
        self,
        *,
        n_bins: int = 15,
        strategy: Strategy = "uniform",
        prior: float = 1.0,
        input: Input | None = None,
        classes: Classes = None,
        floor: Floor = "auto",
    ) -> None:
        self.n_bins = n_bins
        self.strategy = strategy
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
        """Choose the value of each bin from validation logits ``X`` and labels ``y``.

        Arguments are as for `ExpectationConsistency`. ``clusters`` and ``counts`` change the standard errors. ``counts`` also
        says what the weight of an added sample is: 1, or by default Σw²/Σw, which is w if all weights are w.

        Raises
        ------
        DegenerateDataError
            If all samples belong to one class.
        """
        prior = checked_prior(self.prior)
        check_bins(self.n_bins, self.strategy)
        data, counts = self.rows_to_fit(X, y, sample_weight, clusters, counts, ignore_index=ignore_index)
        refuse_counted_clusters(data, counts=counts)
        n_curves = len(curve_columns(data.n_classes))
        if n_curves * self.n_bins > _MOST_BINS:
            raise InputError(
                "n_bins", f"be at most {_MOST_BINS // n_curves:,} for {n_curves:,} classes", got=f"{self.n_bins:,}"
            )
        samples, bins, n_passes = self._sums(data)
        check_samples(samples, self.classes, label_name=self.label_name(X))
        unit = samples.one_sample(counts=counts)
        values = _frequencies(bins, prior * unit)
        errors = _errors(data, bins, values, (prior * unit, unit), counts=counts)
        self.learn(X, data, ClassCurves(tuple(bins.edges), tuple(values), "constant"), samples.n_rows)
        self.n_passes_ = n_passes + data.has_clusters
        self.parameters_se_, self.why_no_se_ = {"frequencies": errors}, None
        return self._show()

    def _sums(self, data: Rows) -> tuple[ClassWeights, Bins, int]:
        """Sums per class and per bin, and how many passes they took: one for bins of equal width."""
        if self.strategy == "uniform":
            edges = np.repeat(uniform_edges(self.n_bins), len(curve_columns(data.n_classes)), axis=0)
            samples, bins = data.gather(together(sum_by_class, TallyClasses(edges))).items
            return samples, bins, 1
        samples = data.gather(sum_by_class)
        edges, n_passes = quantile_edges(data, self.n_bins, samples.n_rows)
        return samples, data.gather(TallyClasses(edges)), 2 + n_passes

    def estimates(self) -> dict[str, float] | None:
        """The standard errors, one number per bin, if there are not too many for a small file."""
        if self.parameters_se_ is None or self.frequencies_.size > MOST_WITH_ERRORS:
            return None
        # JSON has no NaN; -1 stands for the error of an empty bin.
        return flat_entries({name: np.nan_to_num(each, nan=-1) for name, each in self.parameters_se_.items()}, "_se")

    def restore(self, record: Record) -> Self:
        """Become what ``record`` describes, ready to use."""
        super().restore(record)._show()
        layout = Layout((("frequencies", self.frequencies_.shape),))
        found, self.why_no_se_ = read_errors(record, layout, NOT_IN_FILE)
        self.parameters_se_ = found and {name: np.where(each < 0, np.nan, each) for name, each in found.items()}
        return self

    def _show(self) -> Self:
        """Show the bins of the map as attributes."""
        assert isinstance(self.map_, ClassCurves)
        self.edges_, self.frequencies_ = np.stack(self.map_.knots), np.stack(self.map_.values)
        return self


def _frequencies(bins: Bins, added: float) -> HostArray:
    """The value of each bin, if samples of weight ``added`` are there already."""
    middle = (bins.edges[:, 1:] + bins.edges[:, :-1]) / 2
    expected = np.divide(bins.confidence, bins.weight, out=middle, where=bins.weight > 0)
    if added == 0:
        return np.divide(bins.correct, bins.weight, out=expected, where=bins.weight > 0)
    expected = (1 - _COIN) * expected + _COIN / 2
    found: HostArray = (bins.correct + added * expected) / (bins.weight + added)
    return found


def _errors(data: Rows, bins: Bins, values: HostArray, added: tuple[float, float], *, counts: bool) -> HostArray:
    """The standard error of each value; ``added`` are the weight of what was added, and that of one sample.

    Outcomes in a bin have the variance v(1 - v), also those that were added. Clusters show their variance themselves.
    """
    weight, unit = added
    spread = values * (1 - values)
    if data.has_clusters:
        variance = cluster_squares(data, bins.edges, values)
    else:
        variance = spread * (bins.weight if counts else bins.squares)
    with np.errstate(invalid="ignore"):  # an empty bin to which nothing was added
        found: HostArray = np.sqrt(variance + spread * weight * unit) / (bins.weight + weight)
    return found
