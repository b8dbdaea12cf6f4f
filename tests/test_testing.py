import re

import pytest
import reference

from nishimori.errors import InputError
from nishimori.testing import assert_calibrated

LOGITS, LABELS = reference.drawn(2000, 4)  # drawn at T = 2


def test_a_calibrated_model_passes():
    assert_calibrated(LOGITS, LABELS, temperature=2.0, bounds={"ece": 0.06, "gap": 0.05, "error": 0.6})


def test_a_bound_that_is_exceeded_raises_with_what_by_how_much_and_its_limits():
    with pytest.raises(AssertionError) as raised:
        assert_calibrated(LOGITS, LABELS, bounds={"gap": 0.05, "error": 0.9})
    gap = reference.ec_gap(LOGITS, LABELS, 1.0)
    first, second = str(raised.value).splitlines()
    assert first == "1 of 2 checks did not pass on 2000 samples."
    found = re.fullmatch(r"fail: gap exceeds 5 %: (\S+) % \(confidence is above accuracy\); 97.5 % lower bound (\S+) %", second)
    assert float(found[1]) == pytest.approx(100 * gap, abs=0.005)
    assert 5 < float(found[2]) < float(found[1])


def test_what_is_inconclusive_raises_unless_that_is_allowed():
    gap = reference.ec_gap(LOGITS, LABELS, 1.0)
    assert_calibrated(LOGITS, LABELS, bounds={"gap": gap}, allow_inconclusive=True)
    with pytest.raises(AssertionError, match="inconclusive: gap may exceed"):
        assert_calibrated(LOGITS, LABELS, bounds={"gap": gap})
    with pytest.raises(AssertionError, match="cannot be judged"):
        assert_calibrated(LOGITS[:3], LABELS[:3], bounds={"gap": 0.5}, allow_inconclusive=True)


def test_a_bound_is_needed():
    with pytest.raises(InputError, match=r"^`bounds` must have at least one bound"):
        assert_calibrated(LOGITS, LABELS, bounds={})


def test_a_model_that_cannot_be_judged_does_not_pass():
    with pytest.raises(AssertionError) as raised:
        assert_calibrated(LOGITS[:3], LABELS[:3], bounds={"gap": 0.5})
    assert str(raised.value).splitlines() == [
        "1 of 1 checks did not pass on 3 samples.",
        "cannot be judged: gap at most 50 %: there are only 3 samples, and at least 100 are needed",
    ]
    assert_calibrated(LOGITS[:3], LABELS[:3], bounds={"gap": 1}, min_samples=3)
    with pytest.raises(AssertionError, match="the model gives the same probabilities for every sample"):
        assert_calibrated(0 * LOGITS, LABELS, bounds={"gap": 1})
