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
    from nishimori import testing as testing
    from nishimori import theory as theory
    from nishimori import torch as torch
    from nishimori._calibrators.adaptive import AdaptiveConsistency as AdaptiveConsistency
    from nishimori._calibrators.beta import Beta as Beta
    from nishimori._calibrators.bias_corrected import BiasCorrected as BiasCorrected
    from nishimori._calibrators.calibrator import Calibrator as Calibrator
    from nishimori._calibrators.classifier.calibrated_classifier import CalibratedClassifier as CalibratedClassifier
    from nishimori._calibrators.classifier.pair import CalibratedPair as CalibratedPair
    from nishimori._calibrators.classwise import ClasswiseTemperature as ClasswiseTemperature
    from nishimori._calibrators.dirichlet import Dirichlet as Dirichlet
    from nishimori._calibrators.ensemble import EnsembleTemperature as EnsembleTemperature
    from nishimori._calibrators.fixed import FixedMap as FixedMap
    from nishimori._calibrators.fixed import FixedTemperature as FixedTemperature
    from nishimori._calibrators.fixed import Uncalibrated as Uncalibrated
    from nishimori._calibrators.fixed import from_temperature as from_temperature
    from nishimori._calibrators.groups import GroupConsistency as GroupConsistency
    from nishimori._calibrators.histogram import HistogramBinning as HistogramBinning
    from nishimori._calibrators.isotonic import Isotonic as Isotonic
    from nishimori._calibrators.method_table import MethodTable as MethodTable
    from nishimori._calibrators.method_table import method_table as method_table
    from nishimori._calibrators.methods import calibrator as calibrator
    from nishimori._calibrators.methods import methods as methods
    from nishimori._calibrators.methods import register as register
    from nishimori._calibrators.multilabel.estimator import MultilabelCalibrator as MultilabelCalibrator
    from nishimori._calibrators.multilabel.loading import load as load
    from nishimori._calibrators.one_temperature import ExpectationConsistency as ExpectationConsistency
    from nishimori._calibrators.one_temperature import Matched as Matched
    from nishimori._calibrators.one_temperature import TemperatureScaling as TemperatureScaling
    from nishimori._calibrators.platt import Platt as Platt
    from nishimori._calibrators.platt import Quadratic as Quadratic
    from nishimori._calibrators.scaling import MatrixScaling as MatrixScaling
    from nishimori._calibrators.scaling import VectorScaling as VectorScaling
    from nishimori._calibrators.several_parameters import SeveralParameters as SeveralParameters
    from nishimori._evaluation.bootstrap import Bootstrap as Bootstrap
    from nishimori._evaluation.bootstrap import bootstrap as bootstrap
    from nishimori._evaluation.calibration_test import CalibrationTest as CalibrationTest
    from nishimori._evaluation.calibration_test import calibration_test as calibration_test
    from nishimori._evaluation.checks import Check as Check
    from nishimori._evaluation.compare import compare as compare
    from nishimori._evaluation.comparison import Comparison as Comparison
    from nishimori._evaluation.curve import TemperatureCurve as TemperatureCurve
    from nishimori._evaluation.curve import temperature_curve as temperature_curve
    from nishimori._evaluation.gate import Gate as Gate
    from nishimori._evaluation.gate import gate as gate
    from nishimori._evaluation.group_gaps import GroupGap as GroupGap
    from nishimori._evaluation.group_gaps import GroupGaps as GroupGaps
    from nishimori._evaluation.group_gaps import group_gaps as group_gaps
    from nishimori._evaluation.multilabel import LabelScore as LabelScore
    from nishimori._evaluation.multilabel import MultilabelScorecard as MultilabelScorecard
    from nishimori._evaluation.multilabel import evaluate_multilabel as evaluate_multilabel
    from nishimori._evaluation.paired import Difference as Difference
    from nishimori._evaluation.paired import Paired as Paired
    from nishimori._evaluation.paired import paired as paired
    from nishimori._evaluation.required_samples import RequiredSamples as RequiredSamples
    from nishimori._evaluation.required_samples import required_samples as required_samples
    from nishimori._evaluation.score_test import ScoreTest as ScoreTest
    from nishimori._evaluation.score_test import score_test as score_test
    from nishimori._evaluation.scorecard import Scorecard as Scorecard
    from nishimori._evaluation.scorecard import evaluate as evaluate
    from nishimori._evaluation.temperature_test import TemperatureTest as TemperatureTest
    from nishimori._evaluation.temperature_test import temperature_test as temperature_test
    from nishimori._fit.temperatures import Temperatures as Temperatures
    from nishimori._fit.temperatures import temperatures as temperatures
    from nishimori._methods.traits import Traits as Traits
    from nishimori._rows.batch import Batch as Batch
    from nishimori._rows.entry import rows as rows
    from nishimori._rows.rows import Rows as Rows
    from nishimori._rows.top_k import TopK as TopK
    from nishimori._sums.observables import Observable as Observable
    from nishimori._sums.sketch.sketch import Sketch as Sketch
    from nishimori.errors import FewErrorsWarning as FewErrorsWarning
    from nishimori.errors import FormatError as FormatError
    from nishimori.errors import InputError as InputError
    from nishimori.errors import InputWarning as InputWarning
    from nishimori.errors import MergeError as MergeError
    from nishimori.errors import NishimoriError as NishimoriError
    from nishimori.errors import NoRowsError as NoRowsError
    from nishimori.errors import NotConvergedError as NotConvergedError
    from nishimori.errors import NoTemperatureError as NoTemperatureError
    from nishimori.maps.affine import Affine as Affine
    from nishimori.maps.affine import LogAffine as LogAffine
    from nishimori.maps.class_curves import ClassCurves as ClassCurves
    from nishimori.maps.group_temperatures import ClassTemperatures as ClassTemperatures
    from nishimori.maps.group_temperatures import GroupTemperatures as GroupTemperatures
    from nishimori.maps.log_odds import LogOdds as LogOdds
    from nishimori.maps.map import Map as Map
    from nishimori.maps.mixture import Mixture as Mixture
    from nishimori.maps.temperature import Temperature as Temperature
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
    "testing": "",
    "theory": "",
    "torch": "",
    "AdaptiveConsistency": "_calibrators.adaptive",
    "Bootstrap": "_evaluation.bootstrap",
    "bootstrap": "_evaluation.bootstrap",
    "Beta": "_calibrators.beta",
    "BiasCorrected": "_calibrators.bias_corrected",
    "Calibrator": "_calibrators.calibrator",
    "ClasswiseTemperature": "_calibrators.classwise",
    "Dirichlet": "_calibrators.dirichlet",
    "EnsembleTemperature": "_calibrators.ensemble",
    "ExpectationConsistency": "_calibrators.one_temperature",
    "FixedMap": "_calibrators.fixed",
    "FixedTemperature": "_calibrators.fixed",
    "GroupConsistency": "_calibrators.groups",
    "HistogramBinning": "_calibrators.histogram",
    "Isotonic": "_calibrators.isotonic",
    "Matched": "_calibrators.one_temperature",
    "MatrixScaling": "_calibrators.scaling",
    "MethodTable": "_calibrators.method_table",
    "Platt": "_calibrators.platt",
    "Quadratic": "_calibrators.platt",
    "SeveralParameters": "_calibrators.several_parameters",
    "TemperatureScaling": "_calibrators.one_temperature",
    "Traits": "_methods.traits",
    "Uncalibrated": "_calibrators.fixed",
    "VectorScaling": "_calibrators.scaling",
    "calibrator": "_calibrators.methods",
    "from_temperature": "_calibrators.fixed",
    "method_table": "_calibrators.method_table",
    "methods": "_calibrators.methods",
    "register": "_calibrators.methods",
    "Check": "_evaluation.checks",
    "CalibratedClassifier": "_calibrators.classifier.calibrated_classifier",
    "CalibratedPair": "_calibrators.classifier.pair",
    "compare": "_evaluation.compare",
    "Comparison": "_evaluation.comparison",
    "TemperatureCurve": "_evaluation.curve",
    "temperature_curve": "_evaluation.curve",
    "Gate": "_evaluation.gate",
    "gate": "_evaluation.gate",
    "GroupGap": "_evaluation.group_gaps",
    "GroupGaps": "_evaluation.group_gaps",
    "group_gaps": "_evaluation.group_gaps",
    "Affine": "maps.affine",
    "ClassCurves": "maps.class_curves",
    "ClassTemperatures": "maps.group_temperatures",
    "GroupTemperatures": "maps.group_temperatures",
    "LogAffine": "maps.log_affine",
    "LogOdds": "maps.log_odds",
    "Map": "maps.map",
    "Mixture": "maps.mixture",
    "Temperature": "maps.temperature",
    "LabelScore": "_evaluation.multilabel",
    "MultilabelCalibrator": "_calibrators.multilabel.estimator",
    "MultilabelScorecard": "_evaluation.multilabel",
    "evaluate_multilabel": "_evaluation.multilabel",
    "load": "_calibrators.multilabel.loading",
    "Observable": "_sums.observables",
    "Difference": "_evaluation.paired",
    "Paired": "_evaluation.paired",
    "paired": "_evaluation.paired",
    "Report": "report",
    "Batch": "_rows.batch",
    "Rows": "_rows.rows",
    "rows": "_rows.entry",
    "Scorecard": "_evaluation.scorecard",
    "evaluate": "_evaluation.scorecard",
    "Sketch": "_sums.sketch.sketch",
    "Temperatures": "_fit.temperatures",
    "temperatures": "_fit.temperatures",
    "TopK": "_rows.top_k",
    "CalibrationTest": "_evaluation.calibration_test",
    "RequiredSamples": "_evaluation.required_samples",
    "ScoreTest": "_evaluation.score_test",
    "TemperatureTest": "_evaluation.temperature_test",
    "calibration_test": "_evaluation.calibration_test",
    "required_samples": "_evaluation.required_samples",
    "score_test": "_evaluation.score_test",
    "temperature_test": "_evaluation.temperature_test",
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
