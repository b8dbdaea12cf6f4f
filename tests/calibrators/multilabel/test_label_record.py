"""Files of multilabel calibrators, and what is refused when one is fitted."""

import json
import random
import re

import numpy as np
import pytest
import scipy.sparse
from independent_labels import X, Y, sigmoid
from optional import nishimori_torch, pd, torch
from shell import nishimori as shell

import nishimori
from nishimori.errors import FormatError, InputError, InputWarning, NishimoriError
from nishimori.multilabel import MultilabelCalibrator

SAVED = {
    "shrunk": MultilabelCalibrator(labels=["a", "b", "c"], missing=-1),
    "shared": MultilabelCalibrator("ts", parameters="shared", input="probabilities", floor=0.01),
    "per label": MultilabelCalibrator("vector", parameters="per_label", labels=[2, "b", 0.5], missing=float("nan")),
    "with parameters": MultilabelCalibrator(nishimori.BiasCorrected(shrink=False), parameters="per_label"),
}
OUTCOMES = ("temperature_", "temperature_se_", "spread_", "used_spread_", "open_labels_", "n_samples_", "n_features_in_")


def scores_for(calibrator):
    return sigmoid(X) if calibrator.input == "probabilities" else X


@pytest.mark.parametrize("calibrator", SAVED.values(), ids=SAVED)
def test_a_file_gives_back_the_same_calibrator(calibrator, tmp_path):
    scores = scores_for(calibrator)
    calibrator.fit(scores, Y)
    calibrator.save(tmp_path / "labels.json")
    found = nishimori.load(tmp_path / "labels.json")
    assert isinstance(found, MultilabelCalibrator)
    np.testing.assert_array_equal(found.predict_proba(scores), calibrator.predict_proba(scores))
    assert found.classes_.tolist() == calibrator.classes_.tolist()
    for name in OUTCOMES:
        assert getattr(found, name) == getattr(calibrator, name)
    np.testing.assert_equal(found.temperatures_se_, calibrator.temperatures_se_)
    np.testing.assert_equal(found.missing, calibrator.missing)
    again = found.fit(scores, Y)
    np.testing.assert_array_equal(again.predict_proba(scores), calibrator.predict_proba(scores))
    with pytest.raises(FileExistsError):
        calibrator.save(tmp_path / "labels.json")


def test_a_file_holds_one_map_per_label_in_plain_json(tmp_path):
    found = MultilabelCalibrator(labels=["a", "b", "c"]).fit(X, Y)
    found.save(tmp_path / "labels.json")
    content = json.loads((tmp_path / "labels.json").read_text())
    assert (content["format"], content["format_version"]) == ("nishimori-multilabel", 1)
    assert content["labels"] == ["a", "b", "c"]
    expected = [{"kind": "temperature", "parameters": {"temperature": T}} for T in found.temperatures_.tolist()]
    assert content["maps"] == expected


def test_a_method_that_is_not_installed_still_predicts_but_cannot_be_fitted(tmp_path):
    path = tmp_path / "labels.json"
    MultilabelCalibrator(labels=["a", "b", "c"]).fit(X, Y).save(path)
    content = json.loads(path.read_text())
    content["provenance"]["method"] = "os:system"
    path.write_text(json.dumps(content))
    found = nishimori.load(path)
    np.testing.assert_allclose(found.predict_proba(X), sigmoid(X / found.temperatures_))
    with pytest.raises(InputError, match="The method must be one of"):
        found.fit(X, Y)


DAMAGED = {
    "a newer version": (
        {"format_version": 2},
        f"has format version 2, written by nishimori {nishimori.__version__}; this one reads up to 1",
    ),
    "no version": ({"format_version": None}, "is damaged: format_version must be a whole number of at least 1, got None"),
    "a map too few": ({"maps": []}, "is damaged: maps must be a list of 3 values, got []"),
    "another map": (
        {"maps": [{"kind": "temperature", "parameters": {"temperature": -1.0}}] * 3},
        "is damaged: maps must be a map with ",
    ),
    "three classes": (
        {"maps": [{"kind": "class_temperatures", "parameters": {"temperatures": [1, 2, 3]}}] * 3},
        "maps must be maps of two ",
    ),
    "names twice": (
        {"labels": ["a", "a", "c"]},
        "is damaged: labels must be a list of different texts or numbers, got ['a', 'a', 'c']",
    ),
    "names in lists": (
        {"labels": [["a"], "b", "c"]},
        "is damaged: labels must be a list of different texts or numbers, got [['a'], 'b', 'c']",
    ),
    "input": ({"input": "scores"}, "is damaged: input must be one of 'logits', 'probabilities', got 'scores'"),
    "floor": ({"floor": 0.1}, "is damaged: floor must be a floor of logits, got 0.1"),
    "missing": ({"missing": 1}, "is damaged: missing must be a mark of unknown labels, got 1"),
    "provenance": ({"provenance": []}, "is damaged: provenance must be a dictionary with the keys method, "),
}
OF_PROVENANCE = {
    "method": "",
    "params": {"top_n": []},
    "parameters": "some",
    "columns": ["a"],
    "n_samples": 0,
    "temperatures_se": [1, -1, 0],
    "temperature": -2.0,
    "spread": "wide",
    "open_labels": ["d"],
    "library_version": 1,
}


@pytest.fixture
def saved(tmp_path):
    """The path of a file, and its content."""
    path = tmp_path / "labels.json"
    MultilabelCalibrator(labels=["a", "b", "c"]).fit(X, Y).save(path)
    return path, json.loads(path.read_text())


@pytest.mark.parametrize(("change", "words"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_refused_with_the_field(change, words, saved):
    path, content = saved
    path.write_text(json.dumps(content | change))
    with pytest.raises(FormatError, match=re.escape(words)):
        nishimori.load(path)


@pytest.mark.parametrize("name", OF_PROVENANCE)
def test_a_damaged_provenance_is_refused_with_the_field(name, saved):
    path, content = saved
    content["provenance"][name] = OF_PROVENANCE[name]
    path.write_text(json.dumps(content))
    with pytest.raises(FormatError, match=rf"is damaged: provenance\.{name}(\[\d\])? must be"):
        nishimori.load(path)
    del content["provenance"][name]
    path.write_text(json.dumps(content))
    with pytest.raises(FormatError, match=rf"is damaged: provenance\.{name} is missing"):
        nishimori.load(path)


def test_files_with_random_damage_are_read_or_refused_and_nothing_else(saved):
    path, _ = saved
    text, rng = path.read_text(), random.Random(0)
    pieces = ["null", "-1", "1e999", "[]", "{}", '"x"', "true", "[[1]]", "NaN", "0"]
    values = [found.span() for found in re.finditer(r'(?<=: )(?:"[^"]*"|[-+.\deE]+|null|\[[^\]]*\])', text)]
    refused = 0
    for _ in range(150):
        low, high = rng.choice(values)
        path.write_text(text[:low] + rng.choice(pieces) + text[high:])
        try:
            nishimori.load(path).predict_proba(X)
        except NishimoriError:
            refused += 1
    assert refused > 50


def test_the_shell_says_that_multilabel_calibrations_are_for_python(saved, tmp_path):
    np.save(tmp_path / "logits.npy", X)
    result = shell("apply", saved[0], tmp_path / "logits.npy", "-o", tmp_path / "p.npy")
    assert result.code != 0
    assert "is a multilabel calibration. Use it in Python" in " ".join(result.err.split())


def test_the_shell_points_to_python_for_a_table_of_labels(tmp_path):
    np.savez(tmp_path / "scores.npz", logits=X, labels=Y)
    result = shell("fit", tmp_path / "scores.npz", "-o", tmp_path / "calibration.json")
    assert result.code != 0
    assert "use nishimori.multilabel, in Python" in " ".join(result.err.split())


def broken(row, column, value):
    scores = X.copy()
    scores[row, column] = value
    return scores


WANTED = "`y` must have shape (600, 3), one row per sample and one column per label"
REFUSED = {
    "NaN": (
        lambda: MultilabelCalibrator().fit(broken(7, 2, np.nan), Y),
        "`X` must not contain NaN or +inf, got nan in row 7, column 2. Clip the scores, or find where the model produced them.",
    ),
    "a mask": (
        lambda: MultilabelCalibrator(parameters="per_label").fit(broken(0, 1, -np.inf), Y),
        "`X` must be finite where one score stands for two classes, got -inf in row 0, column 1. Clip the "
        "scores, or find where the model produced them.",
    ),
    "logits as probabilities": (
        lambda: MultilabelCalibrator(input="probabilities").fit(np.abs(X), Y),
        f"`X` must be between 0 and 1, got {abs(X[0, 2]):.6g} in row 0, column 2. If these are logits, pass `input='logits'`.",
    ),
    "prediction from NaN": (
        lambda: MultilabelCalibrator().fit(X, Y).predict_proba(broken(7, 2, np.nan)),
        "`X` must not contain NaN or +inf, got nan in row 7, column 2. Clip the scores, or find where the model produced them.",
    ),
    "flat scores": (
        lambda: MultilabelCalibrator().fit(X[:, 0], Y[:, 0]),
        "`X` must have shape (n_samples, n_labels), got (600,). Reshape your data: for one label pass `X.reshape(-1, 1)`, for "
        "one sample `[X]`.",
    ),
    "a table per label, as of a forest": (
        lambda: MultilabelCalibrator().fit([np.c_[1 - X[:, 0], X[:, 0]]] * 3, Y),
        "`X` must have shape (n_samples, n_labels), got 3 tables. If these are a table per label whose second column is the "
        "probability that a sample has it, as a forest gives them, pass `np.stack([table[:, 1] for table in X], axis=1)`.",
    ),
    "no labels": (
        lambda: MultilabelCalibrator().fit(X),
        "`y` must say which labels each sample has, got None: this requires y to be passed, but the target y is None.",
    ),
    "one class per sample": (
        lambda: MultilabelCalibrator().fit(X, Y[:, 0]),
        f"{WANTED}, got (600,). Where each sample has one true class, use nishimori.ExpectationConsistency.",
    ),
    "another number": (lambda: MultilabelCalibrator().fit(X, Y[:, :2]), f"{WANTED}, got (600, 2)."),
    "text": (lambda: MultilabelCalibrator().fit(X, Y.astype(str)), f"{WANTED}, of 0 and 1, got str672."),
    "names in lists": (
        lambda: MultilabelCalibrator().fit(X, [["a"], ["b", "c"]] * 300),
        f"{WANTED}, of 0 and 1, got entries that are not numbers, or rows of different lengths.",
    ),
    "sparse labels": (
        lambda: MultilabelCalibrator().fit(X, scipy.sparse.csr_matrix(Y)),
        "`y` must be a dense array, got a sparse one. Pass `y.toarray()` or `y.to_dense()`.",
    ),
    "an unknown label": (
        lambda: MultilabelCalibrator().fit(X, np.where(X > 9, -1, Y)),
        "`y` must hold 0 and 1, got -1 in row {}, column {}. If this label is not known, pass `missing=-1`.".format(
            *np.argwhere(X > 9)[0]
        ),
    ),
    "signs": (
        lambda: MultilabelCalibrator().fit(X, 2 * Y - 1),
        "`y` must hold 0 and 1, got -1 in row {}, column {}. For the labels -1 and 1 pass `(y + 1) // 2`.".format(
            *np.argwhere(Y == 0)[0]
        ),
    ),
    "scores as labels": (
        lambda: MultilabelCalibrator().fit(Y, X),
        f"`y` must hold 0 and 1, got {X[0, 0]:.6g} in row 0, column 0. Check that scores and labels are not swapped.",
    ),
    "nothing is known": (
        lambda: MultilabelCalibrator(missing=-1).fit(X, np.full_like(Y, -1)),
        "Some label of some sample must be known, got none.",
    ),
    "one sample": (
        lambda: MultilabelCalibrator().fit(X[:1], Y[:1]),
        "`X` must have at least two samples of positive weight, got n_samples = 1.",
    ),
    "missing": (
        lambda: MultilabelCalibrator(missing=0).fit(X, Y),
        "`missing` must be a number other than 0 and 1, such as -1 or float('nan'), got 0.",
    ),
    "parameters": (
        lambda: MultilabelCalibrator(parameters="each").fit(X, Y),
        "`parameters` must be 'shared', 'per_label' or 'shrunk', got 'each'.",
    ),
    "a method that cannot be shrunk": (
        lambda: MultilabelCalibrator("bias").fit(X, Y),
        "`parameters` must be 'shared' or 'per_label' for the method 'bias': only the temperatures of 'ec' and 'ts' can be "
        "shrunk.",
    ),
    "smoothed labels, which cannot be shrunk": (
        lambda: MultilabelCalibrator(nishimori.TemperatureScaling(smooth_labels=True)).fit(X, Y),
        "`parameters` must be 'shared' or 'per_label' for the method 'ts' with such parameters: only the temperatures of 'ec' "
        "and 'ts' can be shrunk.",
    ),
    "no calibrator": (
        lambda: MultilabelCalibrator(2.0).fit(X, Y),
        "`calibrator` must be the name of a method, such as 'ec', or a calibrator, got 2.0.",
    ),
    "a class": (
        lambda: MultilabelCalibrator(nishimori.TemperatureScaling).fit(X, Y),
        "`calibrator` must be the name of a method or a calibrator, got a class. Pass `TemperatureScaling()`.",
    ),
    "input in the wrong place": (
        lambda: MultilabelCalibrator(nishimori.TemperatureScaling(input="probabilities")).fit(X, Y),
        "`calibrator` must leave out `input`, got 'probabilities'. Pass `input` to MultilabelCalibrator.",
    ),
    "a name too few": (
        lambda: MultilabelCalibrator(labels=["a", "b"]).fit(X, Y),
        "`labels` must name 3 labels, one per column of `X`, got 2.",
    ),
    "a name twice": (
        lambda: MultilabelCalibrator(labels=["a", "a", "b"]).fit(X, Y),
        "`labels` must name each label once, got ['a', 'a', 'b'].",
    ),
    "one name": (
        lambda: MultilabelCalibrator(labels="abc").fit(X, Y),
        "`labels` must be a list with the name of each label, got 'abc'.",
    ),
    "names of another type": (
        lambda: MultilabelCalibrator(labels=[None, "a", "b"]).fit(X, Y),
        "`labels` must be text or numbers, got [None, 'a', 'b'].",
    ),
    "a loader": (
        lambda: MultilabelCalibrator().fit(nishimori.rows([(X, Y)])),
        "`X` must be an array of shape (n_samples, n_labels), the path of a .npy file or an array in chunks, got a StreamRows. "
        "Batches and tables cannot be read here: collect the scores first.",
    ),
    "a table": (
        lambda: MultilabelCalibrator().fit("scores.csv", "labels"),
        "`X` must be an array of shape (n_samples, n_labels), the path of a .npy file or an array in chunks, got a str. "
        "Batches and tables cannot be read here: collect the scores first.",
    ),
    "PyTorch": (
        lambda: nishimori_torch.Calibrated(torch.nn.Linear(2, 3), MultilabelCalibrator().fit(X, Y)),
        "`temperature` must be a number, a map or a fitted calibrator, got a MultilabelCalibrator without a map. Call its "
        "`fit`, or `calibrate(model, loader, method=calibrator)`. A calibrator of several labels per sample has several maps: "
        "use `calibrator.predict_proba(model(x))`.",
    ),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_used_is_refused_with_this_message(call, message):
    with pytest.raises(InputError) as error:
        call()
    assert str(error.value) == message


def test_columns_in_another_order_than_the_labels_are_refused():
    scores, labels = pd.DataFrame(X, columns=["b", "a", "c"]), pd.DataFrame(Y, columns=["a", "b", "c"])
    with pytest.raises(InputError) as error:
        MultilabelCalibrator().fit(scores, labels)
    assert str(error.value) == (
        "The columns of `X` must be in the order of the labels, ['a', 'b', 'c'], got ['b', 'a', 'c']. Pass "
        "`X[['a', 'b', 'c']]`."
    )


def test_logits_that_look_like_probabilities_are_warned_of():
    found = MultilabelCalibrator().fit(X, Y)
    words = "All `X` lie between 0 and 1, as probabilities do. If these are probabilities, fit a calibrator with `input='prob"
    with pytest.warns(InputWarning, match=re.escape(words)):
        found.predict_proba(sigmoid(X))
    with pytest.warns(InputWarning, match=re.escape(words.replace("`X`", "`logits`"))):
        nishimori.multilabel.evaluate_multilabel(sigmoid(X), Y, calibrator=found)
    words = r"must be declared as logits or probabilities, .* Pass `input='probabilities'` if these are probabilities, or"
    with pytest.raises(InputError, match=f"^`logits` {words}"):
        nishimori.multilabel.evaluate_multilabel(sigmoid(X), Y)
    with pytest.raises(InputError, match=f"^`X` {words}"):
        MultilabelCalibrator().fit(sigmoid(X), Y)
    assert MultilabelCalibrator(input="probabilities").fit(sigmoid(X), Y).input_ == "probabilities"
