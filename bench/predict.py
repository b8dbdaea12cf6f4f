"""Time and private memory of prediction, beside one pass of `numpy.exp` over the same array.

    python bench/predict.py                              200,000×1000 float32 (two arrays of 0.8 GB)
    python bench/predict.py --rows 784 --classes 32000   as a language model gives them

Each line is measured in a process of its own. Memory is the peak of the resident set during the call beyond what was there
before it (Linux only), so the output itself counts; the last column is that peak in units of the output.
"""

import argparse
import importlib
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import nishimori

METHODS = ("predict_proba", "predict_log_proba", "transform", "predict")
LIBRARIES = ("numpy", "torch")
ROUNDS = 3


def main() -> None:
    """Print one line per library and method."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--libraries", nargs="*", default=list(LIBRARIES), help=f"of {', '.join(LIBRARIES)}")
    parser.add_argument("--methods", nargs="*", default=list(METHODS), help=f"of {', '.join(METHODS)}")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        measure(options.rows, options.classes, *options.one)
        return
    print(f"{'call':<28}{'wall':>10}{'CPU':>10}{'exp passes':>12}{'memory':>12}{'outputs':>10}")
    for library in options.libraries:
        for method in options.methods:
            shape = ["--rows", str(options.rows), "--classes", str(options.classes)]
            subprocess.run([sys.executable, __file__, *shape, "--one", library, method], check=True)  # noqa: S603 - ourselves


def measure(n: int, k: int, library: str, method: str) -> None:
    """Print the line of one call: the best time of some calls, and the peak of the first."""
    logits = 3 * np.random.default_rng(0).standard_normal(size=(n, k), dtype=np.float32)
    unit = exp_pass(logits)
    call = getattr(nishimori.from_temperature(1.7), method)
    data = as_library(logits, library)
    call(data[:2])  # imports
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # from here on VmHWM counts
    size = call(data).nbytes
    peak = resident("VmHWM") - before
    wall, cpu = (min(each) for each in zip(*(seconds(lambda: call(data)) for _ in range(ROUNDS)), strict=True))
    print(
        f"{library + '.' + method:<28}{1e3 * wall:>7.0f} ms{1e3 * cpu:>7.0f} ms{cpu / unit:>12.1f}"
        f"{peak / 1e6:>9.0f} MB{peak / size:>10.2f}",
        flush=True,
    )


def exp_pass(logits: Any) -> float:
    """CPU seconds of `numpy.exp` over all logits."""
    out = np.empty_like(logits)
    return min(seconds(lambda: np.exp(logits, out=out))[1] for _ in range(ROUNDS))


def as_library(logits: Any, library: str) -> Any:
    """The same memory as an array of ``library``."""
    return logits if library == "numpy" else importlib.import_module("torch").from_numpy(logits)


def seconds(call: Any) -> tuple[float, float]:
    """Wall-clock and CPU seconds of one call."""
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - wall, time.process_time() - cpu


def resident(what: str) -> int:
    """Bytes of one line of this process's status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(what + ":"))


if __name__ == "__main__":
    main()
