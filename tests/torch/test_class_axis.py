"""Networks that return their classes in another dimension than the last, as segmentation in PyTorch's order does."""

import copy
import io
import pickle

import numpy as np
import pytest
import reference
import torch
from torch import nn

from nishimori.errors import InputError
from nishimori.maps import Affine, GroupTemperatures
from nishimori.torch import Calibrated, calibrate, collect, to_onnx

K, H, W = 5, 6, 5  # as wide as there are classes: a softmax over the width would have the right shape
IMAGES = torch.tensor(np.random.default_rng(0).normal(size=(12, 3, H, W)), dtype=torch.float32)


def segments(n_classes=K):
    """A network that gives a row of logits for each pixel, with the classes in dimension 1."""
    network = nn.Conv2d(3, n_classes, 1)
    with torch.no_grad():
        generator = torch.Generator().manual_seed(8)
        for each in network.parameters():
            each.copy_(3 * torch.randn(each.shape, generator=generator))
    return network


def exact(network):
    """The logits of each pixel, (n, height, width, classes), from the weights."""
    weight, bias = (each.detach().double().numpy() for each in (network.weight[:, :, 0, 0], network.bias))
    return np.einsum("nchw,kc->nhwk", IMAGES.double().numpy(), weight) + bias


NETWORK = segments()
ROWS = exact(NETWORK)
MASKS = torch.tensor((ROWS / 1.6 + np.random.default_rng(2).gumbel(size=ROWS.shape)).argmax(axis=-1))


@pytest.mark.parametrize("axis", [1, -3])
@pytest.mark.parametrize("method", ["ts", "mixture", "vector", "group"])
def test_each_pixel_is_a_sample_and_probabilities_keep_the_order_of_the_logits(method, axis):
    calibrated = calibrate(copy.deepcopy(NETWORK), (IMAGES, MASKS), method=method, class_axis=axis)
    assert calibrated.n_classes == K
    expected = calibrated.calibrator.predict_proba(ROWS.reshape(-1, K)).reshape(ROWS.shape)
    p = calibrated.predict_proba(IMAGES)
    np.testing.assert_allclose(p.movedim(1, -1), expected, atol=1e-5)
    np.testing.assert_allclose(calibrated(IMAGES).softmax(dim=1).detach(), p, atol=1e-6)
    assert torch.equal(calibrated.predict(IMAGES), torch.tensor(expected.argmax(axis=-1)))


def test_the_temperature_is_that_of_all_pixels():
    calibrated = calibrate(NETWORK, (IMAGES, MASKS), method="ts", class_axis=1)
    expected = reference.ts_temperature(ROWS.reshape(-1, K), MASKS.numpy().reshape(-1))
    assert float(calibrated.temperature) == pytest.approx(expected, rel=1e-5)


def test_a_function_of_the_user_returns_logits_in_the_same_order():
    calibrated = calibrate(NETWORK, [(MASKS, IMAGES)], forward=lambda m, b: (m(b[1]), b[0]), method="ts", class_axis=1)
    assert float(calibrated.temperature) == pytest.approx(
        reference.ts_temperature(ROWS.reshape(-1, K), MASKS.numpy().reshape(-1)), rel=1e-5
    )


def test_collected_rows_have_their_classes_last():
    logits, labels = collect(NETWORK, (IMAGES, MASKS), class_axis=1)
    np.testing.assert_allclose(logits, ROWS.reshape(-1, K), atol=1e-4)
    assert torch.equal(labels, MASKS.reshape(-1))


def test_a_calibrated_network_is_calibrated_again_in_the_same_order():
    first = calibrate(NETWORK, (IMAGES, MASKS), class_axis=1)
    assert calibrate(first, (IMAGES, MASKS)).class_axis == 1


def test_one_unit_per_pixel_gives_two_probabilities():
    network = segments(1)
    calibrated = Calibrated(network, 2.0, class_axis=1)
    z = exact(network)[..., 0]
    np.testing.assert_allclose(calibrated.predict_proba(IMAGES)[:, 1], 1 / (1 + np.exp(-z / 2)), atol=1e-5)
    assert torch.equal(calibrated.predict(IMAGES), torch.tensor((z > 0).astype(int)))


def test_groups_may_be_those_of_each_pixel():
    network, names = segments(), np.where(np.arange(12 * H * W) % 3, "a", "b").reshape(12, H, W)
    calibrated = Calibrated(network, GroupTemperatures(("a", "b"), [2.0, 4.0], 3.0), class_axis=1)
    expected = ROWS / np.where(names == "a", 2.0, 4.0)[..., None]
    np.testing.assert_allclose(calibrated(IMAGES, groups=names).detach().movedim(1, -1), expected, atol=1e-4)
    assert torch.equal(calibrated.predict(IMAGES, groups=names), torch.tensor(ROWS.argmax(axis=-1)))


def test_an_affine_map_is_folded_into_a_convolution():
    calibrated = Calibrated(segments(), Affine(np.linspace(0.4, 0.8, K), np.linspace(-1, 1, K)), class_axis=1)
    expected = calibrated(IMAGES).detach()
    network = calibrated.fold(probe=IMAGES)
    assert torch.allclose(network(IMAGES), expected, atol=1e-4)


def test_where_the_classes_are_is_saved_copied_and_pickled():
    calibrated = Calibrated(segments(), 1.5, class_axis=1)
    file = io.BytesIO()
    torch.save(calibrated.state_dict(), file)
    file.seek(0)
    loaded, inside = Calibrated(segments()), nn.ModuleDict({"net": Calibrated(segments())})
    loaded.load_state_dict(torch.load(file, weights_only=True))
    inside.load_state_dict(nn.ModuleDict({"net": calibrated}).state_dict())
    for each in (loaded, inside["net"], pickle.loads(pickle.dumps(calibrated)), copy.deepcopy(calibrated)):
        assert each.class_axis == 1
        np.testing.assert_allclose(each.predict_proba(IMAGES).sum(dim=1), 1.0, atol=1e-5)
    assert "class_axis=1" in repr(loaded)


def test_a_state_dict_that_does_not_say_it_leaves_the_order_as_it_is():
    state = Calibrated(segments(), 1.5).state_dict()
    assert "class_axis" not in state
    loaded = Calibrated(segments(), class_axis=1)
    loaded.load_state_dict(state)
    assert loaded.class_axis == 1


@pytest.mark.parametrize("wrong", [torch.tensor(1.5), torch.tensor([1, 2])], ids=["a half", "two numbers"])
def test_an_order_that_cannot_be_right_is_an_error_of_loading(wrong):
    state = Calibrated(segments(), 1.5).state_dict() | {"class_axis": wrong}
    with pytest.raises(RuntimeError, match="`class_axis` must be one whole number, got "):
        Calibrated(segments()).load_state_dict(state)


REFUSED = {
    "a word": (
        lambda: calibrate(NETWORK, (IMAGES, MASKS), class_axis="channels"),
        "`class_axis` must be the number of a dimension of the logits, got 'channels' for logits of 4 dimensions.",
    ),
    "no dimension": (
        lambda: calibrate(NETWORK, (IMAGES, MASKS), class_axis=4),
        "`class_axis` must be the number of a dimension of the logits, got 4 for logits of 4 dimensions.",
    ),
    "other classes": (
        lambda: Calibrated(NETWORK, Affine(1.0, np.zeros(H)), class_axis=1)(IMAGES),
        f"`model` must return logits whose dimension 1 holds the {H} classes of the map, got {K} in shape (12, 5, 6, 5). If "
        "dimension 2 holds the classes, pass `class_axis=2` to `calibrate` or `Calibrated`.",
    ),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_dimensions_that_do_not_hold_the_classes_are_refused(call, message):
    with pytest.raises(InputError) as error:
        call()
    assert str(error.value) == message


def test_an_onnx_file_gives_the_probabilities_of_each_pixel_in_the_order_of_the_network(tmp_path):
    pytest.importorskip("onnxscript")
    ort = pytest.importorskip("onnxruntime")
    calibrated = Calibrated(NETWORK, 2.0, class_axis=1)
    to_onnx(calibrated, IMAGES, tmp_path / "p.onnx", output="probabilities")
    session = ort.InferenceSession(tmp_path / "p.onnx", providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {session.get_inputs()[0].name: IMAGES.numpy()})
    expected = reference.softmax(ROWS.reshape(-1, K), 2.0).reshape(ROWS.shape)
    np.testing.assert_allclose(np.moveaxis(found, 1, -1), expected, atol=1e-5)
