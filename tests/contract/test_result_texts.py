"""What results print fits a terminal of 80 columns, says what ± is, and takes names as text, also at the extremes."""

import xml.etree.ElementTree as ET
from functools import cache

import numpy as np
import pytest
import reference

import nishimori
from nishimori import metrics, results
from nishimori._support.display import Displayed
from nishimori._support.tables import text_width

LONG = [f"<b>Fédération internationale №{number:02}</b> & {'猫' * 30}" for number in range(5)]
LOGITS, LABELS = reference.drawn(400, 5)
NAMES = np.array(LONG)[LABELS]


@cache
def many_classes():
    """1,000 classes, of which most are predicted at most once."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(1500, 1000))
    labels = (4 * logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return 40 * logits, labels


def certain():
    """A model that is right and certain: an ECE of 0, losses of 0."""
    labels = np.arange(300) % 3
    return 800 * np.eye(3)[labels], labels


CASES = {
    "scorecard": lambda: nishimori.evaluate(LOGITS, LABELS, metrics=["ks", "top_n_accuracy(top_n=3)"]),
    "certain": lambda: nishimori.evaluate(*certain()),
    "wrong": lambda: nishimori.evaluate(certain()[0], (certain()[1] + 1) % 3),
    "three samples": lambda: nishimori.evaluate(LOGITS[:3], LABELS[:3]),
    "quantiles": lambda: nishimori.evaluate(LOGITS, LABELS, strategy="quantile", clusters=np.arange(400) // 4),
    "temperatures": lambda: nishimori.temperatures(LOGITS, LABELS),
    "no ec": lambda: nishimori.temperatures(LOGITS, LABELS, floor=None, sample_weight=(LOGITS.argmax(axis=1) != LABELS) * 1.0),
    "comparison": lambda: nishimori.compare(LOGITS, NAMES, classes=LONG, methods=("none", "ts", "ec", "vector", 1.5)),
    "groups": lambda: nishimori.group_gaps(LOGITS, LABELS, by="groups", groups=NAMES),
    "classes": lambda: nishimori.group_gaps(LOGITS, NAMES, classes=LONG),
    "many classes": lambda: nishimori.group_gaps(*many_classes()),
    "test": lambda: nishimori.calibration_test(5 * LOGITS, LABELS, statistic="confidence"),
    "gate": lambda: nishimori.gate(LOGITS, NAMES, classes=LONG, bounds={"ece": 0.02, "nll": 1e-6, "group_gap": 0.01}),
    "gate without samples": lambda: nishimori.gate(LOGITS[:3], LABELS[:3], bounds={"ece": 0.02}),
    "required samples": lambda: nishimori.required_samples(1e-5, nishimori.temperatures(LOGITS, LABELS)),
    "bootstrap": lambda: nishimori.bootstrap(LOGITS, LABELS, n_draws=10),
    "bootstrap of vectors": lambda: nishimori.bootstrap(LOGITS, LABELS, n_draws=10, method="vector"),
    "multilabel": lambda: nishimori.multilabel.evaluate_multilabel(LOGITS, np.eye(5)[LABELS], names=LONG),
    "curve": lambda: nishimori.temperature_curve(LOGITS, LABELS, grid=[0.5, 1, 2]),
    "reliability": lambda: nishimori.evaluate(LOGITS, LABELS).reliability,
    "decomposition": lambda: metrics.decomposition(LOGITS, LABELS),
    "methods": nishimori.methods,
    "selection": lambda: nishimori.calibrator("best").fit(LOGITS, LABELS).selection_,
    "sketch": lambda: nishimori.Sketch().update(LOGITS, LABELS),
    "empty sketch": nishimori.Sketch,
    "differences": lambda: nishimori.diff(*(nishimori.evaluate(each * LOGITS, LABELS) for each in (1, 9))),
    "fit info": lambda: nishimori.calibrator("ec").fit(LOGITS, LABELS).fit_info_,
}

pytestmark = [
    pytest.mark.filterwarnings("ignore::nishimori.errors.FewErrorsWarning"),
    pytest.mark.filterwarnings("ignore::nishimori.errors.InputWarning"),
]


@pytest.fixture(scope="module", params=CASES)
def result(request):
    return CASES[request.param]()


def test_what_is_printed_fits_80_columns(result):
    lines = str(result).splitlines()
    assert max(map(text_width, lines)) <= 80
    assert all(line == line.rstrip() for line in lines)
    assert ("± is one standard error." in lines) == any("±" in line for line in lines[:-1])


def test_no_number_is_written_as_machines_do(result):
    text = str(result)
    for word in ("nan", "inf ", "None ", "e-9", "100.0000 %", "100.00 %", "array(", "np.float"):
        assert word not in text, word


def test_notebooks_show_the_same_and_names_are_text(result):
    tree = ET.fromstring(result._repr_html_())
    assert {each.tag for each in tree.iter()} <= {"div", "p", "span", "strong", "table", "thead", "tbody", "tr", "th", "td"}
    text = " ".join(str(result).split())
    shown = {cell.text for cell in tree.iter("td") if cell.text and text_width(cell.text) < 24}
    assert all(cell in text for cell in shown)


def test_the_representation_is_one_short_line(result):
    text = repr(result)
    assert text.startswith(f"{type(result).__name__}(")
    assert "\n" not in text
    assert len(text) <= 160 or isinstance(result, nishimori.results.MethodTable)


def test_every_result_that_is_not_one_row_of_another_is_displayed():
    rows = {"CandidateScore", "Check", "Difference", "Estimate", "GroupGap", "Interval", "LabelScore", "Method", "MetricChange"}
    others = {"CalibratedPair", "ProbabilityBounds", "Recommendation", "RecommendedMethod"}
    displayed = {name for name in results.__all__ if issubclass(getattr(results, name), Displayed)}
    assert displayed == set(results.__all__) - rows - others


def test_names_that_are_markup_are_seen_as_they_are():
    tree = ET.fromstring(CASES["groups"]()._repr_html_())
    assert {cell.text for cell in tree.iter("td")} >= set(LONG)
