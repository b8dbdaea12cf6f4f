"""Names of networks: data set, model, share of the training images, and who trained the network.

>>> name = NetworkName.parse("cifar10/resnet20-fraction-0.5")
>>> name.model, name.fraction, name.file, name.title
('resnet20', 0.5, 'cifar10-resnet20-fraction-0.5.npz', 'CIFAR-10 ResNet20 (0.5 of the images)')
"""

from dataclasses import dataclass, replace
from typing import Self

_AUTHORS = "-authors"
_FRACTION = "-fraction-"
_SETS = {"svhn": "SVHN", "cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
_MODELS = {
    "densenet121": "DenseNet121",
    "densenet121-linear": "DenseNet121 with linear transitions",
    "vgg19": "VGG19",
    "repvgg-a2": "RepVGG-A2",
}


@dataclass(frozen=True)
class NetworkName:
    """A network's name, such as ``cifar10/resnet20-fraction-0.5`` or ``svhn/resnet20-authors``.

    Attributes
    ----------
    dataset, model : str
        For example ``"cifar10"`` and ``"resnet20"``.
    fraction : float or None
        The share of all labelled images that the network was trained on; None means all except the validation images.
    authors : bool
        Whether the paper's authors trained the network.
    """

    dataset: str
    model: str
    fraction: float | None = None
    authors: bool = False

    @classmethod
    def parse(cls, text: str) -> Self:
        """The name that `str` writes as ``text``."""
        dataset, _, rest = text.partition("/")
        model, _, fraction = rest.removesuffix(_AUTHORS).partition(_FRACTION)
        return cls(dataset, model, float(fraction) if fraction else None, rest.endswith(_AUTHORS))

    def __str__(self) -> str:
        fraction = "" if self.fraction is None else f"{_FRACTION}{self.fraction:g}"
        return f"{self.dataset}/{self.model}{fraction}{_AUTHORS if self.authors else ''}"

    @property
    def file(self) -> str:
        """The file name of the network's logits."""
        return f"{str(self).replace('/', '-')}.npz"

    @property
    def title(self) -> str:
        """Data set and model as the paper writes them, and the share of the images if the network saw a part of them."""
        return self._titled(*self._share)

    @property
    def whose(self) -> str:
        """Who trained the network: ``"authors'"`` or ``"ours"``."""
        return "authors'" if self.authors else "ours"

    @property
    def label(self) -> str:
        """The title with who trained the network."""
        return self._titled(self.whose, *self._share)

    @property
    def our_version(self) -> Self:
        """The same network, trained by us."""
        return replace(self, authors=False)

    @property
    def authors_version(self) -> Self:
        """The same network, trained by the paper's authors."""
        return replace(self, authors=True)

    @property
    def _share(self) -> list[str]:
        return [] if self.fraction is None else [f"{self.fraction:g} of the images"]

    def _titled(self, *remarks: str) -> str:
        model = _MODELS.get(self.model) or self.model.removesuffix("-conv").replace("resnet", "ResNet")
        return f"{_SETS[self.dataset]} {model}" + (f" ({', '.join(remarks)})" if remarks else "")


def resnet20_on(fraction: float) -> NetworkName:
    """The CIFAR-10 ResNet20 that was trained on ``fraction`` of the images.

    Nine tenths are all images except the validation images, so 0.9 is the network of Table 1.
    """
    return NetworkName("cifar10", "resnet20", None if fraction == 0.9 else fraction)
