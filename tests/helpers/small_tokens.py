"""Sequences of different lengths with a row of logits per token, and the same rows one by one, for reference."""

import numpy as np
import reference
import torch

N_CLASSES, IGNORED = 6, -100


def sequences(lengths, *, seed=0, temperature=2.0):
    """Batches {"x": logits, "labels", "document"}, padded to the longest of each batch, with NaN where nothing counts.

    ``lengths`` are those of the sequences of each batch. Half of the documents are always right, so that the rows of a document
    are not independent. Each sequence is a document.
    """
    rng = np.random.default_rng(seed)
    found, document = [], 0
    for batch in lengths:
        x = torch.full((len(batch), max(batch), N_CLASSES), torch.nan, dtype=torch.float64)
        labels = torch.full((len(batch), max(batch)), IGNORED)
        documents = []
        for i, length in enumerate(batch):
            logits, truth = reference.drawn(length, N_CLASSES, temperature, seed=int(rng.integers(2**31)))
            if document % 2:
                truth = logits.argmax(axis=1)
            x[i, :length], labels[i, :length] = torch.tensor(logits), torch.tensor(truth)
            documents.append(document)
            document += 1
        found.append({"x": x, "labels": labels, "document": torch.tensor(documents)})
    return found


def flat(batches):
    """Logits, labels and documents of the tokens that count, token by token."""
    rows, truth, documents = [], [], []
    for batch in batches:
        for i, document in enumerate(batch["document"].tolist()):
            for t, label in enumerate(batch["labels"][i].tolist()):
                if label != IGNORED:
                    rows.append(batch["x"][i, t].numpy())
                    truth.append(label)
                    documents.append(document)
    return np.array(rows), np.array(truth), np.array(documents)


def late(batches):
    """The same batches with the label of each position at the next one, where there is one; and without what has none."""
    found = []
    for batch in batches:
        x = torch.nn.functional.pad(batch["x"], (0, 0, 0, 1), value=torch.nan)
        labels = torch.nn.functional.pad(batch["labels"], (1, 0), value=0)
        found.append(batch | {"x": x, "labels": labels})
    return found


def gaps(method, logits, labels, T):
    """The gap of each row at T: confidence minus right, or the mean logit minus that of the label."""
    p, rows = reference.softmax(logits, T), np.arange(len(labels))
    if method == "ec":
        return p.max(axis=1) - (logits.argmax(axis=1) == labels)
    return (p * logits).sum(axis=1) - logits[rows, labels]


def error_of_temperature(method, logits, labels, clusters, T):
    """The standard error of T by the delta method, with sums of gaps over clusters and a slope from two close temperatures."""
    sums = [gaps(method, logits, labels, T)[clusters == each].sum() for each in np.unique(clusters)]
    h = 1e-5
    slope = (gaps(method, logits, labels, T * (1 - h)).sum() - gaps(method, logits, labels, T * (1 + h)).sum()) / (2 * h * T)
    return np.sqrt(np.square(sums).sum()) / abs(slope)
