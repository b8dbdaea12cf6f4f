"""The methods that `compare` and the report try where the user names none: one set, so that their verdicts agree.

Methods of one temperature come first. The others are tried unasked, so that the verdict can say what is best: they are left out
where they would take long, by the same formulas as for `Best`, and where the data do not determine them.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from nishimori._calibrators.calibrator import Calibrator
from nishimori._calibrators.candidates import candidate
from nishimori._calibrators.groups import GroupConsistency
from nishimori._calibrators.methods import calibrator
from nishimori._methods.fitted_method import counts_option, fit_checked
from nishimori._rows.question import question
from nishimori._rows.rows import Rows
from nishimori._sums.census import census
from nishimori._sums.groups import By
from nishimori._support.progress import begin_step
from nishimori._support.warnings import collect_notices
from nishimori.errors import NishimoriError

ONE_TEMPERATURE = ("none", "ts", "ec", "adaptive")
"""The model as it is, and the methods of one temperature; the last is the default."""

BY_GROUP: dict[str, By] = {"class temperatures": "prediction", "group temperatures": "groups"}
"""What the method "group" is called by what it has temperatures for, because both may be compared."""

CHANGING = ("platt", "bias", "beta", "vector")
"""The methods that may change predictions, as far as they are for the number of classes."""

MOST_SECONDS = 5.0
"""What the fit of one of them may cost by the formulas, on one core of 2020."""


@dataclass(frozen=True)
class UsualMethods:
    """The calibrators of several parameters that were fitted unasked, by name, and why others were left out."""

    fitted: dict[str, Calibrator]
    left_out: dict[str, str]


def fit_usual(
    validation: Rows, test: Rows | None, meaning: Mapping[str, Any], *, counts: bool, without: Container[str] = ()
) -> UsualMethods:
    """Fit the usual methods of several parameters to the validation data; those in ``without`` are fitted elsewhere.

    They need rows, and one that has a temperature for each group needs the groups of the test data too.
    """
    tried = [name for name in names_for(validation) if test is None or name in names_for(test)]
    n_rows, n_classes = validation.n_rows, validation.n_classes
    n_samples = census(validation).n_rows if n_rows is None else n_rows  # of a stream that was not read yet
    wanted: dict[str, Calibrator] = {}
    fitted, left_out = {}, {}
    for name, by in BY_GROUP.items():
        if name in tried:
            wanted[name] = GroupConsistency(by=by, **meaning)
        elif name in names_for(validation):
            left_out[name] = "the test data do not name the group of each sample"
    wanted |= {name: calibrator(name, **meaning) for name in CHANGING if name in tried and candidate(name).is_for(n_classes)}
    for name, each in wanted.items():
        if name in without:
            continue
        seconds = candidate(each.method_name).seconds(n_samples, n_classes)
        if seconds > MOST_SECONDS:
            left_out[name] = f"its fit would take about {seconds:.0f} s, more than {MOST_SECONDS:.0f} s; name it to try it"
            continue
        begin_step(f"Fitting {name}")
        try:
            fitted[name] = _fit_unasked(each, validation, counts=counts)
        except NishimoriError as error:
            left_out[name] = str(error).removesuffix(".")
    return UsualMethods(fitted, left_out)


@question("has no methods of several parameters")
def names_for(data: Rows) -> tuple[str, ...]:
    """The usual methods of several parameters that can be fitted to these data, and measured on them."""
    by_group = tuple(name for name, by in BY_GROUP.items() if by == "prediction" or data.groups is not None)
    return (*by_group, *CHANGING)


def _fit_unasked(method: Calibrator, validation: Rows, *, counts: bool) -> Calibrator:
    """Fit without warnings, such as those of small classes, which are for those who asked for the method."""
    later = validation.defer_probability_check()
    with later, collect_notices():
        fitted = fit_checked(method, validation, **counts_option(method, counts=counts))
    fitted.data_digest_ = None  # a comparison says by itself where methods are measured on the data of their fit
    return fitted
