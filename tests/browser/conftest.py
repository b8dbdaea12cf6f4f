"""A real browser: Debian's Chromium, driven by Playwright. Where there is none, tests are skipped.

With the environment variable ``NISHIMORI_BROWSER_TESTS=required``, as in continuous integration, they fail instead.
"""

import os
import shutil

import pytest

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def _unavailable(reason):
    if os.environ.get("NISHIMORI_BROWSER_TESTS") == "required":
        pytest.fail(f"{reason}, and NISHIMORI_BROWSER_TESTS=required.")
    pytest.skip(f"{reason}.")


@pytest.fixture(scope="session")
def browser():
    """A running browser."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        _unavailable("There is no Chromium here (apt-get install chromium)")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        _unavailable("Playwright is not installed (pip install playwright)")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield running
        running.close()


@pytest.fixture(scope="session")
def axe():
    """Checks the accessibility of a page."""
    try:
        from axe_playwright_python.sync_playwright import Axe
    except ModuleNotFoundError:
        _unavailable("axe-core is not installed (pip install axe-playwright-python)")
    return Axe()
