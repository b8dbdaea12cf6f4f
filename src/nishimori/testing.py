"""Assertions for test suites: check that a released model stays calibrated."""

from collections.abc import Mapping
from typing import Any, Unpack

from nishimori._evaluation.calibrated import CALIBRATORS_WORD
from nishimori._evaluation.gate import MIN_SAMPLES, NLL_CAP, gate
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
    bounds: Mapping[Any, float] | None = None,
    max_risk: float | None = None,
    min_coverage: float | None = None,
    level: float = 0.95,
    allow_inconclusive: bool = False,
    min_samples: int = MIN_SAMPLES,
    nll_cap: float = NLL_CAP,
    by: By | None = None,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    **options: Unpack[RowOptions],
) -> None:
    """Raise an `AssertionError` unless the data show that a model keeps its bounds.

    Parameters
    ----------
    logits, labels
        Test data, as for `nishimori.evaluate`.
    bounds, level
        Bounds by metric, such as ``{"ece": 0.02}``, and the level of their limits. They and all others are as for
        `nishimori.gate`.
    max_risk, min_coverage : float, optional
        Raise unless a `threshold` is certified, as for `nishimori.gate`.
    allow_inconclusive : bool
        Whether to raise only if the data show that a bound is not kept, or if a check cannot be judged.
    min_samples : int
        With fewer samples, or clusters of them, the model cannot be judged.
    nll_cap : float
        The largest loss that counts where a bound on the NLL is passed.
    **options
        What is said about the data, see `rows`: ``sample_weight``, ``counts``, ``clusters``, ``groups``, ``input``,
        ``classes``, ``floor``, ``ignore_index``, ``shift_labels``, ``class_axis``, ``member_axis``.

    Raises
    ------
    AssertionError
        With one line per check that does not pass: what exceeds which bound, by how much, and its limits.

    Examples
    --------
    >>> import nishimori
    >>> from nishimori.testing import assert_calibrated
    >>> val, test = nishimori.data.load("cifar10/resnet20").validation, nishimori.data.load("cifar10/resnet20").test
    >>> calibrator = nishimori.ExpectationConsistency().fit(val.logits, val.labels)
    >>> assert_calibrated(test.logits, test.labels, calibrator=calibrator, bounds={"ece": 0.02, "gap": 0.01})
    """
    __tracebackhide__ = True  # pytest then shows the line of the test
    judged = gate(
        logits,
        labels,
        bounds=bounds,
        max_risk=max_risk,
        min_coverage=min_coverage,
        level=level,
        allow_inconclusive=allow_inconclusive,
        min_samples=min_samples,
        nll_cap=nll_cap,
        temperature=temperature,
        calibrator=calibrator,
        by=by,
        n_bins=n_bins,
        strategy=strategy,
        **options,
    )
    if not judged.passed:
        number = f"{len(judged.failed)} of {len(judged.checks)} checks"
        raise AssertionError("\n".join([f"{number} did not pass on {judged.n_samples} samples.", *map(str, judged.failed)]))
