"""The page docs/claims.md, written from the results of the artefact `claims`.

nishimori paper run claims -o results
python paper/tests/claims_page.py results > docs/claims.md
"""

import re
import sys
from collections.abc import Sequence

import nishimori_paper as paper

TITLES = {
    "abstract": "Abstract and Section 1",
    "1": "Abstract and Section 1",
    "2": "Section 2",
    "3": "Section 3",
    "4": "Section 4",
    "Table 1": "Section 4",
    "A": "Appendix A",
    "C": "Appendix C",
    "5": "Section 5",
}
ORDER = ("Abstract and Section 1", "Section 2", "Section 3", "Section 4", "Section 5", "Appendix A", "Appendix C")
OPENING = """\
# The paper's claims

Statements of [arXiv:2303.02644](https://arxiv.org/abs/2303.02644) that can be true or false, each once, with the words of the
paper, what these words are taken to mean, what is found here, and a verdict. `nishimori paper check claims` computes them; this
page is its output.

- **holds**: the statement is true as it stands.
- **holds with a condition**: it is true once the condition is added; the paper does not state the condition.
- **slip of the pen**: the words or the sign are wrong as printed, and the rest of the paper shows what is meant, which is true.
- **contradicted**: what is found here, or the paper's own equations and tables, say something else.
- **cannot be judged here**: what would decide it is not available.

*Paper's data* are numbers that the paper prints, or what its equations and its code say. A statement that is true of these
and not of our data, or the reverse, says so. "Networks" are the authors' three and our eight, calibrated on clean validation
images, unless the line says otherwise; the statements on the cost of calibration and on the minimum of the ECE are about all 19
bundled networks. *Judgement* is what was decided by reading, and not by a number. *Chance* is the probability that the
criterion fails although the statement is true, or passes although it is not, computed from the standard errors of what is
compared, as if networks were independent, although those of a data set share images; without such a line nothing is random:
theory, equations, printed numbers, counts.

| statement | section | verdict |
|---|---|---|
"""


def page(claims: Sequence[paper.Claim]) -> str:
    """The page in Markdown."""
    by_title = {title: [claim for claim in claims if title_of(claim) == title] for title in ORDER}
    rows = [row(claim) for chosen in by_title.values() for claim in chosen]
    parts = [OPENING + "\n".join(rows) + "\n"]
    for title, chosen in by_title.items():
        parts += [f"## {title}\n", *(entry(claim) for claim in chosen)]
    return "\n".join(parts)


def row(claim: paper.Claim) -> str:
    """The line of a claim in the table, which leads to its entry."""
    anchor = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", claim.name.lower()))
    return f"| [{plain(heading(claim))}](#{anchor}) | {plain(claim.section)} | {claim.verdict} |"


def heading(claim: paper.Claim) -> str:
    """The name of a claim with a capital letter."""
    return claim.name[:1].upper() + claim.name[1:]


def title_of(claim: paper.Claim) -> str:
    """The heading under which a claim appears: that of the first section that it names."""
    first = claim.section.partition(",")[0].partition(" and ")[0]
    return TITLES[first] if first in TITLES else TITLES[first.partition(".")[0]]


def entry(claim: paper.Claim) -> str:
    """One claim: a title with its verdict, the quotation, and a list of what belongs to it."""
    condition = f": {claim.condition}" if claim.condition else ""
    only = f" True only of {claim.true_only_of}." if claim.true_only_of else ""
    lines = [
        f"### {plain(heading(claim))}\n",
        f"“{plain(claim.quotation)}” ({plain(claim.section)})\n",
        f"- **{claim.verdict}**{plain(condition)}.{only}",
        f"- True if: {plain(claim.criterion)}.",
        f"- Found: {plain(claim.ours)}.",
        *([f"- Paper's data: {plain(claim.paper_data)}."] if claim.paper_data else []),
        *([f"- Judgement: {plain(claim.judgement)}."] if claim.judgement else []),
        *([f"- Chance: {plain(claim.chance)}."] if claim.chance else []),
    ]
    return "\n".join(lines) + "\n"


def plain(text: str) -> str:
    """The text without meaning in Markdown."""
    for mark in "\\*_<>|[]":
        text = text.replace(mark, f"\\{mark}")
    return text


if __name__ == "__main__":
    sys.stdout.write(page([finding.claim for finding in paper.check("claims", sys.argv[1]) if finding.claim]))
