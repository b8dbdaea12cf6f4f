"""One more temperature, or a number per class, after a map: of the same kind where possible, and a map of its own otherwise."""

import json

import numpy as np
import pytest
import reference
from optional import nishimori_torch, torch

import nishimori
from nishimori._methods.record import Provenance, Record, content_of
from nishimori.errors import FormatError, InputError
from nishimori.maps import (
    Affine,
    ClassCurves,
    ClassTemperatures,
    GroupTemperatures,
    LogAffine,
    LogOdds,
    Map,
    Mixture,
    Shifted,
    Temperature,
    Tempered,
)
from nishimori.maps.around import innermost, shift, temper
from nishimori.maps.kinds import claims_to_check, described, from_parameters

K = 3
LOGITS, LABELS = reference.drawn(200, K, seed=1)
MATRIX = np.eye(K) + 0.1 * np.arange(9.0).reshape(3, 3)
CURVES = ClassCurves(3 * ([0.0, 0.5, 1.0],), ([0.1, 0.3, 0.9], [0.0, 0.4, 1.0], [0.2, 0.5, 0.7]), "linear")
SAME_KIND = {
    "temperature": Temperature(1.5),
    "class": ClassTemperatures([0.5, 1.0, 2.0]),
    "group": GroupTemperatures(("a", "b"), [0.5, 2.0], 1.2),
    "affine": Affine(MATRIX, [0.1, -0.3, 0.2]),
    "fallback": Affine(MATRIX, [0.1, -3.3, 0.2], 1.7),
    "log": LogAffine(MATRIX, [0.1, -0.3, 0.2]),
}
OTHERS = {"mixture": Mixture(2.0, [0.5, 0.3, 0.2]), "curves": CURVES}
BIAS = np.array([0.3, -1.0, 0.2])
GROUPS = np.array(["a", "b", "c", "d"])[np.arange(200) % 4]


def groups_for(map_):
    return GROUPS if map_.needs_groups else None


@pytest.mark.parametrize("map_", [*SAME_KIND.values(), *OTHERS.values()], ids=[*SAME_KIND, *OTHERS])
def test_logits_are_those_of_the_map_divided_by_the_temperature(map_):
    made = temper(map_, 1.3)
    expected = map_.apply(LOGITS, groups_for(map_)) / 1.3
    np.testing.assert_allclose(made.apply(LOGITS, groups_for(map_)), expected, rtol=1e-12, atol=1e-14)
    log_p = np.log(reference.softmax(expected, 1.0))
    np.testing.assert_allclose(made.log_probabilities(LOGITS, groups_for(map_)), log_p, rtol=1e-10, atol=1e-12)
    assert (made.keeps_predictions, made.needs_groups, made.n_classes) == (
        map_.keeps_predictions,
        map_.needs_groups,
        map_.n_classes,
    )


@pytest.mark.parametrize("map_", SAME_KIND.values(), ids=SAME_KIND)
def test_maps_that_can_stay_of_their_kind(map_):
    assert type(temper(map_, 1.3)) is type(map_)


def test_a_function_of_log_odds_stays_one():
    map_ = LogOdds(0.8, 1.1, -0.2, 0.05)
    made = temper(map_, 0.7)
    assert type(made) is LogOdds
    np.testing.assert_allclose(made.apply(LOGITS[:, :2]), map_.apply(LOGITS[:, :2]) / 0.7, rtol=1e-12)


def test_a_temperature_of_one_leaves_a_map_as_it_is_and_temperatures_multiply():
    map_ = OTHERS["mixture"]
    assert temper(map_, 1.0) is map_
    again = temper(temper(map_, 1.3), 2.0)
    assert again.inner is map_  # and not a map inside a map inside a map
    assert again.temperature == pytest.approx(2.6)
    assert temper(temper(map_, 2.0), 0.5) is map_


def test_probabilities_keep_their_digits_where_logits_are_large():
    far = LOGITS + 1e9
    exact = Tempered(OTHERS["mixture"], 1.3).log_probabilities(far)
    expected = Tempered(OTHERS["mixture"], 1.3).log_probabilities(far - 1e9)
    np.testing.assert_allclose(exact, expected, atol=1e-12)
    single = Tempered(OTHERS["mixture"], 1.3).probabilities(LOGITS.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, Tempered(OTHERS["mixture"], 1.3).probabilities(LOGITS), rtol=1e-5)


def test_masked_classes_stay_masked():
    masked = LOGITS.copy()
    masked[:, 0] = -np.inf
    assert (Tempered(OTHERS["mixture"], 0.5).probabilities(masked)[:, 0] == 0).all()


@pytest.mark.parametrize("name", OTHERS)
def test_a_file_describes_the_map_inside(name, tmp_path):
    made = Tempered(OTHERS[name], 1.3)
    record = Record(made, "logits", Provenance("mine", n_classes=K))
    record.write(tmp_path / "c.json", overwrite=False)
    content = json.loads((tmp_path / "c.json").read_text())
    assert content["format_version"] == 5
    assert content["map"]["kind"] == "tempered"
    assert content["map"]["parameters"]["inner"]["kind"] == OTHERS[name].kind
    again = nishimori.load(tmp_path / "c.json").map_
    np.testing.assert_array_equal(again.apply(LOGITS), made.apply(LOGITS))


class Raised(Map):
    """Somebody's own: one class is raised."""

    def __init__(self, by=0.5):
        self.by = by

    keeps_predictions = True  # which is wrong

    def apply(self, logits, groups=None):
        return logits + self.by * np.eye(logits.shape[1])[0]

    @property
    def parameters(self):
        return {"by": self.by}


def test_a_map_of_somebody_is_saved_inside_and_must_be_registered(tmp_path):
    with pytest.raises(InputError, match="its class is not registered"):
        described(Tempered(Raised(), 2.0))
    nishimori.register("raised", Raised)
    made = Tempered(Raised(0.0), 2.0)
    Record(made, "logits", Provenance("mine", n_classes=K)).write(tmp_path / "c.json", overwrite=False)
    content = content_of(tmp_path / "c.json")
    assert content["map"]["parameters"]["inner"]["class"].endswith(":Raised")
    np.testing.assert_array_equal(nishimori.load(tmp_path / "c.json").map_.apply(LOGITS), LOGITS / 2)
    content["map"]["parameters"]["inner"]["kind"] = "unheard"
    (tmp_path / "other.json").write_text(json.dumps(content))
    with pytest.raises(FormatError, match=r"the kind 'unheard' \(it is the class .*:Raised\), which is not registered"):
        nishimori.load(tmp_path / "other.json")


def test_what_a_map_of_somebody_claims_is_checked_inside_too():
    assert claims_to_check(Tempered(Raised(), 2.0))
    with pytest.raises(InputError, match="claims `keeps_predictions = True`, but it changes"):
        nishimori.calibrators.FixedMap(Tempered(Raised(5.0), 2.0)).fit(LOGITS, LABELS)


@pytest.mark.parametrize(
    "parameters",
    [
        {"inner": {"kind": "temperature"}, "temperature": 1.0},
        {"inner": 3, "temperature": 1.0},
        {"inner": {"kind": "temperature", "parameters": {"temperature": 2.0}}, "temperature": -1.0},
        {"inner": {"kind": "temperature", "parameters": {"temperature": 2.0}}, "temperature": "2"},
        {"inner": {"kind": "temperature", "parameters": {"temperature": 0.0}}, "temperature": 2.0},
        {"inner": {"kind": "tempered", "parameters": {}}, "temperature": 2.0},
        {"temperature": 2.0},
    ],
)
def test_damaged_descriptions_are_refused(parameters):
    with pytest.raises(InputError):
        from_parameters("tempered", parameters)


def test_what_is_not_a_map_is_refused():
    with pytest.raises(InputError, match="`inner` must be a Map, got 3"):
        Tempered(3, 1.0)


def test_a_network_computes_the_same_and_its_state_can_be_loaded():
    made = Tempered(OTHERS["mixture"], 1.3)
    calibrated = nishimori_torch.Calibrated(torch.nn.Identity(), made)
    z = torch.tensor(LOGITS, dtype=torch.float32)
    np.testing.assert_allclose(calibrated(z), made.apply(LOGITS), atol=1e-5)
    other = nishimori_torch.Calibrated(torch.nn.Identity(), Tempered(Mixture(1.1, [0.2, 0.2, 0.6]), 3.0))
    other.load_state_dict(calibrated.state_dict())
    np.testing.assert_allclose(other(z), calibrated(z))
    with pytest.raises(InputError, match="which PyTorch modules cannot apply"):
        nishimori_torch.Calibrated(torch.nn.Identity(), Tempered(CURVES, 1.3))


def log_softmax(logits):
    return np.log(reference.softmax(logits))


@pytest.mark.parametrize("map_", [*SAME_KIND.values(), *OTHERS.values()], ids=[*SAME_KIND, *OTHERS])
def test_a_number_per_class_is_added_to_the_logits(map_):
    made = shift(map_, BIAS)
    expected = log_softmax(map_.apply(LOGITS, groups_for(map_)) + BIAS)
    np.testing.assert_allclose(log_softmax(made.apply(LOGITS, groups_for(map_))), expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(made.log_probabilities(LOGITS, groups_for(map_)), expected, rtol=1e-10, atol=1e-12)
    assert (made.keeps_predictions, made.needs_groups, made.n_classes) == (False, map_.needs_groups, K)
    again = shift(shift(map_, 2 * BIAS), -BIAS)
    assert innermost(again).kind == innermost(made).kind
    np.testing.assert_allclose(again.log_probabilities(LOGITS, groups_for(map_)), expected, rtol=1e-10, atol=1e-12)
    tempered = temper(made, 0.7).log_probabilities(LOGITS, groups_for(map_))
    np.testing.assert_allclose(tempered, log_softmax(expected / 0.7), rtol=1e-10, atol=1e-12)
    before = shift(temper(map_, 0.7), BIAS).log_probabilities(LOGITS, groups_for(map_))
    np.testing.assert_allclose(before, log_softmax(map_.apply(LOGITS, groups_for(map_)) / 0.7 + BIAS), rtol=1e-10, atol=1e-12)


def test_numbers_are_added_by_an_affine_map_where_one_does_the_same():
    kinds = {name: type(shift(map_, BIAS)) for name, map_ in (SAME_KIND | OTHERS).items()}
    assert kinds == {
        "temperature": Affine,
        "affine": Affine,
        "log": LogAffine,
        "class": Shifted,
        "group": Shifted,
        "fallback": Shifted,
        "mixture": Shifted,
        "curves": Shifted,
    }


def test_a_function_of_log_odds_has_the_difference_added():
    map_ = LogOdds(0.8, 1.1, -0.2, 0.05)
    made = shift(map_, np.array([-0.5, 0.4]))
    assert made == LogOdds(0.8, 1.1, map_.c + 0.9, 0.05)
    expected = log_softmax(map_.apply(LOGITS[:, :2]) + np.array([-0.5, 0.4]))
    np.testing.assert_allclose(made.log_probabilities(LOGITS[:, :2]), expected, rtol=1e-10, atol=1e-12)


def test_shifted_probabilities_keep_their_digits_and_masks():
    made = Shifted(OTHERS["mixture"], BIAS)
    np.testing.assert_allclose(made.log_probabilities(LOGITS + 1e9), made.log_probabilities((LOGITS + 1e9) - 1e9), atol=1e-12)
    masked = LOGITS.copy()
    masked[:, 0] = -np.inf
    assert (made.probabilities(masked)[:, 0] == 0).all()
    single = made.probabilities(LOGITS.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, made.probabilities(LOGITS), rtol=1e-5)


@pytest.mark.parametrize("inner", [OTHERS["mixture"], SAME_KIND["fallback"], Tempered(CURVES, 1.3)])
def test_a_file_describes_the_map_to_which_numbers_are_added(inner, tmp_path):
    made = Shifted(inner, BIAS)
    Record(made, "logits", Provenance("mine", n_classes=K)).write(tmp_path / "c.json", overwrite=False)
    content = json.loads((tmp_path / "c.json").read_text())
    assert content["format_version"] == 6
    assert content["map"]["parameters"]["bias"] == BIAS.tolist()
    again = nishimori.load(tmp_path / "c.json").map_
    np.testing.assert_array_equal(again.apply(LOGITS), made.apply(LOGITS))


INSIDE = {"kind": "mixture", "parameters": {"temperature": 2.0, "weights": [0.5, 0.3, 0.2]}}


@pytest.mark.parametrize(
    "parameters",
    [
        {"inner": INSIDE},
        {"inner": INSIDE, "bias": [1.0]},
        {"inner": INSIDE, "bias": 1.0},
        {"inner": INSIDE, "bias": [1.0, float("nan")]},
        {"inner": INSIDE, "bias": "ab"},
        {
            "inner": {"kind": "affine", "parameters": {"scale": 1.0, "bias": [0.0, 1.0, 2.0], "fallback": 1.0}},
            "bias": [0.0, 1.0],
        },
        {"inner": {"kind": "shifted", "parameters": {"inner": INSIDE, "bias": [0.0, 1.0]}}, "bias": [0.0, 1.0]},
        {"inner": {"kind": "tempered", "parameters": {"inner": {"kind": "shifted", "parameters": {}}}}, "bias": [0.0, 1.0]},
    ],
)
def test_damaged_descriptions_of_added_numbers_are_refused(parameters):
    with pytest.raises(InputError):
        from_parameters("shifted", parameters)


def test_maps_around_others_are_not_nested_in_a_way_that_no_file_has():
    with pytest.raises(InputError, match="`inner` must be a map that is not shifted"):
        Tempered(Shifted(CURVES, BIAS), 2.0)
    with pytest.raises(InputError, match="`inner` must be a map that is not tempered"):
        Tempered(Tempered(CURVES, 2.0), 2.0)
    with pytest.raises(InputError, match="`inner` must be a map that is not shifted"):
        Shifted(Shifted(CURVES, BIAS), BIAS)


def test_logits_of_other_classes_are_refused():
    with pytest.raises(InputError, match="`logits` must have 3 classes"):
        Shifted(OTHERS["mixture"], BIAS).apply(LOGITS[:, :2])


@pytest.mark.parametrize("inner", [OTHERS["mixture"], SAME_KIND["fallback"], SAME_KIND["class"]])
def test_a_network_adds_the_same_numbers(inner):
    made = Shifted(inner, BIAS)
    calibrated = nishimori_torch.Calibrated(torch.nn.Identity(), made)
    found = torch.softmax(calibrated(torch.tensor(LOGITS)), dim=1)
    np.testing.assert_allclose(found, reference.softmax(inner.apply(LOGITS) + BIAS), atol=1e-5)
