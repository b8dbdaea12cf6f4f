"""Tokens of language models in memory, on disk, in batches and in sketches: the sums are those of the tokens that count."""

import numpy as np
import pytest
import reference
from optional import pd, torch, zarr
from own_process import measure
from token_cases import CLASSES, COUNTED, DOCUMENTS, FLAT, IGNORED, LABELS, LOGITS, SEQUENCES, TOKENS, TRUE, WEIGHTS

import nishimori
from nishimori import Sketch
from nishimori._files.file_rows import npy_scores
from nishimori._rows.stored_rows import Chunked
from nishimori._support.arrays import merge_leading, rows_at, rows_between
from nishimori.errors import InputError

T = reference.ec_temperature(FLAT, TRUE)
WEIGHTED = reference.ec_temperature(FLAT, TRUE, WEIGHTS[COUNTED])


@pytest.fixture
def small_pieces(monkeypatch):
    """Blocks of a hundred rows, and pieces of two blocks: neither ends with a sequence of 15 tokens."""
    monkeypatch.setattr("nishimori._support.arrays._HOST_BLOCK", 500)
    monkeypatch.setattr("nishimori._rows.pieces._NUMBERS", 1000)


def in_chunks(folder, *chunks):
    stored = zarr.create_array(store=str(folder / "z.zarr"), shape=LOGITS.shape, chunks=chunks, dtype=LOGITS.dtype)
    stored[:] = LOGITS
    return stored


def saved(folder, array, name="logits.npy"):
    np.save(folder / name, array)
    return folder / name


def batches(step=6):
    parts = [slice(start, start + step) for start in range(0, SEQUENCES, step)]
    return [(LOGITS[rows], LABELS[rows], WEIGHTS[rows]) for rows in parts]


STORED = {
    "array": lambda folder: LOGITS,
    "float32": lambda folder: np.nan_to_num(LOGITS, posinf=0.0).clip(-1e9, 1e9).astype(np.float32),
    "sliced": lambda folder: np.concatenate([LOGITS, LOGITS[:, :1]], axis=1)[:, :-1],
    "transposed": lambda folder: np.ascontiguousarray(LOGITS.transpose(1, 0, 2)).transpose(1, 0, 2),
    "four dimensions": lambda folder: LOGITS.reshape(SEQUENCES, 3, 5, CLASSES),
    "list": lambda folder: LOGITS.tolist(),
    "torch": lambda folder: torch.from_numpy(LOGITS),
    "torch, sliced": lambda folder: torch.from_numpy(np.concatenate([LOGITS, LOGITS[:, :1]], axis=1))[:, :-1],
    "file": lambda folder: saved(folder, LOGITS),
    "Fortran file": lambda folder: saved(folder, np.asfortranarray(LOGITS)),
    "map": lambda folder: np.load(saved(folder, LOGITS), mmap_mode="r"),
    "map, sliced": lambda folder: np.load(saved(folder, np.concatenate([LOGITS, LOGITS], axis=1)), mmap_mode="r")[:, :TOKENS],
    "chunks of sequences": lambda folder: in_chunks(folder, 8, TOKENS, CLASSES),
    "chunks of tokens": lambda folder: in_chunks(folder, 1, 4, CLASSES),
    "chunks of both": lambda folder: in_chunks(folder, 3, 4, 2),
}


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("kind", STORED)
def test_tokens_give_the_temperature_of_those_that_count(kind, tmp_path):
    given = STORED[kind](tmp_path)
    labels = LABELS.reshape(np.shape(given)[:-1]) if kind == "four dimensions" else LABELS
    weights = WEIGHTS.reshape(labels.shape)
    # Values of float32 are other logits, so T is another one.
    tolerance = 1e-5 if kind == "float32" else 1e-8
    data = nishimori.rows(given, labels, sample_weight=weights, progress=False, ignore_index=-100)
    assert nishimori.temperatures(data).ec == pytest.approx(WEIGHTED, rel=tolerance)
    assert nishimori.temperatures(data).n_samples == COUNTED.sum()
    assert nishimori.temperatures(given, labels, ignore_index=IGNORED).ec == pytest.approx(T, rel=tolerance)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("kind", ["array", "sliced", "file", "chunks of sequences"])
def test_shifted_labels_belong_to_the_position_before(kind, tmp_path):
    late = np.zeros_like(LABELS)
    late[:, 1:] = LABELS[:, :-1]
    chosen = COUNTED.copy()
    chosen[:, -1] = False
    found = nishimori.temperatures(
        nishimori.rows(STORED[kind](tmp_path), late, shift_labels=True, progress=False, ignore_index=-100)
    )
    assert found.ec == pytest.approx(reference.ec_temperature(LOGITS[chosen], LABELS[chosen]), rel=1e-8)


def test_labels_weights_and_documents_may_be_files(tmp_path):
    paths = {
        name: saved(tmp_path, array, f"{name}.npy")
        for name, array in {"logits": LOGITS, "labels": LABELS, "weights": WEIGHTS, "documents": DOCUMENTS}.items()
    }
    data = nishimori.rows(
        paths["logits"], paths["labels"], sample_weight=paths["weights"], clusters=paths["documents"], ignore_index=-100
    )
    card = nishimori.evaluate(data)
    heavy, documents = WEIGHTS[COUNTED], np.repeat(DOCUMENTS, TOKENS).reshape(LABELS.shape)[COUNTED]
    losses = -np.log(reference.softmax(FLAT)[np.arange(len(TRUE)), TRUE])
    assert card.nll == pytest.approx(np.average(losses, weights=heavy), rel=1e-12)
    assert card.nll_se == pytest.approx(reference.error_of_mean(losses, heavy, clusters=documents), rel=1e-10)


def test_sequences_longer_than_a_piece_are_read_chunk_by_chunk(monkeypatch, tmp_path):
    monkeypatch.setattr("nishimori._support.arrays._HOST_BLOCK", 40)
    monkeypatch.setattr("nishimori._support.arrays._FEWEST_HOST_ROWS", 1)
    monkeypatch.setattr("nishimori._rows.pieces._NUMBERS", 40)  # pieces of eight rows
    lengths = {(1, 4, CLASSES): {8, 7}, (1, TOKENS, CLASSES): {15}, (3, 4, 2): {45, 15}}
    for number, (chunks, expected) in enumerate(lengths.items()):
        (tmp_path / str(number)).mkdir()
        blocks = list(Chunked(in_chunks(tmp_path / str(number), *chunks)).blocks())
        assert {len(block) for block in blocks} == expected
        np.testing.assert_array_equal(np.concatenate(blocks), LOGITS.reshape(-1, CLASSES))


def test_a_stored_array_becomes_one_in_memory_with_its_shape(tmp_path):
    for stored in (npy_scores(saved(tmp_path, LOGITS)), Chunked(in_chunks(tmp_path, 1, 4, CLASSES))):
        np.testing.assert_array_equal(np.asarray(stored), LOGITS)


def test_an_error_names_the_position_in_a_stored_array(tmp_path):
    broken = np.where(COUNTED[..., None], LOGITS, 0.0)
    where = tuple(np.argwhere(COUNTED)[200])
    broken[where] = np.nan
    place = ", ".join(str(each) for each in where)
    for given in (broken, saved(tmp_path, broken), np.concatenate([broken, broken], axis=1)[:, :TOKENS]):
        with pytest.raises(InputError) as caught:
            nishimori.temperatures(given, LABELS, ignore_index=IGNORED)
        assert f"got nan in row ({place}), column 0." in str(caught.value)


@pytest.mark.parametrize("make", [batches, lambda: batches, lambda: lambda: iter(batches(7))], ids=["list", "list()", "iter"])
def test_batches_of_tokens_are_read(make):
    given = make()
    assert nishimori.temperatures(nishimori.rows(given, ignore_index=-100)).ec == pytest.approx(WEIGHTED, rel=1e-8)
    assert nishimori.temperatures(given, ignore_index=IGNORED).ec == pytest.approx(WEIGHTED, rel=1e-8)
    assert nishimori.temperatures(nishimori.rows(given, ignore_index=IGNORED)).n_samples == COUNTED.sum()


def test_a_batch_of_padding_does_not_count():
    padding = (np.full((2, TOKENS, CLASSES), np.nan), np.full((2, TOKENS), IGNORED))
    empty = (np.zeros((2, 0, CLASSES)), np.zeros((2, 0), dtype=int))
    given = [padding, *batches(), padding, empty]
    assert nishimori.temperatures(given, ignore_index=IGNORED).ec == pytest.approx(WEIGHTED, rel=1e-8)
    with pytest.raises(InputError, match=r"^The data must have at least one row of positive weight, got none\.$"):
        nishimori.temperatures([padding, padding], ignore_index=IGNORED)


def test_an_error_names_the_batch_and_the_position():
    given = batches()
    logits = given[2][0].copy()
    logits[1, 5] = np.nan
    labels = given[2][1].copy()
    labels[1, 5] = 0
    given[2] = (logits, labels)
    with pytest.raises(
        InputError, match=r"^Batch 2: `logits` must not contain NaN or \+inf, got nan in row \(1, 5\), column 0\."
    ):
        nishimori.temperatures(given, ignore_index=IGNORED)
    given[2] = (logits, labels[:, :3])
    with pytest.raises(
        InputError, match=r"^Batch 2: `labels` must be one label per sample, shape \(6, 15\), got shape \(6, 3\)"
    ):
        nishimori.temperatures(given, ignore_index=IGNORED)


def test_batches_of_a_causal_model_are_shifted_in_each_batch():
    late = np.zeros_like(LABELS)
    late[:, 1:] = LABELS[:, :-1]
    chosen = COUNTED.copy()
    chosen[:, -1] = False
    given = [(LOGITS[start : start + 6], late[start : start + 6]) for start in range(0, SEQUENCES, 6)]
    found = nishimori.temperatures(nishimori.rows(given, shift_labels=True, ignore_index=-100))
    assert found.n_samples == chosen.sum()
    assert found.ec == pytest.approx(reference.ec_temperature(LOGITS[chosen], LABELS[chosen]), rel=1e-8)


def test_a_table_leaves_out_labels_to_ignore(tmp_path):
    frame = pd.DataFrame({f"z_{k}": LOGITS.reshape(-1, CLASSES)[:, k] for k in range(CLASSES)}).replace([np.nan, np.inf], 0.0)
    frame["labels"] = LABELS.ravel()
    frame.to_csv(tmp_path / "tokens.csv", index=False)
    assert nishimori.temperatures(tmp_path / "tokens.csv", ignore_index=IGNORED).ec == pytest.approx(T, rel=1e-8)
    frame["labels"] = frame["labels"].map(lambda label: label if label == IGNORED else f"word{label}")
    frame.to_csv(tmp_path / "words.csv", index=False)
    words = [f"word{k}" for k in range(CLASSES)]
    found = nishimori.temperatures(tmp_path / "words.csv", classes=words, ignore_index=IGNORED)
    assert found.ec == pytest.approx(T, rel=1e-8)


def test_a_sketch_of_tokens_gives_their_temperature():
    sketch = Sketch()
    for logits, labels, weights in batches():
        sketch.update(logits, labels, weights, ignore_index=IGNORED)
    before = sketch.n_samples
    sketch.update(np.full((2, TOKENS, CLASSES), np.nan), np.full((2, TOKENS), IGNORED), ignore_index=IGNORED)
    assert sketch.n_samples == before == COUNTED.sum()
    assert nishimori.temperatures(sketch).ec == pytest.approx(WEIGHTED, rel=1e-6)


def test_a_sketch_takes_the_documents_of_sequences_or_of_tokens():
    tokens = np.repeat(DOCUMENTS, TOKENS).reshape(LABELS.shape)
    gaps = reference.softmax(FLAT, T).max(axis=1) - reference.right(FLAT, TRUE)
    slope = (reference.ec_gap(FLAT, TRUE, T * 1.001) - reference.ec_gap(FLAT, TRUE, T / 1.001)) / (2 * np.log(1.001))
    expected = T * reference.error_of_mean(gaps, clusters=tokens[COUNTED]) / abs(slope)
    for documents in (DOCUMENTS, tokens):
        sketch = Sketch()
        for start in range(0, SEQUENCES, 6):  # three whole documents
            part = slice(start, start + 6)
            sketch.update(LOGITS[part], LABELS[part], clusters=documents[part], ignore_index=IGNORED)
        found = nishimori.temperatures(sketch)
        assert found.ec == pytest.approx(T, rel=1e-6)
        assert found.ec_se == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("cut", [False, True], ids=["whole", "cut"])
def test_reading_tokens_takes_no_copy_of_all_logits(cut):
    peak, size = measure("tokens", cut=cut)
    assert peak < size / 2


@pytest.mark.parametrize("make", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_rows_of_several_dimensions_are_counted_in_order(make):
    whole = np.arange(2 * 3 * 4 * 2.0).reshape(2, 3, 4, 2)
    flat = whole.reshape(-1, 2)
    cut = make(np.concatenate([whole, whole], axis=2))[:, :, :4]
    assert tuple(merge_leading(cut).shape) == (2, 3, 4, 2)  # which would take a copy
    assert tuple(merge_leading(make(whole)).shape) == flat.shape
    for start in range(24):
        for stop in range(start + 1, 25):
            np.testing.assert_array_equal(np.asarray(rows_between(cut, start, stop)), flat[start:stop])
    index = np.array([23, 0, 7, 7])
    np.testing.assert_array_equal(np.asarray(rows_at(cut, index)), flat[index])
