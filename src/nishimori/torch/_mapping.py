"""Maps with more parameters than one temperature, as modules of PyTorch.

Each module computes what the map of the same kind computes, in float32 at least and with gradients. Its parameters are
buffers, so they are saved, loaded and moved with the weights of the network.
"""

import json
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from nishimori._inputs import Groups
from nishimori._maps import Affine, ClassTemperatures, GroupTemperatures, Map
from nishimori.errors import InputError
from nishimori.torch._exact import ExactBuffers
from nishimori.torch._logits import wide_dtype


class MapModule(ExactBuffers, ABC):
    """A map whose parameters are ``tensors`` by name."""

    names: ClassVar[frozenset[str]]
    """The parameters that it always has."""

    optional: ClassVar[frozenset[str]] = frozenset()
    """Those that it may have besides."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        for name, each in tensors.items():
            self.register_buffer(name, each)

    @property
    @abstractmethod
    def map(self) -> Map:
        """The same map, with its parameters rounded to float32."""

    @property
    def n_classes(self) -> int | None:
        """How many classes the logits must have; None if it does not matter."""
        return None

    @property
    def keeps_predictions(self) -> bool:
        """Whether the largest logit of each row stays the largest."""
        return True

    @abstractmethod
    def described(self) -> str:
        """The kind of the map and the number of its classes, for messages."""

    @abstractmethod
    def forward(self, logits: Tensor, groups: Any = None) -> Tensor:
        """The calibrated logits in float32 at least, of the shape of ``logits``. A score z means the logits (0, z)."""

    def check(self, logits: Tensor) -> None:
        """Refuse logits with another number of classes."""
        if not self._are_scores(logits) and (logits.ndim < 2 or _last_size(logits) != self.n_classes):
            raise InputError(
                f"`model` must return logits with the {self.n_classes} classes of the map in the last dimension, got shape "
                f"{tuple(logits.shape)}."
            )

    def extra_repr(self) -> str:
        """The number of classes, for ``print``."""
        return f"n_classes={self.n_classes}"

    def _get_name(self) -> str:
        return type(self).__name__.removesuffix("Module")

    def _are_scores(self, logits: Tensor) -> bool:
        return self.n_classes == 2 and (logits.ndim < 2 or _last_size(logits) == 1)

    def _by_row(self, logits: Tensor, rule: Callable[[Tensor], Tensor]) -> Tensor:
        """``rule`` of the logits (..., n_classes), which are (0, z) for a score z; of the shape of ``logits``."""
        self.check(logits)
        wide = logits.to(wide_dtype(logits))
        if not self._are_scores(logits):
            return rule(wide)
        both = rule(torch.stack([torch.zeros_like(wide), wide], dim=-1))
        return both[..., 1] - both[..., 0]

    def _at(self, name: str, logits: Tensor) -> Tensor:
        """A parameter on the device of the logits, which may differ where a network is spread over devices."""
        return self.get_buffer(name).to(device=logits.device, dtype=logits.dtype)


class ClassTemperaturesModule(MapModule):
    """Division by the temperature of the predicted class."""

    names = frozenset({"temperatures"})

    @property
    def map(self) -> ClassTemperatures:
        return ClassTemperatures(_host(self.get_buffer("temperatures")))

    @property
    def n_classes(self) -> int:
        return _last_size(self.get_buffer("temperatures"))

    def described(self) -> str:
        return f"one temperature per predicted class for {self.n_classes} classes"

    def forward(self, logits: Tensor, groups: Any = None) -> Tensor:  # noqa: ARG002 - the same for all
        """The logits of each row, divided by the temperature of its largest one."""
        return self._by_row(logits, self._rows)

    def _rows(self, logits: Tensor) -> Tensor:
        return logits / self._at("temperatures", logits)[logits.argmax(dim=-1)][..., None]


class GroupTemperaturesModule(MapModule):
    """Division by the temperature of the group of each row.

    The names of the groups are a buffer too, as the bytes of a JSON list: every format of weights can hold it, and reading it
    runs no code.
    """

    names = frozenset({"groups", "temperatures", "common"})

    @property
    def map(self) -> GroupTemperatures:
        names = json.loads(bytes(self.get_buffer("groups").cpu().tolist()).decode())
        return GroupTemperatures(tuple(names), _host(self.get_buffer("temperatures")), float(self.get_buffer("common")))

    def described(self) -> str:
        return "one temperature per group"

    def check(self, logits: Tensor) -> None:
        """Any number of classes will do."""
        if not logits.ndim:
            raise InputError("`model` must return logits of shape (n, n_classes) or (n,), got a single number.")

    def forward(self, logits: Tensor, groups: Any = None) -> Tensor:
        """The logits, divided by the temperature of the group of each entry of the first dimension."""
        self.check(logits)
        wide = logits.to(wide_dtype(logits))
        by_row: Tensor = self._temperatures(wide, groups)
        return wide / by_row.reshape(-1, *[1] * (wide.ndim - 1))

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _temperatures(self, logits: Tensor, groups: Any) -> Tensor:
        """The temperature of each row. The names are looked up on the host, so this is not part of a compiled graph."""
        if _is_in_graph():
            raise InputError(
                "`calibrated` must not have one temperature per group to be exported, because names of groups are looked up "
                "outside of the graph. Export one network per group: `Calibrated(model, T)` with the T of the group."
            )
        if groups is None:
            raise InputError(
                "`groups` must name the group of each sample, because each group has its own temperature. Pass them by name "
                "after the arguments of the network: `calibrated(x, groups=groups)`."
            )
        known, map_ = Groups.coded(groups, len(logits)), self.map
        map_.warn_of_others(known)
        places = {name: place for place, name in enumerate(map_.groups)}
        chosen = torch.as_tensor([places.get(name, len(places)) for name in known.names], dtype=torch.int64)
        at = chosen[torch.as_tensor(known.codes)].to(logits.device)
        return torch.cat([self._at("temperatures", logits), self._at("common", logits)[None]])[at]

    def extra_repr(self) -> str:
        """The number of groups, for ``print``."""
        return f"n_groups={len(self.get_buffer('temperatures'))}"


class AffineModule(MapModule):
    """A number, a diagonal or a matrix times the centred logits, plus a bias per class."""

    names = frozenset({"scale", "bias"})
    optional = frozenset({"fallback"})

    @property
    def map(self) -> Affine:
        fallback = self._buffers.get("fallback")
        parts = _host(self.get_buffer("scale")), _host(self.get_buffer("bias"))
        return Affine(*parts, None if fallback is None else float(fallback))

    @property
    def n_classes(self) -> int:
        return _last_size(self.get_buffer("bias"))

    @property
    def keeps_predictions(self) -> bool:
        return "fallback" in self._buffers

    def described(self) -> str:
        return f"an affine map for {self.n_classes} classes"

    def forward(self, logits: Tensor, groups: Any = None) -> Tensor:  # noqa: ARG002 - the same for all
        """The affine function of each row; the fallback, if there is one, divides rows whose top class would change."""
        return self._by_row(logits, self._rows)

    def _rows(self, logits: Tensor) -> Tensor:
        drops = logits - logits.amax(dim=-1, keepdim=True)
        _check_unmasked(drops)
        centred, scale = drops - drops.mean(dim=-1, keepdim=True), self._at("scale", logits)
        mapped = (_product(centred, scale) if scale.ndim == 2 else centred * scale) + self._at("bias", logits)
        if "fallback" not in self._buffers:
            return mapped
        same = mapped.argmax(dim=-1, keepdim=True) == logits.argmax(dim=-1, keepdim=True)
        return torch.where(same, mapped, drops / self._at("fallback", logits))

    def extra_repr(self) -> str:
        """The number of classes and what multiplies the logits, for ``print``."""
        scale = ("number", "diagonal", "matrix")[self.get_buffer("scale").ndim]
        return f"n_classes={self.n_classes}, scale={scale}{', preserve_accuracy=True' if 'fallback' in self._buffers else ''}"


def module_for(map_: Map, device: torch.device | None) -> MapModule:
    """A map as a module, with its parameters on ``device``."""
    if isinstance(map_, Affine):
        parts = {"scale": map_.scale, "bias": map_.bias}
        fallback = {} if map_.fallback is None else {"fallback": map_.fallback}
        return AffineModule(_single({**parts, **fallback}, device))
    if isinstance(map_, ClassTemperatures):
        return ClassTemperaturesModule(_single({"temperatures": map_.temperatures}, device))
    if isinstance(map_, GroupTemperatures):
        text = torch.frombuffer(bytearray(json.dumps(map_.groups).encode()), dtype=torch.uint8).to(device)
        divisors = _single({"temperatures": map_.temperatures, "common": map_.common}, device)
        return GroupTemperaturesModule({"groups": text, **divisors})
    raise InputError(
        f"The map must be a Temperature, ClassTemperatures, GroupTemperatures or Affine, got a {type(map_).__name__}, which "
        "PyTorch modules cannot apply. Use the calibrator itself on the logits that `collect` returns."
    )


def module_like(tensors: Mapping[str, Tensor], device: torch.device | None) -> MapModule | None:
    """An empty module for the parameters of a state dict; None if they are not those of a map."""
    empty = {
        name: torch.empty_like(each, dtype=torch.float32 if each.is_floating_point() else None, device=device)
        for name, each in tensors.items()
    }
    present = frozenset(tensors)
    for kind in (ClassTemperaturesModule, GroupTemperaturesModule, AffineModule):
        if kind.names <= present <= kind.names | kind.optional:
            return kind(empty)
    return None


def _single(parts: Mapping[str, Any], device: torch.device | None) -> dict[str, Tensor]:
    """Parameters in float32, if it holds them."""
    found = {}
    for name, values in parts.items():
        exact = torch.tensor(values, dtype=torch.float64, device="cpu")
        rounded = exact.to(torch.float32)
        # A temperature that becomes zero would divide by it; those of all other parameters may be rounded to zero.
        if not rounded.isfinite().all() or (name in ("temperatures", "common", "fallback") and not (rounded > 0).all()):
            raise InputError(f"`{name}` of the map must hold numbers that float32 can hold, got {values!r:.60}.")
        found[name] = rounded.to(device)
    return found


def _host(values: Tensor) -> Any:
    return values.detach().cpu().double().numpy()


def _product(x: Tensor, matrix: Tensor) -> Tensor:
    """The matrix times each row, also under autocast, which would multiply in half precision."""
    if not torch.is_autocast_enabled(x.device.type):
        return x @ matrix.T
    with torch.autocast(x.device.type, enabled=False):
        return x @ matrix.T


def _check_unmasked(drops: Tensor) -> None:
    """Refuse masked classes, where values can be looked at: not in a graph, and not on the meta device."""
    captured = drops.is_cuda and torch.cuda.is_current_stream_capturing()
    if not _is_in_graph() and not captured and not drops.is_meta and (drops == -torch.inf).any():
        raise InputError(
            "`model` must return logits without masked classes (-inf), because the affine map adds up several classes. Use a "
            "method with temperatures only, such as 'ec' or 'group'."
        )


def _last_size(values: Tensor) -> int:
    """The size of the last dimension, which tracing records as an operation, with a warning where its value is needed."""
    if not torch.jit.is_tracing():  # type: ignore[attr-defined,no-untyped-call]
        return values.shape[-1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.jit.TracerWarning)  # type: ignore[attr-defined]
        return int(values.shape[-1])


def _is_in_graph() -> bool:
    """Whether operations are recorded for later, by compiling, exporting or tracing."""
    return torch.compiler.is_compiling() or bool(torch.jit.is_tracing())  # type: ignore[attr-defined,no-untyped-call]
