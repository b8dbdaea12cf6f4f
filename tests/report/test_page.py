"""The report as a file: one page that runs nothing from the data and loads nothing, Markdown, and what is refused."""

import hashlib
import html
import importlib
import json
import re
from base64 import b64encode
from html.parser import HTMLParser

import numpy as np
import pytest
import report_case
from markdown_pages import RENDERERS

from nishimori import Report
from nishimori.errors import InputError
from nishimori.report._page import _inert

VALIDATION, TEST = report_case.rows(400)


@pytest.fixture(scope="module")
def report():
    return report_case.report(VALIDATION, TEST, '<h1>"model"</h1>')


@pytest.fixture(scope="module")
def page(report):
    return report.to_html()


def test_no_name_puts_a_control_character_on_the_page_or_turns_its_lines_around():
    steering = "\0\x1b[31m\u202e"
    names = [f"{steering}{k}" for k in range(4)]
    report = Report(VALIDATION["logits"], np.array(names)[VALIDATION["codes"]], classes=names, title=steering)
    for text in (report.to_html(), report.to_markdown()):
        assert not {"\0", "\x1b", "\u202e"} & set(text)
        assert "u202e3" in text


def test_no_name_of_two_classes_is_read_as_an_expression_by_the_charts():
    steering = "\0\x1b[31m\u202e"
    names = [f'{steering}{k}"\\' for k in range(2)]
    codes = (VALIDATION["codes"] > 1).astype(int)
    html = Report(VALIDATION["logits"][:, :2], np.array(names)[codes], classes=names).to_html()
    assert not {"\0", "\x1b", "\u202e"} & set(html)
    assert "mean P(class \\x00\\x1b[31m\\u202e1&quot;\\)" in html


class Parsed(HTMLParser):
    """All tags with their attributes, and the text outside scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts, self._inside = [], [], None
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, data):
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside != "style":
            self.text += data


def test_names_from_the_data_are_text_on_the_page(page):
    found = Parsed(page)
    for name in (*report_case.CLASSES, *report_case.GROUPS, '<h1>"model"</h1>'):
        assert name in found.text
    assert "<i>" in found.text
    assert [attributes.get("type") for tag, attributes in found.tags if tag == "script"] == ["application/json", None, None]
    assert not {"img", "iframe", "object", "link", "b", "i"} & {tag for tag, _ in found.tags}


def test_the_page_loads_nothing_and_allows_only_its_own_scripts(page):
    found = Parsed(page)
    for _, attributes in found.tags:
        assert not {"src", "srcset", "data", "action", "onclick", "onload"} & set(attributes)
        assert attributes.get("href", "#").startswith("#")
    (policy,) = [each["content"] for tag, each in found.tags if each.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe-eval" not in policy
    allowed = re.search(r"script-src ([^;]*);", policy)[1].split()
    hashes = [f"'sha256-{b64encode(hashlib.sha256(each.encode()).digest()).decode()}'" for each in found.scripts[1:]]
    assert allowed == hashes


def test_data_in_scripts_cannot_end_them(page):
    content = {"name": "</script><!-- &lt; \u2028"}
    assert not set("<>&") & set(_inert(content))
    assert json.loads(_inert(content)) == content
    assert json.loads(Parsed(page).scripts[0])["places"]


def test_the_file_is_small(page):
    assert len(page.encode()) < 1_500_000


def test_a_thousand_classes_still_make_a_small_file():
    rng = np.random.default_rng(0)
    logits = 4 * rng.normal(size=(3000, 1000))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    assert len(Report(logits, labels).to_html().encode()) < 3_000_000


def test_static_pictures_are_there_without_javascript(page):
    labels = [attributes["aria-label"] for tag, attributes in Parsed(page).tags if tag == "svg"]
    assert [each.split(":")[0].split(",")[0] for each in labels] == [
        "Reliability diagram",
        "Mean confidence",
        *["Confidence minus accuracy of the worst classes or groups"] * 4,  # each also for phones
        "Error of the most confident answers against their share of all samples.",
    ]


def test_a_sketch_says_on_its_page_what_is_absent():
    import nishimori

    page = Report(nishimori.Sketch().update(TEST["logits"], TEST["codes"])).to_html()
    assert (
        "The errors: the most confident ones, confusions, and the error of the most confident answers: a sketch keeps sums"
        in page
    )
    assert 'id="mistakes"' not in page


@pytest.mark.parametrize("render", RENDERERS)
def test_markdown_shows_names_as_they_are_where_html_is_allowed(report, render):
    text = report.to_markdown()
    found = Parsed(render(text))
    assert text.startswith('# Calibration report: &lt;h1&gt;"model"&lt;/h1&gt;\n\n**Overconfident by ')
    for name in (
        *report_case.CLASSES,
        *report_case.GROUPS,
        *TEST["ids"][[each["row"] for each in report.to_dict()["mistakes"]]],
    ):
        assert name in found.text
    tags = {"h1", "h2", "p", "strong", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "pre", "code"}
    assert {tag for tag, _ in found.tags} == tags
    titles = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert titles[:4] == ["Temperatures", "Before and after", "Predicted classes", "Groups"]
    assert titles[4:] == ["What you can do with it", "Errors", "Most confident errors", "How this was made"]


def test_a_report_of_its_dictionary_is_the_same(report, page):
    again = Report.from_dict(report.to_dict())
    assert again.to_html() == page
    assert (str(again), repr(again)) == (report.verdict, "<Report on 200 test samples: overconfident>")


def test_notebooks_show_the_page_in_a_frame(report, page):
    frame = report._repr_html_()
    assert html.unescape(re.search(r'srcdoc="([^"]*)"', frame)[1]) == page


def test_saving_keeps_existing_files(report, tmp_path):
    path = tmp_path / "report.md"
    report.save(path)
    assert path.read_text() == report.to_markdown()
    with pytest.raises(FileExistsError, match=r"report.md exists. Pass `overwrite=True` to replace it.$"):
        report.save(path)
    path.write_text("old")
    report.save(path, overwrite=True)
    assert path.read_text() == report.to_markdown()
    report.save(tmp_path / "report.json")
    assert (tmp_path / "report.json").read_text() == report.to_json()


def test_other_endings_and_other_dictionaries_are_refused(report, tmp_path):
    with pytest.raises(InputError, match=r"^`path` must end in .html, .md or .json, got a name that ends in '.pdf'.$"):
        report.save(tmp_path / "report.pdf")
    with pytest.raises(InputError, match=r"^`results` must be the result of a report's `to_dict`, in format 1, got {'a': 1}.$"):
        Report.from_dict({"a": 1})


def test_a_missing_package_is_named_with_its_extra(report, monkeypatch):
    real = importlib.import_module

    def without(name, package=None):
        if name.partition(".")[0] == "vl_convert":
            raise ModuleNotFoundError("No module named 'vl_convert'", name="vl_convert")
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(ModuleNotFoundError, match=r"The report needs vl_convert, .* `pip install 'nishimori\[report\]'`.$"):
        report.to_html()
