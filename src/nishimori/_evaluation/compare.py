"""Choose a calibration, if any: fit several methods to the same data, measure them on the same data, and judge."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Unpack, cast

from nishimori._calibrators.best import Best
from nishimori._calibrators.calibrator import Calibrator
from nishimori._calibrators.fixed import FixedTemperature, Uncalibrated
from nishimori._evaluation.calibrated import check_groups, refuse_scores, warn_of_equal_data, warn_of_same_rows
from nishimori._evaluation.calibration_test import CalibrationTest, calibration_test, is_rejected, temperatures_test
from nishimori._evaluation.compared_methods import (
    Methods,
    calibrators_by_name,
    fit_methods,
    fit_usual,
    is_fitted,
    methods_for,
    with_fitted_meaning,
)
from nishimori._evaluation.comparison import Compared, Comparison
from nishimori._evaluation.differences import MeasuredMaps, measure_maps
from nishimori._evaluation.group_gaps import names_of_groups
from nishimori._evaluation.metrics.metric import Metric
from nishimori._evaluation.metrics.table import asked_metrics, checked_metrics
from nishimori._evaluation.recommendation import recommend
from nishimori._evaluation.scorecard import BEYOND_ONE_TEMPERATURE, Scorecard, warn_of_one_temperature
from nishimori._fit.adaptive import match_both
from nishimori._fit.floors import MAY_BE_AUTO, choose_floor
from nishimori._fit.match import Match
from nishimori._rows.column_names import column_names, refuse_other_order
from nishimori._rows.entry import open_rows
from nishimori._rows.options import RowOptions, takes_rows
from nishimori._rows.rows import Rows, is_rows, raise_to_floor, without_chosen_floor
from nishimori._rows.scores import is_auto
from nishimori._sums.census import Census, census, verdict_on_zeros
from nishimori._sums.groups import By
from nishimori._sums.reliability import Strategy
from nishimori._support.formatting import enumeration
from nishimori._support.numbers import between
from nishimori._support.progress import begin_step
from nishimori.errors import InputError, NishimoriError
from nishimori.maps.around import Floored
from nishimori.maps.map import Map

FLATTERS = "All methods were measured on the data that they were fitted to, which flatters them."
"""The first verdict if there are no test data."""

_ONE_KIND = (
    "Validation and test data must be of one kind. Pass `input='logits'` if both are logits, `input='probabilities'` if both "
    "are probabilities."
)

_CHOSEN_FLOOR = (
    "Probabilities below {0:g} are raised to it before they are calibrated: this floor was chosen by the log-loss on "
    "held-out validation samples. The uncalibrated model has no floor, but a true class of probability 0 counts as {0:g} in "
    "its NLL."
)

# The arguments that speak of test data.
_OF_TEST_DATA = ("test_logits", "test_labels", "test_weight", "test_clusters", "test_groups")


@takes_rows(**MAY_BE_AUTO)
def compare(
    logits: Any,
    labels: Any = None,
    test_logits: Any = None,
    test_labels: Any = None,
    *,
    methods: Methods | None = None,
    test_weight: Any = None,
    test_clusters: Any = None,
    test_groups: Any = None,
    metrics: Sequence[Any] | None = None,
    level: float = 0.95,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    **options: Unpack[RowOptions],
) -> Comparison:
    """Fit several methods to validation data, measure them on test data, and say what the numbers mean.

    Scores of the same samples vary together, so the difference of two methods has a much smaller standard error than their
    metrics: the differences from the first method have standard errors, intervals and p-values of their own.

    Parameters
    ----------
    logits : array, path, batches, `TopK`, `Sketch` or `Rows`
        Scores before the softmax, of shape (n_samples, n_classes): an array of NumPy, PyTorch, JAX, CuPy or Dask. A flat array
        z means the binary logits (0, z); with more dimensions, such as (sequences, tokens, vocabulary), each position before
        the classes is a sample. Or the path of a file, a loader of batches ``(logits, labels)``, or what `rows` returns.
        These are validation data, to which each method is fitted. With ``floor="auto"``, the default, the floor of
        probabilities is chosen from them once, for all methods and for the test data.
    labels : array of shape (n_samples,), or as ``logits`` before the classes
        The true class of each sample: its column, or one of ``classes``. For a file, the name of its array or column. Left out
        where ``logits`` brings them.
    test_logits, test_labels, test_weight, test_clusters, test_groups
        What the methods are measured on; by default the validation data, which flatters every method a little.
    methods : sequence, or mapping of names to methods, optional
        Each is the name of a method, a calibrator, or a temperature. Two calibrators of one method need names of their own:
        pass a mapping. Calibrators that have been fitted and temperatures are measured as they are. Differences are those
        from the first one. By default the methods that the report tries too: "adaptive", "none", "ts" and "ec"; "group" for
        predicted classes ("class temperatures") and, where groups are named, for these ("group temperatures"); "platt" and
        "beta" for two classes, "bias" for more; and "vector". For claims "none", "intercept", "platt", "beta", "isotonic" and
        "histogram". Those that would take long, or that the data do not determine, are in `Comparison.left_out`.
    metrics : sequence, optional
        What to measure besides: names such as "ks" or "top_n_accuracy(top_n=3)", functions of `nishimori.metrics`, or a
        `Metric` of your own.
    level : float
        The level of intervals; a test rejects if its p-value is below 1 - level.
    n_bins : int
        Number of bins of the calibration error.
    strategy : {"uniform", "quantile"}
        Bins of equal width, or of equal weight.
    **options
        What is said about the data, see `rows`: ``sample_weight``, ``counts``, ``clusters``, ``groups``, ``input``,
        ``classes``, ``floor``, ``ignore_index``, ``shift_labels``, ``class_axis``, ``member_axis``.

    Returns
    -------
    Comparison
        A table with errors, paired differences and verdicts. Print it, or see its methods ``to_dict``, ``to_markdown``, ...

    Examples
    --------
    >>> import nishimori
    >>> network = nishimori.data.load("cifar10/resnet20")
    >>> validation, test = ((part.logits, part.labels) for part in (network.validation, network.test))
    >>> comparison = nishimori.compare(*validation, *test, methods=("none", "ec"))
    >>> before, after = (comparison[name].scorecard for name in ("none", "ec"))
    >>> print(f"T {after.temperature:.2f}, ECE {before.ece:.3f} to {after.ece:.3f}")
    T 1.61, ECE 0.070 to 0.010

    What a calibrator changes on new data, and whether that is significant:

    >>> calibrator = nishimori.ExpectationConsistency().fit(*validation)
    >>> comparison = nishimori.compare(*test, methods=(1.0, calibrator))
    >>> change = comparison["ec"].differences["nll"]
    >>> print(f"NLL {change.value:.3f} ± {change.se:.3f}, p < 0.001: {change.p_value < 0.001}")
    NLL -0.069 ± 0.005, p < 0.001: True
    """
    wanted = asked_metrics(metrics)
    if not is_rows(logits):  # rows know what their numbers mean
        options = with_fitted_meaning(options, methods)
    measured_on = {"sample_weight": test_weight, "clusters": test_clusters, "groups": test_groups}
    validation, test, used = data_sets((logits, labels), (test_logits, test_labels), options, measured_on)
    kind = options.get("input") or validation.input
    meaning: dict[str, Any] = {"input": kind, "classes": options.get("classes"), "floor": used}
    with_usual = None if methods is not None or validation.is_claims else meaning
    listed = methods_for(validation) if methods is None else methods
    by_groups = validation.groups is not None
    chosen = calibrators_by_name(listed, meaning, by_groups=by_groups, of_rows=is_rows(logits))
    for fitted in filter(is_fitted, chosen.values()):
        fitted._check_columns(validation, "logits")
    bins: dict[str, Any] = {"n_bins": n_bins, "strategy": strategy}
    return _compare_methods(chosen, validation, test, wanted, level, with_usual, **bins)


def _compare_methods(
    methods: Mapping[str, Calibrator],
    validation: Rows,
    test: Rows | None,
    metrics: tuple[Metric, ...],
    level: float,
    with_usual: Mapping[str, Any] | None,
    **bins: Any,
) -> Comparison:
    """Fit, measure and test; without test data measure on the validation data.

    ``with_usual`` is what the scores are, where the usual methods of several parameters are to be tried too.
    """
    level = between("level", level, 0, 1)
    equal = [] if test is None else warn_of_equal_data(validation, test)
    same = warn_of_same_rows(test or validation, {name: method for name, method in methods.items() if is_fitted(method)})
    matched = None
    if not validation.is_claims:
        begin_step("Fitting ec and ts")
        matched = match_both(validation)
    counted = census(validation) if matched is None else matched.census
    for data in (validation, test or validation):
        metrics = tuple(metric for metric in checked_metrics(metrics, data) if metric.suits(data.n_classes))
    left_out: dict[str, str] = {}
    if with_usual is not None:
        usual, left_out = fit_usual(validation, test, with_usual)
        methods = {**methods, **usual}
    flatters = test is None and not all(is_fitted(method) or isinstance(method, Uncalibrated) for method in methods.values())
    fitted, why = fit_methods(methods, validation, matched)
    data = without_chosen_floor(test or validation)
    floor = None if data is (test or validation) else (test or validation).floor
    maps = {name: method.map_ for name, method in fitted.items()}
    if floor is not None:  # which was chosen, and is a part of what is fitted
        as_is = (Uncalibrated, FixedTemperature)
        maps = {name: own if isinstance(fitted[name], as_is) else Floored(own, floor) for name, own in maps.items()}
    begin_step("Measuring")
    check_groups(data, list(maps.values()), "groups" if test is None else "test_groups")
    refuse_scores(data, list(maps.values()))
    kinds: tuple[By, ...] = (*(() if data.is_claims else ("prediction",)), *(() if data.groups is None else ("groups",)))
    groups = {by: names_of_groups(data, by, next(iter(methods.values())).classes) for by in kinds}
    measured = measure_maps(data, maps, groups=groups, level=level, metrics=metrics, zero=floor, **bins)
    card = next(iter(measured.cards.values()))
    tests = _tests(validation, matched)
    flatters = flatters or bool(equal)
    caveat = _about_zeros(counted, None if test is None else card, of_temperatures=matched is not None)
    off = warn_of_one_temperature({name: measured.cards[name] for name, method in fitted.items() if not method.is_fixed})
    rows = [
        _compared(name, fitted[name], maps[name], measured, metrics, level)
        if name in fitted
        else Compared(name, why=why[name], metrics=metrics)
        for name in methods
    ]
    score_test = tests.get("score_test")
    comparison = Comparison(
        methods=tuple(rows),
        n_validation=counted.n_rows,
        n_test=card.n_samples,
        is_test=test is not None,
        level=level,
        verdicts=(),
        tests=tests,
        floor=validation.floor,
        caveat=caveat,
        flatters=flatters,
        left_out=left_out,
        same_rows=" ".join((*equal, *same)),
        recommendation=recommend(
            [row for row in rows if row.scorecard is not None],
            measured.difference,
            level,
            off_in_validation=score_test is not None and is_rejected(score_test.p_value, level),
            in_sample=flatters,
        ),
    )
    of_several, choice = len(measured.cards) > 1, comparison.recommendation.choice
    if off and (choice is None or comparison[choice].temperature is not None):  # else what is recommended helps
        off = f"{off} {BEYOND_ONE_TEMPERATURE}"
    best = {name: method.chosen_ for name, method in fitted.items() if isinstance(method, Best)}
    verdicts = (
        comparison.same_rows or (FLATTERS if flatters and of_several else ""),
        caveat,
        measured.caveat if of_several else "",
        *comparison.recommendation.sentences,
        off,
        *(f"The method {name} chose {chosen} by the losses on folds of the validation data." for name, chosen in best.items()),
        *((comparison.about_classes, comparison.about_groups) if of_several else ()),
        *(
            f"On the validation data, {result.sentence(level).replace('Calibration', 'calibration', 1)}"
            for result in tests.values()
        ),
        *(f"{name} could not be fitted. {text}" for name, text in why.items()),
        *(f"{name} was not compared: {text}." for name, text in left_out.items()),
        _CHOSEN_FLOOR.format(validation.floor) if validation.floor_is_chosen else "",
    )
    return replace(comparison, verdicts=tuple(filter(None, verdicts)))


def data_sets(
    validation: tuple[Any, Any], test: tuple[Any, Any], options: RowOptions, test_options: Mapping[str, Any]
) -> tuple[Rows, Rows | None, float | None]:
    """Validation data, test data or None, and the floor of both, which is chosen from the validation data if it is "auto".

    Both are given as logits and labels. ``options`` are those of the validation data; ``test_options`` take their place for
    test data.
    """
    if is_rows(validation[0]) and is_rows(validation[1]):
        must = "be left out where `logits` brings its own"
        raise InputError("labels", must, remedy="Pass test data by name, as `test_logits=`.")
    floor = options.setdefault("floor", "auto")
    fitted = _data(*validation, options, ("logits", "labels"))
    used = cast("float | None", fitted.floor if is_auto(floor) else floor)
    if test[0] is None:
        for name, value in zip(_OF_TEST_DATA, (*test, *test_options.values()), strict=True):
            if value is not None:
                raise InputError(name, "be left out where there is no `test_logits`")
        return fitted, None, used
    others = options.copy()
    if options.get("clusters") is False and test_options.get("clusters") is None:
        test_options = {**test_options, "clusters": False}
    others.update({**test_options, "counts": fitted.counts, "floor": None if is_auto(floor) else used})  # type: ignore[typeddict-item]
    measured = _data(*test, others, ("test_logits", "test_labels"))
    if measured.n_classes != fitted.n_classes:
        raise InputError("test_logits", f"have {fitted.n_classes} classes, as `logits` has", got=measured.n_classes)
    counts = [None if data.members is None else data.members.size for data in (fitted, measured)]
    if counts[0] != counts[1]:
        raise InputError("test_logits", f"have {counts[0] or 'no'} members, as `logits` has", got=counts[1] or "none")
    columns = [data.column_names or column_names(logits) for logits, data in ((validation[0], fitted), (test[0], measured))]
    refuse_other_order(*columns)
    if used is not None and is_auto(floor) and measured.floor is None:
        measured = raise_to_floor(measured, used, "test_logits")
    return fitted, measured, used


def _data(logits: Any, labels: Any, options: RowOptions, names: tuple[str, str]) -> Rows:
    """Logits and labels as rows. `Rows` know what their numbers mean, and are told nothing but that a floor is to be chosen."""
    if is_rows(logits):  # what they bring themselves is refused where it is said again
        parts = ("sample_weight", "clusters", "groups", "counts")
        own = {name: value for name, value in options.items() if name in parts}
        options = cast("RowOptions", own | {"floor": "auto" if is_auto(options.get("floor", "auto")) else None})
    remedy = "" if names[0] == "logits" else _ONE_KIND
    return open_rows(logits, labels, names=names, probability_remedy=remedy, choose_floor=choose_floor, **options)


def _compared(
    name: str, fitted: Calibrator, map_: Map, measured: MeasuredMaps, metrics: tuple[Metric, ...], level: float
) -> Compared:
    """What a comparison knows about one fitted method."""
    gaps = {by: own[name] for by, own in measured.gaps.items()}
    error = getattr(fitted, "temperature_se_", None)
    return Compared(
        method=name,
        temperature=fitted.temperature_,
        temperature_se=error,
        interval=fitted.confidence_interval(level) if error and hasattr(fitted, "confidence_interval") else None,
        scorecard=measured.cards[name],
        differences=measured.differences(next(iter(measured.cards)), name),
        by_class=gaps.get("prediction"),
        by_group=gaps.get("groups"),
        changed_predictions=measured.changed.get(name, 0.0),  # else only temperatures are measured
        metrics=metrics,
        map=map_,
    )


def _about_zeros(counted: Census, card: Scorecard | None, *, of_temperatures: bool) -> str:
    """Say that true classes of probability zero decide results, or nothing; ``card`` is for the test data."""
    numbers = {"validation samples": (counted.n_at_zeros, counted.n_rows)}
    if card is not None:
        numbers["test samples"] = (card.n_at_zeros, card.n_samples)
    counts = [f"{zeros} of {n} {name}" for name, (zeros, n) in numbers.items() if zeros]
    if not counts:
        return ""
    fitted, measured = counted.n_at_zeros > 0 and of_temperatures, card is None or card.n_at_zeros > 0
    what = " and ".join(["the T of ts and adaptive"] * fitted + ["every NLL"] * measured)
    return verdict_on_zeros(enumeration(counts), what, fits=True)


def _tests(data: Rows, matched: Match | None) -> dict[str, CalibrationTest]:
    """Answers to the usual questions, as far as the data allow: tests without the data that they need are left out."""
    tests: dict[str, CalibrationTest] = {}
    with suppress(NishimoriError):
        tests["score_test"] = calibration_test(without_chosen_floor(data), statistic="confidence")
    if matched is not None:
        with suppress(NishimoriError):
            tests["temperature_test"] = temperatures_test(data, matched)
    return tests
