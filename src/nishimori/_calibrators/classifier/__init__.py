"""A scikit-learn classifier whose probabilities are calibrated by cross-validation."""
