"""Temperatures of a large file through Dask and by nishimori alone: seconds, CPU time and private memory of all processes.

Run ``python bench/dask_overhead.py FOLDER [GIGABYTES ...] [--classes K]``, by default 2 and 8 GB of 1000 classes. Each file is
written to FOLDER and deleted at the end, and is read once before anything is timed. Each measurement runs in a process of its
own, with one core or two, and prints a row of a table; overhead compares one core with one core.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

import dask
import nishimori
from files import read_raw, write

# Logits in a chunk: 128 MiB in single precision, which is the size that Dask chooses.
_NUMBERS = 2**25

_HEAD = "| data | computed by | cores | seconds | CPU seconds | readings | client, MB | largest worker, MB | overhead |"


def rows_of(path: str, place: np.ndarray) -> np.ndarray:
    """Some rows of a memory map, opened where the chunk is needed: Dask would copy one that it is given."""
    first, last = place[0]
    return np.load(path, mmap_mode="r")[first:last]


def in_chunks(path: Path) -> Any:
    """The file as an array of Dask."""
    n_rows, n_classes = np.load(path, mmap_mode="r").shape
    step = max(1, _NUMBERS // n_classes)
    edges = np.array([[start, min(start + step, n_rows)] for start in range(0, n_rows, step)])
    places = da.from_array(edges, chunks=(1, 2))
    sizes = tuple((edges[:, 1] - edges[:, 0]).tolist())
    return places.map_blocks(partial(rows_of, str(path)), chunks=(sizes, (n_classes,)), dtype=np.float32, meta=np.empty((0, 0)))


def anonymous(process: int) -> int:
    """Bytes of memory that belong to a process alone, its program and mapped files not counted."""
    try:
        with open(f"/proc/{process}/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon"))
    except (OSError, StopIteration):  # it has ended
        return 0


class Watch(threading.Thread):
    """The largest private memory of some processes."""

    def __init__(self, processes: list[int]) -> None:
        super().__init__(daemon=True)
        self.peaks, self.done = dict.fromkeys(processes, 0), threading.Event()

    def run(self) -> None:
        """Look fifty times a second."""
        while not self.done.wait(0.02):
            self.peaks = {each: max(peak, anonymous(each)) for each, peak in self.peaks.items()}


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


def main(folder: Path, sizes: list[float], n_classes: int) -> None:
    """All measurements."""
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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("gigabytes", type=float, nargs="*", default=[2.0, 8.0])
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--run")
    parser.add_argument("--cores", type=int, default=1)
    asked = parser.parse_args()
    if asked.run:
        print(json.dumps(run(asked.run, asked.cores, asked.folder)))
    else:
        main(asked.folder, asked.gigabytes, asked.classes)
