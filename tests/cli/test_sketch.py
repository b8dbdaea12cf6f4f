"""`sketch` and `merge`: rows in, small files out, which `fit` and `eval` take in place of the rows."""

import json

import numpy as np
import pytest
import reference
import shell
from optional import pd

import nishimori
from nishimori import Sketch
from nishimori._files.tables import columnar, lines

LOGITS, LABELS = reference.drawn(900, 4, seed=3)
WEIGHTS = np.arange(900) % 3
NAMES = ["ant", "bee", "cat", "dog"]
T = reference.ec_temperature(LOGITS, LABELS)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with the same rows in many formats; all are read in several blocks."""
    monkeypatch.setattr(lines, "LARGEST_CHUNK", 8000)
    monkeypatch.setattr(columnar, "_CELLS", 400)
    frame = pd.DataFrame(LOGITS, columns=["0", "1", "2", "3"]).assign(labels=LABELS)
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    frame.set_axis([*"pqrs", "labels"], axis=1).to_csv(tmp_path / "unnamed.csv", index=False)
    named = pd.DataFrame(LOGITS, columns=[f"z_{name}" for name in NAMES]).assign(truth=np.array(NAMES)[LABELS], w=WEIGHTS)
    named.to_csv(tmp_path / "named.csv", index=False)
    np.savez(tmp_path / "t.npz", logits=LOGITS, labels=LABELS, w=WEIGHTS, y=np.array(NAMES)[LABELS])
    np.savez(tmp_path / "one.npz", logits=LOGITS[:500], labels=LABELS[:500])
    np.savez(tmp_path / "two.npz", logits=LOGITS[500:], labels=LABELS[500:])
    np.save(tmp_path / "z.npy", LOGITS)
    np.save(tmp_path / "y.npy", LABELS)
    return tmp_path


@pytest.mark.parametrize(
    ("files", "weights"),
    [
        ("t.npz", None),
        ("t.npz --weights w", WEIGHTS),
        ("t.npz -l y --classes ant,bee,cat,dog", None),
        ("z.npy y.npy", None),
        ("t.csv", None),
        ("t.parquet", None),
        ("unnamed.csv", None),
        ("named.csv --columns z_* --labels truth --classes ant,bee,cat,dog --weights w", WEIGHTS),
        ("one.npz two.npz", None),
    ],
)
def test_files_of_every_kind_give_the_temperature_of_their_rows(place, files, weights):
    ended = shell.nishimori(f"sketch {files} -o s.npz", place=place)
    n_samples = 900 if weights is None else int((weights > 0).sum())
    assert ended == (0, f"{n_samples} samples, T from 0.0442 to 22.6\n", "Wrote s.npz\n")
    ended = shell.nishimori("fit s.npz -o c.json --method ec", place=place)
    assert ended.code == 0
    wanted = reference.ec_temperature(LOGITS, LABELS, weights)
    error = nishimori.temperatures(LOGITS, LABELS, sample_weight=weights).ec_se
    assert ended.out == f"T = {wanted:.2f} ± {error:.2f}  (ec, {n_samples} samples: the model is overconfident)\n"
    assert nishimori.load(place / "c.json").temperature_ == pytest.approx(wanted, rel=1e-8)


def test_merged_sketches_are_the_sketch_of_all_rows(place):
    for name in ("one", "two", "t"):
        assert shell.nishimori(f"sketch {name}.npz -o s_{name}.npz", place=place).code == 0
    ended = shell.nishimori("merge s_one.npz s_two.npz -o all.npz", place=place)
    assert ended == (0, "900 samples, T from 0.0442 to 22.6\n", "Wrote all.npz\n")
    merged, whole = Sketch.load(place / "all.npz"), Sketch.load(place / "s_t.npz")
    assert nishimori.temperatures(merged).ec == pytest.approx(nishimori.temperatures(whole).ec, rel=1e-12)


def test_eval_of_a_sketch_prints_the_table_of_its_rows(place):
    shell.nishimori("sketch t.npz -o s.npz", place=place)
    shell.nishimori("fit t.npz -o c.json", place=place)
    exact, found = (
        json.loads(shell.nishimori(f"eval {file} --calibration c.json --json", place=place).out) for file in ("t.npz", "s.npz")
    )
    assert exact.keys() == found.keys()
    for when in ("before", "after"):
        for metric in ("temperature", "error", "accuracy", "confidence", "brier", "nll"):
            assert found[when][metric] == pytest.approx(exact[when][metric], rel=1e-7)
        assert found[when]["ece"] == pytest.approx(exact[when]["ece"], abs=5e-3)
    assert found["n_samples"] == 900
    table = shell.nishimori("eval s.npz", place=place)
    assert (table.code, table.err) == (0, "")
    assert "before" in table.out


def test_a_picture_is_drawn_from_a_sketch(place):
    shell.nishimori("sketch t.npz -o s.npz", place=place)
    assert shell.nishimori("eval s.npz --plot r.png", place=place).err == "Wrote r.png\n"
    assert (place / "r.png").stat().st_size > 1000


def test_what_rows_are_comes_with_the_sketch(place):
    np.savez(place / "p.npz", probabilities=reference.softmax(LOGITS), labels=np.array(NAMES)[LABELS])
    options = "--input probabilities --classes ant,bee,cat,dog --floor 1e-6"
    assert shell.nishimori(f"sketch p.npz -o s.npz {options}", place=place).code == 0
    assert shell.nishimori("fit s.npz -o c.json", place=place).code == 0
    fitted = nishimori.load(place / "c.json")
    assert (fitted.input, list(fitted.classes), fitted.floor) == ("probabilities", NAMES, 1e-6)
    assert shell.nishimori("apply c.json p.npz -o out.npz", place=place).code == 0


def test_a_sketch_of_probabilities_without_a_floor_is_told_how_it_is_typed(place):
    np.savez(place / "p.npz", probabilities=reference.softmax(LOGITS), labels=LABELS)
    ended = shell.nishimori("sketch p.npz -o s.npz --input probabilities", place=place)
    assert ended.err == (
        "error: --floor must be a number or none for a sketch of probabilities, got auto: sums are made once, for one floor. "
        "Choose it on some of the rows: nishimori fit --input probabilities shows the floor that it has chosen.\n"
    )
    assert shell.nishimori("sketch p.npz -o s.npz --input probabilities --floor none", place=place).code == 0


def test_machines_are_told_what_was_written(place):
    ended = shell.nishimori("sketch t.npz -o s.npz --temperatures 0.5,8 --json", place=place)
    assert json.loads(ended.out) == {
        "n_samples": 900,
        "n_parts": 1,
        "n_classes": 4,
        "temperatures": [0.5, 8.0],
        "input": "logits",
        "floor": None,
        "classes": None,
        "file": "s.npz",
        "library_version": nishimori.__version__,
        "warnings": [],
    }


def test_a_wider_range_finds_what_the_usual_one_does_not(place):
    np.savez(place / "hot.npz", logits=40 * LOGITS, labels=LABELS)
    shell.nishimori("sketch hot.npz -o s.npz", place=place)
    ended = shell.nishimori("fit s.npz -o c.json", place=place)
    assert ended.code == 1
    assert ended.err == (
        "error: The temperature must lie in the range of the sketch, got one above 22.63. Make the sketch with a wider range, "
        "such as --temperatures 0.044,230.\n"
    )
    shell.nishimori("sketch hot.npz -o wide.npz --temperatures 0.1,1000", place=place)
    assert shell.nishimori("fit wide.npz -o c.json --method ec", place=place).code == 0
    assert nishimori.load(place / "c.json").temperature_ == pytest.approx(40 * T, rel=1e-8)


def bad(place, name, row):
    logits = LOGITS.copy()
    logits[row, 2] = np.nan
    np.savez(place / f"{name}.npz", logits=logits, labels=LABELS)
    pd.DataFrame(logits, columns=["0", "1", "2", "3"]).assign(labels=LABELS).to_csv(
        place / f"{name}.csv", index=False, na_rep="nan"
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "sketch bad.npz -o s.npz",
            "bad.npz: The scores must not contain NaN or +inf, got nan in row 777, column 2 (counted from 0)",
        ),
        ("sketch bad.csv -o s.npz", "bad.csv, line 779, column '2': got 'nan' for a score. Fill it in, or drop the row."),
        ("sketch t.npz three.npz -o s.npz", "three.npz: The scores must have 4 classes, like all rows before, got 3."),
        (
            "sketch short.npz -o s.npz",
            "short.npz: The labels in 'labels' (--labels) must be one label per sample, shape (900,), got shape (10,).",
        ),
        ("sketch t.npz -o s.csv", "-o must be a file that ends in .npz, got s.csv."),
        ("sketch t.npz -o t.npz --force", "t.npz is also an input file. Choose another name."),
        ("sketch t.npz -o old.npz", "old.npz exists. Pass --force to replace it."),
        (
            "sketch old.npz -o s.npz",
            "old.npz is a sketch, not a file of scores. fit, eval, gate, compare, report, diff and merge read it in place of",
        ),
        ("sketch none.npz -o s.npz", "There is no file none.npz."),
        ("sketch z.npy -o s.npz", "Pass two .npy files: scores first, labels second, and no others."),
        ("sketch t.npz --columns a,b,c,d -o s.npz", "--columns is for tables such as .csv, but t.npz holds arrays."),
        (
            "sketch t.npz -o s.npz --temperatures 1",
            "--temperatures must be the lowest and the highest temperature that a fit can",
        ),
        (
            "sketch t.npz -o s.npz --temperatures a,b",
            "--temperatures must be the lowest and the highest temperature that a fit can",
        ),
        ("merge old.npz t.npz -o s.npz", "t.npz is a file of scores, not a sketch."),
        (
            "merge old.npz other.npz -o s.npz",
            "other.npz cannot be merged with the files before it. Sketches merge only if they have the",
        ),
        ("merge old.npz -o old.npz", "old.npz exists. Pass --force to replace it."),
        (
            "fit old.npz other.npz -o c.json",
            "Pass one sketch. To use several, merge them first: nishimori merge a.npz b.npz -o all",
        ),
        (
            "fit old.npz -o c.json --input probabilities",
            "old.npz is a sketch, which already describes its rows. Leave out options",
        ),
        ("eval old.npz --labels y", "old.npz is a sketch, which already describes its rows. Leave out options"),
        ("eval old.npz --n-bins 10", "--n-bins must be 15 and --strategy 'uniform' for a sketch, got 10 and 'uniform'."),
        (
            "fit old.npz -o c.json --top-n 2",
            "--top-n must be 1 for a sketch, which counts right answers of the top class, got 2.",
        ),
        ("eval old.npz --calibration c3.json", "`sketch` must have 3 classes, as the calibrator has, got 4."),
        (
            "eval old.npz --calibration p.json",
            "--input must be probabilities, as in the calibration, got logits. Leave it out.",
        ),
    ],
)
def test_a_mistake_is_one_line_that_names_the_file(place, line, message):
    bad(place, "bad", 777)
    Sketch().update(LOGITS, LABELS).save(place / "old.npz")
    Sketch(temperatures=(0.1, 10)).update(LOGITS, LABELS).save(place / "other.npz")
    np.savez(place / "three.npz", logits=LOGITS[:, :3], labels=LABELS % 3)
    np.savez(place / "short.npz", logits=LOGITS, labels=LABELS[:10])
    nishimori.TemperatureScaling().fit(LOGITS[:, :3], (LOGITS[:, :3] / 2).argmax(axis=1) * (LABELS % 2)).save(place / "c3.json")
    nishimori.from_temperature(2.0, input="probabilities").save(place / "p.json")
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    ended = shell.nishimori(line, place=place)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.splitlines()[-1].startswith(f"error: {message}")
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before


def test_force_replaces_a_sketch(place):
    Sketch().save(place / "s.npz")
    assert shell.nishimori("sketch t.npz -o s.npz --force", place=place).code == 0
    assert Sketch.load(place / "s.npz").n_samples == 900
