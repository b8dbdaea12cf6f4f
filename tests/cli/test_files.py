"""Every file format in, every format out, and what is said of files that are not what they should be."""

import json

import numpy as np
import pytest
import reference
import shell
from bombs import save_bombs
from optional import pd, safetensors, torch

import nishimori
from nishimori._files.file_rows import SUFFIXES

LOGITS, LABELS = reference.drawn(40, 3)
WEIGHTS = np.arange(1.0, 41)
COLUMNS = ["ant", "bee", "cat"]


def frame():
    return pd.DataFrame(LOGITS, columns=COLUMNS).assign(labels=LABELS, w=WEIGHTS)


def lists():
    return pd.DataFrame({"logits": list(LOGITS), "labels": LABELS, "w": WEIGHTS})


def write_npz(path):
    np.savez(path, logits=LOGITS, labels=LABELS, w=WEIGHTS)


def write_pt(path):
    torch.save({"logits": torch.tensor(LOGITS), "labels": torch.tensor(LABELS), "w": torch.tensor(WEIGHTS)}, path)


def write_safetensors(path):
    safetensors.numpy.save_file({"logits": LOGITS, "labels": LABELS, "w": WEIGHTS}, path)


def write_json(path, table):
    path.write_text("".join(json.dumps(row) + "\n" for row in table.to_dict("records")))


WRITERS = {
    "data.npz": write_npz,
    "data.csv": lambda path: frame().to_csv(path, index=False),
    "data.tsv": lambda path: frame().to_csv(path, index=False, sep="\t"),
    "data.csv.gz": lambda path: frame().to_csv(path, index=False),
    "data.parquet": lambda path: frame().to_parquet(path),
    "lists.parquet": lambda path: lists().to_parquet(path),
    "data.feather": lambda path: frame().to_feather(path),
    "lists.feather": lambda path: lists().to_feather(path),
    "data.jsonl": lambda path: write_json(path, frame()),
    "lists.jsonl": lambda path: write_json(path, lists().assign(logits=[row.tolist() for row in LOGITS])),
    "data.pt": write_pt,
    "data.safetensors": write_safetensors,
}
WITH_COLUMNS = [name for name in WRITERS if name.startswith("data.") and name.split(".")[1] not in ("npz", "pt", "safetensors")]


@pytest.mark.parametrize("name", WRITERS)
def test_apply_gives_the_same_from_every_file(name, tmp_path):
    WRITERS[name](tmp_path / name)
    nishimori.from_temperature(2.0, classes=COLUMNS).save(tmp_path / "c.json")
    options = "--weights w" if name in WITH_COLUMNS else ""
    ended = shell.nishimori(f"apply c.json {name} -o p.npy {options}", place=tmp_path)
    assert ended.code == 0, ended.err
    np.testing.assert_allclose(np.load(tmp_path / "p.npy"), reference.softmax(LOGITS, 2.0), rtol=1e-12)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_probabilities_survive_a_round_trip(suffix, tmp_path):
    nishimori.from_temperature(1.0).save(tmp_path / "c.json")
    nishimori.from_temperature(1.0, input="probabilities").save(tmp_path / "d.json")
    np.savez(tmp_path / "z.npz", logits=LOGITS)
    assert shell.nishimori(f"apply c.json z.npz -o p{suffix}", place=tmp_path).code == 0
    assert shell.nishimori(f"apply d.json p{suffix} -o q.npy", place=tmp_path).code == 0
    # The rounding of a logarithm of -9 changes its exponential by 1e-15 of its value.
    np.testing.assert_allclose(np.load(tmp_path / "q.npy"), reference.softmax(LOGITS), rtol=4e-15, atol=1e-300)


def test_nothing_is_ever_unpickled(tmp_path):
    trace = save_bombs(tmp_path, LABELS)
    nishimori.from_temperature(2.0).save(tmp_path / "c.json")
    for name in ("bomb.npz", "bomb.npy", "bomb.pt", "modern.pt"):
        ended = shell.nishimori(f"apply c.json {name} -o p.npy", place=tmp_path)
        assert (ended.code, ended.err.count("\n")) == (1, 1)
    assert not trace.exists()


def test_rows_of_weight_zero_may_have_any_label(tmp_path):
    labels, weights = [0, [1], 1], [1, 0, 1]
    rows = [{"z": [1.0, 2.0], "labels": label, "w": w} for label, w in zip(labels, weights, strict=True)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for options in ("", "--classes 0,1"):
        ended = shell.nishimori(f"eval t.jsonl --scores z --weights w --json {options}", place=tmp_path)
        assert json.loads(ended.out)["before"]["error"] == 0.5


def test_a_label_that_quotes_a_row_is_not_taken_for_one(tmp_path):
    (tmp_path / "t.csv").write_text("z_a,z_b,labels\n1,2,a\n1,2,in row 9\n")
    ended = shell.nishimori("eval t.csv --classes a,b", place=tmp_path)
    assert "got 'in row 9' in line 3." in ended.err


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            "fit n.npz -o d.json",
            "If dimension 1 of `scores` holds the classes, pass `class_axis=1` in Python, or move them last in the file.",
        ),
        (
            "eval n.npz --calibration c.json",
            "The calibration has 3 classes, but the file has 5 columns of scores. If the classes are in another dimension, "
            "move it last: `numpy.moveaxis(logits, 1, -1)`.",
        ),
        (
            "eval o.npz --calibration c.json",
            "The calibration has 3 classes, but the file has 5 columns of scores. Pass scores of the same model.",
        ),
    ],
)
def test_a_file_whose_classes_are_not_last_is_refused_with_what_the_shell_can_do(command, message, tmp_path):
    rng = np.random.default_rng(0)
    logits = 3 * rng.normal(size=(40, 3, 4, 5))
    labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    np.savez(tmp_path / "n.npz", logits=logits, labels=labels)
    np.savez(tmp_path / "o.npz", logits=logits[:, :2], labels=labels)
    np.savez(tmp_path / "last.npz", logits=np.moveaxis(logits, 1, -1), labels=labels)
    assert shell.nishimori("fit last.npz -o c.json", place=tmp_path).code == 0
    ended = shell.nishimori(command, place=tmp_path)
    assert (ended.code, message in " ".join(ended.err.split())) == (1, True), ended.err
