"""Packages that nishimori can use but does not install."""

import importlib
from typing import Any


def require(module: str, *, extra: str, for_: str) -> Any:
    """Import ``module``, or explain that ``for_`` needs ``nishimori[extra]``."""
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise  # the package is installed; something that it imports is not
        raise ModuleNotFoundError(
            f"{for_} needs {package}, which is not installed. Run `pip install 'nishimori[{extra}]'`.",
            name=package,
        ) from None
