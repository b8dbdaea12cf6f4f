"""A calibrated network knows how many classes it was calibrated for, and takes no other dimension for that of the classes."""

import copy
import io
import pickle

import numpy as np
import pytest
import reference
import torch
from torch import nn

import nishimori
from nishimori import ExpectationConsistency
from nishimori.errors import InputError
from nishimori.maps import Affine, ClassTemperatures, GroupTemperatures, Mixture
from nishimori.torch import Calibrated, calibrate, to_onnx

K, H, W = 5, 6, 8
_RNG = np.random.default_rng(0)
IMAGES = torch.tensor(_RNG.normal(size=(12, 3, H, W)), dtype=torch.float32)


class Segments(nn.Module):
    """A row of logits for each pixel of an image, with the classes in dimension 1, as PyTorch's loss wants them."""

    def __init__(self, n_classes=K):
        super().__init__()
        self.head = nn.Conv2d(3, n_classes, 1)
        with torch.no_grad():
            generator = torch.Generator().manual_seed(8)
            for each in self.parameters():
                each.copy_(3 * torch.randn(each.shape, generator=generator))

    def forward(self, image):
        return self.head(image)


class ClassesLast(nn.Module):
    """The same with the classes last."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, image):
        return self.network(image).movedim(1, -1)


def exact(network, images=IMAGES):
    """The logits of each pixel, (n, height, width, classes), from the weights."""
    weight, bias = (each.detach().double().numpy() for each in (network.head.weight[:, :, 0, 0], network.head.bias))
    return np.einsum("nchw,kc->nhwk", images.double().numpy(), weight) + bias


def drawn(network):
    """A label for each pixel, drawn at T = 1.6."""
    z = exact(network) / 1.6
    return torch.tensor((z + np.random.default_rng(2).gumbel(size=z.shape)).argmax(axis=-1))


def last(model, batch):
    return model(batch[0]).movedim(1, -1), batch[1]


def message(shape, remedy, n_classes=K):
    got = f"got {shape[-1]} in shape {shape}" if len(shape) > 1 else f"got shape {shape}"
    return f"`model` must return logits whose last dimension holds the {n_classes} classes of the map, {got}. {remedy}"


NAME_IT = "If dimension 1 holds the classes, pass `class_axis=1` to `calibrate` or `Calibrated`."


@pytest.fixture(scope="module")
def segmented():
    """Calibrated with a `forward` that moves the classes last, around a network that does not."""
    network = Segments()
    return calibrate(network, [(IMAGES, drawn(network))], forward=last, method="ts")


def test_the_temperature_of_pixels_is_that_of_rows_with_the_classes_last(segmented):
    z, y = exact(segmented.model).reshape(-1, K), drawn(segmented.model).numpy().reshape(-1)
    assert float(segmented.temperature) == pytest.approx(reference.ts_temperature(z, y), rel=1e-5)
    assert segmented.n_classes == K


@pytest.mark.parametrize("predict", [Calibrated.predict_proba, Calibrated.predict], ids=["probabilities", "classes"])
def test_the_width_of_an_image_is_not_taken_for_its_classes(predict, segmented):
    with pytest.raises(InputError) as error:
        predict(segmented, IMAGES)
    assert str(error.value) == message((12, K, H, W), NAME_IT)


def test_logits_with_the_classes_elsewhere_are_still_divided(segmented):
    found = segmented(IMAGES).detach().double().numpy()
    np.testing.assert_allclose(np.moveaxis(found, 1, -1), exact(segmented.model) / float(segmented.temperature), atol=1e-4)


@pytest.mark.parametrize("method", ["ts", "mixture", "group", "vector"])
def test_a_network_with_the_classes_last_predicts_each_pixel(method):
    network = Segments()
    calibrated = calibrate(ClassesLast(network), (IMAGES, drawn(network)), method=method)
    rows = calibrated.calibrator.predict_proba(exact(network).reshape(-1, K))
    p = calibrated.predict_proba(IMAGES)
    np.testing.assert_allclose(p, rows.reshape(12, H, W, K), atol=1e-5)
    assert torch.equal(calibrated.predict(IMAGES), p.argmax(dim=-1))


@pytest.mark.parametrize("method", ["mixture", "group", "vector"])
def test_maps_that_compare_classes_refuse_other_dimensions_in_forward_too(method):
    network = Segments()
    calibrated = calibrate(network, [(IMAGES, drawn(network))], forward=last, method=method)
    with pytest.raises(InputError) as error:
        calibrated(IMAGES)
    assert str(error.value) == message((12, K, H, W), NAME_IT)


def test_temperatures_of_groups_divide_images_whatever_their_layout():
    network, names = Segments(), ["a", "b"] * 6
    calibrated = Calibrated(network, GroupTemperatures(("a", "b"), [2.0, 4.0], 3.0))
    calibrated.n_classes = K
    found = calibrated(IMAGES, groups=names).detach().double().numpy()
    divisors = np.array([2.0, 4.0] * 6)[:, None, None, None]
    np.testing.assert_allclose(np.moveaxis(found, 1, -1), exact(network) / divisors, atol=1e-4)
    with pytest.raises(InputError, match="whose last dimension holds the 5 classes of the map, got 8"):
        calibrated.predict_proba(IMAGES, groups=names)


Z = 2 * _RNG.normal(size=(300, K))
Y = (Z / 1.5 + _RNG.gumbel(size=Z.shape)).argmax(axis=1)
FITTED = ExpectationConsistency().fit(Z, Y)

OTHERS = {
    "more classes": ((4, 6), "Use the network that the map was fitted to, or calibrate this one."),
    "fewer classes": ((2, 3, 4), "Use the network that the map was fitted to, or calibrate this one."),
    "one unit": ((4, 1), "Use the network that the map was fitted to, or calibrate this one."),
    "no rows": ((5,), "Return one row per sample: for a single sample, pass a batch of one."),
    "classes in the middle": (
        (2, 3, 5, 4),
        "If dimension 2 holds the classes, pass `class_axis=2` to `calibrate` or `Calibrated`.",
    ),
    "as many samples as classes": ((5, 4), "Use the network that the map was fitted to, or calibrate this one."),
}


@pytest.mark.parametrize(("shape", "remedy"), OTHERS.values(), ids=OTHERS)
def test_other_shapes_than_those_of_the_calibrator_are_refused(shape, remedy):
    calibrated = Calibrated(nn.Identity(), FITTED)
    for predict in (calibrated.predict_proba, calibrated.predict):
        with pytest.raises(InputError) as error:
            predict(torch.zeros(shape))
        assert str(error.value) == message(shape, remedy)


@pytest.mark.parametrize("shape", [(4, 2), (2, 3, 2), (4,), (4, 1), (2, 3, 1)])
def test_two_classes_may_be_one_score(shape):
    z = torch.tensor(np.random.default_rng(3).normal(size=shape), dtype=torch.float32)
    fitted = ExpectationConsistency().fit(Z[:, 0], (Y == 0).astype(int))
    assert fitted.n_features_in_ == 2
    p = Calibrated(nn.Identity(), fitted).predict_proba(z)
    wide = z.double().numpy()
    flat = wide.reshape(-1, 2) if shape[-1] == 2 else np.stack([0 * wide.reshape(-1), wide.reshape(-1)], axis=1)
    np.testing.assert_allclose(p.reshape(-1, 2), reference.softmax(flat, fitted.temperature_), atol=1e-6)


def test_two_classes_refuse_three():
    fitted = ExpectationConsistency().fit(Z[:, 0], (Y == 0).astype(int))
    with pytest.raises(InputError, match=r"holds the 2 classes of the map, got 3 in shape \(4, 3\)\. Use the network"):
        Calibrated(nn.Identity(), fitted).predict(torch.zeros(4, 3))


UNKNOWN = {
    "a number": lambda: Calibrated(nn.Identity(), 1.5),
    "a calibrator from a number": lambda: Calibrated(nn.Identity(), nishimori.from_temperature(1.5)),
    "a mixture": lambda: Calibrated(nn.Identity(), Mixture(1.5, [1.0, 0.0, 0.0])),
}


@pytest.mark.parametrize("made", UNKNOWN.values(), ids=UNKNOWN)
def test_where_the_number_is_not_known_any_will_do(made):
    calibrated, rng = made(), np.random.default_rng(4)
    assert calibrated.n_classes is None
    for n_classes in (2, 3, 7):
        z = torch.tensor(rng.normal(size=(4, n_classes)), dtype=torch.float32)
        np.testing.assert_allclose(calibrated.predict_proba(z), reference.softmax(z.double().numpy(), 1.5), atol=1e-6)


KNOWN = {
    "a calibrator": FITTED,
    "a calibrator of a number, with names": nishimori.from_temperature(1.5, classes=list("abcde")),
    "a temperature per class": ClassTemperatures([1.0, 2.0, 1.5, 1.2, 1.1]),
    "an affine map": Affine(0.5, np.zeros(K)),
    "a mixture of temperatures": nishimori.calibrators.TemperatureMixture().fit(Z, Y),
}


def refuses_four(calibrated):
    with pytest.raises(InputError, match=r"holds the 5 classes of the map, got 4 in shape \(3, 4\)"):
        calibrated.predict_proba(torch.zeros(3, 4))
    return True


@pytest.mark.parametrize("given", KNOWN.values(), ids=KNOWN)
def test_the_number_of_classes_is_saved_copied_and_pickled(given):
    calibrated = Calibrated(nn.Identity(), given)
    file = io.BytesIO()
    torch.save(calibrated.state_dict(), file)
    file.seek(0)
    loaded, inside = Calibrated(nn.Identity()), nn.ModuleDict({"net": Calibrated(nn.Identity())})  # the latter with a prefix
    loaded.load_state_dict(torch.load(file, weights_only=True))
    inside.load_state_dict(nn.ModuleDict({"net": calibrated}).state_dict())
    for each in (calibrated, loaded, inside["net"], pickle.loads(pickle.dumps(calibrated)), copy.deepcopy(calibrated)):
        assert each.n_classes == K
        assert refuses_four(each)


@pytest.mark.parametrize("given", [FITTED, KNOWN["a mixture of temperatures"]], ids=["one temperature", "a mixture"])
def test_a_state_dict_without_the_number_takes_any(given):
    earlier = Calibrated(nn.Identity(), given).state_dict()
    del earlier["n_classes"]
    for calibrated in (Calibrated(nn.Identity()), Calibrated(nn.Identity(), given)):
        calibrated.load_state_dict(earlier)
        assert calibrated.n_classes is None
        assert calibrated.predict_proba(torch.zeros(3, 4)).shape == (3, 4)


def test_weights_of_the_network_alone_leave_the_number_as_it_is():
    calibrated = Calibrated(nn.Linear(K, K), FITTED)
    weights = {name: each for name, each in calibrated.state_dict().items() if name.startswith("model.")}
    missing, unexpected = calibrated.load_state_dict(weights, strict=False)
    assert (missing, unexpected) == (["temperature"], [])
    assert calibrated.n_classes == K


def test_a_number_that_was_rounded_to_half_precision_is_not_used():
    state = {name: each.to(torch.float16) for name, each in Calibrated(nn.Identity(), FITTED).state_dict().items()}
    calibrated = Calibrated(nn.Identity())
    calibrated.load_state_dict(state)
    assert calibrated.n_classes is None


@pytest.mark.parametrize("wrong", [torch.tensor(1), torch.tensor([2, 3])], ids=["one class", "two numbers"])
def test_a_number_that_cannot_be_right_is_an_error_of_loading(wrong):
    state = Calibrated(nn.Identity(), FITTED).state_dict() | {"n_classes": wrong}
    with pytest.raises(RuntimeError, match="`n_classes` must be one whole number of at least 2, got "):
        Calibrated(nn.Identity()).load_state_dict(state)


def test_the_number_is_kept_by_folding():
    calibrated = Calibrated(Segments(), FITTED)
    calibrated.fold(probe=IMAGES)
    assert (float(calibrated.temperature), calibrated.n_classes) == (1.0, K)
    with pytest.raises(InputError, match="got 8 in shape"):
        calibrated.predict(IMAGES)


def test_the_number_is_known_after_a_fit_to_a_sketch():
    z, y = torch.tensor(Z, dtype=torch.float32), torch.tensor(Y)
    calibrated = calibrate(nn.Identity(), (z, y), keep_up_to=1000)
    assert calibrated.sketch is not None
    assert calibrated.n_classes == K


def test_a_graph_for_any_size_of_image_keeps_the_check_and_the_numbers(segmented):
    calibrated = Calibrated(ClassesLast(Segments()), segmented.calibrator).eval()
    sizes = {0: torch.export.Dim("n"), 2: torch.export.Dim("height", min=2), 3: torch.export.Dim("width", min=2)}
    exported = torch.export.export(calibrated, (IMAGES,), dynamic_shapes={"image": sizes})
    other = IMAGES[:3, :, :4, :7]
    assert torch.allclose(exported.module()(other), calibrated(other), atol=1e-6)


def test_an_onnx_file_of_probabilities_is_refused_where_the_classes_are_not_last(segmented, tmp_path):
    pytest.importorskip("onnxscript")
    with pytest.raises(InputError) as error:
        to_onnx(segmented, IMAGES, tmp_path / "p.onnx", output="probabilities")
    assert str(error.value) == message((12, K, H, W), NAME_IT)
    assert not list(tmp_path.iterdir())


def test_an_onnx_file_gives_the_probabilities_of_each_pixel(segmented, tmp_path):
    pytest.importorskip("onnxscript")
    ort = pytest.importorskip("onnxruntime")
    calibrated = Calibrated(ClassesLast(segmented.model), segmented.calibrator)
    sizes = ({0: "n", 2: "height", 3: "width"},)
    to_onnx(calibrated, IMAGES, tmp_path / "p.onnx", output="probabilities", dynamic_shapes=sizes)
    session = ort.InferenceSession(tmp_path / "p.onnx", providers=["CPUExecutionProvider"])
    other = IMAGES[:3, :, :4, :7]
    (found,) = session.run(None, {"image": other.numpy()})
    z = exact(segmented.model, other).reshape(-1, K)
    np.testing.assert_allclose(found, reference.softmax(z, float(segmented.temperature)).reshape(3, 4, 7, K), atol=1e-5)
