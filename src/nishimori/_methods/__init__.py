"""Methods without scikit-learn: the table of methods, the result of a fit, and its record on disk."""
