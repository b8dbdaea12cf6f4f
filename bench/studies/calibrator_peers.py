"""Our calibrators beside those of scikit-learn, probmetrics, dirichletcal and netcal: how far their probabilities differ.

    python bench/studies/calibrator_peers.py --peers PYTHON     # writes bench/results/calibrator_peers.md, in about a minute

PYTHON is an interpreter that has the packages, by default the running one; what it does not have is named in the table. Both
sides are fitted to the same validation rows, and compared on the test rows: of a bundled network with ten classes and, joined
into animals and machines, with two, and of generated rows, whose probabilities are not close to 0 or 1.
"""

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import nishimori
from calibrators_data import CAL_ARENA, Rows, Split, splits
from calibrators_tables import duration, table

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).parent / "calibrator_peer_fits.py"
N_GENERATED = 4000
TINY = np.finfo(float).tiny


@dataclass(frozen=True)
class Pair:
    """One calibrator of another package, ours that does the same, and what limits how closely they can agree."""

    package: str
    theirs: str
    ours: str
    note: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def our_name(self) -> str:
        """The method with its parameters."""
        given = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        return f'`"{self.ours}"`' + (f", `{given}`" if given else "")


LBFGS = "theirs stops where L-BFGS does (gradient below 1e-4, the default of scikit-learn)"
BFGS = "theirs stops where BFGS does (gradient below 1e-5)"
SINGLE = "theirs rounds probabilities to float32 first, so that log(1 − p) has few digits where p is near 1"
SCIPY = "theirs stops where its search in SciPy does"
EDGES = "the same bins for the validation rows; edges lie elsewhere between two of them, and test rows between the edges differ"
ROW = "another loss: dirichletcal inside, which penalises the rows of the matrix minus the last one by default"
ODIR = {"odir": (1e-3, 1e-3)}
PLAIN = {"smooth_labels": False}
NO_PRIOR = {"prior": 0.0}
BINS = {"n_bins": 10, "prior": 0.0}
QUANTILES = BINS | {"strategy": "quantile"}
FREE = {"penalty": None}
PAIRS = (
    Pair("scikit-learn", "temperature", "ts", "both to the end of the search"),
    Pair("scikit-learn", "sigmoid", "platt", "both to the end of the search"),
    Pair("scikit-learn", "isotonic", "isotonic", "rounding", NO_PRIOR),
    Pair("probmetrics", "temp-scaling", "ts", "theirs is a bisection of 30 steps"),
    Pair("probmetrics", "affine", "platt", f"{SINGLE}; {LBFGS}", PLAIN),
    Pair("probmetrics", "quadratic", "quadratic", f"{SINGLE}; {LBFGS}", PLAIN),
    Pair("probmetrics", "beta", "beta", f"betacal inside; {SINGLE}; {LBFGS}", PLAIN),
    Pair("probmetrics", "vector, centred logits", "vector", BFGS, FREE),
    Pair("probmetrics", "matrix, centred logits", "matrix", BFGS, FREE),
    Pair(
        "probmetrics", "ETS", "mixture", 'with `loss="ce"`; theirs has log-probabilities in float32, and T between 0.05 and 5'
    ),
    Pair("probmetrics", "dirichlet", "dirichlet", ROW, ODIR),
    Pair("dirichletcal", "ODIR, ref_row=False", "dirichlet", "both to the end of the search", ODIR),
    Pair("probmetrics", "isotonic", "isotonic", "rounding; scikit-learn inside", NO_PRIOR),
    Pair("probmetrics", "histogram, uniform", "histogram", "rounding", BINS),
    Pair("probmetrics", "histogram, quantile", "histogram", EDGES, QUANTILES),
    Pair("netcal", "TemperatureScaling", "ts", SCIPY),
    Pair("netcal", "LogisticCalibration", "platt", SCIPY, PLAIN),
    Pair("netcal", "BetaCalibration", "beta", SCIPY, PLAIN),
    Pair("netcal", "IsotonicRegression", "isotonic", "rounding; scikit-learn inside", NO_PRIOR),
    Pair("netcal", "HistogramBinning", "histogram", "rounding", BINS),
)


@dataclass(frozen=True)
class Agreement:
    """How closely a pair agrees on one data set, or why it cannot be said."""

    data: str
    pair: Pair
    largest: float = np.nan
    median: float = np.nan
    their_excess: float = np.nan
    missing: str = ""


def generated(n_classes: int) -> Split:
    """Rows whose probabilities are moderate, and whose labels do not follow them exactly."""
    rng = np.random.default_rng(n_classes)
    logits = 1.5 * rng.normal(size=(2 * N_GENERATED, n_classes))
    scale, bias = np.linspace(0.5, 0.9, n_classes), np.linspace(-0.3, 0.3, n_classes)
    labels = (scale * logits + 0.05 * logits**2 + bias + rng.gumbel(size=logits.shape)).argmax(axis=1)
    rows = Rows(logits, labels)
    first, second = (rows.of(np.arange(start, start + N_GENERATED)) for start in (0, N_GENERATED))
    return Split(f"generated, {n_classes} classes", "generated", 0, "all", first, second)


def data_sets() -> Iterator[Split]:
    """Two generated ones and a network with ten and with two classes."""
    yield from (generated(2), generated(4))
    yield from splits(None, sizes=(), seeds=1, quick=True)


def fitted_by(python: str, split: Split, *which: str) -> dict[str, np.ndarray]:
    """What the peers found, which run in a process of their own."""
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "in.npz", Path(folder) / "out.npz"
        arrays = {"validation": split.validation.logits, "labels": split.validation.labels.astype(np.int64)}
        np.savez(given, **arrays, test=split.test.logits)
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        line = [python, str(SCRIPT), str(given), str(found), *which]
        subprocess.run(line, check=True, env=environment, stdout=subprocess.DEVNULL)  # noqa: S603
        with np.load(found) as results:
            return dict(results)


def agreements(python: str, split: Split) -> Iterator[Agreement]:
    """Every pair that suits the number of classes."""
    theirs = fitted_by(python, split)
    validation, test = split.validation, split.test
    for pair in PAIRS:
        key = f"{pair.package}|{pair.theirs}"
        problem = theirs.get(f"{pair.package}|*|error", theirs.get(f"{key}|error"))
        if problem is not None:
            yield Agreement(split.name, pair, missing=str(problem))
        elif f"{key}|test" in theirs:
            ours = nishimori.calibrator(pair.ours, **pair.options).fit(validation.logits, validation.labels)
            difference = np.abs(np.asarray(ours.predict_proba(test.logits)) - theirs[f"{key}|test"])
            fits = (theirs[f"{key}|validation"], np.asarray(ours.predict_proba(validation.logits)))
            their_loss, our_loss = (float(losses(p, validation.labels).mean()) for p in fits)
            median = float(np.median(difference.max(axis=1)))
            yield Agreement(split.name, pair, float(difference.max()), median, their_loss - our_loss)


def losses(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The cross-entropy of each row; a probability of zero counts as the smallest number."""
    return -np.log(np.maximum(probabilities[np.arange(len(labels)), labels], TINY))


INTRODUCTION = """Written by `bench/studies/calibrator_peers.py`. Both sides are fitted to the same validation rows, and netcal
computes in float64. Δp is the difference of the probabilities of the test rows: the largest one over rows and classes, and the
median over rows of the largest in a row. *Training NLL* is theirs minus ours, on the validation rows: positive where the peer
has not reached the minimum that both look for. A row without numbers says why.

What has no counterpart: the sigmoids of scikit-learn for more than two classes (one per class, divided by their sum), vector
scaling of log-probabilities (netcal, and probmetrics with probabilities; ours is a function of centred logits, so that a
constant added to all logits of a row changes nothing), and the penalties of our defaults."""


def report(found: list[Agreement], versions: str) -> str:
    """One table per data set."""
    parts = ["# Agreement with other software", INTRODUCTION, versions]
    for data in dict.fromkeys(each.data for each in found):
        lines = [line(each) for each in found if each.data == data]
        head = ["package", "theirs", "ours", "largest Δp", "median Δp", "training NLL, theirs − ours", "what limits it"]
        parts += [f"## {data}", table(head, lines)]
    return "\n\n".join(parts) + "\n"


def line(each: Agreement) -> list[str]:
    """One row of the table."""
    first = [each.pair.package, each.pair.theirs, each.pair.our_name]
    if each.missing:
        return [*first, "-", "-", "-", each.missing]
    numbers = [digits(each.largest), digits(each.median), digits(each.their_excess, sign="+")]
    return [*first, *numbers, each.pair.note]


def digits(value: float, sign: str = "") -> str:
    """One digit; what is below the resolution of a probability in float64 is zero."""
    return "0" if abs(value) < 1e-15 else f"{value:{sign}.0e}"


def versions(python: str) -> str:
    """Of the packages, as the interpreter of the peers has them."""
    code = (
        "import importlib.metadata as m\n"
        "for n in ('scikit-learn', 'probmetrics', 'betacal', 'dirichletcal', 'netcal', 'torch'):\n"
        "    try: print(n, m.version(n), end=', ')\n"
        "    except m.PackageNotFoundError: print(n, 'not installed', end=', ')"
    )
    done = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True)  # noqa: S603
    return f"Versions: {done.stdout}nishimori {nishimori.__version__}."


def main() -> None:
    """Fit, compare and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", metavar="PYTHON", default=sys.executable, help="an interpreter that has the packages")
    parser.add_argument("--out", type=Path, default=ROOT / "bench/results/calibrator_peers.md")
    options = parser.parse_args()
    found = []
    for split in data_sets():
        found += agreements(options.peers, split)
        print(f"{split.name}: done", flush=True)
    options.out.write_text(report(found, versions(options.peers)), encoding="utf-8")


# Our vector and matrix scaling beside those of probmetrics, fitted to the same rows: a part of `calibrators.py`.

AFFINE_DATA = (CAL_ARENA, "cifar10/resnet20", "cifar10/densenet121", "svhn/resnet20", "cifar100/vgg19")
# Ours beside each of theirs, and whether both minimise the same loss over the same maps.
AFFINE_PAIRS: dict[str, tuple[str, dict[str, Any], bool]] = {
    "VS, centred logits": ("vector", {"penalty": None}, True),
    "MS, centred logits": ("matrix", {"penalty": None}, True),
    "VS": ("vector", {"penalty": None}, False),
    "MS": ("matrix", {"penalty": None}, False),
    "SVS": ("vector", {}, False),
    "SMS": ("matrix", {}, False),
}
SKIPPED = "This part was not run: it needs an interpreter that has probmetrics 1.3. Pass `--peers PYTHON`."
AFFINE_NOTE = """probmetrics 1.3 computes in float64 with one thread here. Its vector (VS) and matrix scaling (MS) act on
log-probabilities, as in CalArena. Ours act on centred logits, so that a constant added to all logits of a row changes nothing.
*Centred logits* means that probmetrics was given these numbers too: both then minimise the same loss over the same maps, which
has one minimum. BFGS in probmetrics stops where each component of the gradient is below 1e-5, so that its training NLL may lie
above ours, and not below. The parameters themselves cannot be compared: many of them give the same probabilities. The other
lines compare different maps or different penalties: SVS and SMS have fixed strengths, and those of our defaults are estimated
from the validation rows. Matrix scaling without a penalty is left out for 100 classes: 10,100 parameters separate 5,000 rows,
and the loss has no minimum. The difference of the test NLL is ours minus theirs, with its paired standard error. Δp is the
largest difference of a test probability. *Time* is theirs over ours."""


@dataclass(frozen=True)
class PeerRow:
    """One calibrator of probmetrics and ours beside it."""

    data: str
    theirs: str
    ours: str
    same_loss: bool
    their_train: float
    our_train: float
    their_test: float
    our_test: float
    difference: float
    difference_se: float
    largest: float
    their_seconds: float
    our_seconds: float


def interpreter(given: str | None) -> str | None:
    """The one that was asked for, else the running one if it has probmetrics."""
    return given or (sys.executable if importlib.util.find_spec("probmetrics") else None)


def agreement(python: str, split: Split) -> list[PeerRow]:
    """All pairs on one split."""
    theirs = fitted_by(python, split, "affine")
    rows = []
    for name, (method, options, same) in AFFINE_PAIRS.items():
        if f"probmetrics|{name}|test" not in theirs:
            continue
        start = time.perf_counter()
        ours = nishimori.calibrator(method, **options).fit(split.validation.logits, split.validation.labels)
        seconds = time.perf_counter() - start
        parts = (split.validation, split.test)
        our_p = [np.asarray(ours.predict_proba(part.logits)) for part in parts]
        their_p = [theirs[f"probmetrics|{name}|{part}"] for part in ("validation", "test")]
        (their_train, their_test), (our_train, our_test) = (
            [losses(p, part.labels) for p, part in zip(each, parts, strict=True)] for each in (their_p, our_p)
        )
        difference = our_test - their_test
        rows.append(
            PeerRow(
                data=split.name,
                theirs=name,
                ours=method if not options else f"{method}, penalty=None",
                same_loss=same,
                their_train=float(their_train.mean()),
                our_train=float(our_train.mean()),
                their_test=float(their_test.mean()),
                our_test=float(our_test.mean()),
                difference=float(difference.mean()),
                difference_se=float(difference.std() / np.sqrt(len(difference))),
                largest=float(np.abs(our_p[1] - their_p[1]).max()),
                their_seconds=float(theirs[f"probmetrics|{name}|seconds"]),
                our_seconds=seconds,
            )
        )
    return rows


def section(rows: Sequence[PeerRow]) -> str:
    """The comparison in Markdown, or a line that says why there is none."""
    if not rows:
        return SKIPPED
    head = [
        "data",
        "probmetrics",
        "ours",
        "same loss",
        "training NLL, theirs",
        "ours",
        "test NLL, theirs",
        "ours",
        "difference",
        "Δp",
        "time",
    ]
    lines = [
        [
            row.data,
            row.theirs,
            row.ours,
            "yes" if row.same_loss else "no",
            f"{row.their_train:.8f}",
            f"{row.our_train:.8f}",
            f"{row.their_test:.6f}",
            f"{row.our_test:.6f}",
            f"{row.difference:+.6f} ± {row.difference_se:.6f}",
            f"{row.largest:.0e}",
            f"{row.their_seconds / row.our_seconds:.2g} ({duration(row.their_seconds)} / {duration(row.our_seconds)})",
        ]
        for row in rows
    ]
    return f"{AFFINE_NOTE}\n\n{table(head, lines)}"


if __name__ == "__main__":
    main()
