"""Sketches among the files that commands are given."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nishimori._sums.sketch.archive import is_sketch_file
from nishimori._sums.sketch.sketch import Sketch
from nishimori.errors import InputError


def opened_sketch(files: Sequence[Path], *options: Any) -> Sketch | None:
    """The sketch that is the only file, or None if it is not one; ``options`` say what rows are, and a sketch has none."""
    if len(files) != 1 or not is_sketch_file(files[0]):
        if any(is_sketch_file(path) for path in files):
            raise InputError("Pass one sketch. To use several, merge them first: nishimori merge a.npz b.npz -o all.npz.")
        return None
    if any(options):
        raise InputError(
            f"{files[0]} is a sketch, which knows what its rows are. Leave out the options that say so, such as --input and "
            "--classes, or pass them to nishimori sketch."
        )
    return Sketch.load(files[0])
