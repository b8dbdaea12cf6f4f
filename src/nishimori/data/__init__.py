"""Logits of real networks, for demos, tests and first tries without a download.

One network comes with nishimori, others with nishimori-paper.

>>> from nishimori import data
>>> network = data.load("cifar10/resnet20")
>>> network.validation.logits.shape, network.test.logits.shape
((5000, 10), (10000, 10))
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from nishimori._files.arrays.numpy_files import npz_arrays
from nishimori._files.arrays.stored_array import StoredArray
from nishimori._support.arrays import HostArray
from nishimori._support.disk import existing_file, new_file
from nishimori._support.json import parse_json
from nishimori._support.optional import entry_points
from nishimori.errors import FormatError, InputError

__all__ = ["Labelled", "Network", "load", "names", "save"]

GROUP = "nishimori.data"
ENDING = ".npz"
_PARTS = ("validation", "augmented", "test")


def __dir__() -> list[str]:
    return sorted(__all__)


@dataclass(frozen=True)
class Labelled:
    """Logits of shape (n, n_classes) and n labels."""

    logits: HostArray
    labels: HostArray


@dataclass(frozen=True)
class Network:
    """Logits of one network.

    Attributes
    ----------
    name : str
        Data set and model, such as ``"cifar10/resnet20"``.
    validation : Labelled
        On validation images, which were not used for training: to calibrate with.
    test : Labelled
        On test images, which were used neither for training nor for calibration.
    augmented : Labelled or None
        On the validation images, shifted and mirrored at random as in training: the paper's code calibrated with these.
    provenance : dict
        Data, split, recipe, seed, versions, errors.
    """

    name: str
    validation: Labelled
    test: Labelled
    augmented: Labelled | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)


def names() -> Sequence[str]:
    """The names of the bundled networks, also of those of nishimori-paper if it is installed.

    ``-authors`` marks networks that the authors of arXiv:2303.02644 trained.
    """
    return sorted({name for folder in _folders() for name in names_in(folder)})


def load(name: str | os.PathLike[str]) -> Network:
    """Validation and test logits of a network, with their labels and their origin.

    Parameters
    ----------
    name : str or path
        One of `names`, or the path of a file (``.npz``) that `save` or `nishimori_paper.train` wrote.

    Examples
    --------
    >>> import nishimori
    >>> network = nishimori.data.load("cifar10/resnet20")
    >>> fitted = nishimori.temperatures(network.validation.logits, network.validation.labels)
    >>> fitted.ec > 1
    True
    """
    text = os.fspath(name)
    if text.endswith(ENDING):
        return _read(existing_file(text))
    for folder in _folders():
        if text in names_in(folder):
            return _read(folder / f"{text}{ENDING}")
    raise InputError(
        f"There is no bundled network {text!r}; there are {', '.join(names())}, and more with `pip install nishimori-paper`. "
        f"A file's name ends in {ENDING}."
    )


def _folders() -> Iterator[Path]:
    """All folders of networks, the library's first; entry points are looked up only where its own are not enough.

    The value of an entry point in the group ``nishimori.data`` is a folder of a package, written with dots, such as
    ``nishimori_paper.networks``. It holds files ``<data set>/<model>.npz``. Nothing of the package is imported.
    """
    yield Path(__file__).parent
    for point in entry_points(GROUP):
        yield _folder_of(point)


def names_in(folder: Path) -> list[str]:
    """The networks in a folder, by data set and model."""
    return [path.relative_to(folder).as_posix().removesuffix(ENDING) for path in folder.glob(f"*/*{ENDING}")]


def _folder_of(point: EntryPoint) -> Path:
    package, *inner = point.value.split(".")
    spec = find_spec(package) if package else None
    places = (spec and spec.submodule_search_locations) or []
    folder = next((place for root in places if (place := Path(root, *inner)).is_dir()), None)
    if folder is None:
        raise InputError(
            f"The networks that an installed package calls {point.name!r} cannot be found: there is no folder {point.value}. "
            "Repair or remove that package."
        )
    return folder


# --- the file of a network ---------------------------------------------------------------------------------------------------


def check_ending(path: str | os.PathLike[str]) -> None:
    """Refuse a name that `nishimori.data.load` would not recognise as a file."""
    if not os.fspath(path).endswith(ENDING):
        raise InputError("path", f"end in {ENDING}", got=repr(os.fspath(path)))


def save(network: Network, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Store a network's logits in one file that `load` can read.

    The file holds several sets of logits: on validation, test and possibly augmented validation images. A command of the shell
    reads one set, by the names of its arrays: ``nishimori fit FILE --scores validation_logits --labels validation_labels``.

    Parameters
    ----------
    network : Network
        What to store.
    path : path
        A name that ends in ``.npz``.
    overwrite : bool
        Replace an existing file.
    """
    check_ending(path)
    arrays: dict[str, HostArray] = {}
    for part in _PARTS:
        if (labelled := getattr(network, part)) is not None:
            logits, labels = np.asarray(labelled.logits), np.asarray(labelled.labels)
            if not _fit(logits, labels):
                raise InputError(
                    part,
                    "have logits of shape (n, n_classes) and n integer labels",
                    got=f"{logits.shape} and {labels.dtype} of shape {labels.shape}",
                )
            smallest = np.result_type(*map(np.min_scalar_type, (labels.min(initial=0), labels.max(initial=0))))
            arrays[f"{part}_logits"], arrays[f"{part}_labels"] = logits, labels.astype(smallest)
    text = json.dumps({**network.provenance, "name": network.name}, ensure_ascii=False)
    with new_file(path, overwrite=overwrite) as temporary:
        np.savez_compressed(temporary, provenance=np.array(text), **arrays)  # type: ignore[arg-type]


def _read(path: Path) -> Network:
    """What `save` stored."""
    try:
        arrays = npz_arrays(existing_file(path))
        name, provenance = _provenance(arrays["provenance"]())
        parts = {part: _part(arrays, part) for part in _PARTS}
    except OSError:
        raise
    except Exception as error:  # JSON has its own errors, and there are those of missing names and other types
        brief = " ".join(f"{type(error).__name__}: {error}".split()).partition(". ")[0][:200]
        raise FormatError(f"{path} is not a file of a network's logits, or damaged ({brief}). Compute it again.") from None
    validation, test = parts["validation"], parts["test"]
    if validation is None or test is None:
        raise FormatError(f"{path} lacks validation or test logits. Compute it again.")
    return Network(name, validation, test, parts["augmented"], provenance)


def _provenance(stored: StoredArray) -> tuple[str, dict[str, Any]]:
    provenance = parse_json(stored.whole().item())
    name = provenance.pop("name")
    if not isinstance(name, str):
        raise FormatError(f"its name is {name!r:.40}")
    return name, provenance


def _part(arrays: dict[str, Callable[[], StoredArray]], part: str) -> Labelled | None:
    if f"{part}_logits" not in arrays:
        return None
    logits, labels = (arrays[f"{part}_{what}"]().numbers().whole() for what in ("logits", "labels"))
    if not _fit(logits, labels):
        raise FormatError(f"{part} has logits of shape {logits.shape} and labels of shape {labels.shape}")
    return Labelled(logits, labels.astype(np.int64))


def _fit(logits: HostArray, labels: HostArray) -> bool:
    """Whether these are logits of shape (n, n_classes) and n integer labels."""
    return logits.ndim == 2 and labels.shape == logits.shape[:1] and labels.dtype.kind in "iu"
