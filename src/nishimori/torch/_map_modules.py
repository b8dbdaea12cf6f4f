"""Maps with more parameters than one temperature as modules of PyTorch, and which module belongs to which map.

Each module computes what the map of the same kind computes, in float32 at least and with gradients. Its parameters are
buffers, so they are saved, loaded and moved with the weights of the network.

`Map.apply` alone would do for all of them, but it computes in float64: 35 ms instead of 19 ms for a vector map of 4096 x 1000
logits on one CPU core. It also looks for masked classes, which no graph can do, and would write its parameters into graphs.
"""

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from nishimori._rows.batch import Groups
from nishimori._support import arrays
from nishimori.errors import InputError
from nishimori.maps.affine import Affine, LogAffine
from nishimori.maps.group_temperatures import ClassTemperatures, GroupTemperatures
from nishimori.maps.kinds import described, find_kind, from_parameters, is_built_in
from nishimori.maps.log_odds import LogOdds
from nishimori.maps.map import Map
from nishimori.maps.mixture import Mixture
from nishimori.maps.tempered import Tempered
from nishimori.torch._logits import check_classes, last_size, wide_dtype


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


class MapModule(ExactBuffers):
    """A map whose parameters are buffers of the same names."""

    kind: ClassVar[type[Map]]
    """The class of the map."""

    words: ClassVar[str]
    """What the map is called in messages, with {n} for the number of classes."""

    per_class: ClassVar[str | None] = None
    """A parameter with one number per class; None if any number of classes will do."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)

    @classmethod
    def names(cls) -> frozenset[str]:
        """The parameters that it has; only a fallback may be left out."""
        return frozenset(parameter.name for parameter in fields(cast("Any", cls.kind)) if parameter.init)

    @classmethod
    def from_map(cls, map_: Map, device: torch.device | None) -> Self:
        """The module of a map of its kind, with its parameters on ``device``."""
        values = {name: getattr(map_, name) for name in cls.names()}
        return cls(single({name: value for name, value in values.items() if value is not None}, device))

    @property
    def map(self) -> Map:
        """The map of the module, with its parameters rounded to float32."""
        values = {name: self.get_buffer(name).detach().cpu().double() for name in self._buffers}
        return self.kind(**{name: value.numpy() if value.ndim else float(value) for name, value in values.items()})

    @property
    def n_classes(self) -> int | None:
        """How many classes the logits must have; None if it does not matter."""
        return None if self.per_class is None else last_size(self.get_buffer(self.per_class))

    @property
    def keeps_predictions(self) -> bool:
        """Whether the largest logit of each row stays the largest."""
        return self.kind.keeps_predictions is True or "fallback" in self._buffers

    def description(self) -> str:
        """The kind of the map and the number of its classes, for messages."""
        return self.words.format(n=self.n_classes)

    def forward(self, logits: Tensor, groups: Any = None) -> Tensor:  # noqa: ARG002 - for those with groups
        """The calibrated logits in float32 at least, of the shape of ``logits``. A score z means the logits (0, z)."""
        self.check(logits)
        wide = logits.to(wide_dtype(logits))
        if self.n_classes not in (None, 2) or (logits.ndim > 1 and last_size(logits) != 1):
            return self.rows(wide)
        both = self.rows(torch.stack([torch.zeros_like(wide), wide], dim=-1))
        return both[..., 1] - both[..., 0]

    def rows(self, logits: Tensor) -> Tensor:
        """The calibrated logits of rows of shape (..., n_classes), in float32 at least."""
        raise NotImplementedError

    def check(self, logits: Tensor) -> None:
        """Refuse logits with another number of classes, if it matters."""
        check_classes(logits, self.n_classes)
        if self.n_classes is None and not logits.ndim:
            raise InputError("model", "return logits of shape (n, n_classes) or (n,)", got="a single number")

    def extra_repr(self) -> str:
        """The number of classes and whether predictions are kept, for ``print``."""
        return f"n_classes={self.n_classes}{', preserve_accuracy=True' if 'fallback' in self._buffers else ''}"

    def _get_name(self) -> str:
        return type(self).__name__.removesuffix("Module")

    def _at(self, name: str, logits: Tensor) -> Tensor:
        """A parameter on the device of the logits, which may differ where a network is spread over devices."""
        return self.get_buffer(name).to(device=logits.device, dtype=logits.dtype)


def single(parts: Mapping[str, Any], device: torch.device | None) -> dict[str, Tensor]:
    """Parameters in float32, if it holds them."""
    tensors = {}
    for name, values in parts.items():
        exact = torch.tensor(values, dtype=torch.float64, device="cpu")
        rounded = exact.to(torch.float32)
        # A temperature that becomes zero would divide by it; those of all other parameters may be rounded to zero.
        if not rounded.isfinite().all() or (
            name in ("temperatures", "temperature", "common", "fallback") and not (rounded > 0).all()
        ):
            raise InputError(f"`{name}` of the map", "hold numbers that float32 can hold", got=f"{values!r:.60}")
        tensors[name] = rounded.to(device)
    return tensors


def _text(content: Any, device: torch.device | None) -> Tensor:
    """The bytes of JSON as a tensor: every format of weights can hold it, and reading it runs no code."""
    return torch.frombuffer(bytearray(json.dumps(content).encode()), dtype=torch.uint8).to(device)


def is_in_graph() -> bool:
    """Whether operations are recorded for later, by compiling, exporting or tracing."""
    return torch.compiler.is_compiling() or bool(torch.jit.is_tracing())  # type: ignore[attr-defined,no-untyped-call]


def _check_unmasked(drops: Tensor, because: str = "the affine map adds up several classes") -> None:
    """Refuse masked classes, where values can be looked at: not in a graph, and not on the meta device."""
    captured = drops.is_cuda and torch.cuda.is_current_stream_capturing()
    if not is_in_graph() and not captured and not drops.is_meta and (drops == -torch.inf).any():
        raise InputError(
            "model",
            f"return logits without masked classes (-inf), because {because}",
            remedy="Use a method with temperatures only, such as 'ec' or 'group'.",
        )


class _WithBiasModule(MapModule):
    """Factors times a function of the logits, plus a bias per class."""

    per_class = "bias"

    def linear_part(self, drops: Tensor) -> Tensor:
        """The calibrated logits without the bias, from logits minus the largest of their row."""
        raise NotImplementedError

    def rows(self, logits: Tensor) -> Tensor:
        """The affine function of each row; the fallback, if there is one, divides rows whose top class would change."""
        drops = logits - logits.amax(dim=-1, keepdim=True)
        _check_unmasked(drops)
        mapped = self.linear_part(drops) + self._at("bias", logits)
        if "fallback" not in self._buffers:
            return mapped
        same = mapped.argmax(dim=-1, keepdim=True) == logits.argmax(dim=-1, keepdim=True)
        return torch.where(same, mapped, drops / self._at("fallback", logits))


def _product(x: Tensor, matrix: Tensor) -> Tensor:
    """The matrix times each row, also under autocast, which would multiply in half precision."""
    if not torch.is_autocast_enabled(x.device.type):
        return x @ matrix.T
    with torch.autocast(x.device.type, enabled=False):
        return x @ matrix.T


class AffineModule(_WithBiasModule):
    """A number, a diagonal or a matrix times the centred logits, plus a bias per class."""

    kind = Affine
    words = "an affine map for {n} classes"

    def linear_part(self, drops: Tensor) -> Tensor:
        centred, scale = drops - drops.mean(dim=-1, keepdim=True), self._at("scale", drops)
        return _product(centred, scale) if scale.ndim == 2 else centred * scale

    def extra_repr(self) -> str:
        """The number of classes and what multiplies the logits, for ``print``."""
        scale = ("number", "diagonal", "matrix")[self.get_buffer("scale").ndim]
        return f"n_classes={self.n_classes}, scale={scale}{', preserve_accuracy=True' if 'fallback' in self._buffers else ''}"


class LogAffineModule(_WithBiasModule):
    """A matrix times the log-probabilities, plus a bias per class."""

    kind = LogAffine
    words = "an affine map of log-probabilities for {n} classes"

    def linear_part(self, drops: Tensor) -> Tensor:
        return _product(drops.log_softmax(dim=-1), self._at("matrix", drops))


class LogOddsModule(MapModule):
    """Zero and a function of the difference of the two logits."""

    kind = LogOdds
    words = "a function of the log-odds of two classes"

    @property
    def n_classes(self) -> int:
        return 2

    def rows(self, logits: Tensor) -> Tensor:
        _check_unmasked(logits, "their log-odds would be infinite")
        s = logits[..., 1] - logits[..., 0]
        a, b, c, square = (self._at(name, logits) for name in ("a", "b", "c", "square"))
        # ln p = -softplus(-s). ONNX has no log-sigmoid, and the logarithm of a sigmoid would be infinite for large scores.
        # s is not squared first: the square of 1e20 is infinite in float32, and the softmax would be NaN.
        mapped = square * s * s + (b * softplus(s) - a * softplus(-s) + c)
        largest = torch.finfo(mapped.dtype).max
        mapped = mapped.clamp(-largest, largest)
        return torch.stack([torch.zeros_like(mapped), mapped], dim=-1)


class MixtureModule(MapModule):
    """The logarithms of the mixed probabilities."""

    kind = Mixture
    words = "a mixture of calibrated, original and uniform probabilities"

    def rows(self, logits: Tensor) -> Tensor:
        live = logits > -torch.inf
        number = live.to(logits.dtype).sum(dim=-1, keepdim=True)
        calibrated = (logits / self._at("temperature", logits)).log_softmax(dim=-1)
        uniform = torch.zeros_like(logits) - number.log()
        parts = torch.stack([calibrated, logits.log_softmax(dim=-1), uniform], dim=-1)
        parts = torch.where(live[..., None], parts, 0.0)  # masked classes would have gradients of NaN
        # A weight of zero has the logarithm -inf, and adds nothing.
        mixed = (parts + self._at("weights", logits).log()).logsumexp(dim=-1)
        return torch.where(live, mixed, -torch.inf)

    def extra_repr(self) -> str:
        """The parameters, for ``print``."""
        if self.get_buffer("weights").is_meta:
            return "on meta"
        weights = ", ".join(f"{weight:.4g}" for weight in self.get_buffer("weights").tolist())
        return f"temperature={float(self.get_buffer('temperature')):.4g}, weights=({weights})"


class ClassTemperaturesModule(MapModule):
    """Division by the temperature of the predicted class."""

    kind = ClassTemperatures
    words = "one temperature per predicted class for {n} classes"
    per_class = "temperatures"

    def rows(self, logits: Tensor) -> Tensor:
        return logits / self._at("temperatures", logits)[logits.argmax(dim=-1)][..., None]


class GroupTemperaturesModule(MapModule):
    """Division by the temperature of the group of each row. The names of the groups are a buffer too, as text."""

    kind = GroupTemperatures
    words = "one temperature per group"

    def __new__(cls, *_: Any) -> Self:
        _keep_lookup_out_of_graphs()  # here and not in `__init__`, which is not called where a module is unpickled
        return super().__new__(cls)

    @classmethod
    def from_map(cls, map_: Map, device: torch.device | None) -> Self:
        divisors = {name: value for name, value in map_.parameters.items() if name != "groups"}
        return cls({"groups": _text(map_.parameters["groups"], device), **single(divisors, device)})

    @property
    def map(self) -> GroupTemperatures:
        names = json.loads(bytes(self.get_buffer("groups").cpu().tolist()).decode())
        temperatures = self.get_buffer("temperatures").detach().cpu().double().numpy()
        return GroupTemperatures(tuple(names), temperatures, float(self.get_buffer("common")))

    def forward(self, logits: Tensor, groups: Any = None) -> Tensor:
        """The logits, divided by the temperature of the group of each entry of the first dimension, or of each position."""
        self.check(logits)
        wide = logits.to(wide_dtype(logits))
        divisors: Tensor = self._temperatures(wide, groups)
        return wide / divisors

    def _temperatures(self, logits: Tensor, groups: Any) -> Tensor:
        """What each row is divided by. The names are looked up on the host, so this is not part of a compiled graph."""
        if is_in_graph():
            raise InputError(
                "calibrated",
                (
                    "not have one temperature per group to be exported, because names of groups are looked up outside of "
                    "the graph"
                ),
                remedy="Export one network per group: `Calibrated(model, T)` with the T of the group.",
            )
        if groups is None:
            raise InputError(
                "groups",
                "name the group of each sample, because each group has its own temperature",
                remedy="Pass them by name after the arguments of the network: `calibrated(x, groups=groups)`.",
            )
        encoded, map_ = encode_groups(groups, logits), self.map
        map_.warn_of_others(encoded)
        places = {name: place for place, name in enumerate(map_.groups)}
        chosen = torch.as_tensor([places.get(name, len(places)) for name in encoded.names], dtype=torch.int64)
        at = chosen[torch.as_tensor(encoded.codes)].to(logits.device)
        divisors = torch.cat([self._at("temperatures", logits), self._at("common", logits)[None]])[at]
        shape = logits.shape[:-1] if len(at) > len(logits) else logits.shape[:1]
        return divisors.reshape(*shape, *[1] * (logits.ndim - len(shape)))

    def extra_repr(self) -> str:
        """The number of groups, for ``print``."""
        return f"n_groups={len(self.get_buffer('temperatures'))}"


@functools.cache
def _keep_lookup_out_of_graphs() -> None:
    """Let compilers call the lookup of groups, which they cannot compile. The first module with groups does this for all.

    It is not a decorator of the method, because ``torch.compiler.disable`` imports the compiler, which takes seconds.
    """
    GroupTemperaturesModule._temperatures = torch.compiler.disable(GroupTemperaturesModule._temperatures)  # type: ignore[method-assign,no-untyped-call]


def encode_groups(groups: Any, logits: Tensor) -> Groups:
    """The group of each entry of the first dimension of the logits or, if there are as many, of each position."""
    leading = tuple(logits.shape[:-1])
    try:
        each_position = len(leading) > 1 and tuple(np.shape(groups)) == leading
    except ValueError:  # rows of different lengths, which are refused below
        each_position = False
    flat = arrays.on_host(arrays.as_array(groups)).reshape(-1) if each_position else groups
    return Groups.from_names(flat, len(flat) if each_position else len(logits))


class OwnMapModule(MapModule):
    """A map without a module of its own, computed by its `apply`, which takes tensors as it takes arrays.

    It is a registered map of the user's own, or one with a temperature after it. Its kind and parameters are a buffer, as text:
    reading it runs no code but the constructor of the class that is registered under that kind.
    """

    _map: Map | None = None  # None until it is read from the buffer

    @classmethod
    def names(cls) -> frozenset[str]:
        return frozenset({"registered_map"})

    @classmethod
    def from_map(cls, map_: Map, device: torch.device | None) -> Self:
        content = {name: value for name, value in described(map_).items() if name != "class"}
        module = cls({"registered_map": _text(content, device)})
        module._map = map_
        return module

    @property
    def map(self) -> Map:
        if self._map is None:
            self._map = _read_map(bytes(self.get_buffer("registered_map").cpu().tolist()))
        return self._map

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *args)
        self._map = None
        if self.is_known:
            self._map = self.map

    @property
    def n_classes(self) -> int | None:
        return self.map.n_classes

    @property
    def keeps_predictions(self) -> bool:
        return self.map.keeps_predictions

    @property
    def is_known(self) -> bool:
        """Whether its kind can be told; not on the meta device, where the buffer is empty."""
        return self._map is not None or not self.get_buffer("registered_map").is_meta

    def description(self) -> str:
        return f"a map of the kind {self.map.kind!r}" if self.is_known else "a registered map"

    def rows(self, logits: Tensor) -> Tensor:
        flat = logits.reshape(-1, logits.shape[-1])
        mapped = self.map.apply(flat)
        if not isinstance(mapped, Tensor) or (not is_in_graph() and mapped.shape != flat.shape):
            got = f"shape {tuple(mapped.shape)}" if isinstance(mapped, Tensor) else f"a {type(mapped).__name__}"
            name = type(self.map).__name__
            raise InputError(f"{name}.apply", f"return a tensor of the shape of `logits`, {tuple(flat.shape)}", got=got)
        return mapped.to(logits.dtype).reshape(logits.shape)

    def extra_repr(self) -> str:
        """The kind and the parameters, for ``print``."""
        if self._map is None:
            return "not loaded"
        parameters = (f"{name}={value!r:.40}" for name, value in self._map.parameters.items())
        return ", ".join([f"kind={self._map.kind!r}", *parameters])


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


_MODULES: dict[type[Map], type[MapModule]] = {
    module.kind: module
    for module in (
        *(ClassTemperaturesModule, GroupTemperaturesModule, AffineModule, LogOddsModule, MixtureModule),
        LogAffineModule,
    )
}


def module_for(map_: Map, device: torch.device | None) -> MapModule:
    """A map as a module, with its parameters on ``device``."""
    kind = _MODULES.get(type(map_))
    if isinstance(map_, Tempered) and type(map_.inner) in _MODULES:
        return OwnMapModule.from_map(map_, device)
    if kind is None and not is_built_in(map_.inner if isinstance(map_, Tempered) else map_):
        if map_.needs_groups:
            raise InputError("The map", "not need groups, if it is one of your own", got=f"a {type(map_).__name__}")
        return OwnMapModule.from_map(map_, device)
    if kind is None:
        names = ", ".join(map_kind.__name__ for map_kind in _MODULES)
        raise InputError(
            "The map",
            f"be one of Temperature, {names}, or of a registered class of your own",
            got=f"a {type(map_).__name__}, which PyTorch modules cannot apply",
            remedy="Use another method, such as 'matrix', or `nishimori.Best([...])` without 'isotonic'; or use the calibrator "
            "itself on the logits that `collect` returns.",
        )
    return kind.from_map(map_, device)


def module_like(tensors: Mapping[str, Tensor], device: torch.device | None) -> MapModule | None:
    """An empty module for the parameters of a state dict; None if they are not those of a map."""
    # Texts are copied, because they say which map it is, and numbers are loaded later.
    empty = {
        name: torch.empty_like(tensor, dtype=torch.float32, device=device)
        if tensor.is_floating_point()
        else tensor.to(device, copy=True)
        for name, tensor in tensors.items()
    }
    modules: tuple[type[MapModule], ...] = (*_MODULES.values(), OwnMapModule)
    for module in modules:
        if module.names() - {"fallback"} <= set(tensors) <= module.names():
            return module(empty)
    return None
