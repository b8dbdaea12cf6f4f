"""A user of scikit-learn who types every line of the page sees what the page shows."""

import re
from pathlib import Path

import pytest
from readme import assert_alike

import nishimori

PAGE = Path(__file__).parents[2] / "docs" / "scikit_learn.md"
FENCES = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_every_block_is_followed_by_what_it_prints():
    assert [language for language, _ in FENCES] == ["python", ""] * (len(FENCES) // 2)
    assert len(FENCES) >= 16


@pytest.mark.filterwarnings("default")  # as for somebody who types the lines
def test_the_lines_of_the_page_print_what_it_shows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    for (_, code), (_, shown) in zip(FENCES[::2], FENCES[1::2], strict=True):
        exec(code, names)
        assert_alike(capsys.readouterr().out, shown)
    assert nishimori.load("calibration.json").method == "ec"
