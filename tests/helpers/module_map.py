"""The map of the modules in CONTRIBUTING.md: the first paragraph of each docstring, by folder. ``make map`` writes it."""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "CONTRIBUTING.md"
PACKAGES = {"src/nishimori": "nishimori", "paper/src/nishimori_paper": "nishimori_paper"}
BEGIN, END = "<!-- modules: written by `make map` -->\n", "<!-- end of modules -->\n"


def first_paragraph(path: Path) -> str:
    """What a module says of itself in its first paragraph."""
    told = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(told.partition("\n\n")[0].split())


def module_map() -> str:
    """The map as Markdown."""
    lines = []
    for place, package in PACKAGES.items():
        root = ROOT / place
        lines += [
            "<details>",
            f"<summary>All modules of <code>{package}</code></summary>",
            "",
            "| module | what it is |",
            "|---|---|",
        ]
        for path in sorted(root.rglob("*.py"), key=lambda each: (each.parent.relative_to(root).as_posix(), each.name)):
            name = path.relative_to(root).as_posix()
            if told := first_paragraph(path):
                lines.append(f"| `{name}` | {told.replace('|', chr(92) + '|')} |")
        lines += ["", "</details>", ""]
    return "\n".join(lines)


def with_map(text: str) -> str:
    """The page with the map as it is now."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{module_map()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(with_map(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"Wrote the map of the modules into {PAGE.name}\n")
