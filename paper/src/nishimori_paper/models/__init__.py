"""The paper's networks, in plain PyTorch, for images of 32 × 32 pixels.

>>> from nishimori_paper import models
>>> network = models.build("resnet20", n_classes=10)
>>> models.n_parameters(network)
269722
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch import nn

from nishimori.errors import InputError
from nishimori_paper.models._densenet import DenseNet
from nishimori_paper.models._repvgg import RepVgg
from nishimori_paper.models._resnet import ResNet
from nishimori_paper.models._vgg import Vgg

__all__ = ["DenseNet", "RepVgg", "ResNet", "Vgg", "build", "check", "n_parameters", "names"]

_DEPTHS = (20, 32, 44, 56, 110)
_BUILDERS: dict[str, Callable[..., nn.Module]] = {
    **{f"resnet{depth}": partial(ResNet, depth) for depth in _DEPTHS},
    **{f"resnet{depth}-conv": partial(ResNet, depth, shortcut="conv") for depth in _DEPTHS},
    "densenet121": DenseNet,
    "densenet121-linear": partial(DenseNet, linear_transitions=True),
    "vgg19": Vgg,
    "repvgg-a2": RepVgg,
}


def names() -> Sequence[str]:
    """The names of the networks."""
    return list(_BUILDERS)


def build(name: str, *, n_classes: int, **variation: Any) -> nn.Module:
    """A network with random weights, drawn from PyTorch's global generator.

    Parameters
    ----------
    name : str
        One of `names`. In ResNets with ``-conv`` the shortcuts are 1 × 1 convolutions, as in the public CIFAR-100 networks. The
        DenseNet with ``-linear`` has no ReLU in its transitions, as in the code of the paper's authors.
    n_classes : int
        Number of logits.
    **variation
        For a ResNet, ``width`` and ``dropout``, as for `ResNet`.
    """
    check(name)
    if variation and not name.startswith("resnet"):
        raise InputError(f"Only ResNets have a {' or '.join(variation)}, but {name!r} is not a ResNet. Leave it out.")
    return _BUILDERS[name](n_classes, **variation)


def check(name: str) -> None:
    """Refuse a name that is not one of `names`."""
    if name not in _BUILDERS:
        raise InputError(f"There is no network {name!r}; there are {', '.join(_BUILDERS)}.")


def n_parameters(network: nn.Module) -> int:
    """The number of trainable parameters."""
    return sum(parameter.numel() for parameter in network.parameters())
