"""Help that a stranger can use: it fits a terminal, is grouped, has examples that work, and shells complete names."""

import os
import subprocess
import sys

import pytest
import shell
import typer.rich_utils

import nishimori
from nishimori.cli import _app

GROUP = typer.main.get_command(_app.app)
EVERY = {(name,): GROUP.loaded(name) for name in _app.OWN}


@pytest.fixture
def help_of(monkeypatch, tmp_path):
    """The help of a command, as a terminal of 80 columns shows it."""

    def text(*words):
        monkeypatch.setattr(typer.rich_utils, "MAX_WIDTH", 80)
        return shell.nishimori(*words, "--help", place=tmp_path).out

    return text


@pytest.mark.parametrize("words", [(), *EVERY], ids=" ".join)
def test_help_fits_80_columns_and_ends_with_examples_and_exit_codes(help_of, words):
    lines = help_of(*words).splitlines()
    assert max(map(len, lines)) <= 80
    start = lines.index(next(line for line in lines if line.strip() == "Examples:"))
    assert any(line.strip() == "Exit codes:" for line in lines[start:])
    examples = [line.strip() for line in lines[start:] if line.startswith("   $ ")]
    assert examples
    epilog = (EVERY[words] if words else GROUP).epilog
    for line in epilog.splitlines():
        assert any(line.strip() == shown.strip() for shown in ["", *lines]), "it is not broken into two lines"


@pytest.mark.parametrize("words", [(), *EVERY], ids=" ".join)
def test_help_fits_two_screens_of_40_lines_and_lists_every_option(help_of, words):
    shown = help_of(*words)
    assert len(shown.splitlines()) <= 80
    command = EVERY[words] if words else GROUP
    assert all(option in shown for each in command.params for option in each.opts if option.startswith("-"))


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_the_examples_in_the_help_are_valid(words):
    lines = [line.strip().removeprefix("$ nishimori ") for line in EVERY[words].epilog.splitlines() if " $ " in line]
    for line in lines:
        name, *rest = line.split()
        with EVERY[name,].make_context("nishimori", rest):  # which refuses unknown options and missing arguments
            pass


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_the_list_of_commands_has_the_purpose_of_each_on_one_line(help_of, words):
    purpose = EVERY[words].help.split("\n\n")[0]
    assert purpose.endswith(".")
    assert any(line.strip("│ ").split(maxsplit=1) == [*words, purpose] for line in help_of().splitlines())


def test_options_are_in_groups(help_of):
    shown = help_of("gate")
    titles = ["Options", "What is measured", "Scores and labels", "Tables", "Output"]
    places = [shown.index(f"─ {title} ─") for title in titles]
    assert places == sorted(places)
    assert places[1] < shown.index("--bound  ") < places[2]
    assert places[-1] < shown.index("--junit")


def test_the_shell_completes_the_names_of_networks():
    """As bash asks for them."""
    code = "import sys; sys.argv = ['nishimori']; from nishimori.cli import main; main()"
    asked = {"_NISHIMORI_COMPLETE": "complete_bash", "COMP_WORDS": "nishimori demo --network cifar10/", "COMP_CWORD": "3"}
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | asked, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [name for name in nishimori.data.names() if name.startswith("cifar10/")]


@pytest.mark.parametrize(("incomplete", "expected"), [("", tuple(nishimori.methods())), ("ec", ("ec",)), ("x", ())])
def test_the_shell_completes_the_names_of_methods(incomplete, expected):
    command = EVERY["fit",]
    (method,) = (each for each in command.params if each.name == "method")
    context = command.make_context("fit", ["val.npz", "-o", "c.json"], resilient_parsing=True)
    assert tuple(item.value for item in method.shell_complete(context, incomplete)) == tuple(expected)


def test_the_shell_completes_the_names_of_commands():
    command = typer.main.get_command(_app.app)
    context = command.make_context("nishimori", [], resilient_parsing=True)
    assert [item.value for item in command.shell_complete(context, "me")] == ["merge", "methods"]


def test_the_completion_of_a_shell_can_be_shown(run, monkeypatch):
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("bash", "/bin/bash"))  # tests may run without a shell
    code, out, _ = run("--show-completion")
    assert code == 0
    assert "complete_bash $1" in out
