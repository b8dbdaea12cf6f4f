"""``nishimori gate``: stop a release whose model does not keep a bound."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer

import nishimori
from nishimori._evaluation.annotations import CheckOutcome, workflow_command
from nishimori._evaluation.annotations import junit as junit_file
from nishimori._evaluation.calibrated import check_groups, warn_of_same_rows
from nishimori._evaluation.checks import GROUP_GAP, MetricBound, is_in_percent
from nishimori._evaluation.gate import MIN_SAMPLES, NLL_CAP, SUITE, TABLE_HEADERS, Gate, Wanted, judge
from nishimori._evaluation.metrics.table import find_metric
from nishimori._files.tables.columns import Roles
from nishimori._methods.fitted_method import FittedMethod, check_n_classes
from nishimori._rows.rows import Reported
from nishimori._sums.groups import By
from nishimori._support.disk import check_target, new_file
from nishimori._support.progress import show_progress
from nishimori._support.tables import Tabular
from nishimori.cli import _files
from nishimori.cli._calibration import Meant, agree_on_scores, calibrator_in, refuse_swapped
from nishimori.cli._file_kinds import is_gate_result
from nishimori.cli._help import FLAG, MEASURES, OUTPUT, ForceOption, JsonOption, epilog
from nishimori.cli._modules import found_here
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
    roles_from,
    split,
)
from nishimori.cli._terminal import (
    collect_warnings,
    error_text,
    json_text,
    note,
    print_json,
    print_lines,
)
from nishimori.errors import InputError
from nishimori.maps.map import Map
from nishimori.maps.temperature import Temperature

CalibrationOption = Annotated[
    Path | None,
    typer.Option(
        help="The file that fit wrote.",
        show_default=False,
        metavar="FILE",
    ),
]
LevelOption = Annotated[
    float,
    typer.Option(
        help="Least share of data sets without a wrong verdict; 0.95 by default.",
        show_default=False,
        metavar="SHARE",
    ),
]
AllowInconclusiveOption = Annotated[
    bool, typer.Option("--allow-inconclusive", help="Pass even if a check is inconclusive.", metavar=FLAG)
]
NllCapOption = Annotated[
    float,
    typer.Option(
        help=f"Largest loss that counts in the NLL; {NLL_CAP:g} by default.",
        show_default=False,
        metavar="NUMBER",
    ),
]
MinSamplesOption = Annotated[
    int,
    typer.Option(
        help=f"Samples, or clusters, needed to judge; {MIN_SAMPLES} by default.", show_default=False, metavar="NUMBER"
    ),
]
BoundOption = Annotated[
    list[str] | None,
    typer.Option(
        "--bound",
        help="Such as ece=0.02, gap=2%, nll=0.5, group_gap=5% (in any class or group), or a metric of eval; repeatable.",
        metavar="NAME=BOUND",
        show_default=False,
        rich_help_panel=MEASURES,
    ),
]
ByOption = Annotated[
    By | None,
    typer.Option(
        help="What group_gap is about: prediction or groups.",
        show_default=False,
        metavar="KIND",
        rich_help_panel=MEASURES,
    ),
]
JunitOption = Annotated[
    Path | None,
    typer.Option(
        help="Write the checks to this JUnit file.",
        show_default=False,
        metavar="FILE",
        rich_help_panel=OUTPUT,
    ),
]
OutputsOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--output",
        "-o",
        help="Write the checks to this .json, .md or .xml (JUnit) file; repeatable.",
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
    "nishimori gate test.npz --calibration calibration.json --bound ece=0.02",
    "nishimori gate test.npz --bound gap=0.01 --allow-inconclusive",
    "nishimori gate test.csv --groups site --bound group_gap=5% -o gate.md",
    codes={
        0: "all checks pass, or may be inconclusive",
        3: "a check fails",
        4: "a check is inconclusive, or there are too few samples",
    },
)


def gate(
    files: Files,
    calibration: CalibrationOption = None,
    bound: BoundOption = None,
    level: LevelOption = 0.95,
    allow_inconclusive: AllowInconclusiveOption = False,
    min_samples: MinSamplesOption = MIN_SAMPLES,
    nll_cap: NllCapOption = NLL_CAP,
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
    output: OutputsOption = None,
    junit: JunitOption = None,
    github: GithubOption = False,
    markdown: MarkdownOption = False,
    as_json: JsonOption = False,
    force: ForceOption = False,
) -> None:
    """Check a model against bounds, and fail if one is exceeded.

    Checks that the data do not decide are inconclusive. Files of an earlier gate are replaced.
    """
    forms = {"json": as_json, "github": github, "markdown": markdown}
    asked: list[tuple[Path, str | None]] = ([] if junit is None else [(junit, "junit")]) + [
        (path, None) for path in output or []
    ]
    outputs = _Outputs(asked, [*files, calibration], [name for name, is_chosen in forms.items() if is_chosen], force)
    about = _about(files, calibration, junit)
    said = (input, floor, scores_name, labels, weights, clusters, groups, by, counts, columns, ignore, classes, delimiter)
    with collect_warnings() as told, _errors_in(outputs, about):
        wanted = Wanted(typed_bounds(bound or []), level, allow_inconclusive, n_bins, strategy, min_samples, nll_cap)
        refuse_swapped("gate", files, calibration)
        outputs.check()
        if (sums := _files.open_sketch(files, *said, ignore_index is not None, decimal != ".")) is not None:
            found = _judge_sketch(sums, calibration, wanted)
        else:
            _files.check_inputs(files)
            calibrator = None if calibration is None else calibrator_in(calibration)
            meaning = agree_on_scores(calibrator, input, floor, None if classes is None else split(classes))
            named = (columns, ignore, (delimiter, decimal), meaning[2], calibrator)
            roles = roles_from(
                meaning[0], scores_name, labels, weights, *named, clusters=clusters, groups=groups, ignore_index=ignore_index
            )
            about_groups = by or ("groups" if groups else "prediction")
            found = _judge_rows(files, roles, meaning, calibrator, wanted, about_groups, counts=counts)
    outputs.write(_Shown(found.to_dict() | about | {"warnings": told}, "\n".join(map(str, found.checks)), found))
    if not found.passed:
        raise typer.Exit(3 if found.verdict == "fail" else 4)


def typed_bounds(typed: Sequence[str]) -> dict[Any, float]:
    """The bounds as they were typed, by metric."""
    if not typed:
        raise typer.BadParameter("name at least one bound, such as --bound ece=0.02.", param_hint="--bound")
    found: dict[Any, float] = {}
    for text in typed:
        name, sign, number = (part.strip() for part in text.rpartition("="))
        if not (name and sign and number):
            raise typer.BadParameter(f"{text!r} is not a name and a number, such as ece=0.02.", param_hint="--bound")
        found_here([name])
        metric = name if name == GROUP_GAP else find_metric(name, "bound")
        if metric in found:
            raise typer.BadParameter(f"{name} has two bounds. Pass one of them.", param_hint="--bound")
        found[metric] = _number(MetricBound(None if isinstance(metric, str) else metric, 0.0), number)
    return found


def _number(limit: MetricBound, text: str) -> float:
    """A bound as it was typed: a number, or a share in percent."""
    is_share = limit.in_percent
    digits = text.removesuffix("%").strip() if is_share else text
    try:
        value = float(digits)
    except ValueError:
        wanted = "a number from 0 to 1, such as 0.02, or a percentage, such as 2%" if is_share else "a number"
        raise typer.BadParameter(f"{text!r} is not {wanted}.", param_hint=f"--bound {limit.name}") from None
    if digits == text:
        if is_in_percent(limit, value):
            remedy = f"For {value:g} %, pass {limit.name}={value / 100:g} or {limit.name}={value:g}%."
            raise InputError(f"--bound {limit.name}", "lie between 0 and 1", got=text, remedy=remedy)
        return value
    if not 0 <= value <= 100:
        raise InputError(f"--bound {limit.name}", "lie between 0% and 100%", got=text)
    return value / 100


_ENDINGS = {".json": "json", ".md": "markdown", ".xml": "junit"}


def _about(files: Sequence[Path], calibration: Path | None, junit: Path | None) -> dict[str, Any]:
    """What the checks are about, for machines."""
    paths = {"calibration": calibration, "junit": junit}
    about: dict[str, Any] = {name: None if path is None else str(path) for name, path in paths.items()}
    return about | {"files": [str(path) for path in files], "library_version": nishimori.__version__}


class _Forms(Protocol):
    """Checks, or the error in place of them, in the forms that pipelines read."""

    def to_github(self) -> str: ...

    def to_junit(self) -> str: ...

    def to_markdown(self) -> str: ...


@dataclass(frozen=True)
class _Unmade:
    """The error that kept the checks from being made, in the same forms."""

    message: str

    @property
    def _outcome(self) -> CheckOutcome:
        return CheckOutcome("the checks can be made", "error", "error", self.message)

    def to_github(self) -> str:
        return workflow_command(self._outcome)

    def to_junit(self) -> str:
        return junit_file(SUITE, [self._outcome])

    def to_markdown(self) -> str:
        return Tabular(TABLE_HEADERS, [("all", "error", self.message)]).markdown()


@dataclass(frozen=True)
class _Shown:
    """What is written and printed: for machines, for people, and for pipelines."""

    content: dict[str, Any]
    text: str
    forms: _Forms

    def lines(self, form: str) -> str:
        """The text of a form."""
        made: dict[str, Callable[[], str]] = {
            "json": lambda: json_text(self.content),
            "text": lambda: self.text,
            "github": self.forms.to_github,
            "markdown": self.forms.to_markdown,
            "junit": self.forms.to_junit,
        }
        return made[form]()


class _Outputs:
    """Where the result goes: the files that may be written, and one form for standard output."""

    def __init__(
        self, named: Sequence[tuple[Path, str | None]], read: Sequence[Path | None], forms: Sequence[str], force: bool
    ) -> None:
        self._targets: list[tuple[Path, str, bool]] = []
        self._refused: list[Exception] = []
        if len(forms) > 1:
            self._refused.append(
                typer.BadParameter(
                    "only one of --json, --github and --markdown can go to standard output. Write the others to files, such as "
                    "-o gate.json or -o gate.md."
                )
            )
        self._form = forms[0] if len(forms) == 1 else "text"
        for path, form in named:
            try:
                self._targets.append(self._target(path, form, read, force))
            except (InputError, OSError) as error:
                self._refused.append(error)

    def _target(self, path: Path, form: str | None, read: Sequence[Path | None], force: bool) -> tuple[Path, str, bool]:
        """A file to write, its form, which follows from its ending if that is None, and whether to replace an existing one."""
        if (form := form or _ENDINGS.get(path.suffix.lower())) is None:
            raise InputError("path", "be a file that ends in .json, .md or .xml", got=path)
        if path in [target[0] for target in self._targets]:
            raise InputError(f"{path} is named twice as a file to write. Choose another name for one of them.")
        if path.is_file() and any(each is not None and each.exists() and path.samefile(each) for each in read):
            raise InputError(f"{path} is a file that the gate reads itself. Choose another name.")
        _files.refuse_folder(path, f"gate{path.suffix}" if path.suffix.lower() in _ENDINGS else "gate.xml")
        # A pipeline must not publish the result of an earlier run because that was there already.
        overwrite = force or (path.is_file() and is_gate_result(path, form))
        check_target(path, overwrite=overwrite)
        return path, form, overwrite

    def check(self) -> None:
        """Refuse what cannot be written, before any work is done. The error is written to the other files."""
        if self._refused:
            raise self._refused[0]

    def write(self, shown: _Shown) -> None:
        """Write the files and print the rest; a file that cannot be written is an error after all others are written."""
        failed: list[OSError] = []
        for path, form, overwrite in self._targets:
            try:
                with new_file(path, overwrite=overwrite) as temporary:
                    temporary.write_text(f"{shown.lines(form).rstrip()}\n", encoding="utf-8")
            except OSError as error:
                failed.append(error)
            else:
                note(f"Wrote {path}")
        if self._form == "json":
            print_json(shown.content)
        elif text := shown.lines(self._form):
            print_lines(text)
        for each in failed[1:]:
            note(error_text(each))
        if failed:
            raise failed[0]


@contextmanager
def _errors_in(outputs: _Outputs, about: dict[str, Any]) -> Iterator[None]:
    """Let a pipeline read why the checks could not be made, where it reads the checks."""
    try:
        yield
    except Exception as error:
        message = error.format_message() if isinstance(error, typer.BadParameter) else error_text(error)
        content = {"passed": False, "verdict": "error", "message": message, "checks": []}
        with suppress(OSError):  # such as a full disk, which is not what went wrong first
            outputs.write(_Shown(content | about, "", _Unmade(message)))
        raise


def _judge_rows(
    files: Sequence[Path],
    roles: Roles,
    meaning: Meant,
    calibrator: FittedMethod | None,
    wanted: Wanted,
    by: By,
    *,
    counts: bool,
) -> Gate:
    """The checks of the rows of a file."""
    if by == "groups" and roles.groups is None:
        raise typer.BadParameter("name the groups with --groups.", param_hint="--by groups")
    map_: Map = Temperature(1.0) if calibrator is None else calibrator.map_
    with show_progress(None) as report:
        rows = _files.open_files(files, roles, floor=meaning[1], counts=counts, calibrator=calibrator)
        check_groups(rows, [map_])
        warn_of_same_rows(rows, {} if calibrator is None else {"The calibration": calibrator})
        return judge(Reported(rows, "Measuring", report), map_, wanted, by, meaning[2])


def _judge_sketch(sums: Any, calibration: Path | None, wanted: Wanted) -> Gate:
    """The checks of a sketch that the command sketch has written."""
    calibrator = None if calibration is None else calibrator_in(calibration)
    agree_on_scores(calibrator, sums.input, sums.floor, None if sums.classes is None else [str(each) for each in sums.classes])
    if calibrator is None:
        return judge(sums, Temperature(1.0), wanted, "prediction")
    check_n_classes(calibrator, sums, "sketch")
    warn_of_same_rows(sums, {"The calibration": calibrator})
    return judge(sums, calibrator.map_, wanted, "prediction")
