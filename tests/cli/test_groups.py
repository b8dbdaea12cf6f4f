"""Groups of rows in files: fitted by name, remembered, applied block by block, and refused where they cannot be right."""

import json

import numpy as np
import pytest
import reference
import shell
from optional import pd

import nishimori
from nishimori._files.tables import columnar, lines
from nishimori.cli import _apply

LOGITS, LABELS = reference.drawn(300, 3, seed=3)
SITES = np.array(["delta", "north", "south"])[np.random.default_rng(0).integers(0, 3, 300)]
TEMPERATURES = {"delta": 1.0, "north": 2.0, "south": 3.0}
TABLE = pd.DataFrame(LOGITS, columns=["z_0", "z_1", "z_2"]).assign(labels=LABELS, site=SITES)
PER_GROUP = "--method small_calibrators:PerGroup"


def expected(sites):
    by_row = np.array([TEMPERATURES.get(each, 4.0) for each in sites])
    return reference.softmax(LOGITS[: len(sites)] / by_row[:, None])


@pytest.fixture
def place(tmp_path):
    TABLE.to_csv(tmp_path / "t.csv", index=False)
    TABLE.to_parquet(tmp_path / "t.parquet")
    TABLE.to_json(tmp_path / "t.jsonl", orient="records", lines=True, double_precision=15)
    np.savez(tmp_path / "t.npz", logits=LOGITS, labels=LABELS, site=SITES)
    np.save(tmp_path / "z.npy", LOGITS)
    np.save(tmp_path / "y.npy", LABELS)
    assert shell.nishimori(f"fit t.csv -o c.json --groups site {PER_GROUP}", place=tmp_path).code == 0
    return tmp_path


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.jsonl", "t.npz"])
def test_the_calibration_remembers_the_groups_and_apply_reads_them(place, name, monkeypatch):
    for module, size in ((lines, "LARGEST_CHUNK"), (columnar, "_CELLS"), (_apply, "_NUMBERS")):
        monkeypatch.setattr(module, size, 60)  # several blocks, each with its own groups
    ended = shell.nishimori(f"fit {name} -o d.json --groups site {PER_GROUP} --json", place=place)
    assert ended.code == 0, ended.err
    told = json.loads(ended.out)
    assert (told["group_column"], told["temperature"], told["map"]["kind"]) == ("site", None, "group_temperatures")
    assert told["map"]["parameters"] == {"groups": list(TEMPERATURES), "temperatures": [1.0, 2.0, 3.0], "common": 4.0}
    assert nishimori.load(place / "d.json").group_column_ == "site"
    ended = shell.nishimori(f"apply d.json {name} -o p.npy", place=place)
    assert ended.code == 0, ended.err
    np.testing.assert_allclose(np.load(place / "p.npy"), expected(SITES), rtol=1e-9)


def test_groups_under_another_name_need_an_option(place):
    TABLE.rename(columns={"site": "hospital"}).to_csv(place / "other.csv", index=False)
    ended = shell.nishimori("apply c.json other.csv -o p.csv", place=place)
    assert ended == (
        1,
        "",
        "error: other.csv has no column 'site', only 'z_0', 'z_1', 'z_2', 'labels', 'hospital'. The calibration has a "
        "temperature per group: name the groups of this file with --groups.\n",
    )
    assert shell.nishimori("apply c.json other.csv -o p.csv --groups hospital", place=place).code == 0
    np.testing.assert_allclose(pd.read_csv(place / "p.csv")[["z_0", "z_1", "z_2"]], expected(SITES), rtol=1e-9)


@pytest.mark.parametrize("name", ["u.csv", "u.npz"])
def test_groups_that_were_not_seen_get_the_common_temperature_and_are_named_once(place, name, monkeypatch):
    monkeypatch.setattr(lines, "LARGEST_CHUNK", 600)  # several blocks
    sites = np.where(np.arange(300) % 3 == 0, "west", SITES)
    TABLE.assign(site=sites).to_csv(place / "u.csv", index=False)
    np.savez(place / "u.npz", logits=LOGITS, labels=LABELS, site=sites)
    ended = shell.nishimori(f"apply c.json {name} -o p.npy --json", place=place)
    np.testing.assert_allclose(np.load(place / "p.npy"), expected(sites), rtol=1e-9)
    (warning,) = json.loads(ended.out)["warnings"]
    assert warning == "The group 'west' was not seen when the temperatures were fitted: the common T = 4 is used."
    assert ended.err.count("warning: ") == 1
    ended = shell.nishimori(f"eval {name} --calibration c.json --json", place=place)
    told = json.loads(ended.out)
    assert told["warnings"][0].startswith("The calibration was fitted to the rows that are measured here")
    assert told["warnings"][1:] == [warning]
    assert told["after"]["nll"] == pytest.approx(-np.log(expected(sites)[np.arange(300), LABELS]).mean())
    assert told["group_column"] == "site"


def test_numbers_are_the_same_groups_in_every_kind_of_file(place):
    sites = np.where(SITES == "delta", 7, 12)
    by_row = np.where(sites == 7, 1.0, 2.0)
    TABLE.assign(site=sites).to_csv(place / "n.csv", index=False)
    np.savez(place / "n.npz", logits=LOGITS, labels=LABELS, site=sites.astype(float))
    TABLE.assign(site=[f"{each}" for each in sites]).to_parquet(place / "n.parquet")
    sites_with_text = np.where(np.arange(300) == 0, "new", sites.astype(str))
    TABLE.assign(site=sites_with_text).to_csv(place / "m.csv", index=False)
    for fitted in ("n.csv", "n.npz", "n.parquet"):
        assert shell.nishimori(f"fit {fitted} -o d.json --force --groups site {PER_GROUP}", place=place).code == 0
        for applied in ("n.csv", "n.npz", "n.parquet", "m.csv"):
            ended = shell.nishimori(f"apply d.json {applied} -o p.npy --force", place=place)
            assert ended.code == 0, ended.err
            wanted = reference.softmax(LOGITS / by_row[:, None])
            np.testing.assert_allclose(np.load(place / "p.npy")[1:], wanted[1:], rtol=1e-9)
            assert ("The group 'new' was not seen" in ended.err) == (applied == "m.csv")
            told = json.loads(shell.nishimori(f"eval {applied} --calibration d.json --json", place=place).out)
            wanted[0] = reference.softmax(LOGITS[:1] / 4)[0] if applied == "m.csv" else wanted[0]
            assert told["after"]["nll"] == pytest.approx(-np.log(wanted[np.arange(300), LABELS]).mean())


def test_a_calibration_from_python_needs_the_name_of_the_groups(place):
    fitted = nishimori.maps.GroupTemperatures(["delta", "north", "south"], [1.0, 2.0, 3.0], 4.0)
    made = nishimori.calibrators.FixedMap(fitted).fit(LOGITS, LABELS)
    made.save(place / "d.json")
    for line in ("apply d.json t.csv -o p.npy", "eval t.csv --calibration d.json"):
        ended = shell.nishimori(line, place=place)
        assert (ended.code, ended.out) == (1, "")
        assert ended.err == (
            "error: The calibration has a temperature per group. Name the array or column of groups with --groups.\n"
        )
    assert shell.nishimori("apply d.json t.csv -o p.npy --groups site", place=place).code == 0
    np.testing.assert_allclose(np.load(place / "p.npy"), expected(SITES), rtol=1e-9)


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        (f"fit t.csv -o d.json --groups hospital {PER_GROUP}", 1, "t.csv has no column 'hospital', only "),
        (f"fit t.npz -o d.json --groups hospital {PER_GROUP}", 1, "'labels', 'site'. Name yours with --groups."),
        (f"fit m.csv -o d.json --groups site {PER_GROUP}", 1, "m.csv, line 4, column 'site': a group is missing. Fill it in"),
        (f"fit l.parquet -o d.json --groups site {PER_GROUP}", 1, "l.parquet has lists in column 'site', but a group is one"),
        (
            f"fit m.npz -o d.json --groups site {PER_GROUP}",
            1,
            "--groups must not be missing, got NaN in row 2 (counted from 0)",
        ),
        (
            f"fit s.npz -o d.json --groups site {PER_GROUP}",
            1,
            "--groups must have shape (300,), one group per sample, got (299,).",
        ),
        ("apply c.json m.csv -o p.npy", 1, "m.csv, line 4, column 'site': a group is missing. Fill it in, or drop the row."),
        ("apply c.json z.npy -o p.npy --groups site", 1, "z.npy holds scores only, but the calibration has a temperature per"),
        ("apply c.json m.npz -o p.npy", 1, "--groups must not be missing, got NaN in row 2 (counted from 0)"),
        ("apply c.json s.npz -o p.npy", 1, "--groups must have shape (300,), one group per sample, got (299,)."),
        (
            f"fit z.npy y.npy -o d.json --groups site {PER_GROUP}",
            1,
            "--groups must be left out for .npy files",
        ),
        ("apply c.json z.npy -o p.npy", 1, "z.npy holds scores only, but the calibration has a temperature per group."),
        ("eval z.npy y.npy --calibration c.json", 1, "z.npy holds scores only, but the calibration has a temperature per"),
        (
            "apply plain.json t.csv -o p.npy --groups site",
            1,
            "--groups must be left out: the calibration treats all groups alike",
        ),
        ("fit t.csv -o d.json --groups site --method ec", 2, "the method ec does not use groups. Pass --method group."),
        ("fit t.csv -o d.json --groups site", 2, "the method adaptive does not use groups. Pass --method group."),
        ("eval t.csv --ignore site --by groups", 2, "name the groups with --groups."),
    ],
)
def test_groups_that_cannot_be_right_are_refused(place, line, code, message):
    missing = TABLE.site.where(TABLE.index != 2)
    TABLE.assign(site=missing).to_csv(place / "m.csv", index=False)
    TABLE.assign(site=[[1, 2]] * 300).to_parquet(place / "l.parquet")
    np.savez(place / "m.npz", logits=LOGITS, labels=LABELS, site=np.where(np.arange(300) == 2, np.nan, 1.0))
    np.savez(place / "s.npz", logits=LOGITS, labels=LABELS, site=SITES[1:])
    nishimori.from_temperature(2.0).save(place / "plain.json")
    before = {path.name for path in place.iterdir()}
    ended = shell.nishimori(line, place=place)
    assert (ended.code, ended.out) == (code, "")
    assert message in " ".join(ended.err.replace("│", " ").split())
    assert {path.name for path in place.iterdir()} == before
