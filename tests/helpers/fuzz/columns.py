"""Mutations of .parquet and .feather files: valid files whose types, names or missing values a table of scores may not have."""

import io
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from random import Random
from typing import Any

from fuzz.damage import Mutation
from fuzz.samples import COLUMNS, LABELS, LOGITS, N_ROWS, TEXT_LABELS, Sample


def _odd_columns() -> dict[str, Callable[[], Any]]:
    """Columns of types that are not plain numbers, each as a function, because some types need a recent pyarrow."""
    import numpy as np
    import pyarrow as pa

    values = LOGITS[:, 0].tolist()
    whole = LABELS.tolist()
    missing = [None, *values[1:]]
    return {
        "decimal": lambda: pa.array([Decimal(repr(v)) for v in values], pa.decimal128(20, 6)),
        "large decimal": lambda: pa.array([Decimal(repr(v)) for v in values], pa.decimal256(60, 6)),
        "timestamp": lambda: pa.array(whole, pa.timestamp("ns", "UTC")),
        "duration": lambda: pa.array(whole, pa.duration("s")),
        "date": lambda: pa.array(whole, pa.date32()),
        "time": lambda: pa.array(whole, pa.time64("us")),
        "bytes": lambda: pa.array([b"\xff\0"] * N_ROWS),
        "bytes of fixed size": lambda: pa.array([b"abcdefgh"] * N_ROWS, pa.binary(8)),
        "text": lambda: pa.array([repr(v) for v in values]),
        "large text": lambda: pa.array([repr(v) for v in values], pa.large_string()),
        "text view": lambda: pa.array([repr(v) for v in values], pa.string_view()),
        "dictionary": lambda: pa.array(TEXT_LABELS).dictionary_encode(),
        "dictionary of numbers": lambda: pa.array(values).dictionary_encode(),
        "struct": lambda: pa.array([{"a": v} for v in values]),
        "map": lambda: pa.array([[("a", v)] for v in values], pa.map_(pa.string(), pa.float64())),
        "list": lambda: pa.array(LOGITS.tolist()),
        "large list": lambda: pa.array(LOGITS.tolist(), pa.large_list(pa.float64())),
        "list of lists": lambda: pa.array([[row] for row in LOGITS.tolist()]),
        "lists of different lengths": lambda: pa.array([row[: 1 + i % 3] for i, row in enumerate(LOGITS.tolist())]),
        "empty lists": lambda: pa.array([[]] * N_ROWS, pa.list_(pa.float64())),
        "lists of one number": lambda: pa.array([[v] for v in values]),
        "list with missing numbers": lambda: pa.array([[None, 1.0, 2.0], *LOGITS.tolist()[1:]]),
        "missing list": lambda: pa.array([None, *LOGITS.tolist()[1:]]),
        "list of text": lambda: pa.array([["a", "b", "c"]] * N_ROWS),
        "nothing": lambda: pa.nulls(N_ROWS),
        "truth": lambda: pa.array([v > 0 for v in values]),
        "float16": lambda: pa.array(np.array(values, dtype="f2")),
        "int8": lambda: pa.array(whole, pa.int8()),
        "uint64": lambda: pa.array([2**64 - 1] * N_ROWS, pa.uint64()),
        "large int64": lambda: pa.array([2**63 - 1 - i for i in range(N_ROWS)]),
        "missing number": lambda: pa.array(missing),
        "missing whole number": lambda: pa.array([None, *whole[1:]]),
        "missing text": lambda: pa.array([None, *TEXT_LABELS[1:].tolist()]),
        "all missing": lambda: pa.array([None] * N_ROWS, pa.float64()),
        "not a number": lambda: pa.array([float("nan"), *values[1:]]),
        "infinite": lambda: pa.array([float("inf"), *values[1:]]),
        "run-end encoded": lambda: pa.compute.run_end_encode(pa.array(whole)),
        "interval": lambda: pa.array([(1, 2, 3)] * N_ROWS, pa.month_day_nano_interval()),
        "union": lambda: pa.UnionArray.from_sparse(pa.array([0] * N_ROWS, pa.int8()), [pa.array(values), pa.array(whole)]),
        "fractional": lambda: pa.array([1.7, *map(float, whole[1:])]),
        "control characters": lambda: pa.array(["\x1b[31mred\x07\n"] * N_ROWS),
    }


def _tables() -> dict[str, Callable[[Any], Any]]:
    """What can be odd about a table as a whole."""
    import pyarrow as pa

    def named(table: Any, name: str) -> Any:
        return table.rename_columns([name, *table.column_names[1:]])

    names = (
        "\x1b[31mred\x07",
        "",
        " ",
        "z_dog",
        "labels",
        "a\nb",
        "__index_level_0__",
        "x" * 5000,
        "\x9b31m",
        "\x00",
        "[bold]x",
        "\u202e",
    )
    return {
        "no rows": lambda table: table.slice(0, 0),
        "one row": lambda table: table.slice(0, 1),
        "no columns": lambda table: table.select([]),
        "no labels": lambda table: table.drop_columns(["labels"]),
        "only labels": lambda table: table.select(["labels"]),
        "many columns": lambda table: pa.table({**{f"c{i}": table["labels"] for i in range(3000)}, "labels": table["labels"]}),
        "a constant column": lambda table: table.append_column("split", pa.array([1] * N_ROWS)),
        "a counting column": lambda table: table.add_column(0, "id", pa.array(range(N_ROWS))),
        "two columns of one name": lambda table: table.append_column("z_cat", table["labels"]),
        "two columns of labels": lambda table: table.append_column("labels", table["labels"]),
        "many chunks": lambda table: pa.concat_tables([table.slice(i, 1) for i in range(N_ROWS)]),
        "empty chunks": lambda table: pa.concat_tables([table.slice(0, 0), table, table.slice(0, 0)]),
        "metadata of pandas": lambda table: table.replace_schema_metadata({"pandas": '{"index_columns": [{"kind": "range"}]}'}),
        "damaged metadata": lambda table: table.replace_schema_metadata(
            {"pandas": "{{{", "ARROW:schema": "AAAA", b"\xff": b"\xfe"}
        ),
        "columns in another order": lambda table: table.select(table.column_names[::-1]),
        **{f"named {name[:9]!r}": lambda table, name=name: named(table, name) for name in names},
    }


def stored(table: Any, ending: str, compression: str | None = None) -> bytes:
    """A table as the contents of a file of that format."""
    from pyarrow import feather, parquet

    file = io.BytesIO()
    if ending == "parquet":
        parquet.write_table(table, file, compression=compression or "snappy")
    else:
        feather.write_feather(table, file, compression=compression or "uncompressed")
    return file.getvalue()


def _plain() -> Any:
    import pyarrow as pa

    scores = {name: pa.array(column) for name, column in zip(COLUMNS, LOGITS.T, strict=True)}
    return pa.table({**scores, "labels": pa.array(LABELS)})


def _rewritten(ending: str, sample: Sample, table: Any) -> Sample:
    """The plain sample with another table; what the format cannot store stays as it was."""
    import pyarrow as pa

    try:
        content = stored(table, ending)
    except (pa.ArrowException, TypeError, ValueError):
        return sample
    return replace(sample, files={f"table.{ending}": content})


def _odd_type(ending: str) -> Mutation:
    def odd_type(rng: Random, _: Sample, pool: list[Sample]) -> Sample:
        import pyarrow as pa

        sample = pool[0]
        table, where = _plain(), rng.choice(("labels", "z_cat", "all", "logits", "weight"))
        try:
            column = rng.choice(list(_odd_columns().values()))()
        except (pa.ArrowException, AttributeError, TypeError):  # an older pyarrow does not have the type
            return sample
        if where == "logits":
            return _rewritten(ending, sample, pa.table({"logits": column, "labels": table["labels"]}))
        if where == "weight":
            weighed = _rewritten(ending, sample, table.append_column("weight", column))
            return replace(weighed, options={"weights": "weight"}) if weighed is not sample else sample
        for name in COLUMNS if where == "all" else [where]:
            table = table.set_column(table.column_names.index(name), name, column)
        return _rewritten(ending, sample, table)

    return odd_type


def _odd_table(ending: str) -> Mutation:
    def odd_table(rng: Random, _: Sample, pool: list[Sample]) -> Sample:
        return _rewritten(ending, pool[0], rng.choice(list(_tables().values()))(_plain()))

    return odd_table


TABLES: dict[str, tuple[Mutation, ...]] = {
    ending: (*6 * (_odd_type(ending),), *3 * (_odd_table(ending),)) for ending in ("parquet", "feather")
}
