"""What the API reference cannot see in the source: options that a decorator adds, and metrics that are made from a table.

An extension of griffe, which reads the source for mkdocstrings without running it.
"""

import inspect
import re
from importlib import import_module
from typing import Any

import griffe

HEADING = re.compile(r"^(\w[\w ]*)\n-+\n", re.MULTILINE)
JOINT = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)+)((?: : .*)?\n(?:(?: .*)?\n?)*)", re.MULTILINE)


class Signatures(griffe.Extension):
    """Signatures and docstrings as ``help`` shows them, with one entry per parameter."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Take what ``takes_rows`` has written, and give each parameter an entry of its own."""
        # The parameters of a class stand in its own docstring, which names `**options` as the source of `__init__` does.
        in_module = func.parent is not None and func.parent.is_module
        if in_module and any("takes_rows" in str(each.value) for each in func.decorators):
            update(func, getattr(import_module(func.module.path), func.name))
        separate(func)

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Give each parameter an entry of its own."""
        separate(cls)

    def on_module(self, *, mod: griffe.Module, **_: Any) -> None:
        """Put the functions that `nishimori.metrics` makes from its table in the place of their annotations."""
        if mod.path != "nishimori.metrics":
            return
        metrics = import_module(mod.path)
        for name in metrics.__all__:
            if not mod.members[name].is_attribute:
                continue
            function = griffe.Function(name, parameters=griffe.Parameters(), returns="float", parent=mod)
            update(function, getattr(metrics, name))
            separate(function)
            mod.set_member(name, function)


def update(function: griffe.Function, known: Any) -> None:
    """Parameters and docstring of the function that is called; annotations stay those of the source."""
    written = {each.name: each for each in function.parameters}
    function.parameters = griffe.Parameters(
        *(
            written[each.name]
            if each.name in written
            else griffe.Parameter(
                each.name,
                kind=griffe.ParameterKind(each.kind.description),
                default=None if each.default is each.empty else repr(each.default),
            )
            for each in inspect.signature(known).parameters.values()
        )
    )
    function.docstring = griffe.Docstring(inspect.getdoc(known) or "", parent=function)


def separate(described: griffe.Function | griffe.Class) -> None:
    """Write ``a, b : int`` as two entries: griffe would give both the type and the default of the first."""
    if described.docstring is None:
        return
    parts = HEADING.split(described.docstring.value)  # text, heading, text, heading, ...
    for heading, at in zip(parts[1::2], range(2, len(parts), 2), strict=True):
        if heading in ("Parameters", "Attributes"):
            entries = JOINT.sub(
                lambda found: "".join(f"{name}{found[2].rstrip()}\n" for name in found[1].split(", ")), parts[at]
            )
            parts[at] = re.sub(r"^\S.* : .*$", lambda found: found[0].replace("`", ""), entries, flags=re.MULTILINE)
    pairs = zip(parts[1::2], parts[2::2], strict=True)
    described.docstring.value = parts[0] + "".join(f"{heading}\n{'-' * len(heading)}\n{text}" for heading, text in pairs)
