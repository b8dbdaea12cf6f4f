"""Names of a package that are imported when they are first used, from one table."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def names_of(
    package: str, home: Mapping[str, str], namespace: dict[str, Any]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a module whose names are found where the table says.

    Parameters
    ----------
    package : str
        The module, for messages.
    home : mapping of str to str
        Where each name lives, below the outermost package; a name without a place is a submodule.
    namespace : dict
        The ``globals()`` of the module, which keeps what has been found.
    """
    root = package.partition(".")[0]

    def find(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if not home[name]:
            return import_module(f"{root}.{name}")
        namespace[name] = getattr(import_module(f"{root}.{home[name]}"), name)
        return namespace[name]

    return find, lambda: sorted(namespace["__all__"])
