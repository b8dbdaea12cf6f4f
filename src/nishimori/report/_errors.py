"""The errors of a model: the most confident ones, the classes that it confuses, and risk and coverage.

All come from one pass, with one call of the kernel per batch and map. Risk and coverage are the error of the most confident
answers, if only a share of all samples is answered; Y. Geifman and R. El-Yaniv, NeurIPS 2017, arXiv:1705.08500, call it
selective prediction. The curve is made of sums over bins of log(1 - confidence), of which there are enough that no reader sees
them. So rows are not kept, and rows that come later add.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nishimori._kernels.kernel import row_sums
from nishimori._rows.batch import Batch
from nishimori._rows.rows import Rows
from nishimori._sums.passes import Sums
from nishimori._sums.predictions import Predictions, apply_map
from nishimori._support import arrays
from nishimori._support.arrays import HostArray
from nishimori.errors import InputError
from nishimori.maps.map import Map

_MOST_MISTAKES = 20
_MOST_CONFUSIONS = 10

# Bins of ln(1 - confidence): 400 for each factor of e down to e⁻⁶⁰, so that few samples share one.
_PER_E = 400
_LOWEST = -60.0
_N_BINS = round(-_LOWEST * _PER_E) + 1

# Points of the curve: a picture of 380 pixels shows no more.
_POINTS = 100


def errors_of(data: Rows, map_: Map, ids: Any, names: Sequence[Any]) -> dict[str, Any]:
    """The most confident errors, the most confused classes, and the error of the most confident answers.

    ``map_`` is the calibration to use, ``ids`` are names of all rows, and ``names`` those of the classes.
    """
    checked, weights = _checked_ids(ids, data.n_rows), getattr(data, "weights", None)
    # Mistakes are counted among rows of positive weight; of data that come in batches all have one.
    numbers = np.flatnonzero(weights) if isinstance(weights, np.ndarray) and not weights.all() else None
    mistakes, confusions, before, after = data.gather(FindErrors(map_, data.n_classes)).items
    return {
        "mistakes": mistakes.table(numbers, names, checked),
        "confusions": confusions.confusions(names),
        "risk_coverage": {"before": risk_curve(*before), "one": risk_curve(*after)},
    }


def _checked_ids(ids: Any, n_rows: int | None) -> list[Any] | None:
    """The id of each row."""
    if ids is None:
        return None
    listed = np.asarray(ids)
    if listed.ndim != 1 or len(listed) != n_rows:
        raise InputError("ids", f"hold one id per sample that is measured, {n_rows} in all", got=f"shape {listed.shape}")
    return list(listed.tolist())


@dataclass(frozen=True)
class FindErrors:
    """The pass that finds `Mistakes`, `PairSums` of errors, and risks before and after calibration."""

    map: Map
    n_classes: int

    def __call__(self, batch: Batch) -> Sums:
        mapped, beta = apply_map(self.map, batch)
        sums = row_sums(batch, (1.0, beta), 0)
        before = Predictions(batch, 1.0, sums)
        after = Predictions(mapped, beta, sums if mapped is batch else row_sums(mapped, (beta,), 0))
        return Sums((mistakes_of(before, after), confusions_of(before, self.n_classes), risk_of(before), risk_of(after)))


@dataclass(frozen=True)
class Mistakes:
    """The most confident mistakes of some rows, the worst first; ``+`` adds the mistakes of further rows.

    Attributes
    ----------
    n_rows : int
        How many rows were looked at, all of positive weight.
    worst : list of tuples
        For each mistake one minus the confidence with all its digits, its number among these rows, the column that was
        predicted, that of the true class, the confidence, that after calibration, and the probability of the true class.
    """

    n_rows: int
    worst: Sequence[tuple[Any, ...]]

    def __add__(self, other: "Mistakes") -> "Mistakes":
        later = [(doubt, self.n_rows + place, *rest) for doubt, place, *rest in other.worst]
        return Mistakes(self.n_rows + other.n_rows, sorted([*self.worst, *later])[:_MOST_MISTAKES])

    def table(self, row_numbers: HostArray | None, names: Sequence[Any], ids: Sequence[Any] | None) -> list[dict[str, Any]]:
        """The mistakes as plain dictionaries; ``row_numbers`` are the numbers of the rows in all the data."""
        rows = []
        for _, place, predicted, label, *probabilities in self.worst:
            row = place if row_numbers is None else int(row_numbers[place])
            of_row = {"row": row, "id": None if ids is None else str(ids[row])}
            classes = {"predicted": str(names[predicted]), "label": str(names[label])}
            named = zip(("confidence", "confidence_after", "true_probability"), probabilities, strict=True)
            rows.append({**of_row, **classes, **dict(named)})
        return rows


def mistakes_of(before: Predictions, after: Predictions) -> Mistakes:
    """The most confident mistakes of a batch, with their confidence after calibration."""
    true = before.batch.xp.exp(before.label_drops) * before.peak_probability
    (wrong,) = np.nonzero(~arrays.on_host(before.right))
    doubt = arrays.on_host(before.doubt)
    worst = wrong[np.argsort(doubt[wrong], kind="stable")[:_MOST_MISTAKES]]
    columns = (before.top_class, before.batch.labels, before.top_probability, after.top_probability, true)
    listed = (column[worst].tolist() for column in (doubt, np.arange(len(doubt)), *map(arrays.on_host, columns)))
    return Mistakes(before.batch.n_rows, list(zip(*listed, strict=True)))


@dataclass(frozen=True)
class PairSums:
    """Sums over the rows that share a pair of numbers, such as true and predicted class; ``+`` adds further rows.

    Attributes
    ----------
    pairs : integer array
        The first number × how many second ones there can be + the second number, each pair once, in order.
    sums : array of shape (n_sums, pairs)
        The sums of each pair.
    """

    pairs: HostArray
    sums: HostArray

    @classmethod
    def of_rows(cls, pairs: HostArray, values: HostArray) -> "PairSums":
        """Sum the values of rows with the same pair."""
        different, places = np.unique(pairs, return_inverse=True)
        return cls(different, np.stack([np.bincount(places, summed, len(different)) for summed in values]))

    def __add__(self, other: "PairSums") -> "PairSums":
        pairs, sums = np.concatenate([self.pairs, other.pairs]), np.concatenate([self.sums, other.sums], axis=1)
        return PairSums.of_rows(pairs, sums)

    def confusions(self, names: Sequence[Any]) -> list[dict[str, Any]]:
        """The pairs of classes with the most errors, by weight, as plain dictionaries.

        Sums are of rows, of their weight, and of their confidence times weight.
        """
        counts, weight, confidence = self.sums
        rows = []
        for place in np.argsort(-weight, kind="stable")[:_MOST_CONFUSIONS].tolist():
            label, predicted = divmod(int(self.pairs[place]), len(names))
            classes = {"label": str(names[label]), "predicted": str(names[predicted])}
            share, mean = float(weight[place] / weight.sum()), float(confidence[place] / weight[place])
            rows.append({**classes, "n": round(float(counts[place])), "share": share, "confidence": min(mean, 1.0)})
        return rows


def confusions_of(before: Predictions, n_classes: int) -> PairSums:
    """The errors of a batch by pairs of classes."""
    batch = before.batch
    (wrong,) = np.nonzero(~arrays.on_host(before.right))
    predicted, labels = (arrays.on_host(column)[wrong].astype(np.int64) for column in (before.top_class, batch.labels))
    confidence = arrays.on_host(before.top_probability)[wrong]
    weights = arrays.on_host(batch.weights)[wrong]
    totals = np.stack([np.ones_like(weights), weights, weights * confidence])
    return PairSums.of_rows(labels * n_classes + predicted, totals)


def risk_curve(weight: HostArray, wrong: HostArray) -> list[list[float]]:
    """Pairs of coverage and error, from few samples to all; samples of equal confidence are answered together.

    Both are weights in bins of confidence, the most confident first: those of all samples, and of wrong ones.
    """
    full = weight > 0
    answered, errors = np.cumsum(weight[full]), np.cumsum(wrong[full])
    coverage, error = answered / answered[-1], errors / answered
    # One point for each hundredth of the samples, at the first bin that reaches it.
    places = np.unique(np.searchsorted(coverage, np.arange(1, _POINTS + 1) / _POINTS - 1e-12).clip(max=len(coverage) - 1))
    return np.round(np.stack([coverage, error], axis=1)[places], 6).tolist()


def risk_of(at: Predictions) -> HostArray:
    """The weights of all answers and of wrong answers in a batch, by confidence; they support ``+``."""
    doubt = arrays.on_host(at.doubt)
    with np.errstate(divide="ignore"):
        places = np.floor((np.log(doubt).clip(_LOWEST, 0) - _LOWEST) * _PER_E).astype(np.int64)
    weights = arrays.on_host(at.batch.weights)
    wrong = ~arrays.on_host(at.right)
    return np.stack([np.bincount(places, counted, _N_BINS) for counted in (weights, weights * wrong)])
