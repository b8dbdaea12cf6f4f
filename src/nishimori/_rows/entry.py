"""The single entry point: turn a user's data into `Rows`. Kinds of data are told apart by type, never by their values.

An array is what is in memory, or on a device. A memory map and an array in chunks are read a few megabytes at a time, again for
each pass. So are the batches of a loader, and of a function that returns them. Files, arrays of Dask and top-k lists are opened
by annexes, which `ANNEXES` names: none of them is imported before it is needed.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, Unpack

import numpy as np

from nishimori._rows.array_rows import ArrayRows, Guard, ReadOptions
from nishimori._rows.column_names import column_names, refuse_permuted
from nishimori._rows.device_rows import DeviceRows, can_stay_on_device
from nishimori._rows.labels import Classes, Labelling, class_indices, refuse_name
from nishimori._rows.options import RowOptions, takes_rows
from nishimori._rows.rows import Rows, is_rows, raise_to_floor, with_all_attributes, with_counts
from nishimori._rows.scores import Floor, Input, check_input, is_auto, refuse_auto
from nishimori._rows.stored_rows import Chunked, Mapped, Stored, StoredRows
from nishimori._rows.stream_rows import WHAT_A_BATCH_IS, StreamRows
from nishimori._support import arrays
from nishimori._support.optional import import_object
from nishimori.errors import InputError

Kind = Literal["rows", "array", "stored", "batches", "file", "Dask", "TopK", "collected"]
"""What users may pass as data."""

ANNEXES: Mapping[Kind, str] = {
    "file": "nishimori._files.file_rows:open_path",
    "Dask": "nishimori._dask.rows:open_dask",
    "TopK": "nishimori._top_k.rows:open_top_k",
}
"""Opens a kind of data that this module does not open: a function from what was `Passed` to `Rows`."""

_NPY_SCORES, _LOAD_NPY = "nishimori._files.file_rows:npy_scores", "nishimori._files.file_rows:load_npy"

_AS_DICTIONARIES = "Yield dictionaries with the keys logits, labels, clusters and groups instead."


_MEMBERS_IN_MEMORY = (
    "Pass the array itself, a memory map of it, as `numpy.load(path, mmap_mode='r')` gives, or a function that yields batches "
    "of it: `(logits[:, i:j], labels[i:j])`."
)


class Passed(NamedTuple):
    """What the user passed in place of rows; ``of_file`` has the arguments that only files take."""

    logits: Any
    labels: Any
    sample_weight: Any
    clusters: Any
    groups: Any
    meaning: ReadOptions
    of_file: Mapping[str, Any]
    read_ahead: bool
    progress: bool | None


@takes_rows()
def rows(
    logits: Any,
    labels: Any = None,
    *,
    columns: str | Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    delimiter: str | None = None,
    decimal: str = ".",
    max_rows: int | None = None,
    read_ahead: bool = False,
    progress: bool | None = None,
    **options: Unpack[RowOptions],
) -> Rows:
    """Data together with all their options, which every function takes in place of logits and labels.

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
        the last three may be missing. Or what `nishimori.torch.collect` returns, which has all of these.
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
    max_rows : int, optional
        For a table: refuse more rows. By default a file of more than ten million rows is refused if it has more than 20 for
        each of its bytes, because a few bytes can claim to be any number of rows.
    read_ahead : bool
        For batches: ask for the next one in a thread while the one before is worked on. By default batches are made in the
        thread of the caller, because much cannot move to another one: database connections, PyTorch's modes, CUDA streams.
    progress : bool, optional
        None shows a bar if standard error is a terminal; True also writes a line where it is not; False shows nothing.
    **options
        What is said about the data: ``sample_weight``, ``counts``, ``clusters``, ``groups``, ``input``,
        ``classes``, ``floor``, ``ignore_index``, ``shift_labels``, ``class_axis``, ``member_axis``.

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
    file_options = {"columns": columns, "ignore": ignore, "delimiter": delimiter, "decimal": decimal, "max_rows": max_rows}
    of_file = {
        name: value
        for name, value in file_options.items()
        if not (value is None or (isinstance(value, str | tuple) and value in ((), ".")))
    }
    return open_rows(logits, labels, of_file=of_file, read_ahead=read_ahead, progress=progress, **options)


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
    member_axis: int | None = None,
    of_file: Mapping[str, Any] | None = None,
    read_ahead: bool = False,
    progress: bool | None = None,
    names: tuple[str, str] = ("logits", "labels"),
    guard: Guard = "refuse",
    probability_remedy: str = "",
    logits_setting: str = "",
    choose_floor: Callable[[Rows, str], float | None] | None = None,
) -> Rows:
    """Open what the user passed as `Rows`; `Rows` are returned as they are.

    ``of_file`` is what is said of a file besides: the fields of `Roles` that no other argument gives. ``names`` are what the
    caller's signature calls the first two arguments. ``guard``, ``probability_remedy`` and ``logits_setting`` say what happens
    if scores of which ``input`` says nothing look like probabilities, see `ReadOptions`. ``choose_floor`` is the rule behind
    ``floor="auto"``, which those have who fit something. All else is as for `rows`.
    """
    of_file = of_file or {}
    named = None if clusters is False else clusters
    if choose_floor is None:
        refuse_auto(floor)
    meaning = ReadOptions(
        input="logits" if input is None else input,
        guard=guard if input is None else None,
        classes=classes,
        floor=None if is_auto(floor) else floor,  # type: ignore[arg-type]  # a number or None by now
        names=names,
        probability_remedy=probability_remedy,
        logits_setting=logits_setting,
        labelling=Labelling(ignore_index, shift_labels),
        class_axis=class_axis,
        by_image=clusters is None and class_axis != -1,
        member_axis=member_axis,
    )
    passed = Passed(logits, labels, sample_weight, named, groups, meaning, of_file, read_ahead, progress)
    kind = kind_of(logits, labels)
    if kind == "collected":
        passed, kind = _with_own_parts(passed, independent=clusters is False), "array"
        logits, labels, sample_weight, named, groups = passed[:5]
    if member_axis is not None and kind == "stored" and isinstance(logits, np.memmap):
        kind = "array"  # of which a block at a time is pooled
    _refuse_misplaced(passed, kind)
    if kind == "rows":
        # The dimension of the classes comes first: functions without standard errors pass ``clusters=False`` beside it.
        per_row = {"class_axis": None if class_axis == -1 else class_axis}
        per_row |= {names[1]: labels, "sample_weight": sample_weight, "clusters": clusters, "groups": groups}
        others = {"classes": classes, "floor": meaning.floor, "ignore_index": ignore_index, **of_file}
        others["input"] = None if isinstance(input, str) and input == "logits" else input
        others["member_axis"] = member_axis
        others |= {"shift_labels": shift_labels or None, "read_ahead": read_ahead or None}
        data = _as_they_are(logits, per_row | others, names[0])
    elif kind == "array":
        refuse_name(groups, "group")
        table = meaning.scores(logits)
        labels, weights, together, grouped = meaning.parts(table, labels, sample_weight, named, groups)
        if arrays.is_on_cuda(table.array) and can_stay_on_device(table):
            data = DeviceRows(table, labels, weights, classes, names[1], together, grouped)
        else:
            columns = class_indices(labels, classes, table, names[1], weights)
            data = ArrayRows(table, columns, weights, clusters=together, groups=grouped)
        data.score_range = meaning.range_of(table, weights)
        meaning.check_range(data.score_range)  # after the labels, whose errors tell if the two arguments were exchanged
        data.scores = replace(data.scores, unpooled=())  # which may be large
    elif kind == "stored":
        data = _open_stored(passed)
    elif kind == "batches":
        data = _open_batches(passed)
    else:
        data = import_object(ANNEXES[kind])(passed)
    if counts and not data.counts:
        data = with_counts(data)
    if choose_floor is not None and is_auto(floor) and data.input != "logits" and data.floor is None:
        chosen = choose_floor(data, names[0])
        return data if chosen is None else raise_to_floor(data, chosen, names[0])
    return data


def kind_of(logits: Any, labels: Any = None) -> Kind:
    """The kind of ``logits``; anything that is no other kind counts as an array."""
    if type(logits) is np.ndarray:  # the commonest case, for which each check would count
        return "array"
    if is_rows(logits):
        return "rows"
    name: Kind | None = getattr(type(logits), "kind", None)
    if isinstance(name, str) and (name in ANNEXES or name == "collected"):  # a class of its own for what people pass
        return name
    if arrays.is_lazy(logits):
        return "Dask"
    if isinstance(logits, str | os.PathLike):
        return "file"
    is_stored = isinstance(logits, Stored | np.memmap) or _is_chunked(logits)
    return "stored" if is_stored else "batches" if _yields_batches(logits, labels) else "array"


def _with_own_parts(passed: Passed, *, independent: bool) -> Passed:
    """Put what `nishimori.torch.collect` returns in the places of arrays: it has all parts as attributes.

    What it has cannot be passed a second time, but its clusters are left out where rows are ``independent``.
    """
    collected, name = passed.logits, passed.meaning.names[1]
    parts = {"labels": name, "sample_weight": "sample_weight", "clusters": "clusters", "groups": "groups"}
    own = {part: getattr(collected, part) for part in parts if getattr(collected, part) is not None}
    for part in own:
        if getattr(passed, part) is not None:
            must = f"be left out where `{passed.meaning.names[0]}` is a {type(collected).__name__}, which has its own"
            raise InputError(parts[part], must, remedy="To use others, pass its `logits` and `labels` separately.")
    if independent:
        own.pop("clusters", None)
    return passed._replace(logits=collected.logits, **own)


def _refuse_misplaced(passed: Passed, kind: Kind) -> None:
    """Refuse options for other kinds of data, columns in another order than the classes, and data that give single samples."""
    if kind == "rows":
        return  # of which nothing may be said at all
    logits, (name, _) = passed.logits, passed.meaning.names
    misplaced = next(iter(passed.of_file), None) if kind != "file" else None
    if misplaced is not None or (passed.read_ahead and kind != "batches"):
        wanted = "files" if misplaced else "batches"
        must = f"be left out where `{name}` is a {type(logits).__name__}: it is for {wanted}"
        raise InputError(misplaced or "read_ahead", must)
    if passed.meaning.member_axis is not None and kind not in ("array", "batches"):
        got = f"{passed.meaning.member_axis!r} for {'a file' if kind == 'file' else f'a {type(logits).__name__}'}"
        raise InputError("member_axis", "be left out except for arrays and batches", got=got, remedy=_MEMBERS_IN_MEMORY)
    if hasattr(logits, "columns"):  # of a data frame
        refuse_permuted(column_names(logits, name), passed.meaning.classes)
    by_number = hasattr(logits, "__getitem__") and hasattr(logits, "__len__") and not hasattr(logits, "__iter__")
    if by_number and kind == "array" and passed.labels is None and not _is_array_like(logits):  # as data sets of PyTorch are
        got = f"a {type(logits).__name__}, which gives one sample at a time"
        remedy = "Pass a loader, such as `torch.utils.data.DataLoader(dataset, batch_size=1000)`."
        raise InputError(name, "yield batches", got=got, remedy=remedy)


def _open_stored(passed: Passed) -> Rows:
    """Open scores that are stored outside memory and read a few at a time."""
    if passed.meaning.class_axis != -1:
        must = f"be -1 where `{passed.meaning.names[0]}` is a {type(passed.logits).__name__}"
        raise InputError("class_axis", must, remedy="Put the classes last.")
    parts = {part: load_array(getattr(passed, part)) for part in ("labels", "sample_weight", "clusters", "groups")}
    scores = stored_scores(passed.logits)
    assert scores is not None, "so its kind says"
    return StoredRows(scores, meaning=passed.meaning, progress=passed.progress, **parts)


def _open_batches(passed: Passed) -> Rows:
    """Open batches, which contain labels, weights, clusters and groups; refuse these as separate arguments."""
    meaning = passed.meaning
    check_input(meaning.input, meaning.floor)
    batches = f"where `{meaning.names[0]}` yields batches"
    parts = {meaning.names[1]: passed.labels, "sample_weight": passed.sample_weight}
    for name, value in (parts | {"clusters": passed.clusters, "groups": passed.groups}).items():
        if value is not None:
            must = f"be left out {batches}, each of which is {WHAT_A_BATCH_IS}" if name in parts else f"be left out {batches}"
            remedy = "" if name in parts else _AS_DICTIONARIES
            if name == "clusters":
                remedy += " Or add each batch to a Sketch, with `sketch.update(logits, labels, clusters=...)`."
            raise InputError(name, must, remedy=remedy)
    return StreamRows(passed.logits, meaning, progress=passed.progress, read_ahead=passed.read_ahead)


def _as_they_are(data: Rows, options: Mapping[str, Any], name: str) -> Rows:
    """Refuse options for rows that exist already: options are passed when rows are made."""
    kind = getattr(data, "kind", "Rows object")
    for argument, value in options.items():
        if value is not None:
            raise InputError(argument, f"be left out where `{name}` is a {kind}", remedy=f"Pass it when you make the {kind}.")
    opened: Rows = with_all_attributes(data)
    opened.check_range(name)
    return opened


def stored_scores(logits: Any) -> Stored | None:
    """Scores that are stored outside memory: a .npy file, a memory map, an array in chunks; None for others."""
    if isinstance(logits, Stored):
        return logits
    if _is_npy(logits):
        stored: Stored = import_object(_NPY_SCORES)(Path(logits))
        return stored
    if isinstance(logits, np.memmap):
        return Mapped(logits)
    return Chunked(logits) if _is_chunked(logits) else None


def load_array(values: Any) -> Any:
    """Load labels, weights, clusters or groups from their .npy file, if that is what was passed."""
    return import_object(_LOAD_NPY)(Path(values)) if _is_npy(values) else values


def _is_npy(value: Any) -> bool:
    return isinstance(value, str | os.PathLike) and Path(value).suffix.lower() == ".npy"


def _is_chunked(value: Any) -> bool:
    """Whether this is an array in chunks, such as one of Zarr or h5py."""
    in_chunks = all(hasattr(value, name) for name in ("shape", "dtype", "chunks", "__getitem__"))
    # Arrays of Dask and xarray have a tuple of chunks per axis.
    return in_chunks and not arrays.is_array(value) and all(isinstance(size, int) for size in value.chunks or ())


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


def _is_array_like(value: Any) -> bool:
    """Whether ``value`` is an array, a data frame, or something else that NumPy can convert."""
    return arrays.is_array(value) or any(hasattr(value, name) for name in ("shape", "__array__", "__dlpack__", "__dataframe__"))
