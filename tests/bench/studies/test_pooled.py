"""The studies of averaged classifiers and of what replaces SVC(probability=True) run at a small size."""

import numpy as np
import pytest
from sklearn.metrics import log_loss

from nishimori import CalibratedClassifier


@pytest.fixture
def study():
    import pooled

    return pooled


@pytest.mark.filterwarnings("ignore::nishimori.errors.InputWarning", "ignore::nishimori.errors.FewErrorsWarning")
def test_contestants_are_what_they_are_called(study, tmp_path):
    scores = study.load_scores(study.Cell("wine", "logistic"), 0, tmp_path)
    found = study.contest(scores)
    for way in (False, True, "pooled"):
        fitted = CalibratedClassifier(scores.estimator(), cv=scores.folds, ensemble=way).fit(scores.train, scores.train_labels)
        expected = log_loss(scores.test_labels, fitted.predict_proba(scores.test))
        assert found[str(way)]["nll"] == pytest.approx(expected, rel=1e-9), way


def test_errors_are_over_data_sets(study):
    numbers = {"pooled": {"nll": 1.0}, "False": {"nll": np.e}}
    cells = [study.Cell(data, model) for data, model in (("a", "x"), ("a", "y"), ("b", "x"))]
    found = [study.Found(cell, 100, 2, numbers) for cell in cells]
    values = iter((1.0, 3.0, 4.0))
    assert study.over_data(found, lambda _: next(values)) == "+3.0 ± 1.0"
    assert found[0].change("pooled", "False") == pytest.approx(-100)


def test_a_cell_is_measured_once(study, tmp_path, monkeypatch):
    first = study.measure(study.Cell("wine", "logistic"), 1, tmp_path)
    monkeypatch.setattr(study, "contest", None)
    assert study.measure(study.Cell("wine", "logistic"), 1, tmp_path) == first


def test_text_becomes_columns_and_gaps_the_median():
    import pooled_data

    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(
        {"size": [1.0, None, 3.0], "kind": ["x", "y", "x"], "same": [1, 1, 1], "label": ["no", "yes", "no"]}
    )
    features, labels = pooled_data.features_and_labels(table, "label")
    assert features.tolist() == [[1, 1, 0], [2, 0, 1], [3, 1, 0]]
    assert labels.tolist() == [0, 1, 0]


def test_ways_to_replace_svc_are_measured(run_study, tmp_path):
    run_study("svc", "--splits", "1", "--data", "iris", "wine", "--out", tmp_path / "found.md")
    text = (tmp_path / "found.md").read_text(encoding="utf-8")
    assert text.count("CalibratedClassifier(ensemble=") == 2
    assert "2 data sets, 1 splits each" in text
