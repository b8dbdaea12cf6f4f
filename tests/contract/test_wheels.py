"""Two wheels: the library, which is small and free, and nishimori-paper, which adds a command and networks to it."""

import os
import subprocess
import sys
import zipfile
from email import message_from_bytes

import pytest
from optional import Absent, is_installed
from wheels import LIBRARY, PAPER, built, environment, pip

import nishimori

pytestmark = pytest.mark.wheel
NAMES = "from nishimori import data; print(*data.names())"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheels")
    return {"library": built(LIBRARY, folder), "paper": built(PAPER, folder)}


@pytest.fixture(scope="module")
def alone(tmp_path_factory, wheels):
    """The Python of an environment with the library and without nishimori-paper."""
    return environment(tmp_path_factory.mktemp("alone"), wheels["library"])


@pytest.fixture(scope="module")
def together(tmp_path_factory, wheels):
    """The Python of an environment with both."""
    return environment(tmp_path_factory.mktemp("together"), *wheels.values())


def contents(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (about,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return archive.namelist(), message_from_bytes(archive.read(about))


def run(python, *words, cwd):
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONPATH"
    }  # what was installed, not the source
    line = [python.parent / words[0], *words[1:]]
    done = subprocess.run(line, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_the_library_is_small_and_has_one_network_no_tests_and_nothing_of_the_paper(wheels):
    names, metadata = contents(wheels["library"])
    assert wheels["library"].stat().st_size <= 2.5e6
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"nishimori"}
    assert [name for name in names if name.endswith(".npz")] == ["nishimori/data/cifar10/resnet20.npz"]
    assert not [name for name in names if "test_" in name or "/tests/" in name or "paper" in name]
    assert metadata["License-Expression"] == "Apache-2.0"
    assert not [each for each in metadata.get_all("Requires-Dist") if "nishimori-paper" in each]


def test_the_library_comes_with_its_kernel_for_the_platform_and_every_python(wheels, alone, tmp_path):
    assert "-py3-none-" in wheels["library"].name
    assert not wheels["library"].name.endswith("-any.whl")
    names, _ = contents(wheels["library"])
    assert [name for name in names if "nishimori/_kernels/libnishimori." in name]
    assert not [name for name in names if name.endswith((".c", ".h"))]
    code, out, _ = run(alone, "nishimori", "--version", cwd=tmp_path)
    assert code == 0
    assert " (native kernel, " in out


def test_without_a_compiler_the_wheel_is_built_without_the_kernel_unless_it_is_required(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", str(tmp_path / "no-compiler"))
    monkeypatch.delenv("NISHIMORI_REQUIRE_NATIVE", raising=False)
    wheel = built(LIBRARY, tmp_path)
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not [name for name in contents(wheel)[0] if "libnishimori" in name]
    python = environment(tmp_path / "environment", wheel)
    out = f"{nishimori.__version__} (NumPy only: no C compiler when it was installed)\n"
    assert run(python, "nishimori", "--version", cwd=tmp_path) == (0, out, "")
    monkeypatch.setenv("NISHIMORI_REQUIRE_NATIVE", "1")
    with pytest.raises(subprocess.CalledProcessError):
        built(LIBRARY, tmp_path)


def test_the_other_wheel_has_the_other_networks_with_their_terms(wheels):
    names, metadata = contents(wheels["paper"])
    assert wheels["paper"].stat().st_size <= 20.5e6
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"nishimori_paper"}
    networks = [name for name in names if name.endswith(".npz") and "/networks/" in name]
    assert len(networks) == 18
    assert {name.rpartition("/")[0] for name in networks} == {
        f"nishimori_paper/networks/{each}" for each in ("svhn", "cifar10", "cifar100")
    }
    assert {"LICENSES.md", "printed.toml", "spreads.toml", "py.typed"} <= {name.rpartition("/")[2] for name in names}
    assert not [name for name in names if "test_" in name or "/tests/" in name]
    assert metadata["License-Expression"] == "Apache-2.0 AND CC-BY-SA-3.0 AND LicenseRef-SVHN-non-commercial-use-only"
    assert "SVHN: non-commercial use only" in metadata["Summary"]


def test_both_wheels_have_what_a_wheel_should(wheels):
    if not is_installed("check_wheel_contents"):
        Absent("check_wheel_contents").skip()
    line = [sys.executable, "-m", "check_wheel_contents", "--config", str(LIBRARY / "pyproject.toml"), *wheels.values()]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_library_alone_calibrates_its_network_and_says_where_the_rest_is(alone, tmp_path):
    assert run(alone, "nishimori", "demo", "--json", cwd=tmp_path)[0] == 0
    assert run(alone, "python", "-c", NAMES, cwd=tmp_path) == (0, "cifar10/resnet20\n", "")
    remedy = "comes with nishimori-paper, which is not installed. Run `pip install nishimori-paper`.\n"
    assert run(alone, "nishimori", "paper", "list", cwd=tmp_path) == (2, "", f"error: `nishimori paper` {remedy}")
    assert run(alone, "nishimori", "theory", "logit", cwd=tmp_path) == (2, "", f"error: `nishimori theory` {remedy}")
    code, _, err = run(alone, "nishimori", "demo", "--network", "svhn/resnet20", cwd=tmp_path)
    more = "there are cifar10/resnet20, and more with `pip install nishimori-paper`. A file's name ends in .npz.\n"
    assert (code, err) == (1, f"error: There is no bundled network 'svhn/resnet20'; {more}")


def test_together_they_have_the_command_and_all_networks(together, tmp_path):
    pip(together, "check")  # each dependency is there, in a version that fits
    code, out, err = run(together, "nishimori", "paper", "list", cwd=tmp_path)
    assert (code, err) == (0, "")
    assert "table-real" in out
    assert run(together, "nishimori", "theory", "affine", "--alpha", "20", "--penalty", "1e-4", cwd=tmp_path)[0] == 0
    assert len(run(together, "python", "-c", NAMES, cwd=tmp_path)[1].split()) == 19
    code, out, _ = run(together, "nishimori", "paper", "check", "figure-reliability", "--quick", "--json", cwd=tmp_path)
    assert code == 0
    assert "svhn" in out.lower()
