from functools import partial

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nishimori import metrics
from nishimori._rows.entry import open_rows
from nishimori._sums.predictions import tally
from nishimori._sums.reliability import uniform_edges

# Random logits may look like probabilities.
pytestmark = pytest.mark.filterwarnings("ignore::nishimori.errors.InputWarning")

N, K = 14, 3
FEW = settings(max_examples=25, deadline=None)
ROUNDING = 1e-12
MEANS = [metrics.error, metrics.accuracy, metrics.nll, metrics.brier, metrics.confidence]
STRATEGIES = ["uniform", "quantile"]

logits_ = arrays(float, (N, K), elements=st.floats(-30, 30)).filter(lambda z: (z < 0).any())  # or they may be no logits
labels_ = arrays(int, N, elements=st.integers(0, K - 1))
weights_ = arrays(float, N, elements=st.floats(0.1, 10))
temperatures_ = st.floats(0.05, 20)
bins_ = st.integers(1, 20)
strategies_ = st.sampled_from(STRATEGIES)
claims_ = st.sampled_from(["top", "classwise"])


@FEW
@given(logits=logits_, labels=labels_, temperature=temperatures_)
def test_each_metric_stays_within_its_bounds(logits, labels, temperature):
    assert 0 <= metrics.error(logits, labels) <= 1
    assert metrics.accuracy(logits, labels) + metrics.error(logits, labels) == pytest.approx(1)
    assert 1 / K - ROUNDING <= metrics.confidence(logits, labels, temperature=temperature) <= 1 + ROUNDING
    assert 0 <= metrics.brier(logits, labels, temperature=temperature) <= 2 + ROUNDING
    # No class is further than 60 below the top.
    assert 0 <= metrics.nll(logits, labels, temperature=temperature) <= np.log(K) + 60 / temperature + ROUNDING


@FEW
@given(logits=logits_, labels=labels_, temperature=temperatures_, n_bins=bins_, strategy=strategies_, of=claims_)
def test_calibration_errors_are_ordered_from_0_to_1(logits, labels, temperature, n_bins, strategy, of):
    options = {"temperature": temperature, "n_bins": n_bins, "strategy": strategy, "of": of}
    l1, l2, largest = (metrics.ece(logits, labels, norm=norm, **options) for norm in ("l1", "l2", "max"))
    assert 0 <= l1 <= l2 + ROUNDING
    assert l2 <= largest + ROUNDING
    assert largest <= 1 + ROUNDING


@FEW
@given(logits=logits_, labels=labels_, weights=weights_, temperature=temperatures_, n_bins=bins_, strategy=strategies_)
def test_ece_is_at_least_the_gap_between_confidence_and_accuracy(logits, labels, weights, temperature, n_bins, strategy):
    options = {"temperature": temperature, "sample_weight": weights}
    gap = abs(metrics.confidence(logits, labels, **options) - metrics.accuracy(logits, labels, **options))
    assert metrics.ece(logits, labels, n_bins=n_bins, strategy=strategy, **options) >= gap - ROUNDING
    assert metrics.ece(logits, labels, n_bins=1, strategy=strategy, **options) == pytest.approx(gap, abs=ROUNDING)


@FEW
@given(logits=logits_, labels=labels_)
def test_top_n_accuracy_grows_with_n_up_to_1(logits, labels):
    found = [metrics.top_n_accuracy(logits, labels, top_n=n) for n in range(1, K + 1)]
    assert found == sorted(found)
    assert found[0] == metrics.accuracy(logits, labels)
    assert found[-1] == 1


@FEW
@given(logits=logits_, labels=labels_, cold=temperatures_, factor=st.floats(1, 10))
def test_mean_confidence_falls_as_the_temperature_rises(logits, labels, cold, factor):
    hot = metrics.confidence(logits, labels, temperature=factor * cold)
    assert hot <= metrics.confidence(logits, labels, temperature=cold) + ROUNDING


@FEW
@given(logits=logits_, labels=labels_, temperature=st.floats(0.1, 20))
def test_the_temperature_divides_the_logits(logits, labels, temperature):
    divided = logits / temperature
    assume((divided.argmax(axis=1) == logits.argmax(axis=1)).all())  # rounding may make the two largest logits equal
    for metric in MEANS:
        found = metric(logits, labels, temperature=temperature)
        assert found == pytest.approx(metric(divided, labels), rel=1e-10, abs=ROUNDING)


@FEW
@given(logits=logits_, labels=labels_, weights=weights_, temperature=temperatures_, cut=st.integers(1, N - 1))
def test_a_metric_of_all_rows_is_the_weighted_mean_of_its_parts(logits, labels, weights, temperature, cut):
    for metric in MEANS:
        whole = metric(logits, labels, sample_weight=weights, temperature=temperature)
        parts = [
            metric(logits[r], labels[r], sample_weight=weights[r], temperature=temperature, input="logits")
            for r in (slice(cut), slice(cut, None))
        ]
        merged = np.average(parts, weights=[weights[:cut].sum(), weights[cut:].sum()])
        assert whole == pytest.approx(merged, rel=1e-12, abs=ROUNDING)


@FEW
@given(logits=logits_, labels=labels_, weights=weights_, n_bins=bins_, of=claims_, cut=st.integers(1, N - 1))
def test_bins_of_parts_merge_into_the_bins_of_the_whole(logits, labels, weights, n_bins, of, cut):
    def sums(rows):
        data = open_rows(logits[rows], labels[rows], weights[rows], input="logits")  # a part may lie between 0 and 1
        return data.gather(partial(tally, uniform_edges(n_bins), 1.0, of))

    whole, merged = sums(slice(None)), sums(slice(cut)) + sums(slice(cut, None))
    for name in ("weight", "confidence", "correct"):
        np.testing.assert_allclose(getattr(merged, name), getattr(whole, name), rtol=1e-12, atol=ROUNDING)


@FEW
@given(logits=logits_, labels=labels_, weights=weights_, n_bins=bins_, strategy=strategies_, of=claims_)
def test_every_claim_is_in_one_bin(logits, labels, weights, n_bins, strategy, of):
    options = {"n_bins": n_bins, "strategy": strategy, "of": of, "sample_weight": weights}
    curve = metrics.reliability(logits, labels, **options)
    for group in range(K if of == "classwise" else 1):
        mine = curve.group == group
        assert curve.weight[mine].sum() == pytest.approx(weights.sum())
        assert mine.sum() <= n_bins
    claimed = metrics.confidence(logits, labels, sample_weight=weights) if of == "top" else 1.0
    assert curve.weight @ curve.confidence / weights.sum() == pytest.approx(claimed)
