"""The groups in a file as the calibration spells them: 7 of a Parquet file and the text 7 of a .csv file are one group."""

from typing import Any

import numpy as np

from nishimori._rows.batch import Groups
from nishimori.maps.group_temperatures import GroupTemperatures
from nishimori.maps.map import Map


class GroupNames:
    """Groups of several blocks of rows, as a map spells them; remembers those that the map does not know."""

    def __init__(self, map_: Map) -> None:
        self._map = map_ if isinstance(map_, GroupTemperatures) else None
        self._known = {} if self._map is None else {_text(name): name for name in self._map.groups}
        self._seen: dict[Any, None] = {}

    def spelled(self, groups: Groups | None) -> Groups | None:
        """The same groups, with the names that the map has for them; others keep theirs."""
        if groups is None or self._map is None:
            return groups
        names = tuple(self._known.get(_text(name), name) for name in groups.names)
        self._seen |= dict.fromkeys(names)
        return Groups(groups.codes, names)

    def warn_of_others(self) -> None:
        """Say once which of all these groups have no temperature of their own."""
        if self._map is not None and self._seen:
            self._map.warn_of_others(Groups(np.arange(len(self._seen)), tuple(self._seen)))


def _text(name: Any) -> str:
    """A name as text; whole numbers have no decimals."""
    return str(int(name)) if isinstance(name, float) and name.is_integer() else str(name)
