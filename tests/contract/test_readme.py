"""Every block of the README runs and prints what the README shows, here and from the wheel in an empty environment.

So does every block of the documentation that shows its output.
"""

import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from readme import Block, blocks, commands

ROOT = Path(__file__).parents[2]


def run_block(block: Block, python: Path, folder: Path) -> str:
    """The standard output of one block, run with the programs in the folder of ``python``."""
    # matplotlib must not look for a display, and rich must draw tables as wide as in the README.
    environment = {"PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}", "MPLBACKEND": "agg", "COLUMNS": "100"}
    environment |= {"HOME": str(folder), "PYTHONUTF8": "1"}
    lines = [[str(python), "-c", block.text]] if block.language == "python" else [line.split() for line in commands(block)]
    output = ""
    for line in lines:
        done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8", check=False)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        output = done.stdout
    return output


NUMBER = r"-?\d+(?:\.\d+)?"


def assert_alike(output: str, shown: str) -> None:
    """The same words and the same numbers, except for one unit in the last digit, because processors round differently.

    Small whole numbers are counts (passes, networks) and must be equal; large ones may come from rounding.
    """
    words = [re.sub(NUMBER + r"|\s+", " ", text).split() for text in (output, shown)]
    assert words[0] == words[1]
    found, expected = (re.findall(NUMBER, text) for text in (output, shown))
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        is_count = "." not in other and abs(int(other)) < 100
        allowed = 0 if is_count else 1.5 * 10.0 ** -len(other.partition(".")[2])
        assert abs(float(one) - float(other)) <= allowed, f"{one} where the README shows {other}"


def check_all(chosen: list[Block], python: Path, folder: Path) -> None:
    for block in chosen:
        output = run_block(block, python, folder)
        if block.output is not None:
            assert_alike(output, block.output)


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


def test_every_readme_block_runs_and_prints_what_it_shows(tmp_path):
    check_all(blocks(), Path(sys.executable), tmp_path)


def test_blocks_of_the_documentation_print_what_they_show(tmp_path):
    shown = [block for page in sorted((ROOT / "docs").glob("*.md")) for block in blocks(page) if block.output is not None]
    assert shown
    check_all(shown, Path(sys.executable), tmp_path)


@pytest.mark.wheel
def test_blocks_without_an_extra_run_from_the_wheel_in_an_empty_environment(tmp_path):
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", str(wheel)], check=True, capture_output=True)
    installed = subprocess.run([python, "-m", "pip", "list"], check=True, capture_output=True, text=True).stdout.lower()
    for extra in ("torch", "matplotlib", "pandas", "pyarrow", "jax"):
        assert extra not in installed
    folder = tmp_path / "user"
    folder.mkdir()
    check_all([block for block in blocks() if block.extra is None], python, folder)
    says_how = subprocess.run(
        [python.parent / "nishimori", "demo", "-o", "again"], cwd=folder, capture_output=True, text=True, check=True
    )
    assert "pip install 'nishimori[plot]'" in says_how.stderr
    assert not (folder / "again" / "demo.png").exists()
