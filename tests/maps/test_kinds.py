"""What a map of one's own claims is checked on some rows: a wrong claim would give a wrong accuracy in silence."""

import pickle
import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import reference

import nishimori
from nishimori import Map, evaluate
from nishimori._methods.record import Provenance, Record
from nishimori._support.arrays import namespace
from nishimori.errors import InputError
from nishimori.maps.kinds import KINDS, check_claims, claims_to_check

LOGITS, LABELS = reference.drawn(2000, 4)


@dataclass(frozen=True)
class Shift(Map):
    """Adds a number to the first class."""

    by: float = 2.0
    keeps_predictions: bool = True
    kind: ClassVar[str] = "shift"

    def apply(self, logits, groups=None):
        xp = namespace(logits)
        added = np.zeros(logits.shape[1])
        added[0] = self.by
        return logits + xp.asarray(added, dtype=logits.dtype)

    @property
    def parameters(self):
        return {"by": self.by}


@dataclass(frozen=True)
class Single(Map):
    """An increasing function, computed in single precision from logits that it centres."""

    temperature: float = 1.7
    keeps_predictions: ClassVar[bool] = True
    kind: ClassVar[str] = "single"

    def apply(self, logits, groups=None):
        z = np.asarray(logits, dtype=np.float32)
        return np.asarray((z - z.mean(axis=1, keepdims=True)) / np.float32(self.temperature), dtype=logits.dtype)

    @property
    def parameters(self):
        return {"temperature": self.temperature}


class Steps(Single):
    """Equal logits for most classes: the largest is still one of the largest."""

    kind = "steps"

    def apply(self, logits, groups=None):
        return np.minimum(logits, 0.5)


ERROR = (
    r"^A map of the class Shift claims `keeps_predictions = True`, but it changes the predicted class of a row from (\d) to 0: "
    r"it turns their logits (.*) and (.*) into (.*) and (.*)\. Set `keeps_predictions = False` in the class Shift\.$"
)


class Chosen(nishimori.Calibrator):
    """A calibrator of one's own, which chooses a map of one's own."""

    def __init__(self, map, *, input="logits", classes=None, floor=None):
        self.map, self.input, self.classes, self.floor = map, input, classes, floor

    def fit(self, X, y=None, sample_weight=None):
        data = self.rows_from(X, y, sample_weight)
        return self.learn(X, data, self.map, 1)


def test_without_the_claim_accuracy_is_that_of_the_probabilities():
    honest = Shift(keeps_predictions=False)
    p = reference.softmax(LOGITS + 2.0 * (np.arange(4) == 0))
    fitted = Chosen(honest).fit(LOGITS, LABELS)
    assert evaluate(LOGITS, LABELS, calibrator=fitted).accuracy == pytest.approx((p.argmax(axis=1) == LABELS).mean())
    assert evaluate(LOGITS, LABELS, calibrator=honest).accuracy < (LOGITS.argmax(axis=1) == LABELS).mean() - 0.02


def test_the_error_names_the_class_and_a_row_whose_prediction_changes():
    with pytest.raises(InputError, match=ERROR) as error:
        evaluate(LOGITS, LABELS, calibrator=Shift())
    top, *logits = re.match(ERROR, str(error.value)).groups()
    (before, other), (after, first) = np.array(logits, float).reshape(2, 2)
    assert np.abs(LOGITS[:, [int(top), 0]] - [before, other]).max(axis=1).min() < 1e-3 * np.abs(LOGITS).max()
    np.testing.assert_allclose([after - before, first - other], [0, 2], atol=0.01)
    assert before > other
    assert first > after


def tensors():
    torch = pytest.importorskip("torch")
    return torch.tensor(LOGITS), torch.tensor(LABELS)


def in_chunks():
    return pytest.importorskip("dask.array").from_array(LOGITS, 500), LABELS


def strict():
    return pytest.importorskip("array_api_strict").asarray(LOGITS), LABELS


USES = {
    "evaluate": lambda: evaluate(LOGITS, LABELS, calibrator=Shift()),
    "evaluate by quantiles": lambda: evaluate(LOGITS, LABELS, calibrator=Shift(), strategy="quantile"),
    "evaluate a stream": lambda: evaluate(nishimori.rows(lambda: [(LOGITS, LABELS)]), calibrator=Shift()),
    "evaluate tensors": lambda: evaluate(*tensors(), calibrator=Shift()),
    "evaluate Dask's arrays": lambda: evaluate(*in_chunks(), calibrator=Shift()),
    "gate": lambda: nishimori.gate(LOGITS, LABELS, bounds={"ece": 0.9}, calibrator=Shift()),
    "calibration_test": lambda: nishimori.calibration_test(LOGITS, LABELS, calibrator=Shift()),
    "group_gaps": lambda: nishimori.group_gaps(LOGITS, LABELS, calibrator=Shift()),
    "FixedMap": lambda: nishimori.calibrators.FixedMap(Shift()).fit(LOGITS, LABELS),
    "a calibrator of one's own": lambda: Chosen(Shift()).fit(LOGITS, LABELS),
    "a calibrator, fitted to a stream": lambda: Chosen(Shift()).fit(nishimori.rows(lambda: [(LOGITS, LABELS)])),
    "a calibrator, fitted to Dask's arrays": lambda: Chosen(Shift()).fit(*in_chunks()),
    "a calibrator, fitted to array_api_strict": lambda: Chosen(Shift()).fit(*strict()),
    "a calibrator, fitted to a sketch": lambda: Chosen(Shift()).fit(nishimori.Sketch().update(LOGITS, LABELS)),
    "compare": lambda: nishimori.compare(LOGITS, LABELS, methods=[Chosen(Shift())]),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_map_that_does_not_keep_predictions_as_it_claims_is_refused(use):
    with pytest.raises(InputError, match="A map of the class Shift claims `keeps_predictions = True`, but it changes"):
        use()


def test_a_fit_that_is_refused_leaves_the_calibrator_as_it_was():
    calibrator = Chosen(Shift(0.0)).fit(LOGITS, LABELS)
    with pytest.raises(InputError, match="claims"):
        calibrator.set_params(map=Shift()).fit(LOGITS, LABELS)
    assert calibrator.map_ == Shift(0.0)


def test_a_claim_is_checked_when_a_calibrator_is_restored_or_unpickled():
    record = Record(Shift(), "logits", Provenance("own", n_classes=4))
    with pytest.raises(InputError, match=ERROR):
        nishimori.calibrators.FixedMap(Shift())._restore(record)
    fitted = Chosen(Shift(keeps_predictions=False)).fit(LOGITS, LABELS)
    assert pickle.loads(pickle.dumps(fitted)).map_ == fitted.map_
    fitted.map_ = Shift()
    with pytest.raises(InputError, match=ERROR):
        pickle.loads(pickle.dumps(fitted))


def test_a_restored_map_whose_number_of_classes_is_not_known_cannot_be_checked():
    record = Record(Shift(), "logits", Provenance("own"))
    assert nishimori.calibrators.FixedMap(Shift())._restore(record).map_ == Shift()


@pytest.mark.parametrize("made", [Single, Steps])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_rounding_and_ties_do_not_break_a_claim(made, offset):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(4000, 6)) + offset
    rows[::3, 1] = rows[::3].max(axis=1)  # ties
    rows[1::3, 2] = np.nextafter(rows[1::3].max(axis=1), np.inf)  # near ties
    rows[::5, 4] = -np.inf if made is Steps else offset - 50  # the mean of a row with a mask would be infinite
    labels = rng.integers(4, size=4000)
    assert Chosen(made(), input="logits").fit(rows, labels).map_ == made()
    assert evaluate(rows, labels, calibrator=made(), input="logits").n_samples == 4000


def test_a_change_in_one_row_of_fifty_is_found():
    rows = np.tile([2.0, -1.0, -1.0], (5000, 1))
    rows[::50] = [-1.0, 0.0, -1.0]
    with pytest.raises(InputError, match="from 1 to 0"):
        evaluate(rows, np.zeros(5000, int), calibrator=Shift())


def test_a_row_is_shown_by_its_two_classes():
    rows = np.zeros((3, 20))
    rows[:, 7] = 1.0
    with pytest.raises(InputError, match=r"from 7 to 0: it turns their logits 1 and 0 into 1 and 2\."):
        check_claims(Shift(), rows, Shift().apply(rows))


def test_only_claims_of_maps_of_ones_own_cost_a_check():
    maps = (
        nishimori.maps.Affine(0.5, np.ones(3), 2.0),
        nishimori.maps.Mixture(2.0, [0.5, 0.5, 0.0]),
        nishimori.maps.Temperature(2.0),
    )
    assert {each.kind for each in maps} <= set(KINDS)
    assert not any(map(claims_to_check, maps))
    assert claims_to_check(Shift())
    assert not claims_to_check(Shift(keeps_predictions=False))

    class Own(nishimori.maps.Temperature):
        """Of one's own, though it has the kind of another."""

    assert claims_to_check(Own(2.0))
