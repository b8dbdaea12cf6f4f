"""Metrics by name: what there is, what is asked for besides, and how each gets its standard error."""

from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
import reference

import nishimori
from nishimori import evaluate, metrics
from nishimori._evaluation.metrics import table
from nishimori.errors import InputError

LOGITS, LABELS = reference.drawn(500, 6)
WEIGHTS = np.random.default_rng(1).exponential(size=500)
CLUSTERS = np.arange(500) // 5
UNITS = pytest.mark.parametrize("units", [{}, {"counts": True}, {"clusters": CLUSTERS}], ids=["rows", "counts", "clusters"])


@UNITS
@pytest.mark.parametrize("name", ["error", "accuracy", "confidence", "nll", "brier"])
def test_a_metric_has_the_error_of_its_mean(name, units):
    found = evaluate(LOGITS, LABELS, temperature=1.7, sample_weight=WEIGHTS, **units)[name]
    scores = reference.scores(LOGITS, LABELS, 1.7)[name]
    assert found.value == pytest.approx(np.average(scores, weights=WEIGHTS))
    assert found.se == pytest.approx(reference.error_of_mean(scores, WEIGHTS, **units))
    low, high = found.interval()
    assert low < found.value < high


@UNITS
def test_top_n_accuracy_has_the_error_of_a_share(units):
    name = "top_n_accuracy(top_n=2)"
    found = evaluate(LOGITS, LABELS, metrics=[name], sample_weight=WEIGHTS, **units)[name]
    right = reference.right(LOGITS, LABELS, 2)
    assert found.value == pytest.approx(np.average(right, weights=WEIGHTS))
    assert found.se == pytest.approx(reference.error_of_mean(right, WEIGHTS, **units))
    p, z = found.value, 1.959963984540054
    number = p * (1 - p) / found.se**2
    roots = np.roots([1 + z**2 / number, -(2 * p + z**2 / number), p**2])
    assert found.interval() == pytest.approx(sorted(roots))


def test_an_answer_that_is_always_right_has_an_interval():
    found = evaluate(LOGITS, LABELS, metrics=["top_n_accuracy(top_n=6)"])["top_n_accuracy(top_n=6)"]
    low, high = found.interval()
    assert (found.value, found.se, high) == (1, 0, 1)
    assert low == pytest.approx(1 - 1.959964**2 / (500 + 1.959964**2))


def test_what_has_no_error_says_why_and_has_no_interval():
    masked = LOGITS.copy()
    masked[0, LABELS[0]] = -np.inf
    infinite = evaluate(masked, LABELS)["nll"]
    assert (infinite.value, infinite.se) == (np.inf, None)
    with pytest.raises(InputError, match=r"error of nll, which is not known: the loss is infinite or too large"):
        infinite.interval()
    alone = evaluate(LOGITS[:1], LABELS[:1], metrics=[metrics.ks])
    assert {each.why_no_se for each in alone.estimates.values()} == {"there is only one sample."}
    with pytest.raises(InputError, match=r"error of ks, which is not known: ks has none\.$"):
        evaluate(LOGITS, LABELS, metrics=["ks"]).interval("ks")


def test_a_metric_is_asked_for_by_name_by_its_function_or_with_its_parameters():
    card = evaluate(LOGITS, LABELS, metrics=["ks", metrics.smooth_ece, "top_n_accuracy(top_n=3)"])
    assert card.ks == metrics.ks(LOGITS, LABELS)
    assert card.smooth_ece == metrics.smooth_ece(LOGITS, LABELS)
    assert card["top_n_accuracy(top_n=3)"].value == metrics.top_n_accuracy(LOGITS, LABELS, top_n=3)
    assert list(card.estimates)[-3:] == ["ks", "smooth_ece", "top_n_accuracy(top_n=3)"]
    assert "ks" not in evaluate(LOGITS, LABELS).estimates, "what needs a sort is measured only when it is asked for"


def test_every_metric_is_a_function_with_its_parameters_in_its_help():
    for name in dir(metrics):
        found = getattr(metrics, name)
        if hasattr(found, "metric"):
            assert (found.__name__, found.__module__) == (name, "nishimori.metrics")
            assert "logits, labels\n    Scores and true classes" in found.__doc__
            assert "sample_weight : array" in found.__doc__
            assert found.__doc__.count("Parameters\n---") == 1
    assert "top_n : int" in metrics.top_n_accuracy.__doc__
    with pytest.raises(AttributeError, match="has no attribute 'roc'"):
        metrics.roc  # noqa: B018


REFUSED = {
    "another name": (
        ["nnl"],
        r"^`metrics` must be one of error, .*, or package.module:Name, got 'nnl'\. Did you mean 'nll'\?$",
    ),
    "a name alone": ("nll", r"^`metrics` must be a list of metrics or their names, got 'nll'\. Pass `\['nll'\]`\.$"),
    "a function": ([np.mean], r"^`metrics` must hold metrics, their functions or their names, got <"),
    "a curve": ([metrics.reliability], r"^`metrics` must hold metrics, their functions or their names, got <"),
    "bins": (["ece(n_bins=3)"], r"^`metrics` must have 'ece' without parameters: `n_bins` and `strategy` choose the bins"),
    "a parameter": (["ks(top_n=3)"], r"^The metric ks must have the parameters of, got 'ks\(top_n=3\)'\.$"),
    "brackets": (["ks(of="], r"^`metrics` must have parameters as in top_n_accuracy\(top_n=3\), got 'ks\(of='\.$"),
    "a call": (["ks(of=print(1))"], r"^`metrics` must have parameters as in"),
    "too many": (["top_n_accuracy(top_n=7)"], r"^`top_n` must be a whole number from 1 to 6, the number of classes, got 7\.$"),
    "no module": (["nowhere:Metric"], r"^`nowhere:Metric` must be importable as package.module:Name, got ModuleNotFoundError"),
    "no metric": (["math:sqrt"], r"^The metric 'math:sqrt' must be a nishimori\.Metric, got <built-in function sqrt>\.$"),
}


@pytest.mark.parametrize(("asked", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_metric_is_refused(asked, message):
    with pytest.raises(InputError, match=message):
        evaluate(LOGITS, LABELS, metrics=asked)


def test_a_sketch_refuses_what_it_does_not_keep():
    sketch = nishimori.Sketch().update(LOGITS, LABELS)
    with pytest.raises(
        InputError, match=r"^`metrics` must be metrics that a Sketch supports, got 'ks'\. Pass logits and labels\.$"
    ):
        evaluate(sketch, metrics=["ks"])
    assert evaluate(sketch)["brier"].se is None
    assert evaluate(sketch)["ece"].se > 0


def test_top_k_lists_say_what_they_do_not_tell():
    log_p = LOGITS - np.log(np.exp(LOGITS).sum(axis=1, keepdims=True))
    order = np.argsort(-log_p, axis=1)[:, :3]
    card = evaluate(nishimori.TopK(order, np.take_along_axis(log_p, order, axis=1), 6), LABELS, metrics=["ks"])
    assert np.isnan([card.brier, card.ks]).all()
    assert "Pass all logits" in card.why_no_se["ks"]
    assert card.confidence == pytest.approx(evaluate(LOGITS, LABELS).confidence)


def test_an_installed_package_adds_a_metric_that_is_imported_when_it_is_used(monkeypatch):
    points = [EntryPoint("auroc", "own_metrics:Auroc", table.GROUP), EntryPoint("broken", "nowhere:Metric", table.GROUP)]
    monkeypatch.setattr(table, "entry_points", lambda group: points)
    monkeypatch.setattr(table, "_registered", {})
    right = LOGITS.argmax(axis=1) == LABELS
    confidence = reference.softmax(LOGITS).max(axis=1)
    wins = (confidence[right][:, None] > confidence[~right]).mean()
    assert evaluate(LOGITS, LABELS, metrics=["auroc"]).auroc == pytest.approx(wins)
    assert {"auroc", "broken"} <= set(dir(metrics))
    with pytest.raises(InputError, match=r"^The metric 'broken' cannot be imported from nowhere:Metric: ModuleNotFoundError"):
        evaluate(LOGITS, LABELS, metrics=["broken"])


def test_every_metric_has_its_row_in_the_documentation():
    page = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text(encoding="utf-8").partition("## ")[0]
    assert [name for name in table.built_in() if f"`{name}`" not in page] == []
