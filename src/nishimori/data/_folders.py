"""Where bundled networks are: in a folder of the library, and in folders of installed packages.

An entry point in the group ``nishimori.data`` has as its value a folder of a package, written with dots, such as
``nishimori_paper.networks``. It holds files ``<data set>/<model>.npz``. Nothing of the package is imported.
"""

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path

from nishimori._support.optional import entry_points
from nishimori.data._networks import ENDING
from nishimori.errors import InputError

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


def folders() -> Iterator[Path]:
    """All folders of networks, the library's first; entry points are looked up only where its own are not enough."""
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
