"""Two data sets: equal ones rarely differ significantly, changed ones do, and the tests are those of a textbook."""

import json

import numpy as np
import pytest
import reference
from scipy.stats import norm

import nishimori
from nishimori.errors import InputError

NAMES = ["accuracy", "gap", "ece", "nll"]


def card(seed, n=600, scale=1.0):
    """A scorecard of a model that is overconfident by a factor of ``scale`` in its logits."""
    logits, labels = reference.drawn(n, 4, seed=seed)
    return nishimori.evaluate(scale * logits, labels)


def test_differences_are_those_of_independent_estimates_and_p_values_those_of_holm():
    old, new = card(0), card(1, n=900, scale=1.3)
    found = nishimori.diff(old, new)
    assert [each.name for each in found.changes] == NAMES
    assert (found.n_old, found.n_new) == (600, 900)
    p_values = []
    for each in found.changes:
        name = each.name
        a, b = (x.ece_corrected if name == "ece" else getattr(x, name) for x in (old, new))
        se = np.sqrt(getattr(old, f"{name}_se") ** 2 + getattr(new, f"{name}_se") ** 2)
        assert (each.old, each.new, each.difference, each.se) == pytest.approx((a, b, b - a, se))
        p_values.append(2 * norm.sf(abs(b - a) / se))
    order = np.argsort(p_values)
    expected, least = np.empty(4), 0.0
    for rank, place in enumerate(order):
        least = max(least, (4 - rank) * p_values[place])
        expected[place] = min(least, 1)
    np.testing.assert_allclose([each.p_value for each in found.changes], expected, rtol=1e-6)


def test_equal_data_sets_rarely_differ_and_changed_ones_do():
    cards = [card(seed) for seed in range(160)]
    pairs = list(zip(cards[::2], cards[1::2], strict=True))
    found = [nishimori.diff(*pair) for pair in pairs]
    assert np.mean([bool(each.different) for each in found]) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / len(pairs))
    for name in ("accuracy", "gap", "nll"):  # that of the ECE is bounded below, and not normal
        z = [each[name].difference / each[name].se for each in found]
        assert 0.75 < np.std(z) < 1.25
        assert abs(np.mean(z)) < 4 / np.sqrt(len(z))
    changed = nishimori.diff(cards[0], card(500, scale=3.0))
    assert {"gap", "ece"} <= set(changed.different)
    assert changed["gap"].difference > 0
    assert "differ significantly" in changed.summary


def test_cards_their_numbers_and_files_of_eval_give_the_same():
    old, new = card(0), card(1)
    expected = nishimori.diff(old, new)
    assert nishimori.diff(old.to_dict(), new.to_dict()) == expected
    files = [{"before": each.to_dict(), "n_samples": each.n_samples} for each in (old, new)]
    assert nishimori.diff(*files) == expected


def test_sketches_are_compared_by_temperature_and_gap():
    sides = [nishimori.Sketch().update(*reference.drawn(800, 4, seed=seed)) for seed in (0, 1)]
    found = nishimori.diff(*sides)
    T = [nishimori.temperatures(each) for each in sides]
    assert (found["temperature"].old, found["temperature"].new) == (T[0].ec, T[1].ec)
    assert found["temperature"].se == pytest.approx(np.hypot(T[0].ec_se, T[1].ec_se))
    assert found["nll"].p_value is None  # a sketch keeps no squares
    assert "no standard error" in str(found)
    json.loads(found.to_json())


def test_reports_share_no_samples():
    logits, labels = reference.drawn(400, 4)
    results = nishimori.Report(logits[:200], labels[:200], logits[200:], labels[200:]).to_dict()

    def about(**files):
        told = [{"role": role, "name": name, "bytes": 1, "sha256": name} for role, name in files.items()]
        return results | {"provenance": results["provenance"] | {"files": told}}

    one = about(validation="a", test="b")
    with pytest.raises(InputError, match="independent samples"):
        nishimori.diff(one, one)
    others = ["accuracy", "gap", "ece", "nll", "ece_after", "nll_after"]
    same_fit = nishimori.diff(one, about(validation="a", test="c"))
    assert [each.name for each in same_fit.changes] == others
    found = nishimori.diff(one, about(validation="d", test="e"))
    assert [each.name for each in found.changes] == ["temperature", *others]
    (row,) = (each for each in results["methods"] if each["method"] == "adaptive")
    assert (found["temperature"].new, found["temperature"].new_se) == (row["temperature"], row["temperature_se"])
    assert found["nll_after"].old == row["nll"]
    assert found["gap"].old == pytest.approx(nishimori.evaluate(logits[200:], labels[200:]).gap)


@pytest.mark.parametrize("source", [3, None, {}, {"a": 1}, [1]])
def test_what_has_no_metrics_is_refused(source):
    with pytest.raises(InputError, match="`new` must be a Scorecard, a Sketch, or the JSON"):
        nishimori.diff(card(0), source)
