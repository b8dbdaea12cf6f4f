"""One row of the paper's tables: error, both temperatures, and ECE and Brier score before and after each of them."""

from collections.abc import Sequence

import numpy as np

from nishimori import data
from nishimori._array import HostArray
from nishimori._maps import Temperature
from nishimori._scorecard import scorecards
from nishimori._sources import source
from nishimori._temperatures import temperatures_of
from nishimori.data import Labelled, Network
from nishimori.errors import InputError
from nishimori.paper._artefact import Scale

AUTHORS = "-authors"
Row = dict[str, float]


def network(name: str, scale: Scale) -> Network:
    """A network's logits: bundled, or of a network that was trained for this run; the authors' own are always bundled."""
    if scale.networks is None or name.endswith(AUTHORS):
        return data.load(name)
    return data.load(f"{scale.networks}/{file_name(name)}")


def file_name(name: str) -> str:
    """What a trained network's logits are called on disk."""
    return f"{name.replace('/', '-')}.npz"


def scores(
    validation: Labelled,
    test: Labelled,
    *,
    validation_weight: HostArray | None = None,
    test_weight: HostArray | None = None,
    near: Row | None = None,
) -> Row:
    """What the tables print, with the temperatures of ``validation`` and everything else of ``test``; a weight is a count.

    ``near`` is a row whose temperatures are good guesses: the same network's, in a bootstrap.
    """
    starts = None if near is None else {name: near[f"temperature_{name}"] for name in ("ec", "ts")}
    data = source(validation.logits, validation.labels, validation_weight)
    found = temperatures_of(data, warn=False, starts=starts)
    if found.ts is None or found.ec is None:
        raise InputError(f"These logits have no temperature: {found.why_no_ts or found.why_no_ec}")
    row = {"temperature_ts": found.ts, "temperature_ec": found.ec}
    # 15 bins of equal mass, as in the paper.
    maps = [Temperature(T) for T in (1.0, found.ts, found.ec)]
    cards = scorecards(source(test.logits, test.labels, test_weight), maps, strategy="quantile")
    row["error"] = cards[0].error
    for suffix, card in zip(("", "_ts", "_ec"), cards, strict=True):
        row[f"ece{suffix}"], row[f"brier{suffix}"] = card.ece, card.brier
    return row


def validations(network: Network) -> dict[str, Labelled]:
    """What may be calibrated on: clean and, where there are any, augmented validation images."""
    kinds = {"clean": network.validation, "augmented": network.augmented}
    return {kind: part for kind, part in kinds.items() if part is not None}


def measured(network: Network, *, resamples: int, seed: int) -> dict[str, Row]:
    """Scores with each kind of validation images, and their standard errors by bootstrap.

    The errors are those of finite validation and test sets; the network is the same in every resample.
    """
    kinds = validations(network)
    generator = np.random.default_rng(seed)
    drawn: dict[str, list[Row]] = {kind: [] for kind in kinds}
    result = {kind: scores(validation, network.test) for kind, validation in kinds.items()}
    for _ in range(resamples):
        counts = [_counts(len(part.labels), generator) for part in (network.validation, network.test)]
        for kind, validation in kinds.items():
            weights = {"validation_weight": counts[0], "test_weight": counts[1]}
            drawn[kind].append(scores(validation, network.test, **weights, near=result[kind]))
    return result | {f"{kind} error bars": mean_and_spread(rows)[1] for kind, rows in drawn.items()}


def _counts(n: int, generator: np.random.Generator) -> HostArray:
    """How often each of n samples comes up in n draws."""
    counts: HostArray = np.bincount(generator.integers(n, size=n), minlength=n)
    return counts


def mean_and_spread(rows: Sequence[Row]) -> tuple[Row, Row]:
    """Mean and standard deviation of each column."""
    columns = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    mean = {key: float(values.mean()) for key, values in columns.items()}
    return mean, {key: float(values.std(ddof=1)) for key, values in columns.items()}


def title(name: str) -> str:
    """A row's name for people."""
    dataset, _, model = name.removesuffix(AUTHORS).partition("/")
    sets = {"svhn": "SVHN", "cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
    nets = {"densenet121": "DenseNet121", "vgg19": "VGG19", "repvgg-a2": "RepVGG-A2"}
    return f"{sets[dataset]} {nets.get(model) or model.removesuffix('-conv').replace('resnet', 'ResNet')}"


def whose(name: str) -> str:
    """Who trained the network."""
    return "authors'" if name.endswith(AUTHORS) else "ours"
