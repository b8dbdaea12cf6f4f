"""Arrays in the files people have (.npz, .npy, .pt, .safetensors), read in blocks of rows.

No file is trusted: what its header says is checked against the bytes that are there before memory is allocated, no code in it
is run, and damage of any kind is one `FormatError`. Files larger than the memory are read with a few megabytes.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from nishimori._files.arrays import numpy_files, tensors
from nishimori._files.arrays.stored_array import StoredArray, blocks_from_slices
from nishimori._rows.column_names import join_names
from nishimori._support.arrays import HostArray
from nishimori._support.disk import existing_file
from nishimori._support.optional import require
from nishimori.errors import FormatError, InputError

SUFFIXES = (".npz", ".npy", ".pt", ".pth", ".safetensors")

# The header of a .safetensors file is read as a whole; one of this size names about 40,000 tensors.
_LONGEST_HEADER = 1 << 22
_FLOAT8 = "Convert it to float32 first."
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
"""The dtypes of NumPy in which tensors of a .safetensors file are read."""


class ArrayFile(ABC):
    """A file of arrays; a context manager, because the file stays open while its arrays are read.

    Attributes
    ----------
    path : Path
        The file.
    names : list of str
        The names of its arrays; a .npy file has one, the empty text.
    """

    path: Path
    names: list[str]

    @abstractmethod
    def _stored_array(self, name: str) -> StoredArray:
        """The array with that name, whatever its dtype."""

    def close(self) -> None:  # noqa: B027 - only some have something to close
        """Close the file."""

    def array(self, name: str) -> StoredArray:
        """The numbers with that name: scores or weights."""
        return self._existing_array(name).numbers()

    def labels(self, name: str) -> StoredArray:
        """The labels with that name: numbers or text."""
        return self._existing_array(name).labels()

    def _existing_array(self, name: str) -> StoredArray:
        if name not in self.names:
            raise InputError(f"{self.path} has no array {name!r}, only {join_names(self.names)}.")
        return self._stored_array(name)

    def __enter__(self) -> "ArrayFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_arrays(path: Path) -> ArrayFile:
    """Open a file of arrays; its ending says what it is.

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
    kinds: dict[str, Callable[[Path], ArrayFile]]
    kinds = {".npz": _Npz, ".npy": _Npy, ".pt": _Pt, ".pth": _Pt, ".safetensors": _Safetensors}
    return kinds[suffix](path)


class _Npy(ArrayFile):
    def __init__(self, path: Path) -> None:
        self.path, self.names = path, [""]
        self._array = numpy_files.array_file(path)

    def _stored_array(self, name: str) -> StoredArray:
        assert not name, "there is one array, without a name"
        return self._array


class _Npz(ArrayFile):
    def __init__(self, path: Path) -> None:
        self.path = path
        self._archive = numpy_files.NpzArchive(path)
        self.names = self._archive.names
        if any(name.endswith("/data.pkl") for name in self.names):
            self.close()
            raise FormatError(f"{path} is a file of PyTorch. Rename it to {path.with_suffix('.pt').name}.")

    def close(self) -> None:
        self._archive.close()

    def _stored_array(self, name: str) -> StoredArray:
        return self._archive.array(name)


class _Pt(ArrayFile):
    def __init__(self, path: Path) -> None:
        self.path = path
        self._torch = require("torch", extra="torch", for_=f"Reading {path.name}")
        self._content = tensors.load(path)
        if not isinstance(self._content, dict):
            raise FormatError(
                f"{path} must hold a dictionary of tensors, got a {type(self._content).__name__}. {tensors.REMEDY}"
            )
        for name in self._content:
            if not isinstance(name, str):
                raise FormatError(f"{path} must have names of text, got {name!r:.40}. {tensors.REMEDY}")
        self.names = list(self._content)

    def _stored_array(self, name: str) -> StoredArray:
        torch, tensor, where = self._torch, self._content[name], f"{name!r} in {self.path}"
        if not isinstance(tensor, torch.Tensor):
            raise FormatError(f"{where} must be a tensor, got a {type(tensor).__name__}. {tensors.REMEDY}")
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type != "cpu":
            raise FormatError(f"{where} must be a plain tensor. {tensors.REMEDY}")
        tensor = tensor.detach()
        if tensor.dtype == torch.bfloat16:
            dtype = np.dtype(np.float32)
        else:
            try:
                dtype = torch.empty(0, dtype=tensor.dtype).numpy().dtype
            except Exception:  # float8, quarters of bytes, and what PyTorch adds later
                raise FormatError(f"{where} has the dtype {tensor.dtype}, which NumPy does not have. {_FLOAT8}") from None
        # A tensor may repeat its elements, and then describe more memory than there is.
        if tensor.numel() * tensor.element_size() > self.path.stat().st_size:
            raise FormatError(f"{where} repeats its elements. Save `contiguous()` of it.")

        def part(start: int, stop: int) -> HostArray:
            rows = tensor[start:stop]
            rows = (rows.float() if rows.dtype == torch.bfloat16 else rows).resolve_conj().resolve_neg()
            block: HostArray = rows.contiguous().numpy()
            return block

        shape = tuple(tensor.shape)
        return StoredArray(where, shape, dtype, blocks_from_slices(shape[0] if shape else 0, part))


class _Safetensors(ArrayFile):
    def __init__(self, path: Path) -> None:
        self.path = path
        self._module = require("safetensors", extra="safetensors", for_=f"Reading {path.name}")
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
        if _LONGEST_HEADER < length < path.stat().st_size:
            raise FormatError(f"{path} has too many tensors. Save only those that are needed.")
        self._file = self._open("np")
        self.names = list(self._file.keys())

    def _open(self, framework: str) -> Any:
        with self._naming_file():
            return self._module.safe_open(self.path, framework=framework)

    @contextmanager
    def _naming_file(self) -> Iterator[None]:
        try:
            yield
        except (self._module.SafetensorError, ValueError, OverflowError) as error:
            brief = " ".join(str(error).split())[:100]
            raise FormatError(
                f"{self.path} is not a readable .safetensors file: {brief}. Save it again with safetensors."
            ) from None

    def _stored_array(self, name: str) -> StoredArray:
        where = f"{name!r} in {self.path}"
        with self._naming_file():
            rows = self._file.get_slice(name)
            code, shape = rows.get_dtype(), tuple(rows.get_shape())
        if code not in SAFETENSORS:
            raise FormatError(f"{where} has the dtype {code}, which NumPy does not have. {_FLOAT8}")
        if code == "BF16":  # NumPy has no bfloat16; PyTorch has.
            require("torch", extra="torch", for_=f"Reading the bfloat16 of {self.path.name}")
            rows = self._open("pt").get_slice(name)

        def part(start: int, stop: int) -> HostArray:
            with self._naming_file():
                block: HostArray = rows[start:stop].float().numpy() if code == "BF16" else rows[start:stop]
            return block

        return StoredArray(where, shape, np.dtype(SAFETENSORS[code]), blocks_from_slices(shape[0] if shape else 0, part))


def suffix_of(path: Path) -> str:
    """The ending of the name of a file of arrays, in lower case; refuses others."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"{path} has an unknown ending. Use one of {', '.join(SUFFIXES)}.")
    return suffix
