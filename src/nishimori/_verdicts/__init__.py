"""Answers to questions about a model and its labels, each with a p-value or a number of samples, and a sentence."""

from nishimori._verdicts._calibration_test import CalibrationTest, calibration_test
from nishimori._verdicts._required_samples import RequiredSamples, required_samples
from nishimori._verdicts._score_test import ScoreTest, score_test
from nishimori._verdicts._temperature_test import TemperatureTest, temperature_test

__all__ = [
    "CalibrationTest",
    "RequiredSamples",
    "ScoreTest",
    "TemperatureTest",
    "calibration_test",
    "required_samples",
    "score_test",
    "temperature_test",
]
