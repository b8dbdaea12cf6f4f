"""`Map`: a frozen function of logits with named parameters, which calibrators produce and files store."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import fields
from math import inf
from typing import Any, ClassVar

import numpy as np

from nishimori._rows.scores import Scores
from nishimori._support.arrays import (
    Array,
    HostArray,
    dtype_name,
    in_double,
    is_array,
    is_writable,
    kind,
    like,
    namespace,
    on_device_of,
    on_host,
    row_max,
    row_sum,
    to_compute,
    with_rows,
)
from nishimori._support.json import as_python
from nishimori._support.numbers import temperature
from nishimori.errors import InputError


class Map(ABC):
    """A function from logits to logits; the softmax of its result is calibrated.

    Subclass it for a map of your own, with `apply` and `parameters`, and call `nishimori.register` so that files can hold
    it. Its constructor takes what `parameters` holds as keywords.

    Attributes
    ----------
    kind : str
        Its name on disk, which `nishimori.register` gives to a class of your own.
    format_version : int
        The first version of the file format that has it.
    keeps_predictions : bool
        Whether the largest logit of each row stays the largest. Predictions and accuracy are then those of the logits as they
        were. It is checked on some rows when a calibrator is fitted, loaded or evaluated.
    needs_groups : bool
        Whether `apply` needs the group of each row.
    """

    kind: ClassVar[str]
    format_version: ClassVar[int] = 3
    keeps_predictions: bool = False
    needs_groups: bool = False

    @abstractmethod
    def apply(self, logits: Array, groups: Any = None) -> Array:
        """The calibrated logits of each row, in the array library and dtype of ``logits``, which have shape (n, n_classes).

        Written with the functions of ``array_api_compat.array_namespace(logits)``, it works for every library, and networks of
        PyTorch can be traced and exported with it. -inf masks a class. ``logits`` may be the user's own array: return a new one
        and leave them as they are. ``groups`` name the group of each row, for maps that treat groups differently; all others
        ignore it.
        """

    @property
    @abstractmethod
    def parameters(self) -> Mapping[str, Any]:
        """The parameters by name, as plain numbers and lists."""

    @property
    def n_classes(self) -> int | None:
        """How many classes logits must have; None if it does not matter."""
        return None

    @property
    def in_words(self) -> str:
        """The name of the map in messages."""
        return f"the map {type(self).__name__}"

    def exponents(self, logits: Array, groups: Any = None) -> Array:
        """Calibrated logits minus the largest of their row: what the softmax exponentiates."""
        mapped = apply_checked(self, logits, groups)
        return mapped - row_max(mapped)

    def probabilities(self, logits: Array, groups: Any = None) -> Array:
        """The softmax of the calibrated logits."""
        return softmax_of_drops(self.exponents(logits, groups))

    def probabilities_at_once(self, scores: Scores) -> Array | None:  # noqa: ARG002 - for those that can
        """The probabilities of all rows, which are checked in the same pass; None if only single blocks are possible."""
        return None

    def log_probabilities(self, logits: Array, groups: Any = None) -> Array:
        """The logarithms of the calibrated probabilities, accurate even if these round to 0 or 1."""
        return log_softmax_of_drops(self.exponents(logits, groups))


def apply_checked(map_: Map, logits: Array, groups: Any = None) -> Array:
    """Apply a map to logits; a user's own `apply` cannot change them, and its result is checked."""
    name, module = f"{type(map_).__name__}.apply", getattr(type(map_).apply, "__module__", "")
    if module.partition(".")[0] == __name__.partition(".")[0]:
        return map_.apply(logits, groups)
    try:
        mapped = map_.apply(_protected(logits), groups)
    except ValueError as error:
        if "read-only" not in str(error):
            raise
        remedy = "Write `logits = logits / 2`, say, in place of `logits /= 2`."
        raise InputError(name, "return a new array", got="a change of `logits` in place", remedy=remedy) from error
    _check_mapped(name, mapped, logits)
    # The logits themselves, or a view of them, could be handed to the user, who may change them.
    return mapped.copy() if isinstance(mapped, np.ndarray) and not mapped.flags.writeable else mapped


def _protected(logits: Array) -> Array:
    """Protect logits from changes: a read-only view for NumPy, else a copy."""
    if isinstance(logits, np.ndarray):
        view = logits.view()
        view.flags.writeable = False
        return view
    return namespace(logits).asarray(logits, copy=True) if is_writable(logits) else logits


def _check_mapped(name: str, mapped: Any, logits: Array) -> None:
    """Refuse anything but a table of logits for rows with valid logits."""
    shape = tuple(logits.shape)
    if not is_array(mapped) or kind(mapped) not in ("float", "int") or tuple(mapped.shape) != shape:
        got = f"a {type(mapped).__name__}"
        if is_array(mapped):
            got = f"shape {tuple(mapped.shape)}" if tuple(mapped.shape) != shape else f"the type {dtype_name(mapped)}"
        raise InputError(name, f"return an array of numbers of the shape of `logits`, {shape}", got=got)
    if 0 in shape:
        return
    xp, peaks = namespace(mapped), row_max(mapped)
    if bool(xp.all(xp.isfinite(peaks))):
        return
    after, before = on_host(peaks), on_host(row_max(logits))
    wrong = after[~np.isfinite(after) & np.isfinite(before)]
    if len(wrong):
        what = "NaN" if np.isnan(wrong[0]) else "+inf" if wrong[0] > 0 else "-inf for all classes of a row"
        raise InputError(name, "return finite logits, or -inf for some classes of a row", got=what)


class BuiltInMap(Map):
    """A built-in map: a dataclass with its parameters as fields."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {part.name: as_python(getattr(self, part.name)) for part in fields(self) if part.init}  # type: ignore[arg-type]


# Float32 holds this temperature and its inverse with all their digits.
_LEAST = 1e-30


def divide(logits: Array, temperature: Any) -> Array:
    """Logits divided by one number, or by a number per row, in their dtype; quotients use at least float32."""
    if isinstance(temperature, float):
        wide = to_compute(logits) if _LEAST < temperature < 1 / _LEAST else in_double(logits)
    else:
        wide = to_compute(logits)
        temperature = namespace(wide).astype(temperature, wide.dtype)[:, None]
    with np.errstate(over="ignore"):  # beyond the range of the dtype, as in float16 beyond 65,504: infinite
        return like(wide / temperature, logits)


class Division(BuiltInMap):
    """Division of all rows by one temperature, or of each row by its own temperature."""

    keeps_predictions = True

    @abstractmethod
    def divisor(self, logits: Array, groups: Any) -> Any:
        """One temperature for all rows, or one per row, of shape (n,), in the library of ``logits``."""

    def apply(self, logits: Array, groups: Any = None) -> Array:
        """``logits`` divided by their temperature."""
        return divide(logits, self.divisor(logits, groups))

    def exponents(self, logits: Array, groups: Any = None) -> Array:
        """The difference first: a quotient of large logits would lose its digits."""
        return divide(logits - row_max(logits), self.divisor(logits, groups))


class WideMap(BuiltInMap):
    """A map that is the same for all groups and computed in float64, whatever the dtype of the logits."""

    @abstractmethod
    def apply_in_double(self, logits: Array) -> Array:
        """The calibrated logits of each row in float64."""

    def apply(self, logits: Array, groups: Any = None) -> Array:  # noqa: ARG002 - the same for all
        """The calibrated logits of each row, in the array library and dtype of ``logits``."""
        with np.errstate(over="ignore"):  # beyond the range of the dtype, as in float16 beyond 65,504: infinite
            return like(self.apply_in_double(logits), logits)

    def exponents(self, logits: Array, groups: Any = None) -> Array:  # noqa: ARG002 - the same for all
        """Calibrated logits minus the largest of their row, subtracted in float64 before they are rounded."""
        with np.errstate(over="ignore"):
            mapped = self.apply_in_double(logits)
            return like(mapped - row_max(mapped), logits)


def in_blocks(scores: Scores, rule: Callable[[slice | None], Array]) -> Array:
    """``rule`` of all rows of ``scores`` in one array of their library, filled a block at a time without further tables.

    ``rule`` gives the result of each row of a block, or of all rows if it gets None, as where a library cannot fill arrays. It
    takes the rows from `Scores.logits` or `Scores.table`, which check them.
    """
    blocks = list(scores.blocks()) if is_writable(scores.array) else [None]
    result = first = rule(blocks[0])
    if len(blocks) > 1:
        result = with_rows(first, scores.n_samples)
        result[blocks[0], ...] = first
        for rows in blocks[1:]:
            result[rows, ...] = rule(rows)
    return on_device_of(result, scores.array) if type(result) is np.ndarray else result


# --- softmax ---------------------------------------------------------------------------------------------------------------


def softmax_of_drops(drops: Array) -> Array:
    """The softmax of each row; 0 for masked classes."""
    weights = namespace(drops).exp(drops)
    return weights / row_sum(weights)


def log_softmax_of_drops(drops: Array) -> Array:
    """The logarithm of each row's softmax, accurate even if the softmax rounds to 0 or 1; -inf for masked classes."""
    xp = namespace(drops)
    return drops - xp.log(row_sum(xp.exp(drops)))


def log_softmax(logits: Array) -> Array:
    """The logarithm of the softmax of each row of logits; -inf for masked classes."""
    return log_softmax_of_drops(logits - row_max(logits))  # the difference is exact, whatever constant a row has


# --- parameters as files describe them: anyone may have written those, so every value is checked ---------------------------

_LISTS = (list, tuple, np.ndarray)


def numbers(values: Any, name: str) -> HostArray:
    """A list or array of finite numbers, or a list of lists of equal lengths, as a read-only copy in float64."""
    try:
        array = np.asarray(values)
        copied = np.array(array, dtype=np.float64) if array.dtype.kind in "iuf" else np.empty(0)
    except (TypeError, ValueError, OverflowError):
        copied = np.empty(0)
    if not copied.size or not np.isfinite(copied).all():
        raise InputError(name, "hold finite numbers", got=f"{values!r:.60}")
    copied.flags.writeable = False
    return copied


def temperatures(values: Any, name: str = "temperatures") -> HostArray:
    """A flat list of temperatures."""
    checked = numbers(values, name)
    if checked.ndim != 1:
        raise InputError(name, "be a flat list", got=f"shape {checked.shape}")
    for value in checked.tolist():
        temperature(value, name)
    return checked


def group_names(values: Any) -> tuple[Any, ...]:
    """The names of groups: text or numbers, each once."""
    names = tuple(values.tolist() if isinstance(values, np.ndarray) else values) if isinstance(values, _LISTS) else ()
    if not names or not all(isinstance(name, str) or (isinstance(name, int | float) and abs(name) < inf) for name in names):
        raise InputError("groups", "be a list of text or numbers", got=f"{values!r:.60}")
    if len(set(names)) < len(names):
        raise InputError("groups", "name each group once", got=f"{values!r:.60}")
    return names
