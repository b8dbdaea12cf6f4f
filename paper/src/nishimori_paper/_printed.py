"""The numbers that the paper prints, from ``printed.toml``."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def printed() -> dict[str, Any]:
    """All printed numbers, by the name of their artefact. The result is shared: do not change it."""
    return tomllib.loads(files("nishimori_paper").joinpath("printed.toml").read_text(encoding="utf-8"))
