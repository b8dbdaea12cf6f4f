"""The sketch of all ranks: sums of fixed size, which add number by number."""

from copy import copy

import numpy as np
import torch.distributed as dist

from nishimori._rows.scores import ScoreRange
from nishimori._sketch.parts import Parts
from nishimori._sketch.sketch import Sketch
from nishimori.errors import InputError, MergeError
from nishimori.torch._exchange import Exchange


def reduced(sketch: Sketch, *, group: "dist.ProcessGroup | None" = None) -> Sketch:
    """The sketch of the rows of all ranks, by one `all_reduce` of its sums.

    All ranks must call it, also those whose sketch is empty. The sketch that is passed stays as it is.

    Parameters
    ----------
    sketch : Sketch
        That of the rows of this rank.
    group : torch.distributed.ProcessGroup, optional
        The ranks that take part; by default all.

    Returns
    -------
    Sketch
        The same on every rank, to the last bit.

    Raises
    ------
    MergeError
        If the sketches of two ranks have other observables, another range of temperatures, or rows of another kind.

    Examples
    --------
    >>> import torch.distributed as dist
    >>> import nishimori
    >>> from nishimori.torch import reduced
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # `torchrun` says how many
    >>> mine = nishimori.Sketch().update([[2.0, 0.0], [0.0, 1.0], [3.0, 0.0]], [0, 1, 1])
    >>> reduced(mine).n_samples
    3
    >>> dist.destroy_process_group()
    """
    return sum_of_sketches(Exchange(group), sketch)


def sum_of_sketches(ranks: Exchange, sketch: Sketch) -> Sketch:
    """The sketch of the rows of all ranks, summed among ``ranks``."""
    parts = _check_kinds(ranks, sketch)
    state = sketch.state
    total = ranks.sum_over_ranks(np.concatenate(list(state.values())))
    found = copy(sketch)
    ends = np.cumsum([len(each) for each in state.values()])[:-1]
    found.state = dict(zip(state, np.split(total, ends), strict=True))
    ranges = list(ranks.values(lambda: sketch._range))
    found._range = None if None in ranges else sum(ranges, start=ScoreRange())
    found._parts = sum(parts, start=Parts())
    return found


def without_its_rows(sketch: Sketch) -> Sketch:
    """A sketch of the same kind, without the rows."""
    found = copy(sketch)
    found.state = {name: np.zeros_like(array) for name, array in sketch.state.items()}
    found._range = None if sketch._range is None else ScoreRange()
    return found


def _check_kinds(ranks: Exchange, sketch: Sketch) -> list[Parts]:
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
