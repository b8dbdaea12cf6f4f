"""Temperatures of random data against roots in extended precision, for every kernel of the CPU and every set of instructions.

    python bench/accuracy/attack.py                                   3,000 cases with each, about 10 minutes
    python bench/accuracy/attack.py --cases 100 --first 5000          others, by the number of the first one

A case is drawn from its number: rows and classes, type and scale of the logits, T, label noise, weights, ties, masked classes,
periodic data. T is right if the gap, in `numpy.longdouble`, changes its sign within the promised distance; a refusal is right
if the gap has no clear change of sign between T = 1e-12 and 1e12 times the size of the logits. Nothing of the library is used
for that but the numbers that it returned.
"""

import argparse
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

import nishimori
from nishimori._kernels import native
from nishimori.errors import InputError, NotConvergedError, NoTemperatureError

PROMISED = {"native": 1e-9, "numpy": 1e-9}

# A gap, relative to what it can be, that is clearly not zero.
_FLAT = 1e-8


def main() -> None:
    """Print a line for each kernel, and each case that fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=3000)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    failed = 0
    for kernel, variant in [*(("native", each) for each in native.library().variants), ("numpy", "")]:
        os.environ["NISHIMORI_KERNEL"] = kernel
        os.environ["NISHIMORI_NATIVE_VARIANT"] = variant
        found: Counter[str] = Counter()
        for number in range(options.first, options.first + options.cases):
            for method, outcome in check(number, PROMISED[kernel]).items():
                found[outcome.split(":")[0]] += 1
                if outcome.startswith("WRONG"):
                    failed += 1
                    print(f"{kernel} {variant} case {number} {method}: {outcome}", flush=True)
        print(f"{kernel} {variant}: {options.cases} cases, {dict(found)}", flush=True)
    sys.exit(min(failed, 1))


def check(number: int, promised: float) -> dict[str, str]:
    """What comes of EC and of TS in one case."""
    logits, labels, weights = drawn(number)
    options = {} if weights is None else {"sample_weight": weights}
    outcomes = {}
    for method, gap in (("ec", ec_gap), ("ts", ts_gap)):
        exact = gap_of(gap, logits, labels, weights)
        try:
            fitted = nishimori.calibrator(method).fit(logits, labels, **options)
        except NoTemperatureError:
            outcomes[method] = "WRONG: refused" if has_root(exact, logits, method) else "no temperature"
        except NotConvergedError:
            outcomes[method] = "undecided"
        except InputError as error:
            known = "masked class" in str(error)
            outcomes[method] = "masked label" if known and method == "ts" else f"WRONG: {error}"
        else:
            T = np.longdouble(fitted.temperature_)
            is_right = exact(T * (1 - np.longdouble(promised))) > 0 > exact(T * (1 + np.longdouble(promised)))
            outcomes[method] = "right" if is_right else f"WRONG: T = {fitted.temperature_!r}"
    return outcomes


def drawn(number: int) -> tuple[Any, Any, Any]:
    """Logits, labels and weights, or None for ones."""
    rng = np.random.default_rng([7, number])
    k = int(rng.choice([2, 3, 5, 10, 33, 64, 100, 130, 257, 1000]))
    n = int(10 ** rng.uniform(0.7, 4.3 if k < 50 else 3))
    scale = float(10 ** rng.choice([0, 0, 0, -6, 3, rng.uniform(-12, 12)]))
    logits = rng.normal(size=(n, k)) * rng.uniform(0.3, 6)
    if rng.random() < 0.3:
        logits = rng.standard_t(2, size=(n, k)) * 2
    if rng.random() < 0.2:
        logits = logits[np.arange(n) % int(rng.integers(1, 60))]
    if rng.random() < 0.2:
        logits = np.round(logits * 2) / 2
    T = float(np.exp(rng.normal() * 0.7))
    labels = (logits / T + rng.gumbel(size=(n, k))).argmax(axis=1)
    noisy = rng.random(n) < rng.choice([0, 0, 0.1, 0.5])
    labels[noisy] = rng.integers(k, size=int(noisy.sum()))
    logits = (logits * scale + rng.choice([0, 100 * scale])).astype(rng.choice([np.float32, np.float64, np.float16]))
    if (logits.dtype == np.float16 and not np.isfinite(logits).all()) or np.abs(logits).max() == 0:
        logits = logits.astype(np.float32)
    logits[~np.isfinite(logits)] = 0
    if rng.random() < 0.15 and k > 2:
        masked = rng.random((n, k)) < 0.3
        masked[np.arange(n), labels] = rng.random(n) < 0.001
        masked[np.arange(n), (labels + 1) % k] = False
        logits[masked] = -np.inf
    weights = None
    if rng.random() < 0.4:
        weights = 10 ** rng.uniform(-rng.choice([0.3, 3, 9]), 0, size=n)
        weights[rng.random(n) < 0.1] = 0
        weights[0] = 1
    return logits, labels, weights


def gap_of(gap: Callable[..., Any], logits: Any, labels: Any, weights: Any) -> Callable[[Any], Any]:
    """The sum of the gaps of all rows at T, in extended precision."""
    w = np.ones(len(labels)) if weights is None else weights
    kept = w > 0
    z, y, w = logits[kept].astype(np.longdouble), labels[kept], w[kept].astype(np.longdouble)
    top = z.argmax(axis=1)
    drops = z - z.max(axis=1, keepdims=True)
    return lambda T: gap(drops, y, top, w, np.longdouble(T))


def ec_gap(drops: Any, labels: Any, top: Any, weights: Any, T: Any) -> Any:
    """Weighted confidence minus correctness, without the difference of two numbers near 1."""
    rows = np.arange(len(labels))
    p = np.exp(drops / T)
    p[rows, top] = 0
    others = p.sum(axis=1)
    return (weights * np.where(top == labels, -others, 1) / (1 + others)).sum()


def ts_gap(drops: Any, labels: Any, top: Any, weights: Any, T: Any) -> Any:  # noqa: ARG001 - as of the other
    """Weighted mean logit minus the logit of the true class."""
    p = np.exp(drops / T)
    mean = (np.where(p > 0, p * drops, 0)).sum(axis=1) / p.sum(axis=1)
    return (weights * (mean - drops[np.arange(len(labels)), labels])).sum()


def has_root(exact: Callable[[Any], Any], logits: Any, method: str) -> bool:
    """Whether the gap is clearly positive at a very low T and negative at a very high one."""
    finite = np.where(np.isfinite(logits), logits, 0).astype(np.longdouble)
    size = (finite.max(axis=1) - finite.min(axis=1)).max()
    cold, hot = exact(size * np.longdouble(1e-12)), exact(size * np.longdouble(1e12))
    flat = _FLAT * (1 if method == "ec" else size)
    return bool(cold > flat and hot < -flat)


if __name__ == "__main__":
    main()
