"""The sketch of the rows of all ranks of a distributed job, of which only sums travel."""

from copy import copy
from typing import Any

import numpy as np

from nishimori._rows.scores import ScoreRange
from nishimori._sketch.parts import Parts
from nishimori._sketch.sketch import Sketch
from nishimori.errors import InputError, MergeError


def sum_of_sketches(ranks: Any, sketch: Sketch) -> Sketch:
    """Add the sketches of all ``ranks``, which exchange values and add arrays as `nishimori.torch._exchange` does."""
    parts = _check_kinds(ranks, sketch)
    state = sketch.state
    total = ranks.sum_over_ranks(np.concatenate(list(state.values())))
    total_sketch = copy(sketch)
    ends = np.cumsum([len(sums) for sums in state.values()])[:-1]
    total_sketch.state = dict(zip(state, np.split(total, ends), strict=True))
    ranges = list(ranks.values(lambda: sketch._range))
    total_sketch._range = None if None in ranges else sum(ranges, start=ScoreRange())
    total_sketch._parts = sum(parts, start=Parts())
    return total_sketch


def without_its_rows(sketch: Sketch) -> Sketch:
    """A sketch of the same kind, without the rows."""
    empty = copy(sketch)
    empty.state = {name: np.zeros_like(array) for name, array in sketch.state.items()}
    empty._range = None if sketch._range is None else ScoreRange()
    return empty


def _check_kinds(ranks: Any, sketch: Sketch) -> list[Parts]:
    """Refuse sketches that do not add, and return the parts of each."""

    def own() -> tuple[Sketch, int | None, Parts]:
        if not isinstance(sketch, Sketch):
            raise InputError("sketch", "be a nishimori.Sketch", got=f"an object of type {type(sketch).__name__}")
        return without_its_rows(sketch), sketch.n_classes if sketch.n_samples else None, sketch._end_part()

    kinds = list(ranks.values(own))
    numbers = [number for _, number, _ in kinds if number is not None]
    for rank, (kind, number, _) in enumerate(kinds):
        try:
            kinds[0][0].merge(kind)
        except MergeError as error:
            raise MergeError(f"Rank {rank}: {error}") from None
        if number is not None and number != numbers[0]:
            raise MergeError(f"Rank {rank}: Sketches merge only if they have the same classes, got {numbers[0]} and {number}.")
    return [parts for _, _, parts in kinds]
