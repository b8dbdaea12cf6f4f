"""The public originals of the paper's image sets: an archive of pickled batches (CIFAR), MATLAB files (SVHN).

A file with the name of a published file must have its checksum. Batches unpacked from an archive may have any content; the
result says whether they are the published ones. Batches are read without unpickling: see `nishimori_paper.training._pickles`.
"""

import hashlib
import tarfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import loadmat

from nishimori._support.arrays import HostArray
from nishimori._support.progress import Report
from nishimori.errors import FormatError
from nishimori_paper.training import _pickles
from nishimori_paper.training._downloads import PublicFile, verified
from nishimori_paper.training._image_formats import SIDE, Found, Images, checked


@dataclass(frozen=True)
class Original(ABC):
    """An image set in its published form."""

    name: str
    title: str
    n_classes: int
    files: Sequence[PublicFile]

    @abstractmethod
    def read(self, folder: Path, report: Report) -> Found | None:
        """The splits ``train`` and ``test``, or None if ``folder`` holds no file of the set."""

    @property
    @abstractmethod
    def looked_for(self) -> str:
        """The files that `read` looks for, for error messages."""


@dataclass(frozen=True)
class Cifar(Original):
    """Batches pickled by Python 2, one row of 3072 bytes per image: the red, the green and the blue plane."""

    inside: str  # the folder in the archive
    batches: Mapping[str, Mapping[str, str]]  # for each split, the MD5 checksums of its batches
    labels_key: str

    @property
    def looked_for(self) -> str:
        return f"{self.files[0].name} or the folder {self.inside} unpacked from it"

    def read(self, folder: Path, report: Report) -> Found | None:
        (file,) = self.files
        archive = folder / file.name
        unpacked = folder if folder.resolve().name == self.inside else folder / self.inside
        if archive.exists():
            report(f"reading {archive.name}", 0, 1)
            contents, where = _members(verified(archive, file), self._names), archive
            files = f"public original {archive.name}"
        elif unpacked.is_dir():
            report(f"reading {unpacked.name}", 0, 1)
            contents, where = _files(unpacked, self._names), unpacked
            files = f"{self.inside}, {'the public original' if self._published(contents) else 'not the published batches'}"
        else:
            return None
        return Found({split: self._images(contents, names, where) for split, names in self.batches.items()}, files)

    @property
    def _names(self) -> Sequence[str]:
        return [name for split in self.batches.values() for name in split]

    def _published(self, contents: Mapping[str, bytes]) -> bool:
        checksums = {name: md5 for split in self.batches.values() for name, md5 in split.items()}
        return all(hashlib.md5(contents[name], usedforsecurity=False).hexdigest() == checksums[name] for name in checksums)

    def _images(self, contents: Mapping[str, bytes], names: Sequence[str] | Mapping[str, str], where: Path) -> Images:
        parts = [self._batch(contents[name], f"{where}: {name}") for name in names]
        return Images(np.concatenate([part.pixels for part in parts]), np.concatenate([part.labels for part in parts]))

    def _batch(self, content: bytes, where: str) -> Images:
        try:
            batch = _pickles.read(content)
            rows, labels = (
                (_value(batch.get(key)) for key in ("data", self.labels_key)) if isinstance(batch, dict) else (None, None)
            )
        except Exception as error:  # damaged instructions can raise almost any error
            raise FormatError(f"{where}: damaged, or not a batch: {error}. Download it again.") from None
        if not isinstance(rows, np.ndarray) or labels is None:
            raise FormatError(
                f"{where}: not a batch of {self.title}, which has `data` and `{self.labels_key}`. Download it again."
            )
        if rows.ndim != 2 or rows.shape[1] != 3 * SIDE * SIDE:
            raise FormatError(f"{where}: `data` must have shape (n, 3072), got {rows.shape}. Download it again.")
        pixels = rows.reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1)
        return checked(pixels, labels, self.n_classes, where)


@dataclass(frozen=True)
class Svhn(Original):
    """Cropped digits: ``X`` of shape (32, 32, 3, n), and ``y``, in which 10 means the digit 0."""

    @property
    def looked_for(self) -> str:
        return " and ".join(file.name for file in self.files)

    def read(self, folder: Path, report: Report) -> Found | None:
        there = [file for file in self.files if (folder / file.name).exists()]
        if not there:
            return None
        for file in self.files:
            if file not in there:
                raise FileNotFoundError(f"There is no {folder / file.name}. Download {file.url}.")
        splits = {}
        for i, (split, file) in enumerate(zip(("train", "test"), self.files, strict=True)):
            report(f"reading {file.name}", i, len(self.files))
            splits[split] = self._images(verified(folder / file.name, file))
        return Found(splits, f"public original {self.looked_for}")

    def _images(self, path: Path) -> Images:
        try:
            content = loadmat(path, variable_names=("X", "y"))
            pixels, labels = content["X"].transpose(3, 0, 1, 2), content["y"].ravel()
        except Exception as error:  # SciPy's reader raises many kinds of errors for damaged files
            raise FormatError(f"{path} does not hold `X` and `y` of {self.title}: {error!r}. Download it again.") from error
        return checked(pixels, labels % 10, self.n_classes, str(path))


def _files(folder: Path, names: Sequence[str]) -> dict[str, bytes]:
    for name in names:
        if not (folder / name).is_file():
            raise FileNotFoundError(f"There is no {folder / name}. Unpack the archive again.")
    return {name: (folder / name).read_bytes() for name in names}


def _members(archive: Path, names: Sequence[str]) -> dict[str, bytes]:
    """The contents of the members with those names, read in one pass; nothing is extracted to disk."""
    contents = {}
    with tarfile.open(archive, "r|gz") as stream:
        for member in stream:
            name = member.name.rpartition("/")[2]
            if name in names and (content := stream.extractfile(member)):
                contents[name] = content.read()
    if missing := [name for name in names if name not in contents]:
        raise FormatError(f"{archive} has no {', '.join(missing)}. Download it again.")
    return contents


def _value(value: Any) -> HostArray | None:
    """An array, or a list of whole numbers as an array; None for anything else."""
    if isinstance(value, _pickles.PickledArray):
        return value.array()
    # Checked first, because NumPy would follow lists within lists, however many there are.
    return np.array(value) if isinstance(value, list) and all(type(item) is int for item in value) else None


_TORONTO = "https://www.cs.toronto.edu/~kriz/"
_STANFORD = "http://ufldl.stanford.edu/housenumbers/"

# The checksums are those that torchvision.datasets uses.
ORIGINALS: dict[str, Original] = {
    original.name: original
    for original in (
        Svhn(
            name="svhn",
            title="SVHN",
            n_classes=10,
            files=(
                PublicFile(f"{_STANFORD}train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373"),
                PublicFile(f"{_STANFORD}test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3"),
            ),
        ),
        Cifar(
            name="cifar10",
            title="CIFAR-10",
            n_classes=10,
            files=(PublicFile(f"{_TORONTO}cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a"),),
            inside="cifar-10-batches-py",
            batches={
                "train": {
                    "data_batch_1": "c99cafc152244af753f735de768cd75f",
                    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
                    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
                    "data_batch_4": "634d18415352ddfa80567beed471001a",
                    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
                },
                "test": {"test_batch": "40351d587109b95175f43aff81a1287e"},
            },
            labels_key="labels",
        ),
        Cifar(
            name="cifar100",
            title="CIFAR-100",
            n_classes=100,
            files=(PublicFile(f"{_TORONTO}cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85"),),
            inside="cifar-100-python",
            batches={
                "train": {"train": "16019d7e3df5f24257cddd939b257f8d"},
                "test": {"test": "f0ef6b0ae62326f3e7ffdfab6717acfc"},
            },
            labels_key="fine_labels",
        ),
    )
}
