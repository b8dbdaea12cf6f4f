"""Compare the metrics of two data sets, such as yesterday's and today's: which ones differ significantly.

The samples of both are taken to be independent, so a difference has the variance of both values together. What two methods do
to the same samples is another question, which `compare` answers.

The ECE is not normal where it is small, and its standard error is then too small: with it, a test at the level of 5 % rejects
23 % of pairs of calibrated models (n = 600). So the error of its difference is made of the intervals of both ECEs, which hold
there, on the sides that face each other: G. Y. Zou and A. Donner, Statistics in Medicine 27 (2008) 1693.

A small data set without errors has an accuracy of 100 % ± 0, and an NLL whose error is too small as well. So means are tested
as two proportions are: with the variance of all samples together, as it is if both data sets are equal, where it is larger.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import hypot, isfinite, sqrt
from typing import Any, NamedTuple

from nishimori._evaluation.group_gaps import holm
from nishimori._evaluation.metrics.metric import Difference
from nishimori._evaluation.scorecard import Scorecard
from nishimori._rows.question import question
from nishimori._support.display import Display, NamedEntries, plural, short_repr
from nishimori._support.formatting import p_value_text, value_with_error
from nishimori._support.intervals import normal_quantile
from nishimori._support.numbers import between
from nishimori._support.tables import Tabular
from nishimori._support.warnings import notice
from nishimori.errors import InputError, SameRowsWarning

# In the order in which they are shown. Few of them, because each one more makes it harder for all to be significant.
_TITLES = {
    "temperature": "T",
    "accuracy": "accuracy",
    "gap": "gap",
    "ece": "bias-corrected ECE",
    "nll": "NLL",
    "positive_gap": "positive gap",
    "positive_ece": "bias-corrected positive ECE",
}
# Neither T nor the accuracy is another one after calibration.
_AFTER = [name for name in _TITLES if name not in ("temperature", "accuracy")]
_TITLES |= {f"{name}_after": f"{_TITLES[name]} after calibration" for name in _AFTER}

# What is no share, and not shown in percent.
_NO_SHARES = ("temperature", "nll", "nll_after")

# Means over samples.
_MEANS = ("accuracy", "gap", "nll", "positive_gap")

_SAME_TITLES = (
    "`old` and `new` are about the same rows, but samples must be independent: these p-values are not valid. To compare "
    "methods on the same samples use compare."
)
# Calibration errors, whose intervals are not symmetric.
_ECES = ("ece", "positive_ece")

# The level of intervals that say none.
_LEVEL = 0.95

# Whose T is compared, the first that both sides have; then those of methods that only files of calibrations name.
_METHODS = ("adaptive", "ec", "ts")


class _Value(NamedTuple):
    """A number, its standard error, and the errors below and above it if they differ; None if not known."""

    value: float
    se: float | None
    below: float | None
    above: float | None


@dataclass(frozen=True)
class MetricChange:
    """A metric on two data sets, and whether it differs significantly.

    Attributes
    ----------
    name : str
        Which metric: "temperature", "accuracy", "gap", "ece" (bias-corrected) or "nll"; "gap_after" and so on after
        calibration.
    old, new : float
        The metric of each.
    old_se, new_se : float or None
        Their standard errors; None where they are not known.
    difference : float
        New minus old.
    se : float or None
        The standard error of the difference. That of the ECE follows from the intervals of both, and may be larger than their
        standard errors say.
    p_value : float or None
        How probable a difference of at least this size is if there is none, adjusted for the number of metrics after Holm;
        None where a standard error is not known.
    is_different : bool
        Whether the difference is significant.
    """

    name: str
    old: float
    old_se: float | None
    new: float
    new_se: float | None
    difference: float
    se: float | None
    p_value: float | None
    is_different: bool

    @property
    def title(self) -> str:
        """The metric's title in tables."""
        return _TITLES[self.name]


@dataclass(frozen=True, repr=False)
class MetricChanges(NamedEntries[MetricChange]):
    """The metrics of two data sets. ``print`` shows a table and a summary.

    Attributes
    ----------
    changes : tuple of MetricChange
        The metrics that both have; ``found["gap"]`` is the one of that name.
    level : float
        At most a share 1 - ``level`` of pairs of equal data sets has any metric that is marked as different.
    n_old, n_new : int or None
        How many samples each has.
    caveat : str
        That both are about the same rows, so that p-values mean nothing; empty if that is not known. ``print`` says it first.
    """

    changes: tuple[MetricChange, ...]
    level: float
    n_old: int | None
    n_new: int | None
    caveat: str = ""

    @property
    def _entries(self) -> list[tuple[str, MetricChange]]:
        return [(change.name, change) for change in self.changes]

    @property
    def different(self) -> tuple[str, ...]:
        """The names of the metrics that differ significantly."""
        return tuple(change.name for change in self.changes if change.is_different)

    @property
    def table(self) -> Tabular:
        """All metrics as text: shares in percent, and their differences in percentage points."""
        return Tabular(("", "old", "new", "new − old", "p", ""), [_cells(change) for change in self.changes])

    @property
    def summary(self) -> str:
        """How many metrics differ significantly, as a sentence."""
        tested = [change for change in self.changes if change.p_value is not None]
        alpha = f"{100 * (1 - self.level):.3g} %"
        if not tested:
            return "No metric has a standard error in both data sets, so no difference can be judged."
        if not self.different:
            if len(tested) == 1:
                return f"{tested[0].title} does not differ significantly (level {alpha})."
            return f"None of {len(tested)} metrics differs significantly (level {alpha}, Holm's correction)."
        names = ", ".join(change.title for change in self.changes if change.is_different)
        differ = "differs" if len(self.different) == 1 else "differ"
        number = f"{len(self.different)} of {len(tested)} metrics {differ} significantly"
        return f"{number} (level {alpha}, Holm's correction): {names}."

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers, texts, lists and dictionaries."""
        content = {"changes": [self._record(change) for change in self.changes], "different": list(self.different)}
        own = {name: getattr(self, name) for name in ("level", "n_old", "n_new", "summary")}
        return content | own | {"warnings": list(filter(None, [self.caveat]))}

    @property
    def _display(self) -> Display:
        sizes = ((name, n) for name, n in (("old", self.n_old), ("new", self.n_new)) if n is not None)
        title = ", ".join(f"{name}: {plural(n, 'sample')}" for name, n in sizes)
        return Display(title, (self.table,), (self.summary,), self.caveat)

    def __repr__(self) -> str:
        return short_repr(self, different=self.different, n_old=self.n_old, n_new=self.n_new)


def diff(old: Any, new: Any, *, level: float = 0.95) -> MetricChanges:
    """Find the metrics that differ significantly between two data sets, such as yesterday's and today's.

    Parameters
    ----------
    old, new : Scorecard, Sketch or mapping
        What was measured on each: what `evaluate` returns, a sketch, or what a file of JSON holds that `nishimori report`,
        `nishimori eval --json` or `nishimori fit` wrote, also what ``Report.to_dict`` and ``Scorecard.to_dict`` return.
        Their samples must be independent of each other.
    level : float
        At most a share 1 - ``level`` of pairs of equal data sets has any metric that is marked as different.

    Returns
    -------
    MetricChanges
        T, accuracy, gap, bias-corrected ECE and NLL of both, as far as both have them, and those after calibration, with
        their differences. The p-values are those of z-tests, with the variance of all samples together where that is larger
        and the metric is a mean, adjusted for the number of metrics after Holm.

    Examples
    --------
    >>> import nishimori
    >>> network = nishimori.data.load("cifar10/resnet20")
    >>> logits, labels = network.test.logits, network.test.labels
    >>> monday, tuesday = (nishimori.evaluate(logits[part], labels[part]) for part in (slice(5000), slice(5000, None)))
    >>> print(nishimori.diff(monday, tuesday).summary)
    None of 4 metrics differs significantly (level 5 %, Holm's correction).
    """
    between("level", level, 0, 1)
    first, second = (measured_in(source, name) for source, name in ((old, "old"), (new, "new")))
    if first.measured_files and first.measured_files == second.measured_files:
        remedy = "To compare methods on the same samples use compare."
        raise InputError("`old` and `new`", "be about independent samples", "two reports about the same file", remedy)
    caveat = _SAME_TITLES if first.data_digest is not None and first.data_digest == second.data_digest else ""
    if caveat:
        notice(caveat, SameRowsWarning)
    shared = [name for name in _TITLES if name in first.values and name in second.values]
    pairs = {name: (first.values[name], second.values[name]) for name in shared}
    # Methods have different temperatures for the same data.
    both = first.temperatures.keys() & second.temperatures.keys()
    method = next((method for method in (*_METHODS, *first.temperatures) if method in both), None)
    # Two reports may share their validation data, and then have the same T.
    if method is not None and not (first.fitted_files and first.fitted_files == second.fitted_files):
        pairs = {"temperature": (first.temperatures[method], second.temperatures[method]), **pairs}
    if not pairs:
        names = [", ".join(side.temperatures) for side in (first, second)]
        remedy = "Pass two files of the same kind."
        if all(names):
            remedy = f"T comes from {names[0]} in one and from {names[1]} in the other: use the same method for both."
        raise InputError("`old` and `new`", "have a metric in common", remedy=remedy)
    sizes = (first.n_samples, second.n_samples)
    differences = {
        name: _difference(*pair, sizes if name.removesuffix("_after") in _MEANS else (None, None))
        for name, pair in pairs.items()
    }
    tested = [name for name, difference in differences.items() if difference.p_value is not None]
    adjusted = dict(zip(tested, holm([differences[name].p_value or 0.0 for name in tested]).tolist(), strict=True))
    changes = []
    for name, (before, after) in pairs.items():
        difference, p = differences[name], adjusted.get(name)
        different = p is not None and p < 1 - level
        sides = (before.value, before.se, after.value, after.se)
        changes.append(MetricChange(name, *sides, difference.value, difference.se, p, different))
    return MetricChanges(tuple(changes), float(level), first.n_samples, second.n_samples, caveat)


def _difference(old: _Value, new: _Value, sizes: tuple[int | None, int | None]) -> Difference:
    """New minus old, with the error of a difference between independent numbers, on the sides that face each other.

    ``sizes`` are the numbers of samples of means.
    """
    value = new.value - old.value
    errors = (old.above, new.below) if value > 0 else (old.below, new.above)
    if errors[0] is None or errors[1] is None:
        return Difference(value, None, None)
    difference = Difference.normal(value, hypot(errors[0], errors[1]))
    n, m = sizes
    if difference.se is None or not n or not m:
        return difference
    variance = (n * (n * errors[0] ** 2) + m * (m * errors[1] ** 2)) / (n + m) + n * m * (value / (n + m)) ** 2
    error = max(difference.se, sqrt(variance * (1 / n + 1 / m)))
    return replace(difference, p_value=Difference.normal(value, error).p_value)


class Measured(NamedTuple):
    """One of the two data sets: metrics by row name, T by method, the number of samples, and the digest of the data."""

    values: dict[str, _Value]
    temperatures: dict[str, _Value]
    n_samples: int | None
    measured_files: frozenset[str] = frozenset()
    fitted_files: frozenset[str] = frozenset()
    data_digest: str | None = None


@question("has no metrics to compare")
def measured_in(source: Any, name: str) -> Measured:
    """The content of a scorecard, or of a command's JSON; ``name`` is the name of the argument."""
    if isinstance(source, Scorecard):
        return Measured(values_of_card(source), {}, source.n_samples, data_digest=source.data_digest)
    if isinstance(source, Mapping):
        for kind in (_of_report, _of_evaluation, _of_calibration, _of_card):
            try:
                measured = kind(source)
            except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
                must = "be JSON written by a command"
                raise InputError(name, must, got="JSON with missing or changed parts") from None
            if measured is not None:
                return measured
    got = f"a {type(source).__name__}" if not isinstance(source, Mapping) else "another mapping"
    raise InputError(name, "be a Scorecard, a Sketch, or the JSON of a report, of eval or of a calibration", got)


def values_of_card(card: Scorecard) -> dict[str, _Value]:
    """The metrics of a card; the limits of calibration errors are those of their intervals."""
    errors = [name for name in _ECES if name in card.estimates and card[name].se is not None]
    return _of_numbers(card.to_dict() | _ends({name: card.interval(name) for name in errors}), "")


def _ends(intervals: Mapping[str, Any]) -> dict[str, Any]:
    """The intervals of calibration errors, by the names of their ends."""
    return {
        f"{name}_{end}": (intervals.get(name) or (None, None))[place]
        for name in _ECES
        for place, end in enumerate(("low", "high"))
    }


def _of_report(content: Mapping[str, Any]) -> Measured | None:
    """From a report: the uncalibrated model, and the model after the recommended method."""
    if not {"methods", "slider", "verdict", "data"} <= set(content):
        return None
    rows = {row["method"]: row for row in content["methods"]}
    verdict, about = content["verdict"], content["data"]
    level = content["level"]
    values = _of_numbers({**rows["none"], "gap": verdict.get("gap"), "gap_se": verdict.get("gap_se")}, "", level)
    values |= _of_numbers(rows.get(content["recommended"], {}), "_after", level)
    fitted = {row["method"]: (row["temperature"], row["temperature_se"]) for row in content["temperatures"]}
    files = content.get("provenance", {}).get("files", [])
    roles = (about["measured_on"], "validation")
    hashes = [frozenset(file["sha256"] for file in files if file["role"] == role) for role in roles]
    return Measured(values, values_with_errors(fitted), about["n_measured"], hashes[0], hashes[1], about.get("data_digest"))


def _of_evaluation(content: Mapping[str, Any]) -> Measured | None:
    """From the output of ``nishimori eval --json``: T belongs to the calibration, not to these data."""
    before, after = content.get("before"), content.get("after") or {}
    if not (isinstance(before, Mapping) and isinstance(after, Mapping) and "n_samples" in content):
        return None
    values: dict[str, _Value] = {}
    for side, end in ((before, ""), (after, "_after")):
        values |= _of_numbers({**side, **_ends(side.get("intervals") or {})}, end, content.get("level", _LEVEL))
    return Measured(values, {}, content["n_samples"], data_digest=content.get("data_digest"))


def _of_calibration(content: Mapping[str, Any]) -> Measured | None:
    """From a file that ``fit`` writes, or from the output of ``fit --json``: the temperature only."""
    map_, provenance = content.get("map"), content.get("provenance", content)
    if not (isinstance(map_, Mapping) and isinstance(provenance, Mapping) and isinstance(provenance.get("method"), str)):
        return None
    T = map_.get("parameters", {}).get("temperature") if map_.get("kind") == "temperature" else None
    temperatures = values_with_errors({provenance["method"]: (T, provenance.get("temperature_se"))})
    return Measured({}, temperatures, provenance.get("n_samples"), data_digest=provenance.get("data_digest"))


def _of_card(content: Mapping[str, Any]) -> Measured | None:
    """From the dictionary that `Scorecard.to_dict` returns."""
    return Measured(_of_numbers(content, ""), {}, content.get("n_samples")) if {"accuracy", "nll"} <= set(content) else None


def _of_numbers(numbers: Mapping[str, Any], end: str, level: float = _LEVEL) -> dict[str, _Value]:
    """The metrics from a flat mapping of values and standard errors, such as nll and nll_se; ``level`` is for intervals."""
    pairs = {name: (numbers.get(name), numbers.get(f"{name}_se")) for name in _MEANS}
    if pairs["accuracy"][0] is None and numbers.get("error") is not None:
        pairs["accuracy"] = (1 - numbers["error"], numbers.get("error_se"))
    if end:
        del pairs["accuracy"]  # which one temperature does not change
    values = values_with_errors(pairs)
    z = normal_quantile(level)
    eces = {name: (numbers.get(f"{name}_corrected"), numbers.get(f"{name}_se")) for name in _ECES}
    low: Any
    high: Any
    for name, ece in values_with_errors(eces).items():
        low, high = numbers.get(f"{name}_low"), numbers.get(f"{name}_high")
        below = max(ece.value - low, 0.0) / z if _is_number(low) else None
        above = max(high - ece.value, 0.0) / z if _is_number(high) else None
        values[name] = ece._replace(below=below, above=above)
    return {f"{name}{end}": values[name] for name in _TITLES if name in values}


def values_with_errors(pairs: Mapping[str, tuple[Any, Any]]) -> dict[str, _Value]:
    """The pairs with a finite value; an error that is not finite counts as unknown."""
    errors = {name: float(error) if _is_number(error) else None for name, (_, error) in pairs.items()}
    return {name: _Value(float(value), *[errors[name]] * 3) for name, (value, _) in pairs.items() if _is_number(value)}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(float(value))


def _cells(change: MetricChange) -> tuple[str, ...]:
    scale = 1 if change.name in _NO_SHARES else 100
    unit = " %" if scale == 100 else ""
    errors = (None if error is None else scale * error for error in (change.old_se, change.new_se, change.se))
    old_se, new_se, difference_se = errors
    old, new = value_with_error(scale * change.old, old_se), value_with_error(scale * change.new, new_se)
    difference = value_with_error(scale * change.difference, difference_se, signed=True)
    verdict = "no standard error" if change.p_value is None else "different" if change.is_different else "not significant"
    p = "" if change.p_value is None else p_value_text(change.p_value)
    return (change.title, f"{old}{unit}", f"{new}{unit}", difference, p, verdict)
