import ast
import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from readme import Runner

import nishimori

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))

# What an example may import beyond nishimori's own dependencies, and what that needs to be installed.
OPTIONAL = {
    "torch": ["torch"],
    "lightning": ["lightning"],
    "transformers": ["transformers", "accelerate"],
    "ray": ["ray", "pandas", "pyarrow"],
    "pyspark": ["pyspark", "pandas", "pyarrow"],
}

# Models that are trained for a shorter time here than by default: the tests are about the code, not about the numbers.
SHORTER = {
    "language_model": ["--steps", "20", "--width", "32"],
    "language_model_answers": ["--steps", "40", "--read", "250"],
}

# The same for scripts without options: a number of steps in their text, and the one that replaces it.
FEWER = {
    "torch_causal_lm": ("max_steps=150", "max_steps=5"),
    "torch_lightning": ("max_epochs=200", "max_epochs=10"),
    "torch_transformers": ("num_train_epochs=60", "num_train_epochs=10"),
}

# What the examples import, made once for all of them.
IMPORTS = ("nishimori.torch", "nishimori.theory", "nishimori._calibrators.methods", "nishimori._evaluation.compare")
IMPORTS += ("sklearn.datasets", "sklearn.linear_model", "transformers.trainer")

# Engines that report their own start on standard error.
TALKATIVE = ("map_reduce_ray", "map_reduce_spark")


def missing(source: str) -> list[str]:
    """Optional packages that the source imports and that are not installed."""
    nodes = list(ast.walk(ast.parse(source)))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    packages = {name.partition(".")[0] for name in names}
    needed = {package for name in packages & OPTIONAL.keys() for package in OPTIONAL[name]}
    return sorted(package for package in needed if find_spec(package) is None)


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    """One process whose children run all examples."""
    # Networks as small as these train faster on one core, especially while other tests use the second one.
    home, one_core = tmp_path_factory.mktemp("home"), {"OMP_NUM_THREADS": "1"}
    with Runner(Path(sys.executable), home=home, imports=IMPORTS, **one_core) as running:
        yield running


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs_and_writes_nothing_to_standard_error(path, runner, tmp_path):
    source = path.read_text(encoding="utf-8")
    absent = missing(source)
    if absent:
        pytest.skip(f"{', '.join(absent)} not installed")
    script = path
    if path.stem in FEWER:
        usual, fewer = FEWER[path.stem]
        assert source.count(usual) == 1
        script = tmp_path / path.name
        script.write_text(source.replace(usual, fewer), encoding="utf-8")
    code, output, error = runner.run([sys.executable, str(script), *SHORTER.get(path.stem, [])], tmp_path)
    assert code == 0, error
    assert output
    assert error == "" or path.stem in TALKATIVE


def test_the_pool_prints_the_temperatures_and_standard_errors_of_all_rows(tmp_path):
    rows = EXAMPLES[0].parent / "map_reduce_pool.py"
    draw = runpy.run_path(str(rows))["draw"]
    draw(tmp_path, n_parts=3, n_documents=30)
    parts = [np.load(path) for path in sorted(tmp_path.glob("*.npz"))]
    logits, labels, documents = (np.concatenate([part[name] for part in parts]) for name in ("logits", "labels", "documents"))
    found = nishimori.temperatures(logits, labels, clusters=documents)
    done = subprocess.run([sys.executable, rows, tmp_path], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[0] == "3600 tokens of 90 documents"
    assert lines[1] == f"T of EC {found.ec:.4f} ± {found.ec_se:.4f}, T of TS {found.ts:.4f} ± {found.ts_se:.4f}"
    right = np.mean(logits.argmax(axis=1) == labels)
    assert lines[3].startswith(f"T = {found.ec:.4f}: accuracy {right:.2%}, confidence {right:.2%}, ECE")


def test_an_example_is_skipped_only_if_an_optional_package_is_missing(monkeypatch):
    monkeypatch.setattr(f"{__name__}.find_spec", lambda name: None)
    assert missing("import torch.nn as nn\nfrom torch import nn") == ["torch"]
    assert missing("from transformers import Trainer") == ["accelerate", "transformers"]
    assert missing("import ray\nimport pandas as pd") == ["pandas", "pyarrow", "ray"]
    assert missing("def f():\n    import lightning") == ["lightning"]
    assert missing("import numpy, sklearn, nishimorri\nfrom nishimori.torch import calibrate") == []
