"""Rows and sketches that are spread over the ranks of a distributed job: each rank reads its own, and only sums travel.

A pass is made on every rank with that rank's rows. The sums are exchanged, and every rank adds them in the order of the ranks.
So the order of additions is fixed, whatever algorithm the backend chooses, and every rank has the same digits. Each decision
of a search follows from them, so all ranks decide the same.

Ranks wait for each other in every call of `torch.distributed`. A rank that raises an error while the others wait would leave
them waiting until the timeout of the group, which is half an hour by default. So an error is caught, the others are told, and
then all of them raise it.
"""

import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from math import ceil, prod
from typing import Any, TypeVar, Unpack

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from nishimori._rows.array_rows import ArrayRows, Guard, ReadOptions
from nishimori._rows.batch import Batch, Clusters, Names
from nishimori._rows.device_rows import DeviceRows
from nishimori._rows.entry import load_array, open_rows
from nishimori._rows.labels import check_number_of_clusters
from nishimori._rows.options import RowOptions, takes_rows
from nishimori._rows.question import question
from nishimori._rows.rows import Rows, T, without_rows
from nishimori._rows.scores import Input, ScoreRange
from nishimori._rows.stored_rows import StoredRows
from nishimori._sketch.sketch import Sketch, without_its_rows
from nishimori._support import arrays
from nishimori._support.arrays import HostArray
from nishimori._support.formatting import enumeration
from nishimori._support.progress import Report, silent
from nishimori._support.warnings import notice
from nishimori.errors import FormatError, InputError, InputWarning, MergeError, NishimoriError, NoRowsError, setting
from nishimori.torch._loader import AS_LOGITS, NO_SOFTMAX, FitData

V = TypeVar("V")

# Messages up to this size, 1 MiB, come from all ranks at once. Of larger ones, which come one by one, only one is in memory.
_AT_ONCE = 2**20

# Of each parameter about this many numbers are compared: other checkpoints differ everywhere.
_SOME = 2**14


class Exchange:
    """The ranks of a process group, which tell each other what they have.

    All methods are collective: every rank of the group must call them, in the same order.
    """

    def __init__(self, group: "dist.ProcessGroup | None" = None) -> None:
        if not (dist.is_available() and dist.is_initialized()):
            raise InputError(
                "Several ranks need a process group, got none. Start the script with `torchrun` and call "
                "`torch.distributed.init_process_group()` first."
            )
        self._group = group
        self.rank = dist.get_rank(group)
        if self.rank < 0:
            raise InputError("group", "be a process group that this rank belongs to", got="one of other ranks")

    def values(self, make: Callable[[], Any]) -> Iterator[Any]:
        """What ``make`` returns on each rank, in the order of the ranks.

        If it fails on some rank, every rank raises the same error, which names the first rank that failed. Only there its
        cause is the original error. A rank that is interrupted, or that exits, raises just that.
        """
        failure: BaseException | None = None
        try:
            message = pickle.dumps(make())
        except BaseException as error:  # also where a rank is interrupted
            failure, message = error, pickle.dumps(self._error_of_rank(error))
        shown = message if failure is not None or len(message) <= _AT_ONCE else None
        gathered: list[Any] = [None] * dist.get_world_size(self._group)
        dist.all_gather_object(gathered, (failure is None, shown), group=self._group)
        failed = next((text for is_value, text in gathered if not is_value), None)
        if failed is None:
            return (
                _unpickle(self._message_of(rank, message) if text is None else text) for rank, (_, text) in enumerate(gathered)
            )
        if failure is not None and not isinstance(failure, Exception):
            raise failure
        raise _unpickle(failed) from failure

    def own_value(self, make: Callable[[], V]) -> V:
        """What ``make`` returns on this rank, if it fails on none."""
        values: list[V] = []
        for _ in self.values(lambda: values.append(make())):
            pass
        return values[0]

    def _message_of(self, rank: int, message: bytes) -> bytes:
        """The large message of one rank, which that rank sends to all others."""
        box = [message if rank == self.rank else None]
        sender = rank if self._group is None else dist.get_global_rank(self._group, rank)
        dist.broadcast_object_list(box, src=sender, group=self._group)
        assert box[0] is not None, "the rank has sent it"
        return box[0]

    def _error_of_rank(self, error: BaseException) -> NishimoriError:
        """An error that names this rank; one that is not the library's own becomes an `InputError`.

        Code that catches one must do so on every rank, or on none.
        """
        rank = f"Rank {self.rank}"
        if isinstance(error, InputError):
            return error.changed(where=f"{rank}: {error.where}" if error.where else rank)
        text = str(error) if isinstance(error, NishimoriError) else f"{type(error).__name__}: {error}".removesuffix(": ")
        kind = type(error) if isinstance(error, FormatError | MergeError) else InputError
        return kind(f"{rank}: {text}")


def warn_of_unused_ranks() -> None:
    """Warn on rank 0 that the samples of other ranks are not used, where there are some."""
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1 and dist.get_rank() == 0:
        notice(
            f"Only the samples of rank 0 are used, not those of the other {dist.get_world_size() - 1}. To use all, pass "
            "`across_ranks=True` on every rank.",
            InputWarning,
        )


def _unpickle(message: bytes) -> Any:
    """What another rank has sent. It runs the same script, so it is trusted as this one is."""
    return pickle.loads(message)  # noqa: S301


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
        ``classes``, ``floor``, ``ignore_index``, ``shift_labels``, ``class_axis``, ``member_axis``.

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
    has_axis = options.get("class_axis", -1) != -1
    own["clusters"] = False if has_axis else None  # clusters are numbered alike on all ranks
    rows = ranks.own_value(lambda: _own(logits, labels, own))
    by_image = clusters is None and has_axis
    if by_image:
        clusters = ranks.own_value(lambda: _images(rows, ranks.rank))
    elif clusters is False:
        clusters = None
    return _shared_rows(ranks, rows, clusters, ReadOptions(guard="refuse", by_image=by_image))


def first_image(rank: int) -> int:
    """The number of the first image of a rank; those of other ranks have other numbers, because no rank has 2**40 images."""
    return rank << 40


def _images(rows: Rows | None, rank: int) -> HostArray | None:
    """The number of the image of each row of this rank; None where rows have one dimension."""
    if rows is None:
        return None
    if not isinstance(rows, _HELD):
        remedy = f"Pass arrays, or {setting('clusters', False)} if pixels are independent."
        raise InputError(
            "clusters", "be images, for which arrays are needed here", got=f"a {type(rows).__name__}", remedy=remedy
        )
    leading = rows.leading if isinstance(rows, StoredRows) else rows.scores.leading
    if len(leading) < 2:
        return None
    return np.repeat(first_image(rank) + np.arange(leading[0]), prod(leading[1:]))


def _shared_rows(ranks: Exchange, rows: Rows | None, clusters: Any, meaning: ReadOptions) -> "RankRows":
    """The rows of all ranks, with clusters and groups that are numbered alike on all of them."""
    names = _share_clusters(ranks, rows, clusters, are_images=meaning.by_image)
    return RankRows(ranks, rows, names, _share_groups(ranks, rows), meaning)


def reduced(sketch: Sketch, *, group: "dist.ProcessGroup | None" = None) -> Sketch:
    """The sketch of the rows of all ranks, added in the order of the ranks.

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
    total: Sketch = sum(Exchange(group).values(lambda: sketch))
    return total


def _own(logits: Any, labels: Any, options: RowOptions) -> Rows | None:
    """What this rank has; None if it has no rows."""
    try:
        return None if logits is None else _rows_of_rank(open_rows(logits, labels, guard="defer", **options))
    except NoRowsError:
        return None


@question("has no rows to add to those of other ranks; `nishimori.torch.reduced` adds the sketches of all ranks")
def _rows_of_rank(rows: Rows) -> Rows:
    """The rows, if they can be read."""
    return rows


def joint(ranks: Exchange, model: nn.Module, own: Callable[[], FitData], guard: Guard) -> FitData:
    """What all ranks have together. ``own`` makes what this one has, with ``model``.

    If one of them has a sketch, so do all: rows are added to an empty one. A rank without rows takes part.
    """

    def read_own() -> FitData | None:
        if isinstance(model, DistributedDataParallel):
            raise InputError(
                "model",
                "be the network inside of DistributedDataParallel, whose calls wait for ranks that may have fewer batches",
                remedy="Pass `model.module`.",
            )
        try:
            data = own()
        except NoRowsError:
            return None
        if data.sketch is None and data.rows.clusters is not None:
            raise InputError(
                "`clusters` with `reread=True` cannot be used across ranks. Leave out `reread`, or raise `keep_up_to`."
                + (" With `clusters=False` pixels count as independent." if data.rows.cluster_name == "image" else "")
            )
        return data

    _check_weights(ranks, model)
    mine = ranks.own_value(read_own)
    _warn_of_same_rows(ranks, mine)
    sketch = None if mine is None else mine.sketch
    sketches = list(ranks.values(lambda: None if sketch is None else without_its_rows(sketch)))
    kind: Sketch | None = next((sketch for sketch in sketches if sketch is not None), None)
    if kind is None:
        rows, clusters = (None, None) if mine is None else (mine.rows, mine.clusters)
        meaning = ReadOptions(guard=guard, probability_remedy=NO_SOFTMAX, logits_setting=AS_LOGITS)
        return FitData(_shared_rows(ranks, rows, clusters, meaning))
    summed = ranks.own_value(lambda: _sketch_of_rank(mine, kind))
    _check_apart(ranks, summed)
    total: Sketch = sum(ranks.values(lambda: summed.sketch))
    return FitData(total, total)


def _check_weights(ranks: Exchange, model: nn.Module) -> None:
    """Refuse networks whose weights differ from rank to rank, where each rank has all of them."""
    sums = list(ranks.values(lambda: _checksum(model)))
    whole = [(rank, own) for rank, own in enumerate(sums) if own is not None]
    other = next((rank for rank, own in whole if own != whole[0][1]), None)
    if other is not None:
        raise InputError(
            "All ranks",
            "have the same weights of the network",
            got=f"others on rank {other} than on rank {whole[0][0]}",
            remedy="Load the same checkpoint on every rank.",
        )


def _checksum(model: nn.Module) -> str | None:
    """The digest of some numbers of each parameter of a network; None where a rank has a part of them only."""
    parameters = list(model.named_parameters())
    if any(type(parameter.data) is not Tensor or parameter.is_meta for _, parameter in parameters):  # as sharded ones are
        return None
    if any("FullyShardedDataParallel" in type(module).__name__ for module in model.modules()):
        return None
    digest = sha256()
    with torch.no_grad():
        for name, parameter in parameters:
            flat = parameter.detach().reshape(-1)
            some = flat[:: max(1, len(flat) // _SOME)]  # as they are stored: sums differ from device to device
            digest.update(f"{name} {tuple(parameter.shape)} {parameter.dtype};".encode())
            digest.update(some.contiguous().view(torch.uint8).cpu().numpy().tobytes())
    return digest.hexdigest()


def _warn_of_same_rows(ranks: Exchange, mine: FitData | None) -> None:
    """Warn if two ranks have read the same rows, as where each has the whole loader: they count twice."""
    data = None if mine is None else mine.sketch or mine.rows
    digests = list(ranks.values(lambda: None if data is None else data.digest))
    seen = [digest for digest in digests if digest is not None]
    if len(set(seen)) < len(seen):
        first = next(digest for digest in seen if seen.count(digest) > 1)
        which = [str(rank) for rank, digest in enumerate(digests) if digest == first]
        notice(
            f"Ranks {enumeration(which)} have read the same rows, which count {len(which)} times: error bars are too small. "
            "Give each rank its own part, with `torch.utils.data.DistributedSampler(..., shuffle=False)`.",
            InputWarning,
        )


def _sketch_of_rank(mine: FitData | None, kind: Sketch) -> Any:
    """The sketch of this rank, with the names of its clusters; ``kind`` is an empty one."""
    if mine is None:
        return FitData(kind, kind)
    if mine.sketch is not None:
        return mine
    sketch = kind.update(mine.rows, clusters=mine.clusters)
    return FitData(sketch, sketch, None if mine.clusters is None else np.unique(mine.clusters).tolist())


class RankRows(Rows):
    """The rows of all ranks. ``rows`` are those of this one, or None; ``clusters`` and ``groups`` are the names of all.

    The guard of ``meaning`` judges the scores of all ranks: only these tell what they are.
    """

    n_classes: int = 0
    n_rows: int | None = None

    def __init__(
        self,
        ranks: Exchange,
        rows: Rows | None,
        clusters: Names | None = None,
        groups: Names | None = None,
        meaning: ReadOptions | None = None,
    ) -> None:
        self._ranks = ranks
        self._rows = rows
        self._meaning = ReadOptions() if meaning is None else meaning
        numbers_of_classes, numbers_of_rows, inputs = zip(*ranks.values(lambda: _facts(rows)), strict=True)
        self.n_classes = _common_number(numbers_of_classes)
        self.input = next(filter(None, inputs))
        self.n_rows = _total(numbers_of_rows)
        if clusters is not None:  # only their number is asked for here; each rank has the codes of its own rows
            codes = np.broadcast_to(np.int64(0), (self.n_rows or 0,))
            self.clusters = Clusters(codes, len(clusters.values), self._meaning.by_image)
        if groups is not None:
            self.groups = groups.with_codes(np.arange(len(groups.values)))

    def __iter__(self) -> Iterator[Batch]:
        raise InputError(
            "Rows on several ranks cannot be read one after the other: only their sums travel. Use the rows of one rank where "
            "this is needed, as by a bootstrap without clusters."
        )

    def gather(self, pass_: Callable[[Batch], T], report: Report = silent) -> T:
        """The sum of ``pass_`` over the rows of all ranks. ``report`` is told about those of the first rank, on that rank."""
        shown = report if self._ranks.rank == 0 else (lambda *_: None)  # `silent` would show a bar per rank

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
                raise InputError(
                    f"Rank {rank} has measured something else than rank 0. All ranks must call the same functions with the "
                    "same arguments, in the same order."
                )
            numbers.append(n_rows)
            ranges.append(score_range)
            if sums is not None:
                total = sums if total is None else total + sums
        if total is None:
            raise without_rows()
        self.n_rows = _total(numbers)
        if None not in ranges:
            self._meaning.check_range(sum(ranges, start=ScoreRange()))
            self._meaning = ReadOptions(by_image=self._meaning.by_image)  # once is enough
        return total

    @property
    def class_weights(self) -> HostArray | None:
        """The sum over ranks; all of them must ask."""
        mine, none = self._rows, np.zeros(1)
        parts = list(self._ranks.values(lambda: none if mine is None or mine.n_rows == 0 else mine.class_weights))
        return None if any(part is None for part in parts) else sum(parts, start=np.zeros(self.n_classes))

    @property
    def kept(self) -> "RankRows | None":
        """Those of each rank; all of them must ask."""
        mine = self._rows
        part = self._ranks.own_value(lambda: None if mine is None else mine.kept)
        return RankRows(self._ranks, part) if all(list(self._ranks.values(lambda: mine is None or part is not None))) else None

    def sample(self, size: int) -> "RankRows | None":
        """About ``size`` rows, from each rank as many as are its share; None if some rank cannot give any."""
        share, mine = size / (self.n_rows or 1), self._rows
        part = self._ranks.own_value(lambda: None if mine is None else mine.sample(ceil(share * (mine.n_rows or 0))))
        if not all(list(self._ranks.values(lambda: mine is None or part is not None))):
            return None
        return self if all(list(self._ranks.values(lambda: part is mine))) else RankRows(self._ranks, part)


def _facts(rows: Rows | None) -> tuple[int | None, int | None, Input | None]:
    """The numbers of classes and rows and what the scores are, for the other ranks; without rows only that there are none."""
    try:
        return (None, 0, None) if rows is None else (rows.n_classes, rows.n_rows, rows.input)
    except NoRowsError:  # a loader without batches says so when it is asked for the number of classes
        return None, 0, None


def _common_number(numbers: Sequence[int | None]) -> int:
    """The number of classes, which must be the same on all ranks that have rows."""
    different = {number for number in numbers if number is not None}
    if not different:
        raise without_rows()
    if len(different) > 1:
        raise InputError("logits", "have the same number of classes on every rank", got=f"{numbers} on the ranks in order")
    return different.pop()


def _total(numbers: Sequence[int | None]) -> int | None:
    """The sum of some numbers, if all of them are known."""
    return None if None in numbers else sum(filter(None, numbers))


def _digest_of_pass(pass_: Any) -> str:
    """A digest of a pass that is the same on all ranks, whatever their memory addresses are."""
    return sha256(re.sub(r" at 0x[0-9A-Fa-f]+", "", repr(pass_)).encode()).hexdigest()


# --- clusters and groups that have the same name on several ranks are the same ones: all ranks number them alike -----------


def _share_clusters(ranks: Exchange, rows: Rows | None, clusters: Any, *, are_images: bool) -> Names | None:
    """Number the clusters of this rank's rows as on all other ranks; returns the names of all, or None without clusters."""
    own = ranks.own_value(lambda: _own_clusters(rows, clusters))
    names = _common_names(ranks, rows is not None, None if own is None else own[0], "clusters")
    if names is not None:
        check_number_of_clusters(len(names.values), are_images=are_images)
        if own is not None:
            rows.clusters = names.with_codes(names.renumber(*own))  # type: ignore[union-attr]
    return names


def _own_clusters(rows: Rows | None, clusters: Any) -> tuple[Names, HostArray] | None:
    """The names of the clusters of this rank, and the place of each row's cluster among them."""
    if rows is None or (clusters is None and rows.clusters is None):
        return None
    if rows.clusters is not None or not isinstance(rows, _HELD):
        raise InputError(
            "clusters",
            "be passed to `nishimori.torch.across_ranks` beside arrays or .npy files of logits and labels",
            got=f"an object of type {type(rows).__name__}",
            remedy="Their names are needed to find the rows of the same cluster on other ranks. For batches, add each batch to "
            "a Sketch, with all rows of a cluster in one batch, and pass the sketch to `nishimori.torch.reduced`.",
        )
    values = load_array(clusters)
    flat = values if isinstance(rows, StoredRows) else rows.scores.per_row(values)
    weights = getattr(rows, "weights", None)
    counted = np.ones(rows.n_rows) if weights is None else arrays.on_host(weights)
    return Names.of_rows("cluster", flat, counted, only_counted=True)


def _share_groups(ranks: Exchange, rows: Rows | None) -> Names | None:
    """Number the groups of this rank's rows as on all other ranks; returns the names of all, or None without groups."""
    mine = None if rows is None else rows.groups
    own = None if mine is None else Names("group", np.array(mine.names), only_counted=False)
    names = _common_names(ranks, rows is not None, own, "groups")

    def renumber() -> None:
        if rows is None or mine is None or own is None or names is None or mine.names == tuple(names.values.tolist()):
            return
        if not isinstance(rows, _HELD):
            raise InputError(
                f"`groups` of an object of type {type(rows).__name__}",
                "have the same names in the same order on every rank",
                got=f"{mine.names}, and {tuple(names.values.tolist())} on all ranks",
                remedy="Pass arrays.",
            )
        rows.groups = names.with_codes(names.renumber(own, mine.codes))

    ranks.own_value(renumber)
    return names


_HELD = ArrayRows | DeviceRows | StoredRows
"""Rows whose clusters and groups can be numbered again."""


def _common_names(ranks: Exchange, has_rows: bool, own: Names | None, what: str) -> Names | None:
    """The names on all ranks; None without names. Names must be there on all ranks that have rows, or on none."""
    by_rank = list(ranks.values(lambda: (has_rows, own)))
    shared = [names for _, names in by_rank if names is not None]
    lacking = next((rank for rank, (has_some, names) in enumerate(by_rank) if has_some and names is None), None)
    if lacking is not None and shared:
        must = "be given on every rank that has rows, or on none"
        raise InputError(what, must, got="none here", where=f"Rank {lacking}")
    return Names.merge(shared) if shared else None


def _check_apart(ranks: Exchange, mine: FitData) -> None:
    """Refuse a cluster with rows on several ranks where each rank has a sketch, in which the sums of a cluster are squared."""
    own = None if mine.clusters is None else Names("cluster", np.array(mine.clusters), only_counted=True)
    _common_names(ranks, bool(mine.rows.n_rows), own, "clusters")
    rank_of: dict[Any, int] = {}
    for rank, own in enumerate(ranks.values(lambda: mine.clusters)):
        for name in own or ():
            if rank_of.setdefault(name, rank) != rank:
                raise InputError(
                    "clusters",
                    "not be spread over ranks where logits take more than `keep_up_to`",
                    got=f"cluster {name!r} on ranks {rank_of[name]} and {rank}",
                    remedy="Give all rows of a cluster to one rank, or raise `keep_up_to`.",
                )
