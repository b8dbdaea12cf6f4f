"""Time to find T: nishimori against SciPy on the definitions and against scikit-learn, in one process.

    python bench/fit.py [--large]

Each row is one size of float32 logits with T near 2 (``--large`` adds 200 MB ones). The unit is one single-threaded `numpy.exp`
over the same array in the same run, so that numbers compare between machines; the last columns are ratios to nishimori, which
finds both temperatures in its time. Differences from a float64 root are given for each.
"""

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar, root_scalar
from scipy.special import log_softmax, softmax
from sklearn.calibration import _TemperatureScaling

import nishimori

SIZES = [(10_000, 10), (5_000, 100), (200_000, 10), (20_000, 100), (500, 32_000)]
LARGE = [(50_000, 1_000), (1_000_000, 10)]
BASELINES = ("SciPy EC", "SciPy TS", "scikit-learn TS")


def data(n: int, k: int) -> tuple[Any, Any]:
    """Logits with a clear winner most of the time, and labels drawn at T = 2."""
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(n, k)).astype(np.float32)
    logits[np.arange(n), rng.integers(k, size=n)] += 6 + 2 * np.log(k)
    noise = rng.gumbel(size=(n, k)).astype(np.float32)
    return logits, (logits / 2 + noise).argmax(axis=1)


def scipy_ec(logits: Any, labels: Any) -> float:
    """The paper's definition with Brent's method."""
    accuracy = (logits.argmax(axis=1) == labels).mean()
    gap = lambda t: softmax(logits / t, axis=1).max(axis=1).mean() - accuracy  # noqa: E731 - as one would write it
    return float(root_scalar(gap, bracket=(0.01, 100)).root)


def scipy_ts(logits: Any, labels: Any) -> float:
    """The cross-entropy minimised over a bounded interval."""
    rows = np.arange(len(labels))
    loss = lambda t: -log_softmax(logits / t, axis=1)[rows, labels].mean()  # noqa: E731 - as one would write it
    return float(minimize_scalar(loss, bounds=(0.01, 100), method="bounded", options={"xatol": 1e-8}).x)


def sklearn_ts(logits: Any, labels: Any) -> float:
    """What `CalibratedClassifierCV(method="temperature")` runs, without its cross-validation."""
    return float(1 / _TemperatureScaling().fit(logits, labels).beta_)


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of the fastest of up to five runs within ten seconds, and the result."""
    best, spent = np.inf, 0.0
    for _ in range(5):
        start = time.process_time()
        result = run()
        took = time.process_time() - start
        best, spent = min(best, took), spent + took
        if spent > 10:
            break
    return best, result


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", action="store_true", help="add the 200 MB and 40 MB arrays")
    sizes = SIZES + (LARGE if parser.parse_args().large else [])
    print(f"{'n, k':>14} {'exp (ms)':>9} {'ours (exp)':>10} {'passes':>6}", *(f"{b:>16}" for b in BASELINES))
    for n, k in sizes:
        logits, labels = data(n, k)
        out = np.empty_like(logits)
        unit, _ = timed(lambda: np.exp(logits, out=out))  # noqa: B023 - run at once
        ours, found = timed(lambda: nishimori.temperatures(logits, labels))  # noqa: B023
        cells = []
        for baseline, exact in ((scipy_ec, found.ec), (scipy_ts, found.ts), (sklearn_ts, found.ts)):
            took, value = timed(lambda: baseline(logits, labels))  # noqa: B023
            cells.append(f"{took / ours:6.1f}x {abs(value / exact - 1):8.0e}")
        print(f"{f'{n}, {k}':>14} {1e3 * unit:9.2f} {ours / unit:10.1f} {found.n_passes:6d}", *(f"{c:>16}" for c in cells))


if __name__ == "__main__":
    main()
