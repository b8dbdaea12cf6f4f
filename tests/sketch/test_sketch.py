"""Sketches of parts of the data add to the sketch of all, and a part that fails changes nothing."""

import copy
import operator
from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

import nishimori
from nishimori import Sketch, temperatures
from nishimori.errors import InputError, MergeError

LOGITS, LABELS = reference.drawn(400, 5)
STORED = LOGITS.astype(np.float32)
WEIGHTS = np.random.default_rng(1).uniform(0.1, 3.0, 400)
ALL = Sketch().update(STORED, LABELS, WEIGHTS)


def sizes_of(state):
    """What the rounding of each sum is relative to: for gaps, which cancel, the sum of their sizes."""
    sizes = {name: np.abs(array) for name, array in state.items()}
    moments = sizes["moments"].reshape(-1, 4, 39)
    moments[:, 0] = moments[:, 1]
    return {name: np.maximum(size, np.abs(state[name])) for name, size in sizes.items()}


def assert_same(found, wanted):
    for name, size in sizes_of(wanted.state).items():
        assert (np.abs(found.state[name] - wanted.state[name]) <= 1e-12 * size + 1e-300).all(), name


@settings(max_examples=25, deadline=None)
@given(cuts=st.sets(st.integers(1, 399), max_size=6), data=st.data())
def test_however_the_rows_are_split_the_sketches_add_to_the_same_sums(cuts, data):
    order = data.draw(st.permutations(range(len(cuts) + 1)))
    parts = [slice(*each) for each in pairwise([0, *sorted(cuts), 400])]
    sketches = [Sketch().update(STORED[part], LABELS[part], WEIGHTS[part]) for part in parts]
    total = Sketch()
    for position in order:
        total.merge(sketches[position])
    assert_same(total, ALL)
    assert temperatures(total).ec == pytest.approx(temperatures(ALL).ec, rel=1e-12)
    assert temperatures(total).ts == pytest.approx(temperatures(ALL).ts, rel=1e-12)


def test_rows_far_apart_in_size_keep_their_digits_in_any_order():
    rows = np.random.default_rng(3).permutation(400)
    assert_same(Sketch().update(STORED[rows], LABELS[rows], WEIGHTS[rows]), ALL)


def test_a_sum_leaves_both_sketches_as_they_were_and_a_merge_changes_the_first():
    one, two = (Sketch().update(LOGITS[part], LABELS[part]) for part in (slice(100), slice(100, 400)))
    before = one.state, two.state
    total = one + two
    assert total.n_samples == 400
    for sketch, state in zip((one, two), before, strict=True):
        assert all(np.array_equal(sketch.state[name], state[name]) for name in state)
    assert one.merge(two) is one
    assert one.n_samples == 400
    assert (Sketch() + one).n_samples == 400


def test_sum_and_reduce_add_sketches_and_leave_them_as_they_were():
    parts = [Sketch().update(STORED[i::4], LABELS[i::4], WEIGHTS[i::4]) for i in range(4)]
    before = [part.state for part in parts]
    total, reduced = sum(parts), reduce(operator.add, parts)
    assert_same(total, ALL)
    assert all(
        np.array_equal(total.state[name], reduced.state[name]) for name in total.state
    )  # the same order, the same digits
    alone = sum(parts[:1])
    alone.update(STORED, LABELS)
    for part, state in zip(parts, before, strict=True):
        assert all(np.array_equal(part.state[name], state[name]) for name in state)


def test_a_tree_of_sums_differs_from_a_chain_by_rounding_only():
    parts = [Sketch().update(STORED[i::8], LABELS[i::8], WEIGHTS[i::8]) for i in range(8)]
    pairs = [one + two for one, two in zip(parts[::2], parts[1::2], strict=True)]
    assert_same((pairs[0] + pairs[1]) + (pairs[2] + pairs[3]), sum(reversed(parts)))


def test_states_are_flat_arrays_whose_sum_is_the_state_of_both():
    one, two = (Sketch().update(LOGITS[part], LABELS[part]) for part in (slice(100), slice(100, 400)))
    assert all(array.ndim == 1 and array.dtype == np.float64 for array in one.state.values())
    together = Sketch()
    together.state = {name: one.state[name] + two.state[name] for name in one.state}
    assert_same(together, one + two)
    assert together.n_classes == 5


def test_changing_a_state_does_not_change_its_sketch():
    sketch = Sketch().update(LOGITS, LABELS)
    sketch.state["counts"][:] = 0
    assert sketch.n_samples == 400


def test_a_state_of_another_kind_is_refused():
    with pytest.raises(InputError, match="`state` must hold arrays of the shapes"):
        Sketch().state = Sketch(("ec",)).state


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            Sketch(("ts", "ec")),
            "Sketches merge only if they have the same observables, got (Confidence(), Energy()) and (Energy(), Confidence()). "
            "Make both in the same way.",
        ),
        (
            Sketch(temperatures=(0.1, 10)),
            "Sketches merge only if they have the same range of temperatures, got 0.04419 to 22.63 and 0.08839 to 11.31. Make "
            "both in the same way.",
        ),
        (
            Sketch(input="probabilities", floor=None),
            "Sketches merge only if they have the same `input`, got logits and probabilities. Make both in the same way.",
        ),
        (
            Sketch(classes=[4, 3, 2, 1, 0]),
            "Sketches merge only if they have the same `classes`, got None and [4, 3, 2, 1, 0]. Make both in the same way.",
        ),
        (Sketch().update(LOGITS[:, :3], LABELS % 3), "Sketches merge only if they have the same classes, got 5 and 3."),
        (3, "A sketch merges only with a sketch, got 3."),
    ],
)
def test_sketches_of_different_things_do_not_merge(other, message):
    sketch = Sketch().update(LOGITS, LABELS)
    before = sketch.state
    with pytest.raises(MergeError) as refused:
        sketch.merge(other)
    assert str(refused.value) == message
    assert all(np.array_equal(sketch.state[name], before[name]) for name in before)


def test_only_sketches_are_added():
    with pytest.raises(TypeError):
        Sketch() + 1
    for other in (1, 0.0, None):
        with pytest.raises(TypeError):
            other + Sketch()


def put(array, where, value):
    array = np.array(array, dtype=float)
    array[where] = value
    return array


BIG, TRUE = np.tile(LOGITS, (100, 1)), np.tile(LABELS, 100)


@pytest.mark.parametrize(
    ("logits", "labels", "weights", "clusters", "message"),
    [
        (put(BIG, (39_990, 2), np.nan), TRUE, None, None, "got nan in row 39990, column 2"),
        (put(BIG, (39_990, 2), np.inf), TRUE, None, None, "got inf in row 39990, column 2"),
        (put(BIG, (39_990, 2), np.nan), TRUE, None, TRUE, "got nan in row 39990, column 2"),
        (BIG, put(TRUE, 7, 5), None, None, "`labels` must be from 0 to 4, got 5 in row 7"),
        (BIG[:, :4], TRUE % 4, None, None, "`logits` must have 5 classes, like all rows before, got 4."),
        (BIG, TRUE[:-1], None, None, r"`labels` must be one label per sample, shape \(40000,\), got shape \(39999,\)"),
        (BIG, TRUE, put(TRUE, 9, -1), None, "`sample_weight` must be finite and not negative, got -1 in row 9"),
        (BIG, TRUE, None, TRUE[:-1], r"`clusters` must have shape \(40000,\), one cluster per sample, got \(39999,\)"),
        (
            BIG,
            TRUE,
            None,
            put(TRUE, 11, np.nan),
            "`clusters` must not be missing, got NaN in row 11. Give that row its cluster",
        ),
        (BIG[:2], TRUE[:2], None, [1, [2]], "`clusters` must be a flat list, got rows of different lengths"),
        (BIG[:2], TRUE[:2], None, np.array([1, "a"], dtype=object), "`clusters` must hold values of one type"),
    ],
)
def test_an_update_that_fails_names_the_row_and_leaves_the_sketch_as_it_was(logits, labels, weights, clusters, message):
    sketch = Sketch().update(LOGITS, LABELS)
    before = copy.deepcopy(sketch.state)
    with pytest.raises(InputError, match=message):
        sketch.update(logits, labels, weights, clusters)
    assert all(np.array_equal(sketch.state[name], before[name]) for name in before)


def test_an_observable_that_fails_leaves_the_sketch_as_it_was():
    class Fragile(nishimori.Observable):
        def values(self, logits):
            return logits / 0 if len(logits) > 10 else logits

    sketch = Sketch((Fragile(),)).update(LOGITS[:10], LABELS[:10])
    before = sketch.state
    with np.errstate(all="ignore"), pytest.raises(InputError, match=r"`Fragile\.values` must be finite"):
        sketch.update(LOGITS, LABELS)
    assert all(np.array_equal(sketch.state[name], before[name]) for name in before)


@pytest.mark.parametrize(
    ("observables", "message"),
    [
        ((), "`observables` must be names from ec, ts, or instances of subclasses of nishimori.Observable, got none."),
        (
            "ec",
            "`observables` must be names from ec, ts, or instances of subclasses of nishimori.Observable, in a tuple, got "
            "'ec'.",
        ),
        (("vs",), "`observables` must be names from ec, ts, or instances of subclasses of nishimori.Observable, got 'vs'."),
        (("ec", "ec"), "`observables` must be distinct, got 'ec' more than once."),
        (3, "`observables` must be names from ec, ts, or instances of subclasses of nishimori.Observable, in a tuple, got 3."),
    ],
)
def test_observables_that_are_none_are_refused(observables, message):
    with pytest.raises(InputError) as refused:
        Sketch(observables)
    assert str(refused.value) == message


def test_a_sketch_prints_what_it_holds():
    assert repr(ALL) == "Sketch(n_samples=400, observables=('ec', 'ts'))"


def test_rows_that_bring_their_clusters_are_added_with_them_or_refused():
    logits, labels = reference.drawn(600, 4)
    codes = np.arange(600) // 5
    expected = Sketch().update(logits, labels, clusters=codes)
    found = Sketch().update(nishimori.rows(logits, labels, clusters=codes))
    assert nishimori.temperatures(found).ec_se == nishimori.temperatures(expected).ec_se
    batches = [{"logits": logits, "labels": labels, "clusters": codes}]
    with pytest.raises(InputError, match="`logits` must not name clusters unless it is in memory"):
        Sketch().update(nishimori.rows(batches))
