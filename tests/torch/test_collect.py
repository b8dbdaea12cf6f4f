"""A loader is read once, as the network would be served, and whatever cannot be used is refused in words that help."""

import re
from collections import OrderedDict, UserDict, namedtuple
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from nishimori import InputError
from nishimori.torch import collect
from nishimori.torch._collect import _joined, read

X = torch.randn(10, 4, generator=torch.Generator().manual_seed(0))
Y = torch.arange(10) % 3
DEVICES = pytest.mark.parametrize(
    "device",
    ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"))],
)


def loader(*tensors, batch_size=4):
    return DataLoader(TensorDataset(*tensors), batch_size=batch_size)


class Returning(nn.Module):
    """A linear network whose output is dressed as someone's."""

    def __init__(self, dress=lambda z: z, n_out=3):
        super().__init__()
        self.fc = nn.Linear(4, n_out)
        self.dress = dress

    def forward(self, x, scale=None):
        return self.dress(self.fc(x if scale is None else x * scale))


class Recording(nn.Module):
    """Notes the modes of some modules whenever it is called."""

    def __init__(self, *watched, fail=False):
        super().__init__()
        self.watched, self.fail, self.seen = watched, fail, []

    def forward(self, x):
        self.seen.append(([each.training for each in self.watched], torch.is_inference_mode_enabled()))
        if self.fail:
            raise RuntimeError("out of memory")
        return x


def test_all_batches_are_kept_in_order_as_plain_tensors_on_the_host():
    model = Returning()
    found = collect(model, loader(X, Y))
    assert torch.allclose(found.logits, model(X))
    assert torch.equal(found.labels, Y)
    for each in found:
        assert not each.is_inference()
        assert not each.requires_grad
        assert each.device.type == "cpu"


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_logits_keep_their_precision(dtype):
    assert collect(Returning().to(dtype), loader(X.to(dtype), Y)).logits.dtype == dtype


def test_the_loader_is_read_once():
    class Counting:
        n_readings = 0

        def __iter__(self):
            self.n_readings += 1
            return iter(loader(X, Y))

    counting = Counting()
    collect(Returning(), counting)
    assert counting.n_readings == 1


def test_a_loader_may_write_into_the_same_memory_for_every_batch():
    x, y = torch.empty(5, 4), np.empty(5, dtype=int)

    def refilled():
        for rows in (slice(0, 5), slice(5, 10)):
            x.copy_(X[rows])
            y[:] = Y[rows]
            yield x, y

    logits, labels = collect(nn.Identity(), refilled())
    assert torch.equal(logits, X)
    assert torch.equal(labels, Y)


def test_rows_are_joined_on_the_host_whatever_the_default_device():
    with torch.device("meta"):
        assert torch.equal(_joined([X[:4], X[4:]]), X)


def test_parts_of_several_precisions_are_joined_in_the_widest():
    parts = [X[:4].half(), X[4:5].double(), X[5:].half()]
    assert torch.equal(_joined(parts.copy()), torch.cat(parts))


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux, which knows the peak of the memory")
def test_rows_are_not_in_memory_twice():
    n_batches, z = 5, torch.zeros(10_000, 1_000)  # 40 MB, which are given back to the system as soon as they are freed

    def memory(which):
        (kilobytes,) = re.findall(rf"{which}:\s+(\d+) kB", Path("/proc/self/status").read_text())
        return 1024 * int(kilobytes)

    try:
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    except OSError:
        pytest.skip("the peak of the memory cannot be reset here")
    before = memory("VmRSS")
    read(nn.Identity(), [(z, torch.zeros(len(z)))] * n_batches, "labels", None)
    assert memory("VmHWM") - before < 1.5 * n_batches * z.nbytes


Pair = namedtuple("Pair", ["logits", "features"])
DRESSES = {
    "tensor": lambda z: z,
    "object": lambda z: SimpleNamespace(logits=z),
    "dict": lambda z: {"logits": z},
    "ordered dict": lambda z: OrderedDict(loss=None, logits=z),
    "named tuple": lambda z: Pair(z, None),
}


@pytest.mark.parametrize("dress", DRESSES.values(), ids=DRESSES)
def test_logits_are_found_in_every_usual_kind_of_output(dress):
    model = Returning(dress)
    assert torch.allclose(collect(model, loader(X, Y)).logits, model.fc(X))


S = torch.full((10, 1), 2.0)
BATCHES = {
    "tuple": ([(X, Y)], "labels"),
    "list": ([[X, Y]], "labels"),
    "labels in a list": ([(X, Y.tolist())], "labels"),
    "labels in an array": ([(X, Y.numpy())], "labels"),
    "dict": ([{"x": X, "labels": Y}], "labels"),
    "dict with another key": ([{"x": X, "target": Y}], "target"),
    "mapping": ([UserDict(x=X, labels=Y)], "labels"),
    "generator": (((X, Y) for _ in range(1)), "labels"),
}


@pytest.mark.parametrize(("batches", "key"), BATCHES.values(), ids=BATCHES)
def test_inputs_and_labels_are_told_apart_in_every_usual_kind_of_batch(batches, key):
    model = Returning()
    found = collect(model, batches, labels=key)
    assert torch.allclose(found.logits, model(X))
    assert torch.equal(found.labels, Y)


@pytest.mark.parametrize("batch", [(X, S, Y), {"x": X, "scale": S, "labels": Y}], ids=["tuple", "dict"])
def test_several_inputs_reach_the_network(batch):
    model = Returning()
    assert torch.allclose(collect(model, [batch]).logits, model(2 * X))


class Stream(IterableDataset):
    def __iter__(self):
        yield X, Y


def test_a_batch_of_an_iterable_dataset_is_a_batch():
    assert len(collect(Returning(), Stream()).labels) == 10


def test_a_flat_binary_score_is_kept_flat():
    model = Returning(lambda z: z[:, 0], n_out=1)
    assert collect(model, loader(X, Y > 0)).logits.shape == (10,)


def mixed_modes():
    """A network in training mode with a frozen part, and that part's own parts in training mode again."""
    frozen = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5))
    model = nn.Sequential(frozen, nn.Dropout(0.5), nn.Linear(4, 3)).train()
    frozen.training = frozen[1].training = False
    return model


def test_the_network_is_read_in_eval_mode_without_gradients_and_left_in_its_own_modes():
    model = mixed_modes()
    recording = Recording(*model.modules())
    before = [each.training for each in model.modules()]
    running = model[0][0].running_mean.clone()
    collect(nn.Sequential(recording, model), loader(X, Y))
    assert recording.seen == [([False] * len(before), True)] * 3
    assert [each.training for each in model.modules()] == before
    assert torch.equal(model[0][0].running_mean, running)


def test_the_modes_come_back_after_an_error():
    model = nn.Sequential(mixed_modes(), Recording(fail=True))
    before = [each.training for each in model.modules()]
    with pytest.raises(RuntimeError, match="out of memory"):
        collect(model, loader(X, Y))
    assert [each.training for each in model.modules()] == before


def test_the_mode_comes_back_to_a_module_that_two_others_share():
    shared = nn.Dropout(0.5)
    model = nn.Sequential(nn.Sequential(shared), nn.Sequential(shared), nn.Linear(4, 3))
    model.training = shared.training = False
    before = [each.training for each in model.modules()]
    collect(model, loader(X, Y))
    assert [each.training for each in model.modules()] == before


def test_an_exported_network_is_refused_and_left_in_its_modes():
    exported = torch.export.export(nn.Linear(4, 3), (X,)).module()
    model = nn.Sequential(nn.Dropout(0.5), exported)
    before = [each.training for each in model.modules()]
    said = r"`model` must go to eval mode, got a Sequential that cannot: .* If it was exported, calibrate before exporting\."
    with pytest.raises(InputError, match=said):
        collect(model, loader(X, Y))
    assert [each.training for each in model.modules()] == before


def test_layers_that_act_when_their_mode_changes_are_told_of_it():
    class Merging(nn.Linear):
        """Adds its adapter to the weight in eval mode, as adapters do."""

        merged = False

        def train(self, mode=True):
            self.merged = not mode
            return super().train(mode)

    layer = Merging(4, 3).train()
    collect(nn.Sequential(layer), loader(X, Y))
    assert layer.training
    assert not layer.merged


def test_tensors_a_dataset_makes_while_it_is_read_can_be_trained_on_later():
    made = []

    def batches():
        made.append(X * 2)
        yield made[0], Y

    model = Returning()
    collect(model, batches())
    model(made[0]).sum().backward()
    assert model.fc.weight.grad is not None


def test_the_callers_autocast_is_respected_and_training_goes_on_inside_it():
    model = Returning()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert collect(model, loader(X, Y)).logits.dtype == torch.bfloat16
        model(X).sum().backward()
    assert model.fc.weight.grad is not None


def test_autocast_forgets_the_copies_of_weights_that_it_has_made():
    model = Returning()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        before = model(X)
        with torch.no_grad():
            model.fc.weight.mul_(2)
            model.fc.bias.mul_(2)
        collect(model, loader(X, Y))
        assert torch.equal(model(X), 2 * before)


@DEVICES
def test_batches_follow_the_network_to_its_device(device):
    model = Returning().to(device)
    batch = {"x": X, "scale": S.to(device), "labels": Y}
    found = collect(model, [batch])
    assert found.logits.device.type == found.labels.device.type == "cpu"
    assert torch.allclose(found.logits, model(2 * X.to(device)).cpu(), atol=1e-3)


@DEVICES
def test_the_network_and_its_inputs_go_to_a_device_that_is_asked_for(device):
    asked = []

    class Graph:
        def to(self, place):
            asked.append(torch.device(place))
            return X.to(place)

    class Network(nn.Module):
        def to(self, place):
            asked.append(torch.device(place))
            return super().to(place)

        def forward(self, x):
            return x

    collect(Network(), [(Graph(), Y.where(Y > 0, 1))], device=device)
    assert asked == [torch.device(device)] * 2


def test_everything_in_a_nested_batch_is_moved():
    from nishimori.torch._run import moved

    Point = namedtuple("Point", ["x", "y"])
    packed = nn.utils.rnn.pack_sequence([X[:3], X[:2]])
    nested = {"a": [X, (Y, "text")], "b": Point(X, {"c": Y}), "d": 3, "e": packed}
    there = moved(nested, torch.device("meta"))
    assert there["a"][0].is_meta
    assert there["a"][1][0].is_meta
    assert there["a"][1][1] == "text"
    assert there["b"].x.is_meta
    assert there["b"].y["c"].is_meta
    assert there["d"] == 3
    assert there["e"].data.is_meta


def test_a_network_without_weights_leaves_batches_where_they_are():
    assert torch.equal(collect(nn.Identity(), [(X[:, :3], Y)]).logits, X[:, :3])


def test_transformers_encodings_reach_the_network_as_keywords():
    transformers = pytest.importorskip("transformers")
    batch = transformers.BatchEncoding({"x": X, "labels": Y})
    model = Returning()
    assert torch.allclose(collect(model, [batch]).logits, model(X))


REFUSED = {
    "no network": (
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
        "does not drop the only batch; a generator can be read just once.",
    ),
    "inputs alone": (
        lambda: collect(Returning(), DataLoader(X)),
        "`loader` must yield inputs and labels together, got a Tensor. Have it yield tuples (x, y), or dicts with the "
        "labels at 'labels'.",
    ),
    "a tuple of inputs alone": (
        lambda: collect(Returning(), loader(X)),
        "`loader` must yield inputs and labels together, got a list of 1. Have it yield tuples (x, y), or dicts with "
        "the labels at 'labels'.",
    ),
    "a dict without labels": (
        lambda: collect(Returning(), [{"x": X, "label": Y}]),
        "`labels` must be the key of the true classes in each batch, got 'labels' where the keys are ['x', 'label']. "
        "Pass the key that holds them, or have the loader yield them.",
    ),
    "single samples": (
        lambda: collect(Returning(), DataLoader(TensorDataset(X, Y), batch_size=None)),
        "The labels of each batch must have shape (3,), got () in batch 0. The loader seems to yield single samples: "
        "give it a `batch_size`.",
    ),
    "one-hot labels": (
        lambda: collect(Returning(), loader(X, nn.functional.one_hot(Y))),
        "The labels of each batch must have shape (4,), got (4, 3) in batch 0. They look one-hot: have the loader yield "
        "`labels.argmax(dim=1)`.",
    ),
    "a column of labels": (
        lambda: collect(Returning(), loader(X, Y[:, None])),
        "The labels of each batch must have shape (4,), got (4, 1) in batch 0. Have the loader yield `labels.flatten()`.",
    ),
    "too few labels": (
        lambda: collect(Returning(), [(X, Y), (X, Y[:9])]),
        "The labels of each batch must have shape (10,), got (9,) in batch 1. Check that the model returns one row a "
        "sample: it returned 10.",
    ),
    "labels in words": (
        lambda: collect(Returning(), [(X, ["cat"] * 10)]),
        "The labels of each batch must be a tensor of column numbers, got a list in batch 0. Have the loader yield "
        "integers from 0.",
    ),
    "labels between classes": (
        lambda: collect(Returning(), loader(X, Y + 0.5)),
        "`labels` must be integers from 0 to 2, got 0.5: labels are classes, not continuous values. Check that scores "
        "and labels are not swapped.",
    ),
    "ignored labels": (
        lambda: collect(Returning(), loader(X, Y.where(Y > 0, -100))),
        "`labels` must be from 0 to 2, got -100 in row 0. Drop the samples that are to be ignored.",
    ),
    "a tuple": (
        lambda: collect(Returning(lambda z: (z, None)), loader(X, Y)),
        "`model` must return a tensor of logits, an object with `.logits` or a dict with the key 'logits', got a tuple "
        "of 2. Wrap the model in a module whose `forward` returns the logits alone.",
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
        "`model` must return logits, got torch.int64. Return the scores before the softmax, not the classes.",
    ),
    "tokens": (
        lambda: collect(Returning(), [(X.reshape(5, 2, 4), Y.reshape(5, 2))]),
        "`model` must return logits of shape (n, n_classes) or (n,), got (5, 2, 3). Put the classes last, flatten the "
        "rest, find T with `nishimori.temperatures(logits.reshape(-1, n_classes), labels.reshape(-1))` and wrap the "
        "model with `Calibrated(model, T)`.",
    ),
    "a column": (
        lambda: collect(Returning(n_out=1), loader(X, Y)),
        "`model` must return one column a class, or shape (n,) for the score of the positive class, got (4, 1). Append "
        "`torch.nn.Flatten(0)` to the model; or find T with `nishimori.temperatures(logits[:, 0], labels)` and wrap the "
        "model with `Calibrated(model, T)`.",
    ),
    "a loss": (
        lambda: collect(Returning(lambda z: z.mean()), loader(X, Y)),
        "`model` must return logits of shape (n, n_classes) or (n,), got a single number. Return one row a sample.",
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
def test_what_cannot_be_used_is_refused_in_these_words(call, message):
    with pytest.raises(InputError) as error:
        call()
    assert str(error.value) == message


def test_the_remedy_for_a_column_works():
    model = nn.Sequential(Returning(n_out=1), nn.Flatten(0))
    assert collect(model, loader(X, Y > 0)).logits.shape == (10,)


@pytest.mark.parametrize("batches", [loader(X, Y), [(X, Y)], ((X, Y) for _ in range(1)), DataLoader(Stream(), batch_size=None)])
def test_a_terminal_shows_how_far_the_reading_is(batches, capfd, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # which rich takes for a terminal
    collect(Returning(), batches)
    assert "Reading" in capfd.readouterr().err


@pytest.mark.parametrize("terminal", [False, True])
def test_a_loader_need_not_know_its_length(terminal, monkeypatch):
    class Endless(DataLoader):
        def __len__(self):
            raise NotImplementedError

    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    assert len(collect(Returning(), Endless(TensorDataset(X, Y), batch_size=4)).labels) == 10


def test_nothing_is_written_to_a_standard_error_that_is_no_terminal(capfd):
    collect(Returning(), loader(X, Y))
    assert capfd.readouterr() == ("", "")
