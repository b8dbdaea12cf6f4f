"""One reading of a loader, or one after another: its batches, run through a network, as rows."""

from collections.abc import Generator, Iterable
from typing import Any

import numpy as np
import torch
from torch import nn

from nishimori.errors import InputError, NoRowsError
from nishimori.torch._batch_rows import BatchRows, batch_rows
from nishimori.torch._batches import Rule, batches
from nishimori.torch._modes import evaluating, switch_to_eval
from nishimori.torch._randomness import drew_numbers, random_states, warn_of_random_forward, warn_of_random_logits
from nishimori.torch._run import AS_THEY_ARE, check_module, device_of, short

READING = "Reading batches"
"""What is being done, for progress."""

WITHOUT_SOFTMAX = "remove the softmax or sigmoid at the end of the network"
"""What to do where a network returns probabilities."""

AS_LOGITS = "`method=nishimori.calibrator('adaptive', input='logits')`"
"""How to say that what a network returns are logits."""

NO_SOFTMAX = (
    "If the network ends in a softmax, pass the network without it. If it ends in a sigmoid per class, several classes can be "
    "true at once: collect its logits and use nishimori.MultilabelCalibrator. If these are logits, say so: pass a method with "
    f"`input='logits'`, such as {AS_LOGITS}."
)
"""The same in sentences, with the other ways out."""


class LoaderReading:
    """A network, a loader, and how rows follow from its batches. Nothing is run before `rows`.

    ``warns_of_dropout`` if it matters that the network gives the same logits each time, with `Rule.forward` or without.
    """

    def __init__(
        self,
        model: nn.Module,
        loader: Iterable[Any],
        rule: Rule,
        device: torch.device | str | None,
        *,
        warns_of_dropout: bool = False,
    ) -> None:
        check_module(model)
        rule.check()
        self.model = model
        self.rule = rule
        self.batches = batches(loader)
        self.device = device_of(model) if device is None else _move_model(model, device)
        self._warns_of_dropout = warns_of_dropout
        self._looked_at = False  # whether the first batch looks as it should

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
                states = [] if self._looked_at else random_states(self.device)
                returned = self.rule.apply(self.model, batch, number, self.device)
                found = batch_rows(returned, number, shape, self.rule.labelling)
                if not self._looked_at and found is not None:
                    self._look_at(batch, returned.labels, found, has_drawn=drew_numbers(states, self.device))
                switch_to_eval(self.model)  # which a function of the user, or the network itself, may have changed
                if shape is not None:
                    _check_clusters(has_clusters, returned.clusters, number)
                shape, has_clusters = shape or tuple(returned.logits.shape), returned.clusters is not None
                if found is not None:
                    n_rows, n_counted = n_rows + found.scores.n_samples, n_counted + len(found.counted)
                    yield found
        if not n_rows:
            raise NoRowsError(
                "loader",
                f"yield at least one batch{'' if shape is None else ' with rows'}",
                got="none",
                remedy=(
                    "Check that its dataset is not empty and that `drop_last` does not drop the only batch; a generator "
                    "can be read only once."
                ),
            )
        if not n_counted:
            self.rule.labelling.refuse_nothing(np.zeros(1), "labels")

    def _look_at(self, batch: Any, labels: Any, rows: BatchRows, *, has_drawn: bool) -> None:
        """Warn if the first batch does not look as it should; ``has_drawn`` if random numbers were drawn for it."""
        self._looked_at = True
        self.rule.warn_if_unshifted(batch, labels)
        if not self._warns_of_dropout:
            return
        if self.rule.forward is not None:
            warn_of_random_forward(self.model, has_drawn=has_drawn)
        elif has_drawn:
            warn_of_random_logits(self.model, rows, lambda: self._again(batch, rows.number))

    def _again(self, batch: Any, number: int) -> BatchRows | None:
        """The rows of the same batch, from another run of the network in eval mode."""
        switch_to_eval(self.model)
        return batch_rows(self.rule.apply(self.model, batch, number, self.device), number, None, self.rule.labelling)


def _check_clusters(before: bool, clusters: Any, number: int) -> None:
    if before != (clusters is not None):
        raise InputError(
            "forward",
            "return clusters for every batch or for none",
            got=f"{'none' if before else 'some'} in batch {number} after {'some' if before else 'none'}",
        )


def _move_model(model: nn.Module, device: torch.device | str) -> torch.device:
    """Move the network to ``device``; PyTorch raises many types of errors where it cannot."""
    try:
        place = torch.device(device)
        model.to(place)
    except AS_THEY_ARE:
        raise
    except Exception as error:
        raise InputError(
            "device",
            "be a device on which the network can run here",
            got=f"{str(device)!r} ({short(error)})",
            remedy="Leave it out to run where the weights are.",
        ) from error
    return place
