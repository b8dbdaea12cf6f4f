"""One row of the paper's tables: error, both temperatures, and ECE and Brier score before calibration, after TS, after EC."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nishimori import data, metrics
from nishimori._array import HostArray
from nishimori._inputs import batches
from nishimori._temperatures import temperatures_of
from nishimori.data import Labelled, Network
from nishimori.errors import InputError
from nishimori.paper._artefact import Scale
from nishimori.paper._names import NetworkName

Row = dict[str, float]


def network(name: str, scale: Scale) -> Network:
    """A network's logits: bundled, or of the network trained for this run; the authors' networks are always bundled."""
    parsed = NetworkName.parse(name)
    if scale.networks is None or parsed.authors:
        return data.load(name)
    return data.load(f"{scale.networks}/{parsed.file}")


def scores(
    validation: Labelled, test: Labelled, *, validation_weight: HostArray | None = None, test_weight: HostArray | None = None
) -> Row:
    """What the tables print: temperatures fitted to ``validation``, all other numbers measured on ``test``.

    A weight says how often a sample counts.
    """
    found = temperatures_of(batches(validation.logits, validation.labels, validation_weight), warn=False)
    if found.ts is None or found.ec is None:
        raise InputError(f"These logits have no temperature: {found.why_no_ts or found.why_no_ec}")
    row = {"temperature_ts": found.ts, "temperature_ec": found.ec}
    row["error"] = metrics.error(test.logits, test.labels, sample_weight=test_weight)
    for suffix, temperature in (("", 1.0), ("_ts", found.ts), ("_ec", found.ec)):
        # 15 bins of equal mass, as in the paper.
        given: dict[str, Any] = {"temperature": temperature, "sample_weight": test_weight}
        row[f"ece{suffix}"] = metrics.ece(test.logits, test.labels, strategy="quantile", **given)
        row[f"brier{suffix}"] = metrics.brier(test.logits, test.labels, **given)
    return row


def validations(network: Network) -> dict[str, Labelled]:
    """The sets to calibrate on: clean validation images and, if there are any, augmented ones."""
    kinds = {"clean": network.validation, "augmented": network.augmented}
    return {kind: part for kind, part in kinds.items() if part is not None}


def measured(network: Network, *, resamples: int, seed: int) -> dict[str, Row]:
    """Scores with each kind of validation images, and their standard errors by bootstrap.

    The standard errors are those of finite validation and test sets; the network is the same in every resample.
    """
    kinds = validations(network)
    generator = np.random.default_rng(seed)
    drawn: dict[str, list[Row]] = {kind: [] for kind in kinds}
    for _ in range(resamples):
        counts = [_counts(len(part.labels), generator) for part in (network.validation, network.test)]
        for kind, validation in kinds.items():
            drawn[kind].append(scores(validation, network.test, validation_weight=counts[0], test_weight=counts[1]))
    result = {kind: scores(validation, network.test) for kind, validation in kinds.items()}
    return result | {f"{kind} error bars": mean_and_spread(rows)[1] for kind, rows in drawn.items()}


def _counts(n: int, generator: np.random.Generator) -> HostArray:
    """How often each of n samples is drawn in n draws with replacement."""
    counts: HostArray = np.bincount(generator.integers(n, size=n), minlength=n)
    return counts


def mean_and_spread(rows: Sequence[Row]) -> tuple[Row, Row]:
    """Mean and standard deviation of each column."""
    columns = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    mean = {key: float(values.mean()) for key, values in columns.items()}
    return mean, {key: float(values.std(ddof=1)) for key, values in columns.items()}
