"""nishimori's calibrators in CalArena, a benchmark of calibration methods (github.com/probkit/CalArena).

Without arguments, it generates two small benchmarks in CalArena's format, fits every method of nishimori to them, and prints a
leaderboard for each. The experiments are so few that the order of the methods means little. For real results:

1. Clone `probkit/CalArena` and install what it needs: ``pip install "probmetrics[extra,dirichletcal]" h5py tqdm nishimori``.
2. Download the benchmarks (1.7 GB) from the Hugging Face data set `probkit/CalArena` to the folder `calibration_benchmarks`.
3. Copy this file to CalArena's folder. Its `custom_calibrators.py` then needs one line:
   ``from calarena import CUSTOM_CALIBRATORS``.
4. Run one method per call: ``python run_benchmark.py --benchmark tabrepo-binary --calibrator nishimori-beta``.

Without probmetrics, this file measures all methods that suit a benchmark and writes the same files of results:

    python calarena.py --benchmark tabrepo-binary --benchmarks_dir calibration_benchmarks --results_dir results

Before you compare numbers:

- `nishimori-platt`, `nishimori-beta` and `nishimori-quadratic` are for two classes. With the 1,000 classes of ImageNet leave
  out `nishimori-matrix` and `nishimori-dirichlet`, which have a million parameters.
- CalArena stops at the first error. Where a method has no solution, probabilities stay as they are, and count as its own.
- Where a classifier says exactly 0, the probability becomes 1.2e-38, as in probmetrics. To raise it further, pass `floor=`.
- For two classes, CalArena's ECE is that of the second class, and not of the predicted one.

It was tested with generated files and the metrics of probmetrics 1.3, and not with all of the real ones.
"""

import argparse
import csv
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from sklearn import datasets
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import nishimori

try:
    import h5py
except ModuleNotFoundError:
    h5py = None  # the generated files are then .npz files with the same names inside


class Calibrator:
    """A method of nishimori with CalArena's interface: `fit` and `predict_proba` take probabilities.

    Binary probabilities are those of the second class, in a flat array. Where a method cannot be fitted, probabilities stay
    as they are: one experiment without errors among its labels, for example, would otherwise end the whole benchmark.
    """

    def __init__(self, method):
        self.method = method

    def fit(self, p_cal, y_cal):
        """Learn from probabilities and true classes, 0, 1, ..."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", nishimori.errors.InputWarning)  # probabilities that are exactly zero
            warnings.simplefilter("ignore", nishimori.errors.FewErrorsWarning)
            try:
                self.fitted = nishimori.calibrator(self.method, input="probabilities", floor=None).fit(p_cal, y_cal)
            except nishimori.errors.NishimoriError:
                self.fitted = nishimori.calibrator("none", input="probabilities").fit(p_cal, y_cal)

    def predict_proba(self, p_test):
        """Calibrated probabilities of all classes, one row per sample."""
        return self.fitted.predict_proba(p_test)


# CalArena has methods named TS, Beta, Isotonic, ... of its own; a custom one with the same name would replace them.
NAMES = {f"nishimori-{method}": method for method in nishimori.methods()}
CUSTOM_CALIBRATORS = {name: partial(Calibrator, method) for name, method in NAMES.items()}

ARRAYS = ("probas_cal", "labels_cal", "probas_test", "labels_test")


def experiments(folder, benchmark):
    """The names of data set and model, and the four arrays, of each experiment that the index lists."""
    with (folder / f"{benchmark}-experiments.csv").open(encoding="utf-8") as file:
        index = [(row["dataset"], row["model"]) for row in csv.DictReader(file)]
    path = folder / f"{benchmark}.h5"
    if path.exists() and h5py is None:
        raise SystemExit(f"{path} is an HDF5 file, and h5py is not installed. Run `pip install h5py`.")
    with h5py.File(path, "r") if path.exists() else np.load(folder / f"{benchmark}.npz") as arrays:
        for dataset, model in index:
            yield dataset, model, [np.asarray(arrays[f"{dataset}/{model}/{name}"]) for name in ARRAYS]


def suits(method, benchmark):
    """Whether a method works for the number of classes of a benchmark, which the end of its name says."""
    traits = nishimori.calibrator(method).traits
    return benchmark.endswith("-binary") or traits is None or traits.n_classes == "any"


def measured(benchmark, dataset, model, arrays, name):
    """One line of a file of results, as CalArena writes it."""
    p_cal, y_cal, p_test, y_test = arrays
    calibrator = CUSTOM_CALIBRATORS[name]()
    start = time.perf_counter()
    calibrator.fit(p_cal, y_cal)
    found = calibrator.predict_proba(p_test)
    seconds = time.perf_counter() - start
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nishimori.errors.InputWarning)
        card = nishimori.evaluate(found, y_test, input="probabilities")
        # For two classes, CalArena's ECE is that of the second class, and not of the predicted one.
        of = "positive" if found.shape[1] == 2 else "top"
        ece = nishimori.metrics.ece(found, y_test, of=of, input="probabilities")
    line = {"dataset": dataset, "model": model, "cal_size": len(y_cal), "test_size": len(y_test)}
    if benchmark.endswith("-multiclass"):
        line["n_classes"] = p_cal.shape[1]
    metrics = {"brier": card.brier, "logloss": card.nll, "ece-15": ece, "accuracy": card.accuracy, "time": seconds}
    return line | {f"{name}_{metric}": value for metric, value in metrics.items()}


def run(folder, benchmark, results):
    """Fit every calibrator to every experiment, write one file of results per calibrator, and return all losses."""
    losses = {}
    (results / benchmark).mkdir(parents=True, exist_ok=True)
    for name, method in NAMES.items():
        if not suits(method, benchmark):
            continue
        lines = [measured(benchmark, *experiment, name) for experiment in experiments(folder, benchmark)]
        with (results / benchmark / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, lines[0])
            writer.writeheader()
            writer.writerows(lines)
        losses[name] = [[line[f"{name}_{metric}"] for line in lines] for metric in ("logloss", "brier", "ece-15")]
    return losses


def leaderboard(losses):
    """Methods with the share of (other method, experiment) in which their log-loss is lower, best first; ties are halves."""
    names, values = list(losses), np.array([losses[name][0] for name in losses])
    wins = (values[:, None] < values[None]) + 0.5 * (values[:, None] == values[None])
    rates = (wins.sum(axis=1) - 0.5).mean(axis=1) / max(len(names) - 1, 1)
    print(f"{'method':24}{'win rate':>9}{'log-loss':>10}{'Brier':>8}{'ECE':>8}")
    for i in np.argsort(-rates):
        logloss, brier, ece = (np.mean(each) for each in losses[names[i]])
        print(f"{names[i]:24}{rates[i]:9.2f}{logloss:10.4f}{brier:8.4f}{ece:8.2%}")


def generate(folder):
    """Two small benchmarks in CalArena's format, of classifiers that are not calibrated."""
    wine, cancer = (load(return_X_y=True) for load in (datasets.load_wine, datasets.load_breast_cancer))
    images, digits = (each[::2] for each in datasets.load_digits(return_X_y=True))  # half of them is enough here
    problems = {
        "demo-multiclass": {"digits": (images, digits), "wine": wine},
        "demo-binary": {"cancer": cancer, "odd": (images, digits % 2)},
    }
    for benchmark, sets in problems.items():
        arrays, index = {}, []
        for dataset, (x, y) in sets.items():
            train_x, rest_x, train_y, rest_y = train_test_split(x, y, train_size=0.2, stratify=y, random_state=0)
            cal_x, test_x, cal_y, test_y = train_test_split(rest_x, rest_y, train_size=0.5, stratify=rest_y, random_state=0)
            for model in (GaussianNB(var_smoothing=1e-3), DecisionTreeClassifier(max_depth=5, random_state=0)):
                fitted = model.fit(train_x, train_y)
                p_cal, p_test = (fitted.predict_proba(each).astype(np.float32) for each in (cal_x, test_x))
                if benchmark.endswith("-binary"):
                    p_cal, p_test = p_cal[:, 1], p_test[:, 1]
                values = (p_cal, cal_y.astype(np.int32), p_test, test_y.astype(np.int32))
                name = type(model).__name__
                arrays |= {f"{dataset}/{name}/{key}": value for key, value in zip(ARRAYS, values, strict=True)}
                index.append({"dataset": dataset, "model": name, "cal_size": len(cal_y), "test_size": len(test_y)})
        write(folder, benchmark, arrays, index)


def write(folder, benchmark, arrays, index):
    """The arrays and the index of one benchmark."""
    if h5py is None:
        np.savez(folder / f"{benchmark}.npz", **arrays)
    else:
        with h5py.File(folder / f"{benchmark}.h5", "w") as file:
            for name, values in arrays.items():
                file.create_dataset(name, data=values, compression="gzip")
    with (folder / f"{benchmark}-experiments.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, index[0])
        writer.writeheader()
        writer.writerows(index)


def main():
    """Run a benchmark, or generate small ones and run these."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--benchmark", help="such as tabrepo-binary; without it, small ones are generated")
    parser.add_argument("--benchmarks_dir", type=Path, default=Path("calibration_benchmarks"))
    parser.add_argument("--results_dir", type=Path, default=Path("results"))
    options = parser.parse_args()
    if options.benchmark:
        leaderboard(run(options.benchmarks_dir, options.benchmark, options.results_dir))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        generate(folder)
        for benchmark in ("demo-multiclass", "demo-binary"):
            print(benchmark)
            leaderboard(run(folder, benchmark, folder / "results"))


if __name__ == "__main__":
    main()
