"""Time of fits, scorecards and sketches of logits on a CUDA device, beside one read of them and the usual ways.

    python bench/speed/gpu.py                                  # all sizes; Markdown tables in bench/results/gpu.md
    python bench/speed/gpu.py 1000000x1000 65536x128000:bfloat16 --sums 32768x151936:bfloat16 --repeats 50 --output table.md

Each cell of the first table is the median (and the best) of many runs in milliseconds and the relative error of T. The error is
that against a float64 solution for the stored logits, computed in blocks on the device. The second table has `evaluate` and
`Sketch.update`, also in units of one read, with the largest error of a metric, and of T from the sketch. One run of the slow
ways is enough where it takes seconds. Data are drawn on the device: labels follow the softmax of the logits at T = 1.6, and 80
to 95 % are right.

This is an easy T: searches on a device start at T = 1.5. Of 10,000 x 10 logits they take two readings at T = 1.6, but three at
T = 1 or 3, and four at T = 0.5 or 5. Larger data have these readings in their samples.
"""

import argparse
import gc
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from scipy.optimize import root_scalar

import nishimori

TRUE_T = 1.6
SIZES = ("1000000x1000", "65536x128000:bfloat16", "10000000x10", "50000x1000", "10000x10")
GOALS = dict(zip(SIZES, (5.0, 30.0, 4.0, 1.0, 0.6), strict=True))  # milliseconds for both temperatures on an H200
SUM_SIZES = ("32768x151936:bfloat16", "1000000x1000", "10000000x10", "50000x1000", "10000x10")
NOTE = (
    "Searches start at T = 1.5, near the T = 1.6 of these data; others take one or two readings more, of samples of large data."
)
RESULTS = Path(__file__).parents[1] / "results" / "gpu.md"


class Fitted(NamedTuple):
    """Temperatures; None for the one that a method does not look for."""

    ec: float | None = None
    ts: float | None = None


def blocks(n: int, k: int, elements: int = 2**27) -> Iterator[slice]:
    """Slices of about ``elements`` logits."""
    size = max(1, elements // k)
    return (slice(first, min(first + size, n)) for first in range(0, n, size))


def data(n: int, k: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits with one class ahead of the others by a random margin, and labels drawn from them at T = 1.6."""
    generator = torch.Generator("cuda").manual_seed(0)
    logits = torch.empty((n, k), dtype=dtype, device="cuda")
    labels = torch.empty(n, dtype=torch.int64, device="cuda")
    for rows in blocks(n, k):
        size = rows.stop - rows.start
        z = torch.randn((size, k), generator=generator, device="cuda")
        margin = math.log(k) + 0.5 + 2.5 + 2 * torch.randn(size, generator=generator, device="cuda")
        ahead = torch.randint(k, (size, 1), generator=generator, device="cuda")
        z.scatter_add_(1, ahead, margin[:, None])
        logits[rows] = TRUE_T * z
        noise = torch.empty_like(z).exponential_(generator=generator)
        labels[rows] = z.sub_(noise.log_()).argmax(dim=1)
    return logits, labels


def reference(logits: torch.Tensor, labels: torch.Tensor, start: Fitted) -> Fitted:
    """Both temperatures in float64 by Newton's method in β, from the definitions."""
    ec, ts = (1 / (found or TRUE_T) for found in start)
    for _ in range(20):
        steps = newton_steps(logits, labels, ec, ts)
        ec, ts = ec + steps[0], ts + steps[1]
        if max(abs(steps[0]) / ec, abs(steps[1]) / ts) < 1e-12:
            return Fitted(1 / ec, 1 / ts)
    raise RuntimeError("Newton's method did not converge")


def newton_steps(logits: torch.Tensor, labels: torch.Tensor, ec: float, ts: float) -> tuple[float, float]:
    """The steps towards mean confidence = accuracy, and towards mean logit = logit at the label."""
    sums = torch.zeros(4, dtype=torch.float64, device="cuda")
    for rows in blocks(*logits.shape, elements=2**26):
        z = logits[rows].double()
        label = labels[rows][:, None]
        peak, top = z.max(dim=1, keepdim=True)
        d = z.sub_(peak)
        right = (top == label)[:, 0]
        weight = torch.exp(ec * d)
        total = weight.sum(dim=1)
        mean = (weight.mul_(d)).sum(dim=1) / total
        # 1/Z - 1 without cancellation where the prediction is right
        confidence = 1 / total
        gap = torch.where(right, confidence - 1, confidence)
        weight = torch.exp(ts * d)
        total = weight.sum(dim=1)
        energy = weight.mul_(d).sum(dim=1) / total
        square = weight.mul_(d).sum(dim=1) / total
        at_label = d.gather(1, label)[:, 0]
        sums += torch.stack([x.sum() for x in (gap, -confidence * mean, energy - at_label, square - energy**2)])
    gap_ec, slope_ec, gap_ts, slope_ts = sums.tolist()
    return -gap_ec / slope_ec, -gap_ts / slope_ts


def ours(logits: torch.Tensor, labels: torch.Tensor) -> Fitted:
    """The product: both temperatures."""
    found = nishimori.temperatures(logits, labels)
    return Fitted(found.ec, found.ts)


def one_read(logits: torch.Tensor, labels: torch.Tensor) -> Fitted:  # noqa: ARG001 - called like the others
    """One read of the logits."""
    torch.amax(logits, dim=1)
    return Fitted()


def lbfgs(logits: torch.Tensor, labels: torch.Tensor) -> Fitted:
    """Cross-entropy by L-BFGS with a line search."""
    return minimised(logits, labels, torch.ones(1, device="cuda"), lr=1.0, max_iter=100, line_search_fn="strong_wolfe")


def recipe(logits: torch.Tensor, labels: torch.Tensor) -> Fitted:
    """The recipe that most repositories copy: a rate of 0.01, 50 iterations, started at T = 1.5."""
    return minimised(logits, labels, torch.full((1,), 1.5, device="cuda"), lr=0.01, max_iter=50)


def minimised(logits: torch.Tensor, labels: torch.Tensor, start: torch.Tensor, **options: object) -> Fitted:
    """The temperature of least cross-entropy that torch's L-BFGS finds."""
    temperature = start.requires_grad_()
    optimizer = torch.optim.LBFGS([temperature], **options)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(logits / temperature, labels)
        loss.backward()
        return loss

    optimizer.step(closure)
    return Fitted(ts=float(temperature.detach()))


def scipy_ec(logits: torch.Tensor, labels: torch.Tensor) -> Fitted:
    """Mean confidence = accuracy by Brent's method, with the softmax on the device."""
    accuracy = float((logits.argmax(dim=1) == labels).double().mean())

    def gap(temperature: float) -> float:
        return float(torch.softmax(logits / temperature, dim=1).amax(dim=1).double().mean()) - accuracy

    return Fitted(ec=float(root_scalar(gap, bracket=(0.05, 20)).root))


WAYS: dict[str, Callable[[torch.Tensor, torch.Tensor], Fitted]] = {
    "one `amax`": one_read,
    "`nishimori.temperatures`, EC and TS": ours,
    "L-BFGS (rate 1, strong Wolfe), TS": lbfgs,
    "L-BFGS (rate 0.01, 50 iterations), TS": recipe,
    "SciPy over torch, EC": scipy_ec,
}


def metrics(logits: torch.Tensor, labels: torch.Tensor, n_bins: int = 15) -> dict[str, float]:
    """The metrics of `nishimori.evaluate` at T = 1 in float64, from the definitions."""
    sums, bins = (torch.zeros(shape, dtype=torch.float64, device="cuda") for shape in ((4,), (2, n_bins)))
    edges = torch.arange(1, n_bins, dtype=torch.float64, device="cuda") / n_bins
    for rows in blocks(*logits.shape, elements=2**26):
        label = labels[rows]
        log_p = torch.log_softmax(logits[rows].double(), dim=1)
        confidence, right = log_p.amax(dim=1).exp(), logits[rows].argmax(dim=1) == label
        at_label = log_p.gather(1, label[:, None])[:, 0]
        brier = log_p.mul_(2).exp_().sum(dim=1) - 2 * at_label.exp() + 1
        sums += torch.stack([x.double().sum() for x in (~right, confidence, -at_label, brier)])
        own = torch.nn.functional.one_hot(torch.searchsorted(edges, confidence), n_bins).double()
        bins += torch.stack([confidence, right.double()]) @ own
    found = dict(zip(("error", "confidence", "nll", "brier"), (sums / len(labels)).tolist(), strict=True))
    return found | {"ece": float((bins[0] - bins[1]).abs().sum() / len(labels))}


def sum_row(size: str, repeats: int) -> str:
    """The line of the second table for one size."""
    shape, _, dtype = size.partition(":")
    n, k = (int(x) for x in shape.split("x"))
    logits, labels = data(n, k, getattr(torch, dtype or "float32"))
    reads, _ = timed(lambda: one_read(logits, labels), repeats)
    one = sorted(reads)[len(reads) // 2]
    cards, _ = timed(lambda: nishimori.evaluate(logits, labels), repeats)
    card, expected = nishimori.evaluate(logits, labels), metrics(logits, labels)
    off = max(abs(getattr(card, name) / value - 1) for name, value in expected.items())
    sketches, _ = timed(lambda: nishimori.Sketch().update(logits, labels), repeats)
    found, exact = nishimori.temperatures(nishimori.Sketch().update(logits, labels)), reference(logits, labels, Fitted())
    wrong = max(abs(found.ec / exact.ec - 1), abs(found.ts / exact.ts - 1))
    cells = [f"{n:,} × {k:,} {dtype or 'float32'}", milliseconds(one)]
    for times, error in ((cards, off), (sketches, wrong)):
        middle = sorted(times)[len(times) // 2]
        cells.append(f"{milliseconds(middle)} = {middle / one:.1f} reads · {error:.1e}")
    print(" | ".join(cells), flush=True)
    return "| " + " | ".join(cells) + " |"


def timed(run: Callable[[], Any], repeats: int, limit: float = 2.0) -> tuple[list[float], Any]:
    """Seconds of each run after two to warm up, and the temperatures; runs end when they took ``limit`` together."""
    times: list[float] = []
    for i in range(repeats + 2):
        torch.cuda.synchronize()
        start = time.perf_counter()
        found = run()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
        if i >= 2 and sum(times[2:]) > limit:
            break
        if sum(times) > 10 * limit:  # a way this slow needs no second run
            return times[-1:], found
    return times[2:], found


def cell(times: list[float], found: Fitted, exact: Fitted) -> str:
    """``median (best) ms, errors``."""
    middle = sorted(times)[len(times) // 2]
    errors = [
        f"{name} {abs(value / true - 1):.1e}"
        for name, value, true in zip(("EC", "TS"), found, exact, strict=True)
        if value is not None and true is not None
    ]
    return " · ".join([f"{milliseconds(middle)} ({milliseconds(min(times))})", *errors])


def milliseconds(seconds: float) -> str:
    """Three digits, or whole milliseconds."""
    return f"{1e3 * seconds:.3g}" if seconds < 0.1 else f"{1e3 * seconds:.0f}"


def row(size: str, repeats: int, ways: list[str]) -> str:
    """The line of the table for one size."""
    shape, _, dtype = size.partition(":")
    n, k = (int(x) for x in shape.split("x"))
    logits, labels = data(n, k, getattr(torch, dtype or "float32"))
    exact = reference(logits, labels, Fitted())
    cells = [f"{n:,} × {k:,} {dtype or 'float32'}", str(GOALS.get(size, ""))]
    for name in ways:
        try:
            cells.append(cell(*timed(lambda: WAYS[name](logits, labels), repeats), exact))  # noqa: B023 - run at once
        except torch.cuda.OutOfMemoryError:
            cells.append("out of memory")
        gc.collect()
        torch.cuda.empty_cache()
    print(" | ".join(cells), flush=True)
    return "| " + " | ".join([*cells, f"{exact.ec:.6f}, {exact.ts:.6f}"]) + " |"


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", nargs="*", default=SIZES, help="rows x classes, then : and the dtype if it is not float32")
    parser.add_argument("--sums", nargs="*", default=SUM_SIZES, help="the same of the second table")
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--no-peers", action="store_true", help="one read and nishimori only")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    ways = list(WAYS)[: 2 if options.no_peers else None]
    lines = [
        f"Milliseconds on one {torch.cuda.get_device_name()}, torch {torch.__version__}: median (best); relative errors of T.",
        "",
        NOTE,
        "",
        "| " + " | ".join(["size", "goal", *ways, "T of EC, TS"]) + " |",
        "|---" * (len(ways) + 3) + "|",
    ]
    options.output.parent.mkdir(parents=True, exist_ok=True)
    for size in options.sizes:
        lines.append(row(size, options.repeats, ways))
        options.output.write_text("\n".join(lines) + "\n")
    lines += ["", "Scorecards and sketches: milliseconds, in units of one `amax`, and the largest relative error.", ""]
    lines += ["| size | one `amax` | `evaluate`, of metrics | `Sketch.update`, of T |", "|---" * 4 + "|"]
    for size in options.sums:
        lines.append(sum_row(size, options.repeats))
        options.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
