"""A metric of one's own is measured, compared, bounded, reported and typed in the shell like a built-in one."""

import json
import pickle
from functools import partial

import numpy as np
import pytest
import reference
import shell
from own_metrics import Auroc, ClassBrier, Covariance
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

import nishimori
from nishimori import compare, evaluate, gate, metrics
from nishimori.errors import InputError

LOGITS, LABELS = reference.drawn(1500, 4, seed=3)
WEIGHTS = np.random.default_rng(1).exponential(size=1500)
CLUSTERS = np.arange(1500) // 5
P = reference.softmax(LOGITS, 1.0)
CONFIDENCE, RIGHT = P.max(axis=1), LOGITS.argmax(axis=1) == LABELS


@pytest.fixture
def registered(monkeypatch):
    from nishimori._evaluation.metrics import table

    monkeypatch.setattr(table, "_registered", {})
    for each in (ClassBrier(), Covariance(), Auroc()):
        nishimori.register(each.name, each)


@pytest.mark.parametrize("units", [{}, {"counts": True}, {"clusters": CLUSTERS}], ids=["rows", "counts", "clusters"])
def test_a_number_per_row_has_the_error_of_its_mean(units):
    rows = (P[:, 2] - (LABELS == 2)) ** 2
    found = evaluate(LOGITS, LABELS, metrics=[ClassBrier(2)], sample_weight=WEIGHTS, **units)["class_brier(column=2)"]
    assert found.value == pytest.approx(np.average(rows, weights=WEIGHTS))
    assert found.se == pytest.approx(reference.error_of_mean(rows, WEIGHTS, **units))
    reach = norm.ppf(0.95) * found.se
    assert found.interval(0.9) == pytest.approx((found.value - reach, found.value + reach))


def test_sums_of_batches_add(registered):
    expected = np.cov(CONFIDENCE, RIGHT, aweights=WEIGHTS, ddof=0)[0, 1]
    stream = lambda: ((LOGITS[i : i + 100], LABELS[i : i + 100], WEIGHTS[i : i + 100]) for i in range(0, 1500, 100))  # noqa: E731
    for data in ((LOGITS, LABELS), (nishimori.rows(stream),)):
        given = {"sample_weight": WEIGHTS} if len(data) == 2 else {}
        found = evaluate(*data, metrics=["covariance"], **given)["covariance"]
        assert found.value == pytest.approx(expected)
        assert found.why_no_se == "covariance has none."


def test_a_function_of_all_outcomes_has_an_error_by_the_jackknife():
    found = evaluate(LOGITS, LABELS, metrics=[Auroc()])["auroc"]
    assert found.value == pytest.approx(roc_auc_score(RIGHT, CONFIDENCE))
    # DeLong, DeLong and Clarke-Pearson (1988): the variance of a share of pairs from the placements of both kinds.
    wins = (CONFIDENCE[RIGHT][:, None] > CONFIDENCE[~RIGHT]) + 0.5 * (CONFIDENCE[RIGHT][:, None] == CONFIDENCE[~RIGHT])
    variance = wins.mean(axis=1).var(ddof=1) / RIGHT.sum() + wins.mean(axis=0).var(ddof=1) / (~RIGHT).sum()
    assert found.se == pytest.approx(np.sqrt(variance), rel=0.25), "100 groups know an error to a fourteenth"


def test_clusters_are_left_out_and_drawn_as_a_whole():
    twice = np.repeat(LOGITS, 2, axis=0), np.repeat(LABELS, 2)
    clusters = np.repeat(np.arange(1500), 2)
    plain = evaluate(LOGITS, LABELS, metrics=[Auroc()])["auroc"]
    for kind in ("jackknife", "bootstrap"):
        metric = type("Auroc", (Auroc,), {"resampling": kind})()
        found = evaluate(*twice, clusters=clusters, metrics=[metric])["auroc"]
        assert found.value == pytest.approx(plain.value)
        assert found.se == pytest.approx(plain.se, rel=0.25), "copies of a sample are one sample"
        assert evaluate(*twice, metrics=[metric])["auroc"].se == pytest.approx(plain.se / np.sqrt(2), rel=0.25)
    counted = evaluate(LOGITS, LABELS, sample_weight=np.full(1500, 2.0), counts=True, metrics=[Auroc()])["auroc"]
    assert counted.se == pytest.approx(plain.se / np.sqrt(2), rel=0.25), "a weight of two is two samples"


def test_differences_are_paired():
    found = compare(LOGITS, LABELS, methods=(1.0, 2.0), metrics=[ClassBrier(1), Auroc(), Covariance()])
    after = reference.softmax(LOGITS, 2.0)
    change = (after[:, 1] - (LABELS == 1)) ** 2 - (P[:, 1] - (LABELS == 1)) ** 2
    row = found["T=2"].differences["class_brier(column=1)"]
    assert (row.value, row.se) == pytest.approx((change.mean(), change.std() / np.sqrt(1500)))
    pairs = found["T=2"].differences["auroc"]
    assert pairs.value == pytest.approx(roc_auc_score(RIGHT, after.max(axis=1)) - roc_auc_score(RIGHT, CONFIDENCE))
    assert 0 < pairs.se < found["T=2"].scorecard.auroc_se, "both vary together"
    assert found["T=2"].differences["covariance"].se is None
    assert found.tables["scores"].headers[-3:] == ("Brier of a class (column=1)", "AUROC", "covariance")
    assert "AUROC in points" in found.tables["differences"].headers
    assert "auroc_low" in found.to_dict()["methods"][0]


def test_a_bound_on_what_is_better_high_is_a_lower_one(registered):
    measured = evaluate(LOGITS, LABELS, metrics=["auroc"])["auroc"]
    limit = lambda reach: measured.value + reach * measured.se  # noqa: E731
    assert gate(LOGITS, LABELS, bounds={"auroc": limit(-2)}).verdict == "pass"
    assert gate(LOGITS, LABELS, bounds={Auroc(): limit(-1)}).verdict == "inconclusive"
    failed = gate(LOGITS, LABELS, bounds={metrics.auroc: limit(2), "class_brier(column=1)": 0.9})
    assert [each.verdict for each in failed.checks] == ["fail", "pass"]
    assert str(failed.checks[0]).startswith(
        f"fail: AUROC falls below {100 * limit(2):.6g} %: {100 * measured.value:.2f} %; 97.5 % upper bound "
    )
    assert failed.checks[0].low == pytest.approx(measured.value - norm.ppf(0.95) * measured.se)
    with pytest.raises(InputError, match=r"^A bound on covariance needs the standard error of the covariance"):
        gate(LOGITS, LABELS, bounds={"covariance": 0.01})
    with pytest.raises(InputError, match=r"be for metrics with a direction: lower or higher values are better, got 'conf"):
        gate(LOGITS, LABELS, bounds={"confidence": 0.5})
    with pytest.raises(InputError, match=r"^The bound on auroc must lie between 0 and 1, got 90. For 90 %, pass 0.9\.$"):
        gate(LOGITS, LABELS, bounds={"auroc": 90})


def test_a_registered_metric_is_a_function(registered):
    assert metrics.auroc(LOGITS, LABELS, temperature=2.0) == pytest.approx(
        roc_auc_score(RIGHT, reference.softmax(LOGITS, 2.0).max(axis=1))
    )
    assert metrics.class_brier(LOGITS, LABELS, column=1) == pytest.approx(((P[:, 1] - (LABELS == 1)) ** 2).mean())
    assert "auroc" in dir(metrics)
    assert pickle.loads(pickle.dumps(evaluate(LOGITS, LABELS, metrics=["auroc"]))).auroc_se > 0


def test_a_report_shows_it():
    found = nishimori.Report(LOGITS[:700], LABELS[:700], LOGITS[700:], LABELS[700:], metrics=[Auroc()])
    again = nishimori.Report.from_dict(json.loads(found.to_json()))
    value = 100 * evaluate(LOGITS[700:], LABELS[700:], metrics=[Auroc()]).auroc
    for text in (found.to_markdown(), again.to_markdown(), again.to_html()):
        assert "AUROC" in text
        assert f"{value:.2f} %" in text
    before, _, after = again.to_html().partition('id="methods-title"')
    assert "AUROC" in after.partition("</section>")[0]
    assert "AUROC" not in before, "the table of temperatures has none"


def test_torch_tensors_and_loaders_are_measured():
    torch = pytest.importorskip("torch")
    z, y = torch.from_numpy(LOGITS), torch.from_numpy(LABELS)
    card = evaluate(z, y, metrics=[Auroc(), ClassBrier(1)])
    expected = evaluate(LOGITS, LABELS, metrics=[Auroc(), ClassBrier(1)])
    assert card.to_dict() == pytest.approx(expected.to_dict(), rel=1e-9)


def test_the_shell_measures_and_bounds_it(tmp_path):
    np.savez(tmp_path / "test.npz", logits=LOGITS, labels=LABELS)
    run = partial(shell.nishimori, place=tmp_path)
    code, out, _ = run("eval test.npz --metrics own_metrics:Auroc,own_metrics:ClassBrier(column=2) --json")
    told = json.loads(out)["before"]
    assert code == 0
    assert told["auroc"] == pytest.approx(roc_auc_score(RIGHT, CONFIDENCE))
    assert told["class_brier(column=2)"] == pytest.approx(((P[:, 2] - (LABELS == 2)) ** 2).mean())
    assert "AUROC" in run("compare test.npz --metrics own_metrics:Auroc").out
    assert run("gate test.npz --bound own_metrics:Auroc=99%").code == 3


def own(name="wrong", **members):
    return type("Wrong", (nishimori.Metric,), {"name": name, **members})


WRONG = {
    "none": ({}, r"^The metric Wrong must have one of the methods of_rows, sums, of_outcomes, got none of them\.$"),
    "two": ({"of_rows": len, "sums": len}, r"must have one of the methods of_rows, sums, of_outcomes, got of_rows, sums\.$"),
    "no name": ({"of_rows": len, "name": None}, r"^`Wrong\.name` must be a word .* got None"),
    "a sentence": ({"of_rows": len, "name": "my metric"}, r"^`Wrong\.name` must be a word of letters, digits and underscores"),
    "a direction": ({"of_rows": len, "direction": "up"}, r"^`Wrong\.direction` must be 'lower', 'higher' or None, got 'up'\.$"),
}


@pytest.mark.parametrize(("members", "message"), WRONG.values(), ids=WRONG)
def test_a_class_that_is_no_metric_is_refused_when_it_is_written(members, message):
    with pytest.raises(InputError, match=message):
        type("Wrong", (nishimori.Metric,), {"name": "wrong", **members})


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda p: p.probabilities, r"^`Wrong\.of_rows` must return an array of shape \(1500,\), got \(1500, 4\)\.$"),
        (lambda p: 1.0, r"^`Wrong\.of_rows` must return an array of shape \(1500,\), got float\.$"),
        (lambda p: np.where(np.arange(1500) == 7, np.nan, 0), r"^`Wrong\.of_rows` must return numbers for all rows, got NaN"),
    ],
    ids=["a table", "a number", "NaN"],
)
def test_wrong_numbers_per_row_are_refused(returned, message):
    metric = type("Wrong", (nishimori.Metric,), {"name": "wrong", "of_rows": lambda self, p: returned(p)})()
    with pytest.raises(InputError, match=message):
        evaluate(LOGITS, LABELS, metrics=[metric])


def test_a_name_that_is_taken_is_refused(registered):
    with pytest.raises(InputError, match=r"^The metric's name must be new, got 'nll', which is the name of Nll\."):
        nishimori.register("nll", type("Mine", (nishimori.Metric,), {"name": "nll", "of_rows": len})())
    nishimori.register(Auroc.name, Auroc())  # the same again
    with pytest.raises(InputError, match=r"^`metrics` must have different names, got two metrics called 'auroc'"):
        evaluate(LOGITS, LABELS, metrics=[Auroc(), type("Other", (Auroc,), {})()])


def test_parts_of_the_data_may_have_no_such_metric():
    labels = np.where(np.arange(1500) == 3, LABELS, LOGITS.argmax(axis=1))
    labels[3] = (LOGITS[3].argmax() + 1) % 4  # the one wrong answer
    found = evaluate(LOGITS, labels, metrics=[Auroc()])["auroc"]
    assert (found.value > 0, found.se) == (True, None)
    with pytest.raises(InputError, match=r"of auroc, which is not known: the metric does not exist for some parts of the data"):
        found.interval()


@pytest.mark.parametrize("name", ["temperature", "group_gap", "n_samples", "to_dict"])
def test_names_that_results_use_are_refused(name):
    with pytest.raises(InputError, match=rf"^`Wrong\.name` must be a different word, got '{name}', which results use"):
        own(name, of_rows=lambda self, p: p.confidence)


@pytest.mark.parametrize("sums", [(1.0, 2.0), [1.0], {"a": 1.0}, None], ids=str)
def test_sums_that_do_not_add_as_numbers_do_are_refused(sums):
    metric = own(sums=lambda self, p: sums, of_sums=lambda self, s: (0.0, None))()
    with pytest.raises(InputError, match=r"^`Wrong\.sums` must return a sum that supports \+, got .* Return an array"):
        evaluate(LOGITS, LABELS, metrics=[metric])


@pytest.mark.parametrize("returned", [3.0, (1.0,), ("a", None), (np.nan, None)], ids=str)
def test_sums_that_give_no_value_with_its_error_are_refused(returned):
    metric = own(sums=lambda self, p: p.weights.sum(), of_sums=lambda self, s: returned)()
    with pytest.raises(InputError, match=r"^`Wrong\.of_sums` must return the value and its standard error or None, got "):
        evaluate(LOGITS, LABELS, metrics=[metric])


def test_a_value_beyond_its_bounds_is_refused():
    metric = own(of_rows=lambda self, p: 5 + p.confidence, bounds=(0.0, 1.0))()
    with pytest.raises(InputError, match=r"^`Wrong\.bounds` must hold the metric of these data, 5\.\d+, got \(0\.0, 1\.0\)\.$"):
        evaluate(LOGITS, LABELS, metrics=[metric])


def test_no_spread_at_the_end_of_the_range_proves_nothing():
    right = LOGITS.argmax(axis=1)
    metric = own(of_outcomes=lambda self, c, k, w: float(w @ ~k / w.sum()), bounds=(0.0, 1.0))()
    (check,) = gate(LOGITS, right, bounds={metric: 0.001}).checks
    assert (check.verdict, check.value, check.low, check.high) == ("inconclusive", 0.0, 0.0, 1.0)
    assert gate(LOGITS, right, bounds={"error": 0.001}).verdict == "inconclusive"


def test_what_was_asked_for_is_shown_also_where_predictions_agree():
    found = compare(
        LOGITS, LABELS, methods=("none", "ts"), metrics=["top_n_accuracy(top_n=2)", own(of_rows=_hesitation, direction=None)()]
    )
    assert found.tables["scores"].headers[-2:] == ("top-N accuracy (top_n=2)", "wrong")


def _hesitation(self, predictions):
    return 1 - predictions.confidence


def test_top_k_lists_do_not_tell_which_column_is_which_class():
    order = np.argsort(-LOGITS, axis=1)[:, :3]
    lists = nishimori.TopK(order, np.take_along_axis(np.log(P), order, axis=1), 4)
    sure = evaluate(lists, LABELS, metrics=[own(of_rows=_hesitation, needs="top")()])["wrong"]
    assert sure.value == pytest.approx(1 - CONFIDENCE.mean())
    unsure = own(of_rows=lambda self, p: 1.0 * (p.labels == 3), needs="top")()
    with pytest.raises(InputError, match=r"^A metric of top-k log-probabilities must not use `labels`: their columns"):
        evaluate(lists, LABELS, metrics=[unsure])


def test_sums_know_clusters_and_counts():
    seen = {}

    def sums(self, predictions):
        seen.update(clusters=predictions.clusters, counts=predictions.counts)
        return predictions.weights.sum()

    metric = own(sums=sums, of_sums=lambda self, s: (0.0, None))()
    evaluate(LOGITS, LABELS, metrics=[metric], clusters=CLUSTERS)
    assert (seen["clusters"] == CLUSTERS).all()
    evaluate(LOGITS, LABELS, metrics=[metric], sample_weight=WEIGHTS, counts=True)
    assert (seen["clusters"], seen["counts"]) == (None, True)
