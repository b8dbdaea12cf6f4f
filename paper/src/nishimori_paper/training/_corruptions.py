"""Images as a worse camera would give them: noise, blur, fog, light and compression, in five severities.

The kinds and their constants are those of CIFAR-10-C (Hendrycks and Dietterich, arXiv:1903.12261), for 32 x 32 pixels.
The random numbers are other ones, so that single images differ from the public files.
"""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from nishimori._support.arrays import HostArray
from nishimori._support.optional import require
from nishimori.errors import InputError
from nishimori_paper.training._image_formats import SIDE

# At a time, so that the floating-point copies of the images stay small.
_BATCH = 500


def corrupt(images: HostArray, kind: str, severity: int, *, seed: int | Sequence[int] = 0) -> HostArray:
    """Images with one kind of corruption.

    Parameters
    ----------
    images : uint8 array of shape (n, 32, 32, 3)
        Colour images.
    kind : str
        One of `names`.
    severity : int
        From 1 (mild) to 5.
    seed : int or sequence of ints
        Seed of the random numbers. Kinds without randomness ignore it.

    Returns
    -------
    uint8 array of shape (n, 32, 32, 3)

    Examples
    --------
    >>> grey = np.full((1, 32, 32, 3), 100, dtype=np.uint8)
    >>> int(corrupt(grey, "brightness", 5)[0, 0, 0, 0])  # 30 % of 255 brighter
    176
    """
    if kind not in _KINDS:
        raise InputError("kind", f"be one of {', '.join(_KINDS)}", got=repr(kind))
    if severity not in range(1, 6):
        raise InputError("severity", "be from 1 to 5", got=severity)
    if images.dtype != np.uint8 or images.shape[1:] != (SIDE, SIDE, 3):
        raise InputError(
            "images", "be uint8 of shape (n, 32, 32, 3)", got=f"{images.dtype} of shape {images.shape}", remedy="Convert them."
        )
    chosen, rng = _KINDS[kind], np.random.default_rng(seed)
    corrupted = np.empty_like(images)
    for start in range(0, len(images), _BATCH):
        part = slice(start, start + _BATCH)
        corrupted[part] = chosen.apply(images[part], chosen.constants[severity - 1], rng)
    return corrupted


def names() -> Sequence[str]:
    """The kinds of corruption.

    Examples
    --------
    >>> names()[:3]
    ['gaussian noise', 'impulse noise', 'defocus blur']
    """
    return list(_KINDS)


def _as_bytes(values: HostArray) -> HostArray:
    """Values from 0 to 1 as bytes, cut off rather than rounded as in CIFAR-10-C."""
    # 1e-4 makes up for rounding in float32, so that a value of k/255 becomes k.
    pixels: HostArray = (255 * np.clip(values, 0, 1) + np.float32(1e-4)).astype(np.uint8)
    return pixels


def _unit(images: HostArray) -> HostArray:
    """Bytes as numbers from 0 to 1."""
    return images.astype(np.float32) / np.float32(255)


def _gaussian_noise(images: HostArray, scale: float, rng: np.random.Generator) -> HostArray:
    return _as_bytes(_unit(images) + np.float32(scale) * rng.standard_normal(images.shape, dtype=np.float32))


def _impulse_noise(images: HostArray, share: float, rng: np.random.Generator) -> HostArray:
    """Set values to 0 or 255, independently for each colour."""
    drawn = rng.random(images.shape, dtype=np.float32)
    return np.select([drawn < share / 2, drawn < share], [np.uint8(0), np.uint8(255)], images)


def _defocus_blur(images: HostArray, constants: tuple[float, float], _: np.random.Generator) -> HostArray:
    kernel = defocus_kernel(*constants)
    reach = len(kernel) // 2
    x = _unit(images)
    # The border is a mirror that does not repeat the outermost pixel.
    framed = np.pad(x, ((0, 0), (reach, reach), (reach, reach), (0, 0)), mode="reflect")
    total = np.zeros_like(x)
    for i, j in np.argwhere(kernel > 0):
        total += np.float32(kernel[i, j]) * framed[:, i : i + SIDE, j : j + SIDE]
    return _as_bytes(total)


def defocus_kernel(radius: float, alias_blur: float) -> HostArray:
    """A disk of whole pixels, smoothed by three taps of a Gaussian of standard deviation ``alias_blur`` in each direction."""
    reach = int(radius) + 1  # the disk and one pixel for the smoothing
    across = np.arange(-reach, reach + 1)
    disk = (across[:, None] ** 2 + across**2 <= radius**2).astype(float)
    taps = np.exp(-(np.arange(-1, 2) ** 2) / (2 * alias_blur**2))
    taps /= taps.sum()
    for axis in (0, 1):
        disk = np.apply_along_axis(np.convolve, axis, disk, taps, mode="same")
    kernel: HostArray = disk / disk.sum()
    return kernel


def _fog(images: HostArray, constants: tuple[float, float], rng: np.random.Generator) -> HostArray:
    thickness, decay = constants
    x = _unit(images)
    brightest = x.max(axis=(1, 2, 3), keepdims=True)
    clouds = thickness * cloud(len(images), decay, rng)[..., None].astype(np.float32)
    return _as_bytes((x + clouds) * brightest / (brightest + np.float32(thickness)))


def cloud(n: int, decay: float, rng: np.random.Generator) -> HostArray:
    """Random height maps from 0 to 1 by the diamond-square algorithm, periodic in both directions.

    Points halfway between known ones get their mean and a random number, whose range falls by decay² with each halving.
    """
    height: HostArray = np.zeros((n, SIDE, SIDE))
    step, spread = SIDE, 1.0
    while step > 1:
        half = step // 2
        noise = partial(rng.uniform, -spread, spread, (n, SIDE // step, SIDE // step))
        corners = height[:, ::step, ::step]
        below, beside = (corners + np.roll(corners, -1, axis=axis) for axis in (1, 2))
        centres = (below + np.roll(below, -1, axis=2)) / 4 + noise()
        height[:, half::step, half::step] = centres
        height[:, ::step, half::step] = (beside + centres + np.roll(centres, 1, axis=1)) / 4 + noise()
        height[:, half::step, ::step] = (below + centres + np.roll(centres, 1, axis=2)) / 4 + noise()
        step, spread = half, spread / decay**2
    height -= height.min(axis=(1, 2), keepdims=True)
    height /= height.max(axis=(1, 2), keepdims=True)
    return height


def _brightness(images: HostArray, more: float, _: np.random.Generator) -> HostArray:
    """A larger value in the space of hue, saturation and value: the largest colour grows, the others in proportion."""
    x = _unit(images)
    value = x.max(axis=3, keepdims=True)
    brighter = np.minimum(value + np.float32(more), 1)
    # Black has no hue: it becomes grey.
    return _as_bytes(np.where(value > 0, x * brighter / np.where(value > 0, value, 1), brighter))


def _contrast(images: HostArray, share: float, _: np.random.Generator) -> HostArray:
    """A part of the distance to each colour's mean over the image."""
    x = _unit(images)
    means = x.mean(axis=(1, 2), keepdims=True)
    return _as_bytes((x - means) * np.float32(share) + means)


def _pixelate(images: HostArray, share: float, _: np.random.Generator) -> HostArray:
    """Averages over fewer, larger pixels."""
    fewer = int(SIDE * share)
    small = _box_means(_box_means(images, fewer, axis=2), fewer, axis=1)
    return _box_means(_box_means(small, SIDE, axis=2), SIDE, axis=1)


def _box_means(images: HostArray, n: int, *, axis: int) -> HostArray:
    """Resize one axis to ``n`` pixels, each the rounded mean of the pixels whose centres are in its box, at least one."""
    scale = images.shape[axis] / n
    middle = (np.arange(n) + 0.5) * scale
    reach = 0.5 * max(scale, 1.0)
    # As Pillow's filter BOX. For the sizes of `_KINDS` no centre is on the edge of a box.
    inside = np.abs(np.arange(images.shape[axis]) + 0.5 - middle[:, None]) < reach
    weights = (inside / inside.sum(axis=1, keepdims=True)).astype(np.float32)
    means = np.moveaxis(np.tensordot(weights, images.astype(np.float32), axes=(1, axis)), 0, axis)
    rounded: HostArray = np.floor(means + np.float32(0.5 + 1e-4)).astype(np.uint8)
    return rounded


def _jpeg(images: HostArray, quality: int, _: np.random.Generator) -> HostArray:
    pillow = require("PIL.Image", extra="train", for_="Compressing images", distribution="nishimori-paper")
    corrupted = np.empty_like(images)
    for i, image in enumerate(images):
        stream = io.BytesIO()
        pillow.fromarray(image).save(stream, "JPEG", quality=quality)
        corrupted[i] = np.asarray(pillow.open(stream))
    return corrupted


@dataclass(frozen=True)
class _Kind:
    """How a corruption is computed, and its constants for the five severities."""

    apply: Callable[[HostArray, Any, np.random.Generator], HostArray]
    constants: Sequence[Any]


_KINDS = {
    # Standard deviation.
    "gaussian noise": _Kind(_gaussian_noise, (0.04, 0.06, 0.08, 0.09, 0.10)),
    # Share of the values that become 0 or 255.
    "impulse noise": _Kind(_impulse_noise, (0.01, 0.02, 0.03, 0.05, 0.07)),
    # Radius of the disk, and standard deviation of its smoothing, in pixels.
    "defocus blur": _Kind(_defocus_blur, ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1))),
    # Thickness, and how fast small clouds fade.
    "fog": _Kind(_fog, ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75))),
    # What is added to the value.
    "brightness": _Kind(_brightness, (0.05, 0.1, 0.15, 0.2, 0.3)),
    # What remains of the contrast.
    "contrast": _Kind(_contrast, (0.75, 0.5, 0.4, 0.3, 0.15)),
    # Pixels per pixel, in each direction.
    "pixelate": _Kind(_pixelate, (0.95, 0.9, 0.85, 0.75, 0.65)),
    # Quality.
    "jpeg": _Kind(_jpeg, (80, 65, 58, 50, 40)),
}
