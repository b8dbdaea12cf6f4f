"""What continuous integration reads: valid XML, and commands that a name from the data cannot change."""

from xml.etree import ElementTree

import pytest

from nishimori._evaluation.annotations import CheckOutcome, junit, workflow_command

NASTY = 'a<b> & "c" \x1b[31m\n::error::x \ud800 \ufffe ü'
OUTCOMES = [
    CheckOutcome("ECE at most 2 %", "passed", "pass", "ECE is fine"),
    CheckOutcome("gap at most 1 %", "doubtful", "inconclusive", "gap may exceed 1 %"),
    CheckOutcome("error at most 3 %", "failed", "fail", NASTY),
]


@pytest.fixture
def suite():
    root = ElementTree.fromstring(junit("nishimori gate", OUTCOMES).encode())
    assert root.tag == "testsuites"
    (found,) = root
    return found


def test_a_junit_file_counts_its_cases(suite):
    assert suite.tag == "testsuite"
    assert suite.attrib == {
        "name": "nishimori gate",
        "tests": "3",
        "failures": "1",
        "errors": "0",
        "skipped": "1",
        "time": "0",
    }
    assert [case.get("name") for case in suite] == [each.title for each in OUTCOMES]
    assert {(case.tag, case.get("classname")) for case in suite} == {("testcase", "nishimori gate")}


def test_a_failed_check_is_a_failure_and_a_doubtful_one_is_skipped(suite):
    passed, doubtful, failed = suite
    assert [child.tag for child in passed] == ["system-out"]
    assert [(child.tag, child.get("message")) for child in doubtful] == [("skipped", "inconclusive: gap may exceed 1 %")]
    assert [(child.tag, child.get("type")) for child in failed] == [("failure", "fail")]


def test_names_from_the_data_are_text_in_a_junit_file(suite):
    (failure,) = suite[2]
    assert failure.get("message") == failure.text == 'a<b> & "c" \\x1b[31m\\n::error::x \\ud800 \N{REPLACEMENT CHARACTER} ü'


@pytest.mark.parametrize(
    ("outcome", "line"),
    [
        (OUTCOMES[0], "::notice title=pass%3A ECE at most 2 %25::ECE is fine"),
        (OUTCOMES[1], "::warning title=inconclusive%3A gap at most 1 %25::gap may exceed 1 %25"),
        (
            CheckOutcome("a, b: c", "failed", "fail", "100 %\r\n::set-env name=x::y"),
            "::error title=fail%3A a%2C b%3A c::100 %25\\r\\n::set-env name=x::y",
        ),
    ],
)
def test_a_workflow_command_is_one_line_with_escaped_characters(outcome, line):
    assert workflow_command(outcome) == line
