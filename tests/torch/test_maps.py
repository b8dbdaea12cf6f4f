"""Maps with several parameters do to the logits of a network what their definition says."""

import numpy as np
import pytest
import reference
import torch
from mapped_networks import BY_GROUP, GROUPED, GROUPS, MAPS, MATRIX, K, Network, X, affine, grouped, log_affine, logits, mixture
from small_networks import OUTPUTS
from torch import nn

import nishimori
from nishimori.errors import InputError, InputWarning
from nishimori.maps import Affine, ClassTemperatures, GroupTemperatures, LogAffine, Mixture, Temperature
from nishimori.torch import Calibrated

EACH = pytest.mark.parametrize(("map_", "definition"), MAPS.values(), ids=MAPS)
Z = 3 * torch.randn(40, K, generator=torch.Generator().manual_seed(2))


def test_some_rows_fall_back_and_others_do_not():
    changed = affine(Z.double().numpy(), MATRIX).argmax(axis=1) != Z.argmax(dim=1).numpy()
    assert 0 < changed.sum() < len(Z)


@EACH
def test_logits_probabilities_and_classes_are_those_of_the_definition(map_, definition):
    calibrated = Calibrated(nn.Identity(), map_)
    expected = definition(Z.double().numpy())
    np.testing.assert_allclose(calibrated(Z), expected, atol=1e-5)
    np.testing.assert_allclose(calibrated.predict_proba(Z), reference.softmax(expected, 1.0), atol=1e-6)
    assert calibrated.predict(Z).tolist() == expected.argmax(axis=1).tolist()


@EACH
def test_the_map_of_a_wrapper_is_the_one_that_was_passed(map_, definition):
    found = Calibrated(nn.Identity(), map_).map
    assert type(found) is type(map_)
    np.testing.assert_allclose(found.apply(Z.double().numpy()), definition(Z.double().numpy()), atol=1e-5)


@pytest.mark.parametrize("name", ["matrix", "classes"])
def test_logits_of_a_network_that_returns_a_tuple_can_be_mapped(name):
    map_, definition = MAPS[name]
    calibrated = Calibrated(Network(lambda z: (z, 7)), map_)
    found = calibrated.mapped(calibrated.model(X)[0].half())
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found.detach(), definition(logits(Network()).astype(np.float16).astype(float)), atol=1e-2)


def test_one_temperature_may_be_passed_as_a_map_or_keyword():
    for calibrated in (Calibrated(nn.Identity(), Temperature(1.7)), Calibrated(nn.Identity(), temperature=Temperature(1.7))):
        assert calibrated.temperature.item() == pytest.approx(1.7)
        assert calibrated.map.temperature == pytest.approx(1.7)
        assert torch.allclose(calibrated(Z), Z / 1.7)


@EACH
@pytest.mark.parametrize("output", OUTPUTS.values(), ids=OUTPUTS)
def test_the_output_is_of_the_same_type(output, map_, definition):
    network = Network(output)
    result = Calibrated(network, map_)(X)
    assert type(result) is type(network(X))
    found = result["logits"] if isinstance(result, dict) else getattr(result, "logits", result)
    np.testing.assert_allclose(found.detach(), definition(logits(Network())), atol=1e-4)


@EACH
def test_tokens_have_their_classes_in_the_last_dimension(map_, definition):
    tokens = Z.reshape(8, 5, K)
    found = Calibrated(nn.Identity(), map_)(tokens)
    assert found.shape == tokens.shape
    np.testing.assert_allclose(found.reshape(40, K), definition(Z.double().numpy()), atol=1e-5)


BINARY = {
    "affine": (
        Affine([[1.5, 0.3], [-0.2, 0.8]], [0.4, -0.1]),
        lambda z: affine(z, np.array([[1.5, 0.3], [-0.2, 0.8]]), [0.4, -0.1]),
    ),
    "fallback": (Affine(0.5, [0.0, 1.0], 2.0), lambda z: affine(z, 0.5, [0.0, 1.0], 2.0)),
    "classes": (ClassTemperatures([0.5, 3.0]), lambda z: np.array([row / [0.5, 3.0][row.argmax()] for row in z])),
    "log": (
        LogAffine([[1.5, 0.3], [-0.2, 0.8]], [0.4, -0.1]),
        lambda z: log_affine(z, np.array([[1.5, 0.3], [-0.2, 0.8]]), [0.4, -0.1]),
    ),
    "mixture": (Mixture(2.0, [0.5, 0.3, 0.2]), lambda z: mixture(z, 2.0, [0.5, 0.3, 0.2])),
}


@pytest.mark.parametrize("shape", [(9,), (9, 1)], ids=str)
@pytest.mark.parametrize(("map_", "definition"), BINARY.values(), ids=BINARY)
def test_one_output_unit_is_a_binary_score(map_, definition, shape):
    z = torch.linspace(-3, 3, 9).reshape(shape)
    expected = definition(np.stack([np.zeros(9), z.flatten().double().numpy()], axis=1))
    calibrated = Calibrated(nn.Identity(), map_)
    found = calibrated(z)
    assert found.shape == shape
    np.testing.assert_allclose(found.flatten(), expected[:, 1] - expected[:, 0], atol=1e-5)
    np.testing.assert_allclose(calibrated.predict_proba(z), reference.softmax(expected, 1.0), atol=1e-6)
    assert calibrated.predict(z).tolist() == (expected[:, 1] > expected[:, 0]).tolist()


@EACH
def test_gradients_flow_through_the_logits_and_are_those_of_the_map(map_, definition):
    z = Z[:6].double().requires_grad_()
    calibrated = Calibrated(nn.Identity(), map_).double()
    assert torch.autograd.gradcheck(calibrated, (z,))
    assert not any(each.requires_grad for each in calibrated.mapping.buffers())
    assert not list(calibrated.parameters())


@EACH
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_rounds_the_result_and_not_the_parameters(dtype, map_, definition):
    calibrated = Calibrated(Network(), map_).to(dtype)
    x = X.to(dtype)
    z = calibrated.model(x).detach()
    found = calibrated(x)
    assert found.dtype == dtype
    expected = definition(z.double().numpy())
    eps = torch.finfo(dtype).eps
    np.testing.assert_allclose(found.detach().double(), expected, rtol=eps, atol=eps)
    p = calibrated.predict_proba(x)
    assert p.dtype == dtype
    np.testing.assert_allclose(p.double(), reference.softmax(expected, 1.0), rtol=eps, atol=eps / 100)
    for name, each in calibrated.mapping.named_buffers():
        assert each.dtype == torch.float32
        np.testing.assert_allclose(each, map_.parameters[name], rtol=1e-7)


@pytest.mark.parametrize("name", ["matrix", "log"])
def test_a_matrix_is_multiplied_in_float32_under_autocast(name):
    map_, definition = MAPS[name]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = Calibrated(nn.Identity(), map_)(Z)
    np.testing.assert_allclose(found, definition(Z.double().numpy()), atol=1e-5)


def test_a_mixture_is_exact_where_probabilities_are_too_small_for_float32():
    found = Calibrated(nn.Identity(), Mixture(2.0, [0.5, 0.5, 0.0]))(torch.tensor([[0.0, -300.0, -500.0]]))
    # The softmax at T = 2 has the larger share by far, and its largest probability is 1.
    np.testing.assert_allclose(found, [[0.0, np.log(0.5) - 150, np.log(0.5) - 250]], rtol=1e-6)


def test_gradients_of_a_mixture_are_finite_beside_masked_classes():
    z = torch.tensor([[0.5, -torch.inf, 1.0]], requires_grad=True)
    Calibrated(nn.Identity(), MAPS["two of three"][0])(z)[:, [0, 2]].sum().backward()
    assert z.grad.isfinite().all()
    assert z.grad[0, 1] == 0


def test_rows_of_a_group_are_divided_by_its_temperature():
    calibrated = Calibrated(Network(), GROUPED)
    expected = grouped(logits(calibrated.model))
    np.testing.assert_allclose(calibrated(X, groups=GROUPS).detach(), expected, atol=1e-5)
    p = calibrated.predict_proba(X, groups=np.array(GROUPS))
    np.testing.assert_allclose(p, reference.softmax(expected, 1.0), atol=1e-6)
    for classes in (calibrated.predict(X, groups=GROUPS), calibrated.predict(X)):
        assert classes.tolist() == expected.argmax(axis=1).tolist()


@pytest.mark.parametrize("groups", [torch.tensor([7, 3, 7]), np.array([7, 3, 7]), [7, 3, 7]], ids=["tensor", "array", "list"])
def test_groups_may_be_numbers(groups):
    calibrated = Calibrated(nn.Identity(), GroupTemperatures((3, 7), [1.5, 2.5], 2.0))
    expected = Z[:3] / torch.tensor([2.5, 1.5, 2.5])[:, None]
    assert torch.allclose(calibrated(Z[:3], groups=groups), expected)


def test_groups_of_scores_and_of_sequences_are_those_of_the_first_dimension():
    calibrated = Calibrated(nn.Identity(), GROUPED)
    by_row = torch.tensor([BY_GROUP[name] for name in GROUPS])
    for z in (Z[:6, 0], Z[:6, :1], Z[:30].reshape(6, 5, K)):
        found = calibrated(z, groups=GROUPS)
        assert torch.allclose(found, z / by_row.reshape(-1, *[1] * (z.ndim - 1)))


@pytest.mark.parametrize("as_", [np.array, list, torch.tensor], ids=["array", "list", "tensor"])
def test_groups_of_tokens_have_the_shape_of_the_labels(as_):
    calibrated = Calibrated(nn.Identity(), GroupTemperatures((3, 7), np.array([0.5, 2.0]), 1.25))
    groups = np.where(np.arange(8).reshape(2, 4) % 3, 7, 3)
    z = torch.arange(24.0).reshape(2, 4, 3).sin()
    named = as_(groups.tolist())
    divided = z / torch.tensor(np.where(groups == 3, 0.5, 2.0), dtype=torch.float32)[..., None]
    assert torch.allclose(calibrated(z, groups=named), divided)
    assert torch.allclose(calibrated.predict_proba(z, groups=named), divided.softmax(dim=-1))
    assert torch.equal(calibrated.predict(z, groups=named), z.argmax(dim=-1))


def test_unseen_groups_get_the_common_temperature_and_a_warning():
    calibrated = Calibrated(nn.Identity(), GROUPED)
    with pytest.warns(InputWarning, match=r"^The group 'new' was not seen .* the common T = 2 is used\.$"):
        found = calibrated(Z[:2], groups=["new", "a"])
    assert torch.allclose(found, Z[:2] / torch.tensor([2.0, 1.5])[:, None])


def test_a_fitted_calibrator_brings_its_map_and_the_name_of_its_method():
    z, y = reference.drawn(300, 4)
    fitted = nishimori.calibrators.FixedMap(Affine(0.5, np.arange(4.0)), method="mine").fit(z, y)
    calibrated = Calibrated(nn.Identity(), fitted)
    assert (calibrated.method, calibrated.calibrator) == ("mine", fitted)
    np.testing.assert_allclose(calibrated.predict_proba(torch.tensor(z)), fitted.predict_proba(z), atol=1e-6)


def test_a_calibrator_from_a_file_serves_a_network(tmp_path):
    z, y = reference.drawn(300, 4)
    fitted = nishimori.BiasCorrected().fit(z, y)
    fitted.save(tmp_path / "bias.json")
    calibrated = Calibrated(nn.Identity(), nishimori.load(tmp_path / "bias.json"))
    assert calibrated.method == "bias"
    np.testing.assert_allclose(calibrated.predict_proba(torch.tensor(z)), fitted.predict_proba(z), atol=1e-6)


def test_a_calibrator_of_probabilities_serves_a_network_that_returns_logits():
    z, y = reference.drawn(300, 4)
    p = reference.softmax(z, 1.0)
    fitted = nishimori.BiasCorrected(input="probabilities", floor=None).fit(p, y)
    np.testing.assert_allclose(
        Calibrated(nn.Identity(), fitted).predict_proba(torch.tensor(z)), fitted.predict_proba(p), atol=1e-6
    )


def test_a_network_with_groups_of_its_own_keeps_them_where_the_map_needs_none():
    class Own(nn.Module):
        def forward(self, x, groups):
            return x + groups

    calibrated = Calibrated(Own(), Affine(0.5, np.zeros(K)))
    assert torch.allclose(calibrated(Z, groups=torch.ones(1)), (Z - Z.mean(dim=1, keepdim=True)) / 2, atol=1e-6)
    with pytest.raises(InputError) as error:
        Calibrated(Own(), GROUPED)
    assert str(error.value) == (
        "`model` must not have an argument `groups` of its own: `calibrated(x, groups=groups)` passes those of "
        "the map. Wrap the network in a module that renames it."
    )


class Foreign(nishimori.Map):
    kind = "foreign"
    parameters = None

    def apply(self, logits, groups=None):
        return logits


MASKED = Z.clone()
MASKED[0, 0] = -torch.inf
CLASSES = "`model` must return logits whose last dimension holds the 5 classes of the map, got "
OTHER_NETWORK = "Use the network that the map was fitted to, or calibrate this one."
REFUSED = {
    "no groups": (
        lambda: Calibrated(nn.Identity(), GROUPED)(Z),
        "`groups` must name the group of each sample, because each group has its own temperature. Pass them by name after the "
        "arguments of the network: `calibrated(x, groups=groups)`.",
    ),
    "no groups for probabilities": (
        lambda: Calibrated(nn.Identity(), GROUPED).predict_proba(Z),
        "`groups` must name the group of each sample, because each group has its own temperature. Pass them by name after the "
        "arguments of the network: `calibrated(x, groups=groups)`.",
    ),
    "too few groups": (
        lambda: Calibrated(nn.Identity(), GROUPED)(Z, groups=["a"]),
        "`groups` must have shape (40,), one group per sample, got (1,).",
    ),
    "too few groups for predictions": (
        lambda: Calibrated(nn.Identity(), GROUPED).predict_proba(Z, groups=["a"]),
        "`groups` must have shape (40,), one group per sample, got (1,).",
    ),
    "groups of a single number": (
        lambda: Calibrated(nn.Identity(), GROUPED)(torch.tensor(1.0), groups=["a"]),
        "`model` must return logits of shape (n, n_classes) or (n,), got a single number. Return one row per sample.",
    ),
    "another number of classes": (
        lambda: Calibrated(nn.Identity(), MAPS["matrix"][0])(Z[:, :4]),
        f"{CLASSES}4 in shape (40, 4). {OTHER_NETWORK}",
    ),
    "another number of classes, predicted": (
        lambda: Calibrated(nn.Identity(), MAPS["classes"][0]).predict(Z[:, :4]),
        f"{CLASSES}4 in shape (40, 4). {OTHER_NETWORK}",
    ),
    "scores for more than two classes": (
        lambda: Calibrated(nn.Identity(), MAPS["fallback"][0]).predict(Z[0]),
        CLASSES + "shape (5,). Return one row per sample: for a single sample, pass a batch of one.",
    ),
    "classes in another dimension": (
        lambda: Calibrated(nn.Identity(), MAPS["number"][0])(torch.ones(2, K, 3, 3)),
        CLASSES + "3 in shape (2, 5, 3, 3). If dimension 1 holds the classes, pass `class_axis=1` to `calibrate` or "
        "`Calibrated`.",
    ),
    "masked classes": (
        lambda: Calibrated(nn.Identity(), MAPS["diagonal"][0])(MASKED),
        "`model` must return logits without masked classes (-inf), because the affine map adds up several classes. Use a "
        "method with temperatures only, such as 'ec' or 'group'.",
    ),
    "a calibrator that is not fitted": (
        lambda: Calibrated(nn.Identity(), nishimori.ExpectationConsistency()),
        "`temperature` must be a number, a map or a fitted calibrator, got a ExpectationConsistency without a map. Call "
        "its `fit`, or `calibrate(model, loader, method=calibrator)`. A calibrator of several labels per sample has several "
        "maps: use `calibrator.predict_proba(model(x))`.",
    ),
    "a calibrator with a floor": (
        lambda: Calibrated(nn.Identity(), nishimori.from_temperature(2.0, input="probabilities", floor=1e-3)),
        "`temperature` must be a calibrator without a `floor`, got `floor=0.001`, to which it raises probabilities before it "
        "calibrates them; logits of a network are not raised. Fit it to logits, or with `floor=None`.",
    ),
    "a map of somebody's own": (
        lambda: Calibrated(nn.Identity(), Foreign()),
        "A map of the class Foreign cannot be saved, because its class is not registered. Call `nishimori.register(name, "
        "Foreign)` in the module that defines it, or pickle the calibrator.",
    ),
    "a parameter beyond float32": (
        lambda: Calibrated(nn.Identity(), Affine(1.0, [1e39, 0.0])),
        "`bias` of the map must hold numbers that float32 can hold, got array([1.e+39, 0.e+00]).",
    ),
    "masked classes of a map of log-probabilities": (
        lambda: Calibrated(nn.Identity(), MAPS["log"][0])(MASKED),
        "`model` must return logits without masked classes (-inf), because the affine map adds up several classes. Use a "
        "method with temperatures only, such as 'ec' or 'group'.",
    ),
    "a mixture of a single number": (
        lambda: Calibrated(nn.Identity(), MAPS["mixture"][0])(torch.tensor(1.0)),
        "`model` must return logits of shape (n, n_classes) or (n,), got a single number. Return one row per sample.",
    ),
    "a temperature of a mixture below float32": (
        lambda: Calibrated(nn.Identity(), Mixture(1e-60, [1.0, 0.0, 0.0])),
        "`temperature` of the map must hold numbers that float32 can hold, got 1e-60.",
    ),
    "a temperature below float32": (
        lambda: Calibrated(nn.Identity(), ClassTemperatures([1e-60, 1.0])),
        "`temperatures` of the map must hold numbers that float32 can hold, got array([1.e-60, 1.e+00]).",
    ),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_applied_is_refused_with_this_message(call, message):
    with pytest.raises(InputError) as error:
        call()
    assert str(error.value) == message


def test_masked_classes_stay_masked_where_temperatures_divide():
    for map_, groups in ((MAPS["classes"][0], {}), (GROUPED, {"groups": ["a"] * 40}), (MAPS["mixture"][0], {})):
        calibrated = Calibrated(nn.Identity(), map_)
        assert calibrated(MASKED, **groups)[0, 0] == -torch.inf
        assert calibrated.predict_proba(MASKED, **groups)[0, 0] == 0
