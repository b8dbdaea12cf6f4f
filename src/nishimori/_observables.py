"""What a temperature is matched to: the observable's mean under the model equals its mean under the labels.

An observable O(k; z) has, for each row, a value at the true class (`observed`), and under p(k) ∝ exp(βz_k) an
average (`expected`) whose derivative in β is Cov(O, z) ≥ 0. Both are counted from the value at the top class: a good
classifier is there most of the time, so the sums stay small and keep their digits.

Adding an observable is adding a class here. Its two refusals say what it means that no temperature fits: `cold` when the
average stays below its target down to T → 0, `hot` when it stays above up to T → ∞.
"""

from dataclasses import dataclass
from math import inf
from typing import ClassVar, Protocol

import numpy as np

from nishimori import _array
from nishimori._array import Array
from nishimori._gibbs import Gibbs, boltzmann
from nishimori._inputs import Batch

Expected = tuple[Array, Array, Array]
"""For each row: an average, its slope and its curvature in β."""

_CLASS_ORDER = "Check that the labels and the columns of the logits use the same class order."


class Observable(Protocol):
    """What `nishimori._temperatures.match` needs to know."""

    @property
    def unit(self) -> float:
        """The size of O at the top where it does not scale with the logits, else 0."""

    def observed(self, batch: Batch) -> Array:
        """O at the true class of each row, minus O at the top."""

    def expected(self, gibbs: Gibbs) -> Expected:
        """The average of O under the model, minus O at the top, with its first two derivatives in β."""

    def cold(self, n_samples: int, observed: float, limit: float) -> str:
        """Why no temperature fits when the mean stays at or below ``observed`` down to T → 0, where it is ``limit``."""

    def hot(self, n_samples: int, observed: float, limit: float) -> str:
        """Why no temperature fits when the mean stays at or above ``observed`` up to T → ∞, where it is ``limit``."""


@dataclass(frozen=True)
class TopN:
    """O = 1 if the class is among the N largest of its row, ties broken by the first: top-N expectation consistency."""

    n: int
    unit: ClassVar[float] = 1.0

    def observed(self, batch: Batch) -> Array:
        xp = batch.xp
        label = batch.at(batch.logits, batch.labels)[:, None]
        columns = _array.beside(np.arange(batch.logits.shape[1]), batch.logits)[None, :]
        ahead = (batch.logits > label) | ((batch.logits == label) & (columns < batch.labels[:, None]))
        rank = xp.sum(xp.astype(ahead, xp.int64), axis=1)
        hit = (rank < self.n) & (label[:, 0] > -inf)  # a masked class is never an answer
        return xp.astype(hit, batch.weights.dtype) - 1

    def expected(self, gibbs: Gibbs) -> Expected:
        batch, xp = gibbs.batch, gibbs.batch.xp
        best = _array.largest(batch.logits, self.n)
        drops = best - batch.at(batch.logits, batch.top)[:, None]
        live = drops > -inf
        drops = xp.where(live, drops, xp.zeros_like(drops))
        weights = xp.where(live, boltzmann(drops, gibbs.beta, xp), xp.zeros_like(drops))
        mass, with_drop, with_square = (gibbs.over_classes(weights * drops**power) / gibbs.partition for power in range(3))
        return mass - 1, *gibbs.cumulants(mass, with_drop, with_square)

    def cold(self, n_samples: int, observed: float, limit: float) -> str:
        what = "correctly" if self.n == 1 else f"within their top {self.n}"
        if observed >= 0:
            return (
                f"all {n_samples} samples are classified {what}, so {self._confidence} could reach accuracy only at T = 0. "
                "Add validation samples that the model gets wrong" + ("." if self.n == 1 else ", or ask for a smaller `top_n`.")
            )
        return (
            f"{self._accuracy} {1 + observed:.4g} is not below {1 + limit:.4g}, which {self._confidence} approaches as T → 0: "
            "equal largest logits share their probability however low the temperature. "
            "Pass logits before they were rounded or quantised."
        )

    def hot(self, n_samples: int, observed: float, limit: float) -> str:
        return (
            f"{self._accuracy} {1 + observed:.4g} is not above chance ({1 + limit:.4g}), "
            f"and {self._confidence} stays above chance at every T. {_CLASS_ORDER}"
        )

    @property
    def _confidence(self) -> str:
        return "mean confidence" if self.n == 1 else f"the mean top-{self.n} probability"

    @property
    def _accuracy(self) -> str:
        return "accuracy" if self.n == 1 else f"top-{self.n} accuracy"


@dataclass(frozen=True)
class Confidence(TopN):
    """O = 1 for the predicted class: expectation consistency. `TopN` of one, without the search for the largest."""

    n: int = 1

    def observed(self, batch: Batch) -> Array:
        return batch.xp.astype(batch.top == batch.labels, batch.weights.dtype) - 1

    def expected(self, gibbs: Gibbs) -> Expected:
        nothing = 0 * gibbs.top  # the only class that counts has no drop
        return gibbs.top - 1, *gibbs.cumulants(gibbs.top, nothing, nothing)


@dataclass(frozen=True)
class Energy:
    """O = z, the logit itself: matching it minimises the cross-entropy, so this is temperature scaling."""

    unit: ClassVar[float] = 0.0

    def observed(self, batch: Batch) -> Array:
        return batch.label_drops

    def expected(self, gibbs: Gibbs) -> Expected:
        return gibbs.moments[0], *gibbs.cumulants(*gibbs.moments)

    def cold(self, n_samples: int, observed: float, limit: float) -> str:
        return (
            f"the true class has the largest logit in all {n_samples} samples, so the loss falls all the way to T = 0. "
            "Add validation samples that the model gets wrong."
        )

    def hot(self, n_samples: int, observed: float, limit: float) -> str:
        return (
            f"the logit of the true class is on average {limit - observed:.4g} below the mean logit of its row, "
            f"so the loss falls all the way to T = ∞: the model does no better than chance. {_CLASS_ORDER}"
        )
