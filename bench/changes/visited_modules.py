"""Which modules of nishimori a call runs through, in the order of the first call: what a reader visits to follow it.

python bench/changes/visited_modules.py           how many, for fit, evaluate, compare, the shell's fit and torch.calibrate
python bench/changes/visited_modules.py --list    their names too
"""

import argparse
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import nishimori
from nishimori.cli import main

ROOT = Path(nishimori.__file__).parent


def visited(call: Callable[[], Any]) -> list[str]:
    """Modules of which some function is called, without what runs when a module is imported."""
    found: dict[str, None] = {}

    def note(frame: Any, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and frame.f_code.co_name != "<module>" and path.is_relative_to(ROOT):
            found[str(path.relative_to(ROOT).with_suffix(""))] = None

    call()  # imports
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return list(found)


def calls(folder: Path) -> dict[str, Callable[[], Any]]:
    """What users do most, on the logits of a bundled network."""
    network = nishimori.data.load("cifar10/resnet20")
    logits, labels = np.asarray(network.validation.logits), np.asarray(network.validation.labels)
    np.savez(folder / "val.npz", logits=logits, labels=labels)
    fitted = nishimori.ExpectationConsistency().fit(logits, labels)

    def shell() -> None:
        words = sys.argv
        sys.argv = ["nishimori", "fit", str(folder / "val.npz"), "-o", str(folder / "c.json"), "--force", "--json"]
        try:
            main()
        except SystemExit:
            pass
        finally:
            sys.argv = words

    found = {
        "fit": lambda: nishimori.ExpectationConsistency().fit(logits, labels),
        "evaluate": lambda: nishimori.evaluate(logits, labels, calibrator=fitted),
        "compare": lambda: nishimori.compare(logits, labels),
        "shell: fit": shell,
    }
    try:
        import torch  # noqa: PLC0415
    except ImportError:
        return found
    z, y = torch.tensor(logits), torch.tensor(labels)
    return found | {"torch.calibrate": lambda: nishimori.torch.calibrate(torch.nn.Identity(), (z, y))}


def run() -> None:
    """Print the numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        for name, call in calls(Path(folder)).items():
            modules = visited(call)
            lines = sum(len((ROOT / f"{each}.py").read_text(encoding="utf-8").splitlines()) for each in modules)
            print(f"{name:16} {len(modules):3} modules, {lines:5} lines", file=sys.stderr)
            if given.list:
                print("  " + ", ".join(modules), file=sys.stderr)


if __name__ == "__main__":
    run()
