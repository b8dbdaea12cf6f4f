"""A fitted calibrator for all valid data: smoothed labels where a method has no solution.

Some data that are valid leave a method without a solution: every sample is classified correctly, the scores separate the
classes, there are very few samples, or all scores are equal. The methods themselves raise an error then. What chooses or
combines methods, and what must go on in a search or a cross-validation, fits them here. Scores that are all equal are answered
with the frequencies of the classes.
"""

from collections.abc import Mapping
from inspect import signature
from typing import Any

from nishimori._calibrators.bias_corrected import BiasCorrected
from nishimori._calibrators.calibrator import Calibrator
from nishimori._calibrators.one_temperature import ExpectationConsistency, TemperatureScaling
from nishimori._methods.fitted_method import COMMON, fit_checked
from nishimori._support.warnings import collect_notices, notice
from nishimori.errors import (
    DegenerateDataError,
    FewErrorsWarning,
    InputError,
    InputWarning,
    NishimoriError,
    NotConvergedError,
    NoTemperatureError,
)

NO_SOLUTION = (NoTemperatureError, NotConvergedError, DegenerateDataError)
"""What methods raise where the data are valid, but do not determine what they fit."""


NONE_FOUND = "has no solution"
"""What the warning about a replaced method says, by which it can be recognised among others."""


def fit_always(
    calibrator: Calibrator, *data: Any, where: str = "", may_be_frequencies: bool = True, **options: Any
) -> Calibrator:
    """The calibrator after its `fit`, or one of smoothed labels, with a warning, where its method has no solution.

    Parameters
    ----------
    calibrator : Calibrator
        The one to fit.
    *data, **options
        What its `fit` takes.
    where : str
        Which samples these are, such as "fold 2 of 5"; the warning says so.
    may_be_frequencies : bool
        Whether scores that say nothing give each class its frequency, and not all classes the same probability.

    Returns
    -------
    Calibrator
        The one that was passed. If it has no solution, a new one that is fitted to the same data, with ``smooth_labels=True``:
        `ExpectationConsistency` for that method, and where the error of a temperature is as large as itself;
        `TemperatureScaling` for all others. Where all logits of each row are equal, the smoothed frequencies of the classes, as
        `with_frequencies` gives them.

    Raises
    ------
    InputError
        If the data are not valid.
    """
    try:
        return fit_checked(calibrator, *data, **options)
    except NO_SOLUTION as error:
        return rescue(calibrator, error, *data, where=where, may_be_frequencies=may_be_frequencies, **options)


def rescue(
    calibrator: Calibrator,
    error: NishimoriError,
    *data: Any,
    where: str = "",
    chosen_by: str = "",
    may_be_frequencies: bool = True,
    **options: Any,
) -> Calibrator:
    """A calibrator of smoothed labels or frequencies, with a warning, in place of one without a solution because of ``error``.

    The warning names the method that was ``chosen_by`` another one, which is what the user typed, beside that.
    That error is raised if the data do not have all logits, as sketches and top-k lists have not. Where there may be no
    frequencies, scores that say nothing give all classes the same probability.
    """
    fitted, action = _fit_smoothed(calibrator, error, *data, **options)
    if may_be_frequencies and fitted.is_uniform_ and isinstance(error, NoTemperatureError) and error.end == "flat":
        return with_frequencies(calibrator, error, *data, where=where, chosen_by=chosen_by, **options)
    _warn_of_replacement(calibrator, error, where, chosen_by, action)
    return fitted


def with_frequencies(
    calibrator: Calibrator, error: NishimoriError, *data: Any, where: str = "", chosen_by: str = "", **options: Any
) -> Calibrator:
    """A calibrator that gives each class its smoothed frequency, (n + 1)/(N + K), with a warning: the scores tell nothing."""
    frequencies = BiasCorrected(method="ts", shrink=False, **_common(calibrator))
    usual = _usual_options(options)
    with collect_notices():
        rows = frequencies.rows_from(*data, **usual)
        fitted = frequencies._fit_frequencies(data[0], rows)
    action = "Each class gets its smoothed frequency instead: (n + 1)/(N + K) for n of N samples and K classes."
    _warn_of_replacement(calibrator, error, where, chosen_by, action)
    return fitted


def _warn_of_replacement(calibrator: Calibrator, error: NishimoriError, where: str, chosen_by: str, action: str) -> None:
    """Warn that a method has no solution, why, and what is done instead."""
    if isinstance(error, NoTemperatureError):
        reason = error.why
    else:  # in sentences, without what the user could do about it
        reason = str(error.changed(remedy="")) if isinstance(error, InputError) else str(error)
    place = f" in {where}" if where else ""
    which = f"{chosen_by!r} chose {calibrator.method_name!r}, which" if chosen_by else f"{calibrator.method_name!r}"
    notice(f"The method {which} {NONE_FOUND}{place}. {reason} {action}", InputWarning)


def _fit_smoothed(
    calibrator: Calibrator, error: NishimoriError, *data: Any, **options: Any
) -> tuple[ExpectationConsistency | TemperatureScaling, str]:
    """Expectation consistency with smoothed labels if that is the method; else, or if ties forbid it, temperature scaling.

    A temperature that its standard error denies depends on few samples, such as zeros at true classes. No single sample can
    move mean confidence far. The text says what the temperature is instead.
    """
    common = _common(calibrator)
    smoothed: list[ExpectationConsistency | TemperatureScaling] = [TemperatureScaling(smooth_labels=True, **common)]
    if isinstance(calibrator, ExpectationConsistency):
        smoothed.insert(0, ExpectationConsistency(top_n=calibrator.top_n, smooth_labels=True, **common))
    elif isinstance(error, NoTemperatureError) and error.end == "uncertain":
        smoothed.insert(0, ExpectationConsistency(smooth_labels=True, **common))
    for method in smoothed:
        try:
            with collect_notices() as notices:
                fitted = method.fit(*data, **_usual_options(options))
        except NoTemperatureError:
            continue
        except InputError:
            break
        if fitted.is_uniform_:
            return fitted, " ".join(message for message, category in notices if category is not FewErrorsWarning)
        condition = "the cross-entropy is lowest with labels smoothed as by J. Platt"
        if isinstance(fitted, ExpectationConsistency):
            condition = "mean confidence is (right + ½)/(n + 1) for n samples"
        return fitted, f"The logits are divided by T = {fitted.temperature_:.4g} instead, at which {condition}."
    raise error


def _common(calibrator: Calibrator) -> dict[str, Any]:
    """What the calibrator knows about the scores."""
    return {name: getattr(calibrator, name) for name in COMMON}


def _usual_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that every method takes; groups, for one, are for some."""
    taken = signature(TemperatureScaling.fit).parameters
    return {name: value for name, value in options.items() if name in taken}
