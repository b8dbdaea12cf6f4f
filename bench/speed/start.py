"""How long the command ``nishimori`` takes to start: CPU seconds of whole processes, beside Python and what it imports.

    python bench/speed/start.py [REPEATS] > bench/results/start.md

Each number is the least of REPEATS runs, which take
turns with those of the other lines. Byte code is kept in a folder of its own, as an installation has it.
"""

import argparse
import os
import resource
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

_IMPORTS = {
    "Python alone": "pass",
    "`import numpy`": "import numpy",
    "`import typer, typer.rich_utils`": "import typer, typer.rich_utils",
    "`import sklearn.base`": "import sklearn.base",
    "`import nishimori`": "import nishimori",
}
_COMMANDS = (
    "--version",
    "--help",
    "fit --help",
    "fit small.npz -o c.json --force",
    "fit small.npz -o ec.json --force --method ec",
    "fit small.npz -o bias.json --force --method bias",
    "eval small.npz",
    "eval small.npz --calibration c.json",
    "apply c.json small.npz -o p.npz --force",
    "gate small.npz --calibration c.json --bound gap=2%",
)


def seconds(words: list[str], place: Path) -> float:
    """CPU seconds of a process, in user and system mode."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPYCACHEPREFIX": str(place / "byte-code")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(  # noqa: S603 - words of our own
        [sys.executable, *words], cwd=place, env=environment, capture_output=True, text=True, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 3, 4):  # a gate may say no
        sys.exit(f"{' '.join(words)}: {done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(repeats: int) -> None:
    """A table with one line per program."""
    programs = {name: ["-c", code] for name, code in _IMPORTS.items()}
    programs |= {f"`nishimori {words}`": ["-m", "nishimori", *words.split()] for words in _COMMANDS}
    with TemporaryDirectory() as folder:
        place = Path(folder)
        rng = np.random.default_rng(0)
        logits = 3 * rng.normal(size=(2000, 10))
        np.savez(place / "small.npz", logits=logits, labels=(logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1))
        for words in programs.values():
            seconds(words, place)  # writes the byte code
        least = dict.fromkeys(programs, float("inf"))
        for _ in range(repeats):
            least = {name: min(least[name], seconds(words, place)) for name, words in programs.items()}
    print("# How long the command takes to start\n")
    print(f"Written by `python bench/speed/start.py`: CPU seconds of whole processes, the least of {repeats} runs each.")
    print("`small.npz` has 2,000 samples of 10 classes.\n")
    print("| program | CPU, s |\n|---|---|")
    for name, number in least.items():
        print(f"| {name} | {number:.2f} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repeats", type=int, nargs="?", default=10)
    main(parser.parse_args().repeats)
