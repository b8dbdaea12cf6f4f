"""The first five minutes: from an empty environment to a calibrated model and its report, with a built wheel.

Run ``python bench/first_minutes.py WHEEL >> bench/results/start.md``, with a wheel of ``make release``. Each line is a process
of its own, in a new virtual environment, as people have it on the first day. Seconds are those on the wall and those of the
processor: the first depend on the network and on what else the machine does.
"""

import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

_FIT = """
import nishimori
data = nishimori.data.load("cifar10/resnet20")
fitted = nishimori.ExpectationConsistency().fit(data.validation.logits, data.validation.labels)
print(nishimori.evaluate(data.test.logits, data.test.labels, calibrator=fitted).ece)
"""
_PYTHON, _PIP, _NISHIMORI = "env/bin/python", "env/bin/pip", "env/bin/nishimori"


def seconds(words: list[str], place: Path) -> tuple[float, float]:
    """Seconds on the wall, and of the processor, that a program takes."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(words, cwd=place, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: {done.stdout}{done.stderr}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(wheel: str) -> None:
    """A table with one line per step."""
    path = Path(wheel).resolve()
    steps = {
        "`python -m venv env`": [sys.executable, "-m", "venv", "env"],
        "`pip install nishimori`": [_PIP, "install", "--quiet", str(path)],
        "`import nishimori`, the first time": [_PYTHON, "-c", "import nishimori"],
        "the first fit and evaluation of the bundled network, in Python": [_PYTHON, "-c", _FIT],
        "the same again": [_PYTHON, "-c", _FIT],
        "`nishimori demo`, without a picture": [_NISHIMORI, "demo", "-o", "demo"],
        "`nishimori fit demo/val.npz -o c.json`": [_NISHIMORI, "fit", "demo/val.npz", "-o", "c.json"],
        "`pip install 'nishimori[report]'`": [_PIP, "install", "--quiet", f"{path}[report]"],
        "`nishimori report`, the first": [_NISHIMORI, "report", "demo/val.npz", "demo/test.npz", "-o", "report.html"],
    }
    print("\n## The first five minutes\n")
    print(f"Written by `python bench/first_minutes.py`: {path.name}, Python {sys.version.split()[0]}, an empty environment.\n")
    print("| step | wall, s | CPU, s |\n|---|---|---|")
    whole = [0.0, 0.0]
    with TemporaryDirectory() as folder:
        for name, words in steps.items():
            found = seconds(words, Path(folder))
            whole = [sum(pair) for pair in zip(whole, found, strict=True)]
            print(f"| {name} | {found[0]:.1f} | {found[1]:.1f} |", flush=True)
    print(f"| together | {whole[0]:.0f} | {whole[1]:.0f} |")


if __name__ == "__main__":
    main(sys.argv[1])
