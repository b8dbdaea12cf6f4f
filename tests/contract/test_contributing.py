"""The recipes of CONTRIBUTING.md, followed to the letter in a copy of the library, and the files that pages name."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "CONTRIBUTING.md"

# The file that a block goes to is its first line.
FILES = re.compile(r"^```python\n# ((?:src|tests)/\S+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page_can_be_read_in_a_quarter_of_an_hour():
    assert len(PAGE.read_bytes()) <= 20_000


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The library and what tests import, in another folder."""
    folder = tmp_path_factory.mktemp("copy")
    # With the byte code, which knows its source by time and size: to compile all modules takes longer than the recipes.
    for name in ("src", "tests/helpers"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.pyc.*"))  # which others are writing
    for name in ("pyproject.toml", "conftest.py"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def recipe(title):
    """The files of a recipe by name, and the lines to add to others."""
    section = PAGE.read_text(encoding="utf-8").partition(f"### {title}\n")[2].partition("\n##")[0]
    assert section, f"there is no recipe {title!r}"
    return dict(FILES.findall(section)), section


def run(folder, *words):
    environment = os.environ | {"PYTHONPATH": str(folder / "src"), "OMP_NUM_THREADS": "1", "COLUMNS": "120"}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def follow(folder, files):
    for name, text in files.items():
        path = folder / name
        assert not path.exists(), f"the recipe adds {name}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def test_a_metric_is_one_file(copy):
    files, _ = recipe("A built-in metric in one file")
    assert [name.partition("/")[0] for name in files] == ["src", "tests"]
    follow(copy, files)
    told = run(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(name for name in files))
    assert re.search(r"\b[2-9] passed", told), told
    shown = "import nishimori; "
    shown += "print(nishimori.evaluate([[2., 0.], [0., 1.], [3., 1.]], [0, 0, 0], metrics=['rank_aurc']).rank_aurc)"
    assert float(run(copy, "-c", shown)) == pytest.approx(1 / 3 * (0 + 0 + 1 / 3))
    np.savez(copy / "test.npz", logits=[[2.0, 0.0], [0.0, 1.0], [3.0, 1.0]], labels=[0, 0, 0])
    assert "rankAURC" in run(copy, "-m", "nishimori", "eval", "test.npz", "--metrics", "rank_aurc")


def test_a_calibrator_is_one_file_and_a_line(copy):
    files, section = recipe("A built-in calibrator in one file")
    assert [name.partition("/")[0] for name in files] == ["src", "tests"]
    follow(copy, files)
    table = copy / "src/nishimori/_methods/table.py"
    (line,) = re.findall(r"^# src/nishimori/_methods/table.py, one more line\n(.*\n)```", section, re.MULTILINE)
    text = table.read_text(encoding="utf-8")
    table.write_text(text.replace("METHODS = {\n", f"METHODS = {{\n{line}", 1), encoding="utf-8")
    told = run(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(name for name in files))
    assert re.search(r"\b[3-9] passed", told), told
    rng = np.random.default_rng(0)
    logits = 3 * rng.normal(size=(200, 3))
    np.savez(copy / "val.npz", logits=logits, labels=(logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1))
    assert "least_ece" in run(copy, "-m", "nishimori", "fit", "val.npz", "--method", "least_ece", "-o", "c.json", "--json")
    assert "least_ece  kept         any      one T, at which the ECE is lowest" in run(copy, "-m", "nishimori", "methods")


# Files of the repository in the text of a page: `_folder/file.py` of the library, and those of other folders by their path.
NAMED_FILES = re.compile(r"(?<![\w./*-])((?:_\w+|tests|bench|examples|paper|src|docs)/[\w./-]+\.(?:py|toml|md))\b")
CODE_BLOCKS = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def files_named_in(text):
    return set(NAMED_FILES.findall(CODE_BLOCKS.sub("", text)))


def exists(name):
    roots = (ROOT, ROOT / "src" / "nishimori") if name.startswith("_") else (ROOT,)
    return any((root / name).is_file() for root in roots)


@pytest.mark.parametrize("page", [PAGE, *sorted((ROOT / "docs").glob("*.md"))], ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page):
    named = {each for each in files_named_in(page.read_text(encoding="utf-8")) if "NAME" not in each}
    assert sorted(each for each in named if not exists(each)) == []


def test_a_file_that_does_not_exist_is_noticed():
    text = "See `_sums/nothing.py` and [it](tests/sums/test_nothing.py).\n\n```\nbench/in_a_block.py\n```\n"
    assert files_named_in(text) == {"_sums/nothing.py", "tests/sums/test_nothing.py"}
    assert not any(map(exists, files_named_in(text)))
    assert exists("_sums/census.py")
