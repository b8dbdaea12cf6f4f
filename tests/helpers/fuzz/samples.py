"""Small valid files of every format that the shell reads: what the mutations start from.

`samples(ending)` makes several variants of one format from the same few rows: other dtypes, compressed or not, labels as text,
weights, further columns. Everything is made by code from fixed seeds, so a case needs only its format and its number.
"""

import gzip
import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

CLASSES = ("cat", "dog", "fish")
COLUMNS = tuple(f"z_{name}" for name in CLASSES)
N_ROWS = 24


@dataclass(frozen=True)
class Special:
    """Something in the place of a file that is not a regular file: ``kind`` says what."""

    kind: str


@dataclass(frozen=True)
class Sample:
    """Files in the order of the command line, and the options that name what is in them.

    The files are valid; where a sample is ``optional``, the command may refuse it all the same.
    """

    name: str
    files: dict[str, bytes | Special]
    options: dict[str, str] = field(default_factory=dict)
    optional: bool = False


def _drawn() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logits of a model that is right about three times in four, labels and weights."""
    rng = np.random.default_rng(11)
    labels = np.arange(N_ROWS) % 3
    logits = np.round(2 * rng.normal(size=(N_ROWS, 3)) + 2.5 * np.eye(3)[labels], 4)
    return logits, labels, np.round(rng.uniform(0.5, 2, N_ROWS), 3)


LOGITS, LABELS, WEIGHTS = _drawn()
TEXT_LABELS = np.array(CLASSES)[LABELS]
_EXP = np.exp(LOGITS - LOGITS.max(axis=1, keepdims=True))
PROBABILITIES = _EXP / _EXP.sum(axis=1, keepdims=True)
IN_WORDS = {"classes": ",".join(CLASSES)}


def npy(array: np.ndarray, version: tuple[int, int] | None = None) -> bytes:
    """An array as the contents of a .npy file."""
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asanyarray(array), version, allow_pickle=False)
    return file.getvalue()


def archive(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    """A ZIP archive; all members have the same date, so that the bytes are always the same."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as out:
        for name, content in members.items():
            out.writestr(zipfile.ZipInfo(name), content, compress_type=method)
    return file.getvalue()


def npz(method: int = zipfile.ZIP_STORED, **arrays: np.ndarray) -> bytes:
    """Arrays as the contents of a .npz file."""
    return archive({f"{name}.npy": npy(array) for name, array in arrays.items()}, method)


def _npz() -> list[Sample]:
    def one(name: str, content: bytes, **options: str) -> Sample:
        return Sample(name, {"table.npz": content}, options)

    packed = zipfile.ZIP_DEFLATED
    return [
        one("float64", npz(logits=LOGITS, labels=LABELS)),
        one("float32 compressed", npz(packed, logits=LOGITS.astype("f4"), labels=LABELS.astype("u1"))),
        one("float16", npz(logits=LOGITS.astype("f2"), labels=LABELS.astype("i2"))),
        one("big-endian, by columns", npz(logits=np.asfortranarray(LOGITS.astype(">f8")), labels=LABELS.astype(">i4"))),
        one("labels as text", npz(packed, logits=LOGITS, labels=TEXT_LABELS), **IN_WORDS),
        one("weights", npz(logits=LOGITS, labels=LABELS, weight=WEIGHTS, other=np.arange(5)), weights="weight"),
        one("probabilities", npz(probabilities=PROBABILITIES, labels=LABELS), input="probabilities"),
        one("one score per row", npz(logits=LOGITS[:, 1] - LOGITS[:, 0], labels=(LABELS == 1).astype("i8"))),
        # NumPy reads these, but never writes them.
        replace(one("lzma", npz(zipfile.ZIP_LZMA, logits=LOGITS, labels=LABELS)), optional=True),
        replace(one("bzip2", npz(zipfile.ZIP_BZIP2, logits=LOGITS, labels=LABELS)), optional=True),
    ]


def _npy() -> list[Sample]:
    def two(name: str, scores: bytes, labels: bytes, **options: str) -> Sample:
        return Sample(name, {"scores.npy": scores, "labels.npy": labels}, options)

    return [
        two("float64", npy(LOGITS), npy(LABELS)),
        two("float32, header version 2", npy(LOGITS.astype("f4"), (2, 0)), npy(LABELS.astype("u2"))),
        two("big-endian, by columns", npy(np.asfortranarray(LOGITS.astype(">f4"))), npy(LABELS.astype(">i8"))),
        two("labels as text", npy(LOGITS), npy(TEXT_LABELS), **IN_WORDS),
        two("probabilities", npy(PROBABILITIES), npy(LABELS.astype(float)), input="probabilities"),
    ]


def rows_of(scores: np.ndarray, labels: np.ndarray, **extra: np.ndarray) -> list[list[str]]:
    """Lines of text with labels last and further columns before them."""
    parts = [[*map(repr, row), *(str(column[i]) for column in extra.values())] for i, row in enumerate(scores.tolist())]
    return [[*part, str(label)] for part, label in zip(parts, labels.tolist(), strict=True)]


def _text(header: list[str], rows: list[list[str]], mark: str = ",", end: str = "\n") -> bytes:
    return (end.join(mark.join(row) for row in [header, *rows]) + end).encode()


def _delimited(name: str, mark: str, pack: Callable[[bytes], bytes] = bytes) -> list[Sample]:
    """Variants of a text table; ``pack`` turns text into the contents of the file."""

    def one(title: str, content: bytes, **options: str) -> Sample:
        return Sample(title, {name: pack(content)}, options)

    plain = rows_of(LOGITS, LABELS)
    with_weights = rows_of(LOGITS, LABELS, weight=WEIGHTS)
    numbered = [[f"{i}", *row, f"row {i}"] for i, row in enumerate(plain)]
    quoted = [[f'"{field}"' for field in row] for row in rows_of(LOGITS, TEXT_LABELS)]
    return [
        one("plain", _text([*COLUMNS, "labels"], plain, mark)),
        one("labels as text", _text([*COLUMNS, "labels"], rows_of(LOGITS, TEXT_LABELS), mark), **IN_WORDS),
        one("classes are numbers", _text([*COLUMNS, "labels"], plain, mark), classes="0,1,2"),
        one("columns are the classes", _text([*CLASSES, "labels"], rows_of(LOGITS, TEXT_LABELS), mark), **IN_WORDS),
        one("weights", _text([*COLUMNS, "weight", "labels"], with_weights, mark), weights="weight"),
        one(
            "further columns",
            _text(["id", *COLUMNS, "labels", "remark"], numbered, mark),
            columns=",".join(COLUMNS),
        ),
        one("quoted, with CRLF", _text([*COLUMNS, "labels"], quoted, mark, "\r\n"), **IN_WORDS),
        one("byte order mark", b"\xef\xbb\xbf" + _text(["0", "1", "2", "truth"], plain, mark), labels="truth"),
        one("probabilities", _text([*COLUMNS, "labels"], rows_of(PROBABILITIES, LABELS), mark), input="probabilities"),
    ]


def _csv() -> list[Sample]:
    return _delimited("table.csv", ",")


def _tsv() -> list[Sample]:
    return _delimited("table.tsv", "\t")


def _csv_gz() -> list[Sample]:
    return _delimited("table.csv.gz", ",", lambda text: gzip.compress(text, mtime=0))


def objects(**columns: np.ndarray) -> list[dict]:
    """One object per row."""
    values = {name: column.tolist() for name, column in columns.items()}
    return [{name: column[i] for name, column in values.items()} for i in range(N_ROWS)]


def _jsonl() -> list[Sample]:
    def one(title: str, rows: list[dict], **options: str) -> Sample:
        return Sample(title, {"table.jsonl": "".join(json.dumps(row) + "\n" for row in rows).encode()}, options)

    scores = dict(zip(COLUMNS, LOGITS.T, strict=True))
    numbers = {"id": np.arange(N_ROWS), **scores, "labels": LABELS, "remark": TEXT_LABELS}
    return [
        one("plain", objects(**scores, labels=LABELS)),
        one("labels as text", objects(**scores, labels=TEXT_LABELS), **IN_WORDS),
        one("weights", objects(**scores, weight=WEIGHTS, labels=LABELS), weights="weight"),
        one("further columns", objects(**numbers), columns=",".join(COLUMNS)),
        one("probabilities", objects(**dict(zip(COLUMNS, PROBABILITIES.T, strict=True)), labels=LABELS), input="probabilities"),
    ]


def _arrow_tables() -> dict[str, tuple[object, dict[str, str]]]:
    """Arrow tables for .parquet and .feather, with their options."""
    import pyarrow as pa

    scores = {name: pa.array(column) for name, column in zip(COLUMNS, LOGITS.T, strict=True)}
    floats = {name: pa.array(column.astype("f4")) for name, column in zip(COLUMNS, LOGITS.T, strict=True)}
    labels = pa.array(LABELS)
    lists = pa.array(LOGITS.tolist())
    return {
        "plain": (pa.table({**scores, "labels": labels}), {}),
        "float32": (pa.table({**floats, "labels": labels.cast("int8")}), {}),
        "labels as text": (pa.table({**scores, "labels": pa.array(TEXT_LABELS)}), IN_WORDS),
        "weights": (pa.table({**scores, "weight": pa.array(WEIGHTS), "labels": labels}), {"weights": "weight"}),
        "further columns": (
            pa.table({"id": pa.array(TEXT_LABELS), **scores, "labels": labels, "n": pa.array(np.arange(N_ROWS))}),
            {"columns": ",".join(COLUMNS)},
        ),
        "one column of lists": (pa.table({"logits": lists, "labels": labels}), {}),
        "lists of fixed size": (pa.table({"logits": lists.cast(pa.list_(pa.float64(), 3)), "labels": labels}), {}),
    }


def _parquet() -> list[Sample]:
    from pyarrow import parquet

    found = []
    for i, (name, (table, options)) in enumerate(_arrow_tables().items()):
        file = io.BytesIO()
        parquet.write_table(table, file, compression=("none", "snappy", "gzip", "zstd")[i % 4], row_group_size=(7, 100)[i % 2])
        found.append(Sample(name, {"table.parquet": file.getvalue()}, options))
    return found


def _feather() -> list[Sample]:
    from pyarrow import feather

    found = []
    for i, (name, (table, options)) in enumerate(_arrow_tables().items()):
        file = io.BytesIO()
        feather.write_feather(table, file, compression=("uncompressed", "lz4", "zstd")[i % 3])
        found.append(Sample(name, {"table.feather": file.getvalue()}, options))
    return found


def pt(content: object, **options: bool) -> bytes:
    """An object as PyTorch stores it."""
    import torch

    file = io.BytesIO()
    torch.save(content, file, **options)
    return file.getvalue()


def _pt() -> list[Sample]:
    import torch

    def one(name: str, content: bytes, **options: str) -> Sample:
        return Sample(name, {"table.pt": content}, options)

    logits, labels = torch.from_numpy(LOGITS), torch.from_numpy(LABELS)
    return [
        one("float64", pt({"logits": logits, "labels": labels})),
        one("float32", pt({"logits": logits.float(), "labels": labels.int()})),
        one("bfloat16", pt({"logits": logits.bfloat16(), "labels": labels})),
        one("float16, not contiguous", pt({"logits": logits.half().T.contiguous().T, "labels": labels.to(torch.uint8)})),
        one("weights", pt({"logits": logits, "labels": labels, "weight": torch.from_numpy(WEIGHTS), "n": 3}), weights="weight"),
        one("old format", pt({"logits": logits, "labels": labels}, _use_new_zipfile_serialization=False)),
        one("probabilities", pt({"probabilities": torch.from_numpy(PROBABILITIES), "labels": labels}), input="probabilities"),
    ]


def safetensors(header: dict | bytes, data: bytes) -> bytes:
    """The contents of a .safetensors file from its header and its data."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def tensors(arrays: dict[str, tuple[str, np.ndarray]]) -> tuple[dict, bytes]:
    """A valid header and its data; each array comes with the name of its dtype."""
    header, data = {}, b""
    for name, (dtype, array) in arrays.items():
        end = len(data) + array.nbytes
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(data), end]}
        data += array.tobytes()
    return header, data


def bfloat16(array: np.ndarray) -> np.ndarray:
    """The upper half of each float32."""
    return (array.astype("<f4").view("<u4") >> 16).astype("<u2")


def _safetensors() -> list[Sample]:
    labels = ("I64", LABELS.astype("<i8"))

    def one(name: str, arrays: dict, **options: str) -> Sample:
        return Sample(name, {"table.safetensors": safetensors(*tensors(arrays))}, options)

    header, data = tensors({"logits": ("F64", LOGITS), "labels": labels})
    return [
        one("float64", {"logits": ("F64", LOGITS), "labels": labels}),
        one("float32", {"logits": ("F32", LOGITS.astype("<f4")), "labels": ("I32", LABELS.astype("<i4"))}),
        one("bfloat16", {"logits": ("BF16", bfloat16(LOGITS)), "labels": labels}),
        one("float16", {"logits": ("F16", LOGITS.astype("<f2")), "labels": ("U8", LABELS.astype("u1"))}),
        one("weights", {"logits": ("F64", LOGITS), "labels": labels, "weight": ("F64", WEIGHTS)}, weights="weight"),
        one("probabilities", {"probabilities": ("F64", PROBABILITIES), "labels": labels}, input="probabilities"),
        Sample("metadata", {"table.safetensors": safetensors({"__metadata__": {"made": "by"}, **header}, data)}),
    ]


def version_1(**changes: object) -> dict:
    """A calibration as the first version wrote it."""
    return {
        "format": "nishimori-calibration",
        "format_version": 1,
        "method": "ec",
        "temperature": 1.5,
        "top_n": 1,
        "input": "logits",
        "classes": None,
        "columns": None,
        "n_classes": 3,
        "n_samples": 400,
        "library_version": "0.1.0",
    } | changes


def version_2(**changes: object) -> dict:
    """A calibration in format 2; ``changes`` are those of its provenance."""
    provenance = {
        "method": "ts",
        "params": {},
        "classes": None,
        "columns": None,
        "n_classes": 3,
        "n_samples": 400,
        "residual": 1e-12,
        "temperature_se": 0.1,
        "library_version": "0.2.0",
    }
    return {
        "format": "nishimori-calibration",
        "format_version": 2,
        "map": {"kind": "temperature", "parameters": {"temperature": 1.5}},
        "input": "logits",
        "provenance": provenance | changes,
    }


def _json() -> list[Sample]:
    documents = {
        "format 1": version_1(),
        "format 1 with classes": version_1(classes=list(CLASSES), columns=list(COLUMNS)),
        "format 2": version_2(),
        "format 2 with classes": version_2(classes=list(CLASSES), columns=list(COLUMNS), method="ec", params={"top_n": 1}),
    }
    return [calibration(name, json.dumps(document, indent=2).encode()) for name, document in documents.items()]


def calibration(name: str, content: bytes) -> Sample:
    """A calibration; where it has classes, the labels that it is tried with are text."""
    return Sample(name, {"mutated.json": content}, {"labels": "words"} if b'"cat"' in content else {})


def scores_for_calibrations() -> bytes:
    """A valid .npz file for every calibration, with labels as numbers and as text."""
    return npz(logits=LOGITS, probabilities=PROBABILITIES, labels=LABELS, words=TEXT_LABELS)


# What each format needs besides NumPy, and its samples. A format that the shell does not know is skipped: see campaign.py.
FORMATS: dict[str, tuple[tuple[str, ...], Callable[[], list[Sample]]]] = {
    "npz": ((), _npz),
    "npy": ((), _npy),
    "csv": (("pyarrow.csv", "pyarrow.compute"), _csv),
    "tsv": (("pyarrow.csv", "pyarrow.compute"), _tsv),
    "csv.gz": (("pyarrow.csv", "pyarrow.compute"), _csv_gz),
    "jsonl": (("pyarrow.compute",), _jsonl),
    "parquet": (("pyarrow.parquet",), _parquet),
    "feather": (("pyarrow.feather",), _feather),
    "pt": (("torch",), _pt),
    "safetensors": (("safetensors", "torch"), _safetensors),
    "json": ((), _json),
}


def samples(ending: str) -> list[Sample]:
    """The valid files of a format."""
    return FORMATS[ending][1]()
