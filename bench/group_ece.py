"""What happens to the overall ECE when each class gets its own temperature: gaps by class and bin, added up in two ways.

The ECE adds up the gaps of all classes within each bin before it takes their size, so that overconfident and underconfident
classes cancel. The sum of the sizes of the gaps of each class in each bin has no such cancellation.
"""

from dataclasses import dataclass

import numpy as np

from nishimori import ExpectationConsistency, GroupConsistency, data, evaluate, group_gaps, plot
from nishimori.plot._style import HUES

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
