"""The study of ensembles runs at a small size, and its ways are what they are called."""

import sys

import numpy as np
import pytest
import reference
from scipy.special import log_softmax, logsumexp


@pytest.fixture
def study():
    import members

    return members


@pytest.fixture
def logits(study):
    found, labels = reference.drawn(1000, 4)
    members = found + 2 * np.random.default_rng(1).normal(size=(10, 1000, 4))
    return study.Logits(members[:, :500], labels[:500], members[:, 500:], labels[500:])


def averaged(logits):
    return logsumexp(log_softmax(logits, axis=2), axis=0) - np.log(len(logits))


def test_ways_are_what_they_are_called(study, logits):
    part = study.ensembles(logits, 5)[1]
    found = study.ways(part, "ts")
    labels = part.calibration_labels
    Ts = np.array([reference.ts_temperature(z, labels) for z in part.calibration])[:, None, None]
    before, after = averaged(part.test / Ts), averaged(part.test)
    np.testing.assert_allclose(found["members, then average"], before, atol=1e-6)
    np.testing.assert_allclose(found["not calibrated"], after, atol=1e-9)
    T = reference.ts_temperature(averaged(part.calibration), labels)
    np.testing.assert_allclose(found["average, then calibrate"], after / T, atol=1e-6)
    again = reference.ts_temperature(averaged(part.calibration / Ts), labels)
    np.testing.assert_allclose(found["members, average, calibrate again"], before / again, atol=1e-6)


def test_the_temperature_of_five_members_is_used_for_other_sizes(study, logits):
    found = study.other_sizes(logits, "ts")
    of_five = np.mean(
        [reference.ts_temperature(averaged(part.calibration), part.calibration_labels) for part in study.ensembles(logits, 5)]
    )
    assert [found[size]["T of 5"] for size in (1, 5, 10)] == pytest.approx([of_five] * 3, rel=1e-6)
    expected = reference.nll(averaged(logits.test), logits.test_labels, of_five)
    assert found[10]["NLL, of 5"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.filterwarnings("ignore::nishimori.errors.FewErrorsWarning")
def test_the_study_runs(study, tmp_path, monkeypatch):
    out = tmp_path / "members.md"
    monkeypatch.setattr(sys, "argv", ["members.py", "--quick", "--out", str(out)])
    study.main()
    text = out.read_text(encoding="utf-8")
    assert text.count("### ") == 4
    assert "After minus before, paired: NLL" in text
