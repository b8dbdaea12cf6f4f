"""Cases that once went wrong, each with the claim that it tests as its name."""

import json
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from fuzz.campaign import child, end, limit_time
from fuzz.samples import CLASSES, COLUMNS, LABELS, LOGITS, Special, npy, npz, pt, safetensors, version_1, version_2

from fuzz import arrays, oracle


@dataclass(frozen=True)
class Named:
    """Files, a command line, and whether it must be refused."""

    words: str
    files: Callable[[], dict[str, bytes | Special]]
    refused: bool = True


_C = {"c.json": json.dumps(version_2()).encode()}
_TABLE = {"t.npz": npz(logits=LOGITS, labels=LABELS)}


def _of(words: str, refused: bool = True, **files: Any) -> Named:
    """A case whose files are given as ``name_ending=content``; a calibration c.json and a table t.npz are there too."""
    return Named(
        words,
        lambda: _C | _TABLE | {_dotted(name): each() if callable(each) else each for name, each in files.items()},
        refused,
    )


def _dotted(name: str) -> str:
    stem, _, ending = name.partition("_")
    return f"{stem}.{ending}"


def _csv(header: str, *rows: str) -> bytes:
    return "\n".join([header, *rows, ""]).encode()


def _good() -> list[str]:
    """The rows of a valid table."""
    return [",".join([*map(repr, row), str(label)]) for row, label in zip(LOGITS.tolist(), LABELS.tolist(), strict=True)]


def _edited(at: int, value: int, method: int = 8) -> bytes:
    """An archive with another number in both headers of its first member, at this place of the local one."""
    packed = bytearray(arrays.archive({"logits.npy": npy(LOGITS), "labels.npy": npy(LABELS)}, method))
    for start in (at, packed.index(b"PK\1\2") + at + 2):
        packed[start : start + 2] = value.to_bytes(2, "little")
    return bytes(packed)


def _damaged_stream(method: int) -> bytes:
    packed = bytearray(arrays.archive({"logits.npy": npy(LOGITS), "labels.npy": npy(LABELS)}, method))
    packed[60:90] = 30 * b"\xff"
    return bytes(packed)


def _with_header(text: str) -> bytes:
    return arrays.with_header(text, LOGITS.tobytes())


def _raw(raw: str, document: Callable[..., dict] = version_2, **fields: Any) -> bytes:
    """A calibration in which the text "@raw@" is replaced by JSON as written."""
    return json.dumps(document(**fields)).replace('"@raw@"', raw).encode()


def _tensor(make: Callable[[Any, Any], Any]) -> bytes:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # prototypes warn
        return pt({"logits": make(torch, torch.from_numpy(LOGITS)), "labels": torch.from_numpy(LABELS)})


def _narrow(dtype: str, bits: int = 8) -> bytes:
    size = 72 * bits // 8
    header = {
        "logits": {"dtype": dtype, "shape": [24, 3], "data_offsets": [0, size]},
        "labels": {"dtype": "I64", "shape": [24], "data_offsets": [size, size + 192]},
    }
    return safetensors(header, bytes(i % 50 for i in range(size)) + LABELS.tobytes())


_HEADER = ",".join((*COLUMNS, "labels"))
_SHAPE = "{'descr': '<f8', 'fortran_order': False, 'shape': %s, }"
NAMED: dict[str, Named] = {
    "an_encrypted_archive_is_refused": _of("fit x.npz -o o.json", x_npz=_edited(6, 1)),
    "an_archive_with_an_unknown_compression_is_refused": _of("fit x.npz -o o.json", x_npz=_edited(8, 99)),
    "an_archive_of_a_later_version_of_zip_is_refused": _of("fit x.npz -o o.json", x_npz=_edited(4, 123)),
    "a_damaged_deflate_stream_is_refused": _of("fit x.npz -o o.json", x_npz=_damaged_stream(8)),
    "a_damaged_lzma_stream_is_refused": _of("fit x.npz -o o.json", x_npz=_damaged_stream(14)),
    "a_damaged_bzip2_stream_is_refused": _of("fit x.npz -o o.json", x_npz=_damaged_stream(12)),
    "a_member_larger_than_its_header_says_is_refused": _of("fit x.npz -o o.json", x_npz=lambda: arrays.bomb(Random(1))),
    "an_array_called_an_archive_is_refused": _of("fit x.npz -o o.json", x_npz=npy(LOGITS)),
    "an_archive_called_an_array_is_refused": _of("apply c.json x.npy -o o.npz", x_npy=_TABLE["t.npz"]),
    "a_header_of_an_array_with_an_open_bracket_is_refused": _of(
        "apply c.json x.npy -o o.npz", x_npy=_with_header("{'descr': (")
    ),
    "a_header_of_an_array_with_deep_brackets_is_refused": _of("apply c.json x.npy -o o.npz", x_npy=_with_header("(" * 9000)),
    "a_shape_beyond_all_memory_is_refused": _of(
        "apply c.json x.npy -o o.npz", x_npy=_with_header(_SHAPE % "(10000000000000000000000, 3)")
    ),
    "a_shape_beyond_the_file_is_refused": _of("apply c.json x.npy -o o.npz", x_npy=_with_header(_SHAPE % "(1000000000, 3)")),
    "a_shape_beyond_its_member_is_refused": _of(
        "fit x.npz -o o.json",
        x_npz=arrays.archive({"logits.npy": _with_header(_SHAPE % "(1000000000, 3)"), "labels.npy": npy(LABELS)}),
    ),
    "a_negative_shape_is_refused": _of("apply c.json x.npy -o o.npz", x_npy=_with_header(_SHAPE % "(-24, 3)")),
    "scores_without_dimensions_are_refused": _of("apply c.json x.npy -o o.npz", x_npy=npy(np.array(1.5))),
    "scores_without_dimensions_are_refused_by_fit": _of("fit x.npy y.npy -o o.json", x_npy=npy(np.array(7)), y_npy=npy(LABELS)),
    "scores_without_rows_are_refused_by_fit": _of("fit x.npz -o o.json", x_npz=npz(logits=LOGITS[:0], labels=LABELS[:0])),
    "scores_without_rows_are_refused_by_eval": _of("eval x.npz", x_npz=npz(logits=LOGITS[:0], labels=LABELS[:0])),
    "pickled_objects_are_refused": _of(
        "apply c.json x.npy -o o.npz", x_npy=_with_header("{'descr': '|O', 'fortran_order': False, 'shape': (24, 3), }")
    ),
    "a_table_with_a_header_alone_is_refused_by_fit": _of("fit x.csv -o o.json", x_csv=_csv(_HEADER)),
    "a_table_with_a_header_alone_does_not_surprise_apply": _of(
        "apply c.json x.csv -o o.csv", refused=False, x_csv=_csv(_HEADER)
    ),
    "an_empty_table_is_refused": _of("apply c.json x.csv -o o.csv", x_csv=b""),
    "an_unclosed_quote_is_refused": _of("fit x.csv -o o.json", x_csv=_csv(_HEADER, *_good()[:-1], '"' + _good()[-1])),
    "a_field_longer_than_a_reader_takes_is_refused": _of(
        "fit x.csv -o o.json", x_csv=_csv(_HEADER, *_good(), '"' + "1" * 300_000 + '",1,2,0')
    ),
    "rows_with_more_fields_than_the_header_are_refused": _of(
        "eval x.csv", x_csv=_csv(_HEADER, *(f"0,{i},1,{label},0" for i, label in enumerate(LABELS)))
    ),
    "a_decimal_comma_in_one_row_is_refused": _of("fit x.csv -o o.json", x_csv=_csv(_HEADER, *_good(), "0,5,1,2,0")),
    "a_fractional_label_is_refused_with_classes": _of(
        "fit x.csv -o o.json --classes 0,1,2", x_csv=_csv(_HEADER, *_good(), "0.5,1,2,1.7")
    ),
    "a_negative_fractional_label_is_refused_with_classes": _of(
        "eval x.csv --classes 0,1,2", x_csv=_csv(_HEADER, *_good(), "0.5,1,2,-0.5")
    ),
    "a_column_of_row_numbers_is_not_a_class": _of(
        "eval x.csv", x_csv=_csv(f"id,{_HEADER}", *(f"{i},{row}" for i, row in enumerate(_good())))
    ),
    "a_constant_column_is_not_a_class": _of("eval x.csv", x_csv=_csv(f"split,{_HEADER}", *(f"1,{row}" for row in _good()))),
    "a_column_named_twice_is_refused": _of("fit x.csv -o o.json --columns z_cat,z_cat,z_fish", x_csv=_csv(_HEADER, *_good())),
    "labels_among_the_scores_are_refused": _of(
        "fit x.csv -o o.json --columns z_cat,z_dog,labels", x_csv=_csv(_HEADER, *_good())
    ),
    "thirty_two_thousand_columns_take_less_than_ten_seconds": _of(
        "fit x.csv -o o.json",
        refused=False,
        x_csv=_csv(
            ",".join([f"z_{i}" for i in range(32_000)] + ["labels"]), *(",".join(["1.5"] * 32_000 + ["0"]) for _ in range(3))
        ),
    ),
    "escape_sequences_in_names_do_not_reach_the_terminal": _of(
        "fit x.csv -o o.json", refused=False, x_csv=_csv("\x1b[31ma,b\x07,c\x9b,labels", *_good())
    ),
    "escape_sequences_in_labels_do_not_reach_the_terminal": _of(
        "fit x.csv -o o.json", x_csv=_csv(_HEADER, *_good(), "1,2,3,\x1b[2J")
    ),
    "classes_in_another_order_than_the_calibration_are_refused": _of(
        "eval x.csv --calibration d.json --classes fish,dog,cat",
        d_json=json.dumps(version_2(classes=list(CLASSES))).encode(),
        x_csv=_csv(_HEADER, *(f"{a!r},{b!r},{c!r},{CLASSES[k]}" for (a, b, c), k in zip(LOGITS.tolist(), LABELS, strict=True))),
    ),
    "an_n_classes_that_is_a_list_is_refused": _of("apply x.json t.npz -o o.npz", x_json=_raw("[]", n_classes="@raw@")),
    "an_n_classes_of_500_million_takes_no_memory": _of(
        "apply x.json t.npz -o o.npz", x_json=_raw("500000000", n_classes="@raw@")
    ),
    "an_n_classes_of_500_million_takes_no_memory_in_format_1": _of(
        "eval t.npz --calibration x.json", x_json=_raw("500000000", version_1, n_classes="@raw@")
    ),
    "a_deep_calibration_is_refused": _of("apply x.json t.npz -o o.npz", x_json=b"[" * 100_000),
    "a_deep_parameter_is_refused": _of(
        "apply x.json t.npz -o o.npz", x_json=_raw('{"a": ' + "[" * 900 + "]" * 900 + "}", params="@raw@")
    ),
    "a_number_of_5000_digits_is_refused": _of("apply x.json t.npz -o o.npz", x_json=_raw("1" * 5000, n_samples="@raw@")),
    "a_temperature_of_5000_digits_is_refused": _of(
        "apply x.json t.npz -o o.npz", x_json=_raw("1" * 5000, version_1, temperature="@raw@")
    ),
    "a_temperature_beyond_floats_is_refused": _of(
        "apply x.json t.npz -o o.npz", x_json=_raw("1" * 4000, version_1, temperature="@raw@")
    ),
    "a_temperature_that_is_not_a_number_is_refused": _of(
        "apply x.json t.npz -o o.npz", x_json=_raw("NaN", version_1, temperature="@raw@")
    ),
    "a_lone_surrogate_in_the_classes_is_no_surprise": _of(
        "apply x.json t.npz -o o.csv", refused=False, x_json=_raw('["\\ud800", "b", "c"]', classes="@raw@")
    ),
    "a_lone_surrogate_in_the_method_is_no_surprise": _of(
        "apply x.json t.npz -o o.csv", refused=False, x_json=_raw('"\\ud800"', method="@raw@")
    ),
    "a_lone_surrogate_in_the_input_is_refused": _of(
        "apply x.json t.npz -o o.npz", x_json=_raw('"\\ud800"', version_1, input="@raw@")
    ),
    "escape_sequences_in_a_calibration_do_not_reach_the_terminal": _of(
        "apply x.json t.npz -o o.npz", x_json=_raw('"\\u001b[31mred"', version_1, method="@raw@")
    ),
    "a_trillion_bins_are_refused": _of("eval t.npz --n-bins 1000000000000"),
    "a_trillion_bins_of_equal_weight_are_no_surprise": _of(
        "eval t.npz --n-bins 1000000000000 --strategy quantile", refused=False
    ),
    "float8_scores_are_refused_or_read": _of(
        "fit x.pt -o o.json", refused=False, x_pt=lambda: _tensor(lambda torch, z: z.to(torch.float8_e4m3fn))
    ),
    "sparse_scores_are_refused_or_read": _of(
        "fit x.pt -o o.json", refused=False, x_pt=lambda: _tensor(lambda torch, z: z.to_sparse())
    ),
    "compressed_sparse_scores_are_refused_or_read": _of(
        "apply c.json x.pt -o o.npz", refused=False, x_pt=lambda: _tensor(lambda torch, z: z.to_sparse_csr())
    ),
    "quantised_scores_are_refused_or_read": _of(
        "fit x.pt -o o.json",
        refused=False,
        x_pt=lambda: _tensor(lambda torch, z: torch.quantize_per_tensor(z.float(), 0.1, 0, torch.qint8)),
    ),
    "nested_scores_are_refused": _of(
        "apply c.json x.pt -o o.npz", x_pt=lambda: _tensor(lambda torch, z: torch.nested.nested_tensor([z[:2], z[2:5]]))
    ),
    "complex_scores_are_refused": _of(
        "apply c.json x.pt -o o.npz", x_pt=lambda: _tensor(lambda torch, z: z.to(torch.complex64))
    ),
    "scores_without_data_are_refused": _of(
        "apply c.json x.pt -o o.npz", x_pt=lambda: _tensor(lambda torch, z: torch.empty((24, 3), device="meta"))
    ),
    "a_view_of_a_billion_rows_on_one_number_is_refused": _of(
        "apply c.json x.pt -o o.npz", x_pt=lambda: _tensor(lambda torch, z: torch.zeros(1, 1).expand(1_000_000_000, 3))
    ),
    "float8_of_safetensors_is_refused_or_read": _of(
        "apply c.json x.safetensors -o o.npz", refused=False, x_safetensors=_narrow("F8_E4M3")
    ),
    "the_other_float8_of_safetensors_is_refused_or_read": _of(
        "fit x.safetensors -o o.json", refused=False, x_safetensors=_narrow("F8_E5M2")
    ),
    "float4_of_safetensors_is_refused_or_read": _of(
        "apply c.json x.safetensors -o o.npz", refused=False, x_safetensors=_narrow("F4", 4)
    ),
    "a_calibration_is_not_written_as_NPZ": _of("fit t.npz -o o.NPZ"),
    "an_output_in_capitals_leaves_nothing_else": _of("apply c.json t.npz -o o.NPZ", refused=False),
}

_SPECIAL = {
    "pipe": "a_pipe",
    "folder": "a_folder",
    "loop": "a_link_to_itself",
    "zeros": "an_endless_device",
    "socket": "a_socket",
    "null": "an_empty_device",
}
for _kind, _called in _SPECIAL.items():
    for _ending in ("npz", "npy", "csv", "tsv", "csv_gz", "jsonl", "parquet", "feather", "pt", "safetensors"):
        NAMED[f"{_called}_is_refused_as_{_ending}"] = _of(
            "apply c.json x." + _ending.replace("_", ".") + " -o o.npz", **{f"x_{_ending.replace('_', '.')}": Special(_kind)}
        )
    NAMED[f"{_called}_is_refused_as_a_calibration"] = _of("apply x.json t.npz -o o.npz", x_json=Special(_kind))


def faults(name: str) -> list[str]:
    """Run a case in the working folder, which is empty, and return what went wrong."""
    case = NAMED[name]
    oracle.place(case.files())
    before = set(os.listdir())
    words = case.words.split()
    ended = oracle.run(words)
    found = oracle.manners(ended)
    if case.refused and ended.code != 1:
        found.append(f"ended with code {ended.code}")
    output = {words[words.index("-o") + 1]} if ended.code == 0 and "-o" in words else set()
    return found + [f"left {each!r} behind" for each in sorted(set(os.listdir()) - before - output)]


def results(names: list[str], folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Run cases, each in a child and a folder of its own."""

    def one(name: str) -> list[str]:
        limit_time()
        return [json.dumps(faults(name))]

    for number, name in enumerate(names):
        place = folder / str(number) / "case"
        place.mkdir(parents=True)
        lines = list(child(place, partial(one, name)))
        yield name, json.loads(lines[0]) if isinstance(lines[0], str) else [end(lines[0])]
