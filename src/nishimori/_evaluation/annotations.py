"""Results of checks in the forms that continuous integration reads: JUnit's XML, and the workflow commands of GitHub."""

from collections.abc import Sequence
from typing import Literal, NamedTuple
from xml.etree import ElementTree

from nishimori._support.escape import workflow_text, xml_text

State = Literal["passed", "doubtful", "failed", "error"]
"""How a check ended; "error" where it could not be made."""

_COMMANDS = {"passed": "notice", "doubtful": "warning", "failed": "error", "error": "error"}
_ELEMENTS = {"failed": "failure", "error": "error"}


class CheckOutcome(NamedTuple):
    """One check: what was asked, how it ended, and a sentence with its numbers."""

    title: str
    state: State
    kind: str
    message: str


def junit(suite: str, outcomes: Sequence[CheckOutcome]) -> str:
    """A JUnit file: one test case per check; what is doubtful counts as skipped, so that it is seen and does not fail."""
    states = [outcome.state for outcome in outcomes]
    columns: dict[str, State] = {"failures": "failed", "errors": "error", "skipped": "doubtful"}
    numbers = {"tests": str(len(states)), **{name: str(states.count(state)) for name, state in columns.items()}}
    root = ElementTree.Element("testsuites", numbers)
    inside = ElementTree.SubElement(root, "testsuite", {"name": xml_text(suite), **numbers, "time": "0"})
    for outcome in outcomes:
        case = ElementTree.SubElement(
            inside, "testcase", {"classname": xml_text(suite), "name": xml_text(outcome.title), "time": "0"}
        )
        message = xml_text(outcome.message)
        if outcome.state in _ELEMENTS:
            ElementTree.SubElement(case, _ELEMENTS[outcome.state], {"message": message, "type": outcome.kind}).text = message
        elif outcome.state == "doubtful":
            ElementTree.SubElement(case, "skipped", {"message": f"{outcome.kind}: {message}"})
        else:
            ElementTree.SubElement(case, "system-out").text = message
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def workflow_command(outcome: CheckOutcome) -> str:
    """A line that GitHub Actions shows as an error, a warning or a notice of the run."""
    title = workflow_text(f"{outcome.kind}: {outcome.title}").replace(":", "%3A").replace(",", "%2C")
    return f"::{_COMMANDS[outcome.state]} title={title}::{workflow_text(outcome.message)}"
