"""`eval --by` and `fit --method group`: which predicted classes or groups are off, before and after calibration."""

import json
import re

import numpy as np
import pytest
import reference
import shell
from optional import pd

import nishimori

RNG = np.random.default_rng(5)
LOGITS = 3 * RNG.normal(size=(1200, 3))
SITES = np.array(["east", "west"])[RNG.integers(0, 2, 1200)]
DRAWN = LOGITS / np.where(SITES == "west", 4.0, 1.0)[:, None]  # a model that is too sure in the west
LABELS = (DRAWN + RNG.gumbel(size=LOGITS.shape)).argmax(axis=1)
NAMES = np.array(["ant", "bee", "cat"])


@pytest.fixture
def place(tmp_path):
    np.savez(tmp_path / "t.npz", logits=LOGITS, labels=LABELS, site=SITES)
    frame = pd.DataFrame(LOGITS, columns=NAMES).assign(labels=NAMES[LABELS], site=SITES)
    frame.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path


def gaps(p, of):
    """Size, accuracy and confidence minus accuracy of each group of rows."""
    right, sure = p.argmax(axis=1) == LABELS, p.max(axis=1)
    return {name: ((of == name).sum(), right[of == name].mean(), (sure - right)[of == name].mean()) for name in np.unique(of)}


def told(place, line):
    ended = shell.nishimori(f"{line} --json", place=place)
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


def check(found, expected):
    assert [each["name"] for each in found["groups"]] == list(expected)
    for each in found["groups"]:
        assert (each["n"], each["accuracy"], each["gap"]) == pytest.approx(expected[each["name"]])
    assert found["mean_abs_gap"] == pytest.approx(np.mean([abs(gap) for _, _, gap in expected.values()]))


def test_group_is_by_prediction_unless_groups_are_named(place):
    assert shell.nishimori("fit t.npz -o p.json --method group", place=place).code == 0
    assert shell.nishimori("fit t.npz -o g.json --method group --groups site", place=place).code == 0
    by_class, by_site = nishimori.load(place / "p.json"), nishimori.load(place / "g.json")
    assert (by_class.by, by_class.map_.kind) == ("prediction", "class_temperatures")
    assert (by_site.by, by_site.map_.kind, by_site.map_.groups) == ("groups", "group_temperatures", ("east", "west"))
    np.testing.assert_allclose(by_site.map_.temperatures, [1.0, 4.0], rtol=0.3)  # from which labels were drawn
    alone = nishimori.GroupConsistency(by="groups").fit(LOGITS, LABELS, groups=SITES)
    np.testing.assert_allclose(by_site.map_.temperatures, alone.temperatures_, rtol=1e-9)


def test_parameters_of_the_method_reach_it(place):
    assert shell.nishimori("fit t.npz -o c.json --method group --groups site --param method=ts", place=place).code == 0
    found = nishimori.load(place / "c.json")
    alone = nishimori.GroupConsistency(by="groups", method="ts").fit(LOGITS, LABELS, groups=SITES)
    np.testing.assert_allclose(found.map_.temperatures, alone.temperatures_, rtol=1e-9)
    ended = shell.nishimori("fit t.npz -o d.json --method group --groups site --param by=prediction", place=place)
    assert (ended.code, ended.out) == (2, "")
    assert "by is passed twice, or set by another option." in ended.err


@pytest.mark.parametrize("options", ["--groups site", "--by groups --groups site"])
def test_the_gaps_of_groups_are_those_of_their_rows(place, options):
    assert shell.nishimori("fit t.npz -o c.json --method group --groups site", place=place).code == 0
    result = told(place, f"eval t.npz --calibration c.json {options}")
    by_row = nishimori.load(place / "c.json").map_.temperatures[(SITES == "west").astype(int)]
    check(result["before"]["by_group"], gaps(reference.softmax(LOGITS), SITES))
    check(result["after"]["by_group"], gaps(reference.softmax(LOGITS / by_row[:, None]), SITES))
    assert (result["by"], result["group_column"]) == ("groups", "site")
    before = {each["name"]: each["is_off"] for each in result["before"]["by_group"]["groups"]}
    assert before == {"east": False, "west": True}


def test_without_a_calibration_there_is_one_table_of_gaps(place):
    result = told(place, "eval t.csv --classes ant,bee,cat --ignore site --by prediction --level 0.9")
    check(result["before"]["by_group"], gaps(reference.softmax(LOGITS), NAMES[LOGITS.argmax(axis=1)]))
    assert result["before"]["by_group"]["level"] == 0.9
    ended = shell.nishimori("eval t.csv --classes ant,bee,cat --ignore site --by prediction", place=place)
    assert ended.code == 0, ended.err
    assert ended.out.count("\nclass  n    confidence  accuracy  gap in points  significant\n") == 1


def test_people_see_the_worst_groups_first_and_marks(place):
    nishimori.from_temperature(4.0).save(place / "c.json")  # the right one for the west, where the model was off before
    ended = shell.nishimori("eval t.npz --calibration c.json --groups site", place=place)
    assert ended.code == 0, ended.err
    before, after = (gaps(reference.softmax(LOGITS, each), SITES) for each in (1.0, 4.0))
    for when, found in (("before", before), ("after", after)):
        lines = ended.out[ended.out.index(f"Gaps {when} calibration, the worst first:") :].splitlines()
        assert lines[1].split()[:4] == ["group", "n", "confidence", "accuracy"]
        names = [line.split()[0] for line in lines[3:5]]
        assert names == (["west", "east"] if when == "before" else ["east", "west"])
        assert abs(found[names[0]][2]) > abs(found[names[1]][2])
        for name, line in zip(names, lines[3:5], strict=True):
            n, accuracy, gap = found[name]
            assert line.split()[1] == f"{n:,}"
            assert f"{100 * accuracy:.1f} %" in line
            (shown,) = re.findall(r"([+−][\d.]+) ± ", line)
            assert float(shown.replace("−", "-")) == pytest.approx(100 * gap, abs=0.05)
        assert lines[3].endswith(" yes")
        mean = 100 * np.mean([abs(gap) for _, _, gap in found.values()])
        clean = told(place, "eval t.npz --calibration c.json --groups site")[when]["by_group"]["mean_abs_gap_corrected"]
        assert f"Mean absolute gap {mean:.2f} points; bias-corrected {100 * clean:.2f} (95 % interval " in ended.out


def test_where_predictions_change_each_side_has_its_own_sizes(place):
    assert shell.nishimori("fit t.npz -o c.json --method small_calibrators:Shifted", place=place).code == 0
    result = told(place, "eval t.npz --calibration c.json --by prediction")
    centred = LOGITS - LOGITS.mean(axis=1, keepdims=True)
    p = reference.softmax(centred / 2 + np.array([3.0, 0, 0]))
    check(result["after"]["by_group"], gaps(p, p.argmax(axis=1)))


def test_many_classes_are_cut_to_the_worst(tmp_path):
    logits, labels = reference.drawn(600, 25, seed=1)
    np.savez(tmp_path / "t.npz", logits=logits, labels=labels)
    n_predicted = len(np.unique(logits.argmax(axis=1)))
    out = shell.nishimori("eval t.npz --by prediction", place=tmp_path).out
    assert f"{n_predicted - 20} more are not shown; --json prints all." in out
    lines = out.splitlines()
    start = lines.index(next(line for line in lines if line.startswith("class  ")))
    assert lines[start + 22] == ""
    assert len(told(tmp_path, "eval t.npz --by prediction")["before"]["by_group"]["groups"]) == n_predicted


def test_a_sketch_has_no_groups(place):
    assert shell.nishimori("sketch t.npz -o s.npz", place=place).code == 0
    for line in ("eval s.npz --by prediction", "fit s.npz -o c.json --method group --groups site"):
        ended = shell.nishimori(line, place=place)
        assert (ended.code, ended.out) == (1, "")
        assert "s.npz is a sketch, which already describes its rows." in ended.err
    ended = shell.nishimori("fit s.npz -o c.json --method group", place=place)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("error: ")
    assert "Pass logits" in ended.err


def test_the_group_method_tells_machines_everything(place):
    found = told(place, "fit t.npz -o c.json --method group --groups site")
    alone = nishimori.GroupConsistency(by="groups").fit(LOGITS, LABELS, groups=SITES)
    assert found["params"] == {"by": "groups", "method": "ec"}
    assert found["groups"] == ["east", "west"]
    assert found["temperatures"] == pytest.approx(alone.temperatures_.tolist())
    assert found["temperatures_se"] == pytest.approx(alone.temperatures_se_.tolist())
    assert (found["common_temperature"], found["spread"]) == pytest.approx((alone.common_temperature_, alone.spread_))
    ended = shell.nishimori("fit t.npz -o d.json --method group --groups site", place=place)
    shown = ", ".join(f"{T:.3g}" for T in alone.temperatures_)
    assert ended.out.startswith(
        f"groups ('east', 'west'), temperatures ({shown}), common {alone.common_temperature_:.6g}  (group, "
    )


def test_compare_takes_groups_by_name(place):
    head, *lines = (place / "t.csv").read_text().splitlines()
    (place / "u.csv").write_text("\n".join([head, *lines[::-1]]) + "\n")
    found = told(place, "compare t.csv u.csv --classes ant,bee,cat --groups site --methods none,ec,group")
    expected = nishimori.compare(
        LOGITS, LABELS, LOGITS[::-1], LABELS[::-1], methods=("none", "ec", "group"), groups=SITES, test_groups=SITES[::-1]
    )
    assert found["methods"][2]["nll"] == pytest.approx(expected["group"].scorecard.nll)
    assert found["methods"][2]["nll"] < found["methods"][1]["nll"] - 0.02
    assert found["methods"][2]["temperature"] is None
    assert found["recommendation"]["best"]["method"] == "group"
    assert expected.about_groups in found["verdicts"]
    assert ": after group none of 2 gaps is significant (the largest, group " in expected.about_groups
    (place / "east.csv").write_text((place / "t.csv").read_text().replace(",site", ",hospital", 1))
    ended = shell.nishimori("compare t.csv east.csv --classes ant,bee,cat --groups site --methods none,group", place=place)
    assert (ended.code, ended.out) == (1, "")
    assert (
        "east.csv has no column 'site', only 'ant', 'bee', 'cat', 'labels', 'hospital'. Name yours with --groups." in ended.err
    )


def test_the_picture_has_a_second_panel_for_groups(place):
    nishimori.from_temperature(2.0).save(place / "c.json")
    widths = []
    for options in ("", "--groups site"):
        ended = shell.nishimori(f"eval t.npz --calibration c.json --plot p.png --force {options}", place=place)
        assert (ended.code, ended.err) == (0, "Wrote p.png\n")
        widths.append(int.from_bytes((place / "p.png").read_bytes()[16:20], "big"))  # where a PNG file has its width
    assert widths[1] == 2 * widths[0]
