"""Fit a file larger than the caches from disk: seconds, rates, private memory, beside raw reads and the same rows in memory.

    python bench/speed/files.py FOLDER                         # 4 GB of 1000 classes
    python bench/speed/files.py FOLDER 1 --classes 100
    python bench/speed/files.py FOLDER 2 8 --dask              # beside Dask, the table of bench/results/dask.md

Files are written to FOLDER and deleted at the end.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import nishimori
from nishimori._sums.passes import Mean

_CHUNK = 2**24


def write(path: Path, n_rows: int, n_classes: int) -> np.ndarray:
    """A .npy file of float32 logits that need T = 1.6, and labels drawn at that temperature."""
    rng = np.random.default_rng(0)
    rows = np.lib.format.open_memmap(path, "w+", np.float32, (n_rows, n_classes))
    labels = np.empty(n_rows, np.int64)
    step = max(1, _CHUNK // n_classes)
    for start in range(0, n_rows, step):
        n = min(step, n_rows - start)
        logits = 3 * rng.standard_normal((n, n_classes), np.float32)
        labels[start : start + n] = (logits / 1.6 + rng.gumbel(size=(n, n_classes))).argmax(axis=1)
        rows[start : start + n] = logits
    rows.flush()
    return labels


def read_raw(path: Path) -> None:
    """All bytes, as fast as this machine reads them in one thread."""
    buffer = memoryview(bytearray(2**23))
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def forget(path: Path) -> None:
    """Make the system drop its copy of the file, so that the next reading comes from the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def private_memory(process: int | str = "self") -> int:
    """Bytes of memory that belong to a process alone, its program and mapped files not counted; 0 if it has ended."""
    try:
        with open(f"/proc/{process}/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon"))
    except (OSError, StopIteration):
        return 0


@contextmanager
def watched(peak: list[int]) -> Iterator[None]:
    """Note the largest private memory meanwhile."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.01):
            peak[0] = max(peak[0], private_memory())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def timed(what: str, size: int, work: Callable[[], Any]) -> None:
    """Run ``work`` and print what it took; a result that counts its readings gives the rate of all of them."""
    peak = [private_memory()]
    with watched(peak):
        start, worked = time.perf_counter(), time.process_time()
        result = work()
        seconds, worked = time.perf_counter() - start, time.process_time() - worked
    n_passes = getattr(result, "n_passes", 1)
    rate = n_passes * size / seconds / 1e6
    numbers = f"{seconds:8.2f} s {worked:8.2f} s of CPU {n_passes:3d} readings {rate:8.0f} MB/s"
    print(f"{what:34s} {numbers} {peak[0] / 1e6:8.0f} MB private", flush=True)


def count(batch: Any) -> Mean:
    """A pass that does nothing but count, so that what is left is the reading itself."""
    return Mean(batch.n_rows, 1)


def from_disk(folder: Path, gigabytes: float, n_classes: int) -> None:
    """All measurements, with the file cold and warm."""
    path, n_rows = folder / "nishimori-bench.npy", round(gigabytes * 1e9 / 4 / n_classes)
    try:
        labels = write(path, n_rows, n_classes)
        size = path.stat().st_size
        print(f"{n_rows} x {n_classes} float32, {size / 1e9:.1f} GB")
        for state in ("cold", "warm"):
            for what, work in {
                "raw read": lambda: read_raw(path),
                "one reading, which checks values": lambda: nishimori.rows(path, labels).gather(count),
                "temperatures": lambda: nishimori.temperatures(path, labels),
                "temperatures, memory map": lambda: nishimori.temperatures(np.load(path, mmap_mode="r"), labels),
                "evaluate": lambda: nishimori.evaluate(path, labels),
            }.items():
                if state == "cold":
                    forget(path)
                timed(f"{what}, {state}", size, work)
        logits = np.load(path)
        timed("temperatures, array in memory", size, lambda: nishimori.temperatures(logits, labels))
        timed("evaluate, array in memory", size, lambda: nishimori.evaluate(logits, labels))
    finally:
        path.unlink(missing_ok=True)


# Temperatures of a large file through Dask and by nishimori alone: seconds, CPU time and private memory of all processes.
#
# Each file is read once before anything is timed. Each measurement runs in a process of its own, with one core or two, and
# prints a row of a table; overhead compares one core with one core.

# Logits in a chunk: 128 MiB in single precision, which is the size that Dask chooses.
_NUMBERS = 2**25

_HEAD = "| data | computed by | cores | seconds | CPU seconds | readings | client, MB | largest worker, MB | overhead |"


def rows_of(path: str, place: np.ndarray) -> np.ndarray:
    """Some rows of a memory map, opened where the chunk is needed: Dask would copy one that it is given."""
    first, last = place[0]
    return np.load(path, mmap_mode="r")[first:last]


def in_chunks(path: Path) -> Any:
    """The file as an array of Dask."""
    import dask.array as da  # noqa: PLC0415 - nor its memory where a file is read without it

    n_rows, n_classes = np.load(path, mmap_mode="r").shape
    step = max(1, _NUMBERS // n_classes)
    edges = np.array([[start, min(start + step, n_rows)] for start in range(0, n_rows, step)])
    places = da.from_array(edges, chunks=(1, 2))
    sizes = tuple((edges[:, 1] - edges[:, 0]).tolist())
    return places.map_blocks(partial(rows_of, str(path)), chunks=(sizes, (n_classes,)), dtype=np.float32, meta=np.empty((0, 0)))


class Watch(threading.Thread):
    """The largest private memory of some processes."""

    def __init__(self, processes: list[int]) -> None:
        super().__init__(daemon=True)
        self.peaks, self.done = dict.fromkeys(processes, 0), threading.Event()

    def run(self) -> None:
        """Look fifty times a second."""
        while not self.done.wait(0.02):
            self.peaks = {each: max(peak, private_memory(each)) for each, peak in self.peaks.items()}


def cpu_seconds(processes: list[int]) -> float:
    """CPU time of some processes until now."""
    ticks = 0
    for each in processes:
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def measured(work: Any, workers: list[int]) -> dict[str, float]:
    """What one fit takes, after a short one that loads the libraries everywhere."""
    processes = [os.getpid(), *workers]
    watch = Watch(processes)
    watch.start()
    start, before = time.perf_counter(), cpu_seconds(processes)
    found = work()
    seconds, cpu = time.perf_counter() - start, cpu_seconds(processes) - before
    watch.done.set()
    watch.join()
    client, *others = watch.peaks.values()
    return {
        "seconds": seconds,
        "cpu": cpu,
        "readings": found.n_passes,
        "client": client / 1e6,
        "worker": max(others, default=0) / 1e6,
        "ec": found.ec,
    }


def run(kind: str, cores: int, path: Path) -> dict[str, float]:
    """One measurement, in this process and those that it starts."""
    import dask.array as da  # noqa: PLC0415
    from distributed import Client, LocalCluster  # noqa: PLC0415

    import dask  # noqa: PLC0415

    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    os.environ["NISHIMORI_KERNEL"] = "native"
    labels = np.load(path.with_suffix(".labels.npy"))
    small = np.load(path, mmap_mode="r")[:2000]
    if kind == "alone":
        nishimori.temperatures(np.array(small), labels[:2000])
        return measured(lambda: nishimori.temperatures(path, labels), [])
    logits = in_chunks(path)
    their = da.from_array(labels.astype(np.int16), chunks=(logits.chunks[0],))
    if kind == "threads":
        with dask.config.set(scheduler="threads", num_workers=cores):
            nishimori.temperatures(logits[:2000].rechunk((250, -1)), labels[:2000])
            return measured(lambda: nishimori.temperatures(logits, their), [])
    with (
        LocalCluster(n_workers=cores, processes=True, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        workers = list(client.run(os.getpid).values())
        for _ in range(2):
            nishimori.temperatures(logits[: 2000 * cores].rechunk((250, -1)), labels[: 2000 * cores])
        return measured(lambda: nishimori.temperatures(logits, their), workers)


def child(kind: str, cores: int, path: Path) -> dict[str, float]:
    """The same in a new process."""
    command = [sys.executable, __file__, "--run", kind, "--cores", str(cores), str(path)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603 - this file
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def beside_dask(folder: Path, sizes: list[float], n_classes: int) -> None:
    """All measurements with and without Dask."""
    print(_HEAD)
    print("|" + "---|" * 9)
    for gigabytes in sizes:
        path = folder / "nishimori-dask.npy"
        try:
            labels = write(path, round(gigabytes * 1e9 / 4 / n_classes), n_classes)
            np.save(path.with_suffix(".labels.npy"), labels)
            read_raw(path)
            alone = child("alone", 1, path)
            table = {("nishimori alone", 1): alone}
            table |= {
                (f"Dask, {kind}", cores): child(kind, cores, path) for cores in (1, 2) for kind in ("threads", "processes")
            }
            for (kind, cores), found in table.items():
                assert abs(found["ec"] / alone["ec"] - 1) < 1e-8
                share = f"{100 * (found['seconds'] / alone['seconds'] - 1):+.0f} %" if cores == 1 and found is not alone else ""
                times = f"{found['seconds']:.2f} | {found['cpu']:.2f} | {found['readings']:.0f}"
                worker = f"{found['worker']:.0f}" if found["worker"] else ""
                print(
                    f"| {gigabytes:g} GB | {kind} | {cores} | {times} | {found['client']:.0f} | {worker} | {share} |",
                    flush=True,
                )
        finally:
            for each in (path, path.with_suffix(".labels.npy")):
                each.unlink(missing_ok=True)


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("gigabytes", type=float, nargs="*", help="4, with Dask 2 and 8")
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--dask", action="store_true", help="compare with Dask")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    parser.add_argument("--cores", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(run(options.run, options.cores, options.folder)))
    elif options.dask:
        beside_dask(options.folder, options.gigabytes or [2.0, 8.0], options.classes)
    else:
        for gigabytes in options.gigabytes or [4.0]:
            from_disk(options.folder, gigabytes, options.classes)


if __name__ == "__main__":
    main()
