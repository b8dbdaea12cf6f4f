"""Fit a file larger than the caches from disk: seconds, rates, private memory, beside raw reads and the same rows in memory.

Run ``python bench/files.py FOLDER [GIGABYTES] [CLASSES]``. The file is written to FOLDER and deleted at the end.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


def private_memory() -> int:
    """Bytes of memory that belong to this process alone, its program and mapped files not counted."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon"))


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


def main(folder: str, gigabytes: float = 4.0, n_classes: int = 1000) -> None:
    """All measurements, with the file cold and warm."""
    path, n_rows = Path(folder) / "nishimori-bench.npy", round(gigabytes * 1e9 / 4 / n_classes)
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


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1], *map(float, sys.argv[2:3]), *map(int, sys.argv[3:4]))
