"""Rows of all batches of a loader in one piece, in memory."""

from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nishimori._rows.entry import open_rows
from nishimori._rows.options import Guard
from nishimori._rows.rows import Rows
from nishimori._sums.sketch.sketch import Sketch
from nishimori._support.arrays import HostArray
from nishimori.torch._batch_rows import BatchRows
from nishimori.torch._reading import AS_LOGITS, NO_SOFTMAX


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


def join_rows(parts: list[BatchRows]) -> KeptLogits:
    """All rows in one piece. ``parts`` is emptied meanwhile, so that the logits are not in memory twice."""
    labels = [torch.from_numpy(part.labels) for part in parts]
    groups = [part.groups for part in parts if part.groups is not None]
    clusters = [part.clusters for part in parts if part.clusters is not None]
    logits = _joined_logits(parts)
    return KeptLogits(logits, torch.cat(labels), together(groups), together(clusters))


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


def together(parts: list[HostArray]) -> HostArray | None:
    """The groups or clusters of all batches; NumPy would turn numbers into text beside text."""
    if not parts:
        return None
    kinds = {"number" if part.dtype.kind in "biuf" else part.dtype.kind for part in parts}
    return np.concatenate(parts if len(kinds) == 1 else [part.astype(object) for part in parts])
