"""Methods that save the wrapped network write calibrated weights, or refuse; those that predict without T give a warning."""

import copy
import inspect
import warnings

import numpy as np
import pytest
import reference
import torch
from small_networks import Named, X, lin, same
from torch import nn

from nishimori import InputError
from nishimori.torch import Calibrated, fold_temperature
from nishimori.torch._borrowed import borrowed


class Saving(nn.Module):
    """A network with saving methods of many names, which note the weights that they would write."""

    def __init__(self, name="fc"):
        super().__init__()
        self.add_module(name, lin())
        self.written, self.config = [], {"layers": 1}

    def forward(self, x):
        return self.fc(x)

    def save(self, path, state_dict=None):
        """Write the weights."""
        self.written.append((path, copy.deepcopy(state_dict or self.state_dict())))
        return self

    save_model = save_pretrained = save_weights = push_to_hub = export = export_model = save
    to_onnx = to_torchscript = saveModel = upload_weights = dump = to_gguf = exportONNX = save


NAMES = [name for name, each in vars(Saving).items() if each is Saving.save]


@pytest.fixture
def calibrated():
    torch.manual_seed(0)
    return Calibrated(Saving(), 1.7)


def test_the_list_of_names_is_complete():
    assert len(NAMES) == 14


@pytest.mark.parametrize("name", NAMES)
def test_saving_methods_write_weights_with_the_temperature_folded_in(name, calibrated):
    network = calibrated.model
    kept = copy.deepcopy(network)
    written = getattr(calibrated, name)("path")
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
    calibrated.fold()
    assert calibrated.save("path", state_dict={"a": 1}) is calibrated.model


def test_the_method_keeps_its_name_documentation_and_signature(calibrated):
    assert calibrated.save.__name__ == "save"
    assert calibrated.save.__doc__ == "Write the weights."
    assert inspect.signature(calibrated.save) == inspect.signature(calibrated.model.save)
    assert not hasattr(Calibrated(lin()), "save")


def test_a_network_that_cannot_be_folded_is_not_saved():
    calibrated = Calibrated(Saving("top"), 1.7)
    calibrated.model.last = lin()
    with pytest.raises(InputError) as error:
        calibrated.save("path")
    assert str(error.value) == (
        "`save` must write calibrated weights, but T = 1.7 could not be folded into a copy of the network: The last layer of "
        "the network must be called fc, classifier, head, heads, lm_head, linear or score, got a Saving with the submodules "
        "['top', 'last']. Its linear layers are 'top', 'last'. Pass the name of the layer that computes the logits and a "
        "probe, some inputs x, so that the result is checked: `calibrated.fold(name, probe=x)`; or keep the calibration in "
        "a `nishimori.torch.Calibrated`, which applies it to the logits themselves. Call `calibrated.fold(layer, probe=x)` "
        "with the layer that computes the logits and some inputs x, then `save`; or save `calibrated.state_dict()`, which "
        "contains T."
    )
    assert isinstance(error.value.__cause__, InputError)
    assert not calibrated.model.written


def test_a_network_that_cannot_be_copied_is_not_saved(calibrated):
    calibrated.model.cache = calibrated.model.fc(X)  # not a leaf of the graph, so torch refuses to copy it
    with pytest.raises(
        InputError, match=r"`save` must write calibrated weights, .* deepcopy .* Call `calibrated\.fold\(layer, probe=x\)`"
    ):
        calibrated.save("path")


def test_a_state_dict_of_the_caller_is_refused_because_it_lacks_the_temperature(calibrated):
    with pytest.raises(InputError) as error:
        calibrated.save("path", state_dict=calibrated.model.state_dict())
    assert str(error.value) == (
        "`state_dict` must be left out of `save`, got one: its weights do not contain T = 1.7. Call `calibrated.fold()` first, "
        "and pass the state dict of the folded network."
    )
    assert calibrated.save("path", state_dict=None).written


def test_a_network_folded_by_hand_is_not_folded_again_for_saving(calibrated):
    fold_temperature(calibrated.model, 1.7)
    with pytest.raises(InputError, match="divided by T only once"):
        calibrated.save("path")


def test_data_submodules_and_other_methods_are_returned_as_they_are(calibrated):
    network = calibrated.model
    network.export_options, network.save_head = {"opset": 18}, lin()
    network.predict_head, network.exporter = lin(), Saving
    network.describe = lambda: "one layer"
    for name in ("export_options", "save_head", "predict_head", "exporter", "describe", "config", "gradient_checkpointing"):
        network.__dict__.setdefault("gradient_checkpointing", len)
        assert getattr(calibrated, name) is getattr(network, name)


class Predicting(Saving):
    def generate(self, x):
        return self(x).argmax(dim=1)

    predict_step = generate_text = forward_head = generate


@pytest.mark.parametrize("name", ["generate", "predict_step", "generate_text", "forward_head"])
def test_methods_that_predict_without_the_temperature_give_a_warning(name):
    calibrated = Calibrated(Predicting(), 1.7)
    with pytest.warns(UserWarning, match="does not divide its logits") as caught:
        result = getattr(calibrated, name)(X)
    assert torch.equal(result, calibrated.model.generate(X))
    remedy = " To sample from a language model of Hugging Face, pass `temperature=float(calibrated.temperature)`."
    assert str(caught[0].message) == (
        f"`{name}` is a method of the wrapped network, which does not divide its logits by T = 1.7. Call `calibrated.fold()` "
        f"first if it should.{remedy if name == 'generate' else ''}"
    )
    assert caught[0].filename == __file__
    calibrated.fold()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        getattr(calibrated, name)(X)


def test_a_name_without_letters_is_no_method_that_saves():
    assert borrowed("_", len, nn.Identity(), float) is len


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_torchscript_network_is_not_saved_without_its_temperature(tmp_path):
    calibrated = Calibrated(torch.jit.script(Named(fc=lin()).fc), 1.7)
    with pytest.raises(InputError, match="`save` must write calibrated weights"):
        calibrated.save(tmp_path / "script.pt")
    assert not list(tmp_path.iterdir())


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
    calibrated.save_pretrained(tmp_path)
    reloaded = kind.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        p = reloaded(**inputs).logits.softmax(dim=1)
        np.testing.assert_allclose(p, reference.softmax(z, 1.7), atol=1e-5)
        np.testing.assert_array_equal(model(**inputs).logits.double(), z)
    assert np.abs(reference.softmax(z, 1.0) - p.numpy()).max() > 0.01
    assert type(reloaded) is kind


def test_the_example_of_lightning_is_not_exported_without_its_temperature(tmp_path):
    lightning = pytest.importorskip("lightning")
    pytest.importorskip("onnxscript")
    ort = pytest.importorskip("onnxruntime")

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 3)

        def forward(self, x):
            return self.fc(x)

    calibrated = Calibrated(Module(), 1.7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calibrated.to_onnx(tmp_path / "module.onnx", X, dynamo=True, external_data=False)
    (z,) = ort.InferenceSession(tmp_path / "module.onnx").run(None, {"x": X.numpy()})
    np.testing.assert_allclose(z, calibrated.model(X).detach() / 1.7, atol=1e-5)
