"""Every file format in, every format out, and what is said of files that are not what they should be."""

import json
import pickle

import numpy as np
import pytest
import reference
import shell
from optional import pd, safetensors, torch

import nishimori
from nishimori.cli import _files
from nishimori.cli._files import Names
from nishimori.errors import FormatError, InputError

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
def test_what_was_stored_is_what_is_read(name, tmp_path):
    path = tmp_path / name
    WRITERS[name](path)
    data = _files.read([path], Names(weights="w"))
    np.testing.assert_array_equal(data.scores, LOGITS)
    np.testing.assert_array_equal(np.asarray(data.labels).astype(np.int64), LABELS)  # text in .csv: 007 may be a class
    np.testing.assert_array_equal(data.weights, WEIGHTS)
    assert data.columns == (COLUMNS if name in WITH_COLUMNS else None)


@pytest.mark.parametrize("name", WRITERS)
def test_apply_gives_the_same_from_every_file(name, tmp_path):
    WRITERS[name](tmp_path / name)
    nishimori.from_temperature(2.0, classes=COLUMNS).save(tmp_path / "c.json")
    options = "--weights w" if name in WITH_COLUMNS else ""
    ended = shell.nishimori(f"apply c.json {name} -o p.npy {options}", place=tmp_path)
    assert ended.code == 0, ended.err
    np.testing.assert_allclose(np.load(tmp_path / "p.npy"), reference.softmax(LOGITS, 2.0), rtol=1e-12)


def test_a_pair_of_npy_files_is_scores_then_labels(tmp_path):
    np.save(tmp_path / "z.npy", LOGITS)
    np.save(tmp_path / "y.npy", LABELS)
    data = _files.read([tmp_path / "z.npy", tmp_path / "y.npy"], Names())
    np.testing.assert_array_equal(data.scores, LOGITS)
    np.testing.assert_array_equal(data.labels, LABELS)


def test_columns_are_taken_in_the_order_asked_for(tmp_path):
    frame().to_csv(tmp_path / "data.csv", index=False)
    data = _files.read([tmp_path / "data.csv"], Names(columns=("cat", "ant")))
    np.testing.assert_array_equal(data.scores, LOGITS[:, [2, 0]])


@pytest.mark.parametrize("names", [Names(columns=("bee",)), Names(scores="bee")])
def test_a_single_score_column_is_a_binary_score(tmp_path, names):
    frame().to_csv(tmp_path / "data.csv", index=False)
    data = _files.read([tmp_path / "data.csv"], names)
    np.testing.assert_array_equal(data.scores, LOGITS[:, 1])
    assert data.columns is None


def test_one_column_with_the_name_of_the_scores_is_a_binary_score(tmp_path):
    frame()[["bee", "labels"]].rename(columns={"bee": "logits"}).to_csv(tmp_path / "data.csv", index=False)
    np.testing.assert_array_equal(_files.read([tmp_path / "data.csv"], Names()).scores, LOGITS[:, 1])


def test_quoted_names_commas_and_text_labels_survive_csv(tmp_path):
    (tmp_path / "data.csv").write_text('"a, b",c,labels\n1.5,-2,"a, b"\n0,-inf,c\n', encoding="utf-8")
    data = _files.read([tmp_path / "data.csv"], Names(classes=["a, b", "c"]))
    assert data.columns == ["a, b", "c"]
    assert data.labels.tolist() == ["a, b", "c"]
    np.testing.assert_array_equal(data.scores, [[1.5, -2], [0, -np.inf]])


def test_bfloat16_safetensors_are_read(tmp_path):
    stored = {"logits": torch.tensor(LOGITS).bfloat16(), "labels": torch.tensor(LABELS)}
    safetensors.torch.save_file(stored, tmp_path / "data.safetensors")
    data = _files.read([tmp_path / "data.safetensors"], Names())
    np.testing.assert_array_equal(data.scores, stored["logits"].float().numpy())


@pytest.mark.parametrize("suffix", _files.SUFFIXES)
def test_probabilities_survive_a_round_trip(suffix, tmp_path):
    nishimori.from_temperature(1.0).save(tmp_path / "c.json")
    nishimori.from_temperature(1.0, input="probabilities").save(tmp_path / "d.json")
    np.savez(tmp_path / "z.npz", logits=LOGITS)
    assert shell.nishimori(f"apply c.json z.npz -o p{suffix}", place=tmp_path).code == 0
    assert shell.nishimori(f"apply d.json p{suffix} -o q.npy", place=tmp_path).code == 0
    np.testing.assert_allclose(np.load(tmp_path / "q.npy"), reference.softmax(LOGITS), rtol=1e-15, atol=1e-300)


class Bomb:
    """Unpickling this would create a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_nothing_is_ever_unpickled(tmp_path):
    trace = tmp_path / "trace"
    np.savez(tmp_path / "bomb.npz", logits=np.array([Bomb(trace)], dtype=object), labels=LABELS)
    np.save(tmp_path / "bomb.npy", np.array([Bomb(trace)], dtype=object), allow_pickle=True)
    with (tmp_path / "bomb.pt").open("wb") as file:
        pickle.dump({"logits": Bomb(trace)}, file)
    torch.save({"logits": Bomb(trace)}, tmp_path / "modern.pt")
    nishimori.from_temperature(2.0).save(tmp_path / "c.json")
    for name in ("bomb.npz", "bomb.npy", "bomb.pt", "modern.pt"):
        ended = shell.nishimori(f"apply c.json {name} -o p.npy", place=tmp_path)
        assert (ended.code, ended.err.count("\n")) == (1, 1)
    assert not trace.exists()


@pytest.mark.parametrize("suffix", _files.SUFFIXES)
def test_a_damaged_file_is_a_format_error_that_names_it(suffix, tmp_path):
    path = tmp_path / f"damaged{suffix}"
    path.write_bytes(b"\x80\x02 this is not data \xff\xfe")
    with pytest.raises(FormatError, match=f"damaged{suffix}"):
        _files.read([path] * (2 if suffix == ".npy" else 1), Names())


@pytest.mark.parametrize("name", WRITERS)
def test_a_truncated_file_is_a_format_error(name, tmp_path):
    path = tmp_path / name
    WRITERS[name](path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-30] if name in ("data.csv", "data.tsv") else whole[: len(whole) // 2])
    with pytest.raises(FormatError, match=name):
        _files.read([path], Names(weights="w"))


@pytest.mark.parametrize("suffix", _files.SUFFIXES)
def test_a_missing_file_is_said_to_be_missing(suffix, tmp_path):
    with pytest.raises(FileNotFoundError, match=f"There is no file .*nowhere{suffix}"):
        _files.read([tmp_path / f"nowhere{suffix}"], Names())


@pytest.mark.parametrize(
    ("name", "names", "message"),
    [
        ("data.npz", Names(scores="z"), r"has no array 'z', only 'logits', 'labels', 'w'. Name yours with --scores."),
        (
            "data.npz",
            Names(labels="y"),
            r"has no array 'y', only 'logits', 'labels', 'w'. If its labels are 'labels', pass --labels",
        ),
        ("data.npz", Names(weights="v"), r"has no array 'v', only 'logits', 'labels', 'w'. Name yours with --weights."),
        (
            "data.csv",
            Names(labels="y"),
            r"has no column 'y', only 'ant', 'bee', 'cat', 'labels', 'w'. If its labels are 'labels', pass --labels labels\.",
        ),
        ("data.csv", Names(columns=("eel",)), r"has no column 'eel', .* Name yours with `columns`."),
        ("data.csv", Names(weights="v"), r"has no column 'v', .* Name yours with --weights."),
        ("data.csv", Names(scores="z"), r"has no column 'z', only .* Name yours with --scores."),
        ("data.csv", Names(scores="w", weights="w"), r"--scores must name scores, got 'w', which is the column of"),
        ("data.csv", Names(scores="ant", columns=("bee",)), r"--scores names one column, and --columns several. Pass only one"),
        ("data.csv", Names(ignore=("id",)), r"has no column 'id', only .* Name yours with `ignore`."),
        (
            "data.npz",
            Names(delimiter=";"),
            r"--delimiter is for tables such as .csv, and .*data.npz has arrays. Leave it out\.$",
        ),
        ("data.npz", Names(decimal=","), r"--decimal is for tables such as .csv, and .*data.npz has arrays. Leave it out\.$"),
        ("data.npz", Names(ignore=("id",)), r"--ignore is for tables such as .csv, and .*data.npz has arrays. Leave it out\.$"),
    ],
)
def test_a_name_that_is_not_there_is_answered_with_those_that_are(name, names, message, tmp_path):
    WRITERS[name](tmp_path / name)
    with pytest.raises(InputError, match=message):
        _files.read([tmp_path / name], names)


def test_an_unknown_ending_is_answered_with_the_known_ones(tmp_path):
    (tmp_path / "data.xlsx").touch()
    with pytest.raises(InputError, match=r"unknown ending. Use one of .npz, .npy, .pt, .pth, .safetensors, .csv, .tsv"):
        _files.read([tmp_path / "data.xlsx"], Names())


def test_what_else_a_file_holds_does_not_matter(tmp_path):
    np.savez(tmp_path / "data.npz", logits=LOGITS, labels=LABELS, notes=np.array([{"any": "thing"}], dtype=object))
    torch.save({"logits": torch.tensor(LOGITS), "labels": torch.tensor(LABELS), "epoch": 3}, tmp_path / "data.pt")
    for name in ("data.npz", "data.pt"):
        data = _files.read([tmp_path / name], Names())
        np.testing.assert_array_equal(np.asarray(data.scores), LOGITS)
    with pytest.raises(FormatError, match=r"'epoch' in .* must be a tensor, got a int"):
        _files.read([tmp_path / "data.pt"], Names(scores="epoch"))


def test_an_option_that_cannot_apply_is_refused(tmp_path):
    np.save(tmp_path / "z.npy", LOGITS)
    np.save(tmp_path / "y.npy", LABELS)
    write_npz(tmp_path / "data.npz")
    pair = [tmp_path / "z.npy", tmp_path / "y.npy"]
    for names in (Names(weights="w"), Names(scores="z")):
        with pytest.raises(InputError, match=r"must be left out for .npy files"):
            _files.read(pair, names)
    for paths, remedy in ((pair, "Leave it out"), ([tmp_path / "data.npz"], "Name the array with --scores")):
        with pytest.raises(InputError, match=rf"--columns is for tables such as .csv, and .* has arrays. {remedy}\.$"):
            _files.read(paths, Names(columns=("a", "b")))


def test_one_npy_file_has_no_labels(tmp_path):
    np.save(tmp_path / "z.npy", LOGITS)
    with pytest.raises(InputError, match=r"Pass two .npy files: scores first, labels second, got 1."):
        _files.read([tmp_path / "z.npy"], Names())


def test_rows_of_weight_zero_are_not_checked(tmp_path):
    (tmp_path / "t.csv").write_text("z_a,z_b,labels,w\n1,2,0,1\n,nan,,0\n2,1,1,2\n")
    data = _files.read([tmp_path / "t.csv"], Names(weights="w"))
    assert data.weights.tolist() == [1, 0, 2]
    with pytest.raises(FormatError, match="line 3, column 'z_a': a score is missing"):
        _files.read([tmp_path / "t.csv"], Names(ignore=("w",)))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("1,2,0,1\n1,2,,1\n", "line 3, column 'labels': a label is missing. Fill it in, or drop the row."),
        ("1,2,0,1\n1,,0,1\n", "line 3, column 'z_b': a score is missing. Fill it in, or drop the row."),
        ("1,2,0,1\n1,nan,0,1\n", "line 3, column 'z_b': got 'nan' for a score."),
        ("1,2,0,1\n1,2,0,\n", "line 3, column 'w': a weight is missing."),
        ("1,2,0,1\n1,2,0,x\n", "line 3, column 'w': 'x' is not a number."),
    ],
)
def test_a_missing_value_is_refused_with_its_line(rows, message, tmp_path):
    (tmp_path / "t.csv").write_text(f"z_a,z_b,labels,w\n{rows}")
    with pytest.raises(FormatError) as refused:
        _files.read([tmp_path / "t.csv"], Names(weights="w"))
    assert message in str(refused.value)


@pytest.mark.parametrize("label", [None, float("nan"), [1], {"a": 1}])
def test_a_label_that_cannot_be_one_is_refused_with_its_line(label, tmp_path):
    rows = [{"z": [1.0, 2.0], "labels": 0}, {"z": [1.0, 2.0], "labels": label}]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(FormatError, match=r"line 2, column 'labels': a label (is missing|must be text or a number, got)"):
        _files.read([tmp_path / "t.jsonl"], Names(scores="z"))


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


def test_reading_a_table_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr("nishimori._rows.tables.text.CELLS", 50)
    WRITERS["data.csv"](tmp_path / "data.csv")
    told = []
    _files.read([tmp_path / "data.csv"], Names(weights="w"), lambda *each: told.append(each))
    assert told == [("Reading", rows, None) for rows in (10, 20, 30, 40)]
