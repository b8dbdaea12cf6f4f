"""Before and after calibration in one call."""

from functools import partial
from typing import TYPE_CHECKING, Any

from nishimori._evaluation.scorecard import evaluate
from nishimori._rows.labels import Classes
from nishimori._rows.scores import Input
from nishimori._rows.source import is_source
from nishimori._sums.reliability import Strategy
from nishimori.plot._palette import MARKERS
from nishimori.plot._reliability_diagram import reliability_diagram

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def calibration(
    logits: Any,
    labels: Any = None,
    calibrator: Any = None,
    *,
    temperature: float | None = None,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    sample_weight: Any = None,
    groups: Any = None,
    input: Input | None = None,
    classes: Classes = None,
    floor: float | None = None,
    ax: "Axes | None" = None,
    histogram: bool = True,
    min_count: float = 10,
    ignore_index: int | None = None,
) -> "Axes":
    """Reliability diagram of a data set before and after calibration, with both calibration errors in the legend.

    To compare several calibrators, pass their scorecards to `reliability_diagram`: ``{"EC": evaluate(..., calibrator=ec)}``.

    Parameters
    ----------
    logits, labels, sample_weight, groups, input, classes, floor, n_bins, strategy, ignore_index
        As for `evaluate`. Use data that the calibrator was not fitted to.
    calibrator : calibrator, optional
        A fitted calibrator.
    temperature : float, optional
        What to divide the logits by, instead of a calibrator. If neither is given, only the curve before is drawn.
    ax, histogram, min_count
        As for `reliability_diagram`.

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
    given: dict[str, Any] = {"sample_weight": sample_weight, "groups": groups, "ignore_index": ignore_index}
    measured = partial(evaluate, logits, labels, n_bins=n_bins, strategy=strategy, **given)
    scores: dict[str, Any] = {"input": input, "classes": classes, "floor": floor}
    if calibrator is None and temperature is None:
        drawn: Any = measured(**scores)
    else:
        after = measured(temperature=temperature, calibrator=calibrator, **scores)
        own = scores if calibrator is None or is_source(logits) else {name: getattr(calibrator, name) for name in scores}
        drawn = {"before": measured(**own), _title(calibrator): after}
    return reliability_diagram(drawn, ax=ax, histogram=histogram, min_count=min_count)


def _title(calibrator: Any) -> str:
    """What the curve after calibration is called."""
    method = getattr(calibrator, "method_name", None)
    return f"after {method.upper()}" if method in MARKERS else "after"
