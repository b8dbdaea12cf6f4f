"""paper/STATEMENTS.md and its summary docs/statements.md, written from the results of the artefact `statements`.

nishimori paper run statements -o results
python paper/tests/statements_page.py results
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import nishimori_paper as paper

ROOT = Path(__file__).parents[2]
FULL = "https://github.com/nishimori-project/nishimori/blob/main/paper/STATEMENTS.md"
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
# The paper's statements

Statements of [arXiv:2303.02644](https://arxiv.org/abs/2303.02644) that can be true or false, each once, with the words of the
paper, what these words are taken to mean, what is found here, and a verdict. `nishimori paper check statements` computes them;
this page is its output.

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


SUMMARY = f"""\
# The paper's statements

Which statements of [arXiv:2303.02644](https://arxiv.org/abs/2303.02644) are true? Most hold as they stand, and this page lists
the others by verdict. [The full list]({FULL}) has, for each statement, the paper's words, what has to hold for them to be true,
what we found, and how probable a wrong verdict is. `nishimori paper check statements` computes all of it.

[The paper, reproduced](paper.md#are-the-papers-statements-true) sums up what this means for users.
"""
MEANINGS = {
    "contradicted": "What we find, or what the paper's own equations say, is something else:",
    "slip of the pen": "The words or the sign are wrong as printed, and what is meant is true ([errata](errata.md)):",
    "holds with a condition": "Each is true once a condition is added that the paper does not state:",
    "cannot be judged here": "What would decide it is not available:",
}


def summary(statements: Sequence[paper.JudgedStatement]) -> str:
    """The page of the documentation, in Markdown: every statement that does not hold as it stands."""
    parts = [SUMMARY]
    for verdict, meaning in MEANINGS.items():
        chosen = [statement for statement in statements if statement.verdict == verdict]
        parts.append(f"## {verdict.capitalize()}\n\n{meaning}\n\n" + "\n".join(line(each) for each in chosen) + "\n")
    return "\n".join(parts)


def line(statement: paper.JudgedStatement) -> str:
    """A link to a statement, with its condition in one sentence or with what was found."""
    link = f"- [{plain(heading(statement))}]({FULL}#{anchor(statement)})"
    if statement.verdict == "slip of the pen":
        return link
    return f"{link}: {plain(statement.condition.partition('. ')[0] if statement.condition else statement.ours)}."


def page(statements: Sequence[paper.JudgedStatement]) -> str:
    """The page in Markdown."""
    by_title = {title: [statement for statement in statements if title_of(statement) == title] for title in ORDER}
    rows = [row(statement) for chosen in by_title.values() for statement in chosen]
    parts = [OPENING + "\n".join(rows) + "\n"]
    for title, chosen in by_title.items():
        parts += [f"## {title}\n", *(entry(statement) for statement in chosen)]
    return "\n".join(parts)


def row(statement: paper.JudgedStatement) -> str:
    """The line of a statement in the table, which leads to its entry."""
    return f"| [{plain(heading(statement))}](#{anchor(statement)}) | {plain(statement.section)} | {statement.verdict} |"


def anchor(statement: paper.JudgedStatement) -> str:
    """What the heading of a statement is called in a link."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", statement.name.lower()))


def heading(statement: paper.JudgedStatement) -> str:
    """The name of a statement with a capital letter."""
    return statement.name[:1].upper() + statement.name[1:]


def title_of(statement: paper.JudgedStatement) -> str:
    """The heading under which a statement appears: that of the first section that it names."""
    first = statement.section.partition(",")[0].partition(" and ")[0]
    return TITLES[first] if first in TITLES else TITLES[first.partition(".")[0]]


def entry(statement: paper.JudgedStatement) -> str:
    """One statement: a title with its verdict, the quotation, and a list of what belongs to it."""
    condition = f": {statement.condition}" if statement.condition else ""
    only = f" True only of {statement.true_only_of}." if statement.true_only_of else ""
    lines = [
        f"### {plain(heading(statement))}\n",
        f"“{plain(statement.quotation)}” ({plain(statement.section)})\n",
        f"- **{statement.verdict}**{plain(condition)}.{only}",
        f"- True if: {plain(statement.criterion)}.",
        f"- Found: {plain(statement.ours)}.",
        *([f"- Paper's data: {plain(statement.paper_data)}."] if statement.paper_data else []),
        *([f"- Judgement: {plain(statement.judgement)}."] if statement.judgement else []),
        *([f"- Chance: {plain(statement.chance)}."] if statement.chance else []),
    ]
    return "\n".join(lines) + "\n"


def plain(text: str) -> str:
    """The text without meaning in Markdown."""
    for mark in "\\*_<>|[]":
        text = text.replace(mark, f"\\{mark}")
    return text


if __name__ == "__main__":
    judged = [finding.statement for finding in paper.check("statements", sys.argv[1]) if finding.statement]
    (ROOT / "paper" / "STATEMENTS.md").write_text(page(judged), encoding="utf-8")
    (ROOT / "docs" / "statements.md").write_text(summary(judged), encoding="utf-8")
