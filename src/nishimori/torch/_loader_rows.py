"""A loader and a network as rows: each pass runs the network on all batches again, and no logits are kept."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from typing import Any

import numpy as np

from nishimori._rows.array_rows import ArrayRows, clusters_of
from nishimori._rows.batch import Clusters, Groups
from nishimori._rows.options import Guard, ReadOptions
from nishimori._rows.pieces import Pieces
from nishimori._rows.stream_rows import in_batch
from nishimori._support.arrays import HostArray
from nishimori._support.progress import show_progress
from nishimori.errors import InputError
from nishimori.torch._batch_rows import BatchRows, join_names
from nishimori.torch._reading import AS_LOGITS, NO_SOFTMAX, LoaderReading


class LoaderRows(Pieces[BatchRows]):
    """The rows of a loader, whose logits are computed again in every pass.

    Groups and clusters have their numbers in all the data, so where there are any, all batches are read once to find them.
    """

    remedy = (
        "Give the loader fixed transforms, and use no dropout inside `forward`; or leave out `reread=True`, which reads the "
        "loader once."
    )

    def __init__(
        self, reading: LoaderReading, n_classes: int, *, has_names: bool, progress: bool | None, guard: Guard = "refuse"
    ) -> None:
        """``has_names`` says whether there are groups or clusters; ``guard`` is that of `ReadOptions`."""
        if isinstance(reading.batches, Iterator):
            raise InputError(
                "loader",
                "be readable more than once where `reread=True`",
                got=f"an object of type {type(reading.batches).__name__}, which is used up after one pass",
                remedy="Pass a DataLoader.",
            )
        meaning = ReadOptions(guard=guard, probability_remedy=NO_SOFTMAX, logits_setting=AS_LOGITS)
        super().__init__(meaning, progress=progress, read_ahead=False)
        self._loader = reading
        self._n_classes = n_classes
        if not has_names:
            return
        groups, clusters = self._names(progress)
        if groups is not None:
            self.groups = Groups.from_names(groups, len(groups))
        if clusters is not None:
            self.clusters = clusters_of(clusters, np.ones(len(clusters)))
            self._cluster_names = np.unique(clusters).tolist()

    def _names(self, progress: bool | None) -> tuple[HostArray | None, HostArray | None]:
        """The group and the cluster of each row that counts, from a pass."""
        groups, clusters = [], []
        with show_progress(progress) as report, closing(self._loader.rows()) as batches:
            for rows in batches:
                report("Reading groups and clusters", rows.number + 1, self._loader.n_batches)
                groups += [] if rows.groups is None else [rows.groups[rows.counted]]
                clusters += [] if rows.clusters is None else [rows.clusters[rows.counted]]
        return join_names(groups), join_names(clusters)

    @property
    def name(self) -> str:
        """The argument of `calibrate`."""
        return "loader"

    def read(self) -> Generator[BatchRows, None, None]:
        """The batches of one pass, run through the network."""
        with closing(self._loader.rows()) as batches:
            yield from batches

    def rows(self, piece: BatchRows) -> ArrayRows:
        """The rows of a batch, on the device of the network."""
        groups, clusters = None, None
        if self.groups is not None and piece.groups is not None:
            groups = Groups(_encode_names(piece.groups, piece.counted, self.groups.names, "groups"), self.groups.names)
        if self.clusters is not None and piece.clusters is not None:
            codes = _encode_names(piece.clusters, piece.counted, self._cluster_names, "clusters")
            clusters = Clusters(codes, self.clusters.number)
        return piece.rows(clusters, groups)

    def place(self, error: InputError, piece: BatchRows) -> InputError:
        """The number of the batch, from 0, before the message."""
        return in_batch(piece.number, error)

    def no_rows_error(self) -> InputError:
        """Never raised, because a pass without rows is refused by itself."""
        raise AssertionError


def _encode_names(names: HostArray, counted: HostArray, known: Sequence[Any], what: str) -> HostArray:
    """The place of the name of each row among the ``known`` ones; 0 where a row does not count."""
    places = {name: i for i, name in enumerate(known)}
    different, which = np.unique(names[counted], return_inverse=True)
    others = [name for name in different.tolist() if name not in places]
    if others:
        raise InputError(what, "be the same in every pass over the loader", got=f"{others[0]!r}, which was not there before")
    codes = np.zeros(len(names), dtype=np.int64)
    codes[counted] = np.array([places[name] for name in different.tolist()], dtype=np.int64)[which]
    return codes
