"""``apply`` as a filter: from standard input to standard output, in blocks."""

import json
import subprocess
import sys
from io import BytesIO

import numpy as np
import pytest
import reference
from optional import pd

import nishimori

RNG = np.random.default_rng(3)
LOGITS = RNG.normal(size=(4000, 5)).round(6)
FRAME = pd.DataFrame(LOGITS, columns=[f"z_{k}" for k in range(5)]).assign(id=[f"no. {i}, é" for i in range(4000)])
TEXTS = {
    "csv": FRAME.to_csv(index=False),
    "jsonl": FRAME.to_json(orient="records", lines=True, double_precision=15),
}
EXPECTED = reference.softmax(LOGITS / 2)


def run(folder, text, *words):
    nishimori.from_temperature(2.0).save(folder / "c.json", overwrite=True)
    line = [sys.executable, "-m", "nishimori", "apply", "c.json", *words, "--ignore", "id"]
    return subprocess.run(line, input=text.encode(), capture_output=True, cwd=folder, check=False)


def frame_of(content, kind):
    if kind == "jsonl":
        return pd.DataFrame([json.loads(line) for line in content.decode().splitlines()])
    return pd.read_csv(BytesIO(content))


@pytest.mark.parametrize("kind", TEXTS)
def test_standard_input_goes_to_standard_output_in_its_format(tmp_path, kind):
    ended = run(tmp_path, TEXTS[kind], "-", "-o", "-")
    assert (ended.returncode, ended.stderr) == (0, b"")
    found = frame_of(ended.stdout, kind)
    assert found["id"].tolist() == FRAME["id"].tolist()
    np.testing.assert_allclose(found.filter(like="z_"), EXPECTED, rtol=1e-12)


def test_each_of_them_goes_with_a_file(tmp_path):
    ended = run(tmp_path, TEXTS["csv"], "-", "-o", "p.jsonl")
    assert (ended.returncode, ended.stdout) == (0, b"")
    np.testing.assert_allclose(frame_of((tmp_path / "p.jsonl").read_bytes(), "jsonl").filter(like="z_"), EXPECTED, rtol=1e-12)
    (tmp_path / "t.tsv").write_text(FRAME.to_csv(index=False, sep="\t"))
    ended = run(tmp_path, "", "t.tsv", "-o", "-")
    assert ended.stdout.split(b"\r\n")[0] == b"\t".join(name.encode() for name in FRAME.columns)


def test_an_error_names_the_line_of_standard_input(tmp_path):
    lines = TEXTS["csv"].splitlines()
    lines[3000] = lines[3000].replace(",", ",x", 1)
    ended = run(tmp_path, "\n".join(lines), "-", "-o", "p.csv")
    assert ended.returncode == 1
    assert b"error: standard input, line 3001, column 'z_1'" in ended.stderr
    assert not (tmp_path / "p.csv").exists()


def test_a_reader_that_has_enough_ends_it_quietly(tmp_path):
    nishimori.from_temperature(2.0).save(tmp_path / "c.json")
    (tmp_path / "t.csv").write_text(TEXTS["csv"] + 30 * TEXTS["csv"].partition("\n")[2])
    line = [sys.executable, "-m", "nishimori", "apply", "c.json", "t.csv", "-o", "-", "--ignore", "id"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as process:
        assert process.stdout.readline().startswith(b"z_0,")
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode not in (0, 1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-", "-o", "p.npz"], b"p.npz would hold arrays, whose length must be known first."),
        (["-", "t.csv", "-o", "p.csv"], b"Standard input, which is -, must be the only file."),
        (["-", "-o", "-", "--json"], b"--json and -o - would both write to standard output."),
        (["t.parquet", "-o", "-"], b"Standard output is text, in the format of the input, but t.parquet is not text."),
    ],
)
def test_what_cannot_be_streamed_is_refused(tmp_path, words, message):
    (tmp_path / "t.csv").write_text(TEXTS["csv"])
    FRAME.to_parquet(tmp_path / "t.parquet")
    ended = run(tmp_path, TEXTS["csv"], *words)
    assert (ended.returncode, ended.stdout) == (1, b"")
    assert message in ended.stderr
