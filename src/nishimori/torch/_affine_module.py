"""Affine maps as modules of PyTorch."""

from torch import Tensor

from nishimori.maps.affine import Affine
from nishimori.torch._with_bias_module import WithBiasModule, product


class AffineModule(WithBiasModule):
    """A number, a diagonal or a matrix times the centred logits, plus a bias per class."""

    kind = Affine
    names = frozenset({"scale", "bias"})

    def described(self) -> str:
        return f"an affine map for {self.n_classes} classes"

    def multiplied(self, drops: Tensor) -> Tensor:
        centred, scale = drops - drops.mean(dim=-1, keepdim=True), self._at("scale", drops)
        return product(centred, scale) if scale.ndim == 2 else centred * scale

    def extra_repr(self) -> str:
        """The number of classes and what multiplies the logits, for ``print``."""
        scale = ("number", "diagonal", "matrix")[self.get_buffer("scale").ndim]
        return f"n_classes={self.n_classes}, scale={scale}{', preserve_accuracy=True' if 'fallback' in self._buffers else ''}"
