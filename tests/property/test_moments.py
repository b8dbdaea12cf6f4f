from functools import partial
from math import exp, inf

import numpy as np
import pytest
import reference
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from measured_moments import measure

from nishimori._fit.roots import Root
from nishimori._fit.search import match
from nishimori._rows import entry
from nishimori._sums.observables import Confidence, Energy, Observable, TopN

# Constant rows of 0.25 are among the logits that hypothesis likes.
pytestmark = pytest.mark.filterwarnings("ignore::nishimori.errors.InputWarning")

BETAS = [0.0, 0.01, 0.3, 1.0, 4.0, 50.0, inf]
SPREAD = 60  # how far apart the logits below may be
SUMS = {"weight": 0, "observed": 1, "expected": 1, "slope": 2, "curvature": 3}  # and the power of a logit in each sum
FEW = settings(max_examples=25, deadline=None)
each_observable = pytest.mark.parametrize(
    "observable", [Confidence(), TopN(2), Energy()], ids=["confidence", "top 2", "energy"]
)


class FromValues(Observable):
    """A built-in observable as somebody outside the package would write it: by its values alone."""

    def __init__(self, inner):
        self.inner = inner

    def values(self, logits):
        return self.inner.values(logits)


open_rows = partial(entry.open_rows, input="logits")  # whatever the numbers are

any_logits = arrays(float, (12, 4), elements=st.floats(-30, 30))  # hypothesis likes ties
any_labels = arrays(int, 12, elements=st.integers(0, 3))
any_weights = arrays(int, 12, elements=st.integers(0, 5)).filter(np.any)


@st.composite
def drawn(draw, n=150):
    """Logits without ties and labels drawn at some temperature, so that one fits."""
    return reference.drawn(
        n, draw(st.integers(3, 6)), draw(st.floats(0.5, 4)), draw(st.floats(0.5, 5)), draw(st.integers(0, 2**20))
    )


def moments(observable, logits, labels, weights=None, betas=BETAS):
    return open_rows(logits, labels, weights).gather(partial(measure, observable=observable, betas=betas))


def assert_same(one, other):
    for name, power in SUMS.items():
        rounding = 1e-14 * other.weight * SPREAD**power
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-12, atol=rounding)


def root(observable, logits, labels, weights=None):
    """The search's answer in log β; examples that have none are passed over."""
    (found,) = match(open_rows(logits, labels, weights), observable).roots
    assume(isinstance(found, Root))
    return found.x


def gap(observable, logits, labels, temperature):
    """The definition, from slow NumPy."""
    if isinstance(observable, Energy):
        return reference.ts_gap(logits, labels, temperature)
    return reference.ec_gap(logits, labels, temperature, top_n=getattr(observable, "n", 1))


def assert_same_root(observable, logits, labels, x, expected):
    """The same temperature, or, where the gap is flat, temperatures between which the gap does not change."""
    if x != pytest.approx(expected, abs=1e-8):
        residual = gap(observable, logits, labels, exp(-x)) - gap(observable, logits, labels, exp(-expected))
        assert residual == pytest.approx(0, abs=1e-13)


@each_observable
@FEW
@given(logits=any_logits, labels=any_labels, weights=any_weights, cut=st.integers(1, 11))
def test_splitting_the_rows_does_not_change_the_moments(observable, logits, labels, weights, cut):
    assume(weights[:cut].any() and weights[cut:].any())
    parts = [moments(observable, logits[r], labels[r], weights[r]) for r in (slice(cut), slice(cut, None))]
    assert_same(parts[0] + parts[1], moments(observable, logits, labels, weights))


@each_observable
@FEW
@given(logits=any_logits, labels=any_labels)
def test_the_gap_grows_with_beta(observable, logits, labels):
    found = moments(observable, logits, labels)
    assert np.all(np.diff(found.gap) >= -1e-13 * max(1, np.abs(logits).max()))
    assert np.all(found.slope >= -1e-12 * max(1, np.abs(logits).max() ** 2))


@each_observable
@FEW
@given(logits=arrays(float, (12, 4), elements=st.floats(-5, 5)), labels=any_labels, beta=st.floats(0.1, 3))
def test_slope_and_curvature_are_finite_differences(observable, logits, labels, beta):
    h = 1e-5
    found = moments(observable, logits, labels, betas=[beta - h, beta, beta + h])
    # The cumulants of a logit within ten units are at most of the order of 10**5: the differences are right to h**2 of that.
    assert found.slope[1] == pytest.approx((found.expected[2] - found.expected[0]) / (2 * h), abs=1e-5)
    assert found.curvature[1] == pytest.approx((found.slope[2] - found.slope[0]) / (2 * h), abs=1e-5)


@each_observable
@FEW
@given(
    logits=arrays(int, (12, 4), elements=st.integers(-2000, 2000)),
    labels=any_labels,
    shift=arrays(int, (12, 1), elements=st.integers(-10_000, 10_000)),
)
def test_a_constant_in_each_row_changes_nothing(observable, logits, labels, shift):
    # In 64ths the sums are exact, so not a bit may change.
    plain, shifted = (moments(observable, z, labels) for z in (logits / 64, logits / 64 + shift))
    for name in SUMS:
        np.testing.assert_array_equal(getattr(shifted, name), getattr(plain, name))


@each_observable
@FEW
@given(logits=any_logits, labels=any_labels, weights=any_weights)
def test_integer_weights_are_copies(observable, logits, labels, weights):
    copies = np.repeat(logits, weights, axis=0), np.repeat(labels, weights)
    assert_same(moments(observable, logits, labels, weights), moments(observable, *copies))


@each_observable
@FEW
@given(sample=drawn(), order=st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(observable, sample, order):
    logits, labels = sample
    rows = order.sample(range(len(labels)), len(labels))
    assert_same(moments(observable, logits[rows], labels[rows]), moments(observable, logits, labels))


@each_observable
@FEW
@given(sample=drawn(), order=st.randoms(use_true_random=False))
def test_the_order_of_the_classes_does_not_matter(observable, sample, order):
    logits, labels = sample
    columns = order.sample(range(logits.shape[1]), logits.shape[1])
    relabelled = np.argsort(columns)[labels]
    assert_same(moments(observable, logits[:, columns], relabelled), moments(observable, logits, labels))


@each_observable
@FEW
@given(sample=drawn())
def test_the_gap_is_its_definition(observable, sample):
    logits, labels = sample
    found = moments(observable, logits, labels, betas=[0.3, 1.0, 4.0])
    expected = [gap(observable, logits, labels, 1 / beta) for beta in (0.3, 1.0, 4.0)]
    np.testing.assert_allclose(found.gap, expected, rtol=1e-11, atol=1e-13)


@each_observable
@FEW
@given(sample=drawn())
def test_the_gap_vanishes_at_the_root(observable, sample):
    logits, labels = sample
    x = root(observable, logits, labels)
    assert gap(observable, logits, labels, exp(-x)) == pytest.approx(0, abs=1e-8)


@each_observable
@FEW
@given(sample=drawn(), c=st.floats(1e-3, 1e3))
def test_scaling_the_logits_by_c_scales_the_temperature_by_c(observable, sample, c):
    logits, labels = sample
    x = root(observable, logits, labels)
    scaled = root(observable, c * logits, labels) + np.log(c)
    assert_same_root(observable, logits, labels, scaled, x)


@each_observable
@FEW
@given(sample=drawn())
def test_dividing_by_the_temperature_and_refitting_gives_1(observable, sample):
    logits, labels = sample
    calibrated = logits * exp(root(observable, logits, labels))
    assert_same_root(observable, calibrated, labels, root(observable, calibrated, labels), 0.0)


@each_observable
@FEW
@given(sample=drawn(), seed=st.integers(0, 2**20))
def test_the_temperature_of_weighted_rows_is_that_of_their_copies(observable, sample, seed):
    logits, labels = sample
    weights = np.random.default_rng(seed).integers(0, 4, size=len(labels))
    copies = np.repeat(logits, weights, axis=0), np.repeat(labels, weights)
    assert_same_root(observable, *copies, root(observable, logits, labels, weights), root(observable, *copies))


@each_observable
@FEW
@given(sample=drawn(), order=st.randoms(use_true_random=False))
def test_the_temperature_does_not_depend_on_the_order_of_rows_and_classes(observable, sample, order):
    logits, labels = sample
    rows = order.sample(range(len(labels)), len(labels))
    columns = order.sample(range(logits.shape[1]), logits.shape[1])
    shuffled = root(observable, logits[rows][:, columns], np.argsort(columns)[labels[rows]])
    assert_same_root(observable, logits, labels, shuffled, root(observable, logits, labels))


@each_observable
@FEW
@given(logits=any_logits, labels=any_labels, masked=arrays(bool, (12, 4)))
def test_an_observable_is_determined_by_its_values(observable, logits, labels, masked):
    masked[np.arange(12), labels] = False
    logits = np.where(masked, -inf, logits)
    expected = moments(observable, logits, labels)
    found = moments(FromValues(observable), logits, labels)
    for name, power in SUMS.items():
        rounding = 1e-13 * expected.weight * SPREAD**power
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-10, atol=rounding)
