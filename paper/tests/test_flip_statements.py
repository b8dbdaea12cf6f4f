"""The script that flips verdicts and comparisons: what it flips, and that it tells survivors from the others."""

import sys
from pathlib import Path

import pytest
from own_process import Children

import flip_statements

SCRIPT = Path(__file__).parent / "flip_statements.py"
SOURCE = """\
LIMIT = 0.5
Kind = Literal["holds", "contradicted"]
def verdict(n):
    if n["a"] < LIMIT and not n["b"] == 2:
        return "holds"
    return max(-n["c"], abs(n["d"])) if sorted(n, reverse=True) else "contradicted"
"""
# Numbers in comparisons move by a tenth or by 1; the words of a type and keyword arguments such as reverse=True stay.
FLIPS = {
    (1, "0.5", "0.45"),
    (1, "0.5", "0.55"),
    (4, "n['a'] < LIMIT", "n['a'] >= LIMIT"),
    (4, "n['b'] == 2", "n['b'] != 2"),
    (4, "2", "1"),
    (4, "2", "3"),
    (4, "not n['b'] == 2", "n['b'] == 2"),
    (4, "n['a'] < LIMIT and (not n['b'] == 2)", "n['a'] < LIMIT or not n['b'] == 2"),
    (5, "'holds'", "'contradicted'"),
    (6, "max", "min"),
    (6, "-n['c']", "n['c']"),
    (6, "abs(n['d'])", "n['d']"),
    (6, "'contradicted'", "'holds'"),
}


@pytest.fixture(scope="module")
def run():
    """Runs the script in children of a process that has made the imports which take most of its time."""
    with Children([sys.executable], flip_statements.IMPORTS) as children:

        def in_child(*options):
            code, out, err = children.run([sys.executable, str(SCRIPT), *options], Path.cwd())
            return code, out.splitlines(), err

        yield in_child


def test_every_verdict_and_comparison_of_a_file_is_flipped_once(tmp_path):
    file = tmp_path / "_some.py"
    file.write_text(SOURCE, encoding="utf-8")
    found = [
        (flip.line, flip.before, flip.after[:4] if flip.before == "0.5" else flip.after) for flip in flip_statements.flips(file)
    ]
    assert sorted(found) == sorted(FLIPS)


def test_a_flip_changes_nothing_else(tmp_path):
    file = tmp_path / "_some.py"
    file.write_text("a = x < 1\nb = y < 1\n", encoding="utf-8")
    changed = [flip_statements.ast.unparse(flip.tree) for flip in flip_statements.flips(file)]
    assert "a = x >= 1\nb = y < 1" in changed
    assert "a = x < 1\nb = y >= 1" in changed


def test_flips_of_verdicts_are_caught_and_a_flip_that_no_test_sees_is_reported(run):
    # Some of a module: each takes most of a second, and the script is for all of them.
    code, lines, err = run("--only", "_validation", "--quick", "--limit", "5")
    assert (code, err) == (0, "")
    assert lines == ["5 flips, 5 caught, 0 survived"]
    # The work that pieces made by hand stand for is seen by the slow tests alone.
    code, lines, err = run("--only", "_precision", "--quick", "--limit", "1")
    assert (code, err) == (1, "")
    assert lines[0].startswith("survives: _precision.py:")
    assert lines[1] == "1 flips, 0 caught, 1 survived"


def test_every_module_of_the_claims_is_flipped():
    modules = {file.stem for file in flip_statements.FILES}
    assert {"_judged_statement", "_statement", "_method", "_networks", "_regression"} <= modules


@pytest.mark.parametrize("name", [*flip_statements.QUICK, *(file for file, _ in flip_statements.SLOW.values())])
def test_the_tests_that_must_notice_exist(name):
    assert (flip_statements.ARTEFACTS / f"{name}.py").is_file()
