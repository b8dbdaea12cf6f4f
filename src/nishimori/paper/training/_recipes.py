"""How each network of the paper is trained: the settings of its code, and ours for CIFAR-100, where it took trained ones."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from nishimori.errors import InputError

# Mean and standard deviation of each colour; SVHN's pixels are used as they are, from 0 to 1.
NORMALISATION: Mapping[str, tuple[Sequence[float], Sequence[float]]] = {
    "svhn": ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
    "cifar10": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "cifar100": ((0.5071, 0.4867, 0.4408), (0.2673, 0.2564, 0.2761)),
}


@dataclass(frozen=True)
class Recipe:
    """Stochastic gradient descent with momentum on a part of a data set's training images.

    Each epoch shows them once, in random order, but for those that would make an incomplete last batch.

    Attributes
    ----------
    dataset, model : str
        What learns what.
    fraction : float or None
        The part of all labelled images, validation included, that is used for training; all but validation if None.
    schedule : {"constant", "cosine"}
        ``"cosine"`` falls from the learning rate to zero, after a linear rise in the first ``warmup`` epochs.
    augment : bool
        Whether training images are shifted by up to 4 pixels and mirrored at random.
    """

    dataset: str
    model: str
    epochs: int = 50
    batch: int = 128
    learning_rate: float = 0.1
    momentum: float = 0.9
    nesterov: bool = False
    weight_decay: float = 1e-4
    schedule: Literal["constant", "cosine"] = "constant"
    warmup: int = 0
    augment: bool = True
    fraction: float | None = None

    @property
    def name(self) -> str:
        """As in ``"cifar10/resnet20"``."""
        part = "" if self.fraction is None else f"-fraction-{self.fraction:g}"
        return f"{self.dataset}/{self.model}{part}"

    def learning_rates(self, steps: int) -> Sequence[float]:
        """The learning rate of every step, ``steps`` to an epoch."""
        total = steps * self.epochs
        if self.schedule == "constant":
            return [self.learning_rate] * total
        rise = steps * self.warmup
        fall = [0.5 * (1 + math.cos(math.pi * i / (total - rise))) for i in range(total - rise)]
        return [self.learning_rate * each for each in [*((i + 1) / rise for i in range(rise)), *fall]]

    def settings(self) -> dict[str, Any]:
        """All of it, as plain JSON."""
        return asdict(self)


# The public networks (github.com/chenyaofo/pytorch-cifar-models) are other trainings; this is what a GPU does in minutes.
_LONG = Recipe("cifar100", "resnet20-conv", epochs=100, nesterov=True, weight_decay=5e-4, schedule="cosine", warmup=1)
_RECIPES: dict[str, Recipe] = {
    "svhn/resnet20": Recipe("svhn", "resnet20", augment=False),
    "cifar10/resnet20": Recipe("cifar10", "resnet20"),
    "cifar10/resnet56": Recipe("cifar10", "resnet56"),
    "cifar10/densenet121": Recipe("cifar10", "densenet121", learning_rate=0.01),
    "cifar100/resnet20-conv": _LONG,
    "cifar100/resnet56-conv": replace(_LONG, model="resnet56-conv"),
    "cifar100/vgg19": replace(_LONG, model="vgg19"),
    "cifar100/repvgg-a2": replace(_LONG, model="repvgg-a2", epochs=60),
}


def names() -> Sequence[str]:
    """The networks of the paper that have a recipe."""
    return list(_RECIPES)


def recipe(dataset: str, model: str) -> Recipe:
    """The paper's recipe, or for another network that of the data set's ResNet20."""
    if dataset not in NORMALISATION:
        raise InputError(f"There is no data set {dataset!r}; there are {', '.join(NORMALISATION)}.")
    return _RECIPES.get(f"{dataset}/{model}") or replace(usual(dataset), model=model)


def usual(dataset: str) -> Recipe:
    """The recipe of a data set's first network, a ResNet20."""
    return next(each for each in _RECIPES.values() if each.dataset == dataset)
