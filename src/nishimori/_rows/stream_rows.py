"""Batches that somebody else makes: by a loader, or by a function that starts again each time it is called."""

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from inspect import signature
from typing import Any

from nishimori._rows.array_rows import ArrayRows
from nishimori._rows.options import ReadOptions
from nishimori._rows.pieces import Pieces
from nishimori._support import arrays
from nishimori.errors import InputError, NoRowsError

WHAT_A_BATCH_IS = "a tuple (logits, labels) or (logits, labels, sample_weight)"


@dataclass(frozen=True)
class _Numbered:
    number: int
    batch: Any


class StreamRows(Pieces[_Numbered]):
    """The batches of an iterable that can be iterated again, or of a function that returns a new iterable."""

    remedy = (
        "Use fixed transforms and put networks in eval mode; or compute the logits once, as `nishimori.torch.collect(model, "
        "loader)` does, and pass these arrays."
    )

    def __init__(
        self,
        batches: Iterable[Any] | Callable[[], Iterable[Any]],
        meaning: ReadOptions,
        *,
        progress: bool | None = None,
        read_ahead: bool = False,
    ) -> None:
        super().__init__(meaning, progress=progress, read_ahead=read_ahead)
        self._batches = factory(batches, meaning.names[0])

    def read(self) -> Generator[_Numbered, None, None]:
        """The batches as they come, with their numbers."""
        batches = iter(self._batches())
        try:
            for number, batch in enumerate(batches):
                yield _Numbered(number, batch)
        finally:
            close = getattr(batches, "close", None)  # a generator may hold files open
            if close is not None:
                close()

    def rows(self, piece: _Numbered) -> ArrayRows | None:
        """The rows of one batch; None if it is empty."""
        batch = piece.batch
        if not isinstance(batch, tuple | list) or not 2 <= len(batch) <= 3:
            raise InputError("each batch", f"be {WHAT_A_BATCH_IS}", got=_description(batch))
        array, labels, weights = (*batch, None)[:3]
        shape = tuple(getattr(array, "shape", (1,)))
        if 0 in (shape[:-1] or shape):
            return None
        return self.meaning.rows(array, labels, weights, n_classes=self._n_classes)

    def place(self, error: InputError, piece: _Numbered) -> InputError:
        """The error with the number of the batch; both batches and the rows of each count from 0."""
        return in_batch(piece.number, error)

    def nothing(self) -> InputError:
        """There was no batch, or only empty ones."""
        return NoRowsError(self.meaning.names[0], "yield at least one batch with rows", got="none")


def in_batch(number: int, error: InputError) -> InputError:
    """An error that names the batch, from 0."""
    return error.changed(where=f"Batch {number}")


def factory(batches: Any, name: str) -> Callable[[], Iterable[Any]]:
    """A function that starts a new reading."""
    if isinstance(batches, Iterator):
        raise InputError(
            name,
            "be readable more than once",
            got=f"a {type(batches).__name__}, which is used up after one reading",
            remedy="Pass a function that makes a new one, such as `lambda: batches()`.",
        )
    if isinstance(batches, Iterable):
        return lambda: batches
    if not callable(batches):
        raise InputError(
            name,
            "be an iterable of batches or a function that returns one",
            got=f"a {type(batches).__name__}",
            remedy=f"Each batch is {WHAT_A_BATCH_IS}.",
        )
    _refuse_arguments(batches, name)
    return lambda: _iterable(batches(), name)


def _refuse_arguments(make: Callable[..., Any], name: str) -> None:
    try:
        needed = [each.name for each in signature(make).parameters.values() if each.default is each.empty and _is_plain(each)]
    except (TypeError, ValueError):  # some callables written in C have no signature
        return
    if needed:
        raise InputError(
            name,
            "be an array of scores or a function without arguments that returns batches",
            got=f"{getattr(make, '__name__', type(make).__name__)!r}, which needs {', '.join(needed)}",
        )


def _is_plain(parameter: Any) -> bool:
    return parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)


def _iterable(made: Any, name: str) -> Iterable[Any]:
    if not isinstance(made, Iterable):
        raise InputError(
            name,
            "return an iterable of batches where it is a function",
            got=f"a {type(made).__name__}",
            remedy=f"Each batch is {WHAT_A_BATCH_IS}.",
        )
    return made


def _description(batch: Any) -> str:
    if isinstance(batch, tuple | list):
        return f"a {type(batch).__name__} of {len(batch)}"
    if arrays.is_array(batch):
        return f"an array of shape {tuple(batch.shape)} without labels"
    return f"a {type(batch).__name__}"
