"""Which groups have samples of one true class only: what their table says may not hold for other samples of the group."""

from dataclasses import dataclass

import numpy as np

from nishimori._rows.batch import Batch
from nishimori._rows.rows import Rows
from nishimori._support import arrays
from nishimori._support.arrays import HostArray


@dataclass(frozen=True)
class LabelRange:
    """The smallest and the largest label of each group; those of further rows add."""

    low: HostArray
    high: HostArray

    def __add__(self, other: "LabelRange") -> "LabelRange":
        return LabelRange(np.minimum(self.low, other.low), np.maximum(self.high, other.high))


@dataclass(frozen=True)
class FindLabels:
    """The pass that finds the least and the largest label of each group; labels are below ``n_classes``."""

    n_groups: int
    n_classes: int

    def __call__(self, batch: Batch) -> LabelRange:
        assert batch.groups is not None
        labels = arrays.on_host(batch.labels)
        low, high = np.full(self.n_groups, self.n_classes), np.full(self.n_groups, -1)
        np.minimum.at(low, batch.groups.codes, labels)
        np.maximum.at(high, batch.groups.codes, labels)
        return LabelRange(low, high)


def groups_of_one_class(data: Rows) -> list[str]:
    """The names of the groups that have one true class only, of data whose groups are named."""
    groups = data.groups
    assert groups is not None
    found = data.gather(FindLabels(len(groups.names), data.n_classes))
    return [str(groups.names[place]) for place in np.flatnonzero(found.low == found.high)]
