"""A reliability diagram in the manner of scikit-learn's displays: from an estimator, or from its predictions."""

from functools import partial
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np

from nishimori._rows.entry import open_rows
from nishimori._rows.labels import Classes, class_labels
from nishimori._rows.scores import NotProbabilitiesError
from nishimori._sums.predictions import reliability_of
from nishimori._sums.reliability import Of, Reliability, Strategy
from nishimori._support import arrays
from nishimori._support.arrays import HostArray
from nishimori.errors import InputError
from nishimori.plot._reliability_diagram import Drawing, reliability_diagram

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D


class ReliabilityDisplay:
    """A reliability diagram, as scikit-learn's `CalibrationDisplay` but also for several classes, with error bars and the ECE.

    Make it with `from_estimator` or `from_predictions`, which also draw it. By default it shows how often the *predicted*
    class is right at each confidence. With ``pos_label`` it shows how often that class is the true one at each of its
    predicted probabilities.

    Parameters
    ----------
    curve : Reliability
        What is drawn, as from `nishimori.metrics.reliability`.
    name : str, optional
        The name in the legend, next to the ECE.
    pos_label : optional
        The class that the probabilities are about, for the labels of the axes; by default the predicted class.

    Attributes
    ----------
    curve, name, pos_label
        As passed, or as found by `from_estimator` and `from_predictions`.
    prob_pred, prob_true : array
        The mean probability and the share of true claims of each bin that is not empty, under scikit-learn's names.
    ece : float
        The expected calibration error, the weighted mean of abs(prob_pred - prob_true).
    ax_, figure_ : matplotlib axes and figure
        Where the diagram was drawn.
    line_ : matplotlib line
        What joins the bins.
    histogram_ax_ : matplotlib axes or None
        The strip above with the histogram of the probabilities.

    See Also
    --------
    reliability_diagram : the same from a curve, a scorecard or several of them.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from nishimori.plot import ReliabilityDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> model = GaussianNB().fit(X[:900], y[:900])
    >>> display = ReliabilityDisplay.from_estimator(model, X[900:], y[900:])
    >>> print(f"{display.name}: ECE {display.ece:.3f}")
    GaussianNB: ECE 0.181
    >>> plt.close(display.figure_)
    """

    ax_: "Axes"
    figure_: "Figure"
    line_: "Line2D"
    histogram_ax_: Any

    def __init__(self, curve: Reliability, *, name: str | None = None, pos_label: Any = None) -> None:
        self.curve = curve
        self.name = name
        self.pos_label = pos_label

    @property
    def prob_pred(self) -> HostArray:
        return self.curve.confidence

    @property
    def prob_true(self) -> HostArray:
        return self.curve.accuracy

    @property
    def ece(self) -> float:
        return self.curve.error()

    def plot(self, *, name: str | None = None, **drawing: Unpack[Drawing]) -> Self:
        """Draw the diagram.

        Parameters
        ----------
        name : str, optional
            The name in the legend, in place of that of the display.
        **drawing
            ``ax``, ``color``, ``marker``, ``histogram``, ``min_count`` and ``scale``, as for `reliability_diagram`.

        Returns
        -------
        ReliabilityDisplay
            This display, with the attributes that end in an underscore.
        """
        ax = drawing.get("ax")
        before = set() if ax is None else set(ax.get_lines())
        self.ax_ = reliability_diagram(self.curve, label=self.name if name is None else name, **drawing)
        if self.pos_label is not None:
            self.ax_.set(xlabel=f"probability of {self.pos_label}", ylabel=f"frequency of {self.pos_label}")
        self.figure_ = self.ax_.figure.get_figure(root=True)
        self.line_ = next(line for line in self.ax_.get_lines() if line not in before)
        self.histogram_ax_ = next(iter(self.ax_.child_axes), None) if drawing.get("histogram", True) else None
        return self

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        n_bins: int = 15,
        strategy: Strategy = "uniform",
        pos_label: Any = None,
        name: str | None = None,
        **drawing: Unpack[Drawing],
    ) -> Self:
        """Draw the reliability diagram of a fitted classifier on data that it was not fitted to.

        Parameters
        ----------
        estimator : classifier
            A fitted classifier with `predict_proba`: one of scikit-learn, a `Pipeline`, or a calibrator of nishimori, for
            which ``X`` holds the scores.
        X : array
            What `predict_proba` takes.
        y : array of shape (n_samples,)
            True classes, as in ``estimator.classes_``.
        name : str, optional
            The name in the legend; the class of the estimator by default.
        sample_weight, n_bins, strategy, pos_label
            As for `from_predictions`.
        **drawing
            ``ax``, ``color``, ``marker``, ``histogram``, ``min_count`` and ``scale``, as for `reliability_diagram`.

        Returns
        -------
        ReliabilityDisplay
            With the axes, the figure and the numbers that were drawn.
        """
        return cls.from_predictions(
            y,
            estimator.predict_proba(X),
            classes=getattr(estimator, "classes_", None),
            sample_weight=sample_weight,
            n_bins=n_bins,
            strategy=strategy,
            pos_label=pos_label,
            name=type(estimator).__name__ if name is None else name,
            **drawing,
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_prob: Any,
        *,
        classes: Classes = None,
        sample_weight: Any = None,
        n_bins: int = 15,
        strategy: Strategy = "uniform",
        pos_label: Any = None,
        name: str | None = None,
        **drawing: Unpack[Drawing],
    ) -> Self:
        """Draw the reliability diagram of predicted probabilities; true classes come first, as in scikit-learn.

        Parameters
        ----------
        y_true : array of shape (n_samples,)
            True classes.
        y_prob : array of shape (n_samples, n_classes), or (n_samples,)
            Predicted probabilities. A flat array holds those of ``pos_label``.
        classes : sequence, optional
            The label of each column of ``y_prob`` in order; by default 0, 1, ...
        sample_weight : array of shape (n_samples,), optional
            A weight of w counts a sample w times as much.
        n_bins, strategy
            The bins, as for `nishimori.metrics.ece`.
        pos_label : optional
            Show the probability of this class instead of that of the predicted class. For a flat ``y_prob`` it is 1 by
            default, if all labels are 0 and 1, or -1 and 1.
        name : str, optional
            The name in the legend.
        **drawing
            ``ax``, ``color``, ``marker``, ``histogram``, ``min_count`` and ``scale``, as for `reliability_diagram`.
        """
        labels, table, label = _labels(y_true), arrays.as_array(y_prob), pos_label
        measure = partial(_measure, sample_weight=sample_weight, n_bins=n_bins, strategy=strategy)
        if len(table.shape) == 1:
            label = _positive(labels, pos_label)
        else:
            curve = measure(table, labels, classes, "top")  # which also checks all columns and labels
            if pos_label is not None:
                columns = class_labels(classes, int(table.shape[-1])).tolist()
                if pos_label not in columns:
                    must = f"be one of the classes {', '.join(map(repr, columns))}"
                    raise InputError("pos_label", must, got=repr(pos_label))
                table = table[:, columns.index(pos_label)]
        if label is not None:
            is_positive = np.array([own == label for own in labels.tolist()], dtype=int)
            curve = measure(table, is_positive, None, "positive")
        return cls(curve, name=name, pos_label=label).plot(**drawing)


def _measure(
    table: Any, labels: HostArray, classes: Classes, of: Of, *, sample_weight: Any, n_bins: int, strategy: Strategy
) -> Reliability:
    """The curve of probabilities."""
    try:
        data = open_rows(table, labels, sample_weight, input="probabilities", classes=classes, names=("y_prob", "y_true"))
        return reliability_of(data, beta=1.0, n_bins=n_bins, strategy=strategy, of=of)
    except NotProbabilitiesError as error:
        # The library's remedy is an argument that scikit-learn's displays do not have.
        remedy = "If these are logits, pass their softmax, such as `scipy.special.softmax(logits, axis=1)`."
        raise error.changed(remedy=remedy) from None


def _labels(y_true: Any) -> HostArray:
    """True classes; refuses what looks like probabilities."""
    labels: HostArray = arrays.on_host(arrays.as_array(y_true))
    swapped = "Pass true classes first: `from_predictions(y_true, y_prob)`."
    if labels.ndim != 1:
        raise InputError("y_true", "be one label per sample", got=f"shape {labels.shape}", remedy=swapped)
    broken = labels[np.isfinite(labels) & (labels % 1 != 0)] if labels.dtype.kind == "f" else labels[:0]
    if len(broken):
        raise InputError("y_true", "be labels", got=f"{broken[0]:.6g}", remedy=swapped)
    return labels


def _positive(labels: HostArray, pos_label: Any) -> Any:
    """The class that flat probabilities are about."""
    present = np.unique(labels).tolist()
    if pos_label is None and (set(present) <= {0, 1} or set(present) <= {-1, 1}):
        return 1
    if pos_label not in present:
        must = f"be the one of the labels {', '.join(map(repr, present[:5]))} that the flat array of probabilities is about"
        raise InputError("pos_label", must, got=repr(pos_label))
    return pos_label
