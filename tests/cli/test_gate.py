"""``nishimori gate`` as a pipeline calls it: exit codes, lines, files, and what is refused."""

import errno
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import reference
from markdown_it import MarkdownIt
from optional import pd

import nishimori

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


def test_a_bound_that_is_exceeded_ends_with_three_and_one_line_per_check(run, files):
    code, out, _ = run("gate test.npz --bound gap=0.05 --bound error=0.9")
    assert code == 3
    first, second = out.splitlines()
    assert first.startswith(f"fail: gap exceeds 5 %: {100 * GAP:.2f} % (confidence is above accuracy); 97.5 % lower bound ")
    assert second.startswith("pass: error is at most 90 %: ")


def test_a_calibration_makes_the_model_pass(run, files):
    code, out, _ = run("gate test.npz --calibration c.json --bound gap=0.05 --bound ece=0.08 --level 0.99")
    assert code == 0
    assert [line.split(":")[0] for line in out.splitlines()] == ["pass", "pass"]
    assert "; 99 % upper bound " in out


def test_what_is_inconclusive_ends_with_four_unless_that_is_allowed(run, files):
    code, out, _ = run(f"gate test.npz --bound gap={GAP}")
    assert (code, out.split(":")[0]) == (4, "inconclusive")
    assert out.endswith("the estimate is at the bound: no realistic number of samples decides it\n")
    code, again, _ = run(f"gate test.npz --bound gap={GAP} --allow-inconclusive")
    assert (code, again) == (0, out)
    assert run(f"gate test.npz --bound gap={GAP} --bound error=0.01 --allow-inconclusive").code == 3


def test_a_gate_that_cannot_judge_is_not_excused_by_allowing_inconclusive_checks(run, files):
    np.savez(files / "few.npz", logits=LOGITS[:3], labels=LABELS[:3])
    assert run("gate few.npz --bound gap=0.5 --allow-inconclusive").code == 4


def test_the_cap_of_the_nll_is_an_option(run, files):
    assert "of min(NLL, 10)" in run("gate test.npz --bound nll=3").out
    assert "of min(NLL, 12)" in run("gate test.npz --bound nll=3 --nll-cap 12").out
    code, _, err = run("gate test.npz --bound nll=3 --nll-cap 2")
    assert (code, err) == (
        1,
        "error: The bound on nll must be below --nll-cap, 2, got 3. Raise the cap.\n",
    )


def test_json_has_everything_and_the_same_code(run, files):
    code, out, _ = run("gate test.npz --bound gap=0.05 --junit gate.xml --json")
    told = json.loads(out)
    assert code == 3
    assert (told["passed"], told["verdict"], told["level"], told["allow_inconclusive"]) == (False, "fail", 0.95, False)
    assert (told["files"], told["calibration"], told["junit"], told["warnings"]) == (["test.npz"], None, "gate.xml", [])
    assert told["checks"][0]["value"] == pytest.approx(GAP)


def test_a_junit_file_is_written_even_if_a_check_fails(run, files):
    assert run("gate test.npz --bound gap=0.05 --junit gate.xml").code == 3
    root = ElementTree.parse(files / "gate.xml").getroot()
    assert (root.tag, root.get("failures")) == ("testsuites", "1")


def test_the_result_of_an_earlier_gate_is_replaced(run, files):
    outputs = "-o gate.md -o gate.json --junit gate.test"
    assert run(f"gate test.npz --bound gap=0.5 {outputs}").code == 0
    assert run(f"gate test.npz --bound gap=0.05 {outputs}").code == 3
    assert "| fail |" in (files / "gate.md").read_text()
    assert json.loads((files / "gate.json").read_text())["verdict"] == "fail"
    assert ElementTree.parse(files / "gate.test").getroot().get("failures") == "1"
    assert run(f"gate nothing.npz --bound gap=0.05 {outputs}").code == 1
    assert "| error |" in (files / "gate.md").read_text()
    assert run(f"gate test.npz --bound gap=0.5 {outputs}").code == 0, "the report of an error is replaced, too"
    assert "| pass |" in (files / "gate.md").read_text()


OTHERS = {
    "notes.md": "# Notes\n",
    "more.md": "| check | verdict | what was found |\n| --- | --- | --- |\n\nRead by hand.\n",
    "other.json": '{"temperature": 2}',
    "tests.json": '{"passed": 12, "failed": 1, "checks": [{"name": "a", "verdict": "pass"}], "verdict": "pass"}',
    "suite.json": '{"passed": true, "verdict": "pass", "checks": [{"name": "a"}], "files": [], "library_version": "1.0"}',
    "stopped.json": '{"passed": false, "verdict": "error", "checks": []}',
    "broken.json": "{",
    "empty.xml": "",
    "binary.xml": "\udcff",
    "suites.xml": '<testsuites><testsuite name="nishimori gate"/><testsuite name="mine"/></testsuites>',
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_existing_file_is_refused_before_any_work_and_replaced_with_force(run, files, name):
    (files / name).write_text(OTHERS[name], encoding="utf-8", errors="surrogateescape")
    before = (files / name).read_bytes()
    code, out, err = run(f"gate nothing.npz --bound gap=0.5 -o new.json -o {name}")
    line = f"{name} exists. Pass --force to replace it."
    assert (code, out, err) == (1, "", f"Wrote new.json\nerror: {line}\n")
    assert (files / name).read_bytes() == before
    assert json.loads((files / "new.json").read_text())["message"] == line
    assert run(f"gate test.npz --bound gap=0.5 -o {name} --force").code == 0
    assert (files / name).read_bytes() != before


EARLY = {
    "a bound in percent": ("--bound ece=2", 1, "must lie between 0 and 1, got 2."),
    "an unknown metric": ("--bound foo=1", 1, "must be one of error, accuracy"),
    "no number": ("--bound gap=small", 2, "'small' is not a number"),
    "no bound": ("", 2, "name at least one bound"),
    "a level of one": ("--bound gap=0.5 --level 1", 1, "must be at most 1 - 1e-9"),
    "no folder": ("--bound gap=0.5 --junit nowhere/g.xml", 1, "There is no folder nowhere"),
    "another file": ("--bound gap=0.5 -o notes.md", 1, "notes.md exists."),
    "another ending": ("--bound gap=0.5 -o gate.txt", 1, "must be a file that ends in .json, .md or .xml"),
    "a file twice": ("--bound gap=0.5 -o gate.md", 1, "gate.md is named twice"),
    "what is read": ("--bound gap=0.5 --calibration c.json -o c.json --force", 1, "c.json is also an input file"),
    "two forms": ("--bound gap=0.5 --json --markdown", 2, "only one of --json, --github and --markdown"),
}


@pytest.mark.parametrize(("words", "code", "message"), EARLY.values(), ids=EARLY)
def test_no_early_error_leaves_the_pass_of_an_earlier_run(run, files, words, code, message):
    outputs = "-o gate.md -o gate.json --junit gate.test".removesuffix(" --junit gate.test" if "--junit" in words else "")
    assert run(f"gate test.npz --bound gap=0.5 {outputs}").code == 0
    (files / "notes.md").write_text("# Notes")
    kept = {name: (files / name).read_bytes() for name in ("notes.md", "c.json", "test.npz")}
    assert run(f"gate test.npz {outputs} {words}").code == code
    assert "| error |" in (files / "gate.md").read_text()
    told = json.loads((files / "gate.json").read_text())
    assert (told["passed"], told["verdict"], told["warnings"]) == (False, "error", [])
    assert message in told["message"]
    if "--junit" not in words:
        assert ElementTree.parse(files / "gate.test").getroot().get("errors") == "1"
    assert {name: (files / name).read_bytes() for name in kept} == kept
    assert run(f"gate test.npz --bound gap=0.5 {outputs}").code == 0, "which is replaced"


def test_results_of_all_earlier_forms_are_replaced(run, files):
    """A check that was written before there was `allow_inconclusive`, and an error of that time."""
    about = {"calibration": None, "junit": None, "files": ["test.npz"], "library_version": "1.0.0"}
    check = {"name": "gap", "verdict": "inconclusive", "value": 0.1, "bound": 0.1, "low": 0.0, "high": None, "message": "gap"}
    checks = {"passed": True, "verdict": "inconclusive", "level": 0.95, "strict": False, "checks": [check], "warnings": []}
    for content in (checks, {"passed": False, "verdict": "error", "message": "There is no file.", "checks": []}):
        (files / "gate.json").write_text(json.dumps(content | about))
        assert run("gate test.npz --bound gap=0.5 -o gate.json").code == 0


def test_a_file_that_cannot_be_written_does_not_keep_others_from_being_written(run, files, monkeypatch):
    real = Path.write_text

    def full(self, *arguments, **options):
        if self.suffix == ".xml":
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(self, *arguments, **options)

    monkeypatch.setattr(Path, "write_text", full)
    code, out, err = run("gate test.npz --bound gap=0.5 --json -o gate.xml -o gate.md")
    assert code == 1
    assert json.loads(out)["verdict"] == "pass"
    assert "| pass |" in (files / "gate.md").read_text()
    assert "Wrote gate.md" in err
    assert "No space left on device" in err.splitlines()[-1]
    assert "gate.xml" in err.splitlines()[-1]
    assert not (files / "gate.xml").exists()


def test_one_run_writes_every_form(run, files):
    code, out, err = run(
        "gate test.npz --bound gap=5% --bound error=0.9 --github -o gate.json -o gate.md -o gate.xml --junit more.xml"
    )
    assert code == 3
    assert [line.split(" ")[0] for line in out.splitlines()] == ["::error", "::notice"]
    assert sorted(err.splitlines()) == ["Wrote gate.json", "Wrote gate.md", "Wrote gate.xml", "Wrote more.xml"]
    told = json.loads((files / "gate.json").read_text())
    assert told == json.loads(run("gate test.npz --bound gap=0.05 --bound error=0.9 --json").out) | {"junit": "more.xml"}
    assert (files / "gate.md").read_text() == run("gate test.npz --bound gap=0.05 --bound error=0.9 --markdown").out
    assert (files / "gate.xml").read_text() == (files / "more.xml").read_text()
    assert [case.get("name") for case in ElementTree.parse(files / "gate.xml").iter("testcase")] == [
        "gap at most 5 %",
        "error at most 90 %",
    ]


def test_few_samples_or_constant_outputs_end_with_four(run, files):
    np.savez(files / "few.npz", logits=LOGITS[:3], labels=LABELS[:3])
    np.savez(files / "constant.npz", logits=0 * LOGITS, labels=LABELS)
    code, out, _ = run("gate few.npz --bound gap=0.5 --junit gate.xml")
    assert (code, out) == (4, "cannot be judged: gap at most 50 %: there are only 3 samples, and at least 100 are needed\n")
    (error,) = ElementTree.parse(files / "gate.xml").iter("error")
    assert error.get("message") == out.partition(": ")[2].strip()
    assert run("gate few.npz --bound gap=1 --min-samples 3").code == 0
    code, out, _ = run("gate constant.npz --bound gap=0.5 --json")
    assert (code, json.loads(out)["verdict"], json.loads(out)["min_samples"]) == (4, "cannot be judged", 100)
    assert run("gate test.npz --clusters sites --bound gap=0.5").code == 4, "there are two clusters"


def test_an_unknown_bound_is_answered_with_the_names_that_can_be_bounded(run, files):
    """They are those of the page, and each of them gives a check."""
    z = np.random.default_rng(0).normal(size=2000)
    np.savez(files / "two.npz", logits=z, labels=np.random.default_rng(1).random(2000) < 1 / (1 + np.exp(-z)))
    listed = run("gate two.npz --bound foo=1").err.partition("must be one of ")[2].partition(", or package.module:Name")[0]
    page = (Path(__file__).parents[2] / "docs" / "pipelines.md").read_text(encoding="utf-8")
    table = page.partition("## What can be bounded")[2].partition("Write shares")[0]
    assert set(listed.split(", ")) == set(re.findall(r"`(\w+)(?:\([^)]*\))?=`", table))
    for name in listed.split(", "):
        typed = "top_n_accuracy(top_n=1)" if name == "top_n_accuracy" else name
        assert run(f"gate two.npz --bound {typed}=0.4 --json").code in (0, 3, 4), name
    for name in ("ks", "smooth_ece", "confidence", "calibration_slope"):
        assert name not in listed
        assert run(f"gate two.npz --bound {name}=0.4").code == 1, name


def test_a_second_class_that_one_temperature_leaves_off_is_a_warning_of_fit_and_gate(run, files):
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=8000) - 3
    y = rng.random(8000) < 1 / (1 + np.exp(-z))
    np.savez(files / "val.npz", logits=z[:4000] + 3, labels=y[:4000])
    np.savez(files / "new.npz", logits=z[4000:] + 3, labels=y[4000:])
    warning = "warning: After calibration the mean probability of the second class is "
    last = "one temperature cannot correct that. Use the method best or platt.\n"
    fitted = run("fit val.npz -o ts.json --method ts")
    assert fitted.err.startswith(warning)
    mean = (1 / (1 + np.exp(-(z[:4000] + 3) / nishimori.load(files / "ts.json").temperature_))).mean()
    assert f"{100 * mean:.3g} %, but its share of the samples is {100 * y[:4000].mean():.3g} %: {last}" in fitted.err
    assert run("fit val.npz -o t.json --method ts --fail-on-warning").code == 3
    assert run("fit val.npz -o platt.json --method platt").err == "Wrote platt.json\n"
    line = "gate new.npz --calibration ts.json --bound ece=50%"
    code, out, err = run(line)
    assert (code, out.split(":")[0]) == (0, "pass")
    assert err.startswith(warning)
    assert err.endswith(last)
    assert run(f"{line} --fail-on-warning").code == 3
    (said,) = json.loads(run(f"{line} --json").out)["warnings"]
    assert f"warning: {said}\n" == err
    assert run("gate new.npz --bound ece=60%").err.startswith("warning: After T = 1 the mean probability")
    assert run(f"{line} --bound positive_gap=5%") == (3, *run(f"{line} --bound positive_gap=5% --fail-on-warning")[1:])
    assert run("gate new.npz --calibration platt.json --bound ece=5%  --fail-on-warning").code == 0


def test_prevalence_checks_the_probabilities_for_other_frequencies(run, files):
    fitted = nishimori.ExpectationConsistency().fit(LOGITS, LABELS)
    new = [0.2, 0.3, 0.5]
    found = json.loads(run("gate test.npz --calibration c.json --bound gap=1% --prevalence 0=0.2,1=0.3,2=0.5 --json").out)
    p = fitted.predict_proba(LOGITS) * new / np.bincount(LABELS)
    p /= p.sum(axis=1, keepdims=True)
    assert found["checks"][0]["value"] == pytest.approx(
        abs(p.max(axis=1).mean() - (p.argmax(axis=1) == LABELS).mean()), rel=1e-9
    )
    assert found["prevalence"] == pytest.approx(new)
    assert json.loads(run("gate test.npz --calibration c.json --bound gap=1% --json").out)["prevalence"] is None
    refused = run("gate test.npz --bound gap=1% --prevalence 0.1")
    assert (refused.code, "--prevalence must be passed together with --calibration" in refused.err) == (1, True)


UNMADE = {
    "no file": ("nothing.npz", "There is no file nothing.npz."),
    "NaN": ("bad.npz", "The scores must not contain NaN or +inf, got nan in row 4, column 1 (counted from 0)."),
    "no labels": ("test.csv --labels truth", "truth"),
    "a damaged calibration": ("test.npz --calibration damaged.json", "damaged.json is not a calibration file"),
    "not an archive": ("damaged.npz", "damaged.npz"),
}


@pytest.mark.parametrize(("words", "message"), UNMADE.values(), ids=UNMADE)
def test_an_error_is_in_every_output_if_the_checks_cannot_be_made(run, files, words, message):
    bad = LOGITS.copy()
    bad[4, 1] = np.nan
    np.savez(files / "bad.npz", logits=bad, labels=LABELS)
    (files / "damaged.json").write_text("{")
    (files / "damaged.npz").write_bytes(b"PK")
    (files / "gate.xml").write_text("of an earlier run")
    code, out, err = run(f"gate {words} --bound ece=0.02 --junit gate.xml --force --github -o gate.md -o gate.json")
    line = err.splitlines()[-1].removeprefix("error: ")
    assert code == 1
    assert message in line
    root = ElementTree.parse(files / "gate.xml").getroot()
    assert (root.get("tests"), root.get("errors")) == ("1", "1")
    (error,) = root.iter("error")
    assert error.get("message") == error.text == line
    assert out.startswith("::error title=error%3A the checks can be made::")
    assert (files / "gate.md").read_text().splitlines()[2].startswith("| all | error | ")
    told = json.loads((files / "gate.json").read_text())
    assert (told["passed"], told["verdict"], told["message"], told["checks"]) == (False, "error", line, [])


def test_a_name_is_one_line_of_text_in_every_output(run, files):
    name = "<img src=x onerror=alert(1)> | [x](y)\n::error::no\x1b[31m"
    np.savez(files / "odd.npz", logits=LOGITS, labels=LABELS, sites=np.full(2000, name))
    code, out, _ = run("gate odd.npz --groups sites --bound group_gap=0.01 -o gate.md -o gate.xml -o gate.json")
    shown = name.replace("\n", "\\n").replace("\x1b", "\\x1b")
    assert code == 3
    assert len(out.splitlines()) == 1
    assert f"(group {shown}, n = 2000, " in out
    (failure,) = ElementTree.parse(files / "gate.xml").iter("failure")
    assert f"(group {shown}, " in failure.text
    page = MarkdownIt("commonmark", {"html": True}).enable("table").render((files / "gate.md").read_text())
    cells = [cell.text for cell in ElementTree.fromstring(page).iter("td")]
    assert f"(group {shown}, " in cells[2]
    (line,) = run("gate odd.npz --groups sites --bound group_gap=0.01 --github").out.splitlines()
    assert line.startswith("::error title=")


def test_github_and_markdown_take_the_place_of_lines(run, files):
    assert run("gate test.npz --bound gap=0.05 --github").out.startswith("::error title=fail%3A gap at most 5 %25::gap exceeds")
    assert run("gate test.npz --bound gap=0.05 --markdown").out.splitlines()[2].startswith("| gap at most 5 % | fail | ")


def test_tables_with_names_are_checked_by_class_and_by_group(run, files):
    table = "gate test.csv --labels label --columns ant,bee,cat --classes ant,bee,cat"
    code, out, _ = run(f"{table} --bound group_gap=0.05")
    assert code == 3
    assert any(f"(class {name}, n = " in out for name in NAMES)
    code, out, _ = run(f"{table} --groups site --bound group_gap=0.05")
    assert code == 3
    assert any(f"(group {name}, n = 1000, " in out for name in ("Bern", "Rome"))
    assert "(class " in run(f"{table} --groups site --by prediction --bound group_gap=0.05").out


def test_two_npy_files_weights_and_clusters_are_read(run, files):
    np.save(files / "z.npy", LOGITS)
    np.save(files / "y.npy", LABELS)
    expected = run("gate test.npz --bound gap=0.05").out
    assert run("gate z.npy y.npy --bound gap=0.05").out == expected
    assert run("gate test.npz --weights w --counts --bound gap=0.05").out == expected
    assert run("gate test.npz --clusters sites --min-samples 2 --bound gap=0.05").out != expected


def test_a_sketch_is_checked(run, files):
    assert run("sketch test.npz -o sketch.npz").code == 0
    code, out, _ = run("gate sketch.npz --bound gap=0.05 --bound ece=0.05")
    assert code == 3
    assert [line.split(":")[0] for line in out.splitlines()] == ["fail", "fail"]
    code, out, _ = run("gate sketch.npz --calibration c.json --bound gap=0.05")
    assert (code, out.split(":")[0]) == (0, "pass")


REFUSED = {
    "no bound": ("test.npz", 2, "name at least one bound, such as --bound ece=0.02."),
    "two forms": (
        "test.npz --bound gap=0.1 --json --github",
        2,
        "only one of --json, --github and --markdown can go to standard output.",
    ),
    "another ending": (
        "test.npz --bound gap=0.1 -o gate.txt",
        1,
        "error: -o must be a file that ends in .json, .md or .xml, got gate.txt.\n",
    ),
    "one file twice": (
        "test.npz --bound gap=0.1 -o gate.xml --junit gate.xml",
        1,
        "error: gate.xml is named twice as a file to write. Choose another name for one of them.\n",
    ),
    "the calibration as an output": (
        "test.npz --calibration c.json --bound gap=0.1 -o c.json --force",
        1,
        "error: c.json is also an input file. Choose another name.\n",
    ),
    "groups without a name": ("test.npz --bound group_gap=0.1 --by groups", 2, "name the groups with --groups."),
    "a bound in percent": (
        "test.npz --bound ece=2",
        1,
        "error: The bound on ece must lie between 0 and 1, got 2.0. For 2 %, pass 0.02.\n",
    ),
    "a group gap in percent": (
        "test.npz --bound group_gap=2.5",
        1,
        "error: The bound on group_gap must lie between 0 and 1, got 2.5. For 2.5 %, pass 0.025.\n",
    ),
    "more than all": ("test.npz --bound error=101%", 1, "error: --bound error must lie between 0% and 100%, got 101%.\n"),
    "no number": (
        "test.npz --bound gap=small",
        2,
        "'small' is not a number from 0 to 1, such as 0.02, or a percentage, such as 2%.",
    ),
    "two metrics": ("test.npz --bound ece,gap=0.1", 1, "error: --bound must be one of error, accuracy, gap, ece, "),
    "percent of a loss": ("test.npz --bound nll=2%", 2, "'2%' is not a number."),
    "no samples": (
        "test.npz --bound gap=0.1 --min-samples 0",
        1,
        "error: --min-samples must be a whole number of at least 1, got 0.\n",
    ),
    "level": ("test.npz --bound ece=0.1 --level 0.2", 1, "error: --level must lie between 0.5 and 1, got 0.2.\n"),
    "no file": ("nothing.npz --bound ece=0.1", 1, "error: There is no file nothing.npz.\n"),
    "a folder": (
        "test.npz --bound gap=0.1 --junit .",
        1,
        "error: . is a folder. Choose the name of a file, such as gate.xml.\n",
    ),
    "an empty path": ("test.npz --bound gap=0.1 --junit=", 1, "error: `--junit` must be a path, got ''.\n"),
    "bad data": (
        "bad.npz --bound gap=0.1",
        1,
        "error: bad.npz: The scores must not contain NaN or +inf, got nan in row 4, column 1 (counted from 0).",
    ),
    "empty data": (
        "empty.npz --bound gap=0.1",
        1,
        "error: 'logits' in empty.npz is empty: its shape is (0, 3). Save it again with its rows.\n",
    ),
    "one sample": (
        "one.npz --bound gap=0.1 --min-samples 1",
        1,
        "error: A bound on gap needs the standard error of the gap: there is only one sample.\n",
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
    said = ended.err.removeprefix("Wrote gate.xml\n")
    assert said.startswith(message) if code == 1 else message in " ".join(said.replace("│", " ").split())
