"""Verdicts of a gate: what they are made of, how often they are wrong, and the forms in which they are shown."""

import json
from dataclasses import FrozenInstanceError, dataclass
from xml.etree import ElementTree

import numpy as np
import pytest
import reference
from optional import torch
from scipy.special import logsumexp
from scipy.stats import binomtest, norm

import nishimori
from nishimori import Sketch, gate
from nishimori._evaluation.gate import CheckOutcome, junit, workflow_command
from nishimori.errors import InputError

LOGITS, LABELS = reference.drawn(3000, 4)  # drawn at T = 2, so the model is overconfident
NAMES = np.array(["ant", "bee", "cat", "dog"])


def test_a_gap_is_checked_with_the_error_of_its_mean():
    found = gate(LOGITS, LABELS, bounds={"gap": 0.1})
    scores = reference.scores(LOGITS, LABELS)
    misses = scores["confidence"] - scores["accuracy"]
    (check,) = found.checks
    wrong = int((~reference.right(LOGITS, LABELS)).sum())
    assert wrong < 1500, "the rarer answers"
    exact = binomtest(wrong, 3000, alternative="less").proportion_ci(0.95).high - wrong / 3000
    normal = np.sqrt(wrong / 3000 * (1 - wrong / 3000) / 3000)
    reach = exact / normal * reference.error_of_mean(misses)
    assert check.value == pytest.approx(misses.mean(), rel=1e-12)
    assert (check.low, check.high) == pytest.approx((misses.mean() - reach, misses.mean() + reach), rel=1e-9)


def test_the_brier_score_has_the_further_one_of_two_limits_at_each_end():
    name = "brier"
    scores = reference.scores(LOGITS, LABELS)[name]
    mean, reach = scores.mean(), norm.ppf(0.9) * reference.error_of_mean(scores)
    check = gate(LOGITS, LABELS, level=0.9, bounds={name: 1.0})[name]
    assert (check.value, check.low, check.high) == pytest.approx((mean, mean - reach, mean * np.exp(reach / mean)), rel=1e-9)


def test_the_error_has_exact_limits():
    wrong = int((~reference.right(LOGITS, LABELS)).sum())
    check = gate(LOGITS, LABELS, bounds={"error": 0.5})["error"]
    low = binomtest(wrong, 3000, alternative="greater").proportion_ci(0.95).low
    high = binomtest(wrong, 3000, alternative="less").proportion_ci(0.95).high
    assert (check.value, check.low, check.high) == pytest.approx((wrong / 3000, low, high), rel=1e-9)


def test_a_verdict_follows_from_the_limits():
    check = gate(LOGITS, LABELS, bounds={"gap": 0.1})["gap"]
    bounds = {"fail": check.low - 1e-6, "inconclusive": check.value, "pass": check.high + 1e-6}
    for verdict, bound in bounds.items():
        found = gate(LOGITS, LABELS, bounds={"gap": bound})
        assert found.verdict == found["gap"].verdict == verdict
        assert found.passed is (verdict == "pass")
        assert gate(LOGITS, LABELS, bounds={"gap": bound}, allow_inconclusive=True).passed is (verdict != "fail")


def test_the_worst_check_decides():
    low, high = gate(LOGITS, LABELS, bounds={"gap": 0.1})["gap"].low, gate(LOGITS, LABELS, bounds={"gap": 0.1})["gap"].high
    found = gate(LOGITS, LABELS, bounds={"gap": (low + high) / 2, "error": 1.0})
    assert [each.verdict for each in found.checks] == ["inconclusive", "pass"]
    assert found.verdict == "inconclusive"
    assert [each.name for each in found.failed] == ["gap"]
    assert gate(LOGITS, LABELS, bounds={"gap": (low + high) / 2, "error": 0.01}).verdict == "fail"


def population(temperature, seed=0, n=40_000, k=4):
    """Logits and the probabilities that labels are drawn from."""
    logits = 3 * np.random.default_rng(seed).normal(size=(n, k))
    return logits, reference.softmax(logits, temperature)


def verdicts(logits, truth, n, draws, groups=None, *, bounds):
    """How often each check ends with each verdict, for data sets of n rows that are drawn from a population."""
    rng, counted = np.random.default_rng(1), {name: [] for name in bounds}
    for _ in range(draws):
        rows = rng.integers(len(logits), size=n)
        labels = (rng.random((n, 1)) > truth[rows].cumsum(axis=1)[:, :-1]).sum(axis=1)
        found = gate(logits[rows], labels, groups=None if groups is None else groups[:n], bounds=bounds)
        for check in found.checks:
            counted[check.name].append(check.verdict)
    return {name: {each: found.count(each) / draws for each in set(found)} for name, found in counted.items()}


def test_a_calibrated_model_is_called_a_failure_as_rarely_as_is_said():
    """Bounds are the true values; 160 draws at 5 % have a standard error of 1.7 %. Fifty groups, unadjusted: 90 %."""
    logits, truth = population(1.0)
    error = 1 - truth.max(axis=1).mean()
    nll = -(truth * np.log(truth)).sum(axis=1).mean()
    brier = (1 - (truth**2).sum(axis=1)).mean()
    bounds = {"ece": 0.0, "gap": 0.0, "error": error, "nll": nll, "brier": brier, "group_gap": 0.0}
    groups = np.arange(1000) % 50
    found = verdicts(logits, truth, 1000, 160, groups, bounds=bounds)
    for name, shares in found.items():
        assert shares.get("fail", 0) < 0.05 + 4 * 0.017, name
        assert shares.get("pass", 0) < 0.05 + 4 * 0.017, name


def test_a_model_that_is_off_by_twice_the_bound_is_noticed():
    logits, truth = population(1.5)
    claimed = reference.softmax(logits).max(axis=1)
    right = truth[np.arange(len(truth)), logits.argmax(axis=1)]
    gap, ece = (claimed - right).mean(), reference.ece(claimed, right, np.linspace(0, 1, 16))
    assert ece > 0.08
    found = verdicts(logits, truth, 4000, 20, bounds={"ece": ece / 2, "gap": gap / 2, "group_gap": gap / 2})
    assert {name: shares["fail"] for name, shares in found.items()} == {"ece": 1, "gap": 1, "group_gap": 1}


def test_the_largest_group_gap_is_named():
    groups = np.where(np.arange(3000) % 3 == 0, "Bern & <b>", "Rome")
    drawn_as_claimed = (LOGITS + np.random.default_rng(3).gumbel(size=LOGITS.shape)).argmax(axis=1)
    labels = np.where(groups == "Rome", drawn_as_claimed, LABELS)
    found = gate(LOGITS, labels, groups=groups, bounds={"group_gap": 0.05})
    assert "group Bern & <b>, n = 1000, confidence is above accuracy" in " ".join(str(found).split())
    assert "Bern &amp; &lt;b&gt;" in found._repr_html_()
    ElementTree.fromstring(found.to_junit().encode())
    by_class = gate(LOGITS, NAMES[LABELS], classes=NAMES, bounds={"group_gap": 0.05})
    assert "class " in str(by_class)
    assert "of 4 exceed it" in by_class["group_gap"].message
    assert any(f"class {name}, n = " in by_class["group_gap"].message for name in NAMES)


@pytest.mark.parametrize("bound", [0.01, 0.2, 0.9])
def test_the_largest_group_gap_is_that_of_all_groups_whichever_decides(bound):
    """Groups of very different sizes: the largest gap is often not that of the group with the furthest limit."""
    others = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        logits = 3 * rng.normal(size=(400, 3))
        labels = (logits / 1.5 + rng.gumbel(size=logits.shape)).argmax(axis=1)
        groups = np.minimum(rng.geometric(0.35, size=400), 8)
        check = gate(logits, labels, groups=groups, bounds={"group_gap": bound})["group_gap"]
        scores = reference.scores(logits, labels)
        gaps = {each: (scores["confidence"] - scores["accuracy"])[groups == each].mean() for each in np.unique(groups)}
        largest = max(gaps, key=lambda each: abs(gaps[each]))
        assert check.value == pytest.approx(abs(gaps[largest]), rel=1e-9)
        assert f"(group {largest}, n = {(groups == largest).sum()}, confidence is " in check.message
        others += "bound belongs to group " in check.message
        assert f"bound belongs to group {largest}," not in check.message
    assert others > 3


def test_groups_that_rows_bring_are_checked_as_those_of_an_argument():
    groups = np.where(np.arange(3000) % 3 == 0, "Bern", "Rome")
    expected = gate(LOGITS, LABELS, groups=groups, bounds={"group_gap": 0.05})
    assert expected != gate(LOGITS, LABELS, bounds={"group_gap": 0.05})
    brought = {"logits": LOGITS, "labels": LABELS, "groups": groups}
    for data in (nishimori.rows(LOGITS, LABELS, groups=groups), nishimori.rows(lambda: [brought]), lambda: [brought]):
        assert gate(data, bounds={"group_gap": 0.05}) == expected
    predicted = gate(nishimori.rows(LOGITS, LABELS, groups=groups), by="prediction", bounds={"group_gap": 0.05})
    assert predicted == gate(LOGITS, LABELS, bounds={"group_gap": 0.05})


BOUNDS = dict.fromkeys(("ece", "gap", "error", "brier", "nll", "group_gap"), 0.1)


def test_fewer_samples_than_are_needed_cannot_be_judged():
    found = gate(LOGITS[:99], LABELS[:99], bounds=BOUNDS)
    assert {each.verdict for each in found.checks} == {found.verdict} == {"cannot be judged"}
    assert not found.passed
    assert found.failed == found.checks
    assert found["ece"].message == "ECE at most 10 %: there are only 99 samples, and at least 100 are needed"
    assert [found.to_dict()["checks"][0][name] for name in ("low", "high")] == [None, None]
    assert found["error"].value == pytest.approx(1 - reference.right(LOGITS[:99], LABELS[:99]).mean())
    assert gate(LOGITS[:100], LABELS[:100], bounds=BOUNDS).verdict != "cannot be judged"
    assert gate(LOGITS[:99], LABELS[:99], min_samples=99, bounds=BOUNDS).verdict != "cannot be judged"
    assert gate(LOGITS, LABELS, min_samples=3001, bounds={"gap": 0.1}).verdict == "cannot be judged"


def test_samples_without_weight_do_not_count_and_counts_do():
    weights = (np.arange(3000) < 99).astype(float)
    assert gate(LOGITS, LABELS, sample_weight=weights, bounds={"gap": 0.1}).verdict == "cannot be judged"
    few, twice = slice(60), np.full(60, 2.0)
    assert gate(LOGITS[few], LABELS[few], sample_weight=twice, bounds={"gap": 0.1}).verdict == "cannot be judged"
    assert gate(LOGITS[few], LABELS[few], sample_weight=twice, counts=True, bounds={"gap": 0.1}).verdict != "cannot be judged"


def test_clusters_count_where_they_are_given():
    tens = np.arange(3000) % 99
    found = gate(LOGITS, LABELS, clusters=tens, bounds={"gap": 0.1})
    assert found["gap"].message.endswith("there are only 99 clusters, and at least 100 are needed")
    assert gate(LOGITS, LABELS, clusters=np.arange(3000) % 100, bounds={"gap": 0.1}).verdict != "cannot be judged"
    last = (np.arange(3000) % 100 != 7).astype(float)  # a cluster without weight
    options = {"clusters": np.arange(3000) % 100, "sample_weight": last}
    assert gate(LOGITS, LABELS, bounds={"gap": 0.1}, **options).verdict == "cannot be judged"


def test_a_sketch_counts_its_samples_or_clusters():
    few = Sketch().update(LOGITS[:99], LABELS[:99])
    assert gate(few, bounds={"gap": 0.1}).verdict == "cannot be judged"
    clustered = Sketch().update(LOGITS, LABELS, clusters=np.arange(3000) // 31)  # 97 of them
    assert "only 97 clusters" in gate(clustered, bounds={"gap": 0.1})["gap"].message


CONSTANT = {
    "equal logits": np.zeros((400, 3)),
    "one row again and again": np.tile([[2.0, 1.0, 0.5]], (400, 1)),
    "rows that a constant was added to": np.tile([[2.0, 1.0, 0.5]], (400, 1)) + np.arange(400.0)[:, None],
    "a masked class": np.tile([[2.0, 1.0, -np.inf]], (400, 1)),
    "rounding of float32": np.tile([[2.0, 1.0, 0.5]], (400, 1)) * (1 + 1e-8 * np.random.default_rng(0).normal(size=(400, 3))),
    "a certain answer": np.tile([[900.0, 0.0, 0.0]], (400, 1)),
}


@pytest.mark.parametrize("logits", CONSTANT.values(), ids=CONSTANT)
@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_a_model_with_one_answer_for_every_sample_cannot_be_judged(logits, strategy):
    labels = np.arange(400) % 2
    found = gate(logits, labels, strategy=strategy, bounds={"ece": 0.5, "group_gap": 0.5}, input="logits")
    assert {each.verdict for each in found.checks} == {"cannot be judged"}
    assert found["ece"].message == "ECE at most 50 %: the model gives the same probabilities for every sample"


def test_a_map_that_makes_all_answers_equal_cannot_be_judged():
    assert gate(LOGITS, LABELS, temperature=1e12, bounds={"gap": 0.5}).verdict == "cannot be judged"


def test_answers_that_vary_are_judged_although_their_confidence_does_not():
    said = np.random.default_rng(0).integers(3, size=400)
    logits = np.where(np.arange(3) == said[:, None], 2.0, 0.0) - 0.5
    assert gate(logits, LABELS[:400] % 3, bounds={"gap": 0.5}).verdict != "cannot be judged"
    rare = np.stack([np.zeros(400), np.linspace(-30, -20, 400)], axis=1)  # a confidence of 1, and probabilities that vary
    assert gate(rare, np.zeros(400, dtype=int), bounds={"gap": 0.5}).verdict != "cannot be judged"
    hard = np.where(np.arange(3) == said[:, None], 1.0, 0.0)
    assert gate(hard, LABELS[:400] % 3, input="probabilities", floor=1e-6, bounds={"gap": 0.5}).verdict != "cannot be judged"


def test_three_samples_prove_nothing_if_they_are_judged_at_all():
    logits, labels = np.array([[9.0, 0.0], [9.1, 0.0], [9.2, 0.0]]), [0, 0, 0]
    found = gate(logits, labels, min_samples=1, bounds=BOUNDS)
    assert {each.verdict for each in found.checks} == {"inconclusive"}
    assert "(fewer than 10 wrong answers, which decide it); " in found["brier"].message
    assert found["nll"].high > 5


def test_thirty_right_answers_leave_an_ece_of_nine_percent_possible():
    logits = np.stack([np.linspace(12, 14, 30), np.zeros(30)], axis=1) - 1
    check = gate(logits, np.zeros(30, dtype=int), bounds={"ece": 0.05}, min_samples=30)["ece"]
    assert check.verdict == "inconclusive"
    assert check.high == pytest.approx(1 - 0.05 ** (1 / 30), abs=1e-4)  # all right with an accuracy of at least this


def test_an_infinite_loss_fails():
    logits = LOGITS.copy()
    logits[5, LABELS[5]] = -np.inf
    found = gate(logits, LABELS, bounds={"nll": 100.0}, nll_cap=200)
    assert found.verdict == "fail"
    assert found.to_dict()["checks"][0]["value"] is None


SAME = {
    "lists": (LOGITS.tolist(), LABELS.tolist(), {}),
    "tensors": (torch.tensor(LOGITS), torch.tensor(LABELS), {}),
    "probabilities": (reference.softmax(LOGITS), LABELS, {"input": "probabilities"}),
    "classes": (LOGITS, NAMES[LABELS], {"classes": NAMES}),
    "rows of weight 0": (
        np.concatenate([LOGITS, np.full((2, 4), np.nan)]),
        np.append(LABELS, [-100, 9]),
        {"sample_weight": np.append(np.ones(3000), [0, 0])},
    ),
    "counts": (LOGITS, LABELS, {"sample_weight": np.ones(3000), "counts": True}),
    "clusters of one": (LOGITS, LABELS, {"clusters": np.arange(3000)}),
}


@pytest.mark.parametrize(("logits", "labels", "options"), SAME.values(), ids=SAME)
def test_the_same_data_in_another_form_have_the_same_checks(logits, labels, options):
    bounds = {"ece": 0.1, "gap": 0.1, "nll": 1.0, "group_gap": 0.1}
    expected = gate(LOGITS, LABELS, bounds=bounds)
    found = gate(logits, labels, bounds=bounds, **options)
    assert found.n_samples == 3000
    for one, other in zip(found.checks, expected.checks, strict=True):
        assert (one.value, one.low, one.high) == pytest.approx((other.value, other.low, other.high), abs=1e-6)
        assert one.verdict == other.verdict


def test_a_file_is_checked_like_an_array(tmp_path):
    np.save(tmp_path / "logits.npy", LOGITS)
    found = gate(tmp_path / "logits.npy", LABELS, bounds={"gap": 0.1})
    assert found["gap"].low == pytest.approx(gate(LOGITS, LABELS, bounds={"gap": 0.1})["gap"].low, rel=1e-12)


@pytest.mark.filterwarnings("ignore:.*one temperature cannot correct that:nishimori.errors.InputWarning")
def test_a_flat_binary_score_is_checked():
    z, y = LOGITS[:, 0], (LABELS == 0).astype(int)
    two = np.stack([np.zeros(3000), z], axis=1)
    assert gate(z, y, bounds={"gap": 0.1})["gap"].value == pytest.approx(abs(reference.ec_gap(two, y, 1.0)), rel=1e-12)


def test_copies_of_samples_in_clusters_prove_no_more_than_one_of_each():
    copies, cluster = np.repeat(np.arange(3000), 4), np.repeat(np.arange(3000), 4)
    found = gate(LOGITS[copies], LABELS[copies], clusters=cluster, bounds={"gap": 0.1, "error": 0.1})
    expected = gate(LOGITS, LABELS, bounds={"gap": 0.1, "error": 0.1})
    for one, other in zip(found.checks, expected.checks, strict=True):
        assert (one.low, one.high) == pytest.approx((other.low, other.high), rel=1e-6)


def test_a_calibrator_is_applied_first():
    fitted = nishimori.ExpectationConsistency().fit(LOGITS, LABELS)
    assert gate(LOGITS, LABELS, calibrator=fitted, bounds={"gap": 0.1})["gap"].value == pytest.approx(0, abs=1e-9)
    assert gate(LOGITS, LABELS, temperature=fitted.temperature_, bounds={"gap": 0.1})["gap"].value == pytest.approx(0, abs=1e-9)


def test_a_sketch_is_checked_as_far_as_its_sums_go():
    sketch = Sketch().update(LOGITS, LABELS)
    found = gate(sketch, bounds={"ece": 0.02, "gap": 0.05, "error": 0.5})
    expected = gate(LOGITS, LABELS, bounds={"ece": 0.02, "gap": 0.05, "error": 0.5})
    assert [each.verdict for each in found.checks] == [each.verdict for each in expected.checks]
    assert found["gap"].low == pytest.approx(expected["gap"].low, abs=1e-3)
    with pytest.raises(InputError, match=r"^A bound on nll needs the standard error of the NLL: a sketch does not keep"):
        gate(sketch, bounds={"nll": 1.0})
    with pytest.raises(InputError, match=r"^A Sketch has no sums per group\."):
        gate(sketch, bounds={"group_gap": 0.1})


def test_a_gate_is_frozen_and_speaks_json():
    found = gate(LOGITS, LABELS, bounds={"gap": 0.1, "error": 0.5})
    with pytest.raises(FrozenInstanceError):
        found.level = 0.5
    told = json.loads(found.to_json())
    assert told["passed"] is found.passed
    assert told["n_samples"] == 3000
    assert [each["name"] for each in told["checks"]] == ["gap", "error"]
    assert told["checks"][1]["low"] == found["error"].low
    assert told["checks"][1]["message"] == found["error"].message
    assert found.to_markdown().splitlines()[2].startswith("| gap at most 10 % | ")
    assert found.to_github().splitlines()[1].startswith("::notice title=pass%3A error at most 50 %25::error is at most")
    with pytest.raises(InputError, match=r"^`name` must be one of 'gap', 'error', got 'ece'\.$"):
        found["ece"]


def test_what_is_inconclusive_is_an_error_in_pipelines_unless_that_is_allowed():
    bound = gate(LOGITS, LABELS, bounds={"gap": 0.1})["gap"].value
    usual, allowed = (gate(LOGITS, LABELS, bounds={"gap": bound}, allow_inconclusive=each) for each in (False, True))
    assert usual.to_github().startswith("::error ")
    assert allowed.to_github().startswith("::warning ")
    roots = [ElementTree.fromstring(each.to_junit().encode()) for each in (usual, allowed)]
    assert [(each.get("errors"), each.get("failures"), each.get("skipped")) for each in roots] == [
        ("1", "0", "0"),
        ("0", "0", "1"),
    ]
    assert (usual.to_dict()["allow_inconclusive"], allowed.to_dict()["allow_inconclusive"]) == (False, True)


REFUSED = {
    "no bound": ({"bounds": {}}, "`bounds` must have at least one bound, such as `bounds={'ece': 0.02}`, got none."),
    "a bound in percent": ({"bounds": {"ece": 2}}, "The bound on ece must lie between 0 and 1, got 2. For 2 %, pass 0.02."),
    "another one": (
        {"bounds": {"group_gap": 12.5}},
        "The bound on group_gap must lie between 0 and 1, got 12.5. For 12.5 %, pass 0.125.",
    ),
    "more than all": ({"bounds": {"error": 101}}, "The bound on error must lie between 0 and 1, got 101."),
    "the cap of the NLL": (
        {"bounds": {"nll": 10.0}},
        "The bound on nll must be below `nll_cap`, 10, got 10. Raise the cap.",
    ),
    "no cap": ({"bounds": {"nll": 1.0}, "nll_cap": 0}, "`nll_cap` must be a positive finite number, got 0."),
    "no share": ({"bounds": {"brier": 3}}, "The bound on brier must lie between 0 and 2, got 3."),
    "samples": ({"bounds": {"gap": 0.1}, "min_samples": 0}, "`min_samples` must be a whole number of at least 1, got 0."),
    "a negative bound": ({"bounds": {"nll": -0.1}}, "The bound on nll must lie between 0 and inf, got -0.1."),
    "text": ({"bounds": {"gap": "0.1"}}, "The bound on gap must lie between 0 and 1, got '0.1'."),
    "level": ({"bounds": {"gap": 0.1}, "level": 0.3}, "`level` must lie between 0.5 and 1, got 0.3."),
    "a level of one": (
        {"bounds": {"gap": 0.1}, "level": 1.0},
        "`level` must be at most 1 - 1e-9, got 1.0, at which data can prove nothing.",
    ),
    "a level that rounds to one": (
        {"bounds": {"gap": 0.1, "error": 0.1}, "level": 0.9999999999999999},
        "`level` must be at most 1 - 1e-9, got 0.9999999999999999, at which data can prove nothing.",
    ),
    "by": ({"bounds": {"gap": 0.1}, "by": "class"}, "`by` must be 'prediction' or 'groups', got 'class'."),
    "no groups": (
        {"bounds": {"group_gap": 0.1}, "by": "groups"},
        "`groups` must name the group of each sample with by='groups'",
    ),
    "two maps": (
        {"bounds": {"gap": 0.1}, "temperature": 2.0, "calibrator": nishimori.from_temperature(2.0)},
        "`temperature` must be left out: `calibrator` already determines it.",
    ),
}


@pytest.mark.parametrize(("options", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_checked_is_refused(options, message):
    with pytest.raises(InputError) as refused:
        gate(LOGITS, LABELS, **options)
    assert str(refused.value).startswith(message)
    assert ("pass 0." in str(refused.value)) is ("pass 0." in message)


def test_one_sample_has_no_standard_error():
    assert (
        "there is only one sample, and at least 100 are needed"
        in gate(LOGITS[:1], LABELS[:1], bounds={"gap": 0.1})["gap"].message
    )
    with pytest.raises(InputError, match=r"^A bound on gap needs the standard error of the gap: there is only one sample\.$"):
        gate(LOGITS[:1], LABELS[:1], bounds={"gap": 0.1}, min_samples=1)


def test_what_cannot_be_judged_is_an_error_in_pipelines():
    found = gate(LOGITS[:50], LABELS[:50], bounds={"gap": 0.1, "error": 0.5})
    assert [line.partition(" ")[0] for line in found.to_github().splitlines()] == ["::error", "::error"]
    root = ElementTree.fromstring(found.to_junit().encode())
    assert (root.get("errors"), root.get("failures"), root.get("skipped")) == ("2", "0", "0")
    assert [each.get("type") for each in root.iter("error")] == ["cannot be judged"] * 2


def test_weights_that_leave_the_information_of_a_few_samples_cannot_be_judged():
    rng = np.random.default_rng(0)
    logits = 3 * rng.normal(size=(1000, 3))
    labels = (logits / 1.7 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    weights = np.full(1000, 1e-9)
    weights[np.flatnonzero(logits.argmax(axis=1) == labels)[:3]] = 1
    found = nishimori.gate(logits, labels, sample_weight=weights, bounds={"error": 0.01})
    assert found.verdict == "cannot be judged"
    assert "the weights reduce the information to 3 samples, and at least 100 are needed" in " ".join(str(found).split())
    even = nishimori.gate(logits, labels, sample_weight=np.full(1000, 1e-9), bounds={"error": 0.9})
    assert even.verdict == "pass"


def test_an_inconclusive_check_says_how_many_samples_would_settle_it():
    value, n = gate(LOGITS, LABELS, bounds={"gap": 0.1})["gap"].value, 3000
    for bound in (value + 0.004, value - 0.004):
        check = gate(LOGITS, LABELS, bounds={"gap": bound})["gap"]
        end = check.high if bound > value else check.low
        needed = n * ((end - value) / (bound - value)) ** 2
        assert check.verdict == "inconclusive"
        assert needed <= check.needed_samples <= 1.1 * needed
        assert check.message.endswith(
            f"; about {check.needed_samples:,.0f} samples would decide it if the estimate stayed the same"
        )
    at = gate(LOGITS, LABELS, bounds={"gap": value})["gap"]
    assert at.needed_samples == np.inf
    assert at.message.endswith("; the estimate is at the bound: no realistic number of samples decides it")
    assert gate(LOGITS, LABELS, bounds={"gap": 0.9})["gap"].needed_samples is None
    lowest = gate(LOGITS, LABELS, bounds={"accuracy": 1 - gate(LOGITS, LABELS, bounds={"error": 0.5})["error"].value - 0.004})
    assert 3000 < lowest["accuracy"].needed_samples < np.inf


def test_more_than_a_thousand_times_the_samples_are_not_named_as_what_would_settle_it():
    """Samples needed are n (width/room)², so a room of the width divided by the root of 1,000 separates the two messages."""
    close = gate(LOGITS, LABELS, bounds={"gap": 0.153})["gap"]
    width = close.high - close.value
    for part, names_a_number in ((1 / 990**0.5, True), (1 / 1010**0.5, False)):
        check = gate(LOGITS, LABELS, bounds={"gap": close.value + part * width})["gap"]
        assert np.isfinite(check.needed_samples) == names_a_number
        assert check.message.endswith(
            "samples would decide it if the estimate stayed the same"
            if names_a_number
            else "; the estimate is at the bound: no realistic number of samples decides it"
        )


def test_as_many_samples_as_were_said_settle_it():
    value = gate(LOGITS, LABELS, bounds={"gap": 0.1})["gap"].value
    needed = gate(LOGITS, LABELS, bounds={"gap": value + 0.008})["gap"].needed_samples
    rows = np.arange(int(1.1 * needed)) % 3000
    assert gate(LOGITS[rows], LABELS[rows], bounds={"gap": value + 0.008}).verdict == "pass"
    fewer = rows[: int(0.8 * needed)]
    assert gate(LOGITS[fewer], LABELS[fewer], bounds={"gap": value + 0.008}).verdict == "inconclusive"


def test_what_cannot_be_judged_is_not_excused_by_allowing_inconclusive_checks():
    found = gate(LOGITS[:50], LABELS[:50], bounds={"gap": 0.1}, allow_inconclusive=True)
    assert (found.verdict, found.passed) == ("cannot be judged", False)


def test_several_checks_fail_at_the_levels_of_holm():
    """The bound on the gap lies between its limits at 95 % and 97.5 %; what else is checked decides whether it fails."""
    low, lower = (gate(LOGITS, LABELS, bounds={"gap": 0.5}, level=each)["gap"].low for each in (0.95, 0.975))
    bound = (low + lower) / 2
    assert gate(LOGITS, LABELS, bounds={"gap": bound}).verdict == "fail"
    beside_a_pass = gate(LOGITS, LABELS, bounds={"gap": bound, "error": 1.0})
    assert [each.verdict for each in beside_a_pass.checks] == ["inconclusive", "pass"]
    assert beside_a_pass["gap"].fail_level == pytest.approx(0.975)
    beside_a_failure = gate(LOGITS, LABELS, bounds={"gap": bound, "error": 0.01})
    assert [each.verdict for each in beside_a_failure.checks] == ["fail", "fail"]
    assert [each.fail_level for each in beside_a_failure.checks] == pytest.approx([0.95, 0.975])
    assert beside_a_pass["gap"].high == gate(LOGITS, LABELS, bounds={"gap": bound})["gap"].high, "a pass needs no correction"
    assert "97.5 % lower bound" in str(beside_a_pass)


@pytest.mark.parametrize("level", [0.5, 0.5000001, 0.55, 1 - 1e-9])
@pytest.mark.filterwarnings("error")
def test_every_level_that_is_allowed_gives_limits_around_the_estimate(level):
    metrics = ("ece", "gap", "error", "brier", "nll", "group_gap")
    found = gate(LOGITS, LABELS, groups=np.arange(3000) % 7, level=level, bounds=dict.fromkeys(metrics, 0.2))
    for check in found.checks:
        assert 0 <= check.low <= check.value + 1e-12, check.name
        assert check.value - 1e-12 <= check.high < np.inf, check.name


FEW_ERRORS = {
    "one error": (0.99, 0.999, 1000),
    "two or three errors": (0.99, 0.995, 500),
    "three errors": (0.98, 0.99, 300),
    "six errors": (0.95, 0.98, 300),
    "twenty errors": (0.98, 0.99, 2000),
}


@pytest.mark.parametrize("name", ["ece", "positive_ece"])
@pytest.mark.parametrize(("confidence", "accuracy", "n"), FEW_ERRORS.values(), ids=FEW_ERRORS)
@pytest.mark.filterwarnings("ignore:.*one temperature cannot correct that:nishimori.errors.InputWarning")
def test_an_underconfident_model_with_few_errors_fails_at_its_true_ece_in_at_most_five_percent(name, confidence, accuracy, n):
    """200 draws, so at most 10 on average, and 18 in 99 % of cases. The model says about the same of every sample."""
    rng, failed = np.random.default_rng(0), 0
    for _ in range(200):
        z = np.log(confidence / (1 - confidence)) + 0.05 * rng.normal(size=n)
        labels = (rng.random(n) < accuracy).astype(int)
        bound = accuracy - (1 / (1 + np.exp(-z))).mean()
        failed += gate(z, labels, input="logits", bounds={name: bound}).verdict == "fail"
    assert failed <= 18


def test_a_model_that_keeps_all_of_many_bounds_fails_rarely():
    """Ten bounds at the truth, each of which alone fails in 5 %; 120 draws have a standard error of 2 %."""
    rng, failed = np.random.default_rng(0), 0
    metrics = [TopClass(place) for place in range(10)]
    for _ in range(120):
        logits = rng.normal(size=(1000, 10))
        labels = rng.integers(10, size=1000)
        failed += gate(logits, labels, bounds=dict.fromkeys(metrics, 0.1)).verdict == "fail"
    assert failed / 120 <= 0.05 + 4 * 0.02


@dataclass(frozen=True)
class TopClass(nishimori.Metric):
    """The share of samples of one class."""

    name = "top_class"
    bounds = (0.0, 1.0)
    is_share = True

    place: int = -1

    def of_rows(self, predictions):
        return (predictions.labels == self.place).astype(float)


def heavy_tails(n, seed):
    """Logits whose scale varies by orders of magnitude, with 10 % wrong labels."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, 5)) * np.exp(2 * rng.normal(size=(n, 1)))
    return logits, np.where(rng.random(n) < 0.1, rng.integers(5, size=n), logits.argmax(axis=1))


def heavy_losses(n, seed):
    """The losses of these, also those whose true class has a probability that underflows."""
    logits, labels = heavy_tails(n, seed)
    return logsumexp(logits, axis=1) - logits[np.arange(n), labels]


HEAVY = heavy_losses(500_000, 0)


def test_a_heavy_tailed_loss_passes_at_its_true_capped_mean_in_at_most_five_percent():
    """The bound is the true mean of min(NLL, 10), of which the upper limit is one."""
    bound = np.minimum(HEAVY, 10).mean()
    verdicts = [gate(*heavy_tails(600, seed), bounds={"nll": bound}).verdict for seed in range(1, 101)]
    assert verdicts.count("pass") <= 5
    over = gate(*heavy_tails(600, 1), bounds={"nll": 1.2})["nll"]
    assert "of min(NLL, 10)" in over.message


def test_no_model_passes_whose_measured_nll_exceeds_the_bound():
    """The bound is 3 % below the true NLL, far above the mean of min(NLL, 10), so that the limits alone would let it pass."""
    bound, above = 0.97 * HEAVY.mean(), []
    for seed in range(1, 61):
        check = gate(*heavy_tails(600, seed), bounds={"nll": bound})["nll"]
        if check.value > bound:
            above.append(check)
    assert sum(each.high <= bound for each in above) > 5
    assert {each.verdict for each in above} <= {"inconclusive", "fail"}
    lasting = [each.needed_samples for each in above if each.verdict == "inconclusive"]
    assert all(each is None or each > 600 for each in lasting)


def test_a_bound_on_a_metric_of_ones_own_that_is_infinite_is_not_kept():
    class Infinite(nishimori.Metric):
        """A metric that is infinite for every sample."""

        name = "infinite"

        def of_rows(self, predictions):
            return np.full(len(predictions.weights), np.inf)

    found = gate(LOGITS, LABELS, bounds={Infinite(): 1.0})["infinite"]
    assert (found.verdict, found.value, found.low) == ("fail", np.inf, np.inf)


def test_the_check_of_the_nll_names_the_cap():
    found = gate(LOGITS, LABELS, bounds={"nll": 2.0}, nll_cap=12)["nll"]
    losses = reference.scores(LOGITS, LABELS)["nll"]
    assert (found.verdict, found.cap) == ("pass", 12)
    assert found.value == pytest.approx(losses.mean())
    assert found.message.endswith(f"95 % upper bound {found.high:.4g} of min(NLL, 12)")
    assert losses.mean() < found.high < losses.mean() + 4 * reference.error_of_mean(losses)


def test_the_order_of_rows_does_not_change_the_check_of_the_nll():
    order = np.argsort(reference.scores(LOGITS, LABELS)["nll"])
    expected = gate(LOGITS, LABELS, bounds={"nll": 1.0})["nll"]
    for rows in (order, order[::-1]):
        found = gate(LOGITS[rows], LABELS[rows], bounds={"nll": 1.0})["nll"]
        assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=1e-9)


@pytest.mark.parametrize("name", nishimori.data.names())
def test_every_bundled_network_is_judged(name):
    network = nishimori.data.load(name)
    validation, test = network.validation, network.test
    fitted = nishimori.ExpectationConsistency().fit(validation.logits, validation.labels)
    error = 1 - reference.right(np.asarray(test.logits), np.asarray(test.labels)).mean()
    nll = reference.scores(np.asarray(test.logits, dtype=float), np.asarray(test.labels), fitted.temperature_)["nll"].mean()
    found = gate(test.logits, test.labels, calibrator=fitted, bounds={"ece": 0.05, "nll": 1.2 * nll, "error": 1.2 * error})
    assert {each.name: each.verdict for each in found.checks} == {"ece": "pass", "nll": "pass", "error": "pass"}


# What continuous integration reads: valid XML, and commands that a name from the data cannot change

NASTY = 'a<b> & "c" \x1b[31m\n::error::x \ud800 \ufffe ü'
OUTCOMES = [
    CheckOutcome("ECE at most 2 %", "pass", "ECE is fine"),
    CheckOutcome("gap at most 1 %", "inconclusive", "gap may exceed 1 %", allowed=True),
    CheckOutcome("error at most 3 %", "fail", NASTY),
]


@pytest.fixture
def suite():
    root = ElementTree.fromstring(junit("nishimori gate", OUTCOMES).encode())
    assert root.tag == "testsuites"
    (found,) = root
    return found


def test_a_junit_file_counts_its_cases(suite):
    assert suite.tag == "testsuite"
    assert suite.attrib == {
        "name": "nishimori gate",
        "tests": "3",
        "failures": "1",
        "errors": "0",
        "skipped": "1",
        "time": "0",
    }
    assert [case.get("name") for case in suite] == [each.title for each in OUTCOMES]
    assert {(case.tag, case.get("classname")) for case in suite} == {("testcase", "nishimori gate")}


def test_a_failed_check_is_a_failure_and_a_doubtful_one_is_skipped(suite):
    passed, doubtful, failed = suite
    assert [child.tag for child in passed] == ["system-out"]
    assert [(child.tag, child.get("message")) for child in doubtful] == [("skipped", "inconclusive: gap may exceed 1 %")]
    assert [(child.tag, child.get("type")) for child in failed] == [("failure", "fail")]


def test_names_from_the_data_are_text_in_a_junit_file(suite):
    (failure,) = suite[2]
    assert failure.get("message") == failure.text == 'a<b> & "c" \\x1b[31m\\n::error::x \\ud800 \N{REPLACEMENT CHARACTER} ü'


@pytest.mark.parametrize(
    ("outcome", "line"),
    [
        (OUTCOMES[0], "::notice title=pass%3A ECE at most 2 %25::ECE is fine"),
        (OUTCOMES[1], "::warning title=inconclusive%3A gap at most 1 %25::gap may exceed 1 %25"),
        (
            CheckOutcome("a, b: c", "fail", "100 %\r\n::set-env name=x::y"),
            "::error title=fail%3A a%2C b%3A c::100 %25\\r\\n::set-env name=x::y",
        ),
    ],
)
def test_a_workflow_command_is_one_line_with_escaped_characters(outcome, line):
    assert workflow_command(outcome) == line
