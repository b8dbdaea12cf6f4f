"""``nishimori gate``: stop a release whose model does not keep a bound."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

import nishimori
from nishimori._evaluation.calibrated import check_groups
from nishimori._evaluation.checks import GROUP_GAP, Verdict, find_bound
from nishimori._evaluation.gate import (
    MIN_SAMPLES,
    NLL_CAP,
    SUITE,
    TABLE_HEADERS,
    CheckOutcome,
    Gate,
    Wanted,
    judge,
    name_of_map,
    workflow_command,
)
from nishimori._evaluation.gate import junit as junit_file
from nishimori._methods.fitted_method import FittedMethod
from nishimori._sums.groups import By
from nishimori._support.disk import new_file
from nishimori._support.json import FLAG, TEXT, JsonError, Shape, any_shape, as_python, check_shape, list_of, one_of, read_json
from nishimori._support.progress import show_progress
from nishimori._support.tables import Tabular
from nishimori.cli import _files
from nishimori.cli._calibration import agree_with, agree_with_sketch, calibrator_to_measure
from nishimori.cli._help import MEASURES, OUTPUT, ForceOption, JsonOption, MarkdownOption, epilog, flag, option
from nishimori.cli._options import (
    BinsOption,
    CalibrationOption,
    Data,
    DataOptions,
    Files,
    PrevalenceOption,
    StrategyOption,
    search_cwd,
)
from nishimori.cli._run import error_text
from nishimori.cli._terminal import (
    collect_warnings,
    json_text,
    note,
    print_json,
    print_lines,
)
from nishimori.errors import InputError
from nishimori.maps.map import Map
from nishimori.maps.temperature import Temperature

LevelOption = Annotated[float, option("Least share of right verdicts: 0.95.", "SHARE")]
AllowInconclusiveOption = Annotated[bool, flag("Pass even if a check is inconclusive.", "--allow-inconclusive")]
NllCapOption = Annotated[float, option(f"Largest loss in the NLL: {NLL_CAP:g}.", "NUMBER")]
MinSamplesOption = Annotated[int, option(f"Least samples to judge: {MIN_SAMPLES}.", "NUMBER")]
BoundOption = Annotated[
    list[str] | None,
    option(
        "Such as ece=2%, nll=0.5, group_gap=5% (any class or group); repeatable.",
        "NAME=BOUND",
        "--bound",
        panel=MEASURES,
    ),
]
RiskOption = Annotated[
    float | None,
    option("Certify: at most this share wrong.", "SHARE", "--max-risk", panel=MEASURES),
]
CoverageOption = Annotated[float | None, option("Least share answered above it.", "SHARE", "--min-coverage", panel=MEASURES)]
ByOption = Annotated[By | None, option("For group_gap: prediction or groups.", "KIND", panel=MEASURES)]
JunitOption = Annotated[Path | None, option("Write the checks to this JUnit file.", "FILE", panel=OUTPUT)]
OutputsOption = Annotated[
    list[Path] | None,
    option("Write the checks to this .json, .md or .xml (JUnit) file; repeatable.", "FILE", "--output", "-o", panel=OUTPUT),
]
GithubOption = Annotated[bool, flag("Print annotations of GitHub Actions.", "--github", panel=OUTPUT)]

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
    max_risk: RiskOption = None,
    min_coverage: CoverageOption = None,
    by: ByOption = None,
    n_bins: BinsOption = 15,
    strategy: StrategyOption = "uniform",
    prevalence: PrevalenceOption = None,
    *,
    data: Data,
    output: OutputsOption = None,
    junit: JunitOption = None,
    github: GithubOption = False,
    markdown: MarkdownOption = False,
    as_json: JsonOption = False,
    force: ForceOption = False,
) -> None:
    """Check a model against bounds, and fail if one is exceeded.

    Undecided checks are inconclusive. Files of an earlier gate are replaced.
    """
    chosen = [name for name, is_chosen in (("json", as_json), ("github", github), ("markdown", markdown)) if is_chosen]
    targets: list[tuple[Path, str | None]] = [] if junit is None else [(junit, "junit")]
    targets += [(path, None) for path in output or []]
    outputs = _Outputs(targets, [*files, *([calibration] if calibration else [])], chosen, force)
    paths = {"calibration": calibration, "junit": junit}
    about: dict[str, Any] = {name: None if path is None else str(path) for name, path in paths.items()}
    about |= {"prevalence": None, "files": [str(path) for path in files], "library_version": nishimori.__version__}
    with collect_warnings() as warned, _errors_in(outputs, about):
        about["warnings"] = warned
        bounds = None if max_risk is not None and not bound else typed_bounds(bound or [])
        wanted = Wanted(bounds, level, allow_inconclusive, n_bins, strategy, min_samples, nll_cap, max_risk, min_coverage)
        outputs.check()
        sums = _files.open_sketch(files, data, by)
        calibrator = calibrator_to_measure(calibration, prevalence)
        if calibrator is not None and prevalence is not None:
            about["prevalence"] = as_python(calibrator.class_prior_)
        map_: Map = Temperature(1.0) if calibrator is None else calibrator.map_
        if sums is None:
            verdicts = _judge_rows(files, data, calibrator, map_, wanted, by)
        else:
            agree_with_sketch(calibrator, sums)
            verdicts = judge(sums, map_, wanted, "prediction")
    forms = {"text": "\n".join(map(str, verdicts.checks)), "github": verdicts.to_github()}
    forms |= {"markdown": verdicts.to_markdown(), "junit": verdicts.to_junit()}
    outputs.write(verdicts.to_dict() | about, forms)
    if not verdicts.passed:
        raise typer.Exit(3 if verdicts.verdict == "fail" else 4)


def _judge_rows(
    files: Sequence[Path], data: DataOptions, calibrator: FittedMethod | None, map_: Map, wanted: Wanted, by: By | None
) -> Gate:
    """The checks of the rows of a file."""
    data = agree_with(calibrator, data)
    about_groups: By = by or ("groups" if data.groups else "prediction")
    with show_progress(None):
        rows = _files.open_files(files, data, calibrator, by=about_groups)
        check_groups(rows, [map_])
        after = name_of_map("calibration", calibrator, map_)
        return judge(rows, map_, wanted, about_groups, data.classes, calibrator=calibrator, after=after)


def typed_bounds(typed: Sequence[str]) -> dict[Any, float]:
    """The bounds that were typed, by metric."""
    if not typed:
        raise typer.BadParameter("name at least one bound, such as --bound ece=0.02.", param_hint="--bound")
    bounds: dict[Any, float] = {}
    for text in typed:
        name, sign, number = (part.strip() for part in text.rpartition("="))
        if not (name and sign and number):
            raise typer.BadParameter(f"{text!r} is not a name and a number, such as ece=0.02.", param_hint="--bound")
        search_cwd([name])
        metric = find_bound(name, "bound") or GROUP_GAP
        if metric in bounds:
            raise typer.BadParameter(f"{name} has two bounds. Pass one of them.", param_hint="--bound")
        is_share = isinstance(metric, str) or metric.in_percent
        bounds[metric] = _number(number, f"--bound {name}", is_share=is_share)
    return bounds


def _number(text: str, option: str, *, is_share: bool) -> float:
    """A bound from its text: a number, or a share in percent."""
    digits = text.removesuffix("%") if is_share else text
    try:
        bound = float(digits)
    except ValueError:
        wanted = "a number from 0 to 1, such as 0.02, or a percentage, such as 2%" if is_share else "a number"
        raise typer.BadParameter(f"{text!r} is not {wanted}.", param_hint=option) from None
    if digits == text:
        return bound
    if not 0 <= bound <= 100:
        raise InputError(option, "lie between 0% and 100%", got=text)
    return bound / 100


_ENDINGS = {".json": "json", ".md": "markdown", ".xml": "junit"}


class _Outputs:
    """Where the result goes: files to write, and one form for standard output."""

    def __init__(
        self, named: Sequence[tuple[Path, str | None]], read: Sequence[Path], forms: Sequence[str], force: bool
    ) -> None:
        self._targets: list[tuple[Path, str, bool]] = []
        self._refused: list[Exception] = []
        if len(forms) > 1:
            self._refused.append(typer.BadParameter("only one of --json, --github and --markdown can go to standard output."))
        self._form = forms[0] if len(forms) == 1 else "text"
        for path, form in named:
            try:
                self._targets.append(self._target(path, form, read, force))
            except (InputError, OSError) as error:
                self._refused.append(error)

    def _target(self, path: Path, form: str | None, read: Sequence[Path], force: bool) -> tuple[Path, str, bool]:
        """A file to write, its form (None: from its ending), and whether to replace an existing file."""
        if path in [target[0] for target in self._targets]:
            raise InputError(f"{path} is named twice as a file to write. Choose another name for one of them.")
        ending = path.suffix.lower()
        # A pipeline must not publish the result of an earlier run because that was there already.
        overwrite = force or (path.is_file() and _is_gate_result(path, form or _ENDINGS.get(ending, "")))
        _files.check_output(path, [ending] if form else list(_ENDINGS), "gate.xml", overwrite=overwrite, read=read)
        return path, form or _ENDINGS[ending], overwrite

    def check(self) -> None:
        """Refuse what cannot be written, before any work is done. The error is written to the other files."""
        if self._refused:
            raise self._refused[0]

    def write(self, content: dict[str, Any], forms: dict[str, str]) -> None:
        """Write the files and print the rest: ``content`` is for machines, and ``forms`` are texts.

        A file that cannot be written is an error after all others are written.
        """
        texts = forms | {"json": json_text(content)}
        failed: list[OSError] = []
        for path, form, overwrite in self._targets:
            try:
                with new_file(path, overwrite=overwrite) as temporary:
                    temporary.write_text(f"{texts[form].rstrip()}\n", encoding="utf-8")
            except OSError as error:
                failed.append(error)
            else:
                note(f"Wrote {path}")
        if self._form == "json":
            print_json(content)
        elif texts[self._form]:
            print_lines(texts[self._form])
        for failure in failed[1:]:
            note(error_text(failure))
        if failed:
            raise failed[0]


def _is_gate_result(path: Path, form: str) -> bool:
    """Whether a file was written by the gate in this form: "json", "markdown" or "junit"."""
    if form == "json":
        try:
            check_shape(read_json(path), _gate_shape)
        except (JsonError, OSError):
            return False
        return True
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError):
        return False
    if form == "junit":  # where other suites were added, they would be lost
        return text.count("<testsuite ") == text.count(f'<testsuite name="{SUITE}"') == 1
    lines = text.splitlines()
    is_table = all(line.startswith("|") for line in lines)
    return is_table and lines[:1] == Tabular(TABLE_HEADERS, []).markdown().splitlines()[:1]


def _gate_shape(content: Any) -> Shape:
    """The JSON of the gate command: checks, or the error that prevented them."""
    common = {"passed": FLAG, "library_version": TEXT, "files": list_of(any_shape)}
    if isinstance(content, Mapping) and content.get("verdict") == "error":
        return common | {"message": TEXT, "checks": list_of(any_shape, 0, 0)}
    verdict = one_of(*get_args(Verdict))
    return common | {"verdict": verdict, "checks": list_of({"verdict": verdict}, 1)}


@contextmanager
def _errors_in(outputs: _Outputs, about: dict[str, Any]) -> Iterator[None]:
    """Write why the checks failed to run to the files in which a pipeline expects the checks."""
    try:
        yield
    except Exception as error:
        message = error.format_message() if isinstance(error, typer.BadParameter) else error_text(error)
        content = {"passed": False, "verdict": "error", "message": message, "checks": []}
        outcome = CheckOutcome("the checks can be made", "error", message)
        forms = {"text": "", "github": workflow_command(outcome), "junit": junit_file(SUITE, [outcome])}
        forms["markdown"] = Tabular(TABLE_HEADERS, [("all", "error", message)]).markdown()
        with suppress(OSError):  # such as a full disk, which is not what went wrong first
            outputs.write(content | about, forms)
        raise
