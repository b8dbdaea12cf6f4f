"""Mixtures of calibrated, original and uniform probabilities as modules of PyTorch."""

from typing import Any, Self

import torch
from torch import Tensor

from nishimori.errors import InputError
from nishimori.maps.mixture import Mixture
from nishimori.torch._logits import last_size
from nishimori.torch._map_module import MapModule, host, single


class MixtureModule(MapModule):
    """The logarithms of the mixed probabilities."""

    names = frozenset({"temperature", "weights"})

    @classmethod
    def of(cls, map_: Mixture, device: torch.device | None) -> Self:
        return cls(single({"temperature": map_.temperature, "weights": map_.weights}, device))

    @property
    def map(self) -> Mixture:
        return Mixture(float(self.get_buffer("temperature")), host(self.get_buffer("weights")))

    def described(self) -> str:
        return "a mixture of calibrated, original and uniform probabilities"

    def check(self, logits: Tensor) -> None:
        """Any number of classes will do."""
        if not logits.ndim:
            raise InputError("`model` must return logits of shape (n, n_classes) or (n,), got a single number.")

    def forward(self, logits: Tensor, groups: Any = None) -> Tensor:  # noqa: ARG002 - the same for all
        """The logarithm of the mixture of each row; for a score, the difference of the two."""
        return self._by_row(logits, self._rows)

    def _are_scores(self, logits: Tensor) -> bool:
        return logits.ndim < 2 or last_size(logits) == 1

    def _rows(self, logits: Tensor) -> Tensor:
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
        weights = ", ".join(f"{each:.4g}" for each in self.get_buffer("weights").tolist())
        return f"temperature={float(self.get_buffer('temperature')):.4g}, weights=({weights})"
