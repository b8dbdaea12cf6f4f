"""Logits of classifiers that people install, on labelled data from Debian packages.

`paper/shipped` in the repository computes them. Development rows were there to choose what is measured; final rows were
measured once, after that.

>>> from nishimori_paper import shipped
>>> model = shipped.load("py3langid")
>>> print(model.title, model.logits.shape[1])
py3langid, naive Bayes 140
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any, Literal

import numpy as np

from nishimori._support.arrays import HostArray
from nishimori.errors import InputError

__all__ = ["ShippedModel", "load", "names"]

_PARTS = {("development", "fit"): 0, ("development", "test"): 1, ("final", "fit"): 2, ("final", "test"): 3}


@dataclass(frozen=True)
class ShippedModel:
    """Logits of one model, or of one part of its rows.

    Attributes
    ----------
    name, title : str
        Name of the file and of the model.
    logits : array of shape (n, K)
        Single precision; the largest of each row is 0.
    labels, documents : arrays of shape (n,)
        Number of the right class, and of the document that a row comes from.
    classes : array of str
        The model's names of its classes.
    split : array of shape (n,)
        0 and 1: development, to fit and to test; 2 and 3: final, to fit and to test. No document is in two of them.
    lengths : array of shape (n,) or None
        Bytes of each input, where they are known.
    doubtful : array of shape (n,) or None
        Whether two other models are sure that the label is another one, where that was asked.
    provenance : dict
        Package, version, licence, where the labelled data come from, how a row was made.
    """

    name: str
    title: str
    logits: HostArray
    labels: HostArray
    documents: HostArray
    classes: HostArray
    split: HostArray
    lengths: HostArray | None
    doubtful: HostArray | None
    provenance: Mapping[str, Any]

    def part(self, half: Literal["development", "final"], use: Literal["fit", "test"] | None = None) -> "ShippedModel":
        """The rows of one half, to fit, to test, or both."""
        wanted = [number for (a, b), number in _PARTS.items() if a == half and use in (b, None)]
        if not wanted:
            raise InputError("part", "be development or final, fit or test", got=f"{half!r}, {use!r}")
        return self.take(np.isin(self.split, wanted))

    def take(self, rows: HostArray) -> "ShippedModel":
        """Some rows, by a mask or by numbers."""
        return replace(self, **{name: getattr(self, name)[rows] for name in self.columns})

    @property
    def columns(self) -> list[str]:
        """Names of the attributes with an entry for each row."""
        optional = [name for name in ("lengths", "doubtful") if getattr(self, name) is not None]
        return ["logits", "labels", "documents", "split", *optional]

    def only(self, classes: HostArray) -> "ShippedModel":
        """The same rows with the logits of some classes, given by their numbers, which must include all labels."""
        numbers = np.full(len(self.classes), -1)
        numbers[classes] = np.arange(len(classes))
        labels = numbers[self.labels]
        if (labels < 0).any():
            raise InputError("classes", "include all labels", got=f"{int((labels < 0).sum())} rows of other classes")
        return replace(self, logits=self.logits[:, classes], labels=labels, classes=self.classes[classes])


def names() -> list[str]:
    """Names of all files of logits."""
    return sorted(file.name.removesuffix(".npz") for file in files(__name__).iterdir() if file.name.endswith(".npz"))


def load(name: str) -> ShippedModel:
    """The logits of a model.

    Parameters
    ----------
    name : str
        One of `names`.

    Returns
    -------
    ShippedModel
        All rows; `ShippedModel.part` gives those to fit and to test.
    """
    if name not in names():
        raise InputError("name", f"be one of {', '.join(names())}", got=repr(name))
    with (files(__name__) / f"{name}.npz").open("rb") as stream, np.load(stream) as stored:
        about = json.loads(str(stored["provenance"]))
        return ShippedModel(
            name=name,
            title=about["title"],
            logits=stored["logits"].astype(np.float32),
            labels=stored["labels"].astype(np.int64),
            documents=stored["documents"],
            classes=stored["classes"],
            split=stored["split"],
            lengths=stored["lengths"].astype(np.int64) if "lengths" in stored.files else None,
            doubtful=stored["doubtful"].astype(bool) if "doubtful" in stored.files else None,
            provenance=about,
        )
