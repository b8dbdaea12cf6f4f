"""Every calibrator of nishimori on the same data, to see which one helps, by how much, and whether one ever does harm.

    python bench/studies/calibrators.py --logits FOLDER --peers PYTHON    # everything, some minutes on one core
    python bench/studies/calibrators.py --quick                           # one network, in seconds; the numbers mean little
    python bench/studies/calibrators.py --methods isotonic platt          # these only; the numbers of the others stay
    python bench/studies/calibrators.py --tables-only                     # tables and picture, from the numbers of the last run

Each method of `nishimori.methods` is fitted to the validation set of each bundled network and measured on its test set. FOLDER
(by default the folder ``logits`` in $NISHIMORI_DATA, if that is set) holds further networks, as .npz files with ``logits`` and
``labels``. Each is divided into random halves with fixed seeds. Methods for two classes are fitted to the bundled CIFAR-10
networks with the classes joined into animals and machines, as in CalArena. Everything is repeated with 100, 500 and 1,000
validation rows. Measured are NLL, Brier score, ECE (15 bins of equal width), the gap per predicted class, the error, and the
processor time of the fit. Differences from one temperature (TS, EC) are paired.

PYTHON is an interpreter that has probmetrics 1.3 (by default the running one, if it has it). Its vector, matrix and structured
scaling are then fitted to the same rows. Without it that part is left out.

Writes calibrators.csv (one line per method and data set), calibrators_peers.csv and calibrators.md (tables) to the folder of
results, and calibrators.png to the folder of images.
"""

import argparse
import os
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

import nishimori
from calibrator_peers import AFFINE_DATA, SKIPPED, PeerRow, agreement, interpreter, section
from calibrators_data import Rows, Split, Table, read_rows, splits
from calibrators_tables import Numbers, report
from nishimori._evaluation.differences import Difference, measure_maps
from nishimori._rows.entry import open_rows
from nishimori.plot._style import COLORS, HUES, MARKERS

# The picture of the benchmark of calibrators: what each method gains over one temperature, network by network.

LOOKS = {
    "ts": {"color": COLORS["ts"], "marker": MARKERS["ts"]},
    "group": {"color": HUES["purple"], "marker": "v"},
    "bias": {"color": HUES["sky"], "marker": "P"},
    "vector": {"color": HUES["indigo"], "marker": "<"},
    "matrix": {"color": HUES["green"], "marker": "D"},
}


def picture(rows: Sequence[Any], path: Path) -> None:
    """Relative change of the NLL with error bars, and the gap per predicted class, one line per data set of several classes."""
    matplotlib.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415 - after the choice of the backend

    numbers = Numbers([row for row in rows if row.n_classes > 2])
    best = [method for method in LOOKS if method in numbers.methods][-1]
    order = np.argsort(-numbers.of("nll_from_ts", best) / numbers.of("nll", "ts"))
    names = [numbers.data[i] for i in order]
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(12, 1.6 + 0.27 * len(names)), sharey=True, layout="constrained")
    at = np.arange(len(names))
    shown = [method for method in LOOKS if method in numbers.methods]
    for i, method in enumerate(shown):
        shift = 0.13 * (i - (len(shown) - 1) / 2)
        look = LOOKS[method] | {"linestyle": "none", "markersize": 5, "label": method}
        if method != "ts":
            scale = 100 / numbers.of("nll", "ts")[order]
            change, error = (scale * numbers.of(f"nll_from_ts{suffix}", method)[order] for suffix in ("", "_se"))
            left.errorbar(change, at + shift, xerr=2 * error, elinewidth=1, **look)
        right.plot(100 * numbers.of("class_gap", method)[order], at + shift, **look)
    right.plot(100 * numbers.of("class_gap_chance", "ts")[order], at, "|", color="0.3", markersize=13, label="chance alone")
    left.axvline(0, color=COLORS["ts"], linewidth=1.2)
    left.set_xlabel("NLL compared with one temperature (TS), %\nbars: two paired standard errors; left of the line: better")
    right.set(xlabel="gap between confidence and accuracy,\nmean over predicted classes, points", xlim=(0, None))
    left.set_yticks(at, names, fontsize=8)
    for ax in (left, right):
        ax.grid(axis="x", alpha=0.3)
        for line in at[:-1] + 0.5:
            ax.axhline(line, color="0.9", linewidth=0.6, zorder=0)
        ax.set_ylim(-0.6, len(names) - 0.4)
    right.legend(loc="lower right", fontsize=9)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


ROOT = Path(__file__).parents[2]
SIZES, SEEDS = (100, 500, 1000), 3
FIRST = ("none", "ts", "ec", "adaptive")  # what the others are compared with
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "group, ts": ("group", {"method": "ts"}),
    "bias, ts": ("bias", {"method": "ts"}),
    "platt, not smooth": ("platt", {"smooth_labels": False}),
    "bias, keeps": ("bias", {"preserve_accuracy": True}),
    "vector, keeps": ("vector", {"preserve_accuracy": True}),
    "matrix, keeps": ("matrix", {"preserve_accuracy": True}),
}
NAMES = (*FIRST, *(name for name in nishimori.methods() if name not in FIRST))
METHODS: dict[str, tuple[str, dict[str, Any]]] = {name: (name, {}) for name in NAMES}
METHODS |= {label: (name, options) for label, (name, options) in VARIANTS.items() if name in NAMES}


@dataclass(frozen=True)
class Row:
    """One method on one split.

    ``*_from_ts`` and ``*_from_ec`` are paired differences from one temperature, each with its standard error.
    """

    data: str
    origin: str
    n_classes: int
    n_validation: int
    size: str
    seed: int
    method: str
    seconds: float
    nll: float
    brier: float
    ece: float
    class_gap: float
    class_gap_chance: float
    error: float
    changed: float
    nll_from_ts: float
    nll_from_ts_se: float
    brier_from_ts: float
    brier_from_ts_se: float
    error_from_ts: float
    error_from_ts_se: float
    nll_from_ec: float
    nll_from_ec_se: float


def suits(name: str, n_classes: int) -> bool:
    """Whether a method works for so many classes."""
    traits = nishimori.calibrator(name).traits
    return traits is None or traits.n_classes == "any" or n_classes == 2


def fits(split: Split, labels: Iterable[str]) -> dict[str, tuple[Any, float]]:
    """The map of each method that could be fitted, and the seconds that it took."""
    found: dict[str, tuple[Any, float]] = {}
    for label in labels:
        name, options = METHODS[label]
        if split.size != "all" and "preserve_accuracy" in options:
            continue  # the same fit as without it, so that little is learnt for half of the time
        if not suits(name, split.test.logits.shape[1]):
            continue
        try:
            found[label] = timed(name, options, split.validation)
        except nishimori.errors.NishimoriError as error:
            print(f"{split.name}, {split.size} rows: {label} could not be fitted. {error}", flush=True)
    return found


def measured(split: Split, labels: Sequence[str]) -> Iterator[Row]:
    """One row per method that could be fitted."""
    fitted = fits(split, [label for label in METHODS if label in ("ts", "ec", *labels)])
    if "ts" not in fitted:
        return  # nothing to compare with
    maps = {label: found for label, (found, _) in fitted.items()}
    cards, differences = scored(split.test, maps)
    logs = {label: np.asarray(map_.log_probabilities(split.test.logits)) for label, map_ in maps.items()}
    before = split.test.logits.argmax(axis=1)
    for label, (_, seconds) in fitted.items():
        if label not in labels:
            continue
        card, ts = cards[label], differences[label]
        from_ec, from_ec_se = paired_nll(logs["ec"], logs[label], split.test.labels) if "ec" in logs else (np.nan, np.nan)
        gap, chance = class_gap(np.exp(logs[label]), split.test.labels)
        yield Row(
            data=split.name,
            origin=split.origin,
            n_classes=split.test.logits.shape[1],
            n_validation=len(split.validation.labels),
            size=split.size,
            seed=split.seed,
            method=label,
            seconds=seconds,
            nll=card.nll,
            brier=card.brier,
            ece=card.ece,
            class_gap=gap,
            class_gap_chance=chance,
            error=card.error,
            changed=float((logs[label].argmax(axis=1) != before).mean()),
            nll_from_ts=ts["nll"].value,
            nll_from_ts_se=ts["nll"].se,
            brier_from_ts=ts["brier"].value,
            brier_from_ts_se=ts["brier"].se,
            error_from_ts=ts["error"].value,
            error_from_ts_se=ts["error"].se,
            nll_from_ec=from_ec,
            nll_from_ec_se=from_ec_se,
        )


def timed(name: str, options: dict[str, Any], rows: Rows) -> tuple[Any, float]:
    """The map that a method finds, and the seconds of processor time that it takes, whatever else the machine does."""
    with warnings.catch_warnings():
        for kind in (nishimori.errors.InputWarning, nishimori.errors.FewErrorsWarning):
            warnings.simplefilter("ignore", kind)  # degenerate groups and few errors: what a method then does is measured
        start = time.process_time()
        map_ = nishimori.calibrator(name, **options).fit(rows.logits, rows.labels).map_
        return map_, time.process_time() - start


def scored(test: Rows, maps: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Difference]]]:
    """The scorecard of each map, and its paired differences from TS."""
    others = [name for name in maps if name != "ts"]
    measured = measure_maps(open_rows(test.logits, test.labels), maps, pairs=[("ts", name) for name in others])
    differences = {"ts": {name: Difference(0.0, 0.0, 1.0) for name in ("nll", "brier", "ece", "error")}}
    return dict(measured.cards), differences | {name: measured.differences("ts", name) for name in others}


def paired_nll(first: np.ndarray, second: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """NLL after the second map minus that after the first one, from log-probabilities, and its standard error."""
    rows = np.arange(len(labels))
    difference = first[rows, labels] - second[rows, labels]
    return float(difference.mean()), float(difference.std() / np.sqrt(len(labels)))


def class_gap(probabilities: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Mean |confidence - accuracy| over predicted classes, and what chance alone makes of it in a calibrated model.

    A class that is never predicted does not count. Chance is the mean of |x| for a normal x with the variance of the gap.
    """
    top, confidence = probabilities.argmax(axis=1), probabilities.max(axis=1)
    n = np.bincount(top, minlength=probabilities.shape[1])
    gaps = np.bincount(top, confidence - (top == labels), len(n))
    variances = np.bincount(top, confidence * (1 - confidence), len(n))
    seen = n > 0
    return float(np.mean(np.abs(gaps[seen]) / n[seen])), float(np.mean(np.sqrt(2 / np.pi * variances[seen]) / n[seen]))


def run(found: Iterable[Split], path: Path, labels: Sequence[str]) -> list[Row]:
    """The rows of these methods, written as they come, after those of other methods from the last run."""
    rows: list[Row] = [row for row in read_rows(Row, path) if row.method in METHODS and row.method not in labels]
    with Table(Row, path) as table:
        for row in rows:
            table.write(row)
        for split in found:
            start = time.perf_counter()
            for row in measured(split, labels):
                rows.append(row)
                table.write(row)
            print(f"{split.name}, seed {split.seed}, {split.size} rows: {time.perf_counter() - start:.1f} s", flush=True)
    return rows


def run_peers(python: str | None, found: Iterable[Split], path: Path) -> list[PeerRow]:
    """The rows of all peers, written as they come; none without an interpreter that has them."""
    rows: list[PeerRow] = []
    if python is None:
        print(SKIPPED)
        return rows
    with Table(PeerRow, path) as table:
        for split in found:
            if split.name in AFFINE_DATA and split.size == "all" and split.seed == 0:
                for row in agreement(python, split):
                    rows.append(row)
                    table.write(row)
                print(f"{split.name}: probmetrics done", flush=True)
    return rows


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    shared = os.environ.get("NISHIMORI_DATA")
    parser.add_argument("--logits", type=Path, default=shared and Path(shared) / "logits", help="folder of further networks")
    parser.add_argument("--peers", metavar="PYTHON", help="an interpreter that has probmetrics")
    parser.add_argument("--quick", action="store_true", help="one network, 500 validation rows or all")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=tuple(METHODS), help="only these")
    parser.add_argument("--tables-only", action="store_true", help="from the numbers of the last run")
    parser.add_argument("--out", type=Path, default=ROOT / "bench/results", help="folder of numbers and tables")
    parser.add_argument("--images", type=Path, default=ROOT / "docs/images", help="folder of pictures")
    options = parser.parse_args()
    paths = options.out / "calibrators.csv", options.out / "calibrators_peers.csv"
    sizes, seeds = ((500,), 1) if options.quick else (SIZES, SEEDS)
    found = partial(splits, options.logits, seeds=seeds, quick=options.quick)
    if options.tables_only:
        rows, peers = read_rows(Row, paths[0]), read_rows(PeerRow, paths[1])
    else:
        rows = run(found(sizes=sizes), paths[0], options.methods)
        peers = run_peers(interpreter(options.peers), found(sizes=()), paths[1])
    rows.sort(key=lambda row: list(METHODS).index(row.method))  # the order of the tables
    (options.out / "calibrators.md").write_text(report(rows, section(peers)), encoding="utf-8")
    picture(rows, options.images / "calibrators.png")


if __name__ == "__main__":
    main()
