"""What is fitted, the one table of methods, what is kept of a fit, and its record on disk. Nothing here needs scikit-learn."""
