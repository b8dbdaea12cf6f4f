"""Commands on tables larger than what is kept in memory, in units of the time in which pyarrow reads the same file.

Run ``python bench/speed/tables.py FOLDER [MEGABYTES] [SOURCE ...]``: files of 100 classes are written to FOLDER and deleted at
the end. Each SOURCE is the folder ``src`` of a checkout whose commands are measured too. Every number is that of a process of
its own. The best of several runs is kept, and all run in turn, so that a busy machine slows down all of them alike.
"""

import argparse
import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet

CLASSES = 100
ROUNDS = 2
READ = {
    ".csv": "import sys, pyarrow.csv; pyarrow.csv.read_csv(sys.argv[1])",
    ".jsonl": "import sys, pyarrow.json; pyarrow.json.read_json(sys.argv[1])",
    ".parquet": "import sys, pyarrow.parquet; pyarrow.parquet.read_table(sys.argv[1])",
}


@dataclass(frozen=True)
class Cost:
    """Seconds of waiting and of the processor, and bytes of private memory at the peak."""

    wall: float
    cpu: float
    memory: int

    def best(self, other: "Cost | None") -> "Cost":
        """The smaller numbers of two runs."""
        if other is None:
            return self
        return Cost(min(self.wall, other.wall), min(self.cpu, other.cpu), min(self.memory, other.memory))


def write(folder: Path, megabytes: float) -> list[Path]:
    """The same logits with six digits, which need T = 1.6, and labels, in each format; text has about so many megabytes."""
    rng, n_rows = np.random.default_rng(0), round(megabytes * 1e6 / 8.77 / CLASSES)
    names = ["id", *(f"z_{k}" for k in range(CLASSES)), "label"]
    paths = [folder / f"nishimori-bench{ending}" for ending in READ]
    line = "%d," + "%.6g," * CLASSES + "%d\n"
    as_json = '{"id": %d, "logits": [' + ", ".join(["%.6g"] * CLASSES) + '], "label": %d}\n'
    parquet = None
    with paths[0].open("w") as csv, paths[1].open("w") as json:
        csv.write(",".join(names) + "\n")
        for start in range(0, n_rows, 20_000):
            n = min(20_000, n_rows - start)
            logits = 3 * rng.standard_normal((n, CLASSES))
            labels = (logits / 1.6 + rng.gumbel(size=logits.shape)).argmax(axis=1)
            rows = [
                (start + i, *row, label) for i, (row, label) in enumerate(zip(logits.tolist(), labels.tolist(), strict=True))
            ]
            csv.writelines(line % row for row in rows)
            json.writelines(as_json % row for row in rows)
            columns = [np.arange(start, start + n), *np.ascontiguousarray(logits.T), labels]
            table = pyarrow.table(dict(zip(names, columns, strict=True)))
            parquet = parquet or pyarrow.parquet.ParquetWriter(paths[2], table.schema)
            parquet.write_table(table)
    parquet.close()
    return paths


def measure(words: list[str], source: str | None) -> Cost:
    """Run a program of Python with one thread, and with the modules in ``source``."""
    environment = (
        os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"} | ({"PYTHONPATH": source} if source else {})
    )
    before, start, memory = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter(), 0
    with subprocess.Popen(  # noqa: S603
        [sys.executable, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment
    ) as process:
        while process.poll() is None:
            memory = max(memory, _private(process.pid))
            time.sleep(0.02)
        if process.returncode:
            sys.exit(process.stderr.read().decode())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(time.perf_counter() - start, cpu, memory)


def _private(pid: int) -> int:
    """Bytes of memory that belong to a process alone, its program and mapped files not counted."""
    try:
        with open(f"/proc/{pid}/status") as status:
            return next((int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon")), 0)
    except (FileNotFoundError, ProcessLookupError):
        return 0


def commands(path: Path, folder: Path) -> dict[str, list[str]]:
    """What is measured, by name; the calibration that eval and apply take is that of fit."""
    calibration, output = str(folder / "nishimori-bench.json"), str(folder / f"nishimori-bench-output{path.suffix}")
    labels = ["--labels", "label", *([] if path.suffix == ".jsonl" else ["--ignore", "id"])]
    run = ["-m", "nishimori"]
    return {
        "fit": [*run, "fit", str(path), *labels, "-o", calibration, "--force"],
        "eval": [*run, "eval", str(path), *labels, "--calibration", calibration],
        "apply": [*run, "apply", calibration, str(path), "-o", output, "--force"],
    }


def main(folder: str, megabytes: float, *sources: str) -> None:
    """Write the files, measure, and print a table."""
    place = Path(folder)
    paths: list[Path] = []
    try:
        paths = write(place, megabytes)
        sizes = ", ".join(f"{path.suffix} {path.stat().st_size / 1e6:.0f} MB" for path in paths)
        sys.stdout.write(f"{sizes}; seconds of CPU (of waiting), private memory, CPU in units of pyarrow's reading\n\n")
        sys.stdout.write("| file | | seconds | private memory | units |\n|---|---|---|---|---|\n")
        for path in paths:
            work: dict[str, tuple[list[str], str | None]] = {"pyarrow reads it": (["-c", READ[path.suffix], str(path)], None)}
            for source in (None, *sources):
                for name, words in commands(path, place).items():
                    work[f"**{name}**" if source is None else f"{name}, {source}"] = (words, source)
            found: dict[str, Cost] = {}
            for _ in range(ROUNDS):
                for name, (words, source) in work.items():
                    if source is None or name not in found:  # once is enough for other checkouts
                        found[name] = measure(words, source).best(found.get(name))
            unit = found["pyarrow reads it"].cpu
            for name, cost in found.items():
                seconds, memory = f"{cost.cpu:.1f} ({cost.wall:.1f})", f"{cost.memory / 1e6:.0f} MB"
                sys.stdout.write(f"| {path.suffix} | {name} | {seconds} | {memory} | {cost.cpu / unit:.2f} |\n")
                sys.stdout.flush()
    finally:
        for path in [*paths, *place.glob("nishimori-bench*")]:
            path.unlink(missing_ok=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("megabytes", type=float, nargs="?", default=100.0)
    parser.add_argument("sources", nargs="*")
    options = parser.parse_args()
    main(options.folder, options.megabytes, *options.sources)
