"""Several files, folders and patterns are one data set, in the order of their names; errors name the file."""

import json

import numpy as np
import pytest
import reference
import shell
from optional import pd

RNG = np.random.default_rng(5)
LOGITS = 3 * RNG.normal(size=(900, 4))
LABELS = (LOGITS / 1.7 + RNG.gumbel(size=LOGITS.shape)).argmax(axis=1)
FRAME = pd.DataFrame(LOGITS, columns=["z_0", "z_1", "z_2", "z_3"]).assign(id=np.arange(900), labels=LABELS)
CUTS = [slice(0, 300), slice(300, 310), slice(310, 900)]
WRITERS = {
    "csv": lambda frame, path: frame.to_csv(path, index=False),
    "csv.gz": lambda frame, path: frame.to_csv(path, index=False),
    "tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "jsonl": lambda frame, path: frame.to_json(path, orient="records", lines=True, double_precision=15),
    "parquet": lambda frame, path: frame.to_parquet(path, index=False),
    "feather": lambda frame, path: frame.reset_index(drop=True).to_feather(path),
    "npz": lambda frame, path: np.savez(path, logits=frame.filter(like="z_").to_numpy(), labels=frame["labels"].to_numpy()),
}


def write_shards(folder, kind, frame=FRAME):
    (folder / "parts").mkdir()
    for number, rows in enumerate(CUTS):
        WRITERS[kind](frame[rows], folder / "parts" / f"part-{number}.{kind}")


def fitted(folder, files, *options):
    ended = shell.exactly("fit", *files, "--method", "ec", "-o", "c.json", "--json", "--force", *options, place=folder)
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


@pytest.mark.parametrize("kind", WRITERS)
def test_files_and_patterns_are_one_data_set(tmp_path, kind):
    write_shards(tmp_path, kind)
    ignored = [] if kind == "npz" else ["--ignore", "id"]
    for files in ([f"parts/part-{i}.{kind}" for i in range(3)], [f"parts/*.{kind}"]):
        found = fitted(tmp_path, files, *ignored)
        assert found["n_samples"] == 900
        assert found["temperature"] == pytest.approx(reference.ec_temperature(LOGITS, LABELS), rel=1e-8)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_folder_is_one_data_set(tmp_path, kind):
    write_shards(tmp_path, kind)
    (tmp_path / "parts" / "_log.csv").write_text("not,a,part\n")
    ended = shell.exactly("eval", "parts", "--ignore", "id", "--json", place=tmp_path)
    assert json.loads(ended.out)["before"]["nll"] == pytest.approx(reference.nll(LOGITS, LABELS), rel=1e-9)


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet"])
def test_apply_writes_the_rows_of_all_files_to_one(tmp_path, kind):
    write_shards(tmp_path, kind)
    fitted(tmp_path, ["parts"], "--ignore", "id")
    temperature = json.loads((tmp_path / "c.json").read_text())["map"]["parameters"]["temperature"]
    for files in (["parts"], [f"parts/part-*.{kind}"]):
        ended = shell.exactly("apply", "c.json", *files, "-o", "p.csv", "--force", place=tmp_path)
        assert ended.code == 0, ended.err
        found = pd.read_csv(tmp_path / "p.csv")
        assert found["id"].tolist() == list(range(900))
        np.testing.assert_allclose(found.filter(like="z_"), reference.softmax(LOGITS / temperature), rtol=1e-9)


def test_a_sketch_of_a_pattern_has_the_rows_of_all_files(tmp_path):
    write_shards(tmp_path, "csv")
    ended = shell.exactly("sketch", "parts/*.csv", "--ignore", "id", "-o", "s.npz", "--json", place=tmp_path)
    assert json.loads(ended.out)["n_samples"] == 900


@pytest.mark.parametrize(
    ("kind", "place"),
    [("csv", "line 307, column 'z_2'"), ("jsonl", "line 306, column 'z_2'"), ("parquet", "row 305 (counted from 0), col")],
)
def test_an_error_names_the_file_and_the_place_in_it(tmp_path, kind, place):
    frame = FRAME.copy()
    frame.loc[615, "z_2"] = 12345.5 if kind == "jsonl" else np.inf
    write_shards(tmp_path, kind, frame)
    if kind == "jsonl":
        path = tmp_path / "parts" / "part-2.jsonl"
        path.write_text(path.read_text().replace('"z_2":12345.5', '"z_2":Infinity'))
    ended = shell.exactly("fit", "parts", "--ignore", "id", "-o", "c.json", place=tmp_path)
    assert ended.code == 1
    assert "parts/part-2." in ended.err
    assert place in ended.err
    assert not (tmp_path / "c.json").exists()


def test_other_columns_and_classes_are_refused_with_the_file(tmp_path):
    write_shards(tmp_path, "csv")
    WRITERS["csv"](FRAME.rename(columns={"z_3": "z_9"}), tmp_path / "parts" / "part-3.csv")
    ended = shell.exactly("eval", "parts", "--ignore", "id", place=tmp_path)
    assert "parts/part-3.csv must have the columns of parts/part-0.csv, got 'z_9' in place of 'z_3'." in ended.err
    write_wide = FRAME.drop(columns="z_3")
    WRITERS["npz"](FRAME, tmp_path / "a.npz")
    WRITERS["npz"](write_wide, tmp_path / "b.npz")
    ended = shell.exactly("eval", "a.npz", "b.npz", place=tmp_path)
    assert "b.npz must have scores of the same shape as a.npz, ('any', 4), got ('any', 3)." in ended.err


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            ["parts/part-0.csv", "parts/part-0.jsonl"],
            "part-0.jsonl is not a .csv file like parts/part-0.csv. Pass files of one kind.",
        ),
        (["parts/part-0.csv", "parts/*-0.csv"], "part-0.csv is named twice, so its rows would count twice."),
        (["parts/none-*.csv"], "No file matches parts/none-*.csv."),
        (["parts/part-0.csv", "a.npz"], "is not a .csv file"),
        (["a.npz", "z.npy"], "Pass two .npy files: scores first, labels second, and no others."),
        (["a.npz", "parts/part-0.csv"], "part-0.csv is a table, unlike the files before it."),
    ],
)
def test_files_that_do_not_go_together_are_refused(tmp_path, files, message):
    write_shards(tmp_path, "csv")
    WRITERS["jsonl"](FRAME, tmp_path / "parts" / "part-0.jsonl")
    WRITERS["npz"](FRAME, tmp_path / "a.npz")
    np.save(tmp_path / "z.npy", LOGITS)
    ended = shell.exactly("eval", *files, place=tmp_path)
    assert ended.code == 1
    assert message in " ".join(ended.err.split())


def test_files_without_rows_are_left_out_unless_all_are(tmp_path):
    write_shards(tmp_path, "csv", FRAME[:300])
    assert fitted(tmp_path, ["parts"], "--ignore", "id")["n_samples"] == 300
    (tmp_path / "parts" / "part-0.csv").unlink()
    assert "has no rows in any of its .csv files" in shell.exactly("eval", "parts", "--ignore", "id", place=tmp_path).err


def test_apply_never_writes_into_the_folder_that_it_reads(tmp_path):
    write_shards(tmp_path, "csv")
    fitted(tmp_path, ["parts"], "--ignore", "id")
    ended = shell.exactly("apply", "c.json", "parts", "-o", "parts/p.csv", place=tmp_path)
    assert "parts/p.csv would be in the folder of the scores. Choose another folder." in ended.err
