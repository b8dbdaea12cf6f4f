"""An error keeps what it is about in parts, and its text is made from them."""

import copy
import pickle
from functools import partial

import pytest

from nishimori.errors import ABSENT, InputError, NoRowsError, NoTemperatureError, arguments_written, in_python, setting

BAD = partial(InputError, "logits", "be finite", got="nan", remedy="Drop that row.")

TEXTS = {
    "all parts": (BAD(row=7, column=2), "`logits` must be finite, got nan in row 7, column 2. Drop that row."),
    "a position": (BAD(row=(3, 1)), "`logits` must be finite, got nan in row (3, 1). Drop that row."),
    "no remedy": (InputError("n_bins", "be positive", got=0), "`n_bins` must be positive, got 0."),
    "None is a value": (InputError("x", "be a number", got=None), "`x` must be a number, got None."),
    "nothing was got": (InputError("floor", "be left out"), "`floor` must be left out."),
    "another subject": (InputError("The network", "end in a layer"), "The network must end in a layer."),
    "a whole message": (InputError("There is no network 'x'."), "There is no network 'x'."),
    "other words for the place": (
        BAD(row=1).changed(place="line 3"),
        "`logits` must be finite, got nan in line 3. Drop that row.",
    ),
    "where": (BAD(where="a.csv"), "a.csv: `logits` must be finite, got nan. Drop that row."),
}


@pytest.mark.parametrize(("error", "text"), TEXTS.values(), ids=TEXTS)
def test_the_text_is_made_of_the_parts(error, text):
    assert str(error) == text
    assert repr(error) == f"InputError({text!r})"


@pytest.mark.parametrize("copied", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_a_copy_has_every_part_and_the_class(copied):
    error = NoRowsError("logits", "have rows", got="none", remedy="Add some.", row=(1, 2), column=3, place="x", where="a.npz")
    made = copied(error)
    assert (type(made), vars(made), str(made)) == (NoRowsError, vars(error), str(error))


def test_a_change_leaves_the_error_itself_as_it_is():
    error = NoRowsError("logits", "have rows")
    made = error.changed(where="Batch 3", argument="scores")
    assert (str(error), str(made)) == ("`logits` must have rows.", "Batch 3: `scores` must have rows.")
    assert type(made) is NoRowsError


def test_arguments_are_written_as_the_reader_types_them():
    error = BAD(remedy=f"Pass {setting('input', 'probabilities')}.")
    assert str(error).endswith("Pass `input='probabilities'`.")
    with arguments_written(lambda name, value: f"the {name}{'' if value is ABSENT else f' {value}'}"):
        assert str(BAD()) == "The logits must be finite, got nan. Drop that row."
        assert setting("floor", 0.1) == "the floor 0.1"
    assert (setting("floor"), setting("floor", None)) == ("`floor`", "`floor=None`")
    assert setting("floor", 0.1) == in_python("floor", 0.1)


def test_arguments_are_written_in_python_again_after_an_error():
    with pytest.raises(NoTemperatureError), arguments_written(lambda name, value: "other"):
        raise NoTemperatureError("none", end="hot")
    assert setting("floor") == "`floor`"
