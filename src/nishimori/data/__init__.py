"""Logits of real networks, for demos, tests and first tries without a download.

One network comes with nishimori, others with nishimori-paper.

>>> from nishimori import data
>>> network = data.load("cifar10/resnet20")
>>> network.validation.logits.shape, network.test.logits.shape
((5000, 10), (10000, 10))
"""

import os
from collections.abc import Iterator, Sequence
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path

from nishimori._support.disk import existing_file
from nishimori._support.optional import entry_points
from nishimori.data._networks import ENDING, Labelled, Network, read, save
from nishimori.errors import InputError

__all__ = ["Labelled", "Network", "load", "names", "save"]


GROUP = "nishimori.data"

# The networks of nishimori-paper, so that a message can say where a name comes from.
IN_PAPER = (
    "cifar10/densenet121",
    "cifar10/resnet20-authors",
    *(f"cifar10/resnet20-fraction-0.{tenths}" for tenths in range(1, 9)),
    "cifar10/resnet56",
    "cifar10/resnet56-authors",
    "cifar100/repvgg-a2",
    "cifar100/resnet20-conv",
    "cifar100/resnet56-conv",
    "cifar100/vgg19",
    "svhn/resnet20",
    "svhn/resnet20-authors",
)


def __dir__() -> list[str]:
    return sorted(__all__)


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
        return read(existing_file(text))
    for folder in _folders():
        if text in names_in(folder):
            return read(folder / f"{text}{ENDING}")
    if text in IN_PAPER:
        raise InputError(
            f"The network {text!r} comes with nishimori-paper, which is not installed. Run `pip install nishimori-paper`."
        )
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
