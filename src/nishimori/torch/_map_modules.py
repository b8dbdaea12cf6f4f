"""Maps with more parameters than one temperature as modules of PyTorch, and which module belongs to which map.

A map of the library has a formula in the array API, which its `apply` computes in float64. Here the same formula is computed
in float32 at least, because `apply` takes 1.5 to 4 times as long. Compared with a module for each map, this one takes up to
1.1 times as long, except with two classes: 1.12 times for eager temperatures of classes, and 1.57 times, or 20 microseconds
more, for a compiled mixture. The parameters are buffers, so they are saved, loaded and moved with the weights of the network,
and are no constants in a graph. Masked classes are looked for outside of graphs only.
"""

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from math import prod
from typing import Any, Self, cast

import numpy as np
import torch
from torch import Tensor, nn

from nishimori._rows.batch import Groups
from nishimori._support import arrays
from nishimori._support.arrays import HostArray
from nishimori.errors import InputError
from nishimori.maps.affine import Affine, LogAffine
from nishimori.maps.around import innermost
from nishimori.maps.kinds import described, find_kind, from_parameters, is_built_in
from nishimori.maps.log_odds import LogOdds
from nishimori.maps.map import Map
from nishimori.maps.mixture import Mixture
from nishimori.maps.temperature import ClassTemperatures, GroupTemperatures
from nishimori.torch._run import last_size, refuse_number, wide_dtype


class ExactBuffers(nn.Module):
    """A module whose own floating-point buffers stay in float32. They are moved, saved and loaded as usual."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        before = dict(self._buffers)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        # Restore the old values, because a cast to half precision would round them. A meta tensor has no values.
        for name, old in before.items():
            after = self._buffers[name]
            if old is not None and after is not None and old.is_floating_point():
                self._buffers[name] = after.to(torch.float32) if old.is_meta else old.to(after.device)
        return self

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *args)
        for name, buffer in self._buffers.items():  # `assign=True` takes over the dtype of the file
            if buffer is not None and buffer.is_floating_point():
                self._buffers[name] = buffer.to(torch.float32)


arrays.namespace(torch.empty(0))  # looked up before a compiler meets it

# The maps of the library that have a formula for PyTorch, and how many classes the logits must have: their number, or the
# parameter with one entry per class; None if it does not matter.
_KINDS: dict[type[Map], str | int | None] = {
    ClassTemperatures: "temperatures",
    GroupTemperatures: None,
    Affine: "bias",
    LogOdds: 2,
    Mixture: None,
    LogAffine: "bias",
}

# Why no class may be masked.
_NEEDS_ALL: dict[type[Map], str] = {
    **dict.fromkeys((Affine, LogAffine), "the affine map adds up several classes"),
    LogOdds: "their log-odds would be infinite",
}


class MapModule(ExactBuffers):
    """A map of the library, whose parameters are buffers of the same names."""

    def __init__(self, kind: Any, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.kind = kind
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)

    @property
    def map(self) -> Map:
        """The map of the module, with its parameters rounded to float32."""
        values = {name: buffer.detach().cpu().double() for name, buffer in self.named_buffers()}
        map_: Map = self.kind(**{name: value.numpy() if value.ndim else float(value) for name, value in values.items()})
        return map_

    @property
    def n_classes(self) -> int | None:
        """How many classes the logits must have; None if it does not matter."""
        n_classes = _KINDS[self.kind]
        return last_size(self.get_buffer(n_classes)) if isinstance(n_classes, str) else n_classes

    @property
    def keeps_predictions(self) -> bool:
        """Whether the largest logit of each row stays the largest."""
        return self.kind.keeps_predictions is True or "fallback" in self._buffers

    def forward(self, logits: Tensor, groups: Any = None) -> Tensor:  # noqa: ARG002 - for those with groups
        """The calibrated logits in float32 at least, of the shape of ``logits``. A score z means the logits (0, z)."""
        n_classes = self.n_classes  # of the logits too, which `Calibrated` has checked
        wide = refuse_number(logits).to(wide_dtype(logits))
        if n_classes not in (None, 2) or (logits.ndim > 1 and last_size(logits) != 1):
            return self.rows(wide) if wide.ndim == 2 else self.rows(wide.reshape(-1, wide.shape[-1])).reshape(wide.shape)
        both = self.rows(torch.stack([torch.zeros_like(wide), wide], dim=-1).reshape(-1, 2))
        return (both[:, 1] - both[:, 0]).reshape(wide.shape)

    def rows(self, logits: Tensor) -> Tensor:
        """The calibrated logits of a table of shape (n, n_classes), in float32 at least."""
        if self.kind in _NEEDS_ALL:
            _check_unmasked(logits, _NEEDS_ALL[self.kind])
        # The map may be on another device than the logits, where a network is spread over devices.
        parameters = {name: cast("Tensor", buffer).to(logits) for name, buffer in self._buffers.items()}
        if not torch.is_autocast_enabled(logits.device.type):
            return cast("Tensor", self.kind.formula(logits, **parameters))
        with torch.autocast(logits.device.type, enabled=False):  # which would multiply in half precision
            return cast("Tensor", self.kind.formula(logits, **parameters))

    def extra_repr(self) -> str:
        """What ``print`` shows: the number of classes, if it matters, and the options."""
        buffers = dict(self.named_buffers())
        parts = [] if self.n_classes is None else [f"n_classes={self.n_classes}"]
        if "scale" in buffers:
            parts.append(f"scale={('number', 'diagonal', 'matrix')[buffers['scale'].ndim]}")
        return ", ".join(parts + ["preserve_accuracy=True"] * ("fallback" in buffers))

    def _get_name(self) -> str:
        return cast("str", self.kind.__name__)


def is_in_graph() -> bool:
    """Whether operations are recorded for later, by compiling, exporting or tracing."""
    return torch.compiler.is_compiling() or bool(torch.jit.is_tracing())  # type: ignore[attr-defined,no-untyped-call]


def _check_unmasked(logits: Tensor, because: str) -> None:
    """Refuse masked classes, where values can be looked at: not in a graph, and not on the meta device."""
    captured = logits.is_cuda and torch.cuda.is_current_stream_capturing()
    if not is_in_graph() and not captured and not logits.is_meta and (logits == -torch.inf).any():
        raise InputError(
            "model",
            f"return logits without masked classes (-inf), because {because}",
            remedy="Use a method with temperatures only, such as 'ec' or 'group'.",
        )


class GroupTemperaturesModule(MapModule):
    """Division by the temperature of the group of each row. The names of the groups are a buffer too, as text."""

    def __new__(cls, *_: Any) -> Self:
        _keep_lookup_out_of_graphs()  # here and not in `__init__`, which is not called where a module is unpickled
        return super().__new__(cls)

    @property
    def map(self) -> GroupTemperatures:
        names = json.loads(_read_text(self.get_buffer("groups")))
        temperatures = self.get_buffer("temperatures").detach().cpu().double().numpy()
        return GroupTemperatures(tuple(names), temperatures, float(self.get_buffer("common")))

    def forward(self, logits: Tensor, groups: Any = None, *, by_position: bool = False) -> Tensor:
        """The logits, divided by the temperature of the group of each entry of the first dimension, or of each position.

        Where no groups are passed, ``by_position`` makes the positions after the first dimension the groups.
        """
        wide = refuse_number(logits).to(wide_dtype(logits))
        divisors: Tensor = self._temperatures(wide, groups, by_position=by_position)
        return wide / divisors

    def _temperatures(self, logits: Tensor, groups: Any, *, by_position: bool) -> Tensor:
        """What each row is divided by. The names are looked up on the host, so this is not part of a compiled graph."""
        if is_in_graph():
            raise InputError(
                "calibrated",
                "not have one temperature per group to be exported: names of groups are looked up outside of the graph",
                remedy="Export one network per group: `Calibrated(model, T)` with the T of the group.",
            )
        if groups is None and by_position:
            places = positions(logits)
            encoded = Groups(places.reshape(-1), tuple(range(places.size)))  # those without a temperature have the common one
            divisors = self.map.divisor(np.empty((places.size, 0)), encoded)
            return torch.as_tensor(divisors).to(logits).reshape(1, *places.shape, 1)
        if groups is None:
            raise InputError(
                "groups",
                "name the group of each sample, because each group has its own temperature",
                remedy="Pass them by name after the arguments of the network: `calibrated(x, groups=groups)`.",
            )
        encoded, map_ = encode_groups(groups, logits), self.map
        map_.warn_of_others(encoded)
        temperatures = torch.as_tensor(map_.divisor(np.empty((len(encoded.codes), 0)), encoded)).to(logits)
        shape = logits.shape[:-1] if len(temperatures) > len(logits) else logits.shape[:1]
        return temperatures.reshape(*shape, *[1] * (logits.ndim - len(shape)))


@functools.cache
def _keep_lookup_out_of_graphs() -> None:
    """Let compilers call the lookup of groups, which they cannot compile. The first module with groups does this for all.

    It is not a decorator of the method, because ``torch.compiler.disable`` imports the compiler, which takes seconds.
    """
    GroupTemperaturesModule._temperatures = torch.compiler.disable(GroupTemperaturesModule._temperatures)  # type: ignore[method-assign,no-untyped-call]


def positions(logits: Tensor) -> HostArray:
    """The place of each row in its sequence, or of each pixel in its image; ``logits`` have their classes last."""
    inner = tuple(logits.shape[1:-1])
    if not inner:
        must = "be False where logits have one row per sample, as in shape (n, n_classes)"
        raise InputError("groups_by_position", must, got=f"True for shape {tuple(logits.shape)}")
    places: HostArray = np.arange(prod(inner)).reshape(inner)
    return places


def encode_groups(groups: Any, logits: Tensor) -> Groups:
    """The group of each entry of the first dimension of the logits or, if there are as many, of each position."""
    leading = tuple(logits.shape[:-1])
    each_position = len(leading) > 1 and tuple(np.shape(groups)) == leading
    flat = arrays.on_host(arrays.as_array(groups)).reshape(-1) if each_position else groups
    return Groups.from_names(flat, len(flat) if each_position else len(logits))


class OwnMapModule(MapModule):
    """A map without a formula for PyTorch, computed by its `apply`, which takes tensors as it takes arrays.

    It is a registered map of the user's own, or one with a temperature after it. Its kind and parameters are a buffer, as text:
    reading it runs no code but the constructor of the class that is registered under that kind.
    """

    def __init__(self, text: Tensor, map_: Map | None = None) -> None:
        super().__init__(Map, {"registered_map": text})
        self._map = map_  # None until it is read from the buffer

    @property
    def map(self) -> Map:
        if self._map is None:
            self._map = _read_map(_read_text(self.get_buffer("registered_map")))
        return self._map

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *args)
        self._map = None
        if not self.get_buffer("registered_map").is_meta:  # where it is empty
            self._map = self.map

    @property
    def n_classes(self) -> int | None:
        return self.map.n_classes

    @property
    def keeps_predictions(self) -> bool:
        return self.map.keeps_predictions

    def rows(self, logits: Tensor) -> Tensor:
        mapped = self.map.apply(logits)
        if not isinstance(mapped, Tensor) or (not is_in_graph() and mapped.shape != logits.shape):
            got = f"shape {tuple(mapped.shape)}" if isinstance(mapped, Tensor) else f"a {type(mapped).__name__}"
            name = type(self.map).__name__
            raise InputError(f"{name}.apply", f"return a tensor of the shape of `logits`, {tuple(logits.shape)}", got=got)
        return mapped.to(logits.dtype)

    def extra_repr(self) -> str:
        """The kind, for ``print``."""
        return "not loaded" if self._map is None else f"kind={self._map.kind!r}"


def _read_map(text: bytes) -> Map:
    """The map that a buffer describes."""
    try:
        content = json.loads(text)
        kind, parameters = content["kind"], content["parameters"]
    except (ValueError, TypeError, KeyError):
        raise InputError(f"The state dict holds a map that cannot be read: {text!r:.60}. Save it again.") from None
    if find_kind(kind) is None:
        raise InputError(
            f"The state dict holds a map of the kind {kind!r:.60}, which is not registered here. Import the module that "
            "calls `nishimori.register` for it before you load the state dict."
        )
    return from_parameters(kind, parameters)


_MODULES: dict[type[Map], type[MapModule]] = {GroupTemperatures: GroupTemperaturesModule}
"""The modules of kinds that need more than a formula."""


def module_for(map_: Map, device: torch.device | None) -> MapModule:
    """A map as a module, with its parameters on ``device``."""
    kind, inside = type(map_), innermost(map_)
    if kind in _KINDS:
        values = {name: getattr(map_, name) for name in _names(kind)}
        return _MODULES.get(kind, MapModule)(
            kind, {name: _tensor(name, value, device) for name, value in values.items() if value is not None}
        )
    if is_built_in(inside) and type(inside) not in _KINDS:
        names = ", ".join(map_kind.__name__ for map_kind in _KINDS)
        raise InputError(
            "The map",
            f"be one of Temperature, {names}, or of a registered class of your own",
            got=f"a {kind.__name__}, which PyTorch modules cannot apply",
            remedy="Use another method, such as 'matrix', or `nishimori.Best([...])` without 'isotonic'; or use the calibrator "
            "itself on the logits that `collect` returns.",
        )
    if map_.needs_groups:
        raise InputError("The map", "not need groups, if it is one of your own", got=f"a {kind.__name__}")
    content = {name: value for name, value in described(map_).items() if name != "class"}
    return OwnMapModule(_text(content).to(device), map_)


def module_like(tensors: Mapping[str, Tensor], device: torch.device | None) -> MapModule | None:
    """An empty module for the parameters of a state dict; None if they are not those of a map."""
    # Texts are copied, because they say which map it is, and numbers are loaded later.
    empty = {
        name: torch.empty_like(tensor, dtype=torch.float32, device=device)
        if tensor.is_floating_point()
        else tensor.to(device, copy=True)
        for name, tensor in tensors.items()
    }
    if set(tensors) == {"registered_map"}:
        return OwnMapModule(empty["registered_map"])
    for kind in _KINDS:
        names = _names(kind)
        if {*names} - {"fallback"} <= set(tensors) <= {*names}:
            return _MODULES.get(kind, MapModule)(kind, {name: empty[name] for name in names if name in empty})
    return None


def _names(kind: type[Map]) -> list[str]:
    """The parameters of a kind of map, in order; only a fallback may be left out."""
    return [parameter.name for parameter in fields(cast("Any", kind)) if parameter.init]


def _tensor(name: str, values: Any, device: torch.device | None) -> Tensor:
    """A parameter in float32, if it holds it; names of groups as text."""
    if name == "groups":
        return _text(values).to(device)
    exact = torch.tensor(values, dtype=torch.float64, device="cpu")
    rounded = exact.to(torch.float32)
    # A temperature that becomes zero would divide by it; all other parameters may be rounded to zero.
    divides = name in ("temperatures", "temperature", "common", "fallback")
    if not rounded.isfinite().all() or (divides and not (rounded > 0).all()):
        raise InputError(f"`{name}` of the map", "hold numbers that float32 can hold", got=f"{values!r:.60}")
    return rounded.to(device)


def _text(content: Any) -> Tensor:
    """The bytes of JSON as a tensor: every format of weights can hold it, and reading it runs no code."""
    return torch.frombuffer(bytearray(json.dumps(content).encode()), dtype=torch.uint8)


def _read_text(values: Tensor) -> bytes:
    return bytes(values.cpu().tolist())
