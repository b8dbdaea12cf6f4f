"""How often each check of a gate is wrong, and how often it notices what it should.

Four questions, each with bounds that are *at* the truth, where verdicts are wrong most often, unless they say otherwise:

- the NLL: how often a bound passes that is the mean of min(NLL, 10) of all samples, and how often one fails that is their mean
  NLL. The losses are those of heavy-tailed logits (normal numbers times exp(2 x normal), 10 % wrong labels) and of the bundled
  ResNet-20 after expectation consistency;
- power: how often the NLL of each bundled network passes with a bound of 1.1 times its NLL;
- the ECE where few answers are wrong: how often a bound passes, or fails, that is the true ECE;
- all checks of models that are calibrated or off: how often "fail" and "pass" are wrong, and how often "fail" is right with
  half of the true value as bound. "any" is a gate with all bounds at once: of a model that keeps them all it may fail as
  rarely as one check.

    python bench/accuracy/gate.py
    python bench/accuracy/gate.py --draws 20 --rare-draws 20 --few-draws 10 --sizes 200 --out small.md

The tables are written to ``bench/results/gate.md``. It takes about ten minutes on two free cores.
"""

import argparse
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from math import log
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import softmax

import nishimori
from nishimori._evaluation.gate import NLL_CAP
from nishimori._evaluation.limits import LARGEST_RISK, Game, Losses

CHECKS = ("ece", "gap", "error", "brier", "group_gap")
LEVEL = 0.95
REACH = 1.6448536269514722

# Losses that are played with at once.
_AT_ONCE = 400_000


def losses_of(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The negative log-likelihood of each row."""
    top = logits.max(axis=1)
    return top + np.log(np.exp(logits - top[:, None]).sum(axis=1)) - logits[np.arange(len(labels)), labels]


def heavy_tails(size: int) -> np.ndarray:
    """Losses of logits whose scale varies by orders of magnitude, with 10 % wrong labels."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(size, 5)) * np.exp(2 * rng.normal(size=(size, 1)))
    labels = np.where(rng.random(size) < 0.1, rng.integers(5, size=size), logits.argmax(axis=1))
    return losses_of(logits, labels)


@cache
def network_losses(name: str, calibrated: bool) -> np.ndarray:
    """Losses of the test images of a network."""
    network = nishimori.data.load(name)
    temperature = 1.0
    if calibrated:
        validation = network.validation
        temperature = nishimori.ExpectationConsistency().fit(validation.logits, validation.labels).temperature_
    return losses_of(np.asarray(network.test.logits, dtype=float) / temperature, np.asarray(network.test.labels))


@cache
def population_of(name: str, size: int) -> np.ndarray:
    """All losses that data sets are drawn from."""
    made: dict[str, Callable[[], np.ndarray]] = {
        "heavy tails": partial(heavy_tails, size),
        "ResNet-20, calibrated": partial(network_losses, "cifar10/resnet20", True),
    }
    return made[name]()


LOSSES = ("heavy tails", "ResNet-20, calibrated")


def disproved(draws: list[np.ndarray], mean: float, sign: float, most: float) -> np.ndarray:
    """Whether bets on each of some data sets of one size disprove a mean: what `Losses` does for one, for all at once."""
    games = [Game.in_random_orders(Losses.from_values(each, np.ones(len(each)), counts=False)) for each in draws]
    first = games[0]
    columns = ("values", "weights", "squares")
    stacked = {name: np.concatenate([getattr(each, name) for each in games]) for name in columns}
    capital = Game(edges=first.edges, **stacked).capital(mean, sign, most, LEVEL).reshape(len(draws), -1)
    return np.log(np.exp(capital).mean(axis=1)) >= -log(1 - LEVEL)


def parts(population: np.ndarray, n: int, draws: int, rng: np.random.Generator) -> Iterator[list[np.ndarray]]:
    """Data sets, some at a time."""
    step = max(1, _AT_ONCE // (32 * n))
    for start in range(0, draws, step):
        yield [rng.choice(population, n) for _ in range(min(step, draws - start))]


def nll_cell(name: str, n: int, draws: int, size: int) -> str:
    """Wrong verdicts about the NLL at the truth, those of a normal limit, and how far the upper limit is."""
    population, rng = population_of(name, size), np.random.default_rng([1, n])
    capped = np.minimum(population, NLL_CAP)
    passed = failed = normal = 0
    excess = []
    for drawn in parts(population, n, draws, rng):
        cut = [np.minimum(each, NLL_CAP) for each in drawn]
        passed += disproved(cut, capped.mean(), -1.0, 1 / NLL_CAP).sum()
        failed += disproved(drawn, population.mean(), 1.0, LARGEST_RISK / population.mean()).sum()
        normal += sum(each.mean() + REACH * each.std() / n**0.5 <= population.mean() for each in drawn)
        if len(excess) < 100:
            losses = [Losses.from_values(each, np.ones(n), counts=False) for each in cut[:100]]
            excess += [each.upper_limit(NLL_CAP, LEVEL, capped.mean()) - each.mean for each in losses]
    shares = [f"{100 * each / draws:.2f}" for each in (passed, failed, normal)]
    return f"| {name} | {n:,} | " + " | ".join(shares) + f" | {np.mean(excess):.3f} |"


def power_cell(name: str, draws: int, n: int = 10_000) -> str:
    """How often a network passes with a bound of 1.1 times its NLL."""
    cells = []
    for calibrated in (False, True):
        population, rng = network_losses(name, calibrated), np.random.default_rng([2, calibrated])
        bound = 1.1 * population.mean()
        drawn = parts(np.minimum(population, NLL_CAP), n, draws, rng)
        passed = sum(int(disproved(each, bound, -1.0, 1 / NLL_CAP).sum()) for each in drawn)
        cells += [f"{population.mean():.3f}", f"{100 * passed / draws:.1f}"]
    return f"| {name} | " + " | ".join(cells) + " |"


@dataclass(frozen=True)
class Rare:
    """A model whose answers are wrong rarely and at random, whatever its confidence."""

    name: str
    n_classes: int
    scale: float
    shift: float
    errors: float

    def draw(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """A data set of n samples."""
        logits = self.scale * rng.normal(size=(n, self.n_classes))
        logits[:, 0] += self.shift
        return logits, (logits.argmax(axis=1) + (rng.random(n) < self.errors)) % self.n_classes

    def ece(self, n_bins: int = 15) -> float:
        """That of infinitely many samples."""
        claimed = softmax(self.draw(1_000_000, np.random.default_rng(0))[0], axis=1).max(axis=1)
        misses = np.bincount(np.ceil(claimed * n_bins).astype(int), claimed - (1 - self.errors))
        return float(np.abs(misses).sum() / len(claimed))


RARE = (
    Rare("one bin, 1.6 % errors", 2, 0.5, 9.0, 0.016),
    Rare("all bins, 1.6 % errors", 10, 60.0, 0.0, 0.016),
    Rare("all bins, 5 % errors", 10, 60.0, 0.0, 0.05),
)
UNDERCONFIDENT = (
    Rare("confidence 99 %, 0.1 % errors", 2, 0.04, 4.6, 0.001),
    Rare("confidence 98 %, 1 % errors", 2, 0.04, 3.9, 0.01),
    Rare("all bins, underconfident, 1 % errors", 10, 3.0, 0.0, 0.01),
)


def rare_cell(model: Rare, n: int, draws: int) -> str:
    """How often the true ECE passes, and fails, as a bound."""
    rng, true = np.random.default_rng([3, n]), model.ece()
    verdicts = [
        nishimori.gate(*model.draw(n, rng), input="logits", bounds={"ece": true}, level=LEVEL).verdict for _ in range(draws)
    ]
    shares = [f"{100 * verdicts.count(each) / draws:.2f}" for each in ("pass", "fail")]
    return f"| {model.name} | {n:,} | {n * model.errors:g} | {100 * true:.2f} % | " + " | ".join(shares) + " |"


@dataclass(frozen=True)
class Setting:
    """A model and the temperature at which its labels are drawn."""

    name: str
    n_classes: int
    scale: float
    true_temperature: float


SETTINGS = (
    Setting("calibrated, 2 classes", 2, 2.0, 1.0),
    Setting("calibrated, 10 classes", 10, 3.0, 1.0),
    Setting("calibrated, 10 classes, 4 % errors", 10, 25.0, 1.0),
    Setting("overconfident, 2 classes", 2, 2.0, 1.4),
    Setting("overconfident, 10 classes", 10, 3.0, 1.4),
    Setting("overconfident, 10 classes, 7 % errors", 10, 25.0, 1.6),
)


@dataclass(frozen=True)
class Population:
    """Rows to draw from, what is true of them, and what the model claims."""

    logits: np.ndarray
    truth: np.ndarray

    @classmethod
    def of(cls, setting: Setting, size: int, rng: np.random.Generator) -> "Population":
        logits = setting.scale * rng.normal(size=(size, setting.n_classes))
        return cls(logits, softmax(logits / setting.true_temperature, axis=1))

    def draw(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """A data set of n samples."""
        rows = rng.integers(len(self.logits), size=n)
        cumulated = self.truth[rows].cumsum(axis=1)
        return self.logits[rows], (rng.random((n, 1)) > cumulated[:, :-1]).sum(axis=1)

    def metrics(self, n_bins: int = 15) -> dict[str, float]:
        """Those of infinitely many samples."""
        claimed = softmax(self.logits, axis=1)
        top, rows = claimed.argmax(axis=1), np.arange(len(claimed))
        misses = claimed[rows, top] - self.truth[rows, top]
        bins = np.ceil(claimed[rows, top] * n_bins).astype(int)
        in_bins, sizes = np.bincount(bins, misses), np.bincount(top)
        return {
            "ece": float(np.abs(in_bins).sum() / len(rows)),
            "gap": abs(float(misses.mean())),
            "error": 1 - float(self.truth[rows, top].mean()),
            "brier": float(((claimed**2).sum(axis=1) - 2 * (claimed * self.truth).sum(axis=1) + 1).mean()),
            "group_gap": float(np.abs(np.bincount(top, misses) / np.maximum(sizes, 1)).max()),
        }


def setting_cell(setting: Setting, n: int, draws: int, size: int, divisor: int) -> str:
    """How often each check fails and, where the model is off, passes; and how often a gate with all of them fails."""
    rng = np.random.default_rng([4, SETTINGS.index(setting), n])
    population = Population.of(setting, size, rng)
    bounds, is_off = population.metrics(), setting.true_temperature != 1
    if not is_off:
        bounds |= dict.fromkeys(("ece", "gap", "group_gap"), 0.0)  # which the population has up to rounding
    bounds = {name: value / divisor for name, value in bounds.items()}
    found: dict[str, list[str]] = {name: [] for name in (*bounds, "any")}
    for _ in range(draws):
        data = population.draw(n, rng)
        for name, bound in bounds.items():
            found[name].append(nishimori.gate(*data, level=LEVEL, min_samples=1, bounds={name: bound}).verdict)
        found["any"].append(nishimori.gate(*data, level=LEVEL, min_samples=1, bounds=bounds).verdict)
    cells = []
    for name, verdicts in found.items():
        passed = f" / {100 * verdicts.count('pass') / draws:.1f}" if is_off and name != "any" else ""
        cells.append(f"{100 * verdicts.count('fail') / draws:.1f}{passed}")
    what = "true value" if divisor == 1 else "half the true value"
    return f"| {setting.name} | {what} | {n:,} | " + " | ".join(cells) + " |"


def tasks(options: argparse.Namespace) -> list[list[Callable[[], str]]]:
    """The cells of each table."""
    sizes, draws, few = options.sizes, options.draws, options.few_draws
    rare = [(model, n) for model in RARE for n in sizes if 20 < n * model.errors < 120]
    rare += [(model, n) for model in UNDERCONFIDENT for n in sizes if n * model.errors <= 20]
    names = nishimori.data.names() if options.networks is None else options.networks
    return [
        [partial(nll_cell, name, n, draws, options.population) for name in LOSSES for n in sizes],
        [partial(power_cell, name, max(1, draws // 20)) for name in names],
        [partial(rare_cell, model, n, options.rare_draws) for model, n in rare],
        [
            partial(setting_cell, setting, n, few, options.population // 10, divisor)
            for setting in SETTINGS
            for divisor in ((1,) if setting.true_temperature == 1 else (1, 2))
            for n in sizes
        ],
    ]


def call(task: Callable[[], str]) -> str:
    """A cell, printed when it is done."""
    line = task()
    print(line, flush=True)
    return line


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 600, 2000, 10_000])
    parser.add_argument("--draws", type=int, default=10_000, help="data sets per cell of the NLL")
    parser.add_argument("--rare-draws", type=int, default=2_000, help="data sets per cell of few errors")
    parser.add_argument("--few-draws", type=int, default=200, help="data sets per cell of the last table")
    parser.add_argument("--population", type=int, default=2_000_000)
    parser.add_argument("--networks", nargs="*", help="those whose power is measured; all by default")
    parser.add_argument("--processes", type=int, default=2)
    default = Path(__file__).parents[1] / "results" / "gate.md"
    parser.add_argument("--out", type=Path, default=default, help="the Markdown file to write")
    options = parser.parse_args()
    tables = tasks(options)
    with ProcessPoolExecutor(options.processes) as pool:
        lines = iter(list(pool.map(call, [each for table in tables for each in table])))
    values: dict[str, Any] = {
        "draws": options.draws,
        "rare_draws": options.rare_draws,
        "few": options.few_draws,
        "power": max(1, options.draws // 20),
    }
    for name, table in zip(("nll", "networks", "rare", "settings"), tables, strict=True):
        values[name] = "\n".join(next(lines) for _ in table)
    columns = " | ".join(CHECKS)
    text = TEXT.format(level=100 * LEVEL, wrong=100 * (1 - LEVEL), cap=NLL_CAP, columns=columns, **values)
    options.out.write_text(text, encoding="utf-8")


TEXT = """# How often the checks of a gate are wrong

Written by `python bench/accuracy/gate.py`; the level is {level:g} %. All numbers are in percent unless they say otherwise. With
the bound at the truth, a verdict may be wrong in at most {wrong:g} % of data sets.

## The NLL, with the bound at the truth

{draws:,} data sets per row. "Pass" has the true mean of min(NLL, {cap:g}) as bound, "fail" the true NLL. A normal limit would
pass the true NLL as often as the next column says. The last one is how far the upper limit is above the estimate, in nats.

| losses | n | pass | fail | pass by a normal limit | excess |
|---|---|---|---|---|---|
{nll}

## Power: the NLL of bundled networks with a bound of 1.1 times its true value

How often the check passes with n = 10,000, in {power:,} data sets, as the networks are and with expectation consistency.

| network | NLL | pass | NLL calibrated | pass |
|---|---|---|---|---|
{networks}

## The ECE of models with few errors, with the bound at the truth

{rare_draws:,} data sets per row, 15 bins of equal width. Three models are overconfident, the last three underconfident.

| model | n | errors on average | true ECE | pass | fail |
|---|---|---|---|---|---|
{rare}

## All checks

{few} data sets per row, groups are the predicted classes. Each cell is the share in which the check ends with "fail"; where the
model is off, the share in which it ends with "pass" follows after the slash. "any" is the share in which a gate with all of
these bounds ends with "fail".

With the true value as bound, all of these are mistakes. With half of it as bound, the model is off by twice the bound: "fail"
is right, and "pass" is a mistake. The true value of the ECE and of gaps of a calibrated model is 0.

| setting | bound | n | {columns} | any |
|---|---|---|---|---|---|---|---|---|
{settings}
"""

if __name__ == "__main__":
    main()
