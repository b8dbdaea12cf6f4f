"""An affine function of the logits: a number, a diagonal or a matrix times them, plus a bias per class."""

from dataclasses import dataclass
from typing import ClassVar

from nishimori._support.arrays import Array, HostArray, beside, row_sum
from nishimori.errors import InputError
from nishimori.maps.with_bias import WithBias


@dataclass(frozen=True, eq=False)
class Affine(WithBias):
    """u = scale · x + bias, where x are the logits minus their mean over the classes of each row.

    Attributes
    ----------
    scale : array of shape (), (n_classes,) or (n_classes, n_classes)
        A number that multiplies all x, one number per class, or a matrix: u_i is the sum of scale_ij x_j over j.
    bias : array of shape (n_classes,)
        What is added to each class.
    fallback : float or None
        The temperature that divides the logits of rows whose predicted class would change otherwise; None if it may change.
    """

    scale: HostArray
    bias: HostArray
    fallback: float | None = None
    kind: ClassVar[str] = "affine"
    factors: ClassVar[str] = "scale"

    def check_shape(self, shape: tuple[int, ...], n_classes: int) -> None:
        n = n_classes
        if shape not in ((), (n,), (n, n)):
            raise InputError(f"`scale` must be a number, or have shape ({n},) or ({n}, {n}), got {shape}.")

    @property
    def in_words(self) -> str:
        return "the affine map"

    def multiplied(self, drops: Array) -> Array:
        centred, scale = drops - row_sum(drops) / self.n_classes, beside(self.scale, drops)
        return centred @ scale.T if self.scale.ndim == 2 else centred * scale
