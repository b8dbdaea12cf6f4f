"""`forward` reads any batch and any model; without it, an error of the model describes the batch."""

from types import SimpleNamespace

import numpy as np
import pytest
import reference
import torch
from small_networks import Returning, X, Y, loader
from torch import nn

import nishimori
from nishimori.errors import InputError
from nishimori.torch import calibrate, collect
from nishimori.torch._run import structure

LOGITS, LABELS = reference.drawn(600, 4)
Z, TRUTH = torch.tensor(LOGITS), torch.tensor(LABELS)
IDS = torch.arange(10)


class Strict(nn.Module):
    """A network that takes one dict with certain keys, and returns a tuple."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, batch):
        assert set(batch) == {"x"}, "unknown keys"
        return self.fc(batch["x"]), batch["x"]


UNUSUAL = {
    "a tuple with an identifier": (Returning(), [(X, IDS, Y)], lambda m, b: (m(b[0]), b[2])),
    "labels first": (Returning(), [(Y, X)], lambda m, b: (m(b[1]), b[0])),
    "a dict with an identifier": (Returning(), [{"x": X, "id": IDS, "y": Y}], lambda m, b: (m(b["x"]), b["y"])),
    "an object": (Returning(), [SimpleNamespace(x=X, y=Y)], lambda m, b: (m(b.x), b.y)),
    "a tensor with the labels inside": (
        Returning(),
        [torch.cat([X, Y[:, None].float()], dim=1)],
        lambda m, b: (m(b[:, :4]), b[:, 4].long()),
    ),
    "a model that returns a tuple": (Strict(), [(X, Y)], lambda m, b: (m({"x": b[0]})[0], b[1])),
    "an output with logits": (Returning(lambda z: {"logits": z}), [(X, Y)], lambda m, b: (m(b[0]), b[1])),
    "a list": (Returning(), [(X, Y)], lambda m, b: [m(b[0]), b[1]]),
}


@pytest.mark.parametrize(("model", "batches", "forward"), UNUSUAL.values(), ids=UNUSUAL)
def test_forward_reads_unusual_batches_and_models(model, batches, forward):
    found = collect(model, batches, forward=forward)
    assert torch.allclose(found.logits, model.fc(X))
    assert torch.equal(found.labels, Y)


def test_calibrate_takes_forward():
    batches = [{"z": Z, "id": torch.arange(600), "y": TRUTH}]
    calibrated = calibrate(nn.Identity(), batches, forward=lambda m, b: (m(b["z"]), b["y"]), method="ec")
    assert calibrated.temperature.item() == pytest.approx(reference.ec_temperature(LOGITS, LABELS), rel=1e-6)


def test_calibrating_again_gives_forward_the_network_without_its_temperature():
    network = nn.Identity()
    once = calibrate(network, (Z, TRUTH))
    seen = []
    calibrate(once, (Z, TRUTH), forward=lambda m, b: (seen.append(m) or m(b[0]), b[1]))
    assert all(each is network for each in seen)


def test_forward_runs_in_eval_mode_without_gradients():
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 3)).train()
    seen = []

    def forward(m, b):
        seen.append((m.training, torch.is_grad_enabled()))
        return m(b[0]), b[1]

    collect(model, [(X, Y)], forward=forward)
    assert seen == [(False, False)]
    assert model.training


def test_forward_gets_batches_on_the_device_of_the_network():
    class Graph:
        def to(self, device):
            self.device = device
            return self

    graph = Graph()
    collect(Returning(), [graph], forward=lambda m, b: (m(X), Y))
    assert graph.device == torch.device("cpu")


REFUSED = {
    "not a function": (
        lambda: collect(Returning(), [(X, Y)], forward="logits"),
        "`forward` must return the logits and labels of each batch, got TypeError: 'str' object is not callable in batch "
        "0. The batch is tuple (tensor float32 (10, 4), tensor int64 (10,)).",
    ),
    "a key for the clusters as well": (
        lambda: collect(Returning(), [(X, Y)], forward=lambda m, b: (m(b[0]), b[1]), clusters="document"),
        "`clusters` must be left out where `forward` is passed, got 'document': `forward` returns the clusters. Pass "
        '`forward=lambda model, batch: {"logits": logits, "labels": labels, "clusters": clusters}`.',
    ),
    "logits alone": (
        lambda: collect(Returning(), [(X, Y)], forward=lambda m, b: m(b[0])),
        "`forward` must return the logits and labels of each batch, got tensor float32 (10, 3) in batch 0. Return a tuple "
        "`(logits, labels)`, or a dict with the keys 'logits', 'labels' "
        "and, where you have them, 'groups', 'clusters' and 'sample_weight'.",
    ),
    "a tuple in place of logits": (
        lambda: collect(Strict(), [(X, Y)], forward=lambda m, b: (m({"x": b[0]}), b[1])),
        "`forward` must return a tensor of logits, an object with `.logits` or a dict with the key 'logits', got tuple "
        "(tensor float32 (10, 3), tensor float32 (10, 4)). Return the tensor of logits first.",
    ),
    "an error inside": (
        lambda: collect(Returning(), [{"x": X, "y": Y}], forward=lambda m, b: (m(b["z"]), b["y"])),
        "`forward` must return the logits and labels of each batch, got KeyError: 'z' in batch 0. The batch is dict {'x': "
        "tensor float32 (10, 4), 'y': tensor int64 (10,)}.",
    ),
    "an extra entry": (
        lambda: collect(Strict(), [(X, IDS, Y)]),
        "`model` must accept the batches of `loader`, got TypeError: Strict.forward() takes 2 positional arguments but 3 "
        "were given in batch 0. The batch is tuple (tensor float32 (10, 4), tensor int64 (10,), tensor int64 (10,)). All "
        "of it but the labels is passed as arguments. To call the model in another way, pass `forward=lambda model, "
        "batch: (model(batch[...]), batch[...])`.",
    ),
    "an extra key": (
        lambda: collect(Returning(), [{"x": X, "id": ["a"] * 10, "labels": Y}]),
        "`model` must accept the batches of `loader`, got TypeError: Returning.forward() got an unexpected keyword "
        "argument 'id' in batch 0. The batch is dict {'x': tensor float32 (10, 4), 'id': list of 10 str, 'labels': tensor "
        "int64 (10,)}. All of it but the labels is passed as arguments. To call the model in another way, pass "
        "`forward=lambda model, batch: (model(batch[...]), batch[...])`.",
    ),
    "another dtype": (
        lambda: collect(Returning(), [(X, Y), (X.double(), Y)]),
        "`model` must accept the batches of `loader`, got RuntimeError: mat1 and mat2 must have the same dtype, but got "
        "Double and Float in batch 1. The batch is tuple (tensor float64 (10, 4), tensor int64 (10,)). All of it but the "
        "labels is passed as arguments. To call the model in another way, pass `forward=lambda model, batch: "
        "(model(batch[...]), batch[...])`.",
    ),
    "an error without a message": (
        lambda: collect(Returning(failing(ZeroDivisionError())), [{"labels": Y, "x": X}]),
        "`model` must accept the batches of `loader`, got ZeroDivisionError in batch 0. The batch is dict {'labels': "
        "tensor int64 (10,), 'x': tensor float32 (10, 4)}. All of it but the labels is passed as arguments. To call the "
        "model in another way, pass `forward=lambda model, batch: (model(batch[...]), batch[...])`.",
    ),
}


def failing(error):
    def output(z):
        raise error

    return output


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_read_is_refused_with_this_message(call, message):
    with pytest.raises(InputError) as error:
        call()
    assert str(error.value) == message


@pytest.mark.parametrize("forward", [None, lambda m, b: (m(b[0]), b[1])], ids=["usual", "forward"])
def test_the_error_of_the_model_is_the_cause(forward):
    inner = RuntimeError("word " * 200)
    with pytest.raises(InputError) as error:
        collect(Returning(failing(inner)), [(X, Y)], forward=forward)
    assert error.value.__cause__ is inner
    assert len(str(error.value)) < 800


@pytest.mark.parametrize("forward", [None, lambda m, b: (m(b[0]), b[1])], ids=["usual", "forward"])
@pytest.mark.parametrize(
    "inner", [torch.OutOfMemoryError("CUDA"), MemoryError(), KeyboardInterrupt(), InputError("ours")], ids=repr
)
def test_errors_that_do_not_come_from_the_batch_stay_as_they_are(inner, forward):
    with pytest.raises(type(inner)) as error:
        collect(Returning(failing(inner)), [(X, Y)], forward=forward)
    assert error.value is inner


def test_the_structure_of_long_batches_is_cut_and_arrays_are_shown():
    assert structure({"a": np.ones((2, 3)), "b": [X, (Y,)], "c": None, "d": ()}) == (
        "dict {'a': array float64 (2, 3), 'b': list (tensor float32 (10, 4), tuple (tensor int64 (10,))), 'c': NoneType, "
        "'d': tuple ()}"
    )
    assert structure([Y] * 100).count("tensor") == 8
    assert structure([Y] * 100).endswith("...)")


UNORDERED = {
    "empty": (torch.ones(0, 3), "tensor float32 (0, 3)"),
    "complex": (torch.ones(2, dtype=torch.complex64), "tensor complex64 (2,)"),
    "meta": (torch.ones(2, device="meta"), "tensor float32 (2,)"),
    "sparse": (torch.eye(2).to_sparse(), "tensor float32 (2, 2)"),
    "text": (np.array(["a", "b"]), "array <U1 (2,)"),
    "objects": (np.array([None, 1]), "array object (2,)"),
    "objects with an order": (np.array([2, 1], dtype=object), "array object (2,)"),
}


@pytest.mark.parametrize(("value", "expected"), UNORDERED.values(), ids=UNORDERED)
def test_values_without_a_range_are_described_without_one(value, expected):
    assert structure(value) == expected


@pytest.mark.parametrize("truth", [TRUTH, LABELS, LABELS.tolist()], ids=["tensor", "array", "list"])
def test_tensors_may_stand_in_place_of_a_loader(truth):
    calibrated = calibrate(nn.Identity(), (Z, truth), method="ec")
    assert calibrated.temperatures == nishimori.temperatures(Z, TRUTH)
    logits, labels = collect(nn.Identity(), (Z, truth))
    assert torch.equal(logits, Z)
    assert torch.equal(labels, TRUTH)


def test_tensors_are_run_in_batches():
    sizes = []
    collect(nn.Identity(), (Z, TRUTH), forward=lambda m, b: (sizes.append(len(b[0])) or m(b[0]), b[1]))
    assert sizes == [256, 256, 88]


def test_several_inputs_may_be_tensors():
    model = Returning()
    scale = torch.full((10, 1), 2.0)
    assert torch.allclose(collect(model, (X, scale, Y)).logits, model(2 * X))


def test_what_collect_returns_can_be_calibrated():
    assert calibrate(nn.Identity(), collect(nn.Identity(), (Z, TRUTH)), method="ec").temperatures == nishimori.temperatures(
        Z, TRUTH
    )


@pytest.mark.parametrize(
    "batches", [[(X, Y)], ((X, Y),), [[X, Y]], ([X, Y],), ((X, Y), (X, Y))], ids=lambda b: type(b).__name__
)
def test_a_sequence_of_pairs_is_a_loader(batches):
    seen = []
    collect(Returning(), batches, forward=lambda m, b: (seen.append(b) or m(b[0]), b[1]))
    assert len(seen) == len(batches)


def test_a_list_of_tensors_is_a_loader_for_forward():
    batches = [torch.cat([X, Y[:, None].float()], dim=1)] * 2
    found = collect(Returning(), batches, forward=lambda m, b: (m(b[:, :4]), b[:, 4]))
    assert len(found.labels) == 20


@pytest.mark.parametrize("labels", [Y > 0, (Y > 0)[:, None].float()], ids=["one per row", "a column, as for BCEWithLogitsLoss"])
def test_one_output_unit_is_collected_as_a_binary_score(labels):
    model = Returning(n_out=1)
    found = collect(model, loader(X, labels))
    assert torch.allclose(found.logits, model(X)[:, 0])
    assert found.labels.tolist() == (Y > 0).tolist()


def test_labels_of_one_output_unit_may_be_a_column_of_an_array():
    labels = (Y > 0).numpy()
    found = collect(Returning(n_out=1), [(X, labels[:, None])])
    assert found.labels.tolist() == labels.tolist()


def test_one_output_unit_is_calibrated_as_a_binary_score():
    z, y = Z[:, 0] - Z[:, 1], (TRUTH == 0).long()
    calibrated = calibrate(nn.Identity(), (z[:, None], y), method="ec")
    two = np.stack([np.zeros(600), z.numpy()], axis=1)
    assert calibrated.temperature.item() == pytest.approx(reference.ec_temperature(two, y.numpy()), rel=1e-6)


def test_one_output_unit_stands_for_two_classes():
    with pytest.raises(InputError, match="`labels` must be from 0 to 1, got 2"):
        collect(Returning(n_out=1), loader(X, Y))
