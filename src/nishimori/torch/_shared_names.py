"""Clusters and groups that have the same name on several ranks are the same ones: all ranks number them alike."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nishimori._rows.array_rows import ArrayRows
from nishimori._rows.batch import Clusters, Groups
from nishimori._rows.device_rows import DeviceRows
from nishimori._rows.entry import load_array
from nishimori._rows.labels import check_number_of_clusters, encode_values
from nishimori._rows.rows import Rows
from nishimori._rows.stored_rows import StoredRows
from nishimori._support import arrays
from nishimori._support.arrays import HostArray
from nishimori.errors import InputError
from nishimori.torch._exchange import Exchange


@dataclass(frozen=True)
class _Names:
    """The names on one rank: of all of its rows, and of those of positive weight. None if no names were given."""

    n_rows: int
    all: HostArray | None = None
    counted: HostArray | None = None


def share_clusters(ranks: Exchange, rows: Rows | None, clusters: Any) -> Clusters | None:
    """Number the clusters of this rank's rows as on all other ranks; returns those of all rows, or None without clusters."""
    mine = ranks.own_value(lambda: _encode_clusters(rows, clusters))
    names = list(ranks.values(lambda: _names(rows, mine)))
    numbers = [rank_names.n_rows for rank_names in names]
    if not _have_names([rank_names.all if rank_names.n_rows else None for rank_names in names], numbers, "clusters"):
        return None
    common = _common([rank_names.all for rank_names in names], "clusters")
    counted = _common([rank_names.counted for rank_names in names], "clusters")
    check_number_of_clusters(len(counted))
    if mine is not None:
        assert isinstance(rows, ArrayRows | DeviceRows | StoredRows), "checked when they were numbered"
        rows.clusters = Clusters(np.searchsorted(common, mine[0])[mine[1]], len(common))
    return Clusters(np.broadcast_to(np.int64(0), (sum(numbers),)), len(common))


def _encode_clusters(rows: Rows | None, clusters: Any) -> tuple[HostArray, HostArray] | None:
    """The names of the clusters of this rank, and the place of each row's cluster among them."""
    if rows is not None and rows.clusters is not None:
        raise InputError(
            "clusters",
            (
                "be passed to `nishimori.torch.across_ranks`, beside arrays of logits and labels: their names are "
                "needed to find the rows of the same cluster on other ranks"
            ),
        )
    if rows is None or clusters is None:
        return None
    if not isinstance(rows, ArrayRows | DeviceRows | StoredRows):
        raise InputError(
            f"`clusters` need arrays or .npy files on every rank, got an object of type {type(rows).__name__}. For "
            "batches, add each batch to a Sketch, with all rows of a cluster in one batch, and pass the sketch to "
            "`nishimori.torch.reduced`."
        )
    values = load_array(clusters)
    flat = values if isinstance(rows, StoredRows) else rows.scores.per_row(values)
    return encode_values(flat, rows.n_rows, "cluster")


def _names(rows: Rows | None, mine: tuple[HostArray, HostArray] | None) -> _Names:
    if rows is None:
        return _Names(0)
    if mine is None:
        return _Names(rows.n_rows or 1)  # not known of a loader, which has no clusters
    names, codes = mine
    weights = getattr(rows, "weights", None)
    counted = codes if weights is None else codes[arrays.on_host(weights) > 0]
    return _Names(len(codes), names, names[np.unique(counted)])


def check_apart(ranks: Exchange, n_rows: int, clusters: Sequence[Any] | None) -> None:
    """Refuse a cluster with rows on several ranks where each rank has a sketch, in which the sums of a cluster are squared."""
    parts = list(ranks.values(lambda: (n_rows, clusters)))
    _have_names([names for _, names in parts], [n for n, _ in parts], "clusters")
    codes_of: dict[Any, int] = {}
    for rank, (_, names) in enumerate(parts):
        for name in names or ():
            if codes_of.setdefault(name, rank) != rank:
                raise InputError(
                    "clusters",
                    "not be spread over ranks where logits take more than `keep_up_to`",
                    got=f"cluster {name!r} on ranks {codes_of[name]} and {rank}",
                    remedy="Give all rows of a cluster to one rank, or raise `keep_up_to`.",
                )
    if len({float if isinstance(name, int | float) else type(name) for name in codes_of}) > 1:
        raise _mixed_types_error("clusters")


def share_groups(ranks: Exchange, rows: Rows | None) -> Groups | None:
    """Number the groups of this rank's rows as on all other ranks; returns the names of all, or None without groups."""
    mine = None if rows is None else rows.groups
    names = list(ranks.values(lambda: (rows is not None, None if mine is None else mine.names)))
    if not _have_names([own for _, own in names], [has_rows for has_rows, _ in names], "groups"):
        return None
    try:
        common = tuple(sorted({name for _, own in names for name in own or ()}))
    except TypeError:
        raise _mixed_types_error("groups") from None

    def renumber() -> None:
        if mine is None or mine.names == common:
            return
        if not isinstance(rows, ArrayRows | DeviceRows | StoredRows):
            raise InputError(
                f"`groups` of an object of type {type(rows).__name__}",
                "have the same names in the same order on every rank",
                got=f"{mine.names}, and {common} on all ranks",
                remedy="Pass arrays.",
            )
        places = np.array([common.index(name) for name in mine.names], dtype=np.int64)
        rows.groups = Groups(places[mine.codes], common)

    ranks.own_value(renumber)
    return Groups(np.arange(len(common)), common)


def _have_names(names: Sequence[Any], has_rows: Sequence[int], what: str) -> bool:
    """Whether names were given, on all ranks that have rows."""
    have_names = [own is not None for own in names]
    lacking = next((rank for rank, has in enumerate(has_rows) if has and not have_names[rank]), None)
    if any(have_names) and lacking is not None:
        must = "be given on every rank that has rows, or on none"
        raise InputError(what, must, got="none here", where=f"Rank {lacking}")
    return any(have_names)


def _common(names: Sequence[HostArray | None], what: str) -> HostArray:
    """The names on all ranks, in order."""
    shared = [own for own in names if own is not None]
    if len({"number" if own.dtype.kind in "biuf" else own.dtype.kind for own in shared}) > 1:
        raise _mixed_types_error(what)
    unique_names: HostArray = np.unique(np.concatenate(shared))
    return unique_names


def _mixed_types_error(what: str) -> InputError:
    return InputError(what, "be of one type on all ranks, such as numbers or text", got="several")
