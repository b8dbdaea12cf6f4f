"""Arrays in files (.npz, .npy, .pt, .safetensors), read a few rows at a time.

No file is trusted: what its header says is checked against the bytes that are there before memory is allocated, no code in it
is run, and damage of any kind is one `FormatError`. Files larger than the memory are read with a few megabytes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from nishimori._files.arrays.numpy_files import npy_array, npz_arrays
from nishimori._files.arrays.stored_array import FLOAT8, StoredArray, damage
from nishimori._files.arrays.tensors import tensor_arrays
from nishimori._support.arrays import HostArray, on_host
from nishimori._support.disk import existing_file
from nishimori._support.formatting import join_names
from nishimori._support.optional import require
from nishimori.errors import FormatError, InputError

SUFFIXES = (".npz", ".npy", ".pt", ".pth", ".safetensors")

_UNREADABLE = "{} is not a readable .safetensors file. Save it again with safetensors."
# The header of a .safetensors file is read as a whole; one of this size names about 40,000 tensors.
_LONGEST_HEADER = 1 << 22
SAFETENSORS = {
    "F64": "f8",
    "F32": "f4",
    "F16": "f2",
    "BF16": "f4",
    "I64": "i8",
    "I32": "i4",
    "I16": "i2",
    "I8": "i1",
    "U64": "u8",
    "U32": "u4",
    "U16": "u2",
    "U8": "u1",
    "BOOL": "?",
}
"""The NumPy dtypes for tensors of a .safetensors file."""


@dataclass(frozen=True)
class ArrayFile:
    """A file of arrays, with a function by name that opens each one; the array of a .npy file has the empty name."""

    path: Path
    arrays: Mapping[str, Callable[[], StoredArray]]

    @property
    def names(self) -> list[str]:
        return list(self.arrays)

    def array(self, name: str) -> StoredArray:
        """The numbers with that name: scores or weights."""
        return self.stored(name).numbers()

    def labels(self, name: str) -> StoredArray:
        """The labels with that name: numbers or text."""
        return self.stored(name).labels()

    def stored(self, name: str) -> StoredArray:
        """The array with that name, whatever its dtype."""
        if name not in self.arrays:
            raise InputError(f"{self.path} has no array {name!r}, only {join_names(self.names)}.")
        return self.arrays[name]()


def open_arrays(path: Path) -> ArrayFile:
    """Open a file of arrays; the ending of its name decides the format.

    Parameters
    ----------
    path : Path
        A name that ends in one of `SUFFIXES`, in upper or lower case.
    """
    suffix = suffix_of(existing_file(path))
    with path.open("rb") as file:
        start = file.read(len(npy.MAGIC_PREFIX))
    if start == npy.MAGIC_PREFIX and suffix != ".npy":
        raise FormatError(f"{path} holds a single .npy array. Rename it to {path.with_suffix('.npy').name}.")
    match suffix:
        case ".npy":
            array = npy_array(path)
            return ArrayFile(path, {"": lambda: array})
        case ".npz":
            return ArrayFile(path, npz_arrays(path))
        case ".safetensors":
            return ArrayFile(path, _safetensors_arrays(path))
        case _:
            return ArrayFile(path, tensor_arrays(path))


def _safetensors_arrays(path: Path) -> dict[str, Callable[[], StoredArray]]:
    """Functions that open each tensor of a .safetensors file, by name."""
    module = require("safetensors", extra="safetensors", for_=f"Reading {path.name}")
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
    if _LONGEST_HEADER < length < path.stat().st_size:
        raise FormatError(f"{path} has too many tensors. Save only those that are needed.")
    with damage(_UNREADABLE.format(path)):
        names = module.safe_open(path, framework="np").keys()
    return {name: partial(_safetensors_array, path, name) for name in names}


def _safetensors_array(path: Path, name: str) -> StoredArray:
    module = require("safetensors", extra="safetensors", for_=f"Reading {path.name}")
    where = f"{name!r} in {path}"
    with damage(_UNREADABLE.format(path)):
        stored = module.safe_open(path, framework="np").get_slice(name)
        code, shape = stored.get_dtype(), tuple(stored.get_shape())
    if code not in SAFETENSORS:
        raise FormatError(f"{where} has the dtype {code}, which NumPy does not have. {FLOAT8}")
    if code == "BF16":  # NumPy has no bfloat16; PyTorch has.
        require("torch", extra="torch", for_=f"Reading the bfloat16 of {path.name}")
        stored = module.safe_open(path, framework="pt").get_slice(name)
    together = prod(shape[1:-1])  # only whole entries of the first dimension can be read

    def rows(start: int, stop: int) -> HostArray:
        with damage(_UNREADABLE.format(path)):
            return on_host(stored[start // together : stop // together]).reshape(-1, *shape[1:][-1:])

    return StoredArray(where, shape, np.dtype(SAFETENSORS[code]), rows, together)


def suffix_of(path: Path) -> str:
    """The ending of the name of a file of arrays, in lower case; refuses other files."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"{path} has an unknown ending. Use one of {', '.join(SUFFIXES)}.")
    return suffix
