"""The result of a comparison of methods: numbers by method, as tables, as sentences, and as plain data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nishimori._evaluation.group_gaps import GroupGaps
from nishimori._evaluation.metrics.metric import Difference, Estimate, Metric
from nishimori._evaluation.metrics.table import in_tables
from nishimori._evaluation.recommendation import Recommendation
from nishimori._evaluation.scorecard import Scorecard
from nishimori._support.display import Display, NamedEntries, plural, short_repr
from nishimori._support.formatting import percent, percent_with_error, two_decimals, value_with_error
from nishimori._support.intervals import Interval
from nishimori._support.json import to_plain
from nishimori._support.tables import Tabular
from nishimori.maps.map import Map


@dataclass(frozen=True)
class Compared:
    """One method: its temperature, and how good the model is after it.

    Attributes
    ----------
    method : str
        The name of the method.
    temperature, temperature_se : float or None
        T and its standard error; None for a method that does more than divide logits by a temperature, and where there is none.
    interval : Interval or None
        The confidence interval of T.
    scorecard : Scorecard or None
        Every metric after calibration; None where the method could not be fitted.
    differences : dict of str to Difference
        Paired differences from the first method of the comparison, by metric: negative where this method is lower.
    why : str or None
        Why the method could not be fitted.
    by_class, by_group : GroupGaps or None
        Confidence minus accuracy of each predicted class, and of each group that was named; None where the method could not be
        fitted, from a sketch, and where no groups were named.
    changed_predictions : float or None
        The weighted share of samples for which another class is predicted than without calibration; None where the method could
        not be fitted.
    metrics : tuple of Metric
        What was measured.
    map : Map or None
        What the fitted method does to logits; None where it could not be fitted.
    """

    method: str
    temperature: float | None = None
    temperature_se: float | None = None
    interval: Interval | None = None
    scorecard: Scorecard | None = None
    differences: Mapping[str, Difference] = field(default_factory=dict)
    why: str | None = None
    by_class: GroupGaps | None = None
    by_group: GroupGaps | None = None
    changed_predictions: float | None = None
    metrics: tuple[Metric, ...] = ()
    map: Map | None = None

    @property
    def card(self) -> Scorecard:
        """Every metric after calibration; only fitted methods have it."""
        assert self.scorecard is not None, "which every fitted method has"
        return self.scorecard

    @property
    def is_as_is(self) -> bool:
        """Whether the method leaves the model as it is, whatever its name."""
        return self.temperature == 1 and self.temperature_se is None

    def numbers(self, level: float) -> dict[str, Any]:
        """Everything in one flat dictionary; unknown values are None."""
        low, high = (None, None) if self.interval is None else self.interval
        numbers: dict[str, Any] = {"method": self.method, "temperature": self.temperature}
        numbers |= {"temperature_se": self.temperature_se, "temperature_low": low, "temperature_high": high}
        for name in (metric.label for metric in in_tables(self.metrics)):
            names = (name, f"{name}_se", f"{name}_low", f"{name}_high")
            if self.scorecard is None:
                numbers |= dict.fromkeys(names)
                continue
            estimate = self.scorecard[name]
            ends = (None, None) if estimate.se is None else estimate.interval(level)
            numbers |= zip(names, (estimate.value, estimate.se, *ends), strict=True)
        numbers |= _gap_numbers("class_gap", self.by_class)
        numbers |= {} if self.by_group is None else _gap_numbers("group_gap", self.by_group)
        numbers["changed_predictions"] = self.changed_predictions
        for name, its in self.differences.items():
            numbers |= {f"{name}_difference": its.value, f"{name}_difference_se": its.se, f"{name}_difference_p": its.p_value}
        return numbers | {"why": self.why}


def _gap_numbers(name: str, gaps: GroupGaps | None) -> dict[str, float | None]:
    """The mean absolute gap of classes or groups with its error and interval; None if there are no gaps."""
    names = [f"{name}{end}" for end in ("", "_se", "_low", "_high", "_corrected")]
    if gaps is None:
        return dict.fromkeys(names)
    numbers = (gaps.mean_abs_gap, gaps.mean_abs_gap_se, *gaps.interval(), gaps.mean_abs_gap_corrected)
    return dict(zip(names, numbers, strict=True))


@dataclass(frozen=True, repr=False)
class Comparison(NamedEntries[Compared]):
    """Several methods on the same data. ``print`` shows tables and the verdicts.

    Attributes
    ----------
    methods : tuple of Compared
        In the order in which they were asked for; ``comparison["ec"]`` is the one of that name.
    n_validation, n_test : int
        How many samples the methods were fitted to, and measured on.
    is_test : bool
        Whether the methods were measured on other data than those that they were fitted to.
    level : float
        The level of all intervals.
    verdicts : tuple of str
        What the numbers say, one sentence each.
    tests : dict
        What is behind the verdicts, as far as the data could give it: the `CalibrationTest` "score_test" asks whether T = 1 is
        rejected, by the statistic "confidence", and "temperature_test" whether EC and TS choose the same temperature.
    floor : float or None
        The floor of probabilities that was used: the one that was passed, or that ``floor="auto"`` chose.
    caveat : str
        What has to be known before the numbers are read: that zeros at true classes decide some of them. It comes before all
        verdicts about the numbers; empty if there is nothing.
    flatters : bool
        Whether methods were measured on the data that they were fitted to, which is then the first of the verdicts.
    same_rows : str
        Which data are the same rows although they were passed as different ones, or which calibrator was fitted to the rows
        that it is measured on. It is then the first of the verdicts, and a warning; empty otherwise.
    recommendation : Recommendation
        Which method to use, and what it changes: what the first verdicts say in words.
    left_out : dict of str to str
        Which of the usual methods were not compared, where the user named none, and why.
    """

    methods: tuple[Compared, ...]
    n_validation: int
    n_test: int
    is_test: bool
    level: float
    verdicts: tuple[str, ...]
    tests: Mapping[str, Any]
    recommendation: Recommendation
    floor: float | None = None
    caveat: str = ""
    flatters: bool = False
    same_rows: str = ""
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def _entries(self) -> list[tuple[str, Compared]]:
        return [(row.method, row) for row in self.methods]

    def _record(self, row: Compared) -> dict[str, Any]:
        return row.numbers(self.level)

    @property
    def predictions_differ(self) -> bool:
        """Whether some method predicts other classes than the first one."""
        errors = [row.differences["error"] for row in self.methods if row.differences]
        return any(difference.value != 0 or difference.se not in (None, 0) for difference in errors)

    @property
    def about_classes(self) -> str:
        """The worst predicted class after each recommended method, as a sentence; empty if it is not known."""
        remedy = "The methods group, bias and vector correct single classes."
        return self._about_gaps("Predicted classes", "class", "by_class", remedy)

    @property
    def about_groups(self) -> str:
        """The worst named group after each recommended method, as a sentence; empty if no groups were named."""
        return self._about_gaps("Groups", "group", "by_group", "The method group gives each group its own temperature.")

    def _about_gaps(self, title: str, noun: str, by: str, remedy: str) -> str:
        """How many gaps are significant after each of the recommended methods, and the largest of them.

        The remedy is named where gaps are left, and no method has more than one temperature.
        """
        measured = [(self[name], getattr(self[name], by)) for name in self.recommendation.methods]
        parts = []
        for row, gaps in measured:
            if gaps is None:
                return ""
            when = "as it is" if row.is_as_is else f"after {row.method}"
            worst, number = gaps.worst_first[0], f"{len(gaps.off) or 'none'} of {len(gaps)} gap{'s' * (len(gaps) > 1)}"
            are = "are" if len(gaps.off) > 1 else "is"
            side = "above" if worst.gap >= 0 else "below"
            largest = f"{noun} {worst.name}: confidence {100 * abs(worst.gap):.1f} points {side} accuracy"
            parts.append(f"{when} {number} {are} significant (the largest, {largest})")
        left = measured and measured[-1][1].off and all(row.temperature is not None or row.why for row in self.methods)
        return f"{title}, with Holm's correction: {'; '.join(parts)}." + (f" {remedy}" if left else "") if parts else ""

    @property
    def tables(self) -> dict[str, Tabular]:
        """The display: one table per question, each for a terminal of 80 columns.

        "calibration" has T, confidence minus accuracy, and the ECE. "scores" has the losses, the metrics that were asked for,
        and the error where predictions differ, since it is equal otherwise. "classes" has the class gap, the mean of
        abs(confidence - accuracy) over the predicted classes, and how many of their gaps are significant or, of two classes,
        the metrics of the positive one. "differences" are paired ones from the first method that was fitted. A sketch has
        neither of the last two.
        """
        calibration, classes = {}, {}
        of_positive = self._metrics_about("classes")
        for row in self.methods:
            own_T = None if row.scorecard is not None and row.scorecard.of_claims else row.temperature
            temperature = "" if own_T is None else value_with_error(own_T, row.temperature_se)
            calibration[row.method] = ("-", "") if row.scorecard is None else (temperature, self._cell(row.card["gap"]))
            if (gaps := row.by_class) is not None:
                off = () if of_positive else (f"{len(gaps.off)} of {len(gaps)}",)
                classes[row.method] = (percent_with_error(gaps.mean_abs_gap, gaps.mean_abs_gap_se), *off)
        tables = {
            "calibration": self._table("calibration", ("T", "gap"), calibration),
            "scores": self._table("scores", (), {row.method: () for row in self.methods if row.scorecard is not None}),
            "classes": self._table("classes", ("class gap",) if of_positive else ("class gap", "significant"), classes),
            "differences": self._differences,
        }
        return {name: table for name, table in tables.items() if table.rows}

    def _table(self, question: str, headers: Sequence[str], cells: Mapping[str, Sequence[str]]) -> Tabular:
        """A table of metrics about one question, after the own ``cells`` of each method."""
        metrics, rows = self._metrics_about(question), []
        for name, own in cells.items():
            card = self[name].scorecard
            rows.append((name, *own, *("" if card is None else self._cell(card[metric.label]) for metric in metrics)))
        return Tabular((question, *headers, *map(self._header, metrics)), rows)

    @property
    def _differences(self) -> Tabular:
        """The differences of metrics with a direction, without the Brier score, another loss, and the positive class."""
        metrics = [metric for metric in self._metrics if metric.name != "brier" and _question(metric) != "classes"]
        rows = [
            (row.method, *(self._difference(row.differences[metric.label], metric) for metric in metrics))
            for row in self.methods
            if row.differences
        ]
        names = (self._header(metric, is_difference=True) for metric in metrics)
        first = next(row.method for row in self.methods if row.scorecard is not None)
        return Tabular((f"minus {first}", *names), rows)

    def _metrics_about(self, question: str) -> list[Metric]:
        return [metric for metric in self._metrics if _question(metric) == question]

    @property
    def _metrics(self) -> list[Metric]:
        """Requested metrics, and metrics with a direction; metrics of predictions only if these differ."""
        usual = [
            metric for metric in in_tables(self.methods[0].metrics) if metric.direction is not None or not metric.by_default
        ]
        return [metric for metric in usual if self.predictions_differ or not (metric.of_predictions and metric.by_default)]

    def _header(self, metric: Metric, *, is_difference: bool = False) -> str:
        """The title of a column; the ECE has an asymmetric interval in place of a standard error."""
        unit = " in points" if is_difference and metric.in_percent else ""
        interval = f", {100 * self.level:g} %" + ("" if is_difference else " interval")
        return f"{metric.shown}{unit}{interval if _is_ece(metric) else ''}"

    def _cell(self, estimate: Estimate) -> str:
        """A metric with its error."""
        if _is_ece(estimate.metric):
            interval = "" if estimate.se is None else f" ({_in_points(estimate.interval(self.level))})"
            return f"{percent(estimate.value)}{interval}"
        return f"{estimate.text} %" if estimate.metric.is_signed else estimate.text

    def _difference(self, difference: Difference, metric: Metric) -> str:
        if difference.ece is None or difference.se is None:
            scale = 100 if metric.in_percent else 1
            return value_with_error(scale * difference.value, None if difference.se is None else scale * difference.se)
        # That of the ECE is not symmetric, and wider than its standard error says: how large each ECE is, is open.
        return f"{two_decimals(100 * difference.value)} ({_in_points(difference.interval(self.level))})"

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers, texts, lists and dictionaries; numbers that are not finite are None."""
        own = ("n_validation", "n_test", "is_test", "level", "floor")
        tests = {}
        for name, test in self.tests.items():
            others = {"gap": test.value, "statistic": test.z, "method": "ec"}
            tests[name] = {key: others[key] if key in others else getattr(test, key) for key in _TESTS_IN_FILES[name]}
        return to_plain(
            {name: getattr(self, name) for name in own}
            | {
                "methods": [self._record(row) for row in self.methods],
                "tests": tests,
                "recommendation": self.recommendation,
                "left_out": self.left_out,
                "verdicts": self.verdicts,
            }
        )

    @property
    def _display(self) -> Display:
        measured = plural(self.n_test, "test sample") if self.is_test else "the same samples"
        title = f"Fitted to {plural(self.n_validation, 'sample')}, measured on {measured}"
        return Display(title, tuple(self.tables.values()), self.verdicts)

    def __repr__(self) -> str:
        names = tuple(row.method for row in self.methods)
        return short_repr(self, methods=names, n_validation=self.n_validation, n_test=self.n_test, is_test=self.is_test)


def _question(metric: Metric) -> str:
    """The table of a metric: calibration on average, calibration of single classes, or quality of the scores."""
    if not metric.by_default:
        return "scores"
    return "classes" if metric.n_classes is not None else "calibration" if metric.of_bins is not None else "scores"


def _is_ece(metric: Metric) -> bool:
    """Whether the metric is computed from bins, so that its interval is asymmetric."""
    return metric.of_bins is not None and not metric.is_signed


def _in_points(interval: Interval) -> str:
    return " to ".join(two_decimals(100 * end) for end in interval)


_TESTS_IN_FILES = {
    "score_test": ("temperature", "method", "gap", "se", "se_from", "statistic", "p_value", "n_samples"),
    "temperature_test": ("ec", "ts", "log_ratio", "se", "statistic", "p_value", "j", "n_samples"),
}
"""The keys for tests in JSON and reports: "gap" is the value, "statistic" a number, and "method" the condition."""
