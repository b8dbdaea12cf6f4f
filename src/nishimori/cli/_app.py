"""The command ``nishimori`` as a typer app: its own options, and its commands, which are imported when they are run.

An entry point in the group ``nishimori.commands`` has the command's name and, as its value, a typer app: one with several
commands, or with one, whose own name is not typed. ``nishimori paper`` and ``nishimori theory`` of nishimori-paper are such
commands. They are imported for the help and the completion of the shell as well, which need their purpose.
"""

import sys
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from importlib.metadata import EntryPoint
from inspect import Parameter, signature
from typing import Annotated, Any, NamedTuple, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from nishimori._support.escape import printable
from nishimori._support.optional import entry_points
from nishimori.cli import interrupt_on_ctrl_c
from nishimori.cli._help import FailOnWarningOption, OptionGroup, QuietOption, epilog, flag, option
from nishimori.cli._terminal import note, output_options, print_version
from nishimori.errors import InputError

GROUP = "nishimori.commands"


class _Own(NamedTuple):
    """Where to find a command of the library, and its purpose: the first sentence of its help, which a test compares."""

    module: str
    function: str
    purpose: str
    epilog: str = "EPILOG"


OWN = {
    "fit": _Own("_fit", "fit", "Fit a calibration to validation scores and labels."),
    "apply": _Own("_apply", "apply", "Turn scores into calibrated probabilities."),
    "eval": _Own("_evaluate", "evaluate", "Measure error, confidence, ECE and losses, with standard errors."),
    "compare": _Own("_compare", "compare", "Fit several methods, measure them, and say what the numbers mean."),
    "threshold": _Own("_threshold", "threshold", "Find the confidence above which answers can be trusted."),
    "gate": _Own("_gate", "gate", "Check a model against bounds, and fail if one is exceeded."),
    "diff": _Own("_diff", "diff", "Say which metrics of two files differ significantly."),
    "show": _Own("_show", "show", "Say what a file is, and what it holds."),
    "report": _Own("_report", "report", "Write one HTML page about the calibration of a model."),
    "sketch": _Own("_sketch", "sketch", "Sum up rows in a small file, which fit, eval and gate read."),
    "merge": _Own("_sketch", "merge", "Add sketches: the result is the sketch of all their rows.", "MERGE_EPILOG"),
    "methods": _Own("_methods", "methods", "List all methods, with what each does and needs."),
    "demo": _Own("_demo", "demo", "Calibrate a real network from its bundled logits."),
}
"""The library's own commands. The list needs no NumPy, and each command imports only what it needs."""

OF_PAPER = ("theory", "paper")
"""The commands that come with nishimori-paper."""


class OwnCommand(TyperCommand):
    """A command whose help describes arguments and options in plain words, without Python's types."""

    def get_params(self, ctx: Any) -> Any:
        """All arguments and options, ``--help`` among them."""
        return without_types(super().get_params(ctx))


def without_types(params: Any) -> Any:
    """Parameters without a type in the help: arguments have a metavar, and flags have no value."""
    for parameter in params:
        if parameter.param_type_name == "argument" or getattr(parameter, "is_flag", False):
            parameter.display_type_rich = lambda ctx: None  # noqa: ARG005 - as typer calls it
    return params


class Commands(TyperGroup):
    """The library's own commands, then commands of other packages, which cannot replace them."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {name: TyperCommand(name, help=own.purpose) for name, own in OWN.items()}
        self._loaded: dict[str, Any] = {}

    def get_params(self, ctx: Any) -> Any:
        """The options before the command."""
        return without_types(super().get_params(ctx))

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands; nothing is imported."""
        return list(dict.fromkeys([*super().list_commands(ctx), *(point.name for point in entry_points(GROUP))]))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that was typed, imported now, and what was typed after it."""
        name, command, rest = super().resolve_command(ctx, args)
        command = command if name is None else self.loaded(name)
        interrupt_on_ctrl_c()
        return name, command, rest

    def loaded(self, name: str) -> Any:
        """The command of that name with its options, or None if there is none."""
        if name not in self._loaded:
            own = OWN.get(name)
            if own is None:
                self._loaded[name] = self.get_command(None, name)
            else:
                module = import_module(f"nishimori.cli.{own.module}")
                one = app_of(getattr(module, own.function), name=name, epilog=getattr(module, own.epilog))
                self._loaded[name] = get_command(one)
        return self._loaded[name]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name for lists: without options, unless another package adds it, which is then imported."""
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        for point in entry_points(GROUP):
            if point.name == cmd_name:
                self.commands[cmd_name] = _command(point)
                return self.commands[cmd_name]
        if cmd_name in OF_PAPER:
            remedy = "comes with nishimori-paper, which is not installed. Run `pip install nishimori-paper`."
            note(f"error: `nishimori {cmd_name}` {remedy}")
            raise typer.Exit(2)
        return None


def app_of(function: Callable[..., None], *, name: str, epilog: str) -> typer.Typer:
    """Return a typer app with one command, which has the options that all commands have."""
    app = typer.Typer(add_completion=False)
    app.command(name, cls=OwnCommand, epilog=epilog)(_with_common_options(function))
    return app


def _with_common_options(function: Callable[..., None]) -> Callable[..., None]:
    """The function of a command, with the options that all commands have and with each `OptionGroup` as separate options."""
    own = signature(function).parameters
    groups = {
        name: part
        for name, parameter in own.items()
        for part in getattr(parameter.annotation, "__metadata__", ())
        if isinstance(part, OptionGroup)
    }

    @wraps(function)
    def run(*, quiet: bool, fail_on_warning: bool, **options: Any) -> None:
        for name, group in groups.items():
            options[name] = group.kind(**{option: options.pop(option) for option in group.options})
        with output_options(quiet=quiet, fail_on_warning=fail_on_warning):
            function(**options)

    parameters: list[Parameter] = []
    for name, parameter in own.items():
        if name in groups:
            defaults = signature(groups[name].kind).parameters
            parameters += [
                Parameter(option, Parameter.KEYWORD_ONLY, default=defaults[option].default, annotation=annotation)
                for option, annotation in groups[name].options.items()
            ]
        else:
            parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))
    common = {"quiet": QuietOption, "fail_on_warning": FailOnWarningOption}
    parameters += [Parameter(name, Parameter.KEYWORD_ONLY, default=False, annotation=kind) for name, kind in common.items()]
    run.__signature__ = signature(function).replace(parameters=parameters)  # type: ignore[attr-defined] # typer reads both
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _command(point: EntryPoint) -> Any:
    try:
        app = point.load()
        if not isinstance(app, typer.Typer):
            raise TypeError(f"it is a {type(app).__name__}, not a typer app")
        command: Any = get_command(app)
    except Exception as error:  # whatever the package does when it is imported
        reason = f"{type(error).__name__}: {error}"

        def refuse() -> NoReturn:
            raise InputError(
                f"The command {point.name!r} cannot be imported from {point.value}: {reason}. "
                "Repair or remove the package that adds it."
            )

        anything = {"ignore_unknown_options": True, "allow_extra_args": True}  # its own --help among them
        return TyperCommand(
            point.name,
            help="Cannot be imported; run it to see why.",
            callback=refuse,
            context_settings=anything,
            add_help_option=False,
        )
    command.name = point.name
    return command


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
    version: Annotated[bool, flag("Print the version and exit.", "--version")] = False,
    modules: Annotated[
        list[str] | None,
        option(
            "A module that registers methods, maps or metrics of your own, which the command can then use: an installed "
            "one, or one in the current folder. May be repeated. Pass it before the command.",
            "MODULE",
            "--import",
        ),
    ] = None,
) -> None:
    if version:
        print_version()
        raise typer.Exit
    if modules:
        from nishimori.cli._options import import_modules  # noqa: PLC0415 - NumPy

        import_modules(modules)
    if context.invoked_subcommand is None:
        raise typer.BadParameter("name a command after it, such as apply.", param_hint="--import")


def invoke() -> int:
    """Run the command that was typed and return its exit code; explain wrong usage."""
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
    return {option for parameter in command.params for option in parameter.opts}
