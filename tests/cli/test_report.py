"""``nishimori report`` as a person types it."""

import hashlib
import json
import re
import shlex

import numpy as np
import pytest
import report_case
import shell
from optional import pd

import nishimori

VALIDATION, TEST = report_case.rows(600)
NAMES = [f"photo {i}" for i in range(300)]


@pytest.fixture
def files(tmp_path):
    np.savez(tmp_path / "val.npz", logits=VALIDATION["logits"], labels=VALIDATION["codes"], site=VALIDATION["groups"])
    np.savez(tmp_path / "test.npz", logits=TEST["logits"], labels=TEST["codes"], site=TEST["groups"], photo=NAMES)
    return tmp_path


def table(path, data, *, photos=False):
    lines = ["z0,z1,z2,z3,labels" + photos * ",photo"]
    lines += [
        ",".join(map(repr, [*map(float, z), int(y)])) + photos * f",photo {i}"
        for i, (z, y) in enumerate(zip(data["logits"], data["codes"], strict=True))
    ]
    path.write_text("\n".join(lines) + "\n")


def test_a_page_is_written_and_the_verdict_printed(run, files):
    ended = run("report val.npz test.npz")
    assert (ended.code, ended.err) == (0, "Wrote report.html\n")
    expected = nishimori.Report(VALIDATION["logits"], VALIDATION["codes"], TEST["logits"], TEST["codes"])
    assert ended.out.splitlines() == expected.verdict.splitlines()
    assert 3 <= len(ended.out.splitlines()) <= 5
    page = (files / "report.html").read_text()
    assert hashlib.sha256((files / "test.npz").read_bytes()).hexdigest() in page
    assert "<h1>Calibration report: test.npz</h1>" in page
    assert "nishimori report val.npz test.npz" in page


def test_existing_files_are_kept_unless_forced(run, files):
    (files / "report.html").write_text("mine")
    ended = run("report val.npz")
    assert (ended.code, ended.out, ended.err) == (1, "", "error: report.html exists. Pass --force to replace it.\n")
    assert (files / "report.html").read_text() == "mine"
    assert run("report val.npz --force").code == 0
    assert (files / "report.html").read_text() != "mine"


def test_json_is_the_dictionary_and_writes_no_file(run, files):
    ended = run("report val.npz test.npz --groups site --ids photo --json")
    found = json.loads(ended.out)
    assert not (files / "report.html").exists()
    expected = nishimori.Report(
        VALIDATION["logits"],
        VALIDATION["codes"],
        TEST["logits"],
        TEST["codes"],
        groups=VALIDATION["groups"],
        test_groups=TEST["groups"],
        ids=NAMES,
    ).to_dict()
    for name in ("groups", "classes"):
        rows, wanted = ({each["name"]: each["one"]["gap"] for each in found[name]["rows"]} for found in (found, expected))
        assert rows == pytest.approx(wanted)
    assert [each["row"] for each in found["mistakes"]] == [each["row"] for each in expected["mistakes"]]
    assert [each["id"] for each in found["mistakes"]] == [NAMES[each["row"]] for each in found["mistakes"]]
    assert [each["sha256"] for each in found["provenance"]["files"]] == [
        hashlib.sha256((files / name).read_bytes()).hexdigest() for name in ("val.npz", "test.npz")
    ]


def test_markdown_is_printed(run, files):
    ended = run("report val.npz --markdown --title", "mine")
    assert ended.out.startswith("# Calibration report: mine\n\n**Overconfident by ")
    assert not (files / "report.html").exists()


def test_bounds_are_typed_and_judged_as_those_of_gate(run, files):
    assert run("fit val.npz -o calibration.json").code == 0
    for bounds in ("--bound ece=10%", "--bound ece=0.001 --bound nll=2", "--bound group_gap=0.01"):
        found = json.loads(run(f"report val.npz test.npz --json {bounds}").out)["gate"]["methods"]
        expected = [
            json.loads(run(f"gate test.npz --json {bounds} {more}").out) for more in ("", "--calibration calibration.json")
        ]
        assert [each["method"] for each in found[:2]] == ["none", "adaptive"]
        for mine, theirs in zip(found, expected, strict=False):
            assert mine["verdict"] == theirs["verdict"]
            assert [each["bound"] for each in mine["checks"]] == [each["bound"] for each in theirs["checks"]]
    ended = run("report val.npz test.npz --bound ece=10%")
    assert ended.code == 0  # a report is no gate
    assert re.match(r"(Ship it|Do not ship it|Not decided).*ECE at most 10 %: ", ended.out.splitlines()[-1])
    assert "The bound on ece must lie between 0 and 1, got 2.0." in run("report val.npz test.npz --json --bound ece=2").err
    assert run("report val.npz --json --bound ece").code == 2


def test_the_lines_of_python_fit_the_method_to_use(run, files, monkeypatch, capsys):
    for name, seed in (("v", 0), ("t", 1)):
        z, labels = report_case.rare(seed)
        np.savez(files / f"{name}.npz", logits=z, labels=labels)
    found = json.loads(run("report v.npz t.npz --json").out)
    used = next(each for each in found["methods"] if each["method"] == found["recommended"])
    assert used["temperature"] is None
    code = found["code"].replace("calibrator.temperature_, ", "")
    assert printed_by(code, files, monkeypatch, capsys) == pytest.approx([used["ece"], used["nll"]], rel=1e-6)


def printed_by(code, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    exec(compile(code, "lines", "exec"), {})
    return [float(each) for each in capsys.readouterr().out.split()]


@pytest.mark.parametrize("kind", ["npz", "csv", "sketch", "npy"])
def test_the_lines_of_python_give_the_same_numbers(kind, run, files, monkeypatch, capsys):
    for name, data in (("val", VALIDATION), ("test", TEST)):
        if kind == "csv":
            table(files / f"{name}.csv", data)
        elif kind == "sketch":
            nishimori.Sketch().update(data["logits"], data["codes"]).save(files / f"{name}.sketch.npz")
        elif kind == "npy":
            np.save(files / f"{name}.npy", data["logits"])
            np.save(files / f"{name}_y.npy", data["codes"])
    words = {
        "npz": "val.npz test.npz",
        "csv": "val.csv test.csv",
        "sketch": "val.sketch.npz test.sketch.npz",
        "npy": "val.npy val_y.npy test.npy test_y.npy",
    }[kind]
    found = json.loads(run(f"report {words} --json").out)
    adaptive = next(each for each in found["methods"] if each["method"] == "adaptive")
    numbers = printed_by(found["code"], files, monkeypatch, capsys)
    assert numbers == pytest.approx([adaptive["temperature"], adaptive["ece"], adaptive["nll"]], rel=1e-6)


def test_ids_of_a_table_are_read(run, files):
    table(files / "test.csv", TEST, photos=True)
    found = json.loads(run("report test.csv --ignore photo --ids photo --json").out)
    assert [each["id"] for each in found["mistakes"]] == [f"photo {each['row']}" for each in found["mistakes"]]


KINDS = ["csv", "tsv", "jsonl", "parquet", "feather", "npz"]


def rows_of_every_role(kind, place, name="t", *, with_ids=True):
    """A file with groups, clusters, weights and names of samples; what it holds."""
    rng = np.random.default_rng(8)
    n = len(TEST["logits"])
    parts = {"site": rng.choice(["north", "south"], n), "doc": rng.integers(0, 70, n), "weight": rng.uniform(0.5, 2, n)}
    parts |= {"photo": np.array([f"p{k}" for k in range(n)])} if with_ids else {}
    if kind == "npz":
        np.savez(place / f"{name}.npz", logits=TEST["logits"], labels=TEST["codes"], **parts)
        return parts
    frame = pd.DataFrame(TEST["logits"], columns=[f"z_{k}" for k in range(TEST["logits"].shape[1])])
    frame = frame.assign(labels=TEST["codes"], **parts)
    shell.save_table(frame, place / f"{name}.{kind}")
    return parts


@pytest.mark.parametrize("kind", KINDS)
def test_groups_clusters_weights_and_ids_are_found_in_every_file(kind, run, files):
    parts = rows_of_every_role(kind, files)
    ended = run(f"report t.{kind} --groups site --clusters doc --weights weight --ids photo --json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    wanted = nishimori.Report(
        TEST["logits"],
        TEST["codes"],
        sample_weight=parts["weight"],
        clusters=parts["doc"],
        groups=parts["site"],
        ids=parts["photo"],
    ).to_dict()
    assert [each["id"] for each in found["mistakes"]] == [each["id"] for each in wanted["mistakes"]]
    assert [each["id"] for each in found["mistakes"]] == [f"p{each['row']}" for each in found["mistakes"]]
    for mine, other in zip(found["methods"], wanted["methods"], strict=True):
        assert mine["ece"] == pytest.approx(other["ece"], rel=1e-9)
        assert mine["nll_se"] == pytest.approx(other["nll_se"], rel=1e-6)


def test_only_the_data_whose_mistakes_are_listed_need_ids(run, files):
    rows_of_every_role("csv", files, "v", with_ids=False)
    rows_of_every_role("csv", files, "t")
    options = "--groups site --clusters doc --weights weight --ids photo --json"
    found = json.loads(run(f"report v.csv t.csv {options}").out)
    assert [each["id"] for each in found["mistakes"]] == [f"p{each['row']}" for each in found["mistakes"]]
    assert json.loads(run(f"report t.csv t.csv {options}").out)["mistakes"] == found["mistakes"]
    assert refused(run(f"report t.csv v.csv {options}")).endswith("'weight'. Name yours with --ids.")


@pytest.mark.parametrize("options", ["--ignore photo", "--ids photo", "--columns z_0,z_1,z_2,z_3", "--ids photo --ignore ph*"])
@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_the_lines_of_python_say_all_that_the_options_say(run, files, kind, options, monkeypatch, capsys):
    if kind == "npz":
        options = "--ids photo --counts" if "ids" in options else "--scores logits"
    rows_of_every_role(kind, files)
    clusters = "" if "counts" in options else "--clusters doc"
    found = json.loads(run(f"report t.{kind} --groups site {clusters} --weights weight --json {options}").out)
    adaptive = next(each for each in found["methods"] if each["method"] == "adaptive")
    numbers = printed_by(found["code"], files, monkeypatch, capsys)
    assert numbers == pytest.approx([adaptive["temperature"], adaptive["ece"], adaptive["nll"]], rel=1e-9)


def refused(ended):
    assert ended.code == 1
    assert ended.out == ""
    return ended.err.removesuffix("\n")


def test_bad_files_are_refused_in_one_line(run, files):
    hollow = TEST["logits"].copy()
    hollow[7, 2] = np.nan
    np.savez(files / "hollow.npz", logits=hollow, labels=TEST["codes"])
    np.savez(files / "empty.npz", logits=TEST["logits"][:0], labels=TEST["codes"][:0])
    assert refused(run("report val.npz hollow.npz")).startswith(
        "error: hollow.npz: The scores must not contain NaN or +inf, got nan in row 7, column 2 (counted from 0)."
    )
    assert refused(run("report val.npz empty.npz")) == (
        "error: 'logits' in empty.npz is empty: its shape is (0, 4). Save it again with its rows."
    )
    assert not (files / "report.html").exists()


def test_bad_options_are_refused_in_one_line(run, files):
    assert refused(run("report val.npz -o report.pdf")) == (
        "error: -o must be a file that ends in .html, .htm, .md or .json, got report.pdf."
    )
    assert refused(run("report val.npz -o nowhere/report.html")) == (
        "error: There is no folder nowhere to write report.html to. Create it first."
    )
    assert refused(run("report val.npz test.npz --ids nothing")) == (
        "error: test.npz has no array 'nothing', only 'logits', 'labels', 'site', 'photo'. Name yours with --ids."
    )
    assert run("report val.npz --json --markdown").code == 2
    nishimori.Sketch().update(TEST["logits"], TEST["codes"]).save(files / "sketch.npz")
    assert refused(run("report sketch.npz --ids photo")).startswith(
        "error: sketch.npz is a sketch, which already describes its rows."
    )


def test_the_command_line_on_the_page_can_be_typed_again(run, files):
    command = json.loads(run("report val.npz --json --title", shlex.quote("a"), "--level 0.9").out)["provenance"]["command"]
    assert re.fullmatch(r"nishimori report val.npz --json --title a --level 0.9", command)


@pytest.mark.parametrize("name", ["RLIMIT_AS", "RLIMIT_DATA"])
def test_a_page_that_no_memory_is_left_for_says_what_to_do(monkeypatch, name):
    import resource

    from nishimori.report import _page

    def limits(which, least):
        return (least if which == getattr(resource, name) else resource.RLIM_INFINITY, resource.RLIM_INFINITY)

    spec = {"data": {"values": [{"a": 1}]}, "mark": "point", "encoding": {"text": {"field": "a"}}}
    monkeypatch.setattr(resource, "getrlimit", lambda which: limits(which, _page._LEAST[name]))
    javascript, (picture,) = _page.draw([spec])
    assert "vegaEmbed" in javascript
    assert picture.startswith("<svg ")
    monkeypatch.setattr(resource, "getrlimit", lambda which: limits(which, _page._LEAST[name] - 1))
    with pytest.raises(MemoryError, match=r"ulimit -v"):
        _page.draw([spec])


def test_test_data_with_other_classes_are_refused(run, files):
    with np.load("val.npz") as val:
        np.savez("wide.npz", logits=np.c_[val["logits"], val["logits"][:, :1]], labels=np.zeros(len(val["logits"]), int))
        n_classes = val["logits"].shape[1]
    said = refused(run("report val.npz wide.npz"))
    assert said == f"error: `test_logits` must have {n_classes} classes, as `logits` has, got {n_classes + 1}."
