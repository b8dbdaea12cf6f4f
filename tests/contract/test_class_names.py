"""A class name leads to one class: whoever reads it in a traceback, or searches for it, does not see the module."""

import ast
from collections import defaultdict
from pathlib import Path

import nishimori

ROOT = Path(nishimori.__file__).parent

# Public in two modules, and written with the name of the module: a map or a teacher, a metric or a mean of experiments.
PUBLIC_IN_TWO_MODULES = {"Affine", "Estimate"}


def test_each_class_name_is_defined_once():
    places = defaultdict(list)
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                # Private ones count too: `_Rows` beside `Rows` is still two meanings of one word.
                places[node.name.lstrip("_")].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert len(places) > 300
    assert {name: where for name, where in places.items() if len(where) > 1 and name not in PUBLIC_IN_TWO_MODULES} == {}
