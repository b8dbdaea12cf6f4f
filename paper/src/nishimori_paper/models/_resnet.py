"""Residual networks for CIFAR (He et al., arXiv:1512.03385, section 4.2).

There are three stages of 16, 32 and 64 channels, or a multiple of these. Where a stage halves the image, the shortcut either
drops every second pixel and fills the new channels with zeros ("pad", the original, without parameters) or is a 1 × 1
convolution ("conv"). The names of the parameters are those in the files of the paper's authors.
"""

from typing import Literal, get_args

import torch
from torch import nn
from torch.nn import functional

from nishimori._support.numbers import between, whole
from nishimori.errors import InputError

Shortcut = Literal["pad", "conv"]


class ResNet(nn.Module):
    """A network of ``depth`` = 6 n + 2 layers.

    Parameters
    ----------
    depth : int
        20, 32, 44, 56 or 110 in the literature.
    n_classes : int
        Number of logits.
    shortcut : {"pad", "conv"}
        What replaces the identity if the shape changes.
    width : int
        What the numbers of channels are multiplied by.
    dropout : float
        The share of activations set to zero in training, between the two convolutions of a block (Zagoruyko and Komodakis,
        arXiv:1605.07146) and before the linear layer.
    """

    def __init__(self, depth: int, n_classes: int, *, shortcut: Shortcut = "pad", width: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        blocks, rest = divmod(depth - 2, 6)
        if rest or blocks < 1:
            raise InputError("depth", "be 6 n + 2, such as 20 or 56", got=depth)
        if shortcut not in get_args(Shortcut):
            raise InputError("shortcut", "be 'pad' or 'conv'", got=repr(shortcut))
        whole("width", width, 1)
        between("dropout", dropout, 0, 1)
        first, second, third = 16 * width, 32 * width, 64 * width
        self.conv1 = nn.Conv2d(3, first, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(first)
        self.layer1 = _stage(first, first, blocks, 1, shortcut, dropout)
        self.layer2 = _stage(first, second, blocks, 2, shortcut, dropout)
        self.layer3 = _stage(second, third, blocks, 2, shortcut, dropout)
        self.drop = _dropout(dropout)
        self.linear = nn.Linear(third, n_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(module.weight)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits of normalised images."""
        x = functional.relu(self.bn1(self.conv1(images)))
        x = self.layer3(self.layer2(self.layer1(x)))
        logits: torch.Tensor = self.linear(self.drop(x.mean((2, 3))))
        return logits


def _dropout(share: float) -> nn.Module:
    return nn.Dropout(share) if share else nn.Identity()


def _stage(entering: int, channels: int, blocks: int, stride: int, shortcut: Shortcut, dropout: float) -> nn.Sequential:
    first = _Block(entering, channels, stride, shortcut, dropout)
    return nn.Sequential(first, *(_Block(channels, channels, 1, shortcut, dropout) for _ in range(blocks - 1)))


class _Block(nn.Module):
    """Two 3 × 3 convolutions and a shortcut."""

    def __init__(self, entering: int, channels: int, stride: int, shortcut: Shortcut, dropout: float) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(entering, channels, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.drop = _dropout(dropout)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.shortcut = _around(entering, channels, stride, shortcut)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = functional.relu(self.bn1(self.conv1(x)))
        return functional.relu(self.bn2(self.conv2(self.drop(inner))) + self.shortcut(x))


def _around(entering: int, channels: int, stride: int, shortcut: Shortcut) -> nn.Module:
    if stride == 1 and entering == channels:
        return nn.Identity()
    if shortcut == "pad":
        return _Subsampled((channels - entering) // 2)
    return nn.Sequential(nn.Conv2d(entering, channels, 1, stride=stride, bias=False), nn.BatchNorm2d(channels))


class _Subsampled(nn.Module):
    """Every second pixel, with ``padding`` channels of zeros before and after."""

    def __init__(self, padding: int) -> None:
        super().__init__()
        self.padding = padding

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.padding, self.padding))
