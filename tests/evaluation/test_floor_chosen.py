"""A floor that was chosen belongs to what is fitted: the model as it is, which "before" means everywhere, has none."""

import json

import numpy as np
import pytest
import shell
from scipy.special import softmax as row_softmax

import nishimori
from nishimori.maps import Affine, Temperature
from nishimori.maps.around import Floored


def sharp_probabilities(zeros):
    """Validation and test data of an overconfident model, most of whose probabilities are tiny; some test labels have p = 0."""
    rng = np.random.default_rng(0)
    z = 10 * rng.normal(size=(1200, 10))
    labels = np.where(rng.random(1200) < 0.15, rng.integers(0, 10, 1200), z.argmax(axis=1))
    p = row_softmax(z, axis=1)
    if zeros:
        p[p < 1e-4] = 0
        p /= p.sum(axis=1, keepdims=True)
    return (p[:600], labels[:600]), (p[600:], labels[600:])


def plain_scores(p, labels):
    """Confidence minus accuracy, and the loss of each row."""
    with np.errstate(divide="ignore"):
        return p.max(axis=1).mean() - (p.argmax(axis=1) == labels).mean(), -np.log(p[np.arange(len(p)), labels])


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("as_rows", [False, True])
def test_no_calibration_is_measured_without_the_floor_and_methods_with_it(zeros, as_rows):
    (p, y), (q, t) = sharp_probabilities(zeros)
    if as_rows:
        given = [nishimori.rows(*each, input="probabilities") for each in ((p, y), (q, t))]
        found = nishimori.compare(given[0], test_logits=given[1], methods=("none", "ts", "vector", 2.0))
    else:
        found = nishimori.compare(p, y, q, t, input="probabilities", methods=("none", "ts", "vector", 2.0))
    gap, losses = plain_scores(q, t)
    assert found.floor > 1e-3
    assert np.isinf(losses).any() == zeros
    losses[np.isinf(losses)] = -np.log(found.floor)
    none = found["none"].scorecard
    assert none.gap == pytest.approx(gap, abs=1e-12)
    assert none.nll == pytest.approx(losses.mean(), rel=1e-12)
    for name in ("ts", "vector"):
        fitted = nishimori.calibrator(name, input="probabilities").fit(p, y)
        card = nishimori.evaluate(q, t, calibrator=fitted)
        assert fitted.floor_ == found.floor
        for metric in ("gap", "ece", "nll", "brier"):
            assert found[name].scorecard[metric].value == pytest.approx(card[metric].value, abs=1e-12), (name, metric)
    halved = row_softmax(np.log(np.maximum(q, 1e-308)) / 2, axis=1)
    assert found["T=2"].scorecard.gap == pytest.approx(plain_scores(halved, t)[0], abs=1e-12)
    assert f"below {found.floor:g} are raised" in " ".join(found.verdicts)


def test_a_floor_that_the_user_names_is_for_all_methods():
    (p, y), (q, t) = sharp_probabilities(zeros=False)
    found = nishimori.compare(p, y, q, t, input="probabilities", floor=0.01, methods=("none", "ts"))
    raised = np.maximum(q, 0.01)
    assert found["none"].scorecard.gap == pytest.approx(plain_scores(raised / raised.sum(1, keepdims=True), t)[0], abs=1e-12)


def test_before_in_the_shell_is_the_same_with_and_without_a_calibration(tmp_path):
    (p, y), (q, t) = sharp_probabilities(zeros=False)
    for name, (scores, labels) in {"val": (p, y), "test": (q, t)}.items():
        np.savez(tmp_path / f"{name}.npz", probabilities=scores, labels=labels)
    assert shell.nishimori("fit val.npz -o c.json --input probabilities", place=tmp_path).code == 0
    lines = ("eval test.npz --input probabilities --json", "eval test.npz --calibration c.json --json")
    alone, both = (json.loads(shell.nishimori(line, place=tmp_path).out) for line in lines)
    assert both["floor"] is not None
    for metric in ("confidence", "gap", "ece", "nll", "brier"):
        assert both["before"][metric] == pytest.approx(alone["before"][metric], rel=1e-12), metric
    assert both["before"]["gap"] == pytest.approx(plain_scores(q, t)[0], abs=1e-12)


def test_a_map_after_a_floor_is_that_map_of_raised_probabilities():
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.full(4, 0.2), size=50)
    for inner in (Temperature(1.7), Affine(np.array([1.0, 0.5, 2.0, 1.5]), np.array([0.1, -0.1, 0.0, 0.0]))):
        found = Floored(inner, 0.02).probabilities(np.log(p))
        expected = inner.probabilities(np.log(np.maximum(p, 0.02)))
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_calibrations_that_do_the_same_do_not_differ():
    """Temperatures per class that are all the common one are computed in another way, and differ by rounding."""
    same = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        z = 3 * rng.normal(size=(800, 4))
        y = (z / 2 + rng.gumbel(size=z.shape)).argmax(axis=1)
        found = nishimori.compare(z[:400], y[:400], z[400:], y[400:], methods=("ec", "group"))
        if np.ptp(nishimori.GroupConsistency().fit(z[:400], y[:400]).temperatures_) < 1e-12:
            same += 1
            change = found["group"].differences["nll"]
            assert (change.value, change.se, change.p_value) == (0.0, 0.0, 1.0)
    assert same > 3


@pytest.mark.parametrize("zeros", [False, True])
def test_a_report_shows_the_errors_of_the_model_without_the_floor_and_judges_bounds_on_it(zeros):
    (p, y), (q, t) = sharp_probabilities(zeros)
    page = nishimori.Report(p, y, q, t, input="probabilities", bounds={"gap": 0.5}).to_dict()
    wrong = q.argmax(axis=1) != t
    assert page["mistakes"][0]["confidence"] == pytest.approx(q.max(axis=1)[wrong].max(), rel=1e-12)
    (none, *_) = page["gate"]["methods"]
    assert none["checks"][0]["value"] == pytest.approx(abs(plain_scores(q, t)[0]), rel=1e-9)
