"""What a calibrated classifier shows of itself: the method that was chosen, a link to its page, arrays of the library of X."""

import os
import subprocess
import sys

import pytest
from optional import torch
from sklearn.linear_model import LogisticRegression
from small_problems import three_classes

from nishimori import Best, CalibratedClassifier, calibrators
from nishimori.multilabel import MultilabelCalibrator

X, Y = three_classes()
PAGE = "https://nishimori-project.github.io/nishimori/api/calibrators/#"


@pytest.mark.parametrize("ensemble", [False, "pooled"])
def test_the_chosen_method_is_named(ensemble):
    fitted = CalibratedClassifier(LogisticRegression(max_iter=500), ensemble=ensemble).fit(X, Y)
    assert fitted.chosen_ == fitted.calibrator_.chosen_
    assert fitted.chosen_ in fitted._repr_html_()
    assert fitted.with_prevalence([0.2, 0.3, 0.5]).chosen_ == fitted.chosen_ or fitted.chosen_ in ("ec", "ts", "adaptive")


def test_each_fold_of_an_ensemble_has_its_own():
    fitted = CalibratedClassifier(LogisticRegression(max_iter=500), Best(["ts", "vector"]), ensemble=True).fit(X, Y)
    assert fitted.chosen_ == [pair.calibrator.chosen_ for pair in fitted.calibrated_classifiers_]
    assert len(fitted.chosen_) == 5
    assert not hasattr(fitted.set_params(calibrator="ts").fit(X, Y), "chosen_")


@pytest.mark.parametrize(
    ("estimator", "path"),
    [
        (CalibratedClassifier(), "nishimori.CalibratedClassifier"),
        (Best(), "nishimori.Best"),
        (calibrators.Quadratic(), "nishimori.calibrators.Quadratic"),
        (MultilabelCalibrator(), "nishimori.multilabel.MultilabelCalibrator"),
    ],
)
def test_html_links_to_the_page_of_the_class(estimator, path):
    assert f"{PAGE}{path}" in estimator._repr_html_()


def test_a_calibrator_of_ones_own_has_no_page_here():
    class Own(calibrators.Quadratic):
        """Another parabola."""

    assert PAGE not in Own()._repr_html_()


ARRAYS = """
import numpy as np, sklearn, torch
from sklearn.datasets import make_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from nishimori import CalibratedClassifier
X, y = make_classification(300, 5, random_state=0)
expected = CalibratedClassifier(LinearDiscriminantAnalysis(), "ts").fit(X, y)
with sklearn.config_context(array_api_dispatch=True):
    for ensemble in (False, "pooled", True):
        model = CalibratedClassifier(LinearDiscriminantAnalysis(), "ts", ensemble=ensemble)
        fitted = model.fit(torch.tensor(X), torch.tensor(y))
        p, log_p = fitted.predict_proba(torch.tensor(X)), fitted.predict_log_proba(torch.tensor(X))
        labels = fitted.predict(torch.tensor(X))
        assert all(isinstance(each, torch.Tensor) for each in (p, log_p, labels)), (type(p), type(log_p), type(labels))
        assert p.dtype == torch.float64 and labels.dtype == torch.int64
        assert fitted.score(torch.tensor(X), torch.tensor(y)) > 0.8
        if not ensemble:
            np.testing.assert_allclose(p.numpy(), expected.predict_proba(X), rtol=1e-5)
            assert labels.tolist() == expected.predict(X).tolist()
assert type(expected.predict_proba(torch.tensor(X))) is np.ndarray
print("as expected")
"""


def test_arrays_of_another_library_give_such_arrays_where_scikit_learn_dispatches():
    assert torch.__name__ == "torch"  # skipped where it is not installed
    command = [sys.executable, "-W", "ignore", "-c", ARRAYS]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"SCIPY_ARRAY_API": "1"})
    assert done.stdout.strip() == "as expected", done.stderr
