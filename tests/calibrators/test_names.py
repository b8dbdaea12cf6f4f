"""Names of scikit-learn for two methods, and labels of two classes that need no `classes`."""

import numpy as np
import pytest
import reference
from shell import nishimori as shell
from sklearn.linear_model import LogisticRegression

import nishimori
from nishimori import CalibratedClassifier
from nishimori.errors import InputError

LOGITS, LABELS = reference.drawn(400, 2)
SCORES = LOGITS[:, 1] - LOGITS[:, 0]
TEXT = np.array(["no", "yes"])[LABELS]


@pytest.mark.parametrize(("name", "own"), [("sigmoid", "platt"), ("temperature", "ts"), ("temperature+ec", "ts+ec")])
def test_a_name_of_scikit_learn_is_the_method(name, own, tmp_path):
    one, other = (nishimori.calibrator(each).fit(LOGITS, LABELS) for each in (name, own))
    assert one.method_name == own
    np.testing.assert_array_equal(one.predict_proba(LOGITS), other.predict_proba(LOGITS))
    one.save(tmp_path / "one.json")
    assert f'"{own}"' in (tmp_path / "one.json").read_text(encoding="utf-8")


def test_it_can_be_typed_wherever_methods_can(tmp_path):
    assert (
        type(CalibratedClassifier(LogisticRegression(), "sigmoid").fit(LOGITS, LABELS).calibrator_)
        is nishimori.calibrators.Platt
    )
    assert nishimori.Best(["temperature", "sigmoid"]).fit(LOGITS, LABELS).chosen_ in ("ts", "platt")
    np.savez(tmp_path / "val.npz", logits=LOGITS, labels=LABELS)
    for name, own in (("sigmoid", "platt"), ("temperature", "ts")):
        shell("fit", tmp_path / "val.npz", "-o", tmp_path / f"{name}.json", "--method", name)
        assert nishimori.load(tmp_path / f"{name}.json").method_name == own


def test_it_is_not_free_and_not_listed():
    assert not {"sigmoid", "temperature"} & {*nishimori.methods()}
    with pytest.raises(InputError, match="be new, got 'sigmoid', which is 'platt'"):
        nishimori.register("sigmoid", nishimori.calibrators.Platt)
    with pytest.raises(InputError, match="Did you mean 'ts'"):
        nishimori.calibrator("Temperature")


@pytest.mark.parametrize("method", ["platt", "beta", "quadratic"])
@pytest.mark.parametrize("X", [SCORES, LOGITS])
@pytest.mark.parametrize("kind", [np.asarray, list, lambda labels: np.asarray(labels, dtype=object)])
def test_two_texts_are_in_the_order_of_scikit_learn(method, X, kind, tmp_path):
    fitted, expected = nishimori.calibrator(method).fit(X, kind(TEXT)), nishimori.calibrator(method).fit(X, LABELS)
    assert fitted.classes_.tolist() == ["no", "yes"]
    assert fitted.classes is None
    np.testing.assert_array_equal(fitted.predict_proba(X), expected.predict_proba(X))
    assert fitted.predict(X).tolist() == np.array(["no", "yes"])[expected.predict(X)].tolist()
    assert fitted.score(X, TEXT) == expected.score(X, LABELS)
    fitted.save(tmp_path / "fitted.json")
    assert nishimori.load(tmp_path / "fitted.json").predict(X).tolist() == fitted.predict(X).tolist()


def test_so_are_minus_one_and_one():
    fitted = nishimori.calibrator("platt").fit(SCORES, 2 * LABELS - 1)
    assert fitted.classes_.tolist() == [-1, 1]
    assert set(fitted.predict(SCORES).tolist()) == {-1, 1}


def test_columns_with_the_names_of_the_classes_must_be_in_that_order():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(LOGITS[:, ::-1], columns=["yes", "no"])
    with pytest.raises(InputError, match="order"):
        nishimori.calibrator("platt").fit(table, TEXT)


@pytest.mark.parametrize(
    "labels",
    [np.where(LABELS == 1, "a", np.where(np.arange(400) % 2, "b", "c")), np.full(400, "a"), np.array(["0.5", "1"])[LABELS]],
)
def test_other_texts_need_classes(labels):
    with pytest.raises(InputError):
        nishimori.calibrator("platt").fit(SCORES, labels)


def test_a_fit_that_fails_keeps_the_labels():
    fitted = nishimori.calibrator("platt").fit(SCORES, TEXT)
    before = fitted.predict(SCORES).tolist()
    with pytest.raises(InputError):
        fitted.fit(np.full(400, np.nan), LABELS)
    assert fitted.predict(SCORES).tolist() == before
    assert fitted.fit(SCORES, LABELS).predict(SCORES).dtype.kind == "i"


def test_a_label_to_ignore_is_no_class():
    labels = np.where(np.arange(400) % 5, LABELS, -1)
    fitted = nishimori.calibrator("platt").fit(SCORES, labels, ignore_index=-1)
    assert fitted.classes_.tolist() == [0, 1]
