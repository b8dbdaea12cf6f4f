"""Networks that return a row of logits per pixel: error bars by image, over all batches, and a temperature per position."""

import copy
import io

import numpy as np
import pytest
import reference
import torch
from small_tokens import error_of_temperature
from torch import nn

import nishimori
from nishimori.errors import InputError
from nishimori.maps import GroupTemperatures
from nishimori.torch import Calibrated, calibrate, collect

N, K, H, W = 60, 4, 5, 6
RNG = np.random.default_rng(3)
ROWS = 3 * RNG.normal(size=(N, H, W, K))
# In every other image the model is always right, so that the pixels of an image have errors alike.
DRAWN = (ROWS / 2 + RNG.gumbel(size=ROWS.shape)).argmax(axis=-1)
MASKS = np.where((np.arange(N) % 2 == 0)[:, None, None], ROWS.argmax(axis=-1), DRAWN)
X, Y = torch.tensor(np.moveaxis(ROWS, -1, 1)), torch.tensor(MASKS)
LOADER = [(X[i : i + 7], Y[i : i + 7]) for i in range(0, N, 7)]
IMAGE_OF_PIXEL = np.repeat(np.arange(N), H * W)
FLAT, LABELS = ROWS.reshape(-1, K), MASKS.reshape(-1)
T = reference.ec_temperature(FLAT, LABELS)
BY_IMAGE = error_of_temperature("ec", FLAT, LABELS, IMAGE_OF_PIXEL, T)
BY_PIXEL = error_of_temperature("ec", FLAT, LABELS, np.arange(len(LABELS)), T)

WAYS = {"kept": ({}, 1e-6), "sketch": ({"keep_up_to": 0}, 1e-3), "reread": ({"keep_up_to": 0, "reread": True}, 1e-4)}


@pytest.mark.parametrize(("options", "rel"), WAYS.values(), ids=WAYS)
def test_error_bars_are_by_image_over_all_batches(options, rel):
    by_image = calibrate(nn.Identity(), LOADER, method="ec", class_axis=1, **options)
    by_pixel = calibrate(nn.Identity(), LOADER, method="ec", class_axis=1, clusters=False, **options)
    assert by_image.temperatures.ec_se == pytest.approx(BY_IMAGE, rel=rel)
    assert by_image.calibrator.temperature_se_ == pytest.approx(BY_IMAGE, rel=rel)
    assert by_pixel.temperatures.ec_se == pytest.approx(BY_PIXEL, rel=rel)
    assert by_image.temperature == by_pixel.temperature
    assert str(by_image.temperatures).startswith("1,800 samples in 60 images, ")
    assert str(by_pixel.temperatures).startswith("1,800 samples, ")


def test_collected_pixels_know_their_image():
    found = collect(nn.Identity(), LOADER, class_axis=1)
    np.testing.assert_array_equal(found.clusters, IMAGE_OF_PIXEL)
    assert nishimori.temperatures(*found, clusters=found.clusters).ec_se == pytest.approx(BY_IMAGE, rel=1e-6)
    assert collect(nn.Identity(), LOADER, class_axis=1, clusters=False).clusters is None
    assert collect(nn.Identity(), (torch.tensor(ROWS), Y)).clusters is None


def test_clusters_that_a_function_returns_are_used():
    forward = lambda model, batch: {"logits": batch[0], "labels": batch[1], "clusters": np.full(len(batch[1]), batch[2])}  # noqa: E731
    batches = [(x, y, number) for number, (x, y) in enumerate((X[i : i + 3], Y[i : i + 3]) for i in range(0, N, 3))]
    found = calibrate(nn.Identity(), batches, method="ec", forward=forward, class_axis=1).temperatures
    patients = np.repeat(np.arange(N // 3), 3)[IMAGE_OF_PIXEL]
    assert found.ec_se == pytest.approx(error_of_temperature("ec", FLAT, LABELS, patients, T), rel=1e-6)
    assert found.cluster_name == "cluster"


def test_one_image_is_refused_unless_its_pixels_are_independent():
    one = [(X[1:2], Y[1:2])]
    with pytest.raises(InputError, match=r"^`clusters` must be at least two images, got one: .* With `clusters=False` pixels"):
        calibrate(nn.Identity(), one, method="ec", class_axis=1)
    found = calibrate(nn.Identity(), one, method="ec", class_axis=1, clusters=False)
    assert float(found.temperature) == pytest.approx(reference.ec_temperature(FLAT[30:60], LABELS[30:60]), rel=1e-6)


def test_classes_in_the_first_dimension_leave_no_dimension_of_images():
    with pytest.raises(InputError, match=r"^`clusters` must be passed where `class_axis=0`: no dimension before it can be"):
        collect(nn.Identity(), [(X[0], Y[0])], class_axis=0)


# --- a temperature per position ----------------------------------------------------------------------------------------------

LENGTH, POSITION_T = 4, np.array([1.0, 1.5, 2.5, 4.0])
TOKENS = 3 * RNG.normal(size=(900, LENGTH, K))
NEXT = (TOKENS / POSITION_T[:, None] + RNG.gumbel(size=TOKENS.shape)).argmax(axis=-1)
PLACES = np.tile(np.arange(LENGTH), 900)
BATCHES = [(torch.tensor(TOKENS[i : i + 250]), torch.tensor(NEXT[i : i + 250])) for i in range(0, 900, 250)]
EXPECTED = nishimori.GroupConsistency(by="groups").fit(TOKENS.reshape(-1, K), NEXT.reshape(-1), groups=PLACES)


@pytest.mark.parametrize("method", ["group", nishimori.GroupConsistency(by="groups")], ids=["name", "calibrator"])
def test_each_position_has_the_temperature_of_its_group(method):
    calibrated = calibrate(nn.Identity(), BATCHES, method=method, groups_by_position=True)
    assert calibrated.map.groups == (0, 1, 2, 3)
    np.testing.assert_allclose(calibrated.calibrator.temperatures_, EXPECTED.temperatures_, rtol=1e-9)
    np.testing.assert_allclose(calibrated.calibrator.temperatures_, POSITION_T, rtol=0.25)


def test_the_calibrated_network_knows_positions_by_itself():
    calibrated = calibrate(nn.Identity(), BATCHES, method="group", groups_by_position=True)
    x, T = torch.tensor(TOKENS[:5]), EXPECTED.temperatures_[:, None]
    np.testing.assert_allclose(calibrated(x), TOKENS[:5] / T, rtol=1e-6)
    expected = reference.softmax((TOKENS[:5] / T).reshape(-1, K)).reshape(5, LENGTH, K)
    np.testing.assert_allclose(calibrated.predict_proba(x), expected, atol=1e-6)
    np.testing.assert_allclose(calibrated(x[:, :1]), TOKENS[:5, :1] / T[:1], rtol=1e-6)
    first = np.zeros((5, LENGTH), dtype=int)
    np.testing.assert_allclose(calibrated(x, groups=first), TOKENS[:5] / T[0], rtol=1e-6)
    longer = torch.cat([x, x[:, :1]], dim=1)
    np.testing.assert_allclose(calibrated(longer)[:, -1], TOKENS[:5, 0] / EXPECTED.common_temperature_, rtol=1e-6)


def test_shifted_labels_belong_to_the_position_whose_logits_predict_them():
    late = [(x, torch.cat([torch.zeros(len(y), 1, dtype=y.dtype), y[:, :-1]], dim=1)) for x, y in BATCHES]
    calibrated = calibrate(nn.Identity(), late, method="group", groups_by_position=True, shift_labels=True)
    counted = PLACES < LENGTH - 1
    flat, labels = TOKENS.reshape(-1, K)[counted], NEXT.reshape(-1)[counted]
    expected = nishimori.GroupConsistency(by="groups").fit(flat, labels, groups=PLACES[counted])
    assert calibrated.map.groups == (0, 1, 2)
    np.testing.assert_allclose(calibrated.calibrator.temperatures_, expected.temperatures_, rtol=1e-9)


def test_collected_rows_know_their_position():
    found = collect(nn.Identity(), BATCHES, groups_by_position=True)
    np.testing.assert_array_equal(found.groups, PLACES)
    pixels = collect(nn.Identity(), LOADER, class_axis=1, groups_by_position=True)
    np.testing.assert_array_equal(pixels.groups, np.tile(np.arange(H * W), N))


def test_positions_of_pixels_follow_the_order_of_dimensions():
    temperatures = np.linspace(1, 3, H * W)
    by_pixel = GroupTemperatures(tuple(range(H * W)), temperatures, 2.0)
    calibrated = Calibrated(nn.Identity(), by_pixel, class_axis=1, groups_by_position=True)
    np.testing.assert_allclose(calibrated(X), X.numpy() / temperatures.reshape(1, 1, H, W), rtol=1e-6)


def test_a_state_dict_says_that_groups_are_positions():
    calibrated = calibrate(nn.Identity(), BATCHES, method="group", groups_by_position=True)
    file = io.BytesIO()
    torch.save(calibrated.state_dict(), file)
    file.seek(0)
    loaded = Calibrated(nn.Identity())
    loaded.load_state_dict(torch.load(file, weights_only=True))
    x = torch.tensor(TOKENS[:3])
    for each in (loaded, copy.deepcopy(calibrated)):
        assert each.groups_by_position
        assert torch.equal(each(x), calibrated(x))
    assert "groups_by_position" not in Calibrated(nn.Identity(), 2.0).state_dict()


def refused_by(call):
    with pytest.raises(InputError) as error:
        call()
    return str(error.value)


def test_positions_are_refused_where_there_are_none():
    flat = (torch.tensor(TOKENS[:, 0]), torch.tensor(NEXT[:, 0]))
    assert refused_by(lambda: calibrate(nn.Identity(), flat, method="group", groups_by_position=True)) == (
        "`groups_by_position` must be False where logits have one row per sample, as in shape (n, n_classes), got True for "
        "shape (256, 4)."
    )
    assert refused_by(lambda: calibrate(nn.Identity(), BATCHES, method="ts", groups_by_position=True)) == (
        "`method` must have groups where `groups_by_position=True`, got 'ts'. Pass `method='group'`."
    )
    own = lambda model, batch: {"logits": batch[0], "labels": batch[1], "groups": batch[1]}  # noqa: E731
    assert refused_by(
        lambda: calibrate(nn.Identity(), BATCHES, method="group", groups_by_position=True, forward=own)
    ).startswith("`groups_by_position` must be False where `forward` returns groups")


class Cached(nn.Module):
    """A network with an argument that language models have for what came before."""

    def forward(self, x, past_key_values=None):
        return x


def test_a_call_that_goes_on_with_a_sequence_must_say_its_positions():
    calibrated = Calibrated(Cached(), EXPECTED, groups_by_position=True)
    x = torch.tensor(TOKENS[:2, 2:3])
    assert refused_by(lambda: calibrated(x, past_key_values=[1])).startswith(
        "`groups` must be the position of each row, got None with `past_key_values`"
    )
    found = calibrated(x, past_key_values=[1], groups=np.full((2, 1), 2))
    np.testing.assert_allclose(found, TOKENS[:2, 2:3] / EXPECTED.temperatures_[2], rtol=1e-6)
