import ast
import importlib
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import nishimori

HEAVY = ("numpy", "sklearn", "scipy", "torch", "jax", "dask", "matplotlib", "pandas", "pyarrow")


def loaded_after(code: str) -> set[str]:
    """Which heavy packages a fresh interpreter has loaded after running ``code``."""
    report = f"{code}\nimport sys; print(*(m for m in {HEAVY!r} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_importing_nishimori_loads_nothing_heavy():
    assert loaded_after("import nishimori") == set()


def test_looking_around_loads_nothing_heavy():
    assert loaded_after("import nishimori; dir(nishimori); nishimori.__version__; nishimori.errors.InputError") == set()


def loaded_by(words: str, place: Path) -> set[str]:
    """Which heavy packages the command ``nishimori`` has loaded at its end."""
    code = f"import sys, os; os.chdir({str(place)!r}); sys.argv = ['nishimori', *{words.split()!r}]"
    return loaded_after(f"{code}\nfrom nishimori.cli import main\nmain()")


@pytest.mark.parametrize("words", ["--help", "-h"])
def test_the_help_loads_nothing_heavy(words, tmp_path):
    assert loaded_by(words, tmp_path) == set()


def test_the_list_of_methods_loads_nothing_heavy(tmp_path):
    assert loaded_by("methods", tmp_path) == set()


def test_the_version_is_that_of_the_kernel_too_and_loads_only_numpy(tmp_path):
    assert loaded_by("--version", tmp_path) == {"numpy"}


@pytest.fixture(scope="module")
def folder_with_scores(tmp_path_factory):
    """A folder with logits of a model, and a calibration."""
    place = tmp_path_factory.mktemp("scores")
    rng = np.random.default_rng(0)
    logits = 3 * rng.normal(size=(500, 4))
    labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    np.savez(place / "val.npz", logits=logits, labels=labels)
    nishimori.ExpectationConsistency().fit(logits, labels).save(place / "ec.json")
    return place


@pytest.mark.parametrize("options", ["", "--method ec", "--method ec --top-n 2", "--method ts", "--json"])
def test_a_fit_of_one_temperature_in_the_shell_loads_neither_scikit_learn_nor_scipy(options, folder_with_scores):
    assert loaded_by(f"fit val.npz -o c.json --force {options}", folder_with_scores) == {"numpy"}


@pytest.mark.parametrize("words", ["apply ec.json val.npz -o p.npz --force", "eval val.npz"])
def test_applying_a_temperature_and_measuring_in_the_shell_load_neither_scikit_learn_nor_scipy(words, folder_with_scores):
    assert loaded_by(words, folder_with_scores) == {"numpy"}


@pytest.mark.parametrize("command", ["eval val.npz", "gate val.npz --bound gap=99%"])
def test_measuring_a_temperature_in_the_shell_loads_no_scikit_learn(command, folder_with_scores):
    assert "sklearn" not in loaded_by(f"{command} --calibration ec.json", folder_with_scores)


def test_wrapping_a_network_does_not_load_scikit_learn():
    pytest.importorskip("torch")
    code = "import nishimori, torch; from nishimori.torch import Calibrated; Calibrated(torch.nn.Linear(2, 2), 2.0); "
    code += "Calibrated(torch.nn.Linear(2, 2), nishimori.maps.Affine(1.0, [0.0, 0.0]))"
    assert loaded_after(code) == {"numpy", "torch"}


def test_temperatures_and_metrics_never_need_scikit_learn():
    code = """
import sys
sys.modules["sklearn"] = None  # any import of it now fails
import numpy as np, nishimori
z = np.random.default_rng(0).normal(size=(500, 4)) * 3
y = (z / 2 + np.random.default_rng(1).gumbel(size=z.shape)).argmax(axis=1)
nishimori.temperatures(z, y), nishimori.temperature_curve(z, y, grid=[1.0]), nishimori.metrics.ece(z, y)
nishimori.metrics.ks(z, y), nishimori.metrics.smooth_ece(z, y), nishimori.metrics.decomposition(z, y)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_public_name_resolves_and_is_listed():
    for name in nishimori.__all__:
        assert getattr(nishimori, name) is not None
    assert dir(nishimori) == sorted(nishimori.__all__)


@pytest.mark.parametrize("name", ["data", "metrics", "plot", "sequences"])
def test_modules_list_what_people_type(name):
    module = getattr(nishimori, name)
    assert dir(module) == sorted(module.__all__)


@pytest.mark.parametrize("name", ["", "results", "calibrators", "multilabel"])
def test_what_a_stub_names_is_what_its_module_has(name):
    module = importlib.import_module(f"nishimori.{name}" if name else "nishimori")
    tree = ast.parse(Path(module.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    places = {alias.asname: node.module for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert sorted(places) == module.__all__ == dir(module)
    for public, place in places.items():
        assert getattr(module, public) is getattr(importlib.import_module(place), public)


def test_the_root_has_at_most_forty_names_besides_modules():
    names = [name for name in nishimori.__all__ if not isinstance(getattr(nishimori, name), types.ModuleType)]
    assert len(names) <= 40, names


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'nishimori' has no attribute 'TemperatureScalling'"):
        _ = nishimori.TemperatureScalling


# ``Rows`` is a protocol and ``Calibrator`` abstract, which nobody makes.
CLASSES = sorted({name for name in nishimori.__all__ if isinstance(getattr(nishimori, name), type)} - {"Rows", "Calibrator"})


@pytest.mark.parametrize("name", CLASSES)
def test_an_unknown_parameter_names_the_class_that_was_typed(name):
    with pytest.raises(
        TypeError, match=rf"^{name}(\.__init__)?\(\) got an unexpected keyword argument 'inpt'$|^{name}\(\) takes no"
    ):
        getattr(nishimori, name)(inpt="logits")


def test_a_class_of_ones_own_has_the_parameters_of_its_base():
    class Mine(nishimori.VectorScaling):
        """It has the parameters of vector scaling."""

    with pytest.raises(TypeError, match=r"VectorScaling\.__init__\(\) got an unexpected keyword argument 'penaltys'$"):
        Mine(penaltys=1)
    assert Mine(penalty=2.0).get_params() == nishimori.VectorScaling(penalty=2.0).get_params()


def test_a_missing_extra_says_how_to_install_it():
    code = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == "matplotlib":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
import nishimori
curve = nishimori.metrics.reliability([[2.0, 0.0], [0.0, 2.0]], [0, 0])
try:
    nishimori.plot.reliability_diagram(curve)
except ModuleNotFoundError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (
        "reliability_diagram needs matplotlib, which is not installed. Run `pip install 'nishimori[plot]'`."
    )
