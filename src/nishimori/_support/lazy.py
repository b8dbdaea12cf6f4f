"""Import a module's names when they are first used; the names are written once, in the module's stub.

Type checkers and editors read the stub anyway. Each of its lines is ``from place import name as name``. This module runs when
nishimori is imported, before the shell can end quietly on Ctrl-C, so it imports next to nothing.
"""

import sys
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def names_in_stub(module: str, file: str) -> "tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]":
    """Make ``__getattr__``, ``__dir__`` and ``__all__`` of a module from its stub, the ``.pyi`` beside ``file``."""
    with open(f"{file.removesuffix('.py')}.pyi", encoding="utf-8") as stub:  # without pathlib, which takes a while to import
        lines = stub.read().splitlines()
    places = {words[3]: words[1] for words in map(str.split, lines) if words[:1] == ["from"]}

    def find(name: str) -> "Any":
        if name not in places:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if places[name] == module:  # a submodule, which importing adds by itself
            return import_module(f"{module}.{name}")
        value = getattr(import_module(places[name]), name)
        setattr(sys.modules[module], name, value)
        return value

    public = sorted(places)
    return find, lambda: public, public
