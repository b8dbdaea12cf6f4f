"""A summary of rows that can be stored, sent and added in place of the rows."""

import os
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import astuple
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar, Literal, NoReturn, Self

import numpy as np

from nishimori._rows.array_rows import ArrayRows
from nishimori._rows.batch import Names
from nishimori._rows.entry import open_rows
from nishimori._rows.labels import Classes, class_labels
from nishimori._rows.question import refusal_of
from nishimori._rows.rows import Rows, is_rows
from nishimori._rows.scores import Floor, Input, ScoreRange, check_input, is_auto
from nishimori._sketch.archive import pack, read, report_damage
from nishimori._sketch.clusters import OpenCluster
from nishimori._sketch.contents import Contents
from nishimori._sketch.grid import PER_OCTAVE, Grid
from nishimori._sketch.parts import Parts
from nishimori._sketch.survey import Survey
from nishimori._sketch.validity import ImpossibleSumsError, refuse_impossible
from nishimori._sums.census import Census
from nishimori._sums.observables import BUILT_IN, Observable
from nishimori._support.arrays import HostArray
from nishimori._support.disk import existing_file, new_file
from nishimori._support.display import Display, Displayed, short_repr
from nishimori._support.formatting import number_text, percent
from nishimori._support.tables import Tabular
from nishimori.errors import InputError, MergeError, NoRowsError, setting

_MAKE_AGAIN = (
    "Make the sketch again: with `input='probabilities'` and a `floor` if these are probabilities, or with `input='logits'` if "
    "they are scores before the softmax."
)


class Sketch(Displayed, Rows):
    """A summary of rows, of fixed size, for fits and scorecards; ``+`` adds sketches of parts of the data.

    It keeps sums at 37 temperatures and no rows. `temperatures`, `temperature_curve`, `evaluate` and the `fit` of
    `ExpectationConsistency`, `TemperatureScaling` and `Matched` take it in place of logits and labels.

    Parameters
    ----------
    observables : sequence of str or Observable
        What can be fitted later: "ec", "ts", or observables of your own.
    temperatures : (float, float)
        The lowest and the highest temperature that a fit can find; by default 1/22 and 22. Each factor of two costs as
        much as four of the 37 temperatures.
    nodes_per_octave : int
        How many temperatures of the grid a factor of two has, from 4 to 64. A vocabulary of 100,000 or more needs 8.
    input, classes, floor
        What the rows are, as for `temperatures`. Probabilities need a floor: a number, or None to raise only exact zeros.
        Without ``input`` they are logits, and whether they can be is judged when something is fitted or measured.

    Attributes
    ----------
    observables : tuple of Observable
        What can be fitted.
    temperatures : (float, float)
        The range, whose ends are temperatures of the grid.
    n_samples : int
        How many samples with a positive weight were added.
    n_parts : int
        How many parts it is made of, see the notes.
    n_forgotten_parts : int
        How many of them, the oldest, `merge` would not notice if they came again; 0 up to 100,000 parts.

    Notes
    -----
    Temperatures differ from those of a fit to all rows by less than 1e-6 of their value, or an error says that this cannot be
    promised; on the logits of ten networks, scaled so that T goes from 0.05 to 20, they differed by 1e-11. At the 37
    temperatures of the grid, T = 1 and factors of the fourth root of 2, all metrics are those of the rows. Between them, mean
    confidence, Brier score and loss are interpolated from the nearest six (largest error on those networks 2e-8), and the
    sums of each bin linearly in log T from the nearest two (largest error of the ECE of bundled networks 0.015, and at
    most 0.005 for 30 of 38 sets of images; near its minimum the ECE is usually too small).

    Threads must not update one sketch at the same time: give each its own, and add them.

    A part is what was added until the sketch was saved, sent, pickled or added to another one. A sketch remembers its parts by
    digests of their sums, so that `merge` notices one that is in already; ``+`` does not mind. The same rows in other blocks
    have sums with other last digits, which are another part. Beyond 100,000 parts the oldest digests go.

    Examples
    --------
    >>> import numpy as np
    >>> import nishimori
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(2000, 5))
    >>> labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)  # drawn at T = 2
    >>> monday = nishimori.Sketch().update(logits[:1500], labels[:1500])
    >>> tuesday = nishimori.Sketch().update(logits[1500:], labels[1500:])
    >>> found = nishimori.temperatures(monday + tuesday)
    >>> print(f"{found.ec:.2f} {found.ts:.2f} {found.accuracy:.3f}")
    1.99 1.98 0.570
    """

    kind = "Sketch"
    """What messages call it where rows could be passed, too."""

    annex: ClassVar[str] = "nishimori._sketch"

    arguments = ("sketch", None)

    def __init__(
        self,
        observables: Iterable[str | Observable] = tuple(BUILT_IN),
        *,
        temperatures: tuple[float, float] = (1 / 22, 22.0),
        nodes_per_octave: int = PER_OCTAVE,
        input: Input | None = None,
        classes: Classes = None,
        floor: Floor = "auto",
    ) -> None:
        if is_auto(floor) and input == "probabilities":
            raise InputError(
                "floor",
                "be a number or None for a sketch of probabilities",
                got="'auto': sums are made once, for one floor",
                remedy=(
                    "Choose it on some of the rows: `nishimori.temperatures(probabilities, labels, "
                    "input='probabilities').floor`."
                ),
            )
        floor = None if is_auto(floor) else floor
        check_input(input, floor)
        self._survey = Survey(Grid.over(temperatures, nodes_per_octave), observables_from(observables))
        self._contents, self._parts = self._survey.empty, Parts()
        self.input: Input = input or "logits"
        self._range = ScoreRange() if input is None else None  # of the scores, to be judged; None if it is known what they are
        self._range_is_fine = False
        self.classes: list[Any] | None = None if classes is None else class_labels(classes).tolist()
        self.floor: float | None = floor  # type: ignore[assignment]

    def __repr__(self) -> str:
        observables, n_forgotten = tuple(names_of(self.observables)), self.n_forgotten_parts or None
        return short_repr(self, n_samples=self.n_samples, observables=observables, n_forgotten_parts=n_forgotten)

    def __getstate__(self) -> dict[str, Any]:
        self._end_part()  # whose sums are then in the pickle once
        return self.__dict__

    @property
    def _display(self) -> Display:
        low, high = self.temperatures
        rows = [
            ("samples", f"{self.n_samples:,}"),
            *([] if self.n_clusters is None else [("clusters", f"{self.n_clusters:,}")]),
            *([("accuracy", percent(self.census.accuracy))] if self.n_samples else []),
            ("parts", f"{self.n_parts:,}"),
            *([("forgotten parts", f"{self.n_forgotten_parts:,}")] if self.n_forgotten_parts else []),
            ("observables", ", ".join(names_of(self.observables))),
            ("temperatures", f"{number_text(low, 3)} to {number_text(high, 3)}"),
        ]
        return Display("Sketch", (Tabular(("what", "value"), rows),))

    @property
    def n_parts(self) -> int:
        return self._parts.number

    @property
    def n_forgotten_parts(self) -> int:
        return self._parts.n_forgotten

    @property
    def observables(self) -> tuple[Observable, ...]:
        return self._survey.observables

    @property
    def grid(self) -> Grid:
        """The temperatures at which the sketch keeps sums."""
        return self._survey.grid

    @property
    def temperatures(self) -> tuple[float, float]:
        return self.grid.temperatures

    @property
    def n_samples(self) -> int:
        return self._contents.n_rows

    def update(
        self,
        logits: Any,
        labels: Any = None,
        sample_weight: Any = None,
        clusters: Any = None,
        *,
        ignore_index: int | None = None,
    ) -> Self:
        """Add rows; if that fails, the sketch is unchanged.

        Parameters
        ----------
        logits, labels, sample_weight, ignore_index
            As for `temperatures`; all weights may be zero, and all labels those to ignore.
        clusters : array of the shape of ``labels``, or one entry per sequence of tokens, optional
            Which samples belong together, such as the tokens of a document; all samples of a cluster must be in one update.
            T of "ec" and "ts" does not depend on them; standard errors do, and so does T of "adaptive", which is made of them.

        Returns
        -------
        Sketch
            Itself.
        """
        own_input = None if self._range is not None else self.input
        meaning: Any = {} if is_rows(logits) else {"input": own_input, "classes": self.classes, "floor": self.floor}
        try:
            data = open_rows(logits, labels, sample_weight, ignore_index=ignore_index, guard="defer", **meaning)
            if data.is_claims:
                raise InputError("A Sketch is for temperatures, which claims do not have. Pass the claims themselves.")
            if self.n_samples and data.n_classes != self.n_classes:
                raise InputError("logits", f"have {self.n_classes} classes, like all rows before", got=data.n_classes)
            if clusters is None and isinstance(data, ArrayRows) and data.clusters is not None:
                clusters = data.clusters.codes
            added = data.gather(self._survey) if clusters is None else self._contents_of_clusters(data, clusters)
            if clusters is None and data.clusters is not None:
                independent = f" Or pass {setting('clusters', False)} to `rows`." if data.cluster_name == "image" else ""
                raise InputError(
                    "logits",
                    "not name clusters unless it is in memory: all rows of a cluster must be in one update",
                    remedy=f"Update the sketch with each batch: `sketch.update(logits, labels, clusters=...)`.{independent}",
                )
        except NoRowsError:
            # As in a batch of padding. Without weights or labels to ignore there are no rows at all, which is a mistake.
            if sample_weight is None and ignore_index is None and not is_rows(logits):
                raise
            return self
        self._add(added)
        self._add_range(data.score_range)
        return self

    def _add_range(self, more: ScoreRange | None) -> None:
        """Include the range of other scores; if it is not known, the total range is not known either."""
        self._range_is_fine = False
        self._range = None if self._range is None or more is None else self._range + more

    def check_range(self, name: str = "logits", remedy: str = _MAKE_AGAIN, logits_setting: str = "") -> None:
        """Refuse scores that look like probabilities, if ``input`` was left out."""
        if self._range is not None and not self._range_is_fine:
            self._range.check(name, remedy, logits_setting)
            self._range_is_fine = True

    def _add(self, sums: Contents) -> None:
        self._contents, self._parts = self._contents + sums, self._parts.extended(sums)

    def _end_part(self) -> Parts:
        """Give an id to the rows added since the last part, and return all parts."""
        self._parts = self._parts.closed
        return self._parts

    def _contents_of_clusters(self, data: Rows, clusters: Any) -> Contents:
        if not isinstance(data, ArrayRows):
            raise InputError(
                "clusters", "be left out where `logits` is a Rows object or a Dask array", remedy="Pass an array in memory."
            )
        clusters = data.scores.per_row(clusters, "clusters")
        _, codes = Names.of_rows("cluster", clusters, data.weights, data.scores.row, only_counted=True)
        last = OpenCluster()
        total = sum(self._survey.of_clusters(data, codes, last), self._survey.empty)
        return total + self._survey.of_squares(last.close())

    def merge(self, other: "Sketch", *, allow_repeated: bool = False) -> Self:
        """Add the rows of another sketch to this one, and return it; if that fails, it is unchanged.

        Parameters
        ----------
        other : Sketch
            What to add; it is not changed.
        allow_repeated : bool
            Add it even if one of its parts is in this sketch already, as with ``+``: different samples may have the same sums.

        Raises
        ------
        MergeError
            If the two have other observables, another range of temperatures, or rows of another kind; if a part would be
            counted twice; or if a sum is one that no rows have, such as NaN.
        """
        self._check_kind_of(other)
        parts = self._end_part(), other._end_part()
        repeated = set(parts[1].ids).intersection(parts[0].ids)
        if repeated and not allow_repeated:
            raise MergeError(
                f"A part is added only once, got a sketch with {len(repeated)} of {other.n_parts} parts already there. "
                f"Leave it out, or pass {setting('allow_repeated', True)} if these are other samples."
            )
        contents = self._contents + other._contents
        try:
            refuse_impossible(contents, self.observables)
        except ImpossibleSumsError as error:
            raise MergeError(f"Sketches merge only if rows can have such sums: {error}.") from None
        self._contents, self._parts = contents, parts[0] + parts[1]
        self._add_range(other._range)
        return self

    def _check_kind_of(self, other: "Sketch") -> None:
        """Refuse sketches that cannot be added."""
        if not isinstance(other, Sketch):
            raise MergeError(f"A sketch merges only with a sketch, got {other!r:.60}.")
        for (name, mine), theirs in zip(self._kind.items(), other._kind.values(), strict=True):
            if mine != theirs:
                raise MergeError(
                    f"Sketches merge only if they have the same {name}, got {mine} and {theirs}. Make both in the same way."
                )
        if self.n_samples and other.n_samples and self.n_classes != other.n_classes:
            raise MergeError(f"Sketches merge only if they have the same classes, got {self.n_classes} and {other.n_classes}.")

    @property
    def _kind(self) -> dict[str, Any]:
        """The properties that sketches must share to be added."""
        low, high = self.temperatures
        return {
            "observables": self.observables,
            "range of temperatures": f"{low:.4g} to {high:.4g}",
            "`nodes_per_octave`": self.grid.per_octave,
            "`input`": self.input,
            "`classes`": self.classes,
            "`floor`": self.floor,
        }

    def __add__(self, other: "Sketch") -> "Sketch":
        return copy(self).merge(other, allow_repeated=True) if isinstance(other, Sketch) else NotImplemented

    def __radd__(self, other: Literal[0]) -> "Sketch":
        """Support `sum`, which starts with 0."""
        return copy(self) if isinstance(other, int) and other == 0 else NotImplemented

    @property
    def state(self) -> dict[str, HostArray]:
        """All sums as flat float64 arrays: the arrays of two sketches of the same kind add to those of both.

        Assign the arrays of an all-reduce to it, and the sketch is that of all processes, as a single part.
        """
        return {name: array.flatten() for name, array in vars(self._contents).items()}

    @state.setter
    def state(self, arrays: Mapping[str, HostArray]) -> None:
        try:
            self._hold(arrays)
        except ImpossibleSumsError as error:
            raise InputError("state", "hold the sums of rows", remedy=f"For these arrays, {error}.") from None

    def _hold(self, arrays: Mapping[str, HostArray]) -> None:
        """Replace the sums, as a single part."""
        shapes = Contents.shapes(len(self.observables), len(self.grid.betas))
        actual = {name: np.shape(array) for name, array in arrays.items()}
        wanted = {name: (int(np.prod(shape)),) for name, shape in shapes.items()}
        if actual != wanted:
            raise InputError("state", f"hold arrays of the shapes {wanted}", got=actual)
        held = (np.array(arrays[name], dtype=np.float64).reshape(shape) for name, shape in shapes.items())
        contents = Contents(*held)
        refuse_impossible(contents, self.observables)
        self._contents, self._parts = contents, Parts(open=contents).closed
        self._range = None  # which does not add

    def to_bytes(self) -> bytes:
        """The sketch as bytes, to send or to store; `Sketch.from_bytes` reads them. `save` writes the same bytes to a file."""
        about = {
            "observables": names_of(self.observables),
            "grid": astuple(self.grid),
            "input": self.input,
            "classes": self.classes,
            "floor": self.floor,
            "score_range": None if self._range is None else self._range.numbers,
        }
        return pack(about, self.state, self._end_part())

    @classmethod
    def from_bytes(
        cls, data: bytes | bytearray | memoryview, *, observables: Iterable[str | Observable] | None = None
    ) -> "Sketch":
        """Restore a sketch from the result of `to_bytes`, or from the content of a file that `save` wrote.

        Parameters
        ----------
        data : bytes, bytearray or memoryview
            They are checked as a file is; nothing in them is run, as it would be in a pickle.
        observables : sequence of str or Observable, optional
            As for `load`.

        Examples
        --------
        >>> import nishimori
        >>> sketch = nishimori.Sketch().update([[2.0, 0.0], [0.0, 1.0], [0.5, 0.0]], [0, 1, 1])
        >>> nishimori.Sketch.from_bytes(sketch.to_bytes())
        Sketch(n_samples=3, observables=('ec', 'ts'))
        """
        if not isinstance(data, bytes | bytearray | memoryview):  # some engines hand over one of the latter
            raise InputError("data", "be bytes", got=type(data).__name__, remedy="Pass what `Sketch.to_bytes` returned.")
        return cls._from_archive(BytesIO(data), "`data`", "Make it again with `Sketch.to_bytes`.", observables)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the sketch to a .npz file; `Sketch.load` reads it back.

        Parameters
        ----------
        path : str or path
            Where to. An existing file is kept unless ``overwrite``.
        overwrite : bool
            Replace an existing file.
        """
        data = self.to_bytes()
        if Path(path).suffix.lower() != ".npz":
            raise InputError("path", "end in .npz", got=repr(os.fspath(path)))
        with new_file(path, overwrite=overwrite) as temporary:
            temporary.write_bytes(data)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, observables: Iterable[str | Observable] | None = None) -> "Sketch":
        """Load a sketch that `save` wrote.

        Parameters
        ----------
        path : str or path
            The file.
        observables : sequence of str or Observable, optional
            Those that the sketch was made with, where some are your own: a file cannot hold code.
        """
        remedy = "Make it again with `Sketch.save`, or in the shell with `nishimori sketch`."
        return cls._from_archive(existing_file(path), os.fspath(path), remedy, observables)

    @classmethod
    def _from_archive(
        cls, content: Path | BytesIO, name: str, remedy: str, observables: Iterable[str | Observable] | None
    ) -> "Sketch":
        with report_damage(name, remedy):
            header, state, parts = read(content, name)
        names = header["observables"]
        try:
            held = observables_from(names if observables is None else observables)
        except InputError:
            held = ()
        if names_of(held) != names:
            raise InputError(f"{name} is a sketch of {', '.join(names)}. Pass these as `observables`, in this order.")
        with report_damage(name, remedy):
            sketch = cls(held, input=header["input"], classes=header["classes"], floor=header["floor"])
            sketch._survey = Survey(header["grid"], held)
            sketch._hold(state)
            sketch._parts = sketch._parts if parts is None else parts.checked(sketch.n_samples)
            score_range = header["score_range"]
            sketch._range = None if score_range is None else ScoreRange(*map(float, score_range))  # type: ignore[arg-type]
        return sketch

    # What follows makes it a kind of rows, so that everything that takes rows takes it and `gather` says what it cannot do.

    @property
    def contents(self) -> Contents:
        """The sums of the sketch, which must contain rows."""
        if not self.n_samples:
            raise InputError(
                "The sketch", "hold at least one row of positive weight", got="none", remedy="Call its `update` first."
            )
        return self._contents

    @property
    def n_classes(self) -> int:
        """How many classes the rows have."""
        return self.contents.n_classes

    @property
    def n_rows(self) -> int:
        return self.n_samples

    @property
    def digest(self) -> str | None:
        """The ids of its parts, which identify the data of a fit, like the digest of rows."""
        return self._parts.digest

    def gather(self, pass_: Any, report: Any = None) -> NoReturn:  # noqa: ARG002
        """Refuse: a sketch has no rows to read."""
        raise refusal_of(self, "keeps sums, and has no rows to read")

    def __iter__(self) -> NoReturn:
        """Refuse: a sketch has no rows to read."""
        self.gather(None)

    @property
    def census(self) -> Census:
        """The counts of the rows."""
        return self.contents.census

    @property
    def has_clusters(self) -> bool:
        return self.n_clusters is not None

    @property
    def n_clusters(self) -> int | None:
        """How many clusters the rows belong to; None if each row is independent."""
        number = round(float(self._contents.weights[2]))
        return None if number == self.n_samples else number


def without_its_rows(sketch: Sketch) -> Sketch:
    """An empty sketch of the same kind."""
    empty = copy(sketch)
    empty._contents, empty._parts = sketch._survey.empty, Parts()
    empty._range = None if sketch._range is None else ScoreRange()
    return empty


def names_of(observables: Iterable[Observable]) -> list[str]:
    """The name of each built-in observable; the printed form of others."""
    names = {observable: name for name, observable in BUILT_IN.items()}
    return [names.get(observable) or repr(observable) for observable in observables]


def observables_from(observables: Any) -> tuple[Observable, ...]:
    """Observables by their names."""
    must = f"be names from {', '.join(BUILT_IN)}, or instances of subclasses of nishimori.Observable"
    if isinstance(observables, str | Observable) or not isinstance(observables, Iterable):
        raise InputError("observables", f"{must}, in a tuple", got=repr(observables))
    instances = []
    for entry in observables:
        observable = BUILT_IN.get(entry) if isinstance(entry, str) else entry
        if not isinstance(observable, Observable):
            raise InputError("observables", must, got=repr(entry))
        if observable in instances:
            raise InputError("observables", "be distinct", got=f"{entry!r} more than once")
        instances.append(observable)
    if not instances:
        raise InputError("observables", must, got="none")
    return tuple(instances)
