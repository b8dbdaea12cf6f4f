"""Logits of real networks, bundled, so that demos, tests and first tries need no download.

>>> from nishimori import data
>>> network = data.load("cifar10/resnet20")
>>> network.validation.logits.shape, network.test.logits.shape
((5000, 10), (10000, 10))
"""

import os
from collections.abc import Sequence
from pathlib import Path

from nishimori._disk import existing_file
from nishimori.data._networks import ENDING, Labelled, Network, check_ending, read, write
from nishimori.errors import InputError

__all__ = ["Labelled", "Network", "load", "names", "save"]

_FOLDER = Path(__file__).parent


def names() -> Sequence[str]:
    """The bundled networks, data set first; ``-authors`` marks those whose weights the paper's authors trained."""
    return sorted(each.relative_to(_FOLDER).as_posix().removesuffix(ENDING) for each in _FOLDER.glob(f"*/*{ENDING}"))


def load(name: str | os.PathLike[str]) -> Network:
    """Validation and test logits of a network, with labels and where they come from.

    Parameters
    ----------
    name : str or path
        One of `names`, or a file that `save` or ``nishimori paper train`` wrote, whose name ends in ``.npz``.

    Examples
    --------
    >>> import nishimori
    >>> network = nishimori.data.load("cifar10/resnet20")
    >>> found = nishimori.temperatures(network.validation.logits, network.validation.labels)
    >>> found.ec > 1
    True
    """
    text = os.fspath(name)
    if text.endswith(ENDING):
        return read(existing_file(text))
    if text not in names():
        raise InputError(
            f"There is no bundled network {text!r}; there are {', '.join(names())}. A file's name ends in {ENDING}."
        )
    return read(_FOLDER / f"{text}{ENDING}")


def save(network: Network, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Store a network's logits so that `load` and every command can read them.

    Parameters
    ----------
    network : Network
        What to store.
    path : path
        A name that ends in ``.npz``.
    overwrite : bool
        Replace a file that is there.
    """
    check_ending(path)
    write(network, path, overwrite=overwrite)
