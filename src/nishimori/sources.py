"""Data that is not one array in memory: batches, arrays on disk, tables. Everything that takes logits takes these.

Most need no name from here. `nishimori.temperatures`, `nishimori.evaluate`, `fit` and the metrics take

- a loader of batches, or a function without arguments that returns an iterable of batches: ``temperatures(loader)``,
- the path of a .npy file, a `numpy.memmap`, an array of Zarr or h5py: ``temperatures("logits.npy", labels)``,
- the path of a table or of a folder of Parquet files: ``temperatures("validation.parquet", "label")``.

The functions below are for those that need to be told more, or are read by several functions. All of them are read a few
megabytes at a time, again for each reading, so that they may be larger than the memory.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from nishimori._labels import Classes
from nishimori._scores import Input, check_input
from nishimori._sources import Batches, Columns, Meaning, Source, StoredSource, TableSource, loaded
from nishimori._sources import stored as _stored
from nishimori.errors import InputError

__all__ = ["Source", "array", "batches", "table"]


def __dir__() -> list[str]:
    return sorted(__all__)


def batches(
    batches: Iterable[Any] | Callable[[], Iterable[Any]],
    *,
    input: Input = "logits",
    classes: Classes = None,
    floor: float | None = None,
    read_ahead: bool = False,
    progress: bool | None = None,
) -> Source:
    """Batches of a loader, or of a function that returns an iterable of batches each time it is called.

    Parameters
    ----------
    batches : iterable, or callable without arguments
        Each batch is a tuple ``(logits, labels)`` or ``(logits, labels, sample_weight)`` of arrays of any library. Every
        reading must give the same rows, in any order. A generator can be read once: pass the function that makes it.
    input : {"logits", "probabilities"}
        What the first entry of a batch holds.
    classes : sequence, optional
        The label of each column in order; by default labels are the column numbers 0, 1, ...
    floor : float, optional
        Smaller probabilities are raised to this.
    read_ahead : bool
        Ask for the next batch in a thread while the one before is worked on. By default batches are made in the thread of the
        caller, because much cannot move to another one: database connections, PyTorch's modes, CUDA streams.
    progress : bool, optional
        None shows a bar if standard error is a terminal; True also writes a line where it is not; False shows nothing.

    Examples
    --------
    >>> import numpy as np
    >>> import nishimori
    >>> from nishimori import sources
    >>> def drawn():
    ...     rng = np.random.default_rng(0)
    ...     for _ in range(10):
    ...         logits = 3 * rng.normal(size=(200, 5))
    ...         yield logits, (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    >>> found = nishimori.temperatures(sources.batches(drawn))
    >>> found.n_samples, bool(1.8 < found.ec < 2.2)
    (2000, True)
    """
    check_input(input, floor)
    return Batches(batches, Meaning(input, classes, floor), progress=progress, read_ahead=read_ahead)


def array(
    logits: Any,
    labels: Any,
    *,
    sample_weight: Any = None,
    clusters: Any = None,
    groups: Any = None,
    input: Input = "logits",
    classes: Classes = None,
    floor: float | None = None,
    progress: bool | None = None,
) -> Source:
    """An array outside the memory, with labels that are in it.

    Parameters
    ----------
    logits : path of a .npy file, numpy.memmap, or array in chunks
        Scores of shape (n_samples, n_classes), or (n_samples,) for a binary score. An array in chunks has a shape, a dtype,
        chunks and slices, as those of Zarr and h5py have.
    labels, sample_weight, clusters, groups : array of shape (n_samples,), or path of a .npy file
        The true class of each sample, its weight, the cluster that it belongs to, for standard errors, and its group, for
        calibrators with a temperature per group.
    input, classes, floor, progress
        As for `batches`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import nishimori
    >>> from nishimori import sources
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "logits.npy"
    ...     np.save(path, [[2.0, 0.0], [0.0, 2.0]])
    ...     card = nishimori.evaluate(sources.array(path, labels=[0, 0]))
    >>> card.accuracy
    0.5
    """
    check_input(input, floor)
    found = _stored(logits)
    if found is None:
        raise InputError(
            f"`logits` must be the path of a .npy file, a numpy.memmap or an array in chunks, got a {type(logits).__name__}. "
            "Pass an array in memory as it is to the function that reads it."
        )
    meaning = Meaning(input, classes, floor)
    parts = {"clusters": loaded(clusters), "groups": loaded(groups)}
    return StoredSource(found, loaded(labels), loaded(sample_weight), meaning, **parts, progress=progress)


def table(
    path: str | os.PathLike[str],
    *,
    labels: str = "labels",
    sample_weight: str | None = None,
    clusters: str | None = None,
    groups: str | None = None,
    columns: Sequence[str] | None = None,
    input: Input = "logits",
    classes: Classes = None,
    floor: float | None = None,
    progress: bool | None = None,
) -> Source:
    """A table in a file (.parquet .feather .csv .tsv .jsonl), or all Parquet files of a folder in the order of their names.

    Parameters
    ----------
    path : path
        The file or the folder.
    labels, sample_weight, clusters, groups : str
        The names of the columns of labels, of weights, of clusters, for standard errors, and of groups, for calibrators with a
        temperature per group.
    columns : sequence of str, optional
        The columns of scores in the order of the classes, one per class or one of lists; patterns such as ``"z_*"`` are
        allowed. By default a column of lists called as ``input``, or all others if their names leave no doubt, as z_0, z_1, ...
        do.
    input, classes, floor, progress
        As for `batches`.
    """
    check_input(input, floor)
    names = [columns] if isinstance(columns, str) else columns
    chosen = Columns(names, labels, sample_weight, clusters, groups)
    return TableSource(path, chosen, Meaning(input, classes, floor), progress=progress)
