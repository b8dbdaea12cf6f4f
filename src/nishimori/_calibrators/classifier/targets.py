"""True classes as scikit-learn's estimators take them, checked."""

from typing import Any

import numpy as np
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import column_or_1d

from nishimori._rows.labels import checked_weights, first_names
from nishimori._support.arrays import HostArray
from nishimori.errors import InputError

_REMEDY = {
    "continuous": "Labels must be classes, not continuous values.",
    "multilabel-indicator": (
        "Classes must exclude each other. For several labels per sample, pass the scores to "
        "nishimori.multilabel.MultilabelCalibrator."
    ),
}


def flat_targets(y: Any) -> HostArray:
    """One label per sample, as a flat NumPy array; refuses what is not a classification."""
    if y is None:
        raise InputError(
            "y", "be the true class of each sample", got="None: this requires y to be passed, but the target y is None"
        )
    try:
        assert_all_finite(y, input_name="y")  # a number that is none, before `type_of_target` compares it with others
    except ValueError as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise InputError("y", "hold a class for each sample", remedy=f"{reason}. Drop such samples.") from None
    if _is_mixed(y):  # which `type_of_target` cannot sort
        raise InputError(
            "y",
            "hold one class per sample",
            remedy=(
                "Some labels are missing (None), or numbers and text are mixed. Drop samples without a label, and "
                "use only numbers or only text."
            ),
        )
    kind = type_of_target(y, input_name="y")
    if kind not in ("binary", "multiclass"):
        remedy = _REMEDY.get(kind, "Pass one class per sample, as numbers or text.")
        raise InputError("y", "hold one class per sample", remedy=f"Unknown label type: {kind}. {remedy}")
    flat: HostArray = column_or_1d(y, warn=True)
    if len(flat) == 0:
        raise InputError("y", "be the true class of each sample", got="0 samples")
    return flat


def _is_mixed(y: Any) -> bool:
    """Whether some labels are None, or some are text and others are not."""
    values = np.asarray(y) if hasattr(y, "dtype") else np.asarray(y, dtype=object)  # a list of both would all become text
    if values.dtype != object:
        return False
    are_text = {isinstance(label, str) for label in values.flat}
    return len(are_text) > 1 or any(label is None for label in values.flat)


def classes_of(y: HostArray, sample_weight: Any, fitted_to: HostArray | None) -> HostArray:
    """The classes: those of ``y``, or ``known`` of a fitted classifier, which must have those of ``y``."""
    present = np.unique(y)
    if fitted_to is not None:
        strange = present[~np.isin(present, fitted_to)]
        if len(strange):
            raise InputError(
                "y",
                f"hold classes that the frozen classifier knows, {first_names(tuple(fitted_to.tolist()))}",
                got=first_names(tuple(strange.tolist())),
                remedy="Drop those samples, or fit the classifier to all classes.",
            )
    counted = present if sample_weight is None else np.unique(y[checked_weights(sample_weight, len(y)) > 0])
    if len(counted) < 2:
        of_weight = " of positive weight" if len(counted) < len(present) else ""
        raise InputError("y", f"have samples{of_weight} of at least 2 classes", got=f"one class, {counted.tolist()[0]!r}")
    return present if fitted_to is None else fitted_to
