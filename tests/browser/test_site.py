"""The documentation site in a real browser: search finds the right page, and no screen cuts anything off."""

import http.server
import re
import threading
from functools import partial
from pathlib import Path
from urllib.parse import quote, unquote

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "build" / "site"
SOURCES = ("docs", "examples", "src", "paper/src")
SUFFIXES = (".md", ".py", ".css", ".js", ".txt")


def is_current():
    """Whether the site that `make docs` has built is newer than everything that it is made from."""
    page = BUILT / "llms.txt"  # among the last files that are written
    files = [path for folder in SOURCES for path in (ROOT / folder).rglob("*.*") if path.suffix in SUFFIXES]
    return page.exists() and page.stat().st_mtime > max(path.stat().st_mtime for path in [ROOT / "mkdocs.yml", *files])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site."""
    if is_current():
        return BUILT
    mkdocs = pytest.importorskip("mkdocs.commands.build")
    load_config = pytest.importorskip("mkdocs.config").load_config
    folder = tmp_path_factory.mktemp("site")
    mkdocs.build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder)))
    return folder


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address(site):
    """Where the site is served: search runs in a worker, which browsers do not start from files."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def page(browser):
    context = browser.new_context()
    yield context.new_page()
    context.close()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("install", ""),
        ("threshold", "trust/"),
        ("abstain", "trust/"),
        ("stated confidence", "stated_confidence/"),
        ("segmentation", "segmentation/"),
        ("torchvision", "torch/"),
        ("HistGradientBoosting", "boosting/"),
        ("resampling", "prevalence/"),
        ("SVC(probability=True)", "svc/"),
        ("which ECE", "metrics/"),
        ("cite", "cite/"),
    ],
)
def test_the_first_hit_of_a_search_is_the_page_about_it(page, address, words, found):
    page.goto(f"{address}?q={quote(words)}")
    page.wait_for_selector(".md-search-result__item a")
    page.wait_for_function("!/Type to start|Initializing/.test(document.querySelector('.md-search-result__meta').textContent)")
    first = page.eval_on_selector(".md-search-result__item a", "hit => hit.href")
    assert re.sub(r"[?#].*", "", unquote(first)).removeprefix(address) == found


def pages(nav):
    """The source of each page of the navigation, with the title that it has there."""
    for entry in nav:
        for title, inside in entry.items():
            yield from [(title, inside)] if isinstance(inside, str) else pages(inside)


NAV = [*pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])]


def test_llms_txt_says_of_every_page_of_the_navigation_what_it_answers(site):
    lines = re.findall(r"^- \[(.+)\]\((.+)\): (.+)$", (site / "llms.txt").read_text(encoding="utf-8"), re.MULTILINE)
    places = [re.sub(r"(^|/)index\.md$|\.md$", r"\1" + "/", source).replace("//", "/") for _, source in NAV]
    assert [(title, place) for title, place, _ in lines] == [
        (title, "./" if place == "/" else place) for (title, _), place in zip(NAV, places, strict=True)
    ]
    assert all(len(answer.split()) >= 4 and answer[-1] in ".?!" for *_, answer in lines)


FRAMES = ".md-content pre > code, .md-content .md-typeset__scrollwrap, .md-content .formula"
WIDE = "all.filter(each => each.scrollWidth > each.clientWidth + 1)"
TEXTS = "map(each => each.textContent.trim().slice(0, 60))"
SIDEWAYS = "Math.max(0, document.documentElement.scrollWidth - window.innerWidth)"


def test_no_page_is_wider_than_a_phone_and_what_scrolls_there_can_be_reached_by_keyboard(page, site):
    """On a wide screen nothing has to scroll."""
    found = {}
    for path in sorted(site.rglob("index.html")):
        page.set_viewport_size({"width": 390, "height": 844})
        page.goto(path.as_uri())
        page.wait_for_timeout(120)  # site.js makes tables reachable
        unreachable = page.eval_on_selector_all(FRAMES, f"all => {WIDE}.filter(each => each.tabIndex < 0).{TEXTS}")
        narrow = page.evaluate(SIDEWAYS)
        page.set_viewport_size({"width": 1400, "height": 900})
        cut = page.eval_on_selector_all(FRAMES, f"all => {WIDE}.{TEXTS}")
        problems = {"unreachable": unreachable, "too wide for a phone": narrow, "cut": cut, "too wide": page.evaluate(SIDEWAYS)}
        found |= {(path.relative_to(site).parent.as_posix(), name): problem for name, problem in problems.items() if problem}
    assert found == {}


@pytest.mark.parametrize("source", ["", "scikit_learn/", "stated_confidence/", "trust/"])
def test_axe_finds_no_serious_issue(page, address, axe, source):
    page.set_viewport_size({"width": 1400, "height": 900})
    page.goto(address + source, wait_until="load")
    page.wait_for_timeout(150)
    violations = axe.run(page).response["violations"]
    serious = [each for each in violations if each["impact"] in ("serious", "critical")]
    assert [(each["id"], each["nodes"][0]["html"][:200]) for each in serious] == []
