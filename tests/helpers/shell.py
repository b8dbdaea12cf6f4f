"""The command ``nishimori`` as a person types it, within the process of the tests."""

import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import NamedTuple

import pytest
from optional import skip_for

from nishimori import cli
from nishimori.errors import InputWarning


class Ended(NamedTuple):
    """Exit code, standard output, standard error."""

    code: int
    out: str
    err: str


def save_table(frame, path):
    """Write a data frame in the format that the file's name says."""
    kind = path.suffix[1:]
    if kind in ("csv", "tsv"):
        frame.to_csv(path, index=False, sep="," if kind == "csv" else "\t")
    elif kind == "jsonl":
        frame.to_json(path, orient="records", lines=True, double_precision=15)
    else:
        getattr(frame, f"to_{kind}")(path)


def nishimori(*words, place="."):
    """Run ``nishimori`` in a folder; words may hold several, separated by blanks."""
    return exactly(*(word for each in words for word in str(each).split()), place=place)


def exactly(*words, place="."):
    """Run ``nishimori`` in a folder; words may have blanks in them."""
    out, err = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("always", InputWarning)  # the command shows it, where it would end a test
        patch.chdir(place)
        patch.setenv("COLUMNS", "120")
        patch.setenv("TERM", "dumb")
        patch.setattr(sys, "argv", ["nishimori", *words])
        patch.setattr(warnings, "showwarning", warnings.showwarning)  # the command sets its own
        try:
            cli.main()
        except SystemExit as end:
            code = end.code or 0
        else:
            code = 0
    skip_for(err.getvalue())
    return Ended(code, out.getvalue(), err.getvalue())
