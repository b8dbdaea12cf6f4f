"""A reading of a file or of batches is shown as that of other long work is: by a bar, by a line, or not at all."""

import numpy as np
import pytest
import reference

import nishimori
from nishimori._methods import table
from nishimori._methods.fitted_method import BareCalibrator
from nishimori._rows.rows import Reported
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
    nishimori.metrics.brier(Reported(data, "Measuring", lambda *step: told.append(step)))
    assert (capsys.readouterr().err, told[-1]) == ("", ("Measuring, pass 1", 900, 900))


def passes_shown(data, method, **options):
    """The names of the passes of a fit, in order, each with how much was done at its start and at its end."""
    told = []
    made = BareCalibrator(table.find_bare(method)())
    made.fit(Reported(data, "Fitting", lambda *step: told.append(step), made.method.expected_passes(data)), **options)
    ends = {}
    for what, done, _ in told:
        ends.setdefault(what, []).append(done)
    return {what: (done[0], done[-1]) for what, done in ends.items()}


MANY, THEIR_LABELS = reference.drawn(40_000, 3)  # so many that a sample is read first


@pytest.mark.parametrize(
    ("method", "clusters", "n"),
    [("ec", False, 1), ("ts", False, 1), ("adaptive", False, 2), ("ec", True, 2), ("adaptive", True, 2)],
)
def test_a_fit_shows_which_of_about_how_many_passes_is_running(method, clusters, n):
    groups = np.arange(len(MANY)) // 40 if clusters else None
    shown = passes_shown(nishimori.rows(MANY, THEIR_LABELS, clusters=groups), method)
    assert shown == {f"Fitting, pass {i} of about {n}": (0, len(MANY)) for i in range(1, n + 1)}


class WithoutSample(nishimori.Rows):
    """Rows of which a sample would take a reading, as of a large table."""

    n_classes, n_rows = 3, len(MANY)

    def __iter__(self):
        yield nishimori.Batch(MANY, THEIR_LABELS, np.ones(len(MANY)))


@pytest.mark.parametrize(("method", "n"), [("ec", 4), ("adaptive", 5)])
def test_more_passes_are_expected_where_there_is_no_sample(method, n):
    shown = passes_shown(WithoutSample(), method)
    assert next(iter(shown)) == f"Fitting, pass 1 of about {n}"
    assert abs(len(shown) - n) <= 1


def test_nothing_is_promised_about_a_stream_of_unknown_length():
    shown = passes_shown(nishimori.rows(lambda: [(MANY, THEIR_LABELS)], progress=False), "ec")
    assert list(shown) == [f"Fitting, pass {i}" for i in range(1, len(shown) + 1)]


def test_a_pass_that_was_not_expected_has_a_number_and_no_promise():
    told = []
    data = Reported(nishimori.rows(LOGITS, LABELS), "Fitting", lambda *step: told.append(step), expected=1)
    nishimori.metrics.brier(data)
    nishimori.metrics.brier(data)
    assert list(dict.fromkeys(what for what, *_ in told)) == ["Fitting, pass 1 of about 1", "Fitting, pass 2"]


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
