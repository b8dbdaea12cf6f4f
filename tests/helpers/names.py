"""Find identifiers and docstrings that do not say what a thing is: python tests/helpers/names.py src paper/src

Participles and verbs of speech, alone, name no thing; somebody and nobody in a docstring hide who is meant.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

FORBIDDEN = {"told", "said", "asked", "meant", "given", "known", "made", "found", "each", "here"}
WORDS = re.compile(r"\b(some|no)body('s)?\b", re.IGNORECASE)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def problems(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Give the line and the word of each problem in a module."""
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and (match := WORDS.search(ast.get_docstring(node, clean=False) or "")):
            yield getattr(node, "lineno", 1), f"{match.group()} in a docstring"
        stores = isinstance(getattr(node, "ctx", None), ast.Store)
        name = {ast.Name: "id", ast.Attribute: "attr"}.get(type(node)) if stores else {ast.arg: "arg"}.get(type(node), "name")
        identifier = getattr(node, name, None) if name else None
        if isinstance(identifier, str) and identifier.strip("_") in FORBIDDEN:
            yield getattr(node, "lineno", 1), identifier


def main(folders: list[str]) -> int:
    """Print all problems below some folders; return the exit status."""
    paths = [path for folder in folders for path in sorted(Path(folder).rglob("*.py"))]
    lines = [f"{path}:{line}: {what}" for path in paths for line, what in problems(ast.parse(path.read_text(encoding="utf-8")))]
    print("\n".join(lines) or "All names say what they are.")  # noqa: T201
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
