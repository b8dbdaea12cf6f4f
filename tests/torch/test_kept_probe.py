"""The inputs that `calibrate` keeps: folding and saving are checked with them, and no file has them."""

import copy
import io
import pickle

import numpy as np
import pytest
import torch
from torch import nn

from nishimori.errors import InputError, InputWarning
from nishimori.torch import calibrate

RNG = np.random.default_rng(0)
X = torch.tensor(RNG.normal(size=(600, 5)), dtype=torch.float32)
Y = torch.tensor(RNG.integers(3, size=600))


class Capped(nn.Module):
    """Its last layer is followed by a function that no weights of it can undo."""

    def __init__(self, scale=6.0):
        super().__init__()
        self.fc = nn.Linear(5, 3)
        self.scale = scale
        with torch.no_grad():
            self.fc.weight.mul_(8)

    def forward(self, x):
        return self.scale * torch.tanh(self.fc(x) / self.scale)

    def save_pretrained(self, folder):
        torch.save(self.state_dict(), folder / "weights.pt")


class Plain(Capped):
    def forward(self, x):
        return self.fc(x)


def labels_of(model):
    torch.manual_seed(0)
    return torch.distributions.Categorical(logits=model(X).detach() / 2).sample()


def calibrated_with(model, **options):
    return calibrate(model, (X, labels_of(model)), method="ts", **options)


def test_folding_and_saving_a_capped_network_is_refused(tmp_path):
    calibrated = calibrated_with(Capped())
    before = calibrated.model.fc.weight.clone()
    with pytest.raises(InputError, match="differ from the calibrated logits"):
        calibrated.fold()
    torch.testing.assert_close(calibrated.model.fc.weight, before)
    with pytest.raises(InputError, match="differ from the calibrated logits"):
        calibrated.save_pretrained(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_plain_network_is_folded_and_saved(tmp_path):
    calibrated = calibrated_with(Plain())
    expected = calibrated(X).detach()
    calibrated.save_pretrained(tmp_path)
    loaded = Plain()
    loaded.load_state_dict(torch.load(tmp_path / "weights.pt"))
    torch.testing.assert_close(loaded(X), expected)
    torch.testing.assert_close(calibrated.fold()(X), expected)


@pytest.mark.parametrize("options", [{"keep_probe": False}, {}])
def test_the_check_can_be_left_out_with_a_warning(options):
    calibrated = calibrated_with(Capped(), **options)
    T = float(calibrated.temperature)
    weight = calibrated.model.fc.weight.detach().clone()
    with pytest.warns(InputWarning, match="It was not checked that `fc` computes the logits"):
        folded = calibrated.fold(probe=False)
    torch.testing.assert_close(folded.fc.weight, weight / T)


@pytest.mark.parametrize("use", [lambda m, path: m.fold(), lambda m, path: m.save_pretrained(path)], ids=["fold", "save"])
def test_without_kept_inputs_a_probe_must_be_passed(use, tmp_path):
    calibrated = calibrated_with(Plain(), keep_probe=False)
    with pytest.raises(InputError, match="`probe` must be passed"):
        use(calibrated, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_four_samples_are_kept_on_the_cpu_and_in_no_file():
    calibrated = calibrated_with(Plain())
    (kept,) = calibrated._probe.args
    torch.testing.assert_close(kept, X[:4])
    assert not kept.is_inference()
    assert pickle.loads(pickle.dumps(calibrated))._probe is None
    assert copy.deepcopy(calibrated)._probe is None
    file = io.BytesIO()
    torch.save(calibrated.state_dict(), file)
    assert not any("probe" in name for name in calibrated.state_dict())


def test_a_function_of_the_users_own_is_seen_through():
    model = Capped()
    data = [{"pixels": X[:300], "y": labels_of(model)[:300]}, {"pixels": X[300:], "y": labels_of(model)[300:]}]
    calibrated = calibrate(model, data, forward=lambda net, batch: (net(x=batch["pixels"]), batch["y"]), method="ts")
    torch.testing.assert_close(calibrated._probe.kwargs["x"], X[:4])
    with pytest.raises(InputError, match="differ from the calibrated logits"):
        calibrated.fold()


def test_large_inputs_and_those_that_are_no_tensors_are_not_kept():
    class Wide(Plain):
        def forward(self, x):
            return self.fc(x[:, :5])

    wide = torch.cat([X[:64], torch.zeros(64, 2**20)], dim=1)
    assert calibrate(Wide(), (wide, Y[:64]), method="none")._probe is None

    class Odd(Plain):
        def forward(self, x):
            return self.fc(x["features"].get())

    class Box:
        def get(self):
            return X[:50]

    data = [({"features": Box()}, Y[:50])]
    forward = lambda net, batch: (net(batch[0]), batch[1])  # noqa: E731
    assert calibrate(Odd(), data, forward=forward, method="none")._probe is None


def test_a_network_that_takes_whole_batches_only_needs_a_probe():
    class Whole(Plain):
        def forward(self, x):
            if len(x) < 100:
                raise ValueError("too few")
            return self.fc(x)

    calibrated = calibrate(Whole(), [(X[:300], Y[:300]), (X[300:], Y[300:])], method="none")
    calibrated.temperature.fill_(2.0)
    weight = calibrated.model.fc.weight.detach().clone()
    with pytest.raises(InputError, match="`probe` must be passed"):
        calibrated.fold()
    torch.testing.assert_close(calibrated.fold(probe=X).fc.weight, weight / 2)
