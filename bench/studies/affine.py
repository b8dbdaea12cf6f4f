"""Vector and matrix scaling against one temperature: how much they gain, when they harm, and how strengths should be chosen.

    python bench/studies/affine.py --quick              # two networks, in seconds; the numbers mean little
    python bench/studies/affine.py --data FOLDER        # all, half an hour on one core
    python bench/studies/affine.py --data FOLDER --resume   # go on with a run that was stopped
    python bench/studies/affine.py --tables-only        # the tables again, from the numbers of the last run

Subjects are the bundled networks (fitted to rows of their validation set, measured on their test set) and, with ``--data`` or
the environment variable NISHIMORI_DATA, the files ``*.npz`` of a folder (arrays "logits" and "labels"). Each file is cut into
two random halves; methods are fitted to rows of one and measured on the other, both ways.

Methods are temperature scaling, one temperature with biases, vector scaling, and matrix scaling with strengths chosen in three
ways: as the library does by default, by marginal likelihood without the prior of the strengths, and by five-fold
cross-validation. The last two, which take long, are measured on networks of ten classes trained on all images and on one of the
two halves. If the folder has ``nncal__cifar10_val5000__densenet40.npz`` and ``nncal__cifar10_test__densenet40.npz``, the second
is used for one table only, in which the methods are fitted to the first.

Writes numbers to affine.jsonl as they come, and tables to affine.md, in the folder of results.
"""

import argparse
import json
import os
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import nishimori
from nishimori import TemperatureScaling, VectorScaling, data
from nishimori._fit.affine import parameters as strengths_module
from nishimori.calibrators import MatrixScaling

ROOT = Path(__file__).parents[2]
SIZES = (500, 1000, 5000)
ROW = ("nncal__cifar10_val5000__densenet40", "nncal__cifar10_test__densenet40")
FOLDS = 5
# What cross-validation tries: all strengths together, then each by itself.
TOGETHER, ALONE = (0.3, 1.0, 3.0, 10.0, 100.0), (0.25, 4.0)
MOST_CLASSES = 10

# Log-loss, Brier score and ECE with 15 bins that CalArena (arXiv:2605.30188) publishes for CIFAR-10, DenseNet-40.
PUBLISHED = {
    "none": (0.430059, 0.127379, 0.055007),
    "TS": (0.225086, 0.109975, 0.009468),
    "vector scaling": (0.224401, 0.110077, 0.011338),
    "matrix scaling": (0.227014, 0.112158, 0.013124),
    "Dirichlet": (0.224063, 0.111180, 0.012098),
    "structured vector scaling (SVS)": (0.222181, 0.109646, 0.010553),
    "structured matrix scaling (SMS)": (0.220620, 0.109794, 0.009335),
}


@dataclass(frozen=True)
class Subject:
    """Rows to fit to and rows to measure on."""

    name: str
    logits: np.ndarray
    labels: np.ndarray
    test_logits: np.ndarray
    test_labels: np.ndarray

    @property
    def is_studied(self) -> bool:
        """Whether all ways to choose strengths are tried."""
        return self.logits.shape[1] <= MOST_CLASSES and "fraction" not in self.name and "half 2" not in self.name

    def part(self, size: int) -> "Subject":
        """The same with fewer rows to fit to."""
        chosen = np.random.default_rng([size, *self.name.encode()]).permutation(len(self.labels))[:size]
        return Subject(self.name, self.logits[chosen], self.labels[chosen], self.test_logits, self.test_labels)


def bundled(names):
    """The bundled networks."""
    for name in names:
        found = data.load(name)
        yield Subject(name, found.validation.logits, found.validation.labels, found.test.logits, found.test.labels)


def halves(folder):
    """Random halves of the files of a folder, both ways, without the test file of the last table."""
    for path in sorted(Path(folder).glob("*.npz")):
        if path.stem == ROW[1]:
            continue
        rows = np.load(path)
        logits, labels = rows["logits"], rows["labels"]
        order = np.random.default_rng(0).permutation(len(labels))
        one, other = order[: len(order) // 2], order[len(order) // 2 :]
        for i, (fit, test) in enumerate(((one, other), (other, one)), 1):
            yield Subject(f"{path.stem}, half {i}", logits[fit], labels[fit], logits[test], labels[test])


@contextmanager
def without_prior():
    """Strengths by marginal likelihood alone."""
    usual = strengths_module.PSEUDO
    strengths_module.PSEUDO = 1e-9
    try:
        yield
    finally:
        strengths_module.PSEUDO = usual


def evidence_alone(logits, labels):
    """Matrix scaling without the prior of the strengths."""
    with without_prior():
        return MatrixScaling().fit(logits, labels)


def cross_validated(logits, labels):
    """Matrix scaling with the strengths of least loss in five-fold cross-validation."""
    fold = np.random.default_rng(0).permutation(len(labels)) % FOLDS

    def loss(strengths):
        fits = (MatrixScaling(penalty=tuple(strengths)).fit(logits[fold != i], labels[fold != i]) for i in range(FOLDS))
        return sum(nll(fit, logits[fold == i], labels[fold == i]).sum() for i, fit in enumerate(fits))

    best = np.array(list(strengths_module.LEAST.values()))
    best = min((best * factor for factor in TOGETHER), key=loss)
    for block in range(3):
        tried = [best, *(np.where(np.arange(3) == block, factor * best, best) for factor in ALONE)]
        best = min(tried, key=loss)
    return MatrixScaling(penalty=tuple(best)).fit(logits, labels)


METHODS = {
    "TS": lambda logits, labels: TemperatureScaling().fit(logits, labels),
    "bias": lambda logits, labels: nishimori.calibrator("bias").fit(logits, labels),
    "vector": lambda logits, labels: VectorScaling().fit(logits, labels),
    "matrix": lambda logits, labels: MatrixScaling().fit(logits, labels),
    "matrix, likelihood alone": evidence_alone,
    "matrix, cross-validated": cross_validated,
}


def nll(fitted, logits, labels):
    """The loss of each row."""
    return -fitted.predict_log_proba(logits.astype(np.float64))[np.arange(len(labels)), labels]


def class_gap(p, labels):
    """The mean over predicted classes of |mean confidence − accuracy|."""
    top = p.argmax(axis=1)
    gaps = p.max(axis=1) - (top == labels)
    return float(np.mean([abs(gaps[top == c].mean()) for c in np.unique(top)]))


def measured(subject, names):
    """Numbers of each method: seconds, NLL, difference of NLL from TS with its paired standard error, error, ECE, gap."""
    result, base = {}, None
    for name in names:
        start = time.perf_counter()
        fitted = METHODS[name](subject.logits, subject.labels)
        seconds = time.perf_counter() - start
        losses = nll(fitted, subject.test_logits, subject.test_labels)
        base = losses if base is None else base
        p = fitted.predict_proba(subject.test_logits.astype(np.float64))
        result[name] = {
            "seconds": seconds,
            "nll": float(losses.mean()),
            "difference": float((losses - base).mean()),
            "se": float((losses - base).std() / np.sqrt(len(base))),
            "error": float((p.argmax(axis=1) != subject.test_labels).mean()),
            "ece": nishimori.metrics.ece(np.log(p + 1e-300), subject.test_labels),
            "gap": class_gap(p, subject.test_labels),
        }
    return result


def published_row(folder):
    """The methods on the two files of CalArena's row."""
    fit, test = (np.load(Path(folder) / f"{name}.npz") for name in ROW)
    result = {}
    for name in ("TS", "bias", "vector", "matrix"):
        fitted = METHODS[name](fit["logits"], fit["labels"])
        found = nishimori.evaluate(test["logits"], test["labels"], calibrator=fitted)
        result[name] = [found.nll, found.brier, found.ece, found.error]
    return result


def run(arguments, path):
    """Measure everything, a line per subject and size."""
    networks = data.names()[:2] if arguments.quick else data.names()
    sizes = SIZES[:1] if arguments.quick else SIZES
    names = list(METHODS)[:4] if arguments.quick else list(METHODS)
    subjects = [*bundled(networks)]
    if arguments.data:
        subjects += list(halves(arguments.data))
    done = set()
    if arguments.resume and path.exists():
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        done = {(line["subject"], line["size"]) for line in lines if "subject" in line}
    with path.open("a" if arguments.resume else "w", encoding="utf-8") as out:
        for size in reversed(sizes):
            for subject in subjects:
                if (subject.name, size) in done:
                    continue
                part = subject.part(size)
                numbers = measured(part, names if subject.is_studied else names[:4])
                row = {"subject": subject.name, "size": size, "rows": len(part.labels), "numbers": numbers}
                out.write(json.dumps(row) + "\n")
                out.flush()
                print(subject.name, size, {name: round(each["nll"], 4) for name, each in numbers.items()}, flush=True)
        if arguments.data and all((Path(arguments.data) / f"{name}.npz").exists() for name in ROW):
            out.write(json.dumps({"row": published_row(arguments.data)}) + "\n")


def table(head, rows):
    """A table in Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def overview(rows, size):
    """NLL, error, ECE and gap of each network with its four methods."""
    names = ("TS", "bias", "vector", "matrix")
    body = []
    for row in (each for each in rows if each["size"] == size):
        found = [row["numbers"][name] for name in names]
        cells = [" → ".join(f"{each[what] * unit:{form}}" for each in found) for what, unit, form in COLUMNS]
        body.append([row["subject"], str(row["rows"]), *cells])
    return table(["", "rows", "NLL", "error, %", "ECE, %", "gap per class, points"], body)


COLUMNS = (("nll", 1, ".4f"), ("error", 100, ".2f"), ("ece", 100, ".2f"), ("gap", 100, ".1f"))


def differences(rows, names):
    """1000 × the change of NLL from TS, with paired standard errors, by number of rows."""
    subjects = dict.fromkeys(row["subject"] for row in rows)
    sizes = sorted({row["size"] for row in rows})
    known = {(row["subject"], row["size"]): row["numbers"] for row in rows}

    def cell(subject, size, name):
        found = known[subject, size][name]
        return f"{1000 * found['difference']:+.1f} ± {1000 * found['se']:.1f}"

    head = ["", *(f"{name}, {size}" for name in names for size in sizes)]
    return table(head, [[each, *(cell(each, size, name) for name in names for size in sizes)] for each in subjects])


def summary(rows):
    """How the ways to choose strengths compare: mean relative change of NLL, and the worst."""
    body = []
    for size in sorted({row["size"] for row in rows}):
        for name in list(METHODS)[1:]:
            # All are compared on those subjects on which all were measured.
            found = [row["numbers"] for row in rows if row["size"] == size and list(METHODS)[-1] in row["numbers"]]
            found = found or [row["numbers"] for row in rows if row["size"] == size]
            if name not in found[0]:
                continue
            relative = [100 * each[name]["difference"] / each["TS"]["nll"] for each in found]
            z = [each[name]["difference"] / max(each[name]["se"], 1e-12) for each in found]
            cells = [f"{np.mean(relative):+.2f}", f"{max(relative):+.2f}", f"{max(z):+.1f}", f"{sum(each > 2 for each in z)}"]
            body.append([str(size), name, str(len(found)), *cells])
    head = ["rows", "method", "subjects", "mean change of NLL, %", "worst, %", "worst, paired s.e.", "above 2 s.e."]
    return table(head, body)


def report(path, how):
    """The tables, from the numbers of a run."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    rows = [line for line in lines if "subject" in line]
    row = next((line["row"] for line in lines if "row" in line), None)
    networks = [each for each in rows if "half" not in each["subject"]]
    files = [each for each in rows if "half" in each["subject"]]
    largest = max(each["size"] for each in rows)
    text = ["# Affine maps", f"\n{how}\n"]
    text += ["## Networks: TS → bias → vector → matrix\n", overview(networks, largest)]
    if files:
        text += ["\n## Random halves of files: TS → bias → vector → matrix\n", overview(files, largest)]
    text += ["\n## How strengths are chosen\n", summary(rows)]
    text += ["\n## Few rows: 1000 × change of NLL from TS, ± paired standard error\n", differences(rows, ("vector", "matrix"))]
    if row is not None:
        body = [[name, *(f"{each:.6f}" for each in values)] for name, values in PUBLISHED.items()]
        ours = {"TS": "TS", "bias": "bias", "vector": "VectorScaling", "matrix": "MatrixScaling"}
        body += [[f"nishimori: {label}", *(f"{each:.6f}" for each in row[name][:3])] for name, label in ours.items()]
        text += ["\n## CalArena, CIFAR-10, DenseNet-40\n", table(["", "log-loss", "Brier score", "ECE, 15 bins"], body)]
    return "\n".join(text)


def main():
    """Measure, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two networks, one size")
    parser.add_argument("--data", default=os.environ.get("NISHIMORI_DATA"), help="a folder of files with logits")
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results", help="folder of results")
    parser.add_argument("--resume", action="store_true", help="go on with a run that was stopped")
    parser.add_argument("--tables-only", action="store_true", help="tables from the numbers of the last run")
    arguments = parser.parse_args()
    path = arguments.out / "affine.jsonl"
    if not arguments.tables_only:
        run(arguments, path)
    how = "`python bench/studies/affine.py --data FOLDER`; `bench/studies/affine.py` says what is fitted and measured."
    (arguments.out / "affine.md").write_text(report(path, how), encoding="utf-8")


if __name__ == "__main__":
    main()
