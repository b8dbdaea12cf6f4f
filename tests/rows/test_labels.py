"""Names of groups and clusters become numbers in the order of the names."""

import numpy as np
import pytest

import nishimori
from nishimori._rows.batch import Groups
from nishimori._rows.labels import encode_values, spell_as_classes
from nishimori.errors import InputError

RNG = np.random.default_rng(0)
WHOLE = {
    "close together": RNG.integers(10, size=500),
    "negative": RNG.integers(-700, -600, size=500),
    "with gaps": 3 * RNG.integers(100, size=500),
    "far apart": RNG.integers(-(2**40), 2**40, size=500),
    "at both ends": np.array([-(2**63), 2**63 - 1, -(2**63), 0]),
    "at one end": np.array([2**63 - 1, 2**63 - 3, 2**63 - 1]),
    "one": np.array([-5]),
    "none": np.array([], dtype=int),
    "small type": RNG.integers(-128, 128, size=500).astype(np.int8),
    "unsigned": RNG.integers(2**64 - 9, 2**64 - 1, size=500, dtype=np.uint64),
    "unsigned and small": RNG.integers(9, size=500, dtype=np.uint64),
}


@pytest.mark.parametrize("values", WHOLE.values(), ids=WHOLE)
def test_whole_numbers_are_coded_as_numpy_sorts_them(values):
    before = values.copy()
    names, codes = encode_values(values, len(values), "group")
    expected, inverse = np.unique(values, return_inverse=True)
    np.testing.assert_array_equal(names, expected)
    np.testing.assert_array_equal(codes, inverse)
    assert names.dtype == values.dtype
    assert codes.dtype == np.int64
    codes[:] = 0  # which must not be the caller's own array
    np.testing.assert_array_equal(values, before)


def test_text_and_numbers_keep_their_names():
    assert Groups.from_names(["b", "a", "b"], 3).names == ("a", "b")
    assert Groups.from_names([2.5, -1.0, 2.5], 3).names == (-1.0, 2.5)
    assert Groups.from_names([True, False], 2).names == (False, True)


NAMES = ["cat", "dog", "fish"]
LOGITS = np.random.default_rng(1).normal(size=(60, 3))
CODES = np.random.default_rng(2).integers(3, size=60)


@pytest.mark.parametrize("labels", [CODES, CODES.astype(float), CODES.astype(np.uint8), CODES.astype(object)])
def test_numbers_of_classes_are_labels_where_classes_have_names(labels):
    expected = nishimori.evaluate(LOGITS, np.array(NAMES)[CODES], classes=NAMES)
    assert nishimori.evaluate(LOGITS, labels, classes=NAMES).nll == expected.nll


@pytest.mark.parametrize(
    ("labels", "classes"),
    [(CODES + 1, NAMES), (CODES - 1, NAMES), (CODES + 0.5, NAMES), (CODES, ["1", "2", "3"]), (CODES, [5, 6, 7])],
)
def test_numbers_are_refused_that_are_no_classes_or_could_be_names(labels, classes):
    with pytest.raises(InputError, match="classes"):
        nishimori.evaluate(LOGITS, labels, classes=classes)


def test_an_estimator_takes_labels_as_it_predicts_them():
    with pytest.raises(InputError, match="classes"):
        nishimori.calibrator("ts", classes=NAMES).fit(LOGITS, CODES)


@pytest.mark.parametrize("labels", [["2", "0", "1.0"], [2, 0, 1], [2.0, 0.0, 1.0]])
def test_numbers_in_files_become_names(labels):
    assert spell_as_classes(np.array(labels), NAMES) == ["fish", "cat", "dog"]


def test_numbers_in_files_become_names_beside_labels_that_are_ignored():
    assert spell_as_classes(np.array([2, -100]), NAMES, -100) == ["fish", "-100"]
    assert spell_as_classes(np.array([2, 3]), NAMES) == ["2", "3"]  # which is refused later


def test_the_label_of_unlabelled_pixels_has_its_hint():
    logits, labels = np.zeros((4, 3)), np.array([0, 1, 255, 2])
    logits[range(4), [0, 1, 2, 2]] = 3.0
    with pytest.raises(InputError, match=r"got 255 in row 2\. If it marks samples to leave out.*pass `ignore_index=255`\."):
        nishimori.evaluate(logits, labels)
    assert nishimori.evaluate(logits, labels, ignore_index=255).n_samples == 3
