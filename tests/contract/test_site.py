"""The documentation site: what its tabs hold, and that its reference has every public name."""

import ast
import re
from pathlib import Path
from types import ModuleType

import pytest

import nishimori
from nishimori import calibrators, errors, multilabel, results
from nishimori._evaluation.metrics import table
from nishimori.integrations import lm_eval

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TABS = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
MODULES = ("data", "maps", "metrics", "plot", "sequences", "testing", "torch")
MODULES += ("integrations.lightning", "integrations.torchmetrics", "integrations.transformers")

# Names of the same thing in two places; the reference has the shorter one, or that among the results.
ALIASES = {"maps.Map", "metrics.Decomposition", "metrics.Reliability"}


def test_there_are_five_tabs_with_at_most_eight_entries():
    assert [title for tab in TABS for title in tab] == ["Tutorials", "How-to", "Explanation", "Reference", "Paper"]
    for tab in TABS:
        for entries in tab.values():
            assert 1 <= len(entries) <= 8
    (reference,) = (tab["Reference"] for tab in TABS if "Reference" in tab)
    (api,) = (entry["API"] for entry in reference if "API" in entry)
    assert len(api) <= 8


def listed(module):
    """The names in ``__all__`` of a module, without importing what it needs; names from tables are left out."""
    path = module.replace(".", "/")
    places = (ROOT / "src/nishimori" / name for name in (f"{path}.py", f"{path}/__init__.py"))
    tree = ast.parse(next(place for place in places if place.exists()).read_text(encoding="utf-8"))
    (names,) = (node.value for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "__all__")
    return [each.value for each in names.elts if isinstance(each, ast.Constant)]


def public():
    """Each public name, as people write it after "nishimori."."""
    raised = [name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)]
    names = {name for name in nishimori.__all__ if not isinstance(getattr(nishimori, name), ModuleType)}
    names |= {f"calibrators.{name}" for name in set(calibrators.__all__) - names}
    names |= {f"multilabel.{name}" for name in multilabel.__all__}
    names |= {f"{module}.{name}" for module in MODULES for name in listed(module)}
    names |= {f"integrations.lm_eval.{name}" for name in lm_eval.__all__}
    names |= {f"metrics.{name}" for name in table.built_in()}
    names |= {f"results.{name}" for name in results.__all__}
    return (names | {f"errors.{name}" for name in raised}) - ALIASES


def test_the_reference_has_every_public_name_once():
    pages = sorted((DOCS / "api").glob("*.md"))
    described = [
        name for page in pages for name in re.findall(r"^::: nishimori\.(\S+)$", page.read_text("utf-8"), re.MULTILINE)
    ]
    assert sorted(described) == sorted(public())


# Tables, lists and definitions to look things up in; nobody reads them from the first line to the last.
LOOKED_UP = {"command_line", "glossary", "metrics", "references"}


def words_shown(text):
    """How many words there are to read, in neither code nor tables."""
    text = re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return len(" ".join(line for line in text.splitlines() if not line.startswith("|")).split())


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_a_page_is_short_enough_to_be_read(page):
    if page.stem not in LOOKED_UP:
        assert words_shown(page.read_text(encoding="utf-8")) <= 2_400


def test_words_are_counted_outside_code_and_tables():
    tab = '=== "four"\n\n    ```python\n    x = 1\n    ```\n'
    assert words_shown(f"# one two\n\n```python\nx = 1\n```\n\n| a | b |\n\n{tab}") == 5
