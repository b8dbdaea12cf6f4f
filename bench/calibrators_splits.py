"""The data of the benchmark of calibrators: what each method is fitted to, and what it is measured on."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from nishimori import data

CAL_ARENA = "cifar10/densenet40-calarena"
PAIR = ("nncal__cifar10_val5000__densenet40", "nncal__cifar10_test__densenet40")
QUICK = ("cifar10/resnet20",)
ANIMALS = [2, 3, 4, 5, 6, 7]  # of the classes of CIFAR-10; the others are machines


@dataclass(frozen=True)
class Rows:
    """Logits in float64 and the column of the true class of each row."""

    logits: np.ndarray
    labels: np.ndarray

    def of(self, chosen: np.ndarray) -> "Rows":
        """Some of the rows."""
        return Rows(self.logits[chosen], self.labels[chosen])


@dataclass(frozen=True)
class Split:
    """One data set, divided into rows to fit to and rows to measure on.

    ``size`` is "all", or the number of validation rows that were drawn at random.
    """

    name: str
    origin: str
    seed: int
    size: str
    validation: Rows
    test: Rows

    def reduced(self, size: int) -> "Split":
        """The same with fewer validation rows, drawn at random without repetition."""
        chosen = np.random.default_rng([self.seed, size]).permutation(len(self.validation.labels))[:size]
        return replace(self, size=str(size), validation=self.validation.of(chosen))


def splits(folder: Path | None, *, sizes: tuple[int, ...], seeds: int, quick: bool) -> Iterator[Split]:
    """Every data set with all its validation rows, then with fewer of them.

    Bundled networks have their own validation and test sets, drawn from once. Those of CIFAR-10 come a second time with two
    classes. A file in ``folder`` is divided into two random
    halves, once for each seed, and only the first has fewer rows, too. The pair of files that CalArena uses stays as it is.
    """
    names = QUICK if quick else data.names()
    for name in names:
        yield from _with_fewer(_bundled(name), sizes)
    for name in names:
        if name.startswith("cifar10/"):
            yield from _with_fewer(_animals(_bundled(name)), sizes)
    if folder is None:
        return
    found = {path.stem: path for path in sorted(folder.glob("*.npz"))}
    if all(name in found for name in PAIR):
        validation, test = (_read(found.pop(name)) for name in PAIR)
        yield from _with_fewer(Split(CAL_ARENA, "file", 0, "all", validation, test), sizes)
    for name, path in found.items():
        for seed in range(seeds):
            yield from _with_fewer(_halves(name.replace("__", "/"), _read(path), seed), sizes if seed == 0 else ())


def _with_fewer(split: Split, sizes: tuple[int, ...]) -> Iterator[Split]:
    yield split
    yield from (split.reduced(size) for size in sizes if size < len(split.validation.labels))


def _bundled(name: str) -> Split:
    network = data.load(name)
    validation, test = (Rows(each.logits.astype(float), each.labels) for each in (network.validation, network.test))
    return Split(name, "bundled", 0, "all", validation, test)


def _animals(split: Split) -> Split:
    """The same network with two classes, machines and animals: the sums of the probabilities of the ten."""
    is_animal = np.isin(np.arange(split.test.logits.shape[1]), ANIMALS)

    def joined(rows: Rows) -> Rows:
        columns = [np.logaddexp.reduce(rows.logits[:, chosen], axis=1) for chosen in (~is_animal, is_animal)]
        return Rows(np.stack(columns, axis=1), is_animal[rows.labels].astype(int))

    name = f"{split.name}, animals"
    return replace(split, name=name, origin="binary", validation=joined(split.validation), test=joined(split.test))


def _read(path: Path) -> Rows:
    with np.load(path) as arrays:
        return Rows(arrays["logits"].astype(float), arrays["labels"])


def _halves(name: str, rows: Rows, seed: int) -> Split:
    order = np.random.default_rng(seed).permutation(len(rows.labels))
    half = len(order) // 2
    return Split(name, "file", seed, "all", rows.of(order[:half]), rows.of(order[half:]))
