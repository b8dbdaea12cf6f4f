"""Calibrators with scikit-learn's contract, and the table that gives them their names."""

from nishimori._calibrators._adaptive import AdaptiveConsistency
from nishimori._calibrators._bias_corrected import BiasCorrected
from nishimori._calibrators._calibrator import Calibrator
from nishimori._calibrators._fixed import FixedMap, FixedTemperature, Uncalibrated, from_temperature
from nishimori._calibrators._groups import GroupConsistency
from nishimori._calibrators._methods import calibrator, load, methods, register
from nishimori._calibrators._one_temperature import ExpectationConsistency, Matched, OneTemperature, TemperatureScaling
from nishimori._calibrators._scaling import MatrixScaling, VectorScaling
from nishimori._calibrators._several_parameters import SeveralParameters

__all__ = [
    "AdaptiveConsistency",
    "BiasCorrected",
    "Calibrator",
    "ExpectationConsistency",
    "FixedMap",
    "FixedTemperature",
    "GroupConsistency",
    "Matched",
    "MatrixScaling",
    "OneTemperature",
    "SeveralParameters",
    "TemperatureScaling",
    "Uncalibrated",
    "VectorScaling",
    "calibrator",
    "from_temperature",
    "load",
    "methods",
    "register",
]
