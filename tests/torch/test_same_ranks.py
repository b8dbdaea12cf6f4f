"""Two processes with different weights are refused, and those with the same rows are warned."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

JOB = Path(__file__).parents[1] / "helpers" / "same_ranks_job.py"


def run(folder, kind):
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    jobs = [
        subprocess.Popen([sys.executable, str(JOB), str(rank), str(folder), kind], env=environment, stderr=subprocess.PIPE)
        for rank in range(2)
    ]
    try:
        notes = [job.communicate(timeout=200)[1] for job in jobs]
    finally:
        for job in jobs:
            job.kill()
    assert [job.returncode for job in jobs] == [0, 0], notes
    return [json.loads((folder / f"{kind}{rank}.json").read_text(encoding="utf-8")) for rank in range(2)]


@pytest.mark.parametrize("kind", ["apart", "weights", "rows", "sketches"])
def test_ranks_differ_in_their_rows_and_in_nothing_else(tmp_path, kind):
    first, second = run(tmp_path, kind)
    assert first == second
    same = [text for text in first["warnings"] if "have read the same rows" in text]
    if kind == "weights":
        assert "All ranks must have the same weights of the network, got others on rank 1 than on rank 0" in first["error"]
    elif kind == "apart":
        assert same == []
        assert first["T"] == pytest.approx(2, rel=0.2)
    else:
        assert len(same) == 1
        assert "Ranks 0 and 1" in same[0]
        assert first["T"] is not None
