"""Lines of standard input, which can be read again until the last reading has begun."""

import io
import sys

import pytest

from nishimori._files.tables import lines
from nishimori._files.tables.lines import STANDARD_INPUT, LineFile, StandardInput

TEXT = b"".join(b"%d,%d\n" % (i, i * i) for i in range(50_000))


@pytest.fixture
def source(monkeypatch):
    """A standard input with that text."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(TEXT))))
    made = StandardInput()
    monkeypatch.setattr(lines, "standard_input", lambda: made)
    return made


def test_every_reading_starts_at_the_beginning(source):
    assert not source.is_json
    for _ in range(2):
        assert next(iter(LineFile(STANDARD_INPUT))) == "0,0\n"
    assert LineFile(STANDARD_INPUT).read(1)[:8] == TEXT[:8]
    source.begin_last_reading()
    assert "".join(LineFile(STANDARD_INPUT)).encode() == TEXT


def test_nothing_is_kept_of_the_last_reading(source):
    next(iter(LineFile(STANDARD_INPUT)))
    source.begin_last_reading()
    reading = source.open()
    assert reading.read() == TEXT
    assert source._kept == b""


@pytest.mark.parametrize(("text", "is_json"), [(b'{"a": 1}\n', True), (b"a,b\n1,2\n", False), (b"", False)])
def test_the_first_character_tells_json_lines_from_delimited_text(monkeypatch, text, is_json):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(text))))
    assert StandardInput().is_json is is_json
