"""``help`` of what people call is complete by itself, and what static tools read of it names the same options."""

import ast
import inspect
import re
from functools import cache
from pathlib import Path

import pytest

import nishimori
from nishimori import calibrators
from nishimori._rows.options import DEFAULTS

MAIN = ("evaluate", "temperatures", "compare", "gate", "group_gaps", "calibration_test")
SOURCE = Path(nishimori.__file__).parent


@cache
def parameters_of(docstring):
    """The texts of the section Parameters by name."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w+\n-{3,}$|\Z)", inspect.cleandoc(docstring), re.MULTILINE | re.DOTALL)[1]
    entries = re.findall(r"^(\S[^\n]*)\n((?:[ ]+[^\n]*\n?)+)", section, re.MULTILINE)
    return {name: text for names, text in entries for name in names.partition(" : ")[0].split(", ")}


@pytest.mark.parametrize("name", MAIN)
def test_help_describes_every_parameter_without_sending_the_reader_elsewhere(name):
    function = getattr(nishimori, name)
    described = parameters_of(function.__doc__)
    assert set(described) == set(inspect.signature(function).parameters)
    assert not [text for text in described.values() if re.match(r"\s*(Validation data, a|A)s for `", text)]
    for section in ("Returns\n-------", "Examples\n--------"):
        assert section in inspect.cleandoc(function.__doc__)


@pytest.mark.parametrize("name", MAIN)
def test_help_says_what_kinds_of_data_are_taken(name):
    text = " ".join(parameters_of(getattr(nishimori, name).__doc__)["logits"].split())
    assert text.startswith("Scores before the softmax, of shape (n_samples, n_classes): an array of NumPy, PyTorch, JAX")
    assert "Or the path of a file, a loader of batches ``(logits, labels)``, or what `rows` returns." in text


CLASSES = [getattr(calibrators, name) for name in sorted(calibrators.__all__) if isinstance(getattr(calibrators, name), type)]
CLASSES = [kind for kind in CLASSES if not inspect.isabstract(kind)]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_the_entry_of_a_calibrator_stands_alone(kind):
    docstring = inspect.cleandoc(kind.__doc__)
    described = parameters_of(docstring)
    assert set(described) == set(inspect.signature(kind).parameters)
    sections = docstring.partition("See Also\n")[0]
    assert not re.search(r"[Aa]s for `|attributes are those of `", sections)
    assert "Attributes\n----------" in docstring
    assert ">>> " in docstring.partition("Examples\n--------")[2]


def test_common_parameters_and_attributes_read_the_same_for_every_calibrator():
    texts = {}
    for kind in CLASSES:
        docstring = inspect.cleandoc(kind.__doc__)
        for name, text in parameters_of(docstring.replace("Attributes\n----------\n", "")).items():
            texts.setdefault(name, {}).setdefault(" ".join(text.split()), []).append(kind.__name__)
    for name in ("classes", "classes_", "n_features_in_", "feature_names_in_"):
        assert len(texts[name]) == 1, texts[name]
    # Those of log-odds, and those that fit nothing, have words of their own.
    assert len(texts["input"]) == 2
    assert len(texts["floor"]) == 2


def static_docstrings():
    """The name and the written docstring of every function whose options are filled in at import."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and any("takes_rows(" in ast.unparse(each) for each in node.decorator_list):
                written = ast.get_docstring(node) or ""
                if "**options" not in written:  # a function whose options another one describes
                    continue
                module = ".".join(("nishimori", *path.relative_to(SOURCE).with_suffix("").parts))
                yield pytest.param(module, node.name, written, id=node.name)


@pytest.mark.parametrize(("module", "name", "written"), [*static_docstrings()])
def test_the_written_docstring_names_the_options_that_the_function_takes(module, name, written):
    function = getattr(pytest.importorskip(module), name)
    taken = [each for each in inspect.signature(function).parameters if each in DEFAULTS]
    assert re.findall(r"``(\w+)``", parameters_of(written)["**options"]) == taken
