"""Mutations of .npy and .npz files that know their structure: headers of arrays, members of archives."""

import io
import struct
import zipfile
import zlib
from dataclasses import replace
from random import Random

import numpy as np
from fuzz.damage import (
    Mutation,
    append,
    content,
    delete,
    flip_bits,
    flip_bits_of_the_head,
    from_scratch,
    insert,
    on_bytes,
    truncate,
)
from fuzz.samples import LABELS, LOGITS, Sample, archive, npy

_SHAPES = (
    "()", "(0, 3)", "(24,)", "(3, 24)", "(24, 3, 1)", "(1, 72)", "(72, 1)", "(-1, 3)", "(24, -3)", "(24.0, 3)", "('24', 3)",
    "(24, 0)", "(0,)", "[24, 3]", "24", "None", "(True, 3)", "(4611686018427387904, 3)",
    "(1000000000, 3)", "(23, 3)", "(25, 3)",
    "(18446744073709551616, 3)", "(1" + 300 * "0" + ", 3)", "(24, (3, 1))", "(" + 60 * "1, " + ")", "(100000000000000, 0)",
)  # fmt: skip
_DTYPES = (
    "'<f2'", "'<f4'", "'>f8'", "'<i8'", "'|b1'", "'<c16'", "'|O'", "'<U4'", "'|S8'", "'<M8[ns]'", "'<m8[s]'", "'|V8'", "'<f16'",
    "[('a', '<f8')]", "[('a', '<f4'), ('b', '|O')]", "'garbage'", "'<f99999999'", "'<U500000000'",
    "'|S0'", "'|V0'", "None", "3",
    "('<f8', (2, 2))", "('<f4', (1000000, 1000000))", "{'names': ['a'], 'formats': ['<f8'], 'offsets': [1000000000]}", "'<u8'",
    "[('a', [('b', [('c', '<f8')])])]", "''", "'f8,' * 9", "[('\\x1b[31mred', '<f8')]",
    "'<M8[99999999999999999999s]'", "'<U-1'",
)  # fmt: skip
_ORDERS = ("True", "False", "'yes'", "1", "None", "[]")
_HEADERS = (
    "{", "}", "{}", "{{{", "None", "1", "'text'", "[]", "(" * 90 + ")" * 90, "[" * 5000,
    "{'descr': '<f8'}", "\x00" * 40, "-" * 3000,
    "{'descr': '<f8', 'fortran_order': False, 'shape': (24, 3), 'more': 1}",
    "__import__('os').getcwd()", "1" * 5000, "'\\N{DASH}'",
    "{'descr': '<f8', 'descr': '<f4', 'fortran_order': False, 'shape': (24, 3)}", "{'shape': (24, 3), 'fortran_order': False",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (24L, 3L)}", "\t{'descr'\n: 1}", "0x",
    "b'\\xff'", "f'{1}'", "é" * 30, "'''",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (24, 3), }" + " " * 20000,
)  # fmt: skip


def with_header(text: str, data: bytes, version: tuple[int, int] = (1, 0), length: int | None = None) -> bytes:
    header = text.encode("utf-8") + b"\n"
    size = struct.pack("<H" if version[0] == 1 else "<I", (len(header) if length is None else length) % (2**16))
    return b"\x93NUMPY" + bytes(version) + size + header + data


def header_of_an_array(rng: Random, data: bytes, _: bytes) -> bytes:
    """Write another shape, dtype or order into the header of an array."""
    n, body = (72, LOGITS.tobytes()) if len(data) > 500 else (24, LABELS.tobytes())
    shape, dtype, order = "(24, 3)" if n == 72 else "(24,)", "'<f8'" if n == 72 else "'<i8'", "False"
    what = rng.choice(("shape", "shape", "dtype", "dtype", "order", "text", "version", "length", "body"))
    version, length = (1, 0), None
    match what:
        case "shape":
            shape = rng.choice(_SHAPES)
        case "dtype":
            dtype = rng.choice(_DTYPES)
        case "order":
            order = rng.choice(_ORDERS)
        case "text":
            return with_header(rng.choice(_HEADERS), body)
        case "version":
            version = rng.choice(((2, 0), (3, 0), (0, 0), (1, 9), (4, 0), (255, 255)))
        case "length":
            length = rng.choice((0, 1, 20, 65535))
        case "body":
            body = rng.choice((b"", body[:-1], body[:-8], body + b"\0", body * 2))
    return with_header(f"{{'descr': {dtype}, 'fortran_order': {order}, 'shape': {shape}, }}", body, version, length)


def values_of_an_array(rng: Random, data: bytes, _: bytes) -> bytes:
    """Valid arrays whose values or dtypes are not those of scores or labels."""
    scores = LOGITS.copy()
    scores[rng.randrange(24), rng.randrange(3)] = rng.choice((np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-320))
    labels = LABELS.astype(float)
    labels[rng.randrange(24)] = rng.choice((1.7, -0.5, -1, 3, 2**60, np.nan, np.inf, 1e300))
    odd = [
        LOGITS.astype("c16"), LOGITS > 0, LOGITS.astype("U"), LOGITS.astype("S"), LOGITS.astype(np.longdouble), LOGITS[:0],
        LOGITS[:, :0], LOGITS[:, :1], LOGITS[:, 0], LOGITS[None], LOGITS.astype("m8[s]"), LOGITS * 0, LOGITS.astype("i1"),
        LABELS.astype("M8[D]"), np.array(7), np.zeros((0, 0)), LABELS[:5], LABELS[:, None], np.eye(3)[LABELS],
        LOGITS.astype("f4").view([("a", "<f4")]), np.full((24, 3), 2**60), np.repeat(LOGITS, 30, axis=1),
    ]  # fmt: skip
    return npy(rng.choice([scores, scores, labels, labels, *odd]))


def _members(rng: Random) -> dict[str, bytes]:
    """The members of a valid archive, of which one is mutated as a .npy file would be."""
    members = {"logits.npy": npy(LOGITS), "labels.npy": npy(LABELS)}
    name = rng.choice(list(members))
    change = rng.choice((header_of_an_array, values_of_an_array))
    return members | {name: change(rng, members[name], b"")}


def member_of_an_archive(rng: Random) -> bytes:
    return archive(_members(rng), rng.choice((0, 8, 8)))


def damaged_member(rng: Random, data: bytes, _: bytes) -> bytes:
    """Damage to an array before it is packed, so that its checksum is right."""
    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        members = {name: packed.read(name) for name in packed.namelist()}
    name = rng.choice(list(members))
    change = rng.choice((flip_bits_of_the_head, flip_bits_of_the_head, truncate, append, delete, insert, flip_bits))
    return archive(members | {name: change(rng, members[name], members[name])}, rng.choice((0, 8)))


def names_in_an_archive(rng: Random) -> bytes:
    """Members that are missing, are not arrays, or have names that reach the terminal."""
    logits, labels = npy(LOGITS), npy(LABELS)
    odd = rng.choice(
        [
            "logits",
            "../logits.npy",
            "logits.npy/",
            "logits.NPY",
            "\x1b[31mred\x07.npy",
            "a" * 5000 + ".npy",
            "\u202eslipol.npy",
            ".npy",
            "x\ny.npy",
        ]
    )
    return archive(
        rng.choice(
            [
                {odd: logits, "labels.npy": labels},
                {odd: logits, "logits.npy": logits, "labels.npy": labels},
                {odd: b"text", "labels.npy": labels},
                {"logits.npy": b"text, not an array", "labels.npy": labels},
                {"logits.npy": b"", "labels.npy": labels},
                {"logits": LOGITS.tobytes(), "labels": LABELS.tobytes()},
                {"logits.npy": archive({"logits.npy": logits}), "labels.npy": labels},
                {"labels.npy": labels},
                {},
                {f"array_{i}.npy": b"" for i in range(3000)},
            ]
        )
    )


def duplicate_members(rng: Random) -> bytes:
    """Two members of one name: the second central entry is given the name of the first."""
    packed = archive({"logits.npy": npy(LOGITS), "labels.npy": npy(LABELS), "logits.npz": npy(-LOGITS)}, rng.choice((0, 8)))
    return packed.replace(b"logits.npz", b"logits.npy")


def fields_of_an_archive(rng: Random) -> bytes:
    """Edit the flags, the method, the checksum or the sizes of a member, in both of its headers or in one."""
    packed = bytearray(archive({"logits.npy": npy(LOGITS), "labels.npy": npy(LABELS)}, rng.choice((0, 8, 12, 14))))
    field = rng.choice(("flags", "method", "checksum", "packed size", "size", "name length", "extra length"))
    local = {"flags": 6, "method": 8, "checksum": 14, "packed size": 18, "size": 22, "name length": 26, "extra length": 28}[
        field
    ]
    width = 4 if field in ("checksum", "packed size", "size") else 2
    values = {"flags": (1, 0x41, 0x2000, 8, 0x20, 0xFFFF), "method": (0, 1, 8, 9, 12, 14, 93, 95, 98, 99, 0xFFFF)}
    value = rng.choice(values.get(field, (0, 1, 100, 0xFFFF, 0xFFFFFFFF, 0x7FFFFFFF))) % 256**width
    first, central = 0, packed.index(b"PK\1\2")
    where = rng.choice(([first + local, central + local + 2], [first + local], [central + local + 2]))
    for at in where:
        packed[at : at + width] = value.to_bytes(width, "little")
    return bytes(packed)


def zeros(n_bytes: int) -> tuple[bytes, int]:
    """A deflate stream of at least that many zeros, quickly: one block again and again, since each begins afresh."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(2**20)) + packer.flush(zlib.Z_FULL_FLUSH)
    times = -(-n_bytes // 2**20)
    return block * times + zlib.compressobj(9, zlib.DEFLATED, -15).flush(), times * 2**20


def bomb(rng: Random) -> bytes:
    """An archive whose scores are far larger than the shape in their header says."""
    return _bomb(rng.choice((2**26, 3 * 2**30)), declared=True)


def hidden_bomb(rng: Random) -> bytes:
    """The same, but the archive gives the size that the header gives: a reader that stops there is right."""
    return _bomb(rng.choice((2**26, 3 * 2**30)), declared=False)


def _bomb(n_bytes: int, *, declared: bool) -> bytes:
    head = npy(LOGITS)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    start = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    rest, more = zeros(n_bytes)
    scores, size = start + rest, len(head) + (more if declared else 0)
    labels = npy(LABELS)
    found, central = b"", b""
    for name, packed, length, method, checksum in (
        (b"logits.npy", scores, size, 8, zlib.crc32(head)),
        (b"labels.npy", labels, len(labels), 0, zlib.crc32(labels)),
    ):
        common = struct.pack("<HHHHHIIIHH", 20, 0, method, 0, 33, checksum, len(packed), length % 2**32, len(name), 0)
        central += b"PK\1\2\x14\0" + common + struct.pack("<HHHII", 0, 0, 0, 0, len(found)) + name
        found += b"PK\3\4" + common + name + packed
    return found + central + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 2, 2, len(central), len(found), 0)


def swapped(_: Random, sample: Sample, __: list[Sample]) -> Sample:
    """Labels where scores should be."""
    first, second = sample.files
    return replace(sample, files={first: content(sample, second), second: content(sample, first)})


# What finds most comes more than once.
ARRAYS: dict[str, tuple[Mutation, ...]] = {
    "npy": (*3 * (on_bytes(header_of_an_array),), on_bytes(values_of_an_array), swapped),
    "npz": (
        *2 * (from_scratch(member_of_an_archive),),
        *3 * (from_scratch(fields_of_an_archive),),
        *2 * (on_bytes(damaged_member),),
        from_scratch(names_in_an_archive),
        from_scratch(duplicate_members),
        from_scratch(bomb),
        from_scratch(hidden_bomb),
    ),
}
