"""An affine function of log-probabilities: a matrix times them, plus a bias per class."""

from dataclasses import dataclass
from typing import ClassVar

from nishimori._support.arrays import Array, HostArray, beside
from nishimori.errors import InputError
from nishimori.maps.softmax import log_softmax_of_drops
from nishimori.maps.with_bias import WithBias


@dataclass(frozen=True, eq=False)
class LogAffine(WithBias):
    """u = matrix · log p + bias, where p is the softmax of the logits of each row.

    Attributes
    ----------
    matrix : array of shape (n_classes, n_classes)
        u_i is the sum of matrix_ij log p_j over j.
    bias : array of shape (n_classes,)
        What is added to each class.
    fallback : float or None
        The temperature that divides the logits of rows whose predicted class would change otherwise; None if it may change.
    """

    matrix: HostArray
    bias: HostArray
    fallback: float | None = None
    kind: ClassVar[str] = "log_affine"
    factors: ClassVar[str] = "matrix"
    format_version: ClassVar[int] = 4

    def check_shape(self, shape: tuple[int, ...], n_classes: int) -> None:
        if shape != (n_classes, n_classes):
            raise InputError(f"`matrix` must have shape {(n_classes, n_classes)}, got {shape}.")

    @property
    def in_words(self) -> str:
        return "the affine map of log-probabilities"

    def multiplied(self, drops: Array) -> Array:
        return log_softmax_of_drops(drops) @ beside(self.matrix, drops).T
