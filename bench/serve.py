"""How long one row takes to calibrate, as a multiple of SciPy's softmax of the same row in the same run.

The row is 1×10 float32, as a service with one request at a time sees it.

    python bench/serve.py
"""

from collections.abc import Callable
from timeit import repeat

import numpy as np
from scipy.special import softmax

import nishimori

CALLS, ROUNDS = 2000, 15


def microseconds(call: Callable[[], object]) -> float:
    """The median over rounds of the mean time of a call."""
    return 1e6 * float(np.median(repeat(call, number=CALLS, repeat=ROUNDS))) / CALLS


def main() -> None:
    """Print one line per way to calibrate."""
    rng = np.random.default_rng(0)
    logits = (3 * rng.normal(size=(2000, 10))).astype(np.float32)
    labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    fitted, row = nishimori.ExpectationConsistency().fit(logits, labels), logits[:1]
    baseline = microseconds(lambda: softmax(row, axis=1))
    print(f"{'scipy.special.softmax':<36}{baseline:8.1f} µs")
    for name, calibrator in (("fitted", fitted), ("from_temperature", nishimori.from_temperature(2.0))):
        for method in ("predict_proba", "predict_log_proba", "transform", "predict"):
            call = getattr(calibrator, method)
            time = microseconds(lambda call=call: call(row))
            print(f"{name + '.' + method:<36}{time:8.1f} µs{time / baseline:8.2f} times the softmax")


if __name__ == "__main__":
    main()
