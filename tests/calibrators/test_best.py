"""The choice among calibrators, compared with cross-validation that is written out by hand."""

import json
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import reference
from sklearn.metrics import log_loss
from sklearn.model_selection import GroupKFold, KFold, LeaveOneGroupOut, PredefinedSplit, StratifiedKFold
from sklearn.naive_bayes import GaussianNB

import nishimori
from nishimori import Best
from nishimori._calibrators import best as module
from nishimori._calibrators.selection import RowScores, SampleUnits, select
from nishimori._methods.table import CANDIDATES
from nishimori.errors import DegenerateDataError, InputError

N, K = 400, 4


def shifted(n=N, n_classes=K, seed=0, bias=1.5):
    """Logits of a model that is overconfident and favours the first class: one temperature is not enough."""
    rng = np.random.default_rng(seed)
    logits = 3 * rng.normal(size=(n, n_classes))
    true = logits / 2 - bias * (np.arange(n_classes) == 0)
    return logits, (true + rng.gumbel(size=true.shape)).argmax(axis=1)


LOGITS, LABELS = shifted()
FOLDS = np.arange(N) % 3


def probabilities_out_of_fold(method, logits=LOGITS, labels=LABELS, folds=FOLDS):
    found = np.empty_like(logits)
    for fold in np.unique(folds):
        held = folds == fold
        fitted = nishimori.calibrator(method).fit(logits[~held], labels[~held])
        found[held] = fitted.predict_proba(logits[held])
    return found


def losses(p, labels=LABELS):
    return -np.log(p[np.arange(len(labels)), labels])


def test_scores_are_those_of_cross_validation_by_hand():
    found = Best(["ts", "bias", "vector"], cv=PredefinedSplit(FOLDS)).fit(LOGITS, LABELS).selection_
    for name in ("ts", "bias", "vector"):
        by_hand = log_loss(LABELS, probabilities_out_of_fold(name), labels=range(K))
        assert found[name].score == pytest.approx(by_hand, rel=1e-9)
        assert found[name].nll == found[name].score
    model = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
    assert found["none"].score == pytest.approx(log_loss(LABELS, model, labels=range(K)), rel=1e-9)


def test_the_lowest_score_is_chosen_and_the_winner_is_fitted_to_all_rows():
    best = Best(["ts", "vector"]).fit(LOGITS, LABELS)
    assert best.chosen_ == "vector"
    alone = nishimori.VectorScaling().fit(LOGITS, LABELS)
    np.testing.assert_allclose(best.predict_proba(LOGITS), alone.predict_proba(LOGITS), rtol=1e-12)
    z, y = reference.drawn(2000, 3)  # one temperature is true: the rest is noise
    assert Best(["ts", "isotonic"]).fit(z, y).chosen_ == "ts"


def test_differences_have_the_errors_of_paired_means():
    found = Best(["ts", "vector"], cv=PredefinedSplit(FOLDS)).fit(LOGITS, LABELS).selection_
    assert found.chosen == "vector"
    per_row = losses(probabilities_out_of_fold("ts")) - losses(probabilities_out_of_fold("vector"))
    assert found["ts"].difference == pytest.approx(per_row.mean(), rel=1e-6)
    assert found["ts"].difference_se == pytest.approx(per_row.std() / np.sqrt(N), rel=1e-6)
    assert found["vector"].difference == 0


def test_errors_of_clusters_are_those_of_sums_over_clusters():
    clusters = np.arange(N) // 4
    folds = clusters % 3
    best = Best(["ts", "vector"], cv=PredefinedSplit(folds)).fit(LOGITS, LABELS, clusters=clusters)
    first, second = (losses(_probabilities_with_clusters(name, folds, clusters)) for name in ("ts", "vector"))
    sums = (first - second - (first - second).mean()).reshape(-1, 4).sum(axis=1)
    assert best.selection_["ts"].difference_se == pytest.approx(np.sqrt((sums**2).sum()) / N, rel=1e-6)


def _probabilities_with_clusters(method, folds, clusters):
    found = np.empty_like(LOGITS)
    for fold in np.unique(folds):
        held = folds == fold
        fitted = nishimori.calibrator(method).fit(LOGITS[~held], LABELS[~held], clusters=clusters[~held])
        found[held] = fitted.predict_proba(LOGITS[held])
    return found


def test_the_brier_score_can_decide():
    found = Best(["ts", "vector"], scoring="brier", cv=PredefinedSplit(FOLDS)).fit(LOGITS, LABELS).selection_
    for name in ("ts", "vector"):
        p = probabilities_out_of_fold(name)
        assert found[name].score == pytest.approx(((p - np.eye(K)[LABELS]) ** 2).sum(axis=1).mean(), rel=1e-9)


def test_the_model_as_it_is_is_scored_and_never_chosen():
    z, y = reference.drawn(3000, 3)
    fine = z / nishimori.temperatures(z, y).ts  # nothing is left to do
    best = Best(["isotonic"]).fit(fine, y)
    assert best.selection_["none"].score < best.selection_["isotonic"].score
    assert best.chosen_ == "isotonic"


def test_weights_are_copies_in_the_scores():
    weights = np.random.default_rng(1).integers(1, 4, size=N)
    rows = np.repeat(np.arange(N), weights)
    weighted = Best(["ts"], cv=PredefinedSplit(FOLDS)).fit(LOGITS, LABELS, sample_weight=weights.astype(float))
    copied = Best(["ts"], cv=PredefinedSplit(FOLDS[rows])).fit(LOGITS[rows], LABELS[rows])
    assert weighted.selection_["ts"].score == pytest.approx(copied.selection_["ts"].score, rel=1e-9)


def test_the_same_data_give_the_same_choice_and_digits():
    first, second = (Best().fit(LOGITS, LABELS) for _ in range(2))
    assert first.selection_ == second.selection_
    np.testing.assert_array_equal(first.predict_proba(LOGITS), second.predict_proba(LOGITS))
    other = Best(random_state=1).fit(LOGITS, LABELS)
    assert other.selection_["ts"].score != first.selection_["ts"].score


class Watched(nishimori.TemperatureScaling):
    """Temperature scaling that notes the rows that it is fitted to."""

    seen: ClassVar[list] = []

    def fit(self, X, y=None, sample_weight=None, **options):
        Watched.seen.append(np.concatenate([batch.logits[:, 0] for batch in X]))
        return super().fit(X, y, sample_weight, **options)


@pytest.mark.parametrize("what", ["groups", "clusters"])
def test_what_belongs_together_is_in_one_fold(what):
    Watched.seen = []
    names = np.arange(N) // 10
    Best([Watched()]).fit(LOGITS, LABELS, **{what: names})
    group_of = dict(zip(LOGITS[:, 0], names, strict=True))
    *training_parts, everything = Watched.seen
    assert len(everything) == N
    assert len(training_parts) == 5
    for part in training_parts:
        fitted_to = [group_of[value] for value in part]
        assert all(fitted_to.count(name) == 10 for name in set(fitted_to))


def test_groups_and_clusters_are_both_kept_together():
    Watched.seen = []
    halves = np.arange(N) // 100
    groups, clusters = 10 * halves + np.arange(N) % 3, 10 * halves + np.arange(N) // 7 % 5  # each links all of its hundred
    Best([Watched()], cv=2).fit(LOGITS, LABELS, groups=groups, clusters=clusters)
    for part in Watched.seen[:2]:
        chosen = np.isin(LOGITS[:, 0], part)
        assert [set(chosen[halves == half]) in ({True}, {False}) for half in range(4)] == [True] * 4


def test_splitters_of_scikit_learn_make_the_folds():
    groups = np.arange(N) % 7
    best = Best(["ts"], cv=GroupKFold(3)).fit(LOGITS, LABELS, groups=groups)
    folds = np.empty(N, int)
    for number, (_, test) in enumerate(GroupKFold(3).split(LOGITS, LABELS, groups)):
        folds[test] = number
    by_hand = log_loss(LABELS, probabilities_out_of_fold("ts", folds=folds), labels=range(K))
    assert best.selection_["ts"].score == pytest.approx(by_hand, rel=1e-9)
    assert Best(["ts"], cv=list(StratifiedKFold(4).split(LOGITS, LABELS))).fit(LOGITS, LABELS).selection_.n_folds == 4


def test_rows_of_weight_zero_are_in_the_folds_of_a_splitter_and_in_nothing_else():
    weights = (np.arange(N) % 5 > 0).astype(float)
    kept = weights > 0
    weighted = Best(["ts"], cv=PredefinedSplit(FOLDS)).fit(LOGITS, LABELS, sample_weight=weights)
    without = Best(["ts"], cv=PredefinedSplit(FOLDS[kept])).fit(LOGITS[kept], LABELS[kept])
    assert weighted.selection_ == without.selection_


@pytest.mark.parametrize(
    ("parameters", "data", "message"),
    [
        ({}, {"X": np.eye(4), "y": [0, 1, 2, 3]}, "`y` must have two samples of some class"),
        ({"cv": 9}, {"X": LOGITS[:8], "y": LABELS[:8]}, "`cv` must be at most the number of samples, 8, got 9"),
        ({}, {"groups": np.arange(N) % 3}, "`cv` must be at most the number of .*, 3, got 5"),
        ({"cv": 1}, {}, "`cv` must be"),
        ({"cv": [(np.arange(N), [])]}, {}, "`cv` must hold out samples in each fold"),
        (
            {"cv": [(np.flatnonzero(LABELS), np.flatnonzero(LABELS == 0))]},
            {},
            "`cv` must leave samples of each class to fit to, got none of class 0 in fold 1 of 1",
        ),
        ({"cv": [(np.arange(N), np.arange(N))]}, {}, "`cv` must hold out samples that are not fitted to"),
        (
            {"cv": KFold(4, shuffle=True, random_state=0)},
            {"clusters": np.arange(N) // 2},
            "keep the samples of a cluster together",
        ),
        ({"cv": 2.5}, {}, "`cv` must be a number of folds, a splitter"),
        ({"cv": []}, {}, "`cv` must have at least one fold"),
        ({"cv": [([0, 1, 2], [900])]}, {}, "`cv` must be a number of folds, a splitter"),
        ({"cv": GroupKFold(3)}, {}, "`cv` must be a number of folds, a splitter"),
        ({"candidates": [nishimori.TemperatureScaling(floor=0.2)]}, {}, "`candidates` must leave out `floor`"),
        ({"scoring": "accuracy"}, {}, "`scoring` must be 'nll' or 'brier'"),
        ({"candidates": []}, {}, "`candidates` must be a list of names or calibrators"),
        ({"candidates": "ts"}, {}, "`candidates` must be a list of names or calibrators"),
        ({"candidates": ["none"]}, {}, "`candidates` must be methods that learn something"),
        ({"candidates": ["best"]}, {}, "other methods than 'best'"),
        ({"candidates": ["ts", "ts"]}, {}, "`candidates` must be different from each other"),
        ({"candidates": ["tss"]}, {}, "Did you mean 'ts'"),
        ({"candidates": ["platt"]}, {}, "`candidates` must work for 4 classes"),
        ({"candidates": ["vector"], "keep_predictions": True}, {}, "`candidates` must keep predictions"),
        ({"keep_predictions": "yes"}, {}, "`keep_predictions` must be True or False"),
        ({"max_seconds": -1}, {}, "`max_seconds` must lie between 0 and inf"),
        ({"random_state": "zero"}, {}, "`random_state` must be"),
    ],
)
def test_bad_input_says_what_to_do(parameters, data, message):
    with pytest.raises(InputError, match=message):
        Best(**parameters).fit(**({"X": LOGITS, "y": LABELS} | data))


def test_too_few_samples_are_degenerate_data_so_that_a_classifier_goes_on():
    for cv, rows in ((5, 3), (2, 1)):
        with pytest.raises(DegenerateDataError):
            Best(cv=cv).fit(LOGITS[:rows], LABELS[:rows])


def test_keep_predictions_leaves_predictions_as_they_are():
    best = Best(keep_predictions=True).fit(LOGITS, LABELS)
    np.testing.assert_array_equal(best.predict(LOGITS), LOGITS.argmax(axis=1))
    assert best.selection_.left_out["vector"] == "it can change predictions"
    assert {"adaptive", "group"} <= {each.name for each in best.selection_.candidates}
    assert (Best().fit(LOGITS, LABELS).predict(LOGITS) != LOGITS.argmax(axis=1)).any()


def test_two_and_more_classes_have_their_own_candidates():
    binary = [each.name for each in Best().fit(*shifted(n_classes=2)).selection_.candidates]
    several = [each.name for each in Best().fit(LOGITS, LABELS).selection_.candidates]
    assert {"platt", "beta"} <= set(binary)
    assert "bias" not in binary
    assert "matrix" not in binary  # which is the same map as "vector"
    assert {"bias", "matrix"} <= set(several)
    assert not {"platt", "beta"} & set(several)


def test_what_would_take_long_is_left_out_by_a_formula_and_named(monkeypatch):
    matrix = CANDIDATES["matrix"]
    assert 6 * matrix.seconds(5000, 100) < module._MOST_SECONDS < 6 * matrix.seconds(20_000, 1000)
    assert "matrix" not in Best().fit(LOGITS, LABELS).selection_.left_out
    monkeypatch.setattr(module, "_MOST_SECONDS", 6 * matrix.seconds(N, K) * 0.99)
    left_out = Best().fit(LOGITS, LABELS).selection_.left_out
    assert list(left_out) == ["isotonic", "matrix"]
    assert left_out["isotonic"].startswith("it needs 1000 samples; name it")
    assert "name it in `candidates`" in left_out["matrix"]
    assert Best(["matrix"]).fit(LOGITS, LABELS).chosen_ == "matrix"


def test_no_further_method_is_tried_after_max_seconds():
    selection = Best(max_seconds=1e-9).fit(LOGITS, LABELS).selection_
    assert [each.name for each in selection.candidates] == ["none", "adaptive"]
    assert selection.left_out["ts"] == "1e-09 s had passed"


def test_of_large_data_a_part_decides_and_all_rows_are_fitted(monkeypatch):
    monkeypatch.setattr("nishimori._calibrators.best._SCORES", 800)
    monkeypatch.setattr("nishimori._calibrators.best._PER_CLASS", 1)
    best = Best(["ts"]).fit(LOGITS, LABELS)
    assert 20 < best.selection_.n_samples <= 200
    assert best.temperature_ == pytest.approx(nishimori.TemperatureScaling().fit(LOGITS, LABELS).temperature_, rel=1e-10)
    assert best.n_samples_ == N
    with pytest.raises(InputError, match="a number of folds for data of more than 800 scores, or that are not in memory"):
        Best(["ts"], cv=PredefinedSplit(FOLDS)).fit(LOGITS, LABELS)


def test_data_without_a_temperature_are_calibrated_with_a_warning():
    logits = np.array([[2.0, -2.0], [-1.5, 1.5]] * 10)
    with pytest.warns(nishimori.errors.InputWarning, match="no solution"):
        best = Best().fit(logits, [0, 1] * 10)
    assert np.isfinite(best.predict_log_proba(logits)).all()
    assert best.selection_["ts"].n_unsolved == 5
    assert any("ts had no solution in 5 of 5 folds" in each for each in best.selection_.notes)


def test_a_method_without_a_solution_for_all_samples_gives_way_to_the_next(monkeypatch):
    from nishimori._calibrators import best as module

    usual = Best(["ts", "ec", "vector"]).fit(LOGITS, LABELS)
    first, second = sorted((each for each in usual.selection_.candidates if each.name != "none"), key=lambda each: each.score)[
        :2
    ]
    fit_checked = module.fit_checked

    def fails(calibrator, *data, **options):
        if calibrator.method_name == first.name:
            raise nishimori.errors.NotConvergedError("The loss still falls.")
        return fit_checked(calibrator, *data, **options)

    monkeypatch.setattr(module, "fit_checked", fails)
    best = Best(["ts", "ec", "vector"]).fit(LOGITS, LABELS)
    assert (usual.chosen_, best.chosen_) == (first.name, second.name)
    assert best.selection_.left_out[first.name] == "no solution for all samples: The loss still falls"
    expected = nishimori.calibrator(second.name).fit(LOGITS, LABELS).predict_log_proba(LOGITS)
    np.testing.assert_array_equal(best.predict_log_proba(LOGITS), expected)


def test_masked_classes_leave_out_what_cannot_mask():
    masked = LOGITS.copy()
    masked[:50, 3] = -np.inf
    labels = np.where((LABELS == 3) & (np.arange(N) < 50), 0, LABELS)
    best = Best().fit(masked, labels)
    assert best.predict_proba(masked)[:50, 3].max() == 0
    assert {"bias", "vector", "matrix"} <= set(best.selection_.left_out)
    for name in ("bias", "vector", "matrix"):
        with pytest.raises(InputError) as refused:
            nishimori.calibrator(name).fit(masked, labels)
        assert str(refused.value).rstrip(".") == best.selection_.left_out[name]


def test_compare_says_what_was_chosen():
    found = nishimori.compare(LOGITS, LABELS, methods=("adaptive", "best"))
    chosen = Best().fit(LOGITS, LABELS).chosen_
    assert f"The method best chose {chosen} by the losses on folds of the validation data." in found.verdicts


def test_a_file_keeps_the_map_and_the_scores(tmp_path):
    best = Best(["adaptive", "vector"]).fit(LOGITS, LABELS)
    best.save(tmp_path / "best.json")
    loaded = nishimori.load(tmp_path / "best.json")
    assert isinstance(loaded, Best)
    np.testing.assert_array_equal(loaded.predict_proba(LOGITS), best.predict_proba(LOGITS))
    assert (loaded.chosen_, loaded.candidates) == ("vector", ["adaptive", "vector"])
    assert loaded.selection_ == best.selection_
    json.dumps(loaded.selection_.to_dict(), allow_nan=False)


def test_the_table_shows_what_was_chosen_and_what_it_is_worth():
    selection = Best(["ts", "vector"]).fit(LOGITS, LABELS).selection_
    lines = str(selection).splitlines()
    assert lines[0].split()[0] == "method"
    assert [line.split()[0] for line in lines[2:5]] == ["none", "ts", "vector"]
    assert lines[4].endswith("chosen")
    assert "vector: a factor and a shift per class, penalised: classes on different scales." in str(selection)
    assert "optimistic" in str(selection)
    assert "<table>" in selection._repr_html_()
    with pytest.raises(InputError, match="The candidate must be one of none, ts, vector"):
        selection["ec"]


def test_the_page_about_choosing_a_method_names_all_candidates_in_their_order():
    page = (Path(__file__).parents[2] / "docs" / "which_calibrator.md").read_text(encoding="utf-8")
    table = page.partition("## What")[2].partition("## ")[0]
    places = [table.index(f'`"{name}"`') for name in CANDIDATES]
    assert places == sorted(places)


def test_one_temperature_keeps_its_standard_error():
    z, y = reference.drawn(1000, 3)
    best = Best(["ts"]).fit(z, y)
    alone = nishimori.TemperatureScaling().fit(z, y)
    assert best.temperature_se_ == pytest.approx(alone.temperature_se_, rel=1e-10)


def test_probabilities_with_zeros_get_the_floor_of_all_methods():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(3, 0.3), size=600)
    y = np.array([rng.choice(3, p=each) for each in p])
    p[:30] = np.eye(3)[(y[:30] + np.arange(30) // 25) % 3]  # five zeros at true classes
    best = Best(input="probabilities", floor="auto").fit(p, y)
    assert 1e-6 < best.floor_ < 0.3
    assert np.isfinite(losses(best.predict_proba(p), y)).all()


def test_candidates_with_parameters_of_their_own():
    for given in ([nishimori.Isotonic(prior=5), "isotonic"], ["isotonic", nishimori.Isotonic(prior=5)]):
        best = Best(given).fit(LOGITS, LABELS)
        assert {each.name for each in best.selection_.candidates} == {"none", "isotonic", "isotonic(prior=5)"}


def test_candidates_and_splitters_of_every_kind_can_be_saved(tmp_path):
    best = Best([nishimori.VectorScaling(penalty=None), "ts"], cv=StratifiedKFold(3)).fit(LOGITS, LABELS)
    best.save(tmp_path / "best.json")
    loaded = nishimori.load(tmp_path / "best.json")
    np.testing.assert_array_equal(loaded.predict_proba(LOGITS), best.predict_proba(LOGITS))
    assert (loaded.candidates, loaded.cv) == (["vector(penalty=None)", "ts"], 3)


def test_counts_are_samples_in_the_errors():
    weights = np.random.default_rng(1).integers(1, 4, size=N)
    rows = np.repeat(np.arange(N), weights)
    options = {"scoring": "nll", "cv": PredefinedSplit(FOLDS)}
    counted = Best(["ts", "isotonic"], **options).fit(LOGITS, LABELS, sample_weight=weights.astype(float), counts=True)
    copied = Best(["ts", "isotonic"], cv=PredefinedSplit(FOLDS[rows])).fit(LOGITS[rows], LABELS[rows])
    assert counted.selection_["isotonic"].difference_se == pytest.approx(copied.selection_["isotonic"].difference_se, rel=1e-3)
    assert counted.selection_.n_samples == len(rows)


def test_methods_that_agree_but_for_rounding_are_equal():
    rows = RowScores(*np.random.default_rng(0).random((2, 40)))
    lower = RowScores(rows.nll * (1 - 1e-15), rows.brier)
    found = select(
        {"none": rows, "simple": rows, "rich": lower},
        SampleUnits(np.ones(40), np.arange(40)),
        "nll",
        n_unsolved={},
        left_out={},
        n_folds=5,
    )
    assert found.chosen == "simple"


def test_samples_whose_true_class_is_masked_do_not_decide(tmp_path):
    masked = LOGITS.copy()
    masked[0, LABELS[0]] = -np.inf
    with pytest.warns(nishimori.errors.InputWarning, match="1 of 400 samples have a true class of probability zero"):
        best = Best(["ec", "isotonic"]).fit(masked, LABELS)
    assert np.isfinite(best.selection_[best.chosen_].score)
    best.save(tmp_path / "best.json")
    assert nishimori.load(tmp_path / "best.json").selection_ == best.selection_


def test_one_more_temperature_keeps_predictions_where_its_method_does():
    best = Best(["ts+ec", "group+ec"], keep_predictions=True).fit(LOGITS, LABELS)
    np.testing.assert_array_equal(best.predict(LOGITS), LOGITS.argmax(axis=1))


def test_a_classifier_has_no_more_folds_than_groups():
    X, y = LOGITS[:, :3], (LABELS > 1).astype(int)
    groups = np.arange(N) % 4
    fitted = nishimori.CalibratedClassifier(GaussianNB(), cv=GroupKFold(4)).fit(X, y, groups=groups)
    assert isinstance(fitted.calibrator_, Best)
    assert fitted.calibrator_.selection_.n_folds == 4
    each = nishimori.CalibratedClassifier(GaussianNB(), cv=LeaveOneGroupOut(), ensemble=True).fit(X, y, groups=groups)
    assert all(isinstance(pair.calibrator, Best) for pair in each.calibrated_classifiers_)
