"""What a comparison recommends: its numbers are those of plain NumPy, and no two of its sentences contradict each other."""

import re
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import reference
from optional import torch
from scipy.stats import norm
from small_calibrators import Shifted

import nishimori
from nishimori import Report, compare
from nishimori._evaluation.comparison import Compared
from nishimori._evaluation.metrics.metric import Difference
from nishimori._evaluation.recommendation import recommend

LEVEL = 0.95
MINUS = "−"


def drawn(kind, n, seed, k=4):
    """Logits of a model, labels, and groups; what is wrong with the model is its kind."""
    rng = np.random.default_rng(seed)
    truth = 2 * rng.normal(size=(n, k))
    groups = np.array(["east", "north", "south"])[rng.integers(3, size=n)]
    logits = {
        "calibrated": truth,
        "scaled": 2.5 * truth,
        "class-biased": truth + np.linspace(-1.5, 1.5, k),
        "group-biased": truth * np.where(groups == "north", 4.0, 1.0)[:, None],
        "noisy": 1.2 * truth + 0.3 * rng.normal(size=truth.shape),
    }[kind]
    return logits, (truth + rng.gumbel(size=truth.shape)).argmax(axis=1), groups


KINDS = ("calibrated", "scaled", "class-biased", "group-biased", "noisy")
SIZES = (40, 400, 3000)


def fitted_methods(logits, labels, groups):
    """All methods by name, fitted; the name alone of those that cannot be, so that the comparison says why."""
    made = {}
    for name in ("adaptive", "none", "ts", "ec", "bias", "vector", "group"):
        calibrator = nishimori.calibrator(name, **({"by": "groups"} if name == "group" else {}))
        try:
            made[name] = calibrator.fit(logits, labels, **({"groups": groups} if name == "group" else {}))
        except nishimori.errors.NishimoriError:
            made[name] = name
    return made


def losses(calibrator, logits, labels, groups):
    given = {"groups": groups} if type(calibrator).__name__ == "GroupConsistency" else {}
    p = calibrator.predict_proba(logits, **given)
    return -np.log(p[np.arange(len(labels)), labels])


def is_lower(a, b):
    """Whether the mean of a is significantly lower than that of b, row by row."""
    change = a - b
    error = change.std() / np.sqrt(len(change))
    if abs(change.mean()) < 1e-12:  # as of groups that all have the common temperature
        return False
    return change.mean() < 0 and 2 * norm.sf(-change.mean() / error) < 1 - LEVEL if error else change.mean() < 0


def contradictions(sentences):
    """Pairs of statements that exclude each other, as far as both are there."""
    text = " ".join(sentences)
    says = {
        "nothing to do": "Nothing has to be done" in text,
        "leave": "Leave the model as it is" in text,
        "use": re.search(r"(^|[.,] )[Uu]se ", text) is not None,
        "no gain": "Inconclusive: " in text,
        "the same": re.search(r"(None of [^.:]* has|\S+ does not have) a significantly lower NLL\.", text) is not None,
        "lower than the simplest": "Its NLL is significantly lower than that of" in text,
        "a gap": re.search(r"[1-9]\d* of \d+ gaps? (is|are) significant|which is significant", text) is not None,
        "not enough": "not enough" in text,
        "not rejected": "not rejected" in text,
        "temperatures differ": "differ significantly (p" in text.replace("do not differ significantly", ""),
        "temperatures do not differ": "do not differ significantly (p" in text,
    }
    excluded = [
        ("nothing to do", "leave"),
        ("nothing to do", "use"),
        ("nothing to do", "no gain"),
        ("nothing to do", "a gap"),
        ("leave", "use"),
        ("leave", "no gain"),
        ("the same", "lower than the simplest"),
        ("not enough", "not rejected"),
        ("temperatures differ", "temperatures do not differ"),
    ]
    return [pair for pair in excluded if says[pair[0]] and says[pair[1]]]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_contradicted_and_no_row_is_significantly_better_than_the_best(kind, n, seed):
    validation, test = drawn(kind, n, seed), drawn(kind, n, seed + 100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few samples
        methods = fitted_methods(*validation)
        options = {"groups": validation[2], "test_groups": test[2]}
        found = compare(*validation[:2], *test[:2], methods=methods, **options)
    assert contradictions(found.verdicts) == []
    advised = found.recommendation
    own = {
        each.method: losses(methods[each.method], *test)
        for each in found
        if each.scorecard is not None and len(set(test[1])) > 1
    }
    for name, each in own.items():
        assert found[name].scorecard.nll == pytest.approx(each.mean(), rel=1e-6)
    chosen = "none" if advised.best is None else advised.best.method
    assert advised.best is not None or advised.action in ("leave", "nothing", "open")
    assert own[chosen].mean() <= own["none"].mean()
    for name, each in own.items():
        assert not is_lower(each, own[chosen]), (chosen, name, found.verdicts)
    gains = [name for name, each in own.items() if is_lower(each, own["none"])]
    assert (advised.action == "calibrate") == bool(gains)
    assert any(each.startswith("Nothing has to be done") for each in found.verdicts) == (advised.action == "nothing")
    if advised.best is not None and advised.simplest is not None and advised.best.method != advised.simplest.method:
        assert own[advised.best.method].mean() < own[advised.simplest.method].mean()
    moved = {name: methods[name].predict_proba(test[0]).argmax(axis=1) != test[0].argmax(axis=1) for name in ("bias", "vector")}
    assert advised.choice == "none" or advised.choice is None or own[advised.choice].mean() <= own["none"].mean()
    if advised.other is not None:
        assert moved[advised.other].any()
        assert advised.choice == advised.simplest.method
        assert own[advised.other].mean() < own[advised.choice].mean()
    elif advised.action in ("calibrate", "open") and advised.best is not None:
        # The choice is the best of all, and where that changes predictions no temperature is as good.
        assert advised.choice == advised.best.method
        assert advised.simplest is None or not moved.get(advised.choice, np.zeros(1)).any()


@pytest.mark.parametrize("n", [60, 1500])
@pytest.mark.parametrize("kind", KINDS)
def test_the_report_says_what_the_comparison_recommends_and_does_not_contradict_it(kind, n):
    validation, test = drawn(kind, n, 7), drawn(kind, n, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = Report(*validation[:2], *test[:2], groups=validation[2], test_groups=test[2])
    told = report.to_dict()
    verdict, advised = told["verdict"], told["recommendation"]
    text = [verdict["headline"], verdict["summary"], verdict["advice"], verdict["classes"], verdict["groups"]]
    assert contradictions([*text, *verdict["sentences"]]) == []
    assert verdict["advice"] == " ".join(advised["sentences"])
    wrong = verdict["status"] in ("overconfident", "underconfident", "uneven")
    assert not (wrong and advised["action"] == "nothing")
    assert not (verdict["status"] == "calibrated" and advised["action"] == "calibrate")
    best = told["best"]
    rows = {each["method"]: each for each in told["methods"]}
    if advised["action"] == "calibrate":
        assert best is not None
        # Nothing that the table shows is significantly better: what it is better by would be in its own p-value.
        assert rows[best]["nll"] <= rows[told["recommended"] or "none"]["nll"]
    assert {"bias", "vector", "class temperatures", "group temperatures"} <= set(rows)


def test_the_share_of_changed_predictions_is_the_weighted_share_of_rows_with_another_class():
    logits, labels, groups = drawn("class-biased", 900, 0)
    weights = np.random.default_rng(1).uniform(0.5, 3, 900)
    methods = {"none": "none", "vector": nishimori.VectorScaling(), "group": "group", "shifted": Shifted(by=3.0)}
    found = compare(logits, labels, methods=methods, sample_weight=weights)
    vector = nishimori.VectorScaling().fit(logits, labels, weights)
    moved = vector.predict_proba(logits).argmax(axis=1) != logits.argmax(axis=1)
    assert moved.any()
    assert found["vector"].changed_predictions == pytest.approx(weights[moved].sum() / weights.sum(), rel=1e-12)
    shifted = (logits - logits.mean(axis=1, keepdims=True)) / 2 + np.array([3.0, 0, 0, 0])
    moved = shifted.argmax(axis=1) != logits.argmax(axis=1)
    assert found["shifted"].changed_predictions == pytest.approx(weights[moved].sum() / weights.sum(), rel=1e-12)
    assert found["none"].changed_predictions == found["group"].changed_predictions == 0
    assert found.to_dict()["methods"][1]["changed_predictions"] == found["vector"].changed_predictions
    in_torch = compare(torch.tensor(logits), torch.tensor(labels), methods=methods, sample_weight=torch.tensor(weights))
    assert in_torch["vector"].changed_predictions == pytest.approx(found["vector"].changed_predictions, rel=1e-9)
    batches = [(logits[i : i + 250], labels[i : i + 250], weights[i : i + 250]) for i in range(0, 900, 250)]
    in_pieces = compare(batches, methods=methods)
    assert in_pieces["vector"].changed_predictions == pytest.approx(found["vector"].changed_predictions, rel=1e-6)
    assert groups is not None


@pytest.fixture(scope="module")
def biased():
    validation, test = drawn("class-biased", 3000, 0), drawn("class-biased", 3000, 1)
    return validation[:2], test[:2]


@pytest.mark.parametrize(
    "methods",
    [("none", "ts", "ec", "adaptive", "vector"), ("adaptive", "vector", "none", "ts"), ("vector", "adaptive", "none")],
)
def test_numbers_are_those_of_the_probabilities_in_any_order_of_methods(biased, methods):
    validation, test = biased
    found = compare(*validation, *test, methods=methods)
    advised = found.recommendation
    assert (advised.reference, advised.as_is, advised.action) == ("none", "none", "calibrate")
    assert (advised.simplest.method, advised.best.method) == ("adaptive", "vector")
    rows = np.arange(3000)
    p = {"none": reference.softmax(test[0]), "adaptive": reference.softmax(test[0], advised.simplest.temperature)}
    p["vector"] = nishimori.VectorScaling().fit(*validation).predict_proba(test[0])
    nll = {name: -np.log(each[rows, test[1]]) for name, each in p.items()}
    wrong = {name: (each.argmax(axis=1) != test[1]).astype(float) for name, each in p.items()}
    ece = {
        name: reference.ece(each.max(axis=1), each.argmax(axis=1) == test[1], np.linspace(0, 1, 16)) for name, each in p.items()
    }
    for own in (advised.simplest, advised.best):
        name = own.method
        assert own.nll_percent == pytest.approx(100 * (nll[name].mean() / nll["none"].mean() - 1), rel=1e-5)
        assert own.error_points == pytest.approx(100 * (wrong[name].mean() - wrong["none"].mean()))
        assert own.ece_points == pytest.approx(100 * (ece[name] - ece["none"]), rel=1e-5)
        change = nll[name] - nll["none"]
        z = change.mean() / (change.std() / np.sqrt(3000))
        assert own.nll_p_value == pytest.approx(2 * norm.sf(abs(z)), rel=1e-2)
    moved = p["vector"].argmax(axis=1) != test[0].argmax(axis=1)
    assert advised.best.changed_predictions == pytest.approx(moved.mean())
    change = nll["vector"] - nll["adaptive"]
    assert np.log(advised.p_value) == pytest.approx(
        np.log(2) + norm.logsf(-change.mean() / (change.std() / np.sqrt(3000))), rel=1e-3
    )
    best = advised.best
    share = 100 * moved.mean()
    among = [name for name in ("none", "adaptive", "ec", "ts") if name in methods]
    assert found.verdicts[1].startswith(
        f"If predictions may change, use vector, the best of {', '.join(among)} and vector: "
        f"error {MINUS}{-best.error_points:.{0 if best.error_points <= -10 else 1}f} points, NLL "
        f"{MINUS}{-best.nll_percent:.0f} %, ECE {MINUS}"
    )
    assert f"; it changes {share:{'.0f' if share >= 10 else '.2g'}} % of the predictions. Its NLL is" in found.verdicts[1]
    se = found["adaptive"].temperature_se
    T = f"{advised.simplest.temperature:.{1 - int(np.floor(np.log10(se)))}f}"
    assert found.verdicts[0].startswith(f"Use adaptive (T = {T} ± ")
    assert found.verdicts[0].endswith(" points compared with no calibration; it changes no prediction.")
    assert (advised.choice, advised.other, advised.methods) == ("adaptive", "vector", ("adaptive", "vector"))
    told = found.to_dict()["recommendation"]
    assert (told["best"]["method"], told["best"]["nll_percent"]) == ("vector", best.nll_percent)
    assert told["sentences"] == list(found.verdicts[:2])


@pytest.mark.parametrize(
    ("methods", "simplest"),
    [
        (("none", "ts", "ec", "adaptive"), "adaptive"),
        (("none", "ts", "ec"), "ec"),
        (("none", "ts"), "ts"),
        (("vector", "ts", "none"), "ts"),
        ({"mine": "ec", "none": "none", "ts": "ts"}, "ts"),
        ({"none": "none", "mine": "ec"}, "mine"),
        (("none", 2.0), "T=2"),
        (("none", "vector"), None),
    ],
)
def test_the_simplest_is_the_first_of_adaptive_ec_ts_and_others_of_one_temperature(biased, methods, simplest):
    found = compare(*biased[0], *biased[1], methods=methods).recommendation
    assert (None if found.simplest is None else found.simplest.method) == simplest


def test_no_calibration_is_what_divides_by_one_whatever_it_is_called(biased):
    for methods in ({"raw": "none", "ec": "ec"}, (1.0, "ec")):
        found = compare(*biased[0], *biased[1], methods=methods).recommendation
        assert found.reference == found.as_is == next(iter(methods if isinstance(methods, dict) else ["T=1"]))
        assert found.simplest.method == "ec"
        assert found.best.method == "ec"


def test_without_no_calibration_changes_are_those_from_the_first_method_and_it_is_named(biased):
    found = compare(*biased[0], *biased[1], methods=("vector", "ts", "ec"))
    advised = found.recommendation
    assert (advised.reference, advised.as_is, advised.action) == ("vector", None, None)
    assert (advised.simplest.method, advised.best.method) == ("ec", "vector")
    assert re.match(r"Use ec \(T = \S+ ± \S+\): NLL \+.* compared with vector; it changes no prediction\.$", found.verdicts[0])
    assert (advised.choice, advised.other) == ("ec", "vector")
    assert advised.best.nll_percent is None
    assert advised.simplest.nll_percent == pytest.approx(100 * (found["ec"].scorecard.nll / found["vector"].scorecard.nll - 1))
    turned = compare(*biased[0], *biased[1], methods=("ts", "vector"))
    assert re.match(r"Use ts \(T = \S+ ± \S+\); it changes no prediction\.$", turned.verdicts[0])
    best = "use vector, the best of ts and vector: error −"
    assert re.match(rf"If predictions may change, {best}.* compared with ts; it changes", turned.verdicts[1])
    alone = compare(*biased[0], *biased[1], methods=("none", "vector"))
    assert re.match(r"Use vector, the best of none and vector: error −.* compared with no calibration; it", alone.verdicts[0])
    assert (alone.recommendation.choice, alone.recommendation.other) == ("vector", None)


def test_a_calibrated_model_needs_nothing_and_a_shifted_method_makes_it_worse():
    validation, test = drawn("calibrated", 3000, 3), drawn("calibrated", 3000, 4)
    found = compare(*validation[:2], *test[:2])
    assert found.recommendation.action == "nothing"
    others = "adaptive, ec, ts, class temperatures, bias and vector"
    assert found.verdicts[0].startswith(f"Nothing has to be done: none of {others} has a significantly lower NLL than no cal")
    simplest = found.recommendation.simplest
    assert (simplest is None) == all(
        found[each].scorecard.nll > found["none"].scorecard.nll for each in ("adaptive", "ec", "ts")
    )
    assert simplest is None or "(not significant)" in simplest.changes(LEVEL)
    assert (found.recommendation.choice, found.recommendation.other) == ("none", None)
    assert not any(re.match("Use|If", each) for each in found.verdicts)
    harmful = compare(*validation[:2], *test[:2], methods=("none", 3.0))
    assert harmful.recommendation.action == "leave"
    assert (harmful.recommendation.best, harmful.recommendation.choice) == (None, "none")
    assert harmful.verdicts[0] == (
        "Leave the model as it is: no calibration has a significantly lower NLL than T=3, and T=3 does not have a "
        "significantly lower one."
    )


def test_several_parameters_are_not_judged_on_the_data_that_they_were_fitted_to():
    """The parameters of a matrix lower the NLL of 60 samples that need no calibration, seemingly beyond chance."""
    logits, labels, _ = drawn("calibrated", 60, 1)
    found = compare(logits, labels, methods=("none", "adaptive", "matrix"))
    assert found.to_dict()["methods"][2]["nll_difference_p"] < 0.05
    assert found["matrix"].scorecard.nll < found["none"].scorecard.nll
    advised = found.recommendation
    assert (advised.simplest is None) == (found["adaptive"].scorecard.nll > found["none"].scorecard.nll)
    assert (advised.best, advised.p_value) == (None, None)
    assert advised.action == "nothing"
    assert advised.sentences[0].startswith("Nothing has to be done: adaptive does not have a significantly lower NLL")


def test_without_test_data_the_best_is_known_of_temperatures_only(biased):
    validation, _ = biased
    unknown = (
        "Whether another method is better is not known, because methods were measured on the data that they were fitted to. "
        "Pass test data."
    )
    advised = compare(*validation, methods=("none", "adaptive", "vector")).recommendation
    assert (advised.best, advised.sentences[-1]) == (None, unknown)
    assert compare(*validation, methods=("none", "ts", "ec")).recommendation.best is not None
    assert compare(*validation, methods=("bias", "vector")).recommendation.sentences == (unknown,)


def test_a_sketch_does_not_tell_the_best():
    logits, labels, _ = drawn("scaled", 800, 0)
    found = compare(nishimori.Sketch().update(logits, labels), methods=("none", "ts", "ec"))
    advised = found.recommendation
    assert (advised.simplest.method, advised.best, advised.p_value, advised.action) == ("ec", None, None, None)
    assert advised.simplest.nll_percent == pytest.approx(
        100 * (reference.nll(logits, labels, advised.simplest.temperature) / reference.nll(logits, labels) - 1), rel=1e-3
    )
    assert (advised.choice, advised.other) == ("ec", None)
    unknown = "Whether another method is better is not known, because the differences between methods have no standard errors."
    assert unknown in found.verdicts


def stub(method, nll, temperature=None, se=0.1, gap=0.0):
    """A row of a comparison of which only the NLL is known."""
    metric = SimpleNamespace(value=0.1)
    estimates = {"gap": SimpleNamespace(value=gap, se=0.01)}
    numbers = {"nll": nll, "ece_se": None, "of_claims": False, "estimates": estimates, "__getitem__": lambda self, name: metric}
    card = type("Card", (), numbers)()
    return Compared(method, temperature, se, interval=None, scorecard=card, differences={}, changed_predictions=0.0)


def test_the_best_is_reached_over_methods_that_are_surely_better():
    # The lowest loss, of c, is not significantly lower than that of ts; that of b is, and that of c is than that of b.
    rows = [stub("ts", 1.0, 2.0), stub("b", 0.9), stub("c", 0.89)]
    p = {("ts", "b"): 0.001, ("ts", "c"): 0.06, ("b", "c"): 0.01}

    def difference(first, second, metric):
        by_name = {each.method: each.scorecard.nll for each in rows}
        known = p.get((first, second), p.get((second, first)))
        return Difference(by_name[second] - by_name[first], 0.1, known if metric == "nll" else 1.0)

    found = recommend(rows, difference, 0.95, off_in_validation=False)
    assert (found.best.method, found.p_value) == ("c", 0.06)
    assert "Its NLL is significantly lower" not in " ".join(found.sentences)
    p["b", "c"] = 0.2
    assert recommend(rows, difference, 0.95, off_in_validation=False).best.method == "b"
    p["ts", "b"] = 0.2
    assert recommend(rows, difference, 0.95, off_in_validation=False).best.method == "ts"


@pytest.mark.parametrize(("gap", "off_in_validation"), [(0.0, False), (0.1, False), (0.0, True)])
def test_nothing_has_to_be_done_only_where_confidence_equals_accuracy_too(gap, off_in_validation):
    rows = [stub("raw", 1.0, 1.0, None, gap), stub("ts", 0.99, 2.0)]

    def difference(first, second, metric):
        return Difference(0.01 if second == "raw" else -0.01, 0.1, 0.9)

    found = recommend(rows, difference, 0.95, off_in_validation=off_in_validation)
    assert found.action == ("open" if gap or off_in_validation else "nothing")
    said = found.sentences[0]
    if found.action == "nothing":
        assert said.startswith("Nothing has to be done: ts does not have a significantly lower NLL than no calibration, and ")
    else:
        where = " on the validation data" if off_in_validation else ""
        assert said == (
            "Inconclusive: ts does not have a significantly lower NLL than no calibration, although mean confidence differs "
            f"significantly from accuracy{where}."
        )


def test_a_lower_loss_with_a_higher_calibration_error_is_said():
    rows = [stub("ts", 1.0, 2.0), stub("b", 0.9)]

    def difference(first, second, metric):
        sign = 1 if (first, second) == ("ts", "b") else -1
        return Difference(sign * (-0.1 if metric == "nll" else 0.034), 0.001, 1e-5)

    (said,) = recommend(rows, difference, 0.95, off_in_validation=False).sentences
    assert said.startswith("Use b, the best of ts and b: ")  # which changes no prediction either
    assert said.endswith("But its ECE is significantly higher than that of ts, by 3.4 points.")


def group_gaps(p, labels, groups):
    """Confidence minus accuracy of each group, with its p-value after Holm's correction."""
    names, found = np.unique(groups), {}
    for name in names:
        inside = groups == name
        own = p[inside].max(axis=1)
        misses = own - (p[inside].argmax(axis=1) == labels[inside])
        error = np.sqrt(max(misses.var(), (own * (1 - own)).mean()) / inside.sum())
        found[name] = misses.mean(), 2 * norm.sf(abs(misses.mean() / error))
    order = sorted(names, key=lambda name: found[name][1])
    running, adjusted = 0.0, {}
    for place, name in enumerate(order):
        running = max(running, min(1.0, found[name][1] * (len(names) - place)))
        adjusted[name] = running
    return {name: (found[name][0], adjusted[name]) for name in names}


def test_named_groups_are_judged_after_the_methods_to_use():
    validation, test = drawn("group-biased", 3000, 0), drawn("group-biased", 3000, 1)
    options = {"groups": validation[2], "test_groups": test[2]}
    found = compare(*validation[:2], *test[:2], methods=("none", "adaptive", "group"), **options)
    assert (found.recommendation.simplest.method, found.recommendation.best.method) == ("adaptive", "group")
    # It changes no prediction either, so it is the one to use.
    assert found.recommendation.methods == ("group",)
    group = nishimori.GroupConsistency(by="groups").fit(*validation[:2], groups=validation[2])
    p = {
        "adaptive": reference.softmax(test[0], found["adaptive"].temperature),
        "group": group.predict_proba(test[0], groups=test[2]),
    }
    parts = []
    for name, each in p.items():
        gaps = group_gaps(each, test[1], test[2])
        for own in found[name].by_group:
            assert (own.gap, own.p_value) == pytest.approx(gaps[own.name], rel=1e-4, abs=1e-12)
        off = [one for one, (_, p_value) in gaps.items() if p_value < 0.05]
        worst = max(off or gaps, key=lambda one: abs(gaps[one][0]))
        size, side = 100 * abs(gaps[worst][0]), "above" if gaps[worst][0] >= 0 else "below"
        number = f"{len(off) or 'none'} of 3 gaps {'are' if len(off) > 1 else 'is'} significant"
        if name != "group":
            continue
        parts.append(f"after {name} {number} (the largest, group {worst}: confidence {size:.1f} points {side} accuracy)")
    assert found.about_groups == f"Groups, with Holm's correction: {'; '.join(parts)}."
    assert found.about_groups in found.verdicts
    row = found.to_dict()["methods"][1]
    gaps = group_gaps(p["adaptive"], test[1], test[2])
    assert row["group_gap"] == pytest.approx(np.mean([abs(gap) for gap, _ in gaps.values()]))
    plain = compare(*validation[:2], *test[:2], methods=("none", "adaptive"), **options)
    assert plain.about_groups.endswith("The method group gives each group its own temperature.")
    assert compare(*validation[:2], *test[:2], methods=("none", "adaptive")).about_groups == ""
