"""What the pages about pipelines and about the first five minutes print is what happens."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import shell
from readme import assert_alike, blocks, commands

import nishimori
from nishimori import data

PAGE = Path(__file__).parents[2] / "docs" / "pipelines.md"
FIVE_MINUTES = PAGE.with_name("five_minutes.md")
PYTHON = [block.text for block in blocks(PAGE) if block.language == "python"]


def only(part):
    """The one block that holds a text."""
    (found,) = (text for text in PYTHON if part in text)
    return found


def ran(code, folder, **environment):
    """Run a program in a folder of its own."""
    settings = os.environ | {"HOME": str(folder), "MPLBACKEND": "agg"} | environment
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def needs(*packages):
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} is not installed")


SETUP = only("card = nishimori.evaluate")


def assert_a_report(path):
    """That a page is the report of the program above: its verdict, its slider and its charts are in it."""
    page = path.read_text(encoding="utf-8")
    assert "ResNet-20 on CIFAR-10" in page
    assert "confidence is 6.87 ± 0.32 points above accuracy" in page
    assert page.count('<input type="range"') == 1
    assert page.count("<svg role='img'") == 5


@needs("mlflow", "vl_convert")
def test_mlflow_logs_the_scorecard_the_picture_and_the_report(tmp_path):
    store = {"MLFLOW_TRACKING_URI": (tmp_path / "runs").as_uri(), "MLFLOW_ALLOW_FILE_STORE": "true"}  # as a server would
    ran(SETUP + only("import mlflow"), tmp_path, **store)
    (line,) = next((tmp_path / "runs").rglob("metrics/ece_corrected")).read_text().splitlines()
    assert 0 < float(line.split()[1]) < 0.02
    artifacts = {path.name: path for path in (tmp_path / "runs").rglob("artifacts/*")}
    assert set(artifacts) == {"calibration.png", "report.html"}
    assert_a_report(artifacts["report.html"])


@needs("wandb", "vl_convert")
def test_wandb_logs_the_scorecard_the_picture_and_the_report(tmp_path):
    ran(SETUP + only("import wandb"), tmp_path, WANDB_MODE="offline", WANDB_SILENT="true")
    (log,) = tmp_path.rglob("run-*.wandb")
    assert b"ece_corrected" in log.read_bytes()
    media = {path.suffix: path for path in tmp_path.rglob("files/media/**/*.*")}
    assert set(media) == {".html", ".png"}
    assert_a_report(media[".html"])


@needs("tensorboard", "torch", "vl_convert")
def test_tensorboard_logs_the_scorecard_and_the_picture(tmp_path):
    ran(SETUP + only("SummaryWriter"), tmp_path)
    (log,) = (tmp_path / "runs").iterdir()
    assert b"calibration/ece_corrected" in log.read_bytes()
    assert b"calibration/reliability" in log.read_bytes()


@pytest.mark.parametrize("page", [PAGE, FIVE_MINUTES], ids=lambda page: page.stem)
def test_the_commands_of_a_page_print_what_it_shows(page, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = re.split(r"^```\w*\n", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for block in (each for each in blocks(page) if each.language == "console" or "probabilities.argmax" in each.text):
        (after,) = (following for text, following in zip(shown, shown[2:], strict=False) if text == block.text)
        if block.language == "python":
            exec(block.text, {})
            printed = capsys.readouterr().out
        for line in commands(block):
            code, printed, err = shell.nishimori(line.removeprefix("nishimori "))
            assert code == (4 if "nishimori gate" in line and "inconclusive:" in after else 0), err
        if after.startswith(("T =", "pass:", "inconclusive:", "class ")):
            assert_alike(printed, after)


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(("ended", "code", "line"), [(0, 0, "release"), (3, 1, "keep"), (4, 1, "more"), (1, 2, "the check")])
def test_the_shell_script_takes_each_exit_code_as_it_says_under_bash_e(ended, code, line, tmp_path):
    """As a step of GitHub Actions runs it: with -e and pipefail. A function stands for the gate that ends with a code."""
    (script,) = re.findall(r"^```bash\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    script = f"nishimori() {{ return {ended}; }}\n{script}"
    words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, "")
    assert done.stdout.startswith(line)


def test_the_tests_on_the_page_pass_and_fail_as_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    network = data.load("cifar10/resnet20")
    Path("demo").mkdir()
    np.savez("demo/test.npz", logits=network.test.logits, labels=network.test.labels)
    nishimori.ExpectationConsistency().fit(network.validation.logits, network.validation.labels).save("calibration.json")
    names = {}
    exec(only("def test_the_released_model"), names)
    names["test_the_released_model_is_calibrated"]()
    names["test_no_class_is_off_by_more_than_30_points"]()
    nishimori.from_temperature(1.0).save("calibration.json", overwrite=True)
    with pytest.raises(AssertionError) as raised:
        names["test_the_released_model_is_calibrated"]()
    shown = " ".join(PAGE.read_text(encoding="utf-8").split())  # the page wraps lines
    first, ece, gap = str(raised.value).splitlines()
    assert first == "2 of 2 checks did not pass on 10000 samples."
    assert ece.startswith("fail: ECE exceeds 2 %")
    assert gap in shown
