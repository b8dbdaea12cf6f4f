"""What affine maps have in common as modules of PyTorch: factors, a bias per class, and a fallback."""

from abc import abstractmethod
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from nishimori.errors import InputError
from nishimori.maps.with_bias import WithBias
from nishimori.torch._logits import last_size
from nishimori.torch._map_module import MapModule, host, is_in_graph, single


class WithBiasModule(MapModule):
    """Factors times a function of the logits, plus a bias per class."""

    kind: ClassVar[Any]
    """The class of the map."""

    optional = frozenset({"fallback"})

    @classmethod
    def of(cls, map_: WithBias, device: torch.device | None) -> Self:
        parts = {map_.factors: getattr(map_, map_.factors), "bias": map_.bias}
        fallback = {} if map_.fallback is None else {"fallback": map_.fallback}
        return cls(single({**parts, **fallback}, device))

    @property
    def map(self) -> WithBias:
        fallback = self._buffers.get("fallback")
        parts = host(self.get_buffer(self.kind.factors)), host(self.get_buffer("bias"))
        found: WithBias = self.kind(*parts, None if fallback is None else float(fallback))
        return found

    @property
    def n_classes(self) -> int:
        return last_size(self.get_buffer("bias"))

    @property
    def keeps_predictions(self) -> bool:
        return "fallback" in self._buffers

    @abstractmethod
    def multiplied(self, drops: Tensor) -> Tensor:
        """The calibrated logits without the bias, from logits minus the largest of their row."""

    def forward(self, logits: Tensor, groups: Any = None) -> Tensor:  # noqa: ARG002 - the same for all
        """The affine function of each row; the fallback, if there is one, divides rows whose top class would change."""
        return self._by_row(logits, self._rows)

    def _rows(self, logits: Tensor) -> Tensor:
        drops = logits - logits.amax(dim=-1, keepdim=True)
        check_unmasked(drops)
        mapped = self.multiplied(drops) + self._at("bias", logits)
        if "fallback" not in self._buffers:
            return mapped
        same = mapped.argmax(dim=-1, keepdim=True) == logits.argmax(dim=-1, keepdim=True)
        return torch.where(same, mapped, drops / self._at("fallback", logits))

    def extra_repr(self) -> str:
        """The number of classes and whether predictions are kept, for ``print``."""
        return f"n_classes={self.n_classes}{', preserve_accuracy=True' if 'fallback' in self._buffers else ''}"


def product(x: Tensor, matrix: Tensor) -> Tensor:
    """The matrix times each row, also under autocast, which would multiply in half precision."""
    if not torch.is_autocast_enabled(x.device.type):
        return x @ matrix.T
    with torch.autocast(x.device.type, enabled=False):
        return x @ matrix.T


def check_unmasked(drops: Tensor, because: str = "the affine map adds up several classes") -> None:
    """Refuse masked classes, where values can be looked at: not in a graph, and not on the meta device."""
    captured = drops.is_cuda and torch.cuda.is_current_stream_capturing()
    if not is_in_graph() and not captured and not drops.is_meta and (drops == -torch.inf).any():
        raise InputError(
            f"`model` must return logits without masked classes (-inf), because {because}. Use a method with temperatures "
            "only, such as 'ec' or 'group'."
        )
