"""All methods in one table: what each does, and what it needs."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nishimori._calibrators.calibrator import Calibrator
from nishimori._calibrators.methods import class_of, target_of
from nishimori._calibrators.one_temperature import Matched
from nishimori._methods import registry
from nishimori._methods.fitted_method import own_parameters
from nishimori._methods.traits import Traits
from nishimori._sums.observables import Observable
from nishimori._support.display import Display, Displayed
from nishimori._support.optional import require
from nishimori._support.tables import Tabular
from nishimori.errors import InputError

# The columns of the table that say yes or no, by the names of the traits.
_HEADERS = {
    "keeps_predictions": "keeps predictions",
    "streams": "streams",
    "from_sketch": "from a sketch",
    "error_bars": "error bars",
}

_MATCHED = "Divide logits by the temperature at which this observable has the same mean under model and labels."


@dataclass(frozen=True)
class Method:
    """One method, as it is known before it is fitted.

    Attributes
    ----------
    name : str
        What `nishimori.calibrator` and the shell's ``--method`` call it.
    class_name : str or None
        The class of the calibrator, or that of an observable; None if it cannot be imported.
    description : str
        The first line of the docstring of that class.
    traits : Traits or None
        What it does and needs with its default parameters; None if its author does not say.
    parameters : tuple of str
        The parameters of the method, besides ``input``, ``classes`` and ``floor``.
    why : str or None
        Why the method cannot be used, as where its package cannot be imported.
    """

    name: str
    class_name: str | None
    description: str
    traits: Traits | None
    parameters: tuple[str, ...] = ()
    why: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Everything in one flat dictionary; what is not known is None."""
        names = (*_HEADERS, "n_classes")
        traits = dict.fromkeys(names) if self.traits is None else asdict(self.traits)
        return {
            "name": self.name,
            "class": self.class_name,
            **traits,
            "parameters": list(self.parameters),
            "description": self.description,
            "why": self.why,
        }


class UnknownMethodError(InputError, KeyError):
    """There is no method of this name."""

    __str__ = InputError.__str__  # without the quotes that `KeyError` puts around its text


class MethodTable(Mapping[str, Method], Displayed):
    """All methods by name, and what they do and need. ``print`` shows a table.

    Built-in methods come first, then those that were registered, then those of installed packages.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)

    def __getitem__(self, name: str) -> Method:
        if name not in self._names:
            raise UnknownMethodError(f"The method must be one of {', '.join(self._names)}, got {name!r}.")
        return _method(name)

    def __contains__(self, name: object) -> bool:  # without an import of the method
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"MethodTable({', '.join(self._names)})"

    @property
    def table(self) -> Tabular:
        """The table as it is shown."""
        return Tabular(
            ("method", "class", *_HEADERS.values(), "classes", "what it does"), [_row(each) for each in self.values()]
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain texts, lists and dictionaries."""
        return {"methods": [each.to_dict() for each in self.values()]}

    def to_json(self) -> str:
        """The table of methods as one line of JSON."""
        return json.dumps(self.to_dict(), allow_nan=False)

    def to_pandas(self) -> Any:
        """A data frame with one row per method."""
        pandas = require("pandas", extra="tables", for_="MethodTable.to_pandas")
        return pandas.DataFrame([each.to_dict() for each in self.values()]).set_index("name")

    @property
    def _display(self) -> Display:
        return Display("", (self.table,))

    def to_markdown(self) -> str:
        """The table of methods as Markdown."""
        return self.table.markdown()

    def to_latex(self) -> str:
        """The table of methods as LaTeX, with the rules of the package booktabs."""
        return self.table.latex()


def methods() -> MethodTable:
    """The names of all methods, and what each does and needs: whether it keeps predictions, reads data in blocks, and so on.

    What is said is about the default parameters. Methods are built in, registered in this process, or found through the entry
    points of installed packages; one whose package cannot be imported is listed with the reason.

    Returns
    -------
    MethodTable
        A mapping from names to methods. ``print`` shows it as a table.

    Examples
    --------
    >>> import nishimori
    >>> table = nishimori.methods()
    >>> table["matrix"].traits.keeps_predictions
    False
    >>> [name for name, method in table.items() if method.traits.from_sketch][:4]
    ['ec', 'ts', 'adaptive', 'none']
    """
    return MethodTable(registry.names())


def _method(name: str) -> Method:
    try:
        target = target_of(name)
    except InputError as error:
        return Method(name, None, "", None, why=str(error))
    kind = class_of(target)
    traits = kind.traits if issubclass(kind, Calibrator) else Matched.traits
    return Method(name, kind.__name__, _description(kind), traits, own_parameters(target))


def _description(kind: type[Calibrator | Observable]) -> str:
    """The first line of the docstring of a method; a default text for an observable without one."""
    if lines := (kind.__doc__ or "").strip().splitlines():
        return lines[0].strip()
    return _MATCHED if issubclass(kind, Observable) else ""


def _row(method: Method) -> tuple[str, ...]:
    traits = method.traits
    if traits is None:
        known = ["unknown"] * (len(_HEADERS) + 1)
    else:
        known = ["yes" if getattr(traits, name) else "no" for name in _HEADERS] + [traits.n_classes]
    return (method.name, method.class_name or "unknown", *known, method.description if method.why is None else method.why)
