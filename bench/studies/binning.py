"""Isotonic regression and histogram binning against one temperature: how they do with few and with many samples.

    python bench/studies/binning.py --quick  # two networks, in seconds; the numbers mean little
    python bench/studies/binning.py          # all bundled networks and two classifiers of scikit-learn, ten minutes on one core

Networks are fitted to random rows of their validation set, in three draws, or to all 5,000, and measured on their test set.
Classifiers of scikit-learn learn a third of the breast cancer data, are calibrated on another third, and measured on the rest,
in ten random splits; their probabilities have ``floor=1e-6``. Writes each number to binning.jsonl as it comes, and tables to
binning.md, in the folder of results.

    python bench/studies/binning.py --picture docs/images/binning.png  # the picture of the page, from the last run
"""

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB

import nishimori
from nishimori import HistogramBinning, Isotonic, TemperatureScaling, calibrator, data
from nishimori.plot._style import COLORS, HUES, MARKERS

ROOT = Path(__file__).parents[2]
SIZES = (200, 1000, 5000)
DRAWS = 3
SPLITS = 10
METHODS = {
    "none": calibrator("none"),
    "ts": TemperatureScaling(),
    "isotonic": Isotonic(),
    "isotonic, prior=0": Isotonic(prior=0),
    "isotonic, prior=0.5": Isotonic(prior=0.5),
    "isotonic, prior=2": Isotonic(prior=2),
    "histogram": HistogramBinning(),
    "histogram, prior=0": HistogramBinning(prior=0),
    "histogram, quantile": HistogramBinning(strategy="quantile"),
}
METRICS = ("nll", "brier", "ece", "error")


def of_networks(names):
    """Rows to fit to and rows to measure on, of each network, size and draw."""
    for name in names:
        network = data.load(name)
        kind = "100 classes" if network.validation.logits.shape[1] == 100 else "10 classes"
        for size in SIZES:
            for draw in range(DRAWS if size < SIZES[-1] else 1):
                rows = np.random.default_rng(draw).permutation(len(network.validation.labels))[:size]
                fit = network.validation.logits[rows], network.validation.labels[rows]
                yield {"kind": kind, "size": size, "subject": name}, "logits", fit, (network.test.logits, network.test.labels)


def of_classifiers():
    """The same of two classifiers of scikit-learn that tell probabilities."""
    features, labels = load_breast_cancer(return_X_y=True)
    for seed in range(SPLITS):
        learn, fit, test = np.array_split(np.random.default_rng(seed).permutation(len(labels)), 3)
        for model in (GaussianNB(), RandomForestClassifier(random_state=0)):
            model.fit(features[learn], labels[learn])
            told = {"kind": type(model).__name__, "size": len(fit), "subject": f"split {seed}"}
            fitted, measured = ((model.predict_proba(features[rows]), labels[rows]) for rows in (fit, test))
            yield told, "probabilities", fitted, measured


def measured(cases, path):
    """A dictionary for each case and method, written as it comes."""
    rows = []
    with path.open("w", encoding="utf-8") as file:
        for told, kind, fit, test in cases:
            for name, method in METHODS.items():
                fitted = method.set_params(input=kind, floor=1e-6 if kind == "probabilities" else None).fit(*fit)
                found = nishimori.evaluate(*test, calibrator=fitted)
                rows.append({**told, "method": name, **{metric: getattr(found, metric) for metric in METRICS}})
                file.write(json.dumps(rows[-1]) + "\n")
                file.flush()
    return rows


def tables(rows):
    """Means over subjects and draws, one table per kind of subject and number of samples."""
    text = ["# Isotonic regression and histogram binning", "", "Made by `bench/studies/binning.py`.", ""]
    for kind, size in sorted({(row["kind"], row["size"]) for row in rows}):
        chosen = [row for row in rows if (row["kind"], row["size"]) == (kind, size)]
        number = sum(row["method"] == "ts" for row in chosen)
        text += [
            f"## {kind}, {size} samples, {number} fits",
            "",
            "| method | NLL | Brier | ECE, % | error, % |",
            "|---|---|---|---|---|",
        ]
        for method in METHODS:
            of = {metric: np.array([row[metric] for row in chosen if row["method"] == method]) for metric in METRICS}
            infinite = int(np.isinf(of["nll"]).sum())
            nll = f"infinite in {infinite} of {number}" if infinite else f"{of['nll'].mean():.3f}"
            others = f"{of['brier'].mean():.4f} | {100 * of['ece'].mean():.1f} | {100 * of['error'].mean():.1f}"
            text.append(f"| {method} | {nll} | {others} |")
        text.append("")
    return "\n".join(text)


def picture(rows, path):
    """The curves of one class, and the loss minus that of TS against the number of samples."""
    from matplotlib import pyplot  # noqa: PLC0415 - only for the picture

    looks = {
        "none": {"color": COLORS["before"], "marker": MARKERS["before"]},
        "isotonic": {"color": HUES["purple"], "marker": "v"},
        "histogram": {"color": HUES["green"], "marker": "D"},
    }
    figure, axes = pyplot.subplots(1, 3, figsize=(12, 3.9), layout="constrained")
    _curves(axes[0], looks)
    for ax, kind in zip(axes[1:], ("10 classes", "100 classes"), strict=True):
        for name, look in looks.items():
            found = [_differences(rows, kind, size, name) for size in SIZES]
            errors = [each.std(ddof=1) / np.sqrt(len(each)) for each in found]
            ax.errorbar(SIZES, [each.mean() for each in found], errors, label=name, capsize=3, **look)
        number = len({row["subject"] for row in rows if row["kind"] == kind})
        ax.axhline(0, color=COLORS["ts"], linewidth=1.2, label="ts")
        ax.set(
            xscale="log", xlabel="validation samples", ylabel="test NLL minus that of ts", title=f"{number} networks, {kind}"
        )
        ax.set_xticks(SIZES, [f"{size:,}" for size in SIZES])
        ax.minorticks_off()
        ax.grid(alpha=0.3)
    axes[2].legend(loc="upper right", title="mean ± standard error", title_fontsize=9, fontsize=9)
    figure.savefig(path, dpi=120)


def _differences(rows, kind, size, method):
    """The loss of a method minus that of TS, a mean over draws for each network."""
    losses = {}
    for row in rows:
        if (row["kind"], row["size"]) == (kind, size) and row["method"] in (method, "ts"):
            losses.setdefault(row["subject"], {}).setdefault(row["method"], []).append(row["nll"])
    return np.array([np.mean(each[method]) - np.mean(each["ts"]) for each in losses.values()])


def _curves(ax, looks):
    """What both methods learn about one class from 1,000 samples."""
    network, shown = data.load("cifar10/resnet20"), 3
    fit = network.validation.logits[:1000], network.validation.labels[:1000]
    isotonic, histogram = Isotonic().fit(*fit), HistogramBinning().fit(*fit)
    at = np.linspace(0, 1, 1001)
    ax.plot([0, 1], [0, 1], color="0.7", linewidth=1, label="no change")
    ax.plot(at, np.interp(at, *isotonic.curves_[shown]), color=looks["isotonic"]["color"], label="isotonic")
    edges, values = histogram.edges_[shown], histogram.frequencies_[shown]
    color = looks["histogram"]["color"]
    ax.stairs(values, edges, color=color, baseline=None, label="histogram, ± 1 standard error")
    errors = histogram.parameters_se_["frequencies"][shown]
    ax.errorbar((edges[1:] + edges[:-1]) / 2, values, errors, color=color, linestyle="none", elinewidth=1)
    ax.set(xlabel="probability of class 3", ylabel="value of its curve", title="cifar10/resnet20, 1,000 samples")
    ax.set(xlim=(0, 1), ylim=(0, 1))
    ax.legend(loc="upper left", fontsize=8)


def main():
    """Measure, and write tables; or draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two networks")
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results", help="where to write")
    parser.add_argument("--picture", type=Path, help="draw this picture from the numbers of the last run")
    options = parser.parse_args()
    numbers = options.results / "binning.jsonl"
    if options.picture:
        picture([json.loads(line) for line in numbers.read_text(encoding="utf-8").splitlines()], options.picture)
        return
    for warning in (
        nishimori.errors.InputWarning,
        nishimori.errors.FewErrorsWarning,
    ):  # classes without samples, few wrong answers
        warnings.simplefilter("ignore", warning)
    names = ("cifar10/resnet20", "cifar100/vgg19") if options.quick else data.names()
    cases = [case for cases in (of_classifiers(), of_networks(names)) for case in cases]
    rows = measured(cases, numbers)
    (options.results / "binning.md").write_text(tables(rows), encoding="utf-8")
    print(tables(rows))


if __name__ == "__main__":
    main()
