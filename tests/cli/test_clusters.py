"""`fit --clusters`, `fit --counts` and `sketch --clusters`: the standard errors that the library gives for the same rows."""

import json

import numpy as np
import pytest
import reference
import shell
from optional import pd

import nishimori

LOGITS, LABELS = reference.drawn(600, 3, seed=3)
CLUSTERS = np.random.default_rng(0).integers(0, 40, 600)
COUNTS = np.random.default_rng(1).integers(1, 4, 600)
TABLE = pd.DataFrame(LOGITS, columns=["z_0", "z_1", "z_2"]).assign(
    labels=LABELS, video=[f"film {each}" for each in CLUSTERS], copies=COUNTS
)


def errors(place, command):
    """The standard error that the command prints for machines, after it has written the same to its file."""
    ended = shell.nishimori(f"{command} -o c.json --force --json", place=place)
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)["temperature_se"]
    assert nishimori.load(place / "c.json").temperature_se_ == found
    return found


def expected(**options):
    found = nishimori.temperatures(LOGITS, LABELS, **options)
    return {"ec": found.ec_se, "ts": found.ts_se}


@pytest.fixture
def files(tmp_path):
    TABLE.to_csv(tmp_path / "t.csv", index=False)
    TABLE.to_parquet(tmp_path / "t.parquet")
    np.savez(tmp_path / "a.npz", logits=LOGITS, labels=LABELS, video=np.array(TABLE.video, dtype=str), copies=COUNTS)
    for name, array in {"z": LOGITS, "y": LABELS}.items():
        np.save(tmp_path / f"{name}.npy", array)
    return tmp_path


@pytest.mark.parametrize("method", ["ec", "ts"])
@pytest.mark.parametrize("name", ["t.csv --columns z_*", "t.parquet --ignore copies", "a.npz"])
def test_fit_takes_clusters_and_counts_by_name(files, name, method):
    grouped = errors(files, f"fit {name} --method {method} --clusters video")
    assert grouped == pytest.approx(expected(clusters=CLUSTERS)[method], rel=1e-3)
    assert abs(grouped / errors(files, f"fit {name} --method {method}".replace("copies", "copies,video")) - 1) > 0.01


def test_counts_are_copies_in_the_standard_error(files):
    found = errors(files, "fit a.npz --method ec --weights copies --counts")
    assert found == pytest.approx(expected(sample_weight=COUNTS, counts=True)["ec"], rel=1e-3)
    assert found < 0.95 * errors(files, "fit a.npz --method ec --weights copies")
    ended = shell.nishimori("fit a.npz -o d.json --weights copies --counts --clusters video", place=files)
    assert (ended.code, ended.err.splitlines()[-1]) == (
        1,
        "error: --counts must be False where --clusters is given: copies of a sample belong to its cluster.",
    )


def test_a_sketch_keeps_the_clusters_of_each_file(files):
    half = TABLE.video < "film 25"
    for name, rows in {"a": half, "b": ~half}.items():
        TABLE[rows].to_csv(files / f"{name}.csv", index=False)
    made = shell.nishimori("sketch a.csv b.csv -o s.npz --columns z_* --clusters video", place=files)
    assert made.code == 0, made.err
    assert errors(files, "fit s.npz --method ec") == pytest.approx(expected(clusters=CLUSTERS)["ec"], rel=1e-3)
    again = shell.nishimori("fit s.npz -o d.json --clusters video", place=files)
    assert again.code == 1
    assert "s.npz is a sketch, which already describes its rows" in again.err


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("fit t.csv --columns z_* --clusters film", "t.csv has no column 'film', only "),
        (
            "fit a.npz --clusters film",
            "'video', 'copies'. Name yours with --clusters.",
        ),
        (
            "fit z.npy y.npy --clusters c",
            "--clusters must be left out for .npy files, which hold one unnamed array",
        ),
        ("fit l.parquet --columns z_* --clusters video", "l.parquet has lists in column 'video', but a cluster is one value."),
        ("fit m.csv --columns z_* --clusters video", "m.csv, line 4, column 'video': a cluster is missing. Fill it in"),
    ],
)
def test_what_cannot_be_a_cluster_is_refused(files, command, message):
    TABLE.assign(video=[[1, 2]] * 600).to_parquet(files / "l.parquet")
    TABLE.assign(video=TABLE.video.where(TABLE.index != 2, "")).to_csv(files / "m.csv", index=False)
    ended = shell.nishimori(f"{command} -o c.json", place=files)
    assert ended.code == 1
    assert message in ended.err


def test_a_method_without_a_standard_error_has_no_counts(files):
    (files / "halved.py").write_text(
        "import nishimori\n"
        "class Halved(nishimori.Calibrator):\n"
        "    def __init__(self, *, input='logits', classes=None, floor=None):\n"
        "        self.input, self.classes, self.floor = input, classes, floor\n"
        "    def fit(self, X, y=None, sample_weight=None):\n"
        "        raise AssertionError\n"
    )
    ended = shell.nishimori("fit a.npz -o c.json --method halved:Halved --counts", place=files)
    assert ended.code == 2
    assert "the method halved:Halved has no standard error" in ended.err
