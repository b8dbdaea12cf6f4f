"""`gate`: bounds that a model must keep, and whether the data prove that it keeps them or breaks them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, get_args

from nishimori._annotations import Outcome, State, junit, workflow_command
from nishimori._applied import Said, applied, chosen
from nishimori._checks import TITLES, Check, Verdict, check_of_card, check_of_groups, checked_bounds, told
from nishimori._group_gaps import gaps_after, names_of_groups
from nishimori._group_sums import By
from nishimori._labels import Classes
from nishimori._maps import Map
from nishimori._numbers import between
from nishimori._reliability import Strategy
from nishimori._scorecard import scorecards
from nishimori._scores import Input
from nishimori._sketch import Sketch
from nishimori._sources import Source
from nishimori._tabular import Tabular
from nishimori.errors import InputError

_SUITE = "nishimori gate"


@dataclass(frozen=True)
class Gate:
    """The checks of a model, and whether it may pass. ``print`` shows one line per check.

    Attributes
    ----------
    checks : tuple of Check
        One for each bound.
    n_samples : int
        How many samples had a positive weight.
    level : float
        That of the limits of each check.
    strict : bool
        Whether a check that is not proven fails.
    verdict : {"passed", "not proven", "broken"}
        The worst of the verdicts of all checks.
    passed : bool
        Whether no check fails: none is broken and, if strict, each is proven.
    failed : tuple of Check
        Those that fail.
    """

    checks: tuple[Check, ...]
    n_samples: int
    level: float
    strict: bool = False

    @property
    def verdict(self) -> Verdict:
        return max((each.verdict for each in self.checks), key=get_args(Verdict).index)

    @property
    def failed(self) -> tuple[Check, ...]:
        return tuple(each for each in self.checks if each.verdict in (("broken", "not proven") if self.strict else ("broken",)))

    @property
    def passed(self) -> bool:
        return not self.failed

    def __getitem__(self, name: str) -> Check:
        for each in self.checks:
            if each.name == name:
                return each
        raise InputError(f"The check must be one of {', '.join(repr(each.name) for each in self.checks)}, got {name!r}.")

    def __str__(self) -> str:
        return "\n".join(map(str, self.checks))

    @property
    def table(self) -> Tabular:
        """The checks as a table."""
        return Tabular(
            ("check", "verdict", "what was found"), [(each.title, each.verdict, each.message) for each in self.checks]
        )

    def to_markdown(self) -> str:
        """The same as Markdown, such as for the summary of a job."""
        return self.table.markdown()

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers, texts, lists and dictionaries."""
        about = {"passed": self.passed, "verdict": self.verdict, "level": self.level, "strict": self.strict}
        return about | {"n_samples": self.n_samples, "checks": told(self.checks)}

    def to_json(self) -> str:
        """The same as one line of JSON."""
        return json.dumps(self.to_dict(), allow_nan=False)

    def to_junit(self) -> str:
        """A JUnit file, which Jenkins, GitLab, Azure and others show as tests; a check that is not proven is a skipped test."""
        return junit(_SUITE, self._outcomes)

    def to_github(self) -> str:
        """A workflow command of GitHub Actions per check: an error, a warning or a notice on the page of the run."""
        return "\n".join(map(workflow_command, self._outcomes))

    @property
    def _outcomes(self) -> list[Outcome]:
        return [Outcome(each.title, self._state(each), each.verdict, each.message) for each in self.checks]

    def _state(self, check: Check) -> State:
        if check.verdict == "passed":
            return "passed"
        return "failed" if check in self.failed else "doubtful"

    def _repr_html_(self) -> str:
        return f"<p>{escape(self.verdict)}, {self.n_samples} samples</p>{self.table.html()}"


def gate(
    logits: Any,
    labels: Any = None,
    *,
    max_ece: float | None = None,
    max_gap: float | None = None,
    max_error: float | None = None,
    max_brier: float | None = None,
    max_nll: float | None = None,
    max_group_gap: float | None = None,
    level: float = 0.95,
    strict: bool = False,
    temperature: float | None = None,
    calibrator: Any = None,
    by: By | None = None,
    groups: Any = None,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    sample_weight: Any = None,
    clusters: Any = None,
    counts: bool = False,
    input: Input | None = None,
    classes: Classes = None,
    floor: float | None = None,
    ignore_index: int | None = None,
) -> Gate:
    """Whether a model keeps its bounds, breaks them, or the data do not tell.

    Parameters
    ----------
    logits, labels, temperature, calibrator, n_bins, strategy, sample_weight, clusters, counts
        As for `evaluate`, and so are ``input``, ``classes``, ``floor`` and ``ignore_index``.
    max_ece, max_gap, max_error, max_brier, max_nll : float, optional
        Bounds on the ECE, on the size of mean confidence minus accuracy, and on error, Brier score and NLL.
    max_group_gap : float, optional
        A bound on the size of confidence minus accuracy of each group, or of each predicted class.
    level : float
        If a model keeps a bound, the check is broken in at most a share 1 - ``level`` of data sets. From 0.5 to below 1.
    strict : bool
        Whether a check that is neither proven nor broken fails.
    by, groups
        As for `group_gaps`; by default groups where those are given, else predicted classes.

    Returns
    -------
    Gate
        With `checks`, `verdict` and `passed`; print it for one line per check.

    Examples
    --------
    >>> import nishimori
    >>> test = nishimori.data.load("cifar10/resnet20").test
    >>> print(nishimori.gate(test.logits, test.labels, max_gap=0.02, max_error=0.2))
    broken: gap exceeds 2 %: 6.87 % (confidence is above accuracy), and above 6.34 % at the level of 95 %
    passed: error is at most 20 %: 16.29 %, and below 16.91 % at the level of 95 %
    """
    bounds = {"ece": max_ece, "gap": max_gap, "error": max_error, "brier": max_brier, "nll": max_nll}
    wanted = Wanted(bounds | {"group_gap": max_group_gap}, level, strict, n_bins, strategy, counts)
    given = Given(logits, labels, sample_weight, clusters, groups, Said(input, classes, floor, ignore_index))
    return gate_of(given, wanted, calibrator, temperature, by)


@dataclass(frozen=True)
class Wanted:
    """What to check, and how; it is checked itself, before any data are read."""

    bounds: Mapping[str, float | None]
    level: float
    strict: bool = False
    n_bins: int = 15
    strategy: Strategy = "uniform"
    counts: bool = False

    def __post_init__(self) -> None:
        if between("level", self.level, 0.5, 1) == 1:
            raise InputError("`level` must be below 1, got 1: no data prove anything at that level. Pass 0.99, say.")
        checked_bounds(dict(self.bounds))


@dataclass(frozen=True, eq=False)
class Given:
    """The data as the user passed them."""

    logits: Any
    labels: Any
    sample_weight: Any
    clusters: Any
    groups: Any
    meaning: Said


def gate_of(given: Given, wanted: Wanted, calibrator: Any, temperature: float | None, by: By | None) -> Gate:
    """The checks of data that are still to be checked themselves."""
    used = chosen(temperature, calibrator)
    rows = (given.logits, given.labels, given.sample_weight, given.clusters)
    data, (map_,) = applied({"calibrator": used}, *rows, given.meaning, given.groups)
    classes = getattr(used, "classes", None) if given.meaning.classes is None else given.meaning.classes
    return judged(data, map_, wanted, by or ("prediction" if given.groups is None else "groups"), classes)


def judged(data: Source | Sketch, map_: Map, wanted: Wanted, by: By, classes: Classes = None) -> Gate:
    """The checks of a source after a map: one reading for all samples, and one more for groups."""
    bounds, level = checked_bounds(dict(wanted.bounds)), wanted.level
    if by not in get_args(By):
        raise InputError(f"`by` must be 'prediction' or 'groups', got {by!r}.")
    if isinstance(data, Sketch) and "group_gap" in bounds:
        raise InputError("`max_group_gap` must be left out for a sketch, which has no sums per group. Pass logits and labels.")
    options: dict[str, Any] = {"n_bins": wanted.n_bins, "strategy": wanted.strategy, "counts": wanted.counts}
    (card,) = scorecards(data, [map_], **options)
    checks = []
    for name in (each for each in TITLES if each in bounds):
        if name != "group_gap":
            checks.append(check_of_card(name, bounds[name], card, level))
            continue
        assert not isinstance(data, Sketch), "refused above"
        names = names_of_groups(data, by, classes)
        (gaps,) = gaps_after(data, [map_], by, names, level, counts=wanted.counts)
        checks.append(check_of_groups(bounds[name], gaps, level))
    return Gate(tuple(checks), card.n_samples, level, wanted.strict)
