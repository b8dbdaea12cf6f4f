"""True classes and sample weights, as the host's integers and floats.

Labels are small beside logits, so they live on the host and follow each block of rows to its device.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nishimori import _array
from nishimori._scores import Scores
from nishimori.errors import InputError

HostArray = np.ndarray[Any, Any]


def class_labels(classes: Sequence[Any] | HostArray | None, n_classes: int) -> HostArray:
    """The label of each column: ``classes`` if given, else 0, 1, ..."""
    if classes is None:
        return np.arange(n_classes)
    # A list is kept as given: NumPy would turn the numbers of a mixed one into text.
    values = _array.on_host(classes).tolist() if _array.is_array(classes) else list(classes)
    if any(isinstance(value, list) for value in values):
        raise InputError("`classes` must be a flat list with one label for each column.")
    if len(values) != n_classes:
        raise InputError(f"`classes` must name {n_classes} classes, one a column in order, got {len(values)}.")
    if len(set(values)) != len(values):
        twice = next(value for i, value in enumerate(values) if value in values[:i])
        raise InputError(f"`classes` must name each class once, got {twice!r} more than once.")
    one_type = len({type(value) for value in values}) == 1 and not isinstance(values[0], tuple)
    return np.asarray(values) if one_type else np.array(values, dtype=object)


def class_indices(y: Any, classes: Sequence[Any] | HostArray | None, scores: Scores, name: str) -> HostArray:
    """The column of each sample's true class, as int64."""
    labels, n_classes = _flat(y, scores, name), scores.n_classes
    if classes is not None:
        return _positions(labels, class_labels(classes, n_classes), name)
    kind = _array.kind(labels)
    if kind in ("other", "complex"):
        shown = labels.tolist()[0]
        raise InputError(
            f"`{name}` must be integers from 0 to {n_classes - 1}, got {shown!r}. "
            "For other labels pass `classes=[...]`, the label of each column in order, to the calibrator."
        )
    if kind == "float":
        broken = ~((labels == np.floor(labels)) & np.isfinite(labels))
        if broken.any():
            raise InputError(
                f"`{name}` must be integers from 0 to {n_classes - 1}, got {labels[broken][0]:.6g}. "
                "Check that logits and labels are not swapped."
            )
    indices = labels.astype(np.int64)
    outside = (indices < 0) | (indices >= n_classes)
    if outside.any():
        row = int(np.argmax(outside))
        one_based = indices.min() == 1 and indices.max() == n_classes
        remedy = "Labels start at 0: subtract 1." if one_based else "Check that every class has its column."
        raise InputError(f"`{name}` must be from 0 to {n_classes - 1}, got {indices[row]} in row {row}. {remedy}")
    return indices


def _flat(y: Any, scores: Scores, name: str) -> HostArray:
    if y is None:
        raise InputError(f"`{name}` must be the true class of each sample; this requires y to be passed, but it is None.")
    try:
        labels: HostArray = _array.on_host(_array.as_array(y))
    except ValueError:
        raise InputError(f"`{name}` must be a flat list of labels, got rows of different lengths.") from None
    if labels.ndim == 2 and scores.is_binary_score and labels.shape[1] > 1:
        raise InputError(
            f"`{name}` must be one label a sample, got a table of shape {labels.shape} after a flat array of scores. "
            "Swap the two arguments: scores come first."
        )
    if labels.ndim == 2 and labels.shape[1] == scores.n_classes:
        raise InputError(
            f"`{name}` must be one label a sample, got shape {labels.shape}, which looks one-hot. Pass `{name}.argmax(axis=1)`."
        )
    n_samples = scores.n_samples
    if labels.ndim != 1:
        remedy = f" Pass `{name}.ravel()`." if labels.size == n_samples else ""
        raise InputError(f"`{name}` must be one label a sample, shape ({n_samples},), got shape {labels.shape}.{remedy}")
    if len(labels) != n_samples:
        raise InputError(f"`{name}` must have as many entries as there are rows of scores, {n_samples}, got {len(labels)}.")
    return labels


def _positions(labels: HostArray, classes: HostArray, name: str) -> HostArray:
    column = {value: i for i, value in enumerate(classes.tolist())}
    indices = np.array([column.get(value, -1) for value in labels.tolist()], dtype=np.int64)
    if (indices < 0).any():
        row = int(np.argmax(indices < 0))
        raise InputError(f"`{name}` must be among `classes`, got {labels.tolist()[row]!r} in row {row}.")
    return indices


def checked_weights(sample_weight: Any, n_samples: int) -> HostArray:
    """One float64 weight a sample; ones if none were given."""
    if sample_weight is None:
        return np.ones(n_samples)
    try:
        weights: HostArray = _array.on_host(_array.as_array(sample_weight)).astype(np.float64)
    except (TypeError, ValueError):
        raise InputError("`sample_weight` must hold one number a sample.") from None
    if weights.shape != (n_samples,):
        raise InputError(f"`sample_weight` must have shape ({n_samples},), one weight a sample, got {weights.shape}.")
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(f"`sample_weight` must be finite and not negative, got {weights[row]:.6g} in row {row}.")
    if not weights.any():
        raise InputError("`sample_weight` must be positive for some sample, got only zeros.")
    return weights
