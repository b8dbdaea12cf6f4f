"""A loader is read once, and its logits and labels are kept on the CPU."""

from collections import UserDict, namedtuple
from pathlib import Path

import numpy as np
import pytest
import torch
from own_process import measure
from small_networks import OUTPUTS, Returning, X, Y, loader
from torch import nn
from torch.utils.data import IterableDataset

from nishimori.torch import collect
from nishimori.torch._run import move_to_device

DEVICES = pytest.mark.parametrize(
    "device",
    ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"))],
)


def test_all_batches_are_kept_in_order_as_plain_tensors_on_the_cpu():
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
        n_passes = 0

        def __iter__(self):
            self.n_passes += 1
            return iter(loader(X, Y))

    counting = Counting()
    collect(Returning(), counting)
    assert counting.n_passes == 1


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


def test_rows_are_joined_on_the_cpu_whatever_the_default_device():
    with torch.device("meta"):
        assert torch.equal(collect(nn.Identity(), [(X[:4], Y[:4]), (X[4:], Y[4:])]).logits, X)


def test_parts_of_several_precisions_are_joined_in_the_widest():
    parts = [X[:4].half(), X[4:5].double(), X[5:].half()]
    batches = zip(parts, Y.split([4, 1, 5]), strict=True)
    assert torch.equal(collect(nn.Identity(), batches).logits, torch.cat(parts))


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux, which tells how much memory is used")
def test_rows_are_not_in_memory_twice():
    n_batches, n_rows = 5, 10_000
    assert measure("collected", n_batches=n_batches, n_rows=n_rows) < 1.5 * n_batches * n_rows * 1_000 * 4


@pytest.mark.parametrize("output", OUTPUTS.values(), ids=OUTPUTS)
def test_logits_are_found_in_every_usual_type_of_output(output):
    model = Returning(output)
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
def test_inputs_and_labels_are_separated_in_every_usual_type_of_batch(batches, key):
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


def test_an_iterable_dataset_may_yield_batches():
    assert len(collect(Returning(), Stream()).labels) == 10


def test_a_binary_score_of_shape_n_keeps_its_shape():
    model = Returning(lambda z: z[:, 0], n_out=1)
    assert collect(model, loader(X, Y > 0)).logits.shape == (10,)


@DEVICES
def test_batches_are_moved_to_the_device_of_the_network(device):
    model = Returning().to(device)
    batch = {"x": X, "scale": S.to(device), "labels": Y}
    found = collect(model, [batch])
    assert found.logits.device.type == found.labels.device.type == "cpu"
    assert torch.allclose(found.logits, model(2 * X.to(device)).cpu(), atol=1e-3)


@DEVICES
def test_the_network_and_its_inputs_are_moved_to_the_device_that_was_passed(device):
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
    Point = namedtuple("Point", ["x", "y"])
    packed = nn.utils.rnn.pack_sequence([X[:3], X[:2]])
    nested = {"a": [X, (Y, "text")], "b": Point(X, {"c": Y}), "d": 3, "e": packed}
    there = move_to_device(nested, torch.device("meta"))
    assert there["a"][0].is_meta
    assert there["a"][1][0].is_meta
    assert there["a"][1][1] == "text"
    assert there["b"].x.is_meta
    assert there["b"].y["c"].is_meta
    assert there["d"] == 3
    assert there["e"].data.is_meta


def test_batches_are_not_moved_for_a_network_without_weights():
    assert torch.equal(collect(nn.Identity(), [(X[:, :3], Y)]).logits, X[:, :3])


def test_encodings_of_transformers_are_passed_as_keyword_arguments():
    transformers = pytest.importorskip("transformers")
    batch = transformers.BatchEncoding({"x": X, "labels": Y})
    model = Returning()
    assert torch.allclose(collect(model, [batch]).logits, model(X))
