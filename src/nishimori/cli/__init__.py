"""The ``nishimori`` command: fit, apply, eval, demo, theory, paper."""

import sys
from typing import Annotated, Any

import typer

import nishimori
from nishimori.cli import _calibration, _demo, _paper, _theory
from nishimori.cli._terminal import one_line_errors, print_text

app = typer.Typer(
    help="Make classifiers honest about their confidence: fit a temperature, apply it, and see the difference.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command()(_calibration.fit)
app.command()(_calibration.apply)
app.command("eval")(_calibration.evaluate)
app.command()(_demo.demo)
app.command()(_theory.theory)
app.add_typer(_paper.app, name="paper")


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    if version:
        print_text(nishimori.__version__)
        raise typer.Exit


def main() -> None:
    """Run the command; an error that the user can correct is one line and exit code 1."""
    with one_line_errors(_options):
        app()


def _options() -> set[str]:
    """The options of the command that was typed."""
    command: Any = typer.main.get_command(app)
    for word in sys.argv[1:]:
        command = getattr(command, "commands", {}).get(word, command)
    return {option for each in command.params for option in each.opts}
