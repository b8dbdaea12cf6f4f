"""What is kept of a loader to fit to: all logits up to a limit and, beyond it, sums of fixed size or nothing at all.

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
from torch import Tensor

from nishimori._rows.array_rows import Guard
from nishimori._rows.entry import open_rows
from nishimori._rows.rows import Rows
from nishimori._sketch.sketch import Sketch
from nishimori._sketch.stream import Stream
from nishimori._sums.observables import BUILT_IN, Observable
from nishimori._support.arrays import HostArray
from nishimori._support.numbers import between
from nishimori._support.progress import Report, show_progress
from nishimori.errors import InputError
from nishimori.torch._batch_rows import BatchRows, join_names
from nishimori.torch._loader import AS_LOGITS, NO_SOFTMAX, READING, LoaderReading, LoaderRows

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


class KeptLogits(NamedTuple):
    """Logits and labels of all rows and, if there are any, the group and the cluster of each, on the CPU."""

    logits: Tensor
    labels: Tensor
    groups: HostArray | None
    clusters: HostArray | None

    def rows(self, clusters: HostArray | None, guard: Guard) -> Rows:
        """What was kept as `Rows`; ``clusters`` are the names of their clusters, if any; ``guard`` is for `open_rows`."""
        return open_rows(
            self.logits,
            self.labels,
            clusters=clusters,
            groups=self.groups,
            input=None if guard else "logits",
            guard=guard,
            probability_remedy=NO_SOFTMAX,
            logits_setting=AS_LOGITS,
        )


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


def join_rows(parts: list[BatchRows]) -> KeptLogits:
    """All rows in one piece. ``parts`` is emptied meanwhile, so that the logits are not in memory twice."""
    labels = [torch.from_numpy(part.labels) for part in parts]
    groups = [part.groups for part in parts if part.groups is not None]
    clusters = [part.clusters for part in parts if part.clusters is not None]
    logits = _joined_logits(parts)
    return KeptLogits(logits, torch.cat(labels), join_names(groups), join_names(clusters))


def _joined_logits(parts: list[BatchRows]) -> Tensor:
    dtype = reduce(torch.promote_types, (part.scores.array.dtype for part in parts))
    n_rows, columns = sum(part.scores.n_samples for part in parts), parts[0].scores.array.shape[1:]
    whole = torch.empty(n_rows, *columns, dtype=dtype, device="cpu")  # the default may differ
    end = len(whole)
    while parts:
        part = parts.pop().scores.array
        whole[end - len(part) : end] = part
        end -= len(part)
    return whole


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
        return FitData(content.rows(content.clusters, guard) if isinstance(content, KeptLogits) else content)

    def read(
        self, reading: LoaderReading, chosen: "Calibrator", progress: bool | None, guard: Guard
    ) -> KeptLogits | Summed | LoaderRows:
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
