"""Affine maps of log-probabilities as modules of PyTorch."""

from torch import Tensor

from nishimori.maps.log_affine import LogAffine
from nishimori.torch._with_bias_module import WithBiasModule, product


class LogAffineModule(WithBiasModule):
    """A matrix times the log-probabilities, plus a bias per class."""

    kind = LogAffine
    names = frozenset({"matrix", "bias"})

    def described(self) -> str:
        return f"an affine map of log-probabilities for {self.n_classes} classes"

    def multiplied(self, drops: Tensor) -> Tensor:
        return product(drops.log_softmax(dim=-1), self._at("matrix", drops))
