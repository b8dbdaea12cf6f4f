"""The command ``nishimori`` as a typer app: its own options, its help, and what wrong usage is told."""

import sys
from typing import Annotated, Any

import typer

from nishimori._support.escape import printable
from nishimori.cli._commands import Commands
from nishimori.cli._help import FLAG, epilog
from nishimori.cli._modules import import_modules
from nishimori.cli._terminal import print_version

app = typer.Typer(
    cls=Commands,
    help="Make classifiers honest about their confidence: fit a temperature, apply it, and see the difference.",
    epilog=epilog(
        "nishimori demo",
        "nishimori fit nishimori-demo/val.npz -o c.json",
        "nishimori eval nishimori-demo/test.npz --calibration c.json",
        "nishimori gate nishimori-demo/test.npz --calibration c.json --bound gap=2%",
        codes={3: "check failed (gate, paper check)", 4: "the data do not decide a check (gate)"},
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_UsageError: Any = typer.BadParameter.__base__  # typer has no public name for it


@app.callback(invoke_without_command=True)
def _version(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", metavar=FLAG)] = False,
    modules: Annotated[
        list[str] | None,
        typer.Option(
            "--import",
            help="A module that registers methods, maps or metrics of your own, which the command can then use: an installed "
            "one, or one in the current folder. May be repeated. Pass it before the command.",
            metavar="MODULE",
            show_default=False,
        ),
    ] = None,
) -> None:
    if version:
        print_version()
        raise typer.Exit
    import_modules(modules or [])
    if context.invoked_subcommand is None:
        raise typer.BadParameter("name a command after it, such as apply.", param_hint="--import")


def invoke() -> int:
    """The exit code of the command that was typed, after it has run; wrong usage is explained."""
    try:
        return app(standalone_mode=False) or 0
    except _UsageError as error:
        if getattr(error, "option_name", None) == "--import":
            error.message, error.possibilities = "--import stands before the command: nishimori --import MODULE fit ...", None
        error.message = printable(error.message)
        from typer.rich_utils import rich_format_error  # noqa: PLC0415 - 70 ms

        rich_format_error(error)
        code: int = error.exit_code
        return code


def options_typed() -> set[str]:
    """The options of the command that was typed."""
    command: Any = typer.main.get_command(app)
    for word in sys.argv[1:]:
        if isinstance(command, Commands):
            command = command.loaded(word) or command
        elif find := getattr(command, "get_command", None):
            command = find(None, word) or command
    return {option for each in command.params for option in each.opts}
