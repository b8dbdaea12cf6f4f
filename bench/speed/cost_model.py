"""What fits and sketches cost, as a formula: its constants on this machine, its predictions against measurements, and two jobs.

Run ``python bench/speed/cost_model.py FOLDER [--sizes GIGABYTES ...] [--write]``. Files are written to FOLDER and deleted at
the end. Constants come from runs of 64 MB (sketches: 8 MB), predictions are for 0.1, 0.5 and 2 GB. ``--write`` writes
bench/results/cost_model.md, whose main numbers docs/scaling.md quotes.
At most 2 GB of disk, and 1.5 GB of memory besides the file that the system keeps in its cache.
"""

import argparse
import itertools
import os
import pickle
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

import dask
import nishimori
from nishimori._rows.entry import open_rows
from nishimori._support.progress import silent

# The cost model: seconds of a fit or a sketch as a function of the data, the machines and a few constants.
#
#     computing = rows × (per row + per logit × classes) × crowding
#     seconds = start + readings × (max(bytes / bandwidth, computing) / workers + tasks × latency)
#
# Crowding is how much slower a worker is beside others on the same machine, which share its cores and memory. The start is what
# the same call takes on little data; with Dask, it is mostly the messages of the search in a sample. The scheduler hands out
# tasks one after the other, so their latency is not divided by the number of workers.


@dataclass(frozen=True)
class Cost:
    """Seconds of one pass by one process: per row and per logit. ``passes`` is how many a fit takes."""

    per_row: float
    per_logit: float
    passes: int = 1

    def of(self, n_rows: float, n_classes: float) -> float:
        """Seconds of one pass."""
        return n_rows * (self.per_row + n_classes * self.per_logit)


@dataclass(frozen=True)
class Job:
    """Logits, and the machines that read them. ``bandwidth`` is that of one worker, in bytes per second."""

    n_rows: float
    n_classes: int
    item_size: int
    n_workers: int
    n_tasks: float
    bandwidth: float
    latency: float
    start: float = 0.0
    crowding: float = 1.0

    @property
    def n_bytes(self) -> float:
        return self.n_rows * self.n_classes * self.item_size

    def parts(self, cost: Cost) -> dict[str, float]:
        """Seconds of one reading, by what they are spent on."""
        return {
            "reading": self.n_bytes / self.bandwidth / self.n_workers,
            "computing": cost.of(self.n_rows, self.n_classes) * self.crowding / self.n_workers,
            "scheduling": self.n_tasks * self.latency,
        }

    def seconds(self, cost: Cost) -> float:
        """How long it takes."""
        parts = self.parts(cost)
        return self.start + cost.passes * (max(parts["reading"], parts["computing"]) + parts["scheduling"])

    def bottleneck(self, cost: Cost) -> str:
        """What most of the time is spent on."""
        parts = self.parts(cost)
        return max(parts, key=lambda each: parts[each])


def lasting(seconds: float) -> str:
    """A duration in a unit that suits it."""
    for unit, size in (("years", 3.156e7), ("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= size:
            return f"{seconds / size:,.3g} {unit}"
    return f"{seconds:.2g} s"


def sized(n_bytes: float) -> str:
    """A number of bytes in a unit that suits it."""
    for unit, size in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= size:
            return f"{n_bytes / size:.3g} {unit}"
    return f"{n_bytes:.0f} bytes"


# What travels between machines, in bytes, and how the standard error of T falls with the number of rows.

N_ROWS, N_CLASSES, N_CLUSTERS = 20_000, 10, 1000


class Recorded(nishimori.Rows):
    """Rows whose passes and sums are pickled, as they are where they travel."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.clusters = inner.clusters
        self.sent: list[tuple[int, int]] = []

    n_classes = N_CLASSES
    n_rows = N_ROWS

    def gather(self, pass_: Callable[[Any], Any], report: Any = silent) -> Any:
        """The sums, after their size has been noted."""
        sums = self.inner.gather(pass_, report)
        self.sent.append((len(pickle.dumps(pass_)), len(pickle.dumps(sums))))
        return sums

    def sample(self, size: int) -> Any:
        """Too small to count."""
        return self.inner.sample(size)


def messages() -> dict[str, tuple[int, int, int]]:
    """Bytes per task of a fit, a scorecard and a sketch: to the worker, back, and back if rows belong to clusters.

    Of several passes, the largest.
    """
    rng = np.random.default_rng(0)
    logits = 3 * rng.standard_normal((N_ROWS, N_CLASSES), np.float32)
    labels = (logits / 1.6 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    documents = rng.integers(N_CLUSTERS, size=N_ROWS)
    found = {}
    for what, run in {"fit": nishimori.temperatures, "evaluate": nishimori.evaluate}.items():
        plain, clustered = (Recorded(open_rows(logits, labels, clusters=clusters)) for clusters in (None, documents))
        run(plain)
        run(clustered)
        there = max(pass_ for pass_, _ in plain.sent)
        found[what] = (there, *(max(sums for _, sums in rows.sent) for rows in (plain, clustered)))
    sketches = [nishimori.Sketch().update(logits, labels, clusters=clusters) for clusters in (None, documents)]
    found["sketch"] = (len(pickle.dumps(nishimori.Sketch()._survey)), *(len(each.to_bytes()) for each in sketches))
    return found


def spread() -> dict[str, tuple[float, float, float]]:
    """The least, the middle and the largest c of the bundled networks, where the standard error of T is c·T/√n."""
    found: dict[str, list[float]] = {"ec": [], "ts": []}
    for name in nishimori.data.names():
        rows = nishimori.data.load(name).validation
        fitted = nishimori.temperatures(rows.logits, rows.labels)
        for method, values in found.items():
            error = getattr(fitted, f"{method}_se")
            values.append(error / getattr(fitted, method) * np.sqrt(len(rows.labels)))
    return {method: (min(values), float(np.median(values)), max(values)) for method, values in found.items()}


# The tables of the cost model: constants, messages, and what the formula says about two large jobs.

# Bytes of logits that one task of a large job reads, unless this would make more than 100 tasks per worker.
CHUNK, PER_WORKER = 2.56e8, 100

# Bytes per second that one worker gets from shared storage: an assumption, which is a tenth of a network of 80 Gbit/s.
STORAGE = 1e9

# Readings of a fit after a sample: one or two.
PASSES = 2

# Rows, classes, bytes per logit, workers.
JOBS = {
    "1e9 rows × 1000 classes, float32": (1e9, 1000, 4, 100),
    "1e12 tokens × 128,000 classes, bfloat16": (1e12, 128_000, 2, 10_000),
}


def constants_table(
    speeds: dict[str, float], costs: dict[str, Cost], crowds: dict[str, float], delays: dict[str, float]
) -> str:
    """The constants of this machine."""
    lines = ["| constant | value |", "|---|---|"]
    lines += [f"| one read of {what} | {speed / 1e9:.2g} GB/s |" for what, speed in speeds.items()]
    for what, cost in costs.items():
        row, logit = 1e6 * cost.per_row, 1e9 * cost.per_logit
        lines.append(f"| {what}: one reading | {row:.3g} µs per row + {logit:.3g} ns per logit |")
    lines += [f"| {what}: crowding, two processes at once | {factor:.2f} |" for what, factor in crowds.items()]
    lines += [f"| {what} | {1e3 * delay:.3g} ms |" for what, delay in delays.items()]
    return "\n".join(lines)


def messages_table(sent: dict[str, tuple[int, int, int]], n_clusters: int) -> str:
    """Bytes per task."""
    lines = [f"| | to the worker | back | back, with {n_clusters:,} clusters |", "|---|---|---|---|"]
    lines += [f"| {what} | {there:,} bytes | {back:,} bytes | {more:,} bytes |" for what, (there, back, more) in sent.items()]
    return "\n".join(lines)


def errors_table(errors: dict[str, tuple[float, float, float]]) -> str:
    """How the standard error of T falls with the number of rows."""
    powers = (4, 6, 9, 12)
    lines = ["| T of | c: median (least, largest) | " + " | ".join(f"1e{power} rows" for power in powers) + " |"]
    lines.append("|---|---|" + "---|" * len(powers))
    for method, (low, middle, high) in errors.items():
        cells = " | ".join(f"{100 * middle / 10 ** (power / 2):.2g} %" for power in powers)
        lines.append(f"| {method.upper()} | {middle:.2f} ({low:.2f}, {high:.2f}) | {cells} |")
    return "\n".join(lines)


def jobs_table(costs: dict[str, Cost], latency: float, sent: dict[str, tuple[int, int, int]]) -> str:
    """What the formula says about large jobs."""
    lines = [
        "| job | what | bytes read | computing | on | takes | most of it is | messages |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, (n_rows, n_classes, item_size, n_workers) in JOBS.items():
        for what, measured, passes in (("fit", costs["fit of chunks"], PASSES), ("sketch", costs["sketch"], 1)):
            cost = replace(measured, passes=passes)
            n_tasks = min(n_rows * n_classes * item_size / CHUNK, PER_WORKER * n_workers)
            job = Job(n_rows, n_classes, item_size, n_workers, n_tasks, STORAGE, latency)
            number, (_, size, _) = passes * n_tasks, sent[what]
            cells = [
                name,
                f"{what}, {passes} pass{'es' if passes > 1 else ''}",
                sized(passes * job.n_bytes),
                f"{lasting(passes * cost.of(n_rows, n_classes))} of one core",
                f"{n_workers:,} workers",
                lasting(job.seconds(cost)),
                job.bottleneck(cost),
                f"{number:,.0f} × {sized(size)} = {sized(number * size)}",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


RESULTS = Path(__file__).parents[1] / "results" / "cost_model.md"
SMALL = 2**24  # logits of the runs that give the constants: 64 MB
TINY = 2**17
PER_TASK = 2**22  # logits of one task: 16 MB
CLASSES = (10, 1000, 32_000)
WORKERS = 2
FEWEST = 1000  # rows; fits to fewer are computed in float64, which takes longer per logit


@dataclass(frozen=True)
class Data:
    """Rows in one .npy file, and the ranges of rows that tasks read."""

    path: Path
    labels: Path
    n_rows: int
    n_classes: int

    @property
    def ranges(self) -> list[tuple["Data", int, int]]:
        """Ranges of 16 MB, or eight if there are fewer."""
        n_tasks = max(8, round(self.n_rows * self.n_classes / PER_TASK))
        edges = [self.n_rows * i // n_tasks for i in range(n_tasks + 1)]
        return [(self, low, high) for low, high in itertools.pairwise(edges)]

    def logits(self, low: int, high: int) -> Any:
        """Some rows, opened by the process that reads them."""
        return np.load(self.path, mmap_mode="r")[low:high]

    def true_classes(self, low: int, high: int) -> Any:
        """Their labels."""
        return np.array(np.load(self.labels, mmap_mode="r")[low:high])


@contextmanager
def drawn(folder: Path, n_logits: float, n_classes: int) -> Iterator[Data]:
    """A file of float32 logits, all rows different, with labels drawn at T = 1.6; deleted at the end."""
    rng = np.random.default_rng(0)
    n_rows = round(n_logits / n_classes)
    with tempfile.TemporaryDirectory(dir=folder) as inside:
        data = Data(Path(inside) / "logits.npy", Path(inside) / "labels.npy", n_rows, n_classes)
        rows = np.lib.format.open_memmap(data.path, "w+", np.float32, (n_rows, n_classes))
        labels = np.empty(n_rows, np.int64)
        step = max(1, 2**22 // n_classes)
        for start in range(0, n_rows, step):
            n = min(step, n_rows - start)
            logits = 2 * rng.standard_normal((n, n_classes), np.float32)
            logits[np.arange(n), rng.integers(n_classes, size=n)] += 4 + 1.6 * np.log(n_classes)  # a clear winner
            noise = np.log(1e-30 + rng.standard_exponential((n, n_classes), np.float32))  # minus Gumbel's distribution
            labels[start : start + n] = (logits / np.float32(1.6) - noise).argmax(axis=1)
            rows[start : start + n] = logits
        rows.flush()
        np.save(data.labels, labels)
        yield data


def sketch_of(task: tuple[Data, int, int]) -> bytes:
    """The map step."""
    data, low, high = task
    return nishimori.Sketch().update(data.logits(low, high), data.true_classes(low, high)).to_bytes()


def nothing(size: int) -> bytes:
    """A task that does nothing and returns as much as a sketch."""
    return bytes(size)


def fit_of(data: Data) -> float:
    """Both temperatures in another process."""
    return nishimori.temperatures(data.path, data.labels).accuracy


class Runs:
    """The calls that are measured. Each returns how often it has read the data."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self.pool = pool

    def fit(self, data: Data) -> int:
        """Both temperatures, in this process."""
        return nishimori.temperatures(data.path, data.labels).n_passes

    def sketch(self, data: Data) -> int:
        """A sketch, in this process."""
        sketch_of((data, 0, data.n_rows))
        return 1

    def pool_sketch(self, data: Data) -> int:
        """A sketch, by two processes."""
        total: Any = sum(map(nishimori.Sketch.from_bytes, self.pool.map(sketch_of, data.ranges)))
        assert total.n_samples == data.n_rows
        return 1

    def dask_fit(self, data: Data) -> int:
        """Both temperatures, with whatever scheduler Dask has."""
        logits, labels = [], []
        for each, low, high in data.ranges:
            logits.append(da.from_delayed(dask.delayed(each.logits)(low, high), (high - low, data.n_classes), np.float32))
            labels.append(da.from_delayed(dask.delayed(each.true_classes)(low, high), (high - low,), np.int64))
        return nishimori.temperatures(da.concatenate(logits), da.concatenate(labels)).n_passes


def timed(run: Callable[[Data], int], data: Data, repeats: int = 1) -> tuple[float, int]:
    """The least seconds of some calls, and how many passes each took."""
    times, passes = [], 0
    for _ in range(repeats):
        start = time.perf_counter()
        passes = run(data)
        times.append(time.perf_counter() - start)
    return min(times), passes


def cost_of(run: Callable[[Data], int], folder: Path, n_logits: int = SMALL) -> Cost:
    """Seconds per row and per logit of one reading in one process, from 10, 100 and 1000 classes."""
    classes, seconds, passes = np.array([10, 100, 1000]), [], 0
    for n_classes in classes.tolist():
        with drawn(folder, n_logits, n_classes) as data:
            run(data)  # compiles, or loads what was compiled
            took, n = timed(run, data, 3)
        seconds.append(took / n / data.n_rows)
        passes = max(passes, n)
    weights = 1 / np.array(seconds)  # so that relative errors count
    design = np.stack([weights, weights * classes], axis=1)
    per_row, per_logit = np.linalg.lstsq(design, np.ones(3), rcond=None)[0]
    return Cost(max(0.0, float(per_row)), float(per_logit), passes)


def bandwidths(folder: Path) -> dict[str, float]:
    """Bytes per second of one read of an array in memory, and of a file that the system holds in its cache."""
    buffer = memoryview(bytearray(2**23))
    with drawn(folder, 2**26, 1000) as data:
        array = np.load(data.path)

        def read(_: Data) -> int:
            with data.path.open("rb", buffering=0) as file:
                while file.readinto(buffer):
                    pass
            return 1

        return {
            "an array in memory": array.nbytes / timed(lambda _: int(array.max()), data, 5)[0],
            "a file in the system's cache": array.nbytes / timed(read, data, 5)[0],
        }


def latency(run: Callable[[list[int]], Any]) -> float:
    """Seconds per task that does nothing and returns 31 kB."""
    sizes = [31_000] * 400
    run(sizes)
    start = time.perf_counter()
    run(sizes)
    return (time.perf_counter() - start) / len(sizes)


def crowding(pool: ProcessPoolExecutor, work: Callable[[Any], Any], argument: Any) -> float:
    """How much longer the same work takes in each of two processes at once than in one."""

    def least(copies: int) -> float:
        list(pool.map(work, [argument] * WORKERS))
        times = []
        for _ in range(3):
            start = time.perf_counter()
            list(pool.map(work, [argument] * copies))
            times.append(time.perf_counter() - start)
        return min(times)

    return max(1.0, least(WORKERS) / least(1))


@contextmanager
def cluster() -> Iterator[Any]:
    """A client of two workers of Dask with one thread each."""
    options = {"n_workers": WORKERS, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(host="127.0.0.1", **options) as local, Client(local) as client:
        yield client


@dataclass(frozen=True)
class Kind:
    """A call that is measured: by how many processes, with which cost per reading, latency per task and seconds of start."""

    what: str
    run: Callable[[Data], int]
    cost: Cost
    n_workers: int = 1
    latency: float = 0.0
    crowding: float = 1.0
    start: float = 0.0

    def started(self, folder: Path) -> "Kind":
        """With the seconds that it takes on little data, after all processes have loaded what they need."""
        with drawn(folder, SMALL, 100) as data:
            self.run(data)
        with drawn(folder, TINY, 100) as data:
            return replace(self, start=timed(self.run, data, 3)[0])


def checked(kinds: list[Kind], folder: Path, sizes: list[float], speed: float) -> str:
    """Predictions against measurements."""
    lines = [
        "| data | classes | what | passes | predicted | measured | measured / predicted |",
        "|---|---|---|---|---|---|---|",
    ]
    for gigabytes in sizes:
        for n_classes in CLASSES:
            if gigabytes * 1e9 / 4 / n_classes < FEWEST:
                continue
            with drawn(folder, gigabytes * 1e9 / 4, n_classes) as data:
                for kind in kinds:
                    measured, passes = timed(kind.run, data)
                    n_tasks = len(data.ranges)
                    job = Job(
                        data.n_rows, n_classes, 4, kind.n_workers, n_tasks, speed, kind.latency, kind.start, kind.crowding
                    )
                    expected = job.seconds(replace(kind.cost, passes=passes))
                    ratio = f"{expected:.2f} s | {measured:.2f} s | {measured / expected:.2f}"
                    lines.append(f"| {gigabytes:g} GB | {n_classes:,} | {kind.what} | {passes} | {ratio} |")
                    print(lines[-1], flush=True)
    return "\n".join(lines)


def measured_parts(folder: Path, sizes: list[float]) -> dict[str, str]:
    """All tables by name."""
    speeds = bandwidths(folder)
    # New processes rather than copies of this one, whose threads belong to Dask.
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool, cluster() as client:
        runs = Runs(pool)
        costs = {"fit": cost_of(runs.fit, folder), "sketch": cost_of(runs.sketch, folder, SMALL // 8)}
        with dask.config.set(scheduler="synchronous"):
            costs["fit of chunks"] = cost_of(runs.dask_fit, folder)
        with drawn(folder, SMALL, 1000) as data:
            crowds = {"fit": crowding(pool, fit_of, data), "sketch": crowding(pool, sketch_of, data.ranges[0])}
        in_pool = latency(lambda sizes: list(pool.map(nothing, sizes)))
        in_dask = latency(lambda sizes: client.gather(client.map(nothing, sizes, pure=False)))
        kinds = [
            Kind("fit, one process", runs.fit, costs["fit"]),
            Kind("sketch, pool of two processes", runs.pool_sketch, costs["sketch"], WORKERS, in_pool, crowds["sketch"]),
            Kind("fit, Dask with two processes", runs.dask_fit, costs["fit of chunks"], WORKERS, in_dask, crowds["fit"]),
        ]
        kinds = [kind.started(folder) for kind in kinds]
        delays = {"a task of a process pool that returns 31 kB": in_pool, "a task of Dask that returns 31 kB": in_dask}
        delays |= {f"start: {kind.what}": kind.start for kind in kinds}
        sent = messages()
        parts = {"constants": constants_table(speeds, costs, crowds, delays), "messages": messages_table(sent, N_CLUSTERS)}
        parts |= {"errors": errors_table(spread()), "jobs": jobs_table(costs, in_dask, sent)}
        print("\n\n".join(parts.values()), flush=True)
        return parts | {"predictions": checked(kinds, folder, sizes, speeds["a file in the system's cache"])}


def main() -> None:
    """Print the tables, and write them if that is wanted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sizes", nargs="+", type=float, default=[0.1, 0.5, 2.0], metavar="GIGABYTES")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    parts = measured_parts(options.folder, options.sizes)
    if options.write:
        write(parts)


INTRODUCTION = """# What fits and sketches cost

Written by `python bench/speed/cost_model.py FOLDER --write` on two cores of an Intel Xeon. docs/scaling.md quotes the
main numbers.

```
computing = rows × (a + b × classes) × crowding
seconds = start + readings × (max(bytes / bandwidth, computing) / workers + tasks × latency)
```

Reading and computing overlap, so the slower one counts. *Start* is what the same call takes on little data. Bytes and
bandwidth are those of one reading by one worker; a and b are the seconds of the kernel per row and per logit. *Crowding*
is how much slower a worker is beside others on the same machine; it is 1 where each worker has a machine of its own. A
scheduler hands out tasks one after the other, so their latency is not divided by the number of workers.
"""
ABOUT = {
    "constants": """## Constants

"Fit of chunks" is a fit to a Dask array. One reading of a fit takes two exponentials and about 20 additions and
multiplications per logit, an update of a sketch about 10 exponentials and 400.""",
    "messages": """## Messages

What one task gets and sends back per reading, as a pickle. A task is a chunk of Dask, a rank or a part. Rows and
classes do not matter.""",
    "errors": """## Standard errors of T

c·T/√n on the validation sets of the bundled networks.""",
    "jobs": """## Two large jobs

Predictions for workers of one core that each read 1 GB/s from a shared storage, which is an assumption. A task reads
256 MB, or a hundredth of a worker's share if that is more.""",
    "predictions": """## Predictions and measurements

The same machine, all files in the cache of the system.""",
}


def write(parts: dict[str, str]) -> None:
    """Replace the results."""
    sections = [f"{ABOUT[name]}\n\n{table}" for name, table in parts.items()]
    RESULTS.write_text("\n\n".join([INTRODUCTION.rstrip(), *sections]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
