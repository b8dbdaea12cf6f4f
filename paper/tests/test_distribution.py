"""What nishimori-paper adds to the library: a command, and networks with their terms."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points, requires, version
from pathlib import Path

import pytest

import nishimori
import nishimori_paper as paper
from nishimori import data
from nishimori.data import names_in
from nishimori_paper import shipped
from nishimori_paper.cli import _theory, app

NETWORKS = Path(paper.__file__).parent / "networks"


def test_it_has_the_version_of_the_library_and_needs_the_same():
    assert version("nishimori-paper") == nishimori.__version__
    assert f"nishimori=={nishimori.__version__}" in requires("nishimori-paper")


def test_its_commands_and_its_networks_are_found_through_entry_points():
    commands = {name: entry_points(group="nishimori.commands", name=name) for name in ("paper", "theory")}
    assert {name: point.load() for name, (point,) in commands.items()} == {"paper": app, "theory": _theory.app}
    assert set(data.names()) == {"cifar10/resnet20", *names_in(NETWORKS)}
    assert len(data.names()) == 19


def test_the_terms_of_every_image_set_are_beside_its_logits_and_svhn_is_not_for_commercial_use():
    terms = (NETWORKS / "LICENSES.md").read_text(encoding="utf-8")
    for dataset in {name.partition("/")[0] for name in names_in(NETWORKS)}:
        assert f"`{dataset}`" in terms
    (svhn,) = (line for line in terms.splitlines() if line.startswith("| `svhn`"))
    assert "non-commercial use only" in svhn
    assert "**The files in `svhn` are for non-commercial use only.**" in terms


def test_its_metadata_name_every_licence_with_conditions_of_its_own():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    licences = set(project["license"].split(" AND "))
    terms = (Path(paper.__file__).parent / "shipped" / "LICENSES.md").read_text(encoding="utf-8")
    for name in shipped.names():
        _, _, version = shipped.load(name).provenance["licence"].partition("CC BY-SA ")
        if version:
            assert f"CC-BY-SA-{version}" in licences
            assert re.search(rf"`{name}`[^.|]* are under \[CC-BY-SA-{version}\]", terms)
    assert licences == {"Apache-2.0", "CC-BY-SA-3.0", "LicenseRef-SVHN-non-commercial-use-only"}


def test_the_files_of_its_networks_are_small_together():
    assert sum(path.stat().st_size for path in NETWORKS.rglob("*.npz")) < 15e6


def test_its_names_are_listed_and_resolve():
    assert dir(paper) == sorted(paper.__all__)
    pytest.importorskip("torch")
    for name in paper.__all__:
        assert getattr(paper, name) is not None
    with pytest.raises(AttributeError, match="module 'nishimori_paper' has no attribute 'cheque'"):
        _ = paper.cheque


def test_the_help_of_the_shell_loads_nothing_heavy():
    code = "import sys, nishimori_paper.cli; print(*{'scipy', 'sklearn', 'matplotlib', 'torch'} & sys.modules.keys())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"
