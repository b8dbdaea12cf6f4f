"""Time of evaluation, prediction and temperatures per group, in units of one `numpy.exp` pass, with the goals beside them.

    python bench/passes.py                                     four sizes and both kernels, about 2 minutes
    python bench/passes.py --sizes 10000x10 --kernels native
    NISHIMORI_NATIVE_VARIANT=avx2 python bench/passes.py       as on a processor without AVX-512

Times are CPU times of one thread, the best of several runs. The unit is one `numpy.exp(logits, out=out)` over the same float32
array in the same process. Where nothing but the time of a call counts, at 10,000 × 10, goals are in milliseconds. The data are
those of `bench/fit.py`. Groups are drawn at random, so that all have the same temperature; "that differ" are groups whose
temperatures vary by 30 %, which takes more readings.
"""

import argparse
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fit import Table, drawn, exp_pass, markdown, number, put, shape, timed  # sets the number of threads, too

import nishimori  # isort: skip
from nishimori._kernels import native  # isort: skip

SIZES = ("1000000x10", "200000x100", "50000x1000", "10000x10")
KERNELS = ("native", "numpy")
N_GROUPS = 10

# Of the native kernel, in units of `numpy.exp`; with "ms" in milliseconds.
GOALS = {
    "predict_proba": ("3", "3", "3", "0.15 ms"),
    "evaluate": ("6", "5", "4", "0.7 ms"),
    "GroupConsistency.fit": ("12", "10", "8", ""),
}


def main() -> None:
    """Print the table, and write it after each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="*", default=list(SIZES), help="samples x classes, such as 10000x10")
    parser.add_argument("--kernels", nargs="*", default=list(KERNELS), choices=KERNELS)
    parser.add_argument("--budget", type=float, default=1.0, help="seconds to repeat each call for")
    parser.add_argument("--output", type=Path, help="Markdown file to write the table to")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(native.description())
    table: Table = {}
    for size in options.sizes:
        measure(table, size, options.kernels, options.budget)
        if options.output:
            options.output.write_text(markdown(table, options.sizes))
    print(markdown(table, options.sizes))


def measure(table: Table, size: str, kernels: list[str], budget: float) -> None:
    """Fill the column of one size."""
    logits, labels = drawn(*shape(size))
    unit = exp_pass(logits, budget)
    put(table, "one np.exp pass, ms", size, number(1e3 * unit))
    for name, call in calls(logits, labels).items():
        for kernel in kernels:
            os.environ["NISHIMORI_KERNEL"] = kernel
            took, _ = timed(call, budget, least=3)
            put(table, f"**{name}**, {kernel}", size, f"{number(took / unit)} ({number(1e3 * took)} ms)")
        if size in SIZES and name in GOALS:
            put(table, f"goal of {name}", size, GOALS[name][SIZES.index(size)])


def calls(logits: Any, labels: Any) -> dict[str, Callable[[], Any]]:
    """What is measured, by name."""
    rng = np.random.default_rng(1)
    groups = rng.integers(N_GROUPS, size=len(labels))
    unlike = logits * np.exp(0.3 * rng.normal(size=N_GROUPS)).astype(np.float32)[groups][:, None]
    calibrator = nishimori.from_temperature(1.6)
    return {
        "predict_proba": lambda: calibrator.predict_proba(logits),
        "evaluate": lambda: nishimori.evaluate(logits, labels, temperature=1.6),
        "GroupConsistency.fit": lambda: nishimori.GroupConsistency(by="groups").fit(logits, labels, groups=groups),
        "GroupConsistency.fit, groups that differ": lambda: nishimori.GroupConsistency(by="groups").fit(
            unlike, labels, groups=groups
        ),
    }


if __name__ == "__main__":
    main()
