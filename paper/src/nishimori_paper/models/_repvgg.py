"""RepVGG-A2 (Ding et al., arXiv:2101.03697) for images of 32 × 32 pixels: blocks of three branches that can be merged.

In evaluation, convolution and batch normalisation are linear, so the 3 × 3, 1 × 1 and identity branches of a block equal one
3 × 3 convolution, which `RepVgg.merge` computes.
"""

import copy

import torch
from torch import nn
from torch.nn import functional

# (channels, blocks, stride of the first block): A2 has widths 1.5, 1.5, 1.5, 2.75 times 64, 128, 256, 512; the stem and the
# first stage keep 32 × 32 pixels, where the ImageNet network halves the image.
_STAGES = ((64, 1, 1), (96, 2, 1), (192, 4, 2), (384, 14, 2), (1408, 1, 2))


class RepVgg(nn.Module):
    """22 blocks in sequence and a linear layer."""

    def __init__(self, n_classes: int) -> None:
        super().__init__()
        blocks: list[nn.Module] = []
        entering = 3
        for channels, length, stride in _STAGES:
            for i in range(length):
                blocks.append(_Block(entering, channels, stride if i == 0 else 1))
                entering = channels
        self.blocks = nn.Sequential(*blocks)
        self.linear = nn.Linear(entering, n_classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits of normalised images."""
        logits: torch.Tensor = self.linear(self.blocks(images).mean((2, 3)))
        return logits

    def merge(self) -> "RepVgg":
        """A network with one convolution per block that gives the same logits in evaluation; this one is not changed."""
        merged = copy.deepcopy(self).eval()
        layers: list[nn.Module] = []
        for block in merged.blocks:
            layers += [_merged(block), nn.ReLU(inplace=True)] if isinstance(block, _Block) else [block]
        merged.blocks = nn.Sequential(*layers)
        return merged


class _Block(nn.Module):
    """The sum of a 3 × 3, a 1 × 1 and, if the shapes allow it, an identity branch, each normalised."""

    def __init__(self, entering: int, channels: int, stride: int) -> None:
        super().__init__()
        self.wide = _Normalised(entering, channels, 3, stride)
        self.narrow = _Normalised(entering, channels, 1, stride)
        self.identity = nn.BatchNorm2d(entering) if stride == 1 and entering == channels else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = self.wide(x) + self.narrow(x)
        if self.identity is not None:
            total = total + self.identity(x)
        return functional.relu(total)


class _Normalised(nn.Module):
    def __init__(self, entering: int, channels: int, size: int, stride: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(entering, channels, size, stride=stride, padding=size // 2, bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normalised: torch.Tensor = self.norm(self.conv(x))
        return normalised


def _merged(block: _Block) -> nn.Conv2d:
    """One convolution that is equal to a block before its ReLU."""
    conv = block.wide.conv
    entering, channels = conv.in_channels, conv.out_channels
    single = nn.Conv2d(entering, channels, 3, stride=conv.stride[0], padding=1).to(conv.weight)
    branches = [(conv.weight, block.wide.norm), (functional.pad(block.narrow.conv.weight, (1, 1, 1, 1)), block.narrow.norm)]
    if block.identity is not None:
        unit = torch.eye(channels, dtype=conv.weight.dtype, device=conv.weight.device)[:, :, None, None]
        branches.append((functional.pad(unit, (1, 1, 1, 1)), block.identity))
    with torch.no_grad():
        single.weight.zero_()
        assert single.bias is not None
        single.bias.zero_()
        for weight, norm in branches:
            assert norm.running_mean is not None, "batch norm keeps statistics"
            assert norm.running_var is not None, "batch norm keeps statistics"
            scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
            single.weight += weight * scale[:, None, None, None]
            single.bias += norm.bias - norm.running_mean * scale
    return single
