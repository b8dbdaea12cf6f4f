"""Files that once went wrong, one claim each; the cases are in named_cases.py."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz.named_cases import NAMED

RUN = Path(__file__).parents[1] / "helpers" / "fuzz" / "run.py"


@pytest.fixture(scope="module")
def faults():
    """What went wrong in each case; all of them run in one process, which forks a child for each."""
    for module in ("pyarrow", "safetensors", "torch"):
        pytest.importorskip(module)
    ended = subprocess.run([sys.executable, str(RUN), "--named", "--json"], capture_output=True, text=True, check=False)
    assert ended.returncode in (0, 1), ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.parametrize("claim", NAMED)
def test(faults, claim):
    assert faults[claim] == []
