"""Time to find T: nishimori (both temperatures) beside one read, one `numpy.exp` pass and other packages, in one process.

    python bench/speed/fit.py                                          all sizes, about 8 minutes
    python bench/speed/fit.py --sizes 10000x10 5000x100 --output table.md
    python bench/speed/fit.py --peers "SciPy EC" scikit-learn
    python bench/speed/fit.py --kinds-only --sizes 1000000x10          nishimori on all kinds of data
    python bench/speed/fit.py --file logits.npy labels.npy             your own data

Times are CPU times of one thread, the best of several runs, in units of one `numpy.exp(logits, out=out)` over the same float32
array in the same run, so that numbers compare between machines. In brackets: the relative error of T against a float64 root.

How many passes a fit takes depends on the data. `KINDS` are drawn at each size; the median and the worst of them are printed,
and the worst is what the README quotes. Other packages are timed on the first kind, which is the kindest.
`requirements/bench.txt` lists the other packages; those that are not installed are left out.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"

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
from nishimori._kernels import native
from peers import PEERS

Table = dict[str, dict[str, str]]
"""Cells by row and column."""

SIZES = ("10000x10", "5000x100", "1000000x10", "200000x100", "50000x1000", "2000x32000", "1000x128000")

KERNELS = ("array_api", "numpy", "native")

# In units of `numpy.exp`.
GOALS = {
    "10000x10": {"native": 11, "numpy": 125},
    "5000x100": {"native": 12, "numpy": 39},
    "1000000x10": {"native": 5, "numpy": 48},
    "200000x100": {"native": 4.5, "numpy": 21},
    "50000x1000": {"native": 3, "numpy": 10},
    "2000x32000": {"native": 3, "numpy": 10},
    "1000x128000": {"native": 3, "numpy": 10},
}

RIGHT = 1e-4  # a peer that is further off has not found T

_MEMORY, _MEMORY_PER_ROW = 64, 200e-6  # the goal in MB: a constant, and 25 numbers of float64 per row


def main() -> None:
    """Print the table, and write it after each size."""
    options = arguments()
    if options.one:
        print(peak_memory(options.one[0], options.one[1]))
        return
    warnings.simplefilter("ignore")
    table: Table = {}
    if options.kinds_only:
        for size in options.sizes:
            measure_kinds(table, size, options.budget)
        print(markdown(table, options.sizes))
        return
    fewest: dict[str, float] = {}  # the fewest units that each peer took at the sizes before
    sizes = ["file"] if options.file else options.sizes
    for size in sizes:
        start = time.perf_counter()
        logits, labels = from_files(*options.file) if options.file else drawn(*shape(size))
        measure(table, fewest, size, logits, labels, options)
        if not options.file:
            measure_kinds(table, size, options.budget)
            for kernel in kernels():
                put(table, f"memory beyond the input, {kernel}, MB", size, memory(size, kernel))
        print(f"{size}: {time.perf_counter() - start:.0f} s", file=sys.stderr)
        if options.output:
            options.output.write_text(markdown(table, sizes))
    print(markdown(table, sizes))


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="*", default=list(SIZES), help="samples x classes, such as 10000x10")
    names = [peer.name for peer in PEERS]
    parser.add_argument("--peers", nargs="*", default=names, choices=[*names, []], metavar="PEER", help=", ".join(names))
    parser.add_argument("--file", nargs=2, type=Path, metavar=("LOGITS", "LABELS"), help="two .npy files instead of sizes")
    parser.add_argument("--kinds-only", action="store_true", help="time nishimori alone, on all kinds of data")
    parser.add_argument("--output", type=Path, help="Markdown file to write the table to")
    parser.add_argument("--budget", type=float, default=1.0, help="seconds to repeat each call for")
    parser.add_argument("--limit", type=float, default=25.0, help="leave out a peer that would take more seconds than this")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


def shape(size: str) -> tuple[int, int]:
    """Samples and classes."""
    n, _, k = size.partition("x")
    return int(n), int(k)


def from_files(logits: Path, labels: Path) -> tuple[Any, Any]:
    """The arrays of two .npy files."""
    return np.ascontiguousarray(np.load(logits), dtype=np.float32), np.load(labels).astype(np.int64)


def drawn(n: int, k: int) -> tuple[Any, Any]:
    """Logits of a model that is right in 70 to 95 % of cases, and labels drawn at T = 1.6."""
    rng = np.random.default_rng(0)
    logits, labels = np.empty((n, k), dtype=np.float32), np.empty(n, dtype=np.int64)
    step = max(1, 2**20 // k)
    for start in range(0, n, step):
        block = 2 * rng.standard_normal(size=(min(step, n - start), k), dtype=np.float32)
        # At T = 1.6 the other classes weigh about k exp(1.25²/2), against which the favourite has these odds.
        odds = rng.normal(2.5, 2.0, size=len(block))
        block[np.arange(len(block)), rng.integers(k, size=len(block))] = 1.6 * (np.log(k) + 1.25**2 / 2 + odds)
        weights = np.exp((block - block.max(axis=1, keepdims=True)) / 1.6).cumsum(axis=1, dtype=np.float64)
        where = rng.random(len(block)) * weights[:, -1]
        logits[start : start + step] = block
        labels[start : start + step] = (weights < where[:, None]).sum(axis=1)
    return logits, labels


def separated(n: int, k: int, wrong: float = 0.0) -> tuple[Any, Any]:
    """Logits of a network that was trained for long: the true class leads by a gamma variable. Some labels are wrong."""
    rng = np.random.default_rng(1)
    labels = rng.integers(k, size=n)
    logits = np.empty((n, k), dtype=np.float32)
    step = max(1, 2**20 // k)
    for start in range(0, n, step):
        block = rng.standard_normal(size=(min(step, n - start), k), dtype=np.float32)
        lead = rng.gamma(3, 1.2, size=len(block)) + 0.3 * np.log(k)
        block[np.arange(len(block)), labels[start : start + step]] += lead.astype(np.float32)
        logits[start : start + step] = 1.7 * block
    other = (labels + rng.integers(1, k, size=n)) % k
    return logits, np.where(rng.random(n) < wrong, other, labels)


def resampled(n: int, k: int, *, by_confidence: bool = False) -> tuple[Any, Any]:
    """Rows of a bundled network with this many classes, drawn with replacement; in the order of their confidence, if wanted."""
    network = nishimori.data.load(NETWORKS[k])
    logits = np.concatenate([network.validation.logits, network.test.logits]).astype(np.float32)
    labels = np.concatenate([network.validation.labels, network.test.labels]).astype(np.int64)
    rows = np.random.default_rng(2).integers(len(labels), size=n)
    if by_confidence:
        spread = np.sort(logits, axis=1)
        rows = rows[np.argsort((spread[:, -1] - spread[:, -2])[rows], kind="stable")]
    return logits[rows], labels[rows]


NETWORKS = {10: "cifar10/resnet20", 100: "cifar100/vgg19"}
"""Bundled networks by their number of classes; the second is that of nishimori-paper."""

KINDS: dict[str, Callable[[int, int], tuple[Any, Any]]] = {
    "labels drawn from softmax(z/T)": drawn,
    "separated classes": separated,
    "separated classes, 10 % wrong labels": lambda n, k: separated(n, k, 0.1),
    "a network, resampled": resampled,
    "a network, sorted by confidence": lambda n, k: resampled(n, k, by_confidence=True),
}


def measure_kinds(table: Table, size: str, budget: float) -> None:
    """Fill in the rows of nishimori on all kinds of data of one size, with the fastest kernel."""
    n, k = shape(size)
    found: dict[str, float] = {}
    for name, draw in KINDS.items():
        if "network" in name and (k not in NETWORKS or NETWORKS[k] not in nishimori.data.names()):
            continue
        logits, labels = draw(n, k)
        unit = exp_pass(logits, budget / 2)
        took, temperatures = timed(lambda logits=logits, labels=labels: ours(kernels()[-1], logits, labels), budget, least=2)
        exact = roots(logits, labels, temperatures)
        error = max(abs(temperatures.ec / exact["ec"] - 1), abs(temperatures.ts / exact["ts"] - 1))
        found[name] = took / unit
        put(table, name, size, f"{number(took / unit)} ({error:.0e})")
        put(table, f"{name}, ms", size, number(1e3 * took))
    put(table, "**median**", size, f"**{number(float(np.median(list(found.values()))))}**")
    put(table, "**worst**", size, f"**{number(max(found.values()))}**")


def kernels() -> list[str]:
    """The kernels that are there; the last one is the fastest."""
    return [name for name in KERNELS if name != "native" or native.is_available()]


def ours(kernel: str, logits: Any, labels: Any) -> Any:
    """Both temperatures with one kernel."""
    os.environ["NISHIMORI_KERNEL"] = kernel
    return nishimori.temperatures(logits, labels)


def measure(table: Table, fewest: dict[str, float], size: str, logits: Any, labels: Any, options: argparse.Namespace) -> None:
    """Fill the column of one size."""
    unit = exp_pass(logits, options.budget / 2)
    read, _ = timed(logits.max, options.budget / 2)
    put(table, "one np.exp pass, ms", size, number(1e3 * unit))
    put(table, "one np.max read", size, number(read / unit))
    exact: dict[str, float] = {}
    mine: dict[str, float] = {}
    for kernel in kernels():
        mine[kernel], found = timed(lambda kernel=kernel: ours(kernel, logits, labels), options.budget, least=2)
        exact = exact or roots(logits, labels, found)
        error = max(abs(found.ec / exact["ec"] - 1), abs(found.ts / exact["ts"] - 1))
        put(table, f"**nishimori, {kernel}**, EC and TS", size, f"**{number(mine[kernel] / unit)}** ({error:.0e})")
        if kernel in GOALS.get(size, {}):
            put(table, f"goal, {kernel}", size, f"{GOALS[size][kernel]:g}")
        put(table, f"nishimori, {kernel}, ms", size, number(1e3 * mine[kernel]))
    fastest = measure_peers(table, fewest, size, (logits, labels), unit, exact, options)
    if fastest is not None:
        name, took = fastest
        put(table, "fastest peer right to 1e-4", size, f"{name}, {number(took / unit)}")
        for kernel, seconds in mine.items():
            put(table, f"how many times faster nishimori is, {kernel}", size, number(took / seconds))


def exp_pass(logits: Any, budget: float) -> float:
    """CPU seconds of `numpy.exp` over all logits: the unit."""
    out = np.empty_like(logits)
    return timed(lambda: np.exp(logits, out=out), budget)[0]


def measure_peers(
    table: Table,
    fewest: dict[str, float],
    size: str,
    data: tuple[Any, Any],
    unit: float,
    exact: dict[str, float],
    options: argparse.Namespace,
) -> tuple[str, float] | None:
    """Fill in the peers; the name and time of the fastest that found its temperature."""
    right: dict[str, float] = {}
    least = 2 if data[0].size < 2**21 else 1  # the first call of all may have to import something
    for peer in PEERS:
        if peer.name not in options.peers or not peer.is_installed:
            continue
        if fewest.get(peer.name, 0.0) * unit > options.limit:
            put(table, peer.name, size, "left out")
            continue
        try:
            took, value = timed(peer.prepare(*data), options.budget, least)
        except Exception as error:  # whatever a peer does, the others are measured
            put(table, peer.name, size, type(error).__name__)
            continue
        fewest[peer.name] = min(took / unit, fewest.get(peer.name, np.inf))
        error = abs(value / exact[peer.finds] - 1)
        if error <= RIGHT:
            right[peer.name] = took
        put(table, peer.name, size, f"{number(took / unit)} ({error:.0e})")
    return min(right.items(), key=lambda item: item[1]) if right else None


def timed(run: Callable[[], Any], budget: float, least: int = 1) -> tuple[float, Any]:
    """CPU seconds of the fastest of at least ``least`` runs within ``budget`` seconds, and the result."""
    best, spent, runs = np.inf, 0.0, 0
    while True:
        start = time.process_time()
        result = run()
        took = time.process_time() - start
        best, spent, runs = min(best, took), spent + took, runs + 1
        if runs >= least and (spent > budget or runs >= 100):
            return best, result


def roots(logits: Any, labels: Any, near: Any) -> dict[str, float]:
    """Both temperatures in float64 from the definitions, by Newton's method in log β from those that were found."""
    x = -np.log([near.ec, near.ts])
    for _ in range(50):
        gap, slope = gaps(logits, labels, *np.exp(x))
        step = np.clip(gap / (slope * np.exp(x)), -1, 1)
        x = x - step
        if np.abs(step).max() < 1e-12:
            break
    return dict(zip(("ec", "ts"), np.exp(-x).tolist(), strict=True))


def gaps(logits: Any, labels: Any, beta_ec: float, beta_ts: float) -> tuple[Any, Any]:
    """Mean confidence minus accuracy, mean logit minus that of the true class, and their derivatives in β."""
    totals = np.zeros((2, 2))
    step = max(1, 2**17 // logits.shape[1])
    for start in range(0, len(labels), step):
        block, true = logits[start : start + step].astype(np.float64), labels[start : start + step]
        rows, top = np.arange(len(block)), block.argmax(axis=1)
        block -= block[rows, top][:, None]
        p = np.exp(beta_ec * block)
        p /= p.sum(axis=1, keepdims=True)
        confidence, mean = p[rows, top], np.vecdot(p, block)
        totals[:, 0] += (confidence - (top == true)).sum(), -(confidence * mean).sum()
        p = np.exp(beta_ts * block)
        p /= p.sum(axis=1, keepdims=True)
        mean = np.vecdot(p, block)
        p *= block
        totals[:, 1] += (mean - block[rows, true]).sum(), (np.vecdot(p, block) - mean**2).sum()
    return totals[0], totals[1]


def memory(size: str, kernel: str) -> str:
    """The peak of one call in a process of its own."""
    command = [sys.executable, __file__, "--one", size, kernel]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - ourselves
    return f"{done.stdout.strip()} (goal {_MEMORY + _MEMORY_PER_ROW * shape(size)[0]:.0f})"


def peak_memory(size: str, kernel: str) -> str:
    """Megabytes of private memory beyond what was held before the call; Linux only."""
    logits, labels = drawn(*shape(size))
    ours(kernel, *drawn(1000, min(2000, logits.shape[1])))  # imports, compilation
    before, files = resident("VmRSS"), resident("RssFile")
    Path("/proc/self/clear_refs").write_text("5")  # from here on VmHWM counts
    ours(kernel, logits, labels)
    return f"{(resident('VmHWM') - before - (resident('RssFile') - files)) / 1e6:.0f}"


def resident(what: str) -> int:
    """Bytes of one line of this process's status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(what + ":"))


def number(value: float) -> str:
    """Two digits, or all digits before the point."""
    return f"{value:.2g}" if value < 10 else f"{value:.0f}"


def put(table: Table, row: str, column: str, cell: str) -> None:
    """Set one cell; rows keep the order in which they first came."""
    table.setdefault(row, {})[column] = cell


def markdown(table: Table, columns: list[str]) -> str:
    """The table as text."""
    lines = ["| | " + " | ".join(columns) + " |", "|---" * (1 + len(columns)) + "|"]
    lines += [f"| {row} | " + " | ".join(cells.get(column, "") for column in columns) + " |" for row, cells in table.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
