"""Every block of the README runs and prints what it shows, from the wheel in an empty environment if it needs no extra."""

import json
import subprocess
import sys
import venv
from importlib.metadata import distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
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


def link_dependencies(site: Path) -> None:
    """Give an environment what the packages in it declare as dependencies, as links to what is installed for the tests.

    To install NumPy, SciPy and scikit-learn once more would take longer than all blocks.
    """
    waiting, seen = [each.metadata["Name"] for each in distributions(path=[str(site)])], set()
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name in seen:
            continue
        seen.add(name)
        (found,) = list(distributions(name=name, path=[str(site)])) or [distribution(name)]
        for file in found.files:
            top = file.parts[0]
            if top not in ("..", "__pycache__") and not (site / top).exists():
                (site / top).symlink_to(found.locate_file(top))
        needed = [Requirement(each) for each in found.requires or []]
        waiting += [each.name for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]


def pip(python: Path, *words: str) -> str:
    """What pip of the tests prints about the environment of another Python, which needs none of its own."""
    line = [sys.executable, "-m", "pip", "--python", str(python), *words]
    done = subprocess.run(line, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The Python of an environment with the wheel and its dependencies alone."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "empty")
    python = folder / "empty" / "bin" / "python"
    pip(python, "install", "--quiet", "--no-compile", "--no-deps", str(wheel))
    (site,) = (folder / "empty").glob("lib/python*/site-packages")
    link_dependencies(site)
    return python


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
