"""`question`: a function of rows that sketches and top-k lists implement in their own modules.

Most of what is asked of data (a search, scorecards, a bootstrap) is answered from rows, whatever holds them: that answer is the
function itself. A kind of data without rows to read, such as a `Sketch`, names its folder in `annex`. What it can answer is in
the module of that folder that is called like the stage that asks, and is imported when it is first asked: what `_fit` asks is
answered in ``_sketch/fit.py``. What it cannot answer is refused here, in one sentence.

`functools.singledispatch` does the dispatching. Methods of a common interface were tried too: `Rows` would then have named what
later stages ask, and each answer would have needed an import inside a method.
"""

from collections.abc import Callable
from functools import singledispatch, update_wrapper
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Concatenate, Generic, NoReturn, ParamSpec, TypeVar

from nishimori.errors import InputError

P = ParamSpec("P")
A = TypeVar("A")


class Question(Generic[P, A]):
    """A function of data whose body handles rows; see `question`."""

    def __init__(self, of_rows: Callable[Concatenate[Any, P], A], what: str) -> None:
        update_wrapper(self, of_rows)
        self.of_rows = of_rows  # for kinds whose answers to what it asks in turn are enough
        self._answers = singledispatch(self._refuse)
        self._refusal = what
        self._stage = of_rows.__module__.split(".")[1].lstrip("_")

    def __call__(self, data: Any, /, *args: P.args, **options: P.kwargs) -> A:
        annex = getattr(type(data), "annex", None)
        return (self.of_rows if annex is None else self._in_annex(annex, data))(data, *args, **options)

    def _in_annex(self, annex: str, data: Any) -> Callable[Concatenate[Any, P], A]:
        """The implementation for a kind of data; without one, the call is refused."""
        module = f"{annex}.{self._stage}"
        if find_spec(module) is not None:
            import_module(module)
        return self._answers.dispatch(type(data))

    def _refuse(self, data: Any, *args: P.args, **options: P.kwargs) -> NoReturn:  # noqa: ARG002 - whatever was asked
        raise refusal_of(data, self._refusal)

    def __reduce__(self) -> str:
        return self.__qualname__  # type: ignore[attr-defined]  # by name, as functions are pickled

    def register(self, kind: type) -> Callable[[Callable[Concatenate[Any, P], A]], Callable[Concatenate[Any, P], A]]:
        """Decorate the function that handles data of the class ``kind``."""
        return self._answers.register(kind)  # type: ignore[return-value]  # the default never returns


def refusal_of(data: Any, what: str) -> InputError:
    """The sentence with which a kind of data refuses; ``what`` follows its name: "has no rows to resample"."""
    return InputError(f"A {data.kind} {what}. Pass logits and labels instead.")


def question(what: str) -> Callable[[Callable[Concatenate[Any, P], A]], Question[P, A]]:
    """Decorate a function of rows that other kinds of data implement in their own way, or refuse.

    ``what`` ends the refusal, which begins with the kind: "has no rows to resample".
    """
    return lambda of_rows: Question(of_rows, what)
