"""A temperature per class, mixtures of temperatures and Dirichlet calibration beside their nearest relatives.

    python bench/studies/mixtures.py --quick            # two networks, in seconds
    python bench/studies/mixtures.py --data FOLDER      # all bundled networks, and one published row: five minutes on one core

All methods are fitted to the validation set of each network and measured on its test set. Differences are paired. With
``--data`` or the environment variable NISHIMORI_DATA, the files ``nncal__cifar10_val5000__densenet40.npz`` and
``nncal__cifar10_test__densenet40.npz`` of a folder give a table beside published numbers.

Writes tables to mixtures.md in the folder of results, after each network.
"""

import argparse
import os
from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax

import nishimori
from nishimori import data
from nishimori.calibrators import FixedMap
from nishimori.maps import Mixture

ROOT = Path(__file__).parents[2]
METHODS = ("ts", "mixture", "classwise", "bias", "vector", "matrix", "dirichlet")
PAIRS = (("ts", "mixture"), ("ts", "classwise"), ("classwise", "vector"), ("matrix", "dirichlet"))
QUICK = ("cifar10/resnet20", "svhn/resnet20-authors")
ROW = ("nncal__cifar10_val5000__densenet40.npz", "nncal__cifar10_test__densenet40.npz")

# Log-loss, Brier score and ECE with 15 bins that CalArena (arXiv:2605.30188) publishes for this row.
PUBLISHED = {
    "CalArena: TS": (0.225086, 0.109975, 0.009468),
    "CalArena: ETS": (0.226933, 0.110284, 0.010779),
    "CalArena: Dirichlet": (0.224063, 0.111180, 0.012098),
}


def mixture_by_squares(logits: np.ndarray, labels: np.ndarray) -> Mixture:
    """T and weights of least squared error in place of cross-entropy, as the original code finds them."""
    truth = np.eye(logits.shape[1])[labels]
    logits = logits.astype(float)

    def of_temperature(t: np.ndarray) -> float:
        return float(np.mean((softmax(logits / t[0], axis=1) - truth) ** 2))

    (t,) = minimize(of_temperature, [1.0], method="L-BFGS-B", bounds=[(0.05, 5.0)], tol=1e-12).x
    parts = np.stack([softmax(logits / t, axis=1), softmax(logits, axis=1), np.full_like(logits, 1 / logits.shape[1])])
    one = {"type": "eq", "fun": lambda w: w.sum() - 1}

    def of_weights(w: np.ndarray) -> float:
        return float(np.mean((np.tensordot(w, parts, 1) - truth) ** 2))

    w = minimize(of_weights, [1.0, 0.0, 0.0], method="SLSQP", bounds=3 * [(0, 1)], constraints=one, tol=1e-12).x
    w = np.maximum(w, 0)
    return Mixture(float(t), w / w.sum())


def network_lines(name: str) -> list[str]:
    """The metrics of all methods on one network, and the paired differences of the loss."""
    network = data.load(name)
    fit, test = (network.validation.logits, network.validation.labels), (network.test.logits, network.test.labels)
    fitted = {method: nishimori.calibrator(method).fit(*fit) for method in METHODS}
    cards = {method: nishimori.evaluate(*test, calibrator=each) for method, each in fitted.items()}
    cells = [
        " / ".join(f"{getattr(card, metric):.4f}" for metric in ("nll", "brier", "ece", "error")) for card in cards.values()
    ]
    gains = []
    for one, other in PAIRS:
        found = nishimori.compare(*test, methods={"one": fitted[one], "other": fitted[other]})["other"].differences["nll"]
        gains.append("0" if not found.se else f"{1000 * found.value:+.2f} ± {1000 * found.se:.2f}")
    weights = ", ".join(f"{weight:.4f}" for weight in fitted["mixture"].weights_)
    return [f"| {name} | {' | '.join(cells)} |", f"| {name} | {' | '.join(gains)} | {weights} |"]


def published_lines(folder: Path) -> list[str]:
    """Ours beside the published row."""
    (fit, labels), (test, truth) = ((each["logits"], each["labels"]) for each in (np.load(folder / file) for file in ROW))
    ours = {
        "nishimori: TemperatureScaling()": nishimori.TemperatureScaling(),
        "nishimori: ClasswiseTemperature()": nishimori.calibrators.ClasswiseTemperature(),
        "nishimori: TemperatureMixture()": nishimori.calibrators.TemperatureMixture(),
        "the same mixture with least squared error": FixedMap(mixture_by_squares(fit, labels)),
        "nishimori: Dirichlet()": nishimori.calibrators.Dirichlet(),
        "nishimori: Dirichlet(odir=(0.001, 0.001))": nishimori.calibrators.Dirichlet(odir=(1e-3, 1e-3)),
        "nishimori: Dirichlet(penalty=None)": nishimori.calibrators.Dirichlet(penalty=None),
        "nishimori: MatrixScaling()": nishimori.calibrators.MatrixScaling(),
    }
    rows = dict(PUBLISHED)
    for name, calibrator in ours.items():
        card = nishimori.evaluate(test, truth, calibrator=calibrator.fit(fit, labels))
        rows[name] = (card.nll, card.brier, card.ece)
    return [f"| {name} | {' | '.join(f'{value:.6f}' for value in values)} |" for name, values in rows.items()]


def page(lines: list[list[str]], published: list[str]) -> str:
    """The tables in Markdown."""
    text = [
        "# A temperature per class, mixtures of temperatures, Dirichlet calibration",
        "\nBy bench/studies/mixtures.py. NLL / Brier score / ECE / error on the test sets:\n",
        f"| network | {' | '.join(METHODS)} |",
        "|---" * (1 + len(METHODS)) + "|",
        *(each[0] for each in lines),
        "\n1000 × difference of NLL, ± paired standard error, and the weights of the mixture:\n",
        f"| network | {' | '.join(f'{other} − {one}' for one, other in PAIRS)} | weights |",
        "|---" * (2 + len(PAIRS)) + "|",
        *(each[1] for each in lines),
    ]
    if published:
        text += [
            "\nCIFAR-10, DenseNet-40:\n",
            "| method | log-loss | Brier score | ECE, 15 bins |",
            "|---|---|---|---|",
            *published,
        ]
    return "\n".join(text) + "\n"


def main() -> None:
    """Measure network by network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two networks only")
    parser.add_argument("--data", type=Path, default=os.environ.get("NISHIMORI_DATA"), help="folder of logits")
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results", help="where tables are written")
    options = parser.parse_args()
    folder = None if options.data is None else Path(options.data)
    has_row = folder is not None and all((folder / file).exists() for file in ROW)
    published = published_lines(folder) if folder is not None and has_row and not options.quick else []
    lines: list[list[str]] = []
    for name in QUICK if options.quick else data.names():
        lines.append(network_lines(name))
        (options.out / "mixtures.md").write_text(page(lines, published), encoding="utf-8")


if __name__ == "__main__":
    main()
