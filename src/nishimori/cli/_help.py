"""What the help of every command shows in the same way: groups of options, examples, exit codes."""

DATA = "Scores and labels"
TABLES = "Tables"
BOUNDS = "Bounds and what they are about"
MEASURES = "What is measured"
OUTPUT = "Output"
"""The titles of groups of options."""

FLAG = ""
"""The metavar of an option without a value."""

_CODES = {0: "done", 1: "an error, which one line explains", 2: "wrong usage"}


def epilog(*examples: str, codes: dict[int, str] | None = None) -> str:
    """The end of a command's help; ``codes`` are exit codes that mean something else or something more."""
    lines = "\n".join(f"  $ {example}" for example in examples)
    meanings = "\n".join(f"  {code}  {meaning}" for code, meaning in (_CODES | (codes or {})).items())
    return f"Examples:\n{lines}\n\nExit codes:\n{meanings}"
