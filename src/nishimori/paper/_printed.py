"""Numbers as the paper prints them, from ``printed.toml``."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def printed() -> dict[str, Any]:
    """All of them, by the name of their artefact; read, do not change."""
    return tomllib.loads(files("nishimori.paper").joinpath("printed.toml").read_text(encoding="utf-8"))
