"""Batches from a user's loader, or from a function that starts again at each call.

Batches that name the clusters or groups of their rows are read once more at the beginning, because sums over clusters and
groups need to know all of them.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from inspect import signature
from typing import Any

import numpy as np

from nishimori._rows.array_rows import ArrayRows, ReadOptions
from nishimori._rows.batch import Clusters, Groups, Names
from nishimori._rows.labels import check_number_of_clusters
from nishimori._rows.pieces import Pieces
from nishimori._support import arrays
from nishimori._support.arrays import HostArray
from nishimori._support.progress import show_progress
from nishimori.errors import InputError, NoRowsError

WHAT_A_BATCH_IS = "a tuple (logits, labels) or (logits, labels, sample_weight), or a dictionary"

_NEEDED = ("logits", "labels")
_NAMED = ("clusters", "groups")
_KEYS = (*_NEEDED, "sample_weight", *_NAMED)


# A batch has fewer images than two to this power, so that the number of the batch and that of the image in it are one number.
_IMAGES = 32

_Numbered = tuple[int, Any]
"""The number of a batch, and the batch."""


class StreamRows(Pieces[_Numbered]):
    """The batches of an iterable that can be iterated again, or of a function that returns a new iterable."""

    remedy = (
        "Use fixed transforms and put networks in eval mode; or compute the logits once, as `nishimori.torch.collect(model, "
        "loader)` does, and pass these arrays."
    )

    only_counted: tuple[str, ...] = ("clusters",)
    """Whether the names of rows of weight zero are ignored, for clusters and for groups."""

    n_batches: int | None = None
    """How many batches there are, where that is known."""

    def __init__(
        self,
        batches: Iterable[Any] | Callable[[], Iterable[Any]],
        meaning: ReadOptions,
        *,
        progress: bool | None = None,
        read_ahead: bool = False,
    ) -> None:
        super().__init__(meaning, progress=progress, read_ahead=read_ahead)
        self._batches = factory(batches, meaning.names[0])
        self._named: tuple[str, ...] | None = None  # what the batches name of their rows; None before the first was seen
        self._all_names: dict[str, Names] | None = None  # what they name in all
        self._codes: dict[str, HostArray] = {}  # of all rows
        self.has_images = False  # whether clusters are images, because batches name none

    @property
    def clusters(self) -> Clusters | None:  # type: ignore[override]
        clusters: Clusters | None = self._of_all_rows("clusters")
        return None if clusters is None else replace(clusters, are_images=self.has_images)

    @property
    def groups(self) -> Groups | None:  # type: ignore[override]
        groups: Groups | None = self._of_all_rows("groups")
        return groups

    def _of_all_rows(self, name: str) -> Any:
        names = self._names().get(name)
        return None if names is None else names.with_codes(self._codes[name])

    def _reading(self) -> Generator[tuple[_Numbered, ArrayRows], None, None]:
        """One pass. If the first batch names clusters or groups, the names of all batches are read first."""
        if self._named:
            self._names()
        with closing(super()._reading()) as reading:
            for piece in reading:
                if self._named and self._all_names is None:  # seen just now, in the first batch
                    break
                yield piece
            else:
                return
        self._names()
        yield from super()._reading()

    def _names(self) -> dict[str, Names]:
        """The clusters and groups of all rows, from an extra pass if batches name some."""
        if self._all_names is None:
            if self._named is None:
                try:
                    _ = self.n_classes  # looks at the first batch
                except NoRowsError:  # as on one of several ranks: whoever needs rows says so
                    return {}
            self._all_names = self._read_names() if self._named else {}
        return self._all_names

    def _read_names(self) -> dict[str, Names]:
        parts: dict[str, list[tuple[Names, HostArray]]] = {name: [] for name in self._named or ()}
        with show_progress(self._progress) as report, closing(self.read()) as pieces:
            for piece in pieces:
                with self._errors_at(piece):
                    rows, values = self.named_rows(piece)
                    for name, own in parts.items():
                        if rows is not None:
                            only_counted = name in self.only_counted
                            what = name.removesuffix("s")
                            own.append(Names.of_rows(what, values[name], rows.weights, only_counted=only_counted))
                report("Reading groups and clusters", piece[0] + 1, self.n_batches)
        names = {name: Names.merge([part for part, _ in own]) for name, own in parts.items() if own}
        for name, own_names in names.items():
            self._codes[name] = np.concatenate([own_names.renumber(part, codes) for part, codes in parts[name]])
        if "clusters" in names:
            check_number_of_clusters(len(names["clusters"].values), are_images=self.has_images)
        return names

    def read(self) -> Generator[_Numbered, None, None]:
        """The batches as they come, with their numbers."""
        batches = iter(self._batches())
        try:
            yield from enumerate(batches)
        finally:
            close = getattr(batches, "close", None)  # a generator may hold files open
            if close is not None:
                close()

    def rows(self, piece: _Numbered) -> ArrayRows | None:
        """The rows of one batch, with clusters and groups once all names are known; None if it is empty."""
        rows, values = self.named_rows(piece)
        if rows is not None:
            for name, names in (self._all_names or {}).items():
                setattr(rows, name, names.with_codes(names.codes_of(values[name], rows.weights)))
        return rows

    def named_rows(self, piece: _Numbered) -> tuple[ArrayRows | None, Mapping[str, Any]]:
        """The rows of one batch, and the names of their clusters and groups."""
        batch = _parts(piece[1])
        array = batch["logits"]
        shape = tuple(getattr(array, "shape", (1,)))
        if 0 in (shape[:-1] or shape):
            return None, {}
        table = self.meaning.scores(array)
        if batch.get("clusters") is None and self.meaning.has_images(table):
            self.has_images = True
            batch = {**batch, "clusters": (piece[0] << _IMAGES) + np.arange(table.leading[0])}
        named = tuple(name for name in _NAMED if batch.get(name) is not None)
        if self._named is None:
            self._named = named
        if named != self._named:
            first = " and ".join(self._named) or "neither clusters nor groups"
            raise InputError("each batch", f"name {first}, as the first one does", got=named)
        if self.members is None:
            self.members = table.members
        elif table.members != self.members:
            got = 0 if table.members is None else table.members.size
            raise InputError(self.name, f"have {self.members.size} members, as in the batches before", got=got)
        rows = self.meaning.rows(table, batch["labels"], batch.get("sample_weight"), n_classes=self._n_classes)
        return rows, {name: table.per_row(batch[name], name) for name in named}

    def place(self, error: InputError, piece: _Numbered | None) -> InputError:
        """Add the number of the batch to the error; batches, and the rows of each, count from 0."""
        return error if piece is None else in_batch(piece[0], error)


def _parts(batch: Any) -> Mapping[str, Any]:
    """The parts of a batch, by name."""
    if isinstance(batch, Mapping):
        unknown = [name for name in batch if name not in _KEYS]
        if unknown or any(name not in batch for name in _NEEDED):
            wanted = "a dictionary with logits, labels and perhaps sample_weight, clusters and groups"
            raise InputError("each batch", f"be {wanted}", got=f"one with {', '.join(map(str, batch)) or 'nothing'}")
        return batch
    if not isinstance(batch, tuple | list) or not 2 <= len(batch) <= 3:
        raise InputError("each batch", f"be {WHAT_A_BATCH_IS}", got=_description(batch))
    return dict(zip(_KEYS, batch, strict=False))


def in_batch(number: int, error: InputError) -> InputError:
    """An error that names the batch; the first is batch 0."""
    return error.changed(where=f"Batch {number}")


def factory(batches: Any, name: str) -> Callable[[], Iterable[Any]]:
    """A function that starts a new pass."""
    if isinstance(batches, Iterator):
        got = f"a {type(batches).__name__}, which is used up after one pass"
        remedy = "Pass a function that makes a new one, such as `lambda: batches()`."
        raise InputError(name, "be readable more than once", got=got, remedy=remedy)
    if isinstance(batches, Iterable):
        return lambda: batches
    if not callable(batches):
        must, remedy = "be an iterable of batches or a function that returns one", f"Each batch is {WHAT_A_BATCH_IS}."
        raise InputError(name, must, got=f"a {type(batches).__name__}", remedy=remedy)
    try:
        signature(batches).bind()
    except TypeError as error:
        must = "be an array of scores or a function without arguments that returns batches"
        called = getattr(batches, "__name__", type(batches).__name__)
        raise InputError(name, must, got=f"{called!r}: {error}") from None
    except ValueError:  # some callables written in C have no signature
        pass
    function: Callable[[], Iterable[Any]] = batches
    return function


def _description(batch: Any) -> str:
    if isinstance(batch, tuple | list):
        return f"a {type(batch).__name__} of {len(batch)}"
    if arrays.is_array(batch):
        return f"an array of shape {tuple(batch.shape)} without labels"
    return f"a {type(batch).__name__}"
