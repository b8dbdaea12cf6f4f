"""A temperature per predicted class or per group against one temperature, on all bundled networks.

    python bench/studies/groups.py --seeds 1 --sizes 1000 --networks cifar10/resnet20      # a first look, in seconds
    python bench/studies/groups.py --out bench/results/groups.md --pictures docs/images    # about twenty minutes

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

import group_variants
from nishimori import ExpectationConsistency, GroupConsistency, TemperatureScaling, data, evaluate, group_gaps, plot
from nishimori import compare as compare_methods
from nishimori._support.tables import Tabular
from nishimori.plot._style import HUES

# The tables of the study of temperatures per group, from its numbers.

HOW = "`python bench/studies/groups.py`; `bench/studies/groups.py` says what is measured."


def report(outcomes, pooled, others, tried, splits, generated, coverage) -> str:
    """Everything as Markdown."""
    parts = [f"One temperature → one per group, on test rows. Gaps and ECE in points. {HOW}"]
    parts += [_networks(outcomes, method) for method in ("ec", "ts")]
    parts.append(_sizes(outcomes, "Average over networks, by number of validation rows"))
    if pooled:
        parts.append(_sizes(pooled, "Named groups: rows of several CIFAR-10 networks in one data set, grouped by network"))
    if others:
        parts.append(_sizes(others, "Other networks, by which nothing was chosen: random halves of their test rows"))
    parts += [_variants(tried, method) for method in ("ec", "ts")]
    parts += [_splits(splits), _generated(generated), _coverage(coverage)]
    return "\n\n".join(parts) + "\n"


def _arrow(pair, scale=100.0, digits=2) -> str:
    return f"{scale * pair[0]:.{digits}f} → {scale * pair[1]:.{digits}f}"


def _networks(outcomes, method) -> str:
    """One row per network, fitted to the largest number of rows."""
    largest = max(each.size for each in outcomes)
    rows = [
        (
            each.network,
            f"{each.spread:.2f}",
            _arrow(each.gap),
            _arrow(each.gap_corrected),
            _arrow(each.nll, 1.0, 4),
            f"{each.difference:+.4f} ± {each.se:.4f}",
            _arrow(each.ece),
            _arrow(each.ece_corrected),
        )
        for each in outcomes
        if each.method == method and each.size == largest and each.seed == 0
    ]
    headers = ("network", "spread", "mean gap", "without noise", "NLL", "difference", "ECE", "ECE corrected")
    title = {"ec": "Expectation consistency", "ts": "Temperature scaling"}[method]
    return f"## {title}, {largest:,} validation rows\n\n{Tabular(headers, rows).markdown()}"


def _sizes(outcomes, title) -> str:
    """Averages by method and size, and how often the loss rose."""
    rows = []
    for method in ("ec", "ts"):
        for size in sorted({each.size for each in outcomes}):
            chosen = [each for each in outcomes if (each.method, each.size) == (method, size)]
            z = np.array([each.z for each in chosen])
            means = {name: np.mean([getattr(each, name) for each in chosen], axis=0) for name in ("gap", "nll", "ece")}
            corrected = {
                name: np.mean([getattr(each, f"{name}_corrected") for each in chosen], axis=0) for name in ("gap", "ece")
            }
            rows.append(
                (
                    f"{method} {size:,}",
                    f"{len(chosen)}",
                    _arrow(means["gap"]),
                    _arrow(corrected["gap"]),
                    _arrow(means["nll"], 1.0, 4),
                    _arrow(means["ece"]),
                    _arrow(corrected["ece"]),
                    f"{z.max():+.1f}",
                    f"{(z > 2).sum()}",
                    f"{(z < -2).sum()}",
                )
            )
    headers = ("method, rows", "fits", "mean gap", "without noise", "NLL", "ECE", "ECE corrected", "worst z", "z > 2", "z < -2")
    note = "z is the paired difference of the NLL in standard errors: positive where groups are worse."
    return f"## {title}\n\n{Tabular(headers, rows).markdown()}\n\n{note}"


def _variants(tried, method) -> str:
    chosen = [each for each in tried if each.method == method]
    sizes = sorted({each.size for each in chosen})
    rows = []
    for name in dict.fromkeys(each.variant for each in chosen):
        cells = []
        for size in sizes:
            some = [each for each in chosen if (each.variant, each.size) == (name, size)]
            z = np.array([each.z for each in some])
            nll, gap = np.mean([each.nll for each in some]), 100 * np.mean([each.gap for each in some])
            cells.append(f"{nll:.4f}, {gap:.2f}, {z.max():+.1f}, {(z > 2).sum()} of {len(z)}")
        rows.append((name, *cells))
    note = "Each cell: mean NLL, mean gap, worst z, and how many fits are worse than one temperature by z > 2."
    table = Tabular(("variant", *(f"{size:,} rows" for size in sizes)), rows).markdown()
    return f"## Variants for method {method!r}\n\n{note}\n\n{table}"


def _splits(splits) -> str:
    rows = [
        (
            each.name,
            _arrow((each.one.ece, each.many.ece)),
            _arrow((each.one.apart, each.many.apart)),
            _arrow((each.one.ece / each.one.apart, each.many.ece / each.many.apart), 100.0, 0),
            f"{each.correlation:.2f}",
        )
        for each in splits
    ]
    headers = ("network", "ECE", "sum over class and bin", "share that does not cancel, %", "correlation")
    note = (
        "The ECE adds up the gaps of all classes in a bin before it takes their size; the sum over class and bin takes the "
        "size of each gap first. The correlation is that of log T of a class with the logarithm of how much too often the "
        "class is predicted."
    )
    return f"## What the ECE sees\n\n{note}\n\n{Tabular(headers, rows).markdown()}"


def _generated(generated) -> str:
    rows = [
        (
            f"{each.bias:g}",
            _arrow(each.gap),
            _arrow(each.ece),
            _arrow(each.apart),
            _arrow(each.nll, 1.0, 4),
        )
        for each in generated
    ]
    headers = ("largest bias", "mean gap", "ECE", "sum over class and bin", "NLL")
    note = (
        "Labels are drawn from the softmax of z, and the model says 1.6·(z + b) with a bias b per class. The bias alone makes "
        "the overall ECE rise after temperatures per class."
    )
    return f"## Generated data\n\n{note}\n\n{Tabular(headers, rows).markdown()}"


def _coverage(coverage) -> str:
    rows = [
        (
            f"{each.method}, spread {each.spread:g}",
            f"{each.rows:,}",
            f"{100 * each.covered:.1f} %",
            f"{each.common_off:.3f} → {each.groups_off:.3f}",
        )
        for each in coverage
    ]
    headers = ("method, true spread of log T", "rows per group", "covered", "error of log T, one → groups")
    note = "Ten groups with temperatures that are drawn. How many of the 95 % intervals T ± 1.96 standard errors contain them."
    return f"## Standard errors\n\n{note}\n\n{Tabular(headers, rows).markdown()}"


# What happens to the overall ECE when each class gets its own temperature: gaps by class and bin, added up in two ways.
#
# The ECE adds up the gaps of all classes within each bin before it takes their size, so that overconfident and underconfident
# classes cancel. The sum of the sizes of the gaps of each class in each bin has no such cancellation.

N_BINS = 15
PICTURED = "cifar10/resnet20"


@dataclass(frozen=True)
class Split:
    """Gaps (as shares of all rows) of each predicted class in each bin of confidence."""

    gaps: np.ndarray

    @classmethod
    def of(cls, probabilities, labels) -> "Split":
        """Those of some rows; a confidence on an edge counts in the bin below it."""
        p = np.asarray(probabilities, dtype=float)
        confidence, predicted = p.max(axis=1), p.argmax(axis=1)
        bins = np.clip(np.ceil(confidence * N_BINS).astype(int) - 1, 0, N_BINS - 1)
        gaps = np.zeros((p.shape[1], N_BINS))
        np.add.at(gaps, (predicted, bins), (confidence - (predicted == labels)) / len(p))
        return cls(gaps)

    @property
    def ece(self) -> float:
        """After cancellation between classes."""
        return float(np.abs(self.gaps.sum(axis=0)).sum())

    @property
    def apart(self) -> float:
        """Without cancellation between classes."""
        return float(np.abs(self.gaps).sum())


@dataclass(frozen=True)
class Splits:
    """One data set: gaps after one temperature and after one per class, and how often each class is predicted."""

    name: str
    one: Split
    many: Split
    hot: np.ndarray
    correlation: float


def split(name, validation, test) -> Splits:
    """Fit both, and split the gaps of test rows."""
    one, many = ExpectationConsistency().fit(*validation), GroupConsistency().fit(*validation)
    labels = np.asarray(test[1])
    number = len(many.temperatures_)
    predicted = np.bincount(np.asarray(test[0]).argmax(axis=1), minlength=number)
    ratio = np.log((predicted + 1) / (np.bincount(labels, minlength=number) + 1))
    logs = np.log(many.temperatures_)
    correlation = float(np.corrcoef(ratio, logs)[0, 1]) if logs.std() > 1e-9 else float("nan")
    parts = [Split.of(each.predict_proba(test[0]), labels) for each in (one, many)]
    return Splits(name, *parts, many.temperatures_ > many.common_temperature_, correlation)


def splits(networks) -> list[Splits]:
    """Every network."""
    found = []
    for name in networks:
        network = data.load(name)
        found.append(split(name, *((part.logits, part.labels) for part in (network.validation, network.test))))
    return found


@dataclass(frozen=True)
class Generated:
    """Data whose only fault, besides one temperature, is a bias per class: numbers after one temperature and one per class."""

    bias: float
    gap: tuple[float, float]
    ece: tuple[float, float]
    apart: tuple[float, float]
    nll: tuple[float, float]


def generated(n_rows, biases=(0.0, 0.5, 1.0, 1.5), n_classes=10) -> list[Generated]:
    """Labels drawn from the softmax of z; the model says 1.6·(z + b), with b from -bias to bias over the classes."""
    found = []
    for bias in biases:
        rng = np.random.default_rng(1)
        z = 2.2 * rng.normal(size=(n_rows, n_classes))
        z[np.arange(n_rows), rng.integers(n_classes, size=n_rows)] += 4
        labels = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
        said = 1.6 * (z + bias * np.linspace(-1, 1, n_classes))
        half = n_rows // 2
        validation, test = (said[:half], labels[:half]), (said[half:], labels[half:])
        both = split("generated", validation, test)
        used = [ExpectationConsistency().fit(*validation), GroupConsistency().fit(*validation)]
        found.append(
            Generated(
                bias,
                tuple(group_gaps(*test, calibrator=each).mean_abs_gap for each in used),
                (both.one.ece, both.many.ece),
                (both.one.apart, both.many.apart),
                tuple(evaluate(*test, calibrator=each).nll for each in used),
            )
        )
    return found


def pictures(folder) -> None:
    """The gaps of each class, and what the bins of the ECE are made of."""
    import matplotlib  # noqa: PLC0415

    matplotlib.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415 - after the choice of the backend

    network = data.load(PICTURED)
    validation, test = ((part.logits, part.labels) for part in (network.validation, network.test))
    names = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    used = {
        "one temperature": ExpectationConsistency(classes=names),
        "one per predicted class": GroupConsistency(classes=names),
    }
    words = [[names[label] for label in part[1]] for part in (validation, test)]
    found = {title: group_gaps(test[0], words[1], calibrator=each.fit(validation[0], words[0])) for title, each in used.items()}
    ax = plot.group_gaps(found)
    ax.figure.savefig(folder / "groups.png", dpi=120)
    pyplot.close(ax.figure)
    figure = _bins(pyplot, split(PICTURED, validation, test))
    figure.savefig(folder / "groups-ece.png", dpi=120)
    pyplot.close(figure)


def _bins(pyplot, both: Splits):
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4.6), sharey=True, layout="constrained")
    middles = (np.arange(N_BINS) + 0.5) / N_BINS
    parts = {"classes with T above the common one": (both.hot, "vermilion"), "classes with T below it": (~both.hot, "blue")}
    for ax, part, title in zip(axes, (both.one, both.many), ("one temperature", "one per predicted class"), strict=True):
        below = np.zeros(N_BINS)
        for label, (chosen, hue) in parts.items():
            gaps = 100 * part.gaps[chosen].sum(axis=0)
            bottom = np.where(np.sign(gaps) == np.sign(below), below, 0.0)  # on top of the others where they agree in sign
            ax.bar(middles, gaps, bottom=bottom, width=0.8 / N_BINS, color=HUES[hue], alpha=0.75, label=label)
            below = gaps
        total = 100 * part.gaps.sum(axis=0)
        ax.plot(middles, total, "D-", color=HUES["black"], markersize=4.5, linewidth=1, label="all classes: what the ECE sees")
        ax.axhline(0, color="0.3", linewidth=0.7)
        ax.set(xlabel="confidence", title=f"{title}\nECE {100 * part.ece:.1f} points, class by class {100 * part.apart:.1f}")
        ax.set_xlim(0.1, 1)
    axes[0].set_ylabel("(confidence − accuracy) × share of rows, points")
    figure.legend(*axes[0].get_legend_handles_labels(), frameon=False, loc="outside lower center", ncols=3)
    return figure


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

    alike = [name for name in given.networks if name.startswith("cifar10/")]
    sizes = sorted(given.sizes)
    text = report(
        by_prediction(given.networks, sizes, given.seeds, note),
        by_network(alike, sizes, given.seeds, note) if len(alike) > 1 else [],
        on_others(given.data, sizes, given.seeds, note),
        variants(given.networks, sizes, given.seeds, note),
        splits(given.networks),
        generated(given.rows),
        coverage(given.draws, (given.rows // 800, given.rows // 200, given.rows // 40)),
    )
    if given.out is None:
        print(text)
    else:
        given.out.write_text(text, encoding="utf-8")
    if given.pictures is not None:
        pictures(given.pictures)


if __name__ == "__main__":
    main()
