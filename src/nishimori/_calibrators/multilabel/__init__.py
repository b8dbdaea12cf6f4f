"""Multilabel calibration: a sigmoid per label, with shared parameters or with some per label."""
