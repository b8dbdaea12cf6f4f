"""Mutations of .pt and .safetensors files that know what PyTorch stores and what a header of tensors says."""

import io
import json
import pickle
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from fuzz.damage import Mutation, Reduced, from_scratch, on_bytes
from fuzz.samples import LABELS, LOGITS, Sample, archive, pt, safetensors, tensors


def _odd_tensors() -> dict[str, Callable[[], Any]]:
    """Tensors, or things in their place, that are not plain numbers in a row."""
    import torch

    logits = torch.from_numpy(LOGITS)
    return {
        "sparse": logits.to_sparse,
        "sparse by rows": logits.to_sparse_csr,
        "quantised": lambda: torch.quantize_per_tensor(logits.float(), 0.1, 0, torch.qint8),
        "quantised by channel": lambda: torch.quantize_per_channel(
            logits.float(), torch.ones(3, dtype=torch.float64), torch.zeros(3, dtype=torch.int64), 1, torch.quint8
        ),
        "float8": lambda: logits.to(torch.float8_e4m3fn),
        "float8, other": lambda: logits.to(torch.float8_e5m2),
        "nested": lambda: torch.nested.nested_tensor([logits[:2], logits[2:5]]),
        "nested, jagged": lambda: torch.nested.nested_tensor([logits[:2], logits[2:5]], layout=torch.jagged),
        "complex": lambda: logits.to(torch.complex64),
        "conjugate": lambda: logits.to(torch.complex64).conj(),
        "negative view": lambda: logits.to(torch.complex64).conj().imag,
        "complex32": lambda: logits.to(torch.complex64).to(torch.complex32),
        "truth": lambda: logits > 0,
        "uint16": lambda: logits.abs().to(torch.uint16),
        "uint64": lambda: logits.abs().to(torch.uint64),
        "meta": lambda: torch.empty((24, 3), device="meta"),
        "parameter": lambda: torch.nn.Parameter(logits),
        "with gradient": lambda: logits.clone().requires_grad_() * 2,
        "expanded": lambda: torch.zeros(1, 1).expand(1_000_000_000, 3),
        "expanded rows": lambda: logits[:1].expand(200_000_000, 3),
        "empty": lambda: logits[:0],
        "no classes": lambda: logits[:, :0],
        "one number": lambda: torch.tensor(1.5),
        "three dimensions": lambda: logits[None],
        "storage": logits.untyped_storage,
        "size": lambda: logits.shape,
        "list": logits.tolist,
        "number": lambda: 1.5,
        "nothing": lambda: None,
        "dictionary": lambda: {"logits": logits},
        "text": lambda: "\x1b[31mred",
        "array": lambda: LOGITS,
        "dtype": lambda: logits.dtype,
        "not a number": lambda: logits * float("nan"),
    }


def _odd_contents() -> dict[str, Callable[[], Any]]:
    """What can be odd about the content as a whole."""
    import argparse
    import collections

    import torch

    logits, labels = torch.from_numpy(LOGITS), torch.from_numpy(LABELS)
    plain = {"logits": logits, "labels": labels}
    deep: Any = plain
    for _ in range(300):
        deep = [deep]
    return {
        "list": lambda: [logits, labels],
        "tensor": lambda: logits,
        "call": Reduced,
        "call within": lambda: {**plain, "more": Reduced()},
        "namespace": lambda: argparse.Namespace(**plain),
        "layer": lambda: torch.nn.Linear(3, 3),
        "weights of a layer": lambda: torch.nn.Linear(3, 3).state_dict(),
        "ordered": lambda: collections.OrderedDict(plain),
        "default": lambda: collections.defaultdict(list, plain),
        "odd keys": lambda: {1: logits, ("a",): labels, None: 1, "\x1b[31mred\x07": 2, "x" * 5000: 3},
        "odd keys besides": lambda: {**plain, 1: 2, None: 3, b"bytes": 4},
        "empty": dict,
        "text": lambda: "logits",
        "nothing": lambda: None,
        "deep": lambda: deep,
        "numbers": lambda: {"logits": LOGITS.tolist(), "labels": LABELS.tolist()},
        "labels that are not whole": lambda: {"logits": logits, "labels": labels + 0.5},
        "labels of other shape": lambda: {"logits": logits, "labels": labels[:, None]},
        "labels in one column per class": lambda: {"logits": logits, "labels": torch.nn.functional.one_hot(labels)},
    }


def odd_tensor(rng: Random, _: Sample, pool: list[Sample]) -> Sample:
    import torch

    content = {"logits": torch.from_numpy(LOGITS), "labels": torch.from_numpy(LABELS)}
    return _stored(
        pool[0], lambda: content | {rng.choice(("logits", "logits", "labels")): rng.choice(list(_odd_tensors().values()))()}
    )


def odd_content(rng: Random, _: Sample, pool: list[Sample]) -> Sample:
    return _stored(pool[0], rng.choice(list(_odd_contents().values())))


def _stored(sample: Sample, make: Callable[[], Any]) -> Sample:
    """What ``make`` gives, as a .pt file; what PyTorch cannot make or store stays as it was."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # prototypes warn
        try:
            return replace(sample, files={"table.pt": pt(make())})
        except (RuntimeError, TypeError, AttributeError, NotImplementedError, RecursionError, pickle.PicklingError):
            return sample


def pickle_of_pt(rng: Random, data: bytes, _: bytes) -> bytes:
    """Another pickle in the archive: other globals, other sizes, damaged opcodes, or a member that is missing."""
    if not data.startswith(b"PK"):
        return data[: rng.randrange(len(data))] + rng.randbytes(4)
    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        members = {name: packed.read(name) for name in packed.namelist()}
    name = next(name for name in members if name.endswith("data.pkl"))
    text = members[name]
    at = rng.randrange(len(text))
    change = rng.choice(("global", "opcode", "cut", "size", "missing", "bare", "version", "order", "storage"))
    match change:
        case "global":
            known = rng.choice((b"torch._utils\n_rebuild_tensor_v2", b"torch\nDoubleStorage", b"torch\nLongStorage"))
            other = rng.choice(
                (
                    b"os\nsystem",
                    b"builtins\neval",
                    b"torch\nload",
                    b"numpy\nndarray",
                    b"torch\nno_such",
                    b"torch._utils\n_rebuild_parameter",
                )
            )
            members[name] = text.replace(known, other)
        case "opcode":
            members[name] = (
                text[:at] + bytes([rng.choice(b"()].0abcdegilopqrstu}RBCGIJKLMNPQSTUVX\x80\x81\x95")]) + text[at + 1 :]
            )
        case "cut":
            members[name] = text[:at] + b"."
        case "size":
            members[name] = text.replace(
                b"K\x18K\x03", rng.choice((b"K\xffK\x03", b"J\xff\xff\xff\x7fK\x03", b"J\xff\xff\xff\xffK\x03", b"K\x00K\x03"))
            )
        case "missing":
            members.pop(rng.choice(list(members)))
        case "bare":
            return text
        case "version" | "order":
            key = next((each for each in members if each.endswith(("version", "byteorder"))), name)
            members[key] = rng.choice((b"", b"999999", b"big", b"abc", b"-1"))
        case "storage":
            key = next((each for each in members if each.endswith("data/0")), name)
            members[key] = rng.choice((b"", members[key][:-1], members[key] * 2, b"\xff" * len(members[key])))
    return archive(members)


_DTYPES = (
    "F8_E4M3",
    "F8_E5M2",
    "F4",
    "F6_E2M3",
    "BOOL",
    "U8",
    "I8",
    "I64",
    "BF16",
    "F16",
    "F32",
    "C64",
    "E8M0",
    "Q4",
    "",
    5,
    None,
    [],
    "f64",
)
_SHAPES = (
    [],
    [72],
    [3, 24],
    [24, 3, 1],
    [0, 3],
    [24, 0],
    [-24, 3],
    [24.0, 3],
    ["24", 3],
    None,
    72,
    [2**62, 4],
    [2**40, 3],
    [24, 4],
    [[24, 3]],
)
_OFFSETS = (
    [0, 0],
    [0, 575],
    [1, 577],
    [0, 2**62],
    [576, 0],
    [-8, 568],
    [0],
    [],
    None,
    [0, 576, 768],
    [0.0, 576.0],
    [192, 768],
    [2**64, 2**64 + 8],
)


def header_of_tensors(rng: Random) -> bytes:
    """Edit a dtype, a shape or an offset of a header, its keys, or its length."""
    header, data = tensors({"logits": ("F64", LOGITS), "labels": ("I64", LABELS)})
    tensor = header[rng.choice(("logits", "logits", "labels"))]
    match rng.choice(("dtype", "dtype", "shape", "offsets", "keys", "metadata", "text", "length", "narrow")):
        case "dtype":
            tensor["dtype"] = rng.choice(_DTYPES)
        case "narrow":  # the sizes are right, only the type is not plain
            dtype, width = rng.choice(
                (
                    ("F8_E4M3", 1),
                    ("F8_E5M2", 1),
                    ("BOOL", 1),
                    ("F8_E8M0", 1),
                    ("U16", 2),
                    ("U64", 8),
                    ("C64", 8),
                    ("F8_E4M3FNUZ", 1),
                )
            )
            size = 72 * width
            header["logits"] = {"dtype": dtype, "shape": [24, 3], "data_offsets": [0, size]}
            header["labels"]["data_offsets"] = [size, size + 192]
            data = bytes(i % 2 for i in range(size)) + LABELS.tobytes()
        case "shape":
            tensor["shape"] = rng.choice(_SHAPES)
        case "offsets":
            tensor["data_offsets"] = rng.choice(_OFFSETS)
        case "keys":
            change = rng.choice(("missing", "added", "named"))
            if change == "missing":
                tensor.pop(rng.choice(list(tensor)))
            elif change == "added":
                tensor["more"] = 1
            else:
                header[rng.choice(("\x1b[31mred", "", "x" * 5000, "\x00", "a\nb"))] = header.pop("logits")
        case "metadata":
            header["__metadata__"] = rng.choice((1, [], {"a": 1}, {"a": None}, "text", {"a": "\x1b[31m"}, None))
        case "text":
            return _odd_header(rng, header, data)
        case "length":
            text = json.dumps(header).encode()
            size = rng.choice((0, 1, len(text) - 1, len(text) + 1, 2**31, 2**63, 2**64 - 1, 100_000_001))
            return size.to_bytes(8, "little") + text + data
    return safetensors(header, data)


def _odd_header(rng: Random, header: dict, data: bytes) -> bytes:
    text = json.dumps(header).encode()
    odd = (
        b"[" * 100_000, b'{"a":' * 100_000, b"[]", b"null", b"1", b"{}", text[:-1], text + b" " * 10_000,
        b" " + text, b"\xff" + text,
        text.replace(b"logits", b"\\ud800"), text.replace(b"labels", b"logits"), text.replace(b"24", b"2" * 5000), text + b"x",
        text.replace(b"logits", b"log\xffits"), text.replace(b'"F64"', b'"F64", "dtype": "I64"'),
        text.replace(b"24, 3", b"24, 3, NaN"),
    )  # fmt: skip
    return safetensors(rng.choice(odd), data)


NETWORKS: dict[str, tuple[Mutation, ...]] = {
    "pt": (*4 * (odd_tensor,), *2 * (odd_content,), *3 * (on_bytes(pickle_of_pt),)),
    "safetensors": 6 * (from_scratch(header_of_tensors),),
}
