"""Methods that are finished by EC: the temperature by a plain computation, its error, names, files, folds and bad input."""

import json
import pickle

import numpy as np
import pytest
import reference
from optional import da, pd, torch
from scipy.optimize import brentq
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

import nishimori
from nishimori import CalibratedClassifier, GroupConsistency, VectorScaling
from nishimori._calibrators.folds import deal_folds
from nishimori._fit import collected_samples
from nishimori._methods import table
from nishimori.calibrators import Consistent, MatrixScaling
from nishimori.errors import InputError, InputWarning
from nishimori.maps import Affine, Tempered

N, K = 600, 4


def drawn(n=N, seed=0):
    """Scores of which one half is four times as strong as it should be, compared with the other."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(n, K))
    strengths = np.where(rng.random((n, 1)) < 0.5, 1.6, 0.4)
    labels = (strengths * (logits * np.linspace(1.3, 0.7, K) + np.linspace(0.5, -0.5, K)) + rng.gumbel(size=(n, K))).argmax(
        axis=1
    )
    return logits, labels


LOGITS, LABELS = drawn()


def plain_temperature(logits, labels, weights=None):
    """The T at which mean confidence equals accuracy, by SciPy."""
    right = np.average(logits.argmax(axis=1) == labels, weights=weights)

    def gap(x):
        return np.average(reference.softmax(logits, np.exp(x)).max(axis=1), weights=weights) - right

    return np.exp(brentq(gap, -3, 3, xtol=1e-13))


def fold_numbers(labels, n_folds, clusters=None):
    """The fold in which each sample is held out."""
    numbers = np.empty(len(labels), dtype=int)
    for number, fold in enumerate(deal_folds(labels, n_folds, clusters)):
        numbers[fold.test] = number
    return numbers


def held_out(make, logits, labels, folds, weights=None, **said):
    """The calibrated logits of each fold, of a calibrator that is fitted to the others."""
    found = np.empty(logits.shape)
    for fold in np.unique(folds):
        held = folds == fold
        given = {} if weights is None else {"sample_weight": weights[~held]}
        given |= {name: values[~held] for name, values in said.items()}
        found[held] = make().fit(logits[~held], labels[~held], **given).transform(logits[held])
    return found


@pytest.mark.parametrize("name", ["vector", "matrix", "ts", "mixture", "isotonic", "dirichlet"])
def test_confidence_equals_accuracy_on_samples_that_were_held_out(name):
    finished = Consistent(name, cv=4).fit(LOGITS, LABELS)
    expected = held_out(lambda: nishimori.calibrator(name), LOGITS, LABELS, fold_numbers(LABELS, 4))
    assert finished.ec_temperature_ == pytest.approx(plain_temperature(expected, LABELS), rel=1e-7)
    assert abs(finished.residual_) < 1e-9


@pytest.mark.parametrize("name", ["vector", "group", "bias", "classwise", "mixture", "histogram"])
def test_the_map_is_that_of_all_samples_divided_by_the_temperature(name):
    finished = Consistent(name).fit(LOGITS, LABELS)
    alone = nishimori.calibrator(name).fit(LOGITS, LABELS)
    expected = alone.predict_log_proba(LOGITS) / finished.ec_temperature_
    expected -= np.log(np.exp(expected).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(finished.predict_log_proba(LOGITS), expected, atol=1e-10)
    np.testing.assert_array_equal(finished.predict(LOGITS), alone.predict(LOGITS))
    np.testing.assert_allclose(finished.calibrator_.predict_proba(LOGITS), alone.predict_proba(LOGITS), atol=1e-12)


def test_two_classes_and_flat_scores():
    rng = np.random.default_rng(0)
    scores = 3 * rng.normal(size=400)
    labels = (scores / 2 + rng.logistic(size=400) > 0).astype(int)
    finished = Consistent("platt").fit(scores, labels)
    assert finished.predict_proba(scores).shape == (400, 2)
    pairs = np.stack([np.zeros(400), scores], axis=1)
    expected = held_out(nishimori.Platt, pairs, labels, fold_numbers(labels, 10))
    assert finished.ec_temperature_ == pytest.approx(plain_temperature(expected, labels), rel=1e-7)


def test_weights_count_in_the_folds_and_in_the_temperature():
    weights = np.random.default_rng(1).integers(0, 4, N).astype(float)
    kept = weights > 0
    logits, labels, heavy = LOGITS[kept], LABELS[kept], weights[kept]
    finished = Consistent("vector", cv=3).fit(LOGITS, LABELS, weights)
    expected = held_out(VectorScaling, logits, labels, fold_numbers(labels, 3), heavy)
    assert finished.ec_temperature_ == pytest.approx(plain_temperature(expected, labels, heavy), rel=1e-7)


def test_a_cluster_stays_in_one_fold():
    clusters = np.arange(N) // 3
    finished = Consistent("vector", cv=3).fit(LOGITS, LABELS, clusters=clusters)
    folds = fold_numbers(LABELS, 3, clusters)
    expected = held_out(VectorScaling, LOGITS, LABELS, folds, clusters=clusters)
    assert finished.ec_temperature_ == pytest.approx(plain_temperature(expected, LABELS), rel=1e-6)
    assert (folds != fold_numbers(LABELS, 3)).any()


def test_parameters_per_group_are_fitted_in_each_fold():
    groups = np.array(["north", "south"])[np.arange(N) % 2]
    logits = np.where((groups == "north")[:, None], 3 * LOGITS, LOGITS)
    finished = Consistent(GroupConsistency(by="groups"), cv=3).fit(logits, LABELS, groups=groups)
    expected, folds = np.empty(logits.shape), fold_numbers(LABELS, 3)
    for fold in range(3):
        held = folds == fold
        fitted = GroupConsistency(by="groups").fit(logits[~held], LABELS[~held], groups=groups[~held])
        expected[held] = fitted.transform(logits[held], groups[held])
    assert finished.ec_temperature_ == pytest.approx(plain_temperature(expected, LABELS), rel=1e-7)
    assert finished.map_.needs_groups
    np.testing.assert_allclose(
        finished.transform(logits, groups), finished.calibrator_.transform(logits, groups) / finished.ec_temperature_
    )
    with pytest.raises(InputError, match="`groups` must be left out: this calibrator treats all groups alike"):
        Consistent("vector").fit(logits, LABELS, groups=groups)


def test_the_error_is_close_to_the_spread_of_the_temperature_over_data_sets():
    found = [Consistent("ts", cv=10).fit(*drawn(300, seed)) for seed in range(40)]
    logs = np.log([each.ec_temperature_ for each in found])
    errors = np.array([each.ec_temperature_se_ / each.ec_temperature_ for each in found])
    assert np.sqrt((errors**2).mean()) == pytest.approx(logs.std(ddof=1), rel=0.45)  # 40 data sets tell it to 11 %


def test_the_error_is_that_of_leaving_out_each_fold_in_turn():
    """Every fold is left out and everything is fitted again, which the jackknife does to first order only."""
    logits, labels = drawn(3000, 1)
    folds = fold_numbers(labels, 5)
    logs = []
    for out in range(5):
        rest = folds != out
        mapped = held_out(VectorScaling, logits[rest], labels[rest], folds[rest])
        logs.append(np.log(plain_temperature(mapped, labels[rest])))
    finished = Consistent("vector", cv=5).fit(logits, labels)
    expected = finished.ec_temperature_ * np.sqrt(4 * np.var(logs))
    assert finished.ec_temperature_se_ == pytest.approx(expected, rel=0.15)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "n_folds", "n_sets"), [("bias", 5, 100), ("bias", 40, 40), ("ec", 5, 100), ("ec", 40, 40)])
def test_after_a_method_that_matches_the_confidence_the_error_is_the_spread_over_data_sets(method, n_folds, n_sets):
    """To first order there is nothing left to correct, however many folds there are."""
    found = [nishimori.calibrator(f"{method}+ec", cv=n_folds).fit(*drawn(1000, seed)) for seed in range(n_sets)]
    logs = np.log([each.ec_temperature_ for each in found])
    errors = [each.ec_temperature_se_ / each.ec_temperature_ for each in found]
    # 40 data sets tell the spread to 11 %, and 4 degrees of freedom make a typical error 8 % too small.
    assert np.median(errors) == pytest.approx(logs.std(ddof=1), rel=0.3 if method == "ec" else 0.15)


def test_a_second_temperature_after_ec_itself_is_known_far_better_than_the_first():
    """The first stage is part of the error: of EC after EC it takes away almost all of it."""
    logits, labels = drawn(2000)
    alone = nishimori.ExpectationConsistency().fit(logits, labels)
    again = Consistent("ec").fit(logits, labels)
    assert again.ec_temperature_ == pytest.approx(1, abs=0.01)
    assert again.ec_temperature_se_ < 0.2 * alone.temperature_se_


def test_counts_of_samples_have_no_error_and_the_same_temperature():
    weights = np.full(N, 2.0)
    finished = Consistent("ts").fit(LOGITS, LABELS, weights, counts=True)
    assert finished.ec_temperature_se_ is None
    assert finished.ec_temperature_ == pytest.approx(Consistent("ts").fit(LOGITS, LABELS).ec_temperature_, rel=1e-9)


@pytest.mark.parametrize("name", ["vector+ec", "isotonic+ec", "ts+ec", "group+ec"])
def test_a_file_gives_the_same_calibrator_back(name, tmp_path):
    fitted = nishimori.calibrator(name, cv=3, classes=list("abcd")).fit(LOGITS, np.array(list("abcd"))[LABELS])
    fitted.save(tmp_path / "c.json")
    loaded = nishimori.load(tmp_path / "c.json")
    assert type(loaded) is Consistent
    assert (loaded.method_name, loaded.cv) == (name, 3)
    assert (loaded.ec_temperature_, loaded.ec_temperature_se_) == (fitted.ec_temperature_, fitted.ec_temperature_se_)
    np.testing.assert_array_equal(loaded.predict_proba(LOGITS), fitted.predict_proba(LOGITS))
    assert type(loaded.calibrator_) is type(fitted.calibrator_)
    np.testing.assert_allclose(loaded.calibrator_.predict_proba(LOGITS), fitted.calibrator_.predict_proba(LOGITS), atol=1e-12)
    again = loaded.fit(LOGITS, np.array(list("abcd"))[LABELS])
    assert again.ec_temperature_ == fitted.ec_temperature_


def test_parameters_and_errors_of_the_method_inside_are_in_the_file(tmp_path):
    fitted = nishimori.calibrator("vector+ec", penalty=None).fit(LOGITS, LABELS)
    assert fitted.calibrator.penalty is None
    fitted.save(tmp_path / "c.json")
    provenance = json.loads((tmp_path / "c.json").read_text())["provenance"]
    assert provenance["method"] == "vector+ec"
    assert provenance["params"] == {"cv": None, "penalty": None, "preserve_accuracy": False}
    loaded = nishimori.load(tmp_path / "c.json")
    assert loaded.calibrator.penalty is None
    np.testing.assert_array_equal(loaded.calibrator_.parameters_se_["scale"], fitted.calibrator_.parameters_se_["scale"])


def test_a_parameter_that_both_have_is_told_apart():
    made = nishimori.calibrator("vector+ec+ec", cv=3, calibrator__cv=4, penalty=2.0)
    assert (made.cv, made.calibrator.cv, made.calibrator.calibrator.penalty) == (3, 4, 2.0)
    assert made.method_name == "vector+ec+ec"
    assert made.method_params() == {"cv": 3, "calibrator__cv": 4, "penalty": 2.0, "preserve_accuracy": False}


def test_names_are_understood_wherever_a_method_is_named():
    assert repr(nishimori.calibrator("matrix+ec")) == "Consistent(calibrator=MatrixScaling())"
    assert Consistent(MatrixScaling()).method_name == Consistent("matrix").method_name == "matrix+ec"
    found = nishimori.compare(*drawn(N, 1), LOGITS, LABELS, methods=["vector", "vector+ec"])
    fitted = Consistent("vector").fit(*drawn(N, 1))
    assert found["vector+ec"].scorecard.nll == pytest.approx(nishimori.evaluate(LOGITS, LABELS, calibrator=fitted).nll)
    assert found["vector+ec"].scorecard.nll != found["vector"].scorecard.nll
    features = np.random.default_rng(0).normal(size=(200, 3))
    labels = (features[:, 0] + np.random.default_rng(1).normal(size=200) > 0).astype(int)
    classifier = CalibratedClassifier(LogisticRegression(), calibrator="vector+ec", cv=3).fit(features, labels)
    assert classifier.predict_proba(features).shape == (200, 2)


def test_unknown_names_are_refused_with_what_was_meant():
    with pytest.raises(InputError, match=r"got 'vectr\+ec'. Did you mean 'vector\+ec'\?"):
        nishimori.calibrator("vectr+ec")
    with pytest.raises(InputError, match="the parameters cv, penalty, preserve_accuracy, input, classes, floor, got prior"):
        nishimori.calibrator("vector+ec", prior=1)
    with pytest.raises(InputError, match=r"`name` must not end in '\+ec', got 'my\+ec'. .* register it as 'my'"):
        nishimori.register("my+ec", VectorScaling)


def test_a_method_of_somebody_can_be_finished_by_its_name_and_from_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(table, "_registered", dict(table._registered))

    class Halved(VectorScaling):
        """Somebody's own."""

    nishimori.register("halved", Halved)
    fitted = nishimori.calibrator("halved+ec").fit(LOGITS, LABELS)
    assert type(fitted.calibrator_) is Halved
    fitted.save(tmp_path / "c.json")
    assert type(nishimori.load(tmp_path / "c.json").calibrator_) is Halved
    monkeypatch.setattr(table, "_registered", {})
    elsewhere = nishimori.load(tmp_path / "c.json")
    assert (type(elsewhere), elsewhere.method) == (nishimori.calibrators.FixedMap, "halved+ec")
    np.testing.assert_array_equal(elsewhere.predict_proba(LOGITS), fitted.predict_proba(LOGITS))


def test_copies_pickles_and_searches_work():
    finished = Consistent(VectorScaling(), cv=3)
    finished.set_params(calibrator__penalty=5.0)
    assert clone(finished).calibrator.penalty == 5.0
    fitted = finished.fit(LOGITS, LABELS)
    assert finished.calibrator.penalty == 5.0
    assert not hasattr(finished.calibrator, "map_")  # a copy is fitted
    same = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(same.predict_proba(LOGITS), fitted.predict_proba(LOGITS))
    search = GridSearchCV(
        Consistent(VectorScaling()), {"cv": [2, 3], "calibrator__penalty": [1.0, None]}, scoring="neg_log_loss"
    )
    assert search.fit(LOGITS, LABELS).best_params_["cv"] in (2, 3)


def test_data_frames_come_out_with_their_columns():
    frame = pd.DataFrame(LOGITS, columns=list("abcd"))
    found = Consistent("vector", classes=list("abcd")).set_output(transform="pandas").fit(frame, np.array(list("abcd"))[LABELS])
    assert list(found.transform(frame).columns) == list("abcd")
    assert list(found.calibrator_.classes_) == list("abcd")


def test_probabilities_and_their_floor_are_those_of_the_calibrator():
    p = reference.softmax(LOGITS, 1.0)
    p[p < 0.02] = 0
    p /= p.sum(axis=1, keepdims=True)
    finished = Consistent("vector", input="probabilities", floor="auto", cv=3).fit(p, LABELS)
    assert 0 < finished.floor_ == finished.calibrator_.floor_
    logits = np.log(np.maximum(p, finished.floor_))
    expected = held_out(VectorScaling, logits, LABELS, fold_numbers(LABELS, 3))
    assert finished.ec_temperature_ == pytest.approx(plain_temperature(expected, LABELS), rel=1e-6)
    inside, outside = finished.calibrator_.predict_log_proba(p), finished.predict_log_proba(p)
    steps = np.diff(outside, axis=1) * finished.ec_temperature_
    np.testing.assert_allclose(np.diff(inside, axis=1), steps, atol=1e-9)


@pytest.mark.parametrize("as_", ["float32", "stream", "rows", "dask", "torch"])
def test_rows_of_every_kind_give_the_same_temperature(as_):
    logits = LOGITS.astype(np.float32)
    whole = Consistent("vector", cv=3).fit(logits, LABELS)
    if as_ == "stream":
        given = (lambda: ((logits[i : i + 100], LABELS[i : i + 100]) for i in range(0, N, 100)),)
    elif as_ == "rows":
        given = (nishimori.rows(logits, LABELS),)
    else:
        make = {"float32": np.asarray, "dask": lambda z: da.from_array(z, chunks=(70, K)), "torch": torch.tensor}[as_]
        given = (make(logits), LABELS)
    found = Consistent("vector", cv=3).fit(*given)
    assert found.ec_temperature_ == pytest.approx(whole.ec_temperature_, rel=1e-7)
    np.testing.assert_allclose(found.predict_proba(logits), whole.predict_proba(logits), atol=1e-6)


def test_of_more_samples_than_fit_in_memory_a_part_gives_the_temperature(monkeypatch):
    monkeypatch.setattr(collected_samples, "MOST_NUMBERS", 300 * K)
    finished = Consistent("vector", cv=3).fit(LOGITS, LABELS)
    samples = collected_samples.collect_samples(nishimori.rows(LOGITS, LABELS))
    assert samples.n_samples <= 300
    expected = held_out(VectorScaling, samples.logits, samples.labels, fold_numbers(samples.labels, 3))
    assert finished.ec_temperature_ == pytest.approx(plain_temperature(expected, samples.labels), rel=1e-7)
    alone = VectorScaling().fit(LOGITS, LABELS)
    np.testing.assert_allclose(finished.calibrator_.predict_proba(LOGITS), alone.predict_proba(LOGITS), atol=1e-12)
    assert finished.n_samples_ == N


def test_the_map_of_a_linear_method_stays_linear_and_others_are_tempered():
    assert type(Consistent("matrix").fit(LOGITS, LABELS).map_) is Affine
    assert type(Consistent("isotonic").fit(LOGITS, LABELS).map_) is Tempered
    assert Consistent("ts").fit(LOGITS, LABELS).temperature_ is not None
    assert Consistent(VectorScaling(preserve_accuracy=True)).fit(LOGITS, LABELS).map_.keeps_predictions


@pytest.mark.parametrize(
    ("made", "data", "message"),
    [
        (Consistent(cv=1), (LOGITS, LABELS), "`cv` must be a whole number of at least 2, got 1."),
        (Consistent(cv=5), (LOGITS[:3], LABELS[:3]), "`cv` must be at most the number of samples, 3, got 5."),
        (Consistent(cv="5"), (LOGITS, LABELS), "`cv` must be a whole number of at least 2, got '5'."),
        (
            Consistent(),
            (LOGITS[:1], LABELS[:1]),
            "must have at least two samples, one of which is held out, got 1 sample.",
        ),
        (Consistent("nonsense"), (LOGITS, LABELS), "got 'nonsense'"),
        (Consistent(VectorScaling), (LOGITS, LABELS), "got a class. Pass `VectorScaling()`."),
        (Consistent("none"), (LOGITS, LABELS), "`calibrator` must be a method that is fitted, got 'none'."),
        (Consistent(3), (LOGITS, LABELS), "`calibrator` must be the name of a method, such as 'ec', or a calibrator, got 3"),
        (
            Consistent(VectorScaling(input="probabilities")),
            (LOGITS, LABELS),
            "`calibrator` must leave out `input`, got 'probabilities'. Pass `input` to Consistent.",
        ),
        (Consistent(), (LOGITS, LABELS[:-1]), "`y`"),
        (Consistent(), (np.full((50, 3), np.nan), np.arange(50) % 3), "NaN"),
        (Consistent(), (nishimori.Sketch().update(LOGITS, LABELS),), "A Sketch keeps sums"),
    ],
)
def test_bad_input_is_refused_with_what_to_do(made, data, message):
    with pytest.raises(InputError) as error:
        made.fit(*data)
    assert message in str(error.value)


@pytest.mark.filterwarnings("ignore:Standard errors from 3 clusters")
def test_too_few_clusters_are_refused():
    with pytest.raises(InputError, match=r"`cv` must be at most the number of clusters, 3, got 5\. Use fewer folds"):
        Consistent(cv=5).fit(LOGITS, LABELS, clusters=np.arange(N) % 3)


def test_a_class_that_some_folds_do_not_have_is_no_obstacle():
    labels = np.where(LABELS == 3, 0, LABELS)
    labels[np.flatnonzero(LABELS == 3)[0]] = 3  # one sample
    finished = Consistent("vector", cv=5).fit(LOGITS, labels)
    assert np.isfinite(finished.predict_log_proba(LOGITS)).all()


EASY = 5.0 * np.eye(K)[LABELS] + 0.1 * LOGITS
HARD = [(EASY, LABELS), (EASY[:20], LABELS[:20]), (LOGITS, (LOGITS.argmax(axis=1) + 1) % K), (np.zeros((40, K)), LABELS[:40])]


@pytest.mark.parametrize("name", ["vector", "matrix", "isotonic", "mixture", "ec", "bias"])
@pytest.mark.parametrize("data", HARD, ids=["all right", "few", "all wrong", "equal scores"])
@pytest.mark.filterwarnings("ignore::nishimori.errors.InputWarning", "ignore::nishimori.errors.FewErrorsWarning")
def test_valid_data_are_never_refused(name, data, tmp_path):
    finished = Consistent(name).fit(*data)
    p = finished.predict_proba(data[0])
    assert np.isfinite(p).all()
    np.testing.assert_allclose(p.sum(axis=1), 1)
    finished.save(tmp_path / "c.json")
    np.testing.assert_array_equal(nishimori.load(tmp_path / "c.json").predict_proba(data[0]), p)


def test_where_all_held_out_samples_are_right_confidence_is_almost_that_and_a_warning_says_so():
    with pytest.warns(InputWarning, match="'ec' has no solution in the predictions for held-out samples"):
        finished = Consistent("isotonic").fit(EASY, LABELS)
    expected = held_out(nishimori.Isotonic, EASY, LABELS, fold_numbers(LABELS, 10))
    confidence = reference.softmax(expected, finished.ec_temperature_).max(axis=1).mean()
    assert confidence == pytest.approx((N + 0.5) / (N + 1), rel=1e-6)


@pytest.mark.filterwarnings("ignore::nishimori.errors.FewErrorsWarning", "ignore::nishimori.errors.InputWarning")
def test_fewer_samples_or_clusters_than_ten_are_as_many_folds():
    labels = np.arange(8) % K
    few = 2.0 * np.eye(K)[labels] + 0.1 * LOGITS[:8], np.append(labels[:6], labels[:2])  # the last two are wrong
    assert Consistent("ts").fit(*few).ec_temperature_ == Consistent("ts", cv=8).fit(*few).ec_temperature_
    clusters = np.arange(N) % 6
    found = [Consistent("ts", cv=cv).fit(LOGITS, LABELS, clusters=clusters).ec_temperature_ for cv in (None, 6)]
    assert found[0] == found[1]


def test_a_single_sample_is_rescued_where_folds_of_a_classifier_are_calibrated():
    features = np.random.default_rng(0).normal(size=(30, 3))
    labels = (features[:, 0] + np.random.default_rng(1).normal(size=30) > 0).astype(int)
    pairs = [(np.delete(np.arange(30), [i]), np.array([i])) for i in range(3)]
    with pytest.warns(InputWarning):
        classifier = CalibratedClassifier(LogisticRegression(), calibrator="vector+ec", cv=pairs, ensemble=True).fit(
            features, labels
        )
    assert np.isfinite(classifier.predict_proba(features)).all()


@pytest.mark.parametrize("method", ["isotonic", "histogram", "mixture"])
def test_files_of_maps_that_stay_inside_another_can_always_be_loaded(method, tmp_path):
    for seed in range(12):  # T·(1/T) is not exactly 1 for every seventh T
        logits, labels = reference.drawn(120, 3, seed=seed)
        fitted = nishimori.calibrators.Consistent(method, cv=3).fit(logits, labels)
        fitted.save(tmp_path / "file.json", overwrite=True)
        loaded = nishimori.load(tmp_path / "file.json")
        np.testing.assert_array_equal(loaded.predict_proba(logits), fitted.predict_proba(logits))
