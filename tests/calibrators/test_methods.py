"""The table of methods: what it says, in which forms, and what it does with methods from outside."""

import json
import re
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import shell
from optional import pd
from readme import blocks

import nishimori
from nishimori import Observable
from nishimori._methods import table
from nishimori._methods.fitted_method import FittedMethod
from nishimori.errors import InputError

PAGE = Path(__file__).parents[2] / "docs" / "api" / "calibrators.md"


class Rank(Observable):
    """The logit, whose place among the others counts.

    A second line.
    """

    def __init__(self, power=1):
        self.power = power

    def values(self, logits):
        return logits


class Bare(Observable):
    def values(self, logits):
        return logits


class Silent(nishimori.ExpectationConsistency):
    """Calibrates without a word about itself."""

    traits = None


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    """Only what the library itself has."""
    monkeypatch.setattr(table, "_registered", {})
    monkeypatch.setattr(table, "_entry_points", list)


def test_each_method_has_a_row():
    table = nishimori.methods()
    assert list(table)[:2] == ["ec", "ts"]
    assert [each.name for each in table.values()] == list(table)
    assert len(table) == len(list(table))
    assert "ec" in table
    assert table.get("nothing") is None
    ec = table["ec"]
    assert (ec.class_name, ec.traits, ec.parameters) == (
        "ExpectationConsistency",
        nishimori.ExpectationConsistency.traits,
        ("top_n", "smooth_labels"),
    )
    assert ec.description == "Divide logits by the temperature at which mean confidence equals accuracy."
    assert all(each.description.endswith(".") for each in table.values())


def test_a_name_that_is_not_there_is_refused():
    with pytest.raises(InputError, match=r"^The method must be one of ec, ts, .*, got 'nothing'\.$"):
        nishimori.methods()["nothing"]


def test_observables_are_methods_with_one_temperature():
    nishimori.register("rank", Rank)
    nishimori.register("third", Rank(3))
    nishimori.register("bare", Bare())
    table = nishimori.methods()
    assert table["rank"].traits == table["third"].traits == table["ts"].traits
    assert table["rank"].description == "The logit, whose place among the others counts."
    assert (table["rank"].parameters, table["third"].parameters) == (("power",), ())
    assert table["bare"].description.startswith("Divide logits by the temperature at which this observable has the same mean")


def test_a_class_that_does_not_say_what_it_does_is_unknown():
    nishimori.register("silent", Silent)
    table = nishimori.methods()
    assert table["silent"].traits is None
    assert table.table.rows[-1] == ("silent", "Silent", *["unknown"] * 5, "Calibrates without a word about itself.")
    assert table["silent"].to_dict()["streams"] is None


def test_a_package_that_cannot_be_imported_is_listed_with_the_reason(monkeypatch, tmp_path):
    points = [EntryPoint(name="plugged", value="nowhere:Name", group="nishimori.methods")]
    monkeypatch.setattr(table, "_entry_points", lambda: points)
    found = nishimori.methods()["plugged"]
    reason = "The method 'plugged' cannot be imported from nowhere:Name: ModuleNotFoundError"
    assert found.why.startswith(reason)
    assert f"plugged {reason}" in " ".join(nishimori.methods().to_text().split())
    ended = shell.nishimori("methods", place=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    assert f"plugged unknown unknown {reason}" in " ".join(ended.out.split())


def test_every_form_says_the_same():
    table = nishimori.methods()
    rows = table.table.rows
    assert json.loads(table.to_json()) == table.to_dict()
    frame = table.to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert frame["from_sketch"].to_dict() == {each.name: each.traits.from_sketch for each in table.values()}
    for text in (table.to_text(), str(table), table.to_markdown(), table.to_latex(), table._repr_html_()):
        assert all(row[1] in text for row in rows)
    assert table.to_markdown().splitlines()[0].startswith("| method | class | keeps predictions | streams |")


def test_the_shell_prints_one_line_per_method(tmp_path):
    table = nishimori.methods()
    ended = shell.nishimori("methods", place=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) == len(table) + 4
    for each, line in zip(table.values(), lines[2:], strict=False):
        kept = "kept" if each.traits.keeps_predictions else "may change"
        assert re.split("  +", line)[:3] == [each.name, kept, each.traits.n_classes]
    told = json.loads(shell.nishimori("methods --json", place=tmp_path).out)
    assert told == table.to_dict() | {"library_version": nishimori.__version__}
    assert shell.nishimori("methods --markdown", place=tmp_path).out == table.to_markdown() + "\n"


def test_the_shell_says_of_registered_methods_what_they_say_themselves(tmp_path):
    nishimori.register("rank", Rank)
    nishimori.register("silent", Silent)
    out = " ".join(shell.nishimori("methods", place=tmp_path).out.split())
    assert "rank kept any The logit, whose place among the others counts." in out
    assert "silent unknown unknown Calibrates without a word about itself." in out


def test_the_shell_refuses_two_forms(tmp_path):
    ended = shell.nishimori("methods --json --markdown", place=tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert "choose one of --json and --markdown." in ended.err


def test_the_reference_of_calibrators_has_the_table():
    """If this fails, replace the table on the page by what `nishimori methods --markdown` prints."""
    assert nishimori.methods().to_markdown() in PAGE.read_text(encoding="utf-8")


def test_the_reference_of_calibrators_asks_for_the_table_as_it_says():
    assert any("nishimori.methods()" in block.text for block in blocks(PAGE) if block.language == "python")


@pytest.mark.parametrize("name", [*nishimori.calibrators.__all__, "Uncalibrated"])
def test_a_calibrator_has_at_most_one_base_of_its_family_besides_calibrator(name):
    calibrator = type(nishimori.calibrator("none")) if name == "Uncalibrated" else getattr(nishimori.calibrators, name)
    ours = [kind for kind in calibrator.__mro__ if kind.__module__.partition(".")[0] == "nishimori"]
    own = [kind for kind in ours if kind.__name__ != "BaseEstimator"]  # scikit-learn's, with a link to our pages
    assert own[-2:] == [nishimori.Calibrator, FittedMethod]
    assert len(own) <= 4
