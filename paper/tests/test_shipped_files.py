"""The bundled logits of models that people ship keep to one format, and nothing in them can be read back as content."""

import json
from importlib.resources import files

import numpy as np
import pytest

FILES = sorted(
    (each for each in files("nishimori_paper").joinpath("shipped").iterdir() if each.name.endswith(".npz")),
    key=lambda each: each.name,
)
ARRAYS = {"logits", "labels", "documents", "classes", "split", "provenance"}


@pytest.fixture(scope="module", params=FILES, ids=lambda each: each.name.removesuffix(".npz"))
def stored(request):
    with request.param.open("rb") as file:
        return dict(np.load(file, allow_pickle=False))


def test_some_models_are_bundled():
    assert len(FILES) >= 3


def test_file_has_these_arrays_and_no_content(stored):
    assert set(stored) >= ARRAYS
    # What a file has besides are numbers about its rows, such as how long a piece is.
    for name in set(stored) - ARRAYS:
        assert stored[name].shape == stored["labels"].shape
        assert stored[name].dtype.kind in "biuf"
    n_rows, n_classes = stored["logits"].shape
    assert {name: stored[name].shape for name in ("labels", "documents", "split")} == dict.fromkeys(
        ("labels", "documents", "split"), (n_rows,)
    )
    assert stored["classes"].shape == (n_classes,) == np.unique(stored["classes"]).shape
    assert [stored[name].dtype for name in ("logits", "labels", "documents", "split")] == [
        np.float16,
        np.int16,
        np.int32,
        np.uint8,
    ]


def test_largest_logit_of_each_row_is_zero(stored):
    assert (stored["logits"].max(axis=1) == 0).all()
    assert not np.isnan(stored["logits"]).any()


def test_labels_are_columns_that_occur_in_each_half(stored):
    labels, split = stored["labels"], stored["split"]
    assert labels.min() >= 0
    assert labels.max() < len(stored["classes"])
    assert np.unique(labels).size >= min(len(stored["classes"]), 20)
    assert (np.bincount(split, minlength=4) >= 300).all()


def test_no_document_is_in_two_parts(stored):
    pairs = np.unique(np.stack([stored["documents"], stored["split"]]), axis=1)
    assert pairs.shape[1] == np.unique(stored["documents"]).size
    # Documents are numbered, so that none of their names is stored.
    assert np.array_equal(np.unique(stored["documents"]), np.arange(stored["documents"].max() + 1))


def test_provenance_says_where_a_row_comes_from(stored):
    provenance = json.loads(str(stored["provenance"]))
    assert provenance.keys() >= {"title", "package", "version", "licence", "data", "rows"}
    assert all(isinstance(value, str) and value for value in provenance.values())
    assert provenance["version"][0].isdigit()


def test_file_is_small(stored):
    assert stored["logits"].nbytes < 6_000_000
