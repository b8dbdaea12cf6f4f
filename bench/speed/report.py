"""How long a report takes, by stage, and how large its page is. Writes `bench/results/report.md`.

    python bench/speed/report.py -o bench/results/report.md

Each report is made by the command `nishimori report` in a process of its own, so that imports count. Stages are seconds of the
processor in the process that reads the data, which other programs hardly change. "processor" also includes the other process,
which draws the page of large data meanwhile. "all" is the time on the clock.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import nishimori

SIZES = ((10_000, 10), (50_000, 1000))
STAGES = ("imports", "reading the file", "temperatures per class", "comparison of methods", "slider", "mistakes", "page")

# Runs the command with a clock around the functions of each stage, and prints the seconds of each.
PROGRAM = """
import sys, time
start = time.process_time()
from nishimori.cli import _report, _run
from nishimori.report import _report as made, _results
spent = {"imports": time.process_time() - start}

def clocked(module, name, stage):
    inner = getattr(module, name)
    def outer(*given, **named):
        begin = time.process_time()
        try:
            return inner(*given, **named)
        finally:
            spent[stage] = spent.get(stage, 0.0) + time.process_time() - begin
    setattr(module, name, outer)

clocked(_report, "data_set", "reading the file")
clocked(_results, "_groups_fitted", "temperatures per class")
clocked(_results, "_compare", "comparison of methods")
clocked(_results, "_slider", "slider")
clocked(_results, "_mistakes", "mistakes")
clocked(made, "page", "page")
sys.argv[0] = "nishimori"
_run.run()
print(spent, file=sys.stderr)
"""


def drawn(n: int, n_classes: int, path: Path) -> None:
    """Logits of a model that is overconfident by a factor of 1.5, more in some classes than in others, in float32."""
    rng = np.random.default_rng(0)
    right = rng.integers(n_classes, size=n)
    logits = rng.normal(size=(n, n_classes)).astype(np.float32)
    logits[np.arange(n), right] += np.log(n_classes) * 0.6
    labels = np.array([rng.choice(n_classes, p=each) for each in _softmax(2.0 * logits)])
    factors = np.exp(0.2 * rng.normal(size=n_classes)).astype(np.float32)
    np.savez(path, logits=logits * 3 * factors[logits.argmax(axis=1), None], labels=labels)


def _softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits.astype(float) - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def measured(path: Path, kernel: str) -> dict[str, float]:
    """Seconds of each stage and of all, seconds of the processor, and megabytes of the page."""
    page = path.with_suffix(".html")
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-c", PROGRAM, "report", str(path), "-o", str(page), "--force"]
    settings = os.environ | {"NISHIMORI_KERNEL": kernel}
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=True)  # noqa: S603
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    stages = eval(done.stderr.splitlines()[-1])  # noqa: S307 - what the program above printed
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {**stages, "all": wall, "processor": busy, "page in MB": page.stat().st_size / 1e6}


def table(found: dict[str, dict[str, float]]) -> str:
    """One column per report."""
    names = (*STAGES, "all", "processor", "page in MB")
    lines = ["| | " + " | ".join(found) + " |", "|---" * (len(found) + 1) + "|"]
    lines += [f"| {name} | " + " | ".join(f"{each.get(name, 0.0):.1f}" for each in found.values()) + " |" for name in names]
    return "\n".join(lines)


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--repeat", type=int, default=3, help="the fastest of so many runs is shown")
    options = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for n, n_classes in SIZES:
            path = Path(folder) / f"{n}x{n_classes}.npz"
            drawn(n, n_classes, path)
            for kernel in ("native", "numpy"):
                runs = [measured(path, kernel) for _ in range(options.repeat)]
                found[f"{n:,} × {n_classes:,}, {kernel}"] = min(
                    runs, key=lambda each: each["processor"]
                )  # the first run may compile
                print(table(found), flush=True)
    if options.output is not None:
        busy = f"{os.getloadavg()[1]:.1f} processes ran on {os.cpu_count()} cores on average."
        about = (
            f"Seconds of the processor by stage and in all, and on the clock (all); nishimori {nishimori.__version__}; {busy}"
        )
        text = f"# Time and size of a report\n\n{about}\n\n{table(found)}\n"
        options.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
