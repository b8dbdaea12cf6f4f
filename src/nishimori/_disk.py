"""Files that appear whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def new_file(path: str | os.PathLike[str], *, overwrite: bool) -> Iterator[Path]:
    """A temporary path beside ``path`` to write to; it takes its place when the block ends well and vanishes otherwise."""
    target = Path(path)
    if target.exists() and not overwrite:
        raise FileExistsError(f"{target} exists. Pass overwrite=True (--force in the shell) to replace it.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {target.parent} to write {target.name} to. Create it first.")
    # The suffix stays last: writers choose their format by it.
    temporary = target.with_name(f".{target.stem}.{os.getpid()}{target.suffix}")
    try:
        yield temporary
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
