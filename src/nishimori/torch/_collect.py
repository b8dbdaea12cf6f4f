"""`collect`: the logits of a network on a loader, and the labels.

A loader that shuffles or augments gives other data when it is read again. So it is read once, and logits and labels are kept:
on the CPU, to leave the memory of the device free, and in their own dtype.
"""

from collections.abc import Iterable
from contextlib import closing
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from nishimori._rows.labels import Labelling
from nishimori._rows.scores import scores, warn_of_probabilities
from nishimori._support.arrays import HostArray
from nishimori._support.progress import show_progress
from nishimori.torch._batches import IGNORED, LABELS, Forward, Rule
from nishimori.torch._loader import WITHOUT_SOFTMAX, LoaderReading
from nishimori.torch._memory import join_rows, keep_rows


class _LogitsAndLabels(NamedTuple):
    """The two that every loader gives."""

    logits: Tensor
    labels: Tensor


class Collected(_LogitsAndLabels):
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
    kept = join_rows(parts)
    warn_of_probabilities(scores(kept.logits), WITHOUT_SOFTMAX, of_sigmoids=True)
    collected = Collected(kept.logits, kept.labels)
    collected.clusters, collected.groups = kept.clusters, kept.groups
    return collected
