"""The share of right predictions, of samples in any number of dimensions."""

from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score

from nishimori._rows.labels import flat_labels
from nishimori._rows.scores import Scores
from nishimori._support import arrays


def accuracy(y: Any, predicted: Any, sample_weight: Any) -> float:
    """The weighted share of samples whose predicted label is the true one."""
    if predicted.ndim > 1:
        shape = tuple(predicted.shape)
        flat = np.asarray(arrays.on_host(predicted)).reshape(-1)
        positions = Scores(flat[:, None], "logits", "X", leading=shape)
        y, sample_weight = flat_labels(y, positions, "y"), positions.per_row(sample_weight, "sample_weight")
        predicted = flat
    return float(accuracy_score(y, predicted, sample_weight=sample_weight))
