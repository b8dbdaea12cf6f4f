"""Lines that pyarrow parses: the numbers and texts that Python reads, or nothing."""

import csv
import json
from itertools import product

import numpy as np
import pytest
from fuzz.texts import _CELLS, _LABELS

from nishimori._files.tables.arrow_lines import parse_delimited, parse_objects

pytest.importorskip("pyarrow")

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
    *("infinity", "-Infinity", "1e", "0x1p3", "1.7976931348623157e308", "1.8e308", "4.9e-324", "2.5e-324", "8.5e-320"),
    *(
        "0.1" + "0" * 800 + "1",
        "NA",
        "null",
        "None",
        "<NA>",
        "9007199254740993",
        "1e23",
        "\x1f1",
        "\u20281",
        "\ufeff1",
        "é",
        " 1 ",
    ),
    *("123456789012345678901234567890", "1.00000000000000011102230246251565404236316680908203125"),
)
CELLS = sorted({*_CELLS, *_LABELS, *ODD})
JSON = (
    *(
        "1",
        "1.0",
        "1e5",
        "1E+2",
        "01",
        ".5",
        "1.",
        "+1",
        "NaN",
        "-Infinity",
        "null",
        "true",
        '"x"',
        '"1"',
        "[1]",
        "{}",
        '{"a":1}',
    ),
    *(
        "1e999",
        "1e-999",
        "123456789012345678901234567890",
        "9007199254740993",
        '"\\ud800"',
        '"\\u0041"',
        '"a\tb"',
        '"2020-01-01"',
    ),
    *(
        '""',
        "",
        "0x1",
        '"\\x"',
        "[1,2",
        "1}",
        '1}{"z":1,"y":2,"l":"q"',
        "-",
        '"é"',
        '"\x00"',
        '1,"q":2',
        '1,"z":2',
        "0.1",
        "-2.5e-3",
    ),
    *(
        "[]",
        "[1, null]",
        "[1, 2]",
        "[1.5, 2.25]",
        '[1, "x"]',
        "[true, 1]",
        "[[1], 2]",
        "[1e400, 1]",
        '1}\n{"z":1,"y":2,"l":"q"',
    ),
)


def read_delimited(lines):
    """All rows as Python reads them; None if it refuses them."""
    try:
        return list(csv.reader(lines.decode("utf-8").split("\n")[:-1], strict=True))
    except csv.Error:
        return None


@pytest.mark.parametrize(("place", "ends"), [*product((0, 1, 3), ("\n", "\r\n"))])
def test_delimited_text_is_read_as_python_reads_it_or_not_at_all(place, ends):
    n_read = 0
    for cell in CELLS:
        rows = [["a", "0.5", "-1e-3", "cat"], ["b", "2.5", "inf", "dog"], ["c", "7", "8", "cat"]]
        rows[1][place] = cell
        lines = (ends.join(map(",".join, rows)) + ends).encode()
        found = parse_delimited(lines, 4, [1, 2], delimiter=",", decimal=".")
        if found is None:
            continue
        n_read += 1
        expected = read_delimited(lines)
        numbers = np.array([[float(row[1]), float(row[2])] for row in expected])
        assert found[0].tobytes() == numbers.tobytes(), cell
        assert found[1].to_pydict() == {"0": [row[0] for row in expected], "3": [row[3] for row in expected]}, cell
    assert n_read >= (20 if place == 1 else 60)


def test_random_numbers_have_the_bits_that_python_gives_them():
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, 2**64, 20_000, dtype=np.uint64).view(np.float64)
    drawn = drawn[np.isfinite(drawn)]
    texts = [form % value for value in drawn.tolist() for form in ("%r", "%.6g", "%.17e", "%.12g")]
    texts = [text for text in texts if np.isfinite(float(text)) and abs(float(text)) >= 2.3e-308]
    lines = "".join(f"{text},x\n" for text in texts).encode()
    found = parse_delimited(lines, 2, [0], delimiter=",", decimal=".")
    assert found[0].tobytes() == np.array([float(text) for text in texts]).tobytes()


@pytest.mark.parametrize(
    "lines",
    [
        b"1,a\n\n2,b\n",
        b"\n1,a\n",
        b"1,a\r\n\r\n",
        b"1\n",
        b"1,a,b\n",
        b"1,a\r2,b\n",
        b"1,\x00\n",
        b"1,\xff\n",
        b"\xef\xbb\xbf1,a\n",
    ],
)
@pytest.mark.parametrize("numbers", [[], [0]], ids=["text", "numbers"])
def test_lines_that_are_no_rows_are_left_to_python(lines, numbers):
    assert parse_delimited(lines, 2, numbers, delimiter=",", decimal=".") is None


def test_a_text_that_python_finds_too_long_is_left_to_it():
    long = b"x" * (csv.field_size_limit() + 1)
    assert parse_delimited(b"1," + long + b"\n", 2, [0], delimiter=",", decimal=".") is None
    assert parse_delimited(b"1," + long[1:] + b"\n", 2, [0], delimiter=",", decimal=".") is not None


def test_the_decimal_mark_is_the_one_that_was_said():
    assert parse_delimited(b"1,5;x\n", 2, [0], delimiter=";", decimal=",")[0].tolist() == [[1.5]]
    assert parse_delimited(b"1.5;x\n", 2, [0], delimiter=";", decimal=",") is None


@pytest.mark.parametrize(("key", "lists"), [*product(("z", "y", "l"), (False, True))])
def test_json_is_read_as_python_reads_it_or_not_at_all(key, lists):
    n_read = 0
    for value in JSON:
        rows = [{"z": "[0.5, 2]" if lists else "0.5", "y": "1.5", "l": '"cat"'} for _ in range(3)]
        rows[1][key] = value
        lines = "".join("{" + ", ".join(f'"{name}": {text}' for name, text in row.items()) + "}\n" for row in rows).encode()
        found = parse_objects(lines, json.loads(lines.split(b"\n")[0]), ["z"])
        if found is None:
            continue
        n_read += 1
        expected = [json.loads(line) for line in lines.decode().splitlines()]
        assert all(row.keys() == {"z", "y", "l"} for row in expected), value
        numbers = [list(map(float, row["z"] if lists else [row["z"]])) for row in expected]
        assert found[0].tolist() == numbers, value
        others = {name: [row[name] for row in expected] for name in ("y", "l")}
        assert found[1] == others, value
        assert [type(each) for each in found[1]["y"]] == [type(each) for each in others["y"]], value
    assert n_read >= 2


@pytest.mark.parametrize(
    "lines",
    [
        *(b'{"z": 1}\n\n{"z": 2}\n', b'{"z": 1}{"z": 2}\n{"z": 3}\n', b'{"z":\n1}{"z": 2}\n', b'{"z": 1}\n{"z":\n2}\n'),
        *(
            b'{"z": 1}\n{}\n',
            b'{"z": 1}\n{"y": 1}\n',
            b'{"z": 1}\n{"z": 1, "z": 2}\n',
            b'{"z": 1}\n[1]\n',
            b'{"z": 1}\n{"z": {"z":\n{"z": 1}}\n',
        ),
    ],
)
def test_lines_that_are_not_one_object_are_left_to_python(lines):
    assert parse_objects(lines, {"z": 1}, ["z"]) is None
