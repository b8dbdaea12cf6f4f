"""Scores that are kept between passes: in memory, in a temporary file that leaves nothing behind, or not at all."""

import errno
import gc
import tempfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from nishimori._files import spooled_scores
from nishimori._files.spooled_scores import SpooledScores

RNG = np.random.default_rng(0)
BLOCKS = [RNG.normal(size=(n, 3)) for n in (50, 1, 200, 70)]
WHOLE = np.concatenate(BLOCKS)


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """The folder for temporary files, and little room in memory."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(spooled_scores, "KEPT", 51 * WHOLE[0].nbytes)
    return tmp_path


def keep(blocks):
    kept = SpooledScores(blocks[0])
    return kept if all(map(kept.write, blocks)) else None


def test_few_scores_stay_in_memory(temporary, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(temporary / "missing"))
    np.testing.assert_array_equal(np.asarray(keep(BLOCKS[:2])), WHOLE[:51])


@pytest.mark.parametrize("blocks", [BLOCKS, [block[:, 0] for block in 6 * BLOCKS]], ids=["classes", "binary"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_more_scores_are_read_from_a_file_as_often_as_needed(blocks, dtype):
    blocks = [block.astype(dtype) for block in blocks]
    kept, whole = keep(blocks), np.concatenate(blocks)
    assert (kept.shape, kept.dtype) == (whole.shape, dtype)
    for _ in range(2):
        np.testing.assert_array_equal(np.concatenate(list(kept.blocks())), whole)
    index, rows = kept.random_rows(40)
    np.testing.assert_array_equal(rows, whole[index])


def test_threads_that_read_at_once_get_their_own_rows():
    kept = keep(BLOCKS)
    with ThreadPoolExecutor(4) as threads:
        for start, rows in enumerate(threads.map(lambda start: kept.rows(start, start + 50), range(200))):
            np.testing.assert_array_equal(rows, WHOLE[start : start + 50])


def test_the_file_has_no_name_and_is_closed_with_the_last_reader(temporary):
    kept = keep(BLOCKS)
    assert list(temporary.iterdir()) == []
    file = kept._file
    del kept
    gc.collect()
    assert file.closed


def test_where_the_disk_is_full_nothing_is_kept(monkeypatch):
    monkeypatch.setattr(spooled_scores, "_PART", 0)
    assert keep(BLOCKS) is None


def test_where_the_disk_fills_up_nothing_is_kept(monkeypatch):
    class Full:
        closed = True

        def write(self, content):
            raise OSError(errno.ENOSPC, "No space left on device")

        def close(self):
            pass

    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: Full())
    assert keep(BLOCKS) is None


def test_without_a_folder_for_temporary_files_nothing_is_kept(monkeypatch, temporary):
    monkeypatch.setattr(tempfile, "tempdir", str(temporary / "missing"))
    assert keep(BLOCKS) is None


def test_blocks_of_a_wider_type_than_the_file_are_not_cut():
    assert keep([BLOCKS[0].astype(np.float32), BLOCKS[2].astype(np.float32), BLOCKS[3]]) is None
