"""Statements of the paper that can be true or false: each once, quoted, with its evidence and a verdict."""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

from nishimori_paper._artefact import Artefact, Finding, Pieces, Row, Scale
from nishimori_paper._judged_statement import JudgedStatement
from nishimori_paper.artefacts._figure_train_size import FigureTrainSize
from nishimori_paper.artefacts._rows import trained_networks
from nishimori_paper.artefacts._statements import (
    _bayes,
    _figures,
    _maximisation,
    _method,
    _networks,
    _noise,
    _regression,
    _related_work,
    _similarity,
    _validation,
)
from nishimori_paper.artefacts._statements._statement import Group

__all__ = ["GROUPS", "Statements"]

# A new group of statements is a module with a `GROUP`, named here.
GROUPS: Sequence[Group] = tuple(
    module.GROUP
    for module in (
        _validation,
        _similarity,
        _related_work,
        _method,
        _networks,
        _figures,
        _noise,
        _bayes,
        _maximisation,
        _regression,
    )
)

# The order in which statements are listed; a statement that names several places is listed at the first.
_PLACES = ("abstract", "1", "2", "3", "4", "Table 1", "5", "5.1", "5.2", "5.3", "6", "A", "B", "C")


class Statements(Artefact):
    """The paper's statements, one by one: the quotation, what is found here, and a verdict."""

    name = "statements"
    where = "All sections, appendices A and C"
    has_picture = False  # a list of texts

    def networks(self) -> Sequence[str]:
        return list(dict.fromkeys([*trained_networks(), *FigureTrainSize().networks()]))

    def pieces(self, scale: Scale) -> Mapping[str, Callable[[], Any]]:
        return dict(chain.from_iterable(group.pieces(scale).items() for group in GROUPS))

    def judged_statements(self, done: Pieces) -> Sequence[JudgedStatement]:
        """Every statement with its verdict, in the order of the paper."""
        return sorted((statement for group in GROUPS for statement in group.judged_statements(done)), key=_place)

    def tables(self, done: Pieces) -> Mapping[str, Sequence[Row]]:
        columns = (
            *("section", "name", "quotation", "criterion", "ours"),
            *("paper_data", "verdict", "condition", "chance", "judgement", "true_only_of"),
        )
        return {
            "statements": [{name: getattr(statement, name) for name in columns} for statement in self.judged_statements(done)]
        }

    def findings(self, done: Pieces) -> Sequence[Finding]:
        return [
            Finding(
                f"{statement.section}: {statement.name}",
                statement.ours,
                statement.quotation,
                statement.stands,
                statement=statement,
            )
            for statement in self.judged_statements(done)
        ]


def _place(statement: JudgedStatement) -> int:
    return _PLACES.index(statement.section.partition(",")[0].partition(" and ")[0])
