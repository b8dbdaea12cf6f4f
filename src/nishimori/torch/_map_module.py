"""What all maps with more parameters than one temperature have in common as modules of PyTorch.

Each module computes what the map of the same kind computes, in float32 at least and with gradients. Its parameters are
buffers, so they are saved, loaded and moved with the weights of the network.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from nishimori.errors import InputError
from nishimori.maps.map import Map
from nishimori.torch._exact import ExactBuffers
from nishimori.torch._logits import check_classes, last_size, wide_dtype


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

    @classmethod
    @abstractmethod
    def of(cls, map_: Any, device: torch.device | None) -> Self:
        """The module of a map of its kind, with its parameters on ``device``."""

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
        check_classes(logits, self.n_classes)

    def extra_repr(self) -> str:
        """The number of classes, for ``print``."""
        return f"n_classes={self.n_classes}"

    def _get_name(self) -> str:
        return type(self).__name__.removesuffix("Module")

    def _are_scores(self, logits: Tensor) -> bool:
        return self.n_classes == 2 and (logits.ndim < 2 or last_size(logits) == 1)

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


def single(parts: Mapping[str, Any], device: torch.device | None) -> dict[str, Tensor]:
    """Parameters in float32, if it holds them."""
    found = {}
    for name, values in parts.items():
        exact = torch.tensor(values, dtype=torch.float64, device="cpu")
        rounded = exact.to(torch.float32)
        # A temperature that becomes zero would divide by it; those of all other parameters may be rounded to zero.
        if not rounded.isfinite().all() or (
            name in ("temperatures", "temperature", "common", "fallback") and not (rounded > 0).all()
        ):
            raise InputError(f"`{name}` of the map must hold numbers that float32 can hold, got {values!r:.60}.")
        found[name] = rounded.to(device)
    return found


def host(values: Tensor) -> Any:
    return values.detach().cpu().double().numpy()


def is_in_graph() -> bool:
    """Whether operations are recorded for later, by compiling, exporting or tracing."""
    return torch.compiler.is_compiling() or bool(torch.jit.is_tracing())  # type: ignore[attr-defined,no-untyped-call]
