"""A network's logits on validation and test images, with labels and origin, and their file format."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nishimori._array import HostArray
from nishimori._disk import new_file
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
        raise InputError(f"`path` must end in {ENDING}, got {os.fspath(path)!r}.")


def write(network: Network, path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Store a network as one .npz file."""
    arrays: dict[str, HostArray] = {}
    for part in _PARTS:
        labelled: Labelled | None = getattr(network, part)
        if labelled is not None:
            logits, labels = np.asarray(labelled.logits), np.asarray(labelled.labels)
            if not _fit(logits, labels) or labels.dtype.kind not in "iu":
                raise InputError(
                    f"`{part}` must have logits of shape (n, n_classes) and n integer labels, got {logits.shape} and "
                    f"{labels.dtype} of shape {labels.shape}."
                )
            arrays[f"{part}_logits"], arrays[f"{part}_labels"] = logits, _small(labels)
    text = json.dumps({**network.provenance, "name": network.name}, ensure_ascii=False)
    with new_file(path, overwrite=overwrite) as temporary:
        np.savez_compressed(temporary, provenance=np.array(text), **arrays)  # type: ignore[arg-type]


def read(path: Path) -> Network:
    """What `write` stored."""
    try:
        # Opened here, because NumPy does not close a file that is not an archive.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as content:
            provenance = dict(json.loads(str(content["provenance"])))
            name = provenance.pop("name")
            parts = {part: _part(content, part) for part in _PARTS}
    except PermissionError:
        raise
    except Exception as error:
        # A damaged archive can raise almost any error: zlib, zipfile and NumPy each have their own.
        brief = f"{type(error).__name__}: {error}"
        raise FormatError(f"{path} is not a file of a network's logits, or damaged ({brief}). Compute it again.") from None
    validation, test = parts["validation"], parts["test"]
    if validation is None or test is None:
        raise FormatError(f"{path} lacks validation or test logits. Compute it again.")
    return Network(name, validation, test, parts["augmented"], provenance)


def _part(content: Mapping[str, HostArray], part: str) -> Labelled | None:
    if f"{part}_logits" not in content:
        return None
    logits, labels = content[f"{part}_logits"], content[f"{part}_labels"].astype(np.int64)
    if not _fit(logits, labels):
        raise FormatError(f"{part} has logits of shape {logits.shape} and labels of shape {labels.shape}")
    return Labelled(logits, labels)


def _fit(logits: HostArray, labels: HostArray) -> bool:
    return logits.ndim == 2 and labels.shape == logits.shape[:1]


def _small(labels: HostArray) -> HostArray:
    """The labels in the smallest integer type that holds them."""
    return labels.astype(np.result_type(*map(np.min_scalar_type, (labels.min(initial=0), labels.max(initial=0)))))
