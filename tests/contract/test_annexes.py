"""Annexes answer for their kinds of data: nothing outside asks what kind it has, and arrays in memory need none of them."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import nishimori
from nishimori._rows.entry import ANNEXES

ROOT = Path(nishimori.__file__).parent
FOLDERS = ("_files", "_dask", "_top_k", "_sketch")


def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def modules(*, inside):
    """The modules of the annexes, or all others."""
    for path in sorted(ROOT.rglob("*.py")):
        if (path.relative_to(ROOT).parts[0] in FOLDERS) is inside:
            yield path.relative_to(ROOT).as_posix(), tree_of(path)


def annex_classes():
    """The classes of the annexes, and what those that say so are called."""
    names, kinds = set(), set()
    for _, tree in modules(inside=True):
        for node in ast.walk(tree):
            if not isinstance(node, ast.ClassDef):
                continue
            names.add(node.name)
            for line in node.body:
                targets = line.targets if isinstance(line, ast.Assign) else [getattr(line, "target", None)]
                if any(isinstance(target, ast.Name) and target.id == "kind" for target in targets):
                    kinds.add(line.value.value)
    return names, kinds


def names_in(node):
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)} | {
        part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)
    }


def questions_about_kinds(tree, classes, kinds):
    """The lines that ask whether something is of an annex's class, or is called like one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass"):
            if names_in(node.args[1]) & classes:
                yield node.lineno
        elif isinstance(node, ast.Compare):
            sides = [part for side in (node.left, *node.comparators) for part in ast.walk(side)]
            texts = {part.value for part in sides if isinstance(part, ast.Constant) and isinstance(part.value, str)}
            types = any(isinstance(part, ast.Name) and part.id == "type" for part in sides)
            if texts & kinds or (types and names_in(node) & classes):
                yield node.lineno
        elif isinstance(node, ast.MatchClass) and names_in(node.cls) & classes:
            yield node.lineno


CLASSES, KINDS = annex_classes()


def test_the_classes_of_the_annexes_are_those_that_people_meet():
    assert {"Sketch", "TopK", "TopKRows", "DaskRows", "FileRows"} <= CLASSES
    assert {"Sketch", "TopK"} == KINDS


def test_nothing_outside_an_annex_asks_about_its_kind():
    asking = {name: lines for name, tree in modules(inside=False) if (lines := [*questions_about_kinds(tree, CLASSES, KINDS)])}
    assert asking == {}


@pytest.mark.parametrize(
    "code",
    [
        "isinstance(data, Sketch)",
        "isinstance(data, (Rows, sketch.Sketch))",
        "isinstance(data, ArrayRows | TopKRows)",
        "issubclass(kind, DaskRows)",
        "type(data) is FileRows",
        "data.kind == 'TopK'",
        "'Sketch' != getattr(data, 'kind', None)",
        "data.kind in ('Sketch', 'TopK')",
        "match data:\n    case Sketch():\n        pass",
    ],
)
def test_a_question_about_a_kind_is_noticed(code):
    assert len([*questions_about_kinds(ast.parse(code), CLASSES, KINDS)]) == 1


def test_each_annex_in_the_table_is_a_folder_of_annexes():
    assert {path.split(".")[1] for path in ANNEXES.values()} <= set(FOLDERS)


@pytest.mark.parametrize(
    "call",
    [
        "nishimori.temperatures(logits, labels)",
        "nishimori.evaluate(logits, labels)",
        "nishimori.ExpectationConsistency().fit(logits, labels).predict_proba(logits)",
    ],
)
def test_arrays_in_memory_import_no_annex(call):
    code = (
        "import sys, numpy, nishimori\n"
        "rng = numpy.random.default_rng(0)\n"
        "logits = rng.normal(size=(200, 3))\n"
        "labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)\n"
        f"{call}\n"
        f"folders = {FOLDERS!r}\n"
        "print([name for name in sys.modules if name.startswith('nishimori.') and name.split('.')[1] in folders])\n"
    )
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert output.strip() == "[]"
