"""Maps as operators of ONNX: the formula of each kind of map, in float64.

In ONNX a name stands for a table of shape (n, n_classes). `Graph` adds an operator and gives the name of its result.
"""

from collections.abc import Callable
from functools import reduce
from math import inf, log
from typing import Any

import numpy as np
from onnx import TensorProto

from nishimori._support.arrays import HostArray
from nishimori.errors import InputError
from nishimori.maps.affine import Affine, LogAffine, WithBias
from nishimori.maps.around import Shifted, Tempered, layers
from nishimori.maps.class_curves import EDGE_ROUNDING, ClassCurves
from nishimori.maps.kinds import is_built_in
from nishimori.maps.log_odds import LogOdds
from nishimori.maps.map import Map
from nishimori.maps.mixture import Mixture
from nishimori.maps.temperature import ClassTemperatures, Temperature

_TYPES = {"f": TensorProto.DOUBLE, "i": TensorProto.INT64, "U": TensorProto.STRING}

# The first version of ONNX in which a reduction takes its axes as an input.
_AXES_AS_INPUT = {"ReduceSum": 13, "ReduceMax": 18, "ReduceMean": 18}


class Graph:
    """Adds operators to what skl2onnx builds."""

    def __init__(self, scope: Any, container: Any) -> None:
        self._scope, self._container = scope, container

    def __call__(self, operator: str, *inputs: str, result: str | None = None, **attributes: Any) -> str:
        """Add an operator; the name of its result, which is ``result`` if that is passed."""
        name = result or self._scope.get_unique_variable_name("calibrated")
        named = self._scope.get_unique_operator_name(operator)
        self._container.add_node(operator, list(inputs), [name], name=named, op_domain="", op_version=None, **attributes)
        return name

    def constant(self, values: Any) -> str:
        """The name of numbers, whole numbers or text."""
        array = np.asarray(values)
        name: str = self._scope.get_unique_variable_name("parameter")
        content = [text.encode() for text in array.ravel().tolist()] if array.dtype.kind == "U" else array.ravel().tolist()
        self._container.add_initializer(name, _TYPES[array.dtype.kind], list(array.shape), content)
        return name

    def over_classes(self, operator: str, table: str) -> str:
        """A reduction of each row to one number, as a column."""
        if self._container.target_opset >= _AXES_AS_INPUT[operator]:
            return self(operator, table, self.constant([1]), keepdims=1)
        return self(operator, table, axes=[1], keepdims=1)

    def in_double(self, name: str) -> str:
        """Numbers in float64."""
        return self("Cast", name, to=TensorProto.DOUBLE)

    def column(self, table: str, place: int) -> str:
        """One column, as a column."""
        return self("Gather", table, self.constant([place]), axis=1)

    def predicted(self, table: str) -> str:
        """The number of the largest entry of each row, the first of equal ones, as a column."""
        return self("ArgMax", table, axis=1, keepdims=1)

    def drops(self, table: str) -> str:
        """Each row minus its largest entry."""
        return self("Sub", table, self.over_classes("ReduceMax", table))

    def softmax(self, drops: str) -> str:
        """Of rows whose largest entry is zero."""
        weights = self("Exp", drops)
        return self("Div", weights, self.over_classes("ReduceSum", weights))

    def log_softmax(self, drops: str) -> str:
        """The logarithm of the softmax of rows whose largest entry is zero."""
        return self("Sub", drops, self("Log", self.over_classes("ReduceSum", self("Exp", drops))))


def exponents(graph: Graph, map_: Map, logits: str) -> str:
    """The calibrated logits of each row minus the largest: what a softmax exponentiates."""
    return graph.drops(_FORMULAS[type(map_)](graph, map_, logits))


def refuse_unknown(map_: Map, owner: str) -> None:
    """Refuse a map that has no formula here."""
    for layer in layers(map_):
        if type(layer) not in _FORMULAS:
            because = "names of groups are looked up outside of the graph" if is_built_in(layer) else "it is one of your own"
            raise InputError(
                f"{owner} cannot be written to ONNX by skl2onnx: {layer.in_words} ({type(layer).__name__}) has no converter, "
                f"because {because}. Maps with one: {', '.join(sorted(kind.__name__ for kind in _FORMULAS))}."
            )


def _temperature(graph: Graph, map_: Temperature, logits: str) -> str:
    return graph("Div", graph.drops(logits), graph.constant(map_.temperature))


def _class_temperatures(graph: Graph, map_: ClassTemperatures, logits: str) -> str:
    divisors = graph("Gather", graph.constant(map_.temperatures), graph.predicted(logits), axis=0)
    return graph("Div", graph.drops(logits), divisors)


def _with_bias(graph: Graph, map_: WithBias, logits: str) -> str:
    drops, factors = graph.drops(logits), np.asarray(getattr(map_, map_.factors))
    values = graph.log_softmax(drops) if map_.of_log else graph("Sub", drops, graph.over_classes("ReduceMean", drops))
    scaled = graph("MatMul" if factors.ndim == 2 else "Mul", values, graph.constant(factors.T))
    mapped = graph("Add", scaled, graph.constant(map_.bias))
    if map_.fallback is None:
        return mapped
    is_same = graph("Equal", graph.predicted(mapped), graph.predicted(logits))
    return graph("Where", is_same, mapped, graph("Div", drops, graph.constant(map_.fallback)))


def _log_odds(graph: Graph, map_: LogOdds, logits: str) -> str:
    s = graph("Sub", graph.column(logits, 1), graph.column(logits, 0))
    zero = graph.constant(0.0)
    rest = graph("Log", graph("Add", graph("Exp", graph("Neg", graph("Abs", s))), graph.constant(1.0)))
    log_p = graph("Sub", graph("Min", s, zero), rest)
    minus_log_rest = graph("Add", graph("Max", s, zero), rest)
    terms = [
        graph("Mul", value, graph.constant(slope))
        for value, slope in ((graph("Mul", s, s), map_.square), (log_p, map_.a), (minus_log_rest, map_.b))
        if slope  # a square of zero times an infinite one would be NaN
    ]
    value = reduce(lambda one, other: graph("Add", one, other), terms, graph.constant([[map_.c]]))
    largest = float(np.finfo(np.float64).max)
    second = graph("Max", graph("Min", value, graph.constant(largest)), graph.constant(-largest))
    if not terms:  # the same for all rows
        second = graph("Add", second, graph("Mul", s, zero))
    return graph("Concat", graph("Mul", second, zero), second, axis=1)


def _mixture(graph: Graph, map_: Mixture, logits: str) -> str:
    drops = graph.drops(logits)
    is_live = graph("Greater", logits, graph.constant(-inf))
    n_live = graph.over_classes("ReduceSum", graph.in_double(is_live))
    at_temperature, as_they_are, uniform = map_.weights.tolist()
    parts = []
    if at_temperature:
        parts.append((at_temperature, graph.log_softmax(graph("Div", drops, graph.constant(map_.temperature)))))
    if as_they_are:
        parts.append((as_they_are, graph.log_softmax(drops)))
    if uniform:
        zeros = graph("Mul", graph.in_double(is_live), graph.constant(0.0))
        parts.append((uniform, graph("Sub", zeros, graph("Log", n_live))))
    # Masked classes would become NaN in the sum.
    live = [graph("Where", is_live, part, graph.constant(0.0)) for _, part in parts]
    weighted = [graph("Add", part, graph.constant(log(weight))) for part, (weight, _) in zip(live, parts, strict=True)]
    return graph("Where", is_live, reduce(lambda one, other: _log_of_sum(graph, one, other), weighted), graph.constant(-inf))


def _log_of_sum(graph: Graph, one: str, other: str) -> str:
    """The logarithm of the sum of what has these finite logarithms."""
    distance = graph("Abs", graph("Sub", one, other))
    rest = graph("Log", graph("Add", graph("Exp", graph("Neg", distance)), graph.constant(1.0)))
    return graph("Add", graph("Max", one, other), rest)


def _class_curves(graph: Graph, map_: ClassCurves, logits: str) -> str:
    claimed = graph.softmax(graph.drops(logits))
    curve = _linear if map_.interpolation == "linear" else _constant
    curves = list(zip(map_.knots, map_.values, strict=True))
    if map_.n_classes == 2:
        second = curve(graph, graph.column(claimed, 1), *curves[0])
        columns = [graph("Sub", graph.constant(1.0), second), second]
    else:
        columns = [curve(graph, graph.column(claimed, place), *of_class) for place, of_class in enumerate(curves)]
    live = graph.in_double(graph("Greater", logits, graph.constant(-inf)))
    calibrated = graph("Mul", graph("Concat", *columns, axis=1), live)
    total = graph.over_classes("ReduceSum", calibrated)
    is_some = graph("Greater", total, graph.constant(0.0))
    return graph("Log", graph("Where", is_some, calibrated, live))  # the softmax divides by the sum


def _linear(graph: Graph, claimed: str, knots: HostArray, values: HostArray) -> str:
    """The values of a curve that is linear between its knots and constant outside."""
    if len(knots) == 1:
        return graph("Add", graph("Mul", claimed, graph.constant(0.0)), graph.constant(values[0]))
    low = graph.constant(knots[:1])
    inside = graph("Min", graph("Max", claimed, low), graph.constant(knots[-1:]))
    # How many of the knots between the first and the last are not above: which piece it is.
    place = _count(graph, graph("GreaterOrEqual", inside, graph.constant(knots[1:-1]))) if len(knots) > 2 else None
    pieces = (knots[:-1], values[:-1], np.diff(values) / np.diff(knots))
    start, value, slope = (graph.constant(piece) for piece in pieces)
    if place is not None:
        start, value, slope = (graph("Gather", piece, place, axis=0) for piece in (start, value, slope))
    return graph("Add", value, graph("Mul", slope, graph("Sub", inside, start)))


def _constant(graph: Graph, claimed: str, edges: HostArray, values: HostArray) -> str:
    """The values of a curve that is constant between its edges; on an edge it is that below."""
    if len(values) == 1:
        return graph("Add", graph("Mul", claimed, graph.constant(0.0)), graph.constant(values[0]))
    place = _count(graph, graph("Greater", claimed, graph.constant(edges[1:-1] * (1 + EDGE_ROUNDING))))
    return graph("Gather", graph.constant(values), place, axis=0)


def _count(graph: Graph, is_so: str) -> str:
    """How many entries of each row are true, as a column of whole numbers."""
    return graph.over_classes("ReduceSum", graph("Cast", is_so, to=TensorProto.INT64))


def _tempered(graph: Graph, map_: Tempered, logits: str) -> str:
    return graph("Div", exponents(graph, map_.inner, logits), graph.constant(map_.temperature))


def _shifted(graph: Graph, map_: Shifted, logits: str) -> str:
    return graph("Add", exponents(graph, map_.inner, logits), graph.constant(map_.bias))


_FORMULAS: dict[type[Map], Callable[[Graph, Any, str], str]] = {
    Temperature: _temperature,
    ClassTemperatures: _class_temperatures,
    Affine: _with_bias,
    LogAffine: _with_bias,
    LogOdds: _log_odds,
    Mixture: _mixture,
    ClassCurves: _class_curves,
    Tempered: _tempered,
    Shifted: _shifted,
}
