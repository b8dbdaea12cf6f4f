"""Arrays outside the memory: .npy files, memory maps, arrays in chunks; how much of them is read, and what is refused."""

import sys

import numpy as np
import pytest
import reference
from optional import zarr
from own_process import measure

import nishimori
from nishimori import ExpectationConsistency
from nishimori._files.file_rows import npy_scores
from nishimori._rows.stored_rows import Chunked, Mapped
from nishimori.errors import FormatError, InputError

LOGITS, LABELS = reference.drawn(900, 5)
T = reference.ec_temperature(LOGITS, LABELS)


@pytest.fixture
def path(tmp_path):
    np.save(tmp_path / "logits.npy", LOGITS)
    np.save(tmp_path / "labels.npy", LABELS)
    return tmp_path / "logits.npy"


@pytest.fixture
def small_pieces(monkeypatch):
    """Blocks of a hundred rows, and pieces of two blocks."""
    monkeypatch.setattr("nishimori._support.arrays._HOST_BLOCK", 500)
    monkeypatch.setattr("nishimori._rows.pieces._NUMBERS", 1000)


def in_chunks(folder, logits=LOGITS, chunk=64):
    stored = zarr.create_array(
        store=str(folder / "z.zarr"), shape=logits.shape, chunks=(chunk, *logits.shape[1:]), dtype=logits.dtype
    )
    stored[:] = logits
    return stored


class Sliced:
    """What h5py's data sets have and Zarr's arrays have too."""

    def __init__(self, array, chunks):
        self.shape, self.dtype, self.chunks, self._array, self.asked = array.shape, array.dtype, chunks, array, []

    def __getitem__(self, rows):
        self.asked.append((rows.start, rows.stop))
        return self._array[rows]


def test_what_lies_outside_the_memory_is_taken_by_every_function(path, tmp_path):
    for given in (
        path,
        str(path),
        np.load(path, mmap_mode="r"),
        in_chunks(tmp_path),
        Sliced(LOGITS, (100, 5)),
        Sliced(LOGITS, None),
    ):
        assert ExpectationConsistency().fit(given, LABELS).temperature_ == pytest.approx(T, rel=1e-8)
        assert nishimori.temperatures(given, LABELS).ec == pytest.approx(T, rel=1e-8)
        assert nishimori.evaluate(given, LABELS).nll == pytest.approx(reference.nll(LOGITS, LABELS), rel=1e-12)


def test_labels_and_weights_may_be_files_too(path):
    weights = np.random.default_rng(0).integers(0, 3, 900)
    np.save(path.with_name("weights.npy"), weights)
    found = nishimori.temperatures(path, path.with_name("labels.npy"), sample_weight=path.with_name("weights.npy"))
    assert found.ec == pytest.approx(reference.ec_temperature(LOGITS, LABELS, weights), rel=1e-8)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("kind", ["file", "map"])
def test_a_file_gives_the_digits_of_the_array(path, kind):
    given = path if kind == "file" else np.load(path, mmap_mode="r")
    stored, array = nishimori.evaluate(given, LABELS), nishimori.evaluate(LOGITS, LABELS)
    # Sums of blocks are added piece by piece, so the last digit may differ.
    assert (stored.nll, stored.brier, stored.ece) == pytest.approx((array.nll, array.brier, array.ece), rel=1e-14)


@pytest.mark.parametrize("dtype", [">f4", "<f2", "int16", "longdouble"])
def test_any_dtype_of_numbers_is_read(tmp_path, dtype):
    rows = (10 * LOGITS).astype(dtype)
    np.save(tmp_path / "z.npy", rows)
    found = nishimori.temperatures(tmp_path / "z.npy", LABELS)
    assert found.ec == pytest.approx(reference.ec_temperature(rows.astype(float), LABELS), rel=1e-8)


def test_rows_have_the_byte_order_of_the_machine(tmp_path):
    np.save(tmp_path / "z.npy", LOGITS.astype(np.dtype(float).newbyteorder()))
    assert nishimori.rows(tmp_path / "z.npy", LABELS).first().scores.array.dtype.isnative


def test_flat_scores_are_those_of_the_positive_class(tmp_path):
    z = LOGITS[:, 1] - LOGITS[:, 0]
    labels = (z / 2 + np.random.default_rng(0).logistic(size=900) > 0).astype(int)
    np.save(tmp_path / "z.npy", z)
    stored = [tmp_path / "z.npy", in_chunks(tmp_path, z, 100)]
    expected = nishimori.temperatures(z, labels).ec
    assert [nishimori.temperatures(each, labels).ec for each in stored] == pytest.approx([expected] * 2, rel=1e-10)


@pytest.mark.usefixtures("small_pieces")
def test_rows_of_errors_are_counted_from_the_start_of_the_file(tmp_path):
    logits, labels = LOGITS.copy(), LABELS.copy()
    logits[617, 2], labels[701] = np.nan, 9
    np.save(tmp_path / "z.npy", logits)
    with pytest.raises(
        InputError, match=r"z\.npy: `logits` must not contain NaN .*, got nan in row 617, column 2 \(counted from"
    ):
        nishimori.evaluate(tmp_path / "z.npy", LABELS)
    with pytest.raises(InputError, match=r"^`logits` must not contain NaN or \+inf, got nan in row 617, column 2\."):
        nishimori.temperatures(in_chunks(tmp_path, logits, 50), LABELS)
    with pytest.raises(InputError, match=r"z\.npy: `labels` must be from 0 to 4, got 9 in row 701 \(counted from 0\)\."):
        nishimori.evaluate(tmp_path / "z.npy", labels)
    weights = np.ones(900)
    weights[[3, 617]] = 0
    assert nishimori.evaluate(tmp_path / "z.npy", LABELS, sample_weight=weights).n_samples == 898


@pytest.mark.usefixtures("small_pieces")
def test_chunks_are_read_whole_and_once_per_reading():
    data = Sliced(LOGITS, (64, 5))
    nishimori.metrics.brier(nishimori.rows(data, LABELS))
    assert data.asked == [(start, start + 192) for start in range(0, 900, 192)]


@pytest.mark.parametrize("stored", [Mapped(LOGITS), Chunked(Sliced(LOGITS, (7, 5)))], ids=["rows", "chunks"])
def test_a_sample_is_some_of_the_rows_and_always_the_same(stored):
    for size in (16, 56, 300):
        found = stored.random_rows(size)
        if found is None:
            assert (size, type(stored)) == (300, Chunked)
            continue
        index, rows = found
        np.testing.assert_array_equal(rows, LOGITS[index])
        assert len(np.unique(index)) == len(index)
        assert size <= len(index) < size + 16
        np.testing.assert_array_equal(stored.random_rows(size)[0], index)


def test_a_sample_comes_from_all_parts_of_the_file():
    index, _ = Mapped(np.zeros((100_000, 2))).random_rows(5000)
    assert np.histogram(index, bins=8, range=(0, 100_000))[0].min() > 200


def test_a_sample_of_few_chunks_would_be_a_reading():
    assert Chunked(Sliced(LOGITS, (100, 5))).random_rows(50) is None


def cut(path, n_bytes):
    path.write_bytes(path.read_bytes()[:-n_bytes])


def test_a_truncated_file_is_named(path):
    cut(path, 1)
    with pytest.raises(FormatError, match=r"logits\.npy is truncated or damaged: .*Save it again with NumPy\.$"):
        nishimori.temperatures(path, LABELS)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"\x93NUMPY", "is not a plain NumPy array, or is damaged"),
        (b"PK\x03\x04", r"is an archive of arrays. Rename it to logits\.npz"),
        (b"\x93NUMPY\x01\x00\x02\x00{}", "is not a plain NumPy array, or is damaged"),
    ],
)
def test_a_damaged_file_is_named(path, content, said):
    path.write_bytes(content)
    with pytest.raises(FormatError, match=rf"logits\.npy {said}"):
        nishimori.temperatures(path, LABELS)


def test_pickled_objects_are_never_loaded(path):
    np.save(path, np.array([["a", 1]] * 900, dtype=object), allow_pickle=True)
    with pytest.raises(FormatError, match=r"logits\.npy holds pickled Python objects, which are never loaded"):
        nishimori.temperatures(path, LABELS)


def test_a_file_that_changes_between_readings_is_refused(path):
    data = nishimori.rows(path, LABELS)
    np.save(path, 2 * LOGITS[:-1])
    with pytest.raises(FormatError, match=r"logits\.npy has changed since it was first read\. Start again when it is complete"):
        nishimori.evaluate(data)


def test_a_file_that_shrinks_while_it_is_read_is_refused(path):
    file = npy_scores(path)
    file.rows(0, 10)
    cut(path, 8 * 5 * 100)
    with pytest.raises(FormatError, match=r"logits\.npy has changed since it was first read\."):
        file.rows(750, 900)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda z: z.reshape(9, 5, 100), "`labels` must be one label per sample, shape (9, 5), got shape (900,)."),
        (
            lambda z: z[:, :1],
            "`logits` must have shape (n_samples, n_classes), or (n_samples,) for a binary score, one column per",
        ),
        (lambda z: z + 1j, "`logits` must be real, got complex128."),
        (lambda z: z.astype("S8"), "`logits` must hold numbers, got text."),
    ],
)
def test_arrays_that_cannot_be_scores_are_refused_as_in_memory(path, change, message):
    np.save(path, change(LOGITS))
    with pytest.raises(InputError) as caught:
        nishimori.temperatures(path, LABELS)
    assert f"logits.npy: {message}" in str(caught.value)


def test_a_path_is_that_of_a_file_of_a_known_kind(tmp_path):
    (tmp_path / "val.txt").touch()
    with pytest.raises(InputError, match=r"val\.txt has an unknown ending\. Use one of \.npz, \.npy, \.pt"):
        nishimori.temperatures(tmp_path / "val.txt", LABELS)
    with pytest.raises(FileNotFoundError, match=r"There is no file nowhere\.npy"):
        nishimori.temperatures("nowhere.npy", LABELS)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_private_memory_does_not_grow_with_the_file(tmp_path):
    """From 16 MB to 160 MB of single precision."""
    rng, peaks = np.random.default_rng(0), []
    for n_rows in (40_000, 400_000):
        logits = 3 * rng.standard_normal((n_rows, 100), np.float32)
        labels = rng.integers(0, 100, n_rows)
        files = tmp_path / f"{n_rows}.npy", tmp_path / "labels.npy"
        np.save(files[0], logits)
        np.save(files[1], labels)
        peaks.append(measure("evaluation_of_files", logits=files[0], labels=files[1]))
    assert peaks[1] < peaks[0] + 40e6
