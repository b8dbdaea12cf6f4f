"""A temperature exists exactly if its gap changes sign; if not, the error says which end fails. Few samples give a warning."""

import pickle
import warnings

import numpy as np
import pytest
import reference

from nishimori import ExpectationConsistency, TemperatureScaling, rows, temperatures
from nishimori._fit.search import find_roots
from nishimori._fit.temperatures import Temperatures
from nishimori._sums.observables import BUILT_IN
from nishimori.errors import FewErrorsWarning, InputError, NoTemperatureError

M = -np.inf

# name: logits, labels, and where each condition would be met: "cold", "hot", "flat" at no temperature or at all, None if it is.
CASES = {
    "all right": ([[2, 1, 0], [0, 3, 1]], [0, 1], "cold", "cold"),
    "all wrong": ([[2, 1, 0], [0, 3, 1]], [2, 0], "hot", "hot"),
    "accuracy exactly at chance": ([[1, 0], [1, 0]], [0, 1], "hot", "hot"),
    "one sample, right": ([[2, 1, 0]], [0], "cold", "cold"),
    "one sample, wrong": ([[2, 1, 0]], [2], "hot", "hot"),
    "one sample, second best": ([[2, 1.5, 0]], [1], "hot", None),
    "constant logits": ([[1, 1, 1], [5, 5, 5]], [0, 1], "flat", "flat"),
    "one row that is not constant": ([[1, 1], [5, 5], [0, 1], [0, 2]], [0, 1, 1, 0], "hot", "hot"),
    "often right, far off when wrong": ([[1, 0], [1, 0], [10, 0]], [0, 0, 1], None, "hot"),
    "rarely right, close when wrong": ([[10, 0], [1, 0], [1, 0]], [0, 1, 1], "hot", None),
    "right as often as ties allow": ([[1, 1, 0], [1, 1, 0]], [0, 2], "cold", "hot"),
    "ties leave room": ([[1, 1, 0], [2, 1, 0], [2, 1, 0]], [0, 0, 2], None, None),
    "labels at equal largest logits": ([[1, 1, 0], [1, 1, 0]], [0, 1], "cold", "cold"),
    "masks raise chance to the accuracy": ([[1, 0, M, M], [1, 0, M, M]], [0, 1], "hot", "hot"),
    "chance counts only unmasked classes": ([[1, 0, M], [1, 0, M], [1, 0, M]], [0, 0, 1], None, None),
    "a single class left in each row": ([[1, M], [M, 1]], [0, 1], "flat", "flat"),
}


def end_of(calibrator, logits, labels):
    try:
        calibrator.fit(np.array(logits, dtype=float), labels)
    except NoTemperatureError as error:
        return None if error.end == "uncertain" else error.end  # one exists, but so few samples do not determine it
    return None


def both(logits, labels):
    """Both temperatures, however uncertain."""
    data = rows(logits, labels)
    return Temperatures.from_match(find_roots(data, *BUILT_IN.values()), data)


@pytest.mark.parametrize(("logits", "labels", "ec", "ts"), CASES.values(), ids=CASES)
def test_each_condition_has_a_temperature_or_names_the_end_that_fails(logits, labels, ec, ts):
    assert end_of(ExpectationConsistency(), logits, labels) == ec
    assert end_of(TemperatureScaling(), logits, labels) == ts


@pytest.mark.parametrize(("logits", "labels", "ec", "ts"), CASES.values(), ids=CASES)
def test_both_at_once_says_none_and_why_or_raises_if_there_is_neither(logits, labels, ec, ts):
    logits = np.array(logits, dtype=float)
    if ec and ts:
        with pytest.raises(NoTemperatureError, match="No temperature fits"):
            temperatures(logits, labels)
        return
    found = both(logits, labels)
    for value, why, end, calibrator in (
        (found.ec, found.why_no_ec, ec, ExpectationConsistency()),
        (found.ts, found.why_no_ts, ts, TemperatureScaling()),
    ):
        assert (value is None) == (why is not None) == (end is not None)
        if why is not None:
            with pytest.raises(NoTemperatureError) as error:
                calibrator.fit(logits, labels)
            assert str(error.value) == why


@pytest.mark.parametrize(
    ("logits", "labels", "end"),
    [
        ([[3, 2, 1], [3, 2, 1]], [0, 1], "cold"),
        ([[3, 2, 1], [3, 2, 1], [3, 2, 1]], [0, 1, 2], "hot"),  # two thirds is chance for the top 2 of 3
        ([[3, 2, 1], [3, 2, 1], [3, 2, 1], [3, 2, 1]], [0, 1, 1, 2], None),
        ([[1, 1, 1, 0], [1, 1, 1, 0], [1, 1, 1, 0]], [0, 1, 2], "cold"),  # two of three tied maxima are two thirds
        ([[3, 2, M], [3, M, 2], [3, 2, 1]], [0, 2, 2], "hot"),  # chance is the mean of 1, 1 and 2/3
    ],
)
def test_top_2_has_a_temperature_or_names_the_end_that_fails(logits, labels, end):
    assert end_of(ExpectationConsistency(top_n=2), logits, labels) == end


def test_on_random_labels_either_exists_exactly_if_its_own_limits_allow():
    seen = set()
    for seed in range(60):
        rng = np.random.default_rng(seed)
        logits, labels = rng.normal(size=(100, 10)), rng.integers(10, size=100)
        accuracy = reference.right(logits, labels).mean()
        ec = 0.1 < accuracy < 1
        ts = logits[np.arange(100), labels].mean() > logits.mean()
        seen.add((ec, ts))
        if ec or ts:
            found = both(logits, labels)
            assert (found.ec is not None, found.ts is not None) == (ec, ts)
        else:
            with pytest.raises(NoTemperatureError):
                temperatures(logits, labels)
    assert seen == {(True, True), (True, False), (False, True), (False, False)}


def test_a_label_at_a_masked_class_leaves_both_at_once_with_ec_and_the_reason():
    logits, labels = reference.drawn(200, 4)
    logits[0, labels[0]] = -np.inf
    found = temperatures(logits, labels)
    assert found.ec == pytest.approx(reference.ec_temperature(logits, labels), rel=1e-8)
    assert found.ts is None
    assert "must not name a masked class" in found.why_no_ts
    with pytest.raises(InputError, match="must not name a masked class"):
        TemperatureScaling().fit(logits, labels)


def test_the_error_survives_a_pickle_with_its_end():
    with pytest.raises(NoTemperatureError) as raised:
        temperatures([[1.0, 0.0]], [0])
    copy = pickle.loads(pickle.dumps(raised.value))
    assert (type(copy), str(copy), copy.end) == (NoTemperatureError, str(raised.value), "cold")


def answers(n_right, n_wrong, k=50):
    """Logits with so many right answers; the wrong ones are second best, so that both temperatures exist."""
    logits = np.random.default_rng(0).normal(size=(n_right + n_wrong, k))
    order = np.argsort(-logits, axis=1)
    return logits, np.where(np.arange(len(logits)) < n_right, order[:, 0], order[:, 1])


FITS = {
    "ec": lambda logits, labels: ExpectationConsistency().fit(logits, labels),
    "ts": lambda logits, labels: TemperatureScaling().fit(logits, labels),
    "both": temperatures,
}


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
@pytest.mark.parametrize(
    ("n_right", "n_wrong", "few"), [(30, 9, "9 of 39"), (9, 30, "9 of 39"), (9, 9, "9 of 18"), (9, 60, "9 of 69")]
)
def test_fewer_than_ten_of_a_kind_give_one_sentence_at_the_line_of_the_caller(fit, n_right, n_wrong, few):
    with pytest.warns(FewErrorsWarning) as caught:
        fit(*answers(n_right, n_wrong))
    (warning,) = caught
    kind = "right" if n_right <= n_wrong else "wrong"
    assert str(warning.message) == (
        f"Only {few} validation samples are answered {kind}, so the temperature is uncertain; "
        "use a validation set with at least 10 wrong and 10 right answers."
    )
    assert warning.filename == __file__


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
@pytest.mark.parametrize(("n_right", "n_wrong"), [(30, 10), (10, 30), (10, 10)])
def test_ten_of_each_kind_give_no_warning(fit, n_right, n_wrong):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(*answers(n_right, n_wrong))


def test_the_warning_counts_what_top_n_calls_right():
    logits, labels = answers(30, 30)  # all are among the top two, so add nine that are not
    order = np.argsort(-logits, axis=1)
    labels[:9] = order[:9, 2]
    with pytest.warns(FewErrorsWarning, match="Only 9 of 60 validation samples are answered wrong"):
        ExpectationConsistency(top_n=2).fit(logits, labels)


def test_the_warning_does_not_count_rows_of_weight_zero():
    logits, labels = answers(30, 30)
    weights = np.append(np.ones(35), np.zeros(25))
    with pytest.warns(FewErrorsWarning, match="Only 5 of 35 validation samples are answered wrong"):
        TemperatureScaling().fit(logits, labels, weights)
