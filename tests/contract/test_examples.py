import ast
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))

# What an example may import beyond nishimori's own dependencies, and what that needs to be installed.
OPTIONAL = {"torch": ["torch"], "lightning": ["lightning"], "transformers": ["transformers", "accelerate"]}


def missing(source: str) -> list[str]:
    """Optional packages that the source imports and that are not installed."""
    nodes = list(ast.walk(ast.parse(source)))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    packages = {name.partition(".")[0] for name in names}
    needed = {package for name in packages & OPTIONAL.keys() for package in OPTIONAL[name]}
    return sorted(package for package in needed if find_spec(package) is None)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs_and_writes_nothing_to_standard_error(path, tmp_path):
    absent = missing(path.read_text(encoding="utf-8"))
    if absent:
        pytest.skip(f"{', '.join(absent)} not installed")
    # Networks as small as these train faster on one core, especially while other tests use the second one.
    one_core = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, path], cwd=tmp_path, env=one_core, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert done.stderr == ""


def test_an_example_is_skipped_only_if_an_optional_package_is_missing(monkeypatch):
    monkeypatch.setattr(f"{__name__}.find_spec", lambda name: None)
    assert missing("import torch.nn as nn\nfrom torch import nn") == ["torch"]
    assert missing("from transformers import Trainer") == ["accelerate", "transformers"]
    assert missing("def f():\n    import lightning") == ["lightning"]
    assert missing("import numpy, sklearn, nishimorri\nfrom nishimori.torch import calibrate") == []
