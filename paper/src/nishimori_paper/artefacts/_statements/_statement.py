"""Judge a statement of the paper: its words, the deciding numbers, and the tests that they must pass.

A *group* has statements that are judged from the same pieces of work. To add statements, write a module with a group of its own
and name it in `nishimori_paper.artefacts._statements.GROUPS`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nishimori_paper._artefact import Pieces, Scale
from nishimori_paper._judged_statement import JudgedStatement, Judgement, Origin

Numbers = Mapping[str, Any]
Test = Callable[[Numbers], bool]


@dataclass(frozen=True)
class Statement:
    """A statement of the paper, and how it is judged.

    Attributes
    ----------
    name, section, quotation
        As for `JudgedStatement`.
    criterion, ours, paper_data : str
        Templates for the texts of the statement, filled in with numbers of the group.
    holds : callable or None
        Whether the criterion is met; None if nothing here can decide it.
    condition : str
        The condition under which the statement is true, if it does not hold as it stands, or what it means to say; a template,
        too.
    holds_if : callable or None
        Whether it is true under that condition; None if there is no such condition.
    slip_if : callable or None
        Whether what is evidently meant is true, so that the words are a slip of the pen; None if they mean what they say.
    paper_holds : callable or None
        Whether the paper's own numbers meet the criterion; None if there are none.
    chance : str
        How probable it is that the criterion fails by chance, a template; empty where nothing is random.
    judgement : str
        Why a reader decided that the statement does not hold as it stands, which no number can say. ``holds`` is None then.
    """

    name: str
    section: str
    quotation: str
    criterion: str
    ours: str
    holds: Test | None
    condition: str = ""
    holds_if: Test | None = None
    paper_data: str = ""
    paper_holds: Test | None = None
    slip_if: Test | None = None
    chance: str = ""
    judgement: str = ""

    def judged(self, numbers: Numbers) -> JudgedStatement:
        """The statement with its verdict."""
        verdict = self._verdict(numbers)
        explained = verdict not in ("holds", "contradicted")
        return JudgedStatement(
            self.name,
            self.section,
            self.quotation,
            _filled(self.criterion, numbers),
            _filled(self.ours, numbers),
            verdict,
            _filled(self.condition, numbers) if explained else "",
            _filled(self.paper_data, numbers),
            self._true_only_of(numbers),
            _filled(self.chance, numbers),
            self.judgement,
        )

    def _verdict(self, numbers: Numbers) -> Judgement:
        if self.holds is None and not self.judgement:
            return "cannot be judged here"
        if self.holds is not None and self.holds(numbers):
            return "holds"
        if self.holds_if is not None and self.holds_if(numbers):
            return "holds with a condition"
        return "slip of the pen" if self.slip_if is not None and self.slip_if(numbers) else "contradicted"

    def _true_only_of(self, numbers: Numbers) -> Origin | None:
        if self.holds is None or self.paper_holds is None:
            return None
        # A condition says of what a statement is true, which may be our data as well.
        ours, paper = self._verdict(numbers) in ("holds", "holds with a condition"), self.paper_holds(numbers)
        return None if ours == paper else "our data" if ours else "the paper's data"


def _filled(template: str, numbers: Numbers) -> str:
    """The text with its numbers; a percent sign stands apart from its number, as everywhere in the documentation."""
    return re.sub(r"(?<=\d)%", " %", template.format(**numbers))


@dataclass(frozen=True)
class Group:
    """Statements that are judged from the same pieces of work.

    Attributes
    ----------
    pieces : callable
        The pieces of work by name, for a `Scale`. Equal names in two groups must mean equal work: it is done once.
    numbers : callable
        The numbers that decide, from the finished pieces.
    statements : sequence of Statement
        In the order of the paper.
    """

    pieces: Callable[[Scale], Mapping[str, Callable[[], Any]]]
    numbers: Callable[[Pieces], Numbers]
    statements: Sequence[Statement]

    def judged_statements(self, done: Pieces) -> list[JudgedStatement]:
        """The statements with their verdicts."""
        numbers = self.numbers(done)
        return [statement.judged(numbers) for statement in self.statements]
