"""Images and labels from two layouts: WebP mosaics and plain arrays.

File names give the split (``train``, ``test`` and optionally ``val``), not the image set.
"""

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nishimori._files.arrays import numpy_files
from nishimori._files.arrays.stored_array import damage
from nishimori._support.arrays import HostArray
from nishimori._support.optional import require
from nishimori._support.progress import Report
from nishimori.errors import FormatError

SPLITS = ("train", "val", "test")
SIDE = 32
# Ten times the mosaics of the public sets; an image of this size takes 150 MB.
_MOST_PIXELS = 50_000_000


@dataclass(frozen=True)
class Images:
    """Colour images and their labels."""

    pixels: np.ndarray[Any, np.dtype[np.uint8]]  # (n, 32, 32, 3)
    labels: np.ndarray[Any, np.dtype[np.int64]]  # (n,)

    def __len__(self) -> int:
        return len(self.labels)

    def at(self, index: Any) -> "Images":
        """The images at ``index``, in that order."""
        return Images(self.pixels[index], self.labels[index])


@dataclass(frozen=True)
class Found:
    """The splits found in some files, and a description of those files."""

    splits: Mapping[str, Images]
    files: str


def checked(pixels: Any, labels: Any, n_classes: int, where: str) -> Images:
    """``pixels`` and ``labels`` as `Images`, after a check; ``where`` names their files in error messages."""
    if pixels.dtype != np.uint8 or pixels.shape[1:] != (SIDE, SIDE, 3):
        raise FormatError(
            f"{where}: images must be uint8 of shape (n, 32, 32, 3), got {pixels.dtype} of shape {pixels.shape}. Convert them."
        )
    if labels.dtype.kind not in "iu" or labels.ndim != 1:
        raise FormatError(
            f"{where}: labels must be integers of shape (n,), got {labels.dtype} of shape {labels.shape}. Convert them."
        )
    if len(pixels) != len(labels):
        raise FormatError(
            f"{where}: there are {len(pixels)} images and {len(labels)} labels. Files of two sets may be mixed up."
        )
    if not len(labels):
        raise FormatError(f"{where}: there are no images. Choose another folder.")
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= n_classes:
        raise FormatError(
            f"{where}: labels must be from 0 to {n_classes - 1}, got {low} to {high}. Check that this is the right image set."
        )
    return Images(np.ascontiguousarray(pixels), labels.astype(np.int64))


def mosaics(folder: Path, n_classes: int, report: Report) -> Found | None:
    """Splits with labels in ``<split>-labels.npy`` and images as the tiles of ``<split>-00.webp``, ``<split>-01.webp``, ..."""
    splits = [split for split in SPLITS if _matching(folder, rf"{split}-(labels\.npy|[0-9]{{2}}\.webp)")]
    if not splits:
        return None
    parts = {split: _mosaic_split(folder, split, n_classes, report) for split in splits}
    return Found(parts, f"WebP mosaics in {folder.resolve().name}")


def arrays(folder: Path, n_classes: int, report: Report) -> Found | None:
    """Splits in ``<split>_images.npy`` and ``<split>_labels.npy``."""
    parts: dict[str, Images] = {}
    for split in SPLITS:
        if _matching(folder, rf"{split}_(images|labels)\.npy"):
            report(f"reading {split}_images.npy", len(parts), len(SPLITS))
            pixels, labels = (_array(folder / f"{split}_{what}.npy") for what in ("images", "labels"))
            parts[split] = checked(pixels, labels, n_classes, f"{folder / split}_*.npy")
    return Found(parts, f"arrays in {folder.resolve().name}") if parts else None


def _array(path: Path) -> HostArray:
    """The array in a ``.npy`` file."""
    if not path.is_file():
        raise FileNotFoundError(f"There is no {path}, which belongs to the files next to it. Add it, or choose another folder.")
    with path.open("rb") as stream:
        if stream.read(2) == b"PK":
            raise FormatError(f"{path} holds several arrays, not one. Write it with `numpy.save`.")
    stored = numpy_files.npy_array(path)
    with damage(f"{path} is damaged: its shape is {str(stored.shape)[:40]}. Write it again."):
        # A copy, because the file may be changed while a network is trained for hours.
        array: HostArray = np.array(stored.whole()) if 0 not in stored.shape else np.empty(stored.shape, stored.dtype)
        return array.reshape(stored.shape)


def _mosaic_split(folder: Path, split: str, n_classes: int, report: Report) -> Images:
    labels = _array(folder / f"{split}-labels.npy")
    paths = _mosaic_paths(folder, split)
    tiles = []
    for i, path in enumerate(paths):
        report(f"reading {path.name}", i, len(paths))
        tiles.append(_tiles(path))
    # Only the last mosaic is padded. More tiles without a label than that mean that images and labels do not belong together.
    n_tiles = sum(map(len, tiles))
    n_images = labels.size if n_tiles - len(tiles[-1]) < labels.size <= n_tiles else n_tiles
    return checked(np.concatenate(tiles)[:n_images], labels, n_classes, f"{folder / split}-*")


def _mosaic_paths(folder: Path, split: str) -> Sequence[Path]:
    names = _matching(folder, rf"{split}-[0-9]{{2}}\.webp")
    expected = [folder / f"{split}-{i:02}.webp" for i in range(max(1, len(names)))]
    for path in expected:
        if path not in names:
            raise FileNotFoundError(f"There is no {path}, which belongs to the files next to it. Copy the image set again.")
    return expected


def _tiles(path: Path) -> Any:
    image = require("PIL.Image", extra="train", for_="Reading WebP mosaics", distribution="nishimori-paper")
    try:
        # Only the format that the name says: Pillow knows dozens, and runs other programs for some of them.
        with warnings.catch_warnings(), image.open(path, formats=["WEBP"]) as file:
            warnings.simplefilter("ignore")  # Pillow's own limit on pixels, which is higher
            if file.width * file.height > _MOST_PIXELS:
                raise FormatError(f"it has {file.width} x {file.height} pixels")
            picture = np.asarray(file.convert("RGB"))
    except Exception as error:  # decoders raise many kinds of errors for damaged files
        brief = " ".join(str(error).split())[:200]
        raise FormatError(f"{path} is truncated, not a WebP image, or too large: {brief}. Copy it again.") from None
    height, width, _ = picture.shape
    if height % SIDE or width % SIDE:
        raise FormatError(f"{path} must consist of tiles of 32 x 32 pixels, got {height} x {width}. Copy it again.")
    rows, columns = height // SIDE, width // SIDE
    return picture.reshape(rows, SIDE, columns, SIDE, 3).transpose(0, 2, 1, 3, 4).reshape(-1, SIDE, SIDE, 3)


def _matching(folder: Path, pattern: str) -> Sequence[Path]:
    return [path for path in folder.iterdir() if re.fullmatch(pattern, path.name)]
