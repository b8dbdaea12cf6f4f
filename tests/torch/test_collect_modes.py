"""While a loader is read, the network is in eval mode without gradients; afterwards it is unchanged."""

import pytest
import torch
from small_networks import Returning, X, Y, loader
from torch import nn

from nishimori.errors import InputError
from nishimori.torch import collect


class Recording(nn.Module):
    """Records the modes of some modules whenever it is called."""

    def __init__(self, *watched, fail=False):
        super().__init__()
        self.watched, self.fail, self.seen = watched, fail, []

    def forward(self, x):
        self.seen.append(([each.training for each in self.watched], torch.is_inference_mode_enabled()))
        if self.fail:
            raise RuntimeError("out of memory")
        return x


def mixed_modes():
    """A network in training mode, with a part in eval mode that contains a module in training mode."""
    frozen = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5))
    model = nn.Sequential(frozen, nn.Dropout(0.5), nn.Linear(4, 3)).train()
    frozen.training = frozen[1].training = False
    return model


def test_the_network_runs_in_eval_mode_without_gradients_and_its_modes_are_restored():
    model = mixed_modes()
    recording = Recording(*model.modules())
    before = [each.training for each in model.modules()]
    running = model[0][0].running_mean.clone()
    collect(nn.Sequential(recording, model), loader(X, Y))
    assert recording.seen == [([False] * len(before), True)] * 3
    assert [each.training for each in model.modules()] == before
    assert torch.equal(model[0][0].running_mean, running)


def test_the_modes_are_restored_after_an_error():
    model = nn.Sequential(mixed_modes(), Recording(fail=True))
    before = [each.training for each in model.modules()]
    with pytest.raises(InputError, match="got RuntimeError: out of memory in batch 0"):
        collect(model, loader(X, Y))
    assert [each.training for each in model.modules()] == before


def test_the_mode_of_a_module_that_two_others_share_is_restored():
    shared = nn.Dropout(0.5)
    model = nn.Sequential(nn.Sequential(shared), nn.Sequential(shared), nn.Linear(4, 3))
    model.training = shared.training = False
    before = [each.training for each in model.modules()]
    collect(model, loader(X, Y))
    assert [each.training for each in model.modules()] == before


def test_an_exported_network_is_refused_and_its_modes_are_restored():
    exported = torch.export.export(nn.Linear(4, 3), (X,)).module()
    model = nn.Sequential(nn.Dropout(0.5), exported)
    before = [each.training for each in model.modules()]
    with pytest.raises(NotImplementedError, match=r"train\(\) is not supported"):
        collect(model, loader(X, Y))
    assert [each.training for each in model.modules()] == before


def test_modes_are_restored_through_the_train_method_of_each_layer():
    class Merging(nn.Linear):
        """Merges its adapter into the weight in eval mode, as peft does."""

        merged = False

        def train(self, mode=True):
            self.merged = not mode
            return super().train(mode)

    layer = Merging(4, 3).train()
    collect(nn.Sequential(layer), loader(X, Y))
    assert layer.training
    assert not layer.merged


def test_tensors_that_a_loader_creates_while_it_is_read_can_be_trained_on_later():
    made = []

    def batches():
        made.append(X * 2)
        yield made[0], Y

    model = Returning()
    collect(model, batches())
    model(made[0]).sum().backward()
    assert model.fc.weight.grad is not None


def test_the_callers_autocast_is_used_and_training_can_continue_inside_it():
    model = Returning()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert collect(model, loader(X, Y)).logits.dtype == torch.bfloat16
        model(X).sum().backward()
    assert model.fc.weight.grad is not None


def test_the_autocast_cache_is_cleared():
    model = Returning()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        before = model(X)
        with torch.no_grad():
            model.fc.weight.mul_(2)
            model.fc.bias.mul_(2)
        collect(model, loader(X, Y))
        assert torch.equal(model(X), 2 * before)


class Switching(nn.Module):
    """A network whose forward switches its dropout to training mode, as for MC dropout, and perhaps fails."""

    def __init__(self, *, fail=False):
        super().__init__()
        self.fc, self.drop, self.fail = nn.Linear(4, 3), nn.Dropout(0.5), fail

    def forward(self, x):
        self.drop.train()
        if self.fail:
            raise RuntimeError("out of memory")
        return self.fc(self.drop(x))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("fail", [True, False])
def test_modes_that_forward_switches_are_restored(training, fail):
    model = nn.Sequential(Switching(fail=fail), nn.Identity()).train(training)
    try:
        collect(model, loader(X, Y))
    except InputError:
        assert fail
    assert [each.training for each in model.modules()] == [training] * 5


def test_modes_that_a_function_of_the_user_switches_are_restored_and_every_batch_begins_in_eval_mode():
    model, modes = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 3)).eval(), []

    def forward(model, batch):
        modes.append([each.training for each in model.modules()])
        model.train()
        return model(batch[0]), batch[1]

    collect(model, loader(X, Y), forward=forward)
    assert modes == [[False] * 4] * 3
    assert not any(each.training for each in model.modules())
