"""Tables of short texts: each form can be read back, fits the width, and nothing in a cell is taken for markup."""

import html
import re
import xml.etree.ElementTree as ET

from nishimori._support.tables import Tabular, shortened, text_width, wrapped

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


def widths(text):
    return [text_width(line) for line in text.splitlines()]


def test_a_table_that_is_too_wide_breaks_its_headers_before_anything_else():
    table = Tabular(("method", "keeps predictions"), [("ec", "yes")])
    assert table.text(20).splitlines() == ["method  keeps", "        predictions", "------  -----------", "ec      yes"]
    assert table.text(25).splitlines()[0] == "method  keeps predictions"


def test_a_table_continues_below_itself_with_the_names_repeated():
    table = Tabular(("method", *"abcdef"), [("ec", *("1.613 ± 0.040",) * 6), ("ts", *("1.574 ± 0.029",) * 6)])
    text = table.text(80)
    assert max(widths(text)) <= 80
    blocks = [block.splitlines() for block in text.split("\n\n")]
    assert [block[0].split() for block in blocks] == [["method", "a", "b", "c"], ["method", "d", "e", "f"]]
    assert [line.split("  ")[0].strip() for block in blocks for line in block[2:]] == ["ec", "ts", "ec", "ts"]
    assert text.count("1.613 ± 0.040") == 6


def test_sentences_take_several_lines_beside_short_cells():
    words = [f"word{number}" for number in range(30)]
    text = Tabular(("name", "verdict", "what"), [("a", "fail", " ".join(words)), ("b", "pass", "short")]).text(60)
    assert max(widths(text)) <= 60
    assert [word for word in text.split() if word.startswith("word")] == words
    assert text.splitlines()[2].startswith("a     fail     word0 word1")
    assert text.splitlines()[-1] == "b     pass     short"


def test_wide_letters_take_two_columns_and_marks_none():
    assert text_width("猫") == 2
    assert text_width("e\u0301") == 1
    lines = Tabular(("class", "n"), [("猫", "1"), ("cat", "2"), ("e\u0301", "3")]).text().splitlines()
    assert {text_width(line[: line.index(number)]) for line, number in zip(lines[2:], "123", strict=True)} == {7}


def test_a_long_name_keeps_its_beginning_and_its_end():
    assert shortened("n02123045_tabby_cat_number_one", 11) == "n0212…r_one"
    assert shortened("猫" * 20, 11) == "猫猫…猫猫"
    assert shortened("cat", 11) == "cat"


def test_lines_are_broken_between_words_and_not_inside_an_equation():
    assert wrapped("the value T = 1.5 is 2 % too large", 12) == ["the value", "T = 1.5 is", "2 % too", "large"]
    assert wrapped("one two three", 9, indent="  ") == ["one two", "  three"]
    assert wrapped("a" * 7, 3) == ["aaa", "aaa", "a"]
    assert wrapped("", 10) == [""]
