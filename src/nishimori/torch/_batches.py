"""Batches of a loader, or of tensors in place of one, and what a network returns for each of them.

By default the entries of a batch are the arguments of the network, and one of them holds the labels. A function ``forward`` of
the user replaces this rule. Where a network fails, the error describes the batch and how it was passed on.

The rows of a batch are one per sample, token or pixel, with its label, and whether it counts. Logits may have any shape before
the classes. They are seen as rows without a copy, and stay on the device of the network until it is known what is to be kept.
Rows that do not count, such as those of padding, are never looked at.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from mmap import mmap
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from nishimori._rows.array_rows import ArrayRows, ReadOptions, no_images
from nishimori._rows.labels import Labelling, are_signs, encode_values, flat_labels
from nishimori._rows.scores import Scores
from nishimori._rows.stream_rows import in_batch
from nishimori._support import arrays
from nishimori._support.arrays import HostArray
from nishimori._support.formatting import enumeration
from nishimori._support.warnings import notice
from nishimori.errors import InputError, InputWarning
from nishimori.torch._map_modules import positions
from nishimori.torch._run import (
    AS_THEY_ARE,
    Pick,
    answer,
    check_pick,
    classes_last,
    is_unit,
    logits_of,
    move_to_device,
    refuse_number,
    short,
    structure,
)

Forward = Callable[[nn.Module, Any], tuple[Any, ...] | Mapping[str, Any]]

LABELS = "labels"
"""The default key of the labels."""

IGNORED = -100
"""The label that PyTorch's losses and the collators of Hugging Face give to what has no label, such as padding."""

# Labels that are equal to the inputs in this many positions, with this many different values, are the inputs.
_POSITIONS, _VALUES = 20, 5

# Large enough to keep a GPU busy, small enough for its memory with images of usual size.
_ROWS_PER_BATCH = 256

_FORWARD = "`forward=lambda model, batch: (logits, labels)`"
_WITH_GROUPS = "`forward=lambda model, batch: (logits, labels, groups)`"
_WITH_CLUSTERS = '`forward=lambda model, batch: {"logits": logits, "labels": labels, "clusters": clusters}`'


class Returned(NamedTuple):
    """What a network and its batch gave: logits, and labels, groups and clusters as they came."""

    logits: Tensor
    labels: Any
    groups: Any = None
    clusters: Any = None
    sample_weight: Any = None


class Rule(NamedTuple):
    """How logits, labels and clusters follow from a batch, and which labels count.

    ``class_axis`` is the dimension of the classes where the logits come from; here they are moved to the end. ``clusters`` is a
    key; where nothing is said of clusters and ``class_axis`` is passed, they are images, which are numbered from
    ``first_image``. ``by_position`` makes the place of a row in its sequence, or image, its group.
    """

    labels: str = LABELS
    forward: Forward | None = None
    needs_groups: bool = False
    clusters: str | Literal[False] | None = None
    labelling: Labelling = Labelling(IGNORED)
    class_axis: int = -1
    output: Pick = None
    sample_weight: str | None = None
    by_position: bool = False
    first_image: int = 0

    def check(self) -> None:
        """Refuse what cannot be used before the first batch is read."""
        if self._cluster_key is not None and not isinstance(self.clusters, str):
            raise InputError(
                "clusters",
                "be the key of the clusters, such as the numbers of documents, in each batch",
                got=f"an object of type {type(self.clusters).__name__}",
                remedy="Make the loader yield them with each batch.",
            )
        check_pick(self.output)
        if self.forward is not None and self.output is not None:
            raise InputError("output", "be left out where `forward` is passed, which returns the logits")
        weights: Any = self.sample_weight
        if weights is not None and not isinstance(weights, str):
            got = f"an object of type {type(weights).__name__}"
            raise InputError("sample_weight", "be the key of the weights in each batch", got=got)
        if self.forward is not None and self.sample_weight is not None:
            must = "be left out where `forward` is passed, which returns the weights"
            remedy = 'Return `{"logits": logits, "labels": labels, "sample_weight": weights}`.'
            raise InputError("sample_weight", must, got=repr(self.sample_weight), remedy=remedy)
        if self.forward is not None and self._cluster_key is not None:
            must, got = "be left out where `forward` is passed", f"{self.clusters!r}: `forward` returns the clusters"
            raise InputError("clusters", must, got=got, remedy=f"Pass {_WITH_CLUSTERS}.")
        if self.forward is None and self.needs_groups:
            raise InputError(
                "forward",
                "return the group of each sample where each group has its own temperature (by='groups')",
                got="no `forward`",
                remedy=f"Pass {_WITH_GROUPS}.",
            )

    def apply(self, model: nn.Module, batch: Any, number: int, device: torch.device | None) -> Returned:
        """The logits that ``model`` returns for batch ``number``, classes last, with labels and groups as they came."""
        try:
            with torch.inference_mode():
                if self.forward is None:
                    returned = self._usual(model, batch, number, device)
                else:
                    returned = self._named(self.forward(model, move_to_device(batch, device)), number)
        except AS_THEY_ARE:
            raise
        except Exception as error:
            raise self._failure(f"{short(error)} in batch {number}", batch) from error
        return returned._replace(logits=classes_last(returned.logits, self.class_axis))

    @property
    def _cluster_key(self) -> str | None:
        """The key of the clusters in a batch."""
        return None if self.clusters is False else self.clusters

    def with_own_names(self, returned: Returned, n_images: int) -> tuple[Returned, int]:
        """What was returned, with images as clusters and positions as groups where that is wanted.

        ``n_images`` is how many images came before; the second value is how many there are now.
        """
        leading = tuple(returned.logits.shape[:-1])
        if self.by_position:
            if returned.groups is not None:
                raise InputError("groups_by_position", "be False where `forward` returns groups", got="True")
            returned = returned._replace(groups=np.broadcast_to(positions(returned.logits), leading))
        if self.class_axis == -1 or self.clusters is not None or returned.clusters is not None or len(leading) < 2:
            return returned, n_images
        if self.class_axis % (len(leading) + 1) == 0:
            raise no_images(self.class_axis)
        first = self.first_image + n_images
        images = np.arange(first, first + leading[0], dtype=np.int64 if self.first_image else np.int32)
        return returned._replace(clusters=images), n_images + leading[0]

    def _usual(self, model: nn.Module, batch: Any, number: int, device: torch.device | None) -> Returned:
        """What the network returns for the entries of a batch, and those that it does not get."""
        weights = None
        if self.sample_weight is not None:
            if not isinstance(batch, Mapping) or self.sample_weight not in batch:
                what = f"the keys {list(batch)}" if isinstance(batch, Mapping) else structure(batch)
                got = f"{self.sample_weight!r} for batch {number} with {what}"
                raise InputError("sample_weight", "be the key of the weights in each batch", got=got)
            weights = batch[self.sample_weight]
            batch = {key: value for key, value in batch.items() if key != self.sample_weight}
        inputs, target, clusters = _split(batch, self.labels, self._cluster_key, number)
        remedy = "Say where the logits are: `output=0`, `output='key'`, or a function of the output."
        logits = logits_of(answer(model, move_to_device(inputs, device)), remedy, pick=self.output)
        return Returned(logits, target, None, clusters, weights)

    def _failure(self, got: str, batch: Any) -> InputError:
        """The error where the network, or the user's own function, fails."""
        remedy = f"The batch is {structure(batch)}."
        if self.forward is not None:
            return InputError("forward", self._must, got=got, remedy=remedy)
        remedy += (
            " All of it but the labels is passed as arguments. To call the model in another way, pass "
            "`forward=lambda model, batch: (model(batch[...]), batch[...])`."
        )
        return InputError("model", "accept the batches of `loader`", got=got, remedy=remedy)

    def refuse_padding(self, batch: Any, labels: Any, number: int) -> None:
        """Refuse labels that count at positions which the attention mask leaves out, or that such positions predict."""
        mask = batch.get("attention_mask") if isinstance(batch, Mapping) else None
        if not isinstance(mask, Tensor) or not isinstance(labels, Tensor) or labels.ndim < 2 or mask.shape != labels.shape:
            return
        ignored, values = self.labelling.ignore_index, labels.detach().to(mask.device)
        is_padding = mask == 0
        counts = torch.ones_like(is_padding) if ignored is None else values != ignored
        example = -100 if ignored is None else ignored
        padded = is_padding & counts
        if padded.any():
            raise InputError(
                "labels",
                "not count where `attention_mask` is 0",
                got=f"{int(padded.sum()):,} positions of padding with labels in batch {number}",
                remedy=f"Set them to {example} first: `labels[attention_mask == 0] = {example}`.",
            )
        if not self.labelling.shift_labels:
            return
        # With padding on the left, the last position of it predicts the first token, from nothing.
        predicted = is_padding[..., :-1] & counts[..., 1:]
        if predicted.any():
            raise InputError(
                "labels",
                "not count where `attention_mask` is 0 at the position before, which predicts them",
                got=f"{int(predicted.sum()):,} tokens after padding with labels in batch {number}",
                remedy=f"Set them to {example} first: `labels[..., 1:][attention_mask[..., :-1] == 0] = {example}`.",
            )

    def check_shift(self, batch: Any, labels: Any) -> None:
        """Refuse labels of tokens that are shifted twice, and warn of those that are the tokens themselves and not shifted."""
        if not isinstance(labels, Tensor) or labels.ndim < 2:
            return
        own = self.forward is not None  # which may take any other entry for the labels
        if isinstance(batch, Mapping):
            names = {"input_ids"} if own else {*batch} - {self.labels, self._cluster_key}
            inputs = {name: batch[name] for name in batch if name in names}
        else:
            inputs = {} if own else {f"batch[{i}]": field for i, field in enumerate(batch[:-1])}
        ignored = self.labelling.ignore_index
        if self.labelling.shift_labels:
            shifted = [
                name
                for name, tokens in inputs.items()
                if isinstance(tokens, Tensor)
                and tokens.shape == labels.shape
                and _are_tokens(labels[:, :-1], tokens[:, 1:], ignored)
            ]
            if shifted:
                raise InputError(
                    "labels",
                    "be those of each position itself where `shift_labels=True`",
                    got=f"the tokens of {shifted[0]} one position on: they are shifted already",
                    remedy="Leave `shift_labels` out.",
                )
            return
        copied = [name for name, tokens in inputs.items() if _are_tokens(labels, tokens, ignored)]
        if copied:
            notice(
                f"The labels of each token are equal to the inputs, {copied[0]}: at each position, the token itself. A causal "
                "language model predicts the next token. If this is one, pass `shift_labels=True`.",
                InputWarning,
            )

    @property
    def _wanted(self) -> tuple[str, ...]:
        """What a function of the user must return, in order."""
        return Returned._fields[: 3 if self.needs_groups else 2]

    @property
    def _must(self) -> str:
        return f"return the {', '.join(self._wanted[:-1])} and {self._wanted[-1]} of each batch"

    def _named(self, returned: Any, number: int) -> Returned:
        """What the user's own function has returned, by name."""
        names = self._wanted
        by_name = returned if isinstance(returned, Mapping) else {}
        if isinstance(returned, tuple | list) and len(returned) == len(names):
            by_name = dict(zip(names, returned, strict=True))
        if not set(names) <= set(by_name) <= set(Returned._fields):
            raise InputError(
                "forward",
                self._must,
                got=f"{structure(returned)} in batch {number}",
                remedy=f"Return a tuple `({', '.join(names)})`, or a dict with the keys {', '.join(map(repr, names))} and, "
                f"where you have them, {enumeration([repr(name) for name in Returned._fields[len(names) :]])}.",
            )
        fields = Returned(**by_name)
        return fields._replace(logits=logits_of(fields.logits, "Return the tensor of logits first.", who="forward"))


def _are_tokens(labels: Tensor, tokens: Any, ignored: int | None) -> bool:
    """Whether the labels that count are equal to the tokens at their positions, and are enough to tell."""
    if not isinstance(tokens, Tensor) or tokens.is_floating_point() or tokens.shape != labels.shape:
        return False
    values, inputs = labels.detach().cpu(), tokens.detach().cpu()
    counted = torch.ones_like(values, dtype=torch.bool) if ignored is None else values != ignored
    some = values[counted]
    are_enough = len(some) >= _POSITIONS and len(set(some.tolist())) >= _VALUES
    return are_enough and torch.equal(some, inputs[counted].to(some.dtype))


def batches(loader: Any) -> Iterable[Any]:
    """``loader`` itself, or the batches of a tuple of tensors; anything that yields no batches is refused."""
    if isinstance(loader, tuple) and len(loader) > 1 and isinstance(loader[0], Tensor | np.ndarray):
        return _of_tensors(loader)
    if not isinstance(loader, Iterable) or isinstance(loader, Tensor | np.ndarray | Mapping | str):
        raise InputError(
            "loader",
            "yield batches of inputs and labels",
            got=f"an object of type {type(loader).__name__}",
            remedy="Pass a `torch.utils.data.DataLoader`, or the tensors as a tuple `(X, y)`.",
        )
    return loader


def _of_tensors(parts: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Batches of tensors that hold all samples: inputs and, last, labels. No data is copied."""
    *whole, labels = parts
    with suppress(TypeError, ValueError, RuntimeError):  # such as text, which is refused below
        labels = torch.as_tensor(labels)
    whole.append(labels)
    if not all(isinstance(part, Tensor) and part.ndim for part in whole) or len({len(part) for part in whole}) > 1:
        raise InputError(
            "loader",
            "hold tensors with one entry per sample where it is a tuple `(X, y)`",
            got=" and ".join(map(structure, parts)),
            remedy="Convert each with `torch.as_tensor(X, dtype=torch.float32)`; pass a sequence of batches as a list.",
        )
    return list(zip(*(part.split(_ROWS_PER_BATCH) for part in whole), strict=True)) if len(whole[0]) else []


def _split(batch: Any, labels: str, clusters: str | None, number: int) -> tuple[Any, Any, Any]:
    """The inputs, the labels and, if there is a key for them, the clusters of a batch."""
    if isinstance(batch, Mapping):
        for name, key in (("labels", labels), ("clusters", clusters)):
            if key is not None and key not in batch:
                raise InputError(
                    name,
                    f"be the key of the {name} in each batch",
                    got=f"{key!r} for batch {number} with the keys {list(batch)}",
                    remedy=f"Pass the right key, or make the loader yield the {name}. The Trainer of Hugging Face drops "
                    "columns that the model does not take, unless `remove_unused_columns=False`.",
                )
        inputs = {key: value for key, value in batch.items() if key not in (labels, clusters)}
        return inputs, batch[labels], None if clusters is None else batch[clusters]
    if not isinstance(batch, tuple | list) or len(batch) < 2:
        raise InputError(
            "loader",
            "yield inputs and labels together",
            got=structure(batch),
            remedy=f"Make it yield tuples (x, y), or dicts with the labels under the key {labels!r}; for other batches "
            f"pass {_FORWARD}. Pass plain tensors as a tuple `(X, y)`.",
        )
    if clusters is not None:
        raise InputError(
            "clusters",
            "be left out where batches are not mappings",
            got=f"{clusters!r} for {structure(batch)} in batch {number}",
            remedy=f"Make the loader yield dicts, or pass {_WITH_CLUSTERS}.",
        )
    return tuple(batch[:-1]), batch[-1], None


# --- the rows of a batch ----------------------------------------------------------------------------------------------------

_PLAIN = ReadOptions()

_LEAST_OWN_PAGES = 2**19  # bytes; systems allow some 65,000 such pieces per process


@dataclass(frozen=True, eq=False)
class BatchRows:
    """The rows of batch ``number``; where their weights are zero, they do not count.

    ``scores`` and ``labels`` are as they came, and so are the ``names`` of clusters and groups, one per row, if there are any.
    """

    number: int
    scores: Scores
    labels: HostArray
    rows: ArrayRows
    names: dict[str, HostArray]

    @cached_property
    def counted(self) -> HostArray:
        """The positions of the rows that count."""
        return np.flatnonzero(self.rows.weights)

    def copy_to_cpu(self) -> "BatchRows":
        """A copy on the CPU of the rows that count: loaders and workers reuse their memory."""
        array, index = self.scores.array.detach(), self.counted
        if len(index) < len(array):
            array = array[torch.from_numpy(index).to(array.device)]
        scores = replace(self.scores, array=_copy_to_cpu(array), leading=())
        rows = ArrayRows(scores, self.rows.labels[index], self.rows.weights[index])
        names = {what: values[index] for what, values in self.names.items()}
        return BatchRows(self.number, scores, self.labels[index], rows, names)


def _copy_to_cpu(array: Tensor) -> Tensor:
    """A copy whose memory returns to the system when it is freed: in the heap, pieces that are in use would hold it back."""
    if array.nbytes < _LEAST_OWN_PAGES:
        return array.to("cpu", copy=True)
    pages = torch.frombuffer(mmap(-1, array.nbytes), dtype=array.dtype).reshape(array.shape)
    return pages.copy_(array)


@contextmanager
def naming_batch(number: int) -> Iterator[None]:
    """Errors inside name the batch."""
    try:
        yield
    except InputError as error:
        raise in_batch(number, error) from None


def batch_rows(returned: Returned, number: int, before: tuple[int, ...] | None, labelling: Labelling) -> BatchRows | None:
    """The rows of a batch, or None if it has none; ``before`` is the shape of the logits of the first batch."""
    logits = refuse_number(returned.logits, f" in batch {number}")
    shape, leading = tuple(logits.shape), tuple(logits.shape[: -1 if logits.ndim > 1 else None])
    if before is not None and (shape[1:] or (1,))[-1] != (before[1:] or (1,))[-1]:  # a flat array has one column
        got = f"shape {shape} in batch {number} after {before}"
        raise InputError("model", "return the same number of classes for every batch", got=got)
    if 0 in leading:
        return None
    flat = logits.reshape(-1) if is_unit(logits) or logits.ndim == 1 else logits.reshape(-1, logits.shape[-1])
    with naming_batch(number):
        scores = replace(_PLAIN.scores(flat), leading=leading if len(leading) > 1 else ())
        own = None if returned.sample_weight is None else arrays.on_host(arrays.as_array(returned.sample_weight))
        labels, weights = labelling.apply(_labels_of(returned.labels, logits, scores), own, scores, "labels")
        if weights is not None and weights.shape != labels.shape:
            raise InputError("sample_weight", f"have {len(labels)} numbers, one per sample", got=f"shape {weights.shape}")
        counted = labels if weights is None else labels[weights > 0]
        if are_signs(counted, scores.n_classes):
            remedy = "Make the loader yield `(labels + 1) // 2`."
            raise InputError("labels", "be 0 and 1 for two classes", got="-1 and 1", remedy=remedy)
        rows = _PLAIN.rows(scores, labels, weights)
        named = {"clusters": returned.clusters, "groups": returned.groups}
        names = {what: _names_of(values, rows, what) for what, values in named.items() if values is not None}
    return BatchRows(number, scores, labels, rows, names)


def _labels_of(target: Any, logits: Tensor, scores: Scores) -> HostArray:
    """One number per row."""
    if is_unit(logits) and getattr(target, "shape", None) == logits.shape:
        target = target[..., 0]  # `BCEWithLogitsLoss` requires this shape
    labels = flat_labels(target, scores, "labels")
    if labels.dtype.kind not in "biuf":
        got, remedy = f"a {type(target).__name__} that is not numeric", "Make the loader yield a tensor of integers."
        raise InputError("labels", f"be integers from 0 to {scores.n_classes - 1}", got=got, remedy=remedy)
    return labels


def _names_of(values: Any, rows: ArrayRows, what: str) -> HostArray:
    """The group or the cluster of each row of a batch, on the CPU; those of rows that do not count are not looked at."""
    per_row = rows.scores.per_row([values] if isinstance(values, str) else values, what)
    encode_values(per_row, rows.n_rows, what.removesuffix("s"), rows.scores.row, np.flatnonzero(rows.weights))
    return arrays.on_host(arrays.as_array(per_row))


def join_names(parts: list[HostArray]) -> HostArray:
    """The groups or clusters of all batches; NumPy would turn numbers into text beside text."""
    kinds = {"number" if part.dtype.kind in "biuf" else part.dtype.kind for part in parts}
    return np.concatenate(parts if len(kinds) == 1 else [part.astype(object) for part in parts])
