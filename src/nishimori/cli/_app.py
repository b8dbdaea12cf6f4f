"""The commands of ``nishimori``, and how a run of one starts and ends."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from types import FrameType
from typing import Annotated, Any

import typer
from typer.rich_utils import rich_format_error

import nishimori
from nishimori._kernels import native
from nishimori._support.escape import printable
from nishimori.cli import _apply, _compare, _demo, _evaluate, _fit, _gate, _methods, _report, _sketch, _theory
from nishimori.cli._commands import Commands
from nishimori.cli._help import FLAG, epilog
from nishimori.cli._modules import import_modules
from nishimori.cli._terminal import one_line_errors, print_text
from nishimori.cli._wording import in_shell
from nishimori.errors import InputError, arguments_written

app = typer.Typer(
    cls=Commands,
    help="Make classifiers honest about their confidence: fit a temperature, apply it, and see the difference.",
    epilog=epilog(
        "nishimori demo",
        "nishimori fit nishimori-demo/val.npz -o c.json",
        "nishimori eval nishimori-demo/test.npz --calibration c.json",
        "nishimori gate nishimori-demo/test.npz --calibration c.json --bound gap=2%",
        codes={3: "a check says no (gate, paper check)", 4: "a model cannot be judged (gate)"},
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command(epilog=_fit.EPILOG)(_fit.fit)
app.command(epilog=_apply.EPILOG)(_apply.apply)
app.command("eval", epilog=_evaluate.EPILOG)(_evaluate.evaluate)
app.command(epilog=_compare.EPILOG)(_compare.compare)
app.command(epilog=_gate.EPILOG)(_gate.gate)
app.command(epilog=_report.EPILOG)(_report.report)
app.command(epilog=_sketch.EPILOG)(_sketch.sketch)
app.command(epilog=_sketch.MERGE_EPILOG)(_sketch.merge)
app.command(epilog=_methods.EPILOG)(_methods.methods)
app.command(epilog=_demo.EPILOG)(_demo.demo)
app.command(epilog=_theory.EPILOG)(_theory.theory)

_UsageError: Any = typer.BadParameter.__base__  # typer has no public name for it
_PATH_OPTIONS = ("-o", "--output", "--data", "--calibration", "--plot", "--junit")


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
        print_text(f"{nishimori.__version__} ({native.description()})")
        raise typer.Exit
    import_modules(modules or [])
    if context.invoked_subcommand is None:
        raise typer.BadParameter("name a command after it, such as apply.", param_hint="--import")


def run() -> None:
    """Run the command that was typed and end the program with its exit code."""
    with arguments_written(in_shell(cache(_options))), one_line_errors(), _cleaning_up_when_stopped():
        _refuse_empty_paths(sys.argv[1:])
        try:
            code = app(standalone_mode=False)
        except _UsageError as error:
            if getattr(error, "option_name", None) == "--import":
                error.message, error.possibilities = (
                    "--import stands before the command: nishimori --import MODULE fit ...",
                    None,
                )
            error.message = printable(error.message)
            rich_format_error(error)
            code = error.exit_code
    if code:
        sys.exit(code)


def _refuse_empty_paths(words: list[str]) -> None:
    """Refuse ``-o ""``, which an unset variable leaves. Python reads an empty path as the current folder."""
    for word, after in pairwise([*words, "more"]):
        option, sign, value = word.partition("=")
        if option in _PATH_OPTIONS and not (value if sign else after):
            raise InputError(option, "be a path", got="''")


@contextmanager
def _cleaning_up_when_stopped() -> Iterator[None]:
    """Let ``kill`` and a closed terminal raise an exception, so that temporary files are removed on the way out."""
    owner = os.getpid()
    handled: list[signal.Signals] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        if os.getpid() != owner:  # a process that a library started has nothing of ours to remove
            os._exit(128 + number)
        for each in handled:
            signal.signal(each, signal.SIG_IGN)  # a second signal would interrupt the cleaning up
        sys.exit(128 + number)

    try:
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:  # not under nohup
                signal.signal(number, stop)
                handled.append(number)
    except ValueError:
        pass  # only the main thread can do this
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)


def _options() -> set[str]:
    """The options of the command that was typed."""
    command: Any = typer.main.get_command(app)
    for word in sys.argv[1:]:
        find = getattr(command, "get_command", None)
        command = (find and find(None, word)) or command
    return {option for each in command.params for option in each.opts}
