"""``nishimori methods``: what each method does and needs, to choose one for ``fit --method``."""

from collections.abc import Sequence

import typer

import nishimori
from nishimori._support.tables import Tabular
from nishimori.cli._help import JsonOption, MarkdownOption, epilog
from nishimori.cli._terminal import print_json, print_lines, print_tabular, print_text

EPILOG = epilog("nishimori methods", "nishimori methods --markdown")


def methods(as_json: JsonOption = False, markdown: MarkdownOption = False) -> None:
    """List all methods, with what each does and needs.

    Methods of installed packages are listed too; if a package cannot be imported, the reason is shown.
    """
    if as_json and markdown:
        raise typer.BadParameter("choose one of --json and --markdown.")
    found = nishimori.methods()
    if as_json:
        print_json(found.to_dict() | {"library_version": nishimori.__version__})
    elif markdown:
        print_lines(found.to_markdown())
    else:
        print_tabular(Tabular(_short(found.table.headers), [_short(row) for row in found.table.rows]))
        for each in found.values():
            print_text(f"{each.name}: {each.description if each.why is None else each.why}")
        print_text("")
        print_text("This is about the default parameters of each method; fit --param NAME=VALUE sets others.")


def _short(cells: Sequence[str]) -> Sequence[str]:
    """A row without the class and the description, so that it fits a terminal of 80 columns."""
    return (cells[0], *cells[2:-1])
