"""Add rows to a sketch batch by batch; a cluster may continue from one batch to the next."""

from typing import Any

import numpy as np

from nishimori._rows.array_rows import ArrayRows
from nishimori._rows.scores import ScoreRange
from nishimori._sketch.clusters import OpenCluster
from nishimori._sketch.sketch import Sketch
from nishimori._support.arrays import HostArray
from nishimori.errors import InputError


class Stream:
    """Adds batches of rows to ``sketch``. Call `close` after the last one.

    Rows of a cluster must follow each other, except within a batch. Only the sums of the last cluster are kept open, so the
    number of clusters does not matter for memory, except for their names. ``remedy`` says what to do where rows of a cluster do
    not follow each other.
    """

    def __init__(self, sketch: Sketch, *, remedy: str) -> None:
        self.sketch = sketch
        self._remedy = remedy
        self._last = OpenCluster()
        self._codes: dict[Any, int] = {}  # of all clusters so far, in the order in which they came
        self._open: Any = None  # the name of the last of them

    def add(self, data: ArrayRows, clusters: HostArray | None = None) -> None:
        """Add rows; ``clusters`` are the cluster names of all rows, including rows of weight zero."""
        counted = np.flatnonzero(data.weights)
        if not len(counted):
            return
        data.score_range = ScoreRange.from_scores(data.scores, data.weights)
        if clusters is None:
            self.sketch.update(data)
            return
        self.sketch._add_range(data.score_range)
        codes = np.full(len(data.weights), -1)
        codes[counted] = self._encode_clusters(clusters[counted])
        for sums in self.sketch._survey.of_clusters(data, codes, self._last):
            self.sketch._add(sums)

    def close(self) -> None:
        """Add the sums of the last cluster."""
        if self._codes:
            self.sketch._add(self.sketch._survey.of_squares(self._last.close()))

    @property
    def clusters(self) -> list[Any] | None:
        """The names of all clusters so far; None if there are none."""
        return list(self._codes) or None

    def _encode_clusters(self, names: HostArray) -> HostArray:
        """The cluster number of each row. The first cluster may continue from the last batch; all others are new."""
        different, firsts, places = np.unique(names, return_index=True, return_inverse=True)
        if self._codes and isinstance(different[0], str) != isinstance(self._open, str):  # never equal, as 7 and the text 7
            raise InputError("clusters", "hold values of one type, such as numbers or text")
        codes = np.empty(len(different), dtype=np.int64)
        for place in np.argsort(firsts):
            name = different[place].item() if isinstance(different[place], np.generic) else different[place]
            if name in self._codes and name != self._open:
                raise InputError(
                    "clusters",
                    "be consecutive: all rows of a cluster must be in one batch or in consecutive batches",
                    got=f"cluster {name!r} again after others",
                    remedy=self._remedy,
                )
            codes[place] = self._codes.setdefault(name, len(self._codes))
        self._open = next(reversed(self._codes), None)
        row_codes: HostArray = codes[places]
        return row_codes
