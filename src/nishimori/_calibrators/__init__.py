"""Calibrators with scikit-learn's contract, and the table that gives them their names."""

from nishimori._calibrators._adaptive import AdaptiveConsistency
from nishimori._calibrators._beta import Beta
from nishimori._calibrators._bias_corrected import BiasCorrected
from nishimori._calibrators._calibrator import Calibrator
from nishimori._calibrators._classwise import ClasswiseTemperature
from nishimori._calibrators._dirichlet import Dirichlet
from nishimori._calibrators._ensemble import EnsembleTemperature
from nishimori._calibrators._fixed import FIXED, FixedMap, FixedTemperature, Uncalibrated, from_temperature
from nishimori._calibrators._groups import GroupConsistency
from nishimori._calibrators._histogram import HistogramBinning
from nishimori._calibrators._isotonic import Isotonic
from nishimori._calibrators._method_table import MethodTable, method_table
from nishimori._calibrators._methods import calibrator, load, methods, register, unfitted
from nishimori._calibrators._one_temperature import ExpectationConsistency, Matched, OneTemperature, TemperatureScaling
from nishimori._calibrators._platt import Platt, Quadratic
from nishimori._calibrators._scaling import MatrixScaling, VectorScaling
from nishimori._calibrators._several_parameters import SeveralParameters
from nishimori._calibrators._traits import Traits

__all__ = [
    "FIXED",
    "AdaptiveConsistency",
    "Beta",
    "BiasCorrected",
    "Calibrator",
    "ClasswiseTemperature",
    "Dirichlet",
    "EnsembleTemperature",
    "ExpectationConsistency",
    "FixedMap",
    "FixedTemperature",
    "GroupConsistency",
    "HistogramBinning",
    "Isotonic",
    "Matched",
    "MatrixScaling",
    "MethodTable",
    "OneTemperature",
    "Platt",
    "Quadratic",
    "SeveralParameters",
    "TemperatureScaling",
    "Traits",
    "Uncalibrated",
    "VectorScaling",
    "calibrator",
    "from_temperature",
    "load",
    "method_table",
    "methods",
    "register",
    "unfitted",
]
