"""The dictionary behind the report: every number is that of a second formula."""

import html
import json
import re

import numpy as np
import pytest
import reference
import report_case
from scipy.stats import binomtest

import nishimori
from nishimori import Report
from nishimori.errors import InputError

VALIDATION, TEST = report_case.rows()
X, Y = TEST["logits"], TEST["codes"]


def made(**options):
    return Report(VALIDATION["logits"], VALIDATION["codes"], X, Y, **options)


@pytest.fixture(scope="module")
def results():
    return made(groups=VALIDATION["groups"], test_groups=TEST["groups"], ids=TEST["ids"]).to_dict()


def test_the_slider_shows_the_scores_of_each_temperature(results):
    places = results["slider"]["places"]
    assert [each["temperature"] for each in places] == sorted(each["temperature"] for each in places)
    assert places[0]["temperature"] < 0.3
    assert places[-1]["temperature"] > 6
    assert len(places) > 40
    for each in places[:: len(places) // 8]:
        T, claimed = each["temperature"], reference.softmax(X, each["temperature"]).max(axis=1)
        assert each["confidence"] == pytest.approx(claimed.mean(), rel=1e-9)
        assert each["nll"] == pytest.approx(reference.nll(X, Y, T), rel=1e-9)
        assert each["brier"] == pytest.approx(reference.brier(X, Y, T), rel=1e-9)
        assert each["ece"] == pytest.approx(reference.ece(claimed, X.argmax(axis=1) == Y, np.linspace(0, 1, 16)), rel=1e-9)


def test_bins_have_the_mean_confidence_accuracy_and_wilson_interval_of_their_samples(results):
    place = results["slider"]["places"][results["slider"]["start"]]
    claimed = reference.softmax(X, place["temperature"]).max(axis=1)
    right = X.argmax(axis=1) == Y
    for lower, upper, confidence, accuracy, low, high, share, n in place["bins"]:
        inside = (claimed > lower) & (claimed <= upper)
        assert confidence == pytest.approx(claimed[inside].mean(), abs=1e-7)
        assert accuracy == pytest.approx(right[inside].mean(), abs=1e-7)
        assert share == pytest.approx(inside.mean(), abs=1e-7)
        assert n == inside.sum()
        limits = binomtest(int(right[inside].sum()), int(inside.sum())).proportion_ci(0.95, method="wilson")
        assert (low, high) == pytest.approx((limits.low, limits.high), abs=1e-7)


def test_named_places_are_those_of_the_methods(results):
    named = {name: each["temperature"] for each in results["slider"]["places"] for name in each["names"]}
    fitted = VALIDATION["logits"], VALIDATION["codes"]
    assert named["none"] == 1
    assert named["ec"] == pytest.approx(reference.ec_temperature(*fitted, low=0.1, high=10), rel=1e-6)
    assert named["ts"] == pytest.approx(reference.ts_temperature(*fitted, low=0.1, high=10), rel=1e-6)
    assert min(named["ec"], named["ts"]) <= named["adaptive"] <= max(named["ec"], named["ts"])
    start = results["slider"]["places"][results["slider"]["start"]]
    assert results["recommended"] == "adaptive"
    assert start["temperature"] == named["adaptive"]


def test_temperatures_have_errors_and_intervals(results):
    for each in results["temperatures"]:
        fit = nishimori.calibrator(each["method"]).fit(VALIDATION["logits"], VALIDATION["codes"])
        assert each["temperature_se"] == pytest.approx(fit.temperature_se_, rel=1e-3)
        assert (each["temperature_low"], each["temperature_high"]) == pytest.approx(fit.confidence_interval(0.95), rel=1e-3)


@pytest.mark.parametrize(("scale", "status"), [(1, "overconfident"), (0.5, "calibrated"), (0.2, "underconfident")])
def test_the_verdict_is_about_confidence_minus_accuracy(scale, status):
    verdict = Report(scale * X, Y).to_dict()["verdict"]
    right = X.argmax(axis=1) == Y
    misses = reference.softmax(scale * X).max(axis=1) - right
    assert verdict["gap"] == pytest.approx(misses.mean())
    claimed = reference.softmax(scale * X).max(axis=1)
    variance = max(misses.var(), (claimed * (1 - claimed)).mean())  # that of a calibrated model, if it is larger
    assert verdict["gap_se"] == pytest.approx(np.sqrt(variance / len(X)), rel=1e-6)
    assert verdict["status"] == status


@pytest.mark.filterwarnings("ignore:.*one temperature cannot correct that:nishimori.errors.InputWarning")
def test_a_model_that_is_wrong_in_both_directions_is_right_on_average_and_wrong_in_places():
    rng = np.random.default_rng(0)
    logits = np.zeros((4000, 2))
    logits[:, 0] = np.where(np.arange(4000) % 2, 1.0, 3.0)
    sure = reference.softmax(logits).max(axis=1)
    labels = (rng.random(4000) > np.where(np.arange(4000) % 2, sure + 0.08, sure - 0.08)).astype(int)
    assert Report(logits, labels, input="logits").to_dict()["verdict"]["status"] == "uneven"


def test_the_verdict_recommends_what_the_table_shows_to_be_best():
    rng = np.random.default_rng(0)
    truth = 2 * rng.normal(size=(3000, 4))
    logits, labels = truth + np.array([2.0, 0, 0, -2]), (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    report = Report(logits[:1500], labels[:1500], logits[1500:], labels[1500:])
    told = report.to_dict()
    rows = {each["method"]: each for each in told["methods"]}
    assert list(rows) == ["none", "ts", "ec", "adaptive", "class temperatures", "bias", "vector"]
    X, Y = logits[1500:], labels[1500:]
    vector = nishimori.VectorScaling().fit(logits[:1500], labels[:1500])
    p = vector.predict_proba(X)
    assert rows["vector"]["nll"] == pytest.approx(-np.log(p[np.arange(1500), Y]).mean(), rel=1e-6)
    moved = (p.argmax(axis=1) != X.argmax(axis=1)).mean()
    assert rows["vector"]["changed_predictions"] == pytest.approx(moved)
    best = min(("bias", "vector"), key=lambda name: rows[name]["nll"])
    assert (told["recommended"], told["best"]) == ("adaptive", best)
    simplest, better = told["recommendation"]["sentences"]
    assert told["verdict"]["advice"] == f"{simplest} {better}"
    percent = 100 * (rows[best]["nll"] / rows["none"]["nll"] - 1)
    points = 100 * (rows[best]["error"] - rows["none"]["error"])
    assert max(points, percent) < -10  # which are shown without decimals
    among = "none, adaptive, ec, ts, class temperatures, bias and vector"
    start = f"If predictions may change, use {best}, the best of {among}"
    assert better.startswith(f"{start}: error −{-points:.0f} points, NLL −{-percent:.0f} %, ECE −")
    assert told["metrics"][0]["name"] == "error"
    assert f"{best} none of 4 gaps is significant" in told["verdict"]["classes"]
    page, text = report.to_html(), report.to_markdown()
    assert page.count('<span class="tag">if predictions may change</span>') == 2
    assert page.count('<span class="tag">use</span>') == 3
    assert report.verdict.splitlines()[1:3] == [simplest, better]
    assert f'<p class="action">{simplest}</p>' in html.unescape(page)
    assert f'<p class="action second">{better}</p>' in html.unescape(page)
    assert better in html.unescape(text)
    assert f"; 4 of 4 predicted classes are off, after {best} none of 4." in page


def test_gaps_have_one_sign_which_is_the_real_minus(results):
    page, text = (getattr(Report.from_dict(results), name)() for name in ("to_html", "to_markdown"))
    gaps = [row[when]["gap"] for row in results["classes"]["rows"] for when in ("before", "one", "several")]
    assert min(gaps) < 0 < max(gaps)
    plain = page[page.index("<main>") : page.index("</main>")].replace('<span class="on-wide"> ±', " ±")
    for shown in (plain, text):
        signs = [each[1] for each in re.finditer(r"([^\w\s>|]+)\d+\.?\d* ± ", shown)]
        assert {"+", "−"} <= set(signs)
        assert "+−" not in shown
        assert not re.search(r">\s*\(?-\d|\| \(?-\d", shown)


def test_data_that_methods_were_fitted_to_are_mentioned_first():
    found = Report(X, Y)
    said = "All methods were measured on the data that they were fitted to, which flatters them."
    assert found.verdict.splitlines()[1] == said
    assert found.verdict.splitlines()[0].endswith(", on the same data.")
    assert found.to_dict()["verdict"]["sentences"][0] == said
    assert "flatters" not in str(made())


def test_methods_that_would_take_long_are_left_out_by_name_unless_they_are_asked_for(monkeypatch):
    assert {"bias", "vector"} <= {each["method"] for each in made().to_dict()["methods"]}
    monkeypatch.setattr("nishimori._evaluation.compared_methods.MOST_SECONDS", 5e-4)
    told = made().to_dict()
    assert not {"bias", "vector"} & {each["method"] for each in told["methods"]}
    assert [each["what"] for each in told["absent"]] == ["The method bias", "The method vector"]
    assert all(" s; name it to try it" in each["why"] for each in told["absent"])
    some = made(methods=["vector", nishimori.BiasCorrected(shrink=False)]).to_dict()
    assert [each["method"] for each in some["methods"]][-2:] == ["vector", "bias"]
    assert some["absent"] == []


def test_the_worst_group_is_part_of_the_verdict(results):
    assert results["verdict"]["groups"].startswith("Groups, with Holm's correction: after adaptive ")
    assert made().to_dict()["verdict"]["groups"] == ""


def test_classes_are_sorted_by_how_far_they_are_off(results):
    rows = results["classes"]["rows"]
    predicted = X.argmax(axis=1)
    claimed = reference.softmax(X).max(axis=1)
    for each in rows:
        inside = predicted == int(each["name"])
        assert each["n"] == inside.sum()
        assert each["before"]["gap"] == pytest.approx((claimed - (predicted == Y))[inside].mean())
    off = [each["before"]["off"] for each in rows]
    assert off == sorted(off, reverse=True)
    sizes = [abs(each["before"]["gap"]) for each in rows if each["before"]["off"]]
    assert sizes == sorted(sizes, reverse=True)


def test_groups_have_a_row_each_with_and_without_calibration(results):
    right, one = X.argmax(axis=1) == Y, results["slider"]["places"][results["slider"]["start"]]["temperature"]
    assert {each["name"] for each in results["groups"]["rows"]} == set(report_case.GROUPS)
    for each in results["groups"]["rows"]:
        inside = TEST["groups"] == each["name"]
        for name, T in (("before", 1.0), ("one", one)):
            misses = reference.softmax(X, T).max(axis=1) - right
            assert each[name]["gap"] == pytest.approx(misses[inside].mean())
        own = reference.softmax(X, each["temperature"]).max(axis=1) - right
        assert each["several"]["gap"] == pytest.approx(own[inside].mean())
    assert made().to_dict()["groups"] is None


def test_a_group_with_one_class_only_has_a_row_like_all_others_and_is_named():
    groups = np.where(Y == 2, "only class 2", "others")
    found = Report(X, Y, groups=groups)
    table = found.to_dict()["groups"]
    assert table["of_one_class"] == ["only class 2"]
    assert "All samples of the group 'only class 2' have the same true class: the numbers may not hold" in found.to_markdown()
    rows = {each["name"]: each for each in table["rows"]}
    assert rows["only class 2"]["accuracy"] == pytest.approx((X.argmax(axis=1) == Y)[Y == 2].mean())
    assert np.isfinite(rows["only class 2"]["temperature"])


def surest_mistakes(X, Y):
    p, predicted = reference.softmax(X), X.argmax(axis=1)
    wrong = np.flatnonzero(predicted != Y)
    order = wrong[np.argsort(-p.max(axis=1)[wrong], kind="stable")][:20]
    return order, predicted[order], p.max(axis=1)[order], p[order, Y[order]]


def test_the_surest_mistakes_come_first_with_their_rows_and_ids(results):
    order, predicted, sure, true = surest_mistakes(X, Y)
    found = results["mistakes"]
    assert [each["row"] for each in found] == order.tolist()
    assert [each["id"] for each in found] == TEST["ids"][order].tolist()
    assert [each["predicted"] for each in found] == predicted.astype(str).tolist()
    assert [each["label"] for each in found] == Y[order].astype(str).tolist()
    assert [each["confidence"] for each in found] == pytest.approx(sure.tolist())
    assert [each["true_probability"] for each in found] == pytest.approx(true.tolist())
    after = reference.softmax(X, results["slider"]["places"][results["slider"]["start"]]["temperature"]).max(axis=1)
    assert [each["confidence_after"] for each in found] == pytest.approx(after[order].tolist())


def test_mistakes_in_batches_have_the_rows_of_the_whole():
    batches = [(X[start : start + 100], Y[start : start + 100]) for start in range(0, len(X), 100)]
    found = Report(batches).to_dict()["mistakes"]
    assert [each["row"] for each in found] == surest_mistakes(X, Y)[0].tolist()


def test_rows_of_weight_zero_are_counted_and_never_shown():
    weights = np.ones(len(X))
    first = surest_mistakes(X, Y)[0][0]
    weights[[0, first]] = 0
    found = [each["row"] for each in Report(X, Y, sample_weight=weights).to_dict()["mistakes"]]
    assert found[:19] == surest_mistakes(X, Y)[0][1:].tolist()


def test_probabilities_of_a_binary_score_are_what_the_logits_are():
    flat, labels = X[:, 0] - X[:, 1], (Y > 1).astype(int)
    from_logits = Report(flat, labels).to_dict()
    from_shares = Report(1 / (1 + np.exp(-flat)), labels, input="probabilities", floor=None).to_dict()
    for a, b in zip(from_logits["slider"]["places"], from_shares["slider"]["places"], strict=True):
        assert (a["temperature"], a["nll"]) == pytest.approx((b["temperature"], b["nll"]), rel=1e-6)


def test_a_sketch_names_what_it_cannot_tell():
    sketch = nishimori.Sketch().update(X, Y)
    results = Report(sketch).to_dict()
    assert [each["what"] for each in results["absent"]] == [
        "The table of predicted classes",
        "The table of groups",
        "The errors: the most confident ones, confusions, and the error of the most confident answers",
        "Paired differences between methods",
        "Standard errors of NLL, Brier score and mean confidence",
        "The ECE and the diagram exactly at the fitted temperatures",
    ]
    assert (results["classes"], results["groups"], results["mistakes"]) == (None, None, None)
    for each in results["slider"]["places"]:
        if not each["names"]:  # at the temperatures of its grid all sums are exact
            claimed = reference.softmax(X, each["temperature"]).max(axis=1)
            assert each["ece"] == pytest.approx(reference.ece(claimed, X.argmax(axis=1) == Y, np.linspace(0, 1, 16)))
    assert made().to_dict()["absent"] == []


def test_the_dictionary_survives_json(results):
    assert json.loads(json.dumps(results, allow_nan=False)) == results


def test_an_infinite_loss_is_none_and_written_as_infinite():
    masked = X.copy()
    masked[0, Y[0]] = -np.inf
    with pytest.warns(nishimori.errors.InputWarning, match="true class has logit -inf"):
        report = Report(masked, Y)
    assert report.to_dict()["methods"][0]["nll"] is None
    assert "infinite" in report.to_markdown()


def test_without_a_temperature_the_report_says_why():
    logits = np.zeros((200, 3))
    labels = np.arange(200) % 3
    logits[np.arange(200), labels] = 2.0
    results = Report(logits, labels, input="logits").to_dict()
    assert results["recommended"] is None
    assert results["verdict"]["advice"] == "No temperature could be fitted; the table of methods says why."
    assert all("all 200 samples" in each["why"] for each in results["temperatures"])
    assert results["mistakes"] == []


REFUSED = [
    ({"n_bins": 101}, "`n_bins` must be a whole number from 1 to 100, got 101."),
    ({"level": 2}, "`level` must lie between 0 and 1, got 2."),
    ({"ids": ["a"]}, "`ids` must hold one id per sample that is measured, 600 in all, got shape (1,)."),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises(InputError) as refused:
        made(**options)
    assert str(refused.value) == message


def test_bad_rows_are_refused_by_name():
    hollow = X.copy()
    hollow[3, 1] = np.nan
    with pytest.raises(InputError, match=r"^`test_logits` must not contain NaN or \+inf, got nan in row 3, column 1\."):
        Report(X, Y, hollow, Y)
    with pytest.raises(InputError, match=r"^`test_logits` must have shape .*, got 0 sample\(s\)"):
        Report(X, Y, X[:0], Y[:0])
    with pytest.raises(InputError) as refused:
        Report(X, Y, test_labels=Y)
    assert str(refused.value) == "`test_logits` must be passed if other arguments describe test data, got None."


def test_groups_of_the_validation_data_alone_are_said_to_be_of_no_use():
    told = Report(X, Y, X[::-1], Y[::-1], groups=TEST["groups"]).to_dict()
    why = "the test data do not name the group of each sample"
    assert {"what": "The method group temperatures", "why": why} in told["absent"]


def test_confusions_are_the_pairs_of_classes_with_most_errors(results):
    predicted, claimed = X.argmax(axis=1), reference.softmax(X).max(axis=1)
    table = np.zeros((4, 4), dtype=int)
    np.add.at(table, (Y, predicted), 1)
    np.fill_diagonal(table, 0)
    assert [each["n"] for each in results["confusions"]] == sorted(table[table > 0], reverse=True)[:10]
    for each in results["confusions"]:
        label, guess = int(each["label"]), int(each["predicted"])
        assert each["n"] == table[label, guess]
        assert each["share"] == pytest.approx(table[label, guess] / table.sum())
        assert each["confidence"] == pytest.approx(claimed[(label == Y) & (predicted == guess)].mean())


def test_the_error_of_the_most_confident_answers_is_that_of_sorted_samples(results):
    T = results["slider"]["places"][results["slider"]["start"]]["temperature"]
    for key, temperature in (("before", 1.0), ("one", T)):
        order = np.argsort(-reference.softmax(X, temperature).max(axis=1), kind="stable")
        wrong = np.cumsum(X.argmax(axis=1)[order] != Y[order])
        curve = results["risk_coverage"][key]
        assert len(curve) > 50
        for coverage, error in curve:
            n = round(coverage * len(X))
            # Samples whose confidence differs by less than 0.25 % of its complement share a bin.
            assert error == pytest.approx(wrong[n - 1] / n, abs=2 / n)
        assert curve[-1] == pytest.approx([1, wrong[-1] / len(X)], abs=1e-6)


def test_weights_and_batches_leave_errors_as_copies_would():
    copies = np.random.default_rng(3).integers(0, 3, size=len(X))
    weighted = Report(X, Y, sample_weight=copies).to_dict()
    repeated = Report(np.repeat(X, copies, axis=0), np.repeat(Y, copies)).to_dict()
    pairs = lambda found: [(each["label"], each["predicted"], round(each["share"], 9)) for each in found["confusions"]]  # noqa: E731
    assert sorted(pairs(weighted)) == sorted(pairs(repeated))
    np.testing.assert_allclose(weighted["risk_coverage"]["before"], repeated["risk_coverage"]["before"], atol=1e-5)


def after_choice(calibrator, logits):
    """The probabilities after a fitted calibrator, and those of the predicted classes."""
    p = calibrator.predict_proba(logits)
    return p, p.max(axis=1)


def cells_of(report):
    """The table of before and after: the texts of each row."""
    from nishimori.report import _top

    return {name: [text for text, _, _ in cells] for name, cells in _top.before_and_after(report.to_dict())["rows"]}


@pytest.fixture(scope="module")
def biased():
    """Data of which vector scaling is better than any temperature, which leaves single classes off."""
    rng = np.random.default_rng(0)
    truth = 2 * rng.normal(size=(4000, 4))
    logits, labels = 1.5 * truth + np.array([2.0, 0, 0, -2]), (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    return (logits[:2000], labels[:2000]), (logits[2000:], labels[2000:])


def test_the_top_has_the_numbers_of_the_model_as_it_is_and_after_the_methods_to_use(biased):
    validation, (logits, labels) = biased
    report = Report(*validation, logits, labels)
    told = report.to_dict()
    use, other = told["recommendation"]["choice"], told["recommendation"]["other"]
    assert (use, told["recommended"]) == ("adaptive", "adaptive")
    assert other in ("bias", "vector")
    cells = cells_of(report)
    columns = [nishimori.calibrator(name).fit(*validation) for name in ("none", use, other)]
    for place, calibrator in enumerate(columns):
        p, claimed = after_choice(calibrator, logits)
        predicted = p.argmax(axis=1)
        right = predicted == labels
        assert cells["Accuracy"][place] == f"{100 * right.mean():.2f} %"
        assert cells["Mean confidence"][place] == f"{100 * claimed.mean():.2f} %"
        assert cells["ECE"][place] == f"{100 * reference.ece(claimed, right, np.linspace(0, 1, 16)):.2f} %"
        assert cells["NLL"][place] == f"{-np.log(p[np.arange(2000), labels]).mean():.4f}"
        gaps = [(claimed - right)[predicted == k].mean() for k in range(4)]
        if place < 2:  # where the largest gaps are significant
            largest = max(gaps, key=abs)
            assert cells["Largest class gap"][place] == f"{100 * largest:+.2f}".replace("-", "−")
    p, claimed = after_choice(columns[1], logits)
    before = 100 * (reference.softmax(logits).max(axis=1) - (logits.argmax(axis=1) == labels)).mean()
    after = 100 * (claimed - (p.argmax(axis=1) == labels)).mean()
    assert told["verdict"]["headline"] == f"Overconfident by {before:.1f} points; after calibration {abs(after):.1f}"
    assert all(f">{text}</td>" in report.to_html() or f">{text} <small>" in report.to_html() for text in cells["NLL"])


def test_the_top_says_how_often_the_worst_class_is_right_after_the_methods_to_use(biased):
    validation, (logits, labels) = biased
    report, found = Report(*validation, logits, labels), nishimori.compare(*validation, logits, labels)
    p, claimed = after_choice(nishimori.calibrator("adaptive").fit(*validation), logits)
    predicted = p.argmax(axis=1)
    gaps = [(claimed - (predicted == labels))[predicted == k].mean() for k in range(4)]
    worst = int(np.argmax(np.abs(gaps)))
    right, sure = (100 * values[predicted == worst].mean() for values in (predicted == labels, claimed))
    (said,) = (line for line in report.verdict.splitlines() if " right at " in line)
    counts = [f"{len(found[name].by_class.off) or 'none'} of 4" for name in found.recommendation.methods]
    assert said == (
        f"After adaptive class {worst} is {right:.0f} % right at {sure:.0f} % mean confidence; {counts[0]} predicted "
        f"classes are off, after {found.recommendation.other} {counts[1]}."
    )
    assert said in html.unescape(report.to_html())
    assert said in html.unescape(report.to_markdown())


@pytest.fixture(scope="module")
def rare():
    """A report on two classes of which one is rare: the top class is right on average, the probability of class 1 is not."""
    validation, test = report_case.rare(0), report_case.rare(1)
    with pytest.warns(nishimori.errors.InputWarning, match="one temperature cannot correct that"):
        return validation, test, Report(*validation, *test)


def test_a_rare_class_with_too_high_probabilities_is_not_presented_as_fine(rare):
    validation, (z, labels), report = rare
    told = report.to_dict()
    p = 1 / (1 + np.exp(-z))
    assert abs(np.maximum(p, 1 - p).mean() - ((p > 0.5) == labels).mean()) < 0.01
    used = told["recommendation"]["choice"]
    assert used in ("platt", "beta", "vector")
    after = nishimori.calibrator(used).fit(*validation).predict_proba(z)[:, 1]
    start = f"P(class 1) is too high: mean {100 * p.mean():.3g} %, prevalence {100 * labels.mean():.3g} %"
    assert told["verdict"]["headline"].startswith(f"{start}; after calibration {100 * after.mean():.3g} %")
    assert {"platt", "beta"} <= {each["method"] for each in told["methods"]}
    cells = cells_of(report)
    means = [f"{100 * each.mean():.2f} %" for each in (p, after)]
    assert cells[f"Mean P(class 1); prevalence {100 * labels.mean():.2f} %"] == means
    assert f"prevalence of class 1: {100 * labels.mean():.2f} %" in report.to_html()
    assert told["data"]["positive"] == {"name": "1", "share": pytest.approx(labels.mean())}


def test_two_classes_that_are_right_have_the_mean_probability_beside_the_prevalence():
    rng = np.random.default_rng(3)
    z = 2 * rng.normal(size=2000)
    labels = np.where(rng.random(2000) < 1 / (1 + np.exp(-z)), "spam", "ham")
    verdict = Report(z, labels, classes=["ham", "spam"]).to_dict()["verdict"]
    mean, share = (1 / (1 + np.exp(-z))).mean(), (labels == "spam").mean()
    assert (verdict["status"], verdict["headlines"][1]["off"]) == ("calibrated", False)
    said = f"No miscalibration found. Mean P(class spam) {100 * mean:.3g} %, prevalence {100 * share:.3g} %"
    assert verdict["headline"] == said


def test_the_diagram_of_two_classes_has_the_probability_of_the_second_one_from_0_to_1(rare):
    from nishimori.report import _charts

    validation, (z, labels), report = rare
    told = report.to_dict()
    slider = told["slider"]
    assert [each["names"] for each in slider["methods"]] == [[told["recommended"]]]
    assert slider["start"] == len(slider["places"])  # the method to use, which has no temperature
    as_is = next(each for each in slider["places"] if each["temperature"] == 1)
    after = nishimori.calibrator(told["recommended"]).fit(*validation).predict_proba(z)[:, 1]
    for place, p in ((as_is, 1 / (1 + np.exp(-z))), (slider["methods"][0], after)):
        for lower, upper, mean, share, _, _, _, n in place["positive_bins"]:
            inside = (p > lower) & (p <= upper)
            assert (mean, share, n) == pytest.approx((p[inside].mean(), labels[inside].mean(), inside.sum()), abs=1e-7)
        assert sum(each[-1] for each in place["positive_bins"]) == len(z)
    assert slider["methods"][0]["accuracy"] == pytest.approx(((after > 0.5) == labels).mean())
    upper, lower = _charts.reliability(told)["vconcat"]
    for layer in upper["layer"] + lower["layer"]:
        assert layer["encoding"]["x"]["scale"]["domain"] == [0, 1]
    assert upper["layer"][2]["encoding"]["y"]["axis"]["title"] == "share of class 1"
    shown = _charts.datasets(told)
    assert [each["accuracy"] for each in shown["bins"] if each["place"] == slider["start"]] == [
        each[3] for each in slider["methods"][0]["positive_bins"]
    ]
    assert len(shown["curve"]) == len(slider["places"])


def test_errors_are_shown_after_the_method_to_use_even_if_it_has_no_temperature(rare):
    validation, (z, labels), report = rare
    told = report.to_dict()
    p = nishimori.calibrator(told["recommended"]).fit(*validation).predict_proba(z)
    for each in told["mistakes"]:
        assert each["confidence_after"] == pytest.approx(p[each["row"]].max(), rel=1e-9)
    order = np.argsort(-p.max(axis=1), kind="stable")
    wrong = np.cumsum(p.argmax(axis=1)[order] != labels[order])
    for coverage, error in told["risk_coverage"]["one"]:
        n = round(coverage * len(z))
        assert error == pytest.approx(wrong[n - 1] / n, abs=2 / n)


BOUNDS = [
    ({"ece": 0.09}, "Ship it with adaptive"),
    ({"ece": 0.05}, "Ship it with vector"),
    ({"nll": 1.02, "error": 0.9}, "Ship it with adaptive"),
    ({"error": 0.9}, "Ship it with adaptive"),
    ({"group_gap": 0.02}, "Do not ship it"),
    ({"gap": 0.03, "error": 0.9}, "Not decided"),
]


@pytest.mark.parametrize(("bounds", "decision"), BOUNDS)
def test_bounds_are_judged_as_gate_judges_them(biased, bounds, decision):
    validation, test = biased
    report = Report(*validation, *test, bounds=bounds)
    told = report.to_dict()
    advised = told["recommendation"]
    assert [each["method"] for each in told["gate"]["methods"]] == ["none", advised["choice"], advised["other"]]
    for each in told["gate"]["methods"]:
        fitted = nishimori.calibrator(each["method"]).fit(*validation)
        expected = nishimori.gate(*test, bounds=bounds, calibrator=fitted)
        assert each["verdict"] == expected.verdict
        for check, wanted in zip(each["checks"], expected.to_dict()["checks"], strict=True):
            assert (check["low"], check["high"]) == pytest.approx((wanted["low"], wanted["high"]), rel=1e-6, abs=1e-9)
    said = report.verdict.splitlines()[-1]
    assert said.startswith(f"{decision}. ")
    assert f"<strong>{decision}</strong>" in report.to_html()
    assert said in html.unescape(report.to_markdown())
    assert "would settle it" not in said


def test_without_bounds_nothing_is_said_about_shipping(biased):
    report = Report(*biased[0], *biased[1])
    assert report.to_dict()["gate"] is None
    assert "hip it" not in report.to_html()[: report.to_html().index("</main>")]


def test_a_method_is_not_judged_on_the_data_that_it_was_fitted_to(biased):
    validation, _ = biased
    report = Report(*validation, bounds={"ece": 0.05})
    assert [each["method"] for each in report.to_dict()["gate"]["methods"]] == ["none"]
    assert report.verdict.splitlines()[-1].startswith("Not decided. ECE at most 5 %: fail as it is (")
    assert report.verdict.endswith(" adaptive was fitted to these samples: pass test data to judge it.")
    fine = Report(*validation, bounds={"error": 0.9})
    assert fine.verdict.splitlines()[-1].startswith("Ship it as it is. ")


def test_no_sentence_plans_further_validation_samples(biased):
    validation, test = biased
    found, report = nishimori.compare(*validation, *test), Report(*validation, *test)
    assert "required_samples" not in {**found.tests, **report.to_dict()["tests"]}
    for text in (*found.verdicts, report.to_markdown(), report.to_html()):
        assert "more validation samples" not in text


def test_the_heading_says_what_the_page_is(biased):
    untitled, titled = (Report(*biased[0], **options) for options in ({}, {"title": "ResNet-20"}))
    assert untitled.to_markdown().startswith("# Calibration report\n")
    assert titled.to_markdown().startswith("# Calibration report: ResNet-20\n")
    assert "<h1>Calibration report: ResNet-20</h1>" in titled.to_html()
    assert "<title>Calibration report: ResNet-20</title>" in titled.to_html()


def test_the_brier_score_of_two_classes_is_that_of_scikit_learn():
    from sklearn.metrics import brier_score_loss

    flat, labels = (X[:, 1] - X[:, 0])[Y < 2], Y[Y < 2]
    report = Report(flat, labels)
    expected = brier_score_loss(labels, 1 / (1 + np.exp(-flat)))
    table = report.to_markdown().partition("## Before and after")[2]
    heads = next(line for line in table.splitlines() if "Brier" in line).split("|")
    cells = next(line for line in table.splitlines() if line.startswith("| No calibration")).split("|")
    place = next(place for place, each in enumerate(heads) if "Brier" in each)
    assert float(cells[place].partition("±")[0]) == pytest.approx(expected, abs=2e-3)
    assert "half the sum over both" in report.to_html()


def test_the_diagram_of_a_sketch_of_two_classes_begins_at_one_half():
    from nishimori.report import _charts

    results = Report(nishimori.Sketch().update((X[:, 1] - X[:, 0])[Y < 2], Y[Y < 2])).to_dict()
    assert results["data"]["positive"] is None
    upper, lower = _charts.reliability(results)["vconcat"]
    for layer in upper["layer"] + lower["layer"]:
        assert layer["encoding"]["x"]["scale"]["domain"] == [0.5, 1]


def test_the_chart_of_gaps_shows_the_fifteen_classes_that_most_samples_are_affected_by():
    from nishimori.report import _charts

    rng = np.random.default_rng(0)
    rows = []
    for i, (n, gap) in enumerate(zip(rng.integers(1, 900, 40).tolist(), rng.normal(size=40).tolist(), strict=True)):
        found = {"confidence": 0.5, "gap": gap, "se": 0.1, "off": True}
        rows.append({"name": f"class {i}", "n": n, "accuracy": 0.5, "before": found, "one": found})
    chart = _charts.gaps({"rows": rows}, "after ec", 0.95)["vconcat"][0]
    values = chart["data"]["values"]
    expected = sorted(rows, key=lambda each: -each["n"] * abs(each["before"]["gap"]))[:15]
    assert [each["name"].split("  ")[0] for each in values[::2]] == [each["name"] for each in expected]
    assert [each["when"] for each in values[:2]] == ["before", "after ec"]
    assert values[0]["high"] - values[0]["gap"] == pytest.approx(100 * 0.1 * 1.959964)


def test_gaps_and_differences_have_one_sign():
    from nishimori._support.formatting import points_with_error as gap
    from nishimori.report._content import interval, points

    assert (gap(-0.0321, 0.0044), gap(0.0321, 0.0044)) == ("−3.21 ± 0.44", "+3.21 ± 0.44")
    assert (points(-0.0321), points(0.0321), points(-1e-7)) == ("−3.21", "+3.21", "0")
    assert interval({"x_low": -0.02, "x_high": 0.01}, "x", "points") == "(−2.00 to +1.00)"


@pytest.mark.parametrize(
    ("value", "text"),
    [(1 - 1e-9, "> 99.99 %"), (4.2e-100, "< 0.01 %"), (1.0, "100 %"), (0.0, "0 %"), (0.98765, "98.77 %"), (None, "infinite")],
)
def test_probabilities_are_written_with_two_decimals_or_as_limits(value, text):
    from nishimori.report._content import percent

    assert percent(value) == text


def test_names_with_control_characters_do_not_reach_pictures():
    from nishimori.report import _charts

    found = {"confidence": 0.5, "gap": 0.1, "se": 0.1, "off": True}
    rows = [{"name": f"a\x1b[3{i}m\nb", "n": 9, "accuracy": 0.5, "before": found, "one": found} for i in range(2)]
    values = _charts.gaps({"rows": rows}, "after ec", 0.95)["vconcat"][0]["data"]["values"]
    assert [each["name"] for each in values[::2]] == [rf"a\x1b[3{i}m\nb  (n = 9)" for i in range(2)]


def test_the_page_says_from_which_confidence_on_answers_are_certified():
    network = nishimori.data.load("cifar10/resnet20")
    validation, test = network.validation, network.test
    report = nishimori.Report(validation.logits, validation.labels, test.logits, test.labels)
    found, used = report.to_dict()["threshold"], report.to_dict()["recommended"]
    fitted = nishimori.calibrator(used).fit(validation.logits, validation.labels)
    alone = nishimori.threshold(test.logits, test.labels, calibrator=fitted)
    assert (found["method"], found["confidence"], found["coverage"]) == (used, alone.confidence, alone.coverage)
    assert f"After {used}: a{alone.verdict[1:]}" in report.to_markdown()
    on_the_same_rows = nishimori.Report(validation.logits, validation.labels)
    assert on_the_same_rows.to_dict()["threshold"] is None
    assert "What you can do with it" not in on_the_same_rows.to_markdown()


@pytest.mark.filterwarnings("ignore:After ts, ec, adaptive the mean probability:nishimori.errors.InputWarning")
def test_a_report_of_two_classes_has_the_area_under_the_curve_intercept_and_slope():
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=2000)
    labels = (rng.random(2000) < 1 / (1 + np.exp(1 - z))).astype(int)
    results = nishimori.Report(z[:1000], labels[:1000], z[1000:], labels[1000:]).to_dict()
    as_it_is = next(row for row in results["methods"] if row["method"] == "none")
    card = nishimori.evaluate(z[1000:], labels[1000:], metrics=["auc", "calibration_intercept", "calibration_slope"])
    for name in ("auc", "calibration_intercept", "calibration_slope"):
        assert as_it_is[name] == pytest.approx(card[name].value)


PIXELS = {"class_axis": 1, "methods": ("none", "ts")}


@pytest.mark.parametrize(
    ("options", "error_bars"),
    [
        ({}, "by image (first axis): 40 images"),
        ({"clusters": np.arange(40) // 2}, "by cluster: 20 clusters"),
        ({"clusters": False}, ""),
    ],
    ids=["images", "named", "pixels"],
)
def test_a_report_says_by_what_its_error_bars_are(options, error_bars):
    logits, labels = reference.drawn(640, 4, temperature=2.0)
    images = np.moveaxis(logits.reshape(40, 4, 4, 4), -1, 1)
    report = Report(images, labels.reshape(40, 4, 4), **PIXELS, **options)
    assert report.to_dict()["data"]["error_bars"] == error_bars
    line = f"- Standard errors: {error_bars}"
    assert (line in report.to_markdown()) == bool(error_bars)
    assert ("Standard errors" in report.to_html()) == bool(error_bars)
