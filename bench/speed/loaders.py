"""Memory and time of calibrating a network from a loader: logits that are kept against a sketch of them.

    python bench/speed/loaders.py                     the sizes of the table
    python bench/speed/loaders.py --rows 50000 --classes 32000 --write

A linear layer makes the logits of each batch, as the last layer of a network does, in bfloat16 for 10,000 classes and more and
in float32 for fewer. Labels are drawn at T = 1.3. Each case runs in a process of its own, with one thread. Its memory is the
peak of the resident set beyond that of a run of the network over the same loader that keeps nothing; its time is the CPU time
beyond that of the same run.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch

from nishimori.torch import calibrate

TRUE_T = 1.3
FEATURES, BATCH = 64, 256
LIMITS = {
    "all kept": {"keep_up_to": float("inf")},
    "kept up to 1 GB": {"keep_up_to": 1e9},
    "sketch": {"keep_up_to": 0},
    "default": {},
}
SIZES = ((50_000, 32_000), (250_000, 1_000), (25_000, 1_000), (500_000, 10))
RESULTS = Path(__file__).parents[1] / "results" / "loaders.md"


class Loader:
    """Batches of features and labels, which are computed as they are read."""

    def __init__(self, network: torch.nn.Module, rows: int) -> None:
        self.network, self.rows = network, rows

    def __len__(self) -> int:
        return (self.rows + BATCH - 1) // BATCH

    def __iter__(self):
        weight = self.network.weight
        for start in range(0, self.rows, BATCH):
            generator = torch.Generator().manual_seed(start)
            x = torch.randn(min(BATCH, self.rows - start), FEATURES, generator=generator).to(weight.dtype)
            with torch.inference_mode():
                noise = torch.rand(len(x), len(weight), generator=generator).log_().neg_().log_()
                y = torch.sub(self.network(x).float().div_(TRUE_T), noise).argmax(dim=1)  # by Gumbel's trick
            yield x, y


def one(case: str, rows: int, classes: int) -> None:
    """Run one case and print its peak of memory, in bytes, its CPU time and T."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    network = torch.nn.Linear(FEATURES, classes, bias=False)
    network.weight.data.mul_(4)
    network.to(torch.bfloat16 if classes >= 10_000 else torch.float32)
    loader, T = Loader(network, rows), 0.0
    small = calibrate(network, Loader(network, 2 * BATCH), method="ec", keep_up_to=0)  # imports, and lazily built tables
    del small
    start = time.process_time()
    if case == "network alone":
        with torch.inference_mode():
            for x, _ in loader:
                network(x)
    else:
        limit = LIMITS[case]
        T = float(calibrate(network, loader, method="ec", **limit).calibrator.temperature_)
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps([peak, seconds, T]))


def measured(case: str, rows: int, classes: int) -> tuple[float, float, float]:
    """What `one` prints in a process of its own."""
    words = [sys.executable, __file__, "--case", case, "--rows", str(rows), "--classes", str(classes)]
    out = subprocess.run(words, check=True, capture_output=True, text=True).stdout  # noqa: S603 - this file
    return tuple(json.loads(out))


def table(sizes: list[tuple[int, int]], cases: list[str]) -> str:
    """One line per size and case."""
    lines = ["| rows × classes | logits, MB | case | peak memory, MB | CPU seconds | T |", "|---|---|---|---|---|---|"]
    for rows, classes in sizes:
        base, idle, _ = measured("network alone", rows, classes)
        size = rows * classes * (2 if classes >= 10_000 else 4) / 1e6
        for case in cases:
            peak, seconds, T = measured(case, rows, classes)
            what = f"| {rows:,} × {classes:,} | {size:,.0f} | {case}"
            lines.append(f"{what} | {(peak - base) / 1e6:,.0f} | {seconds - idle:.1f} | {T:.9f} |")
            print(lines[-1], flush=True)
    return "\n".join(lines)


def main() -> None:
    """Print the table, and write it if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--classes", type=int)
    parser.add_argument("--case", help="run this one alone, in this process")
    parser.add_argument("--cases", nargs="+", default=list(LIMITS))
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name} in bench/results")
    options = parser.parse_args()
    if options.case:
        one(options.case, options.rows, options.classes)
        return
    sizes = [(options.rows, options.classes)] if options.rows else list(SIZES)
    text = table(sizes, options.cases)
    if options.write:
        about = f"Made by `python bench/speed/loaders.py`, with PyTorch {torch.__version__} on one thread."
        RESULTS.write_text(f"# Calibrating from a loader\n\n{about}\n\n{__doc__.split(chr(10) * 2)[2].strip()}\n\n{text}\n")


if __name__ == "__main__":
    main()
