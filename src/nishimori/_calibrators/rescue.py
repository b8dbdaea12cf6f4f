"""A fitted calibrator for all valid data: smoothed labels where a method has no solution.

Some data that are valid leave a method without a solution: every sample is classified correctly, the scores separate the
classes, there are very few samples, or all scores are equal. The methods themselves raise an error then. What chooses or
combines methods, and what must go on in a search or a cross-validation, fits them here. Scores that are all equal are answered
with the frequencies of the classes.
"""

from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any

from nishimori._calibrators.bias_corrected import BiasCorrected
from nishimori._calibrators.calibrator import Calibrator
from nishimori._calibrators.one_temperature import ExpectationConsistency, TemperatureScaling
from nishimori._methods.fitted_method import fit_checked
from nishimori._support.warnings import Notice, collect_notices, notice
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


def fit_always(calibrator: Calibrator, *data: Any, where: str = "", **options: Any) -> Calibrator:
    """The calibrator after its `fit`, or one of smoothed labels, with a warning, where its method has no solution.

    Parameters
    ----------
    calibrator : Calibrator
        The one to fit.
    *data, **options
        What its `fit` takes.
    where : str
        Which samples these are, such as "fold 2 of 5"; the warning says so.

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
        return rescue(calibrator, error, *data, where=where, **options)


def rescue(calibrator: Calibrator, error: NishimoriError, *data: Any, where: str = "", **options: Any) -> Calibrator:
    """A calibrator of smoothed labels or frequencies, with a warning, in place of one without a solution because of ``error``.

    That error is raised if the data do not have all logits, as sketches and top-k lists have not.
    """
    with collect_notices() as told:
        fitted = _fit_smoothed(calibrator, error, *data, **options)
    if fitted.is_uniform_ and isinstance(error, NoTemperatureError) and error.end == "flat":
        return with_frequencies(calibrator, error, *data, where=where, **options)
    return _tell(calibrator, error, fitted, told, where)


def rescue_temperature(
    calibrator: Calibrator, error: NishimoriError, *data: Any, where: str = "", **options: Any
) -> ExpectationConsistency | TemperatureScaling:
    """What `rescue` gives if it may only be a temperature: for all classes alike where the scores say nothing about them."""
    with collect_notices() as told:
        fitted = _fit_smoothed(calibrator, error, *data, **options)
    return _tell(calibrator, error, fitted, told, where)


def with_frequencies(calibrator: Calibrator, error: NishimoriError, *data: Any, where: str = "", **options: Any) -> Calibrator:
    """A calibrator that gives each class its smoothed frequency, (n + 1)/(N + K), with a warning: the scores tell nothing."""
    with collect_notices():
        fitted = BiasCorrected(method="ts", shrink=False, **_common(calibrator)).fit_frequencies(*data, **_known(options))
    done = "Each class gets its smoothed frequency instead: (n + 1)/(N + K) for n of N samples and K classes."
    notice(f"The method {calibrator.method_name!r} has no solution{_place(where)}. {_reason(error)} {done}", InputWarning)
    return fitted


def _tell(
    calibrator: Calibrator,
    error: NishimoriError,
    fitted: ExpectationConsistency | TemperatureScaling,
    told: Sequence[Notice],
    where: str,
) -> ExpectationConsistency | TemperatureScaling:
    """Warn that a temperature of smoothed labels takes the place of a method, and why."""
    if fitted.is_uniform_:
        done = " ".join(message for message, category in told if category is not FewErrorsWarning)
    else:
        condition = (
            "mean confidence is (right + ½)/(n + 1) for n samples"
            if isinstance(fitted, ExpectationConsistency)
            else "the cross-entropy is lowest with labels smoothed as by J. Platt"
        )
        done = f"The logits are divided by T = {fitted.temperature_:.4g} instead, at which {condition}."
    notice(f"The method {calibrator.method_name!r} has no solution{_place(where)}. {_reason(error)} {done}", InputWarning)
    return fitted


def _place(where: str) -> str:
    return f" in {where}" if where else ""


def _fit_smoothed(
    calibrator: Calibrator, error: NishimoriError, *data: Any, **options: Any
) -> ExpectationConsistency | TemperatureScaling:
    """Expectation consistency with smoothed labels if that is the method; else, or if ties forbid it, temperature scaling.

    A temperature that its standard error denies depends on few samples, such as zeros at true classes. No single sample can
    move mean confidence far.
    """
    common = _common(calibrator)
    smoothed: list[ExpectationConsistency | TemperatureScaling] = [TemperatureScaling(smooth_labels=True, **common)]
    if isinstance(calibrator, ExpectationConsistency):
        smoothed.insert(0, ExpectationConsistency(top_n=calibrator.top_n, smooth_labels=True, **common))
    elif isinstance(error, NoTemperatureError) and error.end == "uncertain":
        smoothed.insert(0, ExpectationConsistency(smooth_labels=True, **common))
    for each in smoothed:
        try:
            return each.fit(*data, **_known(options))
        except NoTemperatureError:
            continue
        except InputError:
            break
    raise error


def _common(calibrator: Calibrator) -> dict[str, Any]:
    """What was said about the scores."""
    return {name: getattr(calibrator, name) for name in ("input", "classes", "floor")}


def _known(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that every method takes; groups, for one, are for some."""
    known = signature(TemperatureScaling.fit).parameters
    return {name: value for name, value in options.items() if name in known}


def _reason(error: NishimoriError) -> str:
    """Why there is no solution, in sentences, without what to do about it where that is said apart."""
    if isinstance(error, NoTemperatureError):
        return error.why
    return str(error.changed(remedy="")) if isinstance(error, InputError) else str(error)
