"""Displays of scikit-learn estimators: what is drawn is what was measured, and swapped arguments are refused."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
import reference
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from optional import pd
from readme import blocks
from sklearn.calibration import CalibratedClassifierCV, calibration_curve
from sklearn.datasets import load_breast_cancer, make_classification
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from nishimori import CalibratedClassifier, TemperatureScaling
from nishimori.errors import InputError
from nishimori.plot import ReliabilityDisplay

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
LOGITS, LABELS = reference.drawn(500, 4)
P = reference.softmax(LOGITS)
NAMES = np.array(["dog", "ant", "cat", "bee"])  # not in the order of the alphabet
FEATURES, SICK = load_breast_cancer(return_X_y=True)
MODEL = make_pipeline(StandardScaler(), GaussianNB()).fit(FEATURES[:300], SICK[:300])
TEST = FEATURES[300:], SICK[300:]


@pytest.fixture
def ax():
    return Figure().add_subplot()


def legend(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


@pytest.mark.parametrize("weights", [None, 1.0 + np.arange(500) % 3])
def test_the_predicted_class_is_shown_by_default(ax, weights):
    display = ReliabilityDisplay.from_predictions(LABELS, P, sample_weight=weights, n_bins=10, name="mine", ax=ax)
    top, right = P.max(axis=1), P.argmax(axis=1) == LABELS
    expected = reference.ece(top, right, np.linspace(0, 1, 11), weights)
    assert display.ece == pytest.approx(expected, rel=1e-12)
    inside = (top > 0.8) & (top <= 0.9)
    assert display.prob_true[-2] == pytest.approx(
        np.average(right[inside], weights=None if weights is None else weights[inside])
    )
    assert legend(display) == [f"mine: ECE {100 * expected:.2f} %"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("confidence", "accuracy")


def test_a_positive_class_has_the_curve_of_scikit_learn(ax):
    p = MODEL.predict_proba(TEST[0])
    true, predicted = calibration_curve(TEST[1] == 0, p[:, 0], n_bins=8)
    for display in (
        ReliabilityDisplay.from_estimator(MODEL, *TEST, pos_label=0, n_bins=8, ax=ax),
        ReliabilityDisplay.from_predictions(TEST[1], p, pos_label=0, n_bins=8, ax=ax),
        ReliabilityDisplay.from_predictions(TEST[1], p[:, 0], pos_label=0, n_bins=8, ax=ax),
    ):
        np.testing.assert_allclose(display.prob_true, true)
        np.testing.assert_allclose(display.prob_pred, predicted)
        assert (display.pos_label, ax.get_xlabel(), ax.get_ylabel()) == (0, "probability of 0", "frequency of 0")


@pytest.mark.parametrize("labels", [TEST[1], 2 * TEST[1] - 1, TEST[1].astype(bool)], ids=["0 and 1", "-1 and 1", "bool"])
def test_flat_probabilities_are_those_of_class_1(ax, labels):
    p = MODEL.predict_proba(TEST[0])[:, 1]
    true, _ = calibration_curve(TEST[1], p, n_bins=15)
    display = ReliabilityDisplay.from_predictions(labels, p, ax=ax)
    np.testing.assert_allclose(display.prob_true, true)
    assert display.pos_label == 1


def test_any_class_of_several_can_be_shown(ax):
    true, predicted = calibration_curve(LABELS == 2, P[:, 2], n_bins=6)
    display = ReliabilityDisplay.from_predictions(NAMES[LABELS], P, classes=NAMES, pos_label="cat", n_bins=6, ax=ax)
    np.testing.assert_allclose(display.prob_true, true)
    np.testing.assert_allclose(display.prob_pred, predicted)
    assert ax.get_ylabel() == "frequency of cat"


def test_the_order_of_classes_is_that_of_the_estimator(ax):
    calibrator = TemperatureScaling(classes=NAMES).fit(LOGITS, NAMES[LABELS])
    display = ReliabilityDisplay.from_estimator(calibrator, LOGITS, NAMES[LABELS], ax=ax)
    p = reference.softmax(LOGITS, calibrator.temperature_)
    expected = reference.ece(p.max(axis=1), p.argmax(axis=1) == LABELS, np.linspace(0, 1, 16))
    assert display.ece == pytest.approx(expected, rel=1e-9)
    assert legend(display)[0].startswith("TemperatureScaling: ECE")


def classifier(name):
    """A fitted classifier, with samples and labels that it has not seen."""
    X, y = make_classification(600, n_informative=6, n_classes=3, flip_y=0.2, random_state=0)
    names = pd.Series(np.array(["b", "c", "a"])[y])
    if name == "Pipeline":
        X, y, model = pd.DataFrame(X).add_prefix("x"), names, make_pipeline(StandardScaler(), GaussianNB())
    elif name == "CalibratedClassifierCV":
        y, model = names, CalibratedClassifierCV(GaussianNB(), cv=3)
    elif name == "CalibratedClassifier":
        y, model = names, CalibratedClassifier(GaussianNB(), cv=3)
    else:
        y, model = y.tolist(), LogisticRegression()
    return model.fit(X[:300], y[:300]), X[300:], y[300:]


@pytest.mark.parametrize("name", ["Pipeline", "CalibratedClassifierCV", "CalibratedClassifier", "LogisticRegression"])
def test_classifiers_of_scikit_learn_are_drawn_with_their_names(ax, name):
    model, X, y = classifier(name)
    display = ReliabilityDisplay.from_estimator(model, X, y, ax=ax)
    p = model.predict_proba(X)
    right = model.classes_[p.argmax(axis=1)] == np.asarray(y)
    assert display.ece == pytest.approx(reference.ece(p.max(axis=1), right, np.linspace(0, 1, 16)), rel=1e-9)
    assert display.name == name
    assert legend(display) == [f"{name}: ECE {100 * display.ece:.2f} %"]


def test_displays_draw_on_the_axes_passed_and_change_nothing_global(ax):
    settings, figures = dict(mpl.rcParams), plt.get_fignums()
    first = ReliabilityDisplay.from_predictions(LABELS, P, ax=ax)
    second = ReliabilityDisplay.from_predictions(LABELS, P[:, ::-1], ax=ax, histogram=False)
    assert first.ax_ is second.ax_ is ax
    assert first.figure_ is ax.figure
    assert first.line_ is not second.line_
    for display in (first, second):
        enough = display.curve.count >= 10
        np.testing.assert_allclose(display.line_.get_ydata(), display.prob_true[enough])
    assert first.histogram_ax_ in ax.child_axes
    assert second.histogram_ax_ is None
    assert dict(mpl.rcParams) == settings
    assert plt.get_fignums() == figures


def test_new_axes_are_made_where_none_are_passed_and_a_display_can_be_drawn_again(ax):
    display = ReliabilityDisplay.from_predictions(LABELS, P, name="mine")
    plt.close(display.figure_)
    again = display.plot(ax=ax, name="other")
    assert again is display
    assert display.ax_ is ax
    assert legend(display)[0].startswith("other: ECE")


FLAT = P[:, 1] / (P[:, 0] + P[:, 1])
SIGNS = (LABELS == 1).astype(int)
SWAPPED = [(P, LABELS), (FLAT, SIGNS), (FLAT.tolist(), SIGNS.tolist()), (P[:, :2] / P[:, :2].sum(axis=1)[:, None], SIGNS)]


@pytest.mark.parametrize("arguments", SWAPPED)
def test_swapped_arguments_are_refused(ax, arguments):
    with pytest.raises(InputError, match=r"Pass true classes first: `from_predictions\(y_true, y_prob\)`\.$"):
        ReliabilityDisplay.from_predictions(*arguments, ax=ax)


REFUSED = {
    "logits": (
        (LABELS, LOGITS),
        {},
        r"^`y_prob` must be between 0 and 1, got .* If these are logits, pass their softmax, such",
    ),
    "sums": ((LABELS, P / 2), {}, r"^`y_prob` must sum to 1 over classes, got 0\.5 in row 0\."),
    "labels": ((NAMES[LABELS], P), {}, r"^`y_true` must be integers from 0 to 3, got .* pass .* as `classes`"),
    "lengths": ((LABELS[:9], P), {}, r"^`y_true` must be one label per sample, shape \(500,\), got shape \(9,\)\.$"),
    "pos_label": ((LABELS, P), {"pos_label": 7}, r"^`pos_label` must be one of the classes 0, 1, 2, 3, got 7\.$"),
    "flat pos_label": ((SIGNS, FLAT), {"pos_label": 7}, r"^`pos_label` must be the one of the labels 0, 1 that .*, got 7\.$"),
    "which": (
        (NAMES[SIGNS], FLAT),
        {},
        r"^`pos_label` must be the one of the labels 'ant', 'dog' that the flat array of probabilities is about, got None\.$",
    ),
    "bins": ((LABELS, P), {"n_bins": 0}, "^`n_bins` must be"),
}


@pytest.mark.parametrize(("arguments", "options", "message"), REFUSED.values(), ids=REFUSED)
def test_bad_predictions_are_refused(ax, arguments, options, message):
    with pytest.raises(InputError, match=message):
        ReliabilityDisplay.from_predictions(*arguments, **options, ax=ax)


def test_estimators_without_probabilities_are_refused(ax):
    with pytest.raises(AttributeError, match="'RidgeClassifier' object has no attribute 'predict_proba'"):
        ReliabilityDisplay.from_estimator(RidgeClassifier().fit(*TEST), *TEST, ax=ax)
    several = DecisionTreeClassifier().fit(TEST[0], np.column_stack([TEST[1], TEST[1]]))
    with pytest.raises(InputError, match="`y_true` must be one label per sample"):
        ReliabilityDisplay.from_estimator(several, TEST[0], np.column_stack([TEST[1], TEST[1]]), ax=ax)
    with pytest.raises(InputError, match=r"^`y_true` must be among `classes`, got 5 in .*the first in row 0\."):
        ReliabilityDisplay.from_estimator(MODEL, TEST[0], np.full(len(TEST[1]), 5), ax=ax)


def test_the_lines_on_the_page_draw_its_picture(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = (block.text for block in blocks(PAGE) if "ReliabilityDisplay" in block.text)
    names = {}
    exec(code, names)
    display = names["display"]
    plt.close(display.figure_)
    assert Path("reliability-display.png").exists()
    before, after = (float(text.split("ECE ")[1].split()[0]) for text in legend(display))
    assert before > 4 > 2 > after
