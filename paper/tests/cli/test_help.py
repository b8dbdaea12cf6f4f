"""The help of ``nishimori paper`` is like that of the other commands, and shells complete names of artefacts."""

import pytest
import shell
import typer.rich_utils

from nishimori.cli import _app
from nishimori_paper import cli
from nishimori_paper.cli import _theory

GROUP = typer.main.get_group(cli.app)
EVERY = {("theory",): typer.main.get_command(_theory.app), ("paper",): GROUP} | {
    ("paper", name): command for name, command in GROUP.commands.items()
}


@pytest.fixture
def help_of(monkeypatch, tmp_path):
    """The help of a command, as a terminal of 80 columns shows it."""

    def text(*words):
        monkeypatch.setattr(typer.rich_utils, "MAX_WIDTH", 80)
        return shell.nishimori(*words, "--help", place=tmp_path).out

    return text


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_help_fits_80_columns_and_ends_with_examples_and_exit_codes(help_of, words):
    lines = help_of(*words).splitlines()
    assert max(map(len, lines)) <= 80
    start = lines.index(next(line for line in lines if line.strip() == "Examples:"))
    assert any(line.strip() == "Exit codes:" for line in lines[start:])
    examples = [line.strip() for line in lines[start:] if line.startswith("   $ ")]
    assert examples
    epilog = EVERY[words].epilog
    for line in epilog.splitlines():
        assert any(line.strip() == shown.strip() for shown in ["", *lines]), "it is not broken into two lines"


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_the_examples_in_the_help_are_valid(words):
    lines = [line.strip().removeprefix("$ nishimori ") for line in EVERY[words].epilog.splitlines() if " $ " in line]
    for line in lines:
        command, rest = typer.main.get_command(_app.app), line.split()
        while hasattr(command, "get_command"):
            command, rest = command.get_command(None, rest[0]), rest[1:]
        with command.make_context("nishimori", rest):  # which refuses unknown options and missing arguments
            pass


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_the_purpose_of_a_command_fits_one_line(words):
    purpose = EVERY[words].help.split("\n\n")[0]
    assert purpose.endswith(".")
    assert len(purpose) <= 66, "what the list of commands leaves room for"


def test_the_names_of_tables_and_figures_are_completed():
    command = EVERY["paper", "check"]
    (names,) = (each for each in command.params if each.name == "names")
    context = command.make_context("check", ["all"], resilient_parsing=True)
    assert [item.value for item in names.shell_complete(context, "al")] == ["all"]
    assert "table-real" in [item.value for item in names.shell_complete(context, "table-")]
    assert names.shell_complete(context, "no-such") == []
