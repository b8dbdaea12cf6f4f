"""Every block of the documentation that shows its output prints it."""

import sys
from pathlib import Path

import pytest
from readme import blocks, check_all

PAGES = sorted((Path(__file__).parents[2] / "docs").glob("*.md"))
SHOWN = {page.stem: [block for block in blocks(page) if block.output is not None] for page in PAGES}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One folder for all pages, because some read files that others write."""
    return tmp_path_factory.mktemp("user")


@pytest.mark.parametrize("page", [page for page, shown in SHOWN.items() if shown])
def test_blocks_print_what_they_show(page, folder):
    check_all(SHOWN[page], Path(sys.executable), folder)
