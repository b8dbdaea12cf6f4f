"""SVHN, CIFAR-10 and CIFAR-100, split into training, validation and test images as in the paper."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nishimori._support.optional import require
from nishimori._support.progress import Report, silent
from nishimori.errors import FormatError, InputError
from nishimori_paper.training._downloads import cache_folder, fetch
from nishimori_paper.training._image_formats import Found, Images, arrays, mosaics
from nishimori_paper.training._image_originals import ORIGINALS, Original

__all__ = ["ImageSet", "Images", "image_set", "names"]


@dataclass(frozen=True)
class ImageSet:
    """An image set in three splits, and where the images come from."""

    name: str
    n_classes: int
    train: Images
    validation: Images
    test: Images
    origin: str


def names() -> Sequence[str]:
    """The names of the image sets.

    Examples
    --------
    >>> names()
    ['svhn', 'cifar10', 'cifar100']
    """
    return list(ORIGINALS)


def image_set(name: str, folder: str | os.PathLike[str] | None = None, *, report: Report = silent) -> ImageSet:
    """The image set with that name, from a folder or from its public original.

    A folder may hold the public original (archive, unpacked, or MATLAB files), WebP mosaics of 32 x 32 tiles
    (``train-00.webp``, ... with ``train-labels.npy``), or arrays (``train_images.npy``, ``train_labels.npy``). A split ``val``
    is the validation set. Without it, validation images are split off as in the paper: a tenth of the training images of SVHN
    and CIFAR-10, half of the test images of CIFAR-100.

    Parameters
    ----------
    name : str
        One of `names`.
    folder : path, optional
        The folder with the files, or its parent if the folder is called ``name``. Without it, the public original is
        downloaded once, to ``$NISHIMORI_CACHE``, or to ``nishimori`` in ``$XDG_CACHE_HOME`` or ``~/.cache``.
    report : callable
        Called with what is being read or downloaded, how much is done (files or bytes), and the total.
    """
    if name not in ORIGINALS:
        raise InputError("name", f"be one of {', '.join(ORIGINALS)}", got=repr(name))
    original = ORIGINALS[name]
    if folder is None:
        place = cache_folder() / name
        fetch(original.files, place, report=report)
        images = original.read(place, report)
        assert images is not None, "the files were downloaded just now"
        return _complete(original, images, place)
    place = Path(folder)
    if not place.is_dir():
        raise FileNotFoundError(f"There is no folder {place} to read {original.title} from. Choose one that exists.")
    for candidate in (place / name, place):
        if candidate.is_dir() and (images := _read_any_layout(original, candidate, report)):
            return _complete(original, images, candidate)
    there = _content(place / name if (place / name).is_dir() else place)
    raise FileNotFoundError(
        f"{place} does not hold {original.title}. It and its folder {name} may hold {original.looked_for}; or mosaics "
        "train-00.webp, ... with train-labels.npy; or train_images.npy with train_labels.npy; and the same for test. "
        f"Found: {there}. The public original is at {' and '.join(file.url for file in original.files)}."
    )


def _read_any_layout(original: Original, place: Path, report: Report) -> Found | None:
    if images := original.read(place, report):
        return images
    images = mosaics(place, original.n_classes, report) or arrays(place, original.n_classes, report)
    # These layouts do not say which set they hold, and SVHN and CIFAR-10 have the same shapes and labels.
    if images and (other := place.resolve().name) in ORIGINALS and other != original.name:
        raise InputError(f"{place} is a folder of {other}, not of {original.name}. Choose that folder, or the one above it.")
    return images


def _complete(original: Original, images: Found, place: Path) -> ImageSet:
    """The image set with validation images, which are split off as in the paper if the files have none."""
    splits = dict(images.splits)
    for split in ("train", "test"):
        if split not in splits:
            raise FileNotFoundError(f"{place} has no split {split!r} of {original.title}, only {', '.join(splits)}. Add it.")
    if "val" in splits:
        how = "validation split as found there"
    elif original.name == "cifar100":
        splits["val"], splits["test"] = _random_split(splits["test"], [0.5, 0.5], place)
        how = "test images in half (validation, test) by torch.randperm with seed 42"
    else:
        splits["train"], splits["val"] = _random_split(splits["train"], [0.9, 0.1], place)
        how = "90/10 split by torch.randperm with seed 42"
    origin = f"{original.title}, {images.files}, {how}"
    return ImageSet(original.name, original.n_classes, splits["train"], splits["val"], splits["test"], origin)


def _random_split(images: Images, fractions: Sequence[float], place: Path) -> Sequence[Images]:
    """The authors' split, with their seed: another permutation would validate on images that their networks were trained on."""
    torch = require("torch", extra="train", for_="Splitting as in the paper", distribution="nishimori-paper")
    if len(images) * min(fractions) < 1:
        raise FormatError(
            f"{place}: {len(images)} images are too few to split off validation images. Add images, or a split `val`."
        )
    generator = torch.Generator().manual_seed(42)
    parts = torch.utils.data.random_split(range(len(images)), fractions, generator=generator)
    return [images.at(part.indices) for part in parts]


def _content(folder: Path) -> str:
    names = sorted(path.name + "/" * path.is_dir() for path in folder.iterdir())
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return shown or "nothing"
