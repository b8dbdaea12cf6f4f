"""Mutations of text tables that know their structure: .csv, .tsv, .csv.gz and .jsonl."""

import gzip
import json
import struct
from collections.abc import Callable
from random import Random

from fuzz.arrays import zeros
from fuzz.damage import Mutation, on_bytes

_CELLS = (
    "1_000", "0x10", "１２", "1,5", "1e999", "-1e999", "nan", "NaN", "inf", "-inf", "Infinity", "", " ",
    "NULL", "N/A", "1 000", "+5",
    "--5", "1d3", "1.5e", "True", "٣", "1.5f", "(1+2j)", "1e-400", "9" * 400, "0." + "3" * 5000, "abc",
    "\x00", "1\x00", "'1'", "1.",
    ".5", "1e5", "-0", "1;2", "#5", "\ufeff1", "1\u00a0", "=1+1", "−5", "1.5%", "$1", "1\t", "\x1b[2J",
    "-", "1__0", "0b1", "e", "1E+2",
)  # fmt: skip
_LABELS = (
    "1.7", "-0.5", "2.0", "007", "1e0", "", "3", " 1", "1\x00", "TRUE", "0x1", "-1", "1.0000000001",
    "nan", "cat", "Dog", "fish ",
    "cat\x00", "99999999999999999999", "1e300", "-0", "+1", "0.9999999999999999", "1,0", "\x1b[31m1",
    "1_0", "２", "bird", "None",
)  # fmt: skip
_NAMES = (
    "\x1b[31mred\x1b[0m", "bell\x07", "a\rb", "\u202eabc", "", " ", "z_cat", "labels", "Unnamed: 0",
    "x" * 5000, "\x00", "z_\x9b31m",
    '"', "'", "a b", "[bold]x[/bold]", "1", "nan", "É", "\ud7ff", "`classes`", "{}", "%s", "\\n", "*", "z_*", "🐈", "\x7f",
)  # fmt: skip


def _split(data: bytes, mark: str) -> list[list[str]]:
    """The fields of a valid table; a field keeps its quotes."""
    return [line.split(mark) for line in data.decode("utf-8").splitlines()]


def _joined(rows: list[list[str]], mark: str, end: str = "\n") -> bytes:
    return (end.join(mark.join(row) for row in rows) + end).encode("utf-8", "surrogatepass")


def a_cell(rng: Random, rows: list[list[str]], mark: str) -> bytes:
    row = rng.choice(rows[1:])
    row[rng.randrange(len(row))] = rng.choice(_CELLS)
    return _joined(rows, mark)


def a_label(rng: Random, rows: list[list[str]], mark: str) -> bytes:
    names = [name.strip('\ufeff"') for name in rows[0]]
    at = names.index("truth" if "truth" in names else "labels")
    for row in rng.sample(rows[1:], rng.choice((1, 1, 24))):
        row[at] = rng.choice(_LABELS)
    return _joined(rows, mark)


def a_column(rng: Random, rows: list[list[str]], mark: str) -> bytes:
    """Another column: constant, counting, empty, or the same as one that is there."""
    at, name = (
        rng.randrange(len(rows[0]) + 1),
        rng.choice((rng.choice(_NAMES), rng.choice(("id", "split", "weight", "z_bird", "3")))),
    )
    kind = rng.choice(("constant", "counting", "empty", "copy", "text"))
    values = {"constant": "1", "empty": "", "text": "train"}
    for i, row in enumerate(rows):
        row.insert(at, name if i == 0 else str(i) if kind == "counting" else row[0] if kind == "copy" else values[kind])
    return _joined(rows, mark)


def a_name(rng: Random, rows: list[list[str]], mark: str) -> bytes:
    rows[0][rng.randrange(len(rows[0]))] = rng.choice(_NAMES)
    return _joined(rows, mark)


def columns_in_another_order(rng: Random, rows: list[list[str]], mark: str) -> bytes:
    order = rng.sample(range(len(rows[0])), len(rows[0]))
    return _joined([[row[i] for i in order] for row in rows[: rng.choice((1, len(rows)))]] + rows[1:], mark)


def ragged(rng: Random, rows: list[list[str]], mark: str) -> bytes:
    """Rows with a field too many or too few, one of them or all, or header and rows of different lengths."""
    chosen = rng.choice((rows[:1], rows[1:], [rng.choice(rows[1:])], rows[-1:]))
    at, more = rng.randrange(len(rows[0])), rng.random() < 0.6
    for row in chosen:
        row.insert(at, rng.choice(("0", "", "5", "x"))) if more else row.pop(at)
    return _joined(rows, mark)


def decimal_comma(rng: Random, rows: list[list[str]], mark: str) -> bytes:
    changed = [rows[0], *([field.replace(".", ",") for field in row] for row in rows[1:])]
    return _joined(changed, rng.choice((mark, ";", "\t", "|")))


def another_delimiter(rng: Random, rows: list[list[str]], _: str) -> bytes:
    return _joined(rows, rng.choice((",", ";", "\t", "|", " ", ", ", "  ", "\x1f")))


def quotes(rng: Random, rows: list[list[str]], mark: str) -> bytes:
    """Quotes that are not closed, stand within a field, or hold a line break or the delimiter."""
    row = rng.choice(rows)
    at = rng.randrange(len(row))
    text = row[at].strip('"')
    wrap = (
        '"{}',
        '{}"',
        '"{}" ',
        ' "{}"',
        '"{}"x',
        '"{}""',
        '"{}\n"',
        "'{}'",
        '"\n{}"',
        '"{}' + mark + '"',
        '"""{}"""',
        '"{}\\"',
    )
    row[at] = rng.choice(wrap).format(text)
    return _joined(rows, mark)


def lines(rng: Random, rows: list[list[str]], mark: str) -> bytes:
    """Other ends of lines, blank lines, comments, no rows, no header, one endless line."""
    text = _joined(rows, mark)
    middle = len(text) // 2
    at = text.index(b"\n", middle) + 1
    return rng.choice(
        [
            _joined(rows, mark, "\r"),
            _joined(rows, mark, "\r\n"),
            _joined(rows, mark, "\n\n"),
            _joined(rows, mark, mark + "\n"),
            _joined(rows, mark, "\x0b"),
            _joined(rows, mark, "\u2028"),
            _joined(rows, mark, "\n\r"),
            text.rstrip(b"\n"),
            text + b"\n\n \n",
            text[:at] + b"# a remark\n" + text[at:],
            text[:at] + mark.encode() * (len(rows[0]) - 1) + b"\n" + text[at:],
            text[:at] + b"\x1a\n" + text[at:],
            _joined(rows[:1], mark),
            _joined(rows[:1], mark).rstrip(b"\n"),
            _joined(rows[:2], mark),
            _joined(rows[1:], mark),
            b"\n" + text,
            b"# a remark\n" + text,
            b"sep=" + mark.encode() + b"\n" + text,
            text.replace(b"\n", b" "),
            text * 2,
        ]
    )


def encoded(rng: Random, rows: list[list[str]], mark: str) -> bytes:
    text = _joined([[*rows[0][:-1], rows[0][-1]], *rows[1:]], mark).decode()
    return rng.choice(
        [
            text.encode("utf-16"),
            text.encode("utf-16-le"),
            text.encode("utf-32"),
            b"\xef\xbb\xbf" + text.encode(),
            b"\xef\xbb\xbf" * 2 + text.encode(),
            text.replace("z_cat", "z_chât").encode("latin-1", "replace"),
            text.encode() + b"\xff\xfe",
            text.encode().replace(b".", b"\xc2\xb7"),
            text.encode("utf-7"),
            text.encode("cp037", "replace"),
        ]
    )


def enormous(rng: Random, rows: list[list[str]], mark: str) -> bytes:
    """Very many columns, very long fields, very long names."""
    wide = rng.choice((2000, 32_000))
    return rng.choice(
        [
            lambda: _joined([[f"c{i}" for i in range(wide)] + ["labels"], *2 * [["1"] * wide + ["0"]]], mark),
            lambda: _joined([[f"z_{i}" for i in range(wide)] + ["labels"], *2 * [["1.5"] * wide + ["0"]]], mark),
            lambda: _joined([*rows, ["1" * 200_000, *rows[1][1:]]], mark),
            lambda: _joined([["n" * 200_000, *rows[0][1:]], *rows[1:]], mark),
            lambda: _joined([rows[0], *((rows[1:]) * 400)], mark),
            lambda: _joined(rows, mark) + mark.encode() * 1_000_000,
            lambda: _joined(rows, mark) + b'"' + b"x" * 3_000_000,
        ]
    )()


_TABLES = (a_cell, a_cell, a_label, a_label, a_column, a_name, columns_in_another_order, ragged, ragged, decimal_comma)
_TABLES += (another_delimiter, quotes, lines, lines, encoded, enormous)


def _on_rows(
    change: Callable[[Random, list[list[str]], str], bytes],
    mark: str,
    pack: Callable[[bytes], bytes] = bytes,
    unpack: Callable[[bytes], bytes] = bytes,
) -> Mutation:
    def mutation(rng: Random, data: bytes, _: bytes) -> bytes:
        return pack(change(rng, _split(unpack(data), mark), mark))

    mutation.__name__ = change.__name__
    return on_bytes(mutation)


def _pack(text: bytes) -> bytes:
    return gzip.compress(text, mtime=0)


def members_of_gzip(rng: Random, data: bytes, _: bytes) -> bytes:
    """Several members, none, trailing bytes, a wrong checksum or length, a bomb of one endless line."""
    text = gzip.decompress(data)
    half = text.index(b"\n", len(text) // 2) + 1
    rest, size = zeros(rng.choice((2**28, 2**31)))
    head = b"\x1f\x8b\x08\0\0\0\0\0\2\xff"
    return rng.choice(
        [
            _pack(text[:half]) + _pack(text[half:]),
            data + b"\0" * 40,
            data + b"garbage",
            data + data[:20],
            data[:-8] + bytes(8),
            data[:-4] + struct.pack("<I", 2**31),
            data[:-8],
            data[:-1],
            _pack(data),
            _pack(b""),
            _pack(b"\0" * 1000),
            text,
            head + rest + bytes(4) + struct.pack("<I", size % 2**32),
            data[:3] + b"\xff" + data[4:],
            data[:2] + b"\x07" + data[3:],
        ]
    )


_VALUES = (
    "null", "true", '"1.5"', "[1]", "{}", '{"a": 1}', "1e999", "NaN", "-Infinity", "1" * 5000,
    "[" * 2000 + "]" * 2000, "-0", "01",
    "+1", "1.", ".5", "0x10", '""', '"\\ud800"', '"\\u0000"', '"\\u001b[31m"', "1.7", "-1", "3", "9223372036854775808", "1E400",
    "1,", "'a'", "", '"cat"', "2.0", "1.0e0", '"1"', "[1.0, 2.0, 3.0]", "1e-400", '{"a": {"a": {"a": 1}}}',
)  # fmt: skip


def a_value(rng: Random, data: bytes, _: bytes) -> bytes:
    """Another value, in one row or in all of them, that may not be valid JSON."""
    rows = [json.loads(line) for line in data.splitlines()]
    name, raw = rng.choice(list(rows[0])), rng.choice(_VALUES)
    for row in rng.choice((rows, [rng.choice(rows)])):
        row[name] = "@raw@"
    return "".join(json.dumps(row).replace('"@raw@"', raw) + "\n" for row in rows).encode()


def keys(rng: Random, data: bytes, _: bytes) -> bytes:
    """A key that is missing, added, renamed, given twice or in another order, in one row or in all."""
    rows = [list(json.loads(line).items()) for line in data.splitlines()]
    at, what = rng.randrange(len(rows[0])), rng.choice(("missing", "added", "renamed", "twice", "order", "order"))
    for row in rng.choice((rows, rows[:1], rows[-1:], [rng.choice(rows)])):
        match what:
            case "missing":
                row.pop(at)
            case "added":
                row.insert(at, (rng.choice((*_NAMES, "z_bird")), 1.0))
            case "renamed":
                row[at] = (rng.choice(_NAMES), row[at][1])
            case "twice":
                row.append((row[at][0], rng.choice((row[at][1], 1, 0.5))))
            case "order":
                rng.shuffle(row)
    return "".join("{" + ", ".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in row) + "}\n" for row in rows).encode()


def lines_of_json(rng: Random, data: bytes, _: bytes) -> bytes:
    rows = data.splitlines()
    at = rng.randrange(len(rows))
    odd = (
        b"[]",
        b"1",
        b"null",
        b'"text"',
        b"{}",
        b"",
        b"{",
        b"}",
        b"[" * 50_000,
        b'{"a":' * 50_000,
        b"// a remark",
        rows[0][:-5],
    )
    return rng.choice(
        [
            *(b"\n".join([*rows[:at], each, *rows[at:]]) + b"\n" for each in odd),
            b"[" + b",".join(rows) + b"]",
            b" ".join(rows),
            b"\r".join(rows),
            b"\r\n".join(rows),
            b",\n".join(rows),
            b"\n\n".join(rows),
            b"\xef\xbb\xbf" + data,
            data.decode().encode("utf-16"),
            data.replace(b'"', b"'"),
            b'{"z_cat": "' + b"x" * 3_000_000 + b'"}\n' + data,
            b"{" + b", ".join(b'"c%d": 1' % i for i in range(32_000)) + b', "labels": 0}\n',
        ]
    )


TEXTS: dict[str, tuple[Mutation, ...]] = {
    "csv": tuple(_on_rows(each, ",") for each in _TABLES),
    "tsv": tuple(_on_rows(each, "\t") for each in _TABLES),
    "csv.gz": (*(_on_rows(each, ",", _pack, gzip.decompress) for each in _TABLES), *2 * (on_bytes(members_of_gzip),)),
    "jsonl": (*3 * (on_bytes(a_value),), *2 * (on_bytes(keys),), *2 * (on_bytes(lines_of_json),)),
}
