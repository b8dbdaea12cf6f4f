"""nishimori makes classifiers honest about their confidence.

The names below are what people type; each is imported when it is first used, so that ``import nishimori`` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nishimori import data as data
    from nishimori import errors as errors
    from nishimori import metrics as metrics
    from nishimori import paper as paper
    from nishimori import plot as plot
    from nishimori import report as report
    from nishimori import sequences as sequences
    from nishimori import sources as sources
    from nishimori import testing as testing
    from nishimori import theory as theory
    from nishimori import torch as torch
    from nishimori._bootstrap import Bootstrap as Bootstrap
    from nishimori._bootstrap import bootstrap as bootstrap
    from nishimori._calibrators import AdaptiveConsistency as AdaptiveConsistency
    from nishimori._calibrators import Beta as Beta
    from nishimori._calibrators import BiasCorrected as BiasCorrected
    from nishimori._calibrators import Calibrator as Calibrator
    from nishimori._calibrators import ClasswiseTemperature as ClasswiseTemperature
    from nishimori._calibrators import Dirichlet as Dirichlet
    from nishimori._calibrators import EnsembleTemperature as EnsembleTemperature
    from nishimori._calibrators import ExpectationConsistency as ExpectationConsistency
    from nishimori._calibrators import FixedMap as FixedMap
    from nishimori._calibrators import FixedTemperature as FixedTemperature
    from nishimori._calibrators import GroupConsistency as GroupConsistency
    from nishimori._calibrators import HistogramBinning as HistogramBinning
    from nishimori._calibrators import Isotonic as Isotonic
    from nishimori._calibrators import Matched as Matched
    from nishimori._calibrators import MatrixScaling as MatrixScaling
    from nishimori._calibrators import MethodTable as MethodTable
    from nishimori._calibrators import Platt as Platt
    from nishimori._calibrators import Quadratic as Quadratic
    from nishimori._calibrators import SeveralParameters as SeveralParameters
    from nishimori._calibrators import TemperatureScaling as TemperatureScaling
    from nishimori._calibrators import Traits as Traits
    from nishimori._calibrators import Uncalibrated as Uncalibrated
    from nishimori._calibrators import VectorScaling as VectorScaling
    from nishimori._calibrators import calibrator as calibrator
    from nishimori._calibrators import from_temperature as from_temperature
    from nishimori._calibrators import method_table as method_table
    from nishimori._calibrators import methods as methods
    from nishimori._calibrators import register as register
    from nishimori._checks import Check as Check
    from nishimori._classifier import CalibratedClassifier as CalibratedClassifier
    from nishimori._classifier import CalibratedPair as CalibratedPair
    from nishimori._compare import compare as compare
    from nishimori._comparison import Comparison as Comparison
    from nishimori._curve import TemperatureCurve as TemperatureCurve
    from nishimori._curve import temperature_curve as temperature_curve
    from nishimori._gate import Gate as Gate
    from nishimori._gate import gate as gate
    from nishimori._group_gaps import GroupGap as GroupGap
    from nishimori._group_gaps import GroupGaps as GroupGaps
    from nishimori._group_gaps import group_gaps as group_gaps
    from nishimori._maps import Affine as Affine
    from nishimori._maps import ClassCurves as ClassCurves
    from nishimori._maps import ClassTemperatures as ClassTemperatures
    from nishimori._maps import GroupTemperatures as GroupTemperatures
    from nishimori._maps import LogAffine as LogAffine
    from nishimori._maps import LogOdds as LogOdds
    from nishimori._maps import Map as Map
    from nishimori._maps import Mixture as Mixture
    from nishimori._maps import Temperature as Temperature
    from nishimori._multilabel import LabelScore as LabelScore
    from nishimori._multilabel import MultilabelCalibrator as MultilabelCalibrator
    from nishimori._multilabel import MultilabelScorecard as MultilabelScorecard
    from nishimori._multilabel import evaluate_multilabel as evaluate_multilabel
    from nishimori._multilabel import load as load
    from nishimori._observables import Observable as Observable
    from nishimori._paired import Difference as Difference
    from nishimori._paired import Paired as Paired
    from nishimori._paired import paired as paired
    from nishimori._scorecard import Scorecard as Scorecard
    from nishimori._scorecard import evaluate as evaluate
    from nishimori._sketch import Sketch as Sketch
    from nishimori._temperatures import Temperatures as Temperatures
    from nishimori._temperatures import temperatures as temperatures
    from nishimori._top_k import TopK as TopK
    from nishimori._verdicts import CalibrationTest as CalibrationTest
    from nishimori._verdicts import RequiredSamples as RequiredSamples
    from nishimori._verdicts import ScoreTest as ScoreTest
    from nishimori._verdicts import TemperatureTest as TemperatureTest
    from nishimori._verdicts import calibration_test as calibration_test
    from nishimori._verdicts import required_samples as required_samples
    from nishimori._verdicts import score_test as score_test
    from nishimori._verdicts import temperature_test as temperature_test
    from nishimori.errors import FewErrorsWarning as FewErrorsWarning
    from nishimori.errors import FormatError as FormatError
    from nishimori.errors import InputError as InputError
    from nishimori.errors import InputWarning as InputWarning
    from nishimori.errors import MergeError as MergeError
    from nishimori.errors import NishimoriError as NishimoriError
    from nishimori.errors import NoRowsError as NoRowsError
    from nishimori.errors import NotConvergedError as NotConvergedError
    from nishimori.errors import NoTemperatureError as NoTemperatureError
    from nishimori.report import Report as Report

__version__ = "0.1.0"

_HOME = {
    "data": "",
    "errors": "",
    "metrics": "",
    "paper": "",
    "plot": "",
    "report": "",
    "sequences": "",
    "sources": "",
    "testing": "",
    "theory": "",
    "torch": "",
    "AdaptiveConsistency": "_calibrators",
    "Bootstrap": "_bootstrap",
    "bootstrap": "_bootstrap",
    "Beta": "_calibrators",
    "BiasCorrected": "_calibrators",
    "Calibrator": "_calibrators",
    "ClasswiseTemperature": "_calibrators",
    "Dirichlet": "_calibrators",
    "EnsembleTemperature": "_calibrators",
    "ExpectationConsistency": "_calibrators",
    "FixedMap": "_calibrators",
    "FixedTemperature": "_calibrators",
    "GroupConsistency": "_calibrators",
    "HistogramBinning": "_calibrators",
    "Isotonic": "_calibrators",
    "Matched": "_calibrators",
    "MatrixScaling": "_calibrators",
    "MethodTable": "_calibrators",
    "Platt": "_calibrators",
    "Quadratic": "_calibrators",
    "SeveralParameters": "_calibrators",
    "TemperatureScaling": "_calibrators",
    "Traits": "_calibrators",
    "Uncalibrated": "_calibrators",
    "VectorScaling": "_calibrators",
    "calibrator": "_calibrators",
    "from_temperature": "_calibrators",
    "method_table": "_calibrators",
    "methods": "_calibrators",
    "register": "_calibrators",
    "Check": "_checks",
    "CalibratedClassifier": "_classifier",
    "CalibratedPair": "_classifier",
    "compare": "_compare",
    "Comparison": "_comparison",
    "TemperatureCurve": "_curve",
    "temperature_curve": "_curve",
    "Gate": "_gate",
    "gate": "_gate",
    "GroupGap": "_group_gaps",
    "GroupGaps": "_group_gaps",
    "group_gaps": "_group_gaps",
    "Affine": "_maps",
    "ClassCurves": "_maps",
    "ClassTemperatures": "_maps",
    "GroupTemperatures": "_maps",
    "LogAffine": "_maps",
    "LogOdds": "_maps",
    "Map": "_maps",
    "Mixture": "_maps",
    "Temperature": "_maps",
    "LabelScore": "_multilabel",
    "MultilabelCalibrator": "_multilabel",
    "MultilabelScorecard": "_multilabel",
    "evaluate_multilabel": "_multilabel",
    "load": "_multilabel",
    "Observable": "_observables",
    "Difference": "_paired",
    "Paired": "_paired",
    "paired": "_paired",
    "Report": "report",
    "Scorecard": "_scorecard",
    "evaluate": "_scorecard",
    "Sketch": "_sketch",
    "Temperatures": "_temperatures",
    "temperatures": "_temperatures",
    "TopK": "_top_k",
    "CalibrationTest": "_verdicts",
    "RequiredSamples": "_verdicts",
    "ScoreTest": "_verdicts",
    "TemperatureTest": "_verdicts",
    "calibration_test": "_verdicts",
    "required_samples": "_verdicts",
    "score_test": "_verdicts",
    "temperature_test": "_verdicts",
    "FewErrorsWarning": "errors",
    "FormatError": "errors",
    "InputError": "errors",
    "InputWarning": "errors",
    "MergeError": "errors",
    "NishimoriError": "errors",
    "NoRowsError": "errors",
    "NoTemperatureError": "errors",
    "NotConvergedError": "errors",
}

__all__ = ["__version__", *_HOME]  # noqa: PLE0604 - the table is the list


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'nishimori' has no attribute {name!r}")
    if not _HOME[name]:
        return import_module(f"nishimori.{name}")
    value = getattr(import_module(f"nishimori.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
