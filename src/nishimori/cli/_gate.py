"""``nishimori gate``: stop a release whose model breaks a bound."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import nishimori
from nishimori._applied import check_groups
from nishimori._disk import check_target, new_file
from nishimori._gate import Gate, Wanted, judged
from nishimori._group_sums import By
from nishimori._maps import Map, Temperature
from nishimori._sketch import Sketch
from nishimori.cli import _files
from nishimori.cli._calibrated_rows import Meant, agreed, opened_rows, refuse_swapped
from nishimori.cli._files import Names
from nishimori.cli._help import BOUNDS, FLAG, OUTPUT, epilog
from nishimori.cli._options import (
    BinsOption,
    ClassesOption,
    ClustersOption,
    ColumnsOption,
    CountsOption,
    DecimalOption,
    DelimiterOption,
    Files,
    FloorOption,
    GroupsOption,
    IgnoreIndexOption,
    IgnoreOption,
    InputAsCalibratedOption,
    LabelsOption,
    ScoresOption,
    StrategyOption,
    WeightsOption,
    names_from,
    split,
)
from nishimori.cli._sketch_file import about_sketches, opened_sketch
from nishimori.cli._terminal import ForceOption, JsonOption, heard, note, print_json, print_lines

if TYPE_CHECKING:
    from nishimori import Calibrator  # which imports scikit-learn


def _bound(help_: str) -> Any:
    return typer.Option(help=help_, metavar="BOUND", show_default=False, rich_help_panel=BOUNDS)


CalibrationOption = Annotated[
    Path | None,
    typer.Option(
        help="The calibration file that fit wrote; without it the scores are checked as they are.",
        show_default=False,
        metavar="FILE",
    ),
]
LevelOption = Annotated[
    float,
    typer.Option(help="If a bound is kept, the check says broken for at most a share 1 - level of data sets.", metavar="SHARE"),
]
StrictOption = Annotated[
    bool, typer.Option("--strict", help="Fail also if it is not proven that every bound is kept.", metavar=FLAG)
]
MaxEce = Annotated[float | None, _bound("Most that the expected calibration error may be, such as 0.02.")]
MaxGap = Annotated[float | None, _bound("Most that mean confidence and accuracy may differ.")]
MaxError = Annotated[float | None, _bound("Most that the share of wrong answers may be.")]
MaxBrier = Annotated[float | None, _bound("Most that the Brier score may be.")]
MaxNll = Annotated[float | None, _bound("Most that the negative log-likelihood may be.")]
MaxGroupGap = Annotated[
    float | None, _bound("Most that confidence and accuracy may differ in any predicted class, or in any of --groups.")
]
ByOption = Annotated[
    By | None,
    typer.Option(
        help="What --max-group-gap is about: prediction (predicted classes) or groups, the default with --groups.",
        show_default=False,
        metavar="KIND",
        rich_help_panel=BOUNDS,
    ),
]
JunitOption = Annotated[
    Path | None,
    typer.Option(
        help="Also write the checks as tests to this JUnit file (.xml).",
        show_default=False,
        metavar="FILE",
        rich_help_panel=OUTPUT,
    ),
]
GithubOption = Annotated[
    bool,
    typer.Option("--github", help="Print annotations of GitHub Actions.", metavar=FLAG, rich_help_panel=OUTPUT),
]
MarkdownOption = Annotated[
    bool, typer.Option("--markdown", help="Print the checks as a Markdown table.", metavar=FLAG, rich_help_panel=OUTPUT)
]

EPILOG = epilog(
    "nishimori gate test.npz --calibration calibration.json --max-ece 0.02",
    "nishimori gate test.npz --calibration c.json --max-gap 0.01 --strict",
    "nishimori gate test.csv --groups site --max-group-gap 0.05 --github",
    codes={0: "no bound is broken", 3: "a bound is broken or, with --strict, not proven to be kept"},
)


def gate(
    files: Files,
    calibration: CalibrationOption = None,
    level: LevelOption = 0.95,
    strict: StrictOption = False,
    max_ece: MaxEce = None,
    max_gap: MaxGap = None,
    max_error: MaxError = None,
    max_brier: MaxBrier = None,
    max_nll: MaxNll = None,
    max_group_gap: MaxGroupGap = None,
    by: ByOption = None,
    n_bins: BinsOption = 15,
    strategy: StrategyOption = "uniform",
    input: InputAsCalibratedOption = None,
    floor: FloorOption = None,
    scores_name: ScoresOption = None,
    labels: LabelsOption = None,
    classes: ClassesOption = None,
    weights: WeightsOption = None,
    ignore_index: IgnoreIndexOption = None,
    counts: CountsOption = False,
    clusters: ClustersOption = None,
    groups: GroupsOption = None,
    columns: ColumnsOption = None,
    ignore: IgnoreOption = None,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = ".",
    junit: JunitOption = None,
    github: GithubOption = False,
    markdown: MarkdownOption = False,
    as_json: JsonOption = False,
    force: ForceOption = False,
) -> None:
    """Check a model against bounds, and fail if one is broken.

    Each check is passed or broken if the data prove it, and otherwise not proven.
    """
    bounds = {"ece": max_ece, "gap": max_gap, "error": max_error, "brier": max_brier, "nll": max_nll}
    wanted = _wanted(bounds | {"group_gap": max_group_gap}, level, strict, n_bins, strategy, counts)
    shown = _Shown(files, calibration, junit, _form(json=as_json, github=github, markdown=markdown), force)
    said = (input, floor, scores_name, labels, weights, clusters, groups, by, counts, columns, ignore, classes, delimiter)
    with heard() as told:
        if (sums := opened_sketch(files, *said, ignore_index is not None, decimal != ".")) is not None:
            found = _judged_sketch(sums, calibration, wanted)
        else:
            _files.check_inputs(files, folders=True)
            calibrator = None if calibration is None else _files.calibrator_in(calibration)
            meaning = agreed(calibrator, input, floor, None if classes is None else split(classes))
            about = (columns, ignore, (delimiter, decimal), meaning[2], calibrator)
            names = names_from(
                meaning[0], scores_name, labels, weights, *about, clusters=clusters, groups=groups, ignore_index=ignore_index
            )
            found = _judged_rows(files, names, meaning, calibrator, wanted, by or ("groups" if groups else "prediction"))
    shown.show(found, told)
    if not found.passed:
        raise typer.Exit(3)


def _wanted(bounds: dict[str, float | None], *how: Any) -> Wanted:
    """The bounds to check, of which there must be one."""
    if all(bound is None for bound in bounds.values()):
        raise typer.BadParameter("name at least one bound, such as --max-ece 0.02.", param_hint="--max-...")
    return Wanted(bounds, *how)


def _form(**chosen: bool) -> str:
    """The form of the result: text unless one of the others is chosen."""
    names = [name for name, is_chosen in chosen.items() if is_chosen]
    if len(names) > 1:
        raise typer.BadParameter("choose one of --json, --github and --markdown.")
    return names[0] if names else "text"


class _Shown:
    """Where the result goes, checked before any work is done."""

    def __init__(self, files: Sequence[Path], calibration: Path | None, junit: Path | None, form: str, force: bool) -> None:
        refuse_swapped("gate", files, calibration)
        if junit is not None:
            _files.refuse_folder(junit, "gate.xml")
            check_target(junit, overwrite=force)
        self._junit, self._form, self._force = junit, form, force
        paths = {"calibration": calibration, "junit": junit}
        self._about: dict[str, Any] = {name: None if path is None else str(path) for name, path in paths.items()}
        self._about |= {"files": [str(path) for path in files], "library_version": nishimori.__version__}

    def show(self, found: Gate, told: list[str]) -> None:
        """Write the JUnit file, if one is wanted, and print the checks."""
        if self._junit is not None:
            with new_file(self._junit, overwrite=self._force) as temporary:
                temporary.write_text(found.to_junit(), encoding="utf-8")
        if self._form == "json":
            print_json(found.to_dict() | self._about | {"warnings": told})
        else:
            print_lines({"github": found.to_github, "markdown": found.to_markdown, "text": found.__str__}[self._form]())
        if self._junit is not None:
            note(f"Wrote {self._junit}")


def _judged_rows(
    files: Sequence[Path], names: Names, meaning: Meant, calibrator: "Calibrator | None", wanted: Wanted, by: By
) -> Gate:
    """The checks of the rows of a file."""
    if by == "groups" and names.groups is None:
        raise typer.BadParameter("name the groups with --groups.", param_hint="--by groups")
    map_: Map = Temperature(1.0) if calibrator is None else calibrator.map_
    with opened_rows(files, names, meaning, calibrator) as rows:
        check_groups(rows.source, [map_])
        return judged(rows.source, map_, wanted, by, meaning[2])


def _judged_sketch(sums: Sketch, calibration: Path | None, wanted: Wanted) -> Gate:
    """The same from the sums that the command sketch has written."""
    calibrator = None if calibration is None else _files.calibrator_in(calibration)
    agreed(calibrator, sums.input, sums.floor, None if sums.classes is None else [str(each) for each in sums.classes])
    with about_sketches():
        if calibrator is None:
            return judged(sums, Temperature(1.0), wanted, "prediction")
        calibrator.check_columns(sums, "sketch")
        return judged(sums, calibrator.map_, wanted, "prediction")
