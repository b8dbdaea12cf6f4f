"""Calibrators with scikit-learn's contract, and the table that gives them their names."""

from nishimori._calibrators._adaptive import AdaptiveConsistency
from nishimori._calibrators._calibrator import Calibrator
from nishimori._calibrators._fixed import FixedMap, FixedTemperature, Uncalibrated, from_temperature
from nishimori._calibrators._methods import calibrator, load, methods, register
from nishimori._calibrators._one_temperature import ExpectationConsistency, Matched, OneTemperature, TemperatureScaling

__all__ = [
    "AdaptiveConsistency",
    "Calibrator",
    "ExpectationConsistency",
    "FixedMap",
    "FixedTemperature",
    "Matched",
    "OneTemperature",
    "TemperatureScaling",
    "Uncalibrated",
    "calibrator",
    "from_temperature",
    "load",
    "methods",
    "register",
]
