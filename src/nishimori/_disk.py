"""Checks of files to read, and new files that are complete or not there."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nishimori.errors import InputError


def check_folder(folder: Path, *, for_: str) -> None:
    """Refuse a file in place of a folder, which need not exist yet; ``for_`` says what needs it, as in "the demo needs"."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file, and {for_} a folder. Choose another name.")


def check_target(target: Path, *, overwrite: bool) -> None:
    """Refuse a path that cannot be written, or that exists and must be kept; commands check this before they start to work."""
    if target.exists() and not target.is_file():
        raise FileExistsError(f"{target} is not a regular file. Choose another name.")
    if target.exists() and not overwrite:
        raise FileExistsError(f"{target} exists. Pass `overwrite=True` to replace it.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {target.parent} to write {target.name} to. Create it first.")


@contextmanager
def new_file(path: str | os.PathLike[str], *, overwrite: bool) -> Iterator[Path]:
    """A temporary path beside ``path`` to write to. It is renamed to ``path`` if the block succeeds, and removed otherwise."""
    target = Path(path)
    check_target(target, overwrite=overwrite)
    # The suffix stays last, because writers choose their format by it.
    temporary = target.with_name(f".{target.stem}.{os.getpid()}{target.suffix}")
    try:
        yield temporary
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def existing_file(path: str | os.PathLike[str]) -> Path:
    """``path``, if it is a file; else an error."""
    source = Path(path)
    if source.is_dir():
        raise IsADirectoryError(f"{source} is a folder. Name a file in it.")
    if not source.exists():
        raise FileNotFoundError(f"There is no file {source}.")
    return source
