"""``nishimori diff``: whether two data sets, such as those of yesterday and today, differ significantly."""

from pathlib import Path
from typing import Annotated, Any

import typer

import nishimori
from nishimori._sketch.archive import is_sketch_file
from nishimori._sketch.sketch import Sketch
from nishimori.cli._files import CALIBRATION, REPORT, SKETCH, json_in, kind_of_content, refuse_other
from nishimori.cli._help import JsonOption, MarkdownOption, argument, epilog, flag, form_of
from nishimori.cli._options import LevelOption
from nishimori.cli._terminal import print_result

_READ = (REPORT, SKETCH, CALIBRATION, "the result of eval", "the result of fit")

OldFile = Annotated[
    Path,
    argument("What was measured first: a report (.json), a sketch, a calibration, or the output of eval --json.", "OLD"),
]
NewFile = Annotated[Path, argument("The same kind of file, about other samples.", "NEW")]
FailOption = Annotated[bool, flag("End with code 3 if a metric differs significantly.", "--fail-on-difference")]

EPILOG = epilog(
    "nishimori diff monday.npz tuesday.npz",
    "nishimori diff old-report.json new-report.json --fail-on-difference",
    codes={3: "a metric differs significantly, with --fail-on-difference"},
)


def diff(
    old: OldFile,
    new: NewFile,
    level: LevelOption = 0.95,
    fail_on_difference: FailOption = False,
    as_json: JsonOption = False,
    markdown: MarkdownOption = False,
) -> None:
    """Say which metrics of two files differ significantly.

    The samples behind the two files must be independent. Differences have z-tests with Holm's correction.
    """
    form = form_of(json=as_json, markdown=markdown)
    difference = nishimori.diff(_content(old), _content(new), level=level)
    about = {"old_file": str(old), "new_file": str(new), "library_version": nishimori.__version__}
    print_result(difference, form, about, [difference.table], [difference.summary])
    if fail_on_difference and difference.different:
        raise typer.Exit(3)


def _content(path: Path) -> Any:
    """The part of a file that can be compared."""
    if is_sketch_file(path):
        return Sketch.load(path)
    refuse_other(path, "a report, a sketch, a calibration, or the result of eval or fit", *_READ)
    content = json_in(path)
    if kind_of_content(content) == REPORT:
        return nishimori.Report.from_dict(content).to_dict()  # which checks it
    return content
