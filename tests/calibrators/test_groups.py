"""GroupConsistency: what it accepts, what it refuses, what it says, and that it can be saved."""

import json
import pickle

import numpy as np
import pytest
import reference
import reference_groups
from optional import torch
from sklearn.base import clone

import nishimori
from nishimori import GroupConsistency
from nishimori.errors import FormatError, InputError, InputWarning, NoTemperatureError

RNG = np.random.default_rng(7)
LOGITS = 3 * RNG.normal(size=(1200, 4))
TOP = LOGITS.argmax(axis=1)
LABELS = (LOGITS / np.array([1.0, 2.0, 3.0, 5.0])[TOP, None] + RNG.gumbel(size=LOGITS.shape)).argmax(axis=1)
SITES = np.array(["north", "south", "west"])[RNG.integers(3, size=1200)]
BY_SITE = (
    LOGITS / np.array([1.0, 2.0, 4.0])[np.unique(SITES, return_inverse=True)[1], None] + RNG.gumbel(size=LOGITS.shape)
).argmax(axis=1)


def fitted(**options):
    return GroupConsistency(**options).fit(LOGITS, LABELS)


def by_site(**options):
    return GroupConsistency(by="groups").fit(LOGITS, BY_SITE, groups=SITES, **options)


@pytest.mark.parametrize("method", ["ec", "ts"])
def test_predicted_classes_have_the_temperatures_of_the_equations(method):
    found = fitted(method=method)
    common, temperatures, _, _ = reference_groups.fitted(LOGITS, LABELS, TOP, 4, method)
    assert found.common_temperature_ == pytest.approx(common, rel=1e-7)
    np.testing.assert_allclose(found.temperatures_, temperatures, rtol=1e-7)
    assert found.temperature_ is None
    np.testing.assert_array_equal(found.groups_, [0, 1, 2, 3])


def test_probabilities_are_those_at_the_temperature_of_each_row_and_predictions_stay():
    found = fitted()
    expected = reference.softmax(LOGITS, found.temperatures_[TOP][:, None])
    np.testing.assert_allclose(found.predict_proba(LOGITS), expected, rtol=1e-12)
    np.testing.assert_array_equal(found.predict(LOGITS), TOP)
    sites = by_site()
    own = sites.temperatures_[np.searchsorted(sites.groups_, SITES)]
    np.testing.assert_allclose(sites.predict_proba(LOGITS, groups=SITES), reference.softmax(LOGITS, own[:, None]), rtol=1e-12)
    np.testing.assert_array_equal(sites.predict(LOGITS), TOP)


def test_confidence_comes_closer_to_accuracy_in_each_group():
    found, one = by_site(), nishimori.ExpectationConsistency().fit(LOGITS, BY_SITE)
    right = TOP == BY_SITE
    for site in found.groups_:
        rows = site == SITES
        before = one.predict_proba(LOGITS[rows]).max(axis=1).mean() - right[rows].mean()
        after = found.predict_proba(LOGITS[rows], groups=SITES[rows]).max(axis=1).mean() - right[rows].mean()
        assert abs(after) < 0.3 * abs(before)


def test_groups_may_be_numbers_and_are_found_by_them():
    codes = np.unique(SITES, return_inverse=True)[1] * 10
    numbers = GroupConsistency(by="groups").fit(LOGITS, BY_SITE, groups=codes)
    assert numbers.groups_ == (0, 10, 20)
    np.testing.assert_allclose(numbers.temperatures_, by_site().temperatures_, rtol=1e-12)
    np.testing.assert_allclose(numbers.predict_proba(LOGITS, groups=codes), by_site().predict_proba(LOGITS, groups=SITES))


def test_one_group_has_the_common_temperature():
    found = GroupConsistency(by="groups").fit(LOGITS, LABELS, groups=["all"] * 1200)
    one = nishimori.ExpectationConsistency().fit(LOGITS, LABELS)
    assert found.temperatures_.tolist() == [one.temperature_]
    assert found.temperatures_se_.tolist() == pytest.approx([one.temperature_se_])
    assert found.spread_ == 0


def test_groups_that_were_not_seen_get_the_common_temperature_with_a_warning():
    found = by_site()
    with pytest.warns(InputWarning, match=r"^The group 'east' was not seen when the temperatures were fitted: the common T = "):
        p = found.predict_proba(LOGITS[:5], groups=["east"] * 5)
    np.testing.assert_allclose(p, reference.softmax(LOGITS[:5], found.common_temperature_), rtol=1e-12)


def test_groups_with_fewer_than_two_samples_get_the_common_temperature_with_a_warning():
    sites = SITES.astype("U10")
    sites[0] = "alone"
    with pytest.warns(
        InputWarning, match=r"^The group 'alone' has fewer than two samples, or only samples on which a temperature"
    ):
        found = GroupConsistency(by="groups").fit(LOGITS, BY_SITE, groups=sites)
    assert found.open_groups_ == ("alone",)
    place = found.groups_.index("alone")
    assert found.temperatures_[place] == found.common_temperature_
    # Nothing is known about it but how far groups differ.
    assert found.temperatures_se_[place] >= found.temperatures_[place] * found.spread_


def test_classes_that_are_never_predicted_are_named():
    logits = LOGITS.copy()
    logits[:, 3] = logits.min(axis=1) - 1
    labels = np.where(LABELS == 3, 0, LABELS)
    with pytest.warns(
        InputWarning, match=r"^The class 'd' has fewer than two samples that are predicted as such, or only samples"
    ):
        found = GroupConsistency(classes=list("abcd")).fit(logits, np.array(list("abcd"))[labels])
    assert found.open_groups_ == ("d",)
    assert found.groups_.tolist() == list("abcd")
    assert found.temperatures_[3] == found.common_temperature_


def test_groups_on_which_a_temperature_has_no_effect_are_named_once_each():
    flat, sites = LOGITS.copy(), np.where(np.arange(1200) < 7, "flat", SITES)
    flat[:7] = 0.0
    with pytest.warns(
        InputWarning, match=r"^The group 'flat' has fewer than two samples, or only samples on which a temperature has"
    ):
        found = GroupConsistency(by="groups").fit(flat, BY_SITE, groups=sites)
    assert found.open_groups_ == ("flat",)


def test_several_groups_without_data_are_counted():
    sites = SITES.astype("U10")
    sites[:7] = [f"x{i}" for i in range(7)]
    with pytest.warns(
        InputWarning, match=r"^7 groups \('x0', 'x1', 'x2', 'x3', 'x4', 'x5', 'x6'\) have fewer than two samples, or"
    ):
        GroupConsistency(by="groups").fit(LOGITS, BY_SITE, groups=sites)


def test_rows_of_weight_zero_do_not_count():
    weights = (np.arange(1200) % 3 > 0).astype(float)
    some = weights > 0
    expected = GroupConsistency(by="groups").fit(LOGITS[some], BY_SITE[some], groups=SITES[some])
    garbage = LOGITS.copy()
    garbage[~some] = np.nan
    found = GroupConsistency(by="groups").fit(garbage, BY_SITE, weights, groups=SITES)
    np.testing.assert_allclose(found.temperatures_, expected.temperatures_, rtol=1e-9)
    np.testing.assert_allclose(found.temperatures_se_, expected.temperatures_se_, rtol=1e-7)


def test_counts_are_copies_of_rows():
    weights = RNG.integers(1, 4, 1200)
    many = np.repeat(np.arange(1200), weights)
    expected = GroupConsistency().fit(LOGITS[many], LABELS[many])
    found = GroupConsistency().fit(LOGITS, LABELS, weights, counts=True)
    np.testing.assert_allclose(found.temperatures_, expected.temperatures_, rtol=1e-8)
    np.testing.assert_allclose(found.temperatures_se_, expected.temperatures_se_, rtol=1e-6)


def test_clusters_of_copies_say_no_more_than_the_rows_that_were_copied():
    found = GroupConsistency().fit(np.repeat(LOGITS, 3, axis=0), np.repeat(LABELS, 3), clusters=np.repeat(np.arange(1200), 3))
    expected = GroupConsistency().fit(LOGITS, LABELS)
    np.testing.assert_allclose(found.temperatures_, expected.temperatures_, rtol=0.03)
    np.testing.assert_allclose(found.temperatures_se_, expected.temperatures_se_, rtol=0.2)


def test_tensors_probabilities_and_binary_scores():
    tensors = GroupConsistency().fit(torch.tensor(LOGITS), torch.tensor(LABELS))
    np.testing.assert_allclose(tensors.temperatures_, fitted().temperatures_, rtol=1e-9)
    assert isinstance(tensors.predict_proba(torch.tensor(LOGITS)), torch.Tensor)
    p = reference.softmax(LOGITS)
    said = GroupConsistency(input="probabilities", floor=None).fit(p, LABELS)
    np.testing.assert_allclose(said.temperatures_, fitted().temperatures_, rtol=1e-7)
    score = LOGITS[:, 1] - LOGITS[:, 0]
    labels = (RNG.random(1200) < 1 / (1 + np.exp(-score / np.where(score > 0, 1.0, 3.0)))).astype(int)
    binary = GroupConsistency().fit(score, labels)
    table = GroupConsistency().fit(np.stack([np.zeros(1200), score], axis=1), labels)
    np.testing.assert_allclose(binary.temperatures_, table.temperatures_, rtol=1e-9)
    np.testing.assert_allclose(binary.transform(score), score / binary.temperatures_[(score > 0).astype(int)], rtol=1e-9)


def test_masked_classes_work():
    masked = np.where(RNG.random(LOGITS.shape) < 0.2, -np.inf, LOGITS)
    masked[np.arange(1200), LABELS] = LOGITS[np.arange(1200), LABELS]
    found = GroupConsistency(method="ts").fit(masked, LABELS)
    expected = reference_groups.fitted(masked, LABELS, masked.argmax(axis=1), 4, "ts")[1]
    np.testing.assert_allclose(found.temperatures_, expected, rtol=1e-6)


def test_files_and_streams_have_the_temperatures_of_arrays(tmp_path):
    np.save(tmp_path / "z.npy", LOGITS)
    np.save(tmp_path / "g.npy", SITES)
    stored = GroupConsistency(by="groups").fit(tmp_path / "z.npy", BY_SITE, groups=str(tmp_path / "g.npy"))
    np.testing.assert_allclose(stored.temperatures_, by_site().temperatures_, rtol=1e-9)
    source = nishimori.rows(tmp_path / "z.npy", BY_SITE, groups=SITES)
    np.testing.assert_allclose(GroupConsistency(by="groups").fit(source).temperatures_, stored.temperatures_, rtol=1e-12)
    lines = [
        "logit_0,logit_1,logit_2,logit_3,labels,site",
        *(",".join(map(repr, row.tolist())) + f",{y},{s}" for row, y, s in zip(LOGITS, BY_SITE, SITES, strict=True)),
    ]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    table = GroupConsistency(by="groups").fit(tmp_path / "t.csv", "labels", groups="site")
    own = dict(zip(table.groups_, table.temperatures_, strict=True))
    assert own == pytest.approx(dict(zip(by_site().groups_, by_site().temperatures_, strict=True)))
    batches = [(LOGITS[rows], LABELS[rows]) for rows in np.array_split(np.arange(1200), 5)]
    streamed = GroupConsistency().fit(lambda: iter(batches))
    np.testing.assert_allclose(streamed.temperatures_, fitted().temperatures_, rtol=1e-9)


@pytest.mark.parametrize("make", [fitted, by_site], ids=["prediction", "groups"])
def test_a_saved_calibrator_is_the_same_again(make, tmp_path):
    found = make()
    found.save(tmp_path / "c.json")
    again = nishimori.load(tmp_path / "c.json")
    assert type(again) is GroupConsistency
    assert again.get_params() == found.get_params()
    for name in ("temperatures_", "temperatures_se_", "groups_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(found, name))
    for name in ("common_temperature_", "spread_", "used_spread_", "open_groups_", "n_samples_", "residual_"):
        assert getattr(again, name) == getattr(found, name)
    groups = {"groups": SITES} if found.by == "groups" else {}
    np.testing.assert_array_equal(again.predict_proba(LOGITS, **groups), found.predict_proba(LOGITS, **groups))
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (tmp_path / "c.json").read_text()


def test_open_groups_are_saved(tmp_path):
    sites = SITES.astype("U10")
    sites[0] = "alone"
    with pytest.warns(InputWarning):
        found = GroupConsistency(by="groups").fit(LOGITS, BY_SITE, groups=sites)
    found.save(tmp_path / "c.json")
    assert nishimori.load(tmp_path / "c.json").open_groups_ == ("alone",)


def test_a_file_without_estimates_still_predicts(tmp_path):
    found = by_site()
    found.save(tmp_path / "c.json")
    content = json.loads((tmp_path / "c.json").read_text())
    content["provenance"]["estimates"] = None
    (tmp_path / "c.json").write_text(json.dumps(content))
    again = nishimori.load(tmp_path / "c.json")
    assert again.temperatures_se_ is None
    assert again.spread_ is None
    np.testing.assert_array_equal(again.temperatures_, found.temperatures_)


def test_a_file_with_another_map_is_refused(tmp_path):
    fitted().save(tmp_path / "c.json")
    content = json.loads((tmp_path / "c.json").read_text())
    content["map"] = {"kind": "temperature", "parameters": {"temperature": 2.0}}
    (tmp_path / "c.json").write_text(json.dumps(content))
    with pytest.raises(
        FormatError, match=r"^A calibration of the method 'group' with by='prediction' cannot hold a map of the kind"
    ):
        nishimori.load(tmp_path / "c.json")


def test_it_is_a_method_and_can_be_cloned_and_pickled():
    assert "group" in nishimori.methods()
    made = nishimori.calibrator("group", by="groups", method="ts")
    assert (made.by, made.method, made.method_name) == ("groups", "ts", "group")
    assert clone(made).get_params() == made.get_params()
    again = pickle.loads(pickle.dumps(fitted()))
    np.testing.assert_array_equal(again.predict_proba(LOGITS), fitted().predict_proba(LOGITS))


def test_metrics_are_those_of_the_probabilities():
    found = by_site()
    card = nishimori.evaluate(LOGITS, BY_SITE, calibrator=found, groups=SITES)
    p = found.predict_proba(LOGITS, groups=SITES)
    assert card.nll == pytest.approx(-np.log(p[np.arange(1200), BY_SITE]).mean())
    assert card.ece == pytest.approx(reference.ece(p.max(axis=1), TOP == BY_SITE, np.linspace(0, 1, 16)))
    assert card.temperature is None


def _refused():
    """What each wrong call says."""
    one, named = GroupConsistency(), GroupConsistency(by="groups")
    return {
        "`by` must be 'prediction' or 'groups', got 'class'.": lambda: GroupConsistency(by="class").fit(LOGITS, LABELS),
        "`method` must be 'ec' or 'ts', got 'adaptive'.": lambda: GroupConsistency(method="adaptive").fit(LOGITS, LABELS),
        "`method` must be 'ec' or 'ts', got ['ec'].": lambda: GroupConsistency(method=["ec"]).fit(LOGITS, LABELS),
        "`groups` must be left out: this calibrator treats all groups alike. Use GroupConsistency(by='groups') for a "
        "temperature per group.": lambda: one.fit(LOGITS, LABELS, groups=SITES),
        "`groups` must name the group of each sample with by='groups', got none. Use by='prediction' for the predicted "
        "classes.": lambda: named.fit(LOGITS, LABELS),
        "`groups` must have shape (1200,), one group per sample, got (3,).": lambda: named.fit(
            LOGITS, LABELS, groups=SITES[:3]
        ),
        "`groups` must be left out where `X` yields batches. Yield dictionaries with the keys logits, labels, clusters and "
        "groups instead.": lambda: named.fit(lambda: iter([(LOGITS, LABELS)]), groups=SITES),
        "A Sketch has no sums per group. Pass logits and labels instead.": lambda: one.fit(
            nishimori.Sketch().update(LOGITS, LABELS)
        ),
        "`counts` must be False where `clusters` is given: copies of a sample belong to its cluster.": lambda: one.fit(
            LOGITS, LABELS, clusters=SITES, counts=True
        ),
        "`groups` must name the group of each sample: the calibrator has a temperature for each group.": lambda: (
            by_site().predict_proba(LOGITS)
        ),
        "`groups` must be left out: this calibrator treats all groups alike.": lambda: fitted().predict_proba(LOGITS, SITES),
    }


MESSAGES = _refused()


@pytest.mark.parametrize("message", MESSAGES)
@pytest.mark.filterwarnings("ignore:Standard errors from 3 clusters")
def test_what_cannot_be_meant_is_refused(message):
    with pytest.raises(InputError) as caught:
        MESSAGES[message]()
    assert str(caught.value) == message


def test_a_model_that_is_always_right_has_no_temperature():
    with pytest.raises(NoTemperatureError):
        GroupConsistency().fit(LOGITS, TOP)
