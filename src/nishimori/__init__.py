"""nishimori makes classifiers honest about their confidence.

The names below are what people type; each is imported when it is first used, so that ``import nishimori`` costs nothing. What
functions return is in `nishimori.results`, maps are in `nishimori.maps`, errors in `nishimori.errors`.
"""

from typing import TYPE_CHECKING

from nishimori._methods.table import CLASSES
from nishimori._support.lazy import names_of

if TYPE_CHECKING:
    from nishimori import data as data
    from nishimori import errors as errors
    from nishimori import maps as maps
    from nishimori import metrics as metrics
    from nishimori import plot as plot
    from nishimori import report as report
    from nishimori import results as results
    from nishimori import sequences as sequences
    from nishimori import testing as testing
    from nishimori import torch as torch
    from nishimori._calibrators.best import Best as Best
    from nishimori._calibrators.bias_corrected import BiasCorrected as BiasCorrected
    from nishimori._calibrators.binary import Beta as Beta
    from nishimori._calibrators.binary import Platt as Platt
    from nishimori._calibrators.binary import Quadratic as Quadratic
    from nishimori._calibrators.calibrator import Calibrator as Calibrator
    from nishimori._calibrators.class_curves import HistogramBinning as HistogramBinning
    from nishimori._calibrators.class_curves import Isotonic as Isotonic
    from nishimori._calibrators.classifier.calibrated_classifier import CalibratedClassifier as CalibratedClassifier
    from nishimori._calibrators.consistent import Consistent as Consistent
    from nishimori._calibrators.ensemble import EnsembleTemperature as EnsembleTemperature
    from nishimori._calibrators.fixed import FixedMap as FixedMap
    from nishimori._calibrators.fixed import FixedTemperature as FixedTemperature
    from nishimori._calibrators.fixed import from_temperature as from_temperature
    from nishimori._calibrators.groups import GroupConsistency as GroupConsistency
    from nishimori._calibrators.loading import load as load
    from nishimori._calibrators.methods import calibrator as calibrator
    from nishimori._calibrators.methods import methods as methods
    from nishimori._calibrators.methods import register as register
    from nishimori._calibrators.multilabel.estimator import MultilabelCalibrator as MultilabelCalibrator
    from nishimori._calibrators.one_temperature import AdaptiveConsistency as AdaptiveConsistency
    from nishimori._calibrators.one_temperature import ExpectationConsistency as ExpectationConsistency
    from nishimori._calibrators.one_temperature import Matched as Matched
    from nishimori._calibrators.one_temperature import TemperatureScaling as TemperatureScaling
    from nishimori._calibrators.scaling import ClasswiseTemperature as ClasswiseTemperature
    from nishimori._calibrators.scaling import Dirichlet as Dirichlet
    from nishimori._calibrators.scaling import MatrixScaling as MatrixScaling
    from nishimori._calibrators.scaling import VectorScaling as VectorScaling
    from nishimori._calibrators.several_parameters import SeveralParameters as SeveralParameters
    from nishimori._evaluation.bootstrap import bootstrap as bootstrap
    from nishimori._evaluation.calibration_test import calibration_test as calibration_test
    from nishimori._evaluation.compare import compare as compare
    from nishimori._evaluation.curve import temperature_curve as temperature_curve
    from nishimori._evaluation.diff import diff as diff
    from nishimori._evaluation.gate import gate as gate
    from nishimori._evaluation.group_gaps import group_gaps as group_gaps
    from nishimori._evaluation.metrics.metric import Metric as Metric
    from nishimori._evaluation.multilabel import evaluate_multilabel as evaluate_multilabel
    from nishimori._evaluation.required_samples import required_samples as required_samples
    from nishimori._evaluation.scorecard import evaluate as evaluate
    from nishimori._fit.temperatures import temperatures as temperatures
    from nishimori._rows.batch import Batch as Batch
    from nishimori._rows.entry import rows as rows
    from nishimori._rows.rows import Rows as Rows
    from nishimori._sketch.sketch import Sketch as Sketch
    from nishimori._sums.observables import Observable as Observable
    from nishimori._top_k.top_k import TopK as TopK
    from nishimori.maps.kinds import register_map as register_map
    from nishimori.maps.map import Map as Map
    from nishimori.report import Report as Report

__version__ = "0.2.0"

# The classes of the methods are in a table of their own, `_methods.built_in`.
_HOME = {
    **CLASSES,
    "data": "",
    "errors": "",
    "maps": "",
    "metrics": "",
    "plot": "",
    "report": "",
    "results": "",
    "sequences": "",
    "testing": "",
    "torch": "",
    "Batch": "_rows.batch",
    "bootstrap": "_evaluation.bootstrap",
    "CalibratedClassifier": "_calibrators.classifier.calibrated_classifier",
    "calibration_test": "_evaluation.calibration_test",
    "Calibrator": "_calibrators.calibrator",
    "calibrator": "_calibrators.methods",
    "compare": "_evaluation.compare",
    "diff": "_evaluation.diff",
    "evaluate": "_evaluation.scorecard",
    "evaluate_multilabel": "_evaluation.multilabel",
    "FixedMap": "_calibrators.fixed",
    "FixedTemperature": "_calibrators.fixed",
    "from_temperature": "_calibrators.fixed",
    "gate": "_evaluation.gate",
    "group_gaps": "_evaluation.group_gaps",
    "load": "_calibrators.loading",
    "Map": "maps.map",
    "Matched": "_calibrators.one_temperature",
    "methods": "_calibrators.methods",
    "Metric": "_evaluation.metrics.metric",
    "MultilabelCalibrator": "_calibrators.multilabel.estimator",
    "Observable": "_sums.observables",
    "register": "_calibrators.methods",
    "register_map": "maps.kinds",
    "Report": "report",
    "required_samples": "_evaluation.required_samples",
    "Rows": "_rows.rows",
    "rows": "_rows.entry",
    "SeveralParameters": "_calibrators.several_parameters",
    "Sketch": "_sketch.sketch",
    "temperature_curve": "_evaluation.curve",
    "temperatures": "_fit.temperatures",
    "TopK": "_top_k.top_k",
}

__all__ = ["__version__", *_HOME]  # noqa: PLE0604 - the table is the list
if not TYPE_CHECKING:  # which would take every name for one that exists
    __getattr__, __dir__ = names_of("nishimori", _HOME, globals())
