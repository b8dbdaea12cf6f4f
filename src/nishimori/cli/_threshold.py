"""``nishimori threshold``: the lowest confidence above which answers are certified to be right often enough."""

from typing import Annotated, Any

import typer

import nishimori
from nishimori._evaluation.calibrated import check_groups
from nishimori._evaluation.threshold import threshold_of
from nishimori._support.progress import show_progress
from nishimori.cli import _files
from nishimori.cli._calibration import agree_with, calibrator_in
from nishimori.cli._help import JsonOption, MarkdownOption, epilog, form_of, option
from nishimori.cli._options import CalibrationOption, DataToThreshold, Files
from nishimori.cli._terminal import collect_warnings, print_result
from nishimori.errors import InputError
from nishimori.maps.map import Map
from nishimori.maps.temperature import Temperature

RiskOption = Annotated[float, option("The share of answers that may be wrong; 0.05 by default.", "SHARE", "--max-risk")]
LevelOption = Annotated[float, option("Confidence level of the certificate; 0.95 by default.", "SHARE")]

EPILOG = epilog(
    "nishimori threshold test.npz --calibration calibration.json",
    "nishimori threshold answers.csv --confidence stated --max-risk 0.1",
    codes={4: "nothing can be certified"},
)


def threshold(
    files: Files,
    calibration: CalibrationOption = None,
    max_risk: RiskOption = 0.05,
    level: LevelOption = 0.95,
    *,
    data: DataToThreshold,
    as_json: JsonOption = False,
    markdown: MarkdownOption = False,
) -> None:
    """Find the confidence above which answers can be trusted.

    At most --max-risk of the answers above it are wrong, with the certainty --level, for data like these. Pass rows that
    neither the model nor the calibration was fitted to.
    """
    form = form_of(json=as_json, markdown=markdown)
    files = _files.find_files(files)
    for name, share in (("max_risk", max_risk), ("level", level)):
        if not 0 < share < 1:
            raise InputError(name, "be a share between 0 and 1", got=repr(share))
    if _files.open_sketch(files, data) is not None:
        raise InputError("A sketch has no rows to rank. Pass the file of scores.")
    calibrator = None if calibration is None else calibrator_in(calibration)
    map_: Map = Temperature(1.0) if calibrator is None else calibrator.map_
    with collect_warnings() as warned, show_progress(None):
        rows: Any = _files.open_files(files, agree_with(calibrator, data), calibrator, by=None)
        check_groups(rows, [map_])
        certificate = threshold_of(rows, map_, calibrator, max_risk, level, data.classes)
    about: dict[str, Any] = {"calibration": None if calibration is None else str(calibration)}
    about |= {"files": [str(path) for path in files], "warnings": warned, "library_version": nishimori.__version__}
    print_result(certificate, form, about, list(certificate._display.tables), list(certificate._display.notes))
    if certificate.confidence is None:
        raise typer.Exit(4)
