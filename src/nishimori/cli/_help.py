"""Declare options and build help texts the same way for all commands: option groups, examples, exit codes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from nishimori._support.formatting import enumeration

DATA = "Scores and labels"
TABLES = "Tables"
MEASURES = "What is measured"
OUTPUT = "Output"
"""The titles of groups of options."""

FLAG = ""
"""The metavar of an option without a value."""


def argument(help: str, metavar: str) -> Any:
    """Declare an argument; ``metavar`` stands for it in the usage."""
    return typer.Argument(help=help, metavar=metavar, show_default=False)


def option(help: str, metavar: str, *names: str, panel: str | None = None, shows: bool | str = False, **settings: Any) -> Any:
    """Declare an option; ``names`` follow from the parameter if left out, and ``shows`` is how its default is shown."""
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=panel, show_default=shows, **settings)


def flag(help: str, *names: str, panel: str | None = None) -> Any:
    """Declare an option without a value."""
    return typer.Option(*names, help=help, metavar=FLAG, rich_help_panel=panel)


@dataclass(frozen=True)
class OptionGroup:
    """Options that a command takes as one object: annotate its parameter with ``Annotated[Kind, OptionGroup(Kind, ...)]``.

    ``options`` are the annotations of the options by name. ``kind`` is called with their values, and its own defaults are
    theirs.
    """

    kind: Callable[..., Any]
    options: Mapping[str, Any]


JsonOption = Annotated[bool, flag("Print the result as JSON.", "--json", panel=OUTPUT)]
MarkdownOption = Annotated[bool, flag("Print the result as Markdown.", "--markdown", panel=OUTPUT)]
ForceOption = Annotated[bool, flag("Replace existing files.", "--force", panel=OUTPUT)]
QuietOption = Annotated[bool, flag("Print neither notes nor progress.", "--quiet", "-q", panel=OUTPUT)]
FailOnWarningOption = Annotated[bool, flag("End with code 3 if there was a warning.", "--fail-on-warning", panel=OUTPUT)]


def form_of(**forms: bool) -> str:
    """The requested form of the result, such as json; text by default; two are wrong usage."""
    typed = [name for name, is_typed in forms.items() if is_typed]
    if len(typed) > 1:
        raise typer.BadParameter(f"choose one of {enumeration([f'--{name}' for name in forms])}.")
    return typed[0] if typed else "text"


_CODES = {0: "done", 1: "error (message on stderr)", 2: "wrong usage"}


def epilog(*examples: str, codes: dict[int, str] | None = None) -> str:
    """The end of a command's help; ``codes`` are additional or different exit codes."""
    lines = "\n".join(f"  $ {example}" for example in examples)
    meanings = "\n".join(f"  {code}  {meaning}" for code, meaning in (_CODES | (codes or {})).items())
    return f"Examples:\n{lines}\n\nExit codes:\n{meanings}"
