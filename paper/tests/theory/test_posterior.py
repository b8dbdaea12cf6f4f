"""A posterior has the metrics of the overlaps that it is given."""

import pytest

from nishimori.errors import InputError
from nishimori_paper.theory import (
    Affine,
    Posterior,
    bayes_optimal,
)


def test_a_posterior_measures_the_overlaps_it_is_given():
    found = bayes_optimal("affine", 3.0, temperature=1.3)
    same = Posterior(Affine(), 1.3, found.m, found.q, found.v)
    for metric in ("error", "accuracy", "confidence", "loss"):
        assert getattr(same, metric) == getattr(found, metric)


def test_a_posterior_opposite_to_the_teacher_is_wrong_more_often_than_not():
    away, towards = (Posterior("logit", 1.0, m, 0.3, 0.7) for m in (-0.1, 0.1))
    assert away.error == pytest.approx(1 - towards.error, abs=1e-12)
    assert Posterior("logit", 1.0, 0.0, 0.3, 0.7).error == pytest.approx(0.5, abs=1e-12)


def test_an_impossible_posterior_is_refused():
    with pytest.raises(
        InputError, match=r"`m` must be a number of absolute value below sqrt\(rho \* q\) = 0\.547\d*, got 9\.0"
    ):
        Posterior("logit", 1.0, 9.0, 0.3, 0.7)
    with pytest.raises(InputError, match="`v` must be a positive finite number"):
        Posterior("logit", 1.0, 0.1, 0.3, 0.0)
