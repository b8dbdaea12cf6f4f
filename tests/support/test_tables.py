"""Tables of short texts: each form can be read back, and nothing in a cell is taken for markup."""

import html
import re
import xml.etree.ElementTree as ET

import pytest

from nishimori._support.tables import Tabular, signed, value_with_error

TABLE = Tabular(("method", "T", "ECE"), (("none", "1", "7 %"), ("a|b_c", "1.61 ± 0.04", "<1 & $2 \\x")))


def test_text_has_aligned_columns():
    lines = TABLE.text().splitlines()
    assert len(lines) == 4
    assert lines[1] == "------  -----------  ----------"
    for column, start in (("T", 8), ("ECE", 21)):
        assert lines[0].index(column) == start
    assert lines[3][8:19] == "1.61 ± 0.04"
    assert all(line == line.rstrip() for line in lines)


def test_markdown_keeps_every_cell_in_its_column():
    lines = TABLE.markdown().splitlines()
    assert lines[1] == "|---|---|---|"
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines]
    assert [len(row) for row in cells] == [3, 3, 3, 3]
    unescaped = [[html.unescape(re.sub(r"\\(.)", r"\1", cell.strip())) for cell in row] for row in (cells[0], *cells[2:])]
    assert unescaped == [list(TABLE.headers), *map(list, TABLE.rows)]


def test_latex_escapes_what_would_be_a_command():
    lines = TABLE.latex().splitlines()
    assert lines[0] == r"\begin{tabular}{lrr}"
    assert lines[-1] == r"\end{tabular}"
    assert lines[4] == r"none & 1 & 7 \% \\"
    assert lines[5] == r"a\textbar{}b\_c & 1.61 $\pm$ 0.04 & \textless{}1 \& \$2 \textbackslash{}x \\"


def test_html_shows_markup_as_text():
    tree = ET.fromstring(TABLE.html())
    rows = [[cell.text for cell in row] for row in tree.iter("tr")]
    assert rows == [list(TABLE.headers), *map(list, TABLE.rows)]


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (1.6127, 0.0401, "1.613 ± 0.040"),
        (1.6127, 0.00996, "1.613 ± 0.010"),
        (1.6127, 0.0996, "1.61 ± 0.10"),
        (123.4, 12.0, "123 ± 12"),
        (123456.0, 1200.0, "123456 ± 1200"),
        (1.6127, None, "1.6127"),
        (1.0, 0.0, "1"),
        (1.0, float("inf"), "1"),
        (1.0, float("nan"), "1"),
    ],
)
def test_digits_follow_the_error(value, error, text):
    assert value_with_error(value, error) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(-28.4, "−28"), (-3.04, "−3.0"), (12.6, "+13"), (0.123, "+0.12"), (-0.021, "−0.02"), (0.0, "0"), (-0.001, "0")],
)
def test_a_change_has_a_sign_and_few_digits(value, text):
    assert signed(value) == text
