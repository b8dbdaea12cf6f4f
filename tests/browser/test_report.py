"""The page of `nishimori report` in a real browser: the slider shows what the library computes, and nothing else runs."""

import numpy as np
import pytest
import report_case

import nishimori

VALIDATION, TEST = report_case.rows(800)
LIVE = "#reliability > div svg"


@pytest.fixture(scope="module")
def report():
    return report_case.report(VALIDATION, TEST, "<b>model</b>")


@pytest.fixture(scope="module")
def address(report, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    report.save(path)
    return path.as_uri()


class Opened:
    """A page, what its console said, and what it asked the network for."""

    def __init__(self, browser, address, **options):
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.said, self.asked = [], []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(address)


@pytest.fixture(scope="module")
def opened(browser, address):
    found = Opened(browser, address, viewport={"width": 1100, "height": 900})
    found.page.wait_for_selector(LIVE)
    found.page.wait_for_selector("#curves > div svg")
    yield found
    found.context.close()


@pytest.fixture
def page(opened):
    return opened.page


def shown(page):
    """The numbers in the row of the chosen temperature, as texts."""
    return {name: page.text_content(f"#scores [data-score={name}]") for name in ("confidence", "ece", "nll", "brier")}


def expected(T):
    card = nishimori.evaluate(TEST["logits"], TEST["codes"], temperature=T)
    return {
        "confidence": f"{100 * card.confidence:.2f} %",
        "ece": f"{100 * card.ece:.2f} %",
        "nll": f"{card.nll:.4f}",
        "brier": f"{card.brier:.4f}",
    }


def move_to(page, place):
    page.eval_on_selector(
        "#temperature", "(slider, place) => { slider.value = place; slider.dispatchEvent(new Event('input')) }", place
    )


def test_the_slider_shows_the_numbers_of_the_library(page, report):
    places = report.to_dict()["slider"]["places"]
    for place in range(0, len(places), 7):
        move_to(page, place)
        T = places[place]["temperature"]
        assert shown(page) == expected(T)
        assert page.text_content("#shown-temperature").startswith(f"T = {T:.4g}")
        assert page.text_content("#now") == f"T = {T:.4g}"
        assert page.get_attribute("#temperature", "aria-valuetext").startswith(f"T = {T:.4g}")


def test_the_slider_moves_by_keyboard_and_carries_the_diagram_along(page, report):
    places = report.to_dict()["slider"]["places"]
    move_to(page, 10)
    page.wait_for_timeout(100)
    before = page.inner_html("#reliability")
    page.focus("#temperature")
    page.keyboard.press("ArrowRight")
    assert page.input_value("#temperature") == "11"
    assert shown(page) == expected(places[11]["temperature"])
    page.wait_for_function("before => document.querySelector('#reliability').innerHTML !== before", arg=before)
    points = page.eval_on_selector_all("#reliability .mark-symbol path[aria-label*='accuracy']", "all => all.length")
    assert points >= len(places[11]["bins"])


def test_the_diagram_shows_the_bins_of_the_temperature(page, report):
    places = report.to_dict()["slider"]["places"]
    for place in (4, len(places) - 5):
        move_to(page, place)
        as_is = next(each for each in places if each["temperature"] == 1)
        wanted = sorted(f"{100 * each[2]:.1f}%" for shown in (places[place], as_is) for each in shown["bins"])
        script = "all => all.map(each => each.getAttribute('aria-label'))"
        page.wait_for_function(
            """wanted => {
                const all = [...document.querySelectorAll("#reliability [aria-label*='mean confidence']")];
                const found = all.map(each => each.getAttribute('aria-label').match(/mean confidence: ([\\d.]+%)/)[1]);
                return JSON.stringify(found.sort()) === JSON.stringify(wanted);
            }""",
            arg=wanted,
        )
        assert page.eval_on_selector_all("#reliability [aria-label*='mean confidence']", script)


@pytest.mark.parametrize("method", ["none", "ts", "ec", "adaptive"])
def test_buttons_go_to_the_temperatures_of_the_methods(page, method):
    T = nishimori.calibrator(method).fit(VALIDATION["logits"], VALIDATION["codes"]).temperature_
    label = "T = 1" if method == "none" else f"{method if method == 'adaptive' else method.upper()}: {T:.4g}"
    page.click(f"button:text-is('{label}')")
    assert shown(page) == expected(T)
    pressed = page.eval_on_selector_all("[data-place][aria-pressed=true]", "all => all.map(each => each.textContent)")
    assert label in pressed


def column(page, table, number):
    return page.eval_on_selector_all(f"#{table} tbody tr", f"all => all.map(row => row.cells[{number}].dataset.value)")


def test_tables_sort_by_any_column_and_back(page):
    page.click("#classes thead th:nth-child(2) button")
    sizes = [int(each) for each in column(page, "classes", 1)]
    assert sizes == sorted(sizes, reverse=True)
    assert page.get_attribute("#classes thead th:nth-child(2)", "aria-sort") == "descending"
    page.click("#classes thead th:nth-child(2) button")
    assert [int(each) for each in column(page, "classes", 1)] == sorted(sizes)
    page.click("#classes thead th:nth-child(5) button")
    gaps = [float(each) for each in column(page, "classes", 4)]
    assert gaps == sorted(gaps, reverse=True)
    assert page.get_attribute("#classes thead th:nth-child(2)", "aria-sort") is None


def test_names_from_the_data_are_shown_and_not_run(page):
    names = page.eval_on_selector_all("#classes tbody th", "all => all.map(each => each.textContent)")
    assert sorted(names) == sorted(report_case.CLASSES)
    groups = page.eval_on_selector_all("#groups tbody th", "all => all.map(each => each.textContent)")
    assert sorted(groups) == sorted(report_case.GROUPS)
    assert page.text_content("h1") == "Calibration report: <b>model</b>"
    assert page.evaluate("window.broken") is None
    assert page.eval_on_selector_all("img, h1 b, td i", "all => all.length") == 0


def test_the_console_stays_empty_and_no_request_leaves_the_page(opened, address):
    assert opened.said == []
    assert opened.asked == [address]


def test_the_policy_of_the_page_forbids_every_connection(opened):
    blocked = opened.page.evaluate(
        """() => new Promise((resolve) => {
            document.addEventListener("securitypolicyviolation", (event) => resolve(event.effectiveDirective));
            fetch("https://example.org/").catch(() => setTimeout(() => resolve("allowed"), 500));
        })"""
    )
    assert blocked == "connect-src"
    opened.said.clear()  # in which the browser complains


@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (820, "dark"), (390, "light")])
def test_axe_finds_no_issue(browser, address, axe, width, scheme):
    found = Opened(browser, address, viewport={"width": width, "height": 900}, color_scheme=scheme)
    found.page.wait_for_selector(LIVE)
    violations = axe.run(found.page).response["violations"]
    found_issues = [(each["id"], each["impact"], each["nodes"][0]["html"][:200]) for each in violations]
    overflow = found.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    found.context.close()
    assert found_issues == []
    assert overflow <= 0


def test_the_page_is_readable_without_javascript(browser, address, report):
    found = Opened(browser, address, java_script_enabled=False)
    assert found.page.locator("#reliability svg").count() == 1
    assert found.page.locator("#curves svg").count() == 1
    assert found.page.is_disabled("#temperature")
    start = report.to_dict()["slider"]
    T = start["places"][start["start"]]["temperature"]
    assert shown(found.page) == expected(T)
    assert "The slider needs JavaScript" in found.page.text_content("#explore noscript")
    assert not found.page.locator(".hint").first.is_visible()  # nothing sorts
    found.context.close()


def test_paper_is_white_and_shows_everything(browser, address):
    found = Opened(browser, address, color_scheme="dark")
    found.page.emulate_media(media="print", color_scheme="light")
    ink = found.page.evaluate("getComputedStyle(document.body).color")
    assert np.mean([int(each) for each in ink.removeprefix("rgb(").removesuffix(")").split(",")]) < 60
    assert found.page.evaluate("getComputedStyle(document.querySelector('.tall')).overflowY") == "visible"
    found.context.close()


@pytest.fixture(scope="module")
def rare_address(tmp_path_factory):
    with pytest.warns(nishimori.errors.InputWarning, match="one temperature cannot correct that"):
        report = nishimori.Report(*report_case.rare(0), *report_case.rare(1), bounds={"ece": 0.02})
    path = tmp_path_factory.mktemp("rare") / "report.html"
    report.save(path)
    return path.as_uri()


def test_a_method_without_a_temperature_is_shown_first_and_the_slider_leaves_it(browser, rare_address):
    (val, val_labels), (z, labels) = report_case.rare(0), report_case.rare(1)
    found = Opened(browser, rare_address, viewport={"width": 1100, "height": 900})
    found.page.wait_for_selector(LIVE)
    used = found.page.text_content("#now")
    card = nishimori.evaluate(z, labels, calibrator=nishimori.calibrator(used).fit(val, val_labels))
    names = ("accuracy", "positive_ece", "positive_gap")
    cells = {name: found.page.text_content(f"#scores [data-score={name}]") for name in names}
    assert cells["accuracy"] == f"{100 * card.accuracy:.2f} %"
    assert cells["positive_ece"] == f"{100 * card.positive_ece:.2f} %"
    assert cells["positive_gap"] == f"{100 * card.positive_gap:+.2f}".replace("-", "−")
    wanted = sorted(f"{100 * each:.1f}%" for each in card.positive_reliability.confidence)
    labels_of = "all => all.map(each => each.getAttribute('aria-label'))"
    shown_bins = found.page.eval_on_selector_all("#reliability [aria-label*='mean P(class 1)']", labels_of)
    assert all(any(f"mean P(class 1): {each};" in label for label in shown_bins) for each in wanted)
    move_to(found.page, 3)
    assert found.page.text_content("#now").startswith("T = ")
    found.page.click(f"button:text-is('{used}')")
    assert found.page.text_content("#now") == used
    assert cells["accuracy"] == found.page.text_content("#scores [data-score=accuracy]")
    found.page.wait_for_timeout(200)
    assert found.said == []
    found.context.close()


@pytest.mark.parametrize("which", ["address", "rare_address"])
def test_a_phone_shows_what_decides_and_the_marks_of_the_worst_classes(browser, request, axe, which):
    found = Opened(browser, request.getfixturevalue(which), viewport={"width": 390, "height": 844})
    found.page.wait_for_selector(LIVE)
    script = "all => all.map(each => each.getBoundingClientRect()).map(box => [box.left, box.right, box.width])"
    marks = found.page.eval_on_selector_all(".on-narrow .mark-symbol path", script)
    assert len(marks) >= 4  # before and after, of each class
    cells = found.page.eval_on_selector_all(".glance td, .glance th", script)
    gaps = found.page.eval_on_selector_all("#classes tbody td:nth-child(5)", script)
    for left, right, width in (*marks, *cells, *gaps):
        assert left >= 0
        assert right <= 390
        assert width > 0
    (action, *_) = found.page.eval_on_selector_all(".action", "all => all.map(each => each.getBoundingClientRect().bottom)")
    assert action <= 844  # on the first screen
    assert not found.page.locator(".wide .on-wide").first.is_visible()
    sizes = found.page.eval_on_selector_all(".glance tbody td", "all => all.map(each => getComputedStyle(each).fontSize)")
    assert len(set(sizes)) == 1  # before and after are of equal size
    assert axe.run(found.page).response["violations"] == []
    found.context.close()
