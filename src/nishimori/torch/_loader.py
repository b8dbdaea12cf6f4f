"""A loader and a network as rows, whose logits are kept, summed in a sketch, or computed again in each pass.

A loader that shuffles or augments gives other data when it is read again. So it is read once, and logits and labels are kept:
on the CPU, to leave the memory of the device free, and in their own dtype. Most loaders of images fit in memory, and then every
method can be fitted to their logits as often as it needs. Those of a language model do not: 3,300 tokens of a vocabulary of
151,936 take a gigabyte in bfloat16. The rows of such a loader are added to a `Sketch` as they come, on the device of the
network, and are forgotten; or, if that is asked for, the network runs on all batches again in each pass.

The first batch shows dropout that eval mode does not switch off: a network, or a function of the user, that gives other logits
each time. Whether random numbers were drawn is told by the states of PyTorch's generators before and after the batch, so that
a network that draws none is not run twice.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from functools import reduce
from math import inf
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from nishimori._rows.array_rows import ArrayRows, Guard, ReadOptions
from nishimori._rows.batch import Groups
from nishimori._rows.fingerprint import Fingerprint
from nishimori._rows.labels import Labelling
from nishimori._rows.rows import Rows
from nishimori._rows.scores import scores, warn_of_probabilities
from nishimori._rows.stream_rows import StreamRows
from nishimori._sketch.sketch import Sketch
from nishimori._sketch.stream import Stream
from nishimori._sums.observables import BUILT_IN, Observable
from nishimori._support import arrays
from nishimori._support.arrays import HostArray
from nishimori._support.progress import Report, show_progress
from nishimori._support.warnings import notice
from nishimori.errors import InputError, InputWarning, NoRowsError
from nishimori.torch._batches import (
    IGNORED,
    LABELS,
    BatchRows,
    Forward,
    Returned,
    Rule,
    batch_rows,
    batches,
    join_names,
    naming_batch,
)
from nishimori.torch._probe import KeptProbe, keeping_first_call
from nishimori.torch._run import Pick, check_module, device_of, evaluating, switch_to_eval

if TYPE_CHECKING:
    from nishimori import Calibrator

# Bytes of logits that are kept by default. Where a method needs them, less than a laptop has free: 250,000 samples of 1,000
# classes in float32. Otherwise a sketch gives the same T from a few MB: up to this size, keeping takes little memory too, and
# the result then does not depend on the grid of a sketch.
_KEPT_FOR_ROWS, _KEPT_BEFORE_A_SKETCH = 10**9, 10**8

# The sums of very many classes change so fast with T that a sketch needs a finer grid. With a smaller range, it has no more
# temperatures than the usual grid. T outside 0.25 to 4 is refused, and the error says what to do.
_MANY_CLASSES = 4096
_FINE_GRID: dict[str, Any] = {"temperatures": (0.25, 4.0), "nodes_per_octave": 8}

INSTEAD = (
    "Pass `reread=True` to run the network again whenever rows are needed, or a larger `keep_up_to`, in bytes, if the logits "
    "fit in memory."
)
"""What the user can do where sums are not enough."""


# Of fewer tokens all may be predicted right by chance.
_TOKENS = 100

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


class LoaderRows(StreamRows):
    """The rows of a network and a loader, whose logits are computed again in every reading. Nothing is run before.

    ``guard`` is that of `ReadOptions`. ``warns_of_dropout`` if it matters that the network gives the same logits each time,
    with `Rule.forward` or without.
    """

    remedy = (
        "Give the loader fixed transforms, and use no dropout inside `forward`; or leave out `reread=True`, which reads the "
        "loader once."
    )
    only_counted = ("clusters", "groups")
    name = "loader"

    def __init__(
        self,
        model: nn.Module,
        loader: Iterable[Any],
        rule: Rule,
        device: torch.device | str | None,
        *,
        guard: Guard = None,
        progress: bool | None = None,
        warns_of_dropout: bool = False,
        keeps_probe: bool = False,
    ) -> None:
        check_module(model)
        rule.check()
        self.loader = batches(loader)
        meaning = ReadOptions(guard=guard, probability_remedy=NO_SOFTMAX, logits_setting=AS_LOGITS)
        super().__init__(lambda: self.loader, meaning, progress=progress)
        self.n_batches = _length(self.loader)
        self._model, self.rule = model, rule
        if device is not None:
            model.to(device)
        self._device = device_of(model) if device is None else torch.device(device)
        self._warns_of_dropout = warns_of_dropout
        self._keeps_probe = keeps_probe
        self.probe: KeptProbe | None = None

    def read(self) -> Generator[tuple[int, BatchRows], None, None]:
        """The rows of each batch, on the device of the network. Close it, to restore the modes of the network."""
        shape: tuple[int, ...] | None = None
        n_rows, n_counted, n_images = 0, 0, 0
        with evaluating(self._model), closing(super().read()) as numbered:
            for number, batch in numbered:
                is_first = self._named is None
                states = _random_states(self._device) if is_first else []
                returned = self._returned(batch, number, is_first=is_first)
                named, n_images = self.rule.with_own_names(returned, n_images)
                self.has_images = named.clusters is not None and returned.clusters is None
                returned = named
                self.rule.refuse_padding(batch, returned.labels, number)
                rows = batch_rows(returned, number, shape, self.rule.labelling)
                shape = shape or tuple(returned.logits.shape)
                if rows is None:
                    continue
                if is_first:
                    self._named, self._n_classes = tuple(rows.names), rows.scores.n_classes
                    has_drawn = not all(map(torch.equal, states, _random_states(self._device)))
                    self._check_first(batch, number, returned.labels, rows, has_drawn=has_drawn)
                if tuple(rows.names) != self._named:
                    now, before = (" and ".join(names or ()) or "none" for names in (rows.names, self._named))
                    must = "return clusters and groups for every batch or for none"
                    raise InputError("forward", must, got=f"{now} in batch {number} after {before}")
                switch_to_eval(self._model)  # which a function of the user, or the network itself, may have changed
                n_rows, n_counted = n_rows + rows.scores.n_samples, n_counted + len(rows.counted)
                yield number, rows
        if not n_rows:
            raise NoRowsError(
                "loader",
                f"yield at least one batch{'' if shape is None else ' with rows'}",
                got="none",
                remedy="Check that its dataset is not empty and that `drop_last` does not drop the only batch; a generator "
                "can be read only once.",
            )
        if not n_counted:
            self.rule.labelling.refuse_no_rows(np.zeros(1), "labels")

    def _returned(self, batch: Any, number: int, *, is_first: bool) -> Returned:
        """What the network returns for a batch; of the first one a few inputs are kept, if they are wanted."""
        if not (is_first and self._keeps_probe and self.probe is None):
            return self.rule.apply(self._model, batch, number, self._device)
        with keeping_first_call(self._model) as call:
            returned = self.rule.apply(self._model, batch, number, self._device)
        self.probe = call.probe
        return returned

    def named_rows(self, piece: tuple[int, BatchRows]) -> tuple[ArrayRows, dict[str, HostArray]]:
        """The rows of a batch, on the device of the network, and what it names of each of them."""
        return piece[1].rows, piece[1].names

    def _check_first(self, batch: Any, number: int, labels: Any, rows: BatchRows, *, has_drawn: bool) -> None:
        """Warn if the first batch does not look as it should; ``has_drawn`` if random numbers were drawn for it."""
        self.rule.check_shift(batch, labels)
        _warn_of_own_predictions(rows, labels)
        if not self._warns_of_dropout:
            return
        if self.rule.forward is not None:
            _warn_of_random_forward(self._model, has_drawn=has_drawn)
        elif has_drawn:
            switched = _in_training(self._model)
            switch_to_eval(self._model)
            returned = self.rule.apply(self._model, batch, number, self._device)
            second = batch_rows(returned, number, None, self.rule.labelling)
            if second is not None:
                _warn_of_random_logits(switched, number, rows.rows, second.rows)


def _warn_of_own_predictions(batch: BatchRows, labels: Any) -> None:
    """Warn if all labels of tokens are the most probable ones: those that the model itself has generated."""
    rows, counted = batch.rows, batch.counted
    if not isinstance(labels, Tensor) or labels.ndim < 2 or len(counted) < _TOKENS or rows.scores.is_binary_score:
        return
    top = arrays.on_host(rows.scores.array.argmax(-1))  # of NumPy, or of PyTorch on a device
    if (top[counted] == rows.labels[counted]).all():
        notice(
            f"The label of each of the first {len(counted):,} tokens is the one that the model finds most probable. If these "
            "are the model's own predictions, they say nothing about its calibration: pass what was written by others.",
            InputWarning,
        )


def _length(loader: Any) -> int | None:
    """The number of batches, or None if the loader does not know it."""
    try:
        return len(loader)
    except Exception:  # loaders and samplers raise many types of errors
        return None


def _random_states(device: torch.device | None) -> list[Tensor]:
    """The states of the random number generators of the CPU and of the device of a network."""
    states = [torch.get_rng_state()]
    if device is not None and device.type in ("cuda", "xpu"):
        states.append(getattr(torch, device.type).get_rng_state(device))
    return states


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


def _warn_of_random_logits(switched: str | None, number: int, first: ArrayRows, second: ArrayRows) -> None:
    """Warn if two runs of a batch gave other logits; rounding does not count. ``switched`` is a module in training mode."""
    with naming_batch(number):
        before, now = Fingerprint.from_rows(first, is_first=True), Fingerprint.from_rows(second, is_first=False)
    if before.agrees(now):
        return
    cause = f"`forward` of the network, which switches {switched} to training mode"
    if switched is None:
        cause = "dropout that does not follow the mode, such as `torch.nn.functional.dropout` without `training=self.training`"
    notice(
        f"`model` must give the same logits for the same batch in eval mode, got others when batch {number} was run "
        f"again: they changed by {before.change(now):.2g} of their scale. The usual cause is {cause}. The temperature is that "
        "of single random predictions. Switch dropout off in eval mode. If the network averages over dropout masks on purpose, "
        "average over more of them, or draw the same ones in every call, with a seed inside `torch.random.fork_rng()`.",
        InputWarning,
    )


def _in_training(model: nn.Module) -> str | None:
    """A module in training mode in words, if possible one of dropout; None if there is none."""
    names = [f"{name or 'the network'} ({type(module).__name__})" for name, module in model.named_modules() if module.training]
    return next((name for name in names if "Dropout" in name), names[-1]) if names else None


class Collected(NamedTuple("Collected", [("logits", Tensor), ("labels", Tensor)])):
    """Logits and labels of all samples of a loader, one row per sample or token, on the CPU.

    Functions of logits and labels take it in place of both, with its clusters, groups and weights: ``evaluate(collected)``.
    It is also a tuple of two, ``logits, labels = collect(...)``. The others are attributes only, which ``evaluate(*collected)``
    does not use.

    Attributes
    ----------
    logits, labels : Tensor
        Of the rows that count, in the order of the loader.
    clusters : array or None
        The cluster of each row, if they were asked for. With ``class_axis`` by default the number of the image of each pixel.
    groups : array or None
        The group of each row, if ``forward`` returned them.
    sample_weight : array or None
        The weight of each row, if they have any.
    """

    kind = "collected"
    """By this, `rows` knows what it is."""

    clusters: HostArray | None = None
    groups: HostArray | None = None
    sample_weight: HostArray | None = None


def collect(
    model: nn.Module,
    loader: Iterable[Any] | tuple[Any, ...],
    *,
    forward: Forward | None = None,
    output: Pick = None,
    labels: str = LABELS,
    clusters: str | Literal[False] | None = None,
    sample_weight: str | None = None,
    ignore_index: int | None = IGNORED,
    shift_labels: bool = False,
    class_axis: int = -1,
    groups_by_position: bool = False,
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
    output : str, int or callable, optional
        Where the logits are in what the model returns, if not in a tensor, ``.logits`` or ``["logits"]``: a key, an index, or a
        function that picks them.
    labels, clusters : str
        The keys of the labels and, if wanted, of the clusters where batches are mappings. Clusters say which samples belong
        together, such as the number of the document of each token or sequence. The model gets neither. With ``class_axis``
        the clusters are by default the images, which are numbered over all batches; ``clusters=False`` takes pixels as
        independent.
    sample_weight : str, optional
        The key of the weights, where batches are mappings: one per sample, or per sequence of tokens. The model does not get
        it.
    ignore_index : int or None
        Samples with this label are dropped, such as tokens of padding. Their logits may be anything. None keeps all.
    shift_labels : bool
        Whether the label of each position is found at the next one, as where the labels of a causal language model are its own
        inputs. The last position of a sequence has none then. Hugging Face's models shift labels in the same way.
    class_axis : int
        Which dimension of the logits is that of the classes, such as 1 for segmentation, (n, classes, height, width). The
        labels have the other dimensions.
    groups_by_position : bool
        Whether the group of each row is its position, from 0: that of a token in its sequence, or of a pixel in its image, row
        by row. With ``shift_labels`` it is the position whose logits they are, not that of the label.
    device : torch.device or str, optional
        Where to run; the model is moved there. By default batches are moved to the device of the model's weights.
    progress : bool, optional
        None shows a bar if standard error is a terminal; True also writes a line where it is not; False shows nothing.

    Returns
    -------
    Collected
        A named tuple of ``logits`` and ``labels``, on the CPU and in their own dtypes. ``clusters`` is an attribute. Pass it to
        a function in place of logits and labels.

    Examples
    --------
    >>> import torch
    >>> from nishimori.torch import collect
    >>> x, y = torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
    >>> logits, labels = collect(torch.nn.Linear(4, 3), torch.utils.data.DataLoader(list(zip(x, y)), batch_size=4))
    >>> logits.shape, labels
    (torch.Size([6, 3]), tensor([0, 1, 2, 0, 1, 2]))
    """
    labelling = Labelling(ignore_index, shift_labels)
    rule = Rule(labels, forward, False, clusters, labelling, class_axis, output, sample_weight, groups_by_position)
    data = LoaderRows(model, loader, rule, device)
    with show_progress(progress) as report, closing(data.read()) as numbered:
        parts, _ = keep_rows(numbered, data.n_batches, report)
    collected = join_rows(parts)
    warn_of_probabilities(scores(collected.logits), WITHOUT_SOFTMAX, of_sigmoids=True)
    return collected


def keep_rows(
    batches: Iterable[tuple[int, BatchRows]],
    n_batches: int | None,
    report: Report,
    limit: Callable[[BatchRows], float] = lambda _: inf,
) -> tuple[list[BatchRows], BatchRows | None]:
    """Check rows and copy them to the CPU, and return them with the first batch that would exceed ``limit``, in bytes."""
    parts: list[BatchRows] = []
    n_bytes = 0
    report(READING, 0, n_batches)
    for number, rows in batches:
        n_bytes += len(rows.counted) * rows.scores.array[0].nbytes
        if n_bytes > limit(rows):
            return parts, rows
        with naming_batch(number):
            for _ in rows.rows:  # which checks their values
                pass
        parts.append(rows.copy_to_cpu())
        report(READING, number + 1, n_batches)
    return parts, None


def join_rows(parts: list[BatchRows]) -> Collected:
    """All rows in one piece. ``parts`` is emptied meanwhile, so that the logits are not in memory twice."""
    labels = torch.cat([torch.from_numpy(part.labels) for part in parts])
    names = {what: join_names([part.names[what] for part in parts]) for what in parts[0].names}
    weights = np.concatenate([part.rows.weights for part in parts])
    dtype = reduce(torch.promote_types, (part.scores.array.dtype for part in parts))
    logits = torch.empty(len(labels), *parts[0].scores.array.shape[1:], dtype=dtype, device="cpu")  # the default may differ
    end = len(labels)
    while parts:
        part = parts.pop().scores.array
        logits[end - len(part) : end] = part
        end -= len(part)
    collected = Collected(logits, labels)
    collected.clusters, collected.groups = names.get("clusters"), names.get("groups")
    collected.sample_weight = None if (weights == 1).all() else weights
    return collected


class FitData(NamedTuple):
    """What a method is fitted to: rows or, if they were not kept, their ``sketch``, which is a kind of rows.

    ``clusters`` are the names of the clusters of rows that were kept, one per row, or of all clusters of a sketch.
    """

    rows: Rows
    sketch: Sketch | None = None
    clusters: Any = None


def read_to_fit(
    data: LoaderRows, chosen: "Calibrator", keep_up_to: float | None, *, reread: bool, progress: bool | None
) -> FitData:
    """Keep up to ``keep_up_to`` bytes of logits; beyond, sum them in a sketch, or read the loader again in each pass."""

    def limit(rows: BatchRows) -> float:
        if keep_up_to is not None:
            return keep_up_to
        # Clusters in a sketch must follow each other. Images do; a loader that shuffles does not give others so.
        can_forget = takes_sums(chosen) and ("clusters" not in rows.names or data.has_images)
        return _KEPT_BEFORE_A_SKETCH if can_forget else _KEPT_FOR_ROWS

    with show_progress(progress) as report, closing(data.read()) as numbered:
        parts, beyond = keep_rows(numbered, data.n_batches, report, limit)
        if beyond is None:
            return _open_kept(join_rows(parts), data.meaning)
        if not reread:
            _refuse_if_it_needs_rows(chosen, limit(beyond))
            parts.append(beyond)
            del beyond  # or its logits would be in memory during all passes
            return _sketch_rows(sketch_for(chosen, data.n_classes), parts, numbered, data.n_batches, report)
        del beyond
        parts.clear()
    if isinstance(data.loader, Iterator):
        raise InputError(
            "loader",
            "be readable more than once where `reread=True`",
            got=f"an object of type {type(data.loader).__name__}, which is used up after one pass",
            remedy="Pass a DataLoader.",
        )
    return FitData(data)


def _open_kept(kept: Collected, meaning: ReadOptions) -> FitData:
    """What was kept as rows, with the names of their clusters beside them."""
    table = meaning.scores(kept.logits)
    rows = meaning.rows(table, kept.labels, kept.sample_weight)
    if kept.groups is not None:
        rows.groups = Groups.from_names(kept.groups, rows.n_rows)
    rows.score_range = meaning.range_of(table, rows.weights)
    meaning.check_range(rows.score_range)
    return FitData(rows, None, kept.clusters)


def takes_sums(chosen: "Calibrator") -> bool:
    """Whether a method is fitted to sums, so that it needs no rows."""
    return chosen.traits is not None and chosen.traits.from_sketch


def sketch_for(chosen: "Calibrator", n_classes: int) -> Sketch:
    """An empty sketch of rows of this many classes, to which a method can be fitted."""
    grid = _FINE_GRID if n_classes >= _MANY_CLASSES else {}
    return Sketch(observables_of(chosen, n_classes), input=chosen.input, **grid)


def _refuse_if_it_needs_rows(chosen: "Calibrator", keep_up_to: float) -> None:
    """Refuse a method for which sums are not enough."""
    if not takes_sums(chosen):
        raise InputError(
            "method",
            f"be fitted to sums, as 'adaptive', 'ec' and 'ts' are, where logits take more than {keep_up_to:,.0f} bytes",
            got=f"{chosen.method_name!r}, which needs all rows",
            remedy=INSTEAD,
        )


def observables_of(chosen: "Calibrator", n_classes: int) -> list[Observable]:
    """What is measured: the conditions of EC and TS, and that of the method itself, if it is another one."""
    from nishimori._calibrators.one_temperature import OneTemperature  # noqa: PLC0415 - imports scikit-learn

    built_in = list(BUILT_IN.values())
    own = chosen._observable(n_classes) if isinstance(chosen, OneTemperature) else None
    return built_in if own is None or own in built_in else [*built_in, own]


def _sketch_rows(
    sketch: Sketch,
    parts: list[BatchRows],
    others: Iterable[tuple[int, BatchRows]],
    n_batches: int | None,
    report: Report,
) -> FitData:
    """The sums of the rows that were kept so far, which are forgotten, and of all others."""
    stream = Stream(sketch, remedy=f"Do not shuffle the loader. {INSTEAD}")

    def add(rows: BatchRows) -> None:
        with naming_batch(rows.number):
            stream.add(rows.rows, rows.names.get("clusters"))
        report("Reading batches into a sketch", rows.number + 1, n_batches)

    while parts:
        add(parts.pop(0))
    for _, rows in others:
        add(rows)
        del rows  # or its logits would be in memory while the network computes those of the next batch
    stream.close()
    return FitData(stream.sketch, stream.sketch, stream.clusters)
