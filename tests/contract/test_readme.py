"""Every block of the README runs and prints what it shows, from the wheel in an empty environment if it needs no extra."""

import json
import re
import subprocess
import sys
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path
from urllib.parse import urljoin

import pytest
from readme import README, Runner, assert_alike, blocks
from wheels import LIBRARY, PAPER, built, environment, pip

MINIMUM = tomllib.loads((LIBRARY / "pyproject.toml").read_text(encoding="utf-8"))["project"]["requires-python"].removeprefix(
    ">="
)
# Where the repository's host shows files, and where it gives them as they are.
PAGES = "https://github.com/nishimori-project/nishimori/blob"
PICTURES = "https://raw.githubusercontent.com/nishimori-project/nishimori"


def test_the_readme_has_blocks_of_every_kind():
    kinds = [(block.language, block.extra) for block in blocks()]
    assert kinds.count(("console", None)) >= 3
    assert kinds.count(("python", None)) >= 3
    assert {extra for _, extra in kinds} == {None, "report", "torch"}


def links(text):
    """Where the links and pictures of a page lead, without anchors; code is not looked at."""
    prose = re.sub(r"^```.*?^```$|`[^`]*`", "", text, flags=re.MULTILINE | re.DOTALL)
    return [target.partition("#")[0] for target in re.findall(r"\]\(([^)]+)\)", prose)]


@pytest.mark.parametrize(("page", "least"), [(README, 15), (PAPER / "README.md", 3)], ids=["library", "paper"])
def test_links_to_files_of_the_repository_are_relative_and_the_files_exist(page, least):
    """A clone, and any host of the repository, shows them."""
    targets = links(page.read_text(encoding="utf-8"))
    ours = [target for target in targets if not target.startswith("https://")]
    assert len(ours) >= least
    assert [target for target in ours if not (page.parent / target).is_file()] == []
    assert [target for target in targets if "nishimori-project" in target] == []


@pytest.mark.wheel
@pytest.mark.parametrize(("project", "home"), [(LIBRARY, "main/"), (PAPER, "main/paper/")], ids=["library", "paper"])
def test_links_in_the_metadata_of_a_wheel_are_absolute_and_lead_to_the_same_files(project, home, tmp_path):
    """PyPI shows them, where relative links lead nowhere."""
    with zipfile.ZipFile(built(project, tmp_path)) as archive:
        (about,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = message_from_bytes(archive.read(about))
    assert metadata["Description-Content-Type"] == "text/markdown"
    found = links(metadata.get_payload(decode=True).decode())
    named = links((project / "README.md").read_text(encoding="utf-8"))
    for absolute, relative in zip(found, named, strict=True):
        files = PICTURES if relative.endswith(".png") else PAGES
        assert absolute == urljoin(f"{files}/{home}", relative)


def test_the_first_screen_has_the_commands_that_set_up_and_run_the_demo_and_the_tests():
    first = README.read_text(encoding="utf-8").partition("![")[0]
    targets = re.findall(r"^make ([a-z]+) +# ", first, re.MULTILINE)
    assert targets == ["demo", "test"]
    rules = (LIBRARY / "Makefile").read_text(encoding="utf-8")
    assert all(re.search(rf"^{target}: .*installed.*## Set up, then", rules, re.MULTILINE) for target in targets)
    assert f"Python {MINIMUM} or newer" in first


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
