"""Functions of the log-odds of two classes as modules of PyTorch."""

from typing import Any, Self

import torch
from torch import Tensor
from torch.nn.functional import softplus

from nishimori.maps.log_odds import LogOdds
from nishimori.torch._map_module import MapModule, host, single
from nishimori.torch._with_bias_module import check_unmasked


class LogOddsModule(MapModule):
    """Zero and a function of the difference of the two logits."""

    names = frozenset({"a", "b", "c", "square"})

    @classmethod
    def of(cls, map_: LogOdds, device: torch.device | None) -> Self:
        return cls(single(map_.parameters, device))

    @property
    def map(self) -> LogOdds:
        return LogOdds(**{name: float(host(self.get_buffer(name))) for name in self.names})

    @property
    def n_classes(self) -> int:
        return 2

    @property
    def keeps_predictions(self) -> bool:
        return False

    def described(self) -> str:
        return "a function of the log-odds of two classes"

    def forward(self, logits: Tensor, groups: Any = None) -> Tensor:  # noqa: ARG002 - the same for all
        """Zero and the calibrated log-odds of each row."""
        return self._by_row(logits, self._rows)

    def _rows(self, logits: Tensor) -> Tensor:
        check_unmasked(logits, "their log-odds would be infinite")
        s = logits[..., 1] - logits[..., 0]
        a, b, c, square = (self._at(name, logits) for name in ("a", "b", "c", "square"))
        # ln p = -softplus(-s). ONNX has no log-sigmoid, and the logarithm of a sigmoid would be infinite for large scores.
        # s is not squared first: the square of 1e20 is infinite in float32, and the softmax would be NaN.
        mapped = square * s * s + (b * softplus(s) - a * softplus(-s) + c)
        largest = torch.finfo(mapped.dtype).max
        mapped = mapped.clamp(-largest, largest)
        return torch.stack([torch.zeros_like(mapped), mapped], dim=-1)
