"""A scikit-learn classifier whose probabilities are calibrated by cross-validation."""

from nishimori._classifier._calibrated_classifier import CalibratedClassifier
from nishimori._classifier._pair import CalibratedPair

__all__ = ["CalibratedClassifier", "CalibratedPair"]
