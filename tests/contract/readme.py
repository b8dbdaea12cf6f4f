"""The blocks of code of a page: Python blocks with the output shown below them, and console blocks line by line."""

import re
from dataclasses import dataclass
from pathlib import Path

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
