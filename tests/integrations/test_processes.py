"""Two real processes that evaluate together report what one process reports of all rows."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from optional import lightning, torch, torchmetrics, transformers
from trainer_values import logged, values_of

JOB = Path(__file__).parents[1] / "helpers" / "trainers_job.py"
LONGEST = 200  # seconds


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """What each of the processes found."""
    for package in (torch, transformers, lightning, torchmetrics):
        package.__version__  # noqa: B018 - skips without it
    folder = tmp_path_factory.mktemp("job")
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        port = str(some.getsockname()[1])
    job = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0"}
    job |= {"TORCHELASTIC_RUN_ID": "job", "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": folder}
    processes = [
        subprocess.Popen(
            [sys.executable, str(JOB), str(folder)], env=os.environ | job | {"RANK": rank, "LOCAL_RANK": rank}, **pipes
        )
        for rank in ("0", "1")
    ]
    try:
        notes = [each.communicate(timeout=LONGEST)[1] for each in processes]
    finally:
        for each in processes:
            each.kill()
    assert [each.returncode for each in processes] == [0, 0], notes
    return [json.loads((folder / f"{rank}.json").read_text(encoding="utf-8")) for rank in range(2)]


@pytest.fixture(scope="module")
def rows():
    from trainers_job import LABELS, LOGITS

    return LOGITS, LABELS


@pytest.mark.parametrize("name", ["callback", "metrics"])
def test_the_trainer_counts_no_sample_twice(ranks, rows, name):
    expected = logged(*rows, "eval")
    for found in ranks:
        values = found["transformers"][name]
        assert {key: values[key] for key in expected} == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", ["callback", "metrics"])
def test_what_is_wrong_on_one_process_all_processes_warn_of(ranks, name):
    for found in ranks:
        (message,) = found["spoilt"][f"{name}_warnings"]
        assert "NaN" in message
        assert "eval_ece" not in found["spoilt"][name]
        assert "eval_loss" in found["spoilt"][name]


@pytest.mark.parametrize("name", ["some", "one"])
def test_the_metric_adds_the_states_of_all_processes(ranks, rows, name):
    for found in ranks:
        assert found["torchmetrics"][name] == pytest.approx(values_of(*rows), rel=1e-5)
        assert found["torchmetrics"][f"{name}_all"] == len(rows[1])
    assert sum(found["torchmetrics"][f"{name}_own"] for found in ranks) == len(rows[1])


def test_lightning_logs_the_values_of_all_processes(ranks, rows):
    logits, labels = (np.concatenate([each, each[:1]]) for each in rows)  # its sampler repeats the first one
    expected = logged(logits, labels, "val")
    for found in ranks:
        assert {key: found["lightning"][key] for key in expected} == pytest.approx(expected, rel=1e-5)
