"""A calibrator written outside the package with a `fit` of its own, which reads batches, works wherever others do."""

import json
from importlib import import_module
from itertools import pairwise

import numpy as np
import own_code
import pytest
import reference
import shell
from optional import nishimori_torch, torch
from sklearn.linear_model import LogisticRegression

import nishimori

CODE = '''
import numpy as np

import nishimori


class Grid(nishimori.Calibrator):
    """The temperature of a grid with the lowest cross-entropy."""

    traits = {"keeps_predictions": True, "streams": True, "from_sketch": False, "error_bars": False}

    def __init__(self, grid=(0.5, 1.0, 1.5, 2.0, 2.5, 3.0), *, input="logits", classes=None, floor=None):
        self.grid, self.input, self.classes, self.floor = grid, input, classes, floor

    def fit(self, X, y=None, sample_weight=None, *, clusters=None):
        data = self.rows_from(X, y, sample_weight, clusters)
        losses, n_samples = np.zeros(len(self.grid)), 0
        for batch in data:
            assert isinstance(batch, nishimori.Batch)
            z = np.asarray(batch.logits, dtype=float)
            for i, T in enumerate(self.grid):
                u = z / T - (z / T).max(axis=1, keepdims=True)
                logs = u - np.log(np.exp(u).sum(axis=1, keepdims=True))
                losses[i] -= np.asarray(batch.weights) @ logs[np.arange(len(z)), np.asarray(batch.labels)]
            n_samples += len(z)
        best = self.grid[int(losses.argmin())]
        return self.learn(X, data, nishimori.maps.Temperature(best), n_samples)
'''

LOGITS, LABELS = reference.drawn(1200, 4)
TEST_LOGITS, TEST_LABELS = reference.drawn(600, 4, seed=1)
WEIGHTS = np.random.default_rng(2).uniform(0.5, 2, 1200)
GRID = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)


@pytest.fixture
def place(tmp_path, monkeypatch):
    data = (LOGITS, LABELS), (TEST_LOGITS, TEST_LABELS)
    with own_code.module("grids", CODE, tmp_path, monkeypatch, *data) as folder:
        yield folder


@pytest.fixture
def grid(place):
    return import_module("grids").Grid


def best(weights=None, grid=GRID):
    return min(grid, key=lambda T: reference.nll(LOGITS, LABELS, T, weights=weights))


def test_it_reads_arrays_tensors_files_and_batches(grid, place):
    fine = tuple(np.linspace(1.5, 2.5, 101))
    expected = best(WEIGHTS, fine)
    assert best(None, fine) != expected
    parts = [
        {"logits": LOGITS[a:b], "labels": LABELS[a:b], "sample_weight": WEIGHTS[a:b], "clusters": np.arange(a, b) // 7}
        for a, b in pairwise((0, 300, 301, 1200))
    ]
    np.save(place / "logits.npy", LOGITS)
    for X, y, weights in (
        (LOGITS, LABELS, WEIGHTS),
        (torch.tensor(LOGITS), torch.tensor(LABELS), WEIGHTS),
        (place / "logits.npy", LABELS, WEIGHTS),
        (nishimori.rows(parts), None, None),
    ):
        fitted = grid(fine).fit(X, y, weights)
        assert (fitted.temperature_, fitted.n_samples_, fitted.n_features_in_) == (expected, 1200, 4)


def test_it_is_compared_reported_resampled_and_in_pytorch(grid):
    T = best()
    found = nishimori.compare(LOGITS, LABELS, TEST_LOGITS, TEST_LABELS, methods=("none", grid(), "ts"))
    assert found["grids:Grid"].scorecard.nll == pytest.approx(reference.nll(TEST_LOGITS, TEST_LABELS, T), rel=1e-9)
    report = nishimori.Report(LOGITS, LABELS, TEST_LOGITS, TEST_LABELS, methods=["grids:Grid"]).to_dict()
    assert report["methods"][-1]["temperature"] == T
    resampled = nishimori.bootstrap(LOGITS, LABELS, method=grid(), n_draws=20)
    assert resampled.temperature == T
    assert set(resampled.temperatures) <= set(GRID)
    loader = [(torch.tensor(LOGITS), torch.tensor(LABELS))]
    assert float(nishimori_torch.calibrate(torch.nn.Identity(), loader, method="grids:Grid").temperature) == T


def test_it_runs_from_the_shell_and_is_listed_where_it_is_registered(grid, place):
    fitted = shell.nishimori("fit val.npz -o c.json --method grids:Grid --json", place=place)
    assert json.loads(fitted.out)["temperature"] == best()
    compared = json.loads(shell.nishimori("compare val.npz test.npz --methods none,grids:Grid --json", place=place).out)
    assert compared["methods"][1]["temperature"] == best()
    nishimori.register("grid", grid)
    method = nishimori.methods()["grid"]
    assert (method.class_name, method.traits.streams, method.parameters) == ("Grid", True, ("grid",))


class NoReturn(nishimori.Calibrator):
    def __init__(self, *, input="logits", classes=None, floor=None):
        self.input, self.classes, self.floor = input, classes, floor

    def fit(self, X, y=None, sample_weight=None):
        data = self.rows_from(X, y, sample_weight)
        self.learn(X, data, nishimori.maps.Temperature(2.0), 1)


class NothingLearned(NoReturn):
    def fit(self, X, y=None, sample_weight=None):
        return self


class Two(nishimori.Calibrator):
    def fit(self, X, y=None, sample_weight=None):
        data = self.rows_from(X, y, sample_weight)
        return self.learn(X, data, nishimori.maps.Temperature(2.0), 1)


class NoCommon(Two):
    def __init__(self, power=1.0):
        self.power = power


USES = {
    "compare": lambda given: nishimori.compare(LOGITS, LABELS, methods=("none", given)),
    "bootstrap": lambda given: nishimori.bootstrap(LOGITS, LABELS, method=given, n_draws=20),
    "classifier": lambda given: nishimori.CalibratedClassifier(LogisticRegression(), calibrator=given).fit(LOGITS, LABELS),
    "torch": lambda given: nishimori_torch.calibrate(
        torch.nn.Identity(), [(torch.from_numpy(LOGITS), torch.from_numpy(LABELS))], method=given
    ),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (NoReturn, "`NoReturn.fit` must end with `return self.learn(...)`, got a result of the type NoneType."),
        (NothingLearned, "`NothingLearned.fit` must end with `return self.learn(...)`, got a calibrator without a map."),
        (
            NoCommon,
            "`NoCommon.__init__` must take `input`, `classes` and `floor` as keywords and set attributes of these names, "
            "got no input, classes.",
        ),
    ],
)
def test_what_its_author_forgot_is_said(use, wrong, message):
    if use == "compare" and wrong is not NoCommon:  # whose table says why a method is missing
        assert message in " ".join(str(USES[use](wrong())).split())
        return
    with pytest.raises(nishimori.errors.InputError) as caught:
        USES[use](wrong())
    assert str(caught.value) == message


def test_a_constructor_without_common_parameters_is_named_by_fit_itself():
    with pytest.raises(nishimori.errors.InputError, match=r"^`NoCommon\.__init__` must take `input`"):
        NoCommon().fit(LOGITS, LABELS)


@pytest.mark.parametrize("use", USES)
def test_a_calibrator_without_parameters_of_its_own_needs_no_constructor(use):
    USES[use](Two())
    p = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
    fitted = Two(input="probabilities", classes=[f"c{i}" for i in range(LOGITS.shape[1])], floor=0.01)
    assert (fitted.fit(p, np.array(fitted.classes)[LABELS]).floor_, repr(Two(floor=0.5))) == (0.01, "Two(floor=0.5)")


@pytest.mark.parametrize("use", USES)
def test_a_class_in_place_of_a_calibrator_is_refused_with_what_to_pass(use):
    with pytest.raises(nishimori.errors.InputError, match=r"got a class\. Pass `TemperatureScaling\(\)`\.$"):
        USES[use](nishimori.TemperatureScaling)
