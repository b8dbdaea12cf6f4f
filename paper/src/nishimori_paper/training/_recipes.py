"""How each network of the paper is trained.

The recipes for SVHN and CIFAR-10 are those of the paper's code. For CIFAR-100 the paper used networks that others had trained,
so that recipe is ours.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from nishimori.errors import InputError
from nishimori_paper._names import NetworkName

# Mean and standard deviation of each colour; pixels of SVHN are not normalised, and lie between 0 and 1.
NORMALISATION: Mapping[str, tuple[Sequence[float], Sequence[float]]] = {
    "svhn": ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
    "cifar10": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "cifar100": ((0.5071, 0.4867, 0.4408), (0.2673, 0.2564, 0.2761)),
}


# A file of logits names the settings of its network, and files written before there were these do not know them.
_UNUSED = ("label_smoothing", "mixup", "width", "dropout")


@dataclass(frozen=True)
class Recipe:
    """Stochastic gradient descent with momentum on some or all training images of a data set.

    Each epoch uses every image once, in random order; an incomplete last batch is left out.

    Attributes
    ----------
    dataset, model : str
        The images, and the network.
    fraction : float or None
        The share of all labelled images, validation included, to train on; None means all except the validation images.
    schedule : {"constant", "cosine"}
        ``"cosine"`` rises linearly to the learning rate in the first ``warmup`` epochs and then falls to zero.
    augment : bool
        Whether training images are shifted by up to 4 pixels and mirrored at random.
    label_smoothing : float
        The share of a label that is spread evenly over all classes (Szegedy et al., arXiv:1512.00567).
    mixup : float
        Each image is mixed with another one of its batch, and so are the labels; the shares are drawn from Beta(mixup, mixup)
        for each batch (Zhang et al., arXiv:1710.09412). Images are not mixed at 0.
    width, dropout : int, float
        Of a ResNet: `nishimori_paper.models.ResNet`.
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
    label_smoothing: float = 0.0
    mixup: float = 0.0
    width: int = 1
    dropout: float = 0.0

    @property
    def name(self) -> str:
        """The network's name, such as ``"cifar10/resnet20"``."""
        return str(NetworkName(self.dataset, self.model, self.fraction))

    def learning_rates(self, steps: int) -> Sequence[float]:
        """The learning rate of every step, with ``steps`` steps per epoch."""
        total = steps * self.epochs
        if self.schedule == "constant":
            return [self.learning_rate] * total
        rise = steps * self.warmup
        fall = [0.5 * (1 + math.cos(math.pi * i / (total - rise))) for i in range(total - rise)]
        return [self.learning_rate * factor for factor in [*((i + 1) / rise for i in range(rise)), *fall]]

    @property
    def variation(self) -> dict[str, Any]:
        """How the network differs from the usual one with its name."""
        return {key: getattr(self, key) for key in ("width", "dropout") if getattr(self, key) != getattr(Recipe, key)}

    def settings(self) -> dict[str, Any]:
        """All settings, as plain JSON; settings that no network of the paper uses appear only if they are in use."""
        unused = {key for key in _UNUSED if getattr(self, key) == getattr(Recipe, key)}
        return {key: value for key, value in asdict(self).items() if key not in unused}


# The public networks (github.com/chenyaofo/pytorch-cifar-models) were trained differently; this recipe takes minutes on a GPU.
_LONG = Recipe("cifar100", "resnet20-conv", epochs=100, nesterov=True, weight_decay=5e-4, schedule="cosine", warmup=1)
_RECIPES: dict[tuple[str, str], Recipe] = {
    (recipe.dataset, recipe.model): recipe
    for recipe in (
        Recipe("svhn", "resnet20", augment=False),
        Recipe("cifar10", "resnet20"),
        Recipe("cifar10", "resnet56"),
        Recipe("cifar10", "densenet121", learning_rate=0.01),
        Recipe("cifar10", "densenet121-linear", learning_rate=0.01),  # the transitions of the authors' code
        _LONG,
        replace(_LONG, model="resnet56-conv"),
        replace(_LONG, model="vgg19"),
        replace(_LONG, model="repvgg-a2", epochs=60),
    )
}


def recipes() -> Sequence[Recipe]:
    """The recipes of the paper's networks."""
    return list(_RECIPES.values())


def is_in_paper(dataset: str, model: str) -> bool:
    """Whether the paper has this network."""
    return (dataset, model) in _RECIPES


def recipe(dataset: str, model: str) -> Recipe:
    """The recipe of a network; networks that are not in the paper use the recipe of the data set's ResNet20."""
    if dataset not in NORMALISATION:
        raise InputError(f"There is no data set {dataset!r}; there are {', '.join(NORMALISATION)}.")
    return _RECIPES.get((dataset, model)) or replace(usual(dataset), model=model)


def usual(dataset: str) -> Recipe:
    """The recipe of a data set's first network, a ResNet20."""
    return next(recipe for recipe in recipes() if recipe.dataset == dataset)
