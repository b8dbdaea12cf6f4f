"""What `collect` cannot use is refused, and the message says what to do."""

import contextlib
import warnings

import numpy as np
import pytest
import torch
from small_networks import Returning, X, Y, loader
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nishimori
from nishimori.errors import InputError, InputWarning, NoTemperatureError
from nishimori.torch import calibrate, collect

REFUSED = {
    "a class": (
        lambda: collect(Returning, [(X, Y)]),
        "`model` must be a torch.nn.Module, got the class itself, not an instance.",
    ),
    "a dataset": (
        lambda: collect(Returning(), TensorDataset(X, Y)),
        "`loader` must yield batches of inputs and labels, got an object of type TensorDataset. Pass a "
        "`torch.utils.data.DataLoader`, or the tensors as a tuple `(X, y)`.",
    ),
    "a tensor": (
        lambda: collect(Returning(), X),
        "`loader` must yield batches of inputs and labels, got an object of type Tensor. Pass a "
        "`torch.utils.data.DataLoader`, or the tensors as a tuple `(X, y)`.",
    ),
    "arrays in place of a loader": (
        lambda: collect(Returning(), (X.numpy(), Y.numpy())),
        "`loader` must hold tensors with one entry per sample where it is a tuple `(X, y)`, got array float32 (10, 4) and "
        "array int64 (10,). Convert each with `torch.as_tensor(X, dtype=torch.float32)`; pass a sequence of batches as a "
        "list.",
    ),
    "tensors of different lengths": (
        lambda: collect(Returning(), (X, Y[:9])),
        "`loader` must hold tensors with one entry per sample where it is a tuple `(X, y)`, got tensor float32 (10, 4) "
        "and tensor int64 (9,). Convert each with `torch.as_tensor(X, dtype=torch.float32)`; pass a sequence of batches "
        "as a list.",
    ),
    "tensors in a list": (
        lambda: collect(Returning(), [X, Y]),
        "`loader` must yield inputs and labels together, got tensor float32 (10, 4). Make it yield tuples (x, y), or dicts "
        "with the labels under the key 'labels'; for other batches pass `forward=lambda model, batch: (logits, labels)`. "
        "Pass plain tensors as a tuple `(X, y)`.",
    ),
    "empty tensors": (
        lambda: collect(Returning(), (X[:0], Y[:0])),
        "`loader` must yield at least one batch, got none. Check that its dataset is not empty and that `drop_last` "
        "does not drop the only batch; a generator can be read only once.",
    ),
    "no batches": (
        lambda: collect(Returning(), []),
        "`loader` must yield at least one batch, got none. Check that its dataset is not empty and that `drop_last` "
        "does not drop the only batch; a generator can be read only once.",
    ),
    "inputs alone": (
        lambda: collect(Returning(), DataLoader(X)),
        "`loader` must yield inputs and labels together, got tensor float32 (1, 4). Make it yield tuples (x, y), or dicts with "
        "the labels under the key 'labels'; for other batches pass `forward=lambda model, batch: (logits, labels)`. "
        "Pass plain tensors as a tuple `(X, y)`.",
    ),
    "a tuple of inputs alone": (
        lambda: collect(Returning(), loader(X)),
        "`loader` must yield inputs and labels together, got list (tensor float32 (4, 4)). Make it yield tuples (x, y), "
        "or dicts with the labels under the key 'labels'; for other batches pass `forward=lambda model, batch: (logits, "
        "labels)`. Pass plain tensors as a tuple `(X, y)`.",
    ),
    "a dict without labels": (
        lambda: collect(Returning(), [{"x": X, "label": Y}]),
        "`labels` must be the key of the labels in each batch, got 'labels' for batch 0 with the keys ['x', 'label']. "
        "Pass the right key, or make the loader yield the labels. The Trainer of Hugging Face drops columns that the model "
        "does not take, unless `remove_unused_columns=False`.",
    ),
    "single samples": (
        lambda: collect(Returning(), DataLoader(TensorDataset(X, Y), batch_size=None)),
        "Batch 0: `labels` must be one label per sample, shape (3,), got shape (). This is a single label: pass samples in "
        "batches, with one label for each.",
    ),
    "one-hot labels": (
        lambda: collect(Returning(), loader(X, nn.functional.one_hot(Y))),
        "Batch 0: `labels` must be one label per sample, shape (4,), got shape (4, 3), which looks one-hot. Pass "
        "`labels.argmax(axis=1)`.",
    ),
    "several labels per sample": (
        lambda: collect(Returning(), loader(X, torch.ones(10, 3))),
        "Batch 0: `labels` must be one label per sample, shape (4,), got shape (4, 3), with several true classes, or none, in "
        "some rows. For labels that do not exclude each other use nishimori.multilabel, in Python.",
    ),
    "a column of labels": (
        lambda: collect(Returning(), loader(X, Y[:, None])),
        "Batch 0: `labels` must be one label per sample, shape (4,), got shape (4, 1). Pass `labels.ravel()`.",
    ),
    "too few labels": (
        lambda: collect(Returning(), [(X, Y), (X, Y[:9])]),
        "Batch 1: `labels` must be one label per sample, shape (10,), got shape (9,).",
    ),
    "labels that are text": (
        lambda: collect(Returning(), [(X, ["cat"] * 10)]),
        "Batch 0: `labels` must be integers from 0 to 2, got a list that is not numeric. Make the loader yield a tensor of "
        "integers.",
    ),
    "labels that are not integers": (
        lambda: collect(Returning(), loader(X, Y + 0.5)),
        "Batch 0: `labels` must be integers from 0 to 2, got 0.5: labels are classes, not continuous values. Check that scores "
        "and labels are not swapped.",
    ),
    "ignored labels that count": (
        lambda: collect(Returning(), loader(X, Y.where(Y > 0, -100)), ignore_index=None),
        "Batch 0: `labels` must be from 0 to 2, got -100 in row 0. To leave out all samples with this label, pass "
        "`ignore_index=-100`.",
    ),
    "labels that are signs": (
        lambda: collect(Returning(lambda z: z[:, :2]), loader(X, (Y > 0) * 2 - 1)),
        "Batch 0: `labels` must be 0 and 1 for two classes, got -1 and 1. Make the loader yield `(labels + 1) // 2`.",
    ),
    "only ignored labels": (
        lambda: collect(Returning(), loader(X, Y * 0 - 1), ignore_index=-1),
        "`labels` must hold at least one label that is not `ignore_index`, got only -1.",
    ),
    "empty batches": (
        lambda: collect(Returning(), [(X[:0], Y[:0])]),
        "`loader` must yield at least one batch with rows, got none. Check that its dataset is not empty and that `drop_last` "
        "does not drop the only batch; a generator can be read only once.",
    ),
    "a tuple": (
        lambda: collect(Returning(lambda z: (z, None)), loader(X, Y)),
        "`model` must return a tensor of logits, an object with `.logits` or a dict with the key 'logits', got tuple "
        "(tensor float32 (4, 3), NoneType). Say where the logits are: `output=0`, `output='key'`, or a function of "
        "the output.",
    ),
    "a dict without logits": (
        lambda: collect(Returning(lambda z: {"out": z}), loader(X, Y)),
        "`model` must return a tensor of logits, an object with `.logits` or a dict with the key 'logits', got dict "
        "{'out': tensor float32 (4, 3)}. Say where the logits are: `output=0`, `output='key'`, or a function of "
        "the output.",
    ),
    "nothing": (
        lambda: collect(Returning(lambda z: None), loader(X, Y)),
        "`model` must return a tensor of logits, an object with `.logits` or a dict with the key 'logits', got NoneType. "
        "Say where the logits are: `output=0`, `output='key'`, or a function of the output.",
    ),
    "classes": (
        lambda: collect(Returning(lambda z: z.argmax(dim=1)), loader(X, Y)),
        "`model` must return logits, got torch.int64. Return the scores before the softmax, not the predicted classes.",
    ),
    "a loss": (
        lambda: collect(Returning(lambda z: z.mean()), loader(X, Y)),
        "`model` must return logits of shape (n, n_classes) or (n,), got a single number in batch 0. Return one row per "
        "sample.",
    ),
    "another number of classes": (
        lambda: collect(nn.Identity(), [(X, Y), (X[:, :3], Y)]),
        "`model` must return the same number of classes for every batch, got shape (10, 3) in batch 1 after (10, 4).",
    ),
    "a column after a table": (
        lambda: collect(nn.Identity(), [(X, Y), (X[:, :1], Y)]),
        "`model` must return the same number of classes for every batch, got shape (10, 1) in batch 1 after (10, 4).",
    ),
    "NaN": (
        lambda: collect(Returning(lambda z: z * np.nan), loader(X, Y)),
        "Batch 0: `logits` must not contain NaN or +inf, got nan in row 0, column 0. Drop those rows or find where the model "
        "produced them; -inf is allowed and masks a class.",
    ),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_used_is_refused_with_this_message(call, message):
    with pytest.raises(InputError) as error:
        call()
    assert str(error.value) == message


@pytest.mark.parametrize("error", [torch.cuda.OutOfMemoryError("CUDA out of memory"), AssertionError("no CUDA")], ids=repr)
def test_a_device_on_which_the_network_cannot_run_says_so_itself(error, monkeypatch):
    model = Returning()
    monkeypatch.setattr(model, "to", raising(error))
    with pytest.raises(type(error)):
        collect(model, [(X, Y)], device="cpu")


def raising(error):
    def raise_it(*args):
        raise error

    return raise_it


SQUASHED = {"softmax": (3, lambda z: z.softmax(dim=1), "Each row of `logits` sums to 1")}
SQUASHED["sigmoid"] = (1, torch.sigmoid, "All `logits` lie between 0 and 1")
SQUASHED["sigmoids"] = (3, torch.sigmoid, "All `logits` lie between 0 and 1")


@pytest.mark.parametrize(("n_out", "output", "what"), SQUASHED.values(), ids=SQUASHED)
def test_collected_probabilities_give_a_warning_and_calibrating_them_is_refused(n_out, output, what):
    torch.manual_seed(0)
    x = torch.randn(400, 4)
    y = torch.randint(2, (400,))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        collect(Returning(output, n_out), (x, y))
    assert [str(each.message) for each in caught if each.category is InputWarning] == [
        f"{what}, as probabilities do. If these are probabilities, remove the softmax or sigmoid at the end of the network; "
        "they are used as logits."
    ]
    for options in ({}, {"keep_up_to": 100}, {"keep_up_to": 100, "reread": True}):
        with pytest.raises(
            InputError, match=r"must be declared as logits .* without it\. .*MultilabelCalibrator.*input='logits'"
        ):
            calibrate(Returning(output, n_out), (x, y), **options)
    with contextlib.suppress(NoTemperatureError):
        calibrate(Returning(output, n_out), (x, y), method=nishimori.TemperatureScaling(input="logits"))


def test_a_network_that_ends_in_relu_is_told_how_to_say_that_these_are_logits():
    torch.manual_seed(0)
    x, y = torch.randn(400, 4), torch.randint(3, (400,))
    network = Returning(lambda z: (5 * z).relu(), 3)
    for options in ({}, {"keep_up_to": 100}, {"keep_up_to": 100, "reread": True}):
        with (
            pytest.warns(
                InputWarning,
                match=r"as ratings and counts do.*`method=nishimori\.calibrator\('adaptive', input='logits'\)`; they",
            ),
            contextlib.suppress(NoTemperatureError),
        ):
            calibrate(network, (x, y), **options)
    with warnings.catch_warnings(record=True) as caught, contextlib.suppress(NoTemperatureError):
        warnings.simplefilter("always")
        calibrate(network, (x, y), method=nishimori.calibrator("adaptive", input="logits"))
    assert not any("ratings" in str(each.message) for each in caught)
