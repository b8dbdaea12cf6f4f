"""What each method says about itself is true: its traits are compared with what happens when it is fitted.

Methods that are added later are covered too: nothing here names one.
"""

import pickle
from functools import cache

import numpy as np
import pytest
import reference
from method_cases import n_classes_of, traits_of

import nishimori
from nishimori import Sketch
from nishimori._methods.table import Traits
from nishimori._rows.batch import Batch
from nishimori.errors import InputError

METHODS = pytest.mark.parametrize("name", nishimori.methods())
N = 1500


@cache
def skewed(n_classes):
    """A model with a wrong bias and a wrong scale for each class: maps that can change predictions do change some."""
    rng = np.random.default_rng(3)
    logits = 2 * rng.normal(size=(N, n_classes))
    scales, biases = np.linspace(0.8, 0.3, n_classes), np.linspace(1.2, -1.2, n_classes)
    labels = (scales * logits + biases + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return logits, labels


def data_of(name):
    return skewed(n_classes_of(name))


@cache
def fitted(name):
    return nishimori.calibrator(name).fit(*data_of(name))


class Blocks:
    """The same rows in blocks of 100. It notes whether sums grow with the rows, and whether rows are read without a pass."""

    n_rows = None

    def __init__(self, logits, labels):
        self.logits, self.labels = logits, labels
        self.n_classes = logits.shape[1]
        self.grew = False

    def _batches(self):
        for start in range(0, len(self.labels), 100):
            rows = slice(start, start + 100)
            yield Batch(self.logits[rows], self.labels[rows], np.ones(len(self.labels[rows])))

    def __iter__(self):
        self.grew = True  # rows are read one block after the other, and may all be kept
        return self._batches()

    def gather(self, pass_, report=None):
        total, first = None, 0
        for batch in self._batches():
            sums = pass_(batch)
            total = sums if total is None else total + sums
            first = first or len(pickle.dumps(total))
        # Numbers take a few bytes more or less; rows that are kept would make it fifteen times as large.
        self.grew |= len(pickle.dumps(total)) > 2 * first
        return total

    def sample(self, size):
        return None


@METHODS
def test_every_method_of_the_library_says_what_it_does(name):
    if nishimori.calibrator(name).__module__.startswith("nishimori."):
        assert isinstance(traits_of(name), Traits)


@METHODS
def test_predictions_stay_exactly_where_a_method_says_so(name):
    logits, _ = data_of(name)
    predicted = fitted(name).predict(logits)
    assert np.array_equal(predicted, logits.argmax(axis=1)) == traits_of(name).keeps_predictions


@METHODS
def test_a_method_streams_exactly_where_it_says_so(name):
    logits, labels = data_of(name)
    blocks = Blocks(logits, labels)
    try:
        found = nishimori.calibrator(name).fit(blocks)
    except InputError:
        assert not traits_of(name).streams
        return
    assert blocks.grew != traits_of(name).streams
    np.testing.assert_allclose(found.predict_proba(logits), fitted(name).predict_proba(logits), atol=1e-6)


@METHODS
def test_a_sketch_is_enough_exactly_where_a_method_says_so(name):
    logits, labels = data_of(name)
    sketch = Sketch().update(logits, labels)
    if traits_of(name).from_sketch:
        found = nishimori.calibrator(name).fit(sketch)
        np.testing.assert_allclose(found.predict_proba(logits), fitted(name).predict_proba(logits), atol=1e-3)
    else:
        with pytest.raises(InputError, match=r"^A Sketch "):
            nishimori.calibrator(name).fit(sketch)


@cache
def mixed(n_classes):
    """Labels drawn from a mixture: some at T = 3, some at T = 1, some by chance."""
    rng = np.random.default_rng(4)
    logits = 3 * rng.normal(size=(N, n_classes))
    betas = rng.choice([1 / 3, 1.0, 0.0], p=[0.5, 0.35, 0.15], size=N)
    return logits, (betas[:, None] * logits + rng.gumbel(size=logits.shape)).argmax(axis=1)


def error_bars(calibrator):
    """All standard errors of a fitted calibrator in one array; empty if it has none."""
    names = ("temperature_se_", "temperatures_se_", "parameters_se_", "ec_temperature_se_")
    found = [getattr(calibrator, name, None) for name in names]
    values = [each for one in found if one is not None for each in (one.values() if isinstance(one, dict) else [one])]
    return np.concatenate([np.ravel(each) for each in values]) if values else np.array([])


@METHODS
def test_a_method_has_error_bars_exactly_where_it_says_so(name):
    # Where parameters lie on the border of what is allowed, as weights of zero do, even such a method has none.
    found = error_bars(fitted(name))
    if not found.size:
        found = error_bars(nishimori.calibrator(name).fit(*mixed(n_classes_of(name))))
    assert bool(found.size) == traits_of(name).error_bars
    assert not found.size or 0 <= np.nanmin(found) <= np.nanmax(found) < np.inf
    assert not found.size or np.nanmax(found) > 0


@METHODS
def test_three_classes_are_refused_exactly_where_a_method_is_for_two(name):
    logits, labels = reference.drawn(600, 3)
    if traits_of(name).n_classes == "two":
        with pytest.raises(InputError, match=r"two classes|2 classes|binary"):
            nishimori.calibrator(name).fit(logits, labels)
    else:
        assert nishimori.calibrator(name).fit(logits, labels).predict_proba(logits).shape == (600, 3)
