"""Options that every command has: --json, --quiet and --fail-on-warning."""

import json

import numpy as np
import pytest
import reference
import shell
import typer

from nishimori.cli import _app

GROUP = typer.main.get_command(_app.app)


@pytest.mark.parametrize("name", _app.OWN)
def test_every_command_has_them(name):
    options = {option for each in GROUP.loaded(name).params for option in each.opts}
    assert {"--json", "--quiet", "--fail-on-warning"} <= options


@pytest.mark.parametrize("name", _app.OWN)
def test_help_shows_no_types_of_python(name, tmp_path):
    shown = shell.nishimori(f"{name} --help", place=tmp_path).out
    assert not any(word in shown for word in ("<list", "<path", "<bool", "<str", "<int", "<float", "Path]"))


@pytest.fixture
def place(tmp_path):
    logits, labels = reference.drawn(200, 3)
    np.savez(tmp_path / "val.npz", logits=logits, labels=labels)
    shares = reference.softmax(logits)
    shares[0] = np.eye(3)[(labels[0] + 1) % 3]  # a zero at the true class, which is warned of
    np.savez(tmp_path / "zeros.npz", probabilities=shares, labels=labels)
    return tmp_path


def test_quiet_prints_results_and_warnings_but_no_notes(place):
    usual = shell.nishimori("fit val.npz -o a.json", place=place)
    quiet = shell.nishimori("fit val.npz -o b.json --quiet", place=place)
    assert usual.err == "Wrote a.json\n"
    assert quiet == (0, usual.out, "")
    warned = shell.nishimori("eval zeros.npz --input probabilities -q", place=place)
    assert warned.code == 0
    assert warned.err.startswith("warning: The true class has probability 0")
    assert shell.nishimori("fit val.npz -o c.json", place=place).err == "Wrote c.json\n"  # the next command speaks again


def test_fail_on_warning_ends_with_code_3_after_the_result(place):
    words = "eval zeros.npz --input probabilities --json"
    usual = shell.nishimori(words, place=place)
    strict = shell.nishimori(f"{words} --fail-on-warning", place=place)
    assert (usual.code, strict.code) == (0, 3)
    assert json.loads(strict.out) == json.loads(usual.out)
    assert json.loads(strict.out)["warnings"]
    assert shell.nishimori("eval val.npz --fail-on-warning", place=place).code == 0
    assert shell.nishimori("eval none.npz --fail-on-warning", place=place).code == 1


def test_a_report_about_a_file_of_probabilities_is_refused_before_it_is_written(tmp_path):
    logits, labels = reference.drawn(200, 3)
    np.savez(tmp_path / "p.npz", logits=reference.softmax(logits), labels=labels)
    ended = shell.nishimori("report p.npz -o r.json", place=tmp_path)
    assert ended.code == 1
    assert "--input probabilities" in ended.err
    assert not (tmp_path / "r.json").exists()
    assert shell.nishimori("report p.npz -o r.json --input logits", place=tmp_path).code == 0
