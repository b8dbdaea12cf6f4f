"""Batches of normalised images, shifted and mirrored at random for training.

Images stay on the device as bytes, padded by 4 black pixels on each side. A shifted image is a window into the padded one, so
a batch takes a single indexing operation.
"""

from dataclasses import dataclass

import numpy as np
import torch

from nishimori._support.arrays import HostArray
from nishimori_paper.training._image_formats import SIDE
from nishimori_paper.training._recipes import NORMALISATION

FRAME = 4


@dataclass(frozen=True)
class Views:
    """For each image, the corner of its window and whether it is mirrored."""

    top: torch.Tensor
    left: torch.Tensor
    mirrored: torch.Tensor

    @classmethod
    def straight(cls, n: int, device: torch.device) -> "Views":
        """Neither shifted nor mirrored."""
        middle = torch.full((n,), FRAME, device=device)
        return cls(middle, middle.clone(), torch.zeros(n, dtype=torch.bool, device=device))

    @classmethod
    def random(cls, n: int, device: torch.device, generator: torch.Generator) -> "Views":
        """A random shift by up to 4 pixels in each direction; each image is mirrored with probability 1/2."""
        # Drawn on the host, so that every device gets the same numbers.
        corners = torch.randint(0, 2 * FRAME + 1, (2, n), generator=generator).to(device)
        mirrored = (torch.rand(n, generator=generator) < 0.5).to(device)
        return cls(corners[0], corners[1], mirrored)

    def copy_(self, other: "Views") -> None:
        """Copy the values of ``other``, in place."""
        self.top.copy_(other.top)
        self.left.copy_(other.left)
        self.mirrored.copy_(other.mirrored)

    def __getitem__(self, index: torch.Tensor) -> "Views":
        return Views(self.top[index], self.left[index], self.mirrored[index])


class Pixels:
    """Images of a data set on a device."""

    def __init__(self, images: HostArray, dataset: str, device: torch.device) -> None:
        framed = np.pad(images, ((0, 0), (FRAME, FRAME), (FRAME, FRAME), (0, 0)))
        self.device = device
        self.framed = torch.from_numpy(framed).to(device)
        mean, std = NORMALISATION[dataset]
        self.mean = torch.tensor(mean, device=device)
        self.std = torch.tensor(std, device=device)
        self.across = torch.arange(SIDE, device=device)

    def __len__(self) -> int:
        return len(self.framed)

    def batch(self, index: torch.Tensor, views: Views) -> torch.Tensor:
        """Normalised images of shape (n, 3, 32, 32), channels last in memory."""
        rows = views.top[:, None] + self.across
        columns = views.left[:, None] + torch.where(views.mirrored[:, None], SIDE - 1 - self.across, self.across)
        window = self.framed[index[:, None, None], rows[:, :, None], columns[:, None, :]]
        normalised = (window.to(torch.float32) / 255 - self.mean) / self.std
        return normalised.permute(0, 3, 1, 2)
