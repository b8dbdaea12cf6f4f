"""Claims: nothing is thresholded, every kind of rows can hold them, and what is no claim is refused."""

import numpy as np
import pytest
from stated import stated

import nishimori
from nishimori import claims
from nishimori.errors import InputError

# Stated confidences of exactly 1 that are wrong, which the floor of a calibrator mends.
pytestmark = pytest.mark.filterwarnings("ignore:The true class has probability 0:nishimori.errors.InputWarning")

P, RIGHT = np.array([0.9, 0.8, 0.95, 0.9, 0.6]), np.array([1, 0, 1, 1, 0])


def test_five_claims_by_hand():
    card = nishimori.evaluate(claims(P, RIGHT))
    assert card.confidence == pytest.approx(0.83)
    assert card.accuracy == pytest.approx(0.6)  # 0.6 and 0.8 are claims that failed, and not wrong predictions of class 1
    assert card.gap == pytest.approx(0.23)
    assert card.brier == pytest.approx((0.01 + 0.64 + 0.0025 + 0.01 + 0.36) / 5)
    assert card.nll == pytest.approx(-np.log([0.9, 0.2, 0.95, 0.9, 0.4]).mean())
    assert card.ece == pytest.approx((0.6 + 0.8 + 0.2 + 0.05) / 5)  # 0.9 and 0.9 share a bin
    assert card.auc == 1.0


def test_a_claim_below_one_half_is_no_claim_of_the_opposite():
    card = nishimori.evaluate(claims([0.1, 0.2, 0.3, 0.4], [0, 0, 1, 0]))
    assert (card.confidence, card.accuracy) == (pytest.approx(0.25), 0.25)
    curve = nishimori.metrics.reliability(claims([0.1, 0.2, 0.3, 0.4], [0, 0, 1, 0]), n_bins=10)
    np.testing.assert_allclose(curve.confidence, [0.1, 0.2, 0.3, 0.4])
    np.testing.assert_array_equal(curve.accuracy, [0, 0, 1, 0])


def test_the_claims_of_a_classifier_are_its_answers():
    test = nishimori.data.load("cifar10/resnet20").test
    rows = nishimori.rows(test.logits, test.labels)
    own, as_claims = nishimori.evaluate(rows), nishimori.evaluate(claims(rows))
    for name in ("accuracy", "confidence", "gap", "ece"):
        assert as_claims[name].value == pytest.approx(own[name].value, abs=1e-9), name
        assert as_claims[name].se == pytest.approx(own[name].se, rel=1e-6), name
    assert claims(claims(rows)).n_classes == 2


def every_kind(tmp_path):
    p, right = stated(400)
    np.savez(tmp_path / "c.npz", confidence=p, right=right)
    lines = "\n".join(f"{i},{one},{bool(true)}" for i, (one, true) in enumerate(zip(p, right, strict=True)))
    (tmp_path / "c.csv").write_text(f"id,confidence,right\n{lines}\n")
    (tmp_path / "other.csv").write_text(f"id;stated;correct\n{lines}\n".replace(",", ";"))
    yield claims(list(p), right.astype(bool))
    yield claims(p.astype(np.float64), right)
    yield claims(tmp_path / "c.npz")
    yield claims(tmp_path / "c.csv")
    yield claims(tmp_path / "other.csv", "correct", columns="stated", delimiter=";")
    yield claims(lambda: ((p[i : i + 70], right[i : i + 70]) for i in range(0, 400, 70)))
    yield claims(np.log(p) - np.log1p(-np.minimum(p, 1 - 2.0**-53)), right, input="logits")


def test_every_kind_of_rows_holds_the_same_claims(tmp_path):
    p, right = stated(400)
    for data in every_kind(tmp_path):
        card = nishimori.evaluate(data, metrics=["ks"])
        assert card.accuracy == pytest.approx(right.mean())
        assert card.confidence == pytest.approx(p.mean())
        assert card.ece == pytest.approx(nishimori.metrics.ece(claims(p, right)))
        assert card.auc == pytest.approx(nishimori.metrics.auc(claims(p, right)))


def test_weights_are_numbers_of_copies():
    p, right = stated(60)
    weights = np.arange(60) % 3 + 1.0
    counted = nishimori.evaluate(claims(p, right, sample_weight=weights, counts=True))
    repeated = nishimori.evaluate(claims(np.repeat(p, weights.astype(int)), np.repeat(right, weights.astype(int))))
    for name in ("accuracy", "gap", "brier", "auc", "calibration_intercept", "calibration_slope"):
        assert counted[name].value == pytest.approx(repeated[name].value, rel=1e-9), name
        assert counted[name].se == pytest.approx(repeated[name].se, rel=1e-6), name


@pytest.mark.parametrize("name", ["ece", "gap", "auc", "calibration_slope", "calibration_intercept", "nll", "brier", "ks"])
def test_the_order_of_tied_claims_does_not_matter(name):
    p, right = stated(500)
    order = np.random.default_rng(1).permutation(500)
    one, other = (
        nishimori.evaluate(claims(*each, floor=1e-3), metrics=["ks"])[name] for each in ((p, right), (p[order], right[order]))
    )
    assert one.value == pytest.approx(other.value, rel=1e-12)


REFUSED = {
    "percent": (([90, 80], [1, 0]), {}, r"between 0 and 1, got 90.*Divide percentages by 100\. .*input='scores'"),
    "other labels": (
        ([0.9, 0.8], [1, 2]),
        {},
        r"^`right` must be 0 or 1, true or .* got 2 in row 1\. Write 1 for a right answer",
    ),
    "other words": (([0.9, 0.8], ["yes", "ok"]), {}, r"^`right` must be 0 or 1, .* yes or no, got 'ok' in row 1\. Write 1 for"),
    "half right": (([0.9, 0.8], [1, 0.5]), {}, r"^`right` must be 0 or 1"),
    "nan": (([0.9, np.nan], [1, 0]), {}, "^`confidence` must not contain NaN"),
    "a table": ((np.ones((2, 3)) / 3, [1, 0]), {}, "^`confidence` must be one number per answer, got shape .2, 3."),
    "shorter": (([0.9, 0.8], [1]), {}, "^`right` must be one label per sample"),
    "classes": (([0.9, 0.8], [1, 0]), {"classes": ["a", "b"]}, "^`classes` must be left out of `claims`"),
    "input": (([0.9, 0.8], [1, 0]), {"input": "percent"}, "^`input` must be 'probabilities', 'logits' or 'scores'"),
    "columns": (([0.9, 0.8], [1, 0]), {"columns": "p"}, "^`columns` must be left out"),
}


WORDS = {"yes": ["Yes", "no", "YES ", "yes", "No"], "true": ["true", "FALSE", "True", "TRUE", "false"]}


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_words_for_right_and_wrong_count_as_1_and_0(words, tmp_path):
    lines = "\n".join(f"{p},{word}" for p, word in zip(P, words, strict=True))
    (tmp_path / "c.csv").write_text(f"confidence,right\n{lines}\n")
    for data in (claims(P, words), claims(P, np.array(words)), claims(tmp_path / "c.csv"), claims(lambda: [(P, words)])):
        assert nishimori.evaluate(data).brier == pytest.approx(((P - RIGHT) ** 2).mean())


def test_yes_and_no_are_words_of_claims_alone():
    with pytest.raises(InputError, match="`labels` must be integers from 0 to 1, got 'Yes' in row 0"):
        nishimori.rows(P, WORDS["yes"], input="probabilities")


def test_one_other_word_is_named_and_not_the_first_right_one(tmp_path):
    (tmp_path / "c.csv").write_text("confidence,right\n0.9,yes\n0.8,no\n0.7,maybe\n")
    with pytest.raises(
        InputError, match=r"The labels in 'right' \(`right`\) must be 0 or 1, .*, got 'maybe' in line 4\. Write 1"
    ):
        claims(tmp_path / "c.csv")
    with pytest.raises(InputError, match=r"Batch 0: `right` must be 0 or 1, .*, got 'maybe' in row 1"):
        nishimori.evaluate(claims(lambda: [(P[:2], ["yes", "maybe"])]))


def test_a_file_of_new_answers_is_refused_with_what_to_pass_instead(tmp_path):
    (tmp_path / "new.csv").write_text("confidence\n0.9\n")
    with pytest.raises(InputError, match=r"no column 'right'.* To calibrate new answers.* `predict_proba\(claims\(array\)\)`"):
        claims(tmp_path / "new.csv")


def test_a_table_of_one_column_of_shares_may_hold_claims(tmp_path):
    lines = "\n".join(f"{p},{right}" for p, right in zip(P, RIGHT, strict=True))
    (tmp_path / "c.csv").write_text(f"stated,ok\n{lines}\n")
    how = r"If 'stated' holds stated confidences, pass `nishimori.claims\(\.\.\., columns='stated'\)` and `right='ok'`\.$"
    for labels in (None, "ok"):
        with pytest.raises(InputError, match=how):
            nishimori.rows(tmp_path / "c.csv", labels)
    assert nishimori.evaluate(claims(tmp_path / "c.csv", columns="stated", right="ok")).accuracy == pytest.approx(RIGHT.mean())


@pytest.mark.parametrize("head", ["p,q,ok\n0.9,0.8,1\n0.7,0.6,0", "p,ok\n1.9,1\n0.7,0", "p,ok\n1,1\n0,0"])
def test_other_tables_are_not_taken_for_claims(head, tmp_path):
    (tmp_path / "c.csv").write_text(f"{head}\n")
    with pytest.raises(InputError, match="has no column 'labels'") as error:
        nishimori.rows(tmp_path / "c.csv")
    assert "stated" not in str(error.value)


def test_claims_in_memory_show_their_range_and_how_many_are_right():
    assert repr(claims(P, RIGHT)) == "Claims: 5 answers, confidence 0.60 to 0.95, 60 % right"
    assert repr(claims(P, RIGHT, sample_weight=[1, 1, 1, 1, 0])) == "Claims: 5 answers, confidence 0.80 to 0.95, 75 % right"
    assert repr(claims([0.5, 0.75])) == "Claims: 2 answers, confidence 0.50 to 0.75"
    assert repr(claims([1, 9.5], [0, 1], input="scores")) == "Claims: 2 answers, scores 1.00 to 9.50, 50 % right"
    assert repr(claims([-1, 2], [0, 1], input="logits")) == "Claims: 2 answers, log-odds -1.00 to 2.00, 50 % right"
    assert repr(claims(nishimori.rows(np.eye(3), [0, 1, 2], input="logits"))) == "Claims: 3 answers"


def test_claims_of_batches_are_not_read_to_show_them():
    reads = []
    data = claims(lambda: [reads.append(1) or (P, RIGHT)])
    so_far = len(reads)
    assert repr(data) == "Claims"
    assert len(reads) == so_far


def test_the_documented_kinds_of_input_are_those_of_claims():
    assert '\ninput : {"probabilities", "logits", "scores"}\n' in claims.__doc__
    assert '\ninput : {"logits", "probabilities"}, optional\n' in nishimori.evaluate.__doc__


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_claim_is_refused(case):
    arguments, options, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        nishimori.evaluate(claims(*arguments, **options))


def test_claims_without_outcomes_are_only_for_a_calibrator():
    fitted = nishimori.calibrator("platt").fit(claims(*stated(300)))
    calibrated = fitted.predict_proba(claims([0.5, 0.9]))
    np.testing.assert_allclose(calibrated, fitted.predict_proba([0.5, 0.9])[:, 1])
    with pytest.raises(InputError, match="`right` must say whether each answer was right"):
        nishimori.evaluate(claims([0.5, 0.9]))
    for method in (fitted.predict, fitted.predict_log_proba, fitted.transform):
        with pytest.raises(InputError, match=r"got claims, which have no predicted class\. Use `predict_proba`"):
            method(claims([0.5, 0.9]))
    with pytest.raises(InputError, match=r"`X` must be between 0 and 1, got 80 in row 0\. Divide percentages by 100\.$"):
        fitted.predict_proba([80.0, 90.0])


def test_claims_in_a_file_are_calibrated_as_an_array(tmp_path):
    (tmp_path / "c.csv").write_text("confidence,right\n0.9,1\n")
    fitted = nishimori.calibrator("platt").fit(claims(*stated(300)))
    with pytest.raises(InputError, match=r"Read the column of a file, and pass `claims\(array\)`"):
        fitted.predict_proba(claims(tmp_path / "c.csv"))


def test_scores_say_nothing_before_they_are_calibrated():
    p, right = stated(1200)
    scores = claims(np.round(10 * p), right, input="scores")
    with pytest.raises(InputError, match="`Claims` must be probabilities to be measured as they are, got scores"):
        nishimori.evaluate(scores)
    for name in ("beta", "intercept", "histogram"):
        with pytest.raises(InputError, match=r"be probabilities for the method .*Use 'platt' or 'isotonic'"):
            nishimori.calibrator(name).fit(scores)
    best = nishimori.Best().fit(scores)
    assert {each.name for each in best.selection_.candidates} == {"none", "platt", "isotonic"}
    found = best.predict_proba(claims([5.0, 7.0, 10.0], input="scores"))
    assert (np.diff(found) > 0).all()
    assert abs(nishimori.evaluate(scores, calibrator=best).gap) < 0.02


@pytest.mark.parametrize("name", ["intercept", "platt", "beta", "isotonic", "histogram", "best"])
def test_methods_of_claims_mend_stated_confidences(name, tmp_path):
    fitted = nishimori.calibrator(name).fit(claims(*stated(300)))
    before, after = (nishimori.evaluate(claims(*stated(20_000, seed=1)), calibrator=each) for each in (None, fitted))
    assert before.ece > 0.17
    assert after.ece < 0.09
    assert after.nll < before.nll
    fitted.save(tmp_path / "c.json")
    p = claims(stated(50, seed=2)[0])
    np.testing.assert_array_equal(nishimori.load(tmp_path / "c.json").predict_proba(p), fitted.predict_proba(p))


@pytest.mark.parametrize("name", [each for each in nishimori.methods() if each not in ("none", "best")])
def test_other_methods_are_refused_with_the_reason(name):
    allowed = ("intercept", "platt", "beta", "isotonic", "histogram")
    if name in allowed:
        nishimori.calibrator(name).fit(claims(*stated(300)))
        return
    with pytest.raises(InputError, match="claims: a temperature moves all of them towards 1/2"):
        nishimori.calibrator(name).fit(claims(*stated(300)))


def test_candidates_with_a_temperature_are_refused():
    with pytest.raises(InputError, match="for the method 'ts', got claims"):
        nishimori.Best(["platt", "ts"]).fit(claims(*stated(300)))
    with pytest.raises(InputError, match="Claims have no temperature"):
        nishimori.temperatures(claims(*stated(300)))


def test_what_needs_a_temperature_refuses_claims():
    data = claims(*stated(300))
    with pytest.raises(InputError, match="A Sketch is for temperatures, which claims do not have"):
        nishimori.Sketch().update(data)
    with pytest.raises(InputError, match="`of` must be left out for claims"):
        nishimori.metrics.decomposition(data, of="all")
    with pytest.raises(InputError, match="`by` must be 'groups' for claims"):
        nishimori.gate(data, bounds={"group_gap": 0.1})


def test_functions_of_rows_take_claims():
    validation, test = claims(*stated(300)), claims(*stated(3000, seed=1), groups=np.arange(3000) % 3)
    compared = nishimori.compare(validation, test_logits=test)
    assert [row.method for row in compared] == ["none", "intercept", "platt", "beta", "isotonic", "histogram"]
    assert compared["intercept"].differences["nll"].value < 0
    assert "changes" not in " ".join(compared.recommendation.sentences)
    assert nishimori.gate(test, bounds={"gap": 0.05}).verdict == "fail"
    assert [each.name for each in nishimori.group_gaps(test).groups] == [0, 1, 2]
    assert nishimori.bootstrap(test, n_draws=20).parameters["intercept"] == pytest.approx(-1.1, abs=0.2)
    for statistic in ("confidence", "spiegelhalter", "ece"):
        assert nishimori.calibration_test(test, statistic=statistic).p_value < 0.01
    with pytest.raises(InputError, match="`groups` must name the group of each claim"):
        nishimori.group_gaps(validation)


def test_spiegelhalters_test_of_claims_by_hand():
    p, right = stated(400)
    p = np.minimum(p, 0.99)
    found = nishimori.calibration_test(claims(p, right), statistic="spiegelhalter")
    excess, variance = ((right - p) * (1 - 2 * p)).mean(), (p * (1 - p) * (1 - 2 * p) ** 2).sum() / 400**2
    assert found.value == pytest.approx(excess)
    assert found.z == pytest.approx(excess / np.sqrt(variance))
    assert found.temperature is None


def test_calibrated_claims_pass_the_test():
    rng = np.random.default_rng(0)
    p = rng.beta(3, 1, size=4000)
    right = rng.random(4000) < p
    for statistic in ("confidence", "spiegelhalter", "ece"):
        assert nishimori.calibration_test(claims(p, right), statistic=statistic).p_value > 0.05


def test_a_report_of_claims_has_the_whole_axis_and_no_temperature():
    report = nishimori.Report(claims(*stated(300)), test_logits=claims(*stated(3000, seed=1)))
    results = report.to_dict()
    assert results["data"]["of_claims"]
    assert results["classes"] is results["confusions"] is None
    assert results["temperatures"] == []
    text = report.to_markdown()
    assert "3,000 test claims, fitted to 300 validation claims" in text
    assert "## Temperatures" not in text
    assert "mean of (confidence − right)²" in text
    before = next(row for row in results["methods"] if row["method"] == "none")
    assert before["brier"] == pytest.approx(nishimori.evaluate(claims(*stated(3000, seed=1))).brier)
    with pytest.raises(InputError, match="be probabilities for a report, got scores"):
        nishimori.Report(claims([1.0, 2.0, 3.0], [0, 1, 1], input="scores"))
