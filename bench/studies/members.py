"""Ensembles: calibrate each member before averaging, or the average after it; and T of five members for other numbers of them.

    python bench/studies/members.py                            # digits of scikit-learn alone: about two minutes on one core
    python bench/studies/members.py --cifar10 FOLDER           # FOLDER has train_images.npy (uint8, n x 32 x 32 x 3),
                                                               # train_labels.npy, test_images.npy, test_labels.npy
    python bench/studies/members.py --quick --out small.md

In each seed, twenty small networks are trained on the same few samples, each from its own start. They form four ensembles of
five. Temperatures are fitted to some samples that were held out, and measured on others. Numbers are means over the ensembles
of a seed. Errors are standard errors over seeds, which have other networks and draw their samples again from the same data.
"""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

import nishimori
from nishimori import metrics

N_NETWORKS, N_MEMBERS = 20, 5
METHODS = {"EC": "ec", "TS": "ts"}


@dataclass(frozen=True)
class Task:
    """Samples, and how networks are trained on a part of them."""

    name: str
    images: np.ndarray
    labels: np.ndarray
    network: Callable[[], nn.Module]
    n_train: int
    n_calibration: int
    n_epochs: int
    n_seeds: int


def digits(n_seeds: int, n_epochs: int = 60) -> Task:
    """Small handwritten digits, and a network with one hidden layer."""
    images, labels = load_digits(return_X_y=True)

    def network() -> nn.Module:
        return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    return Task("digits", (images / 16).astype(np.float32), labels, network, 200, 500, n_epochs, n_seeds)


def cifar10(folder: Path, n_seeds: int, n_epochs: int = 10) -> Task:
    """Photographs, and a convolutional network."""
    parts = [(np.load(folder / f"{split}_images.npy"), np.load(folder / f"{split}_labels.npy")) for split in ("train", "test")]
    images, labels = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))

    def network() -> nn.Module:
        layers: list[nn.Module] = []
        for n_in, n_out in ((3, 16), (16, 32), (32, 64)):
            layers += [nn.Conv2d(n_in, n_out, 3, stride=2, padding=1), nn.BatchNorm2d(n_out), nn.ReLU()]
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 16, 10))

    scaled = images.transpose(0, 3, 1, 2)
    return Task("CIFAR-10", scaled, labels, network, 3000, 2000, n_epochs, n_seeds)


def as_inputs(images: np.ndarray) -> torch.Tensor:
    """Images as the networks take them."""
    x = torch.from_numpy(np.ascontiguousarray(images)).float()
    return x if images.dtype == np.float32 else x / 127.5 - 1


def trained(task: Task, x: torch.Tensor, y: torch.Tensor, seed: int) -> nn.Module:
    """A network that was trained from a start of its own, in an order of its own."""
    torch.manual_seed(seed)
    network = task.network()
    optimizer = torch.optim.Adam(network.parameters(), 3e-3)
    for _ in range(task.n_epochs):
        for rows in torch.randperm(len(x)).split(100):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(x[rows]), y[rows]).backward()
            optimizer.step()
    return network.eval()


@dataclass(frozen=True)
class Logits:
    """The logits of all networks of a seed, (networks, samples, classes), on two sets of samples."""

    calibration: np.ndarray
    calibration_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray

    def of(self, members: slice) -> "Logits":
        """Those of some networks."""
        return Logits(self.calibration[members], self.calibration_labels, self.test[members], self.test_labels)


def logits_of(task: Task, seed: int, n_networks: int = N_NETWORKS, most_test: int = 6000) -> Logits:
    """Train the networks of a seed on samples of its own; none of the others is seen in training."""
    order = np.random.default_rng(seed).permutation(len(task.labels))
    train, calibration, test = np.split(order, [task.n_train, task.n_train + task.n_calibration])
    x, y = as_inputs(task.images[train]), torch.from_numpy(task.labels[train].astype(np.int64))
    test = test[:most_test]
    networks = [trained(task, x, y, 1000 * seed + number) for number in range(n_networks)]
    with torch.no_grad():
        found = [
            torch.stack([torch.cat([net(part) for part in as_inputs(task.images[rows]).split(1000)]) for net in networks])
            for rows in (calibration, test)
        ]
    return Logits(found[0].numpy(), task.labels[calibration], found[1].numpy(), task.labels[test])


# --- ways to calibrate an ensemble -----------------------------------------------------------------------------------------

Pair = tuple[np.ndarray, np.ndarray]
"""Logits for calibration and for the test."""


def pooled(logits: np.ndarray) -> np.ndarray:
    """The log of the mean softmax of members (M, n, K), as ``member_axis=0`` computes it."""
    labels = np.zeros(logits.shape[1], int)
    return np.concatenate([np.asarray(batch.logits) for batch in nishimori.rows(logits, labels, member_axis=0)])


def temperature(logits: np.ndarray, labels: np.ndarray, method: str) -> float:
    """The temperature of EC or TS."""
    return float(getattr(nishimori.temperatures(logits, labels), method))


def average(part: Logits) -> Pair:
    """The average without calibration."""
    return pooled(part.calibration), pooled(part.test)


def calibrate_members(part: Logits, method: str) -> Pair:
    """The average of members that have each a temperature of their own."""
    Ts = np.array([temperature(z, part.calibration_labels, method) for z in part.calibration])[:, None, None]
    return pooled(part.calibration / Ts), pooled(part.test / Ts)


def calibrate(pair: Pair, labels: np.ndarray, method: str) -> Pair:
    """The same with one temperature."""
    T = temperature(pair[0], labels, method)
    return pair[0] / T, pair[1] / T


def ways(part: Logits, method: str) -> dict[str, np.ndarray]:
    """Test logits of an ensemble by the way in which it was calibrated."""
    labels = part.calibration_labels
    before = calibrate_members(part, method)
    return {
        "not calibrated": average(part)[1],
        "members, then average": before[1],
        "average, then calibrate": calibrate(average(part), labels, method)[1],
        "members, average, calibrate again": calibrate(before, labels, method)[1],
    }


def measured(logits: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """NLL, and ECE and the gap in percent."""
    card = nishimori.evaluate(logits, labels, n_bins=15)
    return {"NLL": metrics.nll(logits, labels), "ECE": 100 * metrics.ece(logits, labels), "gap": 100 * card.gap}


def ensembles(logits: Logits, size: int) -> list[Logits]:
    """The networks of a seed in ensembles of a size that share none."""
    return [logits.of(slice(first, first + size)) for first in range(0, len(logits.test) - size + 1, size)]


def mean(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each number."""
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]}


def compare_ways(logits: Logits, method: str) -> dict[str, dict[str, float]]:
    """The numbers of a seed by way, and those of one network."""
    labels = logits.test_labels
    by_way = [ways(part, method) for part in ensembles(logits, N_MEMBERS)]
    singles = [ways(part, method) for part in ensembles(logits, 1)]
    found = {
        "one network, not calibrated": [measured(way["not calibrated"], labels) for way in singles],
        "one network, calibrated": [measured(way["average, then calibrate"], labels) for way in singles],
    }
    found |= {f"{N_MEMBERS}: {name}": [measured(way[name], labels) for way in by_way] for name in by_way[0]}
    return {name: mean(numbers) for name, numbers in found.items()}


def other_sizes(logits: Logits, method: str) -> dict[int, dict[str, float]]:
    """The temperature of an ensemble's size, and that of five members, for ensembles of 1, 5 and 20."""
    labels = logits.calibration_labels
    of_five = float(np.mean([temperature(average(part)[0], labels, method) for part in ensembles(logits, N_MEMBERS)]))
    found = {}
    for size in (1, N_MEMBERS, len(logits.test)):
        rows = []
        for part in ensembles(logits, size):
            fitted, tested = average(part)
            T = temperature(fitted, labels, method)
            own, other = (measured(tested / each, part.test_labels) for each in (T, of_five))
            rows.append(
                {"T": T, "T of 5": of_five}
                | {f"{name}, own": own[name] for name in own}
                | {f"{name}, of 5": other[name] for name in other}
            )
        found[size] = mean(rows)
    return found


# --- the page --------------------------------------------------------------------------------------------------------------


def with_error(values: Iterable[float], digits: int, *, sign: bool = False) -> str:
    """The mean over seeds, with its standard error."""
    numbers = np.array(list(values))
    text = f"{numbers.mean():{'+' if sign else ''}.{digits}f}"
    return text if len(numbers) < 2 else f"{text} ± {numbers.std(ddof=1) / np.sqrt(len(numbers)):.{digits}f}"


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table."""
    return ["", *("| " + " | ".join(row) + " |" for row in (headers, ["---"] * len(headers), *rows)), ""]


DIGITS = {"NLL": 4, "ECE": 2, "gap": 2}


def page_of(task: Task, all_logits: Sequence[Logits]) -> list[str]:
    """The tables of one task."""
    lines = [
        f"## {task.name}",
        "",
        f"{task.n_train:,} training samples, {task.n_calibration:,} for calibration, {len(all_logits[0].test_labels):,} for "
        f"the test; {len(all_logits)} seeds. ECE with 15 bins, and the gap, confidence minus accuracy, in percent.",
    ]
    for title, method in METHODS.items():
        seeds = [compare_ways(logits, method) for logits in all_logits]
        rows = [
            [
                name,
                *(with_error([seed[name][number] for seed in seeds], n, sign=number == "gap") for number, n in DIGITS.items()),
            ]
            for name in seeds[0]
        ]
        lines += ["", f"### {title}: before or after averaging", *table(["ensemble of 5", *DIGITS], rows)]
        before, after, again = (
            f"{N_MEMBERS}: {name}"
            for name in ("members, then average", "average, then calibrate", "members, average, calibrate again")
        )
        for what, one, other in (("After minus before", after, before), ("Calibrated again minus after", again, after)):
            changes = {
                number: with_error([seed[one][number] - seed[other][number] for seed in seeds], n, sign=True)
                for number, n in DIGITS.items()
            }
            lines += [f"{what}, paired: NLL {changes['NLL']}, ECE {changes['ECE']} points.", ""]
        sizes = [other_sizes(logits, method) for logits in all_logits]
        names = ["T", "T of 5", "NLL, own", "NLL, of 5", "ECE, own", "ECE, of 5", "gap, own", "gap, of 5"]
        n_digits = [3, 3, 4, 4, 2, 2, 2, 2]
        rows = [
            [
                str(size),
                *(
                    with_error([seed[size][name] for seed in sizes], n, sign=name.startswith("gap"))
                    for name, n in zip(names, n_digits, strict=True)
                ),
            ]
            for size in sizes[0]
        ]
        lines += [f"### {title}: T of five members for other numbers of members", *table(["members", *names], rows)]
    return lines


def main() -> None:
    """Run the study and write its page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cifar10", type=Path, help="a folder with CIFAR-10 as arrays")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "results" / "members.md")
    parser.add_argument("--quick", action="store_true", help="one seed and little training")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    quick = arguments.quick
    tasks = [digits(1, 5) if quick else digits(20)]
    if arguments.cifar10 is not None:
        tasks.append(partial(cifar10, arguments.cifar10)(1, 1) if quick else cifar10(arguments.cifar10, 5))
    lines = ["# Ensembles: before or after averaging", "", "Written by `python bench/studies/members.py --cifar10 FOLDER`.", ""]
    lines += ["Twenty networks per seed, in four ensembles of five. ± is one standard error over seeds.", ""]
    for task in tasks:
        lines += [*page_of(task, [logits_of(task, seed) for seed in range(task.n_seeds)]), ""]
    text = "\n".join(lines).rstrip() + "\n"
    arguments.out.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
