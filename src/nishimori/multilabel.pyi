"""Where what is for several labels per sample lives."""

from nishimori._calibrators.multilabel.estimator import MultilabelCalibrator as MultilabelCalibrator
from nishimori._evaluation.multilabel import evaluate_multilabel as evaluate_multilabel
