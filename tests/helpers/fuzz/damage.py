"""Mutations that know nothing about a format: damaged bytes, other contents under the same name, things that are not files."""

import gzip
import io
import lzma
import pickle
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from random import Random

from fuzz.samples import LABELS, LOGITS, Sample, Special, npy, npz, safetensors, tensors

# A mutation takes a valid sample and the other samples of its format, and gives the sample to try.
Mutation = Callable[[Random, Sample, list[Sample]], Sample]
_NUMBERS = (0, 1, 2, 7, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**63 - 1, 2**63)


def content(sample: Sample, name: str | None = None) -> bytes:
    """The bytes of a file of a valid sample, by default of the first one."""
    found = sample.files[name or next(iter(sample.files))]
    assert isinstance(found, bytes)
    return found


def on_bytes(change: Callable[[Random, bytes, bytes], bytes]) -> Mutation:
    """A mutation of the bytes of one file; ``change`` also gets the bytes of another valid file."""

    @wraps(change)
    def mutation(rng: Random, sample: Sample, pool: list[Sample]) -> Sample:
        name = rng.choice(list(sample.files))
        return replace(
            sample, files={**sample.files, name: change(rng, content(sample, name), content(rng.choice(pool), name))}
        )

    return mutation


def from_scratch(make: Callable[[Random], bytes]) -> Mutation:
    """A mutation that makes the contents of its only file from the plain scores and labels, as in the first sample."""

    @wraps(make)
    def mutation(rng: Random, _: Sample, pool: list[Sample]) -> Sample:
        return replace(pool[0], files={name: make(rng) for name in pool[0].files})

    return mutation


def _span(rng: Random, data: bytes, longest: int = 64) -> tuple[int, int]:
    start = rng.randrange(len(data))
    return start, min(len(data), start + rng.randint(1, longest))


def flip_bits(rng: Random, data: bytes, _: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8, 40))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def flip_bits_of_the_head(rng: Random, data: bytes, _: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 2))):
        changed[rng.randrange(min(len(changed), 160))] = rng.randrange(256)
    return bytes(changed)


def flip_bits_of_the_tail(rng: Random, data: bytes, _: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 2))):
        changed[-1 - rng.randrange(min(len(changed), 200))] = rng.randrange(256)
    return bytes(changed)


def truncate(rng: Random, data: bytes, _: bytes) -> bytes:
    return data[: rng.choice((rng.randrange(len(data)), len(data) - rng.randint(1, min(9, len(data)))))]


def insert(rng: Random, data: bytes, _: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.randbytes(rng.choice((1, 2, 8, 100))) + data[at:]


def duplicate(rng: Random, data: bytes, _: bytes) -> bytes:
    start, stop = _span(rng, data)
    return data[:stop] + data[start:stop] * rng.choice((1, 1, 3, 100)) + data[stop:]


def delete(rng: Random, data: bytes, _: bytes) -> bytes:
    start, stop = _span(rng, data)
    return data[:start] + data[stop:]


def zero(rng: Random, data: bytes, _: bytes) -> bytes:
    start, stop = _span(rng, data)
    return data[:start] + bytes(stop - start) + data[stop:]


def splice(rng: Random, data: bytes, other: bytes) -> bytes:
    return data[: rng.randrange(len(data))] + other[rng.randrange(len(other)) :]


def append(rng: Random, data: bytes, other: bytes) -> bytes:
    return data + rng.choice((b"\0", b"\n", rng.randbytes(50), other))


def prepend(rng: Random, data: bytes, other: bytes) -> bytes:
    return rng.choice((b"\0", b"\n", rng.randbytes(50), other)) + data


def number_field(rng: Random, data: bytes, _: bytes) -> bytes:
    """Write a number where a length, an offset or a count may be."""
    size = rng.choice((2, 4, 8))
    at = rng.randrange(max(1, len(data) - size))
    number = rng.choice(_NUMBERS) % 256**size
    return data[:at] + number.to_bytes(size, rng.choice(("little", "little", "big"))) + data[at + size :]


def number_field_of_the_tail(rng: Random, data: bytes, other: bytes) -> bytes:
    at = max(0, len(data) - 120)
    return data[:at] + number_field(rng, data[at:], other)


def nothing(rng: Random, data: bytes, _: bytes) -> bytes:
    return rng.choice((b"", b"\0", b"\n", b" ", data[:4], data[:8]))


class Reduced:
    """Pickles as a call of a function, which no reader may make."""

    def __reduce__(self) -> tuple:
        return print, ("a pickle was run",)


def foreign() -> dict[str, bytes]:
    """Valid contents of many kinds, to be found under the name of another."""
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as out:
        out.writestr(zipfile.ZipInfo("readme.txt"), "nothing here")
    return {
        "npy": npy(LOGITS),
        "npz": npz(logits=LOGITS, labels=LABELS),
        "safetensors": safetensors(*tensors({"logits": ("F64", LOGITS), "labels": ("I64", LABELS)})),
        "csv": b"a,b,c,labels\n1,2,3,0\n4,5,6,1\n",
        "json": b'{"a": [1, 2, {"b": null}]}\n',
        "gzip": gzip.compress(b"a,b,c,labels\n1,2,3,0\n", mtime=0),
        "xz": lzma.compress(b"a,b,c,labels\n1,2,3,0\n"),
        "zip": zipped.getvalue(),
        "empty zip": b"PK\5\6" + bytes(18),
        "pickle": pickle.dumps({"logits": LOGITS.tolist(), "labels": LABELS.tolist()}),
        "pickle of a call": pickle.dumps(Reduced()),
        "png": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(30),
        "pdf": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n",
        "elf": b"\x7fELF\2\1\1" + bytes(80),
        "hdf5": b"\x89HDF\r\n\x1a\n" + bytes(80),
        "parquet magic": b"PAR1" + bytes(40) + b"PAR1",
        "encrypted parquet magic": b"PARE" + bytes(40) + b"\x10\0\0\0PARE",
        "arrow magic": b"ARROW1\0\0" + bytes(40) + b"ARROW1",
        "html": b"<!DOCTYPE html><html><body>404: not found</body></html>\n",
        "pointer of Git LFS": b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
    }


def renamed(rng: Random, _: bytes, __: bytes) -> bytes:
    return rng.choice(list(foreign().values()))


SPECIAL = ("pipe", "folder", "loop", "zeros", "null", "dangling", "locked", "socket", "terminal")


def not_a_file(rng: Random, sample: Sample, _: list[Sample]) -> Sample:
    """A pipe, a folder, a link to a device, ... in the place of a file."""
    name = rng.choice(list(sample.files))
    return replace(sample, files={**sample.files, name: Special(rng.choice(SPECIAL))})


def unchanged(_: Random, sample: Sample, __: list[Sample]) -> Sample:
    """A valid file, which must be read: else the fuzzer would only see refusals."""
    return sample


_BYTES = (
    flip_bits,
    flip_bits_of_the_head,
    flip_bits_of_the_tail,
    truncate,
    insert,
    duplicate,
    delete,
    zero,
    splice,
    append,
    prepend,
    number_field,
    number_field_of_the_tail,
    nothing,
    renamed,
)
DAMAGE: tuple[Mutation, ...] = (*map(on_bytes, _BYTES), not_a_file, unchanged)
