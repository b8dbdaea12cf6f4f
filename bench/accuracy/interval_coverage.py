"""How often 95 % intervals contain the true temperature: synthetic logits and resampled logits of real networks.

    python bench/accuracy/interval_coverage.py --output table.md --picture coverage.png                 all cells, 15 minutes
    python bench/accuracy/interval_coverage.py --repetitions 200 --classes 10 --sizes 200 1000          some of them, in seconds
    python bench/accuracy/interval_coverage.py --direct --only "drawn at T, K = 10" --sizes 200 1000    every draw by the
    library

A repetition draws n rows of a fixed pool with replacement and, for synthetic logits, a label for each from its own
distribution. The truth is the temperature of the pool: where labels are drawn at T = 2 it is 2 by construction; where they are
drawn otherwise (every fifth label at random) it follows from the exact expectation over labels; for a network it is the T of
its whole test set.

Everything that a fit and its standard error need are sums over the rows drawn, of functions of log T that are tabulated once
for each row of the pool, so that a repetition takes milliseconds. The first three draws of each cell are also fitted by the
library, and the largest differences are printed. With --direct the library fits every draw, and the percentile interval of the
bootstrap is measured as well. Cells with fewer than 20 expected right or wrong answers are left out.
"""

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import NormalDist

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from numpy.polynomial import chebyshev

import nishimori
from nishimori.plot._style import COLORS

# The cells as a table in Markdown, and as a picture.

mpl.use("Agg")


@dataclass
class Cell:
    """How often intervals contain the truth in one cell, in percent of the draws that have a temperature."""

    pool: str
    method: str
    n: int
    accuracy: float
    truth: float
    coverage: float
    below: float  # intervals that lie below the truth
    above: float
    not_in_log: float  # T ± 1.96 standard errors in place of log T
    ratio: float  # the mean standard error over the standard deviation of log T
    without: int
    repetitions: int
    bootstrap: float | None = None
    largest_t: float = 0.0  # relative differences from the library
    largest_se: float = 0.0


def markdown(cells: list[Cell]) -> str:
    """The table, and what falls outside 93 to 97 %."""
    by_bootstrap = any(each.bootstrap is not None for each in cells)
    head = ["rows", "method", "n", "accuracy", "true T", "coverage, %", "below / above, %", "in T, %", "se / sd", "without T"]
    lines = [[*head, *(["bootstrap, %"] if by_bootstrap else [])]]
    for each in cells:
        line = [
            each.pool,
            each.method,
            str(each.n),
            f"{each.accuracy:.3f}",
            f"{each.truth:.3f}",
            f"{each.coverage:.1f}",
            f"{each.below:.1f} / {each.above:.1f}",
            f"{each.not_in_log:.1f}",
            f"{each.ratio:.3f}",
            f"{each.without} of {each.repetitions}",
        ]
        lines.append([*line, *([] if each.bootstrap is None else [f"{each.bootstrap:.1f}"])])
    table = ["| " + " | ".join(line) + " |" for line in lines]
    table.insert(1, "|" + "---|" * len(lines[0]))
    inside = sum(93 <= each.coverage <= 97 for each in cells)
    summary = (
        f"{inside} of {len(cells)} cells are between 93 and 97 %; the lowest is {min(each.coverage for each in cells):.1f} %, "
        f"the highest {max(each.coverage for each in cells):.1f} %. One standard error of a share of {cells[0].repetitions} "
        f"draws near 95 % is {100 * np.sqrt(0.05 * 0.95 / cells[0].repetitions):.1f} points."
    )
    if any(each.largest_t for each in cells):
        summary += (
            f" On three draws of each cell, a fit by the library gave the same T up to a relative "
            f"{max(each.largest_t for each in cells):.0e}, and the same standard error up to "
            f"{100 * max(each.largest_se for each in cells):.1f} %."
        )
    return summary + "\n\n" + "\n".join(table) + "\n"


def picture(cells: list[Cell], path: Path) -> None:
    """Coverage over n, a row of panels for each method and a column for each kind of rows."""
    kinds = {"drawn at T": "labels drawn at T", "noisy labels": "every fifth label random", "/": "resampled networks"}
    colours = {"EC": COLORS["ec"], "TS": COLORS["ts"], "top-5 EC": COLORS["accuracy"]}
    figure, axes = plt.subplots(len(colours), 3, figsize=(9.6, 6.6), sharex=True, sharey=True, layout="constrained")
    sizes = sorted({each.n for each in cells})
    for column, (key, title) in zip(axes.T, kinds.items(), strict=True):
        some = [each for each in cells if key in each.pool]
        names = list(dict.fromkeys(each.pool for each in some))
        for axis, (method, colour) in zip(column, colours.items(), strict=True):
            axis.axhspan(93, 97, color="0.93", zorder=0)
            axis.axhline(95, color="0.6", linewidth=0.8, zorder=1)
            for each in (cell for cell in some if cell.method == method):
                x = sizes.index(each.n) + 0.2 * (names.index(each.pool) - (len(names) - 1) / 2)
                bar = 100 * np.sqrt(0.05 * 0.95 / each.repetitions)
                axis.errorbar(x, each.coverage, bar, fmt="osD^v"[names.index(each.pool)], color=colour, markersize=5)
            axis.spines[["top", "right"]].set_visible(False)
        for marker, name in zip("osD^v", names, strict=False):
            column[0].plot([], [], marker, color="0.3", markersize=5, label=name.split(", ")[-1])
        column[0].set_title(f"{title}\n\n", fontsize=11)
        shown = {"fontsize": 8, "ncols": 2, "columnspacing": 1, "handletextpad": 0.2, "frameon": False}
        column[0].legend(loc="lower center", bbox_to_anchor=(0.5, 1), **shown)
        column[-1].set(xlabel="validation samples n", ylim=(92, 98), xlim=(-0.5, len(sizes) - 0.5))
        column[-1].set_xticks(range(len(sizes)), [f"{n:,}" for n in sizes])
    for axis, method in zip(axes[:, 0], colours, strict=True):
        axis.set_ylabel(method, color=colours[method], fontweight="bold")
    figure.supylabel("95 % intervals that contain the true T, %; bars: one standard error", fontsize=10)
    figure.savefig(path, dpi=130)


Array = np.ndarray

CLASSES = (2, 10, 100, 1000)
SIZES = (200, 1000, 5000, 20000)
NETWORKS = ("cifar10/resnet20", "cifar10/densenet121", "cifar100/vgg19", "svhn/resnet20")

DRAWN_AT = 2.0
NOISE = 0.2  # the share of labels that are random, in the other kind of synthetic labels
LEAST = 20  # right answers, and wrong ones, that a cell must expect

Z = NormalDist().inv_cdf(0.975)
POINTS, REACH = 15, 0.8  # Chebyshev points, and how far they reach in log T: the polynomial is precise to 1e-9
CHECKED = 3  # draws of each cell that the library fits too


@dataclass
class Pool:
    """Rows whose classes are in falling order of their logits, so that a label is its rank.

    ``chances`` are cumulative probabilities of labels (rows, classes), or None where ``labels`` are fixed.
    """

    name: str
    logits: Array
    chances: Array | None
    labels: Array | None
    truth: float | None = None  # the temperature that labels were drawn at

    @property
    def n_classes(self) -> int:
        return self.logits.shape[1]

    def draw(self, rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        """The rows of a repetition, and the rank of the label of each."""
        rows = rng.integers(0, len(self.logits), n)
        if self.chances is None:
            return rows, self.labels[rows]
        return rows, picked(self.chances, rows, rng.random(n, dtype=np.float32))

    def expected(self, values: Array) -> float:
        """The mean over the pool and its labels of a number per row and class."""
        if self.chances is None:
            return float(values[np.arange(len(values)), self.labels].mean())
        p = np.diff(self.chances, axis=1, prepend=0)
        return float((p * values).sum(axis=1, dtype=float).mean())


def picked(chances: Array, rows: Array, uniform: Array) -> Array:
    """A class for each row from its cumulative probabilities, by bisection of all at once."""
    low, high = np.zeros(len(rows), dtype=np.int64), np.full(len(rows), chances.shape[1] - 1)
    while (low < high).any():
        middle = (low + high) // 2
        above = chances[rows, middle] < uniform
        low, high = np.where(above & (low < high), middle + 1, low), np.where(above, high, np.minimum(middle, high))
    return low


def synthetic(n_classes: int, *, noise: float, seed: int = 0) -> Pool:
    """Normal logits, and labels from softmax(z / 2), a share of which is replaced by random ones."""
    rng = np.random.default_rng(seed)
    n = 20000 if n_classes == 1000 else 50000
    logits = -np.sort(-3 * rng.normal(size=(n, n_classes)).astype(np.float32), axis=1)
    p = (1 - noise) * softmax(logits.astype(np.float64), DRAWN_AT) + noise / n_classes
    chances = np.cumsum(p, axis=1, dtype=np.float64)
    kind = "drawn at T" if not noise else "noisy labels"
    chances = (chances / chances[:, -1:]).astype(np.float32)
    return Pool(f"{kind}, K = {n_classes}", logits, chances, None, None if noise else DRAWN_AT)


def network(name: str) -> Pool:
    """The test images of a bundled network."""
    test = nishimori.data.load(name).test
    order = np.argsort(-test.logits, axis=1, kind="stable")
    ranks = np.argmax(order == np.asarray(test.labels)[:, None], axis=1)
    return Pool(name, np.take_along_axis(np.asarray(test.logits), order, axis=1), None, ranks)


def softmax(logits: Array, temperature: float) -> Array:
    """Probabilities, where the first logit of each row is the largest."""
    weights = np.exp((logits - logits[:, :1]) / temperature)
    return weights / weights.sum(axis=1, keepdims=True)


@dataclass
class Method:
    """What is matched: its mean under the model, and its value at each class of a row, both counted from the top class."""

    name: str
    top_n: int
    expected: Callable[[Array, Array], Array]  # from probabilities and drops
    values: Callable[[Array], Array]  # from drops

    def fitted(self, logits: Array, labels: Array) -> nishimori.Calibrator:
        if self.name == "TS":
            return nishimori.TemperatureScaling().fit(logits, labels)
        return nishimori.ExpectationConsistency(top_n=self.top_n).fit(logits, labels)


def top(n: int) -> Method:
    """Expectation consistency of the n largest classes."""

    def values(drops: Array) -> Array:
        return np.broadcast_to(np.arange(drops.shape[1]) < n, drops.shape).astype(float)

    return Method("EC" if n == 1 else f"top-{n} EC", n, lambda p, _: p[:, :n].sum(axis=1), values)


ENERGY = Method("TS", 1, lambda p, drops: (p * drops).sum(axis=1), lambda drops: drops)
METHODS = {"EC": top(1), "TS": ENERGY, "top-5 EC": top(5)}


class Tables:
    """A method on a pool: the mean under the model of each row at the points, and the true temperature."""

    def __init__(self, pool: Pool, method: Method) -> None:
        self.pool, self.method = pool, method
        drops = pool.logits.astype(np.float64)
        drops -= drops[:, :1].copy()
        self.values = method.values(drops)
        self.mean_label = pool.expected(self.values)
        self.right = pool.expected(top(method.top_n).values(drops))
        centre = np.log(pool.truth or DRAWN_AT)
        self.to_series = np.linalg.inv(chebyshev.chebvander(chebyshev.chebpts2(POINTS), POINTS - 1))
        for _ in range(2):  # once to find the truth, once around it
            self.centre = centre
            temperatures = np.exp(centre + REACH * chebyshev.chebpts2(POINTS))
            self.expected = np.stack([self._at(drops, T) for T in temperatures], axis=1)
            if pool.truth is not None:
                self.log_truth = np.log(pool.truth)
                return
            self.log_truth = centre = float(self.zeros(self.expected.mean(axis=0)[None] - self.mean_label)[0])
            if abs(self.log_truth - self.centre) < REACH / 3:
                return

    def _at(self, drops: Array, T: float) -> Array:
        step = max(1, 2**22 // drops.shape[1])
        parts = (drops[start : start + step] for start in range(0, len(drops), step))
        return np.concatenate([self.method.expected(softmax(part, T), part) for part in parts])

    def zeros(self, sums: Array) -> Array:
        """The log T at which each polynomial through values at the points is zero; NaN if that is out of reach."""
        series = self.to_series @ sums.T
        low, high = np.full(series.shape[1], -1.0), np.ones(series.shape[1])
        ends = [chebyshev.chebval(each, series, tensor=False) for each in (low, high)]
        for _ in range(50):
            middle = (low + high) / 2
            above = chebyshev.chebval(middle, series, tensor=False) > 0
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        return np.where((ends[0] > 0) & (ends[1] < 0), self.centre + REACH * low, np.nan)

    def sums(self, rows: Array, labels: Array) -> Array:
        """The sums of gaps and of squared gaps of a repetition at the points."""
        expected, observed = self.expected[rows], self.values[rows, labels]
        gaps = expected.sum(axis=0) - observed.sum()
        return np.stack([gaps, np.einsum("nm,nm->m", expected, expected) - 2 * (observed @ expected) + observed @ observed])

    def fits(self, sums: Array) -> Array:
        """Logarithms of T and their standard errors, one for each repetition, NaN where T does not exist or is out of reach."""
        roots = self.zeros(sums[:, 0])
        places, series = (roots - self.centre) / REACH, self.to_series @ sums[:, 0].T
        slopes = chebyshev.chebval(places, chebyshev.chebder(series), tensor=False) / REACH
        squares = chebyshev.chebval(places, self.to_series @ sums[:, 1].T, tensor=False)
        return np.stack([roots, np.sqrt(squares) / np.abs(slopes)], axis=1)


def measured(all_tables: list[Tables], n: int, options: argparse.Namespace) -> Iterator[Cell]:
    """The cells of one pool and one n, which share their draws; one that expects too few right or wrong answers is left out."""
    chosen_tables = [each for each in all_tables if n * min(each.right, 1 - each.right) >= LEAST]
    pool, count = all_tables[0].pool, options.repetitions

    def drawn(i: int) -> tuple[Array, Array]:
        return pool.draw(np.random.default_rng([options.seed, n, i]), n)

    sums = np.zeros((len(chosen_tables), count, 2, POINTS))
    for i in range(0 if options.direct or not chosen_tables else count):
        rows, labels = drawn(i)
        for place, tables in enumerate(chosen_tables):
            sums[place, i] = tables.sums(rows, labels)
    for place, tables in enumerate(chosen_tables):
        fits = np.full((count, 2), np.nan) if options.direct else tables.fits(sums[place])
        yield cell(tables, n, fits, drawn, direct=options.direct)


def cell(tables: Tables, n: int, fits: Array, drawn: Callable[[int], tuple[Array, Array]], *, direct: bool) -> Cell:
    """How often intervals contain the truth; draws that are out of reach of the tables are fitted by the library."""
    logits, truth, count = tables.pool.logits, np.exp(tables.log_truth), len(fits)
    checks, inside = [(0.0, 0.0)], []
    for i in np.flatnonzero(np.isnan(fits[:, 0]) | (np.arange(count) < CHECKED)).tolist():
        rows, labels = drawn(i)
        found = by_library(tables.method, logits[rows], labels)
        if found is None:
            continue
        if not np.isnan(fits[i, 0]):
            checks.append((abs(found[0] - fits[i, 0]), abs(found[1] / fits[i, 1] - 1)))
            continue
        fits[i] = found
        if direct:
            inside.append(in_percentiles(tables.method, logits[rows], labels, truth, i))
    log_t, error = fits[~np.isnan(fits[:, 0])].T
    off, scaled = log_t - tables.log_truth, (np.exp(log_t) - truth) / (np.exp(log_t) * error)
    return Cell(
        tables.pool.name,
        tables.method.name,
        n,
        tables.right,
        float(truth),
        coverage=100 * float(np.mean(np.abs(off) < Z * error)),
        below=100 * float(np.mean(off < -Z * error)),
        above=100 * float(np.mean(off > Z * error)),
        not_in_log=100 * float(np.mean(np.abs(scaled) < Z)),
        ratio=float(error.mean() / log_t.std()),
        without=count - len(log_t),
        repetitions=count,
        bootstrap=100 * float(np.mean(inside)) if inside else None,
        largest_t=max(each[0] for each in checks),
        largest_se=max(each[1] for each in checks),
    )


def by_library(method: Method, logits: Array, labels: Array) -> tuple[float, float] | None:
    """What a fit of the library says of log T and its standard error; None if there is no temperature."""
    try:
        fitted = method.fitted(logits, labels)
    except nishimori.errors.NoTemperatureError:
        return None
    return float(np.log(fitted.temperature_)), fitted.temperature_se_ / fitted.temperature_


def in_percentiles(method: Method, logits: Array, labels: Array, truth: float, seed: int) -> bool:
    """Whether the percentile interval of 1000 resamples contains the truth."""
    name = "ts" if method.name == "TS" else "ec"
    low, high = nishimori.bootstrap(logits, labels, method=name, top_n=method.top_n, seed=seed, n_jobs=1).interval()
    return low < truth < high


def pools(options: argparse.Namespace) -> Iterator[tuple[Pool, list[Method]]]:
    """The pools that are asked for, with the methods to measure on each."""
    for n_classes in options.classes:
        for noise in (0.0, NOISE):
            if chosen(f"{'noisy labels' if noise else 'drawn at T'}, K = {n_classes}", options):
                yield synthetic(n_classes, noise=noise), methods_for(n_classes)
    for name in options.networks:
        if chosen(name, options):
            pool = network(name)
            yield pool, methods_for(pool.n_classes)


def chosen(name: str, options: argparse.Namespace) -> bool:
    """Whether a pool was asked for."""
    return not options.only or name in options.only


def methods_for(n_classes: int) -> list[Method]:
    """Both methods, and top-5 where five classes are few."""
    return [METHODS["EC"], METHODS["TS"], *([METHODS["top-5 EC"]] if n_classes >= 100 else [])]


def arguments() -> argparse.Namespace:
    """What was typed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=2000)
    parser.add_argument("--classes", type=int, nargs="*", default=CLASSES)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--networks", nargs="*", default=NETWORKS)
    parser.add_argument("--only", nargs="+", help="names of rows, as in the table")
    parser.add_argument("--direct", action="store_true", help="fit every draw by the library, with a bootstrap")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--cells", type=Path, help="a file of JSON lines, which each cell is added to; read with --draw-only")
    parser.add_argument("--draw-only", action="store_true", help="tabulate and draw the cells of an earlier run")
    parser.add_argument("--picture", type=Path)
    return parser.parse_args()


def main() -> None:
    """Measure cell by cell; each is written as soon as it is there."""
    options = arguments()
    warnings.simplefilter("ignore")
    cells: list[Cell] = []
    if options.draw_only:
        cells = [Cell(**json.loads(line)) for line in options.cells.read_text().splitlines()]
    for pool, methods in () if options.draw_only else pools(options):
        all_tables = [Tables(pool, method) for method in methods]
        for n in options.sizes:
            start = time.perf_counter()
            for each in measured(all_tables, n, options):
                cells.append(each)
                print(f"{each}  {time.perf_counter() - start:.0f} s", file=sys.stderr)
                if options.cells:
                    with options.cells.open("a") as file:
                        file.write(json.dumps(asdict(each)) + "\n")
    text = markdown(cells)
    print(text)
    if options.output:
        options.output.write_text(text)
    if options.picture:
        picture(cells, options.picture)


if __name__ == "__main__":
    main()
