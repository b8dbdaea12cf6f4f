"""Every block of the README runs and prints what it shows, from the wheel in an empty environment if it needs no extra."""

import subprocess
import sys
import venv
from pathlib import Path

import pytest
from readme import Runner, assert_alike, blocks

ROOT = Path(__file__).parents[2]


def test_the_readme_has_blocks_of_every_kind():
    kinds = [(block.language, block.extra) for block in blocks()]
    assert kinds.count(("console", None)) >= 3
    assert kinds.count(("python", None)) >= 3
    assert {extra for _, extra in kinds} == {None, "plot", "report", "torch"}


@pytest.mark.parametrize("printed", ["T = 1.614 in 3 passes", "T = 1.612 in 3 passes"])
def test_a_number_may_differ_by_one_in_its_last_digit(printed):
    assert_alike(printed, "T = 1.613 in 3 passes")


@pytest.mark.parametrize("printed", ["T = 1.615 in 3 passes", "U = 1.613 in 3 passes", "T = 1.613 in 4 passes"])
def test_another_word_or_number_or_count_is_noticed(printed):
    with pytest.raises(AssertionError):
        assert_alike(printed, "T = 1.613 in 3 passes")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The Python of an empty environment with the wheel alone."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "empty", with_pip=True)
    python = folder / "empty" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-compile", str(wheel)], check=True, capture_output=True)
    return python


@pytest.fixture(scope="module")
def used(tmp_path_factory, installed):
    """The folder of a user who has run all blocks that need no extra: others need the files that those write."""
    folder = tmp_path_factory.mktemp("user")
    with Runner(installed, home=folder) as runner:
        runner.check([block for block in blocks() if block.extra is None], folder)
    return folder


@pytest.mark.wheel
def test_the_wheel_installs_nothing_that_is_an_extra(installed):
    packages = subprocess.run([installed, "-m", "pip", "list"], check=True, capture_output=True, text=True).stdout.lower()
    for extra in ("torch", "matplotlib", "pandas", "pyarrow", "jax"):
        assert extra not in packages


@pytest.mark.wheel
def test_blocks_without_an_extra_run_from_the_wheel_and_print_what_they_show(used):
    assert (used / "nishimori-demo" / "val.npz").exists()


@pytest.mark.wheel
def test_the_demo_says_which_extra_draws_its_picture(installed, used):
    says_how = subprocess.run(
        [installed.parent / "nishimori", "demo", "-o", "again"], cwd=used, capture_output=True, text=True, check=True
    )
    assert "pip install 'nishimori[plot]'" in says_how.stderr
    assert not (used / "again" / "demo.png").exists()


@pytest.mark.wheel
def test_blocks_with_an_extra_run_and_print_what_they_show(used):
    with Runner(Path(sys.executable), home=used, imports=("nishimori.cli", "matplotlib.pyplot", "torch")) as runner:
        runner.check([block for block in blocks() if block.extra is not None], used)
