"""Logits of real networks, for demos, tests and first tries without a download.

One network comes with nishimori, others with nishimori-paper.

>>> from nishimori import data
>>> network = data.load("cifar10/resnet20")
>>> network.validation.logits.shape, network.test.logits.shape
((5000, 10), (10000, 10))
"""

import os
from collections.abc import Sequence

from nishimori._support.disk import existing_file
from nishimori.data._folders import IN_PAPER, folders, names_in
from nishimori.data._networks import ENDING, Labelled, Network, check_ending, read, write
from nishimori.errors import InputError

__all__ = ["Labelled", "Network", "load", "names", "save"]


def __dir__() -> list[str]:
    return sorted(__all__)


def names() -> Sequence[str]:
    """The names of the bundled networks, also of those of nishimori-paper if it is installed.

    ``-authors`` marks networks that the authors of arXiv:2303.02644 trained.
    """
    return sorted({name for folder in folders() for name in names_in(folder)})


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
        return read(existing_file(text))
    for folder in folders():
        if text in names_in(folder):
            return read(folder / f"{text}{ENDING}")
    if text in IN_PAPER:
        raise InputError(
            f"The network {text!r} comes with nishimori-paper, which is not installed. Run `pip install nishimori-paper`."
        )
    bundled = names()
    absent = len(set(IN_PAPER).difference(bundled))
    more = f", and {absent} more with `pip install nishimori-paper`" if absent else ""
    raise InputError(
        f"There is no bundled network {text!r}; there are {', '.join(bundled)}{more}. A file's name ends in {ENDING}."
    )


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
    write(network, path, overwrite=overwrite)
