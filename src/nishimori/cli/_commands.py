"""Commands that installed packages add, which are imported when they, the help or the completion of the shell need them.

An entry point in the group ``nishimori.commands`` has the command's name and, as its value, a typer app. ``nishimori paper`` is
such a command. It is listed also where nishimori-paper is not installed, and then says how to install it.
"""

from importlib.metadata import EntryPoint, entry_points
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from nishimori.cli._terminal import note
from nishimori.errors import InputError

GROUP = "nishimori.commands"


class Commands(TyperGroup):
    """The library's own commands, then ``paper``, then those of other packages. None can take another's place."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands; nothing is imported."""
        return list(dict.fromkeys([*super().list_commands(ctx), "paper", *(each.name for each in _entry_points())]))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, which is imported now if another package adds it."""
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        for point in _entry_points():
            if point.name == cmd_name:
                self.commands[cmd_name] = _command(point)
                return self.commands[cmd_name]
        return (
            _stand_in(cmd_name, "Make the tables and figures of arXiv:2303.02644 and compare.", _absent)
            if cmd_name == "paper"
            else None
        )


def _entry_points() -> list[EntryPoint]:
    return list(entry_points(group=GROUP))


def _command(point: EntryPoint) -> Any:
    try:
        app = point.load()
        if not isinstance(app, typer.Typer):
            raise TypeError(f"it is a {type(app).__name__}, not a typer app")
        group: Any = get_group(app)
    except Exception as error:  # whatever the package does when it is imported
        reason = f"{type(error).__name__}: {error}"

        def refuse() -> NoReturn:
            raise InputError(
                f"The command {point.name!r} cannot be imported from {point.value}: {reason}. "
                "Repair or remove the package that adds it."
            )

        return _stand_in(point.name, "Cannot be imported; run it to see why.", refuse)
    group.name = point.name
    return group


def _absent() -> NoReturn:
    note("error: `nishimori paper` comes with nishimori-paper, which is not installed. Run `pip install nishimori-paper`.")
    raise typer.Exit(2)


def _stand_in(name: str, help: str, end: Any) -> Any:
    """A command that takes any words, its own ``--help`` among them, and ends with ``end``."""
    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    return TyperCommand(name, help=help, callback=end, context_settings=anything, add_help_option=False)
