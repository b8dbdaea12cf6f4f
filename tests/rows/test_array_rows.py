"""Pieces of files go to a kernel as a whole, if it can do without a check, and errors still name the row."""

import numpy as np
import pytest
from host_kernels import WITH_NATIVE

from nishimori import temperatures
from nishimori._rows import stored_rows
from nishimori._rows.array_rows import ArrayRows
from nishimori._sums import moments
from nishimori.errors import InputError

pytestmark = WITH_NATIVE


@pytest.fixture(autouse=True)
def _native_kernel(monkeypatch):
    monkeypatch.setenv("NISHIMORI_KERNEL", "native")
    monkeypatch.setattr(stored_rows, "rows_per_piece", lambda n_columns: 1000)


@pytest.fixture
def file(tmp_path):
    rng = np.random.default_rng(0)
    logits = (3 * rng.normal(size=(5500, 10))).astype(np.float32)
    labels = (logits / 1.5 + rng.gumbel(size=logits.shape)).argmax(axis=1)

    def written(change=lambda logits: None):
        changed = logits.copy()
        change(changed)
        np.save(tmp_path / "logits.npy", changed)
        return tmp_path / "logits.npy", labels, changed

    return written


def test_a_piece_of_a_file_is_one_call_of_the_kernel(file, monkeypatch):
    path, labels, logits = file()
    expected = temperatures(logits, labels)
    sizes = []
    sums = moments.block_sums
    monkeypatch.setattr(
        moments, "block_sums", lambda batch, *betas, exact: sizes.append(batch.n_rows) or sums(batch, *betas, exact=exact)
    )
    blocks = []
    iterate = ArrayRows.__iter__
    monkeypatch.setattr(ArrayRows, "__iter__", lambda self: blocks.append(self.n_rows) or iterate(self))
    found = temperatures(path, labels)
    assert (found.ec, found.ts) == pytest.approx((expected.ec, expected.ts), rel=1e-8)
    assert sizes.count(1000) == 5 * found.n_passes
    assert max(blocks, default=0) < 1000  # samples only


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_bad_number_in_a_piece_is_named(file, value):
    def spoil(logits):
        logits[4321, 6] = value

    path, labels, _ = file(spoil)
    with pytest.raises(InputError, match="row 4321, column 6"):
        temperatures(path, labels)


def test_after_a_mask_pieces_are_not_tried_at_once(file, monkeypatch):
    def mask(logits):
        logits[:, 9] = np.where(np.arange(len(logits)) >= 1500, -np.inf, logits[:, 9])

    path, labels, logits = file(mask)
    labels[labels == 9] = 0
    expected = temperatures(logits.astype(np.float64), labels)
    counted = []
    sums = moments.block_sums

    def spied(batch, *betas, exact):
        found = sums(batch, *betas, exact=exact)
        counted.append((batch.n_rows, batch.masked, found.counted is not None))
        return found

    monkeypatch.setattr(moments, "block_sums", spied)
    found = temperatures(path, labels)
    assert (found.ec, found.ts) == pytest.approx((expected.ec, expected.ts), rel=1e-8)
    tried = [each for each in counted if each[0] == 1000 and each[1] is False and not each[2]]
    assert len(tried) == 1  # the first piece with a mask
