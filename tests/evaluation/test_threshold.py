"""Thresholds: what is deployed is what was tested, what is refused says why, and the shell and the gate agree."""

import json

import numpy as np
import pytest
import shell
from scipy.stats import binom
from stated import stated

import nishimori
from nishimori import claims
from nishimori.errors import InputError, SameRowsWarning

NETWORK = nishimori.data.load("cifar10/resnet20")
VALIDATION, TEST = NETWORK.validation, NETWORK.test


@pytest.fixture(scope="module")
def calibrator():
    return nishimori.ExpectationConsistency().fit(VALIDATION.logits, VALIDATION.labels)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("method", ["ec", "vector", "isotonic"])
def test_the_rule_that_is_deployed_is_the_one_that_was_tested(method, dtype):
    fitted = nishimori.calibrator(method).fit(VALIDATION.logits, VALIDATION.labels)
    logits = TEST.logits.astype(dtype)
    found = nishimori.threshold(logits, TEST.labels, calibrator=fitted)
    p = fitted.predict_proba(logits)
    answered = p.max(axis=1) >= found.confidence
    assert found.n_answered == answered.sum()
    wrong = p.argmax(axis=1)[answered] != TEST.labels[answered]
    assert (found.n_wrong, found.coverage, found.risk) == (wrong.sum(), answered.mean(), wrong.mean())
    assert found.coverage_low == pytest.approx(found.coverage - np.sqrt(np.log(1 / 0.05) / 20_000))
    assert 0.01 < found.risk < 0.05 == found.risk_bound


def test_the_rows_of_the_fit_in_the_same_order_are_refused(calibrator):
    with pytest.warns(SameRowsWarning, match=r"^No threshold is certified at 5 %: the calibrator was fitted to these rows"):
        found = nishimori.threshold(VALIDATION.logits, VALIDATION.labels, calibrator=calibrator)
    assert found.confidence is None
    assert found.coverage == 0
    assert "fitted to these rows" in found.why
    assert repr(found) == "Threshold(nothing is certified, max_risk=0.05, level=0.95)"
    shuffled = np.random.default_rng(0).permutation(len(VALIDATION.labels))
    assert nishimori.threshold(VALIDATION.logits[shuffled], VALIDATION.labels[shuffled], calibrator=calibrator).confidence


def test_what_cannot_be_certified_says_why_and_how_many_would(calibrator):
    few = nishimori.threshold(TEST.logits[:40], TEST.labels[:40], calibrator=calibrator)
    assert few.why == "there are only 40 answers, and 60 are needed even if all are right."
    assert few.n_needed == 60
    flat = np.where(np.arange(100) % 40 == 0, 0, 1)  # 2.5 % are wrong
    unproven = nishimori.threshold(claims(np.linspace(0.99, 0.5, 100), flat))
    assert unproven.confidence is None
    assert unproven.n_needed > 100
    assert (
        f"About {unproven.n_needed:,} samples would if the share of wrong answers stayed the same. A threshold" in unproven.why
    )
    clustered = nishimori.threshold(TEST.logits[:200], TEST.labels[:200], calibrator=calibrator, clusters=np.arange(200) // 20)
    assert "there are only 10 clusters, and " in clustered.why


def above(p, right, threshold):
    """The share of answers from a threshold on, and the share of these that are wrong."""
    return (p >= threshold).mean(), 1 - right[p >= threshold].mean()


def beta_claims(n, seed):
    """Claims that are too high; 2.7 % of the top 15 % are wrong, so that thresholds exist, with few answers above them."""
    rng = np.random.default_rng(seed)
    p = rng.beta(6, 1.2, n)
    return p, rng.random(n) < p**1.3


def test_what_is_said_of_too_many_errors_is_true_of_the_thresholds_tested_and_leaves_smaller_shares_open():
    n_seen = 0
    for seed in range(60):
        p, right = beta_claims(100, seed)
        found = nishimori.threshold(claims(p, right))
        if found.n_needed is not None:  # a share below 5 % is wrong above some threshold
            assert found.curve[:, 2].min() < 0.05
            continue
        n_seen += 1
        rates = [above(p, right, value)[1] for value in np.sort(p)[::-1][59:]]  # at each threshold with 60 answers or more
        best = int(np.argmin(rates))
        assert min(rates) >= 0.05
        assert found.why == (
            f"too many answers are wrong above every threshold tested. The fewest are {100 * rates[best]:.2f} % of the "
            f"{60 + best} % most confident answers. A threshold is tested with at least 60 answers above it, so more "
            "samples allow higher thresholds."
        )
    assert n_seen > 40
    assert np.mean([nishimori.threshold(claims(*beta_claims(5000, seed))).confidence is not None for seed in range(20)]) > 0.8


def test_the_samples_that_are_said_to_be_needed_follow_from_the_shares_tested():
    for seed in range(20):
        p, right = beta_claims(300, seed)
        found = nishimori.threshold(claims(p, right))
        if found.n_needed is None:
            continue
        possible = [above(p, right, row[0]) for row in found.curve if row[2] < 0.05]
        first, always = np.min([np.array(enough_answers(rate)) / share for share, rate in possible], axis=0)
        assert 0.98 * first <= found.n_needed <= 1.12 * always
        assert len(str(found.n_needed).rstrip("0")) <= 2 or found.n_needed == 301


def enough_answers(rate):
    """From how many answers on a binomial test of 5 % can pass at the level 0.05/82, and from how many it always does."""
    n = np.unique(np.geomspace(60, 1e8, 4000).astype(int))
    passes = binom.cdf(np.ceil(rate * n), n, 0.05) <= 0.05 / 82
    return (n[passes.argmax()], n[len(n) - passes[::-1].argmin()]) if passes[-1] else (np.inf, np.inf)


def test_equal_highest_confidences_allow_no_higher_threshold():
    p, right = stated(1000)
    found = nishimori.threshold(claims(p, right))
    share, rate = (f"{100 * one:.{digits}f} %" for one, digits in zip(above(p, right, 1.0), (0, 2), strict=True))
    assert found.n_needed is None
    assert found.why == (
        f"too many answers are wrong above every threshold tested. The fewest are {rate} of the {share} most confident "
        f"answers. No threshold is higher: the {share} most confident answers have the same confidence."
    )


def test_a_share_just_below_the_bound_is_not_called_too_many():
    right = np.arange(20_000) % 20 != 0
    right[0] = True  # 4.995 % are wrong, which no number of samples that is worth proposing proves
    found = nishimori.threshold(claims(np.full(20_000, 0.9), right))
    assert found.n_needed is None
    assert found.why.endswith("answers are wrong, and 20,000 samples do not prove that it is few enough. More samples may.")
    assert found.curve[:, 2].min() < 0.05


def test_with_clusters_the_share_is_that_of_a_random_cluster():
    rng = np.random.default_rng(0)
    clusters = np.repeat(np.arange(600), np.where(np.arange(600) < 20, 60, 1))
    p, right = rng.random(len(clusters)), rng.random(len(clusters)) > np.where(clusters < 20, 0.3, 0.03)
    found = nishimori.threshold(claims(p, right, clusters=clusters))
    assert found.confidence is None
    assert found.curve[:, 2].min() > 0.1  # by answers; the mean over clusters is lower
    shares = [
        np.mean([1 - right[(clusters == one) & (p >= row[0])].mean() for one in np.unique(clusters[p >= row[0]])])
        for row in found.curve
    ]
    best = int(np.argmin(shares))
    assert 0 < shares[best] < 0.05
    assert found.why == (
        f"{100 * shares[best]:.2f} % of the {100 * found.curve[best, 1]:.0f} % most confident answers are wrong in a random "
        "cluster, and 600 clusters do not prove that it is few enough. More clusters may."
    )


def test_numbers_by_place_and_claims_of_test_data_say_which_name_to_use():
    validation = claims(*stated(300))
    with pytest.raises(InputError, match=r"^`labels` must be left out .* got 0\.95\. Pass `max_risk=` and `level=` by name\.$"):
        nishimori.threshold(validation, 0.95)
    with pytest.raises(InputError, match=r"^`labels` must be left out .* Pass test data by name, as `test_logits=`\.$"):
        nishimori.compare(validation, claims(*stated(300, 1)))


def test_tables_by_class_and_group_are_beside_the_certificate(calibrator):
    groups = np.where(TEST.labels == 2, "birds", "others")
    found = nishimori.threshold(TEST.logits, TEST.labels, calibrator=calibrator, groups=groups)
    p = calibrator.predict_proba(TEST.logits)
    above = p.max(axis=1) >= found.confidence
    table = found.table("prediction")
    worst, answered, share = table.rows[0]
    predicted = p.argmax(axis=1)[above]
    assert (worst, answered) == ("2", f"{(predicted == 2).sum():,}")
    assert float(share.split()[0]) == pytest.approx(100 * (TEST.labels[above][predicted == 2] != 2).mean(), abs=0.01)
    assert found.table().headers[0] == "group"
    assert [row[0] for row in found.table().rows] == ["others", "birds"] or found.table().rows[0][0] == "birds"
    assert "not certified" in str(found)
    with pytest.raises(InputError, match="`by` must be 'groups' or 'prediction', got 'class'"):
        found.table("class")


def test_claims_are_ranked_as_they_are():
    p, right = stated(5000)
    found = nishimori.threshold(claims(p, right), max_risk=0.25)
    assert found.confidence in set(p)
    assert found.n_answered == (p >= found.confidence).sum()
    assert found.n_wrong == (right[p >= found.confidence] == 0).sum()
    assert found.by == {}
    assert nishimori.threshold(claims(p.astype(np.float32), right), max_risk=0.25).confidence == np.float32(found.confidence)


def test_clusters_have_a_certificate_of_their_own(calibrator):
    rows = nishimori.threshold(TEST.logits, TEST.labels, calibrator=calibrator)
    alone = nishimori.threshold(TEST.logits, TEST.labels, calibrator=calibrator, clusters=np.arange(10_000))
    together = nishimori.threshold(TEST.logits, TEST.labels, calibrator=calibrator, clusters=np.arange(10_000) // 10)
    assert alone.confidence == rows.confidence  # each row is a cluster of its own: rows are independent
    assert together.coverage < rows.coverage
    assert (together.n_clusters, together.coverage_low) == (1000, None)
    assert "in a random cluster" in together.verdict


REFUSED = {
    "no risk": ({"max_risk": 0}, "`max_risk` must be a share between 0 and 1"),
    "risk in percent": ({"max_risk": 5}, "`max_risk` must lie between 0 and 1, got 5"),
    "certain": ({"level": 1}, "`level` must be a confidence between 0 and 1"),
    "weights": ({"sample_weight": np.ones(10_000)}, "`sample_weight` must be left out of `threshold`"),
    "counts": ({"counts": True}, "`counts` must be left out of `threshold`"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused(case):
    options, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        nishimori.threshold(TEST.logits, TEST.labels, **options)


def test_weights_inside_rows_are_refused_and_sketches_too():
    rows = nishimori.rows(TEST.logits, TEST.labels, sample_weight=np.arange(10_000) + 1.0)
    with pytest.raises(InputError, match="`sample_weight` must be left out"):
        nishimori.threshold(rows)
    sketch = nishimori.Sketch().update(TEST.logits, TEST.labels)
    with pytest.raises(InputError, match="A Sketch has no rows to rank"):
        nishimori.threshold(sketch)


def test_the_gate_passes_only_what_is_certified(calibrator):
    test = {"logits": TEST.logits, "labels": TEST.labels, "calibrator": calibrator}
    found = nishimori.threshold(**test)
    for least, verdict in ((found.coverage_low - 0.01, "pass"), (found.coverage_low + 0.01, "inconclusive")):
        gate = nishimori.gate(**test, max_risk=0.05, min_coverage=least)
        assert gate.verdict == verdict
        assert gate["certified_coverage"].value == found.coverage
    assert nishimori.gate(**test, max_risk=0.05, bounds={"ece": 0.03}).passed
    assert not nishimori.gate(**test, max_risk=0.05, bounds={"ece": 0.001}).passed
    less = nishimori.gate(**test, max_risk=0.05, min_coverage=0.9)["certified_coverage"]
    assert less.needed_samples is None  # nobody knows what more samples certify
    assert less.message == (
        f"certified coverage is not proven to be at least 90 %: {100 * found.coverage:.2f} % (answers with a confidence of at "
        f"least {found.confidence:.4g}, at most 5 % wrong); 95 % lower bound {100 * found.coverage_low:.2f} %"
    )
    assert less.limits == f"at least {100 * found.coverage_low:.2f} %"
    assert less.to_dict()["high"] is None
    with pytest.warns(SameRowsWarning):
        refused = nishimori.gate(VALIDATION.logits, VALIDATION.labels, calibrator=calibrator, max_risk=0.05)
    assert (refused.passed, refused.verdict) == (False, "cannot be judged")
    with pytest.raises(InputError, match="`min_coverage` must be passed together with `max_risk`"):
        nishimori.gate(**test, bounds={"ece": 0.1}, min_coverage=0.5)
    with pytest.raises(InputError, match="`bounds` must be a dictionary"):
        nishimori.gate(**test)


def write(path, n, seed):
    p, right = stated(n, seed)
    rows = "\n".join(f"{i},{one},{bool(true)}" for i, (one, true) in enumerate(zip(p, right, strict=True)))
    path.write_text(f"id,stated,correct\n{rows}\n")


def test_the_shell_from_stated_confidences_to_a_threshold(tmp_path):
    write(tmp_path / "val.csv", 300, 0)
    write(tmp_path / "test.csv", 3000, 1)
    typed = "--confidence stated --right correct"
    ended = shell.nishimori(f"fit val.csv {typed} --method platt -o c.json", place=tmp_path)
    assert ended.code == 0, ended.err
    assert shell.nishimori("apply c.json test.csv -o out.csv", place=tmp_path).code == 0
    head, first, *_ = (tmp_path / "out.csv").read_text().splitlines()
    fitted = nishimori.load(tmp_path / "c.json")
    assert head == "id,stated,correct"  # the calibrated confidence takes the place of the stated one
    assert float(first.split(",")[1]) == fitted.predict_proba(claims(stated(3000, 1)[0]))[0]
    measured = json.loads(shell.nishimori("eval test.csv --calibration c.json --json", place=tmp_path).out)
    expected = nishimori.evaluate(claims(*stated(3000, 1)), calibrator=fitted)
    assert measured["after"]["ece"] == pytest.approx(expected.ece)
    assert measured["after"]["auc"] == pytest.approx(expected.auc)
    ended = shell.nishimori("threshold test.csv --calibration c.json --max-risk 0.25 --json", place=tmp_path)
    assert ended.code == 0, ended.err
    own = nishimori.threshold(claims(*stated(3000, 1)), calibrator=fitted, max_risk=0.25)
    assert json.loads(ended.out)["confidence"] == own.confidence
    ended = shell.nishimori(f"threshold test.csv {typed}", place=tmp_path)
    assert ended.code == 4
    assert "No threshold is certified at 5 %" in ended.out
    assert shell.nishimori("gate test.csv --calibration c.json --max-risk 0.25 --min-coverage 0.2", place=tmp_path).code == 0
    assert shell.nishimori("gate test.csv --calibration c.json --max-risk 0.05", place=tmp_path).code == 4
    assert shell.nishimori(f"compare val.csv test.csv {typed}", place=tmp_path).out.count("histogram") >= 4


@pytest.mark.parametrize(
    ("typed", "code", "message"),
    [
        ("fit val.csv --right correct -o c.json", 1, "--right must come with --confidence"),
        ("fit val.csv --confidence stated --right correct --labels id -o c.json", 1, "labels must be left out of claims"),
        ("fit val.csv --confidence sure --right correct -o c.json", 1, "has no column 'sure'"),
        ("fit val.csv --confidence stated --right correct --method ts -o c.json", 1, "for the method 'ts', got claims"),
        (
            "eval val.csv --confidence stated --right id",
            1,
            "The labels in 'id' (--right) must be 0 or 1, true or false, or yes",
        ),
        (
            "eval val.csv --confidence stated",
            1,
            "has no column 'right', only 'id', 'stated', 'correct'. Name yours with --right.",
        ),
        ("eval val.csv", 1, "pass --confidence stated and --right NAME."),
        ("eval val.csv --labels correct", 1, "pass --confidence stated and --right correct."),
        ("eval val.csv --confidence stated --right correct --input scores", 1, "to be measured as they are, got scores"),
        ("eval val.csv --labels correct --columns stated --input scores", 1, "--input must be logits or probabilities, except"),
        ("threshold val.csv --confidence stated --right correct --max-risk 2", 1, "--max-risk must be a share between 0 and 1"),
    ],
)
def test_wrong_words_in_the_shell(tmp_path, typed, code, message):
    write(tmp_path / "val.csv", 300, 0)
    ended = shell.nishimori(typed, place=tmp_path)
    assert ended.code == code
    assert message in " ".join(ended.err.split())


def test_the_shell_reads_yes_and_no_and_says_what_to_do_about_percentages(tmp_path):
    p, right = stated(300)
    words = np.where(right, "yes", "No")
    for name, scale in (("val.csv", 1), ("percent.csv", 100)):
        lines = "\n".join(f"{scale * one:g},{word}" for one, word in zip(p, words, strict=True))
        (tmp_path / name).write_text(f"confidence,right\n{lines}\n")
    ended = shell.nishimori("fit val.csv --confidence confidence -o c.json --method platt --json", place=tmp_path)
    assert ended.code == 0, ended.err
    fitted, own = nishimori.load(tmp_path / "c.json"), nishimori.calibrator("platt").fit(claims(p, right))
    np.testing.assert_array_equal(fitted.predict_proba(claims(p)), own.predict_proba(claims(p)))
    what = "The confidences must be between 0 and 1"
    for typed in ("apply c.json percent.csv -o o.csv", "eval percent.csv --calibration c.json"):
        err = " ".join(shell.nishimori(typed, place=tmp_path).err.split())
        assert what in err
        assert err.endswith("in line 2. Divide percentages by 100.")
    err = " ".join(shell.nishimori("eval percent.csv --confidence confidence", place=tmp_path).err.split())
    assert err.endswith("Divide percentages by 100. For scores on another scale, such as 1 to 10, pass --input scores.")


def test_scores_of_a_judge_in_the_shell_and_the_code_of_a_report(tmp_path):
    write(tmp_path / "val.csv", 300, 0)
    write(tmp_path / "test.csv", 2000, 1)
    for name in ("val", "test"):
        lines = (tmp_path / f"{name}.csv").read_text().splitlines()[1:]
        scored = "\n".join(f"{10 * float(line.split(',')[1]):.0f},{line.split(',')[2]}" for line in lines)
        (tmp_path / f"judged_{name}.csv").write_text(f"score,right\n{scored}\n")
    typed = "--confidence score --input scores"
    assert shell.nishimori(f"fit judged_val.csv {typed} -o c.json", place=tmp_path).code == 0
    found = json.loads(shell.nishimori(f"eval judged_test.csv {typed} --calibration c.json --json", place=tmp_path).out)
    assert "before" not in found  # scores are no probabilities
    assert abs(found["after"]["gap"]) < 0.05
    compared = shell.nishimori(f"compare judged_val.csv judged_test.csv {typed} --json", place=tmp_path)
    assert [row["method"] for row in json.loads(compared.out)["methods"]] == ["platt", "isotonic"]
    report = shell.nishimori("report val.csv test.csv --confidence stated --right correct -o r.json", place=tmp_path)
    assert report.code == 0, report.err
    code = json.loads((tmp_path / "r.json").read_text())["code"]
    assert "nishimori.claims('val.csv', 'correct', columns='stated')" in code
    assert ".rows(" not in code
