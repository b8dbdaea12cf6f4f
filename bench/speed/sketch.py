"""What a sketch costs and how exact it is.

    python bench/speed/sketch.py [FOLDER]
    python bench/speed/sketch.py --ece [NETWORK ...]

The first table: the time of one update in units of one single-threaded `numpy.exp` over the same float32 array in the same run,
and what it should be at most with the native kernel and AVX-512. ``NISHIMORI_KERNEL=numpy`` measures NumPy instead, and
``NISHIMORI_NATIVE_VARIANT`` names other instructions. It needs 2 GB of memory.
The second, if a FOLDER of .npz files with ``logits`` and ``labels`` is named: the largest relative error of T against
a fit to all rows, the logits being multiplied so that T goes from 0.05 to 20; and the largest errors of the metrics at these T.
With --ece instead: the largest error of the ECE of bundled networks, all of them by default, at 161 temperatures from half to
twice T of EC.
"""

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pickle
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import nishimori

# Rows, classes, and the goal.
SIZES = [(1_000_000, 10, 80), (200_000, 100, 60), (50_000, 1_000, 40), (64, 32_000, 40), (16, 128_000, 40)]
TARGETS = np.geomspace(0.05, 20, 25)
METRICS = ("confidence", "brier", "nll", "ece")


def data(n: int, k: int) -> tuple[Any, Any]:
    """Logits with a clear winner most of the time, and labels drawn at T = 2."""
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(n, k)).astype(np.float32)
    logits[np.arange(n), rng.integers(k, size=n)] += 6 + 2 * np.log(k)
    return logits, (logits / 2 + rng.gumbel(size=(n, k)).astype(np.float32)).argmax(axis=1)


def seconds(run: Callable[[], Any], repeats: int = 3) -> float:
    """The least CPU time of some runs."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def cost() -> None:
    """Print the time of an update at each size."""
    print(f"{'rows × classes':>18} {'one exp':>10} {'update':>10} {'ratio':>7} {'goal':>6} {'µs per row':>11}")
    for n, k, goal in SIZES:
        logits, labels = data(n, k)
        out = np.empty_like(logits)
        unit = seconds(lambda: np.exp(logits, out=out), 9)  # noqa: B023 - used at once
        nishimori.Sketch().update(logits[:100], labels[:100])
        took = seconds(lambda: nishimori.Sketch().update(logits, labels))  # noqa: B023
        times = f"{1e3 * unit:>7.2f} ms {1e3 * took:>7.1f} ms {took / unit:>7.0f} {goal:>6} {1e6 * took / n:>11.2f}"
        print(f"{n:>10} × {k:<6} {times}", flush=True)
    print(f"A sketch takes {len(pickle.dumps(nishimori.Sketch().update(logits, labels)))} bytes.\n")


def errors(path: Path) -> dict[str, float]:
    """The largest errors on one file."""
    with np.load(path, allow_pickle=False) as file:
        logits, labels = file["logits"].astype(np.float64), file["labels"]
    exact = nishimori.temperatures(logits, labels)
    worst = dict.fromkeys(("T of EC", "T of TS", *METRICS), 0.0)
    for target in TARGETS:
        scaled = logits * (target / exact.ec)
        sketch = nishimori.Sketch().update(scaled, labels)
        for name, right in (("ec", exact.ec), ("ts", exact.ts)):
            wanted = right * target / exact.ec
            if 0.05 <= wanted <= 20:
                fitted = nishimori.calibrator(name).fit(sketch).temperature_
                worst[f"T of {name.upper()}"] = max(worst[f"T of {name.upper()}"], abs(fitted / wanted - 1))
        mine, theirs = (nishimori.evaluate(*each, temperature=target) for each in ((sketch,), (scaled, labels)))
        for metric in METRICS:
            worst[metric] = max(worst[metric], abs(getattr(mine, metric) - getattr(theirs, metric)))
    return worst


def ece_between_nodes(names: list[str]) -> None:
    """Print the largest error of the ECE of each network, and where it is."""
    for name in names or nishimori.data.names():
        network = nishimori.data.load(name)
        for part in ("validation", "test"):
            rows = getattr(network, part)
            sketch = nishimori.Sketch().update(rows.logits, rows.labels)
            grid = nishimori.temperatures(sketch).ec * np.geomspace(0.5, 2, 161)
            pairs = [
                [nishimori.evaluate(*each, temperature=T).ece for each in ((sketch,), (rows.logits, rows.labels))] for T in grid
            ]
            off = np.array([mine - theirs for mine, theirs in pairs])
            worst = int(np.abs(off).argmax())
            mine, theirs = pairs[worst]
            print(
                f"{name + ', ' + part:<44} {abs(off[worst]):.4f} at T = {grid[worst]:.3f}: {mine:.4f} for {theirs:.4f}",
                flush=True,
            )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--ece", nargs="*", metavar="NETWORK", help="the ECE of bundled networks between the nodes")
    options = parser.parse_args()
    folder = options.folder
    if options.ece is not None:
        ece_between_nodes(options.ece)
        return
    cost()
    if folder is None:
        return
    total: dict[str, float] = {}
    for path in sorted(folder.glob("*.npz")):
        worst = errors(path)
        if not total:
            print(f"{'largest error of':<44}" + "".join(f"{name:>12}" for name in worst))
        print(f"{path.stem:<44}" + "".join(f"{error:>12.1e}" for error in worst.values()), flush=True)
        total = {name: max(error, total.get(name, 0.0)) for name, error in worst.items()}
    print(f"{'all':<44}" + "".join(f"{error:>12.1e}" for error in total.values()))


if __name__ == "__main__":
    main()
