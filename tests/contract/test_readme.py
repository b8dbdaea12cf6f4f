"""Every block of the README runs and prints what it shows, from the wheel in an empty environment if it needs no extra."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from readme import README, Runner, assert_alike, blocks
from wheels import LIBRARY, built, environment, pip

HOME = r"https://(?:github|raw\.githubusercontent)\.com"


def test_the_readme_has_blocks_of_every_kind():
    kinds = [(block.language, block.extra) for block in blocks()]
    assert kinds.count(("console", None)) >= 3
    assert kinds.count(("python", None)) >= 3
    assert {extra for _, extra in kinds} == {None, "report", "torch"}


def test_links_and_pictures_of_the_readme_are_absolute_and_name_files_of_the_repository():
    """It is shown on PyPI too, where relative links lead nowhere."""
    targets = re.findall(r"\]\(([^)]+)\)", README.read_text(encoding="utf-8"))
    ours = [re.match(f"{HOME}/nishimori-project/nishimori/(?:blob/)?main/([^#]+)", target) for target in targets]
    assert all(target.startswith("https://") for target in targets)
    paths = [found[1] for found in ours if found]
    assert len(paths) > 10
    assert [path for path in paths if not (README.parent / path).exists()] == []


@pytest.mark.parametrize("printed", ["T = 1.614 in 3 passes", "T = 1.612 in 3 passes"])
def test_a_number_may_differ_by_one_in_its_last_digit(printed):
    assert_alike(printed, "T = 1.613 in 3 passes")


@pytest.mark.parametrize("printed", ["T = 1.615 in 3 passes", "U = 1.613 in 3 passes", "T = 1.613 in 4 passes"])
def test_another_word_or_number_or_count_is_noticed(printed):
    with pytest.raises(AssertionError):
        assert_alike(printed, "T = 1.613 in 3 passes")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The Python of an environment with the library's wheel and its dependencies alone."""
    folder = tmp_path_factory.mktemp("wheel")
    return environment(folder / "empty", built(LIBRARY, folder))


@pytest.fixture(scope="module")
def used(tmp_path_factory, installed):
    """The folder of a user who has run all blocks that need no extra: others need the files that those write."""
    folder = tmp_path_factory.mktemp("user")
    with Runner(installed, home=folder, OMP_NUM_THREADS="1") as runner:
        runner.check([block for block in blocks() if block.extra is None], folder)
    return folder


@pytest.mark.wheel
def test_the_wheel_declares_what_it_needs_and_nothing_that_is_an_extra(installed):
    pip(installed, "check")  # each dependency is there, in a version that fits
    packages = {each["name"].lower() for each in json.loads(pip(installed, "list", "--format", "json"))}
    assert {"nishimori", "numpy", "scipy", "scikit-learn"} <= packages
    assert not packages & {"torch", "matplotlib", "pandas", "pyarrow", "jax"}


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
    imports = ("nishimori.cli._app", "nishimori.torch", "nishimori._calibrators.methods", "pydantic", "matplotlib.pyplot")
    with Runner(Path(sys.executable), home=used, imports=imports, OMP_NUM_THREADS="1") as runner:
        runner.check([block for block in blocks() if block.extra is not None], used)
