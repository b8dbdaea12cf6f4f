"""Which tests need packages that may be absent, and which skips continuous integration accepts.

A test module of which a part can do without a package says ``from optional import torch``, see ``tests/helpers/optional.py``.
What cannot be imported without one is in the table here. Without a few small packages nothing runs, and one line says so.
"""

import os
import re
import sys
from doctest import UnexpectedException
from functools import cache
from pathlib import Path

import pytest
from optional import NOT_REQUIRED, REQUIRED, Absent, absent_in, is_installed, packages_in

ABSENT = [name for name in ("nishimori", "nishimori_paper", "hypothesis") if not is_installed(name)]
if ABSENT:  # an exception would be shown with pages of what pytest was doing
    sys.exit(
        f"error: the tests need {', '.join(ABSENT)}. Run `make test`, or `make quick` without large packages; or "
        "`pip install -r requirements/quick.txt -e . -e ./paper`, and then pytest."
    )

# What tests import, and scripts that measure a process of their own, see tests/helpers/own_process.py.
collect_ignore = ["tests/helpers", "tests/measured", "tests/contract/without_paper.py", "paper/tests/helpers"]

# Modules and folders, as patterns of their paths below this folder, and the package that all of their tests and examples need.
NEEDED = {
    "src/nishimori/_kernels/triton*.py": "torch",
    "src/nishimori/_dask/*.py": "dask",
    "src/nishimori/integrations/_onnx_maps.py": "onnx",
    "src/nishimori/integrations/*lightning.py": "lightning",
    "src/nishimori/integrations/_sums.py": "torch",
    "src/nishimori/integrations/skl2onnx.py": "skl2onnx",
    "src/nishimori/integrations/torchmetrics.py": "torchmetrics",
    "src/nishimori/integrations/transformers.py": "transformers",
    "paper/src/nishimori_paper/models/*.py": "torch",
    "paper/src/nishimori_paper/training/_[nt]*.py": "torch",
    "paper/src/nishimori_paper/training/_pixels.py": "torch",
    "paper/src/nishimori_paper/training/_side_by_side.py": "torch",
    "src/nishimori/plot/*.py": "matplotlib",
    "src/nishimori/torch/*.py": "torch",
    "tests/browser/*.py": "playwright",
    "tests/contract/test_cuda.py": "torch",
    "tests/contract/test_peers.py": "torchmetrics",
    "tests/measured/collected.py": "torch",
    "paper/tests/artefacts/test_trained_artefacts.py": "torch",
    "paper/tests/artefacts/*.py": "matplotlib",
    "paper/tests/cli/test_training.py": "torch",
    "paper/tests/test_fold.py": "torch",
    "paper/tests/test_models.py": "torch",
    "paper/tests/training/*.py": "torch",
    "tests/bench/studies/test_population.py": "torch",
    "tests/bench/studies/test_population_results.py": "nishimori_paper",
    "tests/plot/*.py": "matplotlib",
    "tests/dask/test_*.py": "distributed",
    "tests/torch/*.py": "torch",
}

# Files whose tests are slow, for which `make quick` has no time; others are marked one by one.
SLOW = [
    "tests/bench/*/*.py",
    "tests/calibrators/test_floor.py",
    "tests/calibrators/test_prediction.py",
    "tests/cli/test_apply.py",
    "tests/cli/test_blocks.py",
    "tests/cli/test_demo.py",
    "tests/cli/test_memory.py",
    "tests/cli/test_report.py",
    "tests/cli/test_terminal.py",
    "tests/contract/*.py",
    "tests/evaluation/test_*_test.py",
    "tests/evaluation/test_required_samples.py",
    "tests/fit/test_search_in_single_precision.py",
    "tests/fuzz/*.py",
    "tests/integrations/test_processes.py",
    "tests/integrations/test_trainers_page.py",
    "tests/kernels/*.py",
    "paper/tests/*.py",
    "paper/tests/artefacts/*.py",
    "paper/tests/theory/*.py",
    "tests/property/*.py",
    "tests/report/*.py",
    "tests/files/arrays/test_files.py",
    "tests/rows/test_stored_rows.py",
    "tests/rows/test_tokens.py",
    "tests/top_k/test_rows.py",
    "tests/sums/test_binned_gaps.py",
    "tests/support/test_arrays.py",
]

# Why a test may be skipped in continuous integration, other than for lack of a package that is not in requirements/test.txt.
ACCEPTED_SKIPS = [
    "CUDA device",
    "there is a GPU|without CUDA",
    "NISHIMORI_DATA does not name a folder",
    "only root can give files away",
    "a loader that shuffles sums in another order each time",  # a combination of parameters about which nothing is claimed
    "float32 has no such number",  # likewise
]


def matches(path: Path, pattern: str) -> bool:
    """Whether a path below this folder has this pattern."""
    return path.relative_to(Path(__file__).parent).match(pattern)


@cache
def package_for(path: Path) -> str | None:
    """The package without which no test in this file can run."""
    return next((package for pattern, package in NEEDED.items() if matches(path, pattern)), None)


@cache  # asked for each of the many tests of a file
def is_slow(path: Path) -> bool:
    """Whether all tests of a file are slow."""
    return any(matches(path, pattern) for pattern in SLOW)


def is_accepted(reason: str) -> bool:
    """Whether a test may be skipped for this reason in continuous integration."""
    if any(re.search(pattern, reason) for pattern in ACCEPTED_SKIPS):
        return True
    packages = packages_in(reason)
    may_lack = NOT_REQUIRED | (REQUIRED if os.environ.get("NISHIMORI_TESTS") == "quick" else set())
    return bool(packages) and all(each in may_lack and not is_installed(each) for each in packages)


def check_skip(report: pytest.CollectReport | pytest.TestReport) -> None:
    """Turn a skip into a failure where continuous integration does not accept it."""
    if os.environ.get("CI", "") in ("", "false") or not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2].removeprefix("Skipped: ")
    if not is_accepted(reason):
        report.outcome = "failed"
        report.longrepr = (
            f"{report.nodeid} was skipped: {reason}\n"
            "In continuous integration it must run. If that cannot be, add the reason to ACCEPTED_SKIPS in conftest.py."
        )


def absent_package(error: BaseException) -> str | None:
    """The package that is not installed and for lack of which a test or the lines of a docstring ended with this error."""
    (error, *_) = getattr(error, "failures", [error])  # pytest collects those of a docstring
    if isinstance(error, UnexpectedException):
        error = error.exc_info[1]
    named = packages_in(f"{error.name} {error}") if isinstance(error, ImportError) else []
    return next((each for each in named if not is_installed(each)), None)


def pytest_configure(config):
    """Ignore warnings of few errors, because tests are small on purpose, and of rows of the fit, on which its promises hold.

    Tests that are about these warnings ask for them. In pyproject.toml, pytest would import nishimori before this file can say
    that it is not installed.
    """
    config.addinivalue_line("filterwarnings", "ignore::nishimori.errors.FewErrorsWarning")
    same_rows = "ignore:.*fitted to the rows that are measured here:nishimori.errors.InputWarning"
    config.addinivalue_line("filterwarnings", same_rows)
    for about in ("LeafSpec", "does not have many workers"):  # what Lightning does itself, and what it says of any small test
        config.addinivalue_line("filterwarnings", f"ignore:.*{about}")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Skip files that need an absent package."""
    package = package_for(collector.path) if isinstance(collector, pytest.File) else None
    if package is not None and not is_installed(package):
        collector.collect = Absent(package).skip
    report = yield
    check_skip(report)
    return report


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses, after pytest-randomly has drawn an order
def pytest_collection_modifyitems(items):
    """Skip tests that have part of an absent package as a parameter; mark the slow ones and begin with their files."""
    for item in items:
        if is_slow(item.path):
            item.add_marker(pytest.mark.slow)
        stand_in = absent_in(item.callspec.params) if hasattr(item, "callspec") else None
        if stand_in is not None:
            item.add_marker(pytest.mark.skip(reason=stand_in.reason))
    # No worker shall wait at the end for another one that began with a slow file late.
    slow = {item.path for item in items if item.get_closest_marker("slow") or item.get_closest_marker("wheel")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(autouse=True)
def _registered_names_are_forgotten():
    """Leave the tables of methods, maps and metrics as they were: tests and docstrings register some of their own."""
    before = {module: dict(table) for module, table in registered_tables()}
    yield
    for module, table in registered_tables():  # a module may have been imported by the test
        table.clear()
        table.update(before.get(module, {}))


def registered_tables():
    """The tables of names that a process can add to, of the modules that are imported."""
    places = {"_methods.table": "_registered", "maps.kinds": "_registered", "_evaluation.metrics.table": "_registered"}
    for module, name in places.items():
        found = sys.modules.get(f"nishimori.{module}")
        if found is not None:
            yield module, getattr(found, name)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Skip tests that end for lack of a package, and check why tests are skipped."""
    report = yield
    package = absent_package(call.excinfo.value) if report.failed and call.excinfo else None
    if package is not None:
        report.outcome = "skipped"
        report.longrepr = (str(item.path), item.location[1], f"Skipped: {Absent(package).reason}")
    check_skip(report)
    return report
