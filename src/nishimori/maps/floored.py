"""Another map, of probabilities that are raised to a floor first."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log
from typing import Any, ClassVar

from nishimori._support.arrays import Array, at_least
from nishimori.maps.map import Map


@dataclass(frozen=True)
class Floored(Map):
    """What a calibrator with a floor makes of the model's own probabilities, whose logarithms are the logits.

    Calibrators keep their floor beside their map. Where one is measured beside the model as it is, which has no floor, the two
    need the same rows.
    """

    map: Map
    floor: float
    kind: ClassVar[str] = "floored"

    @property
    def keeps_predictions(self) -> bool:  # type: ignore[override]
        return self.map.keeps_predictions

    @property
    def needs_groups(self) -> bool:  # type: ignore[override]
        return self.map.needs_groups

    @property
    def n_classes(self) -> int | None:
        return self.map.n_classes

    def apply(self, logits: Array, groups: Any = None) -> Array:
        """What the other map makes of log-probabilities that are raised to that of the floor."""
        return self.map.apply(at_least(logits, log(self.floor)), groups)

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {"floor": self.floor, **self.map.parameters}
