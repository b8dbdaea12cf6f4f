"""Mutated files of every format: read right, or refused in one line. How to run one case again: see run.py."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz.samples import FORMATS

RUN = Path(__file__).parents[1] / "helpers" / "fuzz" / "run.py"
N_CASES = 50  # each mutation of a format takes its turn at least once


def _run(*words):
    """Run cases in a process of their own."""
    words = [sys.executable, str(RUN), "--cases", str(N_CASES), "--json", *words]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode in (0, 1), ended.stderr
    return json.loads(ended.stdout)


@pytest.fixture(scope="module")
def campaign():
    """The cases of all formats."""
    return _run()


def _skip_without_packages(ending):
    for module in FORMATS[ending][0]:
        pytest.importorskip(module)


@pytest.mark.parametrize("ending", FORMATS)
def test_the_shell_reads_this_format(campaign, ending):
    _skip_without_packages(ending)
    assert campaign["tried"].get(ending) == N_CASES


@pytest.mark.parametrize("ending", FORMATS)
def test_a_mutated_file_is_read_right_or_refused_in_one_line(campaign, ending):
    _skip_without_packages(ending)
    assert _faults(campaign, ending) == []


def _faults(campaign, ending):
    found = [each for each in campaign["findings"] if each["ending"] == ending]
    return [f"{each['repeat']}  # {each['mutation']}, {each['command']}: {'; '.join(each['faults'])}" for each in found]
