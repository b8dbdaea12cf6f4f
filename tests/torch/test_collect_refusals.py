"""What `collect` cannot use is refused, and the message says what to do."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nishimori import InputError
from nishimori.torch import collect
from small_networks import Returning, X, Y, loader

REFUSED = {
    "a class": (
        lambda: collect(Returning, [(X, Y)]),
        "`model` must be a torch.nn.Module, got the class itself, not an instance.",
    ),
    "a dataset": (
        lambda: collect(Returning(), TensorDataset(X, Y)),
        "`loader` must yield batches, got a TensorDataset, which yields samples. Pass "
        "`torch.utils.data.DataLoader(dataset, batch_size=256)`.",
    ),
    "a tensor": (
        lambda: collect(Returning(), X),
        "`loader` must yield batches of inputs and labels, got a Tensor. Pass a `torch.utils.data.DataLoader`; for one "
        "batch pass `[(x, y)]`.",
    ),
    "no batches": (
        lambda: collect(Returning(), []),
        "`loader` must yield at least one batch, got none. Check that its dataset is not empty and that `drop_last` "
        "does not drop the only batch; a generator can be read only once.",
    ),
    "inputs alone": (
        lambda: collect(Returning(), DataLoader(X)),
        "`loader` must yield inputs and labels together, got a Tensor. Make it yield tuples (x, y), or dicts with the "
        "labels under the key 'labels'.",
    ),
    "a tuple of inputs alone": (
        lambda: collect(Returning(), loader(X)),
        "`loader` must yield inputs and labels together, got a list of length 1. Make it yield tuples (x, y), or "
        "dicts with the labels under the key 'labels'.",
    ),
    "a dict without labels": (
        lambda: collect(Returning(), [{"x": X, "label": Y}]),
        "`labels` must be the key of the labels in each batch, got 'labels' for a batch with the keys ['x', 'label']. "
        "Pass the right key, or make the loader yield the labels.",
    ),
    "single samples": (
        lambda: collect(Returning(), DataLoader(TensorDataset(X, Y), batch_size=None)),
        "The labels of each batch must have shape (3,), got () in batch 0. The loader seems to yield single samples: "
        "pass it a `batch_size`.",
    ),
    "one-hot labels": (
        lambda: collect(Returning(), loader(X, nn.functional.one_hot(Y))),
        "The labels of each batch must have shape (4,), got (4, 3) in batch 0. They are one-hot: make the loader yield "
        "`labels.argmax(dim=1)`.",
    ),
    "several labels per sample": (
        lambda: collect(Returning(), loader(X, torch.ones(10, 3))),
        "The labels of each batch must have shape (4,), got (4, 3) in batch 0. Make the loader yield one class index per "
        "sample.",
    ),
    "a column of labels": (
        lambda: collect(Returning(), loader(X, Y[:, None])),
        "The labels of each batch must have shape (4,), got (4, 1) in batch 0. Make the loader yield `labels.flatten()`.",
    ),
    "too few labels": (
        lambda: collect(Returning(), [(X, Y), (X, Y[:9])]),
        "The labels of each batch must have shape (10,), got (9,) in batch 1. Check that the model returns one row per "
        "sample: it returned 10.",
    ),
    "labels that are text": (
        lambda: collect(Returning(), [(X, ["cat"] * 10)]),
        "The labels of each batch must be class indices, got a list that is not numeric in batch 0. Make the loader yield "
        "a tensor of integers from 0 to n_classes - 1.",
    ),
    "labels that are not integers": (
        lambda: collect(Returning(), loader(X, Y + 0.5)),
        "`labels` must be integers from 0 to 2, got 0.5: labels are classes, not continuous values. Check that scores "
        "and labels are not swapped.",
    ),
    "ignored labels": (
        lambda: collect(Returning(), loader(X, Y.where(Y > 0, -100))),
        "`labels` must be from 0 to 2, got -100 in row 0. Drop the samples that must be ignored.",
    ),
    "a tuple": (
        lambda: collect(Returning(lambda z: (z, None)), loader(X, Y)),
        "`model` must return a tensor of logits, an object with `.logits` or a dict with the key 'logits', got a tuple "
        "of length 2. Wrap the model in a module whose `forward` returns the logits alone.",
    ),
    "a dict without logits": (
        lambda: collect(Returning(lambda z: {"out": z}), loader(X, Y)),
        "`model` must return a tensor of logits, an object with `.logits` or a dict with the key 'logits', got a dict "
        "with the keys ['out']. Wrap the model in a module whose `forward` returns the logits alone.",
    ),
    "nothing": (
        lambda: collect(Returning(lambda z: None), loader(X, Y)),
        "`model` must return a tensor of logits, an object with `.logits` or a dict with the key 'logits', got a "
        "NoneType. Wrap the model in a module whose `forward` returns the logits alone.",
    ),
    "classes": (
        lambda: collect(Returning(lambda z: z.argmax(dim=1)), loader(X, Y)),
        "`model` must return logits, got torch.int64. Return the scores before the softmax, not the predicted classes.",
    ),
    "tokens": (
        lambda: collect(Returning(), [(X.reshape(5, 2, 4), Y.reshape(5, 2))]),
        "`model` must return logits of shape (n, n_classes) or (n,), got (5, 2, 3). Put the classes last, flatten the "
        "rest, find T with `nishimori.temperatures(logits.reshape(-1, n_classes), labels.reshape(-1))` and wrap the "
        "model with `Calibrated(model, T)`.",
    ),
    "a column": (
        lambda: collect(Returning(n_out=1), loader(X, Y)),
        "`model` must return one column per class, or shape (n,) for the score of the positive class, got (4, 1). Append "
        "`torch.nn.Flatten(0)` to the model; or find T with `nishimori.temperatures(logits[:, 0], labels)` and wrap the "
        "model with `Calibrated(model, T)`.",
    ),
    "a loss": (
        lambda: collect(Returning(lambda z: z.mean()), loader(X, Y)),
        "`model` must return logits of shape (n, n_classes) or (n,), got a single number. Return one row per sample.",
    ),
    "another number of classes": (
        lambda: collect(nn.Identity(), [(X, Y), (X[:, :3], Y)]),
        "`model` must return the same number of classes for every batch, got shape (10, 3) after (10, 4).",
    ),
    "NaN": (
        lambda: collect(Returning(lambda z: z * np.nan), loader(X, Y)),
        "`logits` must not contain NaN or +inf, got nan in row 0, column 0. Drop those rows or find where the model "
        "produced them; -inf is allowed and masks a class.",
    ),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_used_is_refused_with_this_message(call, message):
    with pytest.raises(InputError) as error:
        call()
    assert str(error.value) == message


def test_the_remedy_for_a_column_works():
    model = nn.Sequential(Returning(n_out=1), nn.Flatten(0))
    assert collect(model, loader(X, Y > 0)).logits.shape == (10,)
