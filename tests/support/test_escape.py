"""Names from the data are text in every format: a renderer that allows HTML shows each of them letter by letter."""

import html
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import numpy as np
import pytest
import reference
from markdown_pages import RENDERERS

import nishimori
from nishimori._calibrators.fixed import FixedMap
from nishimori._support.escape import (
    encodable,
    html_text,
    latex_text,
    markdown_code,
    markdown_text,
    printable,
    workflow_text,
    xml_text,
)
from nishimori._support.tables import Tabular
from nishimori.maps.temperature import Temperature

NAMES = [
    "<img src=x onerror=alert(1)>",
    "</td></tr></table><script>alert(1)</script>",
    "a|b",
    "a\\|b",
    "ends with \\",
    "[x](javascript:1)",
    "![x](x)",
    "`code` and ``code``",
    "one ` of them",
    "*strong* **very** _low_ __lower__ snake_case_name",
    "~~gone~~ ~/data/test.npz",
    "&lt; &#60; &amp;lt; & \\&lt;",
    "$x^2$ and {: onclick=alert(1) } {{ x }}",
    "# heading #",
    "- item",
    "+ item",
    "12. item",
    "-",
    "1.",
    "> quote",
    "a \\* b \\< c",
    "<!-- no comment",
    "<https://example.org>",
    "Zürich 東京 👩‍🔬",
]


class Shown(HTMLParser):
    """The tags of a page with their attributes, and the text of each cell, item, heading, paragraph and block of code."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.texts = [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag in ("td", "th", "li", "h1", "p", "code"):
            self.texts.append("")

    def handle_data(self, data):
        if self.texts:
            self.texts[-1] += data


@pytest.fixture(params=RENDERERS)
def rendered(request):
    """Markdown as a renderer that allows HTML shows it."""
    return lambda text: Shown(request.param(text))


@pytest.mark.parametrize("name", NAMES)
def test_markdown_shows_a_name_as_it_is_in_cells_headings_items_and_lines(rendered, name):
    table = Tabular(("name", "n"), [(name, "1")]).markdown()
    text = markdown_text(name)
    found = rendered(f"# Report: {text}\n\n{text}\n\n- {text}\n\n{table}\n\n{markdown_code(name, 'python')}\n")
    texts = [each.strip() for each in found.texts]
    assert texts == [f"Report: {name}", name, name, "name", "n", name, "1", *texts[-1:]]
    assert html.unescape(texts[-1]) == html.unescape(name)
    expected = {"h1", "p", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "pre", "code"}
    assert {tag for tag, _ in found.tags} <= expected
    assert not [attributes for tag, attributes in found.tags if attributes and tag != "code"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("two\nlines\tand\u2028three", "two lines and three"),
        ("\x1b[31m\0", "\\x1b[31m\\x00"),
        ("a\u202eb\u2066", "a\\u202eb\\u2066"),
    ],
)
def test_markdown_and_latex_have_names_in_one_line_without_controls(rendered, name, shown):
    (_, cell) = rendered(Tabular(("name",), [(name,)]).markdown()).texts
    assert cell.strip() == shown
    assert latex_text(name) == latex_text(shown)


def test_code_that_holds_a_fence_stays_code(rendered):
    code = "x = 1\n```\n<img src=x>\n````\n"
    found = rendered(markdown_code(code, "python"))
    assert [tag for tag, _ in found.tags] == ["pre", "code"]
    assert [each.rstrip() for each in found.texts] == [code.rstrip()]


@pytest.mark.parametrize("name", NAMES)
def test_html_shows_a_name_as_it_is(name):
    found = Shown(Tabular(("name",), [(name,)]).html())
    assert found.texts == ["name", name]
    assert [tag for tag, _ in Shown(f'<i title="{html_text(name)}">').tags] == ["i"]


def test_no_name_is_a_command_or_an_argument_in_latex():
    assert latex_text(r"a\b_{c}^~ 100 % & $x$ #") == (
        r"a\textbackslash{}b\_\{c\}\textasciicircum{}\textasciitilde{} 100 \% \& \$x\$ \#"
    )
    lines = Tabular(("name", "n"), [("[3pt] x", "1"), ("* y", "2"), ("<a|b>", "3--4")]).latex().splitlines()
    assert lines[4:7] == [r"{[}3pt{]} x & 1 \\", r"{*} y & 2 \\", r"\textless{}a\textbar{}b\textgreater{} & 3-{}-4 \\"]


NASTY = 'a<b> & "c" \x1b[31m\n::error::x \ud800 \ufffe ü'


def test_text_in_xml_is_allowed_there_and_escaped_by_the_library():
    element = ET.Element("a", {"b": xml_text(NASTY)})
    again = ET.fromstring(ET.tostring(element, encoding="unicode"))
    assert again.get("b") == 'a<b> & "c" \\x1b[31m\\n::error::x \\ud800 \N{REPLACEMENT CHARACTER} ü'


def test_a_workflow_command_stays_one_line():
    assert workflow_text("100 %\r\n::x") == "100 %25\\r\\n::x"


def test_a_terminal_gets_no_control_characters():
    assert printable("\x1b[31m\n\u202e [bold] ü") == "\\x1b[31m\\n\\u202e [bold] ü"
    assert Tabular(("\x1b", "n"), [("a\nb", "1")]).text().splitlines() == ["\\x1b  n", "----  -", "a\\nb  1"]


LOGITS, LABELS = reference.drawn(400, 3, seed=1)
ODD = ["<img src=x onerror=alert(1)>", "a|b\n\x1b[31m", "[x](javascript:1)"]


def odd_group_gaps():
    return nishimori.group_gaps(LOGITS, LABELS, by="groups", groups=np.array(ODD)[np.arange(400) % 3])


def odd_gate():
    return nishimori.gate(LOGITS, LABELS, groups=np.full(400, ODD[1]), bounds={"group_gap": 0.01})


def odd_comparison():
    own = [FixedMap(Temperature(2.0), method=name) for name in ODD]
    return nishimori.compare(LOGITS, LABELS, methods=["none", *own])


@pytest.mark.parametrize("made", [odd_group_gaps, odd_gate, odd_comparison])
def test_results_with_odd_names_are_text_in_markdown_html_and_terminals(rendered, made):
    found = made()
    shown = rendered(found.to_markdown())
    page = Shown(found._repr_html_())
    assert not {tag for tag, _ in (*shown.tags, *page.tags)} & {"img", "a", "script", "code"}
    assert any("a|b" in each for each in shown.texts)
    assert any("a|b" in each for each in page.texts)
    assert "\x1b" not in str(found)
    assert "a|b\\n\\x1b[31m" in str(found)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("−0.031 ± 0.076", "-0.031 +/- 0.076"),
        ("2 × 3 ≤ 7 → 1–2 … “so”", '2 x 3 <= 7 -> 1-2 ... "so"'),
        ("s², √n, x₁, ½, ∞", "s^2, sqrtn, x1, 1/2, inf"),
        ("β = 2, Δ, σ*", "beta = 2, Delta, sigma*"),
        ("Müller, Mu\u0308ller, Zdeborová", "Muller, Muller, Zdeborova"),
        ("Αθήνος 猫\udc80", "?????? ??"),
        ("plain - text + 1", "plain - text + 1"),
    ],
)
def test_what_an_encoding_does_not_have_is_written_in_plainer_letters(text, plain):
    assert encodable(text, "ascii") == plain


def test_what_an_encoding_has_stays_as_it_is():
    assert encodable("−1 ± 2 × β é", "latin-1") == "-1 ± 2 × beta é"
    assert encodable("−1 ± 2 × β é 猫", "utf-8") == "−1 ± 2 × β é 猫"
    assert encodable("−1 ± 2", None) == "−1 ± 2"  # a stream that keeps text, such as StringIO
