"""What can be said about data: the same keywords everywhere, each honoured or refused by name."""

import inspect
from dataclasses import dataclass

import numpy as np
import pytest
import reference

import nishimori
from nishimori import metrics
from nishimori._rows.options import DEFAULTS
from nishimori.errors import InputError

LOGITS, LABELS = reference.drawn(600, 4)
IMAGES = LOGITS.reshape(12, 5, 10, 4)
PIXELS = LABELS.reshape(12, 5, 10)


def classes_second(array):
    return np.moveaxis(array, -1, 1)


@pytest.mark.parametrize("axis", [1, -3])
def test_classes_may_be_in_any_dimension(axis):
    found = nishimori.temperatures(classes_second(IMAGES), PIXELS, class_axis=axis)
    assert found.ec == pytest.approx(reference.ec_temperature(LOGITS, LABELS), rel=1e-8)
    assert metrics.nll(classes_second(IMAGES), PIXELS, class_axis=axis) == pytest.approx(
        reference.nll(LOGITS, LABELS), rel=1e-12
    )


def test_classes_of_batches_may_be_in_any_dimension():
    batches = [(classes_second(IMAGES[i : i + 2]), PIXELS[i : i + 2]) for i in range(0, 12, 2)]
    assert metrics.nll(batches, class_axis=1) == pytest.approx(reference.nll(LOGITS, LABELS), rel=1e-12)


def test_classes_of_dask_arrays_may_be_in_any_dimension():
    da = pytest.importorskip("dask.array")
    chunks = da.from_array(classes_second(IMAGES), chunks=(2, 4, 10, 5))
    assert metrics.nll(chunks, PIXELS, class_axis=1) == pytest.approx(reference.nll(LOGITS, LABELS), rel=1e-12)


@pytest.mark.parametrize("axis", [4, -5, 1.5, "second"])
def test_a_dimension_that_is_not_there_is_refused(axis):
    with pytest.raises(InputError, match=r"^`class_axis` must be the number of a dimension of `logits`, which has the sha"):
        metrics.nll(classes_second(IMAGES), PIXELS, class_axis=axis)


def test_what_a_function_cannot_honour_is_refused_by_name_and_may_be_left_out():
    with pytest.raises(InputError, match=r"^`clusters` must be left out of `ece`: it only affects standard errors, which th"):
        metrics.ece(LOGITS, LABELS, clusters=np.arange(600))
    with pytest.raises(InputError, match=r"^`groups` must be left out of `temperatures`: this function treats all group"):
        nishimori.temperatures(LOGITS, LABELS, groups=np.arange(600))
    assert metrics.ece(LOGITS, LABELS, clusters=None, counts=False) == metrics.ece(LOGITS, LABELS)


def test_an_unknown_keyword_is_an_error_of_the_function_that_was_called():
    with pytest.raises(TypeError, match=r"^evaluate\(\) got an unexpected keyword argument 'cluster'$"):
        nishimori.evaluate(LOGITS, LABELS, cluster=np.arange(600))


@pytest.mark.parametrize(("keyword", "value"), [("columns", ["a"]), ("read_ahead", True)])
def test_what_only_other_data_need_is_refused(keyword, value):
    with pytest.raises(InputError, match=rf"^`{keyword}` must be left out where `logits` is a ndarray: it is for"):
        nishimori.rows(LOGITS, LABELS, **{keyword: value})


def test_counts_that_were_said_once_hold_for_every_function():
    counts = np.random.default_rng(0).integers(1, 5, 600).astype(float)
    repeated = LOGITS.repeat(counts.astype(int), axis=0), LABELS.repeat(counts.astype(int))
    data = nishimori.rows(LOGITS, LABELS, sample_weight=counts, counts=True)
    assert nishimori.temperatures(data).ec_se == pytest.approx(nishimori.temperatures(*repeated).ec_se, rel=1e-6)
    assert nishimori.evaluate(data).nll_se == pytest.approx(nishimori.evaluate(*repeated).nll_se, rel=1e-9)
    for name in ("ec", "adaptive", "bias", "group"):
        fitted, copies = nishimori.calibrator(name).fit(data), nishimori.calibrator(name).fit(*repeated)
        np.testing.assert_allclose(fitted.predict_proba(LOGITS[:9]), copies.predict_proba(LOGITS[:9]), rtol=1e-5)
    assert nishimori.ExpectationConsistency().fit(data).temperature_se_ == pytest.approx(
        nishimori.ExpectationConsistency().fit(*repeated).temperature_se_, rel=1e-6
    )
    with pytest.raises(InputError, match="`counts` must be False where `clusters` is given"):
        nishimori.rows(LOGITS, LABELS, counts=True, clusters=np.arange(600) // 2)


@dataclass(frozen=True)
class FrozenRows(nishimori.Rows):
    """Rows of a user's own, whose class allows no new attributes."""

    weights: np.ndarray
    n_rows, n_classes = 600, 4

    def __iter__(self):
        yield nishimori.Batch(LOGITS, LABELS, self.weights)


@pytest.mark.parametrize("kind", ["array", "batches", "own", "sketch"])
def test_counts_that_are_said_of_rows_hold_for_one_call(kind):
    weights = np.random.default_rng(0).integers(1, 5, 600).astype(float)
    makers = {
        "array": lambda: nishimori.rows(LOGITS, LABELS, sample_weight=weights),
        "batches": lambda: nishimori.rows(lambda: [(LOGITS, LABELS, weights)]),
        "own": lambda: FrozenRows(weights),
        "sketch": lambda: nishimori.Sketch().update(LOGITS, LABELS, weights),
    }
    data = makers[kind]()
    before = nishimori.temperatures(data).ec_se
    repeated = (values.repeat(weights.astype(int), axis=0) for values in (LOGITS, LABELS))
    expected = nishimori.temperatures(*repeated).ec_se
    assert abs(expected / before - 1) > 0.05
    rel = 1e-2 if kind == "sketch" else 1e-6
    assert nishimori.temperatures(data, counts=True).ec_se == pytest.approx(expected, rel=rel)
    assert nishimori.ExpectationConsistency().fit(data, counts=True).temperature_se_ == pytest.approx(expected, rel=rel)
    assert nishimori.temperatures(data).ec_se == pytest.approx(before, rel=1e-9)


def test_help_shows_every_keyword():
    parameters = inspect.signature(nishimori.evaluate).parameters
    assert [name for name in parameters if name in DEFAULTS] == list(DEFAULTS)
    assert all(f"\n{name} : " in nishimori.evaluate.__doc__ for name in DEFAULTS)
