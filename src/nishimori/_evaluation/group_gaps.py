"""Find miscalibrated groups: confidence minus accuracy of each predicted class, or of each named group."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Unpack

import numpy as np

from nishimori._evaluation.calibrated import CALIBRATORS_WORD, open_calibrated
from nishimori._rows.labels import Classes, class_labels
from nishimori._rows.options import RowOptions, takes_rows
from nishimori._rows.question import question
from nishimori._rows.rows import Rows
from nishimori._sums.binned_gaps import BinnedGaps
from nishimori._sums.groups import By, Grouping, GroupTally, TallyGroups, group_names
from nishimori._support.arrays import HostArray
from nishimori._support.display import PRINTED_ROWS, Display, NamedEntries, plural, short_repr
from nishimori._support.formatting import percent, points_with_error, two_decimals
from nishimori._support.intervals import Interval, two_sided
from nishimori._support.numbers import between, one_of
from nishimori._support.tables import Tabular
from nishimori.errors import InputError
from nishimori.maps.map import Map


@dataclass(frozen=True)
class GroupGap:
    """One group: confidence, accuracy, and whether they differ significantly.

    Attributes
    ----------
    name : object
        The label of the predicted class, or the name of the group.
    n : int
        How many samples it has.
    confidence, accuracy : float
        Mean probability of the predicted class, and the share of right predictions.
    gap : float
        Confidence minus accuracy.
    se : float
        The standard error of the gap: what the samples show, but not less than what a calibrated model would have.
    p_value : float
        How probable a gap of at least this size is in a group that is calibrated, adjusted for the number of groups after Holm.
    is_off : bool
        Whether the gap is significant: in at most 5 % of data sets (or 1 - ``level``), any group is marked wrongly.
    """

    name: Any
    n: int
    confidence: float
    accuracy: float
    gap: float
    se: float
    p_value: float
    is_off: bool


@dataclass(frozen=True, repr=False)
class GroupGaps(NamedEntries[GroupGap]):
    """The gaps of all groups that have samples. ``print`` shows them as a table, the worst first.

    Attributes
    ----------
    by : {"prediction", "groups"}
        What makes a group.
    groups : tuple of GroupGap
        In the order of classes or names; ``found[name]`` is the one of that name.
    level : float
        The level of `interval`, and of the marks.
    mean_abs_gap : float
        The mean of abs(gap) over groups, each counting the same. It is not zero for a calibrated model, because every gap has
        an error.
    mean_abs_gap_se : float
        Its standard error.
    mean_abs_gap_corrected : float
        The same without the bias of these errors, at least 0.
    """

    by: By
    groups: tuple[GroupGap, ...]
    level: float
    gaps: BinnedGaps

    @property
    def mean_abs_gap(self) -> float:
        return self.gaps.value

    @property
    def mean_abs_gap_se(self) -> float:
        return self.gaps.se

    @property
    def mean_abs_gap_corrected(self) -> float:
        return self.gaps.corrected

    def interval(self) -> Interval:
        """The range of the true mean of abs(gap) that the data leave possible, as a named tuple (low, high)."""
        return self.gaps.interval(self.level)

    @cached_property
    def worst_first(self) -> tuple[GroupGap, ...]:
        """The groups whose gap is significant first, and larger gaps before smaller ones."""
        return tuple(sorted(self, key=lambda group: (not group.is_off, -abs(group.gap))))

    @property
    def _entries(self) -> list[tuple[Any, GroupGap]]:
        return [(group.name, group) for group in self.groups]

    @property
    def table(self) -> Tabular:
        """All groups as text."""
        headers = ("n", "confidence", "accuracy", "gap in points", "significant")
        return Tabular(("class" if self.by == "prediction" else "group", *headers), [_row(group) for group in self.worst_first])

    @property
    def off(self) -> tuple[Any, ...]:
        """The names of the groups whose gap is significant, the worst first."""
        return tuple(group.name for group in self.worst_first if group.is_off)

    def __repr__(self) -> str:
        return short_repr(self, by=self.by, n_groups=len(self), mean_abs_gap=self.mean_abs_gap, n_significant=len(self.off))

    @property
    def _display(self) -> Display:
        what = "predicted class" if self.by == "prediction" else "group"
        title = f"Gap of each {what}: confidence minus accuracy"
        return Display(title, (self.table,), (self.summary,), n_printed=PRINTED_ROWS)

    @property
    def summary(self) -> str:
        """The mean absolute gap and how many gaps are significant, in words."""
        mean, corrected, low, high = (
            two_decimals(100 * number) for number in (self.mean_abs_gap, self.mean_abs_gap_corrected, *self.interval())
        )
        number = f"{len(self.off) or 'None'} of {plural(len(self), 'gap')} {'are' if len(self.off) > 1 else 'is'} significant"
        level = f"{100 * self.level:g} %"
        return (
            f"{number} (level {level}, Holm's correction). Mean absolute gap {mean} points; bias-corrected {corrected} "
            f"({level} interval {low} to {high})."
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers, texts, lists and dictionaries."""
        own = ("by", "level", "mean_abs_gap", "mean_abs_gap_se", "mean_abs_gap_corrected")
        interval = dict(zip(("mean_abs_gap_low", "mean_abs_gap_high"), self.interval(), strict=True))
        groups = [self._record(group) for group in self.groups]
        return {name: getattr(self, name) for name in own} | interval | {"groups": groups}


def _row(group: GroupGap) -> tuple[str, ...]:
    shares = (percent(share, 1) for share in (group.confidence, group.accuracy))
    return (str(group.name), f"{group.n:,}", *shares, points_with_error(group.gap, group.se), "yes" if group.is_off else "")


@takes_rows(words=CALIBRATORS_WORD)
def group_gaps(
    logits: Any,
    labels: Any = None,
    *,
    by: By = "prediction",
    temperature: float | None = None,
    calibrator: Any = None,
    level: float = 0.95,
    **options: Unpack[RowOptions],
) -> GroupGaps:
    """Confidence minus accuracy of each group of samples, with standard errors and significance.

    Parameters
    ----------
    logits : array, path, batches or `Rows`
        Scores before the softmax, of shape (n_samples, n_classes): an array of NumPy, PyTorch, JAX, CuPy or Dask. A flat array
        z means the binary logits (0, z); with more dimensions, such as (sequences, tokens, vocabulary), each position before
        the classes is a sample. Or the path of a file, a loader of batches ``(logits, labels)``, or what `rows` returns.
    labels : array of shape (n_samples,), or as ``logits`` before the classes
        The true class of each sample: its column, or one of ``classes``. For a file, the name of its array or column. Left out
        where ``logits`` brings them.
    by : {"prediction", "groups"}
        What makes a group: the class that is predicted for a sample, or what ``groups`` says. Of claims always the latter.
    temperature : float, optional
        Divide the logits by this first; 1 by default.
    calibrator : calibrator, optional
        A fitted calibrator to apply first, instead of a temperature.
    level : float
        At most a share 1 - ``level`` of data sets of a calibrated model has a significant gap.
    **options
        What is said about the data, see `rows`: ``sample_weight``, ``counts``, ``clusters``, ``groups``, ``input``,
        ``classes``, ``floor``, ``ignore_index``, ``shift_labels``, ``class_axis``, ``member_axis``.

    Returns
    -------
    GroupGaps
        With a `GroupGap` for each group that has samples. Print it, or see its methods ``to_dict``, ``to_markdown``, ...

    Examples
    --------
    >>> import nishimori
    >>> network = nishimori.data.load("cifar10/resnet20")
    >>> val, test = network.validation, network.test
    >>> single, grouped = (nishimori.calibrator(name).fit(val.logits, val.labels) for name in ("ec", "group"))
    >>> before = nishimori.group_gaps(test.logits, test.labels, calibrator=single)
    >>> after = nishimori.group_gaps(test.logits, test.labels, calibrator=grouped)
    >>> print(f"{100 * before.mean_abs_gap:.1f} points, now {100 * after.mean_abs_gap:.1f}")
    8.4 points, now 0.8
    """
    one_of("by", by, By)
    between("level", level, 0, 1)
    data, map_ = open_calibrated(logits, labels, options, temperature=temperature, calibrator=calibrator)
    if by == "prediction" and options.get("groups") is not None and not map_.needs_groups:
        must = "be left out with by='prediction', unless the calibrator has a temperature for each group"
        raise InputError("groups", must, got="some", remedy="Pass by='groups' to measure each of them.")
    if data.is_claims and by == "prediction":
        by = "groups"  # nothing is predicted
        if data.groups is None:
            raise InputError(
                "groups", "name the group of each claim", got="None", remedy="Pass `nishimori.claims(..., groups=...)`."
            )
    classes = options.get("classes")
    names = names_of_groups(data, by, getattr(calibrator, "classes", None) if classes is None else classes)
    return gaps_after(data, [map_], by, names, level)[0]


@question("has no sums per group")
def gaps_after(data: Rows, maps: Sequence[Map], by: By, names: Sequence[Any], level: float) -> list[GroupGaps]:
    """The gaps of the groups of rows after each of several maps, all from one pass."""
    tally = tally_of(data, by, names)
    return [gaps_in(by, names, sums, level) for sums in data.gather(replace(tally, maps=tuple(maps))).items]


def tally_of(data: Rows, by: By, names: Sequence[Any]) -> TallyGroups:
    """The pass that sums over the groups of rows."""
    return TallyGroups(Grouping(by, len(names)), data.counts, data.has_clusters)


def names_of_groups(data: Rows, by: By, classes: Classes) -> list[Any]:
    """The label of each class, or the name of each group."""
    if by == "prediction":
        if data.is_claims:
            raise InputError(
                "by", "be 'groups' for claims, in which nothing is predicted", remedy="Name the group of each claim."
            )
        return class_labels(classes, data.n_classes).tolist()
    return list(group_names(data))


def gaps_in(by: By, names: Sequence[Any], sums: GroupTally, level: float) -> GroupGaps:
    """The gaps of the groups that have rows, from their sums."""
    (places,) = np.nonzero(sums.n_rows)
    sums = sums.at_groups(places)
    weight, confidence, right, differences = sums.totals
    gaps = differences / weight
    variances = np.maximum(sums.variances(gaps), sums.nulls)
    errors = np.sqrt(variances)
    p_values = holm([1.0 if error == 0 else two_sided(gap / error) for gap, error in zip(gaps, errors, strict=True)])
    numbers = (confidence / weight, right / weight, gaps, errors, p_values)
    columns = zip(places.tolist(), sums.n_rows.tolist(), *(column.tolist() for column in numbers), strict=True)
    groups = tuple(
        GroupGap(names[place], n, min(c, 1.0), min(a, 1.0), gap, error, p, p < 1 - level)  # which rounding may exceed
        for place, n, c, a, gap, error, p in columns
    )
    share = 1 / len(places)
    terms = BinnedGaps(gaps * share, variances * share**2, np.zeros_like(gaps), 0.0, sums.nulls * share**2)
    return GroupGaps(by, groups, level, terms)


def holm(p_values: list[float]) -> HostArray:
    """Adjusted p-values: rejecting those below α rejects any true hypothesis in at most a share α of cases.

    S. Holm, Scand. J. Stat. 6 (1979) 65.
    """
    raw = np.array(p_values)
    order = np.argsort(raw)
    adjusted = np.empty_like(raw)
    adjusted[order] = np.minimum(np.maximum.accumulate(raw[order] * np.arange(len(raw), 0, -1)), 1.0)
    return adjusted
