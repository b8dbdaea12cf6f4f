"""What calibration does to the decisions of a multilabel model: a map of two classes for each label."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from nishimori._rows.batch import Groups
from nishimori._support.arrays import Array, HostArray, like, namespace, on_device_of, rows_at, to_compute
from nishimori.maps.map import Map, apply_checked
from nishimori.maps.temperature import temperature_of


@dataclass(frozen=True, eq=False)
class LabelMaps(Map):
    """A map for each label. As a map of binary rows, the group of a row is its label."""

    maps: tuple[Map, ...]
    kind: ClassVar[str] = "labels"
    needs_groups = True

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {"maps": [{"kind": each.kind, "parameters": dict(each.parameters)} for each in self.maps]}

    @property
    def keeps_predictions(self) -> bool:  # type: ignore[override]
        """Whether no decision changes."""
        return all(each.keeps_predictions for each in self.maps)

    @property
    def is_shared(self) -> bool:
        """Whether all labels have the same map."""
        return all(each is self.maps[0] for each in self.maps)

    @cached_property
    def temperatures(self) -> HostArray | None:
        """The temperature of each label; None if some map does more than to divide by one."""
        found = [temperature_of(each) for each in self.maps]
        return None if None in found else np.array(found, dtype=float)

    def apply(self, logits: Array, groups: Any = None) -> Array:
        """Binary rows, each after the map of its label; ``groups`` are a `Groups` whose codes are the places of the labels."""
        assert isinstance(groups, Groups), "rows come from `Decisions`"
        if self.is_shared:
            return apply_checked(self.maps[0], logits)
        if self.temperatures is not None:
            return _divide(logits, on_device_of(self.temperatures[groups.codes], logits)[:, None])
        order = np.argsort(groups.codes, kind="stable")
        cuts = np.searchsorted(groups.codes[order], np.arange(len(self.maps) + 1))
        parts = [
            apply_checked(self.maps[place], rows_at(logits, order[low:high]))
            for place, (low, high) in enumerate(pairwise(cuts.tolist()))
            if low < high
        ]
        return rows_at(namespace(logits).concat(parts, axis=0), np.argsort(order))

    def logits_of(self, absent: Array, present: Array) -> Array:
        """Calibrated logits (n, labels) from the two logits of each decision, each of shape (n, labels)."""
        xp = namespace(present)
        if self.temperatures is not None:
            return _divide(present - absent, on_device_of(self.temperatures, present)[None, :])
        if self.is_shared:
            rows = xp.stack([xp.reshape(each, (-1,)) for each in (absent, present)], axis=1)
            mapped = apply_checked(self.maps[0], rows)
            return xp.reshape(mapped[:, 1] - mapped[:, 0], present.shape)
        columns = []
        for place, each in enumerate(self.maps):
            mapped = apply_checked(each, xp.stack([absent[:, place], present[:, place]], axis=1))
            columns.append(mapped[:, 1] - mapped[:, 0])
        return xp.stack(columns, axis=1)


def _divide(logits: Array, temperatures: Array) -> Array:
    wide = to_compute(logits)
    with np.errstate(over="ignore"):  # beyond the range of the dtype, as in float16 beyond 65,504: infinite
        return like(wide / namespace(wide).astype(temperatures, wide.dtype), logits)
