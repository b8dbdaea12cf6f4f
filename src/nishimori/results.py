"""What functions return: classes to annotate with and to recognise. Functions make them; other code need not."""

from typing import TYPE_CHECKING

from nishimori._support.lazy import names_of

if TYPE_CHECKING:
    from nishimori._calibrators.classifier.calibrated_classifier import CalibratedPair as CalibratedPair
    from nishimori._calibrators.methods import Method as Method
    from nishimori._calibrators.methods import MethodTable as MethodTable
    from nishimori._calibrators.selection import CandidateScore as CandidateScore
    from nishimori._calibrators.selection import MethodSelection as MethodSelection
    from nishimori._evaluation.bootstrap import Bootstrap as Bootstrap
    from nishimori._evaluation.calibration_test import CalibrationTest as CalibrationTest
    from nishimori._evaluation.checks import Check as Check
    from nishimori._evaluation.comparison import Comparison as Comparison
    from nishimori._evaluation.curve import TemperatureCurve as TemperatureCurve
    from nishimori._evaluation.decomposition import Decomposition as Decomposition
    from nishimori._evaluation.diff import MetricChange as MetricChange
    from nishimori._evaluation.diff import MetricChanges as MetricChanges
    from nishimori._evaluation.gate import Gate as Gate
    from nishimori._evaluation.group_gaps import GroupGap as GroupGap
    from nishimori._evaluation.group_gaps import GroupGaps as GroupGaps
    from nishimori._evaluation.metrics.metric import Difference as Difference
    from nishimori._evaluation.metrics.metric import Estimate as Estimate
    from nishimori._evaluation.multilabel import LabelScore as LabelScore
    from nishimori._evaluation.multilabel import MultilabelScorecard as MultilabelScorecard
    from nishimori._evaluation.recommendation import Recommendation as Recommendation
    from nishimori._evaluation.recommendation import RecommendedMethod as RecommendedMethod
    from nishimori._evaluation.required_samples import RequiredSamples as RequiredSamples
    from nishimori._evaluation.scorecard import Scorecard as Scorecard
    from nishimori._fit.match import FitInfo as FitInfo
    from nishimori._fit.temperatures import Temperatures as Temperatures
    from nishimori._sums.reliability import Reliability as Reliability
    from nishimori._support.intervals import Interval as Interval
    from nishimori._top_k.top_k import ProbabilityBounds as ProbabilityBounds

_HOME = {
    "Bootstrap": "_evaluation.bootstrap",
    "CalibratedPair": "_calibrators.classifier.calibrated_classifier",
    "CalibrationTest": "_evaluation.calibration_test",
    "CandidateScore": "_calibrators.selection",
    "Check": "_evaluation.checks",
    "Comparison": "_evaluation.comparison",
    "Decomposition": "_evaluation.decomposition",
    "Difference": "_evaluation.metrics.metric",
    "Estimate": "_evaluation.metrics.metric",
    "FitInfo": "_fit.match",
    "Gate": "_evaluation.gate",
    "GroupGap": "_evaluation.group_gaps",
    "GroupGaps": "_evaluation.group_gaps",
    "Interval": "_support.intervals",
    "LabelScore": "_evaluation.multilabel",
    "Method": "_calibrators.methods",
    "MethodTable": "_calibrators.methods",
    "MetricChange": "_evaluation.diff",
    "MetricChanges": "_evaluation.diff",
    "MultilabelScorecard": "_evaluation.multilabel",
    "ProbabilityBounds": "_top_k.top_k",
    "Recommendation": "_evaluation.recommendation",
    "RecommendedMethod": "_evaluation.recommendation",
    "Reliability": "_sums.reliability",
    "RequiredSamples": "_evaluation.required_samples",
    "Scorecard": "_evaluation.scorecard",
    "MethodSelection": "_calibrators.selection",
    "TemperatureCurve": "_evaluation.curve",
    "Temperatures": "_fit.temperatures",
}

__all__ = [*_HOME]  # noqa: PLE0604 - the table is the list
if not TYPE_CHECKING:  # which would take every name for one that exists
    __getattr__, __dir__ = names_of("nishimori.results", _HOME, globals())
