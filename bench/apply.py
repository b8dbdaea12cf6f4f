"""Time and private memory of ``nishimori apply`` on a large file of each format.

Private memory is the peak of RssAnon, which leaves out memory-mapped files; it is sampled every 10 ms, on Linux only.

    python bench/apply.py                       0.2 GB per file
    python bench/apply.py --gigabytes 2 npz csv
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import nishimori
from nishimori._files.arrays.new_arrays import new_arrays
from nishimori._files.tables.new_table import new_table

ARRAYS, TABLES = ("npz", "npy", "pt", "safetensors"), ("csv", "csv.gz", "jsonl", "parquet", "feather")
N_CLASSES, BLOCK = 10, 20_000


def main() -> None:
    """Print one line per format."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("formats", nargs="*", default=["npz", "npy", "csv", "parquet"], help=f"of {', '.join(ARRAYS + TABLES)}")
    parser.add_argument("--gigabytes", type=float, default=0.2, help="of float64 scores; text takes twice as much")
    options = parser.parse_args()
    n_rows = int(options.gigabytes * 1e9 / 8 / N_CLASSES)
    print(f"{'format':<12}{'file':>10}{'time':>10}{'private memory':>18}")
    for ending in options.formats:
        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder), ending, n_rows)


def measure(folder: Path, ending: str, n_rows: int) -> None:
    """Write a file, apply a calibration to it, and print a line."""
    nishimori.from_temperature(1.7).save(folder / "c.json")
    scores = folder / f"scores.{ending}"
    write(scores, ending, n_rows)
    where = ["--scores", "probabilities"] if ending in ARRAYS and ending != "npy" else []
    where += ["--columns", "z_*"] if ending in TABLES else []
    command = [sys.executable, "-m", "nishimori", "apply", "c.json", scores.name, "-o", f"p.{ending}", *where]
    start = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)  # noqa: S603 - our own command
    peak = 0
    while process.poll() is None:
        peak = max(peak, private_memory(process.pid))
        time.sleep(0.01)
    seconds = time.perf_counter() - start
    if process.returncode:
        sys.exit(process.stderr.read() if process.stderr else 1)
    print(f"{ending:<12}{scores.stat().st_size / 1e9:>7.2f} GB{seconds:>8.1f} s{peak / 1e6:>15.0f} MB", flush=True)


def write(path: Path, ending: str, n_rows: int) -> None:
    """Scores of ten classes, in tables with a column of row numbers."""
    rng = np.random.default_rng(0)
    blocks = [min(BLOCK, n_rows - first) for first in range(0, n_rows, BLOCK)]
    if ending in ARRAYS:
        # The writer of `apply`, which calls its array `probabilities`.
        with new_arrays(path, (n_rows, N_CLASSES), np.dtype(np.float64), overwrite=False) as file:
            for size in blocks:
                file.write(3 * rng.normal(size=(size, N_CLASSES)))
        return
    names = ["id", *(f"z_{k}" for k in range(N_CLASSES))]
    with new_table(path, names, overwrite=False) as table:
        for number, size in enumerate(blocks):
            scores = 3 * rng.normal(size=(size, N_CLASSES))
            table.write([np.arange(number * BLOCK, number * BLOCK + size), *scores.T])


def private_memory(process: int) -> int:
    """Bytes that are neither shared nor backed by a file; 0 once the process has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon:")), 0)


if __name__ == "__main__":
    main()
