"""Who gets which of the further arguments of `fit`: the classifier, the folds or the calibrator."""

from dataclasses import dataclass
from inspect import signature
from typing import Any

import sklearn
from sklearn.frozen import FrozenEstimator
from sklearn.utils.metadata_routing import MetadataRequest, get_routing_for_object, process_routing
from sklearn.utils.validation import has_fit_parameter

from nishimori._calibrators.best import Best
from nishimori._calibrators.calibrator import Calibrator
from nishimori._support.warnings import notice
from nishimori.errors import InputError, InputWarning


@dataclass(frozen=True)
class Metadata:
    """Keyword arguments of the classifier's `fit`, of the splitter's `split` and of the calibrator's `fit`."""

    estimator: dict[str, Any]
    split: dict[str, Any]
    calibrator: dict[str, Any]


def routing_enabled() -> bool:
    """Whether scikit-learn sends metadata to those who request them."""
    return bool(sklearn.get_config().get("enable_metadata_routing", False))


def route_metadata(owner: Any, arguments: dict[str, Any]) -> Metadata:
    """Send the ``arguments`` of `fit`, as far as there are any, to those who request them."""
    there = {name: value for name, value in arguments.items() if value is not None}
    if not there:
        return Metadata({}, {}, {})
    sent = process_routing(owner, "fit", **there)
    return Metadata(dict(sent["estimator"]["fit"]), dict(sent["splitter"]["split"]), dict(sent["calibrator"]["fit"]))


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
    return Metadata(for_estimator, {} if groups is None else {"groups": groups}, for_calibrator)


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
