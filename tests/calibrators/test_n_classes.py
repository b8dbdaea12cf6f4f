"""Every calibrator knows how many classes it was fitted to, also after it was saved, and refuses other shapes."""

import json

import numpy as np
import pytest
import reference

import nishimori
from nishimori.errors import InputError

PREDICTIONS = ("predict_proba", "predict_log_proba", "predict", "transform")

SHAPES = {
    2: [(6, 3), (6, 1), (2, 3, 3), (2, 2, 7), (2, 3, 1)],
    4: [(6,), (6, 3), (6, 5), (6, 1), (2, 3, 3), (2, 4, 7), (2, 3, 1)],
}
"""By the number of classes: shapes that must be refused."""

BINARY = ("platt", "beta", "quadratic", "intercept")
CASES = [(name, n_classes) for name in nishimori.methods() for n_classes in ((2,) if name in BINARY else (2, 4))]


@pytest.mark.filterwarnings("ignore::nishimori.errors.InputWarning")
@pytest.mark.parametrize(("name", "n_classes"), CASES)
def test_other_shapes_are_refused_by_every_method_before_and_after_saving(name, n_classes, tmp_path):
    logits, labels = reference.drawn(600, n_classes)
    fitted = nishimori.calibrator(name).fit(logits, labels)
    fitted.save(tmp_path / "c.json")
    rng = np.random.default_rng(0)
    for calibrator in (fitted, nishimori.load(tmp_path / "c.json")):
        for shape in SHAPES[n_classes]:
            scores = rng.normal(size=shape)
            for method in PREDICTIONS:
                with pytest.raises(InputError):
                    getattr(calibrator, method)(scores)
            with pytest.raises(InputError):
                nishimori.evaluate(scores, np.zeros(shape[:-1] or shape, dtype=int), calibrator=calibrator)
        assert calibrator.predict_proba(rng.normal(size=(2, 3, n_classes))).shape == (2, 3, n_classes)


@pytest.mark.parametrize("name", ["ts", "mixture"])
def test_a_file_without_the_number_takes_any(name, tmp_path):
    path = tmp_path / "c.json"
    nishimori.calibrator(name).fit(*reference.drawn(600, 4)).save(path)
    content = json.loads(path.read_text())
    assert content["provenance"]["n_classes"] == 4
    content["provenance"]["n_classes"] = None
    path.write_text(json.dumps(content))
    assert nishimori.load(path).predict_proba(np.zeros((3, 7))).shape == (3, 7)


def test_a_temperature_that_somebody_knows_takes_any_unless_it_has_names():
    assert nishimori.from_temperature(2.0).predict_proba(np.zeros((3, 7))).shape == (3, 7)
    with pytest.raises(InputError, match="expecting 2 features"):
        nishimori.from_temperature(2.0, classes=["no", "yes"]).predict_proba(np.zeros((3, 7)))
