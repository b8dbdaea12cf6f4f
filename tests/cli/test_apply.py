"""`apply` on tables and arrays: what is kept, where probabilities go, and that files of any size take little memory."""

import json

import numpy as np
import pytest
import reference
import shell
from optional import pd, pyarrow
from own_process import warm

import nishimori
from nishimori._files.tables import columnar, lines
from nishimori._files.tables.files import ENDINGS, open_table
from nishimori._files.tables.new_table import new_table

LOGITS, LABELS = reference.drawn(60, 3)
NAMES = ["cat", "dog", "eel"]


@pytest.fixture
def place(tmp_path):
    """A folder with a calibration of the columns z_*, fitted to a table, and that table as .csv and as .parquet."""
    frame = pd.DataFrame(LOGITS, columns=[f"z_{name}" for name in NAMES])
    frame.insert(0, "id", [f"{k:03d}" for k in range(60)])
    frame.insert(2, "split", np.arange(60) % 2)
    frame["target"] = np.array(NAMES)[LABELS]
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    options = "--columns z_* --labels target --classes cat,dog,eel"
    assert shell.nishimori(f"fit t.csv -o c.json {options}", place=tmp_path).code == 0
    return tmp_path


def expected(place):
    return reference.softmax(LOGITS, nishimori.load(place / "c.json").temperature_)


def test_the_calibration_remembers_columns_classes_and_labels(place):
    ended = shell.nishimori("eval t.parquet --calibration c.json --json", place=place)
    assert ended.code == 0
    told = json.loads(ended.out)
    assert (told["columns"], told["classes"], told["label_column"]) == (["z_cat", "z_dog", "z_eel"], NAMES, "target")
    assert told["before"]["error"] == pytest.approx(np.mean(LOGITS.argmax(axis=1) != LABELS))


@pytest.mark.parametrize("source", ["t.csv", "t.parquet"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_probabilities_take_the_place_of_scores_and_other_columns_stay(place, source, ending, monkeypatch):
    monkeypatch.setattr(lines, "LARGEST_CHUNK", 600)  # several blocks
    monkeypatch.setattr(columnar, "_CELLS", 60)
    ended = shell.nishimori(f"apply c.json {source} -o p{ending}", place=place)
    assert ended == (0, "", f"Wrote p{ending}\n")
    with open_table(place / f"p{ending}") as table:
        assert table.names == ["id", "cat", "split", "dog", "eel", "target"]
        blocks = list(table.blocks())
        np.testing.assert_allclose(np.concatenate([block.numbers([1, 3, 4]) for block in blocks]), expected(place), rtol=1e-14)
        kept = [[value for block in blocks for value in block.values(k)] for k in (0, 2, 5)]
    typed = source == "t.parquet" and ending not in (".csv", ".tsv", ".csv.gz", ".tsv.gz")
    split = [k % 2 if typed else str(k % 2) for k in range(60)]
    assert kept == [[f"{k:03d}" for k in range(60)], split, np.array(NAMES)[LABELS].tolist()]


@pytest.mark.parametrize("ending", [".npz", ".npy", ".pt", ".safetensors"])
def test_an_array_cannot_keep_columns_and_a_note_says_so(place, ending):
    ended = shell.nishimori(f"apply c.json t.csv -o p{ending}", place=place)
    assert (ended.code, ended.err) == (
        0,
        f"p{ending} holds arrays, so the other columns are not kept: 'id', 'split', 'target'\nWrote p{ending}\n",
    )
    nishimori.from_temperature(1.0, input="probabilities").save(place / "d.json")
    assert shell.nishimori(f"apply d.json p{ending} -o q.npy", place=place).code == 0
    np.testing.assert_allclose(np.load(place / "q.npy"), expected(place), rtol=1e-14)


def test_apply_tells_machines_what_it_wrote(place):
    ended = shell.nishimori("apply c.json t.csv -o p.csv --json", place=place)
    temperature = nishimori.load(place / "c.json").temperature_
    assert json.loads(ended.out) == {
        "file": "p.csv",
        "calibration": "c.json",
        "n_samples": 60,
        "n_classes": 3,
        "temperature": temperature,
        "prevalence": None,
        "columns_kept": ["id", "split", "target"],
        "probability_columns": NAMES,
        "warnings": [],
    }
    assert ended.out.count("\n") == 1
    told = json.loads(shell.nishimori("apply c.json t.csv -o p.npz --json", place=place).out)
    assert (told["columns_kept"], told["probability_columns"]) == ([], None)


def test_marks_of_text_are_for_input_and_output(place):
    text = (place / "t.csv").read_text().replace(",", ";").replace(".", ",")
    (place / "u.csv").write_text(text)
    ended = shell.nishimori("apply c.json u.csv -o p.csv", place=place)
    assert ended.code == 1
    assert ended.err.endswith("the delimiter is ','. Pass --delimiter ';'.\n")
    ended = shell.nishimori("apply c.json u.csv -o p.csv --delimiter ;", place=place)
    assert ended.code == 1
    assert ended.err.endswith("is not a number. The decimal mark is '.'; pass --decimal ','.\n")
    for name in ("p.csv", "p.tsv"):
        assert shell.nishimori(f"apply c.json u.csv -o {name} --delimiter ; --decimal ,", place=place).code == 0
        back = pd.read_csv(place / name, sep=";" if name == "p.csv" else "\t", decimal=",")
        np.testing.assert_allclose(back[NAMES], expected(place), rtol=1e-14)
    np.savez(place / "z.npz", logits=LOGITS)
    assert shell.nishimori("apply c.json z.npz -o q.csv --delimiter ;", place=place).code == 0
    assert (place / "q.csv").read_text().startswith("cat;dog;eel\n")
    assert shell.nishimori("apply c.json z.npz -o q.tsv --decimal ,", place=place).code == 0
    assert "," in (place / "q.tsv").read_text()
    ended = shell.nishimori("apply c.json z.npz -o q.npz --delimiter ;", place=place)
    assert ended == (1, "", "error: --delimiter and --decimal are for .csv and .tsv files. Leave them out.\n")


def test_one_column_of_lists_becomes_one_column_per_class(place):
    frame = pd.DataFrame({"id": np.arange(60), "logits": list(LOGITS), "note": "x"})
    frame.to_parquet(place / "lists.parquet")
    nishimori.from_temperature(2.0).save(place / "d.json")
    assert shell.nishimori("apply d.json lists.parquet -o p.parquet", place=place).code == 0
    back = pyarrow.parquet.read_table(place / "p.parquet").to_pandas()
    assert back.columns.tolist() == ["id", "0", "1", "2", "note"]
    np.testing.assert_allclose(back[["0", "1", "2"]], reference.softmax(LOGITS, 2.0), rtol=1e-14)


def test_one_score_becomes_two_probabilities(place):
    nishimori.from_temperature(2.0).save(place / "d.json")
    assert shell.nishimori("apply d.json t.csv -o p.csv --scores z_cat", place=place).code == 0
    back = pd.read_csv(place / "p.csv")
    assert back.columns.tolist() == ["id", "0", "1", "split", "z_dog", "z_eel", "target"]
    np.testing.assert_allclose(back["1"], 1 / (1 + np.exp(-LOGITS[:, 0] / 2)), rtol=1e-12)


def test_single_precision_stays_single(place):
    frame = pd.DataFrame(LOGITS.astype(np.float32), columns=["0", "1", "2"])
    frame.to_parquet(place / "single.parquet")
    nishimori.from_temperature(2.0).save(place / "d.json")
    assert shell.nishimori("apply d.json single.parquet -o p.parquet", place=place).code == 0
    assert {str(field.type) for field in pyarrow.parquet.read_schema(place / "p.parquet")} == {"float"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("apply c.json t.csv -o t.csv --force", "t.csv is also an input file. Choose another name."),
        ("apply c.json t.csv -o p.txt", "-o must be a file that ends in .npz, .npy, "),
        ("apply c.json nowhere.csv -o nowhere/p.csv", "There is no file nowhere.csv."),
        (
            "apply c.json clash.csv -o p.csv",
            "clash.csv has a column 'cat' that is not a score, but a probability would get the ",
        ),
        ("apply c.json header.csv -o p.csv", "header.csv has column names, but no rows."),
        ("apply c.json broken.csv -o p.csv", "broken.csv, line 62: 1 field where the header has 6; the delimiter is ','."),
        ("apply c.json missing.csv -o p.csv", "missing.csv, line 5, column 'z_dog': got 'nan' for a score."),
        ("apply c.json infinite.csv -o p.csv", "The scores must not contain NaN or +inf, got inf in line 5, column 'z_dog'."),
        (
            "apply d.json t.csv -o p.csv",
            "t.csv does not say which columns are scores: 'id', 'z_cat', 'split', 'z_dog', 'z_eel', 'target'. If the scores "
            "are all columns except 'id', 'split', 'target', pass --ignore id,split,target.",
        ),
        ("apply c.json t.csv -o p.csv --columns z_cat,z_cat,z_eel", "--columns must name each column once, got 'z_cat' from "),
        (
            "apply c.json t.csv -o p.csv --scores z_cat",
            "The calibration has 3 classes, but the file has one score per row, which",
        ),
        ("apply c.json p.npz -o q.npz --ignore id", "--ignore is for tables such as .csv, but p.npz holds arrays."),
        (
            "apply c.json p.npz -o q.npz",
            "p.npz has no array 'logits', only 'probabilities'. The calibration was fitted to logits:",
        ),
    ],
)
def test_a_refusal_is_one_line_and_leaves_no_file(place, line, message):
    text = (place / "t.csv").read_text()
    rows = text.splitlines()
    cells = rows[4].split(",")
    variants = {
        "clash": "\n".join(f"{row},{'cat' if k == 0 else k}" for k, row in enumerate(rows)),
        "header": rows[0] + "\n",
        "broken": text + "1\n",
        "missing": text.replace(cells[3], "nan"),
        "infinite": text.replace(cells[3], "inf"),
    }
    for name, content in variants.items():
        (place / f"{name}.csv").write_text(content)
    np.savez(place / "p.npz", probabilities=np.full((3, 3), 1 / 3))
    nishimori.from_temperature(2.0).save(place / "d.json")
    before = {path.name for path in place.iterdir()}
    code, out, err = shell.nishimori(line, place=place)
    assert (code, out) == (1, "")
    assert message in err
    assert err.count("\n") == 1
    assert {path.name for path in place.iterdir()} == before


@pytest.fixture(scope="module")
def measure():
    """Measures commands in processes that start with what all of them import."""
    with warm("nishimori.cli._app", "nishimori._calibrators.methods", "pandas") as measuring:
        yield measuring


@pytest.mark.parametrize("names", [("t.csv", "p.csv"), ("t.jsonl", "p.feather"), ("t.feather", "p.npz"), ("t.npz", "p.csv")])
def test_memory_does_not_grow_with_the_file(tmp_path, names, measure):
    """From 1.6 MB of numbers to 8 MB, of which a few copies would take 20 MB, and as Python's text 50 MB.

    Parquet has groups of rows of 64 MB, which all fit into: `tests/files/tables/test_new_table.py` measures larger files.
    """
    nishimori.from_temperature(2.0).save(tmp_path / "c.json")
    peaks = []
    for n_rows in (20_000, 100_000):
        rows = np.random.default_rng(0).normal(size=(n_rows, 10))
        source = tmp_path / f"{n_rows}{names[0]}"
        if names[0].endswith("npz"):
            np.savez(source, logits=rows)
        else:
            with new_table(source, [str(k) for k in range(10)], overwrite=False) as table:
                for start in range(0, n_rows, 10_000):
                    table.write(list(np.round(rows[start : start + 10_000], 2).T))
        peaks.append(
            measure("commands", commands=[["apply", tmp_path / "c.json", source, "-o", tmp_path / f"{n_rows}{names[1]}"]])
        )
    assert peaks[1] < peaks[0] + 20e6


@pytest.mark.parametrize("ending", ["csv", "npz"])
def test_the_calibration_remembers_one_column_or_array_of_binary_scores(tmp_path, ending):
    z, y = np.random.default_rng(0).normal(size=(2, 300))
    y = (2 * z + y > 0).astype(int)
    if ending == "csv":
        pd.DataFrame({"id": range(300), "margin": z, "truth": y}).to_csv(tmp_path / "t.csv", index=False)
    else:
        np.savez(tmp_path / "t.npz", margin=z, truth=y)
    assert shell.nishimori(f"fit t.{ending} -o c.json --scores margin --labels truth", place=tmp_path).code == 0
    assert shell.nishimori(f"eval t.{ending} --calibration c.json", place=tmp_path).code == 0
    ended = shell.nishimori(f"apply c.json t.{ending} -o p.npy", place=tmp_path)
    assert ended.code == 0, ended.err
    T = nishimori.load(tmp_path / "c.json").temperature_
    expected = reference.softmax(np.stack([np.zeros(300), z], axis=1), T)
    np.testing.assert_allclose(np.load(tmp_path / "p.npy"), expected, rtol=1e-9)


def test_probabilities_in_place_of_logits_are_a_warning(tmp_path):
    nishimori.from_temperature(2.0).save(tmp_path / "c.json")
    np.savez(tmp_path / "p.npz", logits=reference.softmax(reference.drawn(100, 3)[0]))
    ended = shell.nishimori("apply c.json p.npz -o q.npz --json", place=tmp_path)
    assert ended.code == 0
    (text,) = json.loads(ended.out)["warnings"]
    assert text == (
        "Each row of `scores` sums to 1, as probabilities do. If these are probabilities, fit again with --input "
        "probabilities; they are used as logits."
    )
    assert f"warning: {text}" in ended.err
