"""Tables of the benchmark of calibrators, from the rows that `bench/studies/calibrators.py` has measured."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from calibrators_data import CAL_ARENA

HARM = 2.0  # paired standard errors
ROUNDING = 1e-8  # a method that falls back to one temperature finds the T of TS to nine digits, not to all
TITLES = {
    "bundled": "Bundled networks, each with its own validation set",
    "file": "Networks from files",
    "binary": "Two classes: the bundled CIFAR-10 networks, animals against machines",
}
# Log-loss, Brier score and ECE (15 bins) of CalArena (arXiv:2605.30188, repository probkit/CalArena) for the DenseNet-40 of
# this pair of files, from the files of results of that repository.
PUBLISHED = {
    "none": (0.430059, 0.127379, 0.055007),
    "TS": (0.225086, 0.109975, 0.009468),
    "ETS": (0.226933, 0.110284, 0.010779),
    "VS": (0.224401, 0.110077, 0.011338),
    "SVS": (0.222181, 0.109646, 0.010553),
    "MS": (0.227014, 0.112158, 0.013124),
    "SMS": (0.220620, 0.109794, 0.009335),
    "Dirichlet": (0.224063, 0.111180, 0.012098),
    "isotonic": (0.327316, 0.111788, 0.016252),
    "spline": (0.234539, 0.110628, 0.013905),
    "Venn-Abers": (0.229333, 0.110617, 0.009202),
}


class Numbers:
    """Values per data set and method at one validation size, each the mean over seeds.

    The halves of one file share rows, so the error of a mean over seeds is taken to be as large as that of one seed.
    """

    def __init__(self, rows: Iterable[Any], size: str = "all", origin: str | None = None) -> None:
        self.rows = [row for row in rows if row.size == size and origin in (None, row.origin)]
        self.methods = list(dict.fromkeys(row.method for row in self.rows))
        self.data = list(dict.fromkeys(row.data for row in self.rows))

    def of(self, name: str, method: str) -> np.ndarray:
        """One number per data set; NaN where the method could not be fitted."""
        return np.array([self.one(name, data, method) for data in self.data])

    def one(self, name: str, data: str, method: str) -> float:
        """The mean over seeds."""
        values = [getattr(row, name) for row in self.rows if row.data == data and row.method == method]
        found = float(np.mean(values)) if values else np.nan
        return 0.0 if "_from_" in name and abs(found) < ROUNDING else found

    @property
    def contestants(self) -> list[str]:
        """Methods without their variants: each enters a comparison of all with all once."""
        return [method for method in self.methods if "," not in method]


def report(rows: Sequence[Any], peers: str) -> str:
    """Everything in Markdown; ``peers`` is the section about other software."""
    sizes = sorted({row.size for row in rows if row.size != "all"}, key=int)
    origins = [origin for origin in TITLES if any(row.origin == origin for row in rows)]
    parts = ["# Every calibrator on the same data", INTRODUCTION]
    for origin in origins:
        numbers = Numbers(rows, origin=origin)
        parts += [f"## {TITLES[origin]}: {len(numbers.data)} data sets", summary(numbers)]
    parts += ["## How often each method is better", wins(rows, origins)]
    parts += ["## Fewer validation rows", by_size(rows, [*sizes, "all"])]
    parts += ["## NLL after each method, minus NLL after TS", NLL_NOTE]
    kinds = [[row for row in rows if (row.n_classes == 2) is two] for two in (False, True)]
    parts += [nll_by_data(Numbers(each)) for each in kinds if each]
    numbers = Numbers(rows)
    parts += ["## Gap per predicted class, points", GAP_NOTE, gaps_by_data(Numbers(kinds[0]))]
    if CAL_ARENA in numbers.data:
        parts += ["## The DenseNet-40 of CalArena", CAL_ARENA_NOTE, cal_arena(numbers)]
    return "\n\n".join([*parts, "## Agreement with probmetrics", peers]) + "\n"


INTRODUCTION = """Written by `bench/studies/calibrators.py`, which says what is fitted and measured. "keeps" stands for
`preserve_accuracy=True`, "group, ts" and "bias, ts" for `method="ts"` instead of `"ec"`, and "platt, not smooth" for
`smooth_labels=False`. Differences are those from temperature scaling (TS), paired row by row; ± is one standard error. A file
is divided into random halves three times, and the mean is given. Its standard error stays that of one half, because the
halves share rows. The class gap is the mean over predicted classes of |mean confidence - accuracy|. *Chance* is what it would
be if the model were calibrated: it is not zero, because each class has few test rows. ECE has 15 bins of equal width. Times
of fits are medians of processor time, on one core. For two classes, the probabilities of the ten classes of CIFAR-10 are
added up, those of six animals and those of four machines, as in CalArena."""
SIZE_NOTE = """Mean over data sets of the NLL after each method minus that after TS, times 1,000. In brackets: on how many
data sets the method is worse than TS by more than two paired standard errors, out of those that it could be fitted to."""
NLL_NOTE = """Times 1,000. Negative: better than TS. Bold: by more than two paired standard errors, in either direction."""
GAP_NOTE = """Then the error in percent after methods that change predictions: bold if it differs from that after TS by more
than two paired standard errors."""
CAL_ARENA_NOTE = """Fitted to 5,000 rows, measured on 10,000. The published numbers are those of CalArena
([arXiv:2605.30188](https://arxiv.org/abs/2605.30188)): SVS and SMS are structured vector and matrix scaling
([arXiv:2511.03685](https://arxiv.org/abs/2511.03685)), VS and MS vector and matrix scaling without a penalty. ± is the paired
standard error of the difference of the NLL from our TS."""


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """One table in Markdown."""
    rows = [list(head), ["---"] * len(head), *(list(line) for line in lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def summary(numbers: Numbers) -> str:
    """Means over data sets, one line per method."""
    classes = numbers.of("n_classes", "ts")
    counts = sorted(set(classes))
    head = ["method", "NLL", "Brier", "ECE %", "class gap", "chance", "error %", "changed %"]
    head += [f"fit, {k:.0f} classes" for k in counts]

    def line(method: str) -> list[str]:
        nll, brier, ece, gap, chance, error, changed = (
            numbers.of(name, method).mean()
            for name in ("nll", "brier", "ece", "class_gap", "class_gap_chance", "error", "changed")
        )
        seconds = numbers.of("seconds", method)
        times = [duration(np.median(seconds[classes == k])) for k in counts]
        shares = [f"{100 * value:.2f}" for value in (ece, gap, chance, error, changed)]
        return [method, f"{nll:.4f}", f"{brier:.4f}", *shares, *times]

    return table(head, map(line, numbers.methods))


def duration(seconds: float) -> str:
    """In milliseconds below a second."""
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1000 * seconds:.0f} ms"


def wins(rows: Sequence[Any], origins: Sequence[str]) -> str:
    """How often a method beats TS and all others, and how often it is clearly better or worse than TS and EC."""
    head = [
        "method",
        "data",
        "NLL below TS",
        "95 % interval",
        "better than TS by > 2 SE",
        "worse by > 2 SE",
        "largest loss, SE",
    ]
    head += ["worse than EC by > 2 SE", "mean win rate, NLL", "mean win rate, Brier"]
    lines = []
    for origin in origins:
        numbers = Numbers(rows, origin=origin)
        values = [np.array([numbers.of(name, method) for method in numbers.contestants]) for name in ("nll", "brier")]
        rates = [win_rates(each) for each in values]
        for method in numbers.methods:
            shares = [rate_of(method, numbers, each) for each in rates]
            lines.append([method, origin, *against_ts(numbers, method), *shares])
    return table(head, lines)


def against_ts(numbers: Numbers, method: str) -> list[str]:
    """Wins with their interval, clear wins, clear losses, the largest loss, and clear losses against EC."""
    found = numbers.of("nll_from_ts", method)
    known = np.isfinite(found)
    won, n = float((found[known] < 0).sum() + 0.5 * (found[known] == 0).sum()), int(known.sum())
    low, high = wilson(won, n)
    ts, ec = scores(numbers, method, "ts"), scores(numbers, method, "ec")
    worse_than_ec = f"{int((ec > HARM).sum())}"
    if method == "ts":
        return ["-"] * 5 + [worse_than_ec]
    counts = [f"{int((ts < -HARM).sum())}", f"{int((ts > HARM).sum())}", f"{max(ts.max(initial=0), 0):.1f}"]
    return [f"{won:g} of {n}", f"{low:.2f} to {high:.2f}", *counts, worse_than_ec]


def scores(numbers: Numbers, method: str, other: str) -> np.ndarray:
    """Paired differences of the NLL in units of their standard errors, where these are not zero."""
    value, error = numbers.of(f"nll_from_{other}", method), numbers.of(f"nll_from_{other}_se", method)
    known = error > 0
    return value[known] / error[known]


def wilson(won: float, n: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's interval of a share."""
    centre, half = (won + z**2 / 2) / (n + z**2), z * np.sqrt(won * (n - won) / n + z**2 / 4) / (n + z**2)
    return float(centre - half), float(centre + half)


def win_rates(
    values: np.ndarray, draws: int = 2000, blocks: Sequence[Any] | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean win rates, as CalArena has them, with 95 % intervals from a bootstrap over data sets.

    ``values`` has one row per method and one column per data set; NaN where a method could not be fitted. Each method is
    compared with each other one on each data set: 1 if it is lower, 1/2 if equal. ``blocks`` names, for each column, what is
    drawn as a whole, such as the data set behind several models; by default each column by itself.
    """
    n_methods, n_data = values.shape
    values = np.where(np.isnan(values), np.inf, values)
    won = (values[:, None] < values[None]) + 0.5 * (values[:, None] == values[None])
    won[np.arange(n_methods), np.arange(n_methods)] = 0
    by_data = won.sum(axis=1) / (n_methods - 1)
    _, block = np.unique(np.arange(n_data) if blocks is None else np.asarray(blocks), return_inverse=True)
    n_blocks = block.max() + 1
    sums, counts = np.zeros((n_methods, n_blocks)), np.bincount(block)
    np.add.at(sums.T, block, by_data.T)
    chosen = np.random.default_rng(0).integers(n_blocks, size=(draws, n_blocks))
    drawn = sums[:, chosen].sum(axis=2) / counts[chosen].sum(axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975], axis=1)
    return by_data.mean(axis=1), low, high


def rate_of(method: str, numbers: Numbers, rates: tuple[np.ndarray, np.ndarray, np.ndarray]) -> str:
    """Mean win rate and interval as text."""
    if method not in numbers.contestants:
        return "-"
    rate, low, high = (each[numbers.contestants.index(method)] for each in rates)
    return f"{rate:.2f} ({low:.2f} to {high:.2f})"


def by_size(rows: Sequence[Any], sizes: Sequence[str]) -> str:
    """Mean differences from TS at each number of validation rows, for each number of classes."""
    head = ["method", "classes", *(f"n = {int(size):,}" if size != "all" else "all" for size in sizes)]
    lines = []
    for k in sorted({row.n_classes for row in rows}):
        found = {size: Numbers([row for row in rows if row.n_classes == k], size) for size in sizes}
        for method in found[sizes[0]].methods:
            if method != "ts":
                lines.append([method, str(k), *(size_cell(found[size], method) for size in sizes)])
    return f"{SIZE_NOTE}\n\n{table(head, lines)}"


def size_cell(numbers: Numbers, method: str) -> str:
    """Mean difference, and how often it is clearly positive."""
    value = numbers.of("nll_from_ts", method)
    fitted = np.isfinite(value)
    if not fitted.any():
        return "-"
    return f"{1000 * value[fitted].mean():+.1f} ({int((scores(numbers, method, 'ts') > HARM).sum())} of {int(fitted.sum())})"


def nll_by_data(numbers: Numbers) -> str:
    """One line per data set."""
    methods = [method for method in numbers.contestants if method != "ts"]

    def cell(data: str, method: str) -> str:
        value, error = (numbers.one(f"nll_from_ts{suffix}", data, method) for suffix in ("", "_se"))
        if not np.isfinite(value):
            return "-"
        text = f"{1000 * value:+.1f} ± {1000 * error:.1f}"
        return f"**{text}**" if abs(value) > HARM * error > 0 else text

    head = ["data", "NLL of TS", *methods]
    return table(head, ([d, f"{numbers.one('nll', d, 'ts'):.4f}", *(cell(d, m) for m in methods)] for d in numbers.data))


def gaps_by_data(numbers: Numbers) -> str:
    """Class gaps, then errors, one line per data set."""
    changing = [method for method in numbers.contestants if np.nanmax(numbers.of("changed", method)) > 0]
    keeps = [method for method in numbers.contestants if method not in ("adaptive",)]

    def line(data: str) -> list[str]:
        gaps = [f"{100 * numbers.one('class_gap', data, method):.2f}" for method in keeps]
        errors = [error_cell(numbers, data, method) for method in ("ts", *changing)]
        return [data, *gaps, f"{100 * numbers.one('class_gap_chance', data, 'ts'):.2f}", *errors]

    head = ["data", *(f"gap, {method}" for method in keeps), "chance", "error %", *(f"error, {method}" for method in changing)]
    return table(head, map(line, numbers.data))


def error_cell(numbers: Numbers, data: str, method: str) -> str:
    """The error in percent, bold if it differs from that of TS by more than two paired standard errors."""
    text = f"{100 * numbers.one('error', data, method):.2f}"
    change, error = (numbers.one(f"error_from_ts{suffix}", data, method) for suffix in ("", "_se"))
    return f"**{text}**" if abs(change) > HARM * error > 0 else text


def cal_arena(numbers: Numbers) -> str:
    """Ours and the published methods, best log-loss first."""
    lines = []
    for name, (nll, brier, ece) in PUBLISHED.items():
        lines.append((nll, [f"{name} (CalArena)", f"{nll:.6f}", "", f"{brier:.6f}", f"{ece:.6f}", ""]))
    for method in numbers.methods:
        if np.isnan(numbers.one("nll", CAL_ARENA, method)):
            continue  # a method for two classes
        nll, brier, ece, error, change, se = (
            numbers.one(name, CAL_ARENA, method) for name in ("nll", "brier", "ece", "error", "nll_from_ts", "nll_from_ts_se")
        )
        difference = "" if method == "ts" else f"{change:+.6f} ± {se:.6f}"
        lines.append((nll, [f"**{method}**", f"{nll:.6f}", difference, f"{brier:.6f}", f"{ece:.6f}", f"{100 * error:.2f}"]))
    return table(["method", "NLL", "minus our TS", "Brier", "ECE", "error %"], (line for _, line in sorted(lines)))
