"""Tests are skipped for lack of a package that only they need, and continuous integration accepts no other skip in silence."""

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from optional import REQUIRED, Absent, absent_in, cast

ROOT = Path(__file__).parents[2]
HELPERS = ROOT / "tests" / "helpers"  # which are imported by tests that need the same packages
CONFTEST = runpy.run_path(str(ROOT / "conftest.py"))

# What a project's tests may do with a package that is absent, and with skips of other kinds.
CASES = """
import pytest
import optional

optional.REQUIRED.add("no_such_package")
from optional import no_such_package as absent

ARRAYS = {"absent": absent.asarray([1, 2]), "list": [1, 2]}


class Network(absent.nn.Module):
    pass


def test_that_needs_nothing():
    pass

def test_that_calls_it():
    absent.zeros(3)

@pytest.mark.parametrize("asarray", [list, absent.asarray])
def test_of_a_parameter(asarray):
    assert asarray([1, 2])

@pytest.mark.parametrize("name", ARRAYS)
def test_of_an_array_that_was_made_before(name):
    assert len(ARRAYS[name]) == 2

def test_of_a_class_that_was_derived_from_it():
    Network()

@pytest.mark.skip(reason="needs a CUDA device")
def test_of_an_accepted_reason():
    pass

@pytest.mark.skip(reason="of no interest today")
def test_of_an_unknown_reason():
    pass

@pytest.mark.xfail(reason="declared", strict=True)
def test_that_is_expected_to_fail():
    raise AssertionError
"""


@pytest.fixture
def outcomes(tmp_path):
    """A function that runs the cases, and returns which test ended how."""
    shutil.copy(ROOT / "conftest.py", tmp_path)
    shutil.copy(HELPERS / "optional.py", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n", encoding="utf-8")
    (tmp_path / "test_cases.py").write_text(CASES, encoding="utf-8")
    # conftest.py puts back the table of methods after each test. One that is empty does, and takes no second to import.
    path = tmp_path / "nishimori" / "_methods" / "table.py"
    path.parent.mkdir(parents=True)
    path.write_text("_known = {}\n", encoding="utf-8")
    for package in (path.parent, path.parent.parent):
        (package / "__init__.py").touch()
    names = ("FewErrorsWarning", "InputWarning")  # which conftest.py ignores, the second in part
    ignored = "".join(f"class {name}(Warning): ...\n" for name in names)
    (tmp_path / "nishimori" / "errors.py").write_text(ignored, encoding="utf-8")

    def run(*options, **variables):
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "NISHIMORI_", "CI"))
        }
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--junitxml=found.xml", *options]
        variables |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        done = subprocess.run(command, cwd=tmp_path, env=environment | variables, capture_output=True, text=True, check=False)
        assert done.returncode in (0, 1), done.stdout + done.stderr
        cases = ElementTree.parse(tmp_path / "found.xml").iter("testcase")
        return {case.get("name"): next((child.tag for child in case), "passed") for case in cases}

    return run


NEED_IT = [
    "test_that_calls_it",
    "test_of_a_parameter[asarray1]",
    "test_of_an_array_that_was_made_before[absent]",
    "test_of_a_class_that_was_derived_from_it",
]
OTHERS = {
    "test_that_needs_nothing": "passed",
    "test_of_a_parameter[list]": "passed",
    "test_of_an_array_that_was_made_before[list]": "passed",
    "test_of_an_accepted_reason": "skipped",
    "test_that_is_expected_to_fail": "skipped",
}


def test_only_tests_that_need_an_absent_package_are_skipped(outcomes):
    assert outcomes() == OTHERS | dict.fromkeys(NEED_IT, "skipped") | {"test_of_an_unknown_reason": "skipped"}


# A skip that a mark asks for is an error of the set-up, others are failures of the test.


def test_in_continuous_integration_a_skip_that_is_not_accepted_fails_on_any_worker(outcomes):
    found = outcomes("-p", "xdist", "-n", "2", CI="true")
    failed = OTHERS | dict.fromkeys(NEED_IT, "failure") | {"test_of_an_unknown_reason": "error"}
    assert found == failed | {"test_of_a_parameter[asarray1]": "error"}


def test_the_light_environment_may_lack_packages_but_skip_nothing_else(outcomes):
    found = outcomes(CI="true", NISHIMORI_TESTS="quick")
    assert found == OTHERS | dict.fromkeys(NEED_IT, "skipped") | {"test_of_an_unknown_reason": "error"}


@pytest.mark.parametrize("words", [[], ["tests/cli"], ["--collect-only", "-q", "paper/tests"]])
def test_pytest_in_an_environment_without_the_tests_packages_says_in_one_line_what_to_install(words, tmp_path):
    for name in ("pytest", "_pytest", "py.py", "pluggy", "iniconfig", "packaging", "pygments"):
        (tmp_path / name).symlink_to(Path(pytest.__file__).parents[1] / name)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-S", "-m", "pytest", *words],  # without the packages of this environment
        cwd=ROOT,
        env=environment | {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    (line,) = (done.stdout + done.stderr).splitlines()
    assert line.startswith("error: the tests need nishimori, nishimori_paper, hypothesis. Run `make test`")
    assert "`pip install -r requirements/quick.txt -e . -e ./paper`" in line
    assert done.returncode == 1


def imported_at_the_top(path):
    """Optional packages that a module imports as soon as it is imported."""
    found = re.findall(r"^(?:import|from) (nishimori\.torch|\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {name.removeprefix("nishimori.") for name in found} & REQUIRED


def test_no_module_of_tests_or_source_imports_an_optional_package_that_the_table_does_not_name():
    paths = [path for folder in ("tests", "src") for path in sorted((ROOT / folder).rglob("*.py")) if path.parent != HELPERS]
    wrong = {
        str(path.relative_to(ROOT)): sorted(packages)
        for path in paths
        if (packages := imported_at_the_top(path)) and CONFTEST["package_for"](path) is None
    }
    assert wrong == {}


@pytest.mark.parametrize("table", ["NEEDED", "SLOW"])
def test_every_pattern_of_the_tables_finds_a_file(table):
    assert [pattern for pattern in CONFTEST[table] if not any(ROOT.glob(pattern))] == []


def test_the_light_requirements_are_among_all():
    light, every = (
        {line for line in (ROOT / "requirements" / name).read_text(encoding="utf-8").splitlines() if not line.startswith("#")}
        for name in ("quick.txt", "test.txt")
    )
    assert light < every


def test_a_stand_in_is_found_in_nested_parameters():
    absent = Absent("torch.float32")
    assert absent_in({"a": [1, (2, absent)]}) is absent
    assert absent_in({"a": [1, (2, "torch")]}) is None
    assert cast([1.0], absent) is absent
