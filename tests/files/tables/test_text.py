"""Delimited text: what is read, and what is refused with its line."""

import csv
import gzip
from io import StringIO

import numpy as np
import pytest
from fuzz.texts import _CELLS, _LABELS

from nishimori._files.tables import block as block_module
from nishimori._files.tables import columns as columns_module
from nishimori._files.tables import lines as lines_module
from nishimori._files.tables import text as text_module
from nishimori._files.tables.files import open_table
from nishimori.errors import FormatError, InputError


@pytest.fixture
def written(tmp_path):
    """A file with that content, text or bytes."""

    def write(content, name="t.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def read(path, columns=None, **options):
    """All numbers of some columns, all values of the last column, and the lines."""
    with open_table(path, **options) as table:
        chosen = range(len(table.names) - 1) if columns is None else [table.names.index(name) for name in columns]
        blocks = list(table.blocks(chosen))
        numbers = np.concatenate([block.numbers(list(chosen)) for block in blocks])
        values = [value for block in blocks for value in block.values(len(table.names) - 1)]
        return numbers, values, [int(line) for block in blocks for line in block.lines]


def test_numbers_are_those_of_python_and_text_is_kept(written):
    texts = ["1.5", " -2e3", "0.1", "-inf", "4.9406564584124654e-324", "+7", "inf"]
    path = written("z,labels\n" + "".join(f"{text},007\n" for text in texts))
    numbers, labels, _ = read(path)
    assert numbers[:, 0].tolist() == [float(text) for text in texts]
    assert labels == ["007"] * len(texts)


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_windows_files_are_read(written, ends, mark):
    numbers, labels, lines = read(written(mark + ends.join(["a,b,labels", "1,2,x", "3,4,y", "", ""])))
    assert (numbers.tolist(), labels, lines) == ([[1, 2], [3, 4]], ["x", "y"], [2, 3])


def test_lines_count_the_header_and_the_lines_inside_quotes(written):
    path = written('note,z,labels\n"two\nlines",1,a\nx,2,b\n')
    assert read(path, ["z"])[2] == [3, 4]
    path = written('note,z,labels\n"two\nlines",1,a\nx,oops,b\n')
    with pytest.raises(FormatError, match=r"t.csv, line 4, column 'z': 'oops' is not a number. Correct it"):
        read(path, ["z"])


@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        ("t.csv", "a;b;labels\n1,5;2;x\n", {"delimiter": ";", "decimal": ","}),
        ("t.tsv", "a\tb\tlabels\n1.5\t2\tx\n", {}),
        ("t.csv", "a\tb\tlabels\n1.5\t2\tx\n", {"delimiter": "tab"}),
        ("t.csv", "a\tb\tlabels\n1.5\t2\tx\n", {"delimiter": "\\t"}),
        ("t.CSV", "a|b|labels\n1.5|2|x\n", {"delimiter": "|"}),
    ],
)
def test_delimiter_and_decimal_mark_are_options(written, name, text, options):
    numbers, labels, _ = read(written(text, name), **options)
    assert (numbers.tolist(), labels) == ([[1.5, 2]], ["x"])


@pytest.mark.parametrize("name", ["t.csv.gz", "t.tsv.gz"])
def test_compressed_text_is_read(written, name):
    mark = "\t" if "tsv" in name else ","
    text = "a,b,labels\n1,2,x\n".replace(",", mark)
    assert read(written(gzip.compress(text.encode()), name))[0].tolist() == [[1, 2]]


def test_blocks_join_to_the_whole(written, monkeypatch):
    monkeypatch.setattr(lines_module, "LARGEST_CHUNK", 30)
    rows = [f"{i:2d},{i / 8:.12f},{i:2d}" for i in range(20)]
    with open_table(written("a,b,labels\n" + "\n".join(rows))) as table:
        blocks = list(table.blocks([1]))
    assert [block.n_rows for block in blocks] == [2] * 10
    assert [block.first_row for block in blocks] == list(range(0, 20, 2))
    assert [int(block.lines[0]) for block in blocks] == list(range(2, 22, 2))
    assert np.concatenate([block.numbers([1]) for block in blocks])[:, 0].tolist() == [i / 8 for i in range(20)]


@pytest.mark.parametrize("size", [1, 20, 50, 200])
def test_fields_in_quotes_and_over_several_lines_lie_between_others(written, monkeypatch, size):
    monkeypatch.setattr(lines_module, "LARGEST_CHUNK", size)
    rows = [(i / 7, f"n{i}") for i in range(40)]
    texts = [f"{number!r},{note}" for number, note in rows]
    texts[5], rows[5] = '+1.5,"two\nlines"', (1.5, "two\nlines")
    texts[6], rows[6] = '2.5,"a ""quoted"", word"', (2.5, 'a "quoted", word')
    texts[20], rows[20] = '3.5,a"b', (3.5, 'a"b')
    texts[39], rows[39] = '0.5,"three\n\nlines"', (0.5, "three\n\nlines")
    numbers, notes, ends = read(written("z,note\n" + "\n".join(texts) + "\n\n\n"))
    assert numbers[:, 0].tolist() == [number for number, _ in rows]
    assert notes == [note for _, note in rows]
    assert ends == [2 + i + (i >= 5) + 2 * (i >= 39) for i in range(40)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "t.csv is empty. It must start with the names of its columns."),
        ("a,b,labels\n", "t.csv has column names, but no rows."),
        ("a,b,labels", "t.csv has column names, but no rows."),
        ("a,b,a\n1,2,3\n", "t.csv has more than one column called 'a'."),
        ("a,,labels\n1,2,3\n", "t.csv has no name for column 2 of 3."),
        ("0.5,1.5,2\n1,2,3\n", "t.csv starts with numbers. Its first line must name the columns."),
        (
            "a;b;labels\n1;2;0\n",
            "has one column, 'a;b;labels': the delimiter is ','. Pass `nishimori.rows(..., delimiter=';')`.",
        ),
        ("a\tb\n1\t2\n", r"t.csv has one column, 'a\tb': the delimiter is ','. Pass `nishimori.rows(..., delimiter='\t')`."),
        ("a,b,labels\n1,2\n", "t.csv, line 2: 2 fields where the header has 3; the delimiter is ','."),
        ("a,b,labels\n1,2,3\n\n4,5,6\n", "t.csv, line 3: 0 fields where the header has 3"),
        ("a,b,c,labels\n0,5,1,2,0\n", "t.csv, line 2: 5 fields where the header has 4; the delimiter is ','. If its decimal"),
        ('a,b,labels\n1,2,"x\n3,4,5\n', "t.csv, line 3: a quotation mark is never closed."),
        ('a,b,labels\n1,2,"x' + "y" * 200_000, "line 2: field larger than field limit (131072). Double the quotation marks"),
        ('a,b,labels\n1,2,"x"y\n', "t.csv, line 2: ',' expected after '\"'."),
        ("a,b,labels\r1,2,3\r", "t.csv, line 1: a carriage return inside a line."),
        (b"a,b,labels\n1,\x00,3\n", "t.csv, line 2: a NUL byte, so this is not text."),
        (b"a,b,labels\n1,2,\xff\n", "t.csv, line 2: not text in UTF-8."),
        (b"a,b\xe9,labels\n1,2,3\n", "t.csv, line 1: not text in UTF-8."),
        ("a,b,labels\n1,2,3\n".encode("utf-16"), "t.csv is text in UTF-16. Save it again in UTF-8."),
    ],
)
def test_what_is_not_a_table_is_refused_with_its_line(written, content, message):
    with pytest.raises(FormatError) as refused:
        read(written(content))
    assert message in str(refused.value)


def test_a_line_without_end_is_refused_before_it_fills_the_memory(written, monkeypatch):
    monkeypatch.setattr("nishimori._files.tables.lines._LONGEST_LINE", 100)
    with pytest.raises(FormatError, match="line 2: longer than 100 bytes"):
        read(written("a,b\n" + "1" * 1000))


@pytest.mark.parametrize(
    "damage", [lambda b: b[: len(b) // 2], lambda b: b"\x00" + b[1:], lambda b: b[:12] + b"\xff\xff" + b[14:]]
)
def test_damaged_gzip_is_refused(written, damage):
    content = gzip.compress(b"a,b\n" + b"".join(b"%d,%d\n" % (i, i * i) for i in range(500)))
    with pytest.raises(FormatError, match=r"t.csv.gz is not a complete gzip file"):
        read(written(damage(content), "t.csv.gz"))


def test_names_0_1_2_are_names_and_not_a_row(written):
    with open_table(written("0,1,2\n0.5,1.5,2.5\n")) as table:
        assert table.names == ["0", "1", "2"]


@pytest.mark.parametrize("cell", ["", " ", "NA", "nan", "None"])
def test_a_missing_number_is_refused_with_line_and_column(written, cell):
    with open_table(written(f"a,b,labels\n1,2,0\n1,{cell},0\n")) as table:
        (block,) = table.blocks()
        numbers = block.numbers([0, 1])
        assert np.isnan(numbers).tolist() == [[False, False], [False, True]]
        with pytest.raises(FormatError, match=r"t.csv, line 3, column 'b': (a score is missing|got '\w+' for a score)"):
            block.refuse_missing(numbers, [0, 1], "score")


@pytest.mark.parametrize(
    ("cell", "decimal", "delimiter", "message"),
    [
        ("0,5", ".", ";", "'0,5' is not a number. The decimal mark is '.'; pass `nishimori.rows(..., decimal=',')`."),
        ("0.5", ",", ";", "'0.5' is not a number. The decimal mark is ','; pass `nishimori.rows(..., decimal='.')`."),
        ("1.234,5", ",", ";", "'1.234,5' is not a number."),
        ("cat", ".", ",", "'cat' is not a number. Correct it, or choose other columns."),
    ],
)
def test_another_decimal_mark_is_refused_and_named(written, cell, decimal, delimiter, message):
    path = written(f"a;b\n{cell};1\n".replace(";", delimiter))
    with pytest.raises(FormatError) as refused:
        read(path, decimal=decimal, delimiter=delimiter)
    assert message in str(refused.value)
    assert "t.csv, line 2, column 'a'" in str(refused.value)


@pytest.mark.parametrize(
    ("delimiter", "decimal", "message"),
    [
        (";;", ".", "`delimiter` must be one character, such as ';', or the word tab, got ';;'."),
        ('"', ".", "`delimiter` must be one character"),
        ("1", ".", "`delimiter` must be one character"),
        ("", ".", "`delimiter` must be one character"),
        ("§", ".", "`delimiter` must be one character"),
        (";", ";", "`decimal` must be '.' or ',', got ';'."),
        (",", ",", "`decimal` must differ from the delimiter, ','. Pass `nishimori.rows(..., delimiter=';')`."),
        (None, ",", "`decimal` must differ from the delimiter, ','. Pass `nishimori.rows(..., delimiter=';')`."),
    ],
)
def test_marks_that_cannot_be_are_refused(written, delimiter, decimal, message):
    with pytest.raises(InputError) as refused:
        open_table(written("a,b\n1,2\n"), delimiter=delimiter, decimal=decimal)
    assert message in str(refused.value)


def test_marks_are_only_for_text(tmp_path):
    for options in ({"delimiter": ";"}, {"decimal": ","}):
        with pytest.raises(InputError, match=r"must be left out for .*t.jsonl: only .csv and .tsv files have them"):
            open_table(tmp_path / "t.jsonl", **options)


def test_many_columns_take_no_more_than_one_look_each():
    """A look-up of each name in the list of names would compare 32,000² / 2 times."""
    compared = 0

    class Name(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other):
            nonlocal compared
            compared += 1
            return str(self) == str(other)

    names = [Name(f"z_{i}") for i in range(5000)]
    assert columns_module.by_names(names, None)
    assert columns_module.score_columns(["z_*"], names, {"labels": "labels"}, None, where="t") == names
    block_module.check_names(names, "t")
    assert compared < 20 * len(names)


def test_a_column_of_text_is_kept_character_by_character(written):
    cells = [" x", "ü, y", 'say "no"', "", "1,0"]
    path = written("")
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["note", "z"], *([cell, "1"] for cell in cells)])
    with open_table(path) as table:
        (block,) = table.blocks()
    assert block.column(0).to_pylist() == cells


@pytest.mark.parametrize("number", ["1_000", "\x1f.25", "\x0b1", "１２", "\u20035", "0x10"])
def test_what_only_python_takes_for_a_number_is_refused(tmp_path, number):
    path = tmp_path / "t.csv"
    path.write_text(f"z_a,z_b\n1,2\n{number},3\n", encoding="utf-8")
    (block,) = open_table(path).blocks()
    with pytest.raises(FormatError, match=r"t\.csv, line 3, column 'z_a': .* is not a number\."):
        block.numbers([0, 1])


def test_every_spelling_of_a_number_is_read(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b,c\n 1.5 ,-2e-3,+.5\n1E5,inf,-Infinity\n\t7,0,NaN\n")
    (block,) = open_table(path).blocks()
    expected = [[1.5, -0.002, 0.5], [1e5, np.inf, -np.inf], [7, 0, np.nan]]
    np.testing.assert_array_equal(block.numbers([0, 1, 2]), expected)


ODD = (
    *(
        "nan(1)",
        '"1"',
        '"a""b"',
        '"a,b"',
        'a"b',
        '"a"b',
        '"a\nb"',
        '"',
        '""',
        '"""',
        "\r",
        "1\r",
        "1\r\n2",
        "\n",
        "1\n2",
        "\t1",
    ),
    *("infinity", "-Infinity", "1e", "0x1p3", "1.7976931348623157e308", "1.8e308", "4.9e-324", "2.5e-324", "8.5e-320", "1e23"),
    *("0.1" + "0" * 800 + "1", "NA", "null", "None", "<NA>", "9007199254740993", "\x1f1", "\u20281", "\ufeff1", "é", " 1 "),
    *("123456789012345678901234567890", "1.00000000000000011102230246251565404236316680908203125", "007", "2020-01-01", "true"),
)


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("place", [0, 1, 3])
def test_every_cell_is_read_as_python_reads_it_or_refused(written, place, ends):
    n_read = 0
    for cell in sorted({*_CELLS, *_LABELS, *ODD}):
        rows = [["a", "0.5", "-1e-3", "cat"], ["b", "2.5", "inf", "dog"], ["c", "7", "8", "cat"]]
        rows[1][place] = cell
        path = written(ends.join(map(",".join, [["note", "z_0", "z_1", "labels"], *rows])) + ends)
        try:
            with open_table(path) as table:
                (block,) = table.blocks([1, 2])
                numbers, texts = block.numbers([1, 2]), [block.column(k).to_pylist() for k in (0, 3)]
        except FormatError:
            continue
        n_read += 1
        expected = list(csv.reader(StringIO(path.read_bytes().decode(), newline="\n"), strict=True))[1:]
        absent = {*text_module.MISSING, "nan(1)"}  # which are NaN, and refused as scores
        plain = [["nan" if text.strip() in absent else text for text in row[1:3]] for row in expected]
        assert numbers.tobytes() == np.array([list(map(float, row)) for row in plain]).tobytes(), cell
        assert texts == [[row[k] for row in expected] for k in (0, 3)], cell
    assert n_read >= (30 if place == 1 else 60)


def test_numbers_of_any_size_have_the_bits_that_python_gives_them(written):
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, 2**64, 20_000, dtype=np.uint64).view(np.float64)
    drawn = np.concatenate([drawn[np.isfinite(drawn)], rng.integers(0, 2**52, 2000, dtype=np.uint64).view(np.float64)])
    texts = [form % value for value in drawn.tolist() for form in ("%r", "%.6g", "%.17e", "%.12g")]
    numbers, _, _ = read(written("z,note\n" + "".join(f"{text},x\n" for text in texts)))
    assert numbers.tobytes() == np.array([float(text) for text in texts]).tobytes()


@pytest.mark.parametrize("size", [1, 10, 1000])
def test_an_empty_line_between_rows_is_refused_in_any_block(written, monkeypatch, size):
    monkeypatch.setattr(lines_module, "LARGEST_CHUNK", size)
    with pytest.raises(FormatError, match="line 4: 0 fields where the header has 2"):
        read(written("z,note\n1,a\n2,b\n\n\n3,c\n"))
    path = written('{"z": 1}\n{"z": 2}\n\n{"z": 3}\n', "t.jsonl")
    with pytest.raises(FormatError, match="line 3: not a JSON object"), open_table(path) as table:
        list(table.blocks([0]))
