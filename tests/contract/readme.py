"""The blocks of code of a page, Python with the output shown below it and console line by line, and how they are run."""

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from optional import skip_for

README = Path(__file__).parents[2] / "README.md"


@dataclass(frozen=True)
class Block:
    """One fenced block, the extra that it needs, if any, and the output that the page shows for it."""

    language: str
    text: str
    extra: str | None
    output: str | None


def blocks(page: Path = README) -> list[Block]:
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    found = []
    for (language, text), following in zip(fences, [*fences, ("", "")][1:], strict=True):
        if language in ("python", "console"):
            needs = re.match(r"# needs: pip install 'nishimori\[(\w+)\]'", text)
            output = following[1] if following[0] == "text" else None
            found.append(Block(language, text, needs and needs[1], output))
    return found


def commands(block: Block) -> list[str]:
    """The shell lines of a console block, without the installation."""
    lines = [line.removeprefix("$ ") for line in block.text.splitlines() if line.startswith("$ ")]
    return [line for line in lines if not line.startswith("pip install")]


def run_block(block: Block, python: Path, folder: Path) -> str:
    """The standard output of one block, run with the programs in the folder of ``python``."""
    # matplotlib must not look for a display, and rich must draw tables as wide as in the README.
    environment = {"PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}", "MPLBACKEND": "agg", "COLUMNS": "100"}
    environment |= {"HOME": str(folder), "PYTHONUTF8": "1"}
    lines = [[str(python), "-c", block.text]] if block.language == "python" else [line.split() for line in commands(block)]
    output = ""
    for line in lines:
        done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8", check=False)
        skip_for(done.stderr)
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
