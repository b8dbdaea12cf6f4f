"""Every block of the documentation that shows its output prints it, with the library alone unless it is about the paper."""

import sys
from pathlib import Path

import pytest
from readme import README, Runner, blocks

from nishimori.data import names_in

PAGES = sorted((Path(__file__).parents[2] / "docs").glob("*.md"))
SHOWN = {page.stem: [block for block in blocks(page) if block.output is not None] for page in PAGES}
IMPORTS = ("nishimori.cli._app", "nishimori.torch", "nishimori._calibrators.methods", "nishimori._evaluation.compare")
IMPORTS += ("sklearn.datasets", "sklearn.linear_model", "pandas", "pydantic", "matplotlib.pyplot", "dask.array")


IN_PAPER = names_in(Path(__file__).parents[2] / "paper" / "src" / "nishimori_paper" / "networks")

# Pages about the paper, whose blocks may use nishimori-paper. On other pages a block that does so says what to install.
PAPER = {"paper", "statements", "errata", "why_ec_and_ts_agree", "shipped_models", "theory"}


def runner_with(folder, *first):
    """One process whose children run all pages, on one core: others run tests, and threads that wait for them spin."""
    return Runner(Path(sys.executable), home=folder, imports=(*first, *IMPORTS), OMP_NUM_THREADS="1")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Runs blocks as if nishimori-paper were not installed."""
    with runner_with(tmp_path_factory.mktemp("home"), "without_paper") as running:
        yield running


@pytest.fixture(scope="module")
def paper(tmp_path_factory):
    """Runs blocks with nishimori-paper."""
    pytest.importorskip("nishimori_paper")
    with runner_with(tmp_path_factory.mktemp("home")) as running:
        yield running


def test_the_four_blocks_in_tabs_of_the_home_page_are_among_them():
    assert [block.language for block in SHOWN["index"]] == ["python", "python", "python", "console"]
    assert all(block.text[0] != " " for block in SHOWN["index"])


def needs_paper(page, block):
    return page in PAPER or block.extra == "paper"


@pytest.mark.parametrize("page", [page for page, shown in SHOWN.items() if not all(needs_paper(page, each) for each in shown)])
def test_blocks_print_what_they_show_with_the_library_alone(page, library, tmp_path):
    library.check([block for block in SHOWN[page] if not needs_paper(page, block)], tmp_path)


@pytest.mark.parametrize("page", [page for page, shown in SHOWN.items() if any(needs_paper(page, each) for each in shown)])
def test_blocks_about_the_paper_print_what_they_show(page, paper, tmp_path):
    paper.check([block for block in SHOWN[page] if needs_paper(page, block)], tmp_path)


@pytest.mark.parametrize(
    "words",
    [
        [
            sys.executable,
            "-c",
            "import nishimori; nishimori.data.load('cifar10/resnet20'); nishimori.data.load('svhn/resnet20')",
        ],
        ["nishimori", "paper", "list"],
        [sys.executable, "-c", "import nishimori_paper"],
    ],
)
def test_a_block_that_needs_nishimori_paper_without_saying_so_is_noticed(words, library, tmp_path):
    code, _, err = library.run(words, tmp_path)
    assert code != 0
    messages = (
        "nishimori-paper, which is not installed",
        "more with `pip install nishimori-paper`",
        "import of nishimori_paper halted",
    )
    assert any(words in err for words in messages)


def unmarked(page):
    """The blocks of a page, shown output or not, that a reader with the library alone may copy."""
    return [block.text for block in blocks(page) if not needs_paper(page.stem, block)]


@pytest.mark.parametrize("page", [*PAGES, README], ids=lambda page: page.stem)
def test_only_blocks_that_say_so_name_networks_of_nishimori_paper(page):
    for text in unmarked(page):
        assert not [name for name in IN_PAPER if f'"{name}"' in text]
        assert "nishimori paper" not in text
        assert "nishimori theory" not in text
        assert "nishimori_paper" not in text
