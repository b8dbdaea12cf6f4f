"""A whole calibration on real data that every installation has: scikit-learn's handwritten digits.

A network with two hidden layers of 128 units learns 200 digits by heart, without weight decay, and is then far too sure of
itself on the other 1,597. Half of those validate, half test.
"""

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

from nishimori import plot
from nishimori._curve import temperature_curve
from nishimori._disk import new_file
from nishimori._labels import HostArray
from nishimori._optional import require
from nishimori._temperatures import Temperatures, temperatures
from nishimori.metrics import reliability

_N_TRAIN = 200
_EPOCHS = 2000
_HIDDEN = (128, 128)


@dataclass(frozen=True)
class Labelled:
    """Logits of the network and the digits they are about."""

    logits: HostArray
    labels: HostArray

    def save(self, path: Path, *, overwrite: bool) -> None:
        """Store as an .npz file that every command reads."""
        with new_file(path, overwrite=overwrite) as temporary:
            np.savez(temporary, logits=self.logits, labels=self.labels)


@dataclass(frozen=True)
class Demo:
    """A trained network's validation and test logits, and the temperatures of the first."""

    validation: Labelled
    test: Labelled
    found: Temperatures


def run(seed: int) -> Demo:
    """Train, collect logits, and find both temperatures."""
    images, digits = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(digits))
    train, rest = order[:_N_TRAIN], order[_N_TRAIN:]
    half = len(rest) // 2
    network = MLPClassifier(_HIDDEN, alpha=0.0, max_iter=_EPOCHS, tol=0.0, n_iter_no_change=_EPOCHS, random_state=seed)
    # Layers this small train faster on one core, and to the same weights however many there are.
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)  # training to the end is the point
        network.fit(images[train], digits[train])
    validation, test = (Labelled(_logits(network, images[part]), digits[part]) for part in (rest[:half], rest[half:]))
    return Demo(validation, test, temperatures(validation.logits, validation.labels))


def _logits(network: MLPClassifier, images: HostArray) -> HostArray:
    """What the last layer says before the softmax, which scikit-learn does not offer."""
    activity = images
    for weights, bias in zip(network.coefs_[:-1], network.intercepts_[:-1], strict=True):
        activity = np.maximum(activity @ weights + bias, 0)
    logits: HostArray = activity @ network.coefs_[-1] + network.intercepts_[-1]
    return logits


def draw(demo: Demo, path: Path, *, overwrite: bool) -> None:
    """Reliability before and after on the test half, and the temperature curve of the validation half."""
    pyplot = require("matplotlib.pyplot", extra="plot", for_="The picture")
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4.8), width_ratios=(4, 5), layout="constrained")
    try:
        for label, temperature in (("before", 1.0), ("after EC", demo.found.ec)):
            if temperature is not None:
                curve = reliability(demo.test.logits, demo.test.labels, temperature=temperature)
                plot.reliability_diagram(curve, ax=left, label=label)
        plot.temperature_curve(temperature_curve(demo.validation.logits, demo.validation.labels), ax=right)
        with new_file(path, overwrite=overwrite) as temporary:
            figure.savefig(temporary, dpi=120)
    finally:
        pyplot.close(figure)
