"""The sketch of the rows of all ranks of a distributed job, of which only sums travel."""

from copy import copy
from typing import Any

import numpy as np

from nishimori._rows.scores import ScoreRange
from nishimori._sketch.sketch import Sketch
from nishimori.errors import InputError, MergeError


def sum_of_sketches(ranks: Any, sketch: Sketch) -> Sketch:
    """Add the sketches of all ``ranks``, in their order; ``ranks.values`` says what each of them has."""

    def own() -> Sketch:
        if not isinstance(sketch, Sketch):
            raise InputError("sketch", "be a nishimori.Sketch", got=f"an object of type {type(sketch).__name__}")
        return sketch

    total: Sketch
    total, *others = ranks.values(own)
    for rank, other in enumerate(others, start=1):
        try:
            total.merge(other, allow_repeated=True)
        except MergeError as error:
            raise MergeError(f"Rank {rank}: {error}") from None
    return total


def without_its_rows(sketch: Sketch) -> Sketch:
    """A sketch of the same kind, without the rows."""
    empty = copy(sketch)
    empty.state = {name: np.zeros_like(array) for name, array in sketch.state.items()}
    empty._range = None if sketch._range is None else ScoreRange()
    return empty
