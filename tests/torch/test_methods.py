"""`calibrate` takes any method, by name or as a calibrator; with one temperature per group, `forward` gives the groups."""

import numpy as np
import pytest
import reference
import torch
from torch import nn

import nishimori
from nishimori.calibrators import FixedMap
from nishimori.errors import InputError
from nishimori.maps import Affine, ClassTemperatures, GroupTemperatures
from nishimori.torch import Calibrated, calibrate, collect

LOGITS, LABELS = reference.drawn(600, 4)
Z, Y = torch.tensor(LOGITS), torch.tensor(LABELS)
NAMES = np.array(["north", "south", "east"])[np.arange(600) % 3]
BATCHES = [(Z[rows], Y[rows], NAMES[rows].tolist()) for rows in (slice(0, 250), slice(250, 600))]


class ByGroup(nishimori.Calibrator):
    """The temperature of a group is 1 plus the share of its labels that are zero."""

    def __init__(self, by="groups", *, input="logits", classes=None, floor=None):
        self.by, self.input, self.classes, self.floor = by, input, classes, floor

    def fit(self, X, y=None, sample_weight=None, *, groups=None):
        data = self.rows_from(X, y, sample_weight, groups=groups)
        found = data.groups
        truth = np.concatenate([np.asarray(batch.labels) for batch in data])
        shares = [(truth[found.codes == code] == 0).mean() for code in range(len(found.names))]
        return self.learn(X, data, GroupTemperatures(found.names, 1 + np.array(shares), 1.0), len(truth))


def with_groups(model, batch):
    return model(batch[0]), batch[1], batch[2]


@pytest.mark.parametrize("groups", [lambda names: names, np.array, tuple], ids=["list", "array", "tuple"])
def test_groups_come_from_forward(groups):
    batches = [(z, y, groups(names)) for z, y, names in BATCHES]
    calibrated = calibrate(nn.Identity(), batches, forward=with_groups, method=ByGroup())
    expected = {name: 1 + (LABELS[name == NAMES] == 0).mean() for name in ("north", "south", "east")}
    found = calibrated.map
    assert dict(zip(found.groups, found.temperatures, strict=True)) == pytest.approx(expected, rel=1e-6)
    by_row = torch.tensor([expected[name] for name in NAMES])
    assert torch.allclose(calibrated(Z, groups=NAMES), Z / by_row[:, None])


def test_groups_may_be_a_tensor_of_numbers():
    codes = torch.arange(600) % 3
    calibrated = calibrate(nn.Identity(), [(Z, Y, codes)], forward=lambda m, b: (m(b[0]), b[1], b[2]), method=ByGroup())
    assert calibrated.map.groups == (0, 1, 2)


@pytest.mark.parametrize("options", [{}, {"keep_up_to": 0, "reread": True}], ids=["kept", "read again"])
@pytest.mark.parametrize("padding", ["pad", None])
def test_groups_of_rows_that_do_not_count_are_not_looked_at(padding, options):
    scale = np.array([{"north": 3.0, "south": 1.0, "east": 2.0}[name] for name in NAMES])
    z = torch.tensor(LOGITS * scale[:, None])
    counts = np.arange(600) % 5 > 0
    labels, names = np.where(counts, LABELS, -100), np.where(counts, NAMES.astype(object), padding).tolist()
    batches = [(z[i : i + 90], torch.tensor(labels[i : i + 90]), names[i : i + 90]) for i in range(0, 600, 90)]
    fitted = calibrate(nn.Identity(), batches, forward=with_groups, method=nishimori.GroupConsistency(by="groups"), **options)
    plain = nishimori.GroupConsistency(by="groups").fit(z[counts], LABELS[counts], groups=NAMES[counts]).map_
    assert fitted.map.groups == plain.groups == ("east", "north", "south")
    np.testing.assert_allclose(fitted.map.temperatures, plain.temperatures, rtol=1e-7)  # which a network holds in float32
    assert plain.temperatures.max() > 1.5 * plain.temperatures.min()


def test_labels_are_smoothed_where_the_calibrator_says_so():
    right = LOGITS.argmax(axis=1)
    for smooth in (nishimori.TemperatureScaling(smooth_labels=True), nishimori.ExpectationConsistency(smooth_labels=True)):
        calibrated = calibrate(nn.Identity(), (Z, torch.tensor(right)), method=smooth)
        assert calibrated.temperature == pytest.approx(smooth.fit(LOGITS, right).temperature_, rel=1e-7)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.filterwarnings("ignore::nishimori.errors.InputWarning")
def test_scores_that_are_worse_than_chance_give_equal_probabilities_in_any_precision(dtype):
    smooth = nishimori.TemperatureScaling(smooth_labels=True)
    calibrated = calibrate(nn.Identity(), (Z, torch.tensor(LOGITS.argmin(axis=1))), method=smooth).to(dtype)
    logits = Z.to(dtype, copy=True)
    logits[:, 0] = -torch.inf  # masked classes stay so
    expected = torch.tensor([0.0, 1 / 3, 1 / 3, 1 / 3], dtype=dtype).expand(600, 4)
    assert torch.allclose(calibrated.predict_proba(logits), expected, rtol=1e-2 if dtype.itemsize == 2 else 1e-5)


def test_a_calibrator_is_copied_before_it_is_fitted():
    mine = nishimori.ExpectationConsistency(top_n=2)
    calibrated = calibrate(nn.Identity(), (Z, Y), method=mine)
    assert not hasattr(mine, "map_")
    assert calibrated.calibrator.top_n == 2
    p = np.sort(reference.softmax(LOGITS, calibrated.temperature.item()), axis=1)
    right = [label in row.argsort()[-2:] for row, label in zip(LOGITS, LABELS, strict=True)]
    assert p[:, -2:].sum(axis=1).mean() == pytest.approx(np.mean(right), abs=1e-6)


@pytest.mark.parametrize("method", ["ec", "ts", "adaptive"])
def test_the_fitted_calibrator_is_kept_with_its_error_bars(method):
    calibrated = calibrate(nn.Identity(), (Z, Y), method=method)
    alone = nishimori.calibrator(method).fit(LOGITS, LABELS)
    assert calibrated.method == method
    assert calibrated.calibrator.temperature_ == pytest.approx(alone.temperature_, rel=1e-8)
    assert calibrated.calibrator.temperature_se_ == pytest.approx(alone.temperature_se_, rel=1e-6)
    assert calibrated.calibrator.n_features_in_ == 4


@pytest.mark.parametrize(
    "map_", [Affine(0.5, np.arange(4.0)), ClassTemperatures([1.0, 2.0, 3.0, 4.0])], ids=["affine", "classes"]
)
def test_a_method_may_give_any_map(map_):
    calibrated = calibrate(nn.Identity(), (Z, Y), method=FixedMap(map_, method="mine"))
    assert calibrated.method == "mine"
    assert calibrated.temperatures == nishimori.temperatures(Z, Y)
    np.testing.assert_allclose(calibrated(Z), map_.apply(LOGITS), atol=1e-5)
    again = calibrate(calibrated, (Z, Y), method="ts")
    assert again.temperature.item() == pytest.approx(reference.ts_temperature(LOGITS, LABELS), rel=1e-6)


RETURN_GROUPS = "Pass `forward=lambda model, batch: (logits, labels, groups)`."
REFUSED = {
    "no forward": (
        lambda: calibrate(nn.Identity(), (Z, Y), method=ByGroup()),
        "`forward` must return the group of each sample where each group has its own temperature (by='groups'), got no "
        f"`forward`. {RETURN_GROUPS}",
    ),
    "no groups": (
        lambda: calibrate(nn.Identity(), (Z, Y), forward=lambda m, b: (m(b[0]), b[1]), method=ByGroup()),
        "`forward` must return the logits, labels and groups of each batch, got tuple (tensor float64 (256, 4), tensor "
        "int64 (256,)) in batch 0. Return a tuple `(logits, labels, groups)`, or a dict with the keys 'logits', 'labels', "
        "'groups' and, where you have them, 'clusters' and 'sample_weight'.",
    ),
    "an error inside": (
        lambda: calibrate(nn.Identity(), [(Z, Y)], forward=with_groups, method=ByGroup()),
        "`forward` must return the logits, labels and groups of each batch, got IndexError: tuple index out of range in batch "
        "0. The batch is tuple (tensor float64 (600, 4), tensor int64 (600,)).",
    ),
    "groups that are not needed": (
        lambda: calibrate(nn.Identity(), BATCHES, forward=with_groups, method="ec"),
        "`forward` must return the logits and labels of each batch, got tuple (tensor float64 (250, 4), tensor int64 "
        "(250,), list of 250 str) in batch 0. Return a tuple `(logits, labels)`, or a dict with the keys 'logits', "
        "'labels' and, where you have them, 'groups', 'clusters' and 'sample_weight'.",
    ),
    "groups to collect": (
        lambda: collect(nn.Identity(), BATCHES, forward=with_groups),
        "`forward` must return the logits and labels of each batch, got tuple (tensor float64 (250, 4), tensor int64 "
        "(250,), list of 250 str) in batch 0. Return a tuple `(logits, labels)`, or a dict with the keys 'logits', "
        "'labels' and, where you have them, 'groups', 'clusters' and 'sample_weight'.",
    ),
    "too few groups": (
        lambda: calibrate(nn.Identity(), [(Z, Y, ["a", "b"])], forward=with_groups, method=ByGroup()),
        "Batch 0: `groups` must have shape (600,), one group per sample, got (2,).",
    ),
    "one name for a batch": (
        lambda: calibrate(nn.Identity(), [(Z, Y, "north")], forward=with_groups, method=ByGroup()),
        "Batch 0: `groups` must have shape (600,), one group per sample, got (1,).",
    ),
    "rows of groups": (
        lambda: calibrate(nn.Identity(), [(Z[:2], Y[:2], [[1], [2, 3]])], forward=with_groups, method=ByGroup()),
        "Batch 0: `groups` must be a flat list, got rows of different lengths.",
    ),
    "text and numbers": (
        lambda: calibrate(nn.Identity(), [(Z, Y, ["a"] * 600), (Z, Y, [1] * 600)], forward=with_groups, method=ByGroup()),
        "`groups` must hold values of one type, such as numbers or text.",
    ),
    "probabilities": (
        lambda: calibrate(nn.Identity(), (Z, Y), method=nishimori.TemperatureScaling(input="probabilities")),
        "`method` must take logits, as the network returns them, got an object of type TemperatureScaling with "
        "`input='probabilities'`. Leave `input` out.",
    ),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_calibrated_is_refused_with_this_message(call, message):
    with pytest.raises(InputError) as error:
        call()
    assert str(error.value) == message


GAP = 1e-5  # of a mean probability, in float32


def means(calibrated, rows=slice(None), **groups):
    """Mean confidence and accuracy of some rows, by their definition."""
    p = calibrated.predict_proba(Z, **groups).double().numpy()[rows]
    return p.max(axis=1).mean(), (p.argmax(axis=1) == LABELS[rows]).mean()


def test_one_temperature_per_predicted_class_is_that_of_the_calibrator_and_keeps_overall_confidence():
    calibrated = calibrate(nn.Identity(), (Z, Y), method="group")
    assert calibrated.method == "group"
    confidence, accuracy = means(calibrated)
    assert confidence == pytest.approx(accuracy, abs=GAP)
    T = calibrated.calibrator.temperatures_
    expected = np.array([row / T[row.argmax()] for row in LOGITS])
    np.testing.assert_allclose(calibrated(Z), expected, atol=1e-5)
    assert len(calibrated.calibrator.temperatures_se_) == 4


def test_one_temperature_per_group_of_the_loader():
    scale = np.where(NAMES == "north", 3.0, 1.0)  # one group is three times as sure as the others
    batches = [
        (Z[rows] * torch.tensor(scale[rows])[:, None], Y[rows], NAMES[rows]) for rows in (slice(0, 250), slice(250, 600))
    ]
    method = nishimori.GroupConsistency(by="groups")
    calibrated = calibrate(nn.Identity(), batches, forward=with_groups, method=method)
    T = dict(zip(calibrated.map.groups, calibrated.map.temperatures, strict=True))
    assert T["north"] > 2 * T["south"]
    x = Z * torch.tensor(scale)[:, None]
    expected = np.array([row / T[name] for row, name in zip(x.numpy(), NAMES, strict=True)])
    np.testing.assert_allclose(calibrated.predict_proba(x, groups=NAMES), reference.softmax(expected, 1.0), atol=1e-6)
    with pytest.raises(InputError, match="must return the group of each sample"):
        calibrate(nn.Identity(), (Z, Y), method=method)


def test_the_bias_of_each_class_makes_its_mean_probability_its_frequency():
    skewed = Z + torch.tensor([1.0, 0.0, -0.5, 0.0])
    calibrated = calibrate(nn.Identity(), (skewed, Y), method=nishimori.BiasCorrected(shrink=False))
    p = calibrated.predict_proba(skewed).double().numpy()
    np.testing.assert_allclose(p.mean(axis=0), np.bincount(LABELS) / 600, atol=GAP)
    assert calibrated.predict(skewed).tolist() == p.argmax(axis=1).tolist()
    assert (calibrated.predict(skewed) != skewed.argmax(dim=1)).any()
    by_name = calibrate(nn.Identity(), (skewed, Y), method="bias")
    assert (by_name.method, type(by_name.map)) == ("bias", Affine)


def test_predictions_stay_where_accuracy_is_preserved():
    skewed = Z + torch.tensor([1.0, 0.0, -0.5, 0.0])
    method = nishimori.BiasCorrected(preserve_accuracy=True)
    calibrated = calibrate(nn.Identity(), (skewed, Y), method=method)
    assert calibrated.calibrator.preserve_accuracy
    assert calibrated.map.fallback is not None
    p = calibrated.predict_proba(skewed)
    assert torch.equal(p.argmax(dim=1), skewed.argmax(dim=1))
    assert torch.equal(calibrated.predict(skewed), skewed.argmax(dim=1))
    with pytest.raises(InputError, match="preserve_accuracy=True"):
        calibrated.fold()


@pytest.mark.parametrize("method", ["vector", "matrix"])
def test_vector_and_matrix_scaling_lower_the_loss_and_fold(method):
    distorted = Z @ torch.tensor([[1.0, 0.6, 0, 0], [0, 1.0, 0, 0], [0, 0, 2.0, 0], [0, 0, 0, 1.0]], dtype=torch.float64)
    network = nn.Linear(4, 4).double()
    with torch.no_grad():
        network.weight.copy_(torch.eye(4))
        network.bias.copy_(torch.tensor([0.0, 1.0, 0.0, -1.0]))
    calibrated = calibrate(network, (distorted, Y), method=method)
    assert (calibrated.method, calibrated.map.scale.ndim) == (method, {"vector": 1, "matrix": 2}[method])
    one = calibrate(network, (distorted, Y), method="ts")
    loss = {each.method: nn.functional.cross_entropy(each(distorted), Y).item() for each in (calibrated, one)}
    assert loss[method] < loss["ts"] - 0.02
    z = network(distorted).detach().numpy()
    np.testing.assert_allclose(calibrated(distorted).detach(), calibrated.calibrator.transform(z), atol=1e-5)
    expected = calibrated.predict_proba(distorted)
    folded = calibrated.fold(probe=distorted)
    np.testing.assert_allclose(folded(distorted).softmax(dim=1).detach(), expected, atol=1e-8)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("method", ["group", "bias", "matrix"])
def test_a_network_on_a_cuda_device_is_calibrated_there(method):
    network = nn.Linear(4, 4).cuda()
    with torch.no_grad():
        network.weight.copy_(torch.eye(4))
        network.bias.zero_()
    x = Z.float()
    calibrated = calibrate(network, (x, Y), method=method)
    assert all(each.is_cuda for each in calibrated.mapping.buffers())
    expected = calibrated.map.probabilities(x.double().numpy())
    np.testing.assert_allclose(calibrated.predict_proba(x.cuda()).cpu(), expected, atol=1e-5)
    with torch.autocast("cuda", dtype=torch.float16):
        assert calibrated.mapped(x.cuda()).dtype == torch.float32
        np.testing.assert_allclose(calibrated.mapped(x.cuda()).cpu(), calibrated.map.apply(x.double().numpy()), atol=1e-4)
    if method != "group":
        np.testing.assert_allclose(calibrated.fold(probe=x)(x.cuda()).softmax(dim=1).detach().cpu(), expected, atol=1e-3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_groups_on_a_cuda_device_are_looked_up():
    calibrated = Calibrated(nn.Linear(4, 4).cuda(), GroupTemperatures((3, 7), [1.5, 2.5], 2.0))
    x, groups = Z[:3].float().cuda(), torch.tensor([7, 3, 7]).cuda()
    expected = calibrated.model(x) / torch.tensor([2.5, 1.5, 2.5], device="cuda")[:, None]
    assert torch.allclose(calibrated(x, groups=groups), expected)
