"""Before and after calibration in one call."""

from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from nishimori._evaluation.scorecard import evaluate
from nishimori._rows.options import ERROR_BARS_ONLY, RowOptions, takes_rows
from nishimori._rows.rows import is_rows
from nishimori._sums.reliability import Strategy
from nishimori.plot._reliability_diagram import reliability_diagram
from nishimori.plot._style import MARKERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@takes_rows(refuses={"counts": ERROR_BARS_ONLY, "clusters": ERROR_BARS_ONLY})
def calibration(
    logits: Any,
    labels: Any = None,
    calibrator: Any = None,
    *,
    temperature: float | None = None,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    ax: "Axes | None" = None,
    histogram: bool = True,
    min_count: float = 10,
    **options: Unpack[RowOptions],
) -> "Axes":
    """Reliability diagram of a data set before and after calibration, with both calibration errors in the legend.

    To compare several calibrators, pass their scorecards to `reliability_diagram`: ``{"EC": evaluate(..., calibrator=ec)}``.

    Parameters
    ----------
    logits, labels, n_bins, strategy
        As for `evaluate`. Use data that the calibrator was not fitted to.
    calibrator : calibrator, optional
        A fitted calibrator.
    temperature : float, optional
        What to divide the logits by, instead of a calibrator. If neither is given, only the curve before is drawn.
    ax, histogram, min_count
        As for `reliability_diagram`.
    **options
        What is said about the data, see `rows`: ``sample_weight``, ``groups``, ``input``, ``classes``, ``floor``,
        ``ignore_index``, ``shift_labels``, ``class_axis``.

    Returns
    -------
    matplotlib axes
        ``ax``, or the new axes.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import nishimori
    >>> from nishimori import plot
    >>> network = nishimori.data.load("cifar10/resnet20")
    >>> ec = nishimori.ExpectationConsistency().fit(network.validation.logits, network.validation.labels)
    >>> ax = plot.calibration(network.test.logits, network.test.labels, ec)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['before: ECE 6.99 %', 'after EC: ECE 1.04 %']
    >>> plt.close()
    """
    measured = partial(evaluate, logits, labels, n_bins=n_bins, strategy=strategy)
    if calibrator is None and temperature is None:
        drawn: Any = measured(**options)
    else:
        after = measured(temperature=temperature, calibrator=calibrator, **options)
        before = options.copy()
        if calibrator is not None and not is_rows(logits):  # the same scores, read in the same way
            before |= {"input": calibrator.input_, "classes": calibrator.classes, "floor": None}
        drawn = {"before": measured(**before), _title(calibrator): after}
    return reliability_diagram(drawn, ax=ax, histogram=histogram, min_count=min_count)


def _title(calibrator: Any) -> str:
    """What the curve after calibration is called."""
    method = getattr(calibrator, "method_name", None)
    return f"after {method.upper()}" if method in MARKERS else "after"
