"""A loader and a network as rows: those of one reading, and `Rows` that run the network on all batches again in each pass.

The first batch shows dropout that eval mode does not switch off: a network, or a function of the user, that gives other logits
each time. Whether random numbers were drawn is told by the states of PyTorch's generators before and after the batch, so that
a network that draws none is not run twice.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nishimori._rows.array_rows import ArrayRows, Guard, ReadOptions, clusters_of
from nishimori._rows.batch import Clusters, Groups
from nishimori._rows.fingerprint import Fingerprint
from nishimori._rows.pieces import Pieces
from nishimori._rows.stream_rows import in_batch
from nishimori._support.arrays import HostArray
from nishimori._support.progress import show_progress
from nishimori._support.warnings import notice
from nishimori.errors import InputError, InputWarning, NoRowsError
from nishimori.torch._batch_rows import BatchRows, batch_rows, join_names
from nishimori.torch._batches import Rule, batches
from nishimori.torch._run import AS_THEY_ARE, check_module, device_of, evaluating, short, switch_to_eval

READING = "Reading batches"
"""What is being done, for progress."""

WITHOUT_SOFTMAX = "remove the softmax or sigmoid at the end of the network"
"""What to do where a network returns probabilities."""

AS_LOGITS = "`method=nishimori.calibrator('adaptive', input='logits')`"
"""How to say that what a network returns are logits."""

NO_SOFTMAX = (
    "If the network ends in a softmax, pass the network without it. If it ends in a sigmoid per class, several classes can be "
    "true at once: collect its logits and use nishimori.multilabel.MultilabelCalibrator. If these are logits, say so: pass a "
    f"method with `input='logits'`, such as {AS_LOGITS}."
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
        self._first_is_checked = False  # whether the first batch looks as it should

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
                states = [] if self._first_is_checked else _random_states(self.device)
                returned = self.rule.apply(self.model, batch, number, self.device)
                rows = batch_rows(returned, number, shape, self.rule.labelling)
                if not self._first_is_checked and rows is not None:
                    self._check_first(batch, returned.labels, rows, has_drawn=_drew_numbers(states, self.device))
                switch_to_eval(self.model)  # which a function of the user, or the network itself, may have changed
                if shape is not None:
                    _check_clusters(has_clusters, returned.clusters, number)
                shape, has_clusters = shape or tuple(returned.logits.shape), returned.clusters is not None
                if rows is not None:
                    n_rows, n_counted = n_rows + rows.scores.n_samples, n_counted + len(rows.counted)
                    yield rows
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
            self.rule.labelling.refuse_no_rows(np.zeros(1), "labels")

    def _check_first(self, batch: Any, labels: Any, rows: BatchRows, *, has_drawn: bool) -> None:
        """Warn if the first batch does not look as it should; ``has_drawn`` if random numbers were drawn for it."""
        self._first_is_checked = True
        self.rule.warn_if_unshifted(batch, labels)
        if not self._warns_of_dropout:
            return
        if self.rule.forward is not None:
            _warn_of_random_forward(self.model, has_drawn=has_drawn)
        elif has_drawn:
            _warn_of_random_logits(self.model, rows, lambda: self._again(batch, rows.number))

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


def _random_states(device: torch.device | None) -> list[Tensor]:
    """The states of the random number generators of the CPU and of the device of a network."""
    states = [torch.get_rng_state()]
    if device is not None and device.type in ("cuda", "xpu"):
        states.append(getattr(torch, device.type).get_rng_state(device))
    return states


def _drew_numbers(before: list[Tensor], device: torch.device | None) -> bool:
    """Whether random numbers were drawn since the generators had the states ``before``."""
    return not all(map(torch.equal, before, _random_states(device)))


def _warn_of_random_forward(model: nn.Module, *, has_drawn: bool) -> None:
    """Warn if the user's function ``forward`` has left modules in training mode, or has drawn random numbers."""
    switched = _in_training(model)
    if switched is None and not has_drawn:
        return
    did = [f"switched {switched} to training mode"] * (switched is not None) + ["drew random numbers"] * has_drawn
    notice(
        f"`forward` {' and '.join(did)}, as for dropout. The temperature is that of the logits that `forward` returns, but the "
        "calibrated network calls `model` itself, in eval mode and without `forward`. To calibrate an average over dropout "
        "masks, write a module whose own `forward` averages over them, and pass it as `model`. Otherwise use no dropout in "
        "`forward`.",
        InputWarning,
    )


def _warn_of_random_logits(model: nn.Module, first: BatchRows, again: Callable[[], BatchRows | None]) -> None:
    """Warn if the network gives other logits for the same batch when it is run ``again``. Rounding does not count."""
    switched, second = _in_training(model), again()
    if second is None:
        return
    with first.naming_batch():
        before = Fingerprint.from_rows(first.rows(), is_first=True)
        now = Fingerprint.from_rows(second.rows(), is_first=False)
    if before.agrees(now):
        return
    cause = f"`forward` of the network, which switches {switched} to training mode"
    if switched is None:
        cause = "dropout that does not follow the mode, such as `torch.nn.functional.dropout` without `training=self.training`"
    notice(
        f"`model` must give the same logits for the same batch in eval mode, got others when batch {first.number} was run "
        f"again: they changed by {before.change(now):.2g} of their scale. The usual cause is {cause}. The temperature is that "
        "of single random predictions. Switch dropout off in eval mode. If the network averages over dropout masks on purpose, "
        "average over more of them, or draw the same ones in every call, with a seed inside `torch.random.fork_rng()`.",
        InputWarning,
    )


def _in_training(model: nn.Module) -> str | None:
    """A module in training mode in words, if possible one of dropout; None if there is none."""
    names = [f"{name or 'the network'} ({type(module).__name__})" for name, module in model.named_modules() if module.training]
    return next((name for name in names if "Dropout" in name), names[-1]) if names else None


class LoaderRows(Pieces[BatchRows]):
    """The rows of a loader, whose logits are computed again in every pass.

    Groups and clusters have their numbers in all the data, so where there are any, all batches are read once to find them.
    """

    remedy = (
        "Give the loader fixed transforms, and use no dropout inside `forward`; or leave out `reread=True`, which reads the "
        "loader once."
    )

    def __init__(
        self, reading: LoaderReading, n_classes: int, *, has_names: bool, progress: bool | None, guard: Guard = "refuse"
    ) -> None:
        """``has_names`` says whether there are groups or clusters; ``guard`` is that of `ReadOptions`."""
        if isinstance(reading.batches, Iterator):
            raise InputError(
                "loader",
                "be readable more than once where `reread=True`",
                got=f"an object of type {type(reading.batches).__name__}, which is used up after one pass",
                remedy="Pass a DataLoader.",
            )
        meaning = ReadOptions(guard=guard, probability_remedy=NO_SOFTMAX, logits_setting=AS_LOGITS)
        super().__init__(meaning, progress=progress, read_ahead=False)
        self._loader = reading
        self._n_classes = n_classes
        if not has_names:
            return
        groups, clusters = self._names(progress)
        if groups is not None:
            self.groups = Groups.from_names(groups, len(groups))
        if clusters is not None:
            self.clusters = clusters_of(clusters, np.ones(len(clusters)))
            self._cluster_names = np.unique(clusters).tolist()

    def _names(self, progress: bool | None) -> tuple[HostArray | None, HostArray | None]:
        """The group and the cluster of each row that counts, from a pass."""
        groups, clusters = [], []
        with show_progress(progress) as report, closing(self._loader.rows()) as batches:
            for rows in batches:
                report("Reading groups and clusters", rows.number + 1, self._loader.n_batches)
                groups += [] if rows.groups is None else [rows.groups[rows.counted]]
                clusters += [] if rows.clusters is None else [rows.clusters[rows.counted]]
        return join_names(groups), join_names(clusters)

    @property
    def name(self) -> str:
        """The argument of `calibrate`."""
        return "loader"

    def read(self) -> Generator[BatchRows, None, None]:
        """The batches of one pass, run through the network."""
        with closing(self._loader.rows()) as batches:
            yield from batches

    def rows(self, piece: BatchRows) -> ArrayRows:
        """The rows of a batch, on the device of the network."""
        groups, clusters = None, None
        if self.groups is not None and piece.groups is not None:
            groups = Groups(_encode_names(piece.groups, piece.counted, self.groups.names, "groups"), self.groups.names)
        if self.clusters is not None and piece.clusters is not None:
            codes = _encode_names(piece.clusters, piece.counted, self._cluster_names, "clusters")
            clusters = Clusters(codes, self.clusters.number)
        return piece.rows(clusters, groups)

    def place(self, error: InputError, piece: BatchRows | None) -> InputError:
        """The number of the batch, from 0, before the message."""
        return error if piece is None else in_batch(piece.number, error)


def _encode_names(names: HostArray, counted: HostArray, numbered: Sequence[Any], what: str) -> HostArray:
    """The place of the name of each row among those that are ``numbered``; 0 where a row does not count."""
    places = {name: i for i, name in enumerate(numbered)}
    different, which = np.unique(names[counted], return_inverse=True)
    others = [name for name in different.tolist() if name not in places]
    if others:
        raise InputError(what, "be the same in every pass over the loader", got=f"{others[0]!r}, which was not there before")
    codes = np.zeros(len(names), dtype=np.int64)
    codes[counted] = np.array([places[name] for name in different.tolist()], dtype=np.int64)[which]
    return codes
