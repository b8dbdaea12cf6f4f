"""Labels that do not exclude each other: a sigmoid for each, calibrated with shared parameters or with some for each label."""

from nishimori._multilabel._estimator import MultilabelCalibrator
from nishimori._multilabel._label_scores import LabelScore, MultilabelScorecard, evaluate_multilabel
from nishimori._multilabel._loading import load

__all__ = ["LabelScore", "MultilabelCalibrator", "MultilabelScorecard", "evaluate_multilabel", "load"]
