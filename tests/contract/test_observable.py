"""An observable written outside the package, by following docs/extending.md to the letter, works everywhere."""

import json
import pickle
import subprocess
import sys
from dataclasses import dataclass
from importlib import import_module

import numpy as np
import own_code
import pytest
import reference
import shell
from optional import nishimori_torch, torch
from scipy.optimize import brentq
from sklearn.base import clone

import nishimori
from nishimori import Observable
from nishimori._methods import table
from nishimori._support.optional import entry_points
from nishimori.calibrators import Matched
from nishimori.errors import InputError, NoTemperatureError

CODE = own_code.code_under("An observable of your own")
LOGITS, LABELS = reference.drawn(1500, 6)
TEST_LOGITS, TEST_LABELS = reference.drawn(800, 6, seed=1)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a module ``ranks`` that holds the code of the page, and files of logits."""
    data = (LOGITS, LABELS), (TEST_LOGITS, TEST_LABELS)
    with own_code.module("ranks", CODE, tmp_path, monkeypatch, *data) as folder:
        yield folder


@pytest.fixture
def rank(place):
    return import_module("ranks").Rank


def rank_temperature(logits, labels):
    """From the definition: the mean rank of the true class is the score that the model expects."""
    ranks = (-logits).argsort(axis=1).argsort(axis=1)
    true = ranks[np.arange(len(labels)), labels].mean()
    gap = lambda log_t: (reference.softmax(logits, np.exp(log_t)) * ranks).sum(axis=1).mean() - true  # noqa: E731
    return float(np.exp(brentq(gap, -5, 5, xtol=1e-14)))


def test_it_fits_predicts_and_is_evaluated(rank):
    fitted = Matched(rank()).fit(LOGITS, LABELS)
    T = rank_temperature(LOGITS, LABELS)
    assert fitted.temperature_ == pytest.approx(T, rel=1e-8)
    assert pytest.approx(reference.ec_temperature(LOGITS, LABELS), rel=1e-3) != T
    np.testing.assert_allclose(fitted.predict_proba(TEST_LOGITS), reference.softmax(TEST_LOGITS, T), rtol=1e-7)
    card = nishimori.evaluate(TEST_LOGITS, TEST_LABELS, calibrator=fitted)
    assert card.nll == pytest.approx(reference.nll(TEST_LOGITS, TEST_LABELS, T), rel=1e-7)
    assert fitted.method == "ranks:Rank"


def test_it_is_cloned_and_pickled(rank):
    fitted = Matched(rank()).fit(LOGITS, LABELS)
    assert clone(fitted).fit(LOGITS, LABELS).temperature_ == fitted.temperature_
    assert pickle.loads(pickle.dumps(fitted)).temperature_ == fitted.temperature_
    assert pickle.loads(pickle.dumps(rank())) == rank()
    assert hash(rank()) == hash(rank())
    assert repr(Matched(rank())) == "Matched(observable=Rank())"


def test_it_is_saved_and_loads_as_itself_where_it_is_registered_and_as_a_map_elsewhere(rank, place):
    nishimori.register("rank", rank())
    fitted = nishimori.calibrator("rank").fit(LOGITS, LABELS)
    fitted.save(place / "c.json")
    loaded = nishimori.load(place / "c.json")
    assert (type(loaded), loaded.method, loaded.observable) == (Matched, "rank", rank())
    assert loaded.temperature_ == fitted.temperature_
    code = "import nishimori, sys; c = nishimori.load(sys.argv[1]); print(type(c).__name__, c.method, c.temperature_)"
    there = subprocess.run([sys.executable, "-c", code, "c.json"], cwd=place, capture_output=True, text=True, check=True)
    assert there.stdout.split() == ["FixedMap", "rank", repr(fitted.temperature_)]


def test_it_runs_from_the_shell(rank, place):
    T = rank_temperature(LOGITS, LABELS)
    fitted = shell.nishimori("fit val.npz -o c.json --method ranks:Rank --json", place=place)
    assert (fitted.code, fitted.err) == (0, "Wrote c.json\n")
    assert json.loads(fitted.out)["temperature"] == pytest.approx(T, rel=1e-8)
    assert json.loads(fitted.out)["method"] == "ranks:Rank"
    measured = json.loads(shell.nishimori("eval test.npz --calibration c.json --json", place=place).out)
    assert measured["after"]["nll"] == pytest.approx(reference.nll(TEST_LOGITS, TEST_LABELS, T), rel=1e-7)
    assert shell.nishimori("apply c.json test.npz -o p.npz", place=place).code == 0
    np.testing.assert_allclose(np.load(place / "p.npz")["probabilities"], reference.softmax(TEST_LOGITS, T), rtol=1e-7)


def test_the_shell_finds_it_beside_the_data_in_a_process_of_its_own(place):
    words = [sys.executable, "-P", "-m", "nishimori", "fit", "val.npz", "-o", "c.json", "--method", "ranks:Rank"]
    done = subprocess.run(words, cwd=place, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout[:4]) == (0, "T = "), done.stderr


@pytest.mark.parametrize("name", ["ranks:Rank", "rank"])
def test_it_calibrates_a_network(rank, name):
    nishimori.register("rank", rank)
    loader = [(torch.tensor(LOGITS), torch.tensor(LABELS))]
    calibrated = nishimori_torch.calibrate(torch.nn.Identity(), loader, method=name)
    assert float(calibrated.temperature) == pytest.approx(rank_temperature(LOGITS, LABELS), rel=1e-6)
    assert calibrated.method == "rank"  # its registered name, however it was asked for
    assert calibrated.temperatures.ec == pytest.approx(reference.ec_temperature(LOGITS, LABELS), rel=1e-8)


def test_an_installed_package_adds_it_to_every_process(place, monkeypatch):
    info = place / "ranks-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ranks\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[nishimori.methods]\nby-rank = ranks:Rank\n")
    monkeypatch.setattr(table, "entry_points", entry_points.__wrapped__)  # this process has looked before
    assert "by-rank" in nishimori.methods()
    assert "ranks" not in sys.modules  # only its name was needed
    assert Matched(import_module("ranks").Rank()).method == "by-rank"
    found = nishimori.calibrator("by-rank").fit(LOGITS, LABELS)
    assert found.method == "by-rank"
    assert found.temperature_ == pytest.approx(rank_temperature(LOGITS, LABELS), rel=1e-8)
    nishimori.calibrator("by-rank").fit(LOGITS, LABELS).save(place / "c.json")
    assert "by-rank" in shell.nishimori("fit val.npz -o d.json --method nothing", place=place).err.replace("│", " ")


class Second(Observable):
    """Whether the class is the second largest: its mean rises and falls again as T falls."""

    def values(self, logits):
        return np.argsort(np.argsort(-logits, axis=1), axis=1) == 1


class Downwards(Observable):
    def values(self, logits):
        return -logits


class Constant(Observable):
    def values(self, logits):
        return np.ones_like(logits)


class Top(Observable):
    def values(self, logits):
        return logits == logits.max(axis=1, keepdims=True)


REFUSED = {
    "not monotone": (
        Second(),
        InputError,
        r"^`Second` must have a mean .* got one that falls around T = .* Choose one whose mean",
    ),
    "falls": (Downwards(), InputError, r"^`Downwards` must have a mean .* Return the negative of its values\.$"),
    "flat": (Constant(), NoTemperatureError, r"^No temperature fits: T does not change the mean of Constant\. Check the obs"),
}


@pytest.mark.parametrize(("observable", "kind", "message"), REFUSED.values(), ids=REFUSED)
def test_an_observable_that_cannot_be_matched_is_refused_with_the_reason(observable, kind, message):
    with pytest.raises(kind, match=message):
        Matched(observable).fit(LOGITS, LABELS)


def test_an_observable_without_a_root_is_refused_with_the_end_that_fails():
    with pytest.raises(NoTemperatureError, match="mean of Top under the model stays below its mean under the labels") as error:
        Matched(Top()).fit(LOGITS, LOGITS.argmax(axis=1))
    assert error.value.end == "cold"
    with pytest.raises(NoTemperatureError, match="mean of Top under the model stays above its mean under the labels") as error:
        Matched(Top()).fit(LOGITS, LOGITS.argmin(axis=1))
    assert error.value.end == "hot"


WRONG = {
    "shape": (
        lambda z: z[:, 0],
        r"^`Own.values` must return an array of the shape of `logits`, \(.*, 6\), got \(.*,\)\.$",
    ),
    "type": (lambda _: 3, r"must return an array of the shape of `logits`, .* got \(\)\.$"),
    "NaN": (
        lambda z: np.where(z > 9, np.nan, z),
        r"^`Own.values` must be finite wherever the logit is, got NaN or infinity\.$",
    ),
}


@pytest.mark.parametrize(("values", "message"), WRONG.values(), ids=WRONG)
def test_values_that_are_no_table_are_refused(values, message):
    class Own(Observable):
        def values(self, logits):
            return values(logits)

    with pytest.raises(InputError, match=message):
        Matched(Own()).fit(LOGITS, LABELS)


class Weighted(Observable):
    """An observable with an array among its parameters, and a number of calls."""

    def __init__(self, weights):
        self.weights = np.asarray(weights)
        self.calls = 0

    def values(self, logits):
        self.calls += 1
        return logits * self.weights


def test_an_error_inside_values_says_whose_it_is():
    class Boom(Observable):
        def values(self, logits):
            return logits[:, 99]

    with pytest.raises(InputError, match=r"^`Boom.values` raised IndexError: index 99 is out of bounds") as error:
        Matched(Boom()).fit(LOGITS, LABELS)
    assert isinstance(error.value.__cause__, IndexError)


def test_the_logits_that_values_is_given_cannot_be_changed():
    class Clipped(Observable):
        def values(self, logits):
            logits[logits < 0] = 0
            return logits

    with pytest.raises(ValueError, match="read-only"):
        Matched(Clipped()).fit(LOGITS, LABELS)


STRANGE = {
    "complex": (lambda z: z + 1j, r"^`Own.values` must be real, got complex128"),
    "text": (lambda z: z.astype(str), r"^`Own.values` must hold numbers, got text"),
    "hidden": (lambda z: np.ma.masked_less(z, 0), r"^`Own.values` must not hide entries"),
    "ragged": (lambda z: [[1.0], [1.0, 2.0]], r"^`Own.values` must be a rectangular array"),
    "nothing": (lambda z: None, r"^`Own.values` must be an array of scores, got None"),
}


@pytest.mark.parametrize(("values", "message"), STRANGE.values(), ids=STRANGE)
def test_values_are_checked_like_any_other_array(values, message):
    own = type("Own", (Observable,), {"values": lambda self, logits: values(logits)})
    with pytest.raises(InputError, match=message):
        Matched(own()).fit(LOGITS, LABELS)


def test_a_masked_true_class_has_the_value_that_the_observable_gives_it():
    class Top(Observable):
        def __init__(self, at_mask):
            self.at_mask = at_mask

        def values(self, logits):
            return np.where(np.isfinite(logits), logits == logits.max(axis=1, keepdims=True), self.at_mask)

    logits = LOGITS.copy()
    wrong = np.flatnonzero(logits.argmax(axis=1) != LABELS)[:20]
    logits[wrong, LABELS[wrong]] = -np.inf
    # A masked class counts as a miss, as in expectation consistency; elsewhere what is returned at masks does not matter.
    assert Matched(Top(0.0)).fit(logits, LABELS).temperature_ == pytest.approx(
        reference.ec_temperature(logits, LABELS), rel=1e-8
    )
    with pytest.raises(InputError, match="must be finite at the true class of each row"):
        Matched(Top(-np.inf)).fit(logits, LABELS)
    logits[wrong, LABELS[wrong]] = LOGITS[wrong, LABELS[wrong]]
    logits[wrong, logits[wrong].argmin(axis=1)] = -np.inf
    kept = logits[np.arange(len(LABELS)), LABELS] > -np.inf
    found = Matched(Top(-np.inf)).fit(logits[kept], LABELS[kept]).temperature_
    assert found == pytest.approx(reference.ec_temperature(logits[kept], LABELS[kept]), rel=1e-8)


def test_a_constant_in_one_row_hardly_matters():
    class Logit(Observable):
        def values(self, logits):
            return logits

    shifted = LOGITS.copy()
    shifted[0] += 2.0**30
    expected = reference.ts_temperature(LOGITS, LABELS)
    assert Matched(Logit()).fit(shifted, LABELS).temperature_ == pytest.approx(expected, rel=1e-7)


@dataclass
class Written(Observable):
    """As a plain dataclass, which has no hash."""

    power: int = 1

    def values(self, logits):
        return np.sign(logits) * np.abs(logits) ** self.power


class Slotted(Observable):
    __slots__ = ("power",)

    def __init__(self, power):
        self.power = power

    def values(self, logits):
        return np.sign(logits) * np.abs(logits) ** self.power


@pytest.mark.parametrize("kind", [Written, Slotted])
def test_an_observable_may_be_a_plain_dataclass_or_have_slots(kind):
    assert kind(1) == kind(1) != kind(3)
    found = Matched(kind(1)).fit(LOGITS, LABELS).temperature_
    assert found == pytest.approx(reference.ts_temperature(LOGITS, LABELS), rel=1e-8)
    loader = [(torch.tensor(LOGITS), torch.tensor(LABELS))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "_registered", {**table._registered, "own": kind(1)})
        assert float(nishimori_torch.calibrate(torch.nn.Identity(), loader, method="own").temperature) == pytest.approx(
            found, rel=1e-6
        )


def test_parameters_may_be_arrays_and_values_are_computed_once_per_block_and_reading():
    observable = Weighted(np.ones(6))
    fitted = Matched(observable).fit(LOGITS[:200], LABELS[:200])
    assert fitted.temperature_ == pytest.approx(reference.ts_temperature(LOGITS[:200], LABELS[:200]), rel=1e-8)
    assert observable.calls == fitted.n_passes_  # one of them both answers the search and judges the observable
    assert Weighted(np.ones(6)) == Weighted(np.ones(6)) != Weighted(np.zeros(6))


@pytest.mark.parametrize("wrong", [Top, "ec", None])
def test_what_is_no_observable_is_refused(wrong):
    with pytest.raises(InputError, match=r"`observable` must be an instance of a subclass of nishimori\.Observable, got"):
        Matched(wrong).fit(LOGITS, LABELS)
