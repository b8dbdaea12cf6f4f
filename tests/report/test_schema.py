"""A damaged report is refused with the place of the damage, or it can be shown; nothing in between."""

import copy
import json
import math
import re

import numpy as np
import pytest
import reference
import report_case

import nishimori
from nishimori import Report
from nishimori.errors import FormatError, InputError
from nishimori.report import _page

VALIDATION, TEST = report_case.rows(120)


@pytest.fixture(scope="module")
def results():
    """A whole report with few places of its slider: the first one, T = 1, and that of the recommended method."""
    return shortened(report_case.report(VALIDATION, TEST, "title"))


@pytest.fixture(scope="module")
def rare():
    """The same of two classes, with a bound, and with a method to use that has no temperature."""
    validation, test = report_case.rare(0), report_case.rare(1)
    with pytest.warns(nishimori.errors.InputWarning, match="one temperature cannot correct that"):
        report = Report(*validation, *test, bounds={"ece": 0.02, "group_gap": 0.1}, groups=validation[1], test_groups=test[1])
    found = shortened(report)
    assert found["slider"]["methods"]
    assert found["slider"]["start"] == 3
    return found


def shortened(report):
    found = report.to_dict()
    slider = found["slider"]
    places, start = slider["places"], slider["start"]
    kept = [places[0], next(each for each in places if each["temperature"] == 1), places[min(start, len(places) - 1)]]
    few = [each | {name: each[name][:2] for name in ("bins", "positive_bins") if name in each} for each in kept]
    found["slider"] = slider | {"places": few, "start": 2 if start < len(places) else 3 + start - len(places)}
    for name in ("classes", "groups"):
        found[name]["rows"] = found[name]["rows"][:1]
    found["mistakes"], found["confusions"] = found["mistakes"][:1], found["confusions"][:1]
    found["risk_coverage"] = {key: [curve[0], curve[-1]] for key, curve in found["risk_coverage"].items()}
    found["provenance"]["files"] = [{"role": "test", "name": "test.npz", "bytes": 3, "sha256": "0" * 64}]
    found["absent"], found["warnings"] = [{"what": "a", "why": "b"}], ["c"]
    return found


@pytest.fixture
def shown(monkeypatch):
    """A function that makes every form of a report; charts are not drawn, which takes a second."""

    def drawn(charts):
        json.dumps(charts, allow_nan=False)
        return "", ["<svg >"] * len(charts)

    monkeypatch.setattr(_page, "draw", drawn)

    def made(found):
        return [found.to_json(), found.to_markdown(), found.to_html(), str(found), repr(found)]

    return made


def places_in(value, way=()):
    """Where something is in a report: keys and numbers that lead to it. Of a list, the first one."""
    if way:
        yield way
    inside = value.items() if isinstance(value, dict) else []
    if isinstance(value, list) and value:
        inside = [(0, value[0])]
    for name, each in inside:
        yield from places_in(each, (*way, name))


def place_of(way):
    """The same as a message names it."""
    return "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in way).removeprefix(".")


def damaged(results, way, change):
    found = copy.deepcopy(results)
    inside = found
    for each in way[:-1]:
        inside = inside[each]
    change(inside, way[-1])
    return found


def removed(inside, name):
    del inside[name]


def replaced_by(value):
    def change(inside, name):
        inside[name] = copy.deepcopy(value)

    return change


def cut(inside, name):
    if isinstance(inside[name], list | str | dict):
        inside[name] = type(inside[name])(list(inside[name])[:-1]) if not isinstance(inside[name], dict) else {}
    else:
        inside[name] = str(inside[name])


CHANGES = {
    "removed": removed,
    "cut": cut,
    "None": replaced_by(None),
    "text": replaced_by("<img src=x>"),
    "a whole number": replaced_by(7),
    "a negative number": replaced_by(-1),
    "a number": replaced_by(0.5),
    "true": replaced_by(True),
    "a list": replaced_by([[None]]),
    "a dictionary": replaced_by({"a": 1}),
    "nan": replaced_by(math.nan),
    "inf": replaced_by(math.inf),
    "a huge number": replaced_by(10**5000),
    "an array": replaced_by(np.ones(2)),
}


def refusal(found, shown):
    """The error that a dictionary is refused with; None if it is a report that can be shown."""
    try:
        report = Report.from_dict(found)
    except (InputError, FormatError) as error:
        return error
    shown(report)
    return None


# A value elsewhere may refer to what was damaged.
REFER = {
    "slider.start",
    "slider.places",
    "recommended",
    "best",
    "methods",
    "recommendation.other",
    "gate.methods",
    "gate.methods[1].checks",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("of", ["results", "rare"])
def test_every_damage_is_refused_by_its_place_or_can_be_shown(request, of, shown, change):
    results = request.getfixturevalue(of)
    refused = 0
    for way in places_in(results):
        error = refusal(damaged(results, way, change), shown)
        if isinstance(error, FormatError):
            (said,) = re.findall(r"^`results` is damaged: (.*)\. Make the report again\.$", str(error), re.DOTALL)
            named, place = re.split(r" (?:is missing|must be) ?", said)[0], place_of(way)
            assert named.startswith(place) or place.startswith(named) or named in REFER, (place, str(error))
            refused += 1
        else:
            assert (error is None) != (way == ("format",))
    assert refused > 20


def test_a_refusal_names_the_place_what_it_must_be_and_what_it_is(results, rare):
    cases = [
        (("slider", "start"), "3", "slider.start must be a whole number of at least 0, got '3'."),
        (("slider", "start"), 3, "slider.start must be a whole number from 0 to 2, got 3."),
        (("slider", "places", 0, "bins", 0), [1.0], "slider.places[0].bins[0] must be a list of 7 to 8 values, got [1.0]."),
        (("slider", "places", 1, "temperature"), 2, "slider.places must be a list with the temperature 1, got [{"),
        (("methods", 0, "method"), "x", "methods must be a list with the method 'none' and its numbers, got [{"),
        (("recommended",), "x", "recommended must be one of 'ts', "),
        (("best",), "x", "best must be one of 'ts', "),
        (("recommendation", "other"), "x", "recommendation.other must be one of 'ts', "),
        (("recommendation", "best", "changed_predictions"), 2, "recommendation.best.changed_predictions must be a number from"),
        (("classes", "rows", 0, "before", "gap"), None, "classes.rows[0].before.gap must be a finite number, got None."),
        (("verdict", "sentences"), "x", "verdict.sentences must be a list, got 'x'."),
        (("level",), 2, "level must be a number from 0 to 1, got 2."),
        (("tests", "more"), math.nan, "tests.more must be a finite number, text, None, a list or a dictionary, got"),
    ]  # fmt: skip
    for way, value, message in cases:
        with pytest.raises(FormatError) as refused:
            Report.from_dict(damaged(results, way, replaced_by(value)))
        assert str(refused.value).startswith(f"`results` is damaged: {message}"), way
    more = [
        (("slider", "methods", 0, "temperature"), 2.0, "slider.methods[0].temperature must be None, got 2.0."),
        (("gate", "methods", 0, "method"), "x", "gate.methods must be a list with the method 'none' and the recommended one, "),
        (("gate", "methods", 1, "checks"), [], "gate.methods[1].checks must be a list that is not empty, got []."),
    ]  # fmt: skip
    for way, value, message in more:
        with pytest.raises(FormatError) as refused:
            Report.from_dict(damaged(rare, way, replaced_by(value)))
        assert str(refused.value).startswith(f"`results` is damaged: {message}"), way
    for way, name in ((("slider", "places", 1), "positive_bins"), (("methods", 0), "positive_gap")):
        place = place_of((*way, name))
        with pytest.raises(FormatError, match=rf"^`results` is damaged: {re.escape(place)} is missing\."):
            Report.from_dict(damaged(rare, (*way, name), removed))
    with pytest.raises(FormatError, match=r"^`results` is damaged: data\.n_classes is missing\. Make the report again\.$"):
        Report.from_dict(damaged(results, ("data", "n_classes"), removed))


def test_what_refers_to_itself_or_is_deep_is_refused(results):
    circle = {}
    circle["a"] = circle
    with pytest.raises(FormatError, match="is nested too deeply"):
        Report.from_dict(results | {"tests": circle})
    with pytest.raises(FormatError, match="must be a dictionary with texts as keys"):
        Report.from_dict(results | {"tests": {1: 2}})


def test_more_keys_are_kept(results, shown):
    later = results | {"later": {"a": [1, None, "x"]}}
    assert Report.from_dict(later).to_dict() == later
    shown(Report.from_dict(later))


X, Y = reference.drawn(80, 4, seed=3)
MASKED = np.where((np.arange(4) == Y[:, None]) & (np.arange(80)[:, None] == 0), -np.inf, X)
KINDS = {
    "rows": lambda: Report(X, Y, groups=np.arange(80) % 3, ids=np.arange(80)),
    "a sketch": lambda: Report(nishimori.Sketch().update(X, Y)),
    "an infinite loss": lambda: Report(MASKED, Y),
    "no temperature": lambda: Report(9 * np.eye(4)[Y], Y),
    "few rows": lambda: Report(X[:5], Y[:5]),
    "clusters": lambda: Report(X, Y, clusters=np.arange(80) // 4, sample_weight=np.arange(80.0)),
    "two classes": lambda: Report(X[:, 0], Y > 1, bounds={"ece": 0.1}),
    "a sketch of two classes": lambda: Report(nishimori.Sketch().update(X[:, 0], Y > 1)),
    "a method without a temperature": lambda: Report(*report_case.rare(0), *report_case.rare(1), bounds={"gap": 0.01}),
}


@pytest.mark.filterwarnings("ignore::nishimori.errors.InputWarning")
@pytest.mark.parametrize("made", KINDS.values(), ids=KINDS)
def test_a_report_of_any_kind_is_the_same_after_json(made, shown):
    report = made()
    again = Report.from_dict(json.loads(report.to_json()))
    assert again.to_dict() == report.to_dict()
    assert shown(again) == shown(report)
    assert ">None<" not in again.to_html()


def test_a_change_of_the_dictionary_does_not_change_the_report(results):
    mine = copy.deepcopy(results)
    report = Report.from_dict(mine)
    mine["slider"]["places"].clear()
    assert report.to_dict() == results


def test_a_name_that_no_file_can_hold_is_escaped(tmp_path):
    report = Report(X, Y, title="caf\udce9.npz")
    report.save(tmp_path / "report.md")
    assert report.to_dict()["title"] == "caf\\udce9.npz"
    stored = report.to_dict() | {"title": "caf\udce9.npz"}
    assert Report.from_dict(stored).to_dict()["title"] == "caf\\udce9.npz"


def test_a_report_that_calls_the_adaptive_method_auto_is_read():
    now = report_case.report(VALIDATION, TEST, "title").to_dict()
    assert now["recommended"] == "adaptive"
    before = json.loads(json.dumps(now).replace('"adaptive"', '"auto"'))
    assert Report.from_dict(before).to_dict() == now


def test_a_report_that_was_made_before_there_was_a_recommendation_is_read(results, shown):
    before = copy.deepcopy({name: each for name, each in results.items() if name not in ("best", "recommendation", "gate")})
    for name in ("groups", "headlines"):
        del before["verdict"][name]
    del before["slider"]["methods"], before["data"]["positive"]
    for each in before["methods"]:
        for name in ("worst_class", "worst_group", "gap", "gap_se"):
            del each[name]
    for place in before["slider"]["places"]:
        place["bins"] = [each[:7] for each in place["bins"]]
    before["verdict"]["advice"] = "Divide the logits by T = 1.6."
    again = Report.from_dict(before)
    now = again.to_dict()
    assert set(now) == set(results)
    assert {name: now[name] for name in before if name not in ("verdict", "slider", "data", "methods")} == {
        name: each for name, each in before.items() if name not in ("verdict", "slider", "data", "methods")
    }
    assert now["recommendation"]["other"] is now["gate"] is now["data"]["positive"] is None
    assert [each["now"] for each in now["verdict"]["headlines"]] == [before["verdict"]["headline"]]
    for place, present in zip(now["slider"]["places"], results["slider"]["places"], strict=True):
        for restored, counted in zip(place["bins"], present["bins"], strict=True):
            assert restored == pytest.approx(counted, abs=1e-5)  # a share times the number of samples
    assert Report.from_dict(now).to_dict() == now
    shown(again)
    assert '<span class="tag">use</span>' in again.to_html()
    assert '<p class="action">Divide the logits by T = 1.6.</p>' in again.to_html()
