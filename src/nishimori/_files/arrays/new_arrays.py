"""Arrays in files that are written in blocks of rows: .npz .npy .pt .safetensors. A file is either complete or absent."""

import json
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from nishimori._files.arrays.files import SAFETENSORS, suffix_of
from nishimori._support.arrays import HostArray
from nishimori._support.disk import new_file
from nishimori._support.optional import require
from nishimori.errors import InputError

WRITTEN = "probabilities"
"""The name of the array in a written file."""

_Put = Callable[[memoryview], Any]


class NewArray:
    """The rows of an array that is being written."""

    def __init__(self, shape: tuple[int, int], dtype: "np.dtype[Any]", put: _Put) -> None:
        self.shape, self.dtype, self._put = shape, dtype, put
        self.n_rows = 0

    def write(self, block: HostArray) -> None:
        """Append rows."""
        assert block.shape[1:] == self.shape[1:], "rows have as many columns as were announced"
        self._put(np.ascontiguousarray(block, self.dtype).reshape(-1).view(np.uint8).data)
        self.n_rows += len(block)


@contextmanager
def new_arrays(path: Path, shape: tuple[int, int], dtype: Any, *, overwrite: bool) -> Iterator[NewArray]:
    """A new file with one array called ``probabilities``, written in blocks; the file is either complete or absent.

    Parameters
    ----------
    path : Path
        A name that ends in one of `SUFFIXES`, in upper or lower case. A .npy file does not keep the array's name.
    shape : (int, int)
        The shape of all rows together.
    dtype : NumPy dtype
        Half, single or double precision.
    overwrite : bool
        Replace an existing file.
    """
    write = {".npz": _new_npz, ".npy": _new_npy, ".pt": _new_pt, ".pth": _new_pt, ".safetensors": _new_safetensors}[
        suffix_of(path)
    ]
    little = np.dtype(dtype).newbyteorder("<")
    with new_file(path, overwrite=overwrite) as temporary, write(temporary, shape, little) as put:
        array = NewArray(shape, little, put)
        yield array
        if array.n_rows != shape[0]:
            raise InputError(f"{path} must get {shape[0]} rows, got {array.n_rows}. Check that its source did not change.")


def _npy_header(file: IO[bytes], shape: tuple[int, int], dtype: "np.dtype[Any]") -> None:
    npy.write_array_header_1_0(file, {"shape": shape, "fortran_order": False, "descr": npy.dtype_to_descr(dtype)})


@contextmanager
def _new_npz(path: Path, shape: tuple[int, int], dtype: "np.dtype[Any]") -> Iterator[_Put]:
    with zipfile.ZipFile(path, "w") as archive, archive.open(f"{WRITTEN}.npy", "w", force_zip64=True) as member:
        _npy_header(member, shape, dtype)
        yield member.write


@contextmanager
def _new_npy(path: Path, shape: tuple[int, int], dtype: "np.dtype[Any]") -> Iterator[_Put]:
    with path.open("wb") as file:
        _npy_header(file, shape, dtype)
        yield file.write


@contextmanager
def _new_safetensors(path: Path, shape: tuple[int, int], dtype: "np.dtype[Any]") -> Iterator[_Put]:
    # The package writes whole arrays, so all rows would go to the disk twice, as they do for PyTorch.
    code = next(code for code, name in SAFETENSORS.items() if name == dtype.str[1:])
    about = {"dtype": code, "shape": shape, "data_offsets": [0, shape[0] * shape[1] * dtype.itemsize]}
    header = json.dumps({WRITTEN: about}, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)  # the data starts at a multiple of eight bytes
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        yield file.write


@contextmanager
def _new_pt(path: Path, shape: tuple[int, int], dtype: "np.dtype[Any]") -> Iterator[_Put]:
    torch = require("torch", extra="torch", for_=f"Writing {path.name}")
    # PyTorch writes whole tensors, so the rows go to a file without a name first, and the tensor is a mapping of that file.
    with TemporaryFile(dir=path.parent) as rows:
        yield rows.write
        rows.flush()
        mapped = np.memmap(rows, dtype, "r+", shape=shape)
        torch.save({WRITTEN: torch.from_numpy(np.asarray(mapped))}, path)
