"""What installed packages add: looked up once."""

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


def test_packages_are_looked_through_once(tmp_path, monkeypatch, looked_up):
    monkeypatch.syspath_prepend(str(tmp_path))
    install(tmp_path, "first")
    entry_points.cache_clear()
    assert [each.name for each in entry_points(GROUP)] == [each.name for each in entry_points(GROUP)] == ["first"]
    assert looked_up == [GROUP]
    entry_points.cache_clear()
