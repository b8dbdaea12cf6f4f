"""Passes in any order, alone or together: the same sums, from a batch that stays as it is."""

from dataclasses import fields, is_dataclass, replace
from functools import cached_property, partial
from itertools import permutations

import numpy as np
import pytest
import reference
from host_kernels import EVERY, WITH_NATIVE

from nishimori._evaluation.metrics.table import default_metrics
from nishimori._evaluation.metrics.without_bins import KolmogorovSmirnov
from nishimori._evaluation.scorecard import MeasureScores
from nishimori._rows.batch import Batch, Clusters
from nishimori._sums.census import Count, count_zeros
from nishimori._sums.moments import Measure, cluster_gaps
from nishimori._sums.observables import Confidence, Energy, TopN
from nishimori._sums.passes import together
from nishimori._sums.reliability import uniform_edges
from nishimori.maps.temperature import Temperature


@pytest.fixture(params=EVERY)
def _kernel(request, monkeypatch):
    monkeypatch.setenv("NISHIMORI_KERNEL", request.param)


LOGITS, LABELS = reference.drawn(300, 6)
LOGITS[::7, 2] = LOGITS[::7].max(axis=1)  # some rows have two largest logits
MASKED = LOGITS.copy()
MASKED[::5, 4] = -np.inf
PROBABILITIES = reference.softmax(LOGITS, 1.0)
OTHERS = np.roll(PROBABILITIES, 1, axis=1)  # whose largest class is not that of the logits
WEIGHTS = np.random.default_rng(1).exponential(size=300)
CLUSTERS = Clusters(np.arange(300) % 20, 20)
PAIR = Measure(((Confidence(), (0.7,)), (Energy(), (0.6,))))
PASSES = {
    "pair": PAIR,
    "single": replace(PAIR, exact=False),
    "several betas": Measure(((Confidence(), (0.7, 0.0)), (TopN(2), (0.7,)))),
    "census": Count(Confidence()),
    "top two": Count(TopN(2)),
    "zeros": count_zeros,
    "clusters": partial(cluster_gaps, ((Confidence(), 0.7), (Energy(), 0.6))),
    "outcomes": partial(KolmogorovSmirnov().gather, 0.7),
    "scores": MeasureScores((Temperature(1.3), Temperature(1.0)), (uniform_edges(5),) * 2, default_metrics()),
}


def drawn(**changes):
    return replace(Batch(LOGITS.copy(), LABELS.copy(), WEIGHTS.copy(), clusters=CLUSTERS), **changes)


BATCHES = {
    "plain": drawn,
    "masked": lambda: drawn(logits=MASKED.copy()),
    "given": lambda: drawn(probabilities=OTHERS.copy()),
    "predicted": lambda: drawn(predicted=OTHERS.argmax(axis=1)),
    "single": lambda: drawn(logits=LOGITS.astype(np.float32)),
}


def numbers(found):
    """All numbers in sums, in order."""
    if is_dataclass(found):
        return [number for field in fields(found) for number in numbers(getattr(found, field.name))]
    if isinstance(found, tuple | list):
        return [number for each in found for number in numbers(each)]
    return np.ravel(found).astype(float).tolist() if isinstance(found, np.ndarray | float | int) else []


@pytest.mark.usefixtures("_kernel")
@pytest.mark.parametrize("make", BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize("other", [name for name in PASSES if name != "census"])
def test_two_passes_give_the_same_sums_in_either_order_and_as_alone(make, other):
    names = ("census", other)
    alone = {name: numbers(PASSES[name](make())) for name in names}
    same = make()
    one_after_the_other = {name: numbers(PASSES[name](same)) for name in reversed(names)}
    assert one_after_the_other == alone  # to the last digit: the batch knows nothing of the pass before
    first, second = (together(*(PASSES[name] for name in order))(make()) for order in (names, names[::-1]))
    assert numbers(first.items[0]) == numbers(second.items[1])
    assert numbers(first.items[1]) == numbers(second.items[0]) == alone[other]
    np.testing.assert_allclose(numbers(first.items[0]), alone["census"], rtol=1e-13)


@pytest.mark.usefixtures("_kernel")
def test_all_passes_together_give_the_same_sums_in_any_order():
    some = ("census", "pair", "clusters", "outcomes")
    found = {order: together(*(PASSES[name] for name in order))(drawn()) for order in permutations(some)}
    expected = dict(zip(some, map(numbers, found[some].items), strict=True))
    for order, sums in found.items():
        assert {name: numbers(each) for name, each in zip(order, sums.items, strict=True)} == expected


@pytest.mark.usefixtures("_kernel")
@pytest.mark.parametrize("make", BATCHES.values(), ids=BATCHES)
def test_a_batch_is_the_same_after_all_passes(make):
    batch, fresh = make(), make()
    together(*PASSES.values())(batch)
    own = {field.name for field in fields(Batch)}
    own |= {name for name, value in vars(Batch).items() if isinstance(value, cached_property)}
    assert set(vars(batch)) <= own  # nothing but its data, and what it computes from them
    for name in vars(batch):
        if name not in ("xp", "clusters"):
            np.testing.assert_array_equal(getattr(batch, name), getattr(fresh, name), err_msg=name)


@WITH_NATIVE
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_rows_that_were_not_checked_are_counted_in_either_order(order, monkeypatch):
    monkeypatch.setenv("NISHIMORI_KERNEL", "native")
    weights = WEIGHTS * (np.arange(300) % 3 > 0)
    logits = LOGITS.copy()
    batch = Batch(logits, LABELS, weights, masked=False)
    heavy = weights > 0
    expected = Count(Confidence())(Batch(LOGITS[heavy], LABELS[heavy], weights[heavy]))
    both = together(*[(PAIR, Count(Confidence()))[i] for i in order])
    assert both.reads_unchecked(batch)
    census = both.of_unchecked(batch).items[order.index(1)]
    np.testing.assert_allclose(numbers(census), numbers(expected), rtol=1e-13)
    logits[np.flatnonzero(heavy)[3], 2] = np.nan
    assert together(PAIR, Count(Confidence())).of_unchecked(batch) is None
