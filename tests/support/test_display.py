"""What results show: nothing is wider than a terminal, and names from the data are text."""

import xml.etree.ElementTree as ET

from nishimori._support.display import Display, Displayed, plural, short_repr
from nishimori._support.tables import Tabular, text_width

EVIL = "<script>alert(1)</script>&\x1b[31m"


class Shown(Displayed):
    """A result with a name from the data everywhere."""

    @property
    def _display(self):
        return Display(EVIL, (Tabular(("class", EVIL), [(EVIL, "1.0 ± 0.1")]),), (EVIL,), EVIL)


def test_names_are_text_in_html_and_do_not_steer_the_terminal():
    tree = ET.fromstring(Shown()._repr_html_())
    assert {each.tag for each in tree.iter()} <= {"div", "p", "span", "strong", "table", "thead", "tbody", "tr", "th", "td"}
    assert "".join(tree.itertext()).count("<script>alert(1)</script>&") == 5
    assert "\x1b" not in str(Shown())


def test_every_result_is_markdown_in_which_names_are_text():
    text = Shown().to_markdown()
    assert text.count("1.0 ± 0.1") == 1
    assert text.endswith("- ± is one standard error.")
    assert "<script>" not in text
    assert "\x1b" not in text


def test_the_meaning_of_the_error_is_said_where_there_is_one():
    with_errors = Display("", (Tabular(("a",), [("1 ± 2",)]),))
    assert with_errors.text().endswith("± is one standard error.")
    assert "one standard error" in with_errors.html()
    assert "standard error" not in Display("", (Tabular(("a",), [("1",)]),)).text()


def test_long_tables_are_cut_and_say_so():
    table = Tabular(("name",), [(f"{number}",) for number in range(1000)])
    shown = Display("", (table,), n_printed=20)
    assert shown.text().splitlines()[-2:] == ["19", "... and 980 more"]
    assert "... and 980 more" in shown.html()
    assert shown.markdown().splitlines()[-1] == "| 999 |"
    assert Display("", (table,)).text().splitlines()[-1] == "999"


def test_everything_fits_the_width():
    note = "word " * 40
    shown = Display(note, (Tabular(("n" * 90, "x"), [("猫" * 50, "y " * 60)]),), (note, "z" * 200))
    assert max(text_width(line) for line in shown.text().splitlines()) <= 80
    assert max(text_width(line) for line in shown.text(40).splitlines()) <= 40


def test_a_short_representation_leaves_out_what_is_not_known():
    assert short_repr(Shown(), n=3, T=None, ece=0.123456, name="a") == "Shown(n=3, ece=0.1235, name='a')"
    assert (plural(1, "bin"), plural(2000, "bin")) == ("1 bin", "2,000 bins")
