"""Statements of the paper that can be true or false: each once, quoted, with its evidence and a verdict."""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

from nishimori_paper._artefact import Artefact, Finding, Pieces, Row, Scale
from nishimori_paper._claim import Claim
from nishimori_paper.artefacts._claims import (
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
from nishimori_paper.artefacts._claims._statement import Group
from nishimori_paper.artefacts._figure_train_size import FigureTrainSize
from nishimori_paper.artefacts._rows import trained_networks

__all__ = ["GROUPS", "Claims"]

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

# The order in which claims are listed; a statement that names several places is listed at the first.
_PLACES = ("abstract", "1", "2", "3", "4", "Table 1", "5", "5.1", "5.2", "5.3", "6", "A", "B", "C")


class Claims(Artefact):
    """The paper's statements, one by one: the quotation, what is found here, and a verdict."""

    name = "claims"
    where = "All sections, appendices A and C"
    has_picture = False  # a list of texts

    def networks(self) -> Sequence[str]:
        return list(dict.fromkeys([*trained_networks(), *FigureTrainSize().networks()]))

    def pieces(self, scale: Scale) -> Mapping[str, Callable[[], Any]]:
        return dict(chain.from_iterable(group.pieces(scale).items() for group in GROUPS))

    def claims(self, done: Pieces) -> Sequence[Claim]:
        """Every statement with its verdict, in the order of the paper."""
        return sorted((claim for group in GROUPS for claim in group.claims(done)), key=_place)

    def tables(self, done: Pieces) -> Mapping[str, Sequence[Row]]:
        columns = (
            *("section", "name", "quotation", "criterion", "ours"),
            *("paper_data", "verdict", "condition", "chance", "judgement", "true_only_of"),
        )
        return {"claims": [{name: getattr(claim, name) for name in columns} for claim in self.claims(done)]}

    def findings(self, done: Pieces) -> Sequence[Finding]:
        return [
            Finding(f"{claim.section}: {claim.name}", claim.ours, claim.quotation, claim.stands, claim=claim)
            for claim in self.claims(done)
        ]


def _place(claim: Claim) -> int:
    return _PLACES.index(claim.section.partition(",")[0].partition(" and ")[0])
