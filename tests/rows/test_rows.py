"""A reading of a file or of batches is shown as that of other long work is: by a bar, by a line, or not at all."""

import numpy as np
import pytest
import reference
from watched import Watched

import nishimori
from nishimori.errors import InputError

LOGITS, LABELS = reference.drawn(900, 5)


@pytest.fixture
def path(tmp_path):
    np.save(tmp_path / "z.npy", LOGITS)
    return tmp_path / "z.npy"


@pytest.mark.parametrize(("progress", "shown"), [(None, ""), (False, ""), (True, "900/900 Reading\n")])
def test_a_reading_is_a_line_where_nobody_watches(path, capsys, progress, shown):
    nishimori.metrics.brier(nishimori.rows(path, LABELS, progress=progress))
    assert capsys.readouterr().err == shown


def test_rows_of_a_stream_are_counted_even_if_their_number_is_not_known(capsys):
    data = nishimori.rows(lambda: [(LOGITS, LABELS)], progress=True)
    nishimori.metrics.brier(data)
    nishimori.metrics.brier(data)
    assert capsys.readouterr().err == "900/? Reading\n900/900 Reading, pass 2\n"


def test_whoever_brings_a_report_gets_it_alone(path, capsys):
    told = []
    data = nishimori.rows(path, LABELS, progress=True)
    nishimori.metrics.brier(Watched(data, lambda *step: told.append(step)))
    assert (capsys.readouterr().err, told[-1]) == ("", ("Reading", 900, 900))


def test_progress_is_refused_unless_it_is_one_of_three(path):
    with pytest.raises(InputError, match="`progress` must be None, True or False, got 'yes'"):
        nishimori.metrics.brier(nishimori.rows(path, LABELS, progress="yes"))


@pytest.mark.parametrize(
    ("made", "got"),
    [
        (lambda logits, labels: (logits, labels), "a tuple"),
        (lambda logits, labels: {"logits": logits, "labels": labels}, "a dict"),
        (lambda logits, labels: nishimori.Batch(logits.tolist(), labels, np.ones(len(labels))), "a list"),
        (lambda logits, labels: nishimori.Batch(logits, labels.tolist(), np.ones(len(labels))), "a list"),
    ],
)
@pytest.mark.parametrize("use", [nishimori.evaluate, nishimori.temperatures])
def test_rows_of_ones_own_that_yield_no_batches_are_told_what_a_batch_is(made, got, use):
    class Own(nishimori.Rows):
        n_classes, n_rows = 4, 300

        def __iter__(self):
            yield made(*reference.drawn(300, 4))

    with pytest.raises(InputError) as caught:
        use(Own())
    assert str(caught.value).startswith(
        "`Own.__iter__` must yield objects of the class `nishimori.Batch`, whose logits, labels and weights are arrays, got "
        f"{got}. Write `yield nishimori.Batch(logits, labels, weights)`."
    )
