"""The examples, each run once: what they print and draw is kept under build/gallery, for the tests and for the site's gallery.

What is kept belongs to one state of the example and of the library. If a file of either changes, the example runs again.
"""

import ast
import hashlib
import json
import shutil
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from readme import Runner

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
KEPT = ROOT / "build" / "gallery"

# What an example may import beyond nishimori's own dependencies, and what that needs to be installed.
OPTIONAL = {
    "matplotlib": ["matplotlib"],
    "nishimori_paper": ["nishimori_paper"],
    "torch": ["torch"],
    "lightning": ["lightning"],
    "transformers": ["transformers", "accelerate"],
    "ray": ["ray", "pandas", "pyarrow"],
    "pyspark": ["pyspark", "pandas", "pyarrow"],
}

# Models that are trained for a shorter time here than by default: the tests are about the code, not about the numbers.
SHORTER = {
    "language_model": ["--steps", "20", "--width", "32"],
    "language_model_answers": ["--steps", "40", "--read", "250"],
}

# The same for scripts without options: a number of steps in their text, and the one that replaces it.
FEWER = {
    "torch_causal_lm": ("max_steps=150", "max_steps=100"),
    "torch_lightning": ("max_epochs=200", "max_epochs=10"),
    "torch_transformers": ("num_train_epochs=60", "num_train_epochs=10"),
}

# What the examples import, made once for all of them.
IMPORTS = ("nishimori.torch", "nishimori_paper.theory", "nishimori._calibrators.methods", "nishimori._evaluation.compare")
IMPORTS += ("sklearn.datasets", "sklearn.linear_model", "matplotlib.pyplot", "transformers.trainer")


@dataclass(frozen=True)
class Outcome:
    """What a run printed, its exit code, how it was shortened, and the pictures that it drew, as names of files."""

    code: int
    output: str
    error: str
    shortened: str
    pictures: list[str]


def missing(source: str) -> list[str]:
    """Optional packages that the source imports and that are not installed."""
    nodes = list(ast.walk(ast.parse(source)))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    packages = {name.partition(".")[0] for name in names}
    if any(isinstance(node, ast.ImportFrom) and any(alias.name == "plot" for alias in node.names) for node in nodes):
        packages.add("matplotlib")
    needed = {package for name in packages & OPTIONAL.keys() for package in OPTIONAL[name]}
    return sorted(package for package in needed if find_spec(package) is None)


@cache
def state_of_the_library() -> str:
    """A checksum of everything that examples use: the library, each other, and the versions of packages."""
    files = [path for path in (ROOT / "src" / "nishimori").rglob("*") if path.suffix in (".py", ".c", ".h", ".npz")]
    checksum = hashlib.sha256(sys.version.encode())
    for path in [*sorted(files), *EXAMPLES, ROOT / "requirements" / "test.txt", Path(__file__)]:
        checksum.update(path.read_bytes())
    return checksum.hexdigest()[:16]


class ExampleRuns:
    """Gives the outcome of an example, from a run of this state that was kept or from a new one."""

    def __init__(self, kept: Path = KEPT):
        self.kept = kept
        self._stack = ExitStack()
        self._runner: Runner | None = None

    def __enter__(self) -> "ExampleRuns":
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def folder(self, path: Path) -> Path:
        """Where the outcome and the pictures of an example are kept."""
        return self.kept / f"{path.stem}-{state_of_the_library()}"

    def outcome(self, path: Path) -> Outcome:
        """What the example prints and draws."""
        place = self.folder(path) / "outcome.json"
        if not place.exists():
            self._keep(path)
        return Outcome(**json.loads(place.read_text(encoding="utf-8")))

    def _keep(self, path: Path) -> None:
        place = self.folder(path)
        for old in set(self.kept.glob(f"{path.stem}-" + "?" * 16)) - {place}:
            shutil.rmtree(old, ignore_errors=True)
        self.kept.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            found = self._run(path, folder)
            if found.code != 0:
                raise AssertionError(f"{path.name} ended with the exit code {found.code}:\n{found.error}")
            # Several processes may run the same example: each outcome appears as a whole, and the first one stays.
            new = Path(tempfile.mkdtemp(dir=self.kept))
            for picture in found.pictures:
                shutil.copy(folder / picture, new)
            (new / "outcome.json").write_text(json.dumps(asdict(found)), encoding="utf-8")
            try:
                new.rename(place)
            except OSError:
                shutil.rmtree(new)
                if not place.exists():
                    raise

    def _run(self, path: Path, folder: Path) -> Outcome:
        script, arguments, shortened = path, SHORTER.get(path.stem, []), ""
        if arguments:
            shortened = " ".join(arguments)
        if path.stem in FEWER:
            source = path.read_text(encoding="utf-8")
            usual, fewer = FEWER[path.stem]
            assert source.count(usual) == 1
            script, shortened = folder / path.name, fewer
            script.write_text(source.replace(usual, fewer), encoding="utf-8")
        code, output, error = self._running().run([sys.executable, str(script), *arguments], folder)
        return Outcome(code, output, error, shortened, sorted(each.name for each in folder.glob("*.png")))

    def _running(self) -> Runner:
        """One process whose children run all examples, started when the first of them has to run."""
        if self._runner is None:
            home = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
            # Networks as small as these train faster on one core, especially while other tests use the second one.
            runner = Runner(Path(sys.executable), home=home, imports=IMPORTS, OMP_NUM_THREADS="1")
            self._runner = self._stack.enter_context(runner)
        return self._runner
