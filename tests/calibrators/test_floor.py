"""``floor="auto"``: one rule for everything that fits, chosen on samples that were held out."""

import json
import warnings

import numpy as np
import pytest
import reference
import reference_floor
import shell
from optional import da
from reference_floor import best_floor, votes
from sklearn.base import clone
from sklearn.datasets import load_digits, make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import log_loss
from sklearn.neighbors import KNeighborsClassifier

import nishimori
from nishimori import CalibratedClassifier
from nishimori._fit import floors as floors_module
from nishimori._fit.collected_samples import collect_samples
from nishimori._methods.table import BUILT_IN
from nishimori.errors import InputError
from nishimori.multilabel import MultilabelCalibrator

P, Y = votes(400, 4, 7, seed=0)
AUTO = {"input": "probabilities", "floor": "auto"}
FLOOR = best_floor(P, Y)


def chosen(*rows, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nishimori.errors.InputWarning)  # few errors, in small data
        return nishimori.temperatures(*rows, **AUTO, **options).floor


@pytest.mark.parametrize(("k", "n_votes"), [(2, 5), (3, 10), (6, 3), (20, 5)])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_floor_is_that_of_a_loop_over_floors_and_folds(k, n_votes, seed):
    p, labels = votes(250, k, n_votes, seed)
    weights = np.random.default_rng(seed).gamma(2, size=len(p))
    clusters = np.random.default_rng(seed).integers(0, 40, len(p))
    assert (p[np.arange(len(p)), labels] == 0).any()
    assert chosen(p, labels) == best_floor(p, labels)
    assert chosen(p, labels, sample_weight=weights, clusters=clusters) == best_floor(p, labels, weights, clusters)


def test_the_held_out_losses_are_those_of_the_loop():
    floors = reference_floor.tried(4)
    samples = collect_samples(nishimori.rows(P, Y, input="probabilities"))
    found = floors_module.out_of_fold_losses(samples, floors)
    np.testing.assert_allclose(found, list(reference_floor.losses(P, Y).values()), rtol=1e-8)


def test_twenty_neighbours_get_the_floor_that_the_loss_asks_for():
    X, y = make_classification(1200, 20, n_informative=12, n_classes=20, n_clusters_per_class=1, flip_y=0.05, random_state=0)
    model = KNeighborsClassifier(5)
    losses = {}
    for floor in ("auto", 1e-3, 0.01):
        fitted = CalibratedClassifier(model, "ec", cv=3, floor=floor).fit(X[:800], y[:800])
        losses[floor] = log_loss(y[800:], fitted.predict_proba(X[800:]))
        assert fitted.calibrator_.floor_ == (0.03 if floor == "auto" else floor)
    assert losses["auto"] < losses[0.01] - 0.05 < losses[1e-3] - 0.1


def test_the_largest_floor_that_is_tried_is_never_taken():
    p, labels = votes(300, 6, 2, seed=0, scale=1.0)
    losses = reference_floor.losses(p, labels)
    assert min(losses, key=losses.get) == max(losses) == 0.9 / 6
    assert chosen(p, labels) == 0.1


def test_where_no_probability_is_small_the_floor_lies_below_all_of_them():
    rng = np.random.default_rng(0)
    p = 0.25 + 0.5 * rng.random(2000)
    p, labels = np.stack([1 - p, p], axis=1), (rng.random(2000) < p).astype(int)
    assert chosen(p, labels) == 0.2 < p.min()
    fixed, auto = (nishimori.TemperatureScaling(input="probabilities", floor=each).fit(p, labels) for each in (None, "auto"))
    assert fixed.temperature_ == auto.temperature_


METHODS = [name for name in BUILT_IN if nishimori.methods()[name].traits.n_classes == "any"]


@pytest.mark.parametrize("method", BUILT_IN)
def test_every_method_takes_the_same_floor_and_fits_as_with_that_number(method):
    p, labels = (P, Y) if method in METHODS else votes(400, 2, 7, seed=0)
    floor = FLOOR if method in METHODS else best_floor(p, labels)
    auto = nishimori.calibrator(method, **AUTO)
    number = nishimori.calibrator(method, input="probabilities", floor=floor)
    for each in (auto, number):
        each.fit(p, labels)
    assert (auto.floor_, number.floor_, auto.floor) == (floor, floor, "auto")
    np.testing.assert_array_equal(auto.predict_proba(p), number.predict_proba(p))


def test_temperatures_compare_and_the_report_take_it_too():
    found = nishimori.temperatures(P, Y, **AUTO)
    assert found == nishimori.temperatures(P, Y, input="probabilities", floor=FLOOR)
    test, truth = votes(300, 4, 7, seed=9)
    auto = nishimori.compare(P, Y, test, truth, methods=("none", "ec"), **AUTO)
    number = nishimori.compare(P, Y, test, truth, methods=("none", "ec"), input="probabilities", floor=FLOOR)
    assert auto.floor == number.floor == auto.to_dict()["floor"] == FLOOR
    assert auto["ec"].scorecard.nll == number["ec"].scorecard.nll
    told = f"Probabilities below {FLOOR:g} are raised to it before they are calibrated"
    assert auto.verdicts[-1].startswith(told)
    assert not any(told in each for each in number.verdicts)
    report = nishimori.Report(P, Y, test, truth, **AUTO).to_dict()
    assert report["verdict"]["sentences"][-1] == auto.verdicts[-1]
    said = nishimori.Report(P, Y, test, truth, input="probabilities", floor=FLOOR).to_dict()
    (mine,), (theirs,) = ([row for row in each["methods"] if row["method"] == "ec"] for each in (report, said))
    assert {name: mine[name] for name in ("temperature", "ece", "nll")} == {
        name: theirs[name] for name in ("temperature", "ece", "nll")
    }


def test_labels_that_do_not_exclude_each_other_have_one_floor_and_whole_samples_in_each_fold():
    p = np.stack([votes(200, 2, 6, seed)[0][:, 1] for seed in range(3)], axis=1)
    labels = np.stack([votes(200, 2, 6, seed)[1] for seed in range(3)], axis=1)
    labels[::7, 1] = -1  # not known
    known = (labels != -1).reshape(-1)
    rows = np.stack([1 - p.reshape(-1), p.reshape(-1)], axis=1)[known]
    expected = best_floor(rows, labels.reshape(-1)[known], clusters=np.repeat(np.arange(200), 3)[known])
    auto = MultilabelCalibrator("ts", missing=-1, **AUTO).fit(p, labels)
    number = MultilabelCalibrator("ts", missing=-1, input="probabilities", floor=expected).fit(p, labels)
    assert auto.floor_ == expected
    np.testing.assert_array_equal(auto.predict_proba(p), number.predict_proba(p))


def test_labels_that_do_not_exclude_each_other_keep_their_floor_in_a_file(tmp_path):
    p = np.stack([votes(200, 2, 6, seed)[0][:, 1] for seed in range(3)], axis=1)
    labels = np.stack([votes(200, 2, 6, seed)[1] for seed in range(3)], axis=1)
    fitted = MultilabelCalibrator("ts", **AUTO).fit(p, labels)
    fitted.save(tmp_path / "m.json")
    loaded = nishimori.load(tmp_path / "m.json")
    assert (loaded.floor_, loaded.floor) == (fitted.floor_, fitted.floor_)
    np.testing.assert_array_equal(loaded.predict_proba(p), fitted.predict_proba(p))


def test_the_chosen_floor_is_saved_and_used_wherever_the_calibrator_is(tmp_path):
    fitted = nishimori.ExpectationConsistency(**AUTO).fit(P, Y)
    fitted.save(tmp_path / "c.json")
    loaded = nishimori.load(tmp_path / "c.json")
    assert json.loads((tmp_path / "c.json").read_text())["floor"] == loaded.floor_ == loaded.floor == FLOOR
    np.testing.assert_array_equal(loaded.predict_proba(P), fitted.predict_proba(P))
    z = np.log(np.maximum(P, FLOOR))
    expected = nishimori.evaluate(z, Y, temperature=fitted.temperature_).nll
    for each in (fitted, loaded):
        assert nishimori.evaluate(P, Y, calibrator=each).nll == pytest.approx(expected, rel=1e-9)
        assert nishimori.evaluate(P, Y, calibrator=each, floor=FLOOR).nll == pytest.approx(expected, rel=1e-9)


def test_a_clone_chooses_again_and_changed_parameters_do_not_change_a_fitted_calibrator():
    fitted = nishimori.TemperatureScaling(**AUTO).fit(P, Y)
    before = fitted.predict_proba(P)
    fitted.set_params(floor=0.1)
    np.testing.assert_array_equal(fitted.predict_proba(P), before)
    other = votes(300, 4, 200, seed=3)
    assert clone(fitted.set_params(floor="auto")).fit(*other).floor_ == best_floor(*other) != FLOOR


def test_rows_in_files_and_in_batches_have_the_floor_of_the_array(tmp_path, monkeypatch):
    np.save(tmp_path / "p.npy", P)
    batches = [(P[i : i + 70], Y[i : i + 70]) for i in range(0, 400, 70)]
    for least in (2**10, 150):  # of more rows than that some are taken, the same ones in all forms
        monkeypatch.setattr(floors_module, "_LEAST_ROWS", least)
        monkeypatch.setattr(floors_module, "_NUMBERS", 4 * least)
        whole = floors_module.choose_floor(nishimori.rows(lambda: [(P, Y)], input="probabilities"))
        assert chosen(P, Y) == chosen(tmp_path / "p.npy", Y) == chosen(lambda: iter(batches)) == whole
        assert nishimori.TemperatureScaling(**AUTO).fit(nishimori.rows(batches, input="probabilities")).floor_ == whole


def test_clusters_have_the_same_folds_whatever_they_are_called():
    codes = np.random.default_rng(0).integers(0, 30, 400)
    names = np.array([f"doc {each * 7 % 31}" for each in codes])
    assert chosen(P, Y, clusters=codes) == chosen(P, Y, clusters=names) == best_floor(P, Y, clusters=codes)


SCORED = (
    "`floor` must be a number or None where nothing is fitted, got 'auto': it would be tuned on the labels that it scores. Fit "
    "a calibrator with `floor='auto'` to other data and pass it as `calibrator`: its floor is then used. Or pass a number."
)
SKETCH = nishimori.Sketch(input="probabilities", floor=None).update(P, Y)
READ_AGAIN = (
    "`floor` must be a number or None where `{}` is a {}, got 'auto', which needs the probability of each sample, several "
    "times. Choose it on a part of the data that fits in memory: `nishimori.temperatures(probabilities, labels, "
    "input='probabilities').floor`."
)
FITTED = nishimori.ExpectationConsistency(input="probabilities", floor=0.01).fit(P, Y)
REFUSED = {
    "evaluate": (lambda: nishimori.evaluate(P, Y, **AUTO), SCORED),
    "evaluate a calibrator": (lambda: nishimori.evaluate(P, Y, calibrator=FITTED, floor="auto"), SCORED),
    "gate": (lambda: nishimori.gate(P, Y, bounds={"ece": 0.1}, **AUTO), SCORED),
    "nll": (lambda: nishimori.metrics.nll(P, Y, **AUTO), SCORED),
    "multilabel scores": (lambda: nishimori.multilabel.evaluate_multilabel(P, P > 0.5, **AUTO), SCORED),
    "from_temperature": (lambda: nishimori.from_temperature(2.0, **AUTO), SCORED),
    "a new sketch": (
        lambda: nishimori.Sketch(**AUTO),
        "`floor` must be a number or None for a sketch of probabilities, got 'auto': sums are made once, for one floor. Choose "
        "it on some of the rows: `nishimori.temperatures(probabilities, labels, input='probabilities').floor`.",
    ),
    "Dask": (
        lambda: nishimori.temperatures(da.from_array(P, chunks=(100, 4)), da.from_array(Y, chunks=100), **AUTO),
        READ_AGAIN.format("logits", "DaskRows"),
    ),
    "an iterator": (
        lambda: nishimori.temperatures(iter([(P, Y)]), **AUTO),
        "`logits` must be readable more than once, got a list_iterator, which is used up after one pass. Pass a function "
        "that makes a new one, such as `lambda: batches()`.",
    ),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_where_no_floor_can_be_chosen_the_error_says_why(call, message):
    with pytest.raises(InputError) as refused:
        call()
    assert str(refused.value) == message


LOG = np.log(P + 0.1)
LISTED = nishimori.TopK(np.tile([0, 1], (400, 1)), np.tile(np.log([0.4, 0.3]), (400, 1)), 4)
WITHOUT = {
    "logits": lambda floor: nishimori.temperatures(LOG, Y, floor=floor).ts,
    "logits to fit": lambda floor: nishimori.TemperatureScaling(floor=floor).fit(LOG, Y).temperature_,
    "a source of logits": lambda floor: nishimori.TemperatureScaling(floor=floor).fit(nishimori.rows([(LOG, Y)])).temperature_,
    "top-k": lambda floor: nishimori.temperatures(LISTED, Y % 2, floor=floor).accuracy,
    "a sketch": lambda floor: nishimori.ExpectationConsistency(floor=floor).fit(SKETCH).temperature_,
    "multilabel": lambda floor: MultilabelCalibrator(floor=floor).fit(LOG, P > 0.5).temperature_,
}


@pytest.mark.filterwarnings("ignore::nishimori.errors.InputWarning")  # of zeros, which the sketch has
@pytest.mark.parametrize("fit", WITHOUT.values(), ids=WITHOUT)
def test_the_default_has_no_effect_where_there_is_no_floor_to_choose(fit):
    assert fit("auto") == fit(None)


def test_rows_with_a_floor_keep_it():
    found = nishimori.TemperatureScaling().fit(nishimori.rows([(P, Y)], input="probabilities", floor=0.01))
    expected = nishimori.TemperatureScaling(input="probabilities", floor=0.01).fit(P, Y)
    assert (found.input_, found.floor_) == ("probabilities", 0.01)
    assert found.temperature_ == pytest.approx(expected.temperature_, rel=1e-8)


def test_everything_that_fits_probabilities_chooses_the_floor_by_default(tmp_path):
    fitted = nishimori.TemperatureScaling(input="probabilities").fit(P, Y)
    assert fitted.floor_ == nishimori.temperatures(P, Y, input="probabilities").floor == best_floor(P, Y)
    assert nishimori.compare(P, Y, input="probabilities").floor == best_floor(P, Y)
    fitted.save(tmp_path / "c.json")
    assert json.loads((tmp_path / "c.json").read_text())["floor"] == best_floor(P, Y)
    assert nishimori.load(tmp_path / "c.json").floor_ == best_floor(P, Y)
    assert nishimori.TemperatureScaling(input="probabilities", floor=0.01).fit(P, Y).floor_ == 0.01


def test_a_forest_with_zeros_at_true_classes_is_calibrated_by_default(tmp_path):
    X, y = load_digits(return_X_y=True)
    train, val, test = np.split(np.arange(len(y)), [719, 1258])
    forest = RandomForestClassifier(20, random_state=0).fit(X[train], y[train])
    p, q = forest.predict_proba(X[val]), forest.predict_proba(X[test])
    assert (p[np.arange(len(val)), y[val]] == 0).any()
    np.savez(tmp_path / "v.npz", probabilities=p, labels=y[val])
    ended = shell.nishimori("fit v.npz -o c.json --method ts --input probabilities", place=tmp_path)
    assert ended.code == 0, ended.err
    found = nishimori.load(tmp_path / "c.json")
    expected = reference.ts_temperature(np.log(np.maximum(p, best_floor(p, y[val]))), y[val])
    assert found.temperature_ == pytest.approx(expected, rel=1e-6)
    after = reference.softmax(np.log(np.maximum(q, found.floor_)), found.temperature_)
    right = after.argmax(axis=1) == y[test]
    assert reference.ece(after.max(axis=1), right, np.linspace(0, 1, 16)) < 0.05


@pytest.fixture
def place(tmp_path):
    np.savez(tmp_path / "v.npz", probabilities=P, labels=Y)
    np.savetxt(tmp_path / "v.csv", np.c_[P, Y], delimiter=",", header="0,1,2,3,label", comments="", fmt="%.17g")
    return tmp_path


@pytest.mark.parametrize("file", ["v.npz", "v.csv --labels label"])
def test_the_shell_chooses_the_floor_too(place, file):
    ended = shell.nishimori(f"fit {file} -o c.json --method ts --input probabilities --floor auto --json", place=place)
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["floor"] == nishimori.load(place / "c.json").floor_ == FLOOR
    told = shell.nishimori(f"fit {file} -o d.json --method ts --input probabilities --floor auto", place=place)
    assert told.out.splitlines()[1] == f"Floor: {FLOOR:g}, chosen by the log-loss on held-out samples"
    measured = json.loads(shell.nishimori(f"eval {file} --calibration c.json --json", place=place).out)
    assert measured["floor"] == FLOOR


def test_compare_in_the_shell_takes_auto_for_both_files(place):
    test, truth = votes(300, 4, 7, seed=9)
    np.savez(place / "t.npz", probabilities=test, labels=truth)
    line = "compare v.npz t.npz --methods none,ec --input probabilities --floor"
    auto, number = (json.loads(shell.nishimori(f"{line} {each} --json", place=place).out) for each in ("auto", FLOOR))
    assert auto["floor"] == FLOOR
    mine, theirs = ({row["method"]: row for row in each["methods"]} for each in (auto, number))
    assert (mine["ec"]["ece"], mine["ec"]["nll"]) == (theirs["ec"]["ece"], theirs["ec"]["nll"])
    assert mine["none"]["confidence"] == pytest.approx(test.max(axis=1).mean(), abs=1e-12)  # which has no floor


@pytest.mark.parametrize("line", ["eval v.npz", "gate v.npz --bound ece=0.1", "eval v.npz --calibration c.json"])
def test_the_shell_refuses_to_choose_a_floor_where_nothing_is_fitted(place, line):
    FITTED.save(place / "c.json")
    ended = shell.nishimori(f"{line} --input probabilities --floor auto", place=place)
    assert ended.code == 1
    assert ended.err == (
        "error: --floor must be a number where nothing is fitted, got auto: it would be tuned on the labels that it scores. "
        "Pass auto to nishimori fit, and the file that it writes with --calibration, or pass a number.\n"
    )


def test_the_shell_refuses_a_floor_that_is_neither_a_number_nor_auto(place):
    ended = shell.nishimori("fit v.npz -o c.json --input probabilities --floor much", place=place)
    assert ended.code == 2
    assert "'much' is not a number" in ended.err
