"""Converters for skl2onnx: import this module, and it writes calibrators and calibrated classifiers to ONNX files.

    import nishimori.integrations.skl2onnx
    onnx_model = skl2onnx.to_onnx(calibrated, X[:1])

They are for `CalibratedClassifier`, whichever its ``ensemble``, and for calibrators alone. A calibrator computes in float64,
and its probabilities have the type of the features. What has no converter is refused by name.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from nishimori._calibrators.calibrator import Calibrator
from nishimori._calibrators.classifier.averaging import MeanOfClassifiers
from nishimori._calibrators.classifier.calibrated_classifier import CalibratedClassifier
from nishimori._calibrators.classifier.response import Scorer, known_classes
from nishimori._calibrators.fixed import FixedMap, FixedTemperature
from nishimori._methods.fitted_method import refuse_members
from nishimori._methods.table import METHODS
from nishimori._rows.scores import Input
from nishimori._support.optional import import_object, require
from nishimori.errors import InputError

require("skl2onnx", extra="skl2onnx", for_="nishimori.integrations.skl2onnx")

from skl2onnx import update_registered_converter  # noqa: E402 - after the check that it is installed
from skl2onnx._parse import _parse_sklearn  # noqa: E402
from skl2onnx.common.data_types import DoubleTensorType, Int64TensorType, StringTensorType, guess_proto_type  # noqa: E402
from skl2onnx.common.utils_classifier import get_label_classes  # noqa: E402

from nishimori.integrations._onnx_maps import Graph, exponents, refuse_unknown  # noqa: E402

_OPTIONS = {"zipmap": [True, False, "columns"], "nocl": [True, False], "output_class_labels": [False, True]}


def _classifiers(estimator: Any) -> Sequence[Any]:
    return estimator.estimators_ if isinstance(estimator, MeanOfClassifiers) else [estimator]


def _add(scope: Any, container: Any, estimator: Any, inputs: list[Any], scorer: Scorer) -> str:
    """Add a classifier to the graph; the name of what holds its scores."""
    while True:
        if isinstance(estimator, FrozenEstimator):
            estimator = estimator.estimator
        elif hasattr(estimator, "best_estimator_"):  # of a search
            estimator = estimator.best_estimator_
        elif isinstance(estimator, Pipeline):
            for _, step in estimator.steps[:-1]:
                if step not in (None, "passthrough") and not hasattr(step, "fit_resample"):  # which is for training only
                    inputs = _parse_sklearn(scope, step, inputs)
            estimator = estimator.steps[-1][1]
        else:
            break
    options = {"zipmap": False, "raw_scores": scorer.method == "decision_function"}
    if options["raw_scores"] and not container.has_options(estimator, "raw_scores"):
        raise InputError(
            f"{type(estimator).__name__} has no decision values in ONNX: skl2onnx converts its probabilities only. Fit "
            "`CalibratedClassifier` with `response_method='predict_proba'`."
        )
    usable = {name: value for name, value in options.items() if container.has_options(estimator, name)}
    for where in (scope, container):
        where.add_options(id(estimator), usable)
    name: str = _parse_sklearn(scope, estimator, inputs)[1].full_name
    return name


def _set_shapes(operator: Any) -> None:
    """Say what the outputs are: labels, and probabilities."""
    labels = get_label_classes(operator.scope_inst, operator.raw_operator)
    n_samples = operator.inputs[0].get_first_dimension()
    is_text = np.asarray(labels).dtype.kind in "OUS"
    operator.outputs[0].set_type((StringTensorType if is_text else Int64TensorType)([n_samples]))
    operator.outputs[1].type.shape = [n_samples, len(labels)]


def _convert_classifier(scope: Any, operator: Any, container: Any) -> None:
    """The mean over classifiers of their calibrated probabilities."""
    model, graph = operator.raw_operator, Graph(scope, container)
    calibrated = []
    for pair in model.calibrated_classifiers_:
        refuse_unknown(pair.calibrator.map_, _described(model, pair.calibrator))
        tables = [
            _table(graph, _add(scope, container, one, list(operator.inputs), pair.scorer), one, pair.scorer)
            for one in _classifiers(pair.estimator)
        ]
        scores = _mean(graph, tables)
        logits = _logits(graph, scores, pair.scorer.input, pair.calibrator.floor_)
        calibrated.append(graph.softmax(exponents(graph, pair.calibrator.map_, logits)))
    mean = _mean(graph, calibrated)
    _put_out(graph, operator, mean, mean)


def _table(graph: Graph, name: str, estimator: Any, scorer: Scorer) -> str:
    """The scores of a classifier, one column per class in the order of the calibrator."""
    scores, own = graph.in_double(name), known_classes(estimator).tolist()
    order = [own.index(label) for label in scorer.classes.tolist()]
    if len(order) == 2 and scorer.method == "decision_function":
        # One column or two, of which the last is the decision value.
        value = graph.column(scores, -1)
        minus = graph("Mul", value, graph.constant(0.0))
        return graph("Concat", *((minus, value) if order == [0, 1] else (value, minus)), axis=1)
    if order != list(range(len(order))):
        scores = graph("Gather", scores, graph.constant(order), axis=1)
    if scorer.method == "predict_log_proba":
        return graph("Log", graph("Max", scores, graph.constant(_TINY)))
    return scores


_TINY = float(np.finfo(np.float64).smallest_normal)


def _mean(graph: Graph, tables: Sequence[str]) -> str:
    if len(tables) == 1:
        return tables[0]
    return graph("Div", graph("Sum", *tables), graph.constant(float(len(tables))))


def _logits(graph: Graph, scores: str, input: Input, floor: float | None, zero: float = _TINY) -> str:
    """Scores as logits: the logarithms of probabilities, of which small ones are raised, as the calibrator does it."""
    if input == "logits":
        return scores
    positive = graph("Where", graph("Greater", scores, graph.constant(0.0)), scores, graph.constant(zero))
    return graph("Log", positive if floor is None else graph("Max", positive, graph.constant(floor)))


def _convert_calibrator(scope: Any, operator: Any, container: Any) -> None:
    """The probabilities of a calibrator, of scores (n, K), or one column that stands for two classes."""
    calibrator, graph, (variable,) = operator.raw_operator, Graph(scope, container), operator.inputs
    refuse_unknown(calibrator.map_, type(calibrator).__name__)
    refuse_members(calibrator, "an ONNX file")
    n_classes, width = len(calibrator.classes_), _width(variable)
    if width not in (None, n_classes) and not (width == 1 and n_classes == 2):
        raise InputError("initial_types", f"have {n_classes} columns, one per class", got=f"{width}")
    scores = graph.in_double(variable.full_name)
    if width == 1:
        value = graph("Reshape", scores, graph.constant([-1, 1]))
        nothing = graph("Mul", value, graph.constant(0.0))
        other = nothing if calibrator.input_ == "logits" else graph("Sub", graph.constant(1.0), value)
        scores = graph("Concat", other, value, axis=1)
    is_double = isinstance(variable.type, DoubleTensorType)
    zero = _TINY if is_double else float(np.finfo(np.float32).smallest_normal)
    logits = _logits(graph, scores, calibrator.input_, calibrator.floor_, zero)
    mapped = exponents(graph, calibrator.map_, logits)
    ranked = scores if calibrator.map_.keeps_predictions else mapped
    _put_out(graph, operator, graph.softmax(mapped), ranked)


def _width(variable: Any) -> int | None:
    """How many columns the scores have; a flat array is one."""
    shape = variable.type.shape
    return 1 if len(shape) == 1 else shape[1]


def _put_out(graph: Graph, operator: Any, probabilities: str, ranked: str) -> None:
    """The outputs: the label of the largest entry of each row, and probabilities."""
    label, probability = operator.outputs
    classes = np.asarray(get_label_classes(operator.scope_inst, operator.raw_operator))
    named = classes.astype(str) if classes.dtype.kind in "OUS" else classes.astype(np.int64)
    place = graph("ArgMax", ranked, axis=1, keepdims=0)
    graph("Gather", graph.constant(named), place, axis=0, result=label.full_name)
    graph("Cast", probabilities, to=guess_proto_type(probability.type), result=probability.full_name)


def _described(model: Any, calibrator: Calibrator) -> str:
    return f"{type(model).__name__} with {type(calibrator).__name__}"


def _register() -> None:
    """Add the converters to those of skl2onnx."""
    update_registered_converter(
        CalibratedClassifier,
        "NishimoriCalibratedClassifier",
        _set_shapes,
        _convert_classifier,
        options=_OPTIONS,
    )
    places = [method.place for method in METHODS.values()]
    for class_ in {FixedMap, FixedTemperature, *(import_object(f"nishimori._calibrators.{place}") for place in places)}:
        update_registered_converter(class_, f"Nishimori{class_.__name__}", _set_shapes, _convert_calibrator, options=_OPTIONS)


_register()
