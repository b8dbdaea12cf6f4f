"""The blocks of code of a page, Python with the output shown below it and console line by line, and how they are run."""

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from optional import skip_for
from own_process import Children

README = Path(__file__).parents[2] / "README.md"


@dataclass(frozen=True)
class Block:
    """One fenced block, the extra that it needs, "paper" for nishimori-paper, and the output that the page shows for it."""

    language: str
    text: str
    extra: str | None
    output: str | None


def blocks(page: Path = README) -> list[Block]:
    """The blocks of a page; those in tabs are indented, and lose the indentation of their fences."""
    fenced = re.finditer(r"^( *)```(\w*)\n(.*?)^\1```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    fences = [(each[2], re.sub(f"^{each[1]}", "", each[3], flags=re.MULTILINE)) for each in fenced]
    found = []
    for (language, text), following in zip(fences, [*fences, ("", "")][1:], strict=True):
        if language in ("python", "console"):
            needs = re.match(r"# needs: pip install (?:'nishimori\[(\w+)\]'|nishimori-(paper))", text)
            output = following[1] if following[0] == "text" else None
            found.append(Block(language, text, needs and needs[needs.lastindex], output))
    return found


def commands(block: Block) -> list[str]:
    """The shell lines of a console block, without the installation."""
    lines = [line.removeprefix("$ ") for line in block.text.splitlines() if line.startswith("$ ")]
    return [line for line in lines if not line.startswith("pip install")]


class Runner:
    """Runs blocks with one Python, each in a child of a process that has made the usual imports; see `block_server`."""

    def __init__(
        self,
        python: Path,
        *,
        home: Path,
        imports: tuple[str, ...] = ("nishimori.cli._app", "nishimori._calibrators.methods", "sklearn.linear_model"),
        **environment: str,
    ):
        # matplotlib must not look for a display, and rich must draw tables as wide as in the README.
        self.environment = {"PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}", "MPLBACKEND": "agg", "COLUMNS": "100"}
        self.environment |= {"HOME": str(home), "PYTHONUTF8": "1"} | environment
        self.python = str(python)
        self.children = Children([self.python], imports, env=self.environment, cwd=home)

    def __enter__(self) -> "Runner":
        return self

    def __exit__(self, *error: object) -> None:
        self.children.__exit__(*error)

    def run(self, line: list[str], folder: Path) -> tuple[int, str, str]:
        """The exit code, standard output and standard error of a command."""
        if line[0] not in (self.python, "nishimori"):
            done = subprocess.run(line, cwd=folder, env=self.environment, capture_output=True, encoding="utf-8", check=False)
            return done.returncode, done.stdout, done.stderr
        return self.children.run(line, folder)

    def run_block(self, block: Block, folder: Path) -> str:
        """The standard output of one block, of its last line if it has several."""
        lines = [[self.python, "-c", block.text]] if block.language == "python" else [line.split() for line in commands(block)]
        output = ""
        for line in lines:
            code, output, error = self.run(line, folder)
            skip_for(error)
            assert code == 0, f"{line}\n{output}\n{error}"
        return output

    def check(self, chosen: list[Block], folder: Path) -> None:
        """Run the blocks in order and compare what they print with what the page shows."""
        for block in chosen:
            output = self.run_block(block, folder)
            if block.output is not None:
                assert_alike(output, block.output)


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
