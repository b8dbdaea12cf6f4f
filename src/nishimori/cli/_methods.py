"""``nishimori methods``: what each method fits, one line each, to choose one for ``fit --method``."""

import nishimori
from nishimori._methods import table
from nishimori._methods.table import METHODS
from nishimori._support.tables import Tabular
from nishimori.cli._help import JsonOption, MarkdownOption, epilog, form_of
from nishimori.cli._terminal import print_result, print_tabular, print_text

EPILOG = epilog("nishimori methods", "nishimori methods --markdown")

# What becomes of the predicted classes.
_KEPT = {True: "kept", False: "may change"}


def methods(as_json: JsonOption = False, markdown: MarkdownOption = False) -> None:
    """List all methods, with what each does and needs.

    Methods of installed packages are listed too; if a package cannot be imported, the reason is shown.
    """
    form = form_of(json=as_json, markdown=markdown)
    if form != "text":
        print_result(nishimori.methods(), form, {"library_version": nishimori.__version__})
    else:
        headers = ("method", "predictions", "classes", "what it fits")
        print_tabular(Tabular(headers, [_row(name) for name in table.names()]))
        print_text("Use one with fit --method NAME; fit --param NAME=VALUE sets its parameters.")


def _row(name: str) -> tuple[str, str, str, str]:
    """A method in one line; only methods of other packages are imported."""
    if name in METHODS:
        own = METHODS[name]
        return name, _KEPT[own.keeps_predictions], "two" if own.is_for_two_classes else "any", own.summary
    method = nishimori.methods()[name]
    if method.traits is None:
        return name, "unknown", "unknown", method.why or method.description
    return name, _KEPT[method.traits.keeps_predictions], method.traits.n_classes, method.description
