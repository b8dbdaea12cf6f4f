"""Affine maps: a number, a diagonal or a matrix times the logits or the log-probabilities, plus a bias per class."""

from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

from nishimori._support.arrays import Array, HostArray, in_double, namespace, on_device_of, row_max, row_mean
from nishimori._support.numbers import temperature as checked_temperature
from nishimori.errors import InputError
from nishimori.maps.map import WideMap, log_softmax_of_drops, numbers


class WithBias(WideMap):
    """Base class; subclasses are dataclasses with three fields: the factors under their own name, `bias` and `fallback`."""

    factors: ClassVar[str]
    """The name of the field with the factors."""

    dimensions: ClassVar[tuple[int, ...]]
    """How many dimensions the factors may have."""

    of_log: ClassVar[bool]
    """Whether the factors multiply logarithms of probabilities, and not centred logits."""

    bias: HostArray
    fallback: float | None

    @classmethod
    def formula(cls, logits: Array, *, bias: Array, fallback: Any = None, **factors: Array) -> Array:
        """The affine function of each row; rows that would change the predicted class are divided by the fallback, if any.

        All are arrays of one library and dtype. Nothing is checked, so that PyTorch can record it in a graph.
        """
        drops = logits - row_max(logits)  # exact, whatever constant a row has
        mapped = log_softmax_of_drops(drops) if cls.of_log else drops - row_mean(drops)
        scale = factors[cls.factors]
        mapped = mapped @ scale.T if scale.ndim == 2 else mapped * scale
        mapped = mapped + bias  # one table less at a time than in one expression
        if fallback is None:
            return mapped
        xp = namespace(mapped)
        same = xp.argmax(mapped, axis=1) == xp.argmax(logits, axis=1)
        return xp.where(same[:, None], mapped, drops / fallback)

    def __post_init__(self) -> None:
        values, bias = numbers(getattr(self, self.factors), self.factors), numbers(self.bias, "bias")
        if bias.ndim != 1 or len(bias) < 2:
            raise InputError("bias", "have one number per class", got=f"shape {bias.shape}")
        n = len(bias)
        if values.shape not in [(n,) * ndim for ndim in self.dimensions]:
            several = f"be a number, or have shape {(n,)} or {(n, n)}"
            raise InputError(self.factors, several if 0 in self.dimensions else f"have shape {(n, n)}", got=values.shape)
        object.__setattr__(self, self.factors, values)
        object.__setattr__(self, "bias", bias)
        if self.fallback is not None:
            object.__setattr__(self, "fallback", checked_temperature(self.fallback, "fallback"))

    @property
    def keeps_predictions(self) -> bool:  # type: ignore[override]
        """Whether rows that would change their prediction fall back to one temperature."""
        return self.fallback is not None

    @property
    def n_classes(self) -> int:
        return len(self.bias)

    def apply_in_double(self, logits: Array) -> Array:
        """The `formula` in float64; refuses masks and another number of classes."""
        if int(logits.shape[1]) != self.n_classes:
            raise InputError("logits", f"have {self.n_classes} classes, as the map has", got=int(logits.shape[1]))
        wide = in_double(logits)
        refuse_masks(bool(namespace(wide).any(wide == -inf)), "logits")
        factors, bias = (on_device_of(values, wide) for values in (getattr(self, self.factors), self.bias))
        return self.formula(wide, bias=bias, fallback=self.fallback, **{self.factors: factors})


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
    in_words = "the affine map"
    factors: ClassVar[str] = "scale"
    dimensions: ClassVar[tuple[int, ...]] = (0, 1, 2)
    of_log: ClassVar[bool] = False


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
    in_words = "the affine map of log-probabilities"
    factors: ClassVar[str] = "matrix"
    format_version: ClassVar[int] = 4
    dimensions: ClassVar[tuple[int, ...]] = (2,)
    of_log: ClassVar[bool] = True


def refuse_masks(are_there: bool, argument: str = "X") -> None:
    """Raise if some class of some row is masked."""
    if are_there:
        raise InputError(
            argument,
            "not have masked classes (-inf) where numbers are added to classes",
            remedy="Use a method with temperatures only, such as 'ec' or 'group'.",
        )
