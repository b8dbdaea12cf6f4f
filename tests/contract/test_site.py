"""The documentation site: what its tabs hold, and that its reference has every public name."""

import ast
import importlib
import re
from pathlib import Path

import pytest

import nishimori

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TABS = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
MODULES = ("data", "maps", "metrics", "plot", "report", "results", "sequences", "testing", "theory")


def named(page):
    """The names that a page of the reference describes."""
    return re.findall(r"^::: nishimori\.(\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)


def test_there_are_five_tabs_with_at_most_eight_entries():
    assert [title for tab in TABS for title in tab] == ["Tutorials", "How-to", "Explanation", "Reference", "Paper"]
    for tab in TABS:
        for entries in tab.values():
            assert 1 <= len(entries) <= 8
    (reference,) = (tab["Reference"] for tab in TABS if "Reference" in tab)
    (api,) = (entry["API"] for entry in reference if "API" in entry)
    assert len(api) <= 8


def public():
    """Each public name, as people write it after "nishimori."."""
    modules = {"": nishimori, **{f"{name}.": importlib.import_module(f"nishimori.{name}") for name in MODULES}}
    names = {f"{place}{name}": getattr(module, name) for place, module in modules.items() for name in module.__all__}
    errors = {f"errors.{name}": value for name, value in vars(nishimori.errors).items() if isinstance(value, type)}
    raised = {name: value for name, value in errors.items() if issubclass(value, (Exception, Warning))}
    tree = ast.parse((ROOT / "src/nishimori/torch/__init__.py").read_text(encoding="utf-8"))  # importing it takes seconds
    (listed,) = (node.value for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "__all__")
    of_torch = {f"torch.{name}": object() for name in ast.literal_eval(listed)}
    not_described = {"__version__", "errors", "torch", *MODULES}
    return {name: value for name, value in (names | raised | of_torch).items() if name not in not_described}


def test_the_reference_has_every_public_name_once():
    described = [name for page in sorted((DOCS / "api").glob("*.md")) for name in named(page)]
    assert len(described) == len(set(described))
    names = public()
    assert set(described) <= names.keys()
    found = {id(names[name]) for name in described}
    assert [name for name, value in names.items() if id(value) not in found] == []
