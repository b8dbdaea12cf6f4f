"""Conditions that the sums of any rows fulfil, and so every sketch: finite, with the right signs, and consistent.

Files are checked by it when they are read, and sketches before they are added: one wrong number would stay in the total.
"""

from collections.abc import Iterator, Sequence
from math import log
from typing import Any

import numpy as np

from nishimori._sketch.contents import OFFSETS, Contents, different_pairs, pairs
from nishimori._sums.observables import Confidence, Energy, Observable
from nishimori._support.arrays import HostArray

# Sums that are made in different orders agree to 1e-12; those of 1e9 weights, added one by one, to some 1e-9.
_ROUNDING = 1e-8


class ImpossibleSumsError(ValueError):
    """Sums that no rows can have; the text names the array and the fault."""


def refuse_impossible(contents: Contents, observables: Sequence[Observable]) -> None:
    """Refuse sums that no rows can have."""
    claims = _claims_of_rows(contents, observables) if contents.counts[0] else _claims_of_no_rows(contents)
    with np.errstate(all="ignore"):  # what is wrong may be infinite
        for name, must, holds in claims:
            if not np.all(holds):  # no comparison with NaN holds
                raise ImpossibleSumsError(f"`{name}` must {must}")


def _claims_of_no_rows(sums: Contents) -> Iterator[tuple[str, str, Any]]:
    """The name of an array, a condition, and whether it holds."""
    for name, array in vars(sums).items():
        yield name, "be 0 where there are no rows", (array == 0) | (name == "crossed" and np.isnan(array).all())


def _claims_of_rows(sums: Contents, observables: Sequence[Observable]) -> Iterator[tuple[str, str, Any]]:
    """The conditions if there are rows. Each one assumes all conditions before it."""
    yield "counts", "be finite and not negative", np.isfinite(sums.counts) & (sums.counts >= 0)
    census, (weight, squares, number) = sums.census, sums.weights
    whole = np.append(sums.counts[:6], sums.counts[-1])
    yield "counts", "be whole numbers of rows and logits", whole == np.round(whole)
    yield "counts", "have as many logits in each row, at least 2", sums.counts[-1] % census.n_rows == 0 and sums.n_classes > 1
    some = max(census.n_right, census.n_at_masks, census.n_at_zeros)
    yield "counts", "not have more rows of some kind than rows", some <= census.n_rows
    yield "weights", "be finite and positive", np.isfinite(sums.weights) & (sums.weights > 0)
    yield "weights", "count clusters, at most one per row", 1 <= number <= census.n_rows and number == round(number)
    yield "weights", "have Σw² between (Σw)²/n and (Σw)²", _at_most(weight**2 / number, squares) & _at_most(squares, weight**2)
    yield "counts", "sum to the weights", _equal(census.right + census.wrong, weight, weight)
    yield "counts", "have a chance of at most 1", _at_most(census.chance, weight)
    of_rows = census.right_squares + census.wrong_squares
    same = _equal(of_rows, squares, squares) if number == census.n_rows else _at_most(of_rows, squares)
    yield "counts", "have the squares of the weights", same
    for i, observable in enumerate(observables):
        yield from _claims_of(i, observable, sums)
    yield from _claims_of_products(sums, observables)
    yield from _claims_of_metrics(sums)


def _claims_of(i: int, observable: Observable, sums: Contents) -> Iterator[tuple[str, str, Any]]:
    """The conditions on the sums of one observable."""
    census, weight, observed = sums.census, float(sums.weights[0]), sums.observed[i]
    gap, size, slope = sums.moments[i, 0], sums.moments[i, 1], sums.moments[i, 2, 1:-1]  # at the ends slopes are not right
    is_finite = _is_finite(observable, sums)
    yield "observed", "be finite", np.isfinite(observed) | (not is_finite)
    yield "moments", "be finite", np.isfinite(sums.moments[i, 0 if is_finite else 2 :])
    yield "moments", "have sizes that are not below those of the gaps", _at_most(np.abs(gap), size)
    if isinstance(observable, Confidence):
        confidence, steepness = sums.curves[0]
        yield "observed", "be minus the weight of wrong answers", _equal(-observed, census.wrong, weight)
        yield "moments", "agree with the confidence in `curves`", _equal(gap[1:-1] + census.right, confidence, weight)
        yield "moments", "agree with the confidence in `curves`", _equal(slope, steepness, slope.max())
    if isinstance(observable, Energy):
        yield "observed", "not be positive for 'ts'", observed <= 0
        if is_finite:
            yield "moments", "agree with the loss in `curves`", _equal(gap[1:-1], sums.curves[2, 1], size[1:-1])
            top_counts = _equal(-observed, gap[-1], size[-1])
            yield "observed", "be minus the gap of 'ts' at T = 0, where only the top class counts", top_counts
    if observable._is_monotone:
        yield "moments", "have slopes that are not negative", slope >= -_ROUNDING * slope.max()


def _claims_of_products(sums: Contents, observables: Sequence[Observable]) -> Iterator[tuple[str, str, Any]]:
    """The conditions on products of gaps: no square is negative, and no product exceeds the geometric mean of two squares."""
    of_pair = dict(zip(pairs(len(observables)), sums.products, strict=True))
    # A square may underflow where a product does not.
    roots = [np.sqrt(of_pair[i, i] + 1e-300) for i in range(len(observables))]
    is_finite = [_is_finite(observable, sums) for observable in observables]
    for (i, j), products in of_pair.items():
        if i == j:
            yield "products", "have squares that are not negative", products >= 0
        if is_finite[i] and is_finite[j]:
            yield "products", "be finite", np.isfinite(products)
            yield "products", "not exceed those of the squares", _at_most(np.abs(products), roots[i] * roots[j])
    if np.isnan(sums.crossed).all():
        return  # not kept
    for (i, j), crossed in zip(different_pairs(len(observables)), sums.crossed, strict=True):
        if is_finite[i] and is_finite[j]:
            # Beyond the grid, where a shifted row begins again, the products are 0.
            shifted = [np.roll(roots[j][:, 1:-1], -offset, axis=-1) for offset in OFFSETS]
            limits = np.stack([roots[i][:, 1:-1] * row for row in shifted], axis=1)
            yield "crossed", "be finite", np.isfinite(crossed)
            yield "crossed", "not exceed the products of the squares", _at_most(np.abs(crossed), limits)


def _claims_of_metrics(sums: Contents) -> Iterator[tuple[str, str, Any]]:
    """The conditions on metrics and bins."""
    census, (weight, squares, number) = sums.census, sums.weights
    (confidence, steepness), (brier, _), (loss, _) = sums.curves
    yield "curves", "be finite", np.isfinite(sums.curves[: 2 if census.n_at_masks else 3])
    yield "curves", "have a confidence from 0 to 1, which rises with 1/T", _share(confidence, weight) & (steepness >= 0)
    yield "curves", "have a Brier score from 0 to 2", _share(brier, 2 * weight)
    yield "curves", "have a loss that is not negative", loss >= -_ROUNDING * weight
    # The true class of a wrong answer has a probability of at most 1/2.
    yield "curves", "have a loss of at least log 2 for each wrong answer", loss >= log(2) * census.wrong - _ROUNDING * weight
    yield "curves", "have a Brier score of at least 1/2 for each wrong answer", brier >= census.wrong / 2 - _ROUNDING * weight
    weights, claimed, correct, in_squares, misses = sums.bins
    yield "bins", "be finite", np.isfinite(sums.bins)
    shares = [_share(weights, weight), *(_share(part, weights, weight) for part in (claimed, correct))]
    shares += [_share(in_squares, squares), _share(misses, in_squares, squares)]
    yield "bins", "have parts that are not negative nor larger than their bin", shares
    yield "bins", "sum to the weights", _equal(weights.sum(axis=1), weight, weight)
    yield "bins", "sum to the confidence in `curves`", _equal(claimed.sum(axis=1), confidence, weight)
    yield "bins", "sum to the weight of right answers", _equal(correct.sum(axis=1), census.right, weight)
    total = in_squares.sum(axis=1)  # a cluster may be in several bins
    is_all = _at_most(squares, total) | (number < census.n_rows)
    yield "bins", "sum to the squares of the weights", _at_most(total, squares) & is_all


def _is_finite(observable: Observable, sums: Contents) -> bool:
    """Whether its gaps are finite: the logit of a masked true class is not."""
    return not (isinstance(observable, Energy) and sums.census.n_at_masks)


def _equal(one: Any, other: Any, scale: Any) -> Any:
    return np.abs(one - other) <= _ROUNDING * scale


def _at_most(one: Any, other: Any) -> Any:
    return one <= other * (1 + _ROUNDING)


def _share(part: HostArray, whole: Any, scale: Any = None) -> Any:
    """Whether a part is from 0 to the whole, up to rounding in units of ``scale``."""
    slack = _ROUNDING * (whole if scale is None else scale)
    return (part >= -slack) & (part <= whole + slack)
