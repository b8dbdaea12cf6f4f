"""Small data sets that every test of the classifier can fit in milliseconds."""

from functools import cache

import numpy as np
from sklearn.datasets import make_classification

NAMES = np.array(["ant", "bee", "cat"])


@cache
def three_classes(n_samples=400):
    """Features and classes 0, 1, 2; a quarter of the labels is random, so that classifiers make mistakes."""
    return make_classification(n_samples, n_informative=6, n_classes=3, flip_y=0.25, random_state=0)


@cache
def two_classes(n_samples=400):
    return make_classification(n_samples, n_informative=6, n_classes=2, flip_y=0.25, random_state=0)


@cache
def named():
    """The same three classes with names, which are text."""
    features, classes = three_classes()
    return features, NAMES[classes]
