"""What installed packages add: looked up once, and again after a package was installed."""

import importlib.metadata

import pytest

from nishimori._support.optional import entry_points

GROUP = "nishimori.tests"


@pytest.fixture
def looked_up(monkeypatch):
    """The groups for which all packages were looked through."""
    found, actual = [], importlib.metadata.entry_points
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: found.append(group) or actual(group=group))
    return found


def install(folder, name):
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {name}:Thing\n")


def test_packages_are_looked_through_once_and_again_after_one_was_installed(tmp_path, monkeypatch, looked_up):
    monkeypatch.syspath_prepend(str(tmp_path))
    assert entry_points(GROUP) == entry_points(GROUP) == ()
    install(tmp_path, "first")
    assert [each.name for each in entry_points(GROUP)] == [each.name for each in entry_points(GROUP)] == ["first"]
    assert looked_up == [GROUP, GROUP]
    install(tmp_path, "second")
    assert {(each.name, each.value) for each in entry_points(GROUP)} == {("first", "first:Thing"), ("second", "second:Thing")}


def test_packages_of_a_folder_that_is_added_to_the_path_are_found(tmp_path, monkeypatch, looked_up):
    install(tmp_path, "third")
    assert entry_points(GROUP) == ()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path / "nothing"))
    assert [each.name for each in entry_points(GROUP)] == ["third"]
