"""CPU time of a call with two versions of nishimori, in turn: whether a change made it slower.

    python bench/changes/two_versions.py OLD/src NEW/src --rounds 9
    python bench/changes/two_versions.py OLD/src NEW/src --sizes 10000x10 50000x1000 --call evaluate

Each round starts a process for one version, then one for the other, in an order that alternates. A process fits EC and TS
together, or makes another call, several times and gives the least CPU time. The table has the medians over rounds, their ratio,
and its standard error.
"""

import argparse
import os
import subprocess
import sys
from math import sqrt
from pathlib import Path

import numpy as np

SIZES = ("10000x10", "5000x100", "1000000x10", "200000x100", "50000x1000", "2000x32000")

ONE = """
import sys, time, warnings
import numpy as np
import nishimori
warnings.simplefilter("ignore")
call = {
    "temperatures": lambda *data: nishimori.temperatures(*data),
    "evaluate": lambda *data: nishimori.evaluate(*data, temperature=1.5).to_dict(),
    "compare": lambda *data: nishimori.compare(*data).to_dict(),
    "predict_proba": lambda logits, labels: nishimori.from_temperature(1.5).predict_proba(logits),
    "group": lambda *data: nishimori.GroupConsistency().fit(*data),
}[sys.argv[1]]
for size in sys.argv[2:]:
    n, k = map(int, size.split("x"))
    rng = np.random.default_rng(0)
    logits = (3 * rng.normal(size=(n, k))).astype(np.float32)
    labels = (logits / 1.6 + rng.gumbel(size=logits.shape).astype(np.float32)).argmax(axis=1)
    call(logits, labels)
    best = float("inf")
    for _ in range(3 if n * k > 10_000_000 else 9):
        start = time.process_time()
        call(logits, labels)
        best = min(best, time.process_time() - start)
    print(best)
"""


def measured(source: str, call: str, sizes: list[str]) -> list[float]:
    """The least CPU time for each size, in a process that imports nishimori from ``source``."""
    path = os.pathsep.join([str(Path(source).resolve()), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    words = [sys.executable, "-c", ONE, call, *sizes]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)  # noqa: S603
    return [float(line) for line in done.stdout.split()]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument(
        "--call", choices=("temperatures", "evaluate", "compare", "predict_proba", "group"), default="temperatures"
    )
    parser.add_argument("--sizes", nargs="+", default=list(SIZES))
    given = parser.parse_args()
    times: dict[str, list[list[float]]] = {"old": [], "new": []}
    for number in range(given.rounds):
        for name in ("old", "new") if number % 2 == 0 else ("new", "old"):
            times[name].append(measured(getattr(given, name), given.call, given.sizes))
    old, new = np.array(times["old"]), np.array(times["new"])
    print("| size | old, ms | new, ms | new / old | standard error |\n|---|---|---|---|---|")
    for column, size in enumerate(given.sizes):
        ratios = new[:, column] / old[:, column]
        before, after = np.median(old[:, column]), np.median(new[:, column])
        error = 1.2533 * ratios.std(ddof=1) / sqrt(len(ratios))  # that of a median
        print(f"| {size} | {1e3 * before:.2f} | {1e3 * after:.2f} | {np.median(ratios):.3f} | {error:.3f} |")


if __name__ == "__main__":
    main()
