"""Scripts of bench/ can be imported by name, as they import each other."""

import importlib
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture(scope="module", autouse=True)
def _bench_path():
    with pytest.MonkeyPatch.context() as patch:
        for folder in ("speed", "accuracy", "studies", "changes"):
            patch.syspath_prepend(str(BENCH / folder))
        yield
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(f"{BENCH}/"):
            del sys.modules[name]


@pytest.fixture
def run_study(monkeypatch):
    """A function that runs a script with some words on its command line, and gives its module."""

    def run(name, *words):
        module = importlib.import_module(name)
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *map(str, words)])
        module.main()
        return module

    return run
