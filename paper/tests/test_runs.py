"""Runs of artefacts: pieces that are resumed, files that are complete or absent, verdicts, progress."""

import csv
import json
import re

import pytest
import shell
from scipy.stats import t as student

import nishimori_paper as paper
from nishimori._support import json as json_module
from nishimori.errors import FormatError, InputError
from nishimori_paper._artefact import Artefact, Finding, Scale, compared, compared_mean
from nishimori_paper._printed import printed
from nishimori_paper._runs import check, run
from nishimori_paper.artefacts import ARTEFACTS


class Counted(Artefact):
    """Squares of small numbers."""

    name = "squares"
    where = "nowhere"

    def __init__(self):
        self.done = []
        self.fails_at = None

    def pieces(self, scale):
        def square(i):
            if i == self.fails_at:
                raise KeyboardInterrupt
            self.done.append(i)
            return {"i": i, "square": i * i}

        return {f"piece {i}": lambda i=i: square(i) for i in range(2 if scale.quick else 4)}

    def compared_pieces(self, scale):
        return ["piece 1"]

    def tables(self, done):
        return {"squares": list(done.values())}

    def findings(self, done):
        return [compared("one squared", done["piece 1"]["square"], 1.0, 0.01)]

    def draw(self, done, pyplot):
        figure, ax = pyplot.subplots()
        ax.plot([row["square"] for row in done.values()])
        return figure


def test_a_run_writes_picture_table_and_everything(tmp_path):
    outcome = run(Counted(), tmp_path / "new", scale=Scale())
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "squares.csv",
        "squares.json",
        "squares.png",
        "squares.svg",
    ]
    assert sorted(outcome.files) == sorted((tmp_path / "new").iterdir())
    with (tmp_path / "new" / "squares.csv").open() as stream:
        assert [row["square"] for row in csv.DictReader(stream)] == ["0", "1", "4", "9"]
    content = json.loads((tmp_path / "new" / "squares.json").read_text())
    assert content["complete"] is True
    assert content["findings"][0]["verdict"] == "agrees"
    assert (tmp_path / "new" / "squares.png").read_bytes().startswith(b"\x89PNG")


def test_an_interrupted_run_continues_where_it_stopped(tmp_path):
    artefact = Counted()
    artefact.fails_at = 2
    with pytest.raises(KeyboardInterrupt):
        run(artefact, tmp_path, scale=Scale())
    assert [path.name for path in tmp_path.iterdir()] == ["squares.json"]
    artefact.fails_at = None
    (tmp_path / "squares.png").write_bytes(b"left by the interrupted run")
    run(artefact, tmp_path, scale=Scale())
    assert artefact.done == [0, 1, 2, 3]


def test_a_run_that_continues_reports_only_what_it_does_itself(tmp_path):
    artefact, told = Counted(), []
    artefact.fails_at = 2
    with pytest.raises(KeyboardInterrupt):
        run(artefact, tmp_path, scale=Scale())
    artefact.fails_at = None
    run(artefact, tmp_path, scale=Scale(), report=lambda *step: told.append(step))
    assert told == [("squares: piece 2", 2, 4), ("squares: piece 3", 3, 4), ("squares: drawing", 4, 4)]


def test_a_finished_run_is_kept_until_it_is_overwritten(tmp_path):
    artefact = Counted()
    first = run(artefact, tmp_path, scale=Scale())
    times = {path: path.stat().st_mtime_ns for path in first.files}
    again = run(artefact, tmp_path, scale=Scale())
    assert (first.fresh, again.fresh) == (True, False)
    assert again.findings == first.findings
    assert {path: path.stat().st_mtime_ns for path in again.files} == times
    run(artefact, tmp_path, scale=Scale(), overwrite=True)
    assert artefact.done == [0, 1, 2, 3] * 2


def test_a_picture_that_was_lost_is_drawn_again_without_computing(tmp_path):
    artefact = Counted()
    run(artefact, tmp_path, scale=Scale())
    (tmp_path / "squares.png").unlink()
    assert run(artefact, tmp_path, scale=Scale()).fresh
    assert (tmp_path / "squares.png").exists()
    assert artefact.done == [0, 1, 2, 3]


@pytest.mark.parametrize("name", ["squares.svg", "squares.csv", "squares-other.csv"])
def test_a_foreign_file_is_not_replaced_and_nothing_is_computed(tmp_path, name):
    artefact = Counted()
    (tmp_path / name).write_text("mine")
    with pytest.raises(FileExistsError, match=f"{re.escape(name)} exists"):
        run(artefact, tmp_path, scale=Scale())
    assert artefact.done == []


def test_another_runs_pieces_are_not_mixed_in(tmp_path):
    run(Counted(), tmp_path, scale=Scale(quick=True))
    with pytest.raises(
        FileExistsError, match=r"quick = True.* pass another `folder`, or pass `overwrite=True` to replace it\.$"
    ):
        run(Counted(), tmp_path, scale=Scale())


def test_check_takes_the_settings_of_the_run_it_is_about(tmp_path):
    run(Counted(), tmp_path, scale=Scale(quick=True))
    assert check(Counted(), tmp_path, scale=Scale())[0].verdict == "agrees"


def test_check_refuses_an_unfinished_run_and_one_of_another_version(tmp_path):
    artefact = Counted()
    artefact.fails_at = 2
    with pytest.raises(KeyboardInterrupt):
        run(artefact, tmp_path, scale=Scale())
    with pytest.raises(InputError, match=r"is not finished\. Repeat it with the same arguments, and it continues\.$"):
        check(artefact, tmp_path, scale=Scale())
    path = tmp_path / "squares.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"complete": True, "version": "0.0.1"}))
    with pytest.raises(InputError, match=r"written by version 0\.0\.1.* Run squares again with `overwrite=True`\.$"):
        check(artefact, tmp_path, scale=Scale())


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / "squares.json").write_text('{"artefact":')
    with pytest.raises(FormatError, match=r"damaged: .* Remove it, or pass `overwrite=True` to replace it\.$"):
        run(Counted(), tmp_path, scale=Scale())
    (tmp_path / "squares.json").write_text("[]")
    with pytest.raises(FormatError, match=r"not a result of `nishimori_paper\.run`\. Remove it, or pass another `folder`\.$"):
        run(Counted(), tmp_path, scale=Scale())


GOOD = {"artefact": "squares", "version": "1", "settings": {"quick": False}, "complete": True, "pieces": {}}
NONSENSE = {
    "nested lists": "[" * 100_000,
    "nested objects": '{"pieces":' * 100_000,
    "a number of 5,000 digits": '{"pieces": ' + "9" * 5000 + "}",
    "a number of 4,000 digits": json.dumps(GOOD | {"pieces": {"piece 1": 9}}).replace("9", "9" * 4000),
    "half a character": json.dumps(GOOD | {"artefact": "\ud800"}),
    "half a character as a name": json.dumps(GOOD | {"\udfff": 1}),
    "not text": b"\xff\xfe\x00",
    "nothing": "",
    **{f"no {key}": json.dumps({name: value for name, value in GOOD.items() if name != key}) for key in GOOD},
    **{f"another type of {key}": json.dumps(GOOD | {key: [1]}) for key in GOOD},
    "settings in settings": json.dumps(GOOD | {"settings": {"quick": {"seed": 1}}}),
}


@pytest.mark.parametrize("what", NONSENSE)
def test_a_file_that_is_not_of_a_run_is_refused_in_one_line(tmp_path, what):
    content = NONSENSE[what]
    path = tmp_path / "squares.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    before = path.read_bytes()
    for attempt in (run, check):
        with pytest.raises(
            FormatError, match=rf"^{re.escape(str(path))} is (damaged: |not a result of ).* Remove it, or pass .*\.$"
        ) as caught:
            attempt(Counted(), tmp_path, scale=Scale())
        assert len(str(caught.value)) < 500
        assert "\n" not in str(caught.value)
    assert path.read_bytes() == before


def test_a_file_that_is_too_large_for_a_run_is_not_read(tmp_path, monkeypatch):
    run(Counted(), tmp_path, scale=Scale())
    monkeypatch.setattr(json_module, "_LARGEST", 100)
    with pytest.raises(FormatError, match=r"is damaged: it has \d+ bytes, more than the 100 that are read\. Remove it"):
        check(Counted(), tmp_path, scale=Scale())


def test_a_device_in_place_of_the_results_is_not_read(tmp_path):
    (tmp_path / "squares.json").symlink_to("/dev/zero")
    with pytest.raises(FileExistsError, match=r"squares\.json is not a regular file\."):
        run(Counted(), tmp_path, scale=Scale())
    with pytest.raises(FileNotFoundError):
        check(Counted(), tmp_path, scale=Scale())


@pytest.mark.parametrize("name", ["nested lists", "a number of 5,000 digits", "half a character", "another type of pieces"])
def test_the_shell_refuses_a_damaged_result_in_one_line(tmp_path, name):
    (tmp_path / "figure-density.json").write_text(NONSENSE[name])
    code, out, err = shell.nishimori("paper check figure-density -o .", place=tmp_path)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("error: figure-density.json is ")


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        run(Counted(), tmp_path / "file", scale=Scale())


def test_check_uses_what_a_run_left_and_otherwise_computes_what_it_compares(tmp_path):
    artefact = Counted()
    check(artefact, None, scale=Scale())
    assert artefact.done == [1]
    run(artefact, tmp_path, scale=Scale())
    artefact.done.clear()
    assert check(artefact, tmp_path, scale=Scale())[0].verdict == "agrees"
    assert artefact.done == []
    with pytest.raises(FileNotFoundError, match=r"squares\.json\. Run squares with this `folder` first, or leave out `folder`"):
        check(artefact, tmp_path / "empty", scale=Scale())


@pytest.mark.parametrize(
    ("ours", "paper_method", "verdict"),
    [
        (1.004, None, "agrees"),
        (1.02, None, "differs"),
        (1.02, 1.0, "explained"),
        (1.02, 1.1, "differs"),
        (float("nan"), None, "differs"),
    ],
)
def test_a_difference_counts_as_explained_only_if_the_papers_method_reproduces_its_number(ours, paper_method, verdict):
    found = compared("x", ours, 1.0, 0.005, paper_method=paper_method, explanation="so")
    assert found.verdict == verdict


@pytest.mark.parametrize(
    ("seeds", "mean", "verdict"),
    [(20, 1.5, "agrees"), (20, 1.52, "differs"), (7, 1.5, "agrees"), (6, 1.5, "too few seeds"), (6, 3.0, "differs")],
)
def test_a_mean_over_few_seeds_does_not_agree_with_anything(seeds, mean, verdict):
    found = compared_mean("x", mean, 0.1, seeds, 1.0)
    assert found.verdict == verdict
    assert found.tolerance == pytest.approx(0.1 * student.ppf(1 - 3e-5, seeds - 1))


def test_a_claim_in_words_has_no_difference():
    assert Finding("x", "large", "small", agrees=False).difference is None
    assert Finding("x", "large", "small", agrees=False).verdict == "differs"


def test_an_unknown_artefact_is_refused_with_the_list():
    with pytest.raises(InputError, match="figure-temperatures"):
        paper.check("figure-9")


def test_every_printed_table_says_where_it_is_from():
    assert all("origin" in table for table in printed().values())
    curves = printed()["figure-temperatures"]
    assert all(
        len(curves[kind][name]["value"]) == 40 for kind in ("theory", "simulation") for name in ("logit", "affine", "constant")
    )


def test_pieces_that_were_changed_are_called_damage(tmp_path):
    run(Counted(), tmp_path, scale=Scale())
    path = tmp_path / "squares.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"pieces": content["pieces"] | {"of another": 1}}))
    assert not run(Counted(), tmp_path, scale=Scale()).fresh
    for value in ([1], 1, None, {"square": [1]}, {"square": {}}, {}, "1"):
        path.write_text(json.dumps(content | {"pieces": content["pieces"] | {"piece 1": value}}))
        for attempt in (run, check):
            with pytest.raises(FormatError, match="damaged"):
                attempt(Counted(), tmp_path, scale=Scale())


def test_a_changed_piece_that_only_the_picture_needs_is_called_damage_too(tmp_path):
    run(Counted(), tmp_path, scale=Scale())
    (tmp_path / "squares.png").unlink()
    path = tmp_path / "squares.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"pieces": content["pieces"] | {"piece 2": {"i": 2, "square": {"a": 1}}}}))
    with pytest.raises(FormatError, match=r"squares\.json is damaged: .*Remove it"):
        run(Counted(), tmp_path, scale=Scale())


def test_words_in_place_of_a_number_differ_from_it(tmp_path):
    run(Counted(), tmp_path, scale=Scale())
    path = tmp_path / "squares.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"pieces": content["pieces"] | {"piece 1": {"square": "one"}}}))
    (found,) = check(Counted(), tmp_path, scale=Scale())
    assert (found.verdict, found.difference) == ("differs", None)


# Former names.


def test_a_file_from_before_the_new_names_is_still_checked_and_resumed(tmp_path):
    run(Counted(), tmp_path, scale=Scale())
    path = tmp_path / "squares.json"
    content = json.loads(path.read_text())
    assert {"paper_method", "explanation", "in_their_way", "because"} <= set(content["findings"][0])
    for each in content["findings"]:
        del each["paper_method"], each["explanation"]
    path.write_text(json.dumps(content))
    artefact = Counted()
    assert check(artefact, tmp_path, scale=Scale())[0].verdict == "agrees"
    assert not run(artefact, tmp_path, scale=Scale()).fresh
    assert artefact.done == []


# Progress.


@pytest.fixture
def squares(monkeypatch):
    """The squares as an artefact of the paper."""
    artefact = Counted()
    monkeypatch.setitem(ARTEFACTS, "squares", artefact)
    return artefact


LINES = [*(f"{i}/4 squares: piece {i}" for i in range(4)), "4/4 squares: drawing"]


@pytest.mark.parametrize(("progress", "lines"), [(True, LINES), (None, []), (False, [])])
def test_progress_is_a_line_per_piece_away_from_a_terminal_only_on_request(squares, tmp_path, capsys, progress, lines):
    paper.run("squares", tmp_path, progress=progress)
    assert capsys.readouterr().err.splitlines() == lines
    paper.check("squares", progress=progress)
    assert capsys.readouterr().err.splitlines() == (["0/1 squares: piece 1"] if lines else [])
