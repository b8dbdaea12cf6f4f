"""A calibrator of members remembers how many there were, and predicts for as many."""

import json
import pickle

import numpy as np
import pytest
import reference
from optional import torch
from scipy.special import log_softmax, logsumexp
from shell import nishimori as shell

import nishimori
from nishimori.errors import FormatError, InputError

M, N, K = 5, 600, 4
DRAWN, LABELS = reference.drawn(N, K)
MEMBERS = DRAWN + 2 * np.random.default_rng(1).normal(size=(M, N, K))
POOLED = logsumexp(log_softmax(MEMBERS, axis=2), axis=0) - np.log(M)


@pytest.fixture(scope="module")
def fitted():
    return nishimori.ExpectationConsistency().fit(MEMBERS, LABELS, member_axis=0)


@pytest.mark.parametrize("method", ["ec", "ts", "adaptive", "vector", "bias", "isotonic", "vector+ec", "group", "none"])
@pytest.mark.filterwarnings("ignore::nishimori.errors.InputWarning")
def test_every_method_calibrates_the_average(method, tmp_path):
    of_members = nishimori.calibrator(method).fit(MEMBERS, LABELS, member_axis=0)
    of_table = nishimori.calibrator(method).fit(POOLED, LABELS)
    of_members.save(tmp_path / "calibration.json")
    for calibrator in (of_members, nishimori.load(tmp_path / "calibration.json"), pickle.loads(pickle.dumps(of_members))):
        assert calibrator.members_ == (M, 0)
        np.testing.assert_allclose(calibrator.predict_proba(MEMBERS[:, :9]), of_table.predict_proba(POOLED[:9]), rtol=1e-6)
        np.testing.assert_array_equal(calibrator.predict(MEMBERS), of_table.predict(POOLED))
    assert of_table.members_ is None


def test_the_temperature_is_that_of_the_average(fitted):
    assert fitted.temperature_ == pytest.approx(reference.ec_temperature(POOLED, LABELS), rel=1e-8)
    np.testing.assert_allclose(fitted.transform(MEMBERS), POOLED / fitted.temperature_, atol=1e-9)
    assert fitted.score(MEMBERS, LABELS) == (POOLED.argmax(axis=1) == LABELS).mean()


def test_rows_of_members_fit_the_same(fitted):
    again = nishimori.ExpectationConsistency().fit(nishimori.rows(MEMBERS, LABELS, member_axis=0))
    assert (again.temperature_, again.members_) == (fitted.temperature_, fitted.members_)
    batches = [(MEMBERS[:, i : i + 200], LABELS[i : i + 200]) for i in range(0, N, 200)]
    of_batches = nishimori.ExpectationConsistency().fit(batches, member_axis=0)
    assert of_batches.temperature_ == pytest.approx(fitted.temperature_, rel=1e-8)
    assert of_batches.members_ == (M, 0)


def test_members_last_but_one_are_predicted_there():
    calibrator = nishimori.TemperatureScaling().fit(np.moveaxis(MEMBERS, 0, 1), LABELS, member_axis=-2)
    expected = nishimori.TemperatureScaling().fit(POOLED, LABELS).predict_proba(POOLED[:7])
    np.testing.assert_allclose(calibrator.predict_proba(np.moveaxis(MEMBERS[:, :7], 0, 1)), expected, rtol=1e-9)


def test_predictions_are_in_the_library_of_the_members(fitted):
    found = fitted.predict_proba(torch.tensor(MEMBERS[:, :6], dtype=torch.float32))
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found, fitted.predict_proba(MEMBERS[:, :6]), atol=1e-6)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (MEMBERS[:3], r"^`X` must have as many members as the calibrator was fitted to, 5, got 3\. T belongs to the number"),
        (POOLED, r"^`X` must have dimension 0 for the 5 members that the calibrator was fitted to, got shape \(600, 4\)"),
        (MEMBERS[..., :3], r"^`X` must have 4 columns|X has 3 features"),
    ],
)
def test_other_members_are_refused(fitted, X, message):
    for predict in (fitted.predict_proba, fitted.predict, fitted.transform, fitted.predict_log_proba):
        with pytest.raises(InputError, match=message):
            predict(X)


def test_functions_refuse_a_calibrator_of_other_members(fitted):
    own = nishimori.evaluate(MEMBERS, LABELS, member_axis=0, temperature=fitted.temperature_)
    with pytest.warns(nishimori.errors.SameRowsWarning):
        assert nishimori.evaluate(MEMBERS, LABELS, member_axis=0, calibrator=fitted).nll == pytest.approx(own.nll, rel=1e-12)
    for logits, options in ((POOLED, {}), (MEMBERS[:3], {"member_axis": 0}), (nishimori.rows(POOLED, LABELS), {})):
        labels = LABELS if isinstance(logits, np.ndarray) else None
        with pytest.raises(InputError, match="`logits` must have as many members as the calibrator was fitted to, 5, got"):
            nishimori.evaluate(logits, labels, calibrator=fitted, **options)
    alone = nishimori.ExpectationConsistency().fit(POOLED, LABELS)
    with pytest.raises(InputError, match="`logits` must have as many members as the calibrator was fitted to, 1, got 5"):
        nishimori.evaluate(MEMBERS, LABELS, member_axis=0, calibrator=alone)
    with pytest.raises(InputError, match="must have as many members as the calibrator was fitted to, 5, got 1"):
        nishimori.compare(POOLED, LABELS, methods={"own": fitted})


def test_other_frequencies_are_those_of_as_many_members():
    calibrator = nishimori.BiasCorrected().fit(MEMBERS, LABELS, member_axis=0)
    changed = calibrator.with_prevalence([0.4, 0.2, 0.2, 0.2])
    assert changed.members_ == (M, 0)
    assert changed.predict_proba(MEMBERS[:, :3]).shape == (3, K)


def test_binary_scores_of_members_are_one_column():
    scores = 2 * np.random.default_rng(3).normal(size=(M, N))
    p = (1 / (1 + np.exp(-scores))).mean(axis=0)
    labels = (np.random.default_rng(4).random(N) < p).astype(int)
    of_members = nishimori.calibrators.Platt().fit(scores, labels, member_axis=0)
    of_table = nishimori.calibrators.Platt().fit(np.log(p / (1 - p)), labels)
    np.testing.assert_allclose(of_members.predict_proba(scores), of_table.predict_proba(np.log(p / (1 - p))), rtol=1e-6)
    assert of_members.transform(scores).shape == (N,)
    assert of_members.get_feature_names_out().tolist() == of_table.get_feature_names_out().tolist()


def test_probabilities_of_members_warn_a_calibrator_of_logits(fitted):
    with pytest.warns(nishimori.errors.InputWarning, match="Each row of `X` sums to 1"):
        fitted.predict_proba(np.exp(log_softmax(MEMBERS, axis=2)))


@pytest.mark.parametrize("members", [{"size": 0, "axis": 0}, {"size": 5, "axis": 0.5}, {"size": 5}, [5, 0]])
def test_a_file_with_impossible_members_is_damaged(fitted, members, tmp_path):
    fitted.save(tmp_path / "calibration.json")
    content = json.loads((tmp_path / "calibration.json").read_text(encoding="utf-8"))
    assert content["provenance"]["members"] == {"size": M, "axis": 0}
    content["provenance"]["members"] = members
    (tmp_path / "other.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(FormatError, match=r"is damaged: provenance\.members"):
        nishimori.load(tmp_path / "other.json")


def test_the_shell_refuses_members_and_shows_them(fitted, tmp_path):
    fitted.save(tmp_path / "calibration.json")
    np.savez(tmp_path / "new.npz", logits=POOLED, labels=LABELS)
    for command in ("apply calibration.json new.npz -o out.npz", "eval new.npz --calibration calibration.json"):
        ended = shell(command, place=tmp_path)
        assert ended.code == 1
        assert "must be fitted to scores without members to be used for files, got one of 5 members" in " ".join(
            ended.err.split()
        )
    assert "600 samples of 5 members" in " ".join(shell("show calibration.json", place=tmp_path).out.split())


def test_arrays_of_dask_have_no_members(fitted):
    chunks = pytest.importorskip("dask.array").from_array(MEMBERS, chunks=(M, 200, K))
    with pytest.raises(InputError, match="must be fitted to scores without members to be used for arrays of Dask"):
        fitted.predict_proba(chunks)
    with pytest.raises(InputError, match=r"^`member_axis` must be left out except for arrays and batches"):
        nishimori.evaluate(chunks, LABELS, member_axis=0)
