"""Both temperatures of a validation set, expectation consistency and temperature scaling, from shared passes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import exp, log
from typing import Any, Unpack

from nishimori._fit.floors import MAY_BE_AUTO, choose_floor
from nishimori._fit.match import Match
from nishimori._fit.roots import Root
from nishimori._fit.search import match
from nishimori._rows.entry import open_rows
from nishimori._rows.options import NO_GROUPS, RowOptions, takes_rows
from nishimori._rows.question import question
from nishimori._rows.rows import Rows
from nishimori._sums.observables import BUILT_IN
from nishimori._support.display import Display, Displayed, note_on_clusters, plural, short_repr
from nishimori._support.formatting import interval_text, number_text, percent, value_with_error
from nishimori._support.intervals import Interval, interval_in_ratio
from nishimori._support.tables import Tabular
from nishimori.errors import NishimoriError, NoTemperatureError


@dataclass(frozen=True, repr=False)
class Temperatures(Displayed):
    """Both temperatures of a validation set. ``print`` shows a table.

    Attributes
    ----------
    ec : float or None
        The temperature of expectation consistency: mean confidence equals accuracy. None if there is none.
    ts : float or None
        The temperature of temperature scaling: the mean cross-entropy is lowest. None if there is none.
    ec_se, ts_se : float or None
        Their standard errors. None where there is no temperature, and from a sketch of one cluster.
    accuracy : float
        The weighted share of samples whose largest logit is at the true class.
    n_passes : int
        How often all logits were read, for both together.
    n_samples : int
        How many samples had a positive weight.
    ec_error, ts_error : NishimoriError or None
        The error that fitting that method alone would raise, where the temperature does not exist.
    why_no_ec, why_no_ts : str or None
        Its message.
    ec_bounds, ts_bounds : Interval or None
        For top-k log-probabilities: the temperatures that the classes that are not listed leave possible. `ec` and `ts` are
        then their middles, and None where the bounds are not closer to each other than the standard error.
    floor : float or None
        The floor of probabilities that was used: the one that was passed, or that ``floor="auto"`` chose.
    n_clusters : int or None
        How many clusters the samples belong to, of which the standard errors are made; None if each sample is independent.
    cluster_name : str
        What a cluster is called: "image" for pixels, where no clusters were named.
    end : str or None
        Where `ec` would be, if it does not exist: "cold", "hot" or "flat", as in `NoTemperatureError`.
    """

    ec: float | None
    ts: float | None
    accuracy: float
    n_passes: int
    n_samples: int
    ec_error: NishimoriError | None = None
    ts_error: NishimoriError | None = None
    ec_se: float | None = None
    ts_se: float | None = None
    ec_bounds: Interval | None = None
    ts_bounds: Interval | None = None
    floor: float | None = None
    n_clusters: int | None = None
    cluster_name: str = "cluster"

    def __repr__(self) -> str:
        numbers = {"ec": self.ec, "ec_se": self.ec_se, "ts": self.ts, "ts_se": self.ts_se, "accuracy": self.accuracy}
        return short_repr(self, **numbers, n_samples=self.n_samples)

    @property
    def _display(self) -> Display:
        clusters = "" if self.n_clusters is None else f" in {plural(self.n_clusters, self.cluster_name)}"
        title = f"{plural(self.n_samples, 'sample')}{clusters}, accuracy {percent(self.accuracy)}"
        notes = [f"No temperature of {name}: {why}" for name, why in (("EC", self.why_no_ec), ("TS", self.why_no_ts)) if why]
        if self.ec_bounds is not None or self.ts_bounds is not None:
            notes.append("Bounds are what the classes that are not listed leave possible.")
        if self.floor is not None:
            notes.append(f"Probabilities below {number_text(self.floor)} were raised to that.")
        notes += note_on_clusters(self.cluster_name)
        return Display(title, (self.table,), tuple(notes))

    @property
    def table(self) -> Tabular:
        """The temperatures as text."""
        rows = [
            ("expectation consistency (EC)", self.ec, self.ec_se, self.ec_bounds),
            ("temperature scaling (TS)", self.ts, self.ts_se, self.ts_bounds),
        ]
        bounded = any(bounds is not None for *_, bounds in rows)
        cells = [
            (
                name,
                "none" if T is None else value_with_error(T, se),
                "" if T is None or not se else interval_text(*interval_in_ratio(T, se, 0.95), se),
                *(["" if bounds is None else interval_text(*bounds, se)] if bounded else []),
            )
            for name, T, se, bounds in rows
        ]
        return Tabular(("method", "T", "95 % interval", *(["bounds"] if bounded else [])), cells)

    @property
    def why_no_ec(self) -> str | None:
        return None if self.ec_error is None else str(self.ec_error)

    @property
    def why_no_ts(self) -> str | None:
        return None if self.ts_error is None else str(self.ts_error)

    @property
    def end(self) -> str | None:
        return getattr(self.ec_error, "end", None)

    @classmethod
    def from_match(cls, matched: Match, data: Rows) -> "Temperatures":
        """The temperatures that a search in ``data`` found; its first observables must be those of EC and TS."""
        ec, ts, *_ = matched.roots
        return cls(
            ec=exp(-ec.x) if isinstance(ec, Root) else None,
            ts=exp(-ts.x) if isinstance(ts, Root) else None,
            accuracy=matched.census.accuracy,
            n_passes=matched.n_passes,
            n_samples=matched.census.n_rows,
            ec_error=ec if isinstance(ec, NishimoriError) else None,
            ts_error=ts if isinstance(ts, NishimoriError) else None,
            ec_se=matched.standard_error(0),
            ts_se=matched.standard_error(1),
            n_clusters=data.n_clusters,
            cluster_name=data.cluster_name,
        )


@takes_rows(refuses={"groups": NO_GROUPS}, **MAY_BE_AUTO)
def temperatures(
    logits: Any,
    labels: Any = None,
    **options: Unpack[RowOptions],
) -> Temperatures:
    """Both temperatures of a validation set, expectation consistency and temperature scaling, from shared passes.

    Parameters
    ----------
    logits : array, path, batches, `TopK`, `Sketch` or `Rows`
        Scores before the softmax, of shape (n_samples, n_classes): an array of NumPy, PyTorch, JAX, CuPy or Dask. A flat array
        z means the binary logits (0, z); with more dimensions, such as (sequences, tokens, vocabulary), each position before
        the classes is a sample. Or the path of a file, a loader of batches ``(logits, labels)``, or what `rows` returns.
    labels : array of shape (n_samples,), or as ``logits`` before the classes
        The true class of each sample: its column, or one of ``classes``. For a file, the name of its array or column. Left out
        where ``logits`` brings them.
    **options
        What is said about the data, see `rows`: ``sample_weight``, ``counts``, ``clusters``, ``input``, ``classes``,
        ``floor``, ``ignore_index``, ``shift_labels``, ``class_axis``, ``member_axis``.

    Returns
    -------
    Temperatures
        If one of the two does not exist it is None, and the result says why. Without both, a `NoTemperatureError` is raised.

    Examples
    --------
    >>> import numpy as np
    >>> import nishimori
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(2000, 5))
    >>> labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)  # drawn at T = 2
    >>> found = nishimori.temperatures(logits, labels)
    >>> print(f"{found.ec:.2f} {found.ts:.2f} {found.accuracy:.3f}")
    1.99 1.98 0.570
    """
    options.setdefault("floor", "auto")
    data = open_rows(logits, labels, choose_floor=choose_floor, **options)
    both = temperatures_of(data)
    if all(value is None for value in (both.ec, both.ts, both.ec_bounds, both.ts_bounds)):
        why = f"Expectation consistency: {both.why_no_ec} Temperature scaling: {both.why_no_ts}"
        raise NoTemperatureError(why, end=both.end or "flat")
    return replace(both, floor=data.floor)


@question("has no rows to fit temperatures to")
def temperatures_of(data: Rows, *, warn: bool = True, starts: Mapping[str, float] | None = None) -> Temperatures:
    """Both temperatures of rows, or neither; ``warn`` if few samples decide; ``starts`` are initial guesses by name."""
    begin = None if starts is None else [-log(starts[name]) for name in BUILT_IN]
    matched = match(data, *BUILT_IN.values(), starts=begin)
    if warn:
        matched.warn()
    return Temperatures.from_match(matched, data)
