import runpy
import subprocess
import sys

import numpy as np
import pytest
from example_runs import EXAMPLES, ExampleRuns, missing

import nishimori

# Engines that report their own start on standard error.
TALKATIVE = ("map_reduce_ray", "map_reduce_spark")


@pytest.fixture(scope="module")
def runs():
    with ExampleRuns() as running:
        yield running


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs_and_writes_nothing_to_standard_error(path, runs):
    source = path.read_text(encoding="utf-8")
    absent = missing(source)
    if absent:
        pytest.skip(f"{', '.join(absent)} not installed")
    found = runs.outcome(path)
    assert found.code == 0
    assert found.output
    assert found.error == "" or path.stem in TALKATIVE
    assert found.pictures == ([f"{path.stem}.png"] if "savefig" in source else [])


def test_an_example_that_fails_is_not_kept(tmp_path):
    script = tmp_path / "broken.py"
    script.write_text("raise ValueError('no')", encoding="utf-8")
    with ExampleRuns(tmp_path / "kept") as running:
        running._runner = RunnerThatFails()
        with pytest.raises(AssertionError, match=r"^broken.py ended with the exit code 1:\nno$"):
            running.outcome(script)
        assert not running.folder(script).exists()


class RunnerThatFails:
    def run(self, line, folder):
        return 1, "", "no"


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
    monkeypatch.setattr("example_runs.find_spec", lambda name: None)
    assert missing("import torch.nn as nn\nfrom torch import nn") == ["torch"]
    assert missing("from transformers import Trainer") == ["accelerate", "transformers"]
    assert missing("import ray\nimport pandas as pd") == ["pandas", "pyarrow", "ray"]
    assert missing("def f():\n    import lightning") == ["lightning"]
    assert missing("from nishimori import data, plot") == ["matplotlib"]
    assert missing("import numpy, sklearn, nishimorri\nfrom nishimori.torch import calibrate") == []
