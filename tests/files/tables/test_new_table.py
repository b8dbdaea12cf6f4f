"""Tables that are written: digits of numbers, quotes, and groups of rows."""

import csv
import json

import numpy as np
import pytest
from optional import pa
from own_process import warm

import nishimori
from nishimori._files.tables import new_table as module
from nishimori._files.tables.new_table import new_table
from nishimori.errors import InputError

RNG = np.random.default_rng(0)
RANDOM = RNG.integers(0, 2**64, 100_000, dtype=np.uint64).view(np.float64)
NUMBERS = {
    "any bits": RANDOM[np.isfinite(RANDOM)],
    "subnormal numbers": RNG.integers(0, 2**52, 20_000, dtype=np.uint64).view(np.float64),
    "probabilities": np.exp(-40 * RNG.random(100_000)),
    "few digits": np.round(RNG.normal(size=50_000), 3),
    "powers of two": np.concatenate([s * 2.0 ** np.arange(-1074, 1024) for s in (1, -1, 1 - 2**-53, 1 + 2**-52)]),
    "powers of ten": np.array([float(f"{digit}e{power}") for power in range(-323, 309) for digit in (1, 5, 9)][:-2]),
    "whole numbers": np.concatenate([np.arange(-1000.0, 1000), 2.0**53 + np.arange(-500, 500), 10.0 ** np.arange(23)]),
    "ends": np.array([0.0, -0.0, 5e-324, 1.7976931348623157e308, 9999999999999998.0, 1e16, 1e-4, 9.999e-5, 0.1 + 0.2]),
}


def digits(text):
    """The digits of a number without its sign, its exponent and zeros at either end."""
    return text.lstrip("-").split("e")[0].replace(".", "").strip("0")


def written(folder, columns, ending=".csv", **options):
    """The lines of a file with these columns."""
    with new_table(folder / f"t{ending}", [str(k) for k in range(len(columns))], overwrite=True, **options) as table:
        table.write(columns)
    return (folder / f"t{ending}").read_text(encoding="utf-8").split("\n")[:-1]


@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_have_the_fewest_digits_that_are_read_as_the_same_number(tmp_path, kind, decimal):
    numbers = NUMBERS[kind]
    texts = [text.replace(decimal, ".") for text in written(tmp_path, [numbers], decimal=decimal, delimiter=";")[1:]]
    assert np.array([float(text) for text in texts]).tobytes() == numbers.tobytes()
    assert [digits(text) for text in texts] == [digits(repr(number)) for number in numbers.tolist()]


def test_numbers_of_single_precision_have_the_fewest_digits_of_that_precision(tmp_path):
    bits = RNG.integers(0, 2**32, 100_000, dtype=np.uint32).view(np.float32)
    numbers = bits[np.isfinite(bits)]
    texts = written(tmp_path, [numbers])[1:]
    assert np.array([float(text) for text in texts]).astype(np.float32).tobytes() == numbers.tobytes()
    assert [digits(text) for text in texts] == [digits(str(number)) for number in numbers]
    assert written(tmp_path, [np.float16([0.5, 2.0])])[1:] == ["0.5", "2"]
    assert written(tmp_path, [np.longdouble([0.1, 2.0])])[1:] == ["0.1", "2"]


def test_what_is_not_finite_is_read_again_from_json_lines(tmp_path):
    values = [0.5, np.nan, -np.inf]
    lines = written(tmp_path, [np.array(values)], ".jsonl")
    np.testing.assert_array_equal([json.loads(line)["0"] for line in lines], values)


@pytest.mark.parametrize("delimiter", [",", ";", "|", "\t", "^", "-", "]"])
@pytest.mark.parametrize("kind", [list, pa.array])
def test_text_is_in_quotes_only_where_it_must_be(tmp_path, delimiter, kind):
    texts = ["plain", "", "007", "é", "a;b", "a,b", "a|b", "a\tb", "a^b-c]d", 'say "no"', "two\nlines", "x\r"]
    for chosen in (texts, texts[:4]):
        name = tmp_path / "t.csv"
        with new_table(name, ["a", "b"], overwrite=True, delimiter=delimiter) as table:
            table.write([kind(chosen), np.arange(len(chosen))])
        with name.open(encoding="utf-8", newline="") as file:
            assert list(csv.reader(file, delimiter=delimiter))[1:] == [[text, str(k)] for k, text in enumerate(chosen)]
        assert name.read_bytes().count(b'"') == sum(
            2 + 2 * text.count('"') for text in chosen if any(mark in text for mark in ("\n", "\r", '"', delimiter))
        )


def test_parquet_has_groups_of_rows_of_a_size_and_not_one_per_block(tmp_path, monkeypatch):
    blocks = [[np.full(1000, float(k)), list(map(str, range(1000)))] for k in range(20)]
    for group, n_groups in ((2**26, 1), (50_000, 5)):
        monkeypatch.setattr(module, "GROUP", group)
        with new_table(tmp_path / "t.parquet", ["a", "b"], overwrite=True) as table:
            for block in blocks:
                table.write(block)
        stored = pa.parquet.ParquetFile(tmp_path / "t.parquet")
        assert stored.num_row_groups == n_groups
        assert stored.read()["a"].to_pylist() == np.repeat(np.arange(20.0), 1000).tolist()


@pytest.fixture(scope="module")
def measure():
    """Measures commands in processes that start with what all of them import."""
    with warm("nishimori.cli._app", "pyarrow.parquet", "pyarrow.compute") as measuring:
        yield measuring


def test_a_thousand_columns_take_less_than_300_mb(tmp_path, measure):
    nishimori.from_temperature(2.0).save(tmp_path / "c.json")
    np.save(tmp_path / "z.npy", np.random.default_rng(0).normal(size=(12_000, 1000)))
    command = ["apply", tmp_path / "c.json", tmp_path / "z.npy", "-o", tmp_path / "p.parquet"]
    assert measure("commands", commands=[command]) < 300e6
    stored = pa.parquet.read_metadata(tmp_path / "p.parquet")
    assert (stored.num_rows, stored.num_row_groups) == (12_000, 2)


def test_a_decimal_mark_that_also_separates_fields_is_refused_and_leaves_no_file(tmp_path):
    with pytest.raises(InputError, match=r"`decimal` must differ from the delimiter, ','\. Pass .*delimiter=';'"):
        written(tmp_path, [np.array([0.5])], decimal=",")
    assert list(tmp_path.iterdir()) == []
