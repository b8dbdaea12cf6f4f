"""Code that a page shows, as a module outside the package, with files of logits beside it."""

import re
import sys
from contextlib import contextmanager
from importlib import invalidate_caches
from pathlib import Path

import numpy as np

from nishimori._methods import table

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"


def code_under(heading):
    """The one block of Python under a heading of the page."""
    section = PAGE.read_text(encoding="utf-8").split(f"## {heading}")[1].split("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    return code


@contextmanager
def module(name, code, folder, monkeypatch, validation, test):
    """``folder`` with the code as a module that can be imported, and val.npz and test.npz of logits and labels."""
    (folder / f"{name}.py").write_text(code, encoding="utf-8")
    for file, (logits, labels) in (("val", validation), ("test", test)):
        np.savez(folder / f"{file}.npz", logits=logits, labels=labels)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(table, "_registered", dict(table._registered))
    invalidate_caches()
    yield folder
    sys.modules.pop(name, None)
