"""The files of logits in ``nishimori_paper/shipped``: how they are written, and how documents are split.

A file has no text and no input of a model, only ``logits`` (float16, the row maximum subtracted), ``labels`` (int16),
``documents`` (int32, what was sampled: a catalogue, a source package), ``classes`` (the model's own names), ``split`` (uint8,
see `PARTS`) and ``provenance`` (JSON).
"""

import hashlib
import json
from pathlib import Path

import numpy as np

PARTS = ("development, fit", "development, test", "final, fit", "final, test")


def part_of(document):
    """The number in `PARTS` of all rows of a document: from a hash of its name, so that no document is in two parts."""
    return hashlib.sha256(str(document).encode()).digest()[0] % len(PARTS)


def rounded(shifted):
    """Logits below the largest one, to 1/32 down to −8, to 1/8 down to −32, to 1/2 below, so that they compress better.

    An error of 1/16 in a probability of e⁻⁸ changes the others by 2 parts in 10⁵.
    """
    unit = np.select([shifted >= -8, shifted >= -32], [32.0, 8.0], 2.0)
    return np.round(shifted * unit) / unit


def write(path, logits, labels, documents, classes, split, provenance, **more):
    """Write one model's logits.

    Parameters
    ----------
    path : path
        Of the file, ``NAME.npz``.
    logits : array of shape (n, K)
        Scores of all classes before the softmax, or logarithms of probabilities.
    labels : integer array of shape (n,)
        The column of the right class of each row.
    documents : sequence of length n
        The name or number of the document that a row comes from. Names are numbered in the order of their hashes, so that they
        cannot be read back.
    classes : sequence of K str
        Names of the columns.
    split : integer array of shape (n,) or None
        The part of each row, as in `PARTS`; None: from the hash of the document.
    provenance : dict
        ``title``, ``package``, ``version``, ``licence``, ``data`` (where the labelled data come from, with versions) and
        ``rows`` (how a row was made), and what else a reader should know.
    **more : arrays of length n
        What else is known of each row, such as ``lengths``.
    """
    logits = np.asarray(logits, dtype=np.float64)
    documents = [str(each) for each in documents]
    labels, n_classes = np.asarray(labels), logits.shape[1]
    split = np.array([part_of(each) for each in documents]) if split is None else np.asarray(split)
    assert len(logits) == len(labels) == len(documents) == len(split), "one label, document and part for each row"
    assert len(classes) == n_classes, "one name for each column"
    assert set(np.unique(labels)) <= set(range(n_classes)), "labels are numbers of columns"
    assert np.isfinite(logits.max(axis=1)).all(), "each row has a finite score"
    assert not np.isnan(logits).any(), "no score is NaN"
    assert set(np.unique(split)) <= set(range(len(PARTS))), "parts are 0 to 3"
    missing = {"title", "package", "version", "licence", "data", "rows"} - set(provenance)
    assert not missing, f"provenance lacks {sorted(missing)}"
    order = sorted(set(documents), key=lambda each: hashlib.sha256(each.encode()).digest())
    numbers = {each: i for i, each in enumerate(order)}
    numbered = np.array([numbers[each] for each in documents], dtype=np.int32)
    for document in range(len(order)):
        assert len(np.unique(split[numbered == document])) == 1, "a document is in one part only"
    # Half precision holds differences of up to 65504; the lowest scores are clipped there, which is a probability of 0.
    shifted = rounded(logits - logits.max(axis=1, keepdims=True))
    np.savez_compressed(
        Path(path),
        logits=np.where(np.isneginf(shifted), -np.inf, np.maximum(shifted, -65504.0)).astype(np.float16),
        labels=labels.astype(np.int16),
        documents=numbered,
        classes=np.asarray(classes, dtype=str),
        split=split.astype(np.uint8),
        provenance=json.dumps(provenance, ensure_ascii=False, indent=1, sort_keys=True),
        **more,
    )
