"""Which rows these are: the same digest however the same rows are held, and another one for others."""

from itertools import pairwise

import numpy as np
import pytest

import nishimori


def drawn(n=5000, k=4, seed=0):
    rng = np.random.default_rng(seed)
    logits = (3 * rng.normal(size=(n, k))).astype(np.float32)
    return logits, (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)


def digest(*data, **options):
    found = nishimori.rows(*data, **options)
    sum(batch.n_rows for batch in found)  # a file is known once it has been read
    return found.digest


def test_every_way_to_hold_the_same_rows_has_the_same_digest(tmp_path):
    torch = pytest.importorskip("torch")
    logits, labels = drawn()
    np.savez(tmp_path / "rows.npz", logits=logits, labels=labels)
    np.save(tmp_path / "logits.npy", logits)
    lines = [",".join([*map(repr, map(float, row)), str(label)]) for row, label in zip(logits, labels, strict=True)]
    (tmp_path / "rows.csv").write_text("\n".join(["z_0,z_1,z_2,z_3,labels", *lines]) + "\n")
    batches = [(logits[i : i + 77], labels[i : i + 77]) for i in range(0, len(labels), 77)]
    found = {
        digest(logits, labels),
        digest(logits.astype(np.float64), labels),
        digest(np.asfortranarray(logits), labels),
        digest(torch.tensor(logits), torch.tensor(labels)),
        digest(logits.reshape(50, 100, 4), labels.reshape(50, 100)),
        digest(tmp_path / "rows.npz"),
        digest(tmp_path / "rows.csv"),
        digest(np.load(tmp_path / "logits.npy", mmap_mode="r"), labels),
        digest(batches),
        digest(logits, labels, sample_weight=np.linspace(1, 2, len(labels))),
        digest(logits, np.array(list("abcd"))[labels], classes=list("abcd")),
    }
    assert len(found) == 1
    assert len(found.pop()) == 32


@pytest.mark.parametrize("n", [1, 2, 1024, 1025, 4097, 70001])
def test_cutting_rows_into_batches_does_not_change_the_digest(n):
    logits, labels = drawn(n, 3)
    cuts = [0, *sorted(np.random.default_rng(1).integers(0, n + 1, 9).tolist()), n]
    batches = [(logits[a:b], labels[a:b]) for a, b in pairwise(cuts) if b > a]
    assert digest(batches) == digest(logits, labels)


def test_rows_of_weight_zero_are_not_there():
    logits, labels = drawn()
    kept = np.arange(len(labels)) % 3 > 0
    logits_or_nothing = np.where(kept[:, None], logits, np.nan)
    assert digest(logits_or_nothing, labels, sample_weight=kept.astype(float)) == digest(logits[kept], labels[kept])


def test_a_negative_zero_is_a_zero():
    logits, labels = drawn()
    logits[::2, 1] = 0.0
    assert digest(logits, labels) == digest(np.where(logits == 0, np.float32(-0.0), logits), labels)


@pytest.mark.parametrize(
    "change",
    [
        lambda z, y: (z[::-1], y[::-1]),
        lambda z, y: (z[:-1], y[:-1]),
        lambda z, y: (z, np.where(np.arange(len(y)) == 0, (y + 1) % 4, y)),
        lambda z, y: (z * np.float32(1.0000002), y),
        lambda z, y: (z[:, ::-1], y),
        lambda z, y: (np.concatenate([z, np.full((len(z), 1), -np.inf)], axis=1), y),
    ],
    ids=["order", "number", "a label", "values", "columns", "classes"],
)
def test_other_rows_have_another_digest(change):
    logits, labels = drawn()
    assert digest(*change(logits, labels)) != digest(logits, labels)


def test_two_values_of_opposite_sign_that_change_places_are_noticed():
    logits = np.array([[1.5, -1.5, 0.0], [0.0, 1.0, 2.0]])
    assert digest(logits, [0, 1]) != digest(logits[:, [1, 0, 2]], [0, 1])


def test_the_digest_of_a_sketch_is_not_that_of_its_rows():
    logits, labels = drawn()
    sketched, of_rows = (each.digest for each in (nishimori.Sketch().update(logits, labels), nishimori.rows(logits, labels)))
    assert sketched is not None
    assert sketched != of_rows
