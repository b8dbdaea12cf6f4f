"""The check of names that `make lint` runs."""

import ast

import names
import pytest


@pytest.mark.parametrize(
    ("code", "word"),
    [
        ("found = 1", "found"),
        ("def f(given): ...", "given"),
        ("def told(): ...", "told"),
        ("class C:\n    _known: int = 0", "_known"),
        ("self.made = 1", "made"),
        ("[1 for each in x]", "each"),
        ("if (said := 1): ...", "said"),
        ('def f():\n    """Nobody reads it."""', "Nobody in a docstring"),
        ('"""Rows of somebody\'s own."""', "somebody's in a docstring"),
    ],
)
def test_a_name_that_says_nothing_is_a_problem(code, word):
    assert [what for _, what in names.problems(ast.parse(code))] == [word]


@pytest.mark.parametrize("code", ["n_found = 1", "x = found", 'f(given="json key")', '"""Each row."""'])
def test_other_names_and_uses_are_not(code):
    assert list(names.problems(ast.parse(code))) == []


def test_the_exit_status_tells(tmp_path, capsys):
    (tmp_path / "module.py").write_text("x = 1\n", encoding="utf-8")
    assert names.main([str(tmp_path)]) == 0
    (tmp_path / "module.py").write_text("x = 1\nhere = 2\n", encoding="utf-8")
    assert names.main([str(tmp_path)]) == 1
    assert "module.py:2: here" in capsys.readouterr().out
