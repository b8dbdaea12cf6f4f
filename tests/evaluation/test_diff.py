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
        if name == "ece":  # after Zou and Donner: the sides of both intervals that face each other
            assert b > a
            se = np.hypot(old.interval("ece").high - a, b - new.interval("ece").low) / norm.ppf(0.975)
        assert (each.old, each.new, each.difference, each.se) == pytest.approx((a, b, b - a, se))
        if name != "ece":  # as two proportions are tested: the variance of all samples together, if both are equal
            within = 600 * 600 * getattr(old, f"{name}_se") ** 2 + 900 * 900 * getattr(new, f"{name}_se") ** 2
            total = within / 1500 + 600 * 900 * (b - a) ** 2 / 1500**2
            se = max(se, np.sqrt(total * (1 / 600 + 1 / 900)))
        p_values.append(2 * norm.sf(abs(b - a) / se))
    order = np.argsort(p_values)
    expected, least = np.empty(4), 0.0
    for rank, place in enumerate(order):
        least = max(least, (4 - rank) * p_values[place])
        expected[place] = min(least, 1)
    np.testing.assert_allclose([each.p_value for each in found.changes], expected, rtol=1e-6)


def calibrated(seed, n=600):
    """A scorecard of a model that is calibrated, whose ECE is as small as it can be."""
    rng = np.random.default_rng(seed)
    logits = 3 * rng.normal(size=(n, 4))
    return nishimori.evaluate(logits, (logits + rng.gumbel(size=logits.shape)).argmax(axis=1))


@pytest.mark.parametrize("made", [card, calibrated])
def test_equal_data_sets_rarely_differ(made):
    found = [nishimori.diff(made(2 * i), made(2 * i + 1)) for i in range(100)]
    assert np.mean([bool(each.different) for each in found]) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 100)
    z = {name: np.array([each[name].difference / each[name].se for each in found]) for name in NAMES}
    assert (np.abs(z["ece"]) > 1.96).mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 100)  # which is not normal
    for name in ("accuracy", "gap", "nll"):
        assert 0.8 < np.std(z[name]) < 1.2
        assert abs(np.mean(z[name])) < 0.4


def test_a_difference_has_one_sign():
    found = nishimori.diff(calibrated(0), calibrated(1))
    shown = {row[0]: row[3] for row in found.table.rows}
    values = {each.title: each.difference for each in found.changes}
    assert min(values.values()) < 0 < max(values.values())
    assert {title: text[0] for title, text in shown.items()} == {t: "−" if v < 0 else "+" for t, v in values.items()}
    assert not any(text[1] in "+−-" for text in shown.values())


def test_one_metric_is_named(tmp_path):
    path = tmp_path / "c.json"
    rng = np.random.default_rng(0)
    logits = 3 * rng.normal(size=(200, 3))
    nishimori.TemperatureScaling().fit(logits, (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)).save(path)
    content = json.loads(path.read_text(encoding="utf-8"))
    other = json.loads(json.dumps(content))
    other["provenance"]["data_digest"] = "of other rows"
    assert nishimori.diff(content, other).summary == "T does not differ significantly (level 5 %)."


def test_changed_data_sets_differ():
    changed = nishimori.diff(card(0), card(500, scale=3.0))
    assert {"gap", "ece"} <= set(changed.different)
    assert changed["gap"].difference > 0
    assert "differ significantly" in changed.summary


def test_cards_their_numbers_and_files_of_eval_give_the_same():
    old, new = card(0), card(1)
    expected = nishimori.diff(old, new)
    limits = [{"intervals": {"ece": list(each.interval("ece", 0.9))}} for each in (old, new)]
    files = [
        {"before": each.to_dict() | more, "n_samples": each.n_samples, "level": 0.9}
        for each, more in zip((old, new), limits, strict=True)
    ]
    found = nishimori.diff(*files)
    for name in ("accuracy", "gap", "nll"):
        assert found[name].se == expected[name].se
    assert found["ece"].se == pytest.approx(expected["ece"].se, rel=0.1)
    without = nishimori.diff(old.to_dict(), new.to_dict())
    assert without["ece"].p_value is None  # its standard error alone would be too small
    assert without["gap"].difference == expected["gap"].difference


def test_sketches_are_compared_by_temperature_and_gap():
    sides = [nishimori.Sketch().update(*reference.drawn(800, 4, seed=seed)) for seed in (0, 1)]
    found = nishimori.diff(*sides)
    T = [nishimori.temperatures(each) for each in sides]
    assert (found["temperature"].old, found["temperature"].new) == (T[0].ec, T[1].ec)
    assert found["temperature"].se == pytest.approx(np.hypot(T[0].ec_se, T[1].ec_se))
    assert found["nll"].p_value is None  # a sketch keeps no squares
    assert "no standard error" in str(found)
    json.loads(found.to_json())


@pytest.mark.parametrize("source", [3, None, {}, {"a": 1}, [1]])
def test_what_has_no_metrics_is_refused(source):
    with pytest.raises(InputError, match="`new` must be a Scorecard, a Sketch, or the JSON"):
        nishimori.diff(card(0), source)


def test_a_negative_difference_has_one_sign_and_the_table_fits_80_columns():
    old, new = card(1, scale=1.5), card(0)
    found = nishimori.diff(old, new)
    assert found["gap"].difference < 0
    for shown in (str(found), found.to_markdown(), found._repr_html_()):
        assert f"−{-100 * found['gap'].difference:.1f}"[:3] in shown
        assert "+−" not in shown
        assert found.summary in " ".join(shown.split()).replace("&#x27;", "'")
    after = [
        {name: {**each.to_dict(), "intervals": {}} for name in ("before", "after")} | {"n_samples": 1} for each in (old, new)
    ]
    assert max(map(len, str(nishimori.diff(*after)).splitlines())) <= 80


def test_temperatures_of_different_methods_are_not_compared():
    logits, labels = reference.drawn(600, 4)
    kinds = (nishimori.ExpectationConsistency, nishimori.TemperatureScaling)
    ec, ts = (
        {
            "map": {"kind": "temperature", "parameters": {"temperature": each.temperature_}},
            "method": name,
            "n_samples": 600,
            "temperature_se": each.temperature_se_,
        }
        for name, each in zip(("ec", "ts"), (kind().fit(logits, labels) for kind in kinds), strict=True)
    )
    assert ec["map"] != ts["map"]
    with pytest.raises(InputError, match="use the same method for both"):
        nishimori.diff(ec, ts)
    sums = nishimori.Sketch().update(logits, labels)
    for each in (ec, ts):
        assert nishimori.diff(sums, each)["temperature"].difference == pytest.approx(0, abs=1e-4)


@pytest.mark.parametrize(
    "change", [{"map": {"kind": "temperature", "parameters": []}}, {"method": []}, {"temperature_se": 10**400}]
)
def test_json_with_changed_parts_is_refused(change):
    found = {"map": {"kind": "temperature", "parameters": {"temperature": 1.5}}, "method": "ec", "temperature_se": 0.1}
    assert nishimori.diff(found, found)["temperature"].difference == 0
    with pytest.raises(InputError):
        nishimori.diff(found, found | change)


def test_a_small_data_set_without_errors_rarely_differs_from_a_large_one():
    rng = np.random.default_rng(0)

    def accurate(n):
        logits = 30 * rng.normal(size=(n, 4))
        return nishimori.evaluate(logits, (logits + rng.gumbel(size=logits.shape)).argmax(axis=1))

    found = [nishimori.diff(accurate(30), accurate(1500)) for _ in range(60)]
    assert np.mean([each["accuracy"].old_se == 0 for each in found]) > 0.2
    assert np.mean([each["accuracy"].is_different for each in found]) <= 0.1
    assert np.mean([each["nll"].is_different for each in found]) <= 0.1


def test_accuracies_are_tested_as_two_proportions_are():
    right, wrong = (nishimori.evaluate([[3.0, 0.0]] * 4, [label] * 4) for label in (0, 1))
    z = 1 / np.sqrt(0.5 * 0.5 * (1 / 4 + 1 / 4))
    found = nishimori.diff(right, wrong)["accuracy"]
    assert found.se == 0
    assert 2 * norm.sf(z) <= found.p_value <= 6 * 2 * norm.sf(z)
