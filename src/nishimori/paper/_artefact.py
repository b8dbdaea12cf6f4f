"""What each table and figure of the paper has in common: pieces of work, tables, a picture, and findings.

An artefact is computed in named *pieces*, so that a long run can be resumed; every piece is plain JSON. Tables are made of
the pieces, pictures of the tables, and findings compare them with what the paper prints.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

Row = Mapping[str, Any]
Pieces = Mapping[str, Any]
Verdict = Literal["agrees", "explained", "differs"]


@dataclass(frozen=True)
class Finding:
    """Our number beside the paper's.

    Attributes
    ----------
    what : str
        What the number is.
    ours, paper : float or str
        What we find, and what the paper says.
    agrees : bool
        Whether the two agree, within the tolerance where they are numbers.
    tolerance : float or None
        The largest difference that counts as agreement.
    in_their_way : float or None
        What computing the number as the paper did gives, where that is known to be another way.
    because : str or None
        What that other way is.
    """

    what: str
    ours: float | str
    paper: float | str
    agrees: bool
    tolerance: float | None = None
    in_their_way: float | None = None
    because: str | None = None

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's, where both are numbers."""
        if isinstance(self.ours, str) or isinstance(self.paper, str):
            return None
        return self.ours - self.paper

    @property
    def verdict(self) -> Verdict:
        """Whether the two agree; a difference is explained if computing in the paper's way removes it."""
        if self.agrees:
            return "agrees"
        return "explained" if _near(self.in_their_way, self.paper, self.tolerance) else "differs"


def compared(
    what: str, ours: float, paper: float, tolerance: float, *, in_their_way: float | None = None, because: str | None = None
) -> Finding:
    """A number against a printed one; ``in_their_way`` is what the paper's own way of computing it gives, and why."""
    return Finding(what, ours, paper, _near(ours, paper, tolerance), tolerance, in_their_way, because)


def _near(ours: float | str | None, paper: float | str, tolerance: float | None) -> bool:
    numbers = isinstance(ours, float | int) and isinstance(paper, float | int) and tolerance is not None
    return bool(numbers and abs(ours - paper) <= tolerance)  # type: ignore[operator]


@dataclass(frozen=True)
class Scale:
    """How much work to do, and on what.

    Attributes
    ----------
    quick : bool
        For a first look and for tests.
    seed : int
        Of everything random.
    networks : str or None
        A folder with logits of trained networks; the bundled ones if None.
    """

    quick: bool = False
    seed: int = 0
    networks: str | None = None


class Artefact(ABC):
    """A table or figure of the paper; its class docstring's first line is its title."""

    name: ClassVar[str]
    where: ClassVar[str]

    @property
    def title(self) -> str:
        """One line that says what it shows."""
        return (self.__doc__ or "").strip().splitlines()[0]

    @abstractmethod
    def pieces(self, scale: Scale) -> Mapping[str, Callable[[], Any]]:
        """The work, in pieces that are each done once and kept as JSON."""

    def networks(self) -> Sequence[str]:
        """The networks whose logits it needs, as in ``"cifar10/resnet20"``, but for those the authors trained."""
        return ()

    def compared_pieces(self, scale: Scale) -> Sequence[str]:
        """Names of the pieces that `findings` reads; all, unless some only decorate the picture."""
        return list(self.pieces(scale))

    @abstractmethod
    def tables(self, done: Pieces) -> Mapping[str, Sequence[Row]]:
        """Rows of numbers by the name of their table."""

    @abstractmethod
    def findings(self, done: Pieces) -> Sequence[Finding]:
        """What the paper prints, beside what we find."""

    @abstractmethod
    def draw(self, done: Pieces, pyplot: Any) -> Any:
        """The picture, a Matplotlib figure."""
