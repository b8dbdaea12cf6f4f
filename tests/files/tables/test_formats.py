"""JSON lines, Parquet and Feather, and every format written: values and types survive, damage is one line."""

import datetime
import json
import struct
import subprocess
import sys

import numpy as np
import pytest
from optional import pa

from nishimori._files.tables import columnar, lines
from nishimori._files.tables.files import ENDINGS, open_table
from nishimori._files.tables.new_table import new_table
from nishimori.errors import FormatError

ARROW = [".parquet", ".feather", ".arrow", ".ipc"]


def write_arrow(path, **columns):
    table = pa.table(columns)
    if path.suffix == ".parquet":
        pa.parquet.write_table(table, path)
    else:
        pa.feather.write_feather(table, path)
    return path


def write_json(path, *rows):
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def numbers(path, *columns):
    with open_table(path) as table:
        wanted = [table.names.index(name) for name in columns]
        return np.concatenate([block.numbers(wanted) for block in table.blocks(wanted)])


def values(path, column):
    with open_table(path) as table:
        return [value for block in table.blocks() for value in block.values(table.names.index(column))]


def test_json_values_are_kept_as_they_are(tmp_path):
    rows = [{"id": 1, "z": 0.1, "y": "007"}, {"id": 2, "z": -3, "y": "é"}, {"id": None, "z": float("-inf"), "y": True}]
    path = write_json(tmp_path / "t.jsonl", *rows, "", "")
    assert numbers(path, "z").tolist() == [[0.1], [-3.0], [-np.inf]]
    assert [values(path, name) for name in ("id", "y")] == [[1, 2, None], ["007", "é", True]]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "t.jsonl is empty. It must have one JSON object per line."),
        (['{"a": 1,'], "t.jsonl, line 1: not a JSON object: "),
        (["[1, 2]"], "t.jsonl, line 1: must be a JSON object, got [1, 2]."),
        (['{"a": 1}', "", '{"a": 1}'], "t.jsonl, line 2: not a JSON object: "),
        (['{"a": 1, "a": 2}'], "t.jsonl, line 1: not a JSON object: a key occurs more than once."),
        (['{"a": 1}', '{"b": 1}'], "t.jsonl, line 2: the object has no 'a' and also 'b', unlike the first."),
        (['{"a": ' + "[" * 100_000], "t.jsonl, line 1: not a JSON object: it is nested too deeply."),
        (['{"a": ' + "9" * 5000 + "}"], "t.jsonl, line 1: not a JSON object: "),
        (['{"a": 1}', '{"a": "x"}'], "t.jsonl, line 2, column 'a': 'x' is not a number."),
        (['{"a": 1}', '{"a": "1.5"}'], "t.jsonl, line 2, column 'a': '1.5' is not a number."),
        (['{"a": true}'], "t.jsonl, line 1, column 'a': True is not a number."),
        (['{"a": 1' + "0" * 400 + "}"], "t.jsonl has an integer that is too large for a score"),
        (['{"a": [1, 2]}', '{"a": [1]}'], "t.jsonl, line 2, column 'a': must be a list of 2 numbers, got [1]."),
        (['{"a": [1, 2]}', '{"a": 7}'], "t.jsonl, line 2, column 'a': must be a list of 2 numbers, got 7."),
        (['{"a": [1, "x"]}'], "t.jsonl, line 1, column 'a': 'x' is not a number."),
        (["{}"], "t.jsonl is empty. It must start with the names of its columns."),
    ],
)
def test_what_is_not_json_lines_is_refused_with_its_line(lines, message, tmp_path):
    with pytest.raises(FormatError) as refused:
        numbers(write_json(tmp_path / "t.jsonl", *lines), "a")
    assert message in str(refused.value)


def test_blocks_of_json_join_to_the_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "LARGEST_CHUNK", 30)
    path = write_json(tmp_path / "t.jsonl", *({"z": [i, i + 1], "y": i} for i in range(7)))
    with open_table(path) as table:
        blocks = list(table.blocks())
    assert [(block.n_rows, block.first_row, block.lines.tolist()) for block in blocks] == [
        (2, 0, [1, 2]),
        (2, 2, [3, 4]),
        (2, 4, [5, 6]),
        (1, 6, [7]),
    ]
    assert np.concatenate([block.numbers([0]) for block in blocks]).tolist() == [[i, i + 1] for i in range(7)]


@pytest.mark.parametrize("ending", ARROW)
def test_typed_numbers_keep_their_type(ending, tmp_path):
    path = write_arrow(
        tmp_path / f"t{ending}", a=np.float32([1, 2]), b=np.float32([3, 4]), i=np.int8([1, 2]), t=[True, False], d=[0.5, None]
    )
    assert numbers(path, "a", "b").dtype == np.float32
    assert numbers(path, "a", "d").dtype == np.float64
    assert numbers(path, "i", "t").tolist() == [[1, 1], [2, 0]]
    np.testing.assert_array_equal(numbers(path, "d"), [[0.5], [np.nan]])


@pytest.mark.parametrize("ending", ARROW)
@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.large_list(pa.float64()), pa.list_(pa.float64(), 2)])
def test_a_column_of_lists_is_a_table_of_numbers(ending, kind, tmp_path):
    path = write_arrow(tmp_path / f"t{ending}", logits=pa.array([[1, 2], [3, 4], [5, 6]], kind), y=[0, 1, 0])
    with open_table(path) as table:
        assert list(table.lists) == ["logits"]
    assert numbers(path, "logits").tolist() == [[1, 2], [3, 4], [5, 6]]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": ["x", "y"]}, "has no numbers in column 'a'. Choose other columns."),
        ({"a": [datetime.date(2020, 1, 1)]}, "has no numbers in column 'a'"),
        (
            {"a": [[1.0, 2.0], [1.0]]},
            "row 1, counted from 0, column 'a': the lists of a column must have the same length, got 1",
        ),
        ({"a": [[1.0, 2.0], None]}, "row 1, counted from 0, column 'a': the lists of a column must have the same length"),
        ({"a": pa.array([None, [1.0]])}, "row 0, counted from 0, column 'a'"),
        ({"a": pa.array([], pa.float64())}, "has column names, but no rows."),
    ],
)
@pytest.mark.parametrize("ending", [".parquet", ".feather"])
def test_columns_that_are_not_numbers_are_refused(ending, columns, message, tmp_path):
    with pytest.raises(FormatError) as refused:
        numbers(write_arrow(tmp_path / f"t{ending}", **columns), "a")
    assert message in str(refused.value)


@pytest.mark.parametrize("ending", [".parquet", ".feather"])
def test_blocks_of_typed_columns_join_to_the_whole(ending, tmp_path, monkeypatch):
    monkeypatch.setattr(columnar, "_CELLS", 20)
    path = write_arrow(tmp_path / f"t{ending}", a=np.arange(33.0), b=np.arange(33.0), s=["x"] * 33, z=[[1.0, 2.0, 3.0]] * 33)
    with open_table(path) as table:
        blocks = list(table.blocks())
        assert {block.n_rows for block in blocks[:-1]} == {1}
        assert [block.first_row for block in blocks] == np.cumsum([0, *(block.n_rows for block in blocks)])[:-1].tolist()
        assert np.concatenate([block.numbers([0]) for block in blocks])[:, 0].tolist() == list(range(33))


@pytest.mark.parametrize("ending", [".parquet", ".feather", ".jsonl", ".csv", ".csv.gz"])
@pytest.mark.parametrize(
    "content", [b"", b"\x80\x02 this is not data \xff\xfe", b"PAR1" + b"\xff" * 40 + b"PAR1", b"ARROW1\0\0" + b"\xff" * 50]
)
def test_a_file_of_something_else_is_one_format_error(ending, content, tmp_path):
    path = tmp_path / f"t{ending}"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=f"t{ending}"):
        numbers(path, "a")


@pytest.mark.parametrize("ending", [".parquet", ".feather"])
def test_a_truncated_file_is_one_format_error(ending, tmp_path):
    path = write_arrow(tmp_path / f"t{ending}", a=np.arange(2000.0))
    whole = path.read_bytes()
    for length in (4, len(whole) // 2, len(whole) - 3):
        path.write_bytes(whole[:length])
        with pytest.raises(FormatError, match=r"is not a readable .* file"):
            numbers(path, "a")


def test_columns_that_share_a_name_are_refused(tmp_path):
    table = pa.table([pa.array([1.0]), pa.array([2.0])], names=["a", "a"])
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(FormatError, match="has more than one column called 'a'"):
        open_table(tmp_path / "t.parquet")


PROBABILITIES = np.array([[0.1, 0.9], [1 / 3, 2 / 3]])


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_is_written_is_what_is_read(ending, tmp_path):
    path = tmp_path / f"p{ending}"
    with new_table(path, ["id", "x, y", "p"], overwrite=False) as table:
        for row in (0, 1):  # two blocks
            table.write([["a\nb", "c"][row : row + 1], PROBABILITIES[row : row + 1, 0], PROBABILITIES[row : row + 1, 1]])
    np.testing.assert_array_equal(numbers(path, "x, y", "p"), PROBABILITIES)
    assert values(path, "id") == ["a\nb", "c"]
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_marks_are_those_of_the_options_and_tsv_has_tabs(tmp_path):
    for name, options in {"p.csv": {"delimiter": ";", "decimal": ","}, "p.tsv": {"delimiter": ";", "decimal": ","}}.items():
        with new_table(tmp_path / name, ["id", "p"], overwrite=False, **options) as table:
            table.write([["a;b"], np.array([0.25])])
    assert (tmp_path / "p.csv").read_bytes() == b'id;p\r\n"a;b";0,25\r\n'
    assert (tmp_path / "p.tsv").read_bytes() == b"id\tp\r\na;b\t0,25\r\n"


MIXED = {
    "i": [1, None],
    "x": [0.5, 2.0],
    "b": [True, False],
    "s": ["é", ""],
    "d": [datetime.date(2020, 1, 2), None],
    "l": [[1, 2], []],
    "c": pa.array(["u", "v"]).dictionary_encode(),
}


@pytest.mark.parametrize("ending", [".parquet", ".feather"])
@pytest.mark.parametrize("source", [".parquet", ".feather"])
def test_typed_columns_are_kept_with_their_types(source, ending, tmp_path):
    with open_table(write_arrow(tmp_path / f"t{source}", **MIXED)) as table:
        (block,) = table.blocks()
        with new_table(tmp_path / f"p{ending}", list(MIXED), overwrite=False) as new:
            new.write([block.column(k) for k in range(len(MIXED))])
    back = (
        pa.parquet.read_table(tmp_path / "p.parquet")
        if ending == ".parquet"
        else pa.feather.read_table(tmp_path / f"p{ending}")
    )
    for name, column in MIXED.items():
        assert back.column(name).to_pylist() == (column if isinstance(column, list) else column.to_pylist())
    assert back.schema.field("d").type == pa.date32()
    assert back.schema.field("l").type == pa.list_(pa.int64())


def test_typed_columns_become_text(tmp_path):
    with open_table(write_arrow(tmp_path / "t.parquet", **MIXED)) as table:
        (block,) = table.blocks()
        for ending in (".csv", ".jsonl"):
            with new_table(tmp_path / f"p{ending}", list(MIXED), overwrite=False) as new:
                new.write([block.column(k) for k in range(len(MIXED))])
    assert (tmp_path / "p.csv").read_text(encoding="utf-8").splitlines() == [
        "i,x,b,s,d,l,c",
        '1,0.5,true,é,2020-01-02,"[1, 2]",u',
        ",2.0,false,,,[],v",
    ]
    assert [json.loads(line) for line in (tmp_path / "p.jsonl").read_text(encoding="utf-8").splitlines()] == [
        {"i": 1, "x": 0.5, "b": True, "s": "é", "d": "2020-01-02", "l": [1, 2], "c": "u"},
        {"i": None, "x": 2.0, "b": False, "s": "", "d": None, "l": [], "c": "v"},
    ]


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_bytes_are_not_text(ending, tmp_path):
    with (
        pytest.raises(FormatError, match=r"holds text, and bytes are not text. Write a .parquet or .feather file"),
        new_table(tmp_path / f"p{ending}", ["b"], overwrite=False) as table,
    ):
        table.write([pa.array([b"\x00"])])
    assert list(tmp_path.iterdir()) == []


def test_half_of_a_surrogate_pair_survives_json(tmp_path):
    path = write_json(tmp_path / "t.jsonl", {"s": "\ud800", "z": 1.0})
    with open_table(path) as table, new_table(tmp_path / "p.jsonl", ["s"], overwrite=False) as new:
        (block,) = table.blocks()
        new.write([block.column(0)])
    assert values(tmp_path / "p.jsonl", "s") == ["\ud800"]


def test_json_values_of_several_types_do_not_become_one_column(tmp_path):
    def write():
        with new_table(tmp_path / "p.parquet", ["a"], overwrite=False) as table:
            table.write([[1, 2]])
            table.write([["x", 2]])

    with pytest.raises(FormatError, match=r"p.parquet needs one type per column, and the values of 'a' have several"):
        write()
    assert list(tmp_path.iterdir()) == []


def test_types_that_a_format_does_not_have_are_refused(tmp_path):
    duration = pa.array([pa.MonthDayNano([1, 2, 3])])
    with (
        pytest.raises(FormatError, match=r"p.parquet cannot hold these columns: .* Write a .jsonl file"),
        new_table(tmp_path / "p.parquet", ["a"], overwrite=False) as table,
    ):
        table.write([duration])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", [".parquet", ".csv", ".tsv.gz"])
def test_a_table_needs_pyarrow(ending, tmp_path, monkeypatch):
    path = tmp_path / f"t{ending}"
    with new_table(path, ["a"], overwrite=False) as table:
        table.write([np.array([0.5])])
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
        monkeypatch.setitem(sys.modules, name, None)
    message = r" needs pyarrow, which is not installed\. Run `pip install 'nishimori\[tables\]'`\.$"
    with pytest.raises(ModuleNotFoundError, match=f"^Reading t{ending}{message}"):
        open_table(path)
    for other in (ending, ".feather", ".jsonl"):
        with (
            pytest.raises(ModuleNotFoundError, match=f"^Writing p{other}{message}"),
            new_table(tmp_path / f"p{other}", ["a"], overwrite=False),
        ):
            pass
    assert [path.name for path in tmp_path.iterdir()] == [path.name]


def test_json_lines_are_read_without_pyarrow(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
        monkeypatch.setitem(sys.modules, name, None)
    assert numbers(write_json(tmp_path / "t.jsonl", {"a": 0.5}), "a").tolist() == [[0.5]]


def test_an_arrow_file_whose_lists_lie_elsewhere_does_not_end_the_process(tmp_path):
    path = tmp_path / "t.feather"
    pa.feather.write_feather(pa.table({"a": [[1.0, 2.0]] * 50}), path, compression="uncompressed")
    whole, offsets = path.read_bytes(), struct.pack("<3i", 0, 2, 4)
    assert whole.count(offsets) == 1
    path.write_bytes(whole.replace(offsets, struct.pack("<3i", 512, 514, 4)))
    code = f"""
from pathlib import Path
from nishimori._files.tables.files import open_table
with open_table(Path({str(path)!r})) as table:
    list(table.blocks())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1  # and not -6
    assert "FormatError" in done.stderr
    assert "is not a readable .feather file" in done.stderr
