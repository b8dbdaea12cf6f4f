"""Dropout that eval mode does not switch off, and loaders that augment: what `calibrate` says."""

import warnings

import numpy as np
import pytest
import reference
import torch
from torch import nn
from torch.nn import functional

from nishimori.errors import InputError, InputWarning
from nishimori.torch import calibrate, collect

LOGITS, LABELS = reference.drawn(600, 4)
Z, TRUTH = torch.tensor(LOGITS, dtype=torch.float32), torch.tensor(LABELS)
BATCHES = list(zip(Z.split(100), TRUTH.split(100), strict=True))


class Functional(nn.Module):
    """Dropout that is always on."""

    def __init__(self, rate=0.3):
        super().__init__()
        self.rate, self.calls = rate, 0

    def forward(self, x):
        self.calls += 1
        return functional.dropout(x, self.rate)


class Switching(nn.Module):
    """Dropout that the network itself switches on."""

    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.3)

    def forward(self, x):
        self.drop.train()
        return self.drop(x)


def quiet(function, *args, **kwargs):
    """The result, without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return function(*args, **kwargs)


REMEDY = (
    r"Switch dropout off in eval mode\. If the network averages over dropout masks on purpose, average over more of them, or "
    r"draw the same ones in every call, with a seed inside `torch\.random\.fork_rng\(\)`\."
)


@pytest.mark.parametrize(
    ("model", "cause"),
    [
        (Functional(), r"dropout that does not follow the mode, such as `torch\.nn\.functional\.dropout` without `training="),
        (Switching(), r"`forward` of the network, which switches drop \(Dropout\) to training mode\. The temperature is"),
    ],
    ids=["functional", "switched"],
)
def test_a_network_with_dropout_in_eval_mode_is_a_warning_that_names_the_cause(model, cause):
    said = (
        r"^`model` must give the same logits for the same batch in eval mode, got others when batch 0 was run again: they "
        r"changed by 0\.\d+ of their scale\. The usual cause is "
    )
    torch.manual_seed(0)
    with pytest.warns(InputWarning, match=f"{said}{cause}.* {REMEDY}$") as caught:
        calibrate(model, BATCHES)
    assert len(caught) == 1
    assert not any(each.training for each in model.modules()) or model.training


def test_a_network_without_randomness_runs_once_per_batch_and_one_with_it_once_more():
    model = Functional(rate=0.0)
    quiet(calibrate, model, BATCHES)
    assert model.calls == len(BATCHES)
    model.rate, model.calls = 0.3, 0
    with pytest.warns(InputWarning, match="must give the same logits for the same batch"):
        calibrate(model, BATCHES)
    assert model.calls == len(BATCHES) + 1


def test_random_numbers_that_do_not_change_the_logits_are_no_reason_to_warn():
    class Drawing(nn.Module):
        def forward(self, x):
            return x + 1e-6 * torch.rand_like(x)

    quiet(calibrate, Drawing(), BATCHES)


def test_usual_dropout_is_off_and_gives_no_warning():
    found = quiet(calibrate, nn.Sequential(nn.Dropout(0.5)).train(), BATCHES, method="ec")
    assert float(found.temperature) == pytest.approx(reference.ec_temperature(Z.double().numpy(), LABELS), rel=1e-6)


def test_a_module_that_averages_over_masks_is_calibrated_as_it_is():
    class Averaging(nn.Module):
        """The mean of the logits over 5,000 masks."""

        def forward(self, x):
            return functional.dropout(x[:, :, None].expand(-1, -1, 5000), 0.02).mean(dim=2)

    torch.manual_seed(0)
    found = quiet(calibrate, Averaging(), BATCHES, method="ts")
    assert float(found.temperature) == pytest.approx(reference.ts_temperature(LOGITS, LABELS), rel=1e-2)


def test_a_module_that_draws_the_same_masks_in_every_call_gives_no_warning():
    class Seeded(Functional):
        def forward(self, x):
            with torch.random.fork_rng():
                torch.manual_seed(0)
                return super().forward(x)

    quiet(calibrate, Seeded(), BATCHES)


FORWARD = (
    r"^`forward` {}, as for dropout\. The temperature is that of the logits that `forward` returns, but the calibrated network "
    r"calls `model` itself, in eval mode and without `forward`\. To calibrate an average over dropout masks, write a module "
)


@pytest.mark.parametrize(
    ("restores", "did"),
    [(False, r"switched 0 \(Dropout\) to training mode and drew random numbers"), (True, "drew random numbers")],
)
def test_a_function_that_averages_over_masks_is_a_warning(restores, did):
    def averaged(model, batch):
        model.train()
        logits = torch.stack([model(batch[0]).softmax(dim=1) for _ in range(3)]).mean(dim=0).log()
        model.train(not restores)
        return logits, batch[1]

    model = nn.Sequential(nn.Dropout(0.3)).eval()
    with pytest.warns(InputWarning, match=FORWARD.format(did)) as caught:
        calibrate(model, BATCHES, forward=averaged)
    assert len(caught) == 1
    assert not model[0].training
    quiet(collect, model, BATCHES, forward=averaged)  # returns what `forward` does, and applies it to nothing else


def test_random_numbers_of_the_loader_are_not_those_of_the_network():
    def shuffled():
        for some in torch.randperm(600).split(100):
            yield Z[some], TRUTH[some]

    quiet(calibrate, nn.Identity(), shuffled(), forward=lambda model, batch: (model(batch[0]), batch[1]))


class Augmenting:
    """A loader that adds noise to its inputs."""

    def __init__(self, scale):
        self.scale, self.rng = scale, np.random.default_rng(0)

    def __iter__(self):
        for x, y in BATCHES:
            yield x + self.scale * torch.from_numpy(self.rng.standard_normal(x.shape)).float(), y


@pytest.mark.parametrize("method", ["adaptive", "ec", "vector", "bias"])
def test_a_loader_that_augments_is_refused_where_it_is_read_again(method):
    said = (
        r"^`loader` must give the same logits in every pass over the data, got logits that change .* Give the loader fixed "
        r"transforms, and use no dropout inside `forward`; or leave out `reread=True`, which reads the loader once\.$"
    )
    with pytest.raises(InputError, match=said):
        calibrate(nn.Identity(), Augmenting(0.5), method=method, keep_up_to=0, reread=True)
    quiet(calibrate, nn.Identity(), Augmenting(0.5), method=method)


def test_rounding_passes_where_a_loader_is_read_again():
    found = calibrate(nn.Identity(), Augmenting(1e-4), method="ec", keep_up_to=0, reread=True)
    assert float(found.temperature) == pytest.approx(reference.ec_temperature(LOGITS, LABELS), rel=1e-3)
