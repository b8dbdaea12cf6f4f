"""`fit` and `eval` read scores in blocks: the same from every format and size, in memory that does not grow with the file."""

import json
import zipfile

import numpy as np
import pytest
import reference
import shell
from optional import pd, safetensors, torch
from own_process import warm

import nishimori
from nishimori._files.tables.new_table import new_table

LOGITS, LABELS = reference.drawn(900, 5)
WEIGHTS = np.random.default_rng(0).integers(0, 3, 900).astype(float)
FRAME = pd.DataFrame(LOGITS, columns=[f"z_{k}" for k in range(5)]).assign(labels=LABELS, w=WEIGHTS)


def arrays(logits=LOGITS, labels=LABELS):
    return {"logits": logits, "labels": labels, "w": WEIGHTS[: len(labels)] if len(labels) <= 900 else np.ones(len(labels))}


def write_table(path, logits=LOGITS, labels=LABELS):
    names = [*(f"z_{k}" for k in range(logits.shape[1])), "labels", "w"]
    with new_table(path, names, overwrite=False) as table:
        for start in range(0, len(logits), 10_000):
            part = slice(start, start + 10_000)
            table.write([*logits[part].T, labels[part], arrays(logits, labels)["w"][part]])


def write_compressed(path, *rows):
    """As `numpy.savez_compressed`, in a sixth of the time."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, each in arrays(*rows).items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.save(file, each)


WRITERS = {
    "t.npz": write_compressed,
    "stored.npz": lambda path, *rows: np.savez(path, **arrays(*rows)),
    "t.pt": lambda path, *rows: torch.save({name: torch.tensor(each) for name, each in arrays(*rows).items()}, path),
    "t.safetensors": lambda path, *rows: safetensors.numpy.save_file(arrays(*rows), path),
    "t.csv": write_table,
    "t.jsonl": write_table,
    "t.parquet": write_table,
    "t.feather": write_table,
}


def write_parts(folder):
    folder.mkdir()
    for number, start in enumerate((0, 300, 310)):
        FRAME[start : (300, 310, 900)[number]].to_parquet(folder / f"part-{number}.parquet")


@pytest.fixture(params=[2**28, 1000], ids=["kept", "read again"])
def limit(request, monkeypatch):
    """Small blocks, and scores that fit or do not."""
    monkeypatch.setattr("nishimori._files.spooled_scores.KEPT", request.param)
    monkeypatch.setattr("nishimori._support.arrays._HOST_BLOCK", 500)
    monkeypatch.setattr("nishimori._rows.pieces._NUMBERS", 1000)
    monkeypatch.setattr("nishimori._files.tables.lines.LARGEST_CHUNK", 14_000)
    monkeypatch.setattr("nishimori._files.tables.columnar._CELLS", 700)


@pytest.mark.usefixtures("limit")
@pytest.mark.parametrize("name", [*WRITERS, "parts"])
def test_every_format_gives_what_the_arrays_give(tmp_path, name):
    write_parts(tmp_path / name) if name == "parts" else WRITERS[name](tmp_path / name)
    assert shell.nishimori(f"fit {name} -o c.json --method ec --weights w", place=tmp_path).code == 0
    found = nishimori.load(tmp_path / "c.json")
    assert found.temperature_ == pytest.approx(reference.ec_temperature(LOGITS, LABELS, WEIGHTS), rel=1e-8)
    assert found.n_samples_ == np.count_nonzero(WEIGHTS)
    ended = shell.nishimori(f"eval {name} --calibration c.json --weights w --json", place=tmp_path)
    assert ended.code == 0, ended.err
    for row, T in (("before", 1.0), ("after", found.temperature_)):
        card = nishimori.evaluate(LOGITS, LABELS, sample_weight=WEIGHTS, temperature=T)
        assert json.loads(ended.out)[row]["nll"] == pytest.approx(card.nll, rel=1e-12)
        assert json.loads(ended.out)[row]["ece"] == pytest.approx(card.ece, rel=1e-12)


@pytest.mark.usefixtures("limit")
def test_a_pair_of_npy_files_gives_what_the_arrays_give(tmp_path):
    np.save(tmp_path / "y.npy", LABELS)
    for rows in (LOGITS, np.asfortranarray(LOGITS), LOGITS.astype(">f8")):
        np.save(tmp_path / "z.npy", rows)
        assert shell.nishimori("fit z.npy y.npy -o c.json --method ec --force", place=tmp_path).code == 0
        found = nishimori.load(tmp_path / "c.json").temperature_
        assert found == pytest.approx(reference.ec_temperature(LOGITS, LABELS), rel=1e-8)


@pytest.mark.usefixtures("limit")
@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("t.npz", "got inf in row 617, column 2 (counted from 0)."),
        ("t.csv", "got inf in line 619, column 'z_2'."),
        ("t.parquet", "got inf in row 617 (counted from 0), column 'z_2'."),
        (
            "parts",
            "part-2.parquet: The scores must not contain NaN or +inf, got inf in row 307 (counted from 0), column 'z_2'.",
        ),
    ],
)
def test_an_error_about_a_row_of_any_block_names_its_place(tmp_path, name, where, monkeypatch):
    broken = LOGITS.copy()
    broken[617, 2] = np.inf
    monkeypatch.setitem(globals(), "FRAME", FRAME.assign(z_2=broken[:, 2]))
    write_parts(tmp_path / name) if name == "parts" else WRITERS[name](tmp_path / name, broken, LABELS)
    ended = shell.nishimori(f"fit {name} -o c.json {'' if name == 't.npz' else '--ignore w'}", place=tmp_path)
    assert (ended.code, ended.err.count("error: ")) == (1, 1)
    assert where in ended.err.splitlines()[-1]


@pytest.mark.usefixtures("limit")
def test_columns_are_judged_by_all_their_values(tmp_path):
    frame = pd.DataFrame(LOGITS, columns=list("abcde")).assign(labels=LABELS)
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert shell.nishimori("fit t.csv -o c.json", place=tmp_path).code == 0
    frame.assign(c=np.arange(900)).to_csv(tmp_path / "t.csv", index=False)
    ended = shell.nishimori("fit t.csv -o d.json", place=tmp_path)
    assert (ended.code, "does not say which columns are scores" in ended.err) == (1, True)


def test_a_folder_without_tables_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    said = "error: empty is a folder without tables. Name a file, or a folder of files such as .csv, .jsonl or .parquet."
    assert shell.nishimori("eval empty", place=tmp_path).err.startswith(said)


@pytest.fixture(scope="module")
def measure():
    """Measures commands in processes that start with what all of them import."""
    with warm("nishimori.cli._app", "nishimori._calibrators.methods", "pandas", "torch") as measuring:
        yield measuring


@pytest.mark.parametrize("name", ["z.npy", *WRITERS])
def test_memory_does_not_grow_with_the_file(tmp_path, name, measure):
    """From 10 MB of numbers, which is more than a few blocks, to 60 MB; or from 1 to 6 MB, which as Python's text takes 45.

    Parquet has groups of rows of 64 MB, so from one group to two. The arrays of a compressed .npz file are unpacked in memory,
    once.
    """
    peaks, unpacked = [], []
    sizes = {"t.csv": (3_000, 15_000), "t.jsonl": (3_000, 15_000), "t.parquet": (160_000, 320_000)}
    for n_rows in sizes.get(name, (25_000, 150_000)):
        logits, labels = reference.drawn(n_rows, 50)
        logits = logits.round(2)
        files = [tmp_path / f"{n_rows}{name}"]
        if name == "z.npy":
            files.append(tmp_path / f"{n_rows}y.npy")
            np.save(files[0], logits)
            np.save(files[1], labels)
        else:
            WRITERS[name](files[0], logits, labels)
        if name in ("t.csv", "t.jsonl", "t.parquet", "t.feather"):
            files += ["--ignore", "w"]
        calibration = tmp_path / f"{n_rows}.json"
        # How a file is read does not depend on the method. The usual one reads it most often: once is enough.
        method = [] if name == "z.npy" else ["--method", "ts"]
        commands = (["fit", *files, "-o", calibration, *method], ["eval", *files, "--calibration", calibration])
        unpacked.append(logits.nbytes if name == "t.npz" else 0)
        peaks.append(measure("commands", commands=commands, kept=1_000_000))
    assert peaks[1] - unpacked[1] < peaks[0] - unpacked[0] + 35e6
