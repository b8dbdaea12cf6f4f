"""The intercept: the shift at which mean confidence is the share right, its error, and when there is none."""

import numpy as np
import pytest
from scipy.optimize import brentq
from stated import stated

import nishimori
from nishimori import claims
from nishimori.errors import DegenerateDataError, InputError

SIGMOID = lambda z: 1 / (1 + np.exp(-z))  # noqa: E731


def test_mean_confidence_is_the_share_right_and_the_error_that_of_the_sandwich():
    p, right = stated(500)
    p = np.minimum(p, 0.97)
    s = np.log(p / (1 - p))
    b = brentq(lambda b: (SIGMOID(s + b) - right).mean(), -20, 20, xtol=1e-14)
    fitted = nishimori.calibrators.Intercept(floor=None).fit(claims(p, right))
    q = SIGMOID(s + b)
    assert fitted.parameters_["intercept"] == pytest.approx(b, abs=1e-10)
    assert fitted.parameters_se_["intercept"] == pytest.approx(
        np.sqrt(((right - q) ** 2).sum()) / (q * (1 - q)).sum(), rel=1e-9
    )
    np.testing.assert_allclose(fitted.predict_proba(claims(p)), q, rtol=1e-10)
    assert fitted.about_floor_ == ""


def test_weights_and_clusters_enter_as_sums():
    p, right = stated(400)
    p, weights = np.minimum(p, 0.97), np.arange(400) % 3 + 1.0
    fitted = nishimori.calibrators.Intercept(floor=None).fit(claims(p, right, sample_weight=weights))
    assert np.average(fitted.predict_proba(claims(p)), weights=weights) == pytest.approx(np.average(right, weights=weights))
    clusters = np.arange(400) // 2
    found = nishimori.calibrators.Intercept(floor=None).fit(claims(p, right, clusters=clusters))
    q = found.predict_proba(claims(p))
    summed = np.bincount(clusters, right - q)
    assert found.parameters_se_["intercept"] == pytest.approx(np.sqrt((summed**2).sum()) / (q * (1 - q)).sum(), rel=1e-8)


def test_exact_claims_cannot_be_shifted():
    with pytest.raises(DegenerateDataError, match=r"exactly 1 less often than that.*got 75 % of them, where 50 % are right"):
        nishimori.calibrators.Intercept(floor=None).fit(claims([1.0, 1.0, 1.0, 0.5], [1, 0, 1, 0]))
    with pytest.raises(DegenerateDataError, match="exactly 0 less often"):
        nishimori.calibrators.Intercept(floor=None).fit(claims([0.0, 0.0, 0.0, 0.5], [1, 0, 1, 0]))
    with pytest.raises(DegenerateDataError, match="samples that are right and samples that are wrong, got only right ones"):
        nishimori.calibrators.Intercept(floor=None).fit(claims([0.9, 0.8], [1, 1]))
    # one that is right less often than all are exact leaves a solution for the others
    p, right = np.array([1.0, 0.9, 0.8, 0.7, 0.6]), np.array([1, 0, 1, 0, 0])
    fitted = nishimori.calibrators.Intercept(floor=None).fit(claims(p, right))
    assert fitted.predict_proba(claims(p)).mean() == pytest.approx(0.4)


def test_the_floor_is_a_part_of_the_result_and_its_effect_is_said(tmp_path):
    p, right = stated(300)
    fitted = nishimori.calibrator("intercept").fit(claims(p, right))
    other = nishimori.calibrators.Intercept(floor=None).fit(claims(p, right))
    assert 0 < fitted.floor_ <= 0.05  # claims of 1 stay above those of 0.95
    shown = f"it would be {other.parameters_['intercept']:.2f}".replace("-", "−")
    assert fitted.about_floor_.startswith(f"{100 * (p == 1).mean():.3g} % of the claims are exactly 0 or 1")
    assert shown in fitted.about_floor_
    fitted.save(tmp_path / "c.json")
    assert nishimori.load(tmp_path / "c.json").about_floor_ == fitted.about_floor_


def test_a_floor_changes_no_claims_where_none_is_exact():
    p, right = stated(40)
    p = np.minimum(p, 0.95)
    fitted = nishimori.calibrator("intercept").fit(claims(p, right))
    assert fitted.floor_ <= 0.05
    assert fitted.parameters_ == nishimori.calibrators.Intercept(floor=None).fit(claims(p, right)).parameters_
    assert fitted.predict_proba(claims([1.0]))[0] < 1


def test_of_two_classes_it_shifts_the_second():
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=4000)
    labels = (rng.random(4000) < SIGMOID(z - 1.5)).astype(int)
    fitted = nishimori.calibrator("intercept").fit(z, labels)
    assert fitted.parameters_["intercept"] == pytest.approx(-1.5, abs=0.15)
    assert fitted.predict_proba(z)[:, 1].mean() == pytest.approx(labels.mean())
    with pytest.raises(InputError, match="have two classes for the method 'intercept'"):
        nishimori.calibrator("intercept").fit(rng.normal(size=(50, 3)), np.arange(50) % 3)
