"""A network's logits on validation and test images, with labels and origin, and their file format."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nishimori._files.arrays.numpy_files import npz_arrays
from nishimori._files.arrays.stored_array import StoredArray
from nishimori._support.arrays import HostArray
from nishimori._support.disk import existing_file, new_file
from nishimori._support.json import parse_json
from nishimori.errors import FormatError, InputError

ENDING = ".npz"
_PARTS = ("validation", "augmented", "test")


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


def read(path: Path) -> Network:
    """What `save` stored."""
    try:
        arrays = npz_arrays(existing_file(path))
        name, provenance = _provenance(arrays["provenance"]())
        parts = {part: _part(arrays, part) for part in _PARTS}
    except OSError:
        raise
    except Exception as error:  # JSON has its own errors, and there are those of missing names and other types
        brief = (
            str(error).partition(". ")[0].rstrip(".") if isinstance(error, FormatError) else f"{type(error).__name__}: {error}"
        )
        brief = " ".join(brief.split())[:200]
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
