"""Every file format in, every format out, and what is said of files that are not what they should be."""

import pickle

import numpy as np
import pandas as pd
import pytest
import safetensors.numpy
import safetensors.torch
import torch

import reference
from nishimori._array import on_host
from nishimori.cli import _files as _logit_files
from nishimori.cli._files import Names
from nishimori.errors import FormatError, InputError

LOGITS, LABELS = reference.drawn(40, 3)
WEIGHTS = np.arange(1.0, 41)
COLUMNS = ["ant", "bee", "cat"]


def frame():
    return pd.DataFrame(LOGITS, columns=COLUMNS).assign(labels=LABELS, w=WEIGHTS)


def write_npz(path):
    np.savez(path, logits=LOGITS, labels=LABELS, w=WEIGHTS)


def write_pt(path):
    torch.save({"logits": torch.tensor(LOGITS), "labels": torch.tensor(LABELS), "w": torch.tensor(WEIGHTS)}, path)


def write_safetensors(path):
    safetensors.numpy.save_file({"logits": LOGITS, "labels": LABELS, "w": WEIGHTS}, path)


def write_lists(path):
    pd.DataFrame({"logits": list(LOGITS), "labels": LABELS, "w": WEIGHTS}).to_parquet(path)


WRITERS = {
    "data.npz": write_npz,
    "data.csv": lambda path: frame().to_csv(path, index=False),
    "data.parquet": lambda path: frame().to_parquet(path),
    "lists.parquet": write_lists,
    "data.pt": write_pt,
    "data.safetensors": write_safetensors,
}


@pytest.mark.parametrize("name", WRITERS)
def test_what_was_stored_is_what_is_read(name, tmp_path):
    path = tmp_path / name
    WRITERS[name](path)
    data = _logit_files.read([path], Names(weights="w"), labelled=True)
    np.testing.assert_array_equal(np.asarray(data.scores), LOGITS)
    np.testing.assert_array_equal(np.asarray(data.labels).astype(np.int64), LABELS)  # text in .csv: 007 may be a class
    np.testing.assert_array_equal(np.asarray(data.weights), WEIGHTS)
    assert data.columns == (COLUMNS if name in ("data.csv", "data.parquet") else None)


@pytest.mark.parametrize("name", WRITERS)
def test_scores_alone_are_read_without_labels_or_weights(name, tmp_path):
    path = tmp_path / name
    WRITERS[name](path)
    data = _logit_files.read([path], Names(weights="w"), labelled=False)
    np.testing.assert_array_equal(np.asarray(data.scores), LOGITS)
    assert data.labels is None
    assert data.weights is None


def test_a_pair_of_npy_files_is_scores_then_labels(tmp_path):
    np.save(tmp_path / "z.npy", LOGITS)
    np.save(tmp_path / "y.npy", LABELS)
    data = _logit_files.read([tmp_path / "z.npy", tmp_path / "y.npy"], Names(), labelled=True)
    np.testing.assert_array_equal(data.scores, LOGITS)
    np.testing.assert_array_equal(data.labels, LABELS)


def test_columns_are_taken_in_the_order_asked_for(tmp_path):
    frame().to_csv(tmp_path / "data.csv", index=False)
    data = _logit_files.read([tmp_path / "data.csv"], Names(columns=("cat", "ant")), labelled=True)
    np.testing.assert_array_equal(data.scores, LOGITS[:, [2, 0]])


def test_a_single_score_column_is_a_binary_score(tmp_path):
    frame().to_csv(tmp_path / "data.csv", index=False)
    data = _logit_files.read([tmp_path / "data.csv"], Names(columns=("bee",)), labelled=True)
    np.testing.assert_array_equal(data.scores, LOGITS[:, 1])


def test_quoted_names_commas_and_text_labels_survive_csv(tmp_path):
    (tmp_path / "data.csv").write_text('"a, b",c,labels\n1.5,-2,"a, b"\n0,-inf,c\n', encoding="utf-8")
    data = _logit_files.read([tmp_path / "data.csv"], Names(), labelled=True)
    assert data.columns == ["a, b", "c"]
    assert data.labels.tolist() == ["a, b", "c"]
    np.testing.assert_array_equal(data.scores, [[1.5, -2], [0, -np.inf]])


def test_bfloat16_safetensors_are_read(tmp_path):
    stored = {"logits": torch.tensor(LOGITS).bfloat16(), "labels": torch.tensor(LABELS)}
    safetensors.torch.save_file(stored, tmp_path / "data.safetensors")
    data = _logit_files.read([tmp_path / "data.safetensors"], Names(), labelled=True)
    np.testing.assert_array_equal(on_host(data.scores), stored["logits"].float().numpy())


@pytest.mark.parametrize("suffix", _logit_files.SUFFIXES)
def test_probabilities_survive_a_round_trip(suffix, tmp_path):
    path = tmp_path / f"p{suffix}"
    p = reference.softmax(LOGITS)
    _logit_files.write(path, p, COLUMNS, overwrite=False)
    back = _logit_files.read([path], Names(scores="probabilities"), labelled=False)
    np.testing.assert_array_equal(np.asarray(back.scores), p)
    assert back.columns == (COLUMNS if suffix in (".csv", ".parquet") else None)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_an_existing_file_is_kept(tmp_path):
    path = tmp_path / "p.npz"
    path.write_text("mine")
    with pytest.raises(FileExistsError, match="Pass `overwrite=True` to replace it"):
        _logit_files.write(path, LOGITS, None, overwrite=False)
    assert path.read_text() == "mine"


def test_a_write_that_fails_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(*_, **__):
        (tmp_path / ".half").touch()
        raise OSError("no space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="no space"):
        _logit_files.write(tmp_path / "p.npz", LOGITS, None, overwrite=False)
    assert not (tmp_path / "p.npz").exists()


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
    for name in ("bomb.npz", "bomb.npy", "bomb.pt", "modern.pt"):
        with pytest.raises(FormatError):
            _logit_files.read([tmp_path / name], Names(), labelled=False)
    assert not trace.exists()


@pytest.mark.parametrize("suffix", _logit_files.SUFFIXES)
def test_a_damaged_file_is_a_format_error_that_names_it(suffix, tmp_path):
    path = tmp_path / f"damaged{suffix}"
    path.write_bytes(b"\x80\x02 this is not data \xff\xfe")
    with pytest.raises(FormatError, match=f"damaged{suffix}"):
        _logit_files.read([path], Names(), labelled=False)


@pytest.mark.parametrize("name", ["data.npz", "data.csv", "data.parquet", "data.pt", "data.safetensors"])
def test_a_truncated_file_is_a_format_error(name, tmp_path):
    path = tmp_path / name
    WRITERS[name](path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] if name != "data.csv" else whole[:-30])
    with pytest.raises(FormatError, match=name):
        _logit_files.read([path], Names(), labelled=True)


@pytest.mark.parametrize("suffix", _logit_files.SUFFIXES)
def test_a_missing_file_is_said_to_be_missing(suffix, tmp_path):
    with pytest.raises(FileNotFoundError, match=f"There is no file .*nowhere{suffix}"):
        _logit_files.read([tmp_path / f"nowhere{suffix}"], Names(), labelled=False)


@pytest.mark.parametrize(
    ("name", "names", "message"),
    [
        ("data.npz", Names(scores="z"), r"has no array 'z', only 'logits', 'labels', 'w'. Name yours with --scores."),
        ("data.npz", Names(labels="y"), r"has no array 'y', only 'logits', 'labels', 'w'. Name yours with --labels."),
        ("data.npz", Names(weights="v"), r"has no array 'v', only 'logits', 'labels', 'w'. Name yours with --weights."),
        (
            "data.csv",
            Names(labels="y"),
            r"has no column 'y', only 'ant', 'bee', 'cat', 'labels', 'w'. Name yours with --labels.",
        ),
        ("data.csv", Names(columns=("eel",)), r"has no column 'eel', .* Name yours with --columns."),
        ("data.csv", Names(weights="v"), r"has no column 'v', .* Name yours with --weights."),
    ],
)
def test_an_unknown_name_is_answered_with_the_names_there_are(name, names, message, tmp_path):
    WRITERS[name](tmp_path / name)
    with pytest.raises(InputError, match=message):
        _logit_files.read([tmp_path / name], names, labelled=True)


def test_an_unknown_ending_is_answered_with_the_known_ones(tmp_path):
    (tmp_path / "data.xlsx").touch()
    with pytest.raises(InputError, match=r"unknown ending. Use one of .npz, .npy, .csv, .parquet, .pt, .pth, .safetensors."):
        _logit_files.read([tmp_path / "data.xlsx"], Names(), labelled=True)
    with pytest.raises(InputError, match="unknown ending"):
        _logit_files.write(tmp_path / "out.xlsx", LOGITS, None, overwrite=False)


def test_what_else_a_file_holds_does_not_matter(tmp_path):
    np.savez(tmp_path / "data.npz", logits=LOGITS, labels=LABELS, notes=np.array([{"any": "thing"}], dtype=object))
    torch.save({"logits": torch.tensor(LOGITS), "labels": torch.tensor(LABELS), "epoch": 3}, tmp_path / "data.pt")
    for name in ("data.npz", "data.pt"):
        data = _logit_files.read([tmp_path / name], Names(), labelled=True)
        np.testing.assert_array_equal(np.asarray(data.scores), LOGITS)
    with pytest.raises(FormatError, match=r"'epoch' in .* must be a tensor, got a int"):
        _logit_files.read([tmp_path / "data.pt"], Names(scores="epoch"), labelled=False)


def test_an_option_that_cannot_apply_is_refused(tmp_path):
    np.save(tmp_path / "z.npy", LOGITS)
    np.save(tmp_path / "y.npy", LABELS)
    write_npz(tmp_path / "data.npz")
    pair = [tmp_path / "z.npy", tmp_path / "y.npy"]
    for names in (Names(weights="w"), Names(columns=("a", "b"))):
        with pytest.raises(InputError, match=r"must be left out for .npy files"):
            _logit_files.read(pair, names, labelled=True)
    with pytest.raises(InputError, match=r"has arrays. Use --scores"):
        _logit_files.read([tmp_path / "data.npz"], Names(columns=("a", "b")), labelled=True)


def test_one_npy_file_has_no_labels(tmp_path):
    np.save(tmp_path / "z.npy", LOGITS)
    with pytest.raises(InputError, match=r"Pass two .npy files: scores first, labels second"):
        _logit_files.read([tmp_path / "z.npy"], Names(), labelled=True)
