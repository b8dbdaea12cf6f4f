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

from nishimori._rows.labelling import Labelling
from nishimori._rows.labels import Classes
from nishimori._rows.pieces import Meaning
from nishimori._rows.rows import loaded
from nishimori._rows.rows import source as _source
from nishimori._rows.rows import stored as _stored
from nishimori._rows.scores import Input, check_input
from nishimori._rows.source import Source, is_source
from nishimori._rows.stored_rows import StoredSource
from nishimori._rows.stream_rows import Batches
from nishimori._rows.table_rows import Columns, TableSource
from nishimori.errors import InputError

__all__ = ["Source", "array", "batches", "table", "tokens"]


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
    ignore_index: int | None = None,
) -> Source:
    """Batches of a loader, or of a function that returns an iterable of batches each time it is called.

    Parameters
    ----------
    batches : iterable, or callable without arguments
        Each batch is a tuple ``(logits, labels)`` or ``(logits, labels, sample_weight)`` of arrays of any library. Logits may
        have the shape (sequences, tokens, vocabulary), with labels of that shape before the classes. Every reading must give
        the same rows, in any order, and the same logits up to rounding, so without augmentation or dropout. A generator can
        be read once: pass the function that makes it.
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
    ignore_index : int, optional
        Samples with this label do not count, such as tokens of padding with the label -100. Their logits may be anything.

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
    return Batches(
        batches, Meaning(input, classes, floor, labelling=Labelling(ignore_index)), progress=progress, read_ahead=read_ahead
    )


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
    ignore_index: int | None = None,
) -> Source:
    """An array outside the memory, with labels that are in it.

    Parameters
    ----------
    logits : path of a .npy file, numpy.memmap, or array in chunks
        Scores of shape (n_samples, n_classes), or (n_samples,) for a binary score, or (..., n_classes), where each position is
        a sample. An array in chunks has a shape, a dtype, chunks and slices, as those of Zarr and h5py have.
    labels, sample_weight, clusters, groups : array of shape (n_samples,), or path of a .npy file
        The true class of each sample, its weight, the cluster that it belongs to, for standard errors, and its group, for
        calibrators with a temperature per group. With more dimensions, of the shape of ``logits`` before the classes.
    input, classes, floor, progress, ignore_index
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
    meaning = Meaning(input, classes, floor, labelling=Labelling(ignore_index))
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
    ignore_index: int | None = None,
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
    input, classes, floor, progress, ignore_index
        As for `batches`.
    """
    check_input(input, floor)
    names = [columns] if isinstance(columns, str) else columns
    chosen = Columns(scores=names, labels=labels, weights=sample_weight, clusters=clusters, groups=groups)
    return TableSource(path, chosen, Meaning(input, classes, floor, labelling=Labelling(ignore_index)), progress=progress)


def tokens(
    logits: Any,
    labels: Any = None,
    *,
    ignore_index: int | None = -100,
    shift_labels: bool = False,
    sample_weight: Any = None,
    clusters: Any = None,
    groups: Any = None,
    input: Input = "logits",
    classes: Classes = None,
    floor: float | None = None,
    progress: bool | None = None,
) -> Source:
    """The tokens of a language model: one sample per position that has a label.

    Parameters
    ----------
    logits : array of shape (sequences, tokens, vocabulary), or batches
        In memory, on a device, or outside the memory as for `array`; or a loader, or a function that returns an iterable of
        batches, as for `batches`.
    labels : array of shape (sequences, tokens)
        The token that is right at each position. Leave it out for batches, which bring their own.
    ignore_index : int, optional
        Positions with this label do not count, such as padding and prompts. Their logits may be anything.
    shift_labels : bool
        Whether the label of a position is found at the next one. Causal models of Hugging Face are given ``labels`` that equal
        ``input_ids``, and shift them inside; pass True with such labels. The logits are not copied, and the last position of
        each sequence has no label.
    sample_weight, clusters, groups : array of shape (sequences, tokens), or (sequences,), optional
        The weight of each position, the cluster that it belongs to, for standard errors, and its group, for calibrators with a
        temperature per group. One entry per sequence stands for all of its positions. Pass the document of each sequence as
        ``clusters``: tokens of a document are not independent. Batches can bring weights only.
    input, classes, floor, progress
        As for `batches`.

    Examples
    --------
    >>> import numpy as np
    >>> import nishimori
    >>> from nishimori import sources
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(40, 51, 20))  # 40 sequences of 51 tokens
    >>> drawn = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=-1)  # next tokens, drawn at T = 2
    >>> input_ids = np.concatenate([np.zeros((40, 1), dtype=int), drawn[:, :-1]], axis=1)
    >>> labels = np.where(np.arange(51) < 10, -100, input_ids)  # a prompt of 10 tokens
    >>> data = sources.tokens(logits, labels, shift_labels=True, clusters=np.arange(40))
    >>> found = nishimori.temperatures(data)
    >>> print(f"{found.n_samples} tokens, T = {found.ec:.2f} ± {found.ec_se:.2f}")
    1640 tokens, T = 1.96 ± 0.07
    """
    if is_source(logits):
        raise InputError("`logits` must be an array or batches, got a source, which has its labels. Pass the source as it is.")
    meaning: dict[str, Any] = {"input": input, "classes": classes, "floor": floor, "progress": progress}
    labelling: dict[str, Any] = {"ignore_index": ignore_index, "shift_labels": shift_labels}
    return _source(logits, labels, sample_weight, clusters=clusters, groups=groups, **meaning, **labelling)
