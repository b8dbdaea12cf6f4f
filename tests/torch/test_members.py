"""Ensembles and dropout masks: the log of their mean softmax gets one temperature, which belongs to the number of members."""

import copy
import io
import pickle

import numpy as np
import pytest
import reference
import torch
from torch import nn

import nishimori
from nishimori.errors import InputError
from nishimori.torch import Calibrated, Ensemble, MCDropout, calibrate, collect, fold_temperature, logits_processor, to_onnx

K = 3


def networks(n=5, n_outputs=K):
    with torch.random.fork_rng():
        torch.manual_seed(8)
        common = torch.randn(n_outputs, 6)
        models = [nn.Linear(6, n_outputs) for _ in range(n)]
    with torch.no_grad():
        for model in models:
            model.weight.add_(common)
    return models


def data(n=500):
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(n, 6, generator=generator)
    logits = 2 * torch.stack([network(x) for network in networks()]).mean(dim=0)
    return x, torch.multinomial(logits.softmax(dim=1), 1, generator=generator)[:, 0]


def dropout_network():
    with torch.random.fork_rng():
        torch.manual_seed(3)
        first, last = nn.Linear(6, 40), nn.Linear(40, K)
    x, _ = data()
    with torch.no_grad():  # so that it can tell classes apart
        hidden = torch.relu(first(x))
        target = torch.stack([network(x) for network in networks()]).mean(dim=0)
        last.weight.copy_(3 * torch.linalg.lstsq(hidden, target).solution.T)
        last.bias.zero_()
    return nn.Sequential(first, nn.BatchNorm1d(40, affine=False), nn.ReLU(), nn.Dropout(0.3), last).eval()


def pooled_by_numpy(models, x):
    p = np.stack([reference.softmax(network(x).detach().double().numpy()) for network in models])
    return np.log(p.mean(axis=0))


def test_a_list_of_networks_is_pooled_and_then_calibrated():
    models, (x, y) = networks(), data()
    calibrated = calibrate(models, (x, y), method="ec")
    expected = pooled_by_numpy(models, x)
    T = reference.ec_temperature(expected, y.numpy())
    assert float(calibrated.temperature) == pytest.approx(T, rel=1e-5)
    np.testing.assert_allclose(calibrated.model(x).detach(), expected, atol=1e-5)
    np.testing.assert_allclose(calibrated.predict_proba(x), reference.softmax(expected, T), atol=1e-5)
    np.testing.assert_array_equal(calibrated.predict(x), expected.argmax(axis=1))


def test_it_is_what_member_axis_gives():
    models, (x, y) = networks(), data()
    members = np.stack([collect(network, (x, y)).logits for network in models])
    of_arrays = nishimori.calibrator("adaptive").fit(members, y, member_axis=0)
    calibrated = calibrate(nn.ModuleList(models), (x, y))
    assert float(calibrated.temperature) == pytest.approx(of_arrays.temperature_, rel=1e-5)
    np.testing.assert_allclose(calibrated.predict_proba(x), of_arrays.predict_proba(members), atol=1e-5)
    assert calibrated.calibrator.members_ == of_arrays.members_ == (5, 0)
    np.testing.assert_allclose(calibrated.calibrator.predict_proba(members), of_arrays.predict_proba(members), atol=1e-5)


def test_members_may_be_calibrated_already():
    models, (x, y) = networks(), data()
    own = [calibrate(network, (x, y), method="ts") for network in models]
    twice = calibrate(own, (x, y), method="ts")
    expected = pooled_by_numpy(own, x)
    assert float(twice.temperature) == pytest.approx(reference.ts_temperature(expected, y.numpy()), rel=1e-5)


class InDictionary(nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return {"scores": self.network(x), "x": x}


def test_output_says_where_the_logits_of_members_are():
    models, (x, y) = networks(), data()
    plain = calibrate(models, (x, y))
    picked = calibrate([InDictionary(network) for network in models], (x, y), output="scores")
    assert torch.equal(picked.predict_proba(x), plain.predict_proba(x))
    by_function = calibrate(models, [(x, y)], forward=lambda model, batch: (model(batch[0]), batch[1]))
    assert float(by_function.temperature) == float(plain.temperature)
    with pytest.raises(InputError, match="Say where the logits of a member are"):
        calibrate([InDictionary(network) for network in models], (x, y))


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_binary_scores_of_members_are_the_log_odds_of_the_mean(shape):
    class Score(nn.Module):
        def __init__(self, network):
            super().__init__()
            self.network = network

        def forward(self, x):
            return self.network(x).reshape(shape)

    models, (x, _) = [Score(network) for network in networks(n_outputs=1)], data()
    p = np.stack([torch.sigmoid(model(x).double()).detach().numpy() for model in models]).mean(axis=0)
    found = Ensemble(models)(x)
    assert found.shape == p.shape
    np.testing.assert_allclose(found.detach(), np.log(p / (1 - p)), atol=1e-5)


def test_classes_may_be_in_another_dimension():
    models = [nn.Conv2d(2, K, 1) for _ in range(3)]
    x = torch.randn(4, 2, 5, K)
    found = Ensemble(models, class_axis=1)(x)
    expected = torch.stack([network(x).softmax(dim=1) for network in models]).mean(dim=0).log()
    torch.testing.assert_close(found, expected)


def test_a_class_that_some_members_mask_has_the_mean_of_the_others():
    class Masked(nn.Module):
        def __init__(self, network, column):
            super().__init__()
            self.network, self.column = network, column

        def forward(self, x):
            return self.network(x).index_fill(1, torch.tensor(self.column), -torch.inf)

    x = data()[0][:5]
    models = [Masked(network, [column, 0]) for network, column in zip(networks(3), (1, 0, 0), strict=True)]
    p = torch.stack([model(x).softmax(dim=1) for model in models]).detach()
    found = Ensemble(models)(x).detach()
    assert (found[:, 0] == -torch.inf).all()
    torch.testing.assert_close(found[:, 1], p[1:, :, 1].mean(dim=0).log())
    torch.testing.assert_close(found[:, 2], p[:, :, 2].mean(dim=0).log())


def test_state_dicts_and_pickles_give_the_same_probabilities():
    x, y = data()
    calibrated = calibrate(networks(), (x, y))
    expected = calibrated.predict_proba(x)
    file = io.BytesIO()
    torch.save(calibrated.state_dict(), file)
    file.seek(0)
    fresh = Calibrated(Ensemble([nn.Linear(6, K) for _ in range(5)]))
    fresh.load_state_dict(torch.load(file, weights_only=True))
    for again in (fresh, pickle.loads(pickle.dumps(calibrated)), copy.deepcopy(calibrated)):
        assert torch.equal(again.predict_proba(x), expected)


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("n", [3, 7])
def test_a_state_dict_of_other_members_is_refused(n, strict):
    stored = calibrate(networks(), data()).state_dict()
    with pytest.raises(InputError, match=rf"^The state dict must be that of {n} members, got 5 members\. T belongs to"):
        Calibrated(Ensemble([nn.Linear(6, K) for _ in range(n)])).load_state_dict(stored, strict=strict)


def test_a_calibrator_of_other_members_is_refused(tmp_path):
    calibrated = calibrate(networks(), data())
    calibrated.calibrator.save(tmp_path / "calibration.json")
    loaded = nishimori.load(tmp_path / "calibration.json")
    again = Calibrated(calibrated.model, loaded)
    assert torch.equal(again.predict_proba(data()[0]), calibrated.predict_proba(data()[0]))
    for model in (Ensemble(networks(3)), networks()[0]):
        with pytest.raises(InputError, match="must be a calibrator of as many members as the network averages, got one of 5"):
            Calibrated(model, loaded)
    with pytest.raises(InputError, match="must be a calibrator of as many members as the network averages"):
        logits_processor(loaded)
    assert Calibrated(networks()[0], loaded.map_).map == again.map


def test_an_average_cannot_be_folded():
    calibrated = calibrate(networks(), data())
    message = "must have one last layer that computes the logits, got the class Ensemble, which averages the softmaxes of 5"
    for fold in (calibrated.fold, lambda: calibrated.fold("networks.0"), lambda: fold_temperature(calibrated.model, 2.0)):
        with pytest.raises(InputError, match=message):
            fold()


@pytest.mark.filterwarnings("ignore")
def test_an_ensemble_can_be_exported(tmp_path):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    x, y = data()
    calibrated = calibrate(networks(), (x, y))
    to_onnx(calibrated, x[:4], tmp_path / "ensemble.onnx", output="probabilities")
    session = runtime.InferenceSession(tmp_path / "ensemble.onnx")
    (found,) = session.run(None, {session.get_inputs()[0].name: x[:9].numpy()})
    np.testing.assert_allclose(found, calibrated.predict_proba(x[:9]), atol=1e-6)


@pytest.mark.parametrize(
    ("models", "message"),
    [([], "at least one, got none"), ([nn.Identity()], None), (["network"], r"`models\[0\]` must be a torch.nn.Module")],
)
def test_what_is_no_list_of_networks_is_refused(models, message):
    if message is None:
        models, message = models * 2, "must be different networks, at least one, got the same one twice"
    with pytest.raises(InputError, match=message):
        calibrate(models, data())


def test_members_that_return_other_shapes_are_refused():
    with pytest.raises(InputError, match=r"^All members must return logits of the same shape, got shape \(500, 4\) after"):
        Ensemble([nn.Linear(6, 3), nn.Linear(6, 4)])(data()[0])


# --- dropout masks ---------------------------------------------------------------------------------------------------------


def masks_by_hand(network, x, n, seed=0):
    """The mean over masks that a seed gives, with all other modules in eval mode."""
    network = copy.deepcopy(network).eval()
    network[3].train()
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(seed)
        p = [reference.softmax(network(x).double().numpy()) for _ in range(n)]
    return np.log(np.mean(p, axis=0))


@pytest.mark.parametrize("training", [True, False])
def test_dropout_masks_are_pooled_and_then_calibrated(training):
    network, (x, y) = dropout_network().train(training), data(250)
    modes = [module.training for module in network.modules()]
    state, statistics = torch.get_rng_state(), network[1].running_mean.clone()
    calibrated = calibrate(network, (x, y), samples=20, method="ts")
    expected = masks_by_hand(network, x, 20)
    np.testing.assert_allclose(calibrated(x).detach(), expected / float(calibrated.temperature), atol=1e-4)
    assert float(calibrated.temperature) == pytest.approx(reference.ts_temperature(expected, y.numpy()), rel=1e-4)
    assert torch.equal(calibrated.predict_proba(x), calibrated.predict_proba(x))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(network[1].running_mean, statistics)
    assert [module.training for module in network.modules()] == modes


def test_masks_do_not_depend_on_the_generator_of_the_caller():
    x = data()[0]
    averaged = MCDropout(dropout_network(), samples=5)
    first = averaged(x)
    torch.rand(7)
    assert torch.equal(averaged(x), first)
    assert not torch.equal(MCDropout(dropout_network(), samples=5, seed=1)(x), first)


def test_masks_are_restored_after_an_error():
    network = dropout_network()
    state = torch.get_rng_state()
    with pytest.raises(RuntimeError):
        MCDropout(network)(torch.ones(2, 5))
    assert not network[3].training
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("network", [nn.Linear(6, K), nn.Sequential(nn.Dropout(0.0), nn.Linear(6, K))])
def test_a_network_without_dropout_is_refused(network):
    with pytest.raises(InputError, match="`model` must have a dropout module with p > 0 where dropout masks are averaged"):
        calibrate(network, data(), samples=20)


def test_samples_are_for_one_network():
    with pytest.raises(InputError, match="`samples` must be left out where `model` is a list of networks, got 4"):
        calibrate(networks(), data(), samples=4)
    with pytest.raises(InputError, match="`samples` must be"):
        calibrate(dropout_network(), data(), samples=0)


def test_a_state_dict_brings_its_seed_and_refuses_another_number_of_masks():
    x, y = data()
    calibrated = calibrate(MCDropout(dropout_network(), samples=6, seed=9), (x, y))
    stored = calibrated.state_dict()
    fresh = Calibrated(MCDropout(dropout_network(), samples=6))
    fresh.load_state_dict(stored)
    assert torch.equal(fresh.predict_proba(x), calibrated.predict_proba(x))
    with pytest.raises(InputError, match=r"^The state dict must be that of 20 members, got 6 members"):
        Calibrated(MCDropout(dropout_network(), samples=20)).load_state_dict(stored)


def test_random_masks_are_not_exported(tmp_path):
    pytest.importorskip("onnxscript")
    calibrated = calibrate(dropout_network(), data(), samples=6)
    with pytest.raises(InputError, match="must be without random numbers to be exported, got an MCDropout with 6 masks"):
        to_onnx(calibrated, data()[0], tmp_path / "dropout.onnx")
    with pytest.raises(InputError, match="got the class MCDropout, which averages the softmaxes of 6 members"):
        calibrated.fold()


def test_calibrating_again_gives_a_new_temperature_for_the_same_average():
    x, y = data()
    calibrated = calibrate(networks(), (x, y), method="ts")
    again = calibrate(calibrated, (x[:200], y[:200]), method="ts")
    assert again.model is calibrated.model
    expected = reference.ts_temperature(pooled_by_numpy(networks(), x[:200]), y[:200].numpy())
    assert float(again.temperature) == pytest.approx(expected, rel=1e-5)
