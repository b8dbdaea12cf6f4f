"""What the user passed, as a source: the kinds are told apart by what they are, and never by their values.

An array is what is in memory, or on a device. A path, a memory map and an array in chunks are read a few megabytes at a time,
again for each reading. So are the batches of a loader, and of a function that returns them.
"""

import os
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np

from nishimori._rows.array_rows import ArraySource, clusters_of
from nishimori._rows.batch import Groups
from nishimori._rows.dask_rows import from_dask
from nishimori._rows.device_rows import on_device
from nishimori._rows.labelling import Labelling
from nishimori._rows.labels import Classes, checked_weights, class_indices, column_names, refuse_name, refuse_permuted
from nishimori._rows.npy_files import Mapped, NpyFile
from nishimori._rows.pieces import Meaning, Pieces
from nishimori._rows.scores import SAY_PROBABILITIES, Input, check_input, warn_if_probabilities
from nishimori._rows.source import Source, is_source
from nishimori._rows.stored_rows import Chunked, Stored, StoredSource
from nishimori._rows.stream_rows import WHAT_A_BATCH_IS, Batches
from nishimori._rows.table_rows import Columns, TableSource
from nishimori._rows.tables.files import is_table
from nishimori._rows.top_k import TopK
from nishimori._rows.top_k_rows import top_k_source
from nishimori._support import arrays
from nishimori._support.disk import existing_file
from nishimori.errors import InputError


def source(
    logits: Any,
    labels: Any = None,
    sample_weight: Any = None,
    *,
    input: Input = "logits",
    classes: Classes = None,
    floor: float | None = None,
    clusters: Any = None,
    groups: Any = None,
    ignore_index: int | None = None,
    shift_labels: bool = False,
    progress: bool | None = None,
    names: tuple[str, str] = ("logits", "labels"),
    probability_remedy: str = SAY_PROBABILITIES,
) -> Source:
    """What the user passed, as a source; a source passes as it is.

    ``clusters`` say which rows are not independent, for standard errors; ``groups`` name the group of each row. Logits may have
    any number of dimensions before the classes. ``ignore_index`` and ``shift_labels`` are those of a `Labelling`.

    ``progress`` is that of public functions, for data that are read piece by piece. ``names`` are what the caller's signature
    calls the first two arguments. ``probability_remedy`` is what the user can do if the logits look like probabilities.
    """
    if is_source(logits):
        given = {
            names[1]: labels,
            "sample_weight": sample_weight,
            "classes": classes,
            "floor": floor,
            "clusters": clusters,
            "groups": groups,
            "ignore_index": ignore_index,
            "shift_labels": shift_labels or None,
            "input": None if input == "logits" else input,
        }
        return _as_it_is(logits, given, names[0])
    labelling = Labelling(ignore_index, shift_labels)
    meaning = Meaning(
        input=input, classes=classes, floor=floor, names=names, probability_remedy=probability_remedy, labelling=labelling
    )
    parts = {"clusters": clusters, "groups": groups}
    if isinstance(logits, TopK):
        return top_k_source(logits, labels, sample_weight, parts, meaning)
    if arrays.is_lazy(logits):
        return from_dask(logits, labels, sample_weight, parts, meaning)
    refuse_permuted(column_names(logits, names[0]), classes)
    if in_pieces(logits, labels):
        return _pieces(logits, labels, sample_weight, parts, meaning, progress)
    _refuse_samples(logits, labels, names[0])
    refuse_name(groups, "group")
    return _at_hand(logits, labels, sample_weight, parts, meaning)


def _at_hand(logits: Any, labels: Any, sample_weight: Any, parts: Mapping[str, Any], meaning: Meaning) -> Source:
    """Arrays that are in memory or on a device; ``parts`` are clusters and groups."""
    table, name = meaning.scores(logits), meaning.names[1]
    labels, sample_weight = meaning.labelling.applied(labels, sample_weight, table, name)
    meaning.labelling.refuse_nothing(sample_weight, name, labels)
    clusters, groups = (table.per_row(parts[each], each) for each in ("clusters", "groups"))
    weights = checked_weights(sample_weight, table.n_samples, table.row)
    warn_if_probabilities(table, meaning.probability_remedy, weights)
    together = None if clusters is None else clusters_of(clusters, weights, table.row)
    grouped = None if groups is None else Groups.coded(groups, table.n_samples, table.row)
    if arrays.is_on_cuda(table.array):
        given_weights = None if sample_weight is None else weights
        there = on_device(table, labels, given_weights, meaning.classes, name, together, grouped)
        if there is not None:
            return there
    columns = class_indices(labels, meaning.classes, table, name, weights)
    return ArraySource(table, columns, weights, clusters=together, groups=grouped)


def _as_it_is(found: Source, given: Mapping[str, Any], name: str) -> Source:
    """A source, of which nothing may be said."""
    for each, value in given.items():
        if value is not None:
            raise InputError(f"`{each}` must be left out where `{name}` is a source, which brings its own.")
    return found


def in_pieces(logits: Any, labels: Any = None) -> bool:
    """Whether `source` reads this piece by piece. It is an array otherwise, or a source already, or is refused."""
    if type(logits) is np.ndarray or is_source(logits):  # the commonest cases, for which each check would count
        return False
    return _is_table(logits) or _is_stored(logits) or _yields_batches(logits, labels)


def _pieces(
    logits: Any, labels: Any, sample_weight: Any, parts: Mapping[str, Any], meaning: Meaning, progress: bool | None
) -> Pieces[Any]:
    """A source that is read piece by piece; ``parts`` are clusters and groups."""
    if _is_table(logits):
        return _from_table(logits, labels, sample_weight, parts, meaning, progress)
    found = stored(logits)
    if found is not None:
        kept = {name: loaded(values) for name, values in parts.items()}
        return StoredSource(found, loaded(labels), loaded(sample_weight), meaning, **kept, progress=progress)
    check_input(meaning.input, meaning.floor)
    if parts["clusters"] is not None:
        raise InputError(
            f"`clusters` must be left out where `{meaning.names[0]}` yields batches. Add each batch to a Sketch, with "
            "`sketch.update(logits, labels, clusters=...)`, and fit to the sketch."
        )
    if parts["groups"] is not None:
        raise InputError(
            f"`groups` must be left out where `{meaning.names[0]}` yields batches, which do not say which rows they hold. Pass "
            "arrays, or a table with a column of groups."
        )
    for name, value in {meaning.names[1]: labels, "sample_weight": sample_weight}.items():
        if value is not None:
            raise InputError(
                f"`{name}` must be left out where `{meaning.names[0]}` yields batches, each of which is {WHAT_A_BATCH_IS}."
            )
    return Batches(logits, meaning, progress=progress)


def stored(logits: Any) -> Stored | None:
    """Scores that are read from outside the memory: a .npy file, a memory map, an array in chunks; None for others."""
    if not _is_stored(logits):
        return None
    if isinstance(logits, Stored):
        return logits
    if isinstance(logits, str | os.PathLike):
        return NpyFile(Path(logits))
    return Mapped(logits) if isinstance(logits, np.memmap) else Chunked(logits)


def _is_table(value: Any) -> bool:
    return isinstance(value, str | os.PathLike) and (os.path.isdir(value) or is_table(Path(value)))


def _is_stored(value: Any) -> bool:
    if isinstance(value, str | os.PathLike):
        return Path(value).suffix.lower() == ".npy"
    if isinstance(value, Stored | np.memmap):
        return True
    in_chunks = all(hasattr(value, name) for name in ("shape", "dtype", "chunks", "__getitem__"))
    # Arrays of Dask and xarray have a tuple of chunks per axis.
    return in_chunks and not arrays.is_array(value) and all(isinstance(each, int) for each in value.chunks or ())


def _yields_batches(value: Any, labels: Any) -> bool:
    """Whether ``value`` is an iterable of batches, or a function that may return one."""
    if _is_array_like(value) or isinstance(value, str | bytes | os.PathLike | Mapping | Set):
        return False
    if isinstance(value, Sequence):
        # Nested lists are arrays. A list of tuples of arrays is one only by mistake, if nothing else gives the labels.
        first = value[0] if isinstance(value, list) and value and labels is None else None
        return isinstance(first, tuple | list) and len(first) > 1 and arrays.is_array(first[0])
    return callable(value) or isinstance(value, Iterable)


def _refuse_samples(value: Any, labels: Any, name: str) -> None:
    """Refuse a data set of PyTorch, or anything else that gives one sample at a time and no labels apart."""
    by_number = hasattr(value, "__getitem__") and hasattr(value, "__len__") and not hasattr(value, "__iter__")
    if by_number and labels is None and not _is_array_like(value):
        raise InputError(
            f"`{name}` must yield batches, got a {type(value).__name__}, which gives one sample at a time. Pass a loader, such "
            "as `torch.utils.data.DataLoader(dataset, batch_size=1000)`."
        )


def _is_array_like(value: Any) -> bool:
    """Whether ``value`` is an array, a data frame, or something else that NumPy can convert."""
    return arrays.is_array(value) or any(hasattr(value, name) for name in ("shape", "__array__", "__dlpack__", "__dataframe__"))


def _from_table(
    path: str | os.PathLike[str],
    labels: Any,
    sample_weight: Any,
    parts: Mapping[str, Any],
    meaning: Meaning,
    progress: bool | None,
) -> TableSource:
    given = {meaning.names[1]: labels, "sample_weight": sample_weight, **parts}
    for name, value in given.items():
        if value is not None and not isinstance(value, str):
            raise InputError(f"`{name}` must be the name of a column of {path}, got a {type(value).__name__}.")
    return TableSource(path, Columns(labels=labels or "labels", weights=sample_weight, **parts), meaning, progress=progress)


def loaded(values: Any) -> Any:
    """Labels, weights, clusters or groups, from their .npy file if that is what was passed."""
    if not isinstance(values, str | os.PathLike) or Path(values).suffix.lower() != ".npy":
        return values
    return np.asarray(NpyFile(existing_file(values)))
