"""Results of checks in the forms that continuous integration reads: JUnit's XML, and the workflow commands of GitHub."""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple
from xml.etree import ElementTree

from nishimori._progress import printable

# What XML 1.0 does not allow, besides control characters and halves of surrogate pairs, which `printable` escapes.
_NOT_XML = re.compile("[\ufffe\uffff]")

_COMMANDS = {"passed": "notice", "doubtful": "warning", "failed": "error"}


State = Literal["passed", "doubtful", "failed"]


class Outcome(NamedTuple):
    """One check: what was asked, how it ended, and a sentence with its numbers."""

    title: str
    state: State
    kind: str
    message: str


def junit(suite: str, outcomes: Sequence[Outcome]) -> str:
    """A JUnit file: one test case per check; what is doubtful counts as skipped, so that it is seen and does not fail."""
    states = [each.state for each in outcomes]
    counts = {"tests": len(states), "failures": states.count("failed"), "errors": 0, "skipped": states.count("doubtful")}
    numbers = {name: str(count) for name, count in counts.items()}
    root = ElementTree.Element("testsuites", numbers)
    inside = ElementTree.SubElement(root, "testsuite", {"name": _xml(suite), **numbers, "time": "0"})
    for each in outcomes:
        case = ElementTree.SubElement(inside, "testcase", {"classname": _xml(suite), "name": _xml(each.title), "time": "0"})
        if each.state == "failed":
            failure = ElementTree.SubElement(case, "failure", {"message": _xml(each.message), "type": each.kind})
            failure.text = _xml(each.message)
        elif each.state == "doubtful":
            ElementTree.SubElement(case, "skipped", {"message": _xml(f"{each.kind}: {each.message}")})
        else:
            ElementTree.SubElement(case, "system-out").text = _xml(each.message)
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _xml(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", printable(text))


def workflow_command(outcome: Outcome) -> str:
    """A line that GitHub Actions shows as an error, a warning or a notice of the run."""
    title = _escaped(f"{outcome.kind}: {outcome.title}").replace(":", "%3A").replace(",", "%2C")
    return f"::{_COMMANDS[outcome.state]} title={title}::{_escaped(outcome.message)}"


def _escaped(text: str) -> str:
    """The text as GitHub reads it; the ends of lines, which would end a command, are control characters."""
    return printable(text).replace("%", "%25")
