"""A flat score z stands for the logits (0, z), a flat probability p for (1 - p, p)."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import expit

import reference
from nishimori import ExpectationConsistency, TemperatureScaling, from_temperature, temperatures

rng = np.random.default_rng(0)
Z = 4 * rng.normal(size=600)
Y = (rng.random(600) < expit(Z / 2)).astype(int)
TWO_COLUMNS = np.stack([np.zeros(600), Z], axis=1)
METHODS = pytest.mark.parametrize("method", [ExpectationConsistency, TemperatureScaling])


@METHODS
def test_a_flat_score_has_the_temperature_of_its_two_columns_and_half_that_of_plus_minus_z(method):
    flat = method().fit(Z, Y)
    definition = reference.ec_temperature if method is ExpectationConsistency else reference.ts_temperature
    assert flat.temperature_ == pytest.approx(definition(TWO_COLUMNS, Y), rel=1e-8)
    assert method().fit(TWO_COLUMNS, Y).temperature_ == pytest.approx(flat.temperature_, rel=1e-12)
    both_signs = method().fit(np.stack([-Z, Z], axis=1), Y)
    assert both_signs.temperature_ == pytest.approx(2 * flat.temperature_, rel=1e-8)
    assert both_signs.predict_proba(np.stack([-Z, Z], axis=1)) == pytest.approx(flat.predict_proba(Z), rel=1e-7)


def test_the_probability_of_a_flat_score_is_the_logistic_function_of_z_over_t():
    calibrator = from_temperature(2.0)
    p = calibrator.predict_proba(Z)
    assert p.shape == (600, 2)
    np.testing.assert_allclose(p, np.stack([expit(-Z / 2), expit(Z / 2)], axis=1), rtol=1e-13)
    np.testing.assert_allclose(calibrator.predict_log_proba(Z), np.log(p), rtol=1e-12)
    assert calibrator.transform(Z).shape == (600,)
    np.testing.assert_array_equal(calibrator.transform(Z), Z / 2)


def test_a_score_of_zero_is_a_tie_and_so_the_first_class():
    assert from_temperature(1.0).predict([-1.0, 0.0, 1.0]).tolist() == [0, 0, 1]
    assert from_temperature(1.0, classes=["no", "yes"]).predict([-1.0, 0.0, 1.0]).tolist() == ["no", "no", "yes"]


@METHODS
def test_flat_probabilities_have_the_temperature_of_their_log_odds(method):
    fitted = method(input="probabilities").fit(expit(Z), Y)
    assert fitted.temperature_ == pytest.approx(method().fit(Z, Y).temperature_, rel=1e-8)
    two_columns = method(input="probabilities").fit(np.stack([expit(-Z), expit(Z)], axis=1), Y)
    assert two_columns.temperature_ == pytest.approx(fitted.temperature_, rel=1e-8)
    np.testing.assert_allclose(fitted.transform(expit(Z)), Z / fitted.temperature_, rtol=1e-7)
    np.testing.assert_allclose(fitted.predict_proba(expit(Z))[:, 1], expit(Z / fitted.temperature_), rtol=1e-7)


def test_both_temperatures_take_flat_scores_and_flat_probabilities():
    scores, columns, odds = temperatures(Z, Y), temperatures(TWO_COLUMNS, Y), temperatures(expit(Z), Y, input="probabilities")
    assert (scores.ec, scores.ts) == pytest.approx((columns.ec, columns.ts), rel=1e-12)
    assert (odds.ec, odds.ts) == pytest.approx((columns.ec, columns.ts), rel=1e-8)


@METHODS
def test_scores_beyond_the_range_of_a_float32_logistic_function_keep_their_temperature(method):
    large = (20 * Z).astype(np.float32)  # σ(80) is 1 in float32, where clipped losses turn into NaN
    fitted = method().fit(large, Y)
    assert fitted.temperature_ == pytest.approx(20 * method().fit(Z, Y).temperature_, rel=1e-5)
    assert np.isfinite(fitted.predict_proba(large)).all()


def test_probabilities_of_exactly_0_and_1_count_as_the_smallest_normal_and_are_counted():
    p = np.clip(expit(3 * Z), 0.01, 0.99)
    p[:5], p[5:12] = 0.0, 1.0
    fitted = TemperatureScaling(input="probabilities").fit(p, Y)
    tiny = np.finfo(float).smallest_normal
    logits = np.log(np.stack([np.where(p == 1, tiny, 1 - p), np.where(p == 0, tiny, p)], axis=1))
    assert fitted.receipt_.n_zeros == 12
    assert fitted.temperature_ == pytest.approx(reference.ts_temperature(logits, Y), rel=1e-8)
    np.testing.assert_allclose(fitted.predict_proba(p), reference.softmax(logits, fitted.temperature_), rtol=1e-9)


FLAT = {"list": Z.tolist(), "series": pd.Series(Z, name="score"), "torch": torch.from_numpy(Z)}


@pytest.mark.parametrize("scores", FLAT.values(), ids=FLAT)
def test_flat_scores_may_be_of_any_library(scores):
    fitted = ExpectationConsistency().fit(scores, Y)
    assert fitted.temperature_ == pytest.approx(reference.ec_temperature(TWO_COLUMNS, Y), rel=1e-8)
    assert (fitted.n_features_in_, fitted.classes_.tolist()) == (2, [0, 1])
    assert tuple(fitted.predict_proba(scores).shape) == (600, 2)


def test_a_calibrator_fitted_to_flat_scores_takes_two_columns_and_the_other_way_round():
    flat, wide = ExpectationConsistency().fit(Z, Y), ExpectationConsistency().fit(TWO_COLUMNS, Y)
    np.testing.assert_allclose(flat.predict_proba(TWO_COLUMNS), wide.predict_proba(Z), rtol=1e-12)


def test_fitting_flat_scores_forgets_the_column_names_of_an_earlier_fit():
    calibrator = ExpectationConsistency().fit(pd.DataFrame(TWO_COLUMNS, columns=["no", "yes"]), Y)
    assert calibrator.feature_names_in_.tolist() == ["no", "yes"]
    calibrator.fit(Z, Y)
    assert not hasattr(calibrator, "feature_names_in_")
    assert calibrator.predict_proba(TWO_COLUMNS).shape == (600, 2)
