"""Files that are there to be read, and files that appear whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nishimori.errors import InputError


def check_folder(folder: Path, *, for_: str) -> None:
    """Refuse a file where ``for_`` needs a folder, which may be yet to be made."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file, and {for_} a folder. Choose another name.")


def check_target(target: Path, *, overwrite: bool) -> None:
    """Refuse a place where nothing can or may be written; commands ask before they start to work."""
    if target.exists() and not target.is_file():
        raise FileExistsError(f"{target} is not a regular file. Choose another name.")
    if target.exists() and not overwrite:
        raise FileExistsError(f"{target} exists. Pass `overwrite=True` to replace it.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {target.parent} to write {target.name} to. Create it first.")


@contextmanager
def new_file(path: str | os.PathLike[str], *, overwrite: bool) -> Iterator[Path]:
    """A temporary path beside ``path`` to write to; it takes its place when the block ends well and vanishes otherwise."""
    target = Path(path)
    check_target(target, overwrite=overwrite)
    # The suffix stays last: writers choose their format by it.
    temporary = target.with_name(f".{target.stem}.{os.getpid()}{target.suffix}")
    try:
        yield temporary
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def existing_file(path: str | os.PathLike[str]) -> Path:
    """``path``, if there is a file to read."""
    source = Path(path)
    if source.is_dir():
        raise IsADirectoryError(f"{source} is a folder. Name a file in it.")
    if not source.exists():
        raise FileNotFoundError(f"There is no file {source}.")
    return source
