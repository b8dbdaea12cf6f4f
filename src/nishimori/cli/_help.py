"""What the help of every command shows in the same way: groups of options, options of output, examples, exit codes."""

from typing import Annotated

import typer

DATA = "Scores and labels"
TABLES = "Tables"
MEASURES = "What is measured"
OUTPUT = "Output"
"""The titles of groups of options."""

FLAG = ""
"""The metavar of an option without a value."""

JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.", metavar=FLAG, rich_help_panel=OUTPUT)]
MarkdownOption = Annotated[
    bool, typer.Option("--markdown", help="Print the result as Markdown.", metavar=FLAG, rich_help_panel=OUTPUT)
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace existing files.", metavar=FLAG, rich_help_panel=OUTPUT)]

QuietOption = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        help="Print neither notes nor progress.",
        metavar=FLAG,
        rich_help_panel=OUTPUT,
    ),
]
FailOnWarningOption = Annotated[
    bool,
    typer.Option(
        "--fail-on-warning",
        help="End with code 3 if there was a warning.",
        metavar=FLAG,
        rich_help_panel=OUTPUT,
    ),
]

_CODES = {0: "done", 1: "error (message on stderr)", 2: "wrong usage"}


def epilog(*examples: str, codes: dict[int, str] | None = None) -> str:
    """The end of a command's help; ``codes`` are exit codes that mean something else or something more."""
    lines = "\n".join(f"  $ {example}" for example in examples)
    meanings = "\n".join(f"  {code}  {meaning}" for code, meaning in (_CODES | (codes or {})).items())
    return f"Examples:\n{lines}\n\nExit codes:\n{meanings}"
