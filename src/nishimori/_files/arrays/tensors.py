"""Files of PyTorch (.pt), read without running their code.

`torch.load(weights_only=True)` runs no foreign code, but it calls functions that can be told to allocate any amount of memory.
So the instructions in a file are listed before it is loaded, and only those that describe plain tensors are accepted.
"""

import io
import pickletools
import warnings
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from nishimori._files.arrays.numpy_files import content_offset, directory
from nishimori._files.arrays.stored_array import FLOAT8, StoredArray, damage
from nishimori._support.arrays import HostArray, merge_leading, on_host, rows_between
from nishimori._support.disk import existing_file
from nishimori._support.optional import require
from nishimori.errors import FormatError

REMEDY = "Save {name: tensor} with torch.save."
# The instructions take a few hundred bytes for each tensor.
_LONGEST = 1 << 22
# The format of PyTorch before 1.6 cannot be memory-mapped, so it is read as a whole.
_LARGEST_OLD = 1 << 30
_N_OLD_PARTS = 5  # a magic number, the version, the platform, the content, the names of the storages
_ZIP = b"PK\x03\x04"

_PLAIN = {
    "collections OrderedDict",
    "torch Size",
    "torch device",
    "torch.storage UntypedStorage",
    "torch._utils _rebuild_tensor",
    "torch._utils _rebuild_tensor_v2",
    "torch._utils _rebuild_tensor_v3",
    "torch._utils _rebuild_parameter",
}


def load(path: Path) -> Any:
    """The content of a .pt file on the host; tensors are memory-mapped if the format allows it."""
    torch = require("torch", extra="torch", for_=f"Reading {path.name}")
    with existing_file(path).open("rb") as file:
        first = file.read(len(_ZIP))
        size = file.seek(0, io.SEEK_END)
    if not size:
        raise FormatError(f"{path} is empty. {REMEDY}")
    mapped = first == _ZIP
    with damage(f"{path} is damaged, or not a file of tensors; nishimori loads nothing else. {REMEDY}"):
        names = _zip_names(path) if mapped else _old_names(path, size)
        _check(names, path, torch)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about old dtypes and storages, which are refused later if they cannot be used
            return torch.load(path, map_location="cpu", weights_only=True, mmap=mapped or None)


def tensor_arrays(path: Path) -> dict[str, Callable[[], StoredArray]]:
    """Functions that open each tensor of a .pt file, by name."""
    content = load(path)
    if not isinstance(content, dict):
        raise FormatError(f"{path} must hold a dictionary of tensors, got a {type(content).__name__}. {REMEDY}")
    for name in content:
        if not isinstance(name, str):
            raise FormatError(f"{path} must have text as names, got {name!r:.40}. {REMEDY}")
    return {name: partial(_tensor_array, value, path, f"{name!r} in {path}") for name, value in content.items()}


def _tensor_array(tensor: Any, path: Path, where: str) -> StoredArray:
    torch = require("torch", extra="torch", for_=f"Reading {path.name}")
    if not isinstance(tensor, torch.Tensor):
        raise FormatError(f"{where} must be a tensor, got a {type(tensor).__name__}. {REMEDY}")
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type != "cpu":
        raise FormatError(f"{where} must be a plain tensor. {REMEDY}")
    try:
        dtype = on_host(torch.empty(0, dtype=tensor.dtype)).dtype
    except Exception:  # float8, quarters of bytes, and what PyTorch adds later
        raise FormatError(f"{where} has the dtype {tensor.dtype}, which NumPy does not have. {FLOAT8}") from None
    # A tensor may repeat its elements, and then describe more memory than there is.
    if tensor.numel() * tensor.element_size() > path.stat().st_size:
        raise FormatError(f"{where} repeats its elements. Save `tensor.contiguous()` instead.")
    table = merge_leading(tensor) if tensor.ndim > 2 else tensor

    def rows(start: int, stop: int) -> HostArray:
        return on_host(rows_between(table, start, stop).contiguous().resolve_neg())

    return StoredArray(where, tuple(tensor.shape), dtype, rows)


def _zip_names(path: Path) -> Iterator[str]:
    """The functions and classes that a file in the current format refers to."""
    records = directory(path)
    instructions = [record for record in records if record.filename.endswith("/data.pkl")]
    if len(instructions) != 1:
        arrays = records and all(record.filename.endswith(".npy") for record in records)
        remedy = f"Rename it to {path.with_suffix('.npz').name}." if arrays else REMEDY
        raise FormatError(f"{path} holds {'NumPy arrays' if arrays else 'no tensors'}. {remedy}")
    (content,) = instructions
    if any(record.compress_type != zipfile.ZIP_STORED or record.file_size != record.compress_size for record in records):
        raise FormatError(f"{path} is compressed, which PyTorch does not do. {REMEDY}")
    if content.file_size > _LONGEST:
        raise FormatError(f"{path} holds too many objects. {REMEDY}")
    with path.open("rb") as file:
        # Not through zipfile: PyTorch can be told to write no checksums, and does not check them.
        file.seek(content_offset(path, content))
        yield from _globals(io.BytesIO(file.read(content.file_size)))


def _old_names(path: Path, size: int) -> Iterator[str]:
    """The functions and classes that a file from before PyTorch 1.6 refers to."""
    with path.open("rb") as file:
        for _ in range(_N_OLD_PARTS):
            yield from _globals(file)
    if size > _LARGEST_OLD:
        raise FormatError(f"{path} was written by an old PyTorch, in a format for small files. Load it and save it again.")


def _globals(stream: Any) -> Iterator[str]:
    for code, argument, _ in pickletools.genops(stream):
        if code.name in ("GLOBAL", "INST"):
            yield str(argument)
        elif code.name in ("STACK_GLOBAL", "EXT1", "EXT2", "EXT4"):
            yield code.name  # PyTorch writes none of them


def _check(names: Iterator[str], path: Path, torch: Any) -> None:
    for name in names:
        module, _, attribute = name.partition(" ")
        is_type_of_torch = module == "torch" and (
            attribute.endswith("Storage") or isinstance(getattr(torch, attribute, None), torch.dtype)
        )
        if name not in _PLAIN and not is_type_of_torch:
            raise FormatError(f"{path} is not a file of plain tensors: it refers to {name!r:.80}. {REMEDY}")
