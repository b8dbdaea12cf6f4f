"""The arguments of `CalibratedClassifier.fit`: true classes, checked, and the others, sent to those that take them.

Those are the classifier, the folds and the calibrator.
"""

from inspect import signature
from typing import Any

import numpy as np
import sklearn
from sklearn.frozen import FrozenEstimator
from sklearn.utils import assert_all_finite
from sklearn.utils.metadata_routing import MetadataRequest, get_routing_for_object, process_routing
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import column_or_1d, has_fit_parameter

from nishimori._calibrators.best import Best
from nishimori._calibrators.calibrator import Calibrator
from nishimori._rows.labels import checked_weights
from nishimori._support.arrays import Array, HostArray, is_array, on_device_of
from nishimori._support.formatting import join_names
from nishimori._support.warnings import notice
from nishimori.errors import InputError, InputWarning

_SEVERAL_LABELS = (
    "Classes must exclude each other. For several labels per sample, pass the scores to "
    "nishimori.multilabel.MultilabelCalibrator."
)


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
        remedy = _SEVERAL_LABELS if kind == "multilabel-indicator" else "Pass one class per sample, as numbers or text."
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
    """The classes: those of ``y``, or those that a fitted classifier knows, ``fitted_to``, which must have those of ``y``."""
    present = np.unique(y)
    if fitted_to is not None:
        strange = present[~np.isin(present, fitted_to)]
        if len(strange):
            raise InputError(
                "y",
                f"hold classes that the frozen classifier knows, {join_names(tuple(fitted_to.tolist()))}",
                got=join_names(tuple(strange.tolist())),
                remedy="Drop those samples, or fit the classifier to all classes.",
            )
    counted = present if sample_weight is None else np.unique(y[checked_weights(sample_weight, len(y)) > 0])
    if len(counted) < 2:
        of_weight = " of positive weight" if len(counted) < len(present) else ""
        raise InputError("y", f"have samples{of_weight} of at least 2 classes", got=f"one class, {counted.tolist()[0]!r}")
    return present if fitted_to is None else fitted_to


Metadata = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]
"""Keyword arguments of the classifier's `fit`, of the splitter's `split` and of the calibrator's `fit`."""


def routing_enabled() -> bool:
    """Whether scikit-learn sends metadata to those who request them."""
    return bool(sklearn.get_config().get("enable_metadata_routing", False))


def route_metadata(owner: Any, arguments: dict[str, Any]) -> Metadata:
    """Send the ``arguments`` of `fit`, as far as there are any, to those who request them."""
    there = {name: value for name, value in arguments.items() if value is not None}
    if not there:
        return {}, {}, {}
    sent = process_routing(owner, "fit", **there)
    return dict(sent["estimator"]["fit"]), dict(sent["splitter"]["split"]), dict(sent["calibrator"]["fit"])


def metadata_by_name(
    estimator: Any, calibrator: Calibrator, sample_weight: Any, groups: Any, clusters: Any, params: dict[str, Any]
) -> Metadata:
    """The arguments of `fit` without routing: weights for both, groups for splitter and `Best`, clusters for the calibrator."""
    if getattr(calibrator, "by", None) == "groups":
        raise InputError(
            "calibrator",
            "get groups of its own with by='groups'",
            got="none",
            remedy=(
                "Without metadata routing, `groups` go to the splitter: see "
                "`sklearn.set_config(enable_metadata_routing=True)`, and request them with "
                "`set_fit_request(groups=True)`."
            ),
        )
    for_estimator, for_calibrator = dict(params), {}
    if sample_weight is not None:
        for_calibrator["sample_weight"] = sample_weight
        if has_fit_parameter(estimator, "sample_weight"):
            for_estimator["sample_weight"] = sample_weight
        elif not isinstance(estimator, FrozenEstimator):
            notice(
                f"`sample_weight` is used for the calibration only: {type(estimator).__name__}.fit does not take it, so the "
                "classifier is trained without weights. For a step of a pipeline, enable metadata routing in scikit-learn, and "
                "request the weights there.",
                InputWarning,
            )
    if clusters is not None:
        if "clusters" not in signature(calibrator.fit).parameters:
            raise InputError("clusters", f"be left out: {type(calibrator).__name__}.fit does not take it")
        for_calibrator["clusters"] = clusters
    if groups is not None and isinstance(calibrator, Best):
        for_calibrator["groups"] = groups
    return for_estimator, {} if groups is None else {"groups": groups}, for_calibrator


def calibrator_request(calibrator: Calibrator) -> MetadataRequest:
    """What a calibrator requests: as its owner has set, and weights and the groups of `Best` unless set otherwise."""
    request = get_routing_for_object(calibrator)
    # Groups that the splitter keeps together must stay together where methods are compared.
    for name in ("sample_weight", "groups") if isinstance(calibrator, Best) else ("sample_weight",):
        if request.fit.requests.get(name, False) is None:
            request.fit.add_request(param=name, alias=True)
    return request


def prediction_arguments(owner: Any, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a prediction besides ``X``, for the calibrator; refused where no calibrator can request them."""
    if not params:
        return {}
    if not routing_enabled():
        raise InputError(
            f"`{next(iter(params))}` can be passed to `{method}` only with metadata routing. Call "
            "`sklearn.set_config(enable_metadata_routing=True)`, and request it of the calibrator with "
            "`set_predict_proba_request`."
        )
    return dict(process_routing(owner, method, **params)["calibrator"]["predict_proba"])


def in_kind_of(values: HostArray, X: Any) -> Array:
    """Numbers about ``X`` in its library and on its device where scikit-learn dispatches to array libraries.

    Text stays as it is, for which only NumPy has arrays.
    """
    dispatches = bool(sklearn.get_config().get("array_api_dispatch", False))
    if not dispatches or not is_array(X) or isinstance(X, np.ndarray) or values.dtype.kind not in "biuf":
        return values
    return on_device_of(values, X)
