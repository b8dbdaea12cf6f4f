"""Predictions are those of eval mode, without gradient, and leave the network as it was."""

import threading

import numpy as np
import pytest
import reference
import torch
from small_networks import X
from torch import nn

from nishimori.errors import InputError
from nishimori.torch import Calibrated

PREDICTIONS = pytest.mark.parametrize(
    "predict", [Calibrated.predict_proba, Calibrated.predict], ids=["probabilities", "classes"]
)


class Trained(nn.Module):
    """A network with dropout and batch normalisation, as after a training loop; it can be told to fail."""

    def __init__(self, n_out=3):
        super().__init__()
        self.norm, self.dropout, self.fc = nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, n_out)
        self.fails = False

    def forward(self, x):
        z = self.fc(self.dropout(self.norm(x)))
        if self.fails:
            raise RuntimeError("out of memory")
        return z


@pytest.fixture
def calibrated():
    torch.manual_seed(0)
    return Calibrated(Trained(), 1.7).train()


def state(module):
    return {name: each.clone() for name, each in module.state_dict().items()}, [each.training for each in module.modules()]


def assert_unchanged(module, before):
    tensors, modes = state(module)
    assert modes == before[1]
    assert all(torch.equal(tensors[name], each) for name, each in before[0].items())


def test_probabilities_are_the_softmax_of_the_logits_of_eval_mode(calibrated):
    p = calibrated.predict_proba(X)
    z = calibrated.model.eval()(X).detach().double().numpy()
    np.testing.assert_allclose(p, reference.softmax(z, 1.7), atol=1e-6)


def test_predicted_classes_are_the_largest_logits_of_eval_mode(calibrated):
    found = calibrated.predict(X)
    assert found.dtype == torch.int64
    assert torch.equal(found, calibrated.model.eval()(X).argmax(dim=1))


@PREDICTIONS
def test_a_prediction_of_a_network_in_training_mode_has_no_gradient_and_changes_nothing(predict, calibrated):
    calibrated.model.norm.eval()
    before = state(calibrated)
    first = predict(calibrated, X.clone().requires_grad_())
    assert not first.requires_grad
    assert torch.equal(first, predict(calibrated, X))
    assert_unchanged(calibrated, before)


@PREDICTIONS
def test_no_graph_is_recorded_during_a_prediction(predict, calibrated):
    seen = []
    calibrated.model.register_forward_hook(lambda *_: seen.append(torch.is_grad_enabled()))
    predict(calibrated, X)
    assert seen == [False]


def test_probabilities_have_no_gradient_if_the_network_passes_its_input_through():
    assert not Calibrated(nn.Identity(), 2.0).predict_proba(X.clone().requires_grad_()).requires_grad


@PREDICTIONS
def test_the_network_is_unchanged_after_an_error(predict, calibrated):
    before = state(calibrated)
    calibrated.model.fails = True
    with pytest.raises(RuntimeError, match="out of memory"):
        predict(calibrated, X)
    assert_unchanged(calibrated, before)


def test_probabilities_can_be_used_in_later_training(calibrated):
    p = calibrated.predict_proba(X)
    nn.functional.cross_entropy(calibrated(X), p).backward()
    assert calibrated.model.fc.weight.grad is not None


def test_a_network_in_eval_mode_is_not_switched(calibrated):
    def refuse(mode=True):
        raise AssertionError("modes must not change")

    calibrated.eval()
    calibrated.model.train = calibrated.model.norm.train = refuse
    calibrated.predict_proba(X)


def test_simultaneous_predictions_are_all_those_of_eval_mode(calibrated):
    entered, finish = threading.Event(), threading.Event()

    def pause(module, args):
        if not entered.is_set():  # only the first prediction waits, in the middle of its computation
            entered.set()
            assert finish.wait(60)

    expected = calibrated.predict_proba(X)
    calibrated.model.fc.register_forward_pre_hook(pause)
    found = []
    first = threading.Thread(target=lambda: found.append(calibrated.predict_proba(X)))
    first.start()
    assert entered.wait(60)
    second = calibrated.predict_proba(X)
    assert not calibrated.model.dropout.training  # the first one is still at work
    finish.set()
    first.join()
    assert torch.equal(second, expected)
    assert torch.equal(found[0], expected)
    assert all(each.training for each in calibrated.modules())


@pytest.mark.parametrize("n", [1, 10])
def test_one_output_unit_is_a_binary_score(n):
    z = torch.linspace(-3, 3, n)[:, None]
    calibrated = Calibrated(nn.Identity(), 1.7)
    positive = 1 / (1 + np.exp(-z[:, 0].double().numpy() / 1.7))
    for scores in (z, z[:, 0]):
        p = calibrated.predict_proba(scores)
        np.testing.assert_allclose(p, np.stack([1 - positive, positive], axis=1), atol=1e-6)
        assert calibrated.predict(scores).tolist() == [int(each > 0) for each in z[:, 0]]
    assert calibrated(z).shape == (n, 1)


def test_the_class_of_a_tie_is_the_first_as_of_two_equal_logits():
    calibrated = Calibrated(nn.Identity(), 1.7)
    assert calibrated.predict(torch.zeros(1)).tolist() == calibrated.predict(torch.zeros(1, 2)).tolist() == [0]


@PREDICTIONS
def test_a_single_number_is_refused(predict):
    with pytest.raises(InputError) as error:
        predict(Calibrated(nn.Identity()), torch.ones(()))
    assert str(error.value) == (
        "`model` must return logits of shape (n, n_classes) or (n,), got a single number. Return one row per sample."
    )


@pytest.mark.parametrize("call", [Calibrated.__call__, Calibrated.predict_proba, Calibrated.predict], ids=lambda f: f.__name__)
def test_a_network_that_returns_a_tuple_is_refused_with_a_remedy(call):
    class Pair(Trained):
        def forward(self, x):
            return super().forward(x), x

    calibrated = Calibrated(Pair(), 1.7).eval()
    expected = calibrated.model(X)[0] / 1.7
    with pytest.raises(InputError) as error:
        call(calibrated, X)
    assert str(error.value) == (
        "`model` must return a tensor of logits, an object with `.logits` or a dict with the key 'logits', got tuple "
        "(tensor float32 (10, 3), tensor float32 (10, 4)). Say where the logits are: `Calibrated(model, T, output=0)`, "
        "a key, or a function."
    )
    assert torch.allclose(Calibrated(calibrated.model, 1.7, output=0)(X)[0], expected, atol=1e-6)


@pytest.mark.parametrize("temperature", [1e-46, 1e39])
def test_a_temperature_that_float32_cannot_hold_is_refused(temperature):
    with pytest.raises(InputError, match=r"^`temperature` must lie between 1\.17549e-38 and 3\.40282e\+38, got "):
        Calibrated(torch.nn.Identity(), temperature)
