"""The methods of a comparison: the ones that a user names, or the usual ones, which `compare` and the report try.

Both try one set of usual methods, so that their verdicts agree. Those of one temperature come first. The others are tried
unasked, so that the verdict can say what is best: they are left out where they would take long, by the same formulas as for
`Best`, and where the data do not determine them.
"""

from collections.abc import Container, Mapping, Sequence
from numbers import Real
from typing import Any, cast

from sklearn.base import clone

from nishimori._calibrators.calibrator import Calibrator
from nishimori._calibrators.fixed import from_temperature
from nishimori._calibrators.groups import GroupConsistency
from nishimori._calibrators.methods import calibrator
from nishimori._calibrators.one_temperature import AdaptiveConsistency, ExpectationConsistency, TemperatureScaling
from nishimori._fit.match import Match
from nishimori._methods.fitted_method import check_constructor, fit_checked
from nishimori._methods.one_temperature import solution_of
from nishimori._methods.table import CANDIDATES, methods_of_claims
from nishimori._rows.options import RowOptions
from nishimori._rows.question import question
from nishimori._rows.rows import Rows
from nishimori._sums.census import census
from nishimori._sums.groups import By
from nishimori._support.progress import begin_step
from nishimori._support.warnings import collect_notices
from nishimori.errors import InputError, NishimoriError, NoTemperatureError

Methods = Sequence[str | float | Calibrator] | Mapping[str, str | float | Calibrator]
"""What `compare` accepts as a method; a float is a temperature."""

ONE_TEMPERATURE = ("none", "ts", "ec", "adaptive")
"""No calibration, and the methods with one temperature; the last is the default."""

BY_GROUP: dict[str, By] = {"class temperatures": "prediction", "group temperatures": "groups"}
"""Names of the method "group" for classes and for groups, because both may be compared."""

CHANGING = ("platt", "bias", "beta", "vector")
"""The methods that may change predictions, if they suit the number of classes."""

MOST_SECONDS = 5.0
"""The most seconds that a fit of one of them may take by the formulas, on one core of 2020."""


def fit_usual(
    validation: Rows, test: Rows | None, meaning: Mapping[str, Any], *, without: Container[str] = ()
) -> tuple[dict[str, Calibrator], dict[str, str]]:
    """Fit the usual methods with several parameters to the validation data, except ``without``, which are fitted elsewhere.

    Gives the calibrators that were fitted, by name, and why others were left out. They need rows, and one that has a
    temperature for each group needs the groups of the test data too.
    """
    tried = [name for name in names_for(validation) if test is None or name in names_for(test)]
    n_rows, n_classes = validation.n_rows, validation.n_classes
    n_samples = census(validation).n_rows if n_rows is None else n_rows  # of a stream that was not read yet
    wanted: dict[str, Calibrator] = {}
    fitted: dict[str, Calibrator] = {}
    left_out: dict[str, str] = {}
    for name, by in BY_GROUP.items():
        if name in tried:
            wanted[name] = GroupConsistency(by=by, **meaning)
        elif name in names_for(validation):
            left_out[name] = "the test data do not name the group of each sample"
    wanted |= {name: calibrator(name, **meaning) for name in CHANGING if name in tried and CANDIDATES[name].is_for(n_classes)}
    for name, method in wanted.items():
        if name in without:
            continue
        seconds = CANDIDATES[method.method_name].seconds(n_samples, n_classes)
        if seconds > MOST_SECONDS:
            left_out[name] = f"its fit would take about {seconds:.0f} s, more than {MOST_SECONDS:.0f} s; name it to try it"
            continue
        begin_step(f"Fitting {name}")
        try:
            # Warnings, such as those of small classes, are for those who asked for the method.
            with validation.defer_probability_check(), collect_notices():
                fitted[name] = fit_checked(method, validation)
        except NishimoriError as error:
            left_out[name] = str(error).removesuffix(".")
        else:
            fitted[name].data_digest_ = None  # a comparison says by itself where methods are measured on the data of their fit
    return fitted, left_out


@question("has no methods of several parameters")
def names_for(data: Rows) -> tuple[str, ...]:
    """The usual methods with several parameters that can be fitted to these data and measured on them."""
    by_group = tuple(name for name, by in BY_GROUP.items() if by == "prediction" or data.groups is not None)
    return (*by_group, *CHANGING)


def methods_for(data: Rows) -> tuple[str, ...]:
    """The methods that are compared if the user names none, besides the methods of `fit_usual`."""
    if not data.is_claims:
        return (ONE_TEMPERATURE[-1], *ONE_TEMPERATURE[:-1])
    of_claims = methods_of_claims(are_scores=data.are_scores)
    return of_claims if data.are_scores else ("none", *of_claims)


# What a user names


def calibrators_by_name(methods: Any, meaning: Mapping[str, Any], *, by_groups: bool, of_rows: bool) -> dict[str, Calibrator]:
    """Calibrators by name: the user's names, else the methods' names.

    ``by_groups`` if the data name the group of each row, which the method "group" then uses. ``of_rows`` if they are `Rows`.
    """
    if not isinstance(methods, Sequence | Mapping) or isinstance(methods, str) or not methods:
        raise InputError("methods", "be a list of names or calibrators, such as ('none', 'ec')", got=repr(methods))
    listed = list(methods.values() if isinstance(methods, Mapping) else methods)
    calibrators = [_to_calibrator(method, meaning, by_groups=by_groups) for method in listed]
    for method in calibrators:
        if not (of_rows and is_fitted(method)):  # rows know what their numbers mean
            _refuse_other_scores(method, meaning)
    if isinstance(methods, Mapping):
        return {str(name): method for name, method in zip(methods, calibrators, strict=True)}
    names = [
        f"T={method:g}" if _is_temperature(method) else its.method_name for method, its in zip(listed, calibrators, strict=True)
    ]
    if len(set(names)) < len(names):
        raise InputError("methods", "be different from each other", got=", ".join(names))
    return dict(zip(names, calibrators, strict=True))


def with_fitted_meaning(options: RowOptions, methods: Any) -> RowOptions:
    """The options, completed with what the first fitted calibrator says about the scores."""
    if not isinstance(methods, Sequence | Mapping):  # refused later
        return options
    for method in methods.values() if isinstance(methods, Mapping) else methods:
        if isinstance(method, Calibrator) and is_fitted(method):
            meaning: RowOptions = {"input": method.input_, "classes": method.classes, "floor": method.floor_}
            passed = {name: value for name, value in options.items() if value is not None}
            return cast("RowOptions", {**meaning, **passed})
    return options


def _is_temperature(method: Any) -> bool:
    return isinstance(method, Real) and not isinstance(method, bool)


def _to_calibrator(method: Any, meaning: Mapping[str, Any], *, by_groups: bool) -> Calibrator:
    """The calibrator that a name, a temperature or a calibrator stands for; a fitted one is kept as it is."""
    if _is_temperature(method):
        return from_temperature(method, **meaning)
    if isinstance(method, Calibrator):
        check_constructor(method)
        return method if is_fitted(method) else clone(method)
    return calibrator(method, **meaning, **({"by": "groups"} if by_groups and method == "group" else {}))


def is_fitted(method: Calibrator) -> bool:
    """Whether a calibrator has been fitted, so that it is measured as it is."""
    return hasattr(method, "map_")


def _refuse_other_scores(method: Calibrator, meaning: Mapping[str, Any]) -> None:
    """Refuse a calibrator that was made for other scores than the compared ones."""
    for name, value in meaning.items():
        own: Any = getattr(method, name)
        if name != "classes" and is_fitted(method):
            own = getattr(method, f"{name}_")
        elif name != "classes" and own in (None, "auto"):  # which means that of the data
            continue
        if own is not None and value is not None and list(own) != list(value) if name == "classes" else own != value:
            raise InputError("methods", f"hold calibrators with the same `{name}` as the data, {value!r}", got=repr(own))


def _fit(method: Calibrator, data: Rows, matched: Match | None) -> Calibrator:
    """Fit one method, unless it is fitted; methods that only need the temperatures of EC and TS share one search."""
    if is_fitted(method):
        return method
    if matched is None:
        return fit_checked(method, data)
    if type(method) is AdaptiveConsistency:
        return method._adopt(data, data, method._method().choose(matched))
    if type(method) is TemperatureScaling and not method.smooth_labels:
        return method._adopt(data, data, solution_of(matched, 1))
    if type(method) is ExpectationConsistency and method.top_n == 1 and not method.smooth_labels:
        return method._adopt(data, data, solution_of(matched, 0))
    return fit_checked(method, data)


def fit_methods(
    methods: Mapping[str, Calibrator], data: Rows, matched: Match | None
) -> tuple[dict[str, Calibrator], dict[str, str]]:
    """The fitted calibrators, and for all others why they could not be fitted, by name."""
    fitted: dict[str, Calibrator] = {}
    why: dict[str, NishimoriError] = {}
    for name, method in methods.items():
        begin_step(f"Fitting {name}")
        try:
            fitted[name] = _fit(method, data, matched)
        except NishimoriError as error:
            why[name] = error
    if fitted:
        return fitted, {name: str(error) for name, error in why.items()}
    # What is wrong with the data themselves is wrong for every method.
    if not any(isinstance(error, NoTemperatureError) for error in why.values()):
        raise next(iter(why.values()))
    raise NoTemperatureError(" ".join(f"{name}: {error}" for name, error in why.items()), end="flat")
