"""``nishimori gate`` as a pipeline calls it: exit codes, lines, files, and what is refused."""

import json
from xml.etree import ElementTree

import numpy as np
import pytest

import nishimori
import reference
from optional import pd

LOGITS, LABELS = reference.drawn(2000, 3)  # drawn at T = 2
GAP = reference.ec_gap(LOGITS, LABELS, 1.0)
SITES = np.array(["Bern", "Rome"])[np.arange(2000) % 2]
NAMES = np.array(["ant", "bee", "cat"])


@pytest.fixture
def files(run, tmp_path):
    """A file of arrays, a table with names, and the calibration of the array."""
    np.savez(tmp_path / "test.npz", logits=LOGITS, labels=LABELS, sites=SITES, w=np.ones(2000))
    table = pd.DataFrame(LOGITS, columns=NAMES).assign(label=NAMES[LABELS], site=SITES)
    table.to_csv(tmp_path / "test.csv", index=False)
    nishimori.ExpectationConsistency().fit(LOGITS, LABELS).save(tmp_path / "c.json")
    return tmp_path


def test_a_broken_bound_ends_with_three_and_one_line_per_check(run, files):
    code, out, _ = run("gate test.npz --max-gap 0.05 --max-error 0.9")
    assert code == 3
    first, second = out.splitlines()
    assert first.startswith(f"broken: gap exceeds 5 %: {100 * GAP:.2f} % (confidence is above accuracy), and above ")
    assert second.startswith("passed: error is at most 90 %: ")


def test_a_calibration_makes_the_model_pass(run, files):
    code, out, _ = run("gate test.npz --calibration c.json --max-gap 0.05 --max-ece 0.08 --level 0.99")
    assert code == 0
    assert [line.split(":")[0] for line in out.splitlines()] == ["passed", "passed"]
    assert "at the level of 99 %" in out


def test_what_is_not_proven_passes_unless_strict(run, files):
    code, out, _ = run(f"gate test.npz --max-gap {GAP}")
    assert (code, out.split(":")[0]) == (0, "not proven")
    code, again, _ = run(f"gate test.npz --max-gap {GAP} --strict")
    assert (code, again) == (3, out)


def test_json_has_everything_and_the_same_code(run, files):
    code, out, _ = run("gate test.npz --max-gap 0.05 --junit gate.xml --json")
    told = json.loads(out)
    assert code == 3
    assert (told["passed"], told["verdict"], told["level"], told["strict"]) == (False, "broken", 0.95, False)
    assert (told["files"], told["calibration"], told["junit"], told["warnings"]) == (["test.npz"], None, "gate.xml", [])
    assert told["checks"][0]["value"] == pytest.approx(GAP)


def test_a_junit_file_is_written_even_if_a_bound_is_broken_and_is_not_replaced(run, files):
    assert run("gate test.npz --max-gap 0.05 --junit gate.xml").code == 3
    root = ElementTree.parse(files / "gate.xml").getroot()
    assert (root.tag, root.get("failures")) == ("testsuites", "1")
    code, _, err = run("gate test.npz --max-gap 0.5 --junit gate.xml")
    assert (code, err) == (1, "error: gate.xml exists. Pass --force to replace it.\n")
    assert "gate.xml exists" in run("gate nothing.npz --max-gap 0.5 --junit gate.xml").err, "it is checked before any work"
    assert run("gate test.npz --max-gap 0.5 --junit gate.xml --force").code == 0
    assert ElementTree.parse(files / "gate.xml").getroot().get("failures") == "0"


def test_github_and_markdown_take_the_place_of_lines(run, files):
    assert run("gate test.npz --max-gap 0.05 --github").out.startswith("::error title=broken%3A gap at most 5 %25::gap exceeds")
    assert run("gate test.npz --max-gap 0.05 --markdown").out.splitlines()[2].startswith("| gap at most 5 % | broken | ")


def test_tables_with_names_are_checked_by_class_and_by_group(run, files):
    table = "gate test.csv --labels label --columns ant,bee,cat --classes ant,bee,cat"
    code, out, _ = run(f"{table} --max-group-gap 0.05")
    assert code == 3
    assert any(f"(class {name}, n = " in out for name in NAMES)
    code, out, _ = run(f"{table} --groups site --max-group-gap 0.05")
    assert code == 3
    assert any(f"(group {name}, n = 1000, " in out for name in ("Bern", "Rome"))
    assert "(class " in run(f"{table} --groups site --by prediction --max-group-gap 0.05").out


def test_two_npy_files_weights_and_clusters_are_read(run, files):
    np.save(files / "z.npy", LOGITS)
    np.save(files / "y.npy", LABELS)
    expected = run("gate test.npz --max-gap 0.05").out
    assert run("gate z.npy y.npy --max-gap 0.05").out == expected
    assert run("gate test.npz --weights w --counts --max-gap 0.05").out == expected
    assert run("gate test.npz --clusters sites --max-gap 0.05").out != expected


def test_a_sketch_is_checked(run, files):
    assert run("sketch test.npz -o sketch.npz").code == 0
    code, out, _ = run("gate sketch.npz --max-gap 0.05 --max-ece 0.05")
    assert code == 3
    assert [line.split(":")[0] for line in out.splitlines()] == ["broken", "broken"]
    code, out, _ = run("gate sketch.npz --calibration c.json --max-gap 0.05")
    assert (code, out.split(":")[0]) == (0, "passed")


REFUSED = {
    "no bound": ("test.npz", 2, "name at least one bound, such as --max-ece 0.02."),
    "two forms": ("test.npz --max-gap 0.1 --json --github", 2, "choose one of --json, --github and --markdown."),
    "groups without a name": ("test.npz --max-group-gap 0.1 --by groups", 2, "name the groups with --groups."),
    "a bound in percent": ("test.npz --max-ece 2", 1, "error: --max-ece must lie between 0 and 1, got 2.0.\n"),
    "level": ("test.npz --max-ece 0.1 --level 0.2", 1, "error: --level must lie between 0.5 and 1, got 0.2.\n"),
    "no file": ("nothing.npz --max-ece 0.1", 1, "error: There is no file nothing.npz.\n"),
    "swapped": (
        "c.json --calibration test.npz --max-ece 0.1",
        1,
        "error: test.npz is not a calibration. Pass the file of scores first: gate test.npz --calibration c.json.\n",
    ),
    "a folder": ("test.npz --max-gap 0.1 --junit .", 1, "error: . is a folder. Choose the name of a file, such as gate.xml.\n"),
    "an empty path": ("test.npz --max-gap 0.1 --junit=", 1, "error: `--junit` must be a path, got ''.\n"),
    "bad data": (
        "bad.npz --max-gap 0.1",
        1,
        "error: `scores` must not contain NaN or +inf, got nan in row 4, column 1 (counted from 0).",
    ),
    "empty data": (
        "empty.npz --max-gap 0.1",
        1,
        "error: 'logits' in empty.npz has nothing in it, its shape is (0, 3). Save it again with its rows.\n",
    ),
    "one sample": (
        "one.npz --max-gap 0.1",
        1,
        "error: --max-gap needs the standard error of the gap: there is only one sample.\n",
    ),
}


@pytest.mark.parametrize(("words", "code", "message"), REFUSED.values(), ids=REFUSED)
def test_refusals_say_what_to_do(run, files, words, code, message):
    bad = LOGITS.copy()
    bad[4, 1] = np.nan
    np.savez(files / "bad.npz", logits=bad, labels=LABELS)
    np.savez(files / "empty.npz", logits=LOGITS[:0], labels=LABELS[:0])
    np.savez(files / "one.npz", logits=LOGITS[:1], labels=LABELS[:1])
    ended = run(f"gate {words}")
    assert ended.code == code
    assert ended.err.startswith(message) if code == 1 else message in " ".join(ended.err.replace("│", " ").split())
