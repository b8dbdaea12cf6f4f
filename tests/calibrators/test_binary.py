"""Calibrators of binary scores: what they find, with which errors, and where there is nothing to find."""

import numpy as np
import pytest
import reference
from binary_scores import EACH, FEATURES, LABELS, SCORES, THREE, N, by_scikit_learn, drawn, found_by, table
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from sklearn.base import clone
from sklearn.calibration import _SigmoidCalibration

import nishimori
from nishimori import Beta, Platt
from nishimori.calibrators import Quadratic
from nishimori.errors import InputWarning, NotConvergedError


@EACH
def test_parameters_are_those_of_a_logistic_regression_on_the_same_features(calibrator, features):
    fitted = clone(calibrator).fit(SCORES, LABELS)
    np.testing.assert_allclose(found_by(fitted), by_scikit_learn(calibrator, features(SCORES), LABELS), rtol=1e-7)
    assert fitted.residual_ < 1e-9


@EACH
def test_calibrated_probabilities_are_those_of_the_formula(calibrator, features):
    fitted = clone(calibrator).fit(SCORES, LABELS)
    new = np.linspace(-8, 8, 33)
    log_odds = table(calibrator, features, new) @ found_by(fitted)
    np.testing.assert_allclose(fitted.predict_proba(new), np.column_stack([expit(-log_odds), expit(log_odds)]), rtol=1e-9)
    np.testing.assert_allclose(fitted.transform(new), log_odds, atol=1e-12)
    np.testing.assert_array_equal(fitted.predict(new), log_odds > 0)
    assert (fitted.temperature_, fitted.n_samples_, fitted.classes_.tolist()) == (None, N, [0, 1])


def plain_errors(x, y, theta, clusters=None, counts=None):
    """Standard errors from the sandwich of independent rows, of clusters, or of rows that count several times."""
    p = expit(x @ theta)
    weights = np.ones(len(y)) if counts is None else counts
    gaps = x * (p - y)[:, None]
    if clusters is not None:
        gaps = np.array([gaps[clusters == each].sum(axis=0) for each in np.unique(clusters)])
    products = gaps.T @ gaps if counts is None else gaps.T @ (gaps * weights[:, None])
    inverse = np.linalg.inv((x * (weights * p * (1 - p))[:, None]).T @ x)
    return np.sqrt(np.diag(inverse @ products @ inverse))


@EACH
def test_standard_errors_are_the_sandwich_of_rows_or_clusters(calibrator, features):
    x = table(calibrator, features, SCORES)
    clusters = np.arange(N) // 4
    for options in ({}, {"clusters": clusters}):
        fitted = clone(calibrator).fit(SCORES, LABELS, **options)
        expected = plain_errors(x, LABELS, found_by(fitted), **options)
        np.testing.assert_allclose(list(fitted.parameters_se_.values()), expected, rtol=1e-6)
        assert fitted.why_no_se_ is None


@EACH
def test_weights_count_samples(calibrator, features):
    weights = np.random.default_rng(1).integers(0, 4, N)
    fitted = clone(calibrator).fit(SCORES, LABELS, weights, counts=True)
    kept = weights > 0
    x = table(calibrator, features, SCORES)
    expected = by_scikit_learn(calibrator, features(SCORES[kept]), LABELS[kept], weights[kept])
    np.testing.assert_allclose(found_by(fitted), expected, rtol=1e-6)
    errors = plain_errors(x[kept], LABELS[kept], found_by(fitted), counts=weights[kept])
    np.testing.assert_allclose(list(fitted.parameters_se_.values()), errors, rtol=1e-6)
    scaled = clone(calibrator).fit(SCORES, LABELS, 7.0 * weights)
    np.testing.assert_allclose(found_by(scaled), expected, rtol=1e-6)
    assert fitted.n_samples_ == kept.sum()


@pytest.mark.parametrize("n", [40, 2000])
def test_smoothed_labels_give_the_sigmoid_of_scikit_learn(n):
    s, y = drawn(n, seed=2)
    theirs = _SigmoidCalibration().fit(s, y)
    fitted = Platt().fit(s, y)
    np.testing.assert_allclose(found_by(fitted), [-theirs.a_, -theirs.b_], rtol=1e-6)
    weights = np.random.default_rng(0).integers(1, 5, n).astype(float)
    theirs = _SigmoidCalibration().fit(s, y, weights)
    fitted = Platt().fit(s, y, weights, counts=True)
    np.testing.assert_allclose(found_by(fitted), [-theirs.a_, -theirs.b_], rtol=1e-6)


def test_smoothing_depends_only_on_ratios_of_weights_that_are_not_counts():
    weights = np.random.default_rng(0).uniform(1, 5, N)
    one, other = (Platt().fit(SCORES, LABELS, factor * weights) for factor in (1, 100))
    np.testing.assert_allclose(found_by(one), found_by(other), rtol=1e-9)
    effective = [weights[k == LABELS].sum() ** 2 / (weights[k == LABELS] ** 2).sum() for k in (0, 1)]
    targets = np.where(LABELS == 1, (effective[1] + 1) / (effective[1] + 2), 1 / (effective[0] + 2))

    def gradient(theta):
        x = np.column_stack([SCORES, np.ones(N)])
        return (weights * (expit(x @ theta) - targets)) @ x / N

    np.testing.assert_allclose(gradient(found_by(one)), 0, atol=1e-9)


@THREE
def test_smoothed_labels_have_no_standard_errors_and_say_so(kind):
    fitted = kind().fit(SCORES, LABELS)
    assert fitted.parameters_se_ is None
    assert fitted.why_no_se_ == (
        "The labels are smoothed, which draws the parameters towards zero: a standard error would not say how far they are "
        "from the true ones. Fit with `smooth_labels=False` to have standard errors."
    )


# Labels that make a coefficient of beta calibration negative: a at low, b at high scores.
BENT = {
    "a is zero": lambda s: 1.2 * np.logaddexp(0, s) + 0.8 * np.logaddexp(0, -s) - 2,
    "b is zero": lambda s: -0.8 * np.logaddexp(0, s) - 1.2 * np.logaddexp(0, -s) + 2,
}


def constrained(x, y):
    """Beta calibration from its definition, by another search."""

    def loss(theta):
        f = x @ theta
        return -np.mean(y * log_expit(f) + (1 - y) * log_expit(-f))

    bounds = [(0, None), (0, None), (None, None)][: x.shape[1]]
    return minimize(loss, np.full(x.shape[1], 0.5), bounds=bounds, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-9}).x


@pytest.mark.parametrize("variant", ["abm", "ab"])
@pytest.mark.parametrize("name", BENT)
def test_a_coefficient_that_would_be_negative_is_zero_and_the_others_are_fitted_again(name, variant):
    rng = np.random.default_rng(3)
    s = 2 * rng.normal(size=N)
    y = (BENT[name](s) + rng.logistic(size=N) > 0).astype(int)
    calibrator, features = FEATURES["beta" if variant == "abm" else "beta ab"]
    x = table(calibrator, features, s)
    assert by_scikit_learn(calibrator, features(s), y)[:2].min() < 0
    fitted = clone(calibrator).fit(s, y)
    np.testing.assert_allclose(found_by(fitted), constrained(x, y), atol=1e-5)
    zero = name[0]
    assert fitted.parameters_[zero] == fitted.parameters_se_[zero] == 0
    free = [place for place, key in enumerate(fitted.parameters_) if key != zero]
    errors = plain_errors(x[:, free], y, found_by(fitted)[free])
    np.testing.assert_allclose([each for each in fitted.parameters_se_.values() if each], errors, rtol=1e-6)


@pytest.mark.parametrize("smooth_labels", [False, True])
def test_where_both_coefficients_could_be_left_out_the_smaller_loss_decides(smooth_labels):
    calibrator, features = FEATURES["beta"]
    decided = set()
    for seed in range(20):
        rng = np.random.default_rng(seed)
        s = rng.normal(size=100)
        y = (s + rng.logistic(size=100) > 0).astype(int)
        free = by_scikit_learn(calibrator, features(s), y)
        if min(free[:2]) >= 0 or max(free[:2]) <= 0:
            continue
        fitted = Beta(smooth_labels=smooth_labels).fit(s, y)
        targets = np.where(y == 1, (y.sum() + 1) / (y.sum() + 2), 1 / (100 - y.sum() + 2)) if smooth_labels else y
        np.testing.assert_allclose(found_by(fitted), constrained(table(calibrator, features, s), targets), atol=1e-4)
        decided.add(tuple(found_by(fitted)[:2] == 0))
    assert decided == {(True, False), (False, True)}


@pytest.mark.parametrize(("variant", "expected"), [("abm", 1 / 3), ("am", 1 / 3), ("ab", 1 / 2)])
def test_scores_in_the_wrong_order_leave_the_frequency_of_the_class_with_a_warning(variant, expected):
    s, y = -np.abs(SCORES) + np.arange(N) % 3, np.arange(N) % 3 == 0
    with pytest.warns(InputWarning, match="^The second class is not more likely where its score is larger"):
        fitted = Beta(variant=variant, smooth_labels=False).fit(s, y)
    np.testing.assert_allclose(fitted.predict_proba(s)[:, 1], expected, rtol=1e-9)
    assert fitted.parameters_["a"] == fitted.parameters_se_["a"] == 0


def test_platt_scaling_may_turn_the_order_of_scores_around():
    fitted, turned = Platt().fit(SCORES, LABELS), Platt().fit(-SCORES, LABELS)
    np.testing.assert_allclose(turned.predict_proba(-SCORES), fitted.predict_proba(SCORES), rtol=1e-9)


SEPARATED = np.array([-2.0, -1.0, -0.5, 0.7, 1.5]), np.array([0, 0, 0, 1, 1])
INSIDE = np.array([-3.0, -2.0, -0.5, 0.7, 1.5, 2.5]), np.array([0, 0, 1, 1, 0, 0])
TIED = np.array([-3.0, -2.0, 0.4, 0.4, 0.4, 2.5]), np.array([0, 0, 0, 1, 1, 1])
WITHOUT = {
    "platt": (Platt(), SEPARATED),
    "platt, turned": (Platt(), (-SEPARATED[0], SEPARATED[1])),
    "platt, tied": (Platt(), TIED),
    "beta": (Beta(), SEPARATED),
    "beta am": (Beta(variant="am"), TIED),
    "beta ab": (Beta(variant="ab"), SEPARATED),
    "quadratic": (Quadratic(), SEPARATED),
    "quadratic, inside": (Quadratic(), INSIDE),
}


@pytest.mark.parametrize(("calibrator", "data"), WITHOUT.values(), ids=WITHOUT)
def test_separated_classes_have_no_best_parameters_unless_labels_are_smoothed(calibrator, data):
    name = type(calibrator).__name__
    with pytest.raises(NotConvergedError) as error:
        clone(calibrator).set_params(smooth_labels=False).fit(*data)
    assert str(error.value) == (
        f"No finite parameters of {name} fit best. The usual cause is that the scores separate the two classes perfectly, so "
        "that larger parameters always fit better. Use more validation samples, or `smooth_labels=True`."
    )
    smoothed = clone(calibrator).fit(*data)
    assert np.isfinite(found_by(smoothed)).all()
    assert reference.nll(np.column_stack([np.zeros(len(data[1])), smoothed.transform(data[0])]), data[1]) < 0.6


@pytest.mark.parametrize("kind", [Platt, Beta])
def test_separated_classes_are_noticed_in_the_first_reading(kind):
    readings = 0

    def batches():
        nonlocal readings
        readings += 1
        yield np.column_stack([np.zeros(5), SEPARATED[0]]), SEPARATED[1]

    with pytest.raises(NotConvergedError):
        kind(smooth_labels=False).fit(nishimori.rows(batches))
    assert readings == 2  # the first batch is looked at before, for the number of classes


def test_beta_calibration_works_where_only_a_map_that_decreases_would_separate_the_classes():
    s, y = INSIDE
    calibrator, features = FEATURES["beta"]
    fitted = clone(calibrator).fit(s, y)
    np.testing.assert_allclose(found_by(fitted), constrained(table(calibrator, features, s), y), atol=1e-4)


def test_beta_calibration_is_constant_where_only_a_map_that_decreases_separates_the_classes_by_a_threshold():
    s, y = -SEPARATED[0], SEPARATED[1]
    with pytest.warns(InputWarning, match="^The second class is not more likely where its score is larger"):
        fitted = Beta(smooth_labels=False).fit(s, y)
    np.testing.assert_allclose(fitted.predict_proba(s)[:, 1], 2 / 5, rtol=1e-9)
