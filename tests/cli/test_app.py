"""Commands of other packages: found by entry points, imported when they are needed, and one line where that fails."""

import sys
from importlib.metadata import EntryPoint

import pytest
import shell
import typer

from nishimori.cli import _app

ABSENT = "error: `nishimori {}` comes with nishimori-paper, which is not installed. Run `pip install nishimori-paper`.\n"
MODULE = """
import typer
from nishimori.errors import InputError
app = typer.Typer(help="Say hello.")
@app.command()
def hello(name: str = "you"):
    typer.echo(f"Hello, {name}")
@app.command()
def bye(name: str = "Ada"):
    raise InputError("name", "be short", got="'Ada'")
alone = typer.Typer()
alone.command(help="Say hello.")(hello)
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A function that runs ``nishimori`` where these packages alone add commands, from names and values of entry points."""
    (tmp_path / "greetings_of_a_test.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "failing_in_a_test.py").write_text("raise RuntimeError('broken inside')", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)

    def nishimori(words, **added):
        points = [EntryPoint(name, value, _app.GROUP) for name, value in added.items()]
        monkeypatch.setattr(_app, "entry_points", lambda group: points if group == _app.GROUP else [])
        return shell.nishimori(words, place=tmp_path)

    yield nishimori
    sys.modules.pop("greetings_of_a_test", None)


@pytest.mark.parametrize(
    "words",
    [
        "paper",
        "paper list",
        "paper --help",
        "paper check all --quick -o x",
        "paper train --data images --no-such",
        "theory logit",
    ],
)
def test_where_nishimori_paper_is_absent_its_command_says_what_to_install(run, words):
    assert run(words) == (2, "", ABSENT.format(words.split()[0]))


def test_a_package_adds_a_command_which_the_help_and_the_completion_show(run):
    greetings = {"greet": "greetings_of_a_test:app"}
    assert run("greet hello --name Ada", **greetings) == (0, "Hello, Ada\n", "")
    assert "greet      Say hello." in run("--help", **greetings).out
    command = typer.main.get_command(_app.app)
    context = command.make_context("nishimori", [], resilient_parsing=True)
    assert [item.value for item in command.shell_complete(context, "gr")] == ["greet"]


def test_the_name_of_the_only_command_of_an_app_is_not_typed(run):
    greetings = {"greet": "greetings_of_a_test:alone"}
    assert run("greet --name Ada", **greetings) == (0, "Hello, Ada\n", "")
    assert "greet      Say hello." in run("--help", **greetings).out


def test_messages_name_the_options_of_an_added_command(run):
    greetings = {"greet": "greetings_of_a_test:app"}
    assert run("greet bye", **greetings) == (1, "", "error: --name must be short, got 'Ada'.\n")


def test_an_added_command_is_imported_only_when_it_is_needed(run):
    run("methods", greet="greetings_of_a_test:app")
    assert "greetings_of_a_test" not in sys.modules
    run("greet bye", greet="greetings_of_a_test:app")
    assert "greetings_of_a_test" in sys.modules


def test_a_command_of_the_library_cannot_be_replaced(run):
    assert run("methods", methods="greetings_of_a_test:app").out == run("methods").out
    assert run("--help", methods="greetings_of_a_test:app").out.count(" methods ") == 1


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("nishimori.no_such_module:app", "ModuleNotFoundError: No module named 'nishimori.no_such_module'"),
        ("failing_in_a_test:app", "RuntimeError: broken inside"),
        ("greetings_of_a_test:nothing", "AttributeError: module 'greetings_of_a_test' has no attribute 'nothing'"),
        ("greetings_of_a_test:hello", "TypeError: it is a function, not a typer app"),
    ],
)
def test_a_command_that_cannot_be_imported_is_one_line_and_leaves_the_others(run, value, reason):
    message = (
        f"error: The command 'broken' cannot be imported from {value}: {reason}. Repair or remove the package that adds it.\n"
    )
    assert run("broken --help", broken=value) == (1, "", message)
    assert run("--version", broken=value).code == 0
    shown = run("--help", broken=value)
    assert (shown.code, shown.err) == (0, "")
    assert "broken     Cannot be imported; run it to see why." in shown.out
    assert "fit      " in shown.out
