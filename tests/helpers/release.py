"""Build both distributions into a folder, and check what would be published.

Run ``python tests/helpers/release.py FOLDER [PYTHON ...]`` where requirements/release.txt is installed, as ``make release``
does. Everything is built twice, once from the tree and once from the source archives that the first build made.
The files must be the same byte by byte, so that anybody can check what is on PyPI. Then the wheels are installed into an empty
environment of each Python, with their dependencies from PyPI, and used.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECTS = (ROOT, ROOT / "paper")
EPOCH = "1580601600"  # 2 February 2020, hatchling's own: the time of all files in archives


def run(*words: object, cwd: Path = ROOT) -> None:
    """Run a program; where it fails, end with what it printed."""
    # What is imported by a build or a check is what is installed for it, not this repository.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"SOURCE_DATE_EPOCH": EPOCH, "NISHIMORI_REQUIRE_NATIVE": "1"}
    done = subprocess.run(list(map(str, words)), cwd=cwd, env=environment, capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    sys.stdout.write("".join(f"    {line}\n" for line in done.stdout.splitlines()[-1:]))


def build(project: Path, folder: Path, *kinds: str) -> None:
    """Build a project with what is installed here, whose versions are exact."""
    run(sys.executable, "-m", "build", "--no-isolation", *kinds, "--outdir", folder, project)


def digests(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file in a folder."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def check_same(first: Path, second: Path) -> None:
    """End with an error unless both folders have the same files."""
    one, two = digests(first), digests(second)
    different = sorted(name for name in one.keys() | two.keys() if one.get(name) != two.get(name))
    if different:
        sys.exit(f"builds differ: {', '.join(different)}")


def built_twice(folder: Path, work: Path) -> None:
    """The files from the tree, after those from their source archives have been found to be the same."""
    again = work / "again"
    for project in PROJECTS:
        build(project, folder, "--sdist")
        build(project, folder, "--wheel")
    for archive in sorted(folder.glob("*.tar.gz")):
        with tarfile.open(archive) as members:
            members.extractall(work, filter="data")
        build(work / archive.name.removesuffix(".tar.gz"), again, "--sdist")
        build(work / archive.name.removesuffix(".tar.gz"), again, "--wheel")
    check_same(folder, again)


def check_install(python: str, wheels: list[Path], work: Path) -> None:
    """Install the wheels into an empty environment of a Python, and use them."""
    place = work / re.sub(r"\W+", "-", python)
    run(python, "-m", "venv", place)
    inside = place / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    run(inside, "-m", "pip", "install", "--quiet", "--no-compile", *wheels)
    run(inside, "-m", "pip", "check")
    run(inside, ROOT / "tests" / "helpers" / "smoke.py", "--paper", "--native", cwd=work)


def main(folder: Path, *pythons: str) -> None:
    """All checks in order, and the digests of what passed them."""
    shutil.rmtree(folder, ignore_errors=True)
    start = time.perf_counter()

    def tell(text: str) -> None:
        sys.stdout.write(f"{time.perf_counter() - start:6.1f} s  {text}\n")
        sys.stdout.flush()

    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        built_twice(folder, work)
        tell("built from the tree and from the source archives: the same bytes")
        files = sorted(folder.iterdir())
        run(sys.executable, "-m", "twine", "check", "--strict", *files)
        tell("twine check --strict")
        wheels = [path for path in files if path.suffix == ".whl"]
        run(sys.executable, "-m", "check_wheel_contents", "--config", ROOT / "pyproject.toml", *wheels)
        tell("check-wheel-contents")
        for python in pythons:
            check_install(python, wheels, work)
            tell(f"installed and used with {python}")
    for file, digest in digests(folder).items():
        sys.stdout.write(f"{digest}  {file}  {(folder / file).stat().st_size / 1e6:.2f} MB\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), *sys.argv[2:])
