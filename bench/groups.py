"""A temperature per predicted class or per group against one temperature, on all bundled networks.

    python bench/groups.py --seeds 1 --sizes 1000 --networks cifar10/resnet20      # a first look, in seconds
    python bench/groups.py --out bench/results/groups.md --pictures docs/images    # about twenty minutes

Each network is calibrated on all of its validation rows and on random subsets of them, and measured on its test rows. The
tables have the mean over predicted classes of |confidence - accuracy|, as measured and without the bias of noise; the test loss
with the standard error of the paired difference; and the overall ECE. Then come the same for groups that are named (which of
thirteen networks a row comes from), other networks in a folder (by default ``logits`` in $NISHIMORI_DATA, if that is set), the
variants that were tried, and what happens to the overall ECE.
"""

import argparse
import itertools
import json
import os
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import group_ece
import group_variants
from nishimori import ExpectationConsistency, GroupConsistency, TemperatureScaling, data, group_gaps
from nishimori import compare as compare_methods

SIZES = (500, 1000, 5000)
# Files with the logits of bundled networks, or with the rows of another file.
BUNDLED = ("ecpaper", "val5000")
ONE = {"ec": ExpectationConsistency, "ts": TemperatureScaling}


@dataclass(frozen=True)
class Outcome:
    """One fit, measured on test rows: one temperature first, groups second."""

    network: str
    method: str
    size: int
    seed: int
    spread: float
    gap: tuple[float, float]
    gap_corrected: tuple[float, float]
    nll: tuple[float, float]
    difference: float
    se: float
    ece: tuple[float, float]
    ece_corrected: tuple[float, float]

    @property
    def z(self) -> float:
        """The difference of the loss in standard errors; positive where groups are worse."""
        # Where all groups have the common temperature, the two differ by rounding.
        return self.difference / self.se if abs(self.difference) > 1e-9 else 0.0


def measured(rows, test, method: str, groups=None, test_groups=None) -> tuple:
    """Both calibrators on test rows: their gaps, and the paired comparison."""
    by = "prediction" if groups is None else "groups"
    one = ONE[method]().fit(*rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of classes that are never predicted
        many = GroupConsistency(by=by, method=method).fit(*rows, groups=groups)
        gaps = [group_gaps(*test, by=by, calibrator=each, groups=test_groups) for each in (one, many)]
        return many, gaps, compare_methods(*test, methods={"one": one, "many": many}, groups=test_groups)


def outcome(name: str, method: str, size: int, seed: int, found: tuple) -> Outcome:
    """The numbers of one comparison."""
    many, gaps, both = found
    cards, change = [each.scorecard for each in both], both["many"].differences["nll"]
    return Outcome(
        name,
        method,
        size,
        seed,
        many.spread_,
        tuple(each.mean_abs_gap for each in gaps),
        tuple(each.mean_abs_gap_corrected for each in gaps),
        tuple(each.nll for each in cards),
        change.value,
        change.se,
        tuple(each.ece for each in cards),
        tuple(each.ece_corrected for each in cards),
    )


def rows_of(network, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A random subset of the validation rows, or all of them in their order."""
    part = network.validation
    if size >= len(part.labels):
        return part.logits, part.labels
    chosen = np.random.default_rng(seed).permutation(len(part.labels))[:size]
    return part.logits[chosen], part.labels[chosen]


def by_prediction(networks: list[str], sizes: list[int], seeds: int, note) -> list[Outcome]:
    """Every network, size, seed and method."""
    found = []
    for name in networks:
        network = data.load(name)
        test = (network.test.logits, network.test.labels)
        for size in sizes:
            for seed in range(seeds if size < len(network.validation.labels) else 1):
                rows = rows_of(network, size, seed)
                found += [note(outcome(name, method, size, seed, measured(rows, test, method))) for method in ONE]
    return found


def by_network(networks: list[str], sizes: list[int], seeds: int, note) -> list[Outcome]:
    """Rows of several networks of the same classes in one data set: the group of a row is the network that it comes from."""
    loaded = [data.load(name) for name in networks]
    test = tuple(np.concatenate([getattr(each.test, part) for each in loaded]) for part in ("logits", "labels"))
    names = np.repeat(networks, [len(each.test.labels) for each in loaded])
    found = []
    for size in sizes:
        for seed in range(seeds if size < min(len(each.validation.labels) for each in loaded) else 1):
            # Groups of different sizes, as they are in practice: from a tenth of the rows to all of them.
            shares = np.random.default_rng(seed).permutation(np.geomspace(0.1, 1, len(loaded)))
            parts = [rows_of(each, int(size * share), seed) for each, share in zip(loaded, shares, strict=True)]
            rows = tuple(np.concatenate([part[i] for part in parts]) for i in (0, 1))
            groups = np.repeat(networks, [len(part[1]) for part in parts])
            for method in ONE:
                got = measured(rows, test, method, groups, names)
                found.append(note(outcome("networks pooled", method, size, seed, got)))
    return found


def on_others(folder: Path | None, sizes: list[int], seeds: int, note) -> list[Outcome]:
    """Networks whose test rows are in .npz files: fitted to some rows of a random half, and measured on the other half.

    Nothing about the method was chosen by them.
    """
    found = []
    for path in sorted([] if folder is None else folder.glob("*.npz")):
        with np.load(path) as file:
            logits, labels = file["logits"], file["labels"].ravel()
        half = len(labels) // 2
        if half < min(sizes) or any(name in path.stem for name in BUNDLED):
            continue
        for size, seed in itertools.product(sizes, range(seeds)):
            order = np.random.default_rng(100 + seed).permutation(len(labels))
            fit, test = ((logits[rows], labels[rows]) for rows in (order[: min(size, half)], order[half:]))
            found += [note(outcome(path.stem, method, size, seed, measured(fit, test, method))) for method in ONE]
    return found


@dataclass(frozen=True)
class Tried:
    """One variant on one validation set: test loss, its paired difference from one temperature, and the mean gap."""

    method: str
    variant: str
    size: int
    nll: float
    z: float
    gap: float


def variants(networks: list[str], sizes: list[int], seeds: int, note) -> list[Tried]:
    """Every variant on every network, size and seed."""
    found = []
    for name in networks:
        network = data.load(name)
        for size in sizes:
            for seed in range(seeds if size < len(network.validation.labels) else 1):
                rows = rows_of(network, size, seed)
                for method in ONE:
                    found += [note(each) for each in _tried(rows, network.test, method, size)]
    return found


def _tried(rows, test, method: str, size: int):
    fit = group_variants.Rows.of(*rows, method)
    z, labels = np.asarray(test.logits, dtype=float), np.asarray(test.labels)
    predicted = z.argmax(axis=1)
    base = _losses(z, labels, np.exp(-fit.common()))[0]
    for name, variant in group_variants.VARIANTS[method].items():
        logs, _ = group_variants.fitted(fit, variant)
        losses, misses = _losses(z, labels, np.exp(logs)[predicted])
        change = losses - base
        error = change.std() / np.sqrt(len(change))
        counts = np.bincount(predicted, minlength=z.shape[1])
        gaps = np.bincount(predicted, misses, z.shape[1])[counts > 0] / counts[counts > 0]
        yield Tried(method, name, size, losses.mean(), change.mean() / error if error > 0 else 0.0, np.abs(gaps).mean())


def _losses(z, labels, T):
    """The loss, and confidence minus correctness, of each row."""
    u = (z - z.max(axis=1, keepdims=True)) / np.reshape(T, (-1, 1))
    p = np.exp(u) / np.exp(u).sum(axis=1, keepdims=True)
    at = np.arange(len(z))
    return np.log(np.exp(u).sum(axis=1)) - u[at, labels], p.max(axis=1) - (z.argmax(axis=1) == labels)


@dataclass(frozen=True)
class Coverage:
    """Groups whose log T are drawn with a known spread: what intervals contain, and how far the temperatures are off."""

    method: str
    spread: float
    rows: int
    covered: float
    groups_off: float
    common_off: float


def coverage(draws: int, rows, spreads=(0.0, 0.1, 0.3, 0.6), number=10) -> list[Coverage]:
    """Intervals of 95 % of the temperatures of ten groups, and the root mean squared error of log T, over many data sets."""
    found = []
    for method, spread, size in itertools.product(ONE, spreads, rows):
        errors, distances, commons = [], [], []
        for seed in range(draws):
            rng = np.random.default_rng(seed)
            groups, logs = np.repeat(np.arange(number), size), np.log(1.5) + spread * rng.normal(size=number)
            logits = 3 * rng.normal(size=(len(groups), 6))
            labels = (logits / np.exp(logs)[groups, None] + rng.gumbel(size=logits.shape)).argmax(axis=1)
            many = GroupConsistency(by="groups", method=method).fit(logits, labels, groups=groups)
            errors.append(np.log(many.temperatures_) - logs)
            distances.append(np.abs(errors[-1]) * many.temperatures_ / many.temperatures_se_)
            commons.append(np.log(many.common_temperature_) - logs)
        covered = np.mean(np.array(distances) < 1.96)
        found.append(
            Coverage(method, spread, size, covered, *(np.sqrt(np.mean(np.square(each))) for each in (errors, commons)))
        )
    return found


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="validation rows")
    parser.add_argument("--seeds", type=int, default=5, help="random subsets of each size")
    parser.add_argument("--draws", type=int, default=50, help="generated data sets for the coverage of intervals")
    parser.add_argument("--rows", type=int, default=40_000, help="rows of generated data")
    parser.add_argument("--networks", nargs="+", default=data.names(), help="names of bundled networks")
    shared = os.environ.get("NISHIMORI_DATA")
    folder = None if shared is None else Path(shared) / "logits"
    parser.add_argument(
        "--data", type=Path, default=folder, help="folder of .npz files with logits and labels of other networks"
    )
    parser.add_argument("--out", type=Path, help="Markdown file to write; printed by default")
    parser.add_argument("--log", type=Path, help="file that gets each number as soon as it is known, one JSON object per line")
    parser.add_argument("--pictures", type=Path, help="folder for the pictures")
    given = parser.parse_args()

    def note(each):
        if given.log is not None:
            with given.log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(each)) + "\n")
        return each

    from group_tables import report  # noqa: PLC0415 - imports this module's classes

    alike = [name for name in given.networks if name.startswith("cifar10/")]
    sizes = sorted(given.sizes)
    text = report(
        by_prediction(given.networks, sizes, given.seeds, note),
        by_network(alike, sizes, given.seeds, note) if len(alike) > 1 else [],
        on_others(given.data, sizes, given.seeds, note),
        variants(given.networks, sizes, given.seeds, note),
        group_ece.splits(given.networks),
        group_ece.generated(given.rows),
        coverage(given.draws, (given.rows // 800, given.rows // 200, given.rows // 40)),
    )
    if given.out is None:
        print(text)
    else:
        given.out.write_text(text, encoding="utf-8")
    if given.pictures is not None:
        group_ece.pictures(given.pictures)


if __name__ == "__main__":
    main()
