"""Lightning logs what NumPy finds in the logits of an epoch, and `Trainer.predict` gives calibrated probabilities."""

import pickle
from importlib import import_module

import numpy as np
import pytest
import reference
from optional import Absent, lightning, torch
from trainer_values import logged

import nishimori
from nishimori.errors import InputError, InputWarning

LOGITS, LABELS = reference.drawn(220, 4)
QUIET = {"accelerator": "cpu", "devices": 1, "logger": False, "enable_progress_bar": False, "enable_model_summary": False}
QUIET |= {"enable_checkpointing": False}


@pytest.fixture(params=["lightning", "pytorch_lightning"])
def package(request):
    """The package that a user imports, and our module for it."""
    if isinstance(lightning, Absent):
        lightning.skip()
    return import_module(request.param), import_module(f"nishimori.integrations.{request.param}")


def loader(logits=LOGITS, labels=LABELS, n=50):
    data = [(torch.tensor(z), int(y)) for z, y in zip(logits, labels, strict=True)]
    return torch.utils.data.DataLoader(data, batch_size=n)


def module_of(package, step=lambda logits, labels: {"loss": logits.sum(), "logits": logits}):
    class Module(package.LightningModule):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones((), dtype=torch.float64))
            self.seen = []

        def training_step(self, batch, batch_idx):
            return (self.scale * batch[0]).square().mean()

        def validation_step(self, batch, batch_idx, dataloader_idx=0):
            return step(self.scale * batch[0], batch[1])

        test_step = validation_step

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.01)

        def on_validation_end(self):
            self.seen.append(({**self.trainer.callback_metrics}, float(self.scale)))

    return Module()


def expected(logits=LOGITS, labels=LABELS, prefix="val"):
    return pytest.approx(logged(logits, labels, prefix), rel=1e-5)


def test_a_validation_logs_the_values(package):
    theirs, ours = package
    callback = ours.CalibrationMonitor()
    trainer = theirs.Trainer(callbacks=[callback], **QUIET)
    for _ in range(2):
        (found,) = trainer.validate(module_of(theirs), loader(), verbose=False)
        assert found == expected()
    (sketch,) = callback.sketches
    assert nishimori.evaluate(sketch).nll == pytest.approx(reference.nll(LOGITS, LABELS), rel=1e-9)


def test_a_test_logs_the_values_under_its_own_names(package):
    theirs, ours = package
    trainer = theirs.Trainer(callbacks=[ours.CalibrationMonitor()], **QUIET)
    (found,) = trainer.test(module_of(theirs), loader(), verbose=False)
    assert found == expected(prefix="test")


def test_each_epoch_has_the_values_of_its_own_network_and_a_callback_can_follow_them(package):
    theirs, ours = package
    stop = import_module(
        f"{'lightning.pytorch' if theirs.__name__ == 'lightning' else theirs.__name__}.callbacks"
    ).EarlyStopping
    module = module_of(theirs)
    callbacks = [ours.CalibrationMonitor(), stop("val_ece", patience=5)]
    trainer = theirs.Trainer(callbacks=callbacks, max_epochs=3, log_every_n_steps=1, **QUIET)
    trainer.fit(module, loader(), loader())
    *_, first, second, third = module.seen
    for found, scale in (first, second, third):
        values = {name: found[name].item() for name in ("val_ece", "val_gap", "val_temperature")}
        assert values == expected(scale * LOGITS)
    assert first[1] > second[1] > third[1]


def test_several_loaders_have_values_of_their_own(package):
    theirs, ours = package
    trainer = theirs.Trainer(callbacks=[ours.CalibrationMonitor()], **QUIET)
    halves = slice(100), slice(100, None)
    found = trainer.validate(module_of(theirs), [loader(LOGITS[each], LABELS[each]) for each in halves], verbose=False)
    values = {name: value for part in found for name, value in part.items()}
    for number, rows in enumerate(halves):
        for name, value in logged(LOGITS[rows], LABELS[rows], "val").items():
            assert values[f"{name}/dataloader_{number}"] == pytest.approx(value, rel=1e-5)


def test_labels_may_come_with_the_logits_or_in_a_dictionary(package):
    theirs, ours = package
    trainer = theirs.Trainer(callbacks=[ours.CalibrationMonitor(ignore_index=-1)], **QUIET)
    step = lambda logits, labels: {"logits": logits, "labels": torch.where(torch.arange(len(labels)) < 10, -1, labels)}  # noqa: E731
    (found,) = trainer.validate(module_of(theirs, step), loader(n=220), verbose=False)
    assert found == expected(LOGITS[10:], LABELS[10:])

    class Named(type(module_of(theirs))):
        def validation_step(self, batch, batch_idx):
            return {"logits": batch["x"]}

    data = [{"x": torch.tensor(z), "labels": int(y)} for z, y in zip(LOGITS, LABELS, strict=True)]
    (found,) = trainer.validate(Named(), torch.utils.data.DataLoader(data, batch_size=50), verbose=False)
    assert found == expected()


@pytest.mark.parametrize(
    "step", [lambda logits, labels: logits.sum(), lambda logits, labels: None, lambda logits, labels: {"loss": logits.sum()}]
)
def test_a_step_that_returns_no_logits_is_refused_in_the_sanity_check(package, step):
    theirs, ours = package
    trainer = theirs.Trainer(callbacks=[ours.CalibrationMonitor()], max_epochs=1, **QUIET)
    module = module_of(theirs, step)
    with pytest.raises(InputError, match=r'`validation_step` must return a dictionary with the logits.*return {"loss": loss'):
        trainer.fit(module, loader(), loader())
    assert float(module.scale.detach()) == 1


def test_a_network_that_diverges_is_a_warning(package):
    theirs, ours = package
    trainer = theirs.Trainer(callbacks=[ours.CalibrationMonitor()], **QUIET)
    step = lambda logits, labels: {"logits": logits * float("nan")}  # noqa: E731
    with pytest.warns(InputWarning, match="Calibration was not measured in this evaluation.*NaN"):
        (found,) = trainer.validate(module_of(theirs, step), loader(), verbose=False)
    assert found == {}


def test_a_callback_can_be_pickled_before_it_is_used(package):
    theirs, ours = package
    callback = pickle.loads(pickle.dumps(ours.CalibrationMonitor(method="ts")))
    trainer = theirs.Trainer(callbacks=[callback], **QUIET)
    (found,) = trainer.validate(module_of(theirs), loader(), verbose=False)
    assert found["val_temperature"] == pytest.approx(reference.ts_temperature(LOGITS, LABELS), rel=1e-5)


@pytest.mark.parametrize("form", ["pairs", "named", "alone", "one"])
def test_predictions_are_the_probabilities_of_the_calibrated_network(package, form):
    from nishimori.torch import Calibrated

    class Identity(torch.nn.Module):
        def forward(self, x):
            return x

    theirs, ours = package
    x, y = torch.tensor(LOGITS), torch.tensor(LABELS)
    data = {
        "pairs": list(zip(x, y, strict=True)),
        "named": [{"x": a, "labels": b} for a, b in zip(x, y, strict=True)],
        "alone": x,
        "one": torch.utils.data.TensorDataset(x),
    }
    module = ours.CalibratedModule(Calibrated(Identity(), 2.0))
    batches = theirs.Trainer(**QUIET).predict(module, torch.utils.data.DataLoader(data[form], batch_size=50))
    np.testing.assert_allclose(torch.cat(batches).numpy(), reference.softmax(LOGITS, 2.0), rtol=1e-6)
    torch.testing.assert_close(module(x), x / 2)
