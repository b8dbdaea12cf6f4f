"""The cost of decisions: the mean cost of the action that is cheapest by the calibrated probabilities."""

from math import isfinite
from typing import Any

import numpy as np

from nishimori._evaluation.metrics.metric import Metric
from nishimori._rows.rows import Rows
from nishimori._sums.predictions import Predictions
from nishimori._support.arrays import HostArray
from nishimori._support.numbers import numeric
from nishimori.errors import InputError


class Cost(Metric):
    """Mean cost of the action with the lowest expected cost.

    Deciding is one line: ``(probabilities @ costs.T).argmin(axis=1)``. Pass the metric to `evaluate`, `compare` or `gate`,
    which give its standard error, and its paired difference from no calibration.

    Parameters
    ----------
    costs : array of shape (n_actions, n_classes)
        What each action costs where each class is the true one. An action need not be the answer of a class: "ask a person" is
        a row. For `claims` the columns are wrong and right.
    against_argmax : bool
        Measure the difference from answering the most probable class, which the first rows of ``costs`` then are in order:
        negative if the probabilities save something.

    Examples
    --------
    >>> import numpy as np
    >>> import nishimori
    >>> network = nishimori.data.load("cifar10/resnet20")
    >>> costs = np.full((11, 10), 10.0)  # a wrong answer
    >>> costs[range(10), range(10)], costs[10] = 0.0, 1.0  # a right one, and asking a person
    >>> cost = nishimori.metrics.Cost(costs)
    >>> found = nishimori.compare(network.test.logits, network.test.labels, methods=[1.0, 1.6], metrics=[cost])
    >>> change = found["T=1.6"].differences["cost"]
    >>> print(f"{found['T=1'].card.cost:.3f}, {change.value:.3f} ± {change.se:.3f}")
    0.703, -0.126 ± 0.015
    """

    name = "cost"

    def __init__(self, costs: Any, *, against_argmax: bool = False) -> None:
        table = np.asarray(numeric(costs, "costs"), dtype=float)
        if table.ndim != 2 or min(table.shape) < 1:
            raise InputError("costs", "have shape (n_actions, n_classes)", got=f"shape {table.shape}")
        if not np.isfinite(table).all():
            raise InputError("costs", "be finite", got="NaN or infinity")
        self.costs = tuple(map(tuple, table.tolist()))
        self.against_argmax = against_argmax
        spread = table.max() - table.min()
        self.bounds = (-spread, spread) if against_argmax else (table.min(), table.max())  # type: ignore[misc]  # of these costs

    @property
    def label(self) -> str:
        return "cost_against_argmax" if self.against_argmax else self.name

    @property
    def shown(self) -> str:
        """The title in tables."""
        return self.label.replace("_", " ")

    def check(self, data: Rows) -> None:
        """Refuse costs for another number of classes."""
        n_actions, n_classes = len(self.costs), len(self.costs[0])
        if n_classes != data.n_classes:
            raise InputError("costs", f"have {data.n_classes} columns, one per class", got=n_classes)
        if self.against_argmax and n_actions < n_classes:
            raise InputError("costs", f"begin with {n_classes} rows, one answer per class in order", got=n_actions)

    def of_rows(self, predictions: Predictions) -> HostArray:
        """The cost of each row."""
        costs = np.array(self.costs)
        paid: HostArray = costs[(predictions.probabilities @ costs.T).argmin(axis=1), predictions.labels]
        assert isfinite(paid.sum()), "because costs are"
        return paid - costs[predictions.predicted, predictions.labels] if self.against_argmax else paid
