"""An affine function of the logits: a number, a diagonal or a matrix times them, plus a bias per class."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar, Self

from nishimori._array import Array, HostArray, beside, in_double, like, namespace, row_max, row_sum
from nishimori._maps._described import number_in, numbers
from nishimori._maps._map import Map
from nishimori._numbers import temperature as checked_temperature
from nishimori.errors import InputError


@dataclass(frozen=True, eq=False)
class Affine(Map):
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

    def __post_init__(self) -> None:
        scale, bias = numbers(self.scale, "scale"), numbers(self.bias, "bias")
        if bias.ndim != 1 or len(bias) < 2:
            raise InputError(f"`bias` must have one number per class, got shape {bias.shape}.")
        if scale.shape not in ((), bias.shape, 2 * bias.shape):
            n = len(bias)
            raise InputError(f"`scale` must be a number, or have shape ({n},) or ({n}, {n}), got {scale.shape}.")
        object.__setattr__(self, "scale", scale)
        object.__setattr__(self, "bias", bias)
        if self.fallback is not None:
            object.__setattr__(self, "fallback", checked_temperature(self.fallback, "fallback"))

    @property
    def keeps_predictions(self) -> bool:  # type: ignore[override]
        """Whether rows whose prediction would change fall back to one temperature."""
        return self.fallback is not None

    @property
    def n_classes(self) -> int:
        return len(self.bias)

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {"scale": self.scale.tolist(), "bias": self.bias.tolist(), "fallback": self.fallback}

    @classmethod
    def described(cls, parameters: Mapping[str, Any]) -> Self:
        """The map that a file describes."""
        fallback = None if parameters["fallback"] is None else number_in(parameters, "fallback")
        return cls(parameters["scale"], parameters["bias"], fallback)

    def apply(self, logits: Array, groups: Any = None) -> Array:  # noqa: ARG002 - the same for all
        """The affine function of each row, computed in float64."""
        return like(self._mapped(logits), logits)

    def exponents(self, logits: Array, groups: Any = None) -> Array:  # noqa: ARG002 - the same for all
        """Before rounding to the dtype of ``logits``: a difference of large numbers would lose its digits."""
        mapped = self._mapped(logits)
        return like(mapped - row_max(mapped), logits)

    def _mapped(self, logits: Array) -> Array:
        if int(logits.shape[1]) != self.n_classes:
            raise InputError(f"`logits` must have {self.n_classes} classes, as the map has, got {int(logits.shape[1])}.")
        drops = in_double(logits)
        drops = drops - row_max(drops)  # exact, whatever constant a row has
        xp = namespace(drops)
        if bool(xp.any(drops == -inf)):
            raise InputError(
                "`logits` must not have masked classes (-inf) where a map adds up several classes. Use a method with "
                "temperatures only, such as 'ec' or 'group'."
            )
        centred = drops - row_sum(drops) / self.n_classes
        scale, bias = beside(self.scale, drops), beside(self.bias, drops)
        mapped = (centred @ scale.T if self.scale.ndim == 2 else centred * scale) + bias
        if self.fallback is None:
            return mapped
        same = xp.argmax(mapped, axis=1) == xp.argmax(logits, axis=1)
        return xp.where(same[:, None], mapped, drops / self.fallback)
