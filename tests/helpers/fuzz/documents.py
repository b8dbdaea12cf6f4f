"""Mutations of calibration files that know JSON and the fields of a calibration."""

import json
from collections.abc import Iterator
from random import Random
from typing import Any

from fuzz.damage import Mutation, on_bytes

_VALUES = (
    "null", "true", "false", "0", "1", "-1", "2", "3", "1.5", "-1.5", "1e308", "1e-320", "0.0", "1e999",
    "NaN", "Infinity", "-Infinity",
    '""', '"text"', '"1.5"', "[]", "{}", "[[]]", "[null]", '["a", "b", "c"]', '["a", "a", "b"]',
    '["cat", "fish", "dog"]', "[1, 2, 3]",
    "[1, true, 1.0]", "[{}, {}, {}]", '["a"]', '{"kind": "temperature"}', '{"temperature": 1}',
    "500000000", "9223372036854775808", "1" * 5000,
    "-" + "1" * 5000, "1." + "0" * 5000, "[" * 900 + "]" * 900, "[" * 100_000 + "]" * 100_000,
    '{"a":' * 900 + "1" + "}" * 900, '"\\ud800"',
    '["\\ud800", "b", "c"]', '"\\u0000"', '"\\u001b[31mred\\u0007"', '["\\u001b[31m", "b", "c"]',
    '["\\u202e", "", " "]', "[NaN, 1, 2]",
    '"' + "x" * 100_000 + '"', "[1e999, 1, 2]", '"nishimori-calibration"', '"logits"',
    '"probabilities"', '"os:system"', '"no.such:Thing"',
    '"ts"', '"ec"', '"fixed"', '"../../etc/passwd"', '{"top_n": 7}', '{"top_n": []}', '{"floor": 2}',
    "[[1], [2], [3]]", "1e0", "2.0", "3.0",
    '{"temperature": []}', '{"temperature": NaN}', '{"temperature": -1}', '{"temperature": 1e-300}',
    '{"temperature": 1, "more": 2}', '"matrix"',
)  # fmt: skip


def _paths(value: Any, path: tuple = ()) -> Iterator[tuple]:
    """The places of all values in a document, its root among them."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from _paths(each, (*path, key))


def _parent(document: Any, path: tuple) -> Any:
    for key in path[:-1]:
        document = document[key]
    return document


def a_field(rng: Random, data: bytes, _: bytes) -> bytes:
    """Another value for one field; it may be of any type, very deep, very long, or not valid JSON at all."""
    document, raw = json.loads(data), rng.choice(_VALUES)
    path = rng.choice([path for path in _paths(document) if path])
    _parent(document, path)[path[-1]] = "@raw@"
    return json.dumps(document).replace('"@raw@"', raw).encode()


def a_key(rng: Random, data: bytes, _: bytes) -> bytes:
    """A field that is missing, renamed, added, or given twice with another value."""
    document = json.loads(data)
    path = rng.choice([path for path in _paths(document) if path and isinstance(path[-1], str)])
    within, name = _parent(document, path), path[-1]
    what = rng.choice(("missing", "renamed", "added", "twice"))
    if what in ("missing", "renamed"):
        value = within.pop(name)
        within |= {name.upper(): value} if what == "renamed" else {}
    elif what == "added":
        within["\x1b[31madded"] = 1
    else:
        within["@twice@"] = "@raw@"
    text = json.dumps(document).replace('"@twice@"', json.dumps(name)).replace('"@raw@"', rng.choice(_VALUES[:20]))
    return text.encode()


def a_document(rng: Random, data: bytes, _: bytes) -> bytes:
    """Something else in place of the whole document, or around it, or in another encoding."""
    text = data.decode()
    return rng.choice(
        [
            *(raw.encode() for raw in _VALUES),
            b"[" * 1_000_000,
            b'{"a":' * 200_000,
            b"[" + data + b"]",
            data + data,
            data + b"garbage",
            b"\xef\xbb\xbf" + data,
            text.encode("utf-16"),
            text.encode("utf-32"),
            text.replace('"', "'").encode(),
            text.replace("\n", "\r").encode(),
            text.replace(",", ",,", 1).encode(),
            b"/* a remark */" + data,
            data.replace(b"calibration", b"calibrati\xff\xfen"),
            data.replace(b"logits", b"log\\ud800its"),
            data.replace(b"1.5", b"1.5" + b"0" * 3_000_000),
        ]
    )


DOCUMENTS: dict[str, tuple[Mutation, ...]] = {
    "json": (*12 * (on_bytes(a_field),), *4 * (on_bytes(a_key),), *3 * (on_bytes(a_document),))
}
