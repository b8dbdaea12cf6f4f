"""Shares that "adaptive" could keep of log T_EC − log T_TS, on networks on which no share was chosen.

    python bench/studies/adaptive_new_networks.py            # trains nine networks and compares, some eight minutes on one core
    python bench/studies/adaptive_new_networks.py --quick    # two networks, hardly trained; in seconds, the numbers mean little

The networks are small, and what they learn comes with Python and scikit-learn: the next character of the standard library's
source, the package that a line of it belongs to, handwritten digits, and labels of random networks. Training data are few and
read many times, which makes the networks overconfident. Validation sets are drawn and scores are measured as in `adaptive.py`.
Needs ``pip install 'nishimori[torch]'``. Writes adaptive_new_networks.md to the folder of results.
"""

import argparse
import itertools
import sysconfig
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from adaptive import KINDS, LABELS, ROOT, SIZES, NetworkSubject, Numbers, standard_error, study, table
from nishimori.data import Labelled, Network

SHARES = {"t²/(t² + 1)": "t²/(t² + c) | 1", "t⁴/(t⁴ + 2²)": "t⁴/(t⁴ + c²) | 2", "EC": "ec", "TS": "ts"}
NEW_AND_OLD = tuple(SHARES)[:2]
HELD = 5000  # rows to draw validation sets from, and as many to test with


def sources():
    """The files of Python's standard library, by path relative to it, in random order."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    paths = [
        path for path in sorted(folder.glob("*.py")) + sorted(folder.glob("[a-z]*/*.py")) if "site-packages" not in path.parts
    ]
    found = {path.relative_to(folder): path.read_text(encoding="utf-8", errors="replace") for path in paths}
    order = np.random.default_rng(0).permutation(len(found))
    return dict(np.array(list(found.items()), dtype=object)[order])


def characters(n_classes, n_train, context=8):
    """The last characters of a text and the one that comes next, one of the most frequent ones."""
    text = "".join(sources().values())
    names = [name for name, _ in Counter(text).most_common(n_classes)]
    codes = {name: i for i, name in enumerate(np.random.default_rng(1).permutation(names))}
    # Other characters are one more, which is never asked for.
    numbers = np.array([codes.get(each, n_classes) for each in text[: 40 * (n_train + 2 * HELD)]])
    starts = np.random.default_rng(2).permutation(len(numbers) - context)
    starts = starts[numbers[starts + context] < n_classes][: n_train + 2 * HELD]
    return numbers[starts[:, None] + np.arange(context)], numbers[starts + context]


def lines(n_classes, n_train, n_features=1024):
    """Counts of the pairs of characters in a line, hashed, and the package that it is from."""
    files = [(path.parts[0], line) for path, text in sources().items() for line in text.splitlines() if len(path.parts) == 2]
    found = [(name, line.strip()) for name, line in files if len(line.strip()) > 20]
    names = [name for name, _ in Counter(name for name, _ in found).most_common(n_classes)]
    by_package = [[line for name, line in found if name == each] for each in np.random.default_rng(1).permutation(names)]
    n = (n_train + 2 * HELD) // n_classes + 1
    rng = np.random.default_rng(2)
    chosen = [(line, i) for i, each in enumerate(by_package) for line in rng.permutation(each)[:n]]
    x = np.zeros((len(chosen), n_features), dtype=np.float32)
    for row, (line, _) in zip(x, chosen, strict=True):
        for pair in itertools.pairwise(line):
            row[(ord(pair[0]) * 131 + ord(pair[1])) % n_features] += 1
    return x, np.array([label for _, label in chosen])


def teacher_labels(n_classes, n_train, noise, n_features=20):
    """Gaussian rows, and the class of the largest output of a random network with noise."""
    rng = np.random.default_rng([n_classes, n_train])
    x = rng.normal(size=(n_train + 2 * HELD, n_features))
    hidden = np.maximum(0, x @ rng.normal(size=(n_features, 64)) / n_features**0.5)
    outputs = hidden @ rng.normal(size=(64, n_classes)) / 4
    return x.astype(np.float32), (outputs + noise * rng.gumbel(size=outputs.shape)).argmax(axis=1)


def digits(_):
    """All images of 8×8 pixels, and the digits."""
    x, y = load_digits(return_X_y=True)
    return (x.reshape(-1, 1, 8, 8) / 16).astype(np.float32), y


def dense(n_in, n_out, width=256, depth=2):
    """A network of layers that are all connected."""
    sizes = [n_in, *[width] * depth]
    layers = [layer for a, b in itertools.pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(width, n_out))


class CharacterModel(nn.Module):
    """A recurrent network over characters."""

    def __init__(self, n_classes, width=96):
        super().__init__()
        self.embedding = nn.Embedding(n_classes + 1, 32)
        self.recurrent = nn.GRU(32, width, batch_first=True)
        self.head = nn.Linear(width, n_classes)

    def forward(self, text):
        return self.head(self.recurrent(self.embedding(text))[0][:, -1])


def embedded(n_classes, context=8):
    """Characters in a row, and then a dense network."""
    return nn.Sequential(nn.Embedding(n_classes + 1, 16), nn.Flatten(), dense(16 * context, n_classes))


def convolutional():
    """For images of 8×8 pixels."""
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(32 * 16, 10)),
    )


# Name: (rows and labels, rows to train with, network, epochs).
NETWORKS = {
    "characters, dense": (lambda n: characters(40, n), 20_000, lambda: embedded(40), 8),
    "characters, recurrent": (lambda n: characters(40, n), 20_000, lambda: CharacterModel(40), 12),
    "characters of 20 kinds": (lambda n: characters(20, n), 6_000, lambda: embedded(20), 10),
    "packages, 10": (lambda n: lines(10, n), 6_000, lambda: dense(1024, 10), 5),
    "packages, 20": (lambda n: lines(20, n), 10_000, lambda: dense(1024, 20, depth=3), 4),
    "digits": (digits, 150, convolutional, 60),
    "teacher, 10 classes": (lambda n: teacher_labels(10, n, 0.2), 5_000, lambda: dense(20, 10), 12),
    "teacher, 10 classes, noise": (lambda n: teacher_labels(10, n, 0.8), 20_000, lambda: dense(20, 10), 6),
    "teacher, 50 classes": (lambda n: teacher_labels(50, n, 0.2), 20_000, lambda: dense(20, 50), 10),
}


def trained(model, x, y, epochs):
    """The network after so many epochs of Adam."""
    optimiser = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(epochs):
        for rows in torch.randperm(len(y)).split(64):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            optimiser.step()
    return model.eval()


def new_network(name, *, quick=False):
    """Logits of the rows that it was not trained with: half to draw validation sets from, half to test with."""
    make, n_train, architecture, epochs = NETWORKS[name]
    x, y = make(n_train)
    torch.manual_seed(0)
    order = torch.randperm(len(y))
    x, y = torch.tensor(x)[order], torch.tensor(y)[order]
    model = trained(architecture(), x[:n_train], y[:n_train], 1 if quick else epochs)
    with torch.no_grad():
        logits = torch.cat([model(part) for part in x[n_train:].split(1000)]).numpy()
    labels, half = y[n_train:].numpy(), (len(y) - n_train) // 2
    return Network(name, Labelled(logits[:half], labels[:half]), Labelled(logits[half:], labels[half:]))


def described(network):
    """Classes, accuracy and mean confidence on the test rows."""
    z = network.test.logits - network.test.logits.max(axis=1, keepdims=True)
    confidence = (1 / np.exp(z).sum(axis=1)).mean()
    accuracy = (z.argmax(axis=1) == network.test.labels).mean()
    return [z.shape[1], len(z), f"{100 * accuracy:.1f} %", f"{100 * confidence:.1f} %"]


def regrets(numbers, labels):
    """By how much the ECE of each share, mean over networks, exceeds the better one of EC and TS."""
    return [[title, *(f"{v:+.2f}" for v in numbers.regret(name, labels))] for title, name in SHARES.items()]


def largest(numbers, labels):
    """The same of the network where it is largest."""
    return [[title, *(f"{v:.2f}" for v in numbers.largest(name, labels))] for title, name in SHARES.items()]


def differences(numbers, one, other, metric="ece", digits=3):
    """One share minus another, mean over networks with its standard error."""
    rows = []
    for labels, title in KINDS.items():
        paired = numbers.of(SHARES[one], labels, metric) - numbers.of(SHARES[other], labels, metric)
        cells = zip(paired.mean(axis=0), standard_error(paired), strict=True)
        rows.append([title, *(f"{v:+.{digits}f} ± {s:.{digits}f}" for v, s in cells)])
    return table(["labels", *(f"n = {n}" for n in numbers.sizes)], rows)


def report(found, networks):
    """The tables as Markdown."""
    numbers = Numbers(found)
    head = ["share", *(f"n = {n}" for n in numbers.sizes)]
    worst = [
        [title, *(f"{v:.2f}" for v in numbers.worst(name)), f"{numbers.worst(name).mean():.3f}"]
        for title, name in SHARES.items()
    ]
    sections = [
        "# Shares of adaptive on networks that were not used to choose one",
        f"Written by `bench/studies/adaptive_new_networks.py`. {len(networks)} networks, {found['draws']:,} validation sets "
        f"per cell. "
        "ECE in percent: 15 bins of equal mass. A regret is how far the ECE is above that of the better one of EC and TS.",
        table(
            ["network", "classes", "test rows", "accuracy", "confidence"],
            [[name, *described(each)] for name, each in networks.items()],
        ),
        "## Worst regret of the mean over networks, over clean labels and Table 2's noise\n\n" + table([*head, "mean"], worst),
        *(
            f"## Regret of the mean over networks, {title}\n\n{table(head, regrets(numbers, labels))}"
            for labels, title in KINDS.items()
        ),
        *(
            f"## Largest regret of one network, {title}\n\n{table(head, largest(numbers, labels))}"
            for labels, title in KINDS.items()
        ),
        f"## ECE: t²/(t² + 1) minus t⁴/(t⁴ + 2²)\n\n{differences(numbers, *NEW_AND_OLD)}",
        f"## NLL: t²/(t² + 1) minus t⁴/(t⁴ + 2²)\n\n{differences(numbers, *NEW_AND_OLD, 'nll', 4)}",
        f"## ECE: EC minus TS\n\n{differences(numbers, 'EC', 'TS', digits=2)}",
    ]
    return "\n\n".join(sections) + "\n"


def main():
    """Train, draw, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=500, help="validation sets per network, kind of labels and size")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="two networks, one epoch, 20 validation sets")
    parser.add_argument("--out", type=Path, default=ROOT / "bench/results", help="folder of tables")
    options = parser.parse_args()
    names, sizes, draws = list(NETWORKS), SIZES, options.draws
    if options.quick:
        names, sizes, draws = ["digits", "teacher, 10 classes"], (50, 400), 20
    networks = {}
    found = {"draws": draws, "sizes": sizes, "networks": {}}
    for name in names:
        networks[name] = new_network(name, quick=options.quick)
        subject = NetworkSubject(networks[name], options.seed)
        found["networks"][name] = {labels: study(subject, labels, sizes, draws) for labels in LABELS}
        print(name, *described(networks[name]), flush=True)
    (options.out / "adaptive_new_networks.md").write_text(report(found, networks), encoding="utf-8")


if __name__ == "__main__":
    main()
