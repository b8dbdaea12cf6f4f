"""Calibrators with scikit-learn's contract: one file per method or family."""
