"""Assertions for test suites: a model that is released must stay calibrated."""

from collections.abc import Mapping
from typing import Any, Unpack

from nishimori._evaluation.calibrated import CALIBRATORS_WORD, calibrator_or_map
from nishimori._evaluation.gate import MIN_SAMPLES, Wanted, gate_of
from nishimori._rows.options import RowOptions, takes_rows
from nishimori._sums.groups import By
from nishimori._sums.reliability import Strategy

__all__ = ["assert_calibrated"]


def __dir__() -> list[str]:
    return sorted(__all__)


@takes_rows(words=CALIBRATORS_WORD)
def assert_calibrated(
    logits: Any,
    labels: Any = None,
    *,
    calibrator: Any = None,
    temperature: float | None = None,
    bounds: Mapping[Any, float],
    level: float = 0.95,
    strict: bool = False,
    min_samples: int = MIN_SAMPLES,
    by: By | None = None,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    **options: Unpack[RowOptions],
) -> None:
    """Raise an `AssertionError` if the data show that a model does not keep its bounds, or cannot be judged.

    Parameters
    ----------
    logits, labels
        Test data, as for `nishimori.evaluate`.
    bounds, level
        Bounds by metric, such as ``{"ece": 0.02}``, and the level of their limits. They and all others are as for
        `nishimori.gate`.
    strict : bool
        Whether to raise also if the data do not prove that every bound is kept.
    min_samples : int
        With fewer samples, or clusters of them, the model cannot be judged.
    **options
        What is said about the data, see `rows`: ``sample_weight``, ``counts``, ``clusters``, ``groups``, ``input``,
        ``classes``, ``floor``, ``ignore_index``, ``shift_labels``, ``class_axis``.

    Raises
    ------
    AssertionError
        With one line per check that fails: what exceeds which bound, by how much, and its limits.

    Examples
    --------
    >>> import nishimori
    >>> from nishimori.testing import assert_calibrated
    >>> val, test = nishimori.data.load("cifar10/resnet20").validation, nishimori.data.load("cifar10/resnet20").test
    >>> calibrator = nishimori.ExpectationConsistency().fit(val.logits, val.labels)
    >>> assert_calibrated(test.logits, test.labels, calibrator=calibrator, bounds={"ece": 0.02, "gap": 0.01})
    """
    __tracebackhide__ = True  # pytest then shows the line of the test
    wanted = Wanted(bounds, level, strict, n_bins, strategy, min_samples)
    found = gate_of(logits, labels, options, wanted, calibrator_or_map(temperature, calibrator), by)
    if not found.passed:
        number = f"{len(found.failed)} of {len(found.checks)} checks"
        raise AssertionError("\n".join([f"{number} failed on {found.n_samples} samples.", *map(str, found.failed)]))
