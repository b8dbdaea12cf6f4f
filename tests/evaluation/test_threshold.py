"""Thresholds: what is deployed is what was tested, what is refused says why, and the shell and the gate agree."""

import json

import numpy as np
import pytest
import shell
from stated import stated

import nishimori
from nishimori import claims
from nishimori.errors import InputError

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


def test_the_rows_of_the_fit_are_refused(calibrator):
    found = nishimori.threshold(VALIDATION.logits, VALIDATION.labels, calibrator=calibrator)
    assert found.confidence is None
    assert found.coverage == 0
    assert "fitted to these rows" in found.why


def test_what_cannot_be_certified_says_why_and_how_many_would(calibrator):
    few = nishimori.threshold(TEST.logits[:40], TEST.labels[:40], calibrator=calibrator)
    assert few.why == "there are only 40 answers, and 60 are needed even if all are right."
    assert few.n_needed == 60
    p, right = stated(1000)
    never = nishimori.threshold(claims(p, right))
    assert never.why.endswith("More samples would not help.")
    assert never.n_needed is None
    flat = np.where(np.arange(100) % 40 == 0, 0, 1)  # 2.5 % are wrong
    unproven = nishimori.threshold(claims(np.linspace(0.99, 0.5, 100), flat))
    assert unproven.confidence is None
    assert unproven.n_needed > 100
    assert f"About {unproven.n_needed:,} samples like these would" in unproven.why
    clustered = nishimori.threshold(TEST.logits[:200], TEST.labels[:200], calibrator=calibrator, clusters=np.arange(200) // 20)
    assert "there are only 10 clusters, and " in clustered.why


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
