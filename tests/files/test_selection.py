"""What Python is told to pass where a table does not say which columns are scores, and that it works as shown."""

import re

import numpy as np
import pytest
from unclear_tables import BINARY, LABELS, LOGITS, PLAIN, SCORES, WORDS

import nishimori
from nishimori.errors import InputError

CASES = {
    "row numbers": (
        SCORES.assign(id=range(200), labels=LABELS),
        "If the scores are all columns except 'id', pass `nishimori.rows(..., ignore=['id'])`.",
    ),
    "one": (PLAIN[["a"]].assign(labels=BINARY), "If 'a' holds the scores, pass `nishimori.rows(..., columns='a')`."),
    "classes and more": (
        SCORES.assign(id=range(200), labels=WORDS),
        "If the scores are all columns except 'id', pass `nishimori.rows(..., ignore=['id'])`.",
    ),
    "another name of the labels": (SCORES.assign(y=LABELS), "If its labels are 'y', pass `labels='y'`."),
}


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("case", CASES)
def test_what_python_is_told_to_pass_fits_the_file_and_works_as_shown(case, ending, tmp_path):
    frame, remedy = CASES[case]
    path = tmp_path / f"t.{ending}"
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    with pytest.raises(InputError) as caught:
        nishimori.evaluate(path)
    assert str(caught.value).endswith(remedy)
    call = re.search(r"`(?:nishimori\.rows\(\.\.\., )?(.*?)\)?`\.$", remedy)[1]
    found = nishimori.evaluate(nishimori.rows(path, **eval(f"dict({call})")))
    logits, labels = (LOGITS[:, 0], BINARY) if case == "one" else (LOGITS, LABELS)
    assert found.nll == pytest.approx(nishimori.evaluate(logits, labels).nll, rel=1e-12)


@pytest.mark.parametrize(
    ("frame", "needed"),
    [
        (PLAIN.assign(labels=LABELS + 0.5), "columns=[...])`, or all other columns with `nishimori.rows(..., ignore=[...])`."),
        (PLAIN.round().assign(labels=LABELS), "There are 3 classes: name one column of scores per class, in their order, with"),
        (PLAIN.assign(labels=WORDS), "and their labels in the same order with `classes=[...]`."),
    ],
)
def test_where_nothing_is_proven_python_is_told_what_is_needed(frame, needed, tmp_path):
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(InputError, match=r"t\.csv does not say which columns are scores: 'a', 'b', 'c'\. ") as caught:
        nishimori.evaluate(tmp_path / "t.csv")
    assert needed in str(caught.value)


def test_columns_whose_names_say_nothing_are_scores_if_labels_and_values_leave_no_doubt(tmp_path):
    PLAIN.assign(labels=LABELS).to_csv(tmp_path / "t.csv", index=False)
    assert nishimori.evaluate(tmp_path / "t.csv").nll == nishimori.evaluate(LOGITS, LABELS).nll
    PLAIN.assign(c=np.arange(200), labels=LABELS).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(InputError, match="does not say which columns are scores"):
        nishimori.evaluate(tmp_path / "t.csv")
