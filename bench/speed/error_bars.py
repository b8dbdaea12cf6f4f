"""What standard errors cost: a fit of both temperatures, with and without them, with clusters, and by the bootstrap.

    python bench/speed/error_bars.py                                1 minute
    python bench/speed/error_bars.py --sizes 10000x10 --output table.md
    python bench/speed/error_bars.py --without ../older/src         also with a version of nishimori that has no standard errors

Times are CPU times of one thread, the best of several runs. The sums behind standard errors are computed with those of the fit,
in the same reading, so that a fit without them exists only in an older version: check one out, say with
``git worktree add ../older 199f854``, and name its folder src. The bootstrap has 1000 resamples.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["NUMBA_NUM_THREADS"] = "1"

import argparse
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import nishimori

SIZES = ("1000x10", "10000x10", "5000x100", "100000x10", "5000x1000")


def main() -> None:
    """Print the table."""
    options = arguments()
    warnings.simplefilter("ignore")
    if options.plain:
        logits, labels = drawn(options.plain)
        print(best(lambda: nishimori.temperatures(logits, labels), options.runs))
        return
    lines = [
        "CPU time of a fit of both temperatures by one thread, and the others as multiples of it: a version without standard",
        "errors, a fit with clusters, and a bootstrap of one temperature with 1000 resamples.",
        "",
        "| samples x classes | fit, ms | without standard errors | with clusters | bootstrap |",
        "|---|---|---|---|---|",
    ]
    for size in options.sizes:
        lines.append(row(size, options))
        print(lines[-1], file=sys.stderr)
    text = "\n".join(lines) + "\n"
    print(text)
    if options.output:
        options.output.write_text(text)


def row(size: str, options: argparse.Namespace) -> str:
    """The times of one size: that of a fit, and the others as multiples of it."""
    logits, labels = drawn(size)
    clusters = np.arange(len(labels)) // 5
    fit = best(lambda: nishimori.temperatures(logits, labels), options.runs)
    grouped = best(lambda: nishimori.temperatures(logits, labels, clusters=clusters), options.runs)
    resampled = best(lambda: nishimori.bootstrap(logits, labels, n_jobs=1), 2)
    plain = "not measured"
    if options.without:
        # In turn, because the speed of a machine changes while others use it.
        pairs = [(without(size, options), in_process(size, options, Path(nishimori.__file__).parents[1])) for _ in range(3)]
        plain = f"{min(pair[0] for pair in pairs) / min(pair[1] for pair in pairs):.2f}"
    return f"| {size.replace('x', ' x ')} | {1e3 * fit:.3g} | {plain} | {grouped / fit:.2f} | {resampled / fit:.1f} |"


def without(size: str, options: argparse.Namespace) -> float:
    """The time of a fit by the older version."""
    return in_process(size, options, options.without)


def in_process(size: str, options: argparse.Namespace, source: Path) -> float:
    """The time of a fit in a process of its own, by the version of the library in a folder."""
    command = [sys.executable, __file__, "--plain", size, "--runs", str(options.runs)]
    environment = os.environ | {"PYTHONPATH": str(source)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)  # noqa: S603 - this file
    return float(done.stdout)


def best(run: Callable[[], Any], runs: int) -> float:
    """The least CPU time in seconds, after a first run that compiles; many runs of what is short."""
    run()
    times = []
    for _ in range(runs):
        start = time.process_time()
        n_done = 0
        while n_done == 0 or time.process_time() - start < 0.05:
            run()
            n_done += 1
        times.append((time.process_time() - start) / n_done)
    return min(times)


def drawn(size: str) -> tuple[np.ndarray, np.ndarray]:
    """Float32 logits, and labels drawn at T = 2."""
    n, k = map(int, size.split("x"))
    rng = np.random.default_rng(0)
    logits = (3 * rng.normal(size=(n, k))).astype(np.float32)
    return logits, (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)


def arguments() -> argparse.Namespace:
    """What was typed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=SIZES)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--without", type=Path, help="the folder src of a version without standard errors")
    parser.add_argument("--plain", help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
