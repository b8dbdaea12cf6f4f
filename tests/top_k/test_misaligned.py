"""Labels of top-k lists that are those of other samples: they would give a temperature, and it would mean nothing."""

import numpy as np
import pytest
import reference

import nishimori
from nishimori.errors import InputError

K, LISTED, N = 200, 60, 800
LOGITS, LABELS = reference.drawn(N, K, temperature=1.3)
LOG_P = LOGITS - np.log(np.exp(LOGITS).sum(axis=1, keepdims=True))
INDICES = np.argsort(-LOG_P, axis=1)[:, :LISTED]
LISTS = nishimori.TopK(INDICES, np.take_along_axis(LOG_P, INDICES, axis=1), vocabulary_size=K)
PREDICTED = INDICES[:, 0]


def refusal(labels, **options):
    with pytest.raises(InputError) as error:
        nishimori.temperatures(LISTS, labels, **options)
    return str(error.value)


@pytest.mark.parametrize(("shift", "neighbour"), [(1, "before"), (-1, "after")])
def test_labels_of_the_neighbouring_sample_are_refused(shift, neighbour):
    late = np.roll(LABELS, shift)  # each sample has the label of the one before it, or after it
    own, there = (np.mean(each == PREDICTED) for each in (late, LABELS))
    text = refusal(late)
    shares = f"{100 * own:.2f} % at the most probable class of their sample, {100 * there:.2f} % at that of the one {neighbour}"
    assert shares in " ".join(text.split())
    assert "Are the labels misaligned? Shift them by one position in each sequence" in text


def test_labels_that_are_hardly_ever_listed_are_refused():
    hidden = np.argsort(LOG_P, axis=1)[np.arange(N), np.arange(N) % 20]  # among the least probable classes
    mass = np.exp(np.take_along_axis(LOG_P, INDICES, axis=1)).sum(axis=1).mean()
    text = refusal(hidden)
    assert f"got 0 % of them among the listed classes, whose probabilities sum to {100 * mass:.2f} %" in text
    assert "Are the labels misaligned? Each must be the class that its list predicts, numbered as `indices` are." in text


def test_labels_that_do_not_count_are_not_looked_at():
    late = np.roll(LABELS, 1)
    labels = np.where(np.arange(N) < N // 2, -100, LABELS)
    assert nishimori.temperatures(LISTS, labels, ignore_index=-100).n_samples == N // 2
    labels = np.where(np.arange(N) < N // 2, -100, late)
    assert "misaligned" in refusal(labels, ignore_index=-100)


def test_right_labels_and_few_labels_are_taken():
    bounds = nishimori.temperatures(LISTS, LABELS).ec_bounds
    assert bounds.low <= reference.ec_temperature(LOGITS, LABELS) <= bounds.high
    part = nishimori.TopK(INDICES[:90], np.take_along_axis(LOG_P, INDICES, axis=1)[:90], vocabulary_size=K)
    wrong = LABELS[:90].copy()
    wrong[10:] = INDICES[10:90, 3]  # a model that is nearly always wrong, and no sample's neighbour is right
    assert nishimori.temperatures(part, wrong).accuracy < 0.1


def test_samples_of_equal_labels_have_no_neighbour_that_fits_better():
    same = np.full(N, 7)
    logits = LOGITS.copy()
    logits[::3, 7] += 30
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    indices = np.argsort(-log_p, axis=1)[:, :LISTED]
    lists = nishimori.TopK(indices, np.take_along_axis(log_p, indices, axis=1), vocabulary_size=K)
    assert nishimori.evaluate(lists, same).accuracy == pytest.approx(np.mean(indices[:, 0] == 7))
