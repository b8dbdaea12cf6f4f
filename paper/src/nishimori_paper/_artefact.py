"""Base classes of the paper's tables and figures: pieces of work, tables, a picture, and findings.

An artefact is computed in named *pieces*, so that a long run can be resumed. Every piece is plain JSON. Tables are made from
the pieces, pictures from the tables, and findings compare them with the numbers that the paper prints.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from scipy.special import stdtrit

from nishimori_paper._judged_statement import JudgedStatement, Judgement

Row = Mapping[str, Any]
Pieces = Mapping[str, Any]
Verdict = Literal["agrees", "explained", "differs", "too few seeds"] | Judgement

# Probability that a correct mean over seeds is refused: one in 16,000. With many seeds that is four standard errors.
_RARE = 6e-5
# Seeds so few that this takes more standard errors would agree with nearly anything.
_MOST_ERRORS = 10.0


@dataclass(frozen=True)
class Finding:
    """Our number, compared with the paper's.

    Attributes
    ----------
    what : str
        What the number is.
    ours, paper : float or str
        What we find, and what the paper says.
    agrees : bool
        Whether the two agree, within the tolerance if they are numbers.
    tolerance : float or None
        The largest difference that counts as agreement.
    paper_method : float or None
        The number that the paper's own method gives, where that method is known to differ from ours.
    explanation : str or None
        What the paper's method does differently.
    statement : JudgedStatement or None
        The statement that the finding is about, for findings of the artefact ``statements``; its verdict is the finding's.
    too_few_seeds : bool
        Whether the tolerance is so wide, because our number is a mean over few seeds, that agreement would say nothing.
    """

    what: str
    ours: float | str
    paper: float | str
    agrees: bool
    tolerance: float | None = None
    paper_method: float | None = None
    explanation: str | None = None
    statement: JudgedStatement | None = None
    too_few_seeds: bool = False

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's, if both are numbers."""
        if isinstance(self.ours, str) or isinstance(self.paper, str):
            return None
        return self.ours - self.paper

    @property
    def verdict(self) -> Verdict:
        """Whether the two agree; a difference is explained if the paper's method gives the paper's number."""
        if self.statement is not None:
            return self.statement.verdict
        if self.agrees:
            return "too few seeds" if self.too_few_seeds else "agrees"
        return "explained" if _near(self.paper_method, self.paper, self.tolerance) else "differs"


def compared(
    what: str,
    ours: float,
    paper: float,
    tolerance: float,
    *,
    paper_method: float | None = None,
    explanation: str | None = None,
) -> Finding:
    """Compare our number with a printed one."""
    return Finding(what, ours, paper, _near(ours, paper, tolerance), tolerance, paper_method, explanation)


def compared_mean(what: str, mean: float, error: float, seeds: int, paper: float) -> Finding:
    """Compare a mean over seeds, with its standard error, with a number."""
    errors = float(stdtrit(seeds - 1, 1 - _RARE / 2))
    within, tolerance = f"{what} (within {errors:.1f} standard errors)", errors * error
    return Finding(within, mean, paper, _near(mean, paper, tolerance), tolerance, too_few_seeds=errors > _MOST_ERRORS)


def _near(ours: float | str | None, paper: float | str, tolerance: float | None) -> bool:
    numbers = isinstance(ours, float | int) and isinstance(paper, float | int) and tolerance is not None
    return bool(numbers and abs(ours - paper) <= tolerance)  # type: ignore[operator]


@dataclass(frozen=True)
class Scale:
    """How much work to do, and with which networks.

    Attributes
    ----------
    quick : bool
        Less work, for a first look and for tests.
    seed : int
        Random seed.
    networks : str or None
        A folder with logits of networks trained for this run; None means the bundled logits.
    """

    quick: bool = False
    seed: int = 0
    networks: str | None = None


class Artefact(ABC):
    """A table or figure of the paper; the first line of its class docstring is its title."""

    name: ClassVar[str]
    where: ClassVar[str]
    has_picture: ClassVar[bool] = True

    @property
    def title(self) -> str:
        """A description in one line."""
        return (self.__doc__ or "").strip().splitlines()[0]

    @abstractmethod
    def pieces(self, scale: Scale) -> Mapping[str, Callable[[], Any]]:
        """The pieces of work by name; each is done once and kept as JSON."""

    def networks(self) -> Sequence[str]:
        """The networks whose logits it needs, such as ``"cifar10/resnet20"``, except those the authors trained."""
        return ()

    def compared_pieces(self, scale: Scale) -> Sequence[str]:
        """Names of the pieces that `findings` reads: all of them, unless some are only for the picture."""
        return list(self.pieces(scale))

    @abstractmethod
    def tables(self, done: Pieces) -> Mapping[str, Sequence[Row]]:
        """Tables by name, each a sequence of rows."""

    @abstractmethod
    def findings(self, done: Pieces) -> Sequence[Finding]:
        """Our numbers, compared with the ones that the paper prints."""

    def draw(self, done: Pieces, pyplot: Any) -> Any:
        """The picture, a Matplotlib figure."""
        raise NotImplementedError(f"{self.name} has no picture")
