"""Which columns hold scores: what names and values can say, and what is refused."""

import numpy as np
import pytest

from nishimori._files.tables.columns import by_names, by_values, match_columns, score_columns
from nishimori.errors import InputError

SPECIAL = {"labels": "labels", "w": "weights"}


@pytest.mark.parametrize(
    ("names", "classes"),
    [
        (["ant", "bee"], ["ant", "bee"]),
        (["ant", "bee"], ["bee", "ant"]),  # refused by the caller, which knows the order
        (["0", "1", "2"], None),
        (["0", "1", "2"], ["a", "b", "c"]),
        (["z_cat", "z_dog", "z_fish"], None),
        (["z_cat", "z_dog"], ["cat", "dog"]),
        (["z.1", "z.2", "z.10", "z.11"], None),
        (["logit0", "logit1"], None),
        (["z10", "z11", "z12"], None),
        (["p(cat)", "p(dog)"], None),
        (["cat score", "cat other"], None),
    ],
)
def test_names_that_leave_no_doubt_are_taken(names, classes):
    assert by_names(names, classes)


@pytest.mark.parametrize(
    ("names", "classes"),
    [
        ([], None),
        (["score"], None),
        (["z_cat"], None),
        (["id", "z_cat", "z_dog"], None),
        (["z_cat", "z_dog", "split"], None),
        (["score", "split"], None),  # an s in common is no prefix
        (["a", "b", "c"], None),
        (["a", "b", "c"], ["x", "y", "z"]),
        (["ant", "bee", "w"], ["ant", "bee"]),
        (["1", "2", "3"], None),
        (["0", "1", "id"], None),
        (["z", "z_1"], None),
        (["z1", "zebra"], None),
    ],
)
def test_names_that_leave_doubt_are_not_taken(names, classes):
    assert not by_names(names, classes)


@pytest.mark.parametrize(
    ("names", "classes", "message"),
    [
        (["z_0", "z_1", "z_10", "z_2"], None, "must be in the order of their numbers, got 'z_0', 'z_1', 'z_10', 'z_2'"),
        (["1", "0"], None, "must be in the order of their numbers"),
        (["z_cat", "z_dog"], ["dog", "cat"], r"`classes` must be in the order of the columns, got \['dog', 'cat'\] for the"),
    ],
)
def test_names_that_say_another_order_are_refused(names, classes, message):
    with pytest.raises(InputError, match=message):
        by_names(names, classes)
    with pytest.raises(InputError, match=message):
        score_columns(["*"], names, {}, classes, where="t.csv")
    assert score_columns(names, names, {}, None, where="t.csv") == names  # whoever names each column says the order


SCORES = np.random.default_rng(0).normal(size=(50, 3))
LABELS = np.arange(50) % 3


def test_values_can_only_confirm_one_column_per_class():
    assert by_values(SCORES, LABELS)
    assert by_values(SCORES, LABELS.astype(float))
    assert by_values(SCORES, LABELS.astype(str).astype(object))
    assert by_values(np.where(SCORES < -1, -np.inf, SCORES), LABELS)
    assert not by_values(SCORES[:, :2], LABELS % 2)  # two columns could be anything
    assert not by_values(SCORES, LABELS + 1)
    assert not by_values(SCORES, LABELS % 2)
    assert not by_values(SCORES, LABELS + 0.5)
    assert not by_values(SCORES, np.array(["a", "b"], dtype=object)[LABELS % 2])


@pytest.mark.parametrize("column", [np.arange(50), np.ones(50) / 3, np.arange(50) % 2], ids=["numbers", "constant", "flag"])
def test_columns_that_look_like_something_else_are_not_scores(column):
    assert not by_values(np.column_stack([column, SCORES]), np.arange(50) % 4)


def test_patterns_stand_for_columns_in_the_order_of_the_file():
    names = ["id", "z_b", "z_a", "labels", "w"]
    assert match_columns(["z_*"], names, argument="columns", where="t.csv") == ["z_b", "z_a"]
    assert match_columns(["z_a", "i?"], names, argument="columns", where="t.csv") == ["z_a", "id"]
    assert match_columns(["a[0]"], ["a[0]", "a0"], argument="columns", where="t.csv") == ["a[0]"]  # a name before a pattern
    assert match_columns([], names, argument="ignore", where="t.csv") == []


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        (["q_*"], "t.csv has no column that matches 'q_*', only 'id', 'z_a', 'z_b', 'labels', 'w'. Name yours with `columns`."),
        (["z_c"], "t.csv has no column 'z_c', only"),
        (["z_a", "z_a"], "`columns` must name each column once, got 'z_a' from 'z_a' and 'z_a'."),
        (["z_*", "*_a"], "`columns` must name each column once, got 'z_a' from 'z_*' and '*_a'."),
        (["z_a", "labels"], "`columns` must name columns of scores, got 'labels', which is the column of labels."),
        (["*"], "`columns` must name columns of scores, got 'labels', which is the column of labels."),
        (["z_*", "w"], "`columns` must name columns of scores, got 'w', which is the column of weights."),
        ([""], "t.csv has no column '', only"),
    ],
)
def test_patterns_that_cannot_be_meant_are_refused(patterns, message):
    with pytest.raises(InputError) as refused:
        score_columns(patterns, ["id", "z_a", "z_b", "labels", "w"], SPECIAL, None, where="t.csv")
    assert message in str(refused.value)


def test_columns_in_another_order_than_their_numbers_are_answered_with_that_order():
    with pytest.raises(InputError, match=r"Pass `nishimori\.rows\(\.\.\., columns=\['z_0', 'z_2', 'z_10'\]\)`\.$"):
        by_names(["z_0", "z_10", "z_2"], None)
    with pytest.raises(InputError, match=r"and 89 more\. Name each of them in that order with `columns`, without a pattern\.$"):
        by_names(sorted(f"z_{k}" for k in range(101)), None)
