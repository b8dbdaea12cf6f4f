"""Segmentation: one temperature for all pixels, its error bar by image, and where in the image the network is too confident.

Images are generated: discs and squares of random brightness, under a light that falls off to the right. Pixels of an image
share its brightness, so they are right or wrong together. Error bars that take pixels as independent are therefore too small.
How much too small is measured with fresh validation sets, which only generated images allow. Needs
``pip install 'nishimori[torch,plot]'``.
"""

import numpy as np
import torch
from matplotlib import pyplot as plt
from torch import nn

import nishimori
from nishimori.torch import calibrate, collect

SIDE = 32


def draw(n, rng):
    """Images (n, 1, 32, 32) and the class of each pixel: 0 is background, 1 a disc, 2 a square."""
    y, x = np.mgrid[:SIDE, :SIDE]
    images, masks = np.zeros((n, 1, SIDE, SIDE), dtype=np.float32), np.zeros((n, SIDE, SIDE), dtype=np.int64)
    for image, mask in zip(images, masks, strict=True):
        brightness = rng.uniform(0.2, 1.4)  # of all shapes in this image
        for shape in (1, 2, 1, 2):
            (cx, cy), size = rng.uniform(4, SIDE - 4, size=2), rng.uniform(3, 7)
            dx, dy = abs(x - cx), abs(y - cy)
            mask[np.hypot(dx, dy) < size if shape == 1 else np.maximum(dx, dy) < size] = shape
        light = np.linspace(1.2, 0.5, SIDE)
        image[0] = brightness * light * np.array([0, 1, -1])[mask] + 0.4 * rng.normal(size=mask.shape)
    return torch.tensor(images), torch.tensor(masks)


def train(images, masks):
    """A small network that knows the classes of its training pixels too well."""
    torch.manual_seed(0)
    network = nn.Sequential(
        *(nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.Conv2d(16, 16, 5, padding=2), nn.ReLU(), nn.Conv2d(16, 3, 1))
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(250):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(images), masks).backward()
        optimizer.step()
    return network


rng = np.random.default_rng(0)
network = train(*draw(12, rng))
images, masks = draw(50, rng)

calibrated = calibrate(network, (images, masks), method="ec", class_axis=1)  # error bars by image
print(calibrated.temperatures)
by_image = calibrated.temperatures.ec_se
by_pixel = calibrate(network, (images, masks), method="ec", class_axis=1, clusters=False).temperatures.ec_se

temperatures = []
for _ in range(200):  # 200 other validation sets of 50 images
    fresh = collect(network, draw(50, rng), class_axis=1)
    temperatures.append(nishimori.temperatures(*fresh).ec)
spread = np.std(temperatures, ddof=1)
print(f"\nT of 200 validation sets varies by {spread:.4f}")
print(f"standard error by image  {by_image:.4f}: {by_image / spread:.2f} of that")
print(f"standard error by pixel  {by_pixel:.4f}: {by_pixel / spread:.2f} of that")

images, masks = draw(400, rng)  # test images
with torch.no_grad():
    logits = network(images)
T = float(calibrated.temperature)
figure, axes = plt.subplots(1, 2, figsize=(9.2, 3.9), layout="constrained")
for ax, divisor, title in zip(axes, (1.0, T), ("before", f"after EC, T = {T:.2f}"), strict=True):
    nishimori.plot.reliability_map(logits, masks, temperature=divisor, limit=15, class_axis=1, ax=ax)
    gap = nishimori.evaluate(logits, masks, temperature=divisor, class_axis=1)["gap"]
    ax.set_title(title)
    print(f"{title}: confidence minus accuracy {gap.text} points")
figure.savefig("segmentation.png")
