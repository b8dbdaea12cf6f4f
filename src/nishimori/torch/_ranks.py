"""Rows and sketches that are spread over the ranks of a distributed job: each rank reads its own, and only sums travel.

A pass is made on every rank with that rank's rows. The sums are exchanged, and every rank adds them in the order of the ranks.
So the order of additions is fixed, whatever algorithm the backend chooses, and every rank has the same digits. Each decision
of a search follows from them, so all ranks decide the same.
"""

import re
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from hashlib import sha256
from math import ceil
from typing import Any, Unpack

import numpy as np
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from nishimori._rows.array_rows import Guard, ReadOptions
from nishimori._rows.batch import Batch, Clusters, Groups
from nishimori._rows.entry import open_rows
from nishimori._rows.options import RowOptions, takes_rows
from nishimori._rows.rows import Rows, T, without_rows
from nishimori._rows.scores import Input, ScoreRange
from nishimori._sketch.parts import Parts
from nishimori._sketch.sketch import Sketch
from nishimori._support.progress import Report, silent
from nishimori.errors import InputError, MergeError, NoRowsError
from nishimori.torch._exchange import Exchange
from nishimori.torch._loader import AS_LOGITS, NO_SOFTMAX, LoaderRows
from nishimori.torch._memory import FitData, KeptLogits, Summed
from nishimori.torch._shared_names import check_apart, share_clusters, share_groups


@takes_rows()
def across_ranks(
    logits: Any = None,
    labels: Any = None,
    *,
    group: "dist.ProcessGroup | None" = None,
    **options: Unpack[RowOptions],
) -> Rows:
    """The rows of all ranks of a `torch.distributed` job as `Rows`, for every fit and every metric.

    Each rank passes its own rows and gets the same results as all other ranks, to the last bit. All ranks must call this
    function, and afterwards the same functions with these rows in the same order, because they wait for each other.

    Parameters
    ----------
    logits, labels
        What this rank has: arrays, tensors on any device, a loader of batches, a file, or `Rows`, as for
        `nishimori.temperatures`. A rank without rows passes None, an empty array or an empty loader.
    group : torch.distributed.ProcessGroup, optional
        The ranks that take part; by default all.
    **options
        What is said about the data, see `rows`: ``sample_weight``, ``counts``, ``clusters``, ``groups``, ``input``,
        ``classes``, ``floor``, ``ignore_index``, ``shift_labels``, ``class_axis``.

    Returns
    -------
    Rows
        Pass them in place of logits and labels: ``temperatures(rows)``, ``fit(rows)``, ``evaluate(rows)``.

    Raises
    ------
    InputError
        If something is wrong on some rank. Every rank raises the same error, which names that rank.

    Examples
    --------
    >>> import numpy as np, torch.distributed as dist
    >>> import nishimori
    >>> from nishimori.torch import across_ranks
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # `torchrun` says how many
    >>> rng = np.random.default_rng(dist.get_rank())
    >>> logits = 3 * rng.normal(size=(2000, 5))
    >>> labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)  # drawn at T = 2
    >>> rows = across_ranks(logits, labels)
    >>> print(f"{nishimori.temperatures(rows).ec:.2f}")
    1.99
    >>> dist.destroy_process_group()
    """
    ranks = Exchange(group)
    clusters, own = options.get("clusters"), options.copy()
    own["clusters"] = None  # which are numbered alike on all ranks
    rows = ranks.own_value(lambda: _own(logits, labels, own))
    return RankRows(ranks, rows, share_clusters(ranks, rows, clusters), share_groups(ranks, rows), ReadOptions(guard="refuse"))


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


def _own(logits: Any, labels: Any, options: RowOptions) -> Rows | None:
    """What this rank has; None if it has no rows."""
    if isinstance(logits, Sketch):
        raise InputError("logits", "not be a sketch", remedy="Add the sketches of all ranks with `nishimori.torch.reduced`.")
    try:
        return None if logits is None else open_rows(logits, labels, guard="defer", **options)
    except NoRowsError:
        return None


def ranks_in(group: "bool | dist.ProcessGroup") -> Exchange:
    """The ranks that take part: True for all."""
    # `torch.distributed.group.WORLD` is None before there is a process group. A rank that is not in a group has another object.
    is_group = dist.is_available() and (isinstance(group, dist.ProcessGroup) or group is dist.GroupMember.NON_GROUP_MEMBER)
    if not isinstance(group, bool) and not is_group:
        raise InputError("across_ranks", "be True, False or a process group", got=f"{group!r:.60}")
    return Exchange(None if isinstance(group, bool) else group)


def joint(ranks: Exchange, model: nn.Module, own: Callable[[], KeptLogits | Summed | LoaderRows], guard: Guard) -> FitData:
    """What all ranks have together. ``own`` makes what this one has, with ``model``: rows, or a sketch.

    If one of them has a sketch, so do all: rows are added to an empty one. A rank without rows takes part.
    """

    def read_own() -> KeptLogits | Summed | LoaderRows | None:
        if isinstance(model, DistributedDataParallel):
            raise InputError(
                "model",
                (
                    "be the network inside of DistributedDataParallel, whose calls wait for other ranks, which may have "
                    "fewer batches"
                ),
                remedy="Pass `model.module`.",
            )
        try:
            content = own()
        except NoRowsError:
            return None
        if isinstance(content, LoaderRows) and content.clusters is not None:
            raise InputError(
                "`clusters` with `reread=True` cannot be used across ranks. Leave out `reread`, or raise `keep_up_to`."
            )
        return content

    mine = ranks.own_value(read_own)
    sketches = list(ranks.values(lambda: without_its_rows(mine.sketch) if isinstance(mine, Summed) else None))
    kind: Sketch | None = next((sketch for sketch in sketches if sketch is not None), None)
    if kind is not None:
        summed = ranks.own_value(lambda: _sketch_of_rank(mine, kind))
        check_apart(ranks, summed.sketch.n_samples, summed.clusters)
        return FitData(sketch=sum_of_sketches(ranks, summed.sketch))
    assert not isinstance(mine, Summed), "no rank has a sketch"
    rows = ranks.own_value(lambda: mine.rows(None, guard and "defer") if isinstance(mine, KeptLogits) else mine)
    clusters = share_clusters(ranks, rows, mine.clusters if isinstance(mine, KeptLogits) else None)
    meaning = ReadOptions(guard=guard, probability_remedy=NO_SOFTMAX, logits_setting=AS_LOGITS)
    return FitData(RankRows(ranks, rows, clusters, share_groups(ranks, rows), meaning))


def _sketch_of_rank(mine: KeptLogits | Summed | LoaderRows | None, kind: Sketch) -> Summed:
    """The sketch of this rank, with the names of its clusters; ``kind`` is an empty one."""
    if isinstance(mine, Summed):
        return mine
    if mine is None:
        return Summed(kind, None)
    if not isinstance(mine, KeptLogits):
        raise InputError("reread", "be the same on every rank", got="True here, and False on a rank that has a sketch")
    names = None if mine.clusters is None else np.unique(mine.clusters).tolist()
    return Summed(kind.update(mine.logits, mine.labels, clusters=mine.clusters), names)


class RankRows(Rows):
    """The rows of all ranks. ``rows`` are those of this one, or None; ``clusters`` and ``groups`` are those of all.

    The guard of ``meaning`` judges the scores of all ranks: only these tell what they are.
    """

    def __init__(
        self,
        ranks: Exchange,
        rows: Rows | None,
        clusters: Clusters | None = None,
        groups: Groups | None = None,
        meaning: ReadOptions | None = None,
    ) -> None:
        self._ranks = ranks
        self._rows = rows
        self._meaning = ReadOptions() if meaning is None else meaning
        facts = list(ranks.values(lambda: _Facts.from_rows(rows)))
        self._n_classes = _common_number([rank_facts.n_classes for rank_facts in facts])
        self.input = next((rank_facts.input for rank_facts in facts if rank_facts.n_classes is not None), "logits")
        self._n_rows = _total([rank_facts.n_rows for rank_facts in facts])
        self.clusters = clusters
        self.groups = groups

    @property
    def n_classes(self) -> int:
        return self._n_classes

    @property
    def n_rows(self) -> int | None:
        return self._n_rows

    def __iter__(self) -> Iterator[Batch]:
        raise InputError(
            "Rows on several ranks cannot be read one after the other: only their sums travel. Use the rows of one rank where "
            "this is needed, as by a bootstrap without clusters."
        )

    def gather(self, pass_: Callable[[Batch], T], report: Report = silent) -> T:
        """The sum of ``pass_`` over the rows of all ranks. ``report`` is told about those of the first rank, on that rank."""
        shown = report if self._ranks.rank == 0 else _unseen

        def own() -> tuple[str, int | None, T | None, ScoreRange | None]:
            if self._rows is None:
                return _digest_of_pass(pass_), 0, None, ScoreRange()
            try:
                sums = self._rows.gather(pass_, shown)
            except NoRowsError:
                sums = None
            return _digest_of_pass(pass_), self._rows.n_rows, sums, getattr(self._rows, "score_range", None)

        first, numbers, ranges = "", [], []
        total: T | None = None
        for rank, (pass_there, n_rows, sums, score_range) in enumerate(self._ranks.values(own)):
            first = first or pass_there
            if pass_there != first:
                raise _other_pass(rank)
            numbers.append(n_rows)
            ranges.append(score_range)
            if sums is not None:
                total = sums if total is None else total + sums
        if total is None:
            raise without_rows()
        self._n_rows = _total(numbers)
        if None not in ranges:
            self._meaning.check_range(sum(ranges, start=ScoreRange()))
            self._meaning = ReadOptions()  # once is enough
        return total

    def sample(self, size: int) -> "RankRows | None":
        """About ``size`` rows, from each rank as many as are its share; None if some rank cannot give any."""
        share, mine = size / (self._n_rows or 1), self._rows
        part = self._ranks.own_value(lambda: None if mine is None else mine.sample(ceil(share * (mine.n_rows or 0))))
        if not all(list(self._ranks.values(lambda: mine is None or part is not None))):
            return None
        return self if all(list(self._ranks.values(lambda: part is mine))) else RankRows(self._ranks, part)


@dataclass(frozen=True)
class _Facts:
    """What the ranks have to know about the rows of each other; a rank without rows knows nothing."""

    n_classes: int | None
    n_rows: int | None
    input: Input = "logits"

    @classmethod
    def from_rows(cls, rows: Rows | None) -> "_Facts":
        try:
            if rows is not None:
                return cls(rows.n_classes, rows.n_rows, rows.input)
        except NoRowsError:  # a loader without batches says so when it is asked for the number of classes
            pass
        return cls(None, 0)


def _common_number(numbers: list[int | None]) -> int:
    """The number of classes, which must be the same on all ranks that have rows."""
    by_rank = {rank: number for rank, number in enumerate(numbers) if number is not None}
    if not by_rank:
        raise without_rows()
    first, agreed = next(iter(by_rank.items()))
    for rank, number in by_rank.items():
        if number != agreed:
            raise InputError(
                "logits",
                "have the same number of classes on every rank",
                got=f"{number}, and {agreed} on rank {first}",
                where=f"Rank {rank}",
            )
    return agreed


def _total(numbers: list[int | None]) -> int | None:
    """The sum of some numbers, if all of them are known."""
    sizes = [number for number in numbers if number is not None]
    return sum(sizes) if len(sizes) == len(numbers) else None


def _digest_of_pass(pass_: Any) -> str:
    """A digest of a pass that is the same on all ranks, whatever their memory addresses are."""
    return sha256(re.sub(r" at 0x[0-9A-Fa-f]+", "", repr(pass_)).encode()).hexdigest()


def _other_pass(rank: int) -> InputError:
    return InputError(
        f"Rank {rank} has measured something else than rank 0. All ranks must call the same functions with the same arguments, "
        "in the same order."
    )


def _unseen(what: str, done: int, total: int | None) -> None:
    """Ignore progress, and show no bar: it would be one per rank."""


def sum_of_sketches(ranks: Exchange, sketch: Sketch) -> Sketch:
    """The sketch of the rows of all ranks, summed among ``ranks``."""
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
