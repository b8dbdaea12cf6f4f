"""Logits so far apart that probabilities round to 1: curves of probabilities cannot tell such samples apart, and say so."""

import warnings

import numpy as np
import pytest

from nishimori import HistogramBinning, Isotonic, TemperatureScaling
from nishimori.errors import InputWarning

RNG = np.random.default_rng(0)
SCORES = RNG.normal(size=300)
LABELS = (SCORES + 0.5 * RNG.logistic(size=300) > 0).astype(int)
BOTH = pytest.mark.parametrize("kind", [Isotonic, HistogramBinning])


@BOTH
def test_samples_that_look_alike_are_counted(kind):
    far = 300 * SCORES
    n_far = (np.abs(far) > 53 * np.log(2)).sum()
    with pytest.warns(InputWarning, match=rf"^{n_far} of 300 samples have logits so far apart that their probability"):
        kind().fit(far, LABELS)


@BOTH
def test_after_one_temperature_they_are_told_apart_without_a_warning(kind):
    temperature = TemperatureScaling().fit(300 * SCORES, LABELS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = kind().fit(temperature.transform(300 * SCORES), LABELS)
    assert len(np.unique(fitted.predict_proba(temperature.transform(300 * SCORES))[:, 1])) > 5


@BOTH
def test_probabilities_that_were_passed_as_one_have_lost_nothing(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kind(input="probabilities", floor=1e-6).fit((SCORES > 0).astype(float), LABELS)
