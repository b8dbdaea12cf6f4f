"""DenseNet-121 (Huang et al., arXiv:1608.06993) with a stem for images of 32 × 32 pixels.

One 3 × 3 convolution replaces the strided 7 × 7 convolution and the pooling of the ImageNet network. With ten classes instead
of a thousand it has 6.96 million parameters, not 7.98. As published, a transition between two blocks is batch normalisation,
ReLU, a 1 × 1 convolution and average pooling. The code of the paper on expectation consistency has no ReLU there.
"""

import torch
from torch import nn
from torch.nn import functional

_BLOCKS = (6, 12, 24, 16)
_GROWTH = 32


class DenseNet(nn.Module):
    """Four blocks in which every layer reads the output of all earlier layers.

    Parameters
    ----------
    n_classes : int
        Number of logits.
    linear_transitions : bool
        Leave out the ReLU before the convolution of a transition.
    """

    def __init__(self, n_classes: int, *, linear_transitions: bool = False) -> None:
        super().__init__()
        channels = 2 * _GROWTH
        self.stem = nn.Conv2d(3, channels, 3, padding=1, bias=False)
        layers: list[nn.Module] = []
        for i, length in enumerate(_BLOCKS):
            for _ in range(length):
                layers.append(_Layer(channels))
                channels += _GROWTH
            if i + 1 < len(_BLOCKS):
                layers.append(_Transition(channels, linear=linear_transitions))
                channels //= 2
        self.layers = nn.Sequential(*layers)
        self.norm = nn.BatchNorm2d(channels)
        self.classifier = nn.Linear(channels, n_classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits of normalised images."""
        x = functional.relu(self.norm(self.layers(self.stem(images))))
        logits: torch.Tensor = self.classifier(x.mean((2, 3)))
        return logits


class _Layer(nn.Module):
    """A 1 × 1 bottleneck and a 3 × 3 convolution, whose output is concatenated with the input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv1 = nn.Conv2d(channels, 4 * _GROWTH, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(4 * _GROWTH)
        self.conv2 = nn.Conv2d(4 * _GROWTH, _GROWTH, 3, padding=1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = self.conv1(functional.relu(self.norm1(x)))
        return torch.cat([self.conv2(functional.relu(self.norm2(inner))), x], 1)


class _Transition(nn.Module):
    """Halves the channels, the width and the height."""

    def __init__(self, channels: int, *, linear: bool) -> None:
        super().__init__()
        self.linear = linear
        self.norm = nn.BatchNorm2d(channels)
        self.conv = nn.Conv2d(channels, channels // 2, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(x)
        return functional.avg_pool2d(self.conv(x if self.linear else functional.relu(x)), 2)
