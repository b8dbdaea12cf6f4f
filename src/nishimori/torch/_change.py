"""What a map does to the outputs of a last layer, so that it can be folded into the weights of that layer.

Outputs are weights times features plus a bias. A temperature divides both. An affine map u = S(z - mean z) + b multiplies both
by the matrix S C, where C subtracts the mean over the classes, and then adds b to the bias. No other map is a function of the
weights alone.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from nishimori.errors import InputError
from nishimori.maps.affine import Affine, LogAffine
from nishimori.maps.group_temperatures import ClassTemperatures, GroupTemperatures
from nishimori.maps.log_odds import LogOdds
from nishimori.maps.map import Map
from nishimori.maps.mixture import Mixture
from nishimori.maps.temperature import Temperature
from nishimori.torch._head import INSTEAD
from nishimori.torch._logits import check_classes


@dataclass(frozen=True)
class Division:
    """Division by one temperature. ``result`` is what folded logits must be equal to, for messages."""

    temperature: float
    result: ClassVar[str] = "logits / T"

    @property
    def event(self) -> str:
        """What is done to the weights, for messages."""
        return f"divided by {self.temperature:.4g}"

    def fits(self, layer: nn.Module, head: str, *, is_checked: bool) -> None:
        """Refuse a layer that cannot take the map; none here. ``is_checked`` says whether there is a probe."""

    def adds_bias(self, layer: nn.Module) -> bool:  # noqa: ARG002 - no layer does
        """Whether a layer without a bias gets one."""
        return False

    def weights(self, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """The new weight and bias; a bias is added only where the map needs one."""
        return weight / self.temperature, None if bias is None else bias / self.temperature

    def logits(self, before: Tensor) -> Tensor:
        """The calibrated logits in float64."""
        return before.double() / self.temperature


@dataclass(frozen=True, eq=False)
class Mixing:
    """An affine map without a fallback: a matrix times the logits, plus a bias per class; in float64 on the CPU."""

    matrix: Tensor
    bias: Tensor
    result: ClassVar[str] = "the calibrated logits"
    event: ClassVar[str] = "multiplied by the matrix of the affine map"

    @classmethod
    def of(cls, map_: Affine) -> "Mixing":
        K, scale = map_.n_classes, torch.tensor(map_.scale, device="cpu")  # the default may differ
        centring = torch.eye(K, dtype=torch.float64, device="cpu") - 1 / K
        matrix = scale @ centring if scale.ndim == 2 else scale.reshape(-1, 1) * centring
        return cls(matrix, torch.tensor(map_.bias, device="cpu"))

    def fits(self, layer: nn.Module, head: str, *, is_checked: bool) -> None:
        """Refuse another number of classes, and convolutions whose outputs might not be the logits."""
        weight: Tensor = layer.weight  # type: ignore[assignment]
        K, n_out = len(self.bias), len(weight)
        if n_out != K and (n_out, K) != (1, 2):
            raise InputError(
                "The last layer",
                f"have one output per class of the affine map, which has {K}",
                got=f"{head} with {n_out}",
                remedy="Pass the layer that computes the logits.",
            )
        if isinstance(layer, nn.Linear):
            return
        if layer.groups != 1:
            raise InputError(
                "The last layer",
                "compute every class from the same features",
                got=f"{head}, a convolution in {layer.groups} groups, which cannot mix classes",
                remedy=f"Instead, {INSTEAD}.",
            )
        if not is_checked:  # what follows it, such as average pooling with padding, may change a bias
            raise InputError(
                "probe",
                "be passed to fold an affine map into a convolution",
                got=f"none for {head}: only the logits of some inputs show that its outputs are the classes",
                remedy="Call `calibrated.fold(probe=x)`.",
            )

    def adds_bias(self, layer: nn.Module) -> bool:
        return getattr(layer, "bias", None) is None and bool(self.bias.any())

    def weights(self, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
        matrix, shift = self._for(len(weight))
        flat = matrix @ weight.detach().cpu().double().flatten(1)
        new = flat.reshape(weight.shape).to(weight)
        if bias is not None:
            return new, (matrix @ bias.detach().cpu().double() + shift).to(bias)
        return new, shift.to(weight) if shift.any() else None

    def logits(self, before: Tensor) -> Tensor:
        check_classes(before, len(self.bias))
        n_out = 1 if before.ndim < 2 else before.shape[-1]
        matrix, shift = self._for(n_out)
        rows = before.detach().cpu().double().reshape(-1, n_out)
        return (rows @ matrix.T + shift).reshape(before.shape).to(before.device)

    def _for(self, n_out: int) -> tuple[Tensor, Tensor]:
        """The matrix and the bias for the outputs of a layer: all classes, or one score z, which means the logits (0, z)."""
        if n_out == len(self.bias):
            return self.matrix, self.bias
        return (self.matrix[1:, 1:] - self.matrix[:1, 1:]), self.bias[1:] - self.bias[:1]


Change = Division | Mixing


# Why weights cannot hold a map, and what to do instead.
_WHY: dict[type[Map], str] = {
    Affine: (
        "an affine map with `preserve_accuracy=True`, which divides the rows whose predicted class would change by one "
        "temperature instead. Fit it without `preserve_accuracy`; or"
    ),
    ClassTemperatures: "one temperature per predicted class: the logits of each row decide which one divides them. Instead,",
    GroupTemperatures: "one temperature per group: weights do not know the group of a sample. Instead,",
    LogOdds: "a function of the log-odds that is not linear. Use 'platt', which is; or",
    Mixture: "a mixture of probabilities, which is not a linear function of the logits. Instead,",
    LogAffine: (
        "an affine function of log-probabilities, which contain the logarithm of a sum over all classes. Fit "
        "`MatrixScaling`, an affine function of the logits themselves; or"
    ),
}


def change_of(map_: Map) -> Change:
    """What ``map_`` does to the weights of a last layer; raises `InputError` for a map that weights cannot hold."""
    if isinstance(map_, Temperature):
        return Division(map_.temperature)
    if isinstance(map_, Affine) and map_.fallback is None:
        return Mixing.of(map_)
    why = _WHY.get(type(map_), f"a map of the kind {map_.kind!r}. Instead,")
    raise InputError(
        "The map", "be one temperature or an affine function of the logits to be folded into weights", got=f"{why} {INSTEAD}"
    )
