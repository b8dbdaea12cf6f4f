"""The temperature of temperature scaling that other packages find, where the answer is known; for docs/alternatives.md.

Labels are drawn from softmax(z / T), so the minimum of the loss is close to T. ``python bench/alternatives.py``, with
requirements/bench.txt, prints the table of bench/results/alternatives.md.
"""

import time
import warnings
from importlib.metadata import PackageNotFoundError, version

import numpy as np

import nishimori
from peers import PEERS, scipy_ts

CASES = {"T = 0.5": 0.5, "T = 2": 2.0, "T = 30": 30.0}
NAMES = ("scikit-learn", "probmetrics", "netcal float64", "netcal float32", "torch-uncertainty")


def draw(temperature: float, n_samples: int = 5_000, n_classes: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Float32 logits, and labels that follow them at this temperature."""
    rng = np.random.default_rng(0)
    scaled = 2 * rng.normal(size=(n_samples, n_classes))
    labels = (scaled + rng.gumbel(size=scaled.shape)).argmax(axis=1)
    return (temperature * scaled).astype(np.float32), labels


def cell(run, reference: float) -> str:
    """T, in brackets its relative difference from SciPy's minimum in float64, and the median processor time of five fits."""
    times = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(5):
                start = time.process_time()
                found = run()
                times.append(time.process_time() - start)
    except Exception as error:
        return type(error).__name__
    off = abs(found / reference - 1)
    return f"{found:.4g} ({off:.0e}), {np.median(times):.2g} s"


def main() -> None:
    """Print the table in Markdown."""
    data = {title: draw(temperature) for title, temperature in CASES.items()}
    references = {title: scipy_ts(z.astype(np.float64), y)() for title, (z, y) in data.items()}
    print("|  | " + " | ".join(CASES) + " |")
    print("|---|" + "---|" * len(CASES))
    ours = {title: cell(lambda z=z, y=y: nishimori.temperatures(z, y).ts, references[title]) for title, (z, y) in data.items()}
    print("| nishimori | " + " | ".join(ours.values()) + " |")
    for peer in PEERS:
        if peer.name in NAMES and peer.is_installed:
            cells = [cell(peer.prepare(z, y), references[title]) for title, (z, y) in data.items()]
            print(f"| {peer.name} | " + " | ".join(cells) + " |")
    for package in ("scikit-learn", "probmetrics", "netcal", "torch-uncertainty", "torch", "nishimori"):
        try:
            print(package, version(package))
        except PackageNotFoundError:
            print(package, "is not installed")


if __name__ == "__main__":
    main()
