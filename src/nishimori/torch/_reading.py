"""One reading of a loader, or one after another: its batches, run through a network, as rows."""

from collections.abc import Generator, Iterable
from typing import Any

import numpy as np
import torch
from torch import nn

from nishimori.errors import InputError, NoRowsError
from nishimori.torch._batch_rows import BatchRows, batch_rows
from nishimori.torch._batches import Rule, batches
from nishimori.torch._modes import evaluating
from nishimori.torch._run import AS_THEY_ARE, check_module, device_of, short

READING = "Reading batches"
"""What is being done, for progress."""

NO_SOFTMAX = "remove the softmax or sigmoid at the end of the network"
"""What to do where a network returns probabilities."""


class Reading:
    """A network, a loader, and how rows follow from its batches. Nothing is run before `rows`."""

    def __init__(self, model: nn.Module, loader: Iterable[Any], rule: Rule, device: torch.device | str | None) -> None:
        check_module(model)
        rule.check()
        self.model = model
        self.rule = rule
        self.batches = batches(loader)
        self.device = device_of(model) if device is None else _placed(model, device)

    @property
    def n_batches(self) -> int | None:
        """The number of batches, or None if the loader does not know it."""
        try:
            return len(self.batches)  # type: ignore[arg-type]
        except Exception:  # loaders and samplers raise many types of errors
            return None

    def rows(self) -> Generator[BatchRows, None, None]:
        """The rows of each batch, which are on the device of the network. Close it, to restore the modes of the network."""
        shape: tuple[int, ...] | None = None
        has_clusters, n_rows, n_counted = False, 0, 0
        with evaluating(self.model):
            for number, batch in enumerate(self.batches):
                returned = self.rule.apply(self.model, batch, number, self.device)
                found = batch_rows(returned, number, shape, self.rule.labelling)
                if shape is not None:
                    _check_clusters(has_clusters, returned.clusters, number)
                shape, has_clusters = shape or tuple(returned.logits.shape), returned.clusters is not None
                if found is not None:
                    n_rows, n_counted = n_rows + found.scores.n_samples, n_counted + len(found.counted)
                    yield found
        if not n_rows:
            raise NoRowsError(
                f"`loader` must yield at least one batch{'' if shape is None else ' with rows'}, got none. Check that its "
                "dataset is not empty and that `drop_last` does not drop the only batch; a generator can be read only once."
            )
        if not n_counted:
            self.rule.labelling.refuse_nothing(np.zeros(1), "labels")


def _check_clusters(before: bool, clusters: Any, number: int) -> None:
    if before != (clusters is not None):
        raise InputError(
            f"`forward` must return clusters for every batch or for none, got {'none' if before else 'some'} in batch {number} "
            f"after {'some' if before else 'none'}."
        )


def _placed(model: nn.Module, device: torch.device | str) -> torch.device:
    """Move the network to ``device``; PyTorch raises many types of errors where it cannot."""
    try:
        place = torch.device(device)
        model.to(place)
    except AS_THEY_ARE:
        raise
    except Exception as error:
        raise InputError(
            f"`device` must be a device on which the network can run here, got {str(device)!r} ({short(error)}). Leave it out "
            "to run where the weights are."
        ) from error
    return place
