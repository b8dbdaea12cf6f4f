"""AUC, calibration intercept and slope, and their standard errors, against definitions and other packages."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.metrics import roc_auc_score
from stated import stated

import nishimori
from nishimori import claims
from nishimori.errors import InputError

METRICS = ("auc", "calibration_intercept", "calibration_slope")


def drawn(n=600, seed=0):
    p, right = stated(n, seed)
    return np.minimum(p, 0.98), right


def regression(s, y, w, *, slope):
    """Coefficients of a logistic regression, the slope first, and those of the sandwich; ``slope`` or an offset."""
    columns = np.stack([s, np.ones_like(s)], axis=1) if slope else np.ones((len(s), 1))
    offset = 0 if slope else s

    def loss(x):
        z = columns @ x + offset
        return w @ (np.logaddexp(0, z) - y * z), columns.T @ (w * (1 / (1 + np.exp(-z)) - y))

    x = minimize(loss, np.zeros(columns.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-11}).x
    for _ in range(3):  # Newton steps to the last digits
        p = 1 / (1 + np.exp(-(columns @ x + offset)))
        x = x - np.linalg.solve(columns.T @ (columns * (w * p * (1 - p))[:, None]), columns.T @ (w * (p - y)))
    p = 1 / (1 + np.exp(-(columns @ x + offset)))
    bread = np.linalg.inv(columns.T @ (columns * (w * p * (1 - p))[:, None]))
    scores = columns * (w * (p - y))[:, None]
    return x, bread, scores


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("slope", [False, True])
def test_intercept_and_slope_are_those_of_a_logistic_regression(slope, weighted):
    p, right = drawn()
    weights = np.random.default_rng(1).uniform(0.5, 2, size=len(p)) if weighted else np.ones(len(p))
    x, bread, scores = regression(np.log(p / (1 - p)), right, weights, slope=slope)
    found = nishimori.evaluate(claims(p, right, sample_weight=weights))[METRICS[1 + slope]]
    assert found.value == pytest.approx(x[0], abs=1e-9)
    assert found.se == pytest.approx(np.sqrt((bread @ scores.T @ scores @ bread)[0, 0]), rel=1e-8)


def test_errors_of_clusters_are_sums_over_clusters():
    p, right = drawn()
    clusters = np.arange(600) // 4
    found = nishimori.evaluate(claims(p, right, clusters=clusters))
    for name, slope in (("calibration_intercept", False), ("calibration_slope", True)):
        _, bread, scores = regression(np.log(p / (1 - p)), right, np.ones(600), slope=slope)
        summed = np.stack([scores[clusters == each].sum(axis=0) for each in range(150)])
        assert found[name].se == pytest.approx(np.sqrt((bread @ summed.T @ summed @ bread)[0, 0]), rel=1e-8)


def test_the_area_under_the_curve_is_scikit_learns_and_its_error_that_of_delong():
    p, right = drawn()
    found = nishimori.evaluate(claims(p, right))["auc"]
    assert found.value == pytest.approx(roc_auc_score(right, p), abs=1e-12)
    above, below = p[right == 1], p[right == 0]
    wins = (above[:, None] > below) + 0.5 * (above[:, None] == below)
    assert found.se == pytest.approx(np.sqrt(wins.mean(1).var() / len(above) + wins.mean(0).var() / len(below)), rel=1e-9)


def test_weights_of_the_area_are_those_of_scikit_learn():
    p, right = drawn()
    weights = np.random.default_rng(1).uniform(0.5, 2, size=len(p))
    found = nishimori.metrics.auc(claims(p, right, sample_weight=weights))
    assert found == pytest.approx(roc_auc_score(right, p, sample_weight=weights), abs=1e-12)


def test_they_are_those_of_the_positive_class_of_two():
    p, right = drawn()
    table, flat = np.stack([1 - p, p], axis=1), claims(p, right)
    for name in METRICS:
        found = nishimori.evaluate(table, right, input="probabilities", metrics=[name])
        assert found[name].value == pytest.approx(nishimori.evaluate(flat)[name].value, rel=1e-9)
        assert name not in nishimori.evaluate(table, right, input="probabilities").to_dict()
        with pytest.raises(InputError, match=f"The metric {name} must be left out unless there are 2 classes"):
            nishimori.evaluate(np.eye(3), [0, 1, 2], input="probabilities", metrics=[name])


def test_paired_differences_have_the_error_of_resampled_ones():
    p, right = drawn(2000)
    fitted = nishimori.calibrator("platt").fit(claims(*drawn(400, seed=3)))
    compared = nishimori.compare(claims(p, right), methods={"none": "none", "platt": fitted})
    change = compared["platt"].differences
    q, rng, draws = fitted.predict_proba(claims(p)), np.random.default_rng(0), []
    for _ in range(200):
        rows = rng.integers(2000, size=2000)
        draws.append([nishimori.metrics.calibration_slope(claims(each[rows], right[rows])) for each in (p, q)])
    spread = np.diff(draws, axis=1).std()
    assert change["calibration_slope"].se == pytest.approx(spread, rel=0.15)
    assert change["auc"].value == change["auc"].se == 0  # the order of claims stays


def test_exact_claims_have_no_log_odds_and_are_left_out():
    p, right = drawn(300)
    more, outcomes = np.append(p, [0.0, 1.0, 1.0]), np.append(right, [0, 1, 0])
    for name in METRICS[1:]:
        function = getattr(nishimori.metrics, name)
        assert function(claims(more, outcomes)) == pytest.approx(function(claims(p, right)), rel=1e-9)
    assert nishimori.metrics.auc(claims(more, outcomes)) == pytest.approx(roc_auc_score(outcomes, more))


def test_what_does_not_exist_has_a_reason():
    card = nishimori.evaluate(claims([0.9, 0.8, 0.7], [1, 1, 1]))
    assert np.isnan([card.auc, card.calibration_intercept, card.calibration_slope]).all()
    assert card.why_no_se["auc"] == "all samples are of one class."
    separated = nishimori.evaluate(claims([0.9, 0.8, 0.7, 0.6], [1, 1, 0, 0]))
    assert "a threshold separates the classes" in separated.why_no_se["calibration_slope"]
    assert "calibration_slope" not in separated.to_dict()
    assert "unknown" in str(separated)
