"""Calibrators and maps that are so simple that a test can say what they must do."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nishimori import Calibrator
from nishimori._sums.census import census
from nishimori.maps import Affine, GroupTemperatures
from nishimori.maps.map import Map


class _Small(Calibrator):
    """`fit` keeps what `chosen` gives for the data."""

    def __init__(self, *, input="logits", classes=None, floor=None):
        self.input = input
        self.classes = classes
        self.floor = floor

    def fit(self, X, y=None, sample_weight=None):
        data = self.rows_from(X, y, sample_weight)
        return self.learn(X, data, self.chosen(data), census(data).n_rows)


class PerGroup(_Small):
    """T = 1, 1 + step, 1 + 2 step, ... for the groups in the order of their names; T = 4 for all others."""

    def __init__(self, *, step=1.0, input="logits", classes=None, floor=None):
        super().__init__(input=input, classes=classes, floor=floor)
        self.step = step

    def fit(self, X, y=None, sample_weight=None, *, groups=None):
        data = self.rows_from(X, y, sample_weight, groups=groups)
        names = data.groups.names
        map_ = GroupTemperatures(names, [1 + self.step * place for place in range(len(names))], 4.0)
        return self.learn(X, data, map_, census(data).n_rows)


class Shifted(_Small):
    """Half the logits, plus ``by`` for the first class; or only half of them where that would change a prediction."""

    def __init__(self, *, by=3.0, preserve_accuracy=False, input="logits", classes=None, floor=None):
        super().__init__(input=input, classes=classes, floor=floor)
        self.by = by
        self.preserve_accuracy = preserve_accuracy

    def chosen(self, data):
        bias = [self.by] + [0.0] * (data.n_classes - 1)
        return Affine(0.5, bias, 2.0 if self.preserve_accuracy else None)


@dataclass(frozen=True)
class Bias(Map):
    """A map that is no temperature: adds one number to the first class."""

    bias: float
    kind: ClassVar[str] = "bias"

    def apply(self, logits, groups=None):
        return logits + self.bias * (np.arange(logits.shape[1]) == 0)

    @property
    def parameters(self):
        return {"bias": self.bias}
