"""VGG-19 with batch normalisation (Simonyan and Zisserman, arXiv:1409.1556, configuration E), for images of 32 × 32 pixels.

After five pooling layers one pixel of 512 channels is left, so the hidden layers of the head have 512 units, not 4096.
"""

import torch
from torch import nn

_STAGES = ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4))


class Vgg(nn.Module):
    """Sixteen convolutions and three linear layers."""

    def __init__(self, n_classes: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        entering = 3
        for channels, length in _STAGES:
            for _ in range(length):
                layers += [nn.Conv2d(entering, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(inplace=True)]
                entering = channels
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            *(nn.Linear(entering, 512), nn.ReLU(inplace=True), nn.Dropout()),
            *(nn.Linear(512, 512), nn.ReLU(inplace=True), nn.Dropout()),
            nn.Linear(512, n_classes),
        )
        for module in self.features:
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits of normalised images."""
        logits: torch.Tensor = self.classifier(self.features(images).flatten(1))
        return logits
