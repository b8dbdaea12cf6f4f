"""The wheels of the two distributions in this repository, and environments in which they are installed."""

import subprocess
import sys
import venv
from importlib.metadata import distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LIBRARY = Path(__file__).parents[2]
PAPER = LIBRARY / "paper"


def built(project: Path, folder: Path) -> Path:
    """The wheel of a project, which is built into a folder."""
    before = set(folder.glob("*.whl"))
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(project)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = set(folder.glob("*.whl")) - before
    return wheel


def environment(folder: Path, *wheels: Path) -> Path:
    """The Python of a new environment with these wheels and their dependencies alone."""
    venv.create(folder)
    python = folder / "bin" / "python"
    pip(python, "install", "--quiet", "--no-compile", "--no-deps", *map(str, wheels))
    (site,) = folder.glob("lib/python*/site-packages")
    link_dependencies(site)
    return python


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
