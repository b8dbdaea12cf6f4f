"""Every block of the documentation that shows its output prints it."""

import sys
from pathlib import Path

import pytest
from readme import Runner, blocks

PAGES = sorted((Path(__file__).parents[2] / "docs").glob("*.md"))
SHOWN = {page.stem: [block for block in blocks(page) if block.output is not None] for page in PAGES}
IMPORTS = ("nishimori.cli._app", "nishimori.torch", "nishimori._calibrators.methods", "nishimori._evaluation.compare")
IMPORTS += ("sklearn.datasets", "sklearn.linear_model", "pandas", "pydantic", "matplotlib.pyplot", "dask.array")


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    """One process whose children run all pages, on one core: others run tests, and threads that wait for them spin."""
    with Runner(Path(sys.executable), home=tmp_path_factory.mktemp("home"), imports=IMPORTS, OMP_NUM_THREADS="1") as running:
        yield running


@pytest.mark.parametrize("page", [page for page, shown in SHOWN.items() if shown])
def test_blocks_print_what_they_show(page, runner, tmp_path):
    runner.check(SHOWN[page], tmp_path)
