"""Arrays of images in files, whose classes may be in another dimension than the last."""

import numpy as np
import pytest
import reference
from array_files import saved

import nishimori
from nishimori import metrics
from nishimori._files.arrays.files import SUFFIXES
from nishimori._rows import stored_rows
from nishimori.errors import InputError

LOGITS, LABELS = reference.drawn(600, 4)
IMAGES = LOGITS.reshape(12, 5, 10, 4)
PIXELS = LABELS.reshape(12, 5, 10)


def classes_second(array):
    return np.moveaxis(array, -1, 1)


@pytest.mark.parametrize("axis", [1, -3, -1])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_of_arrays_have_their_classes_in_any_dimension_but_the_first(tmp_path, monkeypatch, suffix, axis):
    monkeypatch.setattr(stored_rows, "rows_per_piece", lambda n_classes: 125)  # two images at a time
    path = saved(tmp_path / f"x{suffix}", logits=IMAGES if axis == -1 else classes_second(IMAGES), labels=PIXELS)
    labels = PIXELS if suffix == ".npy" else None
    for kept in (0, 2**28):
        monkeypatch.setattr("nishimori._files.spooled_scores.KEPT", kept)
        found = nishimori.rows(path, labels, class_axis=axis)
        assert found.n_rows == len(LABELS)
        assert metrics.nll(found) == pytest.approx(reference.nll(LOGITS, LABELS), rel=1e-12)


def test_labels_of_images_in_a_file_are_spelled_as_classes(tmp_path):
    names = ["b", "a", "d", "c"]
    np.savez(tmp_path / "x.npz", logits=IMAGES, labels=np.array(names)[PIXELS])
    found = nishimori.rows(tmp_path / "x.npz", classes=names)
    assert metrics.nll(found) == pytest.approx(reference.nll(LOGITS, LABELS), rel=1e-12)
    np.save(tmp_path / "z.npy", IMAGES)
    np.save(tmp_path / "y.npy", np.array(names)[PIXELS])
    found = nishimori.rows(tmp_path / "z.npy", tmp_path / "y.npy", classes=names)
    assert metrics.nll(found) == pytest.approx(reference.nll(LOGITS, LABELS), rel=1e-12)


@pytest.mark.parametrize("axis", [0, -4, 4, "1"])
def test_files_refuse_other_dimensions(tmp_path, axis):
    np.savez(tmp_path / "x.npz", logits=classes_second(IMAGES), labels=PIXELS)
    with pytest.raises(InputError, match=r"^`class_axis` must be the number of a dimension of the scores after the first"):
        nishimori.rows(tmp_path / "x.npz", class_axis=axis)


def test_tables_and_memory_maps_have_their_classes_last(tmp_path):
    (tmp_path / "x.csv").write_text("a,b,labels\n1,2,0\n3,1,1\n")
    with pytest.raises(InputError, match=r"^`class_axis` must be left out for tables, which have a column per class, got 1\."):
        nishimori.rows(tmp_path / "x.csv", class_axis=1)
    np.save(tmp_path / "x.npy", classes_second(IMAGES))
    with pytest.raises(InputError, match=r"^`class_axis` must be -1 where `logits` is a memmap\. Put the classes last\.$"):
        metrics.nll(np.load(tmp_path / "x.npy", mmap_mode="r"), PIXELS, class_axis=1)


def test_a_sample_is_read_from_a_file_unless_only_whole_images_can_be_read(tmp_path):
    last = nishimori.rows(saved(tmp_path / "last.npz", logits=IMAGES, labels=PIXELS))
    index, rows = last.stored.random_rows(50)
    np.testing.assert_array_equal(rows, LOGITS[index])
    second = nishimori.rows(saved(tmp_path / "second.npz", logits=classes_second(IMAGES), labels=PIXELS), class_axis=1)
    assert second.stored.random_rows(50) is None
