"""Modules of the user's own, which the shell imports because they were named on the command line: methods, maps, metrics."""

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from nishimori.errors import InputError


def add_cwd_to_path() -> None:
    """Let modules in the current folder be found, but never instead of an installed one."""
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)


def import_modules(names: list[str]) -> None:
    """Import modules that register what is in them."""
    add_cwd_to_path()
    for name in names:
        try:
            import_module(name)
        except Exception as error:  # whatever the module does when it is imported
            raise InputError(f"--import must name a module, got {name}: {type(error).__name__}: {error}.") from None


def method_names(text: str) -> list[str]:
    """The methods in a list with commas; those that are written module:Name are looked for in the current folder, too."""
    names = search_cwd([part.strip() for part in text.split(",")])
    for name in names:
        check_method(name, "--methods")
    return names


def check_method(name: str, option: str) -> Any:
    """The observable or class of a method; one that is not known is wrong usage, with how the shell learns of others."""
    from nishimori._calibrators.methods import target_of  # noqa: PLC0415 - scikit-learn

    try:
        return target_of(name)
    except InputError as error:
        how = "" if ":" in name else " A module that registers others is named before the command: nishimori --import MODULE."
        raise typer.BadParameter(f"{error}{how}", param_hint=option) from None


def metric_names(text: str) -> list[str]:
    """The metrics in a list with commas, likewise; commas between brackets do not count, as in top_n_accuracy(top_n=3)."""
    return search_cwd([part.strip() for part in re.split(r",(?![^()]*\))", text)])


def search_cwd(names: list[str]) -> list[str]:
    """The names, of which those that are written module:Name are looked for in the current folder, too."""
    if any(":" in name for name in names):
        add_cwd_to_path()
    return names
