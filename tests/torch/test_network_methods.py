"""Methods of a wrapped network: none is called through its wrapper, which has its own `save_pretrained`."""

import copy
import functools

import numpy as np
import pytest
import reference
import torch
from small_networks import X, lin, same
from torch import nn

from nishimori.errors import InputError
from nishimori.torch import Calibrated, fold_temperature


class Saving(nn.Module):
    """A network with a saving method, which notes the weights that it would write."""

    def __init__(self, name="fc"):
        super().__init__()
        self.add_module(name, lin())
        self.written, self.config = [], {"layers": 1}

    def forward(self, x):
        return self.fc(x)

    def save_pretrained(self, path, state_dict=None):
        self.written.append((path, copy.deepcopy(state_dict or self.state_dict())))
        return self


@pytest.fixture
def calibrated():
    torch.manual_seed(0)
    return Calibrated(Saving(), 1.7)


def test_save_pretrained_writes_weights_with_the_temperature_folded_in(calibrated):
    network = calibrated.model
    kept = copy.deepcopy(network)
    written = calibrated.save_pretrained("path", probe=X)
    assert written is not network
    (path, weights), *others = written.written
    assert path == "path"
    assert not others
    np.testing.assert_allclose(weights["fc.weight"], network.fc.weight.detach() / 1.7, rtol=1e-6)
    np.testing.assert_allclose(weights["fc.bias"], network.fc.bias.detach() / 1.7, rtol=1e-6)
    assert same(network, kept)
    assert not network.written
    assert not hasattr(network.fc, "folded_temperature")
    assert calibrated.temperature.item() == pytest.approx(1.7)


def test_after_folding_the_network_itself_is_saved(calibrated):
    calibrated.fold(probe=X)
    assert calibrated.save_pretrained("path", state_dict={"a": 1}) is calibrated.model


def test_a_network_without_save_pretrained_says_so():
    with pytest.raises(AttributeError, match="'Linear' object has no attribute 'save_pretrained'"):
        Calibrated(lin(), 1.7).save_pretrained("path", probe=X)


def test_a_network_that_cannot_be_folded_is_not_saved():
    calibrated = Calibrated(Saving("top"), 1.7)
    calibrated.model.last = lin()
    with pytest.raises(InputError) as error:
        calibrated.save_pretrained("path")
    assert str(error.value) == (
        "The last layer of the network must be called fc, classifier, head, heads, lm_head, linear or score, got a Saving with "
        "the submodules ['top', 'last']. Its linear layers are 'top', 'last'. Pass a probe, some inputs x, which show the "
        "layer that computes the logits: `Calibrated(model, T).fold(probe=x)`; or its name, `fold(name, probe=x)`; or keep "
        "the calibration in a `nishimori.torch.Calibrated`, which applies it to the logits themselves."
    )
    assert not calibrated.model.written


def test_a_network_that_cannot_be_copied_is_not_saved(calibrated):
    calibrated.model.cache = calibrated.model.fc(X)  # not a leaf of the graph, so torch refuses to copy it
    with pytest.raises(RuntimeError, match="deepcopy"):
        calibrated.save_pretrained("path")
    assert not calibrated.model.written


def test_a_state_dict_of_the_caller_is_refused_because_it_lacks_the_temperature(calibrated):
    with pytest.raises(InputError) as error:
        calibrated.save_pretrained("path", state_dict=calibrated.model.state_dict())
    assert str(error.value) == (
        "`state_dict` must be left out of `save_pretrained`, got one: its weights do not contain T = 1.7. Call "
        "`calibrated.fold()` first, and pass the state dict of the folded network."
    )
    assert calibrated.save_pretrained("path", probe=X, state_dict=None).written


def test_a_network_folded_by_hand_is_not_folded_again_for_saving(calibrated):
    fold_temperature(calibrated.model, 1.7, probe=X)
    with pytest.raises(InputError, match="calibrated only once"):
        calibrated.save_pretrained("path")


def test_attributes_that_are_not_methods_are_returned_as_they_are(calibrated):
    network = calibrated.model
    network.export, network.predict_head, network.generate = {"opset": 18}, lin(), Saving
    network.criterion, network.describe = nn.functional.cross_entropy, lambda: "one layer"
    network.average = functools.partial(torch.mean, dim=1)
    for name in ("config", "fc", "export", "predict_head", "generate", "criterion", "describe", "average"):
        assert getattr(calibrated, name) is getattr(network, name)


def twice(function):
    """The decorator of a method, or of a bound method, as `torch.compile` is."""

    @functools.wraps(function)
    def doubled(*args):
        return 2 * function(*args)

    return doubled


class Predicting(Saving):
    def predict_step(self, x):
        """The logits of a batch."""
        return self(x)

    classify = push_to_hub = generate = predict_step
    doubled = twice(predict_step)

    @classmethod
    def build(cls):
        return cls()

    @staticmethod
    def version():
        return 3


@pytest.mark.parametrize("name", ["predict_step", "classify", "push_to_hub", "generate", "doubled", "compiled", "partial_step"])
@pytest.mark.parametrize("T", [1.7, 1.0])
def test_a_method_of_the_network_is_not_one_of_its_wrapper(name, T):
    calibrated = Calibrated(Predicting(), T)
    network = calibrated.model
    network.compiled, network.partial_step = twice(network.classify), functools.partial(network.classify, X)
    assert not hasattr(calibrated, name)
    with pytest.raises(AttributeError) as error:
        getattr(calibrated, name)
    sampling = " To sample from calibrated probabilities, call `calibrated.model.generate(..., do_sample=True, top_k=0, "
    sampling += "logits_processor=[calibrated.logits_processor()])`."
    assert str(error.value) == (
        f"`{name}` is a method of the wrapped network, which does not use the map of its Calibrated. Call "
        f"`calibrated.model.{name}(...)` to use the network without calibration, or `calibrated.fold()` first, which moves the "
        "calibration into the weights where that is possible."
    ) + sampling * (name == "generate")


def test_after_folding_the_methods_of_the_network_are_calibrated():
    calibrated = Calibrated(Predicting(), 1.7)
    expected = calibrated.model.predict_step(X) / 1.7
    torch.testing.assert_close(calibrated.fold(probe=X).predict_step(X), expected)


def test_class_methods_and_static_methods_belong_to_no_network_and_can_be_read():
    calibrated = Calibrated(Predicting(), 1.7)
    assert type(calibrated.build()) is Predicting
    assert calibrated.version() == 3


def test_methods_of_a_network_inside_two_wrappers_are_those_of_neither():
    outer = Calibrated(Calibrated(Predicting()), 1.7)
    with pytest.raises(AttributeError, match="`predict_step` is a method of the wrapped network"):
        outer.predict_step(X)


def test_methods_of_an_inner_network_that_are_passed_on_by_the_network_are_refused():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Predicting()

        def forward(self, x):
            return self.inner(x)

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(super().__getattr__("inner"), name)

    with pytest.raises(AttributeError, match=r"Call `calibrated\.model\.classify\(\.\.\.\)`"):
        Calibrated(Outer(), 1.7).classify(X)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_compiled_method_of_torchscript_is_refused(tmp_path):
    class Compiled(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = lin()

        def forward(self, x):
            return self.fc(x)

        @torch.jit.export
        def classify(self, x):
            return self.fc(x).argmax(dim=1)

    script = torch.jit.script(Compiled())
    script.save(tmp_path / "script.pt")
    for network in (script, torch.jit.load(tmp_path / "script.pt")):
        for name in ("classify", "save"):
            with pytest.raises(AttributeError, match=f"`{name}` is a method of the wrapped network"):
                getattr(Calibrated(network, 1.7), name)


# The last layers of these differ: a plain layer, and a head with several layers.
MODELS = {
    "vision transformer": (
        "ViT",
        "ImageClassification",
        {"image_size": 8, "patch_size": 4, "num_channels": 1},
        {"pixel_values": torch.randn(5, 1, 8, 8, generator=torch.Generator().manual_seed(0))},
    ),
    "RoBERTa": (
        "Roberta",
        "SequenceClassification",
        {"vocab_size": 20, "max_position_embeddings": 16},
        {"input_ids": torch.randint(3, 20, (5, 6), generator=torch.Generator().manual_seed(0))},
    ),
}


@pytest.mark.parametrize(("family", "task", "options", "inputs"), MODELS.values(), ids=MODELS)
def test_a_reloaded_model_of_transformers_gives_the_calibrated_probabilities(family, task, options, inputs, tmp_path):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "num_labels": 4}
    kind = getattr(transformers, f"{family}For{task}")
    model = kind(getattr(transformers, f"{family}Config")(**sizes, **options)).eval()
    with torch.no_grad():
        for layer in (each for each in model.classifier.modules() if isinstance(each, nn.Linear)):
            layer.weight.mul_(100)  # fresh weights give nearly equal logits, which T would not change visibly
        z = model(**inputs).logits.double().numpy()
    calibrated = Calibrated(model, 1.7)
    calibrated.save_pretrained(tmp_path, probe=inputs)
    reloaded = kind.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        p = reloaded(**inputs).logits.softmax(dim=1)
        np.testing.assert_allclose(p, reference.softmax(z, 1.7), atol=1e-5)
        np.testing.assert_array_equal(model(**inputs).logits.double(), z)
    assert np.abs(reference.softmax(z, 1.0) - p.numpy()).max() > 0.01
    assert type(reloaded) is kind


def test_a_lightning_module_says_its_settings_but_makes_no_step_through_the_wrapper():
    lightning = pytest.importorskip("lightning")

    class Module(lightning.LightningModule):
        def __init__(self, width=3):
            super().__init__()
            self.save_hyperparameters()
            self.fc = nn.Linear(4, width)

        def training_step(self, batch, _):
            return nn.functional.cross_entropy(self.fc(batch[0]), batch[1])

    calibrated = Calibrated(Module(), 1.7)
    assert calibrated.hparams == {"width": 3}
    with pytest.raises(AttributeError, match=r"`training_step` is .* Call `calibrated\.model\.training_step\(\.\.\.\)`"):
        calibrated.training_step((X, torch.zeros(len(X), dtype=torch.long)), 0)


def language_model(transformers):
    torch.manual_seed(0)
    sizes = {"vocab_size": 20, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    tokens = {"pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, **tokens))


def test_the_trainer_of_transformers_trains_and_evaluates_a_calibrated_network(tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    calibrated = Calibrated(language_model(transformers), 1.7)
    before = copy.deepcopy(calibrated.model)
    ids = torch.randint(3, 20, (4, 6))
    trainer = transformers.Trainer(
        model=calibrated,
        args=transformers.TrainingArguments(
            output_dir=tmp_path,
            max_steps=1,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            dataloader_pin_memory=False,
            label_names=["labels"],
        ),
        train_dataset=[{"input_ids": each, "labels": each} for each in ids],
    )
    trainer.train()
    assert not same(calibrated.model, before)
    found = trainer.predict([{"input_ids": each, "labels": each} for each in ids]).predictions
    with torch.no_grad():
        np.testing.assert_allclose(found, calibrated.model.eval()(ids).logits / 1.7, atol=1e-5)


def test_a_language_model_samples_at_the_temperature_of_its_wrapper():
    transformers = pytest.importorskip("transformers")
    calibrated = Calibrated(language_model(transformers), 1.7)
    assert calibrated.config.vocab_size == 20
    with pytest.raises(AttributeError, match=r"Call `calibrated\.model\.generate\(\.\.\.\)`"):
        calibrated.generate(torch.tensor([[3, 7, 5]]))
    T = float(calibrated.temperature)
    ids = calibrated.model.generate(torch.tensor([[3, 7, 5]]), max_new_tokens=1, do_sample=True, temperature=T)
    assert ids.shape == (1, 4)
