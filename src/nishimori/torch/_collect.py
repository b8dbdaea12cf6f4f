"""What is kept of a loader: all logits for `collect`; for a fit up to a limit and, beyond it, sums of fixed size or nothing.

A loader that shuffles or augments gives other data when it is read again. So it is read once, and logits and labels are kept:
on the CPU, to leave the memory of the device free, and in their own dtype.

Most loaders of images fit in memory, and then every method can be fitted to their logits as often as it needs. Those of a
language model do not: 3,300 tokens of a vocabulary of 151,936 take a gigabyte in bfloat16. The rows of such a loader are added
to a `Sketch` as they come, on the device of the network, and are forgotten.
"""

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from nishimori._rows.array_rows import Guard
from nishimori._rows.entry import open_rows
from nishimori._rows.labels import Labelling
from nishimori._rows.rows import Rows
from nishimori._rows.scores import scores, warn_of_probabilities
from nishimori._sketch.sketch import Sketch
from nishimori._sketch.stream import Stream
from nishimori._sums.observables import BUILT_IN, Observable
from nishimori._support.arrays import HostArray
from nishimori._support.numbers import between
from nishimori._support.progress import Report, show_progress
from nishimori.errors import InputError
from nishimori.torch._batch_rows import BatchRows, join_names
from nishimori.torch._batches import IGNORED, LABELS, Forward, Rule
from nishimori.torch._loader import AS_LOGITS, NO_SOFTMAX, READING, WITHOUT_SOFTMAX, LoaderReading, LoaderRows

if TYPE_CHECKING:
    from nishimori import Calibrator

KEEP_UP_TO = 10**9
"""Bytes of logits that are kept by default: less than a laptop has free, and 250,000 samples of 1,000 classes in float32."""

# The sums of very many classes change so fast with T that a sketch needs a finer grid. With a smaller range, it has no more
# temperatures than the usual grid. T outside 0.25 to 4 is refused, and the error says what to do.
_MANY_CLASSES = 4096
_FINE_GRID: dict[str, Any] = {"temperatures": (0.25, 4.0), "nodes_per_octave": 8}

INSTEAD = (
    "Pass `reread=True` to run the network again whenever rows are needed, or a larger `keep_up_to`, in bytes, if the logits "
    "fit in memory."
)
"""What the user can do where sums are not enough."""


class Collected(NamedTuple("Collected", [("logits", Tensor), ("labels", Tensor)])):
    """Logits and labels of all samples of a loader, one row per sample or token, on the CPU.

    It is a tuple of these two: ``logits, labels = collect(...)``. The others are attributes only.

    Attributes
    ----------
    logits, labels : Tensor
        Of the rows that count, in the order of the loader.
    clusters : array or None
        The cluster of each row, if they were asked for: ``nishimori.temperatures(*collected, clusters=collected.clusters)``.
    groups : array or None
        The group of each row, if ``forward`` returned them.
    """

    clusters: HostArray | None = None
    groups: HostArray | None = None


def collect(
    model: nn.Module,
    loader: Iterable[Any] | tuple[Any, ...],
    *,
    forward: Forward | None = None,
    labels: str = LABELS,
    clusters: str | None = None,
    ignore_index: int | None = IGNORED,
    shift_labels: bool = False,
    class_axis: int = -1,
    device: torch.device | str | None = None,
    progress: bool | None = None,
) -> Collected:
    """The logits of a network on all samples of a loader, and their labels.

    The loader is read once. The network runs in eval mode and without gradients, under the caller's autocast if there is one;
    afterwards every module has its previous mode.

    Parameters
    ----------
    model : torch.nn.Module
        Returns logits of shape (n, n_classes), or (n,) or (n, 1) for a binary score; or an object with ``.logits``; or a dict
        with "logits". With more dimensions, as in (sequences, tokens, vocabulary), each position is a sample. For classes in
        another dimension than the last, pass ``class_axis``.
    loader : iterable of batches, or a tuple of tensors
        Batches are tuples of the model's positional arguments and, last, the labels; or mappings of the model's keyword
        arguments and, with the key ``labels``, the labels. A tuple of tensors ``(X, y)`` holds all samples, which are read in
        batches of 256; a list is always a sequence of batches.
    forward : callable, optional
        ``forward(model, batch)`` returns logits and labels, for models and batches of any other kind: a tuple, or a dict with
        the keys "logits", "labels" and, if there are any, "clusters" and "groups". The batch has been moved to the device.
    labels, clusters : str
        The keys of the labels and, if wanted, of the clusters where batches are mappings. Clusters say which samples belong
        together, such as the number of the document of each token or sequence. The model gets neither.
    ignore_index : int or None
        Samples with this label are dropped, such as tokens of padding. Their logits may be anything. None keeps all.
    shift_labels : bool
        Whether the label of each position is found at the next one, as where the labels of a causal language model are its own
        inputs. The last position of a sequence has none then. Hugging Face's models shift labels in the same way.
    class_axis : int
        Which dimension of the logits is that of the classes, such as 1 for segmentation, (n, classes, height, width). The
        labels have the other dimensions.
    device : torch.device or str, optional
        Where to run; the model is moved there. By default batches are moved to the device of the model's weights.
    progress : bool, optional
        None shows a bar if standard error is a terminal; True also writes a line where it is not; False shows nothing.

    Returns
    -------
    Collected
        A named tuple of ``logits`` and ``labels``, on the CPU and in their own dtypes. ``clusters`` is an attribute.

    Examples
    --------
    >>> import torch
    >>> from nishimori.torch import collect
    >>> x, y = torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
    >>> logits, labels = collect(torch.nn.Linear(4, 3), torch.utils.data.DataLoader(list(zip(x, y)), batch_size=4))
    >>> logits.shape, labels
    (torch.Size([6, 3]), tensor([0, 1, 2, 0, 1, 2]))
    """
    rule = Rule(labels, forward, False, clusters, Labelling(ignore_index, shift_labels), class_axis)
    reading = LoaderReading(model, loader, rule, device)
    with show_progress(progress) as report, closing(reading.rows()) as batches:
        parts, _ = keep_rows(batches, reading.n_batches, report)
    collected = join_rows(parts)
    warn_of_probabilities(scores(collected.logits), WITHOUT_SOFTMAX, of_sigmoids=True)
    return collected


class Summed(NamedTuple):
    """The sketch of rows that were not kept, and the names of their clusters, if there are any."""

    sketch: Sketch
    clusters: list[Any] | None


class FitData(NamedTuple):
    """What a method is fitted to: rows or, if they were not kept, their sketch."""

    rows: Rows | None = None
    sketch: Sketch | None = None


def keep_rows(
    batches: Iterable[BatchRows], n_batches: int | None, report: Report, keep_up_to: float = inf
) -> tuple[list[BatchRows], BatchRows | None]:
    """Check rows and copy them to the CPU, and return them with the first batch that would exceed ``keep_up_to`` bytes."""
    parts: list[BatchRows] = []
    n_bytes = 0
    report(READING, 0, n_batches)
    for rows in batches:
        n_bytes += rows.n_bytes
        if n_bytes > keep_up_to:
            return parts, rows
        rows.check()
        parts.append(rows.copy_to_cpu())
        report(READING, rows.number + 1, n_batches)
    return parts, None


def join_rows(parts: list[BatchRows]) -> Collected:
    """All rows in one piece. ``parts`` is emptied meanwhile, so that the logits are not in memory twice."""
    labels = torch.cat([torch.from_numpy(part.labels) for part in parts])
    groups = join_names([part.groups for part in parts if part.groups is not None])
    clusters = join_names([part.clusters for part in parts if part.clusters is not None])
    dtype = reduce(torch.promote_types, (part.scores.array.dtype for part in parts))
    logits = torch.empty(len(labels), *parts[0].scores.array.shape[1:], dtype=dtype, device="cpu")  # the default may differ
    end = len(labels)
    while parts:
        part = parts.pop().scores.array
        logits[end - len(part) : end] = part
        end -= len(part)
    collected = Collected(logits, labels)
    collected.clusters, collected.groups = clusters, groups
    return collected


def rows_of(kept: Collected, clusters: HostArray | None, guard: Guard) -> Rows:
    """What was kept as `Rows`; ``clusters`` are the names of their clusters, if any; ``guard`` is for `open_rows`."""
    return open_rows(
        kept.logits,
        kept.labels,
        clusters=clusters,
        groups=kept.groups,
        input=None if guard else "logits",
        guard=guard,
        probability_remedy=NO_SOFTMAX,
        logits_setting=AS_LOGITS,
    )


@dataclass(frozen=True)
class Memory:
    """How much of a loader may be kept, in bytes of logits, and whether it may be read again where that is not enough."""

    keep_up_to: float = KEEP_UP_TO
    reread: bool = False

    def __post_init__(self) -> None:
        between("keep_up_to", self.keep_up_to, 0, inf)

    def data(self, reading: LoaderReading, chosen: "Calibrator", progress: bool | None) -> "FitData":
        """What ``chosen`` can be fitted to: the rows, a sketch of them, or rows that read the loader again."""
        guard = guard_for(chosen)
        content = self.read(reading, chosen, progress, guard)
        if isinstance(content, Summed):
            return FitData(sketch=content.sketch)
        return FitData(rows_of(content, content.clusters, guard) if isinstance(content, Collected) else content)

    def read(
        self, reading: LoaderReading, chosen: "Calibrator", progress: bool | None, guard: Guard
    ) -> Collected | Summed | LoaderRows:
        """The logits kept from a loader, a sketch of them, or rows that read it again, with the names of clusters."""
        with show_progress(progress) as report, closing(reading.rows()) as batches:
            parts, beyond = keep_rows(batches, reading.n_batches, report, self.keep_up_to)
            if beyond is None:
                return join_rows(parts)
            n_classes = beyond.scores.n_classes
            if not self.reread:
                self._refuse(chosen, beyond.number)
                parts.append(beyond)
                del beyond  # or its logits would be in memory during all passes
                grid = _FINE_GRID if n_classes >= _MANY_CLASSES else {}
                sketch = Sketch(_observables(chosen, n_classes), input=chosen.input, **grid)
                return _sketch_rows(sketch, parts, batches, reading.n_batches, report)
        has_names = beyond.groups is not None or beyond.clusters is not None
        del beyond
        parts.clear()
        return LoaderRows(reading, n_classes, has_names=has_names, progress=progress, guard=guard)

    def _refuse(self, chosen: "Calibrator", number: int) -> None:
        """Refuse a method for which sums are not enough."""
        if chosen.traits is None or not chosen.traits.from_sketch:
            raise InputError(
                "method",
                (
                    "be one that can be fitted to sums, such as 'adaptive', 'ec' or 'ts', where logits take more than "
                    f"`keep_up_to` = {self.keep_up_to:,.0f} bytes, as they do from batch {number} on"
                ),
                got=f"{chosen.method_name!r}, which needs all rows",
                remedy=INSTEAD,
            )


def _observables(chosen: "Calibrator", n_classes: int) -> list[Observable]:
    """What the sketch must hold: the conditions of EC and TS, and that of the method itself, if it is another one."""
    from nishimori._calibrators.one_temperature import OneTemperature  # noqa: PLC0415 - imports scikit-learn

    built_in = list(BUILT_IN.values())
    own = chosen._observable(n_classes) if isinstance(chosen, OneTemperature) else None
    return built_in if own is None or own in built_in else [*built_in, own]


def guard_for(chosen: "Calibrator") -> Guard:
    """What happens to outputs that look like probabilities: nothing if the method says that they are logits."""
    return "refuse" if chosen.input is None else None


def _sketch_rows(
    sketch: Sketch, parts: list[BatchRows], others: Iterable[BatchRows], n_batches: int | None, report: Report
) -> Summed:
    """The sums of the rows that were kept so far, which are forgotten, and of all others."""
    stream = Stream(sketch, remedy=f"Do not shuffle the loader. {INSTEAD}")
    for rows in chain(_pop_all(parts), others):
        with rows.naming_batch():
            stream.add(rows.rows(), rows.clusters)
        report("Reading batches into a sketch", rows.number + 1, n_batches)
        del rows  # or its logits would be in memory while the network computes those of the next batch
    stream.close()
    return Summed(stream.sketch, stream.clusters)


def _pop_all(parts: list[BatchRows]) -> Iterator[BatchRows]:
    """Pop the parts of a list one after the other, the first one first."""
    while parts:
        yield parts.pop(0)
