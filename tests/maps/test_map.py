"""What `apply` of a map of one's own may not do: change its argument, or return something else than logits."""

import numpy as np
import pytest
import reference
from optional import torch

import nishimori
from nishimori.errors import InputError
from nishimori.maps.map import apply_checked

LOGITS, LABELS = reference.drawn(600, 4)


class Own(nishimori.Map):
    """A map whose `apply` is a function that is given."""

    def __init__(self, rule):
        self.rule = rule

    def apply(self, logits, groups=None):
        return self.rule(logits)

    @property
    def parameters(self):
        return {}


def halved_in_place(logits):
    logits /= 2
    return logits


def filled_in_place(logits):
    logits[:, 0] = 0
    return logits


USES = {
    "evaluate": lambda map_, logits: nishimori.evaluate(logits, LABELS, calibrator=map_).confidence,
    "compare": lambda map_, logits: nishimori.compare(logits, LABELS, methods=("none", nishimori.calibrators.FixedMap(map_))),
    "predict_proba": lambda map_, logits: nishimori.calibrators.FixedMap(map_).fit(LOGITS, LABELS).predict_proba(logits),
    "predict_log_proba": lambda map_, logits: (
        nishimori.calibrators.FixedMap(map_).fit(LOGITS, LABELS).predict_log_proba(logits)
    ),
    "predict": lambda map_, logits: nishimori.calibrators.FixedMap(map_).fit(LOGITS, LABELS).predict(logits),
    "transform": lambda map_, logits: nishimori.calibrators.FixedMap(map_).fit(LOGITS, LABELS).transform(logits),
    "gate": lambda map_, logits: nishimori.gate(logits, LABELS, calibrator=map_, bounds={"ece": 0.1}),
}


@pytest.mark.parametrize("rule", [halved_in_place, filled_in_place])
@pytest.mark.parametrize("use", USES)
def test_a_map_that_changes_its_argument_is_refused_and_the_logits_stay(use, rule):
    given = LOGITS.copy()
    with pytest.raises(InputError) as caught:
        USES[use](Own(rule), given)
    assert str(caught.value) == (
        "`Own.apply` must return a new array, got a change of `logits` in place. Write `logits = logits / 2`, say, in place of "
        "`logits /= 2`."
    )
    np.testing.assert_array_equal(given, LOGITS)


@pytest.mark.parametrize("use", ["evaluate", "predict_proba", "transform"])
def test_tensors_stay_as_they_are_too(use):
    given = torch.from_numpy(LOGITS.copy())
    with pytest.raises(InputError, match="must return a new array"):  # NumPy computes what is on the CPU
        USES[use](Own(halved_in_place), given)
    np.testing.assert_allclose(apply_checked(Own(halved_in_place), given).numpy(), LOGITS / 2)
    np.testing.assert_array_equal(given.numpy(), LOGITS)


def test_errors_of_a_map_that_are_not_about_its_argument_are_its_own():
    def refused(logits):
        raise ValueError("no such thing")

    with pytest.raises(ValueError, match=r"^no such thing$"):
        USES["evaluate"](Own(refused), LOGITS)


def test_what_is_returned_can_be_changed_without_harm_to_the_logits():
    given = LOGITS.copy()
    for rule in (lambda logits: logits, lambda logits: logits[:, ::-1]):
        found = USES["transform"](Own(rule), given)
        found += 1
    np.testing.assert_array_equal(given, LOGITS)


def with_a(value, where=np.s_[3, 0]):
    def rule(logits):
        found = np.array(logits, dtype=float)
        found[where] = value
        return found

    return rule


FINITE = "return finite logits, or -inf for some classes of a row"
TABLE = "return an array of numbers of the shape of `logits`, (600, 4)"
REFUSED = {
    "NaN": (with_a(np.nan), f"{FINITE}, got NaN."),
    "infinite": (with_a(np.inf), f"{FINITE}, got +inf."),
    "no class left": (with_a(-np.inf, np.s_[3]), f"{FINITE}, got -inf for all classes of a row."),
    "fewer columns": (lambda logits: logits[:, :3], f"{TABLE}, got shape (600, 3)."),
    "one number per row": (lambda logits: logits.max(axis=1), f"{TABLE}, got shape (600,)."),
    "nothing": (lambda logits: None, f"{TABLE}, got a NoneType."),
    "text": (lambda logits: logits.astype(str), f"{TABLE}, got the type str1024."),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("what", REFUSED)
def test_what_are_no_logits_is_refused_with_the_name_of_the_map(what, use):
    rule, message = REFUSED[what]
    with pytest.raises(InputError) as caught:
        USES[use](Own(rule), LOGITS)
    assert str(caught.value) == f"`Own.apply` must {message}"


def test_a_map_may_mask_a_class_and_return_whole_numbers():
    masked = USES["predict_proba"](Own(with_a(-np.inf)), LOGITS)
    assert masked[3, 0] == 0
    np.testing.assert_allclose(masked[3, 1:], reference.softmax(LOGITS[3:4, 1:])[0])
    whole = USES["predict_proba"](Own(lambda logits: np.round(logits).astype(int)), LOGITS)
    np.testing.assert_allclose(whole, reference.softmax(np.round(LOGITS)))


def test_a_fit_refuses_a_map_that_changes_its_argument():
    class Scaling(nishimori.calibrators.SeveralParameters):
        def __init__(self, *, input="logits", classes=None, floor=None):
            self.input, self.classes, self.floor = input, classes, floor

        def start(self, n_classes, temperature):
            return {"a": 1.0}

        def map_for(self, parameters, n_classes):
            return Own(halved_in_place)

    given = LOGITS.copy()
    with pytest.raises(InputError, match=r"^`Own\.apply` must return a new array"):
        Scaling().fit(given, LABELS)
    np.testing.assert_array_equal(given, LOGITS)
