"""Where a search starts: at the answers of some of the rows, or of some of those.

The answers of a sample are a few of their standard errors away from those of all rows, which is near enough for one reading, or
two, to give all digits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log

from nishimori._fit.readings import Readings
from nishimori._rows.source import Source, applied
from nishimori._sums.observables import Confidence, Observable
from nishimori._support.roots import Root, drive, increasing_root
from nishimori.errors import InputError, NishimoriError

ANYWHERE = -log(1.5)
"""The log β at which a search starts if nothing is known: at T = 1.5, because networks tend to be overconfident."""

# A search in a sample ends with a step of this length in log β: with it, the distance left is far below the standard error.
_ENOUGH = 0.02

MANY = 32
"""Rows of at least so many classes are expanded rather than read again."""

# The sample has a 16th of the rows, or a 64th if they have many classes, because their expansion reaches farther; but up to an
# eighth while these are fewer than 512. It costs about a tenth of a pass, and its answer is a few standard errors away. Fewer
# than 16 sampled rows are too few to start from, and data of fewer numbers than the last are searched without a sample.
_SAMPLE_SHARE, _SAMPLE_SHARE_MANY, _SAMPLE_SMALL_SHARE, _SAMPLE_SMALL, _SAMPLE_LEAST, _SAMPLED = 16, 64, 8, 512, 16, 2**13

# The sample is a copy, so it is kept small however large the data are: 16 MiB of float32.
_SAMPLE_ELEMENTS = 2**22

# Where one call of a kernel sums all rows, a search starts with every so many of them, as long as there are so many numbers
# that a call takes longer than to ask for it, and so many rows are left. The longest step is taken that leaves enough rows for
# an answer from which one reading of all is enough. Steps are prime, because data may be periodic, though a bad start would
# cost a reading and no digit.
_STEPS, _STEPPED, _STEPPED_ROWS, _ANSWERING_ROWS = (17, 5), 2**24, 200, 12_000


def numbers(data: Source) -> int:
    """How many logits there are; 0 if that is not known."""
    return (data.n_rows or 0) * data.n_classes


def every_so_many(data: Source) -> list[Source]:
    """Parts of data that sum at once, each with every so many rows of the next; from the smallest on."""
    parts: list[Source] = []
    while data.n_rows and numbers(data) >= _STEPPED:
        step = next((step for step in _STEPS if data.n_rows // step >= _ANSWERING_ROWS), min(_STEPS))
        part = data.every(step) if data.n_rows // step >= _STEPPED_ROWS else None
        if part is None:
            break
        parts.insert(0, part)
        data = part
    return parts


def sample_of(data: Source) -> Source | None:
    """Some of the rows to start from, or None if there are too few or they cannot be had without a reading."""
    if data.n_rows is None or numbers(data) < _SAMPLED:
        return None
    share = _SAMPLE_SHARE_MANY if data.n_classes >= MANY else _SAMPLE_SHARE
    size = max(data.n_rows // share, min(data.n_rows // _SAMPLE_SMALL_SHARE, _SAMPLE_SMALL))
    size = min(size, max(_SAMPLE_LEAST, _SAMPLE_ELEMENTS // data.n_classes))
    return data.sample(size) if size >= _SAMPLE_LEAST else None


def some_of(data: Source, size: int) -> Source:
    """A sample of this size, or all rows if they are not many more."""
    return (data.sample(size) if (data.n_rows or 0) > 2 * size else None) or data


def answers_of(sample: Source | None, observables: Sequence[Observable]) -> dict[int, float]:
    """The answers of a sample, by the position of their observable, as far as there are any."""
    if sample is None:
        return {}
    try:
        return applied(sample, _Answers(tuple(observables)))
    except InputError:
        return {}  # a reading of all rows will say which one is wrong


@dataclass(frozen=True)
class _Answers:
    """The answers of some rows, from a search that starts at the answers of a sample of them."""

    observables: tuple[Observable, ...]

    def __call__(self, rows: Source) -> dict[int, float]:
        return answers_from(answers_of(sample_of(rows), self.observables), rows, self.observables)


def answers_from(begin: Mapping[int, float], sample: Source, observables: Sequence[Observable]) -> dict[int, float]:
    """The same, where the search may start from what is known already."""
    readings = Readings(sample, observables, Confidence(), "labels")
    readings.exact = False
    begin = dict.fromkeys(range(len(observables)), ANYWHERE) | dict(begin)
    searches = {i: increasing_root(start, enough=_ENOUGH) for i, start in begin.items()}
    try:
        roots = drive(searches, readings.for_a_start)
    except InputError:
        return {}  # a reading of all rows will say which one is wrong
    return known(roots)


def known(roots: Mapping[int, Root | NishimoriError]) -> dict[int, float]:
    """Where the roots are that were found."""
    return {i: root.x for i, root in roots.items() if isinstance(root, Root)}


def middle(starts: Mapping[int, float]) -> float:
    """The β in the middle of some log β."""
    return exp((min(starts.values()) + max(starts.values())) / 2)
