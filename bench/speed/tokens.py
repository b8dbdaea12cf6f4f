"""Token throughput of a language model's logits: fits, sketches and scores beside one plain read of the same bytes.

    python bench/speed/tokens.py                                  2,000 tokens on the CPU, 32,768 on CUDA if there is a device
    python bench/speed/tokens.py --device cpu --tokens 500 --no-check
    python bench/speed/tokens.py --device cuda --write            also into bench/results/tokens.md

The vocabulary has 151,936 entries, as that of Qwen2.5, and logits are bfloat16 unless ``--dtype`` says otherwise. A row has a
long tail of small logits and thirty large ones. Labels are drawn from the softmax at T = 1.3, and one in ten is -100, which
does not count. On the CPU everything runs in one thread, and times are CPU times, which other programs disturb less.

The unit is one read: the sum of the bytes, taken as 64-bit integers. The column "of one read" is the time of one read divided
by that of the task: 1 would be the speed of the memory, and 0.25 means that the task takes as long as four reads.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"

import argparse
import ctypes
import gc
import platform
import re
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import nishimori
from nishimori._kernels import native

TRUE_T = 1.3
IGNORED = -100
# The grid of `nishimori.torch.calibrate` for vocabularies.
GRID: dict[str, Any] = {"temperatures": (0.25, 4.0), "nodes_per_octave": 8}
TOKENS = {"cpu": 2_000, "cuda": 32_768}
RESULTS = Path(__file__).parents[1] / "results" / "tokens.md"


class Measured(NamedTuple):
    """Seconds of the fastest run, bytes of memory beyond what was held before, and what the run returned."""

    seconds: float
    extra: int
    found: Any


def main() -> None:
    """Print the table, and write it if asked."""
    options = arguments()
    torch.set_num_threads(1)
    device = torch.device(options.device)
    logits, labels = drawn(options.tokens or TOKENS[device.type], options.vocabulary, getattr(torch, options.dtype), device)
    text = table(logits, labels, options)
    print(text)
    if options.write:
        write(heading(logits), text)


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tokens", type=int, help="how many rows; by default 600 MB on a CPU and 10 GB on CUDA")
    parser.add_argument("--vocabulary", type=int, default=151_936, help="how many classes")
    parser.add_argument("--dtype", choices=["bfloat16", "float16", "float32"], default="bfloat16")
    parser.add_argument("--only", nargs="*", metavar="TASK", help="words; tasks whose name has none of them are left out")
    parser.add_argument("--budget", type=float, default=2.0, help="seconds to repeat each task for")
    parser.add_argument("--no-check", action="store_true", help="do not compare both temperatures with float64")
    parser.add_argument("--write", action="store_true", help=f"put the table into {RESULTS.name} of bench/results")
    return parser.parse_args()


# --- data ------------------------------------------------------------------------------------------------------------------


def blocks(n: int, k: int, device: torch.device) -> Iterator[slice]:
    """Slices of rows, few enough for their float64 copies."""
    step = max(1, (2**27 if device.type == "cuda" else 2**22) // k)
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def drawn(n: int, k: int, dtype: torch.dtype, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits with a long tail and thirty large entries per row, and labels drawn at T = 1.3, some of which do not count."""
    generator = torch.Generator(device).manual_seed(0)
    logits = torch.empty((n, k), dtype=dtype, device=device)
    labels = torch.empty(n, dtype=torch.int64, device=device)
    ranks = torch.arange(1, 31, device=device).log()
    for rows in blocks(n, k, device):
        size = rows.stop - rows.start
        block = torch.empty((size, k), device=device).normal_(0, 2, generator=generator)
        steepness = torch.empty((size, 1), device=device).uniform_(1, 4, generator=generator)
        columns = torch.randint(k, (size, 30), generator=generator, device=device)
        logits[rows] = block.scatter_(1, columns, 18 - steepness * ranks)
        probabilities = torch.softmax(logits[rows].double() / TRUE_T, dim=1)
        labels[rows] = torch.multinomial(probabilities, 1, generator=generator)[:, 0]
    labels[torch.rand(n, generator=generator, device=device) < 0.1] = IGNORED
    return logits, labels


# --- tasks -----------------------------------------------------------------------------------------------------------------


def tasks(logits: torch.Tensor, labels: torch.Tensor) -> dict[str, Callable[[], Any]]:
    """What is timed, by name. The first is the unit."""
    counted = labels != IGNORED
    weights, classes = counted.double().cpu().numpy(), torch.where(counted, labels, 0)
    integers = logits.view(torch.int64) if logits.is_cuda else logits.view(torch.int64).numpy()
    return {
        "one read: sum of the bytes as int64": lambda: int(integers.sum()),
        "one `torch.amax` of each row": lambda: torch.amax(logits, dim=1),
        "one `torch.exp`": lambda: exponentiated(logits),
        "one `torch.logsumexp` in float32": lambda: log_partition(logits),
        "`temperatures`, EC and TS": lambda: nishimori.temperatures(logits, labels, ignore_index=IGNORED),
        "`Sketch.update`, 8 nodes per octave": lambda: nishimori.Sketch(**GRID).update(logits, classes, weights),
        "`evaluate`": lambda: nishimori.evaluate(logits, classes, temperature=TRUE_T, sample_weight=weights),
    }


def exponentiated(logits: torch.Tensor) -> None:
    """The exponential of every logit in its dtype, in blocks that are used again."""
    rows = list(blocks(*logits.shape, logits.device))
    room = torch.empty_like(logits[rows[0]])
    for some in rows:
        torch.exp(logits[some], out=room[: some.stop - some.start])


def log_partition(logits: torch.Tensor) -> list[torch.Tensor]:
    """The log of Σ exp of each row, which any loss needs, from float32 copies of blocks."""
    return [torch.logsumexp(logits[rows].float(), dim=1) for rows in blocks(*logits.shape, logits.device)]


def measured(run: Callable[[], Any], device: torch.device, budget: float) -> Measured:
    """The fastest of several runs after one to warm up; the memory is that of the last run."""
    run()
    best, spent, runs = np.inf, 0.0, 0
    while runs < 20 and (runs == 0 or spent < budget):
        held = memory_now(device)
        start = clock(device)
        found = run()
        took = clock(device) - start
        extra = memory_peak(device) - held
        best, spent, runs = min(best, took), spent + took, runs + 1
    return Measured(best, max(extra, 0), found)


def clock(device: torch.device) -> float:
    """Seconds: of this process on a CPU; on CUDA, on the wall after all work is done."""
    if device.type == "cpu":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def memory_now(device: torch.device) -> int:
    """Bytes that are held; from here on the peak counts. On a CPU only under Linux."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        return int(torch.cuda.memory_allocated())
    ctypes.CDLL("libc.so.6").malloc_trim(0)  # else memory that was freed before would count as held
    Path("/proc/self/clear_refs").write_text("5")
    return resident("VmRSS")


def memory_peak(device: torch.device) -> int:
    """Bytes that were held at most since then."""
    return int(torch.cuda.max_memory_allocated()) if device.type == "cuda" else resident("VmHWM")


def resident(what: str) -> int:
    """Bytes of one line of this process's status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(what + ":"))


# --- the right answer ------------------------------------------------------------------------------------------------------


def errors(logits: torch.Tensor, labels: torch.Tensor, found: Any) -> tuple[float, float]:
    """The relative errors of both temperatures: the lengths of Newton's last steps in float64, from the definitions."""
    ec, ts = 1 / found.ec, 1 / found.ts
    for _ in range(3):
        steps = newton_steps(logits, labels, ec, ts)
        ec, ts = ec + steps[0], ts + steps[1]
    return abs(found.ec * ec - 1), abs(found.ts * ts - 1)


def newton_steps(logits: torch.Tensor, labels: torch.Tensor, ec: float, ts: float) -> tuple[float, float]:
    """The steps in β towards mean confidence = accuracy, and towards mean logit = logit at the label."""
    sums = torch.zeros(4, dtype=torch.float64, device=logits.device)
    for rows in blocks(*logits.shape, logits.device):
        kept = labels[rows] != IGNORED
        z, label = logits[rows][kept].double(), labels[rows][kept][:, None]
        peak, top = z.max(dim=1, keepdim=True)
        d = z.sub_(peak)
        weight = torch.exp(ec * d)
        total = weight.sum(dim=1)
        mean = weight.mul_(d).sum(dim=1) / total
        gap = 1 / total - (top == label)[:, 0].double()
        weight = torch.exp(ts * d)
        other_total = weight.sum(dim=1)
        energy = weight.mul_(d).sum(dim=1) / other_total
        square = weight.mul_(d).sum(dim=1) / other_total
        excess = energy - d.gather(1, label)[:, 0]
        sums += torch.stack([each.sum() for each in (gap, -mean / total, excess, square - energy**2)])
    gap_ec, slope_ec, gap_ts, slope_ts = sums.tolist()
    return -gap_ec / slope_ec, -gap_ts / slope_ts


# --- the table -------------------------------------------------------------------------------------------------------------


def heading(logits: torch.Tensor) -> str:
    """The title of the table: device, kind of logits, and number of tokens."""
    n, k = logits.shape
    return f"{logits.device.type.upper()}, {n:,} tokens × {k:,} {str(logits.dtype).rpartition('.')[2]}"


def table(logits: torch.Tensor, labels: torch.Tensor, options: argparse.Namespace) -> str:
    """All tasks with their times, throughputs and memory, and what the times stand for."""
    warnings.simplefilter("ignore")
    n, size = len(logits), logits.numel() * logits.element_size()
    lines = [f"{size / 1e9:.2f} GB. {described(logits.device)}.", ""]
    lines += ["| task | ms | tokens/s | GB/s | of one read | extra memory, MB |", "|---|---|---|---|---|---|"]
    unit, notes = 0.0, []
    for name, run in tasks(logits, labels).items():
        if unit and options.only and not any(word in name for word in options.only):
            continue
        one = measured(run, logits.device, options.budget)
        unit = unit or one.seconds
        cells = (f"{1e3 * one.seconds:.4g}", f"{n / one.seconds:,.0f}", f"{size / one.seconds / 1e9:.3g}")
        lines.append(f"| {name} | {' | '.join(cells)} | {unit / one.seconds:.3g} | {one.extra / 1e6:.0f} |")
        print(lines[-1], flush=True)
        if isinstance(one.found, nishimori.Sketch):
            found = nishimori.temperatures(one.found)
            notes.append(f"From the sketch: EC {found.ec:.10f}, TS {found.ts:.10f}")
        if isinstance(one.found, nishimori.results.Temperatures):
            notes.append(f"`temperatures`: EC {one.found.ec:.10f}, TS {one.found.ts:.10f}, {one.found.n_passes} reading(s)")
            if not options.no_check:
                ec, ts = errors(logits, labels, one.found)
                notes[-1] += f"; relative errors against float64: EC {ec:.1e}, TS {ts:.1e}"
    return "\n".join([*lines, "", *(f"{note}." for note in notes)])


def described(device: torch.device) -> str:
    """The processor and the versions of what computes."""
    if device.type == "cuda":
        return f"{torch.cuda.get_device_name()}, torch {torch.__version__}; times on the wall"
    return f"One thread of {platform.machine()}, torch {torch.__version__}, {native.description()}; CPU times"


def write(title: str, text: str) -> None:
    """Put the table under its title into the file, in place of an older one."""
    old = RESULTS.read_text() if RESULTS.exists() else "# Token throughput\n\nMade by `python bench/speed/tokens.py`.\n"
    section = f"\n## {title}\n\n{text}\n"
    start = re.search(rf"\n## {re.escape(title)}\n", old)
    if start is None:
        RESULTS.write_text(old + section)
        return
    end = old.find("\n## ", start.end())
    RESULTS.write_text(old[: start.start()] + section + (old[end:] if end >= 0 else ""))


if __name__ == "__main__":
    main()
