"""The one way in: from what people have to `Rows`. The kinds are told apart by what they are, and never by their values.

An array is what is in memory, or on a device. A path, a memory map and an array in chunks are read a few megabytes at a time,
again for each pass. So are the batches of a loader, and of a function that returns them.
"""

import os
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from nishimori._rows.array_rows import ArrayRows, clusters_of
from nishimori._rows.batch import Groups
from nishimori._rows.dask_rows import from_dask
from nishimori._rows.device_rows import on_device
from nishimori._rows.file_rows import FileRows, check_path, load_if_npy, open_file, open_npy
from nishimori._rows.labelling import Labelling
from nishimori._rows.labels import Classes, checked_weights, class_indices, column_names, refuse_name, refuse_permuted
from nishimori._rows.npy_files import Mapped, NpyFile
from nishimori._rows.options import Guard, ReadOptions, RowOptions, classes_last, takes_rows
from nishimori._rows.pieces import Pieces
from nishimori._rows.rows import Rows, is_rows, refuse_counted_clusters
from nishimori._rows.scores import Floor, Input, check_input, refuse_auto
from nishimori._rows.stored_rows import Chunked, Stored, StoredRows
from nishimori._rows.stream_rows import WHAT_A_BATCH_IS, StreamRows
from nishimori._rows.tables.columns import Roles
from nishimori._rows.top_k import TopK
from nishimori._rows.top_k_rows import open_top_k
from nishimori._support import arrays
from nishimori.errors import InputError

_AS_DICTIONARIES = "Yield dictionaries with the keys logits, labels, clusters and groups, which each batch then brings itself."


@takes_rows()
def rows(
    logits: Any,
    labels: Any = None,
    *,
    columns: str | Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    delimiter: str | None = None,
    decimal: str = ".",
    read_ahead: bool = False,
    progress: bool | None = None,
    **options: Unpack[RowOptions],
) -> Rows:
    """Data with all that is said about them, which every function takes in place of logits and labels.

    Functions open their data by themselves: ``evaluate(logits, labels, clusters=documents)`` needs no `rows`. It is for data
    that several functions read, and for what only some kinds of data need to be told.

    Parameters
    ----------
    logits : array, path, batches, `TopK` or `Rows`
        Scores of shape (n_samples, n_classes), or (n_samples,) for a binary score, or (..., n_classes), where each position
        before the classes is a sample. In memory, on a device, in chunks of Dask, Zarr or h5py, or the path of a .npy file.
        Or the path of a file of named arrays (.npz .pt .safetensors), of a table (.parquet .feather .csv .tsv .jsonl), or of a
        folder of tables. Or a loader of batches ``(logits, labels)`` or ``(logits, labels, sample_weight)``, or a
        function without arguments that returns an iterable of them: each pass must give the same rows, so without augmentation
        or dropout. A batch may also be a dictionary with the keys logits, labels, sample_weight, clusters and groups, of which
        the last three may be missing.
    labels : array of shape (n_samples,), or of ``logits`` before the classes
        The true class of each sample. For a file, the name of its array or column, "labels" by default; after a .npy file, the
        path of another. Left out for batches, which bring their own.
    columns : str or sequence of str, optional
        For a file: the one array, or column, that holds all scores; or the columns of scores in the order of the classes, one
        per class. Patterns such as ``"z_*"`` are allowed. By default the array, or the column of lists, that is called as
        ``input``, or logits if there is none; in a table without either, all other columns, if their names leave no doubt, as
        z_0, z_1, ... do, or if they are as many as the labels say and none is constant or whole-numbered.
    ignore : sequence of str
        For a table: columns, or patterns of columns, that hold no scores.
    delimiter : str, optional
        For .csv and .tsv files: what separates the fields; by default a comma, and a tab in .tsv files.
    decimal : {".", ","}
        For .csv and .tsv files: the decimal mark.
    read_ahead : bool
        For batches: ask for the next one in a thread while the one before is worked on. By default batches are made in the
        thread of the caller, because much cannot move to another one: database connections, PyTorch's modes, CUDA streams.
    progress : bool, optional
        None shows a bar if standard error is a terminal; True also writes a line where it is not; False shows nothing.
    **options
        What is said about the data: ``sample_weight``, ``counts``, ``clusters``, ``groups``, ``input``,
        ``classes``, ``floor``, ``ignore_index``, ``shift_labels``, ``class_axis``.

    Returns
    -------
    Rows
        With `n_rows`, `n_classes`, iteration over batches, and `gather`, the sum of a pass over all rows.

    Examples
    --------
    >>> import numpy as np
    >>> import nishimori
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(40, 51, 20))  # 40 sequences of 51 tokens
    >>> drawn = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=-1)  # next tokens, drawn at T = 2
    >>> input_ids = np.concatenate([np.zeros((40, 1), dtype=int), drawn[:, :-1]], axis=1)
    >>> labels = np.where(np.arange(51) < 10, -100, input_ids)  # a prompt of 10 tokens
    >>> data = nishimori.rows(logits, labels, ignore_index=-100, shift_labels=True, clusters=np.arange(40))
    >>> found = nishimori.temperatures(data)
    >>> print(f"{found.n_samples} tokens, T = {found.ec:.2f} ± {found.ec_se:.2f}")
    1640 tokens, T = 1.96 ± 0.07
    """
    if is_rows(logits) and options.get("counts"):
        _as_they_are(logits, {"counts": True}, "logits")  # raises
    of_file = {"columns": columns, "ignore": ignore, "delimiter": delimiter, "decimal": decimal}
    said = {name: value for name, value in of_file.items() if value not in (None, (), ".")}
    return open_rows(logits, labels, of_file=said, read_ahead=read_ahead, progress=progress, **options)


def open_rows(
    logits: Any,
    labels: Any = None,
    sample_weight: Any = None,
    *,
    counts: bool = False,
    clusters: Any = None,
    groups: Any = None,
    input: Input | None = None,
    classes: Classes = None,
    floor: Floor = None,
    ignore_index: int | None = None,
    shift_labels: bool = False,
    class_axis: int = -1,
    of_file: Mapping[str, Any] | None = None,
    read_ahead: bool = False,
    progress: bool | None = None,
    names: tuple[str, str] = ("logits", "labels"),
    guard: Guard = "refuse",
    probability_remedy: str = "",
    logits_setting: str = "",
) -> Rows:
    """What the user passed, as `Rows`; those pass as they are.

    ``of_file`` is what is said of a file besides: the fields of `Roles` that no other argument gives. ``names`` are what the
    caller's signature calls the first two arguments. ``guard``, ``probability_remedy`` and ``logits_setting`` say what happens
    if scores of which ``input`` says nothing look like probabilities, see `ReadOptions`. All else is as for `rows`.
    """
    of_file = of_file or {}
    if is_rows(logits):
        said = {
            names[1]: labels,
            "sample_weight": sample_weight,
            "clusters": clusters,
            "groups": groups,
            "input": None if isinstance(input, str) and input == "logits" else input,
            "classes": classes,
            "floor": floor,
            "ignore_index": ignore_index,
            "shift_labels": shift_labels or None,
            "class_axis": None if class_axis == -1 else class_axis,
            "read_ahead": read_ahead or None,
            **of_file,
        }
        return _as_they_are(logits, said, names[0])
    if not isinstance(logits, TopK):  # which has no use for any floor, and says so
        refuse_auto(floor)
    meaning = ReadOptions(
        input="logits" if input is None else input,
        guard=guard if input is None else None,
        classes=classes,
        floor=floor,  # type: ignore[arg-type]  # "auto" is refused above, or by `open_top_k`
        names=names,
        probability_remedy=probability_remedy,
        logits_setting=logits_setting,
        labelling=Labelling(ignore_index, shift_labels),
        class_axis=class_axis,
    )
    if of_file and not _is_path(logits):
        argument = next(iter(of_file))
        raise InputError(argument, f"be left out where `{names[0]}` is a {type(logits).__name__}: it is for files")
    if read_ahead and not _is_stream(logits, labels):
        raise InputError("read_ahead", f"be left out where `{names[0]}` is a {type(logits).__name__}: it is for batches")
    if class_axis != -1 and not _is_stream(logits, labels):
        if isinstance(logits, TopK) or (_is_stored(logits) and not _is_path(logits)):
            raise InputError(
                "class_axis", f"be -1 where `{names[0]}` is a {type(logits).__name__}", remedy="Put the classes last."
            )
        if not _is_path(logits):  # which finds out what is in the file
            logits, meaning = classes_last(logits, class_axis, names[0]), replace(meaning, class_axis=-1)
    parts = {"clusters": clusters, "groups": groups}
    found = _open(logits, labels, sample_weight, parts, meaning, of_file, read_ahead, progress)
    if counts:
        refuse_counted_clusters(found, counts=counts)
        found.counts = True
    return found


def _open(
    logits: Any,
    labels: Any,
    sample_weight: Any,
    parts: Mapping[str, Any],
    meaning: ReadOptions,
    of_file: Mapping[str, Any],
    read_ahead: bool,
    progress: bool | None,
) -> Rows:
    """The kind of rows that this is; ``parts`` are clusters and groups."""
    if isinstance(logits, TopK):
        return open_top_k(logits, labels, sample_weight, parts, meaning)
    if arrays.is_lazy(logits):
        return from_dask(logits, labels, sample_weight, parts, meaning)
    refuse_permuted(column_names(logits, meaning.names[0]), meaning.classes)
    if _is_path(logits):
        return _from_file(Path(logits), labels, sample_weight, parts, meaning, of_file, progress)
    if in_pieces(logits, labels):
        return _pieces(logits, labels, sample_weight, parts, meaning, read_ahead, progress)
    _refuse_samples(logits, labels, meaning.names[0])
    refuse_name(parts["groups"], "group")
    return _at_hand(logits, labels, sample_weight, parts, meaning)


def _at_hand(logits: Any, labels: Any, sample_weight: Any, parts: Mapping[str, Any], meaning: ReadOptions) -> Rows:
    """Arrays that are in memory or on a device; ``parts`` are clusters and groups."""
    table, name = meaning.scores(logits), meaning.names[1]
    labels, sample_weight = meaning.labelling.apply(labels, sample_weight, table, name)
    meaning.labelling.refuse_nothing(sample_weight, name, labels)
    clusters, groups = (table.per_row(parts[each], each) for each in ("clusters", "groups"))
    weights = checked_weights(sample_weight, table.n_samples, table.row)
    together = None if clusters is None else clusters_of(clusters, weights, table.row)
    grouped = None if groups is None else Groups.from_names(groups, table.n_samples, table.row)
    found: Rows | None = None
    if arrays.is_on_cuda(table.array):
        given_weights = None if sample_weight is None else weights
        found = on_device(table, labels, given_weights, meaning.classes, name, together, grouped)
    if found is None:
        columns = class_indices(labels, meaning.classes, table, name, weights)
        found = ArrayRows(table, columns, weights, clusters=together, groups=grouped)
    found.score_range = meaning.range_of(table, weights)
    meaning.judge(found.score_range)  # after the labels, whose errors tell if the two arguments were exchanged
    return found


def _as_they_are(found: Rows, said: Mapping[str, Any], name: str) -> Rows:
    """Rows, of which everything was said when they were made."""
    kind = getattr(found, "kind", "Rows object")
    for each, value in said.items():
        if value is not None:
            raise InputError(each, f"be left out where `{name}` is a {kind}, which brings its own")
    check_range = getattr(found, "check_range", None)  # of a sketch, which has no first pass
    if check_range is not None:
        check_range(name)
    return found


def in_pieces(logits: Any, labels: Any = None) -> bool:
    """Whether `open_rows` reads this piece by piece. It is an array otherwise, or rows already, or is refused."""
    if type(logits) is np.ndarray or is_rows(logits):  # the commonest cases, for which each check would count
        return False
    return _is_path(logits) or _is_stored(logits) or _yields_batches(logits, labels)


def _is_stream(logits: Any, labels: Any) -> bool:
    return in_pieces(logits, labels) and not _is_path(logits) and not _is_stored(logits)


def _pieces(
    logits: Any,
    labels: Any,
    sample_weight: Any,
    parts: Mapping[str, Any],
    meaning: ReadOptions,
    read_ahead: bool,
    progress: bool | None,
) -> Pieces[Any]:
    """Rows that are read piece by piece; ``parts`` are clusters and groups."""
    found = stored_scores(logits)
    if found is not None:
        kept = {name: load_if_npy(values) for name, values in parts.items()}
        return StoredRows(found, load_if_npy(labels), load_if_npy(sample_weight), meaning, **kept, progress=progress)
    check_input(meaning.input, meaning.floor)
    if parts["clusters"] is not None:
        raise InputError(
            "clusters",
            f"be left out where `{meaning.names[0]}` yields batches",
            remedy=f"{_AS_DICTIONARIES} Or add each batch to a Sketch, with `sketch.update(logits, labels, clusters=...)`.",
        )
    if parts["groups"] is not None:
        raise InputError(
            "groups",
            f"be left out where `{meaning.names[0]}` yields batches",
            remedy=_AS_DICTIONARIES,
        )
    for name, value in {meaning.names[1]: labels, "sample_weight": sample_weight}.items():
        if value is not None:
            raise InputError(name, f"be left out where `{meaning.names[0]}` yields batches, each of which is {WHAT_A_BATCH_IS}")
    return StreamRows(logits, meaning, progress=progress, read_ahead=read_ahead)


def stored_scores(logits: Any) -> Stored | None:
    """Scores that are read from outside the memory: a .npy file, a memory map, an array in chunks; None for others."""
    if not _is_stored(logits):
        return None
    if isinstance(logits, Stored):
        return logits
    if isinstance(logits, str | os.PathLike):
        return NpyFile(Path(logits))
    return Mapped(logits) if isinstance(logits, np.memmap) else Chunked(logits)


def _is_path(value: Any) -> bool:
    return isinstance(value, str | os.PathLike)


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
        if isinstance(first, Mapping):
            return "logits" in first
        return isinstance(first, tuple | list) and len(first) > 1 and arrays.is_array(first[0])
    return callable(value) or isinstance(value, Iterable)


def _refuse_samples(value: Any, labels: Any, name: str) -> None:
    """Refuse a data set of PyTorch, or anything else that gives one sample at a time and no labels apart."""
    by_number = hasattr(value, "__getitem__") and hasattr(value, "__len__") and not hasattr(value, "__iter__")
    if by_number and labels is None and not _is_array_like(value):
        raise InputError(
            name,
            "yield batches",
            got=f"a {type(value).__name__}, which gives one sample at a time",
            remedy="Pass a loader, such as `torch.utils.data.DataLoader(dataset, batch_size=1000)`.",
        )


def _is_array_like(value: Any) -> bool:
    """Whether ``value`` is an array, a data frame, or something else that NumPy can convert."""
    return arrays.is_array(value) or any(hasattr(value, name) for name in ("shape", "__array__", "__dlpack__", "__dataframe__"))


def _from_file(
    path: Path,
    labels: Any,
    sample_weight: Any,
    parts: Mapping[str, Any],
    meaning: ReadOptions,
    of_file: Mapping[str, Any],
    progress: bool | None,
) -> FileRows:
    """The rows of a file; ``parts`` are clusters and groups."""
    check_path(path)
    check_input(meaning.input, meaning.floor)
    said = dict(of_file)
    for name in ("columns", "ignore"):
        if not isinstance(said.get(name), str | None):
            said[name] = tuple(said[name])
    said |= {"input": meaning.input, "classes": meaning.classes, "ignore_index": meaning.labelling.ignore_index}
    said["label_argument"] = meaning.names[1]
    given = {"weights": sample_weight, **parts}
    if path.suffix.lower() == ".npy" and not path.is_dir():
        return open_npy(path, labels, Roles(**said), meaning, progress=progress, **given)
    for name, value in {meaning.names[1]: labels, "sample_weight": sample_weight, **parts}.items():
        if value is not None and not isinstance(value, str):
            raise InputError(name, f"be the name of an array or column of {path}", got=f"a {type(value).__name__}")
    return open_file(path, Roles(labels=labels or "labels", **given, **said), meaning, progress=progress)
