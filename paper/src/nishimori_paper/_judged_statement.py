"""A statement of the paper that can be true or false, with the evidence and the verdict."""

from dataclasses import dataclass
from typing import Literal

Judgement = Literal["holds", "holds with a condition", "slip of the pen", "contradicted", "cannot be judged here"]
Origin = Literal["the paper's data", "our data"]


@dataclass(frozen=True)
class JudgedStatement:
    """A statement of the paper, quoted, with our finding and the verdict.

    Attributes
    ----------
    name : str
        A short title.
    section : str
        Where the paper says it.
    quotation : str
        The paper's words; ``[...]`` marks what is left out or added.
    criterion : str
        When the statement counts as true: what its words are taken to mean.
    ours : str
        What we find.
    verdict : str
        ``"holds"``, ``"holds with a condition"``, ``"slip of the pen"``, ``"contradicted"`` or ``"cannot be judged here"``.
    condition : str
        The condition that makes the statement true, what is meant if it is a slip of the pen, or what would be needed to judge
        it; empty for the other two verdicts.
    paper_data : str
        What the paper's own tables, figures or equations say about the statement; empty where they say nothing.
    true_only_of : str or None
        ``"the paper's data"`` or ``"our data"`` if the statement holds, with or without a condition, for one of the two and not
        for the other, else None.
    chance : str
        How probable it is that the criterion fails by chance, and under which assumption; empty where nothing is random.
    judgement : str
        What was decided by reading and not by numbers; empty if nothing was.
    """

    name: str
    section: str
    quotation: str
    criterion: str
    ours: str
    verdict: Judgement
    condition: str = ""
    paper_data: str = ""
    true_only_of: Origin | None = None
    chance: str = ""
    judgement: str = ""

    @property
    def stands(self) -> bool:
        """Whether the statement holds, with or without a condition."""
        return self.verdict in ("holds", "holds with a condition")
