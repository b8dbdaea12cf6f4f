"""`paper list`, `run` and `check` as a person types them."""

import json
import re

import pytest

import nishimori_paper as paper


def test_paper_lists_runs_and_checks(run, tmp_path):
    code, out, _ = run("paper list --json")
    names = [row["name"] for row in json.loads(out)["artefacts"]]
    assert code == 0
    assert "figure-density" in names
    code, out, err = run("paper run figure-density --quick -o results")
    assert (code, out) == (0, "")
    assert err == "figure-density: 2 agree, 3 explained; wrote 6 files to results\n"
    assert {path.suffix for path in (tmp_path / "results").iterdir()} == {".png", ".svg", ".csv", ".json"}
    assert run("paper run figure-density --quick -o results") == (
        0,
        "",
        "figure-density: 2 agree, 3 explained; already in results; --force starts over\n",
    )
    code, out, err = run("paper check figure-density -o results")
    assert code == 0
    assert "explained" in out
    assert "half the line gives the paper's number" in err
    code, _, err = run("paper run figure-density -o results")
    assert code == 1
    assert "holds another run" in err


def test_paper_says_what_it_has_not_got(run, tmp_path):
    code, out, err = run("paper check bayes -o nowhere")
    assert (code, out) == (1, "")
    assert "There is no nowhere/bayes.json. Run bayes with this -o first" in err


def test_check_ends_with_three_where_a_number_differs(run):
    code, out, _ = run("paper check figure-train-size --quick --json")
    assert code == 3
    assert {row["verdict"] for row in json.loads(out)["figure-train-size"]} == {"agrees", "differs"}


def test_an_artefact_that_is_not_there_is_one_line_with_those_that_are(run):
    listed = ", ".join(paper.names())
    assert run("paper run figure-9") == (1, "", f"error: There is no artefact 'figure-9' of the paper; there are {listed}.\n")


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("paper run statements --output=", "--output"),
        ("paper check statements --output=", "--output"),
        ("paper train --dataset svhn --model resnet20 --data=", "--data"),
    ],
)
def test_an_empty_path_is_not_the_current_folder(run, words, option, tmp_path):
    assert run(words) == (1, "", f"error: `{option}` must be a path, got ''.\n")
    assert list(tmp_path.iterdir()) == []


def test_the_demo_takes_any_bundled_network_and_says_how_much_it_saw(run):
    code, out, err = run("demo --network svhn/resnet20-authors -o svhn")
    assert code == 0
    assert re.match(r"26,032 test images, T from 7,325 others\n", out)
    assert err.startswith("svhn/resnet20-authors: 269,722 parameters; trained by the paper's authors, published in")
