"""One row of the paper's tables: error, both temperatures, and ECE and Brier score before calibration, after TS, after EC."""

from collections.abc import Mapping, Sequence

import numpy as np

from nishimori import data
from nishimori._evaluation.scorecard import Scorecard, scorecards
from nishimori._fit.temperatures import temperatures_of
from nishimori._rows.entry import open_rows
from nishimori._rows.rows import Rows
from nishimori._support.arrays import HostArray
from nishimori.data import Labelled, Network
from nishimori.errors import InputError
from nishimori.maps.temperature import Temperature
from nishimori_paper._artefact import Scale
from nishimori_paper._names import NetworkName

Row = dict[str, float]

SANDWICH = "errors of a fit"
"""The suffix of pieces with a fit's own standard errors of temperatures."""


def network(name: str, scale: Scale) -> Network:
    """A network's logits: bundled, or from the network trained for this run; the authors' networks are always bundled."""
    parsed = NetworkName.parse(name)
    if scale.networks is None or parsed.authors:
        return data.load(name)
    return data.load(f"{scale.networks}/{parsed.file}")


def scores(validation: Labelled, test: Labelled) -> Row:
    """The numbers in the tables: temperatures fitted to ``validation``, all others measured on ``test``."""
    return scores_by_kind({"": validation}, test)[""]


def scores_by_kind(
    validations: Mapping[str, Labelled],
    test: Labelled,
    *,
    validation_weight: HostArray | None = None,
    test_weight: HostArray | None = None,
    near: Mapping[str, Row] | None = None,
) -> dict[str, Row]:
    """Scores for each of several validation sets; the test set is read for all of them together.

    A weight says how often a sample counts. ``near`` are rows with temperatures close to the answers, to start the search at.
    """
    temperatures_by_kind = {
        kind: _temperatures(part, validation_weight, None if near is None else near[kind]) for kind, part in validations.items()
    }
    chosen = list(dict.fromkeys([1.0, *(T for temperatures in temperatures_by_kind.values() for T in temperatures.values())]))
    # 15 bins of equal mass, as in the paper.
    data = open_rows(test.logits, test.labels, test_weight)
    cards = dict(zip(chosen, scorecards(data, [Temperature(T) for T in chosen], strategy="quantile"), strict=True))
    return {kind: _row(temperatures, cards) for kind, temperatures in temperatures_by_kind.items()}


def _temperatures(validation: Labelled, weight: HostArray | None, near: Row | None) -> dict[str, float]:
    """Both temperatures by name."""
    data = open_rows(validation.logits, validation.labels, weight)
    starts = _rough(data) if near is None else {name: near[f"temperature_{name}"] for name in ("ts", "ec")}
    fitted = temperatures_of(data, warn=False, starts=starts)
    if fitted.ts is None or fitted.ec is None:
        raise InputError(f"These logits have no temperature: {fitted.why_no_ts or fitted.why_no_ec}")
    return {"ts": fitted.ts, "ec": fitted.ec}


def _rough(data: Rows) -> dict[str, float] | None:
    """Temperatures from a quarter of the rows, as starting points for three passes over all rows; None without any."""
    quarter = data.sample((data.n_rows or 0) // 4)
    fitted = None if quarter is None else temperatures_of(quarter, warn=False)
    return None if fitted is None or fitted.ts is None or fitted.ec is None else {"ts": fitted.ts, "ec": fitted.ec}


def _row(temperatures: Mapping[str, float], cards: Mapping[float, Scorecard]) -> Row:
    row = {f"temperature_{name}": T for name, T in temperatures.items()}
    row["error"] = cards[1.0].error
    for suffix, T in {"": 1.0, **{f"_{name}": T for name, T in temperatures.items()}}.items():
        row[f"ece{suffix}"], row[f"brier{suffix}"] = cards[T].ece, cards[T].brier
    # Differences of numbers from the same images have much smaller error bars than the numbers themselves.
    row["ece_difference"] = row["ece_ts"] - row["ece_ec"]
    for name in temperatures:
        row[f"brier_change_{name}"] = row[f"brier_{name}"] - row["brier"]
    return row


def validations(network: Network) -> dict[str, Labelled]:
    """The sets to calibrate on: clean validation images and, if there are any, augmented ones."""
    kinds = {"clean": network.validation, "augmented": network.augmented}
    return {kind: part for kind, part in kinds.items() if part is not None}


def temperature_errors(validations: Mapping[str, Labelled]) -> dict[str, Row]:
    """The standard errors of both temperatures from fits, without resampling, for each of several validation sets."""
    result = {}
    for kind, part in validations.items():
        fitted = temperatures_of(open_rows(part.logits, part.labels), warn=False)
        errors = {"temperature_ts": fitted.ts_se, "temperature_ec": fitted.ec_se}
        result[f"{kind} {SANDWICH}"] = {name: error for name, error in errors.items() if error is not None}
    return result


def measured(network: Network, *, resamples: int, seed: int) -> dict[str, Row]:
    """Scores with each kind of validation images, and their standard errors by bootstrap; for temperatures also by a fit.

    The standard errors are those of finite validation and test sets; the network is the same in every resample.
    """
    kinds = validations(network)
    generator = np.random.default_rng(seed)
    result = scores_by_kind(kinds, network.test)
    drawn = []
    for _ in range(resamples):
        drawn.append(scores_by_kind(kinds, network.test, **resampled(network, generator), near=result))
    bars = {f"{kind} error bars": mean_and_spread([rows[kind] for rows in drawn])[1] for kind in kinds}
    return result | bars | temperature_errors(kinds)


def resampled(network: Network, generator: np.random.Generator) -> dict[str, HostArray]:
    """Weights for `scores_by_kind` that draw validation and test images with replacement."""
    parts = {"validation_weight": network.validation, "test_weight": network.test}
    return {key: _counts(len(part.labels), generator) for key, part in parts.items()}


def _counts(n: int, generator: np.random.Generator) -> HostArray:
    """How often each of n samples is drawn in n draws with replacement."""
    counts: HostArray = np.bincount(generator.integers(n, size=n), minlength=n)
    return counts


def mean_and_spread(rows: Sequence[Row]) -> tuple[Row, Row]:
    """Mean and standard deviation of each column."""
    columns = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    mean = {key: float(values.mean()) for key, values in columns.items()}
    return mean, {key: float(values.std(ddof=1)) for key, values in columns.items()}
