"""Optional packages: import them, and find what they add to nishimori."""

import importlib
import importlib.metadata
from functools import lru_cache
from importlib.metadata import EntryPoint
from typing import Any

from nishimori.errors import InputError


def require(module: str, *, extra: str, for_: str, distribution: str = "nishimori") -> Any:
    """Import ``module``, or explain that ``for_`` needs ``nishimori[extra]``, or that extra of another distribution."""
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise  # the package is installed; something that it imports is not
        raise ModuleNotFoundError(
            f"{for_} needs {package}, which is not installed. Run `pip install '{distribution}[{extra}]'`.",
            name=package,
        ) from None


@lru_cache(maxsize=16)
def entry_points(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of installed packages in a group.

    All packages are looked through once per process, which takes longer than to fit a temperature.
    """
    return tuple(importlib.metadata.entry_points(group=group))


def load_entry_point(point: EntryPoint, what: str) -> Any:
    """Import an entry point; ``what`` describes it in the error if that fails."""
    try:
        return point.load()
    except Exception as error:  # whatever the package does when it is imported
        raise InputError(
            f"The {what} {point.name!r} cannot be imported from {point.value}: {type(error).__name__}: {error}. "
            "Repair or remove the package that adds it."
        ) from None


def import_object(path: str) -> Any:
    """The object that ``package.module:Name`` names; refuses names that cannot be imported."""
    module, _, name = path.partition(":")
    try:
        target = importlib.import_module(module)
        for part in name.split("."):
            target = getattr(target, part)
    except Exception as error:  # whatever the module does when it is imported
        raise InputError(path, "be importable as package.module:Name", got=f"{type(error).__name__}: {error}") from None
    return target
