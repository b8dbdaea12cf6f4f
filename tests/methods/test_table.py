import json
import subprocess
import sys
from importlib.metadata import EntryPoint

import numpy as np
import pytest
import reference

import nishimori
from nishimori import ExpectationConsistency, Observable, TemperatureScaling
from nishimori._methods import table
from nishimori.calibrators import Matched
from nishimori.errors import InputError

LOGITS, LABELS = reference.drawn(400, 5)


class Power(Observable):
    """The logit's odd power: grows with the logit."""

    def __init__(self, power=1):
        self.power = power

    def values(self, logits):
        return np.sign(logits) * np.abs(logits) ** self.power


class Doubled(ExpectationConsistency):
    """A class of calibrators from outside."""


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    monkeypatch.setattr(table, "_registered", dict(table._registered))


def test_the_built_in_methods_have_names():
    assert list(nishimori.methods())[:2] == ["ec", "ts"]
    assert type(nishimori.calibrator("ec", top_n=3, classes=list("abcde"))) is ExpectationConsistency
    assert nishimori.calibrator("ec", top_n=3).top_n == 3
    assert type(nishimori.calibrator("ts", input="probabilities")) is TemperatureScaling
    assert nishimori.calibrator("ts", input="probabilities").input == "probabilities"
    assert (ExpectationConsistency().method, TemperatureScaling().method) == ("ec", "ts")
    assert nishimori.from_temperature(2.0).method == "fixed"
    assert "fixed" not in nishimori.methods()  # nothing is chosen from data


def test_a_registered_class_of_observables_takes_its_parameters_and_keeps_them_on_disk(tmp_path):
    nishimori.register("power", Power)
    fitted = nishimori.calibrator("power", power=3, input="logits").fit(LOGITS, LABELS)
    assert fitted.observable == Power(3) != Power(1)
    fitted.save(tmp_path / "c.json")
    loaded = nishimori.load(tmp_path / "c.json")
    assert (type(loaded), loaded.method, loaded.observable) == (Matched, "power", Power(3))
    assert loaded.temperature_ == fitted.temperature_


class Counted(Observable):
    """Its attributes are not its parameters, and one of those is an array."""

    def __init__(self, weights, names=()):
        self.weights = np.asarray(weights, dtype=float)
        self.names = list(names)
        self.calls = 0

    def values(self, logits):
        self.calls += 1
        return logits * self.weights


class Renamed(Observable):
    """A parameter that no attribute is called after."""

    def __init__(self, exponent=1):
        self._exponent = exponent

    def values(self, logits):
        return np.sign(logits) * np.abs(logits) ** self._exponent


def test_parameters_that_json_can_hold_come_back_whatever_the_attributes_are(tmp_path):
    nishimori.register("counted", Counted)
    fitted = nishimori.calibrator("counted", weights=np.ones(5), names=["a"]).fit(LOGITS, LABELS)
    fitted.save(tmp_path / "c.json")
    loaded = nishimori.load(tmp_path / "c.json")
    assert (type(loaded), loaded.observable.names, loaded.observable.calls) == (Matched, ["a"], 0)
    np.testing.assert_array_equal(loaded.observable.weights, np.ones(5))
    assert loaded.temperature_ == fitted.temperature_


def test_parameters_that_cannot_be_found_again_are_not_made_up(tmp_path):
    nishimori.register("renamed", Renamed)
    fitted = nishimori.calibrator("renamed", exponent=3).fit(LOGITS, LABELS)
    message = r"^`Renamed` must keep each parameter in an attribute of the same name to be saved, got none for exponent\.$"
    with pytest.raises(InputError, match=message):
        fitted.save(tmp_path / "c.json")


def test_parameters_that_json_cannot_hold_are_refused_before_anything_is_written(tmp_path):
    fitted = Matched(Power(1)).fit(LOGITS, LABELS)
    fitted.observable.power = {1}
    with pytest.raises(InputError, match="must be numbers, text or lists of them to be saved as JSON"):
        fitted.save(tmp_path / "c.json")
    assert not list(tmp_path.iterdir())


def test_a_map_whose_method_is_unknown_here_keeps_the_parameters_of_its_method(tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "_registered", {**table._registered, "power": Power})
        nishimori.calibrator("power", power=3).fit(LOGITS, LABELS).save(tmp_path / "a.json")
    elsewhere = nishimori.load(tmp_path / "a.json")
    assert type(elsewhere) is nishimori.calibrators.FixedMap
    elsewhere.save(tmp_path / "b.json")
    nishimori.register("power", Power)
    assert nishimori.load(tmp_path / "b.json").observable == Power(3)


@pytest.mark.parametrize("name", [*table.BUILT_IN, "unknown"])
def test_a_file_that_is_loaded_and_saved_again_is_the_same_file(name, tmp_path):
    fitted = nishimori.calibrator("bias" if name == "unknown" else name).fit(*reference.drawn(400, 2))
    fitted.save(tmp_path / "a.json")
    content = json.loads((tmp_path / "a.json").read_text())
    if name == "unknown":  # whose estimates nothing here understands
        content["provenance"]["method"] = name
        (tmp_path / "a.json").write_text(json.dumps(content))
    nishimori.load(tmp_path / "a.json").save(tmp_path / "b.json")
    assert json.loads((tmp_path / "b.json").read_text()) == content


@pytest.mark.parametrize("target", ["math:pi", "nowhere:Name", f"{__name__}:Fails"])
def test_a_method_that_cannot_be_used_leaves_the_map(target, tmp_path, monkeypatch):
    fitted = Matched(Power(1)).fit(LOGITS, LABELS)
    monkeypatch.setattr(table, "_registered", {**table._registered, "plugged": Power})
    fitted.save(tmp_path / "c.json")
    monkeypatch.setattr(table, "_registered", {"ec": ExpectationConsistency})
    points = [EntryPoint(name="plugged", value=target, group="nishimori.methods")]
    monkeypatch.setattr(table, "_entry_points", lambda: points)
    with pytest.warns(UserWarning, match="The method 'plugged' of .* cannot be used here"):
        loaded = nishimori.load(tmp_path / "c.json")
    assert type(loaded) is nishimori.calibrators.FixedMap
    assert (loaded.temperature_, loaded.method) == (fitted.temperature_, "plugged")


class Fails(Observable):
    def __init__(self, power):
        raise ValueError("power!")

    def values(self, logits):
        return logits


def test_a_registered_class_of_calibrators_is_saved_and_loaded(tmp_path):
    nishimori.register("doubled", Doubled)
    fitted = nishimori.calibrator("doubled", top_n=2).fit(LOGITS, LABELS)
    assert fitted.method == "doubled"
    fitted.save(tmp_path / "c.json")
    loaded = nishimori.load(tmp_path / "c.json")
    assert (type(loaded), loaded.top_n, loaded.temperature_) == (Doubled, 2, fitted.temperature_)


def test_registering_the_same_twice_is_fine_and_something_else_is_not():
    nishimori.register("power", Power(1))
    nishimori.register("power", Power(1))
    with pytest.raises(InputError, match="`name` must be new, got 'power'"):
        nishimori.register("power", Power(3))
    with pytest.raises(InputError, match="`name` must be new, got 'ec'"):
        nishimori.register("ec", Power(3))


@pytest.mark.parametrize("name", ["", " ec", "a:b", None, "fixed"])
def test_what_cannot_be_a_name_is_refused(name):
    with pytest.raises(InputError, match="`name` must be a word without a colon"):
        nishimori.register(name, Power())


@pytest.mark.parametrize("target", [3, "ec", dict, len])
def test_what_is_no_method_is_refused(target):
    with pytest.raises(InputError, match="`target` must be an observable, a metric, or a subclass of nishimori"):
        nishimori.register("other", target)


WRONG = {
    "unknown": (("spline", {}), r"^The method must be one of ec, ts, .*or package\.module:Name, got 'spline'\.$"),
    "no name": ((3, {}), "^The method must be one of ec, ts"),
    "a list": ((["ec"], {}), "^The method must be one of ec, ts"),
    "fixed": (("fixed", {}), "^The method must be one of ec, ts"),
    "relative": ((".x:y", {}), r"^`\.x:y` must be importable as package\.module:Name, got TypeError"),
    "misspelled": (("EC", {}), r"got 'EC'\. Did you mean 'ec'\?$"),
    "nearly as scikit-learn calls it": (("Sigmoid", {}), r"got 'Sigmoid'\. Did you mean 'platt'\?$"),
    "abstract": (
        ("nishimori:Observable", {}),
        "^`nishimori:Observable` must have all methods .* Observable without values",
    ),
    "no module": (("nowhere:Name", {}), r"^`nowhere:Name` must be importable as package\.module:Name, got ModuleNotFoundError"),
    "no attribute": (("math:nothing", {}), r"^`math:nothing` must be importable as package\.module:Name, got AttributeError"),
    "no method": (("math:pi", {}), "^`math:pi` must be an observable"),
    "parameters": (
        ("ts", {"top_n": 2}),
        "^The method 'ts' takes the parameters smooth_labels, input, classes, floor, got top_n",
    ),
}


@pytest.mark.parametrize(("asked", "message"), WRONG.values(), ids=WRONG)
def test_what_names_no_method_is_refused(asked, message):
    name, params = asked
    with pytest.raises(InputError, match=message):
        nishimori.calibrator(name, **params)


class Needs(Observable):
    def __init__(self, power):
        self.power = power

    def values(self, logits):
        return logits


def test_a_parameter_that_is_missing_is_named():
    nishimori.register("needs", Needs)
    with pytest.raises(
        InputError, match=r"The method 'needs' takes the parameters power, input, classes, floor, got none .*'power'"
    ):
        nishimori.calibrator("needs")


class Typo(Observable):
    """Has no `values`."""

    def value(self, logits):
        return logits


@pytest.mark.parametrize(
    ("target", "missing"), [(Typo, "Typo without values"), (nishimori.Calibrator, "Calibrator without fit")]
)
def test_a_class_without_its_method_is_refused_with_the_name_of_that(target, missing):
    with pytest.raises(InputError, match=f"`target` must have all methods that it needs, got {missing}"):
        nishimori.register("other", target)


def test_a_package_that_cannot_be_imported_is_named(monkeypatch):
    points = [EntryPoint(name="plugged", value="nowhere:Name", group="nishimori.methods")]
    monkeypatch.setattr(table, "_entry_points", lambda: points)
    with pytest.raises(InputError, match="The method 'plugged' cannot be imported from nowhere:Name: ModuleNotFoundError"):
        nishimori.calibrator("plugged")


def test_an_observable_has_no_parameters_besides_those_of_its_class():
    nishimori.register("cube", Power(3))
    assert nishimori.calibrator("cube").observable == Power(3)
    with pytest.raises(InputError, match="The method 'cube' takes the parameters input, classes, floor, got power"):
        nishimori.calibrator("cube", power=1)


def test_a_calibrator_knows_its_name_before_anything_asks_for_methods():
    program = (
        "import nishimori, sys; print(nishimori.ExpectationConsistency().method_name, nishimori.VectorScaling().method_name);"
        "print('nishimori._calibrators.methods' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["ec", "vector", "False"]


def test_the_names_of_methods_need_neither_scikit_learn_nor_scipy():
    program = (
        "import sys; from nishimori._methods import record, table; print(len(table.names()));"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'sklearn', 'scipy', 'typer', 'torch'}))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[0] == str(len(table.names()))
    assert ended.stdout.splitlines()[1] == "[]"
